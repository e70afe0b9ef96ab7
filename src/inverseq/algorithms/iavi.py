"""IAVI: Inverse Action-value Iteration (Kalweit et al. 2020, section 3).

The demonstrator's log-probabilities are differences of its action values. What they leave open is
one number for each state, the gauge, and once that is chosen the reward follows from one linear
solve with the model: no iteration and no tolerance. The paper's sweeps over the states, and its
single backward pass for models without cycles, are the same fixed point: ``solver="sweeps"`` and
``"backward"``.

Equations: ``advantage``, ``closed_form_reward``, ``action_value_target``, ``value``; the solve is
`inverseq.gauges`. Needs: a policy or demonstrations, and the model or what they count.
Departures from the paper: 1 to 6 in ``docs/departures.md``.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from inverseq import gauges, planning
from inverseq._checks import check_kind
from inverseq.demonstrations import Additive, Demonstrations, tabulated
from inverseq.errors import InvalidInput, InverseqWarning, NoFullSupport
from inverseq.gauges import Backup, Features, Gauge, Solver, Uniform
from inverseq.history import BackOff
from inverseq.shapes import Table
from inverseq.solution import Info, Solution, plain
from inverseq.task import Task

RIDGES = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
"""The priors among which held-out episodes choose."""
FEWEST_EPISODES = 5
"""With fewer there is nothing to hold out, and the prior is 1."""
SPLITS = 3
"""How often a quarter of the episodes is held out."""


@dataclass(frozen=True)
class IAVI:
    """Inverse Action-value Iteration: the reward behind a policy, in closed form.

    >>> import inverseq as iq
    >>> world = iq.worlds.objectworld(size=8, n_objects=6, seed=0)
    >>> found = iq.IAVI(gauge=iq.StateOnly()).solve(world.expert(), world.task)
    >>> off_by = found.reward_table[:, 0] - world.reward
    >>> bool(off_by.max() - off_by.min() < 1e-6)  # the true reward, up to a constant
    True
    """

    gauge: Gauge = Uniform()
    """Which of the many rewards: `Uniform`, `Reference`, `Zero`, `StateOnly` or `Features`."""
    backup: Backup = "max"
    """"max" is Bellman's equation, "soft" uses log-sum-exp, "max_of_mean" is the paper's letter."""
    smoothing: Additive | BackOff = Additive(1e-3)
    """What is added to counts (in `solve`: to rows with a zero) before the logarithm; for states
    with their history, `BackOff`."""
    solver: Solver = "auto"
    """"auto" chooses by size and discount; "sweeps" and "backward" are the paper's procedures."""
    tolerance: float = 1e-10
    """What to stop at: the residual of a solver, or for sweeps the reward's largest change."""
    max_iterations: int = 100_000
    """How many sweeps at most."""

    def __post_init__(self) -> None:
        gauges.check_settings(
            self.gauge, self.backup, self.solver, self.tolerance, self.max_iterations
        )
        check_kind(self.smoothing, (Additive, BackOff), "IAVI.smoothing")

    def fit(
        self,
        demonstrations: Demonstrations,
        task: Task,
        *,
        seed: int | None = None,
        progress: bool | None = None,
    ) -> Solution:
        """From counts: smoothed frequencies for the policy, counted transitions if none are known.

        Nothing here is random; ``seed`` is accepted so that every algorithm is called alike.
        """
        began = time.perf_counter()
        if self.backup == "max_of_mean":
            raise InvalidInput(
                "`IAVI(backup='max_of_mean')` must have a known policy and model: use `solve`. On "
                "samples the maximum of a mean has no estimate; use 'max'."
            )
        task, visits = tabulated(demonstrations, task)
        policy = self.smoothing.policy(visits, task.available_table())
        chosen = replace(self, gauge=self._held_out(demonstrations, task))
        found = chosen._recover(policy, task, visits, began, progress)
        return replace(found, info=replace(found.info, settings=plain(self)))

    def _held_out(self, demonstrations: Demonstrations, task: Task) -> Gauge:
        """The gauge, with the prior of its features under which unseen episodes are likeliest."""
        if not isinstance(self.gauge, Features) or self.gauge.ridge is not None:
            return self.gauge
        demonstrations.in_order(
            "`Features` without a `ridge`, which is chosen on held-out episodes,",
            ", or give `Features` its `ridge`",
        )
        if demonstrations.n_episodes < FEWEST_EPISODES:
            return replace(self.gauge, ridge=1.0)
        free, score = task.unconstrained(), dict.fromkeys(RIDGES, 0.0)
        with warnings.catch_warnings():
            # What a part does not identify will be said of the whole.
            warnings.simplefilter("ignore", InverseqWarning)
            for seed in range(SPLITS):
                train, test = demonstrations.split("episode", 0.25, seed=seed)
                for ridge in RIDGES:
                    tried = replace(self, gauge=replace(self.gauge, ridge=ridge))
                    score[ridge] += tried.fit(train, free).score(test)
        return replace(self.gauge, ridge=max(score, key=lambda ridge: score[ridge]))

    def solve(self, policy: Any, task: Task, *, progress: bool | None = None) -> Solution:
        """From a known policy (S, A) and a task with its model."""
        began = time.perf_counter()
        policy = planning.check_policy(policy, task)
        return self._recover(self._supported(policy, task), task, None, began, progress)

    def _supported(self, policy: Table, task: Task) -> Table:
        """Smooth the rows with a zero among the available actions, and say so."""
        available = task.available_table()
        lacking = ((policy == 0) & available).any(axis=1)
        if not lacking.any():
            return policy
        decided = lacking if task.terminal is None else lacking & ~task.terminal
        if decided.any():
            warnings.warn(
                f"{int(decided.sum())} states have an available action of probability 0 (the first "
                f"is state {int(np.flatnonzero(decided)[0])}); there `IAVI.smoothing` decides the "
                f"reward. Compare results for several of its values.",
                NoFullSupport,
                stacklevel=3,
            )
        smoothed = self.smoothing.policy(policy, available)
        return np.where(lacking[:, None], smoothed, policy)

    def _recover(
        self,
        policy: Table,
        task: Task,
        visits: np.ndarray | None,
        began: float,
        progress: bool | None,
    ) -> Solution:
        available = task.available_table()
        unsupported = (policy <= 0) & available
        if unsupported.any():
            s, a = np.argwhere(unsupported)[0]
            raise InvalidInput(
                f"`IAVI.smoothing` must give every available action some probability; action {a} "
                f"in state {s} has none. Use `smoothing=Additive(1e-3)`, or make it unavailable."
            )
        log_pi = task.temperature * np.log(np.where(available, policy, 1.0))
        visited = None if visits is None else visits.sum(axis=1) > 0
        found = gauges.recover(
            log_pi,
            task,
            self.gauge,
            backup=self.backup,
            solver=self.solver,
            tolerance=self.tolerance,
            max_iterations=self.max_iterations,
            weights=visits,
            visited=visited,
            progress=progress,
        )
        info = Info(
            "IAVI",
            settings=plain(self),
            gauge=repr(self.gauge),
            backup=self.backup,
            unvisited_states=None if visited is None else int((~visited).sum()),
            seconds=time.perf_counter() - began,
        )
        return Solution.recovered(found, task, info, visits)
