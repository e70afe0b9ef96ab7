"""What is computed: steps that are driven, networks that are trained, agents that are tried.

Everything is named by what it depends on. Steps and networks are files under such a name, and are
made where something needs them; what a trial found is kept as plain data, and needs no files any
more.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from inverseq._random import generator
from inverseq.demonstrations import Demonstrations
from inverseq.errors import InverseqWarning
from inverseq.experiments.jobs import fingerprint
from inverseq.io import storage
from inverseq.nets import DeepSets
from inverseq.report import replay_page, still, to_plain
from inverseq.solution import Solution, load
from inverseq.task import Task
from inverseq.worlds import highway
from inverseq.worlds.highway import policies

Job = dict[str, Any]

DECISIONS = 100
"""Of an episode."""
SHARD = 50
"""How many episodes are driven at once."""
TRAINED_ON: Literal["T2"] = "T2"
"""The mixture of drivers among whom the expert learns."""
WAVERING = 0.1
"""The share of decisions in half of the demonstrations that are anything that is safe."""
RATES: Mapping[str, Mapping[str, Any]] = {
    "paper": {"learning_rate": 1e-4, "tau": 1e-4},
    "ours": {"learning_rate": 3e-4, "tau": 5e-3},
}
"""The paper's learning rate and step of targets, and those by which values settle."""
NETWORK = DeepSets(members=32, features=3, static=3)
"""The architecture of the appendix."""


def task() -> Task:
    """What is assumed on the highway, with its rules."""
    return highway.task()


# -- who learns ----------------------------------------------------------------------------------


def diql(rates: str, iterations: int) -> Any:
    """Deep inverse Q-learning with clipped double Q; as printed with the paper's rates."""
    from inverseq.algorithms import DIQL

    return DIQL(
        network=NETWORK, double=True, centred=rates == "ours", iterations=iterations, **RATES[rates]
    )


def zero(rates: str, iterations: int) -> Any:
    """The same in the zero gauge."""
    return replace(diql(rates, iterations), gauge="zero", centred=True)


def dqn(rates: str, iterations: int) -> Any:
    """Deep Q-learning on the true reward."""
    from inverseq.algorithms import DQN

    return DQN(network=NETWORK, double=True, iterations=iterations, **RATES[rates])


def cloning(rates: str, iterations: int) -> Any:
    """Behavioural cloning; it has no targets."""
    from inverseq.algorithms import BehaviouralCloning, Classifier

    rate = RATES[rates]["learning_rate"]
    return BehaviouralCloning(
        classifier=Classifier(network=NETWORK, learning_rate=rate, iterations=iterations)
    )


LEARNERS: dict[str, Callable[[str, int], Any]] = {
    "DIQL": diql,
    "zero gauge": zero,
    "DQN": dqn,
    "cloning": cloning,
}
"""By name; each learns with the rules and without them at once, where it can."""


def free(found: Solution) -> policies.Policy:
    """Drive as the solution would without the rule to keep right."""
    return policies.Learned(found, constrained=False)


def masked(found: Solution) -> policies.Policy:
    """The same, and whatever the rule forbids is masked when acting."""
    return policies.Obeying(free(found), (highway.keep_right(),))


DRIVERS: dict[str, Callable[[Solution], policies.Policy]] = {
    "free": free,
    "masked": masked,
    "constrained": policies.Learned,
}


# -- steps ---------------------------------------------------------------------------------------


def shards(job: Job) -> Iterator[Job]:
    """The parts of a data set, each driven at once.

    >>> [part["episodes"] for part in shards({"episodes": 120, "seed": 0})]
    [50, 50, 20]
    """
    for first in range(0, job["episodes"], SHARD):
        yield {**job, "first": first, "episodes": min(SHARD, job["episodes"] - first)}


def driven(folder: str, part: Job) -> Path:
    """The file of the steps of one part."""
    return place(folder, "steps", part).with_suffix(".parquet")


def drive(folder: str, job: Job) -> str:
    """Drive one part of a data set, and keep its steps in a file, unless it is there."""
    path = driven(folder, job)
    if path.exists():
        return str(path)
    scenarios = highway.training_scenarios(
        job["episodes"], TRAINED_ON, seed=10_000 * job["seed"] + job["first"]
    )
    driver: policies.Policy = policies.random
    if job["expert"]:
        driver = policies.Learned(trained(folder, job["expert"]), constrained=False)
        if job["wavers"]:
            driver = policies.Wavering(driver, WAVERING)
    seen = highway.rollouts(scenarios, driver, decisions=DECISIONS, workers=0, progress=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    seen.demonstrations().save(path)
    return str(path)


def steps(folder: str, data: Iterable[Job]) -> Demonstrations:
    """All steps of some data sets."""
    parts = [drive(folder, part) for job in data for part in shards(job)]
    return Demonstrations.concatenate([Demonstrations.load(part) for part in parts])


def some(seen: Demonstrations, n: int | None, seed: int) -> Demonstrations:
    """So many steps, one after another; other seeds have those of other episodes."""
    if n is None or n >= len(seen):
        return seen
    first = generator(seed).integers(seen.n_episodes) * DECISIONS
    return seen.select((np.arange(len(seen)) - first) % len(seen) < n)


# -- training ------------------------------------------------------------------------------------


def place(folder: str, kind: str, job: Job) -> Path:
    """Where what a job makes is kept."""
    return Path(folder) / kind / fingerprint(place, job)


def solutions(folder: str, job: Job, milestones: Iterable[int]) -> list[Path]:
    """The folders of what a training came to, after some numbers of iterations."""
    return [place(folder, "solutions", {**job, "iterations": n}) for n in milestones]


def complete(folder: str, job: Job, milestones: Iterable[int]) -> bool:
    """Whether a training need not be done again."""
    return all(path.exists() for path in solutions(folder, job, milestones))


def train(folder: str, job: Job, milestones: list[int]) -> list[str]:
    """Train, and keep a solution after each of some numbers of iterations, unless it is there."""
    folders = solutions(folder, job, milestones)
    if not complete(folder, job, milestones):
        seen = some(steps(folder, job["data"]), job["samples"], job["seed"])
        progress = place(folder, "training", job)
        for path, n in zip(folders, milestones, strict=True):
            algorithm = LEARNERS[job["learner"]](job["rates"], n)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", InverseqWarning)
                found = algorithm.fit(
                    seen, task(), seed=job["seed"], progress=False, checkpoint=progress
                )
            if found.info.iterations < n:
                # A fit that is interrupted ends with what it came to: that is not what was asked.
                raise KeyboardInterrupt
            if not path.exists():
                found.save(path)
        shutil.rmtree(progress)
    return list(map(str, folders))


def trained(folder: str, job: Job) -> Solution:
    """A solution that was kept; trained where it is not there."""
    without = {name: value for name, value in job.items() if name != "iterations"}
    (path,) = train(folder, without, [job["iterations"]])
    return load(path, task())


# -- trials --------------------------------------------------------------------------------------


def trial(job: Job) -> dict[str, Any]:
    """Drive the evaluation's scenarios, or the first of each number of vehicles."""
    found = trained(job["folder"], job["agent"])
    scenarios = [
        scenario for scenario in highway.evaluation_scenarios(job["traffic"])
        if scenario.seed < job["each"]
    ]  # fmt: skip
    seen = highway.rollouts(
        scenarios, DRIVERS[job["driver"]](found), decisions=DECISIONS, workers=0, progress=False
    )
    return {
        "vehicles": [scenario.n for scenario in scenarios],
        "speeds": [round(float(speed), 3) for speed in seen.speeds.mean(axis=1)],
        "keep_right": seen.keep_right.tolist(),
        "safety": int(seen.safety.sum()),
        "collisions": int(seen.collisions.sum()),
        "lane_changes": round(float((seen.actions != 0).mean()), 5),
        "seconds": found.info.seconds,
        "residual": found.info.residual,
        "converged": found.info.converged,
    }


# -- to look at ----------------------------------------------------------------------------------

REPLAY = "drive.html"
"""The page that plays agents side by side, in the folder of the run."""


def replay(job: Job) -> dict[str, Any]:
    """Agents in one scenario: a page that plays them, and a still of the last one's first change.

    The page is a file; what is returned is the still, as plain data.
    """
    scenario = highway.Scenario(**job["scenario"])
    traces = []
    for agent, driver in job["agents"].values():
        found = trained(job["folder"], agent)
        values = found.q_constrained if driver == "constrained" else found.q
        traces.append(
            highway.record_trace(
                scenario, DRIVERS[driver](found), values=values, decisions=job["decisions"]
            )
        )
    page = replay_page(traces, list(job["agents"]))
    storage.write_file(Path(job["folder"]) / REPLAY, page.encode())
    changes = [i for i, step in enumerate(traces[-1]["steps"]) if step["executed"]]
    return to_plain(still(traces[-1], changes[0] if changes else 0))


# -- the map of values -----------------------------------------------------------------------------

SCENE = 160
"""Metres of the road that the map shows."""
CARS = (20.0, 140.0)
"""Where on it two slow cars drive on the right lane; front bumpers."""
EGO_SPEED, CAR_SPEED = 20.0, 15.0
LENGTH = 5.0


def value_map(job: Job) -> dict[str, Any]:
    """Values and best actions of some agents, wherever the ego could be in the scene.

    Rows are lanes, the left one first; columns are metres. None where another car is.
    """
    maps = {}
    for name, (agent, driver) in job["agents"].items():
        found = trained(job["folder"], agent)
        constrained = driver == "constrained"
        rows, places = [], []
        for lane in (2, 1, 0):
            for metre in range(SCENE):
                taken = lane == 0 and any(abs(metre - car) < LENGTH for car in CARS)
                places.append(not taken)
                rows.append(
                    highway.observe(
                        400.0 + np.array([metre, *CARS]),
                        np.array([lane, 0, 0]),
                        np.array([EGO_SPEED, CAR_SPEED, CAR_SPEED]),
                    )
                )
        states = np.stack(rows)
        value = found.value_constrained(states) if constrained else found.value(states)
        action = found.predict(states, constrained=constrained)
        maps[name] = {
            "value": [float(v) if free else None for v, free in zip(value, places, strict=True)],
            "action": [int(a) if free else -1 for a, free in zip(action, places, strict=True)],
        }
    return maps
