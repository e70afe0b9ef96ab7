"""What a report says, as plain data: a document is made of blocks, each of them JSON and back.

Whoever computes something states it in these words; how it looks is for `report.page` alone. A
document is therefore saved beside the numbers that it tells of, and can be drawn again later.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inverseq.errors import DamagedFile, InvalidInput
from inverseq.report.maps import Panel, check_panels
from inverseq.solution import plain

KIND = "block"
STYLES = ("line", "dashed", "points")


@dataclass(frozen=True)
class Cell:
    """What a table says in one place, where it is more than a text or a number.

    >>> Cell("0.09", best=True)
    Cell(text='0.09', best=True, to='')
    """

    text: str
    """What is written there."""
    best: bool = False
    """Whether it is the best of its column."""
    to: str = ""
    """The title of the section to which it leads."""


@dataclass(frozen=True)
class Column:
    """The head of a column.

    >>> Column("seconds", numeric=True).title
    'seconds'
    """

    title: str
    """What its cells are."""
    numeric: bool = False
    """Whether they are numbers: aligned to the right, in digits of one width."""


@dataclass(frozen=True)
class Text:
    """Paragraphs; an empty line parts them.

    >>> Text("The reward is known up to a constant.", warning=True).warning
    True
    """

    text: str
    """What is said."""
    warning: bool = False
    """Whether the reader should not miss it."""


@dataclass(frozen=True)
class Table:
    """Rows of text, numbers and nothing (``None``).

    >>> table = Table(["method", Column("EVD", numeric=True)], [["IAVI", Cell("0.09", best=True)]])
    >>> table.columns[0]
    Column(title='method', numeric=False)
    """

    columns: Sequence[Column | str]
    """The heads; a mere text heads a column of text."""
    rows: Sequence[Sequence[Cell | str | float | None]]
    """One cell for each column. Who makes the table writes numbers as text, in the digits that they
    deserve; a bare number gets four."""
    caption: str = ""
    """What it shows."""
    notes: Sequence[str] = ()
    """Lines below."""

    def __post_init__(self) -> None:
        columns = tuple(Column(c) if isinstance(c, str) else c for c in self.columns)
        rows = tuple(tuple(row) for row in self.rows)
        for i, row in enumerate(rows):
            if len(row) != len(columns):
                raise InvalidInput(
                    f"`Table.rows` must have one cell for each of {len(columns)} columns; row {i} "
                    f"has {len(row)}."
                )
        settle(self, columns=columns, rows=rows, notes=tuple(self.notes))


@dataclass(frozen=True)
class Series:
    """One line of a chart.

    >>> Series("IAVI", [8, 16], [0.5, None]).y
    (0.5, nan)
    """

    name: str
    """What the legend calls it."""
    x: Sequence[float]
    """Where; in the order in which points are joined."""
    y: Sequence[float | None]
    """How much; the line has a gap where it is not known."""
    low: Sequence[float | None] | None = None
    """The lower border of a band around it, such as mean - SD."""
    high: Sequence[float | None] | None = None
    """The upper border."""
    style: str = "line"
    """``"line"``, ``"dashed"`` (what was not measured here), or ``"points"`` (not joined)."""

    def __post_init__(self) -> None:
        if self.style not in STYLES:
            raise InvalidInput(f"`Series.style` must be one of {STYLES}; got {self.style!r}.")
        if (self.low is None) != (self.high is None):
            raise InvalidInput(f"A band must have both borders; series {self.name!r} has one.")
        for field in ("x", "y", "low", "high"):
            given = getattr(self, field)
            if given is None:
                continue
            values = tuple(math.nan if value is None else float(value) for value in given)
            if len(values) != len(self.x):
                raise InvalidInput(
                    f"`Series.{field}` must have one number for each of {len(self.x)} in `x`; "
                    f"series {self.name!r} has {len(values)}."
                )
            settle(self, **{field: values})


@dataclass(frozen=True)
class Chart:
    """Lines over one axis, each with a band where it has one.

    >>> Chart([Series("IAVI", [8, 16], [0.5, 0.3])], "trajectories", "EVD", x_log=True).y_log
    False
    """

    series: Sequence[Series]
    """The lines, in the order of the legend."""
    x_label: str
    """What the horizontal axis measures."""
    y_label: str
    """What the vertical axis measures."""
    x_log: bool = False
    """Whether the horizontal axis counts factors; what is not positive is then left out."""
    y_log: bool = False
    """The same for the vertical axis."""
    caption: str = ""
    """What it shows."""

    def __post_init__(self) -> None:
        settle(self, series=tuple(self.series))


@dataclass(frozen=True)
class Maps:
    """Maps of one grid, side by side.

    >>> Maps([Panel("reward", np.arange(6.0))], (2, 3), "What it was after").shape
    (2, 3)
    """

    panels: Sequence[Panel]
    """The maps."""
    shape: tuple[int, int]
    """Rows and columns of the grid. One that is far wider than high is drawn as a strip."""
    caption: str = ""
    """What they show."""
    unknown: str = ""
    """What the legend says of hatched cells without a colour."""
    doubtful: str = ""
    """What it says of those with one."""

    def __post_init__(self) -> None:
        rows, cols = self.shape
        settle(self, panels=tuple(self.panels), shape=(int(rows), int(cols)))
        check_panels(self.panels, self.shape)


@dataclass(frozen=True)
class Still:
    """A moment on the highway: the road around the ego, as `still` takes it from a recording.

    >>> Still([0.0, 31.5], [1, 1], [20.0, 11.2], allowed=[0, 1], chosen=1).lanes
    (1, 1)
    """

    ahead: Sequence[float]
    """How many metres ahead of the ego each vehicle is, the ego first; of its front bumper."""
    lanes: Sequence[int]
    """In which lane; 0 is the right one, which is drawn below the others."""
    speeds: Sequence[float]
    """How fast, in m/s."""
    allowed: Sequence[int]
    """By how many lanes to the left the ego may change: some of 0, 1 and -1."""
    chosen: int
    """By how many it wants to."""
    n_lanes: int = 3
    """How many lanes the road has."""
    sight: float = 80.0
    """How many metres the ego sees ahead and behind."""
    caption: str = ""
    """What it shows."""
    replay: str = ""
    """A page beside the report that shows more, such as ``drive.html``; the picture leads to it."""

    def __post_init__(self) -> None:
        for name in ("ahead", "lanes", "speeds", "allowed"):
            settle(self, **{name: tuple(getattr(self, name))})
        if not len(self.ahead) == len(self.lanes) == len(self.speeds) > 0:
            raise InvalidInput(
                f"`Still` must have the place, lane and speed of each vehicle, of the ego at "
                f"least; got {len(self.ahead)}, {len(self.lanes)} and {len(self.speeds)}."
            )
        if self.replay and not re.fullmatch(r"[\w-][\w.-]*\.html", self.replay):
            raise InvalidInput(
                f"`Still.replay` must be the name of a page beside the report, such as drive.html; "
                f"got {self.replay!r}."
            )


@dataclass(frozen=True)
class Graph:
    """Places joined by lines, such as a maze, and a number for each place; several side by side.

    >>> maze = Graph([Panel("reward", np.arange(3.0))], [(0, 0), (1, 0), (2, 0)], [(0, 1), (1, 2)])
    >>> len(maze.links)
    2
    """

    panels: Sequence[Panel]
    """The drawings; their values are those of the places."""
    places: Sequence[tuple[float, float]]
    """Where each place lies: to the right, and down."""
    links: Sequence[tuple[int, int]]
    """The pairs of places that are joined."""
    marks: Sequence[tuple[int, str]] = ()
    """Places to be found at once, and what they are called."""
    faint: Sequence[int] = ()
    """Places of which little is known: drawn small and hollow."""
    caption: str = ""
    """What they show."""

    def __post_init__(self) -> None:
        places = tuple((float(x), float(y)) for x, y in self.places)
        settle(self, panels=tuple(self.panels), places=places, faint=tuple(self.faint))
        settle(self, links=tuple((int(a), int(b)) for a, b in self.links))
        settle(self, marks=tuple((int(place), str(name)) for place, name in self.marks))
        check_panels(self.panels, (1, len(places)))
        named = [*(end for link in self.links for end in link), *(i for i, _ in self.marks)]
        for place in (*named, *self.faint):
            if not 0 <= place < len(places):
                raise InvalidInput(
                    f"`Graph` must join and mark places from 0 to {len(places) - 1}; got {place}."
                )


@dataclass(frozen=True)
class Settings:
    """Names and values that few readers need and some must have; folded away.

    >>> Settings({"discount": 0.9}).title
    'Settings'
    """

    mapping: Mapping[str, Any]
    """The values by name; one inside another is fine."""
    title: str = "Settings"
    """What it says while it is folded."""

    def __post_init__(self) -> None:
        settle(self, mapping=plain(dict(self.mapping)))


@dataclass(frozen=True)
class Section:
    """Blocks under a heading; sections may hold sections.

    >>> Section("Results", [Text("As expected.")]).title
    'Results'
    """

    title: str
    """The heading; a table may lead to it by this name."""
    blocks: Sequence[Block]
    """What it holds."""

    def __post_init__(self) -> None:
        settle(self, blocks=tuple(self.blocks))


@dataclass(frozen=True)
class Document:
    """All that a report says.

    >>> said = Document("Objectworld", "What an expert was after.", [Text("See below.")])
    >>> from_plain(to_plain(said)) == said
    True
    """

    title: str
    """What it is about."""
    lead: str
    """The answer in a sentence or two."""
    blocks: Sequence[Block]
    """What it holds."""

    def __post_init__(self) -> None:
        settle(self, blocks=tuple(self.blocks))


Block = Section | Text | Table | Chart | Maps | Graph | Still | Settings

KINDS = {
    kind.__name__: kind
    for kind in (
        *(Document, Section, Text, Table, Column, Cell),
        *(Chart, Series, Maps, Graph, Panel, Still, Settings),
    )
}


def to_plain(block: Any) -> dict[str, Any]:
    """A block as plain data that JSON can hold; what is not known becomes ``None``.

    >>> to_plain(Text("Done."))
    {'block': 'Text', 'text': 'Done.', 'warning': False}
    """
    fields = {field.name: getattr(block, field.name) for field in dataclasses.fields(block)}
    return {KIND: type(block).__name__, **{name: encode(value) for name, value in fields.items()}}


def encode(value: Any) -> Any:
    """The value of a field as plain data."""
    if type(value).__name__ in KINDS and dataclasses.is_dataclass(value):
        return to_plain(value)
    if isinstance(value, np.ndarray | np.generic):
        return encode(value.tolist())
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, float) and math.isnan(value):
        return None
    return plain(value)


def from_plain(given: Any, place: str = "a document") -> Any:
    """The block that `to_plain` wrote; anything else is a `DamagedFile`.

    >>> from_plain({"block": "Text", "text": "Done."})
    Text(text='Done.', warning=False)
    """
    if not isinstance(given, dict) or given.get(KIND) not in KINDS:
        kind = given.get(KIND) if isinstance(given, dict) else given
        raise DamagedFile(
            f"A block of {place} must be one of {', '.join(KINDS)}; got {kind!r:.60}. It was "
            f"damaged, or written by a newer version: update inverseq, or make it again."
        )
    kind = KINDS[given[KIND]]
    fields = {name: value for name, value in given.items() if name != KIND}
    if kind is not Settings:  # whose names are its own
        fields = {name: decode(value, place) for name, value in fields.items()}
    try:
        return kind(**fields)
    except (TypeError, ValueError, AttributeError) as problem:
        raise DamagedFile(
            f"A {kind.__name__} of {place} must have the fields of this version; it lacks or adds "
            f"something ({problem}). Make it again, or read it with the version that wrote it."
        ) from problem


def decode(value: Any, place: str) -> Any:
    """The value of a field from plain data."""
    if isinstance(value, dict):
        return from_plain(value, place)
    return tuple(decode(item, place) for item in value) if isinstance(value, list) else value


def settle(block: Any, **fields: Any) -> None:
    """Give the fields of a frozen block their one form."""
    for name, value in fields.items():
        object.__setattr__(block, name, value)
