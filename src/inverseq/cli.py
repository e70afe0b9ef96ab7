"""The command line: thin. It reads the arguments, runs an experiment, prints what came out."""

from __future__ import annotations

import json as json_format
import os
import shlex
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
from inverseq.labels import nearest
from inverseq.verbs.compare import Compare
from inverseq.verbs.fit import Fit
from inverseq.verbs.log import Log
from inverseq.version import __version__

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

    from inverseq.experiments.demo import Result
    from inverseq.report import Block, Table
    from inverseq.verbs.fit import Result as FitResult

BAD_INPUT, INTERRUPTED = 2, 130
LEAVE_OUT = Log(on_bad="drop")
"""How a log is read that is only looked at."""
ABOUT = f"""inverseq {__version__}: from what somebody did, what were they after?

Inverse Q-learning recovers, from demonstrations, the reward that explains them and a policy that
imitates them while it obeys hard constraints.

`inverseq --version` prints the version; `inverseq --tyro-print-completion bash` (or zsh) what lets
a shell complete commands."""

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
    columns: Annotated[Log, tyro.conf.arg(name="")] = LEAVE_OUT,
    json: Flag = False,
) -> None:
    """Say what is in a log: its columns; or, given some, states, actions, episodes and bad rows.

    Args:
        log: A Parquet, CSV, JSON lines or Arrow file, or a folder of them.
        columns: How to read it.
        json: Print it as JSON, and nothing else.
    """
    from inverseq.errors import InvalidInput
    from inverseq.io.files import foreign
    from inverseq.io.overview import contents, overview
    from inverseq.report import Table
    from inverseq.verbs.show import tables_of

    named = bool(columns.state or columns.action)
    own = None if named else foreign(log)
    if own is None and not named:
        found = contents(log)
        if json:
            print(json_format.dumps(found.plain(), indent=1))
            return
        rows = [
            (name, kind, ", ".join(found.examples[name])) for name, kind in found.columns.items()
        ]
        heads = ["column", "type", "such as"]
        terminal().print(as_rich(Table(heads, rows, f"{found.rows:,} rows")))
        print("Name some of them: inverseq show LOG --state ... --action ... [--episode ...]")
        return
    if own is None and not (columns.state and columns.action):
        raise InvalidInput("`--state` and `--action` must both name columns, or neither.")
    said = overview(own or columns.read(log))
    if json:
        print(json_format.dumps(said.plain(), indent=1))
        return
    for table in tables_of(said, log.name):
        terminal().print(as_rich(table))


def fit(
    log: tyro.conf.Positional[Path | None] = None,
    *,
    columns: Annotated[Log, tyro.conf.arg(name="")],
    what: Annotated[Fit, tyro.conf.arg(name="")],
    again: Annotated[Path | None, tyro.conf.arg(name="settings")] = None,
    out: Path | None = None,
    workers: int | None = None,
    json: Flag = False,
) -> None:
    """Recover what somebody was after, from a log: reads, fits, and leaves a folder with a report.

    Says what was found and how sure it is, what is identified and what is not, and how well it
    explains the log. `inverseq show LOG` lists the columns.

    Args:
        log: A Parquet, CSV, JSON lines or Arrow file, or a folder of them.
        columns: How to read it.
        what: What to fit.
        again: The fit.json of a fit, to do it again bit for bit; all else is then left out, but
            for --out, --workers and --json.
        out: The folder to write; the name of the log and the algorithm where not given.
        workers: How many processes measure uncertainty; 0 is this one alone.
        json: Print the results as JSON, and nothing else.
    """
    from inverseq.errors import InvalidInput
    from inverseq.experiments import options
    from inverseq.verbs.fit import SETTINGS, Kept, run

    if again is not None:
        if log is not None or columns != Log() or what != Fit():
            raise InvalidInput(
                "`--settings` must stand alone, but for --out, --workers and --json: the file "
                "holds all else. Edit it, or leave `--settings` out."
            )
        kept = Kept.load(again)
        if out is None and again.name != SETTINGS:
            raise InvalidInput("`--out` must be given, for the settings file lies in no run.")
        result = run(
            kept.path, kept.log, kept.fit, out or again.parent,
            command=kept.command, before=kept.sha256, workers=workers,
        )  # fmt: skip
    else:
        if log is None:
            raise InvalidInput(
                "`inverseq fit` must be given a log: inverseq fit LOG --state ... --action ... "
                "--discount ... [--out RUN]; or `--settings RUN/fit.json`."
            )
        stem = log.name.partition(".")[0]
        out = Path(f"{stem}-{what.algorithm}") if out is None else out
        words = [shlex.quote(str(log)), *options(columns), *options(what)]
        command = " ".join(["inverseq fit", *words, "--out", shlex.quote(str(out))])
        result = run(log, columns, what, out, command=command, workers=workers)
    if json:
        print(json_format.dumps(result.plain(), indent=1))
    else:
        show_fit(result)


def show_fit(result: FitResult) -> None:
    """A fit in the terminal: what was read, what was found, and how far to trust it."""
    from inverseq import identification
    from inverseq.demonstrations import amount
    from inverseq.report.solutions import summary
    from inverseq.verbs import scores

    console, seen = terminal(), result.seen
    dropped = 0 if seen.reading is None else seen.reading.dropped
    actions = f"{result.found.n_actions:,} actions"
    if seen.tabular:
        actions = f"{len(result.found.tables.q):,} states, {actions}"
    left_out = f"; {dropped:,} bad rows left out" if dropped else ""
    console.print(
        f"\nRead {result.path.name}: {amount(len(seen), 'step')} of "
        f"{amount(seen.n_episodes, 'episode')}, "
        f"{actions}{left_out}",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip
    said = summary(result.found)
    if said is not None:
        console.print(as_rich(said))
    verdict = identification.verdict(result.found.info)
    console.print(f"\n{verdict.known}", highlight=False, markup=False)
    console.print(verdict.unknown, highlight=False, markup=False, style="bold")
    explained = scores.table(result.scores, "How likely the steps of the log are")
    print_table(explained)
    for remark in result.remarks:
        console.print(f"- {remark}", highlight=False, markup=False)
    console.print(f"\nRun:    {result.folder}", highlight=False, soft_wrap=True, markup=False)
    if result.report is not None:
        console.print(f"Report: {result.report}", highlight=False, soft_wrap=True, markup=False)


def evaluate(
    run: tyro.conf.Positional[Path],
    log: tyro.conf.Positional[Path],
    *,
    columns: Annotated[Log, tyro.conf.arg(name="")],
    json: Flag = False,
) -> None:
    """Say how well a fitted run foretells the steps of another log, in nats and in bits.

    The log is read as the run's own was; columns need naming only where they are called otherwise.

    Args:
        run: The folder that `inverseq fit` wrote.
        log: The other log.
        columns: What is called otherwise.
        json: Print the results as JSON, and nothing else.
    """
    from inverseq.verbs import evaluate, scores

    result = evaluate.run(run, log, columns)
    if json:
        print(json_format.dumps(result.plain(), indent=1))
        return
    print_table(scores.table(result.scores, f"How likely the steps of {log.name} are"))
    for sentence in evaluate.said(result):
        terminal().print(f"- {sentence}", highlight=False, markup=False)


def compare(
    log: tyro.conf.Positional[Path],
    *,
    columns: Annotated[Log, tyro.conf.arg(name="")],
    how: Annotated[Compare, tyro.conf.arg(name="")],
    workers: int | None = None,
    json: Flag = False,
) -> None:
    """Fit every method that a log allows, and rank them by how well they foretell held-out steps.

    Episodes (or units) are divided into parts; each part is foretold by a fit to the others.

    Args:
        log: A Parquet, CSV, JSON lines or Arrow file, or a folder of them.
        columns: How to read it.
        how: How to compare.
        workers: How many processes; 0 is this one alone.
        json: Print the results as JSON, and nothing else.
    """
    from inverseq.verbs import compare

    result = compare.run(log, columns, how, workers=workers)
    if json:
        print(json_format.dumps(result.plain(), indent=1))
        return
    print_table(compare.table(result))
    for remark in result.remarks:
        terminal().print(f"- {remark}", highlight=False, markup=False)


def print_table(table: Table) -> None:
    """A table of a document in the terminal, with its notes."""
    console = terminal()
    console.print(as_rich(table))
    for note in table.notes:
        console.print(note, style="dim", highlight=False, markup=False)


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
        print_table(said)
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

    columns = [column for column in said.columns if isinstance(column, Column)]
    shown = RichTable(
        title=f"\n{escape(said.caption)}",
        title_style="bold",
        title_justify="left",
        show_header=any(column.title for column in columns),
    )
    numbers = any(column.numeric for column in columns)
    for i, column in enumerate(columns):
        justify: Literal["left", "right"] = "right" if column.numeric else "left"
        shown.add_column(escape(column.title), justify=justify, no_wrap=numbers and i == 0)
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
    "fit": fit,
    "evaluate": evaluate,
    "compare": compare,
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
    verbs = [*COMMANDS, "reproduce"]
    if given and not given[0].startswith("-") and given[0] not in verbs:
        meant = nearest(given[0], verbs)
        print(
            f"inverseq: the command must be one of {', '.join(verbs)}; got {given[0]!r}.{meant}",
            file=sys.stderr,
        )
        return BAD_INPUT
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
