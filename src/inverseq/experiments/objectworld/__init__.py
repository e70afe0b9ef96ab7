"""The paper's Objectworld experiments, with every method given the same care.

A table of methods on the paper's data set, the number of demonstrations, online learning rates,
value maps, and what the rewards are worth in other worlds. What the paper leaves open is decided in
`paper.UNSAID` and said in README.md beside this file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from inverseq.errors import InvalidInput
from inverseq.experiments import command
from inverseq.experiments.jobs import Job, done
from inverseq.experiments.objectworld import studies
from inverseq.experiments.objectworld.findings import document
from inverseq.experiments.objectworld.methods import EXACT, METHODS
from inverseq.experiments.objectworld.paper import EPOCHS, LENGTH, STEPS, TRAJECTORIES
from inverseq.report import Document, Run, save_run, write_report
from inverseq.solution import plain

STUDIES = ("table", "curve", "online", "overview", "tune")
"""What can be left out; the transfer of rewards comes with the table, "tune" only where asked."""
KEYS = (
    *("experiment", "method", "world", "trajectories", "evd", "evd_squared"),
    *("reward_correlation", "seconds", "iterations", "converged"),
)
"""What ``--json`` says of each result."""
OTHER_DISCOUNT = 0.99
"""The discount that results are compared with, since the paper states none."""


class Scale(NamedTuple):
    """How much is computed."""

    worlds: int
    """Worlds of the table."""
    steps: int
    """Transitions of its data set."""
    table_methods: tuple[str, ...]
    curve_worlds: int
    trajectories: tuple[int, ...]
    curve_methods: tuple[str, ...]
    deep_worlds: int
    """Worlds of the curve of DIQL."""
    deep_trajectories: tuple[int, ...]
    other_worlds: int
    """Worlds with the other discount."""
    other_trajectories: tuple[int, ...]
    """Numbers of trajectories there."""
    other_methods: tuple[str, ...]
    """Methods of the curve there."""
    checkpoints: tuple[int, ...]
    """Steps after which online learners are looked at."""
    rates: tuple[tuple[float, float, float], ...]
    """Their learning rates of reward, Q and shifted Q."""
    overviewed: tuple[str, ...]
    """Whose values are drawn for several numbers of trajectories."""
    numbers: tuple[int, ...]
    """Those numbers."""
    walls: int
    """Draws of walls for each world."""
    tune_worlds: int
    tune_steps: int


RATES = (
    (1e-4, 1e-4, 1e-4),
    (1e-3, 1e-3, 1e-3),
    (1e-2, 1e-2, 1e-2),
    (1e-1, 1e-1, 1e-1),
    (1e-3, 1e-2, 1e-2),
    (1e-2, 1e-3, 1e-3),
    (1e-2, 1e-2, 1e-1),
)
NOT_CURVED = (
    *("IQL, paper's rates", "MaxEnt, a feature per state"),
    *("DIQL", "DIQL, paper's rates"),
)
"""What few demonstrations are too few for: with constant rates of 0.001 IQL would need millions of
epochs, and one feature for each state leaves maximum entropy without an optimum. DIQL is measured
apart, in fewer places: it takes longest, and the policy that it is given is the true one."""
FULL = Scale(
    worlds=5,
    steps=STEPS,
    table_methods=(*EXACT, *METHODS),
    curve_worlds=20,
    trajectories=TRAJECTORIES,
    curve_methods=tuple(name for name in METHODS if name not in NOT_CURVED),
    deep_worlds=5,
    deep_trajectories=(8, 64, 512),
    other_worlds=5,
    other_trajectories=(8, 64, 512),
    other_methods=("IAVI", "BoltzmannMLE", "MaxEnt", "MaxEnt, causal", "Deep MaxEnt"),
    checkpoints=tuple(8 * round(10**e / 8) for e in (3, 3.5, 4, 4.5, 5, 5.5, 6, 6.25, 6.5)),
    rates=RATES,
    overviewed=("IAVI", "IQL", "DIQL", "BoltzmannMLE"),
    numbers=(8, 64, 512, 4096, 32768),
    walls=3,
    tune_worlds=5,
    tune_steps=STEPS,
)
SLOW = (
    *("IAVI, features", "MaxEnt, causal", "MaxEnt, a feature per state"),
    *("DIQL", "DIQL, paper's rates"),
)
"""What a quick run leaves out."""
QUICK = FULL._replace(
    worlds=1,
    steps=80_000,
    table_methods=tuple(
        name for name in FULL.table_methods if name not in (*SLOW, "Deep MaxEnt, paper's network")
    ),
    curve_worlds=1,
    trajectories=(8, 64, 512),
    curve_methods=("IAVI", "BoltzmannMLE", "MaxEnt", "Deep MaxEnt", "behavioural cloning"),
    deep_worlds=0,
    other_worlds=0,
    checkpoints=tuple(8 * round(10**e / 8) for e in (3, 3.5, 4, 4.5, 5)),
    rates=RATES[1:4],
    overviewed=("IAVI", "IQL"),
    numbers=(8, 512),
    walls=1,
    tune_worlds=1,
    tune_steps=80_000,
)

DEEP = ("DIQL", "DIQL, paper's rates")
"""What takes longest, and is measured at the main discount only."""
STEPWISE = (*DEEP, "IQL", "IQL, paper's rates")
"""What looks at one transition after the other."""
LONGEST = (
    *("DIQL, paper's rates", "DIQL", "IQL", "IQL, paper's rates"),
    *("Deep MaxEnt", "Deep MaxEnt, paper's network", "BoltzmannMLE", "IAVI, features"),
    *("MaxEnt, causal", "MaxEnt"),
)
"""Methods by what a fit takes. They begin in this order, so that no core waits for the last one."""
MAPPED = (
    *("IAVI", "IAVI, state gauge", "IQL", "BoltzmannMLE", "MaxEnt", "MaxEnt, single step"),
    "Deep MaxEnt",
)
"""Whose values and rewards are drawn."""
REGAUGED = ("IAVI, exact policy", "IQL", "IQL, paper's rates")
"""Whose rewards are carried in the state gauge, too."""
WINDS = (0.0, 0.1, 0.6)
"""Other winds than 0.3, to which rewards are carried."""
DECADES = (0.1, 0.01, 0.001, 0.0001)
GRIDS: dict[str, tuple[tuple[float, ...], ...]] = {
    "MaxEnt": tuple((rate,) for rate in (0.1, 0.03, 0.01, 0.003, 0.001)),
    "Deep MaxEnt": tuple((rate,) for rate in (0.1, 0.03, 0.01, 0.003, 0.001)),
    "IQL": tuple((reward, values) for reward in DECADES for values in DECADES),
    "DIQL": tuple((rate,) for rate in (0.01, 0.001, 0.0001, 0.00001)),
}
"""The learning rates that the appendix searched: one, or IQL's of the reward and of the values."""


@dataclass(frozen=True)
class Objectworld:
    """The paper's Objectworld section and its appendix: table, figures, and what they leave out."""

    quick: bool = False
    """Less of everything, by the same code, in under a minute."""
    tune: bool = False
    """Also search the appendix's grids of learning rates."""
    only: tuple[str, ...] = ()
    """Only these of table, curve, online, overview and tune."""
    size: int = 32
    """The world is a grid of size x size cells."""
    objects: int = 50
    """How many objects lie on it."""
    discount: float = 0.9
    """How much less a reward is worth one step later; the paper does not say."""
    seed: int = 100
    """The first world; the others follow. (Worlds 0 to 9 served to choose defaults.)"""
    workers: int | None = None
    """How many processes work at a time; as many as there are cores where not given."""
    out: Path = Path("runs/objectworld")
    """The folder for results and report."""

    def __post_init__(self) -> None:
        unknown = [name for name in self.only if name not in STUDIES]
        if unknown:
            raise InvalidInput(f"`only` must name some of {STUDIES}; got {unknown[0]!r}.")
        if self.workers is not None and self.workers < 0:
            raise InvalidInput(f"`workers` must not be negative; got {self.workers}.")


@dataclass(frozen=True, eq=False)
class Result:
    """What came out."""

    rows: Sequence[dict[str, Any]]
    document: Document
    report: Path
    folder: Path
    seconds: float

    def plain(self) -> dict[str, Any]:
        """As plain data, for ``--json``."""
        return {"rows": [told(row) for row in self.rows]}


def told(row: dict[str, Any]) -> dict[str, Any]:
    """A row by the names that every row has; what else tells it from others is in the first two.

    >>> row = dict.fromkeys(KEYS) | {"experiment": "table", "method": "IAVI", "discount": 0.99}
    >>> told(row)["experiment"]
    'table, discount 0.99'
    """
    experiment, method = row["experiment"], row["method"]
    if "change" in row:
        experiment += f", {row['change']}" + f", draw {row['draw']}" * bool(row["draw"])
    if row["discount"] == OTHER_DISCOUNT:
        experiment += f", discount {row['discount']:g}"
    if "rates" in row:
        method += ", rates " + " ".join(f"{rate:g}" for rate in row["rates"])
    return {name: row[name] for name in KEYS} | {"experiment": experiment, "method": method}


def turn(job: Job) -> tuple[int, int]:
    """When a job begins: methods by what they take, many trajectories before few.

    >>> jobs = [{"method": "IAVI"}, {"method": "IQL"}, {"method": "IQL", "trajectories": 8}]
    >>> sorted(jobs, key=turn)
    [{'method': 'IQL', 'trajectories': 8}, {'method': 'IQL'}, {'method': 'IAVI'}]
    """
    method = job.get("method")
    place = LONGEST.index(method) if method in LONGEST else len(LONGEST)
    return place, -job.get("trajectories", 0)


def run(settings: Objectworld, *, progress: bool | None = None) -> Result:
    """Compute what is not there yet, save everything, write the report."""
    began = time.perf_counter()
    scale = QUICK if settings.quick else FULL
    if settings.discount == OTHER_DISCOUNT:
        scale = scale._replace(other_worlds=0)
    world: dict[str, Any] = {
        "size": settings.size,
        "objects": settings.objects,
        "discount": settings.discount,
    }
    other = {**world, "discount": OTHER_DISCOUNT}
    wanted = set(settings.only or STUDIES[:-1]) | ({"tune"} if settings.tune else set())
    workers = (os.cpu_count() or 1) if settings.workers is None else settings.workers
    kept = settings.out / "jobs.jsonl"
    rows: list[dict[str, Any]] = []
    maps: dict[str, Any] = {}

    def worlds(n: int) -> range:
        return range(settings.seed, settings.seed + n)

    def compute(study: Any, jobs: list[dict[str, Any]], what: str, at_once: int) -> list[Any]:
        at_once = min(workers, at_once)
        order = turn if at_once > 1 else None
        return done(study, jobs, kept, at_once, f"Objectworld: {what}", progress, order)

    if "table" in wanted:
        here = [{**world, "world": w} for w in worlds(scale.worlds)]
        here += [{**other, "world": w} for w in worlds(scale.other_worlds)]
        here = [{**job, "winds": WINDS, "walls": list(range(scale.walls))} for job in here]
        for found in compute(studies.truth, here, "truth", workers):
            rows += found["rows"]
            maps.setdefault("table", {"truth": found["map"]})
        jobs = [
            {
                **job, "steps": scale.steps, "method": method,
                "regauged": method in REGAUGED,
                "map": method in MAPPED and job == here[0],
            }
            for job in here for method in scale.table_methods
            if job["discount"] == settings.discount or method not in DEEP
        ]  # fmt: skip
        # Those that take long have a core each; all others come one at a time, since their seconds
        # are to be read.
        long = [job for job in jobs if job["method"] in STEPWISE]
        compute(studies.table, long, "table, IQL and DIQL", workers)
        for job, found in zip(jobs, compute(studies.table, jobs, "table", 1), strict=True):
            rows += found["rows"]
            if found["map"] is not None:
                maps["table"][job["method"]] = found["map"]
    if "curve" in wanted:
        jobs = [
            {**base, "world": w, "trajectories": n, "most": max(scale.trajectories), "method": m}
            for base, several, numbers, methods in (
                (world, scale.curve_worlds, scale.trajectories, scale.curve_methods),
                (world, scale.deep_worlds, scale.deep_trajectories, ("DIQL",)),
                (other, scale.other_worlds, scale.other_trajectories, scale.other_methods),
            )
            for w in worlds(several)
            for n in numbers
            for m in methods
        ]
        for result in compute(studies.curve, jobs, "demonstrations", workers):
            rows += result
    if "online" in wanted:
        named = [(", ".join(f"{rate:g}" for rate in rates), rates) for rates in scale.rates]
        jobs = [
            {**world, "world": settings.seed, "checkpoints": scale.checkpoints, "name": name,
             "rates": rates}
            for name, rates in [*named, ("decaying (ours)", None)]
        ]  # fmt: skip
        for result in compute(studies.online, jobs, "online", workers):
            rows += result
    if "overview" in wanted:
        jobs = [
            {**world, "world": settings.seed, "trajectories": n, "most": max(scale.numbers),
             "method": method}
            for method in scale.overviewed for n in scale.numbers
        ]  # fmt: skip
        values = compute(studies.overview, jobs, "maps", workers)
        first = studies.truth({**world, "world": settings.seed, "winds": (), "walls": []})
        maps["overview"] = {"truth": first["map"]["value"]} | {
            f"{job['method']}/{job['trajectories']}": value
            for job, value in zip(jobs, values, strict=True)
        }
    if "tune" in wanted:
        jobs = [
            {**world, "world": w, "trajectories": scale.tune_steps // LENGTH, "method": method,
             "rates": rates, "epochs": EPOCHS}
            for method, grid in GRIDS.items() for rates in grid for w in worlds(scale.tune_worlds)
        ]  # fmt: skip
        for result in compute(studies.tune, jobs, "rates", workers):
            rows += result

    seconds = time.perf_counter() - began
    said = document(rows, maps, (settings.size, settings.size), settings.quick)
    saved = Run(
        "objectworld", said, rows, settings=plain(settings), seconds=seconds, seed=settings.seed,
        command=command("inverseq reproduce objectworld", settings),
    )  # fmt: skip
    save_run(settings.out, saved)
    return Result(rows, said, write_report(settings.out), settings.out, seconds)
