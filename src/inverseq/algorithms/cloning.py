"""BehaviouralCloning: the frequencies of actions, with a Dirichlet prior, or a classifier of them.

In each state of a table the policy is the mean of what a Dirichlet prior becomes once choices are
counted: every available action gets some visits more than were seen. Where states are rows of
numbers, a network is trained to foretell the action instead. It explains nothing, and is the
measure of what an explanation adds. A reward comes with it, that of the zero gauge: for a table
constraints can be planned for with it; a network's policy is only masked.

Equations: ``count_policy``, ``log_boltzmann``; the reward is `inverseq.gauges`, the loop of the
network `inverseq.training`. Needs: demonstrations; a model only for the reward of a table, counted
where it is unknown.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from os import PathLike

import numpy as np

from inverseq import equations, gauges, training
from inverseq._checks import as_number, check_kind
from inverseq.demonstrations import Additive, Demonstrations, tabulated
from inverseq.errors import InvalidInput
from inverseq.gauges import Zero
from inverseq.nets import Params
from inverseq.solution import Info, Solution, plain
from inverseq.task import Task
from inverseq.training import Apply, Batch, Problem, Trained, Verdict, Watch


@dataclass(frozen=True)
class Rule:
    """A classifier of actions, and nothing else."""

    names = ("rho",)
    followed = 1

    def judge(self, apply: Apply, params: Params, target: Params, batch: Batch) -> Verdict:
        """The cross-entropy, over what is available."""
        (logits,) = apply(params, batch["states"])
        log_pi = equations.log_boltzmann(logits, batch["available"])
        return training.classification(log_pi, batch["actions"], batch["weights"])


@dataclass(frozen=True, eq=False, kw_only=True)
class Classifier(Trained):
    """The settings of a network that foretells actions.

    >>> BehaviouralCloning(classifier=Classifier(iterations=2_000)).classifier.learning_rate
    0.001
    """

    iterations: int = 5_000


@dataclass(frozen=True, eq=False)
class BehaviouralCloning:
    """Behavioural cloning: what was done, as often as it was done.

    >>> import inverseq as iq
    >>> seen = iq.Demonstrations([0, 0, 1], [0, 1, 1], [0, 1, 0])
    >>> BehaviouralCloning().fit(seen, iq.Task(2, 0.9, n_states=2)).policy_table
    array([[0.5       , 0.5       ],
           [0.33333333, 0.66666667]])
    """

    prior: float = 1.0
    """The strength of the Dirichlet prior: how many visits each available action has beforehand."""
    classifier: Classifier | None = None
    """The network and its training; None counts where states are those of a table, and is
    ``Classifier()`` where they are rows of numbers."""

    def __post_init__(self) -> None:
        if not 0 < as_number(self.prior) < np.inf:
            raise InvalidInput(
                f"`BehaviouralCloning.prior` must be positive and finite, or an action never seen "
                f"has no logarithm; got {self.prior!r}."
            )
        if self.classifier is not None:
            check_kind(self.classifier, Classifier, "BehaviouralCloning.classifier")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BehaviouralCloning) and plain(self) == plain(other)

    def fit(
        self,
        demonstrations: Demonstrations,
        task: Task,
        *,
        seed: int = 0,
        progress: bool | None = None,
        checkpoint: str | PathLike[str] | None = None,
        log: str | PathLike[str] | None = None,
        tensorboard: str | PathLike[str] | None = None,
    ) -> Solution:
        """Count once; the seed, the checkpoint and the logs are those of a network."""
        began = time.perf_counter()
        check_kind(demonstrations, Demonstrations, "demonstrations")
        check_kind(task, Task, "task")
        if self.classifier is None and demonstrations.tabular:
            task, visits = tabulated(demonstrations, task)
            policy = Additive(self.prior).policy(visits, task.available_table())
            info = Info("BehaviouralCloning", settings=plain(self), gauge=repr(Zero()))
            return in_zero_gauge(
                np.log(np.where(policy > 0, policy, 1.0)), task, visits, info
            ).timed(time.perf_counter() - began)
        problem = Problem(demonstrations, task, self.classifier or Classifier())
        watch = Watch(progress, checkpoint, log, tensorboard)
        outcome = training.train(Rule(), problem, problem.columns, 1.0, seed, watch, self._solution)
        return self._solution(problem, *outcome).timed(time.perf_counter() - began)

    def _solution(self, problem: Problem, params: dict[str, Params], info: Info) -> Solution:
        info = replace(
            info, algorithm="BehaviouralCloning", settings=plain(self), gauge=repr(Zero())
        )
        if not problem.tabular:
            return problem.solution({"policy": params["rho"]}, info)
        assert problem.visits is not None
        available = problem.task.available_table()
        log_pi = equations.log_boltzmann(problem.evaluate(params["rho"]), available)
        log_pi = np.where(available, log_pi, 0.0)
        return in_zero_gauge(log_pi, problem.task, problem.visits, info)


def in_zero_gauge(log_pi: np.ndarray, task: Task, visits: np.ndarray, info: Info) -> Solution:
    """A policy of a table as a solution; nothing is solved, but for what constraints ask."""
    visited = visits.sum(axis=1) > 0
    scaled = task.temperature * log_pi
    found = gauges.recover(scaled, task, Zero(), weights=visits, visited=visited)
    info = replace(info, unvisited_states=int((~visited).sum()))
    solution = Solution.recovered(found, task, info, visits)
    if not info.solver:
        return solution
    # The gauge is solved at once; how the classifier was trained is to be seen.
    trained = replace(
        solution.info, solver=info.solver, iterations=info.iterations, converged=info.converged
    )
    return replace(solution, info=trained)
