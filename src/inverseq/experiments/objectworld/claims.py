"""What the paper says of the Objectworld, whether it shows here, and what became of our own aim.

Every sentence is made of the rows; the same rows give the same sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from inverseq.experiments.objectworld import paper
from inverseq.experiments.objectworld.methods import METHODS, OWN, base
from inverseq.report import Cell, Column, Table

Row = Mapping[str, Any]
Measured = Mapping[str, Mapping[int, np.ndarray]]
"""By method and number of trajectories: one number for each world, in the order of worlds."""

CLOSE = 1.1
"""A mean squared EVD of ours is to be at most this many times the best, at every number."""
RESAMPLES = 2_000
"""Draws of worlds for an interval."""
DEEP = ("Deep MaxEnt", f"Deep MaxEnt{OWN}", "Deep MaxEnt, paper's network")
"""What "Deep MaxEnt" may mean; the first is the one to judge by."""


class Claim(NamedTuple):
    """A sentence of the paper, what is found here, and whether that is the same."""

    said: str
    here: str
    holds: str


def claims(rows: Sequence[Row]) -> Table | None:
    """The paper's findings beside ours, as far as there are rows to tell."""
    found = [*of_table(means(rows)), *of_curve(measured(rows, "curve"))]
    if not found:
        return None
    return Table(
        ["the paper", "here", "shows?"],
        [[c.said, c.here, c.holds] for c in found],
        "The paper's findings, and whether they show here.",
    )


# -- the table ------------------------------------------------------------------------------------


def means(rows: Iterable[Row]) -> dict[str, dict[str, float]]:
    """The mean of EVD, seconds and iterations of each method of the table, at its discount."""
    main = first_discount([row for row in rows if row["experiment"] == "table"])
    return {
        method: {
            name: float(np.mean([row[name] for row in main if row["method"] == method]))
            for name in ("evd", "seconds", "iterations")
        }
        for method in dict.fromkeys(row["method"] for row in main)
    }


def of_table(found: Mapping[str, Mapping[str, float]]) -> Iterator[Claim]:
    """What the paper says of its table."""
    if not {"IAVI", "IQL, paper's rates", "MaxEnt", "MaxEnt, single step"} <= found.keys():
        return
    iavi, iql = found["IAVI"], found["IQL, paper's rates"]
    full, single = found["MaxEnt"], found["MaxEnt, single step"]
    yield Claim(
        "IAVI matches the expert almost exactly (EVD 0.09), IQL nearly (1.47), MaxEnt does not "
        "(11.58)",
        f"EVD {signed(iavi['evd'])}, {signed(iql['evd'])} and {signed(full['evd'])}",
        yes(max(abs(iavi["evd"]), abs(iql["evd"])) < 0.1 * full["evd"]),
    )
    iql = found.get("IQL", iql)
    yield Claim(
        "IAVI and IQL take far less time than MaxEnt (0.03 and 0.35 h against 8.08 h)",
        f"{iavi['seconds']:.2g} and {iql['seconds']:.2g} s against {full['seconds']:.2g} s, by "
        f"compiled and sparse code alike",
        yes(*(each["seconds"] < 0.5 * full["seconds"] for each in (iavi, iql))),
    )
    yield Claim(
        "With a single inner step MaxEnt needs many more iterations, and more time (12.2 h), and "
        "ends elsewhere (EVD 4.33)",
        f"{single['iterations']:,.0f} iterations against {full['iterations']:,.0f}, "
        f"{single['seconds']:.2g} s against {full['seconds']:.2g} s, EVD {signed(single['evd'])} "
        f"against {signed(full['evd'])}",
        yes(
            single["iterations"] > full["iterations"],
            single["seconds"] > full["seconds"],
            abs(single["evd"] - full["evd"]) > 0.1 * full["evd"],
        ),
    )


# -- the number of demonstrations -----------------------------------------------------------------


def of_curve(squared: Measured) -> Iterator[Claim]:
    """What the paper says of the number of demonstrations."""
    if not {"IAVI", "MaxEnt", DEEP[0]} <= squared.keys():
        return
    numbers = sorted(squared["IAVI"])
    deep = [name for name in DEEP if name in squared]
    worse = {name: lower(squared, name, "MaxEnt") for name in ("IAVI", DEEP[0])}
    yield Claim(
        "MaxEnt is the worst of all approaches",
        "it is worse " + "; ".join(f"than {name} {listed(worse[name], numbers)}" for name in worse),
        yes(*(n in worse[name] for name in worse for n in numbers)),
    )
    few = [n for n in numbers if n <= paper.CROSSOVER]
    better = {name: lower(squared, name, "IAVI") for name in deep}
    yield Claim(
        f"Deep MaxEnt generalises very well from 8 to {paper.CROSSOVER} trajectories, better than "
        f"IAVI and IQL",
        "below IAVI: " + "; ".join(f"{name} {listed(better[name], numbers)}" for name in deep),
        yes(*(n in better[DEEP[0]] for n in few)),
    )
    many = [n for n in numbers if n > paper.CROSSOVER]
    ours = [name for name in ("IAVI", "DIQL") if name in squared]
    below = {
        (one, other): lower(squared, one, other) for one in ours for other in ("MaxEnt", *deep)
    }
    if many:
        yield Claim(
            f"Beyond {paper.CROSSOVER} trajectories IAVI, IQL and DIQL are better than both MaxEnt "
            f"methods",
            ". ".join(
                f"{one} is below "
                + "; ".join(
                    f"{other} {listed(below[one, other], numbers)}" for other in ("MaxEnt", *deep)
                )
                for one in ours
            ),
            yes(*(
                all(n in below[one, other] for other in ("MaxEnt", DEEP[0]))
                for n in many for one in ours
            )),
        )  # fmt: skip
    if paper.UNSTABLE in numbers[1:] and squared["IAVI"][paper.UNSTABLE].size > 1:
        before = numbers[numbers.index(paper.UNSTABLE) - 1]
        rises = [
            [squared[name][n].mean() for n in (before, paper.UNSTABLE)]
            + [squared[name][n].std(ddof=1) for n in (before, paper.UNSTABLE)]
            for name in deep
        ]
        yield Claim(
            f"Deep MaxEnt is unstable at {paper.UNSTABLE} trajectories: a higher EVD, and of high "
            f"variance",
            "; ".join(
                f"{name}: EVD² {a:.2f} at {before}, {b:.2f} at {paper.UNSTABLE}, SD {c:.2f} and "
                f"{d:.2f}"
                for name, (a, b, c, d) in zip(deep, rises, strict=True)
            ),
            yes(*(rise for a, b, c, d in rises for rise in (b > a, d > c))),
        )


def measured(rows: Iterable[Row], experiment: str, name: str = "evd_squared") -> Measured:
    """A measure of each method, by number of trajectories, world by world."""
    main = first_discount([row for row in rows if row["experiment"] == experiment])
    found: dict[str, dict[int, dict[int, float]]] = {}
    for row in main:
        of_method = found.setdefault(row["method"], {})
        of_method.setdefault(row["trajectories"], {})[row["world"]] = row[name]
    grid = max((sum(map(len, numbers.values())) for numbers in found.values()), default=0)
    return {
        method: {n: np.array([each[w] for w in sorted(each)]) for n, each in numbers.items()}
        for method, numbers in found.items()
        # What was measured in some places only cannot be paired.
        if sum(map(len, numbers.values())) == grid
    }


def first_discount(rows: Sequence[Row]) -> list[Row]:
    """The rows with the discount of the first."""
    return [row for row in rows if row["discount"] == rows[0]["discount"]]


def lower(squared: Measured, one: str, other: str) -> list[int]:
    """At which numbers of trajectories one method has a smaller mean than another."""
    return [n for n in sorted(squared[one]) if squared[one][n].mean() < squared[other][n].mean()]


# -- our own aim ----------------------------------------------------------------------------------


class Compared(NamedTuple):
    """A method of ours beside the best of all others, at one number of trajectories."""

    trajectories: int
    ours: float
    other: str
    """The best of all others, by its mean."""
    others: float
    ratio: float
    low: float
    """The ends of a 95 % interval of the ratio, over draws of worlds."""
    high: float
    wins: int
    """In how many worlds ours is not above the other."""
    worlds: int


def aim(squared: Measured) -> tuple[str, list[Compared]] | None:
    """The method of ours that comes nearest to being the best everywhere, and how near."""
    squared = {name: each for name, each in squared.items() if not base(name).given}
    mine = [name for name in squared if name in METHODS and base(name).ours]
    if len(squared) < 2 or not mine:
        return None
    all_of = {name: compared(squared, name) for name in mine}
    best = min(mine, key=lambda name: max(c.ratio for c in all_of[name]))
    return best, all_of[best]


def compared(squared: Measured, name: str) -> list[Compared]:
    """A method against the best of all others, on the same worlds and the same trajectories."""
    found = []
    for n, ours in sorted(squared[name].items()):
        rest = {other: of[n] for other, of in squared.items() if other != name}
        other = min(rest, key=lambda other: float(rest[other].mean()))
        theirs = rest[other]
        draws = np.random.default_rng(0).integers(0, ours.size, (RESAMPLES, ours.size))
        ratios = ours[draws].mean(axis=1) / theirs[draws].mean(axis=1)
        low, high = np.quantile(ratios, [0.025, 0.975])
        found.append(
            Compared(
                n, float(ours.mean()), other, float(theirs.mean()),
                float(ours.mean() / theirs.mean()), float(low), float(high),
                int((ours <= theirs).sum()), ours.size,
            )
        )  # fmt: skip
    return found


def aimed(squared: Measured) -> Table | None:
    """Whether our aim was reached, and the numbers behind that."""
    found = aim(squared)
    if found is None:
        return None
    name, each = found
    worst = max(each, key=lambda c: c.ratio)
    reached = worst.ratio <= CLOSE
    said = (
        f"Our aim, one method of ours with a mean EVD² at most {CLOSE:g} times the best at every "
        f"number of demonstrations, is {'reached' if reached else 'missed'}: {name} has at most "
        f"{worst.ratio:.2f} times that of the best other method (at {worst.trajectories:,} "
        f"trajectories)."
    )
    return Table(
        [
            Column("trajectories", numeric=True), Column(name, numeric=True), "best other method",
            *(Column(head, numeric=True) for head in ("EVD²", "ratio", "95 %", "not above in")),
        ],
        [
            [
                f"{c.trajectories:,}", f"{c.ours:.3f}", c.other, f"{c.others:.3f}",
                Cell(f"{c.ratio:.2f}", best=c.ratio <= CLOSE),
                f"{c.low:.2f} to {c.high:.2f}" if c.worlds > 1 else None,
                f"{c.wins} of {c.worlds}",
            ]
            for c in each
        ],
        said,
        [
            f"EVD² of {name} and of the best of all others, on the same worlds and trajectories. "
            f"The interval is that of the ratio of means over {RESAMPLES:,} draws of the worlds."
        ],
    )  # fmt: skip


# -- words ----------------------------------------------------------------------------------------


def yes(*holds: bool) -> str:
    """Whether it holds throughout."""
    return "yes" if all(holds) else "partly" if any(holds) else "no"


def listed(chosen: Sequence[int], among: Sequence[int]) -> str:
    """Some of several numbers as a phrase.

    >>> listed([8, 16, 32, 128], [8, 16, 32, 64, 128]), listed([], [8, 16]), listed([8], [8])
    ('at 8 to 32 and 128', 'nowhere', 'everywhere')
    """
    if not chosen or len(chosen) == len(among):
        return "everywhere" if chosen else "nowhere"
    stretches: list[list[int]] = []
    for place, n in enumerate(among):
        if n in chosen:
            if not place or among[place - 1] not in chosen:
                stretches.append([])
            stretches[-1].append(n)
    words = [
        f"{stretch[0]:,} to {stretch[-1]:,}" if len(stretch) > 2 else
        " and ".join(f"{n:,}" for n in stretch) for stretch in stretches
    ]  # fmt: skip
    return "at " + " and ".join(words)


def signed(value: float, digits: int = 3) -> str:
    """A number with a true minus, and none before a zero.

    >>> signed(-0.0002), signed(-1.5)
    ('0.000', '−1.500')
    """
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")
