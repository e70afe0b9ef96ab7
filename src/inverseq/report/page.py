"""The page: a document as one HTML file that needs nothing else, by day, by night and on paper.

It has no script, and its content policy forbids everything that is not in the file. All that a
document says is escaped by the template; the pictures are made here, of numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from inverseq.errors import InvalidInput, MissingExtra
from inverseq.io import storage
from inverseq.report import svg
from inverseq.report.blocks import Block, Cell, Document, Graph, Maps, Section, Settings, Still
from inverseq.report.maps import Panel
from inverseq.report.runs import ROWS, RUN, Run, is_run, load_run, sha256
from inverseq.report.solutions import describe
from inverseq.solution import load

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup


def write_report(
    run: str | PathLike[str],
    out: str | PathLike[str] | None = None,
    *,
    shape: tuple[int, int] | None = None,
) -> Path:
    """Turn a saved run or a saved solution into one HTML file, beside it unless told otherwise.

    >>> import tempfile
    >>> from inverseq.report import Document, Run, save_run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_run(folder, Run("demo", Document("Demo", "It works.", [])))
    ...     write_report(folder).name
    'report.html'

    Args:
        run: The folder.
        out: The file to write; ``report.html`` in the folder where not given.
        shape: Rows and columns of the grid of a saved solution, to draw maps.
    """
    folder = Path(run)
    if is_run(folder):
        if shape is not None:
            raise InvalidInput(
                f"`shape` must be left out for a run, whose document has its maps; {folder} is "
                f"one. Give it with a saved solution."
            )
        found = load_run(folder)
        html = render(found.document, made(found, folder))
    elif (folder / "solution.json").exists():
        solution = load(folder)
        html = render(describe(solution, shape, folder.resolve().name))
    else:
        raise InvalidInput(
            f"A report must have a saved run (a folder with {RUN}) or a saved solution (with "
            f"solution.json); {folder} is neither. Save one first, for example by `inverseq demo`."
        )
    path = folder / storage.REPORT if out is None else Path(out)
    if path.is_dir():
        raise InvalidInput(f"`out` must be a file, such as report.html; {path} is a folder.")
    storage.write_file(path, html.encode())
    return path


def made(run: Run, folder: Path) -> list[Settings]:
    """How a run came about, for the foot of its page."""
    fingerprint = sha256((folder / ROWS).read_bytes())
    record = {
        "experiment": run.kind,
        "command": run.command,
        "seed": run.seed,
        "seconds": round(run.seconds, 2),
        "versions": run.versions,
        "data": f"{len(run.rows):,} rows in {ROWS}, SHA-256 {fingerprint}",
    }
    return [Settings(record, "How this was made"), Settings(run.settings, "Settings of the run")]


def render(document: Document, made: list[Settings] | None = None) -> str:
    """A document as the text of an HTML file.

    >>> page = render(Document("Tom & Jerry", "A chase.", []))
    >>> "<title>Tom &amp; Jerry</title>" in page
    True
    """
    template = template_of("page.html")
    sections = [block for block in document.blocks if isinstance(block, Section)]
    return template.render(
        document=document,
        made=[settings for settings in made or [] if settings.mapping],
        sections=sections,
        anchors=anchors(document),
        figures=Figures(document),
        kind=lambda block: type(block).__name__,
        shown=shown,
        leads=lambda cell: cell.to if isinstance(cell, Cell) else "",
        best=lambda cell: isinstance(cell, Cell) and cell.best,
        flat=flat,
        table_of=svg.table_of,
        speeds=svg.SPEEDS,
        speed_colours=svg.SPEED_COLOURS,
        paragraphs=lambda text: [p for p in re.split(r"\n\s*\n", text) if p.strip()],
    )


def template_of(name: str) -> Template:
    """A template of this package, which escapes what it is given."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise MissingExtra(
            "A report needs Jinja2. Install it with `pip install 'inverseq[report]'`."
        ) from None
    environment = Environment(
        loader=PackageLoader("inverseq", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


class Figures:
    """The pictures of a page, and what must be there once: numbers of maps, names of sections."""

    def __init__(self, document: Document) -> None:
        from markupsafe import Markup

        self.safe = Markup  # what is made here is made of numbers and of escaped text
        self.drawn = 0
        self.titles: set[str] = set()
        blocks = list(walk(document))
        scales = {p.colours for b in blocks if isinstance(b, Maps | Graph) for p in b.panels}
        scales |= {svg.SPEED_COLOURS for b in blocks if isinstance(b, Still)}
        self.scales = sorted(scales)

    def first(self, section: Section) -> bool:
        """Whether it is the first section of its title: the one that links lead to."""
        known = section.title in self.titles
        self.titles.add(section.title)
        return not known

    def gradients(self) -> Markup:
        """The scales that the page uses, once."""
        return self.safe("".join(map(svg.gradient, self.scales)))

    def panels(self, maps: Maps | Graph) -> Iterator[tuple[Panel, Markup]]:
        """Each panel as it is drawn, and its picture."""
        if isinstance(maps, Graph):
            for panel in maps.panels:
                yield panel, self.safe(svg.graph(maps, panel))
            return
        for panel in maps.panels:
            small, shape = svg.pooled(panel, maps.shape)
            self.drawn += 1
            yield small, self.safe(svg.heat_map(small, shape, self.drawn))

    def chart(self, chart: Any) -> Markup:
        """A chart."""
        return self.safe(svg.line_chart(chart))

    def road(self, still: Still) -> Markup:
        """A moment on the highway."""
        self.drawn += 1
        return self.safe(svg.road(still, self.drawn))

    def swatch(self, series: Any, i: int) -> Markup:
        """The sign of a series in the legend."""
        return self.safe(svg.swatch(series, i))

    def ticks(self, panel: Panel) -> list[str]:
        """What stands below a colour bar: the ends of the scale and its middle."""
        low, high = panel.scale
        middle = (low + high) / 2
        middle = 0.0 if abs(middle) < 1e-9 * (high - low) else middle  # what rounding left over
        return [svg.number(value, 3) for value in (low, middle, high)]

    def numbers(self, panel: Panel) -> list[str]:
        """A map in four numbers."""
        known = panel.values[np.isfinite(panel.values)]
        ends = [known.min(), known.mean(), known.max()] if known.size else [np.nan] * 3
        return [*(svg.number(float(value)) for value in ends), f"{known.size:,}"]


def walk(holder: Document | Section) -> Iterator[Block]:
    """All blocks, those inside of sections too."""
    for block in holder.blocks:
        yield block
        if isinstance(block, Section):
            yield from walk(block)


def anchors(document: Document) -> dict[str, str]:
    """Where each section is found on the page, by its title.

    >>> anchors(Document("", "", [Section("IAVI, state gauge", []), Section("Éa", [])]))
    {'IAVI, state gauge': 'iavi-state-gauge', 'Éa': 'a'}
    """
    found: dict[str, str] = {}
    for block in walk(document):
        if isinstance(block, Section) and block.title not in found:
            name = re.sub(r"[^a-z0-9]+", "-", block.title.lower()).strip("-") or "section"
            while name in found.values():
                name += "-"
            found[block.title] = name
    return found


def shown(cell: Cell | str | float | None) -> str:
    """The text of a cell."""
    if isinstance(cell, Cell):
        return cell.text
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}".replace("-", "−")
    return svg.number(cell) if isinstance(cell, float) else cell


def flat(mapping: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Names and values, one inside another as one name.

    >>> list(flat({"gauge": {"is": "Zero"}, "out": None, "walls": []}))
    [('gauge', 'Zero'), ('out', 'none'), ('walls', 'none')]
    """
    for name, value in mapping.items():
        if isinstance(value, Mapping) and value:
            if "is" in value:
                yield above + name, str(value["is"])
            inner = {key: item for key, item in value.items() if key != "is"}
            yield from flat(inner, f"{above}{name}.")
        elif isinstance(value, list | tuple) and value:
            yield above + name, ", ".join(map(str, value))
        else:
            nothing = value is None or value == "" or (not value and isinstance(value, list | dict))
            words = {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
            yield above + name, "none" if nothing else words
