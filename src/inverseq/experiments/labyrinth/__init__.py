"""Mice in a labyrinth: what can be said of real animals, and what a reward of the place cannot.

Rosenberg, Zhang, Perona and Meister (eLife 2021) let thirsty mice walk a maze of 127 nodes in the
dark. The recordings are not shipped: the user names the folder that holds them.
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
from inverseq.experiments.jobs import done
from inverseq.experiments.labyrinth import studies
from inverseq.experiments.labyrinth.data import fingerprint, read
from inverseq.experiments.labyrinth.findings import document, told
from inverseq.report import Document, Run, save_run, write_report
from inverseq.solution import plain

DISCOUNT = 0.9
FOLDS = 5
"""Every fifth trajectory is held out, by turns; histories are chosen on the others, split alike."""


class Scale(NamedTuple):
    """How much is computed."""

    folds: tuple[int, ...]
    """Which of the five folds are held out."""
    single: tuple[str, ...]
    """Methods with a reward of the node."""
    lengths: tuple[int, ...]
    """How many previous nodes may be chosen."""
    strengths: tuple[float, ...]
    """How strongly longer histories may lean on shorter ones."""
    discounts: tuple[float, ...]
    """For which the port is ranked."""
    sampled: bool
    """Whether CIQL is among those for whom a branch is closed."""
    branches: tuple[int, ...]
    """The nodes where a branch begins that is closed."""
    steps: int
    """How many steps are simulated there, for each method and fold."""
    bouts: tuple[int, ...]
    """Of how many bouts of each animal is learned."""
    few: tuple[str, ...]
    """Methods that learn from them."""
    alone: bool
    """Whether each animal is also learned of alone."""


FULL = Scale(
    folds=(0, 1, 2, 3, 4),
    single=tuple(studies.SINGLE),
    lengths=(0, 1, 2, 3, 4, 5, 6, 7),
    strengths=(1.0, 4.0, 16.0, 64.0, 256.0),
    discounts=(0.7, 0.8, 0.9, 0.95, 0.99),
    sampled=True,
    branches=(2, 1),
    steps=1_000_000,
    bouts=(1, 2, 4, 8, 16),
    few=studies.FEW,
    alone=True,
)
SLOW = (
    *("MaxEnt, causal, whole bouts", "BoltzmannMLE, features, nodes may deviate"),
    *studies.FEW_TURNS,
)
"""What a quick run leaves out."""
QUICK = FULL._replace(
    folds=(0, 1),
    single=tuple(name for name in FULL.single if name not in SLOW),
    lengths=(1, 3, 5),
    strengths=(4.0, 16.0, 64.0),
    sampled=False,
    branches=(2,),
    steps=200_000,
    bouts=(1, 4, 16),
    few=tuple(name for name in FULL.few if name not in SLOW),
    alone=False,
)
PREVIOUS = 3
"""How many previous nodes they look at for whom a branch is closed."""


@dataclass(frozen=True)
class Labyrinth:
    """Mice in a labyrinth: how well they are foretold, and what they were after."""

    data: Path
    """The folder with labyrinth_steps.parquet and labyrinth_nodes.csv."""
    quick: bool = False
    """Two folds and fewer methods, by the same code, within a minute."""
    workers: int | None = None
    """How many processes work at a time; as many as there are cores where not given."""
    out: Path = Path("runs/labyrinth")
    """The folder for results and report."""

    def __post_init__(self) -> None:
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
        return {"rows": told(self.rows)}


def run(settings: Labyrinth, *, progress: bool | None = None) -> Result:
    """Compute what is not there yet, save everything, write the report."""
    began = time.perf_counter()
    log = read(settings.data)  # before anything is written
    check_enough(log)
    scale = QUICK if settings.quick else FULL
    workers = (os.cpu_count() or 1) if settings.workers is None else settings.workers
    kept = settings.out / "jobs.jsonl"
    common: dict[str, Any] = {
        "data": str(settings.data),
        "contents": fingerprint(settings.data),
        "discount": DISCOUNT,
    }
    rows: list[dict[str, Any]] = []

    def compute(study: Any, jobs: Sequence[dict[str, Any]], what: str) -> None:
        given = [{**common, **job} for job in jobs]
        for found in done(study, given, kept, workers, f"labyrinth: {what}", progress):
            rows.extend(found)

    grids = {"lengths": scale.lengths, "strengths": scale.strengths, "inner": FOLDS}
    folds = [{"fold": fold, "folds": FOLDS} for fold in scale.folds]
    compute(studies.described, [{}], "recordings")
    compute(studies.ladder, folds, "count tables")
    methods = [{**fold, "method": name} for name in scale.single for fold in folds]
    compute(studies.single, methods, "rewards of nodes")
    lengths = [
        {**fold, "length": length} | (grids if length is None else {})
        for length in (1, 2, 3, None) for fold in folds
    ]  # fmt: skip
    compute(studies.augmented, lengths, "rewards of histories")
    who = [None, *dict.fromkeys(map(str, log.animals))]
    ranked = [{"animal": name, "discount": d} for name in who for d in scale.discounts]
    compute(studies.port, ranked, "the water port")
    compute(studies.drawn, [{}], "the maze")
    closed = [
        {**fold, "branch": root, "sampled": scale.sampled, "length": PREVIOUS,
         "strength": studies.STRENGTH, "steps": scale.steps}
        for root in scale.branches for fold in folds
    ]  # fmt: skip
    compute(studies.forbidden, closed, "a closed branch")
    few = [
        {"bouts": n, "most": max(scale.bouts), "method": name, "alone": alone, **grids}
        for alone in (False, True)[: 1 + scale.alone] for name in scale.few for n in scale.bouts
    ]  # fmt: skip
    compute(studies.few, few, "few bouts")

    seconds = time.perf_counter() - began
    said = document(rows, settings.quick)
    saved = Run(
        "labyrinth", said, rows, settings=plain(settings), seconds=seconds,
        command=command("inverseq reproduce labyrinth", settings),
    )  # fmt: skip
    save_run(settings.out, saved)
    return Result(rows, said, write_report(settings.out), settings.out, seconds)


def check_enough(log: Any) -> None:
    """Raise unless there is enough to hold out."""
    trajectories = len(set(log.seen.units.tolist()))
    if trajectories < FOLDS**2:
        raise InvalidInput(
            f"`data` must hold at least {FOLDS**2} trajectories, to hold out every fifth and to "
            f"split the rest again; it has {trajectories}."
        )
    most = max(FULL.bouts)
    animals = sorted(set(log.animals.tolist()))
    for animal in animals:
        bouts = int(log.bouts[log.animals == animal].max()) + 1
        if bouts <= most:
            raise InvalidInput(
                f"`data` must hold more than {most} bouts of each animal, to learn of the first "
                f"and foretell the others; of {animal} it has {bouts}."
            )
    if len(animals) < 2:
        raise InvalidInput(
            f"`data` must hold at least two animals, for intervals over them; it has {animals}."
        )
