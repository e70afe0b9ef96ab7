"""The command line: thin. It reads the arguments, runs an experiment, prints what came out."""

from __future__ import annotations

import json as json_format
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from inverseq.errors import InverseqError
from inverseq.experiments.control import Control
from inverseq.experiments.demo import Demo
from inverseq.experiments.highway import Highway
from inverseq.experiments.labyrinth import Labyrinth
from inverseq.experiments.objectworld import Objectworld
from inverseq.version import __version__

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

    from inverseq.experiments.demo import Result
    from inverseq.report import Block, Table

BAD_INPUT, INTERRUPTED = 2, 130
ABOUT = f"""inverseq {__version__}: from what somebody did, what were they after?

Inverse Q-learning recovers, from demonstrations, the reward that explains them and a policy that
imitates them while it obeys hard constraints.

`inverseq --version` prints the version."""

Flag = tyro.conf.FlagCreatePairsOff[bool]


def demo(*, settings: Annotated[Demo, tyro.conf.arg(name="")], json: Flag = False) -> None:
    """Recover the reward of a fresh Objectworld, and imitate its expert under a rule of your own.

    An expert walks a grid with coloured objects. From its steps alone, IAVI and IQL recover what it
    was after. CIQL imitates it under a rule that it never had: do not choose to enter a certain
    block of cells. Prints a table and writes a report, a picture and the solutions.

    Args:
        settings: What to run.
        json: Print the results as JSON, and nothing else.
    """
    from inverseq.experiments.demo import run

    result = run(settings)
    if json:
        print(json_format.dumps(result.plain(), indent=1))
    else:
        show_result(result)


def show_result(result: Result) -> None:
    """The table of the demonstration, in words that need no manual."""
    from rich.table import Table

    from inverseq.experiments.demo import notes

    console = terminal()
    table = Table(
        title=f"\n{result.steps:,} steps of an expert in a world of {result.states:,} states",
        title_style="bold",
        title_justify="left",
    )
    table.add_column("method")
    for heading in ("EVD", "EVD²", "reward corr.", "rule broken", "blown in", "seconds"):
        table.add_column(heading, justify="right")
    for row in result.rows:
        table.add_row(
            row.method + ("" if row.converged else " *"),
            f"{row.evd:.3f}",
            f"{row.evd_squared:.4f}",
            "" if row.reward_correlation is None else f"{row.reward_correlation:.3f}",
            f"{row.chosen:,}",
            f"{row.blown:,}",
            f"{row.seconds:.2f}" if row.seconds else "",
        )
    console.print(table)
    for note in notes(result.rows):
        console.print(note, style="dim", highlight=False)
    console.print(f"\nPicture:   {result.picture}", highlight=False, soft_wrap=True)
    folders = ", ".join(str(path) for path in result.saved)
    console.print(f"Solutions: {folders}", highlight=False, soft_wrap=True)
    console.print(f"Report:    {result.report}", highlight=False, soft_wrap=True)


def terminal() -> Console:
    """Where tables go; wide enough for them where the output is a file."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 120)


def report(
    run: tyro.conf.Positional[Path],
    *,
    out: Path | None = None,
    shape: tuple[int, int] | None = None,
    json: Flag = False,
) -> None:
    """Turn a saved run or a saved solution into one HTML file that needs nothing else.

    Prints its path. It opens in any browser, needs no network, and can be mailed as it is.

    Args:
        run: The folder that was saved.
        out: The file to write; report.html in the folder where not given.
        shape: Rows and columns of the grid of a saved solution, to draw maps.
        json: Print the path as JSON, and nothing else.
    """
    from inverseq.report import write_report

    path = write_report(run, out, shape=shape)
    print(json_format.dumps({"report": str(path)}) if json else path)


def show(
    log: tyro.conf.Positional[Path],
    *,
    state: tuple[str, ...] = (),
    action: tuple[str, ...] = (),
    next_state: tuple[str, ...] = (),
    episode: str | None = None,
    unit: str | None = None,
    time: str | None = None,
    terminated: str | None = None,
    available: str | None = None,
    json: Flag = False,
) -> None:
    """Say what is in a log: its columns; or, given some, states, actions, episodes and bad rows.

    Args:
        log: A Parquet, CSV, JSON lines or Arrow file, or a folder of them.
        state: The column with the state, or several.
        action: The column with the action, or several.
        next_state: The column or columns with where the step led; derived where not given.
        episode: The column with the label of the episode.
        unit: The column with who acted.
        time: The column by which the rows of an episode are ordered.
        terminated: The column that says whether the step truly ended its episode.
        available: The column with what could be done, or "seen" for what was ever done in a state.
        json: Print it as JSON, and nothing else.
    """
    from inverseq.errors import InvalidInput
    from inverseq.io.files import foreign, read
    from inverseq.io.overview import contents, overview

    own = None if state or action else foreign(log)
    if own is None and not (state or action):
        found = contents(log)
        if json:
            print(json_format.dumps(found.plain(), indent=1))
            return
        rows = [
            (name, kind, ", ".join(found.examples[name])) for name, kind in found.columns.items()
        ]
        print_table(f"{found.rows:,} rows", ("column", "type", "such as"), rows)
        print("Name some of them: inverseq show LOG --state ... --action ... [--episode ...]")
        return
    if own is None and not (state and action):
        raise InvalidInput("`--state` and `--action` must both name columns, or neither.")
    seen = own or read(
        log,
        state=state,
        action=action,
        next_state=next_state or None,
        episode=episode,
        unit=unit,
        time=time,
        terminated=terminated,
        available=available,
        on_bad="drop",
    )
    said = overview(seen)
    if json:
        print(json_format.dumps(said.plain(), indent=1))
        return
    print_table(f"What is in {log.name}", ("", ""), said.rows())
    reading = said.reading
    if reading is None:
        return
    for title, findings in ("Bad rows, left out", reading.bad), ("Remarks", reading.remarks):
        if findings:
            kinds = [(f.kind, f"{f.rows:,}", f"{f.first:,}", f.means) for f in findings]
            print_table(title, ("kind", "rows", "first row", "what it means"), kinds)


def print_table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table of text in the terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=f"\n{title}", title_style="bold", title_justify="left", show_header=any(heads)
    )
    for head in heads:
        table.add_column(head)
    for row in rows:
        table.add_row(*map(Text, row))
    terminal().print(table)


def drive(
    solutions: tyro.conf.Positional[tuple[str, ...]],
    *,
    scenario: str = "60:0",
    traffic: Literal["T1", "T2"] = "T2",
    decisions: int = 100,
    titles: tuple[str, ...] = (),
    out: Path = Path("drive.html"),
    json: Flag = False,
) -> None:
    """Let policies drive on the highway, and make a page that plays it: one file, for any browser.

    Policies of the same command begin in the same traffic and are shown side by side: the road
    around the car, what it may do and what that is worth to it, and its speed. Needs SUMO.

    Args:
        solutions: Folders of saved solutions, or drivers to compare with: right, keep, left,
            random, greedy. With +rules behind it (greedy+rules) a policy is shown only what the
            rule to keep right leaves.
        scenario: How many others there are, and a seed, as n:seed.
        traffic: T1, where all others keep right, or T2, where 30 % of them never do.
        decisions: How long: a decision is made every two seconds.
        titles: What to call the policies on the page; their names where not given.
        out: The file to write.
        json: Print the results as JSON, and nothing else.
    """
    from inverseq.experiments import drive

    result = drive.run(solutions, drive.scenario_of(scenario, traffic), decisions, out, titles)
    if json:
        print(json_format.dumps(result.plain(), indent=1))
        return
    console = terminal()
    console.print(as_rich(drive.table(result)))
    console.print(f"\nPage: {result.page}", highlight=False, soft_wrap=True)


def objectworld(
    *, settings: Annotated[Objectworld, tyro.conf.arg(name="")], json: Flag = False
) -> None:
    """The paper's Objectworld section and its appendix: table, figures, and what they leave out.

    Prints tables with the paper's numbers beside ours, and writes results and a report. What has
    been computed is kept: interrupted, it goes on where it was.

    Args:
        settings: What to compute.
        json: Print the results as JSON, and nothing else.
    """
    reproduce(settings, json)


def control(*, settings: Annotated[Control, tyro.conf.arg(name="")], json: Flag = False) -> None:
    """Gymnasium's CartPole and LunarLander: an expert, its imitators, and a rule.

    Prints tables and writes results and a report. What has been computed is kept: interrupted, it
    goes on where it was.

    Args:
        settings: What to compute.
        json: Print the results as JSON, and nothing else.
    """
    reproduce(settings, json)


def highway(*, settings: Annotated[Highway, tyro.conf.arg(name="")], json: Flag = False) -> None:
    """The paper's highway under SUMO: who imitates the expert how well, and keeps right.

    Prints tables with the paper's numbers beside ours, and writes results and a report. The whole
    takes some hours; what has been computed is kept: interrupted, it goes on where it was.

    Args:
        settings: What to compute.
        json: Print the results as JSON, and nothing else.
    """
    reproduce(settings, json)


def labyrinth(
    *, settings: Annotated[Labyrinth, tyro.conf.arg(name="")], json: Flag = False
) -> None:
    """Mice in a labyrinth: how well they are foretold, and what they were after.

    The recordings are read from the folder that you name. Prints tables with the ladder of count
    tables beside every row, and writes results and a report. What has been computed is kept:
    interrupted, it goes on where it was.

    Args:
        settings: What to compute.
        json: Print the results as JSON, and nothing else.
    """
    reproduce(settings, json)


def reproduce(settings: Any, json: bool) -> None:
    """Run the experiment that the settings belong to, and say what came out."""
    experiment: Any = import_module(type(settings).__module__)
    result = experiment.run(settings)
    if json:
        print(json_format.dumps(result.plain(), indent=1))
        return
    console = terminal()
    for said in tables(result.document.blocks):
        console.print(as_rich(said))
        for note in said.notes:
            console.print(note, style="dim", highlight=False)
    console.print(f"\nResults: {result.folder}", highlight=False, soft_wrap=True)
    console.print(f"Report:  {result.report}", highlight=False, soft_wrap=True)


def tables(blocks: Sequence[Block]) -> Iterator[Table]:
    """The tables of a document, in order."""
    from inverseq.report import Section, Table

    for block in blocks:
        if isinstance(block, Table):
            yield block
        elif isinstance(block, Section):
            yield from tables(block.blocks)


def as_rich(said: Table) -> RichTable:
    """A table of a document for the terminal."""
    from rich.markup import escape
    from rich.table import Table as RichTable

    from inverseq.report import Cell, Column

    shown = RichTable(title=f"\n{said.caption}", title_style="bold", title_justify="left")
    columns = [column for column in said.columns if isinstance(column, Column)]
    numbers = any(column.numeric for column in columns)
    for i, column in enumerate(columns):
        justify: Literal["left", "right"] = "right" if column.numeric else "left"
        shown.add_column(column.title, justify=justify, no_wrap=numbers and i == 0)
    for row in said.rows:
        cells = [
            cell if isinstance(cell, Cell) else Cell("" if cell is None else str(cell))
            for cell in row
        ]
        texts = ((escape(cell.text), cell.best) for cell in cells)
        shown.add_row(*(f"[bold]{text}[/]" if best else text for text, best in texts))
    return shown


EXPERIMENTS: dict[str, Callable[..., Any]] = {
    "objectworld": objectworld,
    "control": control,
    "highway": highway,
    "labyrinth": labyrinth,
}
COMMANDS: dict[str, Callable[..., Any]] = {
    "demo": demo,
    "show": show,
    "report": report,
    "drive": drive,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 if it worked, 2 for bad input, 130 if it was interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        print(__version__)
        return 0
    warnings.showwarning = one_line
    try:
        app, experiments = tyro.extras.SubcommandApp(), tyro.extras.SubcommandApp()
        for name, command in COMMANDS.items():
            app.command(name=name)(command)
        for name, command in EXPERIMENTS.items():
            experiments.command(name=name)(command)
        app.command(experiments, name="reproduce", help="Reproduce an experiment of the paper.")
        app.cli(prog="inverseq", description=ABOUT, args=given)
    except InverseqError as error:
        print(f"inverseq: {error}", file=sys.stderr)
        return BAD_INPUT
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            # Whoever read the output has gone; there is nobody left to tell.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        print(f"inverseq: {error.strerror}: {error.filename}", file=sys.stderr)
        return BAD_INPUT
    except MemoryError as error:
        detail = f" ({error})" if str(error) else ""
        print(f"inverseq: this does not fit into memory{detail}; ask for less.", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("inverseq: interrupted", file=sys.stderr)
        return INTERRUPTED
    return 0


def one_line(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as one line, without the place in the code."""
    print(f"inverseq: {message}", file=sys.stderr)
