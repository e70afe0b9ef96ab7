"""Runs benchmarks, prints their tables side by side, and writes them down if asked."""

from __future__ import annotations

import argparse
import importlib
import json
import time
from dataclasses import asdict
from typing import Any

from rich.columns import Columns
from rich.console import Console
from rich.table import Table

from benchmarks.measure import Row, machine, number
from inverseq.io.storage import write_file

TIMED = ("iavi_small", "iavi_large", "iql", "maxent", "deep", "highway", "reading", "start")
NAMES = (*TIMED, "coverage")
"""The last one times nothing and takes minutes: it runs where it is named."""


def main() -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--json", metavar="FILE", help="write the rows there")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in NAMES]
    if unknown:
        parser.error(f"NAME must be one of {', '.join(NAMES)}; got {unknown[0]!r}.")

    console = Console()
    about = machine()
    console.print(", ".join(f"{name} {value}" for name, value in about.items()), highlight=False)
    tables, results = [], {}
    for name in given.names or TIMED:
        began = time.perf_counter()
        with console.status(f"measuring {name}"):
            module: Any = importlib.import_module(f"benchmarks.{name}")
            rows: list[Row] = module.run()
        took = time.perf_counter() - began
        tables.append(table(f"{name}: {module.run.__doc__}", rows, took))
        results[name] = {"seconds": took, "rows": [asdict(row) | {"met": row.met} for row in rows]}
    console.print(Columns(tables, padding=(1, 3)))
    if given.json:
        written = json.dumps({"machine": about, "benchmarks": results}, indent=1)
        write_file(given.json, written.encode())


def table(title: str, rows: list[Row], took: float) -> Table:
    """Figures with their targets beside them."""
    shown = Table(
        title=title, caption=f"{took:.0f} s in all", title_justify="left", caption_justify="right"
    )
    shown.add_column("what", max_width=44)
    shown.add_column("figure", justify="right", no_wrap=True)
    shown.add_column("target", justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True)
    verdict = {None: "", True: "[green]met[/]", False: "[red]not met[/]"}
    for row in rows:
        figure = f"{number(row.figure)} {row.unit}".strip()
        # Notes stand below: a column of their own would be a syllable wide in a narrow terminal.
        what = f"{row.what}\n[dim]{row.note}[/]" if row.note else row.what
        shown.add_row(what, figure, row.target, verdict[row.met])
    return shown


if __name__ == "__main__":
    main()
