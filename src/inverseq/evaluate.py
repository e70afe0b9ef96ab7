"""Every measure, once.

Two questions are kept apart. *Does it act alike?* (log-likelihood, divergence, value difference):
here an exact gauge is behavioural cloning by identity, whatever its reward. *Is the reward right?*
(correlation, and above all the return when it is carried to other dynamics): here gauges differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inverseq import planning
from inverseq.demonstrations import Additive, Demonstrations
from inverseq.errors import InvalidInput
from inverseq.shapes import MaskTable, Table
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
    """How often the most probable action was the one."""
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
    """Steps with a safe action that ended in a forbidden place by chance."""
    steps: int
    """All steps."""


def value_difference(policy: Table, reward: np.ndarray, task: Task) -> ValueDifference:
    """The expected value difference of a policy under the true reward.

    The Boltzmann policy of the true reward, minus the policy in question, both valued under the
    true reward; terminal states are left out.

    >>> import inverseq as iq
    >>> world = iq.worlds.objectworld(size=5, n_objects=4, seed=0)
    >>> abs(value_difference(world.expert(), world.reward, world.task).evd) < 1e-9
    True
    """
    task = task.unconstrained()
    expert = planning.solve(reward, task).policy
    difference = planning.evaluate_policy(expert, reward, task) - planning.evaluate_policy(
        policy, reward, task
    )
    if task.terminal is not None:
        difference = difference[~task.terminal]
    return ValueDifference(
        float(difference.mean()), float((difference**2).mean()), float(np.abs(difference).mean())
    )


def expected_return(policy: Table, reward: np.ndarray, task: Task) -> float:
    """The discounted return of a policy from the task's initial distribution.

    >>> import numpy as np, inverseq as iq
    >>> task = iq.Task(1, 0.5, transitions=np.ones((1, 1, 1)))
    >>> expected_return(np.ones((1, 1)), np.array([3.0]), task)
    6.0
    """
    return float(task.start() @ planning.evaluate_policy(policy, reward, task))


def transfer_return(recovered: np.ndarray, reward: np.ndarray, task: Task) -> float:
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


def one_hot(actions: np.ndarray, n_actions: int) -> np.ndarray:
    """The deterministic policy (S, A) that takes these actions.

    >>> one_hot(np.array([1, 0]), 2)
    array([[0., 1.],
           [1., 0.]])
    """
    return np.asarray(np.eye(n_actions)[actions])


def divergence(p: Table, q: Table, weights: np.ndarray | None = None) -> float:
    """The mean Kullback-Leibler divergence of policy ``q`` from policy ``p``, in nats per state.

    >>> divergence(np.array([[0.5, 0.5]]), np.array([[0.5, 0.5]]))
    0.0
    """
    if np.shape(p) != np.shape(q):
        raise InvalidInput(
            f"`evaluate.divergence` must have two policies of one shape; got {np.shape(p)} and "
            f"{np.shape(q)}."
        )
    with np.errstate(divide="ignore"):
        ratio = np.log(np.where(p > 0, p, 1.0)) - np.log(np.where(p > 0, q, 1.0))
    each = np.where(p > 0, p * np.where(p > 0, ratio, 0.0), 0.0).sum(axis=1)
    return float(np.average(each, weights=weights))


def reward_correlation(
    recovered: np.ndarray, reward: np.ndarray, available: MaskTable | None = None
) -> float:
    """Pearson's correlation of a recovered reward with the true one, over states or pairs.

    Blind to a constant and to scale; NaN where one of them is constant.

    >>> reward_correlation(np.array([1.0, 2.0, 3.0]), np.array([5.0, 7.0, 9.0]))
    1.0
    """
    recovered, reward = np.asarray(recovered, float), np.asarray(reward, float)
    if recovered.ndim == 2 and reward.ndim == 1:
        reward = np.broadcast_to(reward[:, None], recovered.shape)
    if recovered.shape != reward.shape:
        raise InvalidInput(
            f"`evaluate.reward_correlation` must have rewards over the same states; got shapes "
            f"{recovered.shape} and {reward.shape}."
        )
    if available is not None and recovered.ndim == 2:
        recovered, reward = recovered[available], reward[available]
    x, y = recovered.ravel() - recovered.mean(), reward.ravel() - reward.mean()
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return round(float(x @ y) / scale, 12) if scale > 0 else float("nan")


def likelihood(
    policy: Table, demonstrations: Demonstrations, available: MaskTable | None = None
) -> Likelihood:
    """How well a policy (S, A) foretells the actions of demonstrations.

    >>> seen = Demonstrations([0, 0], [0, 1], [0, 0])
    >>> round(likelihood(np.array([[0.5, 0.5]]), seen).bits, 3)
    -1.0
    """
    d = demonstrations
    choice = np.ones(len(d), bool) if available is None else available.sum(axis=1)[d.states] > 1
    with np.errstate(divide="ignore"):
        log_pi = np.log(policy[d.states, d.actions])
    hit = policy[d.states].argmax(axis=1) == d.actions
    weights = np.ones(len(d)) if d.weights is None else d.weights

    def mean(x: np.ndarray, where: np.ndarray) -> float:
        mass = weights[where].sum()
        return float((x[where] * weights[where]).sum() / mass) if mass > 0 else float("nan")

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


def violations(
    demonstrations: Demonstrations, task: Task, region: np.ndarray | None = None
) -> Violations:
    """How often the constraints were broken by choice, and how often by chance.

    ``region`` (bool, one for each state) marks the places that the constraints are to keep out of.

    >>> import inverseq as iq
    >>> task = iq.Task(2, 0.9, n_states=1).constrain(iq.Constraint(np.array([[0.0, 1.0]]), 0.5))
    >>> violations(Demonstrations([0, 0], [0, 1], [0, 0]), task)
    Violations(chosen=1, blown=0, steps=2)
    """
    d = demonstrations
    safe = task.safe(d.states)[np.arange(len(d)), d.actions]
    blown = 0 if region is None else int((safe & np.asarray(region)[d.next_states]).sum())
    return Violations(int((~safe).sum()), blown, len(d))
