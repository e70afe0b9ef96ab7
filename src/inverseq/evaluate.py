"""Every measure, once.

Two questions are kept apart. *Does it act alike?* (log-likelihood, divergence, value difference):
here an exact gauge is behavioural cloning by identity, whatever its reward. *Is the reward right?*
(correlation, and above all the return when it is carried to other dynamics): here gauges differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from inverseq import planning
from inverseq._checks import (
    as_array,
    as_number,
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
from inverseq.solution import Solution, Tables, check_labels
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


UNKNOWN = (float("nan"), float("nan"))
"""The interval of what cannot have one. It is one object, so that it is equal to itself."""


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
    interval: tuple[float, float] | None = None
    """Where the mean log-likelihood of a step would lie in other logs of this kind, in nats; NaN
    where there is only one episode, None of counts: what was seen together is not known."""
    interval_choice: tuple[float, float] | None = None
    """The same where there was a choice."""
    over: str | None = None
    """What was taken to be independent: every "episode", or every "unit"; None of counts."""

    @property
    def bits(self) -> float:
        """Mean log-likelihood of a step in bits."""
        return self.nats / float(np.log(2))

    @property
    def bits_choice(self) -> float:
        """The same where there was a choice."""
        return self.nats_choice / float(np.log(2))

    @property
    def interval_bits(self) -> tuple[float, float] | None:
        """The interval in bits."""
        return in_bits(self.interval)

    @property
    def interval_bits_choice(self) -> tuple[float, float] | None:
        """The interval where there was a choice, in bits."""
        return in_bits(self.interval_choice)


def in_bits(nats: tuple[float, float] | None) -> tuple[float, float] | None:
    """An interval of nats in bits, if there is one."""
    return None if nats is None else (nats[0] / float(np.log(2)), nats[1] / float(np.log(2)))


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
    """The log-probability that a policy (S, A) or a solution gives to each step, (steps,), in nats.

    Causal: that of a step depends on its state and its action, and on nothing that follows.

    >>> seen = Demonstrations([0, 0], [0, 1], [0, 0])
    >>> log_probabilities(np.array([[1.0, 0.0]]), seen)
    array([  0., -inf])
    """
    log_pi, rows = foretold(policy, demonstrations)
    return np.asarray(log_pi[rows, demonstrations.actions])


def foretold(policy: Any, demonstrations: Demonstrations) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of actions, and in which row of them each step finds its own."""
    d = demonstrations
    check_kind(d, Demonstrations, "demonstrations")
    if isinstance(policy, Solution):
        check_labels(policy, d)
        check_range(d.actions, policy.n_actions, "Demonstrations.actions", "n_actions")
        if not isinstance(policy.found, Tables):
            return policy.predict_log_proba(d.states), np.arange(len(d))
        n_states = len(policy.found.q)
        log_pi = policy.predict_log_proba(np.arange(n_states))
    else:
        policy = check_rows(policy)
        n_states = len(policy)
        with np.errstate(divide="ignore"):
            log_pi = np.log(policy)
    states = as_numbers(d.states, n_states, "Demonstrations.states", "len(policy)")
    check_range(d.actions, log_pi.shape[1], "Demonstrations.actions", "n_actions")
    return log_pi, states


def likelihood(
    policy: Any, demonstrations: Demonstrations, available: Any = None, *, level: float = 0.95
) -> Likelihood:
    """How well a policy (S, A) or a solution foretells the actions of demonstrations.

    A solution is asked for its policy under the constraints, if it has any, also where states are
    rows of numbers; it knows what was available. Intervals are over units where there are at least
    `FEWEST_UNITS`, else over episodes: see `interval`. Of counts there is the mean alone.

    >>> seen = Demonstrations([0, 0], [0, 1], [0, 0])
    >>> round(likelihood(np.array([[0.5, 0.5]]), seen).bits, 3)
    -1.0
    """
    d = demonstrations
    log_pi, rows = foretold(policy, d)
    choice = np.ones(len(d), bool)
    if available is not None:
        available = shaped(available, log_pi.shape, "available", bool)
        choice = available.sum(axis=1)[rows] > 1
    elif isinstance(policy, Solution):
        choice = policy.can(d.states).sum(axis=1) > 1
    return scored(log_pi, rows, choice, d, level=level)


def scored(
    log_pi: np.ndarray,
    rows: np.ndarray,
    choice: np.ndarray,
    demonstrations: Demonstrations,
    *,
    level: float = 0.95,
) -> Likelihood:
    """How well log-probabilities foretell actions, wherever they come from.

    >>> seen = Demonstrations([0, 0], [0, 1], [0, 0])
    >>> scored(np.log([[0.5, 0.5]]), np.zeros(2, int), np.ones(2, bool), seen).accuracy
    0.5

    Args:
        log_pi: Log-probabilities, (rows, actions).
        rows: Which of its rows is that of each step.
        choice: In which steps there was a choice.
        demonstrations: The steps.
        level: How often the intervals are to cover.
    """
    d = demonstrations
    best = (log_pi == log_pi.max(axis=1, keepdims=True)) & np.isfinite(log_pi)
    hit = (best / np.maximum(best.sum(axis=1, keepdims=True), 1))[rows, d.actions]
    each = log_pi[rows, d.actions]
    every = np.ones(len(d), bool)
    weights, times = d.step_weights, d.times_seen

    def mean(x: np.ndarray, where: np.ndarray) -> float:
        # A step of weight 0 says nothing, not even where it is impossible.
        where = where & (weights > 0)
        return float(np.average(x[where], weights=weights[where])) if where.any() else float("nan")

    found = Likelihood(
        mean(each, every), mean(hit, every), int(times.sum()),
        mean(each, choice), mean(hit, choice), int(times[choice].sum()),
    )  # fmt: skip
    if d.counted:
        return found
    over, member = groups(d)
    overall, chosen = (interval(each, weights * part, member, level) for part in (every, choice))
    return replace(found, interval=overall, interval_choice=chosen, over=over)


def interval(
    values: np.ndarray, weights: np.ndarray, member: np.ndarray, level: float = 0.95
) -> tuple[float, float]:
    """Where the weighted mean of steps would lie in other logs: steps of a group go together.

    The standard error is by how much the mean moves when one group after another is left out (the
    jackknife, which of groups of one size is the usual one), and the quantiles are Student's with
    as many degrees of freedom as groups, less one. NaN for less than two groups with any weight, or
    where a value is infinite.

    >>> low, high = interval(np.array([0.0, 0.0, 1.0, 1.0]), np.ones(4), np.array([0, 0, 1, 1]))
    >>> round((low + high) / 2, 9), round((high - low) / 2, 2)  # 12.7 standard errors of 0.5
    (0.5, 6.35)
    """
    from scipy.special import stdtrit

    if not 0 < as_number(level) < 1:
        raise InvalidInput(f"`level` must lie between 0 and 1; got {level!r}.")
    counts = weights > 0
    labels, member = np.unique(member[counts], return_inverse=True)
    values, weights, n = values[counts], weights[counts], len(labels)
    if n < 2 or not np.isfinite(values).all():
        return UNKNOWN
    mean = float(np.average(values, weights=weights))
    left = weights.sum() - np.bincount(member, weights)
    moved = np.bincount(member, weights * (values - mean)) / left
    error = float(np.sqrt((n - 1) / n * (moved**2).sum()))
    reach = float(stdtrit(n - 1, 0.5 + level / 2)) * error
    return mean - reach, mean + reach


def groups(demonstrations: Demonstrations) -> tuple[str, np.ndarray]:
    """What is taken to be independent, "unit" or "episode", and the number of each step's.

    Units where there are at least `FEWEST_UNITS`, for those who act more than once resemble
    themselves; of fewer there is nothing to tell a spread from.

    >>> groups(Demonstrations([0, 1, 0], [0, 0, 0], [1, 0, 1], episodes=["b", "b", "a"]))
    ('episode', array([1, 1, 0]))
    """
    d = demonstrations
    if d.units is not None:
        labels, member = np.unique(d.units, return_inverse=True)
        if len(labels) >= FEWEST_UNITS:
            return "unit", member
    episodes = d.in_order("What draws or divides by episodes")
    return "episode", np.unique(episodes, return_inverse=True)[1]


FEWEST_UNITS = 5
"""With fewer units than that, episodes are taken to be independent."""


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
    policies = plainest(visits, available, smoothing)
    return {name: likelihood(policy, test, available) for name, policy in policies.items()}


def plainest(
    visits: Any, available: np.ndarray, smoothing: Additive = Additive(1.0)
) -> dict[str, np.ndarray]:
    """The policies of `baselines`, (S, A), from the visits of each pair.

    >>> plainest(np.array([[3.0, 1.0]]), np.ones((1, 2), bool))["uniform"]
    array([[0.5, 0.5]])
    """
    overall = np.broadcast_to(visits.sum(axis=0), visits.shape)
    return {
        "uniform": available / available.sum(axis=1, keepdims=True),
        "frequencies": smoothing.policy(overall, available),
        "cloning": smoothing.policy(visits, available),
    }


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
    blown, times = 0, d.times_seen
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
        blown = int(times[safe & inside[there] & ~inside[here]].sum())
    return Violations(int(times[~safe].sum()), blown, int(times.sum()))
