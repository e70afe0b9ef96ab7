"""The methods that are compared, and how each is measured."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from inverseq import evaluate, planning
from inverseq.algorithms import IAVI, IQL, BehaviouralCloning, BoltzmannMLE, DeepMaxEnt, MaxEnt
from inverseq.demonstrations import Demonstrations
from inverseq.errors import InverseqWarning
from inverseq.experiments.objectworld.paper import TOLERANCE
from inverseq.gauges import Features, StateOnly
from inverseq.nets import MLP
from inverseq.solution import Solution
from inverseq.worlds import World

NETWORK = MLP((32, 32), "tanh")
"""What BoltzmannMLE looks at the features with."""


@dataclass(frozen=True)
class Method:
    """A method, and how its answer is read."""

    fit: Callable[[World, Demonstrations, int], Solution]
    """From a world, demonstrations and a seed."""
    ours: bool
    """Whether it is this library's (or the paper's) rather than a baseline."""
    reads: Literal["policy", "reward"] = "policy"
    """Whether its policy is what it fitted, or the Boltzmann policy of the reward that it found."""
    gauge: Literal["state", "path"] = "state"
    """Whether its reward is one of the state, or must first be brought to the state gauge."""
    paper: str = ""
    """Which column of the paper's table it corresponds to."""


def maxent(**changes: Any) -> Callable[[World, Demonstrations, int], Solution]:
    """MaxEnt on the continuous features of the world."""
    return lambda world, seen, seed: MaxEnt(world.features, **changes).fit(seen, world.task)


METHODS = {
    "IAVI": Method(lambda w, d, seed: IAVI().fit(d, w.task), True, gauge="path"),
    "IAVI, state gauge": Method(
        lambda w, d, seed: IAVI(gauge=StateOnly()).fit(d, w.task), True, "reward"
    ),
    "IAVI, features": Method(
        lambda w, d, seed: IAVI(gauge=Features(centred(w.features))).fit(d, w.task), True, "reward"
    ),
    "IQL": Method(lambda w, d, seed: IQL().fit(d, w.task, seed=seed), True, gauge="path"),
    "IQL, paper's rates": Method(
        lambda w, d, seed: IQL.paper(epochs=200).fit(d, w.task, seed=seed),
        True, gauge="path", paper="IQL",
    ),
    "BoltzmannMLE": Method(
        lambda w, d, seed: BoltzmannMLE(w.features, NETWORK).fit(d, w.task, seed=seed),
        True, "reward",
    ),
    "MaxEnt": Method(maxent(), False, "reward", paper="MaxEnt"),
    "MaxEnt, single step": Method(
        maxent(inner_steps=1), False, "reward", paper="single-step MaxEnt"
    ),
    "MaxEnt, causal": Method(maxent(causal=True), False, "reward"),
    "MaxEnt, a feature per state": Method(
        lambda w, d, seed: MaxEnt(causal=True, solver="lbfgs").fit(d, w.task), False, "reward"
    ),
    "Deep MaxEnt, paper's network": Method(
        lambda w, d, seed: DeepMaxEnt.paper(w.features).fit(d, w.task, seed=seed), False, "reward"
    ),
    "Deep MaxEnt": Method(
        lambda w, d, seed: DeepMaxEnt(w.features).fit(d, w.task, seed=seed), False, "reward"
    ),
    "behavioural cloning": Method(
        lambda w, d, seed: BehaviouralCloning().fit(d, w.task), False, gauge="path"
    ),
}  # fmt: skip
"""By name, in the order of tables."""

EXACT = {
    "IAVI, exact policy": Method(
        lambda w, d, seed: IAVI().solve(w.expert(), w.task), True, gauge="path"
    ),
    "IAVI, exact policy, sweeps": Method(
        lambda w, d, seed: IAVI(solver="sweeps", tolerance=TOLERANCE).solve(w.expert(), w.task),
        True, gauge="path", paper="IAVI",
    ),
}  # fmt: skip
"""Those that are given the expert's policy itself."""


def centred(features: np.ndarray) -> np.ndarray:
    """Distances from their mean: a constant says nothing, and is not to be held to 0."""
    return np.asarray(features - features.mean(axis=0))


def measured(method: Method, found: Solution, world: World) -> dict[str, Any]:
    """How well a solution does: value given away, and whether its reward is the true one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InverseqWarning)
        difference = evaluate.value_difference(
            policy(method, found, world), world.reward, world.task
        )
        correlation = evaluate.reward_correlation(state_reward(method, found, world), world.reward)
    return {
        **asdict(difference),
        "reward_correlation": correlation if np.isfinite(correlation) else None,
        "seconds": found.info.seconds,
        "iterations": found.info.iterations,
        "converged": found.info.converged,
    }


def policy(method: Method, found: Solution, world: World) -> np.ndarray:
    """What the method says the expert does, (S, A)."""
    if method.reads == "policy":
        return found.policy_table
    return planning.solve(found.reward_table, world.task).policy


def state_reward(method: Method, found: Solution, world: World) -> np.ndarray:
    """The reward as one of the state, (S,)."""
    if method.gauge == "path":
        found = found.regauge(StateOnly(), world.task)
    return found.reward_table[:, 0]
