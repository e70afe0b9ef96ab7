"""Matching visits: what the family of maximum-entropy algorithms shares.

A reward makes a soft-optimal policy visit states in certain amounts; the demonstrations visited
them in others. The difference, seen minus expected, is the gradient of the reward of each state,
and what an algorithm adds is how a reward is made of its parameters: of features, or by a network.

Episodes may differ in length. One that was cut after L steps is compared with L expected steps from
where it began; one that ended, where the model knows that it may, with as many as the horizon has:
after its end there is nothing to see, and by as much the model's own ends shorten what is expected.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from inverseq import equations, gauges, planning
from inverseq._checks import ROW_SUM_TOLERANCE, as_array, as_number, as_whole, finite
from inverseq.demonstrations import Demonstrations, tabulated
from inverseq.errors import InvalidInput, NotConverged
from inverseq.gauges import Features, StateOnly
from inverseq.planning import Bellman, Planner
from inverseq.shapes import Sparse, Table, Vector
from inverseq.solution import Info, Solution
from inverseq.task import Task

Start = Literal["seen", "task"]
Policies: TypeAlias = Callable[[int], np.ndarray]
"""The policy (S, A) with so many steps to go."""


class Seen(NamedTuple):
    """What the demonstrations show, per episode, as far as it is compared with what is expected."""

    visits: np.ndarray
    """How often an episode visits each state, (S,), within the horizon; discounted where asked."""
    begins: Sparse
    """Where episodes begin, (horizon, S): in row k the share of those with k + 1 steps to go."""
    discount: float
    """How much less a visit counts one step later: 1 for plain numbers."""
    pairs: np.ndarray
    """How often each pair was seen, (S, A), without horizon or discount."""

    @property
    def horizon(self) -> int:
        """The most steps that are compared."""
        return int(self.begins.shape[0])


def problem(
    demonstrations: Demonstrations,
    task: Task,
    horizon: int | None,
    start: Start,
    discounted: bool,
) -> tuple[Task, Seen, np.ndarray | None]:
    """The task with a model, what was seen, and the viable actions where there are constraints."""
    task, pairs = tabulated(demonstrations, task)
    demonstrations.in_order("Maximum entropy, which matches visits of whole episodes,")
    # Checked before the work: a reward that no policy may follow helps nobody.
    safe = planning.viable(task, pairs.sum(axis=1) > 0) if task.constraints else None
    discount = task.discount if discounted else 1.0
    return task, observed(demonstrations, task, pairs, horizon, start, discount), safe


def observed(
    demonstrations: Demonstrations,
    task: Task,
    pairs: Table,
    horizon: int | None,
    start: Start,
    discount: float,
) -> Seen:
    """What was seen: each episode counts as its steps weigh on average."""
    import scipy.sparse as sp

    d, n_states = demonstrations, len(pairs)
    first = d.starts
    lengths = np.diff(first, append=len(d))
    horizon = int(lengths.max()) if horizon is None else as_whole(horizon)
    weights = np.add.reduceat(d.step_weights, first) / lengths
    weights = weights / weights.sum()

    each = np.repeat(weights, lengths)
    age = np.arange(len(d)) - np.repeat(first, lengths)
    if discount < 1:
        each = each * discount**age
    visits = np.bincount(d.states, np.where(age < horizon, each, 0.0), minlength=n_states)
    if task.terminal is not None:
        visits[task.terminal] = 0.0

    # One that ended was not cut, had it only gone on; but an end of which the model knows nothing
    # would be waited for in vain.
    last = first + lengths - 1
    ends = task.continuing.ends()[d.states[last], d.actions[last]] > ROW_SUM_TOLERANCE
    over = d.terminated[last]
    if task.terminal is not None:
        over = over | task.terminal[np.where(over, 0, d.next_states[last])]
    to_go = np.minimum(np.where(over & ends, horizon, lengths), horizon)
    if start == "seen":
        entries = weights, (to_go - 1, d.states[first])
        begins = sp.csr_array(entries, shape=(horizon, n_states))
        begins.sum_duplicates()
    else:
        share = sp.csr_array(np.bincount(to_go - 1, weights, minlength=horizon)[:, None])
        begins = sp.csr_array(share @ sp.csr_array(task.start()[None]))
    return Seen(visits, begins, discount, pairs)


def expected(seen: Seen, task: Task, policies: Policies) -> np.ndarray:
    """How often an episode would visit each state, (S,), were these the policies."""
    model, begins = task.continuing, seen.begins
    now = np.zeros(model.n_states)
    visits = np.zeros(model.n_states)
    for k in range(seen.horizon, 0, -1):
        if k < seen.horizon:
            now = seen.discount * model.flow(policies(k + 1) * now[:, None])
        row = slice(begins.indptr[k - 1], begins.indptr[k])
        now[begins.indices[row]] += begins.data[row]
        visits += now
    if task.terminal is not None:
        visits[task.terminal] = 0.0
    return np.asarray(visits)


class Stationary:
    """The policy of Ziebart et al. (2008): soft-optimal as if there were no horizon."""

    def __init__(self, task: Task, seen: Seen, inner_steps: int | None = None) -> None:
        self.task, self.seen, self.inner_steps = task.unconstrained(), seen, inner_steps
        self.planner = Planner(self.task)
        self.v = np.zeros(len(seen.visits))

    def missed(self, reward: Vector) -> np.ndarray:
        """Seen minus expected visits, (S,), under a reward."""
        policy = self._policy(reward)
        return np.asarray(self.seen.visits - expected(self.seen, self.task, lambda _: policy))

    def _policy(self, reward: Vector) -> np.ndarray:
        if self.inner_steps is None:
            return self.planner.solve(reward).policy
        bellman = self.planner.bellman
        r = bellman.counted(planning.reward_table(reward, self.task))
        for _ in range(self.inner_steps):
            q, self.v = bellman.backup(r, self.v)
        return np.asarray(np.exp(equations.log_boltzmann(q, bellman.safe, self.task.temperature)))


class Causal:
    """The policy of maximum causal entropy (Ziebart 2010): it knows how many steps are to go."""

    def __init__(self, task: Task, seen: Seen) -> None:
        self.task, self.seen = task.unconstrained(), seen
        self.bellman = Bellman(self.task, soft=True)
        self.value = 0.0
        """The last reward's ``sum of seen visits times reward, minus soft value of the starts``:
        the temperature times the discounted causal log-likelihood, had every step led where the
        model expects it."""

    def missed(self, reward: Vector) -> np.ndarray:
        """Seen minus expected visits, (S,), under a reward: the gradient of ``value``."""
        bellman, seen = self.bellman, self.seen
        r = bellman.counted(planning.reward_table(reward, self.task))
        v = np.zeros(len(reward))
        values = np.empty((seen.horizon, *r.shape))
        self.value = float(seen.visits @ reward)
        for k in range(seen.horizon):
            values[k], v = bellman.backup(r, v)
            row = slice(seen.begins.indptr[k], seen.begins.indptr[k + 1])
            self.value -= float(seen.begins.data[row] @ v[seen.begins.indices[row]])
        safe = np.broadcast_to(bellman.safe, values.shape)
        policies = np.exp(equations.log_boltzmann(values, safe, self.task.temperature))
        return np.asarray(seen.visits - expected(seen, self.task, lambda k: policies[k - 1]))


# -- features, and what is found -----------------------------------------------------------------


def feature_table(features: Any, n_states: int, standardise: bool, owner: str) -> Any:
    """The features (S, K) of all states: sparse indicators of the states where none are given."""
    import scipy.sparse as sp

    if features is None:
        return sp.eye_array(n_states, format="csr")
    phi = as_array(features, f"{owner}.features").astype(float)
    if phi.ndim != 2 or len(phi) != n_states or not phi.shape[1]:
        raise InvalidInput(
            f"`{owner}.features` must have shape ({n_states}, K), a row for each state; it has "
            f"{phi.shape}. Give those of `world.features`, or None for one feature per state."
        )
    finite(phi, f"{owner}.features")
    if not standardise:
        return phi
    spread = phi.std(axis=0)
    return (phi - phi.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def check_matching(estimator: Any) -> None:
    """Raise unless the settings that the family shares can be meant."""
    owner = type(estimator).__name__
    for name in "horizon", "inner_steps":
        given = getattr(estimator, name, None)
        if given is not None and as_whole(given) < 1:
            raise InvalidInput(
                f"`{owner}.{name}` must be an integer of at least 1, or None; got {given!r}."
            )
    rate = estimator.learning_rate
    if not 0 < as_number(rate) < np.inf:
        raise InvalidInput(f"`{owner}.learning_rate` must be positive and finite; got {rate!r}.")


def moved(before: np.ndarray, after: np.ndarray, owner: str, steps: int) -> float:
    """By how much a reward changed, in units of the temperature, if it is still one."""
    change = float(np.abs(after - before).max())
    if not np.isfinite(change):
        raise InvalidInput(
            f"`{owner}.learning_rate` must let the reward settle; after {steps} steps it is no "
            f"longer finite. Use a smaller one, or `standardise=True`."
        )
    return change


def warn_unless(converged: bool, changes: list[float], owner: str, advice: str = "") -> None:
    """Warn where the rule to stop was not met."""
    if not converged:
        warnings.warn(
            f"`{owner}` stopped after {len(changes)} steps while the reward still changed by "
            f"{changes[-1] if changes else np.nan:.2g}; raise `max_iterations` or `tolerance`"
            f"{advice}.",
            NotConverged,
            stacklevel=3,
        )


def solution(
    reward: Vector,
    task: Task,
    safe: np.ndarray | None,
    seen: Seen,
    info: Info,
    *,
    solver: str,
    changes: list[float],
    converged: bool,
    residual: float,
    features: Any,
    start: Start,
) -> Solution:
    """The reward with its soft plan, and the plan under constraints where there are some."""
    from dataclasses import replace

    found = gauges.planned(
        np.repeat(reward[:, None], task.n_actions, axis=1), task, safe, "soft",
        solver=solver, changes=changes, residual=residual, converged=converged,
    )  # fmt: skip
    info = replace(
        info,
        task={"horizon": seen.horizon, "start": start},
        gauge=repr(StateOnly() if features is None else Features(features)),
        backup="soft",
        unvisited_states=int((seen.pairs.sum(axis=1) == 0).sum()),
    )
    return Solution.recovered(found, task, info, seen.pairs)
