"""compare: every method that a log allows, by how well it foretells episodes that it never saw."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from inverseq._checks import check_workers
from inverseq._processes import side_by_side
from inverseq._progress import Bar
from inverseq._random import generator
from inverseq.demonstrations import Additive, Demonstrations
from inverseq.errors import InvalidInput, InverseqError
from inverseq.evaluate import groups, interval, plainest
from inverseq.identification import held_out
from inverseq.labels import nearest
from inverseq.report import Cell, Column, Table
from inverseq.report.solutions import digits
from inverseq.solution import plain
from inverseq.task import Task
from inverseq.verbs.log import Log
from inverseq.verbs.scores import ends, taken

SMALL = 1_000
"""With more states, methods that plan again in every step are left out."""
DISCOUNT = 0.9
"""What is taken where none is said: rows that depend on it are marked."""
LEVEL = 0.95


@dataclass(frozen=True)
class Compare:
    """How to compare methods."""

    discount: float | None = None
    """How much less a reward is worth one step later. Where it is not said it is 0.9, and rows that
    depend on it are marked."""
    folds: int = 5
    """Into how many parts episodes (or units, where there are at least five) are divided."""
    methods: tuple[str, ...] = ()
    """Which to compare, such as cloning IAVI; all that apply where none are named."""
    smoothing: float = 1.0
    """How many visits every method that counts adds to each available action."""
    seed: int = 0
    """The seed of the division, and of every fit."""


@dataclass(frozen=True)
class Row:
    """How well a method foretells."""

    method: str
    nats: float
    interval: tuple[float, float]
    nats_choice: float
    interval_choice: tuple[float, float]
    gain: tuple[float, float]
    """The interval of what it gains over cloning, step by step; NaN for cloning itself."""
    seconds: float
    """What its fits took together."""

    def plain(self, steps: int) -> dict[str, Any]:
        """As data that JSON can hold."""
        low, high = self.interval
        said = {"method": self.method, "log_likelihood": self.nats, "low": low, "high": high}
        known: dict[str, Any] = plain(said | {"steps": steps})
        return known


@dataclass(frozen=True)
class Result:
    """Methods, the one that foretells best first."""

    rows: tuple[Row, ...]
    failed: dict[str, str]
    """Methods that could not be fitted, and why."""
    left_out: dict[str, str]
    """Methods that were not tried, and why."""
    steps: int
    steps_choice: int
    folds: int
    over: str
    """What was held out: every "episode" or "unit" in turn."""
    discount: float
    remarks: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """As data that JSON can hold."""
        choice = [
            replace(row, nats=row.nats_choice, interval=row.interval_choice).plain(
                self.steps_choice
            )
            for row in self.rows
        ]
        return {
            "rows": [row.plain(self.steps) for row in self.rows],
            "choice": choice,
            "failed": self.failed,
            "left_out": self.left_out,
            "folds": self.folds,
            "over": self.over,
            "discount": self.discount,
            "remarks": list(self.remarks),
        }


def methods(seen: Demonstrations, smoothing: float) -> tuple[dict[str, Any], dict[str, str]]:
    """What can be fitted to a log, and what is left out.

    >>> fitted, left_out = methods(Demonstrations([0, 1], [0, 1], [1, 0]), 1.0)
    >>> list(fitted)
    ['cloning', 'IAVI', 'IAVI, state gauge', 'IQL', 'BoltzmannMLE', 'MaxEnt']
    """
    import inverseq as iq

    if not seen.tabular:
        return {"cloning": iq.BehaviouralCloning(), "DIQL": iq.DIQL()}, {}
    k = Additive(smoothing)
    found: dict[str, Any] = {
        "cloning": iq.BehaviouralCloning(prior=smoothing),
        "IAVI": iq.IAVI(smoothing=k),
        "IAVI, state gauge": iq.IAVI(gauge=iq.StateOnly(), smoothing=k),
        "IQL": iq.IQL(smoothing=k),
    }
    planned = {"BoltzmannMLE": iq.BoltzmannMLE(), "MaxEnt": iq.MaxEnt()}
    n_states = seen.task(0.0).n_states or 0
    if n_states <= SMALL:
        return found | planned, {}
    why = f"{n_states:,} states: it plans in every step, which is for at most {SMALL:,} here"
    return found, dict.fromkeys(planned, why)


EXACT = ("cloning", "IAVI", "frequencies", "uniform")
"""Rows that do not depend on the discount."""


def run(
    path: Path,
    log: Log,
    settings: Compare,
    *,
    workers: int | None = None,
    progress: bool | None = None,
) -> Result:
    """Divide the episodes, fit every method to all parts but one, and foretell that one."""
    discount = DISCOUNT if settings.discount is None else settings.discount
    if not 0 <= discount <= 1:
        raise InvalidInput(f"`--discount` must lie in [0, 1]; got {settings.discount!r}.")
    if not 0 < settings.smoothing < np.inf:
        raise InvalidInput(f"`--smoothing` must be positive; got {settings.smoothing!r}.")
    check_workers(workers)
    if log.history is not None:
        raise InvalidInput(
            "`--history` must be left out of compare: all methods foretell from the states of the "
            "log. Fit with it, and hold a log out: `inverseq fit ... --history auto`, then "
            "`inverseq evaluate`."
        )
    rng = generator(settings.seed)
    seen = log.read(path)
    over, member = groups(seen)
    n = int(member.max()) + 1
    if not 2 <= settings.folds <= n:
        raise InvalidInput(
            f"`--folds` must be from 2 to the number of {over}s, {n}; got {settings.folds}."
            + (" Name the column that tells episodes apart by `--episode`." if n < 2 else "")
        )
    part = (rng.permutation(n) % settings.folds)[member]
    task = seen.task(discount)
    tried, left_out = methods(seen, settings.smoothing)
    unknown = [name for name in settings.methods if name not in {**tried, **left_out}]
    if unknown:
        raise InvalidInput(
            f"`--methods` must name some of {', '.join(map(repr, tried))}; got {unknown[0]!r}."
            f"{nearest(unknown[0], tried)}"
        )
    if settings.methods:
        left_out = {name: why for name, why in left_out.items() if name in settings.methods}
        tried = {name: method for name, method in tried.items() if name in settings.methods}
    jobs = [
        (name, algorithm, seen, task, part == fold, settings.seed)
        for fold in range(settings.folds)
        for name, algorithm in tried.items()
    ]
    each: dict[str, np.ndarray] = {}
    seconds: dict[str, float] = {}
    failed: dict[str, str] = {}
    with Bar(f"{len(tried)} methods, {settings.folds} folds", len(jobs), progress) as bar:
        for i, (log_pi, took, why) in side_by_side(foretell, jobs, workers):
            name, test = jobs[i][0], jobs[i][4]
            if log_pi is None:
                failed.setdefault(name, why)
            else:
                each.setdefault(name, np.empty(len(seen)))[test] = log_pi
                seconds[name] = seconds.get(name, 0.0) + took
            bar.advance(note=name)
    for name in failed:
        each.pop(name, None)
    each |= unfitted(seen, task, part, settings)
    weights = seen.step_weights
    choice = np.ones(len(seen), bool)
    if seen.available is not None:
        choice = seen.available.sum(axis=1)[seen.states] > 1
    rows = [
        Row(
            name,
            mean(log_pi, weights),
            interval(log_pi, weights, member, LEVEL),
            mean(log_pi, weights * choice),
            interval(log_pi, weights * choice, member, LEVEL),
            gain(log_pi, each.get("cloning"), weights, member, name),
            seconds.get(name, 0.0),
        )
        for name, log_pi in each.items()
    ]
    rows.sort(key=lambda row: -row.nats)
    return Result(
        tuple(rows), failed, left_out, len(seen), int(choice.sum()), settings.folds, over, discount,
        tuple(remarks(each, settings, discount, over)),
    )  # fmt: skip


def foretell(
    name: str, algorithm: Any, seen: Demonstrations, task: Task, test: np.ndarray, seed: int
) -> tuple[np.ndarray | None, float, str]:
    """Log-probabilities of the steps of a fold, or why there are none."""
    began = time.perf_counter()
    try:
        log_pi, _ = held_out(algorithm, seen, task, test, seed)
    except (InverseqError, ArithmeticError, MemoryError) as error:
        return None, 0.0, str(error) or type(error).__name__
    return log_pi, time.perf_counter() - began, ""


def unfitted(
    seen: Demonstrations, task: Task, part: np.ndarray, settings: Compare
) -> dict[str, np.ndarray]:
    """Log-probabilities of each step by what knows least, of all folds."""
    found = {name: np.empty(len(seen)) for name in ("frequencies", "uniform")}
    k = Additive(settings.smoothing)
    for fold in range(settings.folds):
        test = part == fold
        train, here = seen.select(~test), seen.select(test)
        if seen.tabular:
            visits = train.counts(task.n_states, task.n_actions).visits
            policies, rows = plainest(visits, task.available_table(), k), here.states
        else:
            counts = taken(train, task.n_actions)[None]
            policies = plainest(counts, np.ones(counts.shape, bool), k)
            rows = np.zeros(len(here), np.int64)
        for name, log_pi in found.items():
            log_pi[test] = np.log(policies[name][rows, here.actions])
    return found


def mean(values: np.ndarray, weights: np.ndarray) -> float:
    """The mean of steps that weigh something; NaN where there are none."""
    counts = weights > 0
    return float(np.average(values[counts], weights=weights[counts])) if counts.any() else np.nan


def gain(
    log_pi: np.ndarray,
    cloned: np.ndarray | None,
    weights: np.ndarray,
    member: np.ndarray,
    name: str,
) -> tuple[float, float]:
    """The interval of what a method gains over cloning, step by step."""
    if cloned is None or name == "cloning":
        return float("nan"), float("nan")
    with np.errstate(invalid="ignore"):
        return interval(log_pi - cloned, weights, member, LEVEL)


def remarks(
    each: dict[str, np.ndarray], settings: Compare, discount: float, over: str
) -> list[str]:
    """What a reader must know, in sentences."""
    said = []
    if {"IAVI", "cloning"} <= set(each):
        off = float(np.abs(each["IAVI"] - each["cloning"]).max())
        said.append(
            f"IAVI and cloning are the same to {off:.0e} nats, by identity: in an exact gauge the "
            f"reward explains the smoothed frequencies of actions, whatever they are. It cannot "
            f"foretell better than they do, and no log can tell its discount."
        )
    if settings.discount is None:
        said.append(
            f"No discount was given, and {discount:g} was taken: rows with a star would differ at "
            f"another one. Give `--discount`."
        )
    if over == "episode":
        said.append("Every episode is held out once; name who acted by `--unit` to hold out those.")
    return said


def table(found: Result) -> Table:
    """The methods side by side."""
    forced = 0 < found.steps_choice < found.steps
    heads = ["nats a step", "interval", "bits"]
    heads += ["nats with a choice", "bits"] if forced else []
    heads += ["against cloning", "seconds"]
    best = found.rows[0].nats if found.rows else 0.0
    rows = []
    for row in found.rows:
        star = "" if row.method in EXACT else " *"
        cells: list[Any] = [
            row.method + star,
            Cell(digits(row.nats, 4), best=row.nats >= best - 1e-9),
            ends(row.interval),
            digits(row.nats / np.log(2), 4),
        ]
        if forced:
            cells += [digits(row.nats_choice, 4), digits(row.nats_choice / np.log(2), 4)]
        cells += [verdict(row.gain), digits(row.seconds, 1) if row.seconds else ""]
        rows.append(cells)
    rows += [[name, "failed", *[""] * (len(heads) - 1)] for name in found.failed]
    caption = (
        f"How well each method foretells {found.steps:,} steps, in {found.folds} parts by "
        f"{found.over}: each part by a fit to the others"
    )
    notes = [f"A star: depends on the discount, {found.discount:g}."]
    notes += [f"{name} failed: {why}" for name, why in found.failed.items()]
    notes += [f"{name} was left out: {why}." for name, why in found.left_out.items()]
    return Table(["method", *(Column(h, numeric=True) for h in heads)], rows, caption, notes)


def verdict(between: tuple[float, float]) -> str:
    """Whether a difference is more than chance.

    >>> verdict((-0.1, 0.2)), verdict((0.1, 0.2))
    ('no difference beyond chance', 'better by 0.1500')
    """
    if np.isnan(between).any():
        return ""
    if max(abs(between[0]), abs(between[1])) < 1e-9:
        return "the same"
    if between[0] <= 0 <= between[1]:
        return "no difference beyond chance"
    return f"{'better' if between[0] > 0 else 'worse'} by {digits(abs(sum(between)) / 2, 4)}"
