"""BoltzmannMLE: the maximum likelihood of a Boltzmann demonstrator, over a family of rewards.

Like IAVI it takes the demonstrator for Boltzmann over the optimal action values of its reward, but
it asks for the reward of a family (linear in features, or a network of them) under which the
demonstrations are most likely, and so it says something of states that were never visited. The
gradient goes through the fixed point of value iteration by implicit differentiation: one solve
forward and one backward, whatever the number of parameters. Quasi-Newton steps (L-BFGS) climb it.

Equations: ``value``, ``action_value_target``, ``log_boltzmann``; the gradient is
`inverseq.likelihood`. Needs: demonstrations, the model (or what they count); as a rule, features.
Not in the paper: departure 23 in ``docs/departures.md``.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from inverseq import gauges, planning, rewards
from inverseq._checks import as_number, check_choice, check_kind, check_stopping
from inverseq._progress import track
from inverseq.demonstrations import Demonstrations, tabulated
from inverseq.errors import InvalidInput, NotConverged
from inverseq.gauges import Features, StateOnly
from inverseq.likelihood import Demonstrator
from inverseq.nets import MLP
from inverseq.rewards import Family
from inverseq.solution import Info, Solution, plain
from inverseq.task import Task


@dataclass(frozen=True)
class BoltzmannMLE:
    """Maximum likelihood of a Boltzmann demonstrator, with a prior on the reward.

    >>> import inverseq as iq
    >>> world = iq.worlds.objectworld(size=8, n_objects=6, seed=0)
    >>> few = world.demonstrations(episodes=16, length=8, seed=0)
    >>> found = iq.BoltzmannMLE(features=world.features).fit(few, world.task)
    >>> cloned = iq.IAVI().fit(few, world.task)
    >>> more = world.demonstrations(episodes=1000, length=8, seed=1)
    >>> found.score(more) > cloned.score(more)  # it says something of what was not seen
    True
    """

    features: np.ndarray | None = None
    """What the reward may depend on: (S, K) of a state, (S, A, K) of a pair; ``None`` is the state
    itself. They are standardised."""
    network: MLP | None = None
    """The reward as a network of the features; ``None`` is linear in them."""
    ridge: float = 1.0
    """The strength of the prior (Gaussian, mean zero) on the weights of network or features, as if
    every weight had been seen that often to be 0."""
    deviation: float | None = 10.0
    """The same for what each state may deviate from its features; ``None`` lets none deviate."""
    backup: Literal["max", "soft"] = "max"
    """"max" is the paper's demonstrator, "soft" the one of maximum causal entropy."""
    tolerance: float = 1e-7
    """Stop once a step improves the mean log-likelihood (and its prior) by no more than this."""
    max_iterations: int = 1_000
    """How many quasi-Newton steps at most."""

    def __post_init__(self) -> None:
        for name in ("ridge", "deviation"):
            given = getattr(self, name)
            if not (name == "deviation" and given is None) and not 0 <= as_number(given) < np.inf:
                raise InvalidInput(
                    f"`BoltzmannMLE.{name}` must be finite and not negative; got {given!r}."
                )
        if self.network is not None:
            check_kind(self.network, MLP, "BoltzmannMLE.network")
            if self.features is None:
                raise InvalidInput(
                    "`BoltzmannMLE.network` must have features to look at; give `features`."
                )
        check_choice(self.backup, ("max", "soft"), "BoltzmannMLE.backup")
        check_stopping(self.tolerance, self.max_iterations)

    def fit(
        self,
        demonstrations: Demonstrations,
        task: Task,
        *,
        seed: int = 0,
        progress: bool | None = None,
    ) -> Solution:
        """Climb the likelihood; the seed is that of the network's first weights."""
        from scipy import optimize

        minimize: Any = optimize.minimize  # its stubs know no function that returns its gradient
        began = time.perf_counter()
        task, visits = tabulated(demonstrations, task)
        visited = visits.sum(axis=1) > 0
        # Checked before the work: a reward that no policy may follow helps nobody.
        safe = planning.viable(task, visited) if task.constraints else None
        family = self._family(task, seed)
        who = Demonstrator(visits, task, self.backup == "soft")
        prior = family.prior / visits.sum()
        changes: list[float] = []
        last = family.reward(family.start)

        def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
            here = who.at(family.reward(theta))
            slope = family.pull(theta, here.gradient)
            return 0.5 * float(prior @ theta**2) - here.value, prior * theta - slope

        def after(theta: np.ndarray) -> None:
            nonlocal last
            reward = family.reward(theta)
            changes.append(float(np.abs(reward - last).max()))
            last = reward
            next(bar, None)

        bar = track(range(self.max_iterations + 1), "BoltzmannMLE", progress)
        next(bar)
        longest = self.max_iterations
        options: Any = {
            "ftol": self.tolerance, "gtol": 0.0, "maxiter": longest, "maxfun": 100 * longest
        }  # fmt: skip
        best = minimize(
            loss, family.start, jac=True, method="L-BFGS-B", callback=after, options=options
        )
        bar.close()
        # Where the best next action changes the likelihood has an edge; there a line search may
        # find nothing better (status 2) although the slope does not vanish.
        converged = best.status in (0, 2)
        if not converged:
            warnings.warn(
                f"`BoltzmannMLE` stopped after {len(changes)} steps while the reward still changed "
                f"by {changes[-1]:.2g}; raise `max_iterations` or `tolerance`.",
                NotConverged,
                stacklevel=2,
            )
        found = gauges.planned(
            family.reward(best.x), task, safe, self.backup, solver="L-BFGS", changes=changes,
            residual=float(np.abs(best.jac).max(initial=0.0)), converged=converged,
        )  # fmt: skip
        info = Info(
            "BoltzmannMLE",
            settings=plain(self),
            gauge=self._gauge,
            backup=self.backup,
            unvisited_states=int((~visited).sum()),
            seed=None if self.network is None else seed,
        )
        return Solution.recovered(found, task, info, visits).timed(time.perf_counter() - began)

    def _family(self, task: Task, seed: int) -> Family:
        """The rewards among which to look."""
        shape = task.available_table().shape
        if self.features is None:
            return rewards.of_states(shape, self.ridge)
        phi = rewards.standardised(self.features, shape, "BoltzmannMLE.features")
        if self.network is None:
            family = rewards.linear(phi, shape, self.ridge)
        else:
            family = rewards.by_network(phi, shape, self.network, self.ridge, seed)
        if self.deviation is None:
            return family
        return rewards.together(family, rewards.of_states(shape, self.deviation))

    def __eq__(self, other: object) -> bool:
        # Arrays compare entry by entry, settings as a whole.
        return isinstance(other, BoltzmannMLE) and plain(self) == plain(other)

    @property
    def _gauge(self) -> str:
        if self.features is None:
            return repr(StateOnly())
        how = f"by {self.network or 'a linear function'}"
        free = "" if self.deviation is None else ", states may deviate"
        return f"{Features(self.features)!r} {how}{free}"
