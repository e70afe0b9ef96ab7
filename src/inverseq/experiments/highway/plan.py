"""Who is trained on what, who is tried where, and what has to be made for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from inverseq._processes import side_by_side
from inverseq._progress import track
from inverseq.experiments.highway import stages
from inverseq.experiments.highway.paper import ITERATIONS
from inverseq.experiments.highway.stages import Job


class Scale(NamedTuple):
    """How much is computed."""

    expert_episodes: int
    """Episodes of the driver from whose steps the expert learns."""
    shown_episodes: int
    """Episodes of the expert, in each half of the demonstrations."""
    iterations: int
    milestones: tuple[int, ...]
    """After how many iterations agents are tried as well."""
    rates: tuple[str, ...]
    samples: tuple[int, ...]
    """Numbers of steps from which DCIQL learns."""
    sample_seeds: int
    each: int
    """Scenarios of each number of vehicles."""
    few: int
    """As many of them are driven to see how fast somebody learns."""


FULL = Scale(
    expert_episodes=5_000,
    shown_episodes=250,
    iterations=ITERATIONS,
    milestones=(1_000, 3_000, 10_000, 30_000),
    rates=("ours", "paper"),
    samples=(10, 100, 1_000, 25_000),
    sample_seeds=2,
    each=20,
    few=4,
)
QUICK = FULL._replace(
    expert_episodes=200,
    shown_episodes=50,
    iterations=3_000,
    milestones=(1_000,),
    rates=("ours",),
    samples=(100,),
    sample_seeds=1,
    each=2,
    few=1,
)

AGENTS: dict[str, tuple[str, str, str]] = {
    "expert": ("DQN", "expert's", "free"),
    "expert, masked": ("DQN", "expert's", "masked"),
    "DIQL": ("DIQL", "demonstrations", "free"),
    "DIQL, masked": ("DIQL", "demonstrations", "masked"),
    "DCIQL": ("DIQL", "demonstrations", "constrained"),
    "DCIQL, zero gauge": ("zero gauge", "demonstrations", "constrained"),
    "CDQN": ("DQN", "demonstrations", "constrained"),
    "CDQN, the expert's samples": ("DQN", "expert's", "constrained"),
    "cloning": ("cloning", "demonstrations", "free"),
    "cloning, masked": ("cloning", "demonstrations", "masked"),
}
"""Who learned, from which steps, and how it then drives."""
LEARNING = ("expert", "DCIQL", "CDQN", "CDQN, the expert's samples")
"""Whose speed is followed along their training; the expert's where it learned."""
MAPPED = ("expert", "DCIQL")


def make(
    folder: str, plan: Plan, needed: Sequence[Job], workers: int, progress: bool | None
) -> None:
    """Drive the steps that are needed, train whom it takes, in that order."""
    trainings = [training(agent) for agent in needed]
    shown = [data for job in trainings for data in job["data"] if data["expert"]]
    if any(not path.exists() for path in files(folder, shown)):
        trainings.append(training(plan.expert))
    # Whoever is trained is kept at all points at which some study looks.
    looked_at = grouped([*(job["agent"] for job in plan.trials()), plan.expert])
    for of_expert in (False, True):
        left = [
            (folder, job, numbers)
            for job, numbers in looked_at
            if job in trainings
            and any(data["expert"] for data in job["data"]) == of_expert
            and not stages.complete(folder, job, numbers)
        ]
        data = [data for _, job, _ in left for data in job["data"]]
        parts = dict(zip(files(folder, data), parts_of(data), strict=True))
        missing = [(folder, part) for path, part in parts.items() if not path.exists()]
        each(stages.drive, missing, workers, "highway: collecting", progress)
        each(stages.train, left, workers, "highway: training", progress)


def parts_of(data: Iterable[Job]) -> list[Job]:
    """The parts of data sets."""
    return [part for job in data for part in stages.shards(job)]


def files(folder: str, data: Iterable[Job]) -> list[Path]:
    """Their files."""
    return [stages.driven(folder, part) for part in parts_of(data)]


def training(agent: Job) -> Job:
    """The training that an agent comes from, at whatever point."""
    return {name: value for name, value in agent.items() if name != "iterations"}


def each(
    work: Any, jobs: Sequence[tuple[Any, ...]], workers: int, what: str, progress: bool | None
) -> None:
    """Do jobs that leave files, side by side."""
    if jobs:
        results = side_by_side(work, jobs, min(workers, len(jobs)))
        for _ in track(jobs, what, progress):
            next(results)


def grouped(agents: Iterable[Job]) -> list[tuple[Job, list[int]]]:
    """Trainings, each with the numbers of iterations after which it is looked at.

    >>> grouped([{"seed": 1, "iterations": 9}, {"seed": 1, "iterations": 3}])
    [({'seed': 1}, [3, 9])]
    """
    found: list[tuple[Job, set[int]]] = []
    for agent in agents:
        job = training(agent)
        numbers = next((numbers for other, numbers in found if other == job), None)
        if numbers is None:
            found.append((job, numbers := set()))
        numbers.add(agent["iterations"])
    return [(job, sorted(numbers)) for job, numbers in found]


@dataclass(frozen=True)
class Plan:
    """Who is trained on what, and who is tried where."""

    scale: Scale
    seeds: Sequence[int]

    @property
    def collected(self) -> list[Job]:
        """What the expert learns from."""
        return [{"expert": None, "wavers": False, "seed": 0,
                 "episodes": self.scale.expert_episodes}]  # fmt: skip

    @property
    def expert(self) -> Job:
        """The one who is imitated."""
        return self.agent("expert", "ours", self.seeds[0], self.scale.iterations)

    @property
    def demonstrations(self) -> list[Job]:
        """What it shows."""
        return [
            {"expert": self.expert, "wavers": wavers, "seed": 1 + wavers,
             "episodes": self.scale.shown_episodes}
            for wavers in (False, True)
        ]  # fmt: skip

    def agent(
        self, name: str, rates: str, seed: int, iterations: int, samples: int | None = None
    ) -> Job:
        """A training: who learns what from which steps."""
        learner, source, _ = AGENTS[name]
        data = self.collected if source == "expert's" else self.demonstrations
        return {"learner": learner, "rates": rates, "seed": seed, "samples": samples,
                "data": data, "iterations": iterations}  # fmt: skip

    def trials(self) -> Iterator[Job]:
        """Everybody who drives, in every experiment."""
        s = self.scale

        def trial(experiment: str, name: str, traffic: str, each: int, **agent: Any) -> Job:
            return {"experiment": experiment, "method": name, "agent": self.agent(name, **agent),
                    "driver": AGENTS[name][2], "traffic": traffic, "each": each}  # fmt: skip

        for rates in s.rates:
            for traffic in ("T1", "T2"):
                for seed in self.seeds:
                    for name in AGENTS:
                        if rates == "ours" or "cloning" not in name:
                            yield trial("agents", name, traffic, s.each, rates=rates, seed=seed,
                                        iterations=s.iterations)  # fmt: skip
        for seed in range(s.sample_seeds):
            for n in s.samples:
                yield trial("samples", "DCIQL", "T1", s.each, rates="ours", seed=seed,
                            iterations=s.iterations, samples=n)  # fmt: skip
        for rates in s.rates:
            for seed in self.seeds:
                for name in LEARNING:
                    traffic = stages.TRAINED_ON if name == "expert" else "T1"
                    for n in (*s.milestones, s.iterations):
                        yield trial("iterations", name, traffic, s.few, rates=rates, seed=seed,
                                    iterations=n)  # fmt: skip

    def shown(self) -> Job:
        """Who is shown side by side, on the German road."""
        scenario = {"traffic": "T1", "n": 60, "seed": 0}
        return {**self.map(), "scenario": scenario, "decisions": stages.DECISIONS}

    def map(self) -> Job:
        """Whose values are drawn."""
        agents = {
            name: (self.agent(name, "ours", self.seeds[0], self.scale.iterations), AGENTS[name][2])
            for name in MAPPED
        }
        return {"agents": agents}


def row(job: Job, found: dict[str, Any]) -> dict[str, Any]:
    """A trial as a row of results; the lists have one entry for each scenario."""
    agent = job["agent"]
    speeds = found["speeds"]
    return {
        "experiment": job["experiment"],
        "method": job["method"],
        "rates": agent["rates"],
        "seed": agent["seed"],
        "samples": agent["samples"],
        "iterations": agent["iterations"],
        "traffic": job["traffic"],
        "speed": sum(speeds) / len(speeds),
        "decisions": len(speeds) * stages.DECISIONS,
        **found,
        "breaches": found["keep_right"],
        "keep_right": sum(found["keep_right"]),
    }
