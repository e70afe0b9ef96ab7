"""The methods that are compared, and how each is measured."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from inverseq import evaluate, planning
from inverseq.algorithms import (
    DIQL,
    IAVI,
    IQL,
    BehaviouralCloning,
    BoltzmannMLE,
    DeepMaxEnt,
    MaxEnt,
)
from inverseq.demonstrations import Demonstrations
from inverseq.errors import InverseqWarning
from inverseq.experiments.objectworld.paper import TOLERANCE
from inverseq.gauges import Features, StateOnly
from inverseq.nets import MLP
from inverseq.solution import Solution
from inverseq.worlds import World

CAP_IQL, CAP_DIQL, CAP_DEEP_MAXENT = 200, 20_000, 2_000
"""Epochs, iterations and steps after which the paper's constant learning rates stop at the latest:
they go on to tremble, and their rows say that they have not converged."""
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
    own: bool = False
    """Whether it assumes a demonstrator of another kind, whose policy is measured as well."""
    given: bool = False
    """Whether it is told the expert's policy, so that it does not compete with those that see steps
    alone."""
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
        lambda w, d, seed: IQL.paper(epochs=CAP_IQL).fit(d, w.task, seed=seed),
        True, gauge="path", paper="IQL",
    ),
    # As in the paper it is given the true distribution of actions, and sees states one by one.
    "DIQL": Method(
        lambda w, d, seed: DIQL(policy=w.expert(), iterations=5_000).fit(d, w.task, seed=seed),
        True, gauge="path", given=True,
    ),
    "DIQL, paper's rates": Method(
        lambda w, d, seed: DIQL.paper(policy=w.expert(), iterations=CAP_DIQL).fit(
            d, w.task, seed=seed
        ),
        True, gauge="path", given=True,
    ),
    "BoltzmannMLE": Method(
        lambda w, d, seed: BoltzmannMLE(w.features, NETWORK).fit(d, w.task, seed=seed),
        True, "reward",
    ),
    "MaxEnt": Method(maxent(), False, "reward", own=True, paper="MaxEnt"),
    "MaxEnt, single step": Method(
        maxent(inner_steps=1), False, "reward", own=True, paper="single-step MaxEnt"
    ),
    "MaxEnt, causal": Method(maxent(causal=True), False, "reward", own=True),
    "MaxEnt, a feature per state": Method(
        lambda w, d, seed: MaxEnt(causal=True, solver="lbfgs").fit(d, w.task),
        False, "reward", own=True,
    ),
    "Deep MaxEnt, paper's network": Method(
        lambda w, d, seed: DeepMaxEnt.paper(w.features, max_iterations=CAP_DEEP_MAXENT).fit(
            d, w.task, seed=seed
        ),
        False, "reward", own=True,
    ),
    "Deep MaxEnt": Method(
        lambda w, d, seed: DeepMaxEnt(w.features).fit(d, w.task, seed=seed),
        False, "reward", own=True,
    ),
    "behavioural cloning": Method(
        lambda w, d, seed: BehaviouralCloning().fit(d, w.task), False, gauge="path"
    ),
}  # fmt: skip
"""By name, in the order of tables."""

EXACT = {
    "IAVI, exact policy": Method(
        lambda w, d, seed: IAVI().solve(w.expert(), w.task), True, gauge="path", given=True
    ),
    "IAVI, exact policy, sweeps": Method(
        lambda w, d, seed: IAVI(solver="sweeps", tolerance=TOLERANCE).solve(w.expert(), w.task),
        True, gauge="path", given=True, paper="IAVI",
    ),
}  # fmt: skip
"""Those that are given the expert's policy itself."""


def centred(features: np.ndarray) -> np.ndarray:
    """Distances from their mean: a constant says nothing, and is not to be held to 0."""
    return np.asarray(features - features.mean(axis=0))


OWN = ", own policy"
"""What the rows of such a policy are called beside the method's."""


def measured(name: str, found: Solution, world: World) -> Iterator[tuple[str, dict[str, Any]]]:
    """How well a solution does, by name: value given away, and whether its reward is the true one.

    A method that assumes another demonstrator has a second entry, for the policy that it assumes.
    """
    method = (EXACT | METHODS)[name]
    correlation = evaluate.reward_correlation(state_reward(method, found, world), world.reward)
    effort = {
        "seconds": found.info.seconds,
        "iterations": found.info.iterations,
        "converged": found.info.converged,
    }
    known = correlation if np.isfinite(correlation) else None
    given_away = difference(policy(method, found, world), world)
    yield name, {**given_away, "reward_correlation": known, **effort}
    if method.own:
        yield name + OWN, {**difference(found.policy_table, world), **effort}


def difference(policy: np.ndarray, world: World) -> dict[str, float]:
    """The value that a policy gives away, three ways."""
    return asdict(evaluate.value_difference(policy, world.reward, world.task))


def base(name: str) -> Method:
    """The method that a row belongs to."""
    return (EXACT | METHODS)[name.removesuffix(OWN)]


def policy(method: Method, found: Solution, world: World) -> np.ndarray:
    """What the method says the expert does, (S, A)."""
    if method.reads == "policy":
        return found.policy_table
    return planning.solve(found.reward_table, world.task).policy


def state_reward(method: Method, found: Solution, world: World) -> np.ndarray:
    """The reward as one of the state, (S,)."""
    if method.gauge == "path":
        with warnings.catch_warnings():
            # Few demonstrations leave much open; the correlation shows it.
            warnings.simplefilter("ignore", InverseqWarning)
            found = found.regauge(StateOnly(), world.task)
    return found.reward_table[:, 0]
