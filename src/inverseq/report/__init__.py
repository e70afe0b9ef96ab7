"""Pictures and pages, drawn from what was found; nothing here trains.

A `Run` is what an experiment leaves behind: rows of numbers, and a `Document` that says what they
show, in blocks of plain data. `write_report` turns a saved one, or a saved solution, into one HTML
file. `replay_page` turns recordings of the highway into a page that plays them.
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
    Still,
    Table,
    Text,
    from_plain,
    to_plain,
)
from inverseq.report.maps import Panel, draw
from inverseq.report.page import render, write_report
from inverseq.report.replay import replay_page, still
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
    "Still",
    "Table",
    "Text",
    "describe",
    "draw",
    "from_plain",
    "load_run",
    "render",
    "replay_page",
    "save_run",
    "still",
    "tell",
    "to_plain",
    "write_report",
]
