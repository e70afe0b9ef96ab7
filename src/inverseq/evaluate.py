"""Every measure, once.

Two questions are kept apart. *Does it act alike?* (log-likelihood, divergence, value difference):
here an exact gauge is behavioural cloning by identity, whatever its reward. *Is the reward right?*
(correlation, and above all the return when it is carried to other dynamics): here gauges differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from inverseq import planning
from inverseq._checks import (
    as_array,
    as_numbers,
    as_whole,
    check_kind,
    check_range,
    check_rows,
    finite,
    shaped,
)
from inverseq.demonstrations import Additive, Demonstrations
from inverseq.errors import InvalidInput
from inverseq.task import Task


@dataclass(frozen=True)
class ValueDifference:
    """How much true value a learned policy gives away, over states, three ways."""

    evd: float
    """The paper's text: the mean difference."""
    evd_squared: float
    """The authors' script: the mean squared difference."""
    evd_absolute: float
    """The mean absolute difference."""


@dataclass(frozen=True)
class Likelihood:
    """How well a policy foretells actions; per step, causal: from the present state alone."""

    nats: float
    """Mean log-likelihood of a step."""
    accuracy: float
    """How often the most probable action was the one; of several that tie, each is one guess in as
    many."""
    steps: int
    """How many steps."""
    nats_choice: float
    """Mean log-likelihood of a step with more than one available action; NaN without any."""
    accuracy_choice: float
    """The accuracy there."""
    steps_choice: int
    """How many those were."""

    @property
    def bits(self) -> float:
        """Mean log-likelihood of a step in bits."""
        return self.nats / float(np.log(2))

    @property
    def bits_choice(self) -> float:
        """The same where there was a choice."""
        return self.nats_choice / float(np.log(2))


@dataclass(frozen=True)
class Violations:
    """What was done against the constraints, and what only happened."""

    chosen: int
    """Steps whose action was forbidden."""
    blown: int
    """Steps with a safe action that entered a forbidden place by chance."""
    steps: int
    """All steps."""


def value_difference(policy: Any, reward: Any, task: Task) -> ValueDifference:
    """The expected value difference of a policy under the true reward.

    The Boltzmann policy of the true reward, minus the policy in question, both valued under the
    true reward. Terminal states are left out, and those in which the policy has no action.

    >>> import inverseq as iq
    >>> world = iq.worlds.objectworld(size=5, n_objects=4, seed=0)
    >>> abs(value_difference(world.expert(), world.reward, world.task).evd) < 1e-9
    True
    """
    check_kind(task, Task, "task")
    task = task.unconstrained()
    achieved = planning.evaluate_policy(policy, reward, task)
    expert = planning.solve(reward, task).policy
    counts = np.isfinite(achieved)
    if task.terminal is not None:
        counts &= ~task.terminal
    if not counts.any():
        raise InvalidInput("`policy` must have an action in some state that is not terminal.")
    difference = (planning.evaluate_policy(expert, reward, task) - achieved)[counts]
    return ValueDifference(
        float(difference.mean()), float((difference**2).mean()), float(np.abs(difference).mean())
    )


def expected_return(policy: Any, reward: Any, task: Task) -> float:
    """The discounted return of a policy from the task's initial distribution.

    >>> import numpy as np, inverseq as iq
    >>> task = iq.Task(1, 0.5, transitions=np.ones((1, 1, 1)))
    >>> expected_return(np.ones((1, 1)), np.array([3.0]), task)
    6.0
    """
    values, start = planning.evaluate_policy(policy, reward, task), task.start()
    return float(start[start > 0] @ values[start > 0])


def transfer_return(recovered: Any, reward: Any, task: Task) -> float:
    """What a recovered reward is worth elsewhere: re-plan for it on a task, act greedily, and count
    the true reward.

    >>> import numpy as np, inverseq as iq
    >>> stay, move = np.eye(2), np.eye(2)[::-1]
    >>> task = iq.Task(2, 0.5, transitions=np.stack([stay, move], axis=1), initial=0)
    >>> transfer_return(np.array([0.0, 9.0]), np.array([0.0, 1.0]), task)
    1.0
    """
    plan = planning.solve(recovered, task)
    return expected_return(one_hot(plan.greedy, task.n_actions), reward, task)


def one_hot(actions: Any, n_actions: int) -> np.ndarray:
    """The deterministic policy (S, A) that takes these actions; -1 is no action, a row of zeros.

    >>> one_hot(np.array([1, 0, -1]), 2)
    array([[0., 1.],
           [1., 0.],
           [0., 0.]])
    """
    if as_whole(n_actions) < 1:
        raise InvalidInput(f"`n_actions` must be a positive integer; got {n_actions!r}.")
    given = as_array(actions, "actions")
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InvalidInput(
            f"`actions` must be integers, one for each state; got {given.dtype} of shape "
            f"{given.shape}."
        )
    check_range(np.where(given == -1, 0, given), as_whole(n_actions), "actions", "n_actions")
    given = given.astype(np.int64)
    return np.asarray(np.eye(n_actions)[given] * (given >= 0)[:, None])


def divergence(p: Any, q: Any, weights: Any = None) -> float:
    """The mean Kullback-Leibler divergence of policy ``q`` from policy ``p``, in nats per state.

    Infinite where ``p`` does what ``q`` never does. Weights, one for each state, say how much a
    state counts; one of weight 0 counts nothing. So do states in which ``p`` has no action.

    >>> divergence(np.array([[0.5, 0.5]]), np.array([[0.5, 0.5]]))
    0.0
    >>> divergence(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]]))
    inf
    """
    p, q = check_rows(p, "p"), check_rows(q, "q")
    if p.shape != q.shape:
        raise InvalidInput(
            f"`evaluate.divergence` must have two policies of one shape; got {p.shape} and "
            f"{q.shape}."
        )
    with np.errstate(divide="ignore"):
        ratio = np.log(np.where(p > 0, p, 1.0)) - np.log(np.where(p > 0, q, 1.0))
    each = np.where(p > 0, p * np.where(p > 0, ratio, 0.0), 0.0).sum(axis=1)
    weights = np.ones(len(p)) if weights is None else shaped(weights, each.shape, "weights")
    if not (np.isfinite(weights) & (weights >= 0)).all() or not weights.any():
        raise InvalidInput("`weights` must be finite, not negative and not all 0.")
    counts = (weights > 0) & p.any(axis=1)
    if not counts.any():
        raise InvalidInput("`p` must have an action in some state whose weight is not 0.")
    return float(np.average(each[counts], weights=weights[counts]))


def reward_correlation(recovered: Any, reward: Any, available: Any = None) -> float:
    """Pearson's correlation of a recovered reward with the true one, over states or pairs.

    Blind to a constant and to scale; NaN where one of them is constant.

    >>> reward_correlation(np.array([1.0, 2.0, 3.0]), np.array([5.0, 7.0, 9.0]))
    1.0
    """
    recovered = as_array(recovered, "recovered").astype(float)
    reward = as_array(reward, "reward").astype(float)
    if recovered.ndim == 2 and reward.shape == recovered.shape[:1]:
        reward = np.broadcast_to(reward[:, None], recovered.shape)
    if recovered.shape != reward.shape or recovered.ndim not in (1, 2):
        raise InvalidInput(
            f"`evaluate.reward_correlation` must have rewards over the same states; got shapes "
            f"{recovered.shape} and {reward.shape}."
        )
    if available is not None and recovered.ndim == 2:
        available = shaped(available, recovered.shape, "available", bool)
        recovered, reward = recovered[available], reward[available]
    finite(recovered, "recovered")
    finite(reward, "reward")
    if not recovered.size or np.ptp(recovered) == 0 or np.ptp(reward) == 0:
        return float("nan")  # rounding in the mean would make up a correlation
    x, y = (z.ravel() / np.abs(z).max() for z in (recovered, reward))
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return round(float(x @ y) / scale, 12) if scale > 0 else float("nan")


def log_probabilities(policy: Any, demonstrations: Demonstrations) -> np.ndarray:
    """The log-probability that a policy (S, A) gives to each step, (steps,), in nats.

    Causal: that of a step depends on its state and its action, and on nothing that follows.

    >>> seen = Demonstrations([0, 0], [0, 1], [0, 0])
    >>> log_probabilities(np.array([[1.0, 0.0]]), seen)
    array([  0., -inf])
    """
    policy, d = check_rows(policy), demonstrations
    check_kind(d, Demonstrations, "demonstrations")
    states = as_numbers(d.states, len(policy), "Demonstrations.states", "len(policy)")
    check_range(d.actions, policy.shape[1], "Demonstrations.actions", "n_actions")
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(policy[states, d.actions]))


def likelihood(policy: Any, demonstrations: Demonstrations, available: Any = None) -> Likelihood:
    """How well a policy (S, A) foretells the actions of demonstrations.

    >>> seen = Demonstrations([0, 0], [0, 1], [0, 0])
    >>> round(likelihood(np.array([[0.5, 0.5]]), seen).bits, 3)
    -1.0
    """
    log_pi, d = log_probabilities(policy, demonstrations), demonstrations
    policy = np.asarray(policy)
    best = (policy == policy.max(axis=1, keepdims=True)) & (policy > 0)
    hit = (best / np.maximum(best.sum(axis=1, keepdims=True), 1))[d.states, d.actions]
    choice = np.ones(len(d), bool)
    if available is not None:
        available = shaped(available, policy.shape, "available", bool)
        choice = available.sum(axis=1)[d.states] > 1
    weights = d.step_weights

    def mean(x: np.ndarray, where: np.ndarray) -> float:
        # A step of weight 0 says nothing, not even where it is impossible.
        where = where & (weights > 0)
        return float(np.average(x[where], weights=weights[where])) if where.any() else float("nan")

    every = np.ones(len(d), bool)
    return Likelihood(
        mean(log_pi, every), mean(hit, every), len(d),
        mean(log_pi, choice), mean(hit, choice), int(choice.sum()),
    )  # fmt: skip


def baselines(
    train: Demonstrations,
    test: Demonstrations,
    task: Task,
    smoothing: Additive = Additive(1.0),
) -> dict[str, Likelihood]:
    """What every likelihood must be read beside: no knowledge, and cloning.

    "uniform" over the available actions, "frequencies" of actions whatever the state, and
    "cloning", the smoothed frequencies in each state.

    >>> seen = Demonstrations([0, 0, 1], [0, 1, 1], [0, 1, 0])
    >>> list(baselines(seen, seen, Task(2, 0.9, n_states=2)))
    ['uniform', 'frequencies', 'cloning']
    """
    for name, d in ("train", train), ("test", test):
        check_kind(d, Demonstrations, name)
    check_kind(task, Task, "task")
    check_kind(smoothing, Additive, "smoothing")
    n_states = task.n_states
    if n_states is None:
        n_states = int(max(d.states.max() for d in (train, test))) + 1
        n_states = max(n_states, int(max(d.next_states.max() for d in (train, test))) + 1)
    available = task.available_table(n_states)
    visits = train.counts(n_states, task.n_actions).visits
    uniform = available / available.sum(axis=1, keepdims=True)
    overall = np.broadcast_to(visits.sum(axis=0), visits.shape)
    policies = {
        "uniform": uniform,
        "frequencies": smoothing.policy(overall, available),
        "cloning": smoothing.policy(visits, available),
    }
    return {name: likelihood(policy, test, available) for name, policy in policies.items()}


def violations(demonstrations: Demonstrations, task: Task, region: Any = None) -> Violations:
    """How often the constraints were broken by choice, and how often by chance.

    ``region`` (bool, one for each state) marks the places that the constraints are to keep out of.

    >>> import inverseq as iq
    >>> task = iq.Task(2, 0.9, n_states=1).constrain(iq.Constraint(np.array([[0.0, 1.0]]), 0.5))
    >>> violations(Demonstrations([0, 0], [0, 1], [0, 0]), task)
    Violations(chosen=1, blown=0, steps=2)
    """
    d = demonstrations
    check_kind(d, Demonstrations, "demonstrations")
    check_kind(task, Task, "task")
    check_range(d.actions, task.n_actions, "Demonstrations.actions", "Task.n_actions")
    safe = task.safe(d.states)[np.arange(len(d)), d.actions]
    blown = 0
    if region is not None:
        inside = as_array(region, "region")
        if inside.dtype != bool or inside.ndim != 1:
            raise InvalidInput(
                f"`region` must be boolean, one for each state; it is {inside.dtype} of shape "
                f"{inside.shape}."
            )
        here = as_numbers(d.states, len(inside), "Demonstrations.states", "len(region)")
        # What is written after an end need not be a state.
        there = np.where(d.terminated & (d.next_states >= len(inside)), here, d.next_states)
        check_range(there, len(inside), "Demonstrations.next_states", "len(region)")
        blown = int((safe & inside[there] & ~inside[here]).sum())
    return Violations(int((~safe).sum()), blown, len(d))
