"""What the trials say: tables and figures with the paper's numbers beside them, and verdicts.

A result is a list of speeds, one for each scenario, for each seed. What is said of several seeds
comes with an interval in which both are drawn again: other runs, in other traffic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np

from inverseq._random import generator
from inverseq.experiments.highway import paper
from inverseq.experiments.highway.stages import CARS, SCENE
from inverseq.report import (
    Block,
    Cell,
    Chart,
    Column,
    Document,
    Maps,
    Panel,
    Section,
    Series,
    Settings,
    Still,
    Table,
    Text,
)

Row = Mapping[str, Any]

DRAWS = 2_000
"""How often seeds and scenarios are drawn again for an interval."""
ENOUGH = 0.95
"""The share of the expert's speed that DCIQL must keep where all keep right."""
TRAFFIC = {
    "T1": "T1: all others keep right, the German road",
    "T2": "T2: 30 % of the others never do",
}
RATES = {"ours": "", "paper": ", the paper's rates"}
REPORTED = {"expert": "expert", "DIQL": "DIQL", "DCIQL": "DCIQL", "CDQN": "CDQN"}
"""Which of the paper's agents is which of ours."""
CHARTED = ("expert", "expert, masked", "DIQL", "DIQL, masked", "DCIQL", "CDQN", "cloning, masked")
COMPARED = (
    *(("DCIQL", "DIQL, masked"), ("DCIQL", "expert, masked"), ("DCIQL", "cloning, masked")),
    *(("DCIQL", "CDQN"), ("DCIQL", "CDQN, the expert's samples"), ("DCIQL", "expert")),
    *(("DCIQL, zero gauge", "DCIQL"), ("DCIQL, zero gauge", "expert, masked")),
)
ARROWS = {0: 3, 1: 0, 2: 1, -1: -1}
"""Keep, left and right as arrows ahead, up and down on a map of lanes."""
EVERY = 8
"""At every so many metres of a map there is an arrow."""


class Interval(NamedTuple):
    """A mean and where it may lie, with 95 %."""

    mean: float
    low: float
    high: float

    def text(self, digits: int = 2, sign: bool = False) -> str:
        """As tables show it."""
        plus = "+" if sign else ""
        return (
            f"{self.mean:{plus}.{digits}f} "
            f"({self.low:{plus}.{digits}f} to {self.high:{plus}.{digits}f})"
        )


def document(
    rows: Sequence[Row],
    values: Mapping[str, Any] | None,
    stills: Sequence[Still],
    iterations: int,
    quick: bool,
) -> Document:
    """All that the experiment found."""
    blocks: list[Block] = []
    if quick:
        text = "A quick run: fewer steps, iterations, seeds and scenarios, by the same code."
        blocks.append(Text(text, warning=True))
    agents = pick(rows, "agents")
    if agents:
        blocks.append(Section("What shows", [Text("\n\n".join(verdicts(agents)))]))
        blocks.append(Section("Who drives how fast, and breaks which rule", [*driving(agents)]))
        blocks.append(Section("What learning with the rule gains", [gains(agents)]))
    if chosen := pick(rows, "iterations"):
        blocks.append(Section("How fast they learn", [*learning(chosen)]))
    if chosen := pick(rows, "samples"):
        blocks.append(Section("From how little", [samples([*chosen, *agents])]))
    if stills:
        caption = "DCIQL on the German road, about to change lanes; the picture leads to the drive."
        pictures = [replace(picture, caption=caption) for picture in stills]
        blocks.append(Section("To look at", pictures))
    if values:
        blocks.append(Section("What each place is worth", [*value_maps(values)]))
    blocks.append(Section("What the paper does not say", [Settings(paper.UNSAID, "Choices")]))
    return Document(
        "The highway: imitate, and keep right",
        "An expert learned to drive where nobody has to keep right. Others imitate it from its "
        f"steps, after {iterations:,} iterations, on a road where all must.",
        blocks,
    )


def pick(rows: Iterable[Row], experiment: str) -> list[Row]:
    """The rows of an experiment."""
    return [row for row in rows if row["experiment"] == experiment]


def of(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """The rows with these entries."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def speeds(rows: Iterable[Row]) -> np.ndarray:
    """Mean speeds (seeds, scenarios)."""
    return np.array([row["speeds"] for row in rows])


def interval(each: np.ndarray, share_of: np.ndarray | None = None) -> Interval:
    """The mean over seeds and scenarios (seeds, scenarios); both are drawn again.

    As a share of somebody else's mean, if one is given, in the same scenarios.

    >>> interval(np.ones((2, 3)))
    Interval(mean=1.0, low=1.0, high=1.0)
    >>> interval(np.ones((2, 3)), share_of=np.full((1, 3), 2.0))
    Interval(mean=0.5, low=0.5, high=0.5)
    """
    rng = generator(0)
    n_seeds, n_scenarios = each.shape
    seeds = rng.integers(n_seeds, size=(DRAWS, n_seeds))
    scenarios = rng.integers(n_scenarios, size=(DRAWS, n_scenarios))
    whole = np.ones((1, n_scenarios)) if share_of is None else share_of
    drawn = [
        each[s][:, c].mean() / whole[:, c].mean() for s, c in zip(seeds, scenarios, strict=True)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(float(each.mean() / whole.mean()), float(low), float(high))


def named(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """The rows of each method with each rates, in the order in which they come."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row["method"], row["rates"]), []).append(row)
    return found


# -- who drives how fast -------------------------------------------------------------------------


def verdicts(agents: Sequence[Row]) -> Iterator[str]:
    """What must hold, and whether it does."""
    careful = [row for row in agents if row["method"].startswith("DCIQL")]
    decisions = sum(row["decisions"] for row in careful)
    breaches = sum(row["keep_right"] + row["safety"] for row in careful)
    crashes = sum(row["collisions"] for row in careful)
    yield (
        f"DCIQL, in all gauges, with all rates and seeds and in both mixtures of drivers: "
        f"{breaches:,} breaches and {crashes:,} collisions in {decisions:,} decisions, counted by "
        f"a checker of its own on the positions of all vehicles."
    )
    expert = runs(agents, "expert", "ours", "T1")
    if not expert.size:
        yield "The share of the expert's speed is not told: its rates, ours, were left out."
        return
    for method, rates in named(careful):
        mine = of(agents, traffic="T1", method=method, rates=rates)
        share = interval(speeds(mine), share_of=expert)
        met = "at least" if share.mean >= ENOUGH else "less than"
        yield (
            f"{method}{RATES[rates]}: {share.text(3)} of the expert's mean speed in T1, {met} "
            f"{ENOUGH:.0%}."
        )


def driving(agents: Sequence[Row]) -> Iterator[Block]:
    """A table for each mixture of drivers, and the paper's figure."""
    for traffic, title in TRAFFIC.items():
        here = of(agents, traffic=traffic)
        if here:
            yield table(here, title, traffic == "T1")
    for traffic, title in TRAFFIC.items():
        here = of(agents, traffic=traffic, rates="ours")
        if here:
            yield Chart(
                [
                    Series(method, [row["keep_right"] for row in mine],
                           [row["speed"] for row in mine], style="points")
                    for (method, _), mine in named(here).items()
                ],
                "decisions against the rule to keep right, in all scenarios",
                "mean speed (m/s)",
                caption=f"{title}: mean speed against breaches, a mark for each run.",
            )  # fmt: skip
            yield by_vehicles(here, title)


def table(rows: Sequence[Row], title: str, german: bool) -> Table:
    """A line for each agent: speed with its interval, breaches, changes, collisions."""
    body: list[list[Cell | str | float | None]] = []
    for (method, rates), mine in named(rows).items():
        per_run = np.array([row["keep_right"] for row in mine])
        decisions = mine[0]["decisions"]
        reported = REPORTED.get(method) if german and rates == "paper" else None
        if german and method == "expert" and rates == "ours":
            reported = "expert"
        body.append([
            f"{method}{RATES[rates]}",
            interval(speeds(mine)).text(),
            f"{per_run.mean():,.0f}",
            f"{per_run.mean() / decisions:.1%}",
            f"{sum(row['safety'] for row in mine):,}",
            f"{np.mean([row['lane_changes'] for row in mine]):.1%}",
            f"{sum(row['collisions'] for row in mine):,}",
            f"{len(mine)}",
            None if reported is None else f"{paper.SPEEDS[reported]}; {paper.BREACHES[reported]}",
        ])  # fmt: skip
    columns = ("mean speed, 95 %", "breaches a run", "of decisions", "unsafe", "lane changes",
               "collisions", "runs", "paper: speed; breaches")  # fmt: skip
    scenarios = len(rows[0]["speeds"])
    return Table(
        ["agent", *(Column(name, numeric=True) for name in columns)],
        body,
        f"{title}; {scenarios} scenarios of 100 decisions.",
        [
            "Masked: learned without the rule to keep right, which only masks what is done. "
            "Whatever is not safe is masked for everybody.",
            "Speeds in m/s, with intervals over runs and scenarios.",
        ],
    )


def by_vehicles(rows: Sequence[Row], title: str) -> Chart:
    """Speed against the number of vehicles."""
    series = []
    for (method, _), mine in named(rows).items():
        if method not in CHARTED:
            continue
        n, each = np.array(mine[0]["vehicles"]), speeds(mine)
        numbers = sorted(set(n.tolist()))
        series.append(Series(method, numbers, [float(each[:, n == k].mean()) for k in numbers]))
    caption = f"{title}: mean speed by the number of other vehicles, over runs and scenarios."
    return Chart(series, "other vehicles", "mean speed (m/s)", caption=caption)


def gains(agents: Sequence[Row]) -> Table:
    """Differences of speed, scenario by scenario, whatever their sign."""
    body: list[list[Cell | str | float | None]] = []
    for (one, other), rates in product(COMPARED, RATES):
        line: list[Cell | str | float | None] = []
        for traffic in TRAFFIC:
            mine, theirs = (runs(agents, name, rates, traffic) for name in (one, other))
            both = len(mine) and len(theirs)
            line.append(interval(mine - theirs).text(sign=True) if both else None)
        if any(line):
            body.append([f"{one} minus {other}{RATES[rates]}", *line])
    columns = [Column(f"{traffic}: m/s, 95 %", numeric=True) for traffic in TRAFFIC]
    breaking = [
        name for name in dict.fromkeys(chain.from_iterable(COMPARED))
        if any(row["keep_right"] for row in of(agents, method=name))
    ]  # fmt: skip
    return Table(
        ["difference of mean speeds", *columns],
        body,
        "What learning with the rule gains over masking it, and over others.",
        [
            f"Who breaks the rule, of those in this table: {', '.join(breaking) or 'nobody'}. "
            "Intervals over runs and scenarios, in which both drive; above 0 the first is faster."
        ],
    )


def runs(agents: Sequence[Row], method: str, rates: str, traffic: str) -> np.ndarray:
    """Speeds of a method (runs, scenarios). The expert is one; it and cloning have our rates."""
    mine = of(agents, method=method, traffic=traffic)
    if method.startswith("expert"):
        return speeds(of(mine, rates="ours")[:1])
    return speeds(of(mine, rates="ours" if method.startswith("cloning") else rates))


# -- how fast, and from how little ---------------------------------------------------------------


def learning(rows: Sequence[Row]) -> Iterator[Block]:
    """Speed along the training."""
    said = claim(rows)
    if said is not None:
        yield said
    for traffic, title in TRAFFIC.items():
        here = of(rows, traffic=traffic)
        if here:
            lines = []
            for (method, rates), mine in named(here).items():
                numbers = sorted({row["iterations"] for row in mine})
                found = [interval(speeds(of(mine, iterations=n))) for n in numbers]
                lines.append(
                    Series(
                        f"{method}{RATES[rates]}", numbers, [i.mean for i in found],
                        [i.low for i in found], [i.high for i in found],
                        "dashed" if rates == "paper" else "line",
                    )
                )  # fmt: skip
            scenarios = len(here[0]["speeds"])
            yield Chart(
                lines, "iterations", "mean speed (m/s)", x_log=True,
                caption=f"{title}: speed along the training, {scenarios} scenarios, with intervals "
                "over runs and scenarios.",
            )  # fmt: skip


def claim(rows: Sequence[Row]) -> Table | None:
    """The paper's claim that the learned reward trains faster than the true one."""
    here = of(rows, traffic="T1")
    body: list[list[Cell | str | float | None]] = []
    for n in sorted({row["iterations"] for row in here}):
        line: list[Cell | str | float | None] = []
        for rates in RATES:
            mine, theirs = (
                speeds(of(here, method=m, rates=rates, iterations=n)) for m in ("DCIQL", "CDQN")
            )
            both = len(mine) and len(theirs)
            line.append(interval(mine - theirs).text(sign=True) if both else None)
        if any(line):
            body.append([f"{n:,}", *line])
    if not body:
        return None
    return Table(
        [
            Column("iterations", numeric=True),
            *(Column(title, numeric=True) for title in ("our rates", "the paper's rates")),
        ],
        body,
        "The paper claims that the learned reward trains faster than the true one. DCIQL minus "
        "CDQN, on the same steps, in T1; m/s, 95 %.",
    )


def samples(rows: Sequence[Row]) -> Table:
    """DCIQL by the number of steps that it learned from."""
    mine = of(rows, method="DCIQL", rates="ours", traffic="T1")
    numbers = sorted({row["samples"] for row in mine if row["samples"]})
    body: list[list[Cell | str | float | None]] = []
    for n in (*numbers, None):
        chosen = of(mine, samples=n)
        if chosen:
            reported = paper.BY_SAMPLES.get(n or paper.SAMPLES)
            body.append([
                "all" if n is None else f"{n:,}",
                interval(speeds(chosen)).text(),
                f"{sum(row['keep_right'] + row['safety'] for row in chosen)}",
                f"{sum(row['collisions'] for row in chosen)}",
                f"{len(chosen)}",
                None if reported is None else f"{reported:.1f}",
            ])  # fmt: skip
    columns = ("mean speed, 95 %", "breaches", "collisions", "runs", "paper")
    return Table(
        ["steps of the expert", *(Column(name, numeric=True) for name in columns)],
        body,
        "T1: DCIQL by the number of steps of the expert; m/s.",
    )


# -- values --------------------------------------------------------------------------------------


def value_maps(values: Mapping[str, Any]) -> Iterator[Block]:
    """The paper's map: wherever the ego could be around two slow cars."""
    panels = []
    for name, found in values.items():
        value = np.array([np.nan if v is None else v for v in found["value"]], float)
        arrows = np.array([ARROWS[a] for a in found["action"]])
        arrows[np.arange(len(arrows)) % SCENE % EVERY != EVERY // 2] = -1
        panels.append(Panel(name, value, arrows=arrows))
    first, second = CARS
    yield Maps(
        panels,
        (3, SCENE),
        f"The value of each place in a scene of {SCENE} m, the left lane above, driving to the "
        f"right at 20 m/s. Two cars at 15 m/s are on the right lane, at {first:.0f} and "
        f"{second:.0f} m (hatched). Arrows say what is chosen: ahead, left or right.",
    )
