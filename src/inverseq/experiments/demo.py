"""The demonstration: a fresh Objectworld, its reward recovered, and its behaviour under a rule.

An expert walks the world, half knowing what it wants (a Boltzmann policy). From its steps alone
`IAVI` and `IQL` recover what it was after; then a rule is added that it never had, "do not choose
to enter this block of cells", and `CIQL` imitates it under that rule.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from inverseq import evaluate, worlds
from inverseq.algorithms import IAVI, IQL
from inverseq.demonstrations import Demonstrations
from inverseq.errors import InvalidInput, NotConverged
from inverseq.experiments import command
from inverseq.gauges import StateOnly
from inverseq.report import (
    Cell,
    Column,
    Document,
    Maps,
    Panel,
    Run,
    Section,
    Table,
    draw,
    save_run,
    tell,
    write_report,
)
from inverseq.solution import Solution
from inverseq.task import Constraint, Task
from inverseq.worlds import World

MAPS = (
    "What the expert was after, and what was recovered; values, and what the rule costs to keep, "
    "with its block outlined."
)


@dataclass(frozen=True)
class Demo:
    """What the demonstration does: the world, the data, the rule, and where results go."""

    size: int = 32
    """The world is a grid of size x size cells."""
    objects: int = 50
    """How many coloured objects lie on it."""
    episodes: int = 25_000
    """How many episodes of the expert to watch."""
    length: int = 8
    """How many steps each episode has."""
    block: int = 6
    """The rule: do not choose to enter a block of this many cells a side, the one visited most."""
    discount: float = 0.9
    """How much less a reward is worth one step later."""
    epochs: int = 1000
    """How often IQL goes through the data at most."""
    seed: int = 0
    """Another seed is another world."""
    out: Path = Path("demo")
    """The folder for the results: the report, the picture and the saved solutions."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    method: str
    evd: float
    """Mean true value that the policy gives away against the expert."""
    evd_squared: float
    reward_correlation: float | None
    """Between the recovered reward, brought to the state gauge, and the true one."""
    chosen: int
    """Steps that chose to break the rule, among `steps` of the policy walking the world."""
    blown: int
    """Steps that the wind blew into the block."""
    steps: int
    seconds: float
    converged: bool


@dataclass(frozen=True, eq=False)
class Result:
    """What the demonstration shows."""

    rows: list[Row]
    picture: Path
    saved: list[Path]
    states: int
    steps: int
    report: Path

    def plain(self) -> dict[str, Any]:
        """As plain data, for ``--json``."""
        return {
            "rows": [asdict(row) for row in self.rows],
            "picture": str(self.picture),
            "solutions": [str(path) for path in self.saved],
            "report": str(self.report),
        }


def run(settings: Demo) -> Result:
    """Make the world, watch the expert, fit, measure, draw, save, report."""
    began = time.perf_counter()
    if settings.episodes < 1 or settings.length < 1:
        raise InvalidInput(
            f"`episodes` and `length` must be at least 1; got {settings.episodes} and "
            f"{settings.length}."
        )
    place = next(path for path in (settings.out, *settings.out.parents) if path.exists())
    if not place.is_dir():
        raise InvalidInput(f"`out` must be a folder; {place} is a file. Choose another name.")
    world = worlds.objectworld(
        settings.size, settings.objects, discount=settings.discount, seed=settings.seed
    )
    seen = world.demonstrations(settings.episodes, settings.length, seed=settings.seed)
    region = busiest_block(world, seen, settings.block)
    ruled = world.task.constrain(no_entry(world, region))

    rows = [
        walked(
            "uniform policy",
            world.task.uniform,
            None,
            0.0,
            True,
            world,
            ruled,
            region,
            settings.seed,
        )
    ]
    found: dict[str, Solution] = {}
    for method, solution in fits(settings, seen, world.task, ruled):
        found[method] = solution
        rows.append(measured(method, solution, world, ruled, region, settings.seed))
    saved = []
    for method, solution in found.items():
        saved.append(settings.out / method.lower().replace(", ", "-").replace(" ", "-"))
        solution.save(saved[-1])
    maps, shape = panels(world, found, region), world.shape or (1, len(world.reward))
    picture = draw(
        maps,
        shape,
        settings.out / "maps.png",
        title=f"What {len(seen):,} steps of an expert say about its reward",
        columns=3,
    )
    said = document(rows, Maps(maps, shape, MAPS), found, len(seen), settings)
    seconds = time.perf_counter() - began
    again = command("inverseq demo", settings)
    record = {**asdict(settings), "out": str(settings.out)}
    results = [asdict(row) for row in rows]
    done = Run("demo", said, results, record, again, settings.seed, seconds)
    save_run(settings.out, done)
    report = write_report(settings.out)
    return Result(rows, picture, saved, len(world.reward), len(seen), report)


def document(
    rows: list[Row], maps: Maps, found: dict[str, Solution], steps: int, settings: Demo
) -> Document:
    """What the report says: the table, the maps, and a section for each solution."""
    states = maps.shape[0] * maps.shape[1]
    return Document(
        f"What {steps:,} steps say about an expert",
        f"An expert walked a world of {states:,} cells and {settings.objects} objects, half "
        f"knowing what it wanted. From its steps alone IAVI and IQL recover what it was after; "
        f"CIQL imitates it under a rule that it never had: do not choose to enter a certain block "
        f"of {settings.block} × {settings.block} cells.",
        [
            Section("Results", [table(rows)]),
            Section("Maps", [maps]),
            *(Section(method, tell(solution, maps.shape)) for method, solution in found.items()),
        ],
    )


def table(rows: list[Row]) -> Table:
    """The table of the report; the name of a method leads to its section."""
    fitted = [row for row in rows if row.reward_correlation is not None]

    def least(row: Row, name: str, digits: str) -> Cell:
        # What reads the same is as good.
        text, best = (
            format(value, digits)
            for value in (getattr(row, name), min(getattr(r, name) for r in fitted))
        )
        return Cell(text, best=row in fitted and text == best)

    heads = ("EVD", "EVD²", "reward corr.", "rule broken", "blown in", "seconds")
    return Table(
        ["method", *(Column(head, numeric=True) for head in heads)],
        [
            [
                Cell(row.method + ("" if row.converged else " *"), to=row.method),
                least(row, "evd", ".3f"),
                least(row, "evd_squared", ".4f"),
                None if row.reward_correlation is None else f"{row.reward_correlation:.3f}",
                least(row, "chosen", ","),
                f"{row.blown:,}",
                f"{row.seconds:.2f}" if row in fitted else None,
            ]
            for row in rows
        ],
        "Each policy under the true reward, and walking the world.",
        notes(rows),
    )


def notes(rows: list[Row]) -> list[str]:
    """What the columns mean."""
    said = [
        "EVD: true value given away per state against the expert. Reward corr.: with the true "
        "reward, in the state gauge. Rule broken: steps that chose to enter the block, out of "
        f"{rows[0].steps:,}; blown in: steps that the wind carried there. CIQL's EVD is the "
        "price of the rule."
    ]
    if not all(row.converged for row in rows):
        said += ["* The reward still changed by more than 1e-4 in the last epoch (--epochs)."]
    return said


def fits(
    settings: Demo, seen: Demonstrations, task: Task, ruled: Task
) -> Iterator[tuple[str, Solution]]:
    """The algorithms of the paper, each on the same demonstrations."""
    yield "IAVI", IAVI().fit(seen, task)
    yield "IAVI, state gauge", IAVI(gauge=StateOnly()).fit(seen, task)
    iql = IQL(epochs=settings.epochs)
    with warnings.catch_warnings():
        # The table says so in a column of its own.
        warnings.simplefilter("ignore", NotConverged)
        yield "IQL", iql.fit(seen, task, seed=settings.seed)
        yield "CIQL", iql.fit(seen, ruled, seed=settings.seed)


def measured(
    method: str, solution: Solution, world: World, ruled: Task, region: np.ndarray, seed: int
) -> Row:
    """One line of the table: its reward, in the state gauge, is held to the true one."""
    in_state_gauge = solution
    if solution.info.gauge != repr(StateOnly()):
        in_state_gauge = solution.regauge(StateOnly(), world.task)
    correlation = evaluate.reward_correlation(in_state_gauge.reward_table[:, 0], world.reward)
    info, policy = solution.info, solution.policy_table
    return walked(
        method, policy, correlation, info.seconds, info.converged, world, ruled, region, seed
    )


def walked(
    method: str,
    policy: np.ndarray,
    correlation: float | None,
    seconds: float,
    converged: bool,
    world: World,
    ruled: Task,
    region: np.ndarray,
    seed: int,
) -> Row:
    """The rest of the line: the policy is valued under the true reward, and walks the world."""
    difference = evaluate.value_difference(policy, world.reward, world.task)
    walk = world.demonstrations(2_000, 20, policy, seed=seed + 1)
    broken = evaluate.violations(walk, ruled, region)
    return Row(
        method,
        difference.evd,
        difference.evd_squared,
        correlation,
        broken.chosen,
        broken.blown,
        broken.steps,
        seconds,
        converged,
    )


def busiest_block(world: World, seen: Demonstrations, side: int) -> np.ndarray:
    """The square of cells that the expert visits most, bool (S,)."""
    rows, cols = world.shape or (1, len(world.reward))
    if not 1 <= side < min(rows, cols):
        raise InvalidInput(
            f"`block` must be at least 1 and smaller than the world, {rows} x {cols}; got {side}."
        )
    visits = np.bincount(seen.next_states, minlength=rows * cols).reshape(rows, cols)
    sums = np.lib.stride_tricks.sliding_window_view(visits, (side, side)).sum(axis=(2, 3))
    top, left = np.unravel_index(sums.argmax(), sums.shape)
    region = np.zeros((rows, cols), bool)
    region[top : top + side, left : left + side] = True
    return region.ravel()


def no_entry(world: World, region: np.ndarray) -> Constraint:
    """Forbid every action that is meant to lead from outside the region into it."""
    # The intended next cell is the most probable one.
    model = world.task.continuing.matrix
    intended = np.asarray(model.argmax(axis=1)).reshape(-1, world.task.n_actions)
    cost = region[intended] & ~region[:, None]
    return Constraint(cost.astype(float), 0.5, name="no entry")


def panels(world: World, found: dict[str, Solution], region: np.ndarray) -> list[Panel]:
    """The true reward and values, and what was recovered."""
    from inverseq import planning

    truth = planning.solve(world.reward, world.task)
    exact, sampled, ruled = found["IAVI, state gauge"], found["IQL"], found["CIQL"]
    states = np.arange(len(world.reward))
    in_state_gauge = ruled.regauge(StateOnly(), world.task)
    safe_plan = in_state_gauge.value(states)
    under_rule = planning.solve(
        in_state_gauge.reward_table, world.task.constrain(no_entry(world, region))
    ).v
    return [
        Panel("true reward", world.reward, signed=True, note="what the expert was after"),
        Panel(
            "recovered reward: IAVI",
            exact.reward_table[:, 0],
            signed=True,
            note="in the state gauge, from counts",
        ),
        Panel(
            "recovered reward: IQL",
            sampled.regauge(StateOnly(), world.task).reward_table[:, 0],
            signed=True,
            note="in the state gauge, from single steps",
        ),
        Panel("true value", truth.v, note="of the best way on"),
        Panel("recovered value: IAVI", exact.value(states), note="of the recovered reward"),
        Panel(
            "what the rule costs: CIQL",
            safe_plan - under_rule,
            region=region,
            note="value lost by not entering the block",
        ),
    ]
