"""MaxEnt: Maximum Entropy Inverse Reinforcement Learning (Ziebart et al. 2008; causal: 2010).

Among all ways to behave that show the features of the demonstrations as often as they do, the one
of greatest entropy commits itself to nothing else, and it is soft-optimal for a reward linear in
the features. Its weights are found by climbing: plan for a reward, see how often the plan would
visit each state, and move the weights by what was seen minus what is expected. The form of 2008
plans as if there were no end and counts visits up to a horizon; the causal form knows how many
steps are to go, and so climbs the likelihood itself.

Equations: ``action_value_target``, ``log_boltzmann``; planning is `inverseq.planning`, visits are
`inverseq.matching`. Needs: demonstrations in episodes, and the model, counted where it is unknown.
Departures from the paper: 19 to 21 in ``docs/departures.md``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from inverseq import matching
from inverseq._checks import check_choice, check_kind, check_stopping
from inverseq._progress import track
from inverseq.demonstrations import Demonstrations
from inverseq.errors import InvalidInput
from inverseq.matching import Causal, Seen, Start, Stationary
from inverseq.solution import Info, Solution, plain
from inverseq.task import Task


def step(weights: np.ndarray, phi: Any, missed: np.ndarray, learning_rate: float) -> np.ndarray:
    """Move the weights by the features that were seen and not expected."""
    return np.asarray(weights + learning_rate * (phi.T @ missed))


@dataclass(frozen=True)
class MaxEnt:
    """Maximum Entropy Inverse Reinforcement Learning: a reward linear in features of the state.

    >>> import inverseq as iq
    >>> world = iq.worlds.objectworld(size=8, n_objects=8, seed=0)
    >>> seen = world.demonstrations(2_000, 8, seed=0)
    >>> found = iq.MaxEnt(world.features, causal=True, solver="lbfgs").fit(seen, world.task)
    >>> found.info.task["horizon"], found.info.task["start"], bool(found.info.residual < 1e-2)
    (8, 'seen', True)
    """

    features: np.ndarray | None = None
    """The features (S, K) of the states; None is one feature for each state."""
    causal: bool = False
    """Plan with the number of steps to go, and discount visits as well as values (2010). An episode
    that was cut is taken to have been planned for its length."""
    solver: Literal["ascent", "lbfgs"] = "ascent"
    """Gradient ascent as in the paper, or a quasi-Newton method: for the causal form, which alone
    has an objective."""
    horizon: int | None = None
    """How many steps of an episode are compared at most; None is the longest episode."""
    start: Start = "seen"
    """Where expected episodes begin: as those that were "seen", or as the "task" says."""
    inner_steps: int | None = None
    """So many backups for each gradient step, from the last values, in place of a full plan; 1 is
    the single-step variant."""
    standardise: bool = False
    """Give each feature mean 0 and variance 1 over the states. (One feature for each state stays
    as it is.)"""
    learning_rate: float = 0.01
    """How far a step of gradient ascent goes; the gradient is per episode."""
    tolerance: float = 1e-4
    """Stop once no reward changes by more in a step, in units of the temperature."""
    max_iterations: int = 3_000
    """How many gradient steps at most."""

    def __post_init__(self) -> None:
        matching.check_matching(self)
        check_stopping(self.tolerance, self.max_iterations)
        check_choice(self.solver, ("ascent", "lbfgs"), "MaxEnt.solver")
        check_choice(self.start, ("seen", "task"), "MaxEnt.start")
        for name in ("causal", "standardise"):
            check_kind(getattr(self, name), bool, f"MaxEnt.{name}")
        if self.solver == "lbfgs" and not self.causal:
            raise InvalidInput(
                "`MaxEnt(solver='lbfgs')` must be used with `causal=True`: the update of 2008 is "
                "the gradient of no objective. Use `solver='ascent'`, or the causal form."
            )
        if self.inner_steps is not None and self.causal:
            raise InvalidInput(
                f"`MaxEnt.inner_steps` must be None with `causal=True`, whose plan takes as many "
                f"backups as the horizon has steps; got {self.inner_steps!r}."
            )

    def __eq__(self, other: object) -> bool:
        # Arrays compare entry by entry, settings as a whole.
        return isinstance(other, MaxEnt) and plain(self) == plain(other)

    def fit(
        self,
        demonstrations: Demonstrations,
        task: Task,
        *,
        seed: int | None = None,
        progress: bool | None = None,
    ) -> Solution:
        """From weights of 0; nothing is random, ``seed`` is there so that all are called alike."""
        began = time.perf_counter()
        task, seen, safe = matching.problem(
            demonstrations, task, self.horizon, self.start, discounted=self.causal
        )
        phi = matching.feature_table(self.features, len(seen.visits), self.standardise, "MaxEnt")
        inner = self.inner(task, seen)
        climb = self._quasi_newton if self.solver == "lbfgs" else self._ascend
        weights, changes, converged = climb(inner, phi, task.temperature, progress)
        matching.warn_unless(converged, changes, "MaxEnt")
        reward = task.temperature * (phi @ weights)
        # Of the equation itself: a single backup that stands still is not yet a plan.
        exact = inner if self.inner_steps is None else Stationary(task, seen)
        residual = float(np.abs(phi.T @ exact.missed(reward)).max())
        found = matching.solution(
            reward, task, safe, seen, Info("MaxEnt", settings=plain(self)),
            solver=self.solver, changes=changes, converged=converged, residual=residual,
            features=self.features, start=self.start,
        )  # fmt: skip
        return found.timed(time.perf_counter() - began)

    def inner(self, task: Task, seen: Seen) -> Stationary | Causal:
        """What says, for a reward, by how much expected visits miss those that were seen."""
        return Causal(task, seen) if self.causal else Stationary(task, seen, self.inner_steps)

    def _ascend(
        self, inner: Stationary | Causal, phi: Any, unit: float, progress: bool | None
    ) -> tuple[np.ndarray, list[float], bool]:
        weights = np.zeros(phi.shape[1])
        reward = phi @ weights
        changes: list[float] = []
        for _ in track(range(self.max_iterations), "MaxEnt steps", progress):
            weights = step(weights, phi, inner.missed(unit * reward), self.learning_rate)
            with np.errstate(over="ignore", invalid="ignore"):  # said in words below
                before, reward = reward, phi @ weights
            changes.append(matching.moved(before, reward, "MaxEnt", len(changes) + 1))
            if changes[-1] < self.tolerance:
                break
        return weights, changes, changes[-1] < self.tolerance

    def _quasi_newton(
        self, inner: Stationary | Causal, phi: Any, unit: float, progress: bool | None
    ) -> tuple[np.ndarray, list[float], bool]:
        from scipy.optimize import minimize as search

        assert isinstance(inner, Causal)
        causal = inner
        changes: list[float] = []
        reward = np.zeros(phi.shape[0])

        def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
            missed = causal.missed(unit * (phi @ weights))
            return -causal.value / unit, -np.asarray(phi.T @ missed)

        def after(weights: np.ndarray) -> None:
            nonlocal reward
            before, reward = reward, phi @ weights
            changes.append(matching.moved(before, reward, "MaxEnt", len(changes) + 1))
            if changes[-1] < self.tolerance:
                raise StopIteration

        options = {"maxiter": self.max_iterations, "maxfun": 20 * self.max_iterations}
        minimize: Any = search
        found = minimize(
            loss, np.zeros(phi.shape[1]), jac=True, method="L-BFGS-B", callback=after,
            options=options | {"ftol": 0.0, "gtol": 1e-12},
        )  # fmt: skip
        # Where no step is left that rounding lets improve anything, nothing changes any more.
        stuck = found.status == 2 and float(np.abs(found.jac).max()) <= self.tolerance
        still = bool(changes) and changes[-1] < self.tolerance
        return found.x, changes, still or found.status == 0 or stuck
