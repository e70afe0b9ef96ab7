"""Random small worlds for the laws: everything that a task may be, drawn from a few switches.

Sizes and switches are drawn by hypothesis, so that a failing world shrinks; the numbers inside come
from a generator with a drawn seed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from inverseq import planning
from inverseq.demonstrations import Demonstrations
from inverseq.gauges import Reference, Uniform, Zero
from inverseq.task import Constraint, Task

DISCOUNTS = st.sampled_from([0.0, 0.3, 0.5, 0.9, 0.95, 0.99, 0.999])
TEMPERATURES = st.sampled_from([0.3, 0.5, 1.0, 1.7, 3.0])
STATES, ACTIONS = st.integers(2, 8), st.integers(1, 4)
EITHER, NEVER = st.booleans(), st.just(False)


@dataclass(frozen=True)
class World:
    """A task with its model, and the generator that made it, for whatever a law needs besides."""

    task: Task
    rng: Any

    @property
    def available(self):
        return self.task.available_table()

    @property
    def decides(self):
        """The states in which something is decided."""
        ended = self.task.terminal
        return np.ones(self.task.n_states, bool) if ended is None else ~ended

    @property
    def pairs(self):
        """What can be done where something is decided."""
        return self.available & self.decides[:, None]

    @property
    def model(self):
        """The dense model, without what leads to an end or is no choice: rows sum to at most 1."""
        p = self.task.transitions.dense()
        p[~self.pairs] = 0
        p[:, :, ~self.decides] = 0
        return p

    def policy(self, degenerate=False):
        """A random policy: ordinary, or with probabilities down to 1e-12."""
        shape = self.available.shape
        weight = 10 ** self.rng.uniform(-12, 0, shape) if degenerate else self.rng.random(shape)
        weight = np.where(self.available, weight if degenerate else weight + 0.05, 0.0)
        return weight / weight.sum(axis=1, keepdims=True)

    def reward(self):
        """A random reward of the state."""
        return self.rng.normal(size=self.task.n_states)

    def reward_of_pairs(self):
        """A random reward of state and action."""
        return self.rng.normal(size=self.available.shape)

    def constraints(self, n=2):
        """Random constraints; whether they leave viable actions everywhere is another question."""
        costs = self.rng.random((n, *self.available.shape))
        return [Constraint(cost, 0.75, name=f"limit {i}") for i, cost in enumerate(costs)]

    def gauges(self):
        """Every exact gauge: a random reference, and an anchor where one is always available."""
        mu, g = self.policy(), self.rng.normal(size=self.task.n_states)
        anchors = np.flatnonzero(self.available.all(axis=0))
        anchored = [Reference(int(anchors[0]), value=0.7)] if anchors.size else []
        return [Uniform(), Reference(mu, g), *anchored, Zero()]

    def backups(self):
        """The backups that are defined here."""
        return ["max", "soft", *(["max_of_mean"] if self.task.available is None else [])]

    def demonstrations(self, steps=200, policy=None):
        """Independent steps from random states that are not terminal, with weightless rows."""
        rng, n = self.rng, self.task.n_states
        policy = self.policy() if policy is None else policy
        states = rng.choice(np.flatnonzero(self.decides), steps)
        actions = np.array([rng.choice(self.task.n_actions, p=policy[s]) for s in states])
        rows = self.task.transitions.dense()[states, actions]
        whole = np.column_stack([rows, np.clip(1 - rows.sum(axis=1), 0, 1)])
        arrived = np.array([rng.choice(n + 1, p=row / row.sum()) for row in whole])
        ended = (arrived == n) | ~np.append(self.decides, True)[arrived]
        return Demonstrations(
            states, actions, np.where(arrived == n, 0, arrived), terminated=ended,
            episodes=np.arange(steps),
        )  # fmt: skip


@st.composite
def worlds(
    draw,
    discounts=DISCOUNTS,
    states=STATES,
    actions=ACTIONS,
    unavailable=EITHER,
    terminal=EITHER,
    leaking=EITHER,
    acyclic=NEVER,
):
    """A random world. ``leaking``: any step may end the episode; ``acyclic``: states only go up."""
    n_states, n_actions, discount = draw(states), draw(actions), draw(discounts)
    acyclic = draw(acyclic)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    model = np.zeros((n_states, n_actions, n_states + 1))
    for s in range(n_states):
        # Few successors and coarse weights: coincidences and exact zeros are what break code.
        onward = np.arange(s + 1, n_states) if acyclic else np.arange(n_states)
        for a in range(n_actions):
            n = min(int(rng.integers(1, 4)), len(onward))
            model[s, a, rng.choice(onward, n, replace=False)] = rng.integers(1, 5, n)
    model[model.sum(axis=2) == 0, -1] = 1
    model /= model.sum(axis=2, keepdims=True)
    if draw(leaking):
        # Without a discount every step must be able to end, or going round for ever may pay.
        which = [(n_states, 1), (n_states, n_actions)][rng.integers(2)]
        ends = rng.choice([0.5, 0.25, 0.0][: 2 + (discount < 1)], which)
        model *= 1 - ends[:, :, None]
        model[:, :, -1] += ends

    ended = None
    if draw(terminal):
        ended = rng.random(n_states) < 0.3
        ended[rng.integers(n_states - 1)] = False
        ended[-1] |= acyclic
    available = None
    if draw(unavailable):
        available = rng.random((n_states, n_actions)) < 0.7
        available[np.arange(n_states), rng.integers(n_actions, size=n_states)] = True
        if ended is not None:
            available[ended] = True
        # What cannot be done has no meaning, and nobody may read it.
        model[~available] = 0.5
    task = Task(
        n_actions,
        discount,
        transitions=model,
        terminal=ended,
        available=available,
        temperature=draw(TEMPERATURES),
    )
    return World(task, rng)


def boltzmann(world, reward, soft=False):
    """The expert of a reward, and its plan."""
    plan = planning.solve(reward, world.task.unconstrained(), soft=soft)
    return plan.policy, plan
