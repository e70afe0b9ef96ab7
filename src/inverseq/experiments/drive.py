"""A drive to look at: some policies in one scenario of the highway, as a page that plays them.

A policy is a saved solution or one of the drivers that come with the highway; either may be made to
obey the rules where it did not learn to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from inverseq._progress import track
from inverseq.errors import InvalidInput
from inverseq.io import storage
from inverseq.report import Column, Table, replay_page
from inverseq.solution import Solution, Tables, load
from inverseq.task import Constraint, Task
from inverseq.worlds import highway
from inverseq.worlds.highway.observation import WIDTH
from inverseq.worlds.highway.policies import Learned, Obeying, Policy
from inverseq.worlds.highway.rules import ACTIONS
from inverseq.worlds.highway.traffic import Traffic

SCRIPTED: dict[str, Policy] = {
    name: getattr(highway.policies, name) for name in ("right", "keep", "left", "random", "greedy")
}
SIZES = (WIDTH, len(ACTIONS))
"""How many numbers a state has, and how many actions there are."""
OBEYING = "+rules"
"""Behind a name: shown only what the rule to keep right leaves."""


@dataclass(frozen=True)
class Driver:
    """Who drives, under which name, and what it thinks that actions are worth."""

    title: str
    policy: Policy
    values: Callable[[np.ndarray], np.ndarray] | None = None


@dataclass(frozen=True)
class Driven:
    """What came of a drive."""

    policy: str
    speed: float
    """Mean, in m/s."""
    lane_changes: int
    keep_right: int
    """Decisions against the rule to keep right, as `highway.check` counts them."""
    unsafe: int
    """Changes of lanes that were not safe."""
    collisions: int


@dataclass(frozen=True)
class Result:
    """The page, and what it shows in numbers."""

    scenario: highway.Scenario
    rows: list[Driven]
    page: Path

    def plain(self) -> dict[str, Any]:
        """As plain data, for ``--json``."""
        return {
            "scenario": asdict(self.scenario),
            "rows": [asdict(row) for row in self.rows],
            "page": str(self.page),
        }


def run(
    solutions: Sequence[str],
    scenario: highway.Scenario,
    decisions: int,
    out: Path,
    titles: Sequence[str] = (),
) -> Result:
    """Drive, count, write the page."""
    if not solutions:
        raise InvalidInput(
            f"`solutions` must name at least one: the folder of a saved solution, or one of "
            f"{', '.join(SCRIPTED)}."
        )
    if out.is_dir():
        raise InvalidInput(f"`out` must be a file, such as drive.html; {out} is a folder.")
    if titles and len(titles) != len(solutions):
        raise InvalidInput(
            f"`titles` must be one for each of {len(solutions)} solutions; got {len(titles)}."
        )
    drivers = [driver(name) for name in solutions]
    names = titles or distinct([who.title for who in drivers])
    traces = [
        highway.record_trace(scenario, who.policy, values=who.values, decisions=decisions)
        for who in track(drivers, "driving")
    ]
    html = replay_page(traces, names)
    storage.write_file(out, html.encode())
    rows = [driven(name, trace) for name, trace in zip(names, traces, strict=True)]
    return Result(scenario, rows, out)


def scenario_of(text: str, traffic: Traffic) -> highway.Scenario:
    """The scenario that ``n:seed`` names.

    >>> scenario_of("60:0", "T2")
    Scenario(traffic='T2', n=60, seed=0)
    """
    n, colon, seed = text.partition(":")
    if not (colon and n.isdecimal() and seed.isdecimal()):
        raise InvalidInput(
            f"`scenario` must be the number of other vehicles and a seed, such as 60:0; got "
            f"{text!r}."
        )
    return highway.Scenario(traffic, int(n), int(seed))


def driver(name: str) -> Driver:
    """Who drives by a name: a folder, or a driver of the highway, obeying the rules or not."""
    folder = Path(name)
    if not folder.exists() and name.endswith(OBEYING):
        who = driver(name.removesuffix(OBEYING))
        return Driver(
            f"{who.title}, obeying", Obeying(who.policy, (highway.keep_right(),)), who.values
        )
    if name in SCRIPTED and not (folder / "solution.json").exists():
        return Driver(name, SCRIPTED[name])
    if not (folder / "solution.json").exists():
        raise InvalidInput(
            f"`solutions` must be folders of saved solutions (with solution.json) or some of "
            f"{', '.join(SCRIPTED)}; {name} is neither."
        )
    solution = with_rules(folder)
    values = solution.q_constrained if solution.constrained else solution.q
    return Driver(folder.resolve().name, Learned(solution), values)


def with_rules(folder: Path) -> Solution:
    """A solution of the highway with the rules that it learned under: they are not saved."""
    solution = load(folder)
    found = solution.found
    width = None if isinstance(found, Tables) else found.scaling.shape[1]
    if isinstance(found, Tables) or (width, found.n_actions) != SIZES:
        states = f"rows of {width} numbers" if width else "a table"
        raise InvalidInput(
            f"`solutions` must be of the highway, whose states are rows of {SIZES[0]} numbers with "
            f"{SIZES[1]} actions; the states of {folder} are {states} with "
            f"{solution.n_actions} actions."
        )
    rules: dict[str, Constraint] = {
        rule.name: rule for rule in (highway.safety(), highway.keep_right())
    }
    names = solution.info.task.get("constraints", [])
    unknown = [name for name in names if name not in rules]
    if unknown:
        raise InvalidInput(
            f"`solutions` must obey no rules but those of the highway, {' and '.join(rules)}; that "
            f"of {folder} has a constraint {unknown[0]!r}, which was not saved. Record it with "
            f"`highway.record_trace`, and make a page with `report.replay_page`."
        )
    task = Task(
        len(ACTIONS),
        found.discount,
        # What nobody ever does here is what is not safe.
        available=highway.safety().allows if found.masked else None,
        temperature=found.temperature,
        constraints=[rules[name] for name in names],
    )
    return load(folder, task)


def distinct(titles: Sequence[str]) -> list[str]:
    """Titles that differ.

    >>> distinct(["dciql", "greedy", "dciql"])
    ['dciql (1)', 'greedy', 'dciql (2)']
    """
    return [
        title if titles.count(title) == 1 else f"{title} ({titles[: i + 1].count(title)})"
        for i, title in enumerate(titles)
    ]


def driven(title: str, trace: dict[str, Any]) -> Driven:
    """A recording in numbers.

    Its mean speed is that of `highway.Rollouts`: after each decision.
    """
    steps, every = trace["steps"], trace["meta"]["action_every"]
    after = [frame[2][0] / 10 for frame in trace["frames"][every::every]]
    counts = {name: sum(step[name] for step in steps) for name in ("keep_right", "unsafe")}
    return Driven(
        title,
        round(sum(after) / len(after), 3),
        sum(step["executed"] != 0 for step in steps),
        collisions=sum(step["collision"] for step in steps),
        **counts,
    )


def table(result: Result) -> Table:
    """The numbers of a drive."""
    heads = ("mean speed", "lane changes", "against keep right", "unsafe", "collisions")
    scenario = result.scenario
    return Table(
        ["policy", *(Column(head, numeric=True) for head in heads)],
        [
            [
                row.policy,
                f"{row.speed:.2f}",
                *map(str, (row.lane_changes, row.keep_right, row.unsafe, row.collisions)),
            ]
            for row in result.rows
        ],
        f"Among {scenario.n} others, traffic {scenario.traffic}, seed {scenario.seed}",
    )
