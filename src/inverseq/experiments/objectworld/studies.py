"""What is computed for one world: a job each, from plain data to rows of results."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

import numpy as np

from inverseq import evaluate, planning
from inverseq.algorithms import DIQL, IQL, Decay, DeepMaxEnt, MaxEnt
from inverseq.demonstrations import Demonstrations
from inverseq.errors import InverseqError, InverseqWarning
from inverseq.experiments.objectworld.methods import (
    CAP_DEEP_MAXENT,
    EXACT,
    METHODS,
    Method,
    measured,
    state_reward,
)
from inverseq.experiments.objectworld.methods import policy as policy_of
from inverseq.experiments.objectworld.paper import LENGTH
from inverseq.nets import MLP
from inverseq.solution import Solution
from inverseq.worlds import World, objectworld

Row = dict[str, Any]


def make(job: dict[str, Any]) -> World:
    """The world of a job."""
    return objectworld(job["size"], job["objects"], discount=job["discount"], seed=job["world"])


def demonstrations(job: dict[str, Any], trajectories: int) -> Demonstrations:
    """Trajectories of the expert; those of a smaller number are the first of a larger one's."""
    most = max(trajectories, job.get("most", 0))
    seen = walked(job["size"], job["objects"], job["discount"], job["world"], most)
    return (
        seen if most == trajectories else seen.select(np.arange(len(seen)) < trajectories * LENGTH)
    )


# Methods on the same data come one after another. The world is made anew for each: its task keeps
# factors, and whoever comes first would pay for them.
@lru_cache(maxsize=1)
def walked(
    size: int, objects: int, discount: float, world: int, trajectories: int
) -> Demonstrations:
    """So many trajectories of the expert of a world."""
    drawn = objectworld(size, objects, discount=discount, seed=world)
    return drawn.demonstrations(trajectories, LENGTH, seed=world)


def fitted(method: Method, world: World, seen: Demonstrations, seed: int) -> Solution:
    """A solution; that it did not converge is said in its row."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InverseqWarning)
        return method.fit(world, seen, seed)


def row(job: dict[str, Any], experiment: str, method: str, **values: Any) -> Row:
    """A result with the names that every row has; None where one does not apply."""
    return {
        "experiment": experiment, "method": method, "world": job["world"], "trajectories": None,
        "evd": None, "evd_squared": None, "reward_correlation": None, "seconds": None,
        "iterations": None, "converged": None, "discount": job["discount"], **values,
    }  # fmt: skip


# -- 1 and 5: the table, its maps, and what the rewards are worth elsewhere ---------------------


def table(job: dict[str, Any]) -> dict[str, Any]:
    """One method on the paper's data set, and its reward carried to other worlds."""
    world, name = make(job), job["method"]
    method, trajectories = (EXACT | METHODS)[name], job["steps"] // LENGTH
    seen = demonstrations(job, trajectories)
    given = None if name in EXACT else trajectories
    found = fitted(method, world, seen, job["world"])
    rows = [
        row(job, "table", title, trajectories=given, **values)
        for title, values in measured(name, found, world)
    ]
    elsewhere = others(world, job)
    rows += transferred(job, name, found.reward_table, elsewhere, given)
    if job["regauged"]:
        carried = state_reward(method, found, world)
        rows += transferred(job, f"{name}, state gauge", carried, elsewhere, given)
    return {"rows": rows, "map": drawn(method, found, world) if job["map"] else None}


def drawn(method: Method, found: Solution, world: World) -> dict[str, Any]:
    """What maps show of a solution: the value of its policy under the true reward, its reward."""
    followed = policy_of(method, found, world)
    return {
        "value": planning.evaluate_policy(followed, world.reward, world.task).tolist(),
        "reward": state_reward(method, found, world).tolist(),
    }


def truth(job: dict[str, Any]) -> dict[str, Any]:
    """What the table is held to: the expert, and what can be had in other worlds."""
    world = make(job)
    rows = [
        row(
            job, "transfer", reference, change=change, draw=draw, evd=best - value, value=value,
        )
        for change, draw, other in others(world, job)
        for best in [evaluate.transfer_return(world.reward, world.reward, other.task)]
        for reference, followed in references(world, other).items()
        for value in [evaluate.expected_return(followed, world.reward, other.task)]
    ]  # fmt: skip
    value = planning.evaluate_policy(world.expert(), world.reward, world.task)
    return {"rows": rows, "map": {"value": value.tolist(), "reward": world.reward.tolist()}}


def others(world: World, job: dict[str, Any]) -> list[tuple[str, int, World]]:
    """Worlds with the same reward and other dynamics."""
    walled = [("15 % walls", seed, world.changed(walls=0.15, seed=seed)) for seed in job["walls"]]
    windy = [(f"wind {wind:g}", 0, world.changed(wind=wind)) for wind in job["winds"]]
    return [("as it was", 0, world), *walled, *windy]


def references(world: World, other: World) -> dict[str, np.ndarray]:
    """What the returns of rewards are held to: policies on the other world."""
    best = planning.solve(world.reward, other.task).greedy
    old = planning.solve(world.reward, world.task).greedy
    return {
        "true reward": evaluate.one_hot(best, other.task.n_actions),
        "old policy kept": evaluate.one_hot(old, other.task.n_actions),
        "uniform policy": other.task.uniform,
    }


def transferred(
    job: dict[str, Any],
    name: str,
    reward: np.ndarray,
    elsewhere: list[tuple[str, int, World]],
    trajectories: int | None,
) -> list[Row]:
    """The returns of the greedy policy for a reward in other worlds, and what it gives away."""
    return [
        row(job, "transfer", name, trajectories=trajectories, change=change, draw=draw,
            evd=best - value, value=value)
        for change, draw, other in elsewhere
        for best, value in [
            [evaluate.transfer_return(r, other.reward, other.task) for r in (other.reward, reward)]
        ]
    ]  # fmt: skip


# -- 2: the number of demonstrations ------------------------------------------------------------


def curve(job: dict[str, Any]) -> list[Row]:
    """One method on one number of trajectories."""
    world, name = make(job), job["method"]
    seen = demonstrations(job, job["trajectories"])
    found = fitted(METHODS[name], world, seen, job["world"])
    return [
        row(job, "curve", title, trajectories=job["trajectories"], **values)
        for title, values in measured(name, found, world)
    ]


# -- 3: learning rates of online IQL ------------------------------------------------------------


def online(job: dict[str, Any]) -> list[Row]:
    """IQL along a stream, with one triple of learning rates: how it does after so many steps."""
    world = make(job)
    expert = world.expert()
    reward, q, shifted = job["rates"] or (Decay(),) * 3
    iql = IQL(lr_reward=reward, lr_q=q, lr_shifted=shifted)
    found, rows, before = None, [], 0
    for block, steps in enumerate(job["checkpoints"]):
        # Each stretch of the stream is new; all triples see the same one.
        stretch = world.demonstrations(
            (steps - before) // LENGTH, LENGTH, seed=10_000 * (job["world"] + 1) + block
        )
        before = steps
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                found = iql.partial_fit(stretch, world.task, found)
                difference = evaluate.value_difference(found.policy_table, world.reward, world.task)
                apart = evaluate.divergence(expert, found.policy_table)
        except InverseqError:
            break  # it diverged; there is nothing to show from here on
        rows.append(
            row(job, "online", job["name"], trajectories=steps // LENGTH, steps=steps,
                evd=difference.evd, evd_squared=difference.evd_squared, divergence=apart)
        )  # fmt: skip
    return rows


# -- 4: value maps for increasing numbers of trajectories ---------------------------------------


def overview(job: dict[str, Any]) -> list[float]:
    """The value that the policy of one method on one number of trajectories truly has."""
    world, method = make(job), METHODS[job["method"]]
    seen = demonstrations(job, job["trajectories"])
    found = fitted(method, world, seen, job["world"])
    value: list[float] = drawn(method, found, world)["value"]
    return value


# -- the appendix's grids of learning rates -----------------------------------------------------


def tune(job: dict[str, Any]) -> list[Row]:
    """One method with one learning rate."""
    world = make(job)
    seen = demonstrations(job, job["trajectories"])
    name, rate, rate_q = job["method"], job["rates"][0], job["rates"][-1]
    tuned = {
        "MaxEnt": lambda: MaxEnt(world.features, learning_rate=rate).fit(seen, world.task),
        "Deep MaxEnt": lambda: DeepMaxEnt.paper(
            world.features, learning_rate=rate, max_iterations=CAP_DEEP_MAXENT
        ).fit(seen, world.task, seed=job["world"]),
        "DIQL": lambda: DIQL(
            policy=world.expert(), iterations=5_000, learning_rate=rate, network=MLP()
        ).fit(seen, world.task, seed=job["world"]),
        "IQL": lambda: IQL(
            lr_reward=rate, lr_q=rate_q, lr_shifted=rate_q, epochs=job["epochs"]
        ).fit(seen, world.task, seed=job["world"]),
    }
    with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", InverseqWarning)
        try:
            results = list(measured(name, tuned[name](), world))
        except InverseqError:
            results = [(name, {"converged": False})]  # it diverged
    return [
        row(job, "tune", title, trajectories=job["trajectories"], rates=job["rates"], **values)
        for title, values in results
    ]
