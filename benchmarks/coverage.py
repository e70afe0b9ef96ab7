"""How often the intervals of recovered rewards and values cover the truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import Row
from inverseq import IAVI, Demonstrations, Task, uncertainty
from inverseq._processes import side_by_side

STATES, ACTIONS, VISITS = 20, 3, 200
DELTA, BOOTSTRAP = 2_000, 200
"""How many logs are drawn for each method."""
DRAWS = 200
"""How often each bootstrap draws."""
LENGTH = 20
"""Steps of an episode, where episodes are drawn."""


class Truth(NamedTuple):
    """A world, its demonstrator, and what an unlimited log would show."""

    task: Task
    model: np.ndarray
    policy: np.ndarray
    reward: np.ndarray
    q: np.ndarray


def truth(seed: int = 0) -> Truth:
    """States with six random successors each, and choices that are neither tied nor certain."""
    rng = np.random.default_rng(seed)
    model = np.zeros((STATES, ACTIONS, STATES))
    for s, a in np.ndindex(STATES, ACTIONS):
        model[s, a, rng.choice(STATES, 6, replace=False)] = rng.dirichlet(np.full(6, 2.0))
    ranks = np.array([0.54, 0.26, 0.2])
    policy = np.array([rng.permutation(ranks * rng.uniform(0.9, 1.1, 3)) for _ in range(STATES)])
    policy /= policy.sum(axis=1, keepdims=True)
    task = Task(ACTIONS, 0.9, transitions=model)
    found = IAVI().solve(policy, task)
    return Truth(task, model, policy, found.reward_table, found.q_table)


def independent(world: Truth, rng: np.random.Generator) -> Demonstrations:
    """Every state 600 times, whose actions are drawn; for each of them a next state is drawn."""
    states = np.repeat(np.arange(STATES), VISITS * ACTIONS)
    return steps(world, states, rng)


def steps(world: Truth, states: np.ndarray, rng: np.random.Generator) -> Demonstrations:
    """A step from each state, each an episode of its own."""
    actions = drawn(world.policy[states], rng)
    following = drawn(world.model[states, actions], rng)
    return Demonstrations(states, actions, following, episodes=np.arange(len(states)))


def walks(world: Truth, rng: np.random.Generator) -> Demonstrations:
    """Episodes of 20 steps from random states, as many steps in all."""
    n = STATES * ACTIONS * VISITS // LENGTH
    states = np.empty((n, LENGTH + 1), int)
    actions = np.empty((n, LENGTH), int)
    states[:, 0] = rng.integers(STATES, size=n)
    for t in range(LENGTH):
        actions[:, t] = drawn(world.policy[states[:, t]], rng)
        states[:, t + 1] = drawn(world.model[states[:, t], actions[:, t]], rng)
    return Demonstrations(
        states[:, :-1].ravel(), actions.ravel(), states[:, 1:].ravel(),
        episodes=np.repeat(np.arange(n), LENGTH),
    )  # fmt: skip


def drawn(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One column of each row of probabilities."""
    columns = (np.cumsum(rows, axis=1) < rng.random(len(rows))[:, None]).sum(axis=1)
    return np.asarray(np.minimum(columns, rows.shape[1] - 1))


class Covered(NamedTuple):
    """How often intervals covered the truth."""

    share: np.ndarray
    """The share of logs, for reward and Q of each pair, (2, S, A)."""
    refused: int
    """For how many logs the delta method did not hold."""


def coverage(
    known: bool,
    method: uncertainty.Method,
    log: Callable[[Truth, np.random.Generator], Demonstrations],
    replications: int,
    workers: int | None = None,
) -> Covered:
    """Draw so many logs, and see whose intervals cover."""
    parts = np.array_split(np.arange(replications), 8)
    jobs = [(truth(), known, method, log, part) for part in parts]
    results = [found for _, found in side_by_side(covered, jobs, workers)]
    hits = np.sum([hits for hits, _ in results], axis=0)
    return Covered(hits / replications, sum(refused for _, refused in results))


def covered(
    world: Truth,
    known: bool,
    method: uncertainty.Method,
    log: Callable[[Truth, np.random.Generator], Demonstrations],
    seeds: np.ndarray,
) -> tuple[np.ndarray, int]:
    """How often reward and values lie in their intervals, and how often the delta is refused."""
    task = world.task if known else Task(ACTIONS, world.task.discount, n_states=STATES)
    hits, refused = np.zeros((2, STATES, ACTIONS)), 0
    for seed in seeds.tolist():
        found = uncertainty.fit(
            IAVI(), log(world, np.random.default_rng([1, seed])), task,
            method=method, replications=DRAWS, seed=seed, workers=0,
        ).uncertainty  # fmt: skip
        assert found is not None
        refused += found.method == "bootstrap"
        for i, (spread, true) in enumerate([(found.reward, world.reward), (found.q, world.q)]):
            hits[i] += (spread.low <= true) & (true <= spread.high)
    return hits, refused


def run() -> list[Row]:
    """20 states, 3 actions, 200 visits a pair, discount 0.9, 95 % intervals, uniform gauge."""
    rows = []
    cases: list[tuple[uncertainty.Method, Any, int]] = [
        ("auto", independent, DELTA), ("auto", walks, DELTA), ("bootstrap", walks, BOOTSTRAP)
    ]  # fmt: skip
    for method, log, replications in cases:
        for known in (True, False):
            found = coverage(known, method, log, replications)
            name = "delta" if method == "auto" else method
            how = f"{name}, {log.__name__}, model {'known' if known else 'counted'}"
            for what, share in zip(("reward", "Q"), found.share, strict=True):
                low, high, state = share.min(), share.max(), share.mean(axis=1).min()
                note = (
                    f"{replications:,} logs; the worst pair {100 * low:.1f}, the best "
                    f"{100 * high:.1f}; the worst state {100 * state:.1f}"
                )
                if method == "auto" and found.refused:
                    note += f"; {found.refused} by the bootstrap"
                figure = 100 * float(share.mean())
                # A row has one border; beyond the upper one, that is the one that is missed.
                border = {"at_most": 97.0} if figure > 97 else {"at_least": 92.0}
                rows.append(Row(f"{what}, {how}", figure, "%", **border, note=note))
    return rows
