"""Pictures and pages, drawn from what was found; nothing here trains.

A `Run` is what an experiment leaves behind: rows of numbers, and a `Document` that says what they
show, in blocks of plain data. `write_report` turns a saved one, or a saved solution, into one HTML
file.
"""

from inverseq.report.blocks import (
    Block,
    Cell,
    Chart,
    Column,
    Document,
    Graph,
    Maps,
    Section,
    Series,
    Settings,
    Table,
    Text,
    from_plain,
    to_plain,
)
from inverseq.report.maps import Panel, draw
from inverseq.report.page import render, write_report
from inverseq.report.runs import Run, load_run, save_run
from inverseq.report.solutions import describe, tell

__all__ = [
    "Block",
    "Cell",
    "Chart",
    "Column",
    "Document",
    "Graph",
    "Maps",
    "Panel",
    "Run",
    "Section",
    "Series",
    "Settings",
    "Table",
    "Text",
    "describe",
    "draw",
    "from_plain",
    "load_run",
    "render",
    "save_run",
    "tell",
    "to_plain",
    "write_report",
]
