"""The paper's highway: an expert, who imitates it, and what it costs to keep right.

An expert learns among American drivers, without a rule. Others learn from its steps alone, or from
the true reward, and drive on the German road, where all must keep right. Speeds, breaches, what
learning with the rule gains over masking it, how fast who learns, and from how little.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inverseq.errors import InvalidInput
from inverseq.experiments import command
from inverseq.experiments.jobs import done, left_of
from inverseq.solution import plain

if TYPE_CHECKING:
    from inverseq.report import Document

STUDIES = ("agents", "iterations", "samples", "values")
"""What can be left out."""
RATES = ("ours", "paper")
"""Pairs of learning rates."""
KEYS = (
    *("experiment", "method", "rates", "seed", "samples", "iterations", "traffic"),
    *("speed", "keep_right", "safety", "collisions", "lane_changes", "decisions", "seconds"),
)
"""What ``--json`` says of each result."""


@dataclass(frozen=True)
class Highway:
    """The paper's highway under SUMO: expert, DIQL, DCIQL, CDQN, their speeds and breaches."""

    quick: bool = False
    """Fewer steps, iterations, seeds and scenarios, by the same code, within ten minutes."""
    only: tuple[str, ...] = ()
    """Only these of agents, iterations, samples and values."""
    rates: tuple[str, ...] = ()
    """Only these of ours and paper: the learning rates."""
    seeds: int = 5
    """How many times everything is trained."""
    workers: int | None = None
    """How many processes work at a time; as many as there are cores where not given."""
    out: Path = Path("runs/highway")
    """The folder for steps, solutions, results and report."""

    def __post_init__(self) -> None:
        for name, known in ("only", STUDIES), ("rates", RATES):
            unknown = [given for given in getattr(self, name) if given not in known]
            if unknown:
                raise InvalidInput(f"`{name}` must name some of {known}; got {unknown[0]!r}.")
        if self.seeds < 1:
            raise InvalidInput(f"`seeds` must be at least 1; got {self.seeds}.")
        if self.workers is not None and self.workers < 1:
            raise InvalidInput(f"`workers` must be at least 1; got {self.workers}.")


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
        return {"rows": [{name: row[name] for name in KEYS} for row in self.rows]}


def run(settings: Highway, *, progress: bool | None = None) -> Result:
    """Compute what is not there yet, save everything, write the report."""
    # The world brings Gymnasium and SUMO, for which nobody should wait who asks for something else.
    from inverseq.experiments.highway import stages
    from inverseq.experiments.highway.findings import document
    from inverseq.experiments.highway.plan import FULL, QUICK, Plan, make, row
    from inverseq.report import Run, from_plain, save_run, write_report
    from inverseq.worlds.highway.client import need_sumo

    began = time.perf_counter()
    need_sumo()
    scale = QUICK if settings.quick else FULL
    seeds = range(1 if settings.quick else settings.seeds)
    workers = settings.workers or os.cpu_count() or 1
    kept, folder = settings.out / "jobs.jsonl", str(settings.out)
    plan = Plan(scale._replace(rates=settings.rates or scale.rates), seeds)
    wanted = settings.only or STUDIES
    trials = [
        {**job, "folder": folder}
        for job in plan.trials() if job["experiment"] in wanted
    ]  # fmt: skip
    maps, shown = (
        [{**job, "folder": folder}] if "values" in wanted else []
        for job in (plan.map(), plan.shown())
    )

    # Who is needed for a trial that was not made yet is trained, and what that takes is driven.
    needed = [job["agent"] for job in left_of(stages.trial, trials, kept)]
    looked_at = left_of(stages.value_map, maps, kept) + left_of(stages.replay, shown, kept)
    needed += [agent for job in looked_at for agent, _ in job["agents"].values()]
    make(folder, plan, needed, workers, progress)
    found = done(stages.trial, trials, kept, workers, "highway: driving", progress)
    values = done(stages.value_map, maps, kept, 1, "highway: values", progress)
    stills = done(stages.replay, shown, kept, 1, "highway: a drive", progress)

    rows = [row(job, result) for job, result in zip(trials, found, strict=True)]
    page = stages.REPLAY if (settings.out / stages.REPLAY).exists() else ""
    pictures = [replace(from_plain(found), replay=page) for found in stills]
    said = document(rows, values[0] if values else None, pictures, scale.iterations, settings.quick)
    seconds = time.perf_counter() - began
    saved = Run(
        "highway", said, rows, settings=plain(settings), seconds=seconds, seed=0,
        command=command("inverseq reproduce highway", settings),
    )  # fmt: skip
    save_run(settings.out, saved)
    return Result(rows, said, write_report(settings.out), settings.out, seconds)
