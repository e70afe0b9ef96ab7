"""BehaviouralCloning: the frequencies of actions, with a Dirichlet prior.

In each state the policy is the mean of what a Dirichlet prior becomes once choices are counted:
every available action gets some visits more than were seen. It explains nothing, and is the measure
of what an explanation adds; in states that were not seen it is uniform. A reward comes with it,
that of the zero gauge, so that constraints can be planned for: nothing is solved.

Equations: ``count_policy``; the reward is `inverseq.gauges`. Needs: demonstrations; a model only
for the reward, counted where it is unknown.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from inverseq import gauges
from inverseq._checks import as_number
from inverseq.demonstrations import Additive, Demonstrations, tabulated
from inverseq.errors import InvalidInput
from inverseq.gauges import Zero
from inverseq.solution import Info, Solution, plain
from inverseq.task import Task


@dataclass(frozen=True)
class BehaviouralCloning:
    """Behavioural cloning of a table: what was done, as often as it was done.

    >>> import inverseq as iq
    >>> seen = iq.Demonstrations([0, 0, 1], [0, 1, 1], [0, 1, 0])
    >>> BehaviouralCloning().fit(seen, iq.Task(2, 0.9, n_states=2)).policy_table
    array([[0.5       , 0.5       ],
           [0.33333333, 0.66666667]])
    """

    prior: float = 1.0
    """The strength of the Dirichlet prior: how many visits each available action has beforehand."""

    def __post_init__(self) -> None:
        if not 0 < as_number(self.prior) < np.inf:
            raise InvalidInput(
                f"`BehaviouralCloning.prior` must be positive and finite, or an action never seen "
                f"has no logarithm; got {self.prior!r}."
            )

    def fit(
        self,
        demonstrations: Demonstrations,
        task: Task,
        *,
        seed: int | None = None,
        progress: bool | None = None,
    ) -> Solution:
        """Count once; nothing is random, ``seed`` is there so that all are called alike."""
        began = time.perf_counter()
        task, visits = tabulated(demonstrations, task)
        available = task.available_table()
        policy = Additive(self.prior).policy(visits, available)
        log_pi = task.temperature * np.log(np.where(available, policy, 1.0))
        visited = visits.sum(axis=1) > 0
        found = gauges.recover(log_pi, task, Zero(), weights=visits, visited=visited)
        info = Info(
            "BehaviouralCloning",
            settings=plain(self),
            gauge=repr(Zero()),
            unvisited_states=int((~visited).sum()),
            seconds=time.perf_counter() - began,
        )
        return Solution.recovered(found, task, info, visits)
