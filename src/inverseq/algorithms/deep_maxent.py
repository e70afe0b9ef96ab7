"""DeepMaxEnt: Maximum Entropy Deep Inverse Reinforcement Learning (Wulfmeier et al. 2015).

The reward of a state is what a network makes of its features. The gradient of maximum entropy with
respect to the reward of each state, visits seen minus visits expected, is sent back through the
network to its parameters. The rest is `MaxEnt` of 2008, which is the same with a network that has
no hidden layer.

Equations: ``action_value_target``, ``log_boltzmann``; planning is `inverseq.planning`, visits are
`inverseq.matching`, networks are `inverseq.nets`. Needs: demonstrations in episodes, the model,
counted where it is unknown, and JAX and optax (``inverseq[deep]``).
Departures from the paper: 20 to 22 in ``docs/departures.md``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from inverseq import matching
from inverseq._checks import as_number, check_choice, check_kind, check_stopping
from inverseq._progress import track
from inverseq._random import generator
from inverseq.demonstrations import Demonstrations
from inverseq.errors import InvalidInput
from inverseq.matching import Start, Stationary
from inverseq.nets import MLP, Params, need_jax, need_optax
from inverseq.solution import Info, Solution, plain
from inverseq.task import Task


class State(NamedTuple):
    """What the next step needs."""

    params: Params
    optimiser: Any


class Compiled(NamedTuple):
    """The functions of a network, compiled once for each kind of network and optimiser."""

    begin: Callable[[Params], Any]
    """The state of the optimiser for fresh parameters."""
    reward: Callable[[Params, Any], Any]
    """The reward of each state, from parameters and features."""
    gradient: Callable[[Params, Any, Any, Any], Params]
    """The way uphill, negated: from parameters, features, visits missed, and how strongly weights
    are pulled to 0."""
    step: Callable[[State, Any, Any, Any, Any], tuple[State, Any]]
    """The next state and its reward, from features, visits missed, the learning rate, and how
    strongly weights are pulled to 0."""


@dataclass(frozen=True)
class DeepMaxEnt:
    """Maximum Entropy Deep Inverse Reinforcement Learning: a network's reward of the state.

    >>> import inverseq as iq
    >>> world = iq.worlds.objectworld(size=8, n_objects=8, seed=0)
    >>> seen = world.demonstrations(2_000, 8, seed=0)
    >>> found = iq.DeepMaxEnt(world.features, tolerance=1e-2).fit(seen, world.task, seed=0)
    >>> linear = iq.MaxEnt(world.features).fit(seen, world.task)
    >>> bool(found.score(seen) > linear.score(seen))
    True
    """

    features: np.ndarray | None = None
    """The features (S, K) of the states; None is one feature for each state."""
    network: MLP = MLP(hidden=(64, 64), activation="tanh")
    """The network from features to a reward."""
    learning_rate: float = 1e-2
    """The learning rate at first."""
    halving: float | None = 250.0
    """After how many steps it is half of what it was; None keeps it. Adam's steps are as long at
    the end as at the beginning, so that with a constant rate the reward goes on to tremble. A
    falling one settles by itself: ``info.residual`` says how well."""
    optimiser: Literal["adam", "sgd"] = "adam"
    """How a gradient becomes a step."""
    weight_decay: float = 3.0
    """The precision of a normal prior on all weights: what pulls them to 0, the less the more
    episodes there are. With few, it keeps the network from learning them by heart."""
    clip: float | None = 10.0
    """The longest gradient that is used as it is; longer ones are shortened to it."""
    horizon: int | None = None
    """How many steps of an episode are compared at most; None is the longest episode."""
    start: Start = "seen"
    """Where expected episodes begin: as those that were "seen", or as the "task" says."""
    inner_steps: int | None = None
    """So many backups for each gradient step, from the last values, in place of a full plan."""
    standardise: bool = True
    """Give each feature mean 0 and variance 1 over the states, as networks like it. (One feature
    for each state stays as it is.)"""
    tolerance: float = 1e-4
    """Stop once no reward changes by more in a step, in units of the temperature."""
    max_iterations: int = 3_000
    """How many gradient steps at most."""

    def __post_init__(self) -> None:
        matching.check_matching(self)
        check_stopping(self.tolerance, self.max_iterations)
        check_kind(self.network, MLP, "DeepMaxEnt.network")
        check_kind(self.standardise, bool, "DeepMaxEnt.standardise")
        check_choice(self.optimiser, ("adam", "sgd"), "DeepMaxEnt.optimiser")
        check_choice(self.start, ("seen", "task"), "DeepMaxEnt.start")
        if not 0 <= as_number(self.weight_decay) < np.inf:
            raise InvalidInput(
                f"`DeepMaxEnt.weight_decay` must be finite and not negative; got "
                f"{self.weight_decay!r}."
            )
        for name, value in ("halving", self.halving), ("clip", self.clip):
            if value is not None and not as_number(value) > 0:
                raise InvalidInput(f"`DeepMaxEnt.{name}` must be positive; got {value!r}.")

    def __eq__(self, other: object) -> bool:
        # Arrays compare entry by entry, settings as a whole.
        return isinstance(other, DeepMaxEnt) and plain(self) == plain(other)

    @classmethod
    def paper(cls, features: np.ndarray | None = None, **changes: Any) -> DeepMaxEnt:
        """The settings of the appendix: 3 layers of 3 units, a constant learning rate of 0.001.

        >>> DeepMaxEnt.paper().network
        MLP(hidden=(3, 3, 3), activation='relu', bias=True)
        """
        plainly = cls(
            features,
            MLP(hidden=(3, 3, 3)),
            1e-3,
            halving=None,
            weight_decay=0.0,
            clip=None,
            max_iterations=10_000,
        )
        return replace(plainly, **changes)

    def fit(
        self,
        demonstrations: Demonstrations,
        task: Task,
        *,
        seed: int = 0,
        progress: bool | None = None,
    ) -> Solution:
        """From random parameters, which are all that ``seed`` decides."""
        began = time.perf_counter()
        jax = need_jax()
        task, seen, safe = matching.problem(
            demonstrations, task, self.horizon, self.start, discounted=False
        )
        phi = matching.feature_table(
            self.features, len(seen.visits), self.standardise, "DeepMaxEnt"
        )
        phi = jax.numpy.asarray(phi if self.features is not None else phi.toarray())
        inner, unit = Stationary(task, seen, self.inner_steps), task.temperature
        compiled = functions(self.network, self.optimiser, self.clip)
        pull = self.weight_decay / demonstrations.n_episodes
        key = jax.random.key(int(generator(seed).integers(2**31)))
        params = self.network.init(key, phi.shape[1], 1)
        state = State(params, compiled.begin(params))
        reward = as_doubles(compiled.reward(params, phi))
        changes: list[float] = []
        for k in track(range(self.max_iterations), "DeepMaxEnt steps", progress):
            missed = inner.missed(unit * reward)
            rate = self.learning_rate * (1.0 if self.halving is None else 0.5 ** (k / self.halving))
            state, after = compiled.step(state, phi, missed, rate, pull)
            before, reward = reward, as_doubles(after)
            changes.append(matching.moved(before, reward, "DeepMaxEnt", k + 1))
            if changes[-1] < self.tolerance:
                break
        converged = changes[-1] < self.tolerance
        advice = ", or let the learning rate fall faster with `halving`"
        matching.warn_unless(converged, changes, "DeepMaxEnt", advice)
        gradient = compiled.gradient(state.params, phi, inner.missed(unit * reward), pull)
        residual = max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(gradient))
        found = matching.solution(
            unit * reward, task, safe, seen, Info("DeepMaxEnt", settings=plain(self), seed=seed),
            solver=self.optimiser, changes=changes, converged=converged, residual=residual,
            features=self.features, start=self.start,
        )  # fmt: skip
        return found.timed(time.perf_counter() - began)


@lru_cache(maxsize=16)
def functions(net: MLP, optimiser: str, clip: float | None) -> Compiled:
    """What is compiled, kept from one fit to the next."""
    jax, optax = need_jax(), need_optax()

    parts = [optax.clip_by_global_norm(clip)] if clip is not None else []
    parts += [optax.scale_by_adam() if optimiser == "adam" else optax.identity()]
    chain = optax.chain(*parts)

    def reward(params: Params, phi: Any) -> Any:
        return net.apply(params, phi)[:, 0]

    def gradient(params: Params, phi: Any, missed: Any, pull: Any) -> Params:
        now, back = jax.vjp(lambda params: reward(params, phi), params)
        # optax goes downhill.
        (likelihood,) = back(-missed.astype(now.dtype))
        return jax.tree.map(lambda g, p: g + pull * p, likelihood, params)

    def step(state: State, phi: Any, missed: Any, rate: Any, pull: Any) -> tuple[State, Any]:
        downhill = gradient(state.params, phi, missed, pull)
        updates, kept = chain.update(downhill, state.optimiser, state.params)
        updates = jax.tree.map(lambda u: -rate * u, updates)
        params = optax.apply_updates(state.params, updates)
        return State(params, kept), reward(params, phi)

    return Compiled(chain.init, jax.jit(reward), jax.jit(gradient), jax.jit(step))


def as_doubles(reward: Any) -> np.ndarray:
    """A reward as NumPy knows it."""
    return np.asarray(reward, dtype=float)
