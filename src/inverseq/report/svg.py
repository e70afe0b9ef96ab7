"""Maps and charts as SVG text: true vectors, and small.

Only data has colours of its own. Lines and letters take theirs from the page's style sheet, so that
they are right by day and by night.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape

import numpy as np

from inverseq.errors import MissingExtra
from inverseq.report.blocks import Chart, Graph, Series, Still
from inverseq.report.maps import Panel, borders

LEVELS = 63  # odd, so that zero has the neutral colour of a signed scale
MOST_CELLS = 16_384  # more are averaged by blocks: a page is for eyes
SHAPES = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    "M-3.5 -3.5h7v7h-7z",
    "M0 -5l4.6 8h-9.2z",
    "M0 -5l5 5l-5 5l-5 -5z",
)
# Where an arrow begins, from the middle of its cell, and the way of the pen: up, down, left, right,
# and a dot.
ARROWS = (
    ((0.3, 0.0), "v-.6m-.2 .2l.2-.2 .2 .2"),
    ((-0.3, 0.0), "v.6m-.2-.2l.2 .2 .2-.2"),
    ((0.0, 0.3), "h-.6m.2-.2l-.2 .2 .2 .2"),
    ((0.0, -0.3), "h.6m-.2-.2l.2 .2-.2 .2"),
    ((0.0, -0.08), "a.08 .08 0 1 0 .16 0a.08 .08 0 1 0-.16 0"),
)
COLOURS = 8  # of lines, in the style sheet

# -- maps ----------------------------------------------------------------------------------------


@cache
def palette(name: str) -> tuple[str, ...]:
    """The colours of a scale, from low to high.

    >>> palette("viridis")[0], palette("RdBu")[LEVELS // 2]
    ('#440154', '#f6f7f7')
    """
    try:
        from matplotlib import colormaps
        from matplotlib.colors import to_hex
    except ImportError:
        raise MissingExtra(
            "A report's maps need Matplotlib. Install it with `pip install 'inverseq[report]'`."
        ) from None
    return tuple(to_hex(colour) for colour in colormaps[name](np.linspace(0, 1, LEVELS)))


def gradient(name: str) -> str:
    """The colours of a scale from left to right, to be filled with by ``url(#name)``."""
    colours = palette(name)[:: (LEVELS - 1) // 31]
    stops = "".join(
        f'<stop offset="{i / (len(colours) - 1):.3f}" stop-color="{colour}"/>'
        for i, colour in enumerate(colours)
    )
    return f'<linearGradient id="{name}">{stops}</linearGradient>'


def heat_map(panel: Panel, shape: tuple[int, int], number: int = 0) -> str:
    """A map: one path for each colour, hatched where nothing is known, or hardly anything.

    >>> drawn = heat_map(Panel("r", np.array([0, np.nan, 1])), (1, 3))
    >>> drawn.count('<path fill="#'), drawn.count("url(#hatch0)")
    (2, 1)
    """
    panel, shape = pooled(panel, shape)
    rows, cols = shape
    cells = panel.values.reshape(shape)
    known = np.isfinite(cells)
    level = np.where(known, levels(panel).reshape(shape), -1)
    parts = [f"<title>{escape(describe_panel(panel))}</title>"]
    strip = cols > 8 * rows
    doubtful = np.zeros(shape, bool) if panel.doubtful is None else panel.doubtful.reshape(shape)
    doubtful = doubtful & known
    # The hatching is as wide on the page whatever the number of cells: a map is some 330 pixels
    # wide, a strip some 1,000 and 72 high.
    x, y = (cols / 1000, rows / 72) if strip else (cols / 330, cols / 330)
    for name, where in ("hatch", ~known), ("doubt", doubtful):
        if where.any():
            parts.append(
                f'<pattern id="{name}{number}" width="7" height="7" patternUnits="userSpaceOnUse" '
                f'patternTransform="scale({x:.4g} {y:.4g}) rotate(45)">'
                f'<path class="{name}" d="M0 0V7" stroke-width="4"/></pattern>'
            )
    if not known.all():
        unknown = runs(~known)
        parts.append(f'<path class="unknown" d="{unknown}"/>')
        parts.append(f'<path fill="url(#hatch{number})" d="{unknown}"/>')
    colours = palette(panel.colours)
    parts += [
        f'<path fill="{colours[i]}" d="{runs(level == i)}"/>' for i in np.unique(level[known])
    ]
    if doubtful.any():
        parts.append(f'<path fill="url(#doubt{number})" d="{runs(doubtful)}"/>')
    if panel.region is not None:
        lines = "".join(f"M{a[1]} {a[0]}L{b[1]} {b[0]}" for a, b in borders_of(panel, shape))
        parts.append(f'<path class="region halo" d="{lines}"/><path class="region" d="{lines}"/>')
    if panel.arrows is not None:
        arrows = panel.arrows.reshape(shape)
        bright = level >= LEVELS * (2 / 3)
        for shade, where in ("dark", bright), ("light", ~bright & known):
            drawn = arrow_path(np.where(where, arrows, -1))
            if drawn:
                parts.append(f'<path class="arrow {shade}" d="{drawn}"/>')
    kind, stretch = ("strip", ' preserveAspectRatio="none"') if strip else ("map", "")
    return (
        f'<svg class="{kind}" viewBox="0 0 {cols} {rows}"{stretch} role="img" '
        f'aria-label="{escape(panel.title)}" shape-rendering="crispEdges">{"".join(parts)}</svg>'
    )


def levels(panel: Panel) -> np.ndarray:
    """Which colour each cell has, from 0 to `LEVELS` - 1; 0 where nothing is known."""
    low, high = panel.scale
    values = np.where(np.isfinite(panel.values), panel.values, low)
    share = (values - low) / (high - low) if high > low else np.full(values.shape, 0.5)
    found: np.ndarray = np.rint(share.clip(0, 1) * (LEVELS - 1)).astype(int)
    return found


def runs(mask: np.ndarray) -> str:
    """The cells of a mask as one path, neighbours in a row together.

    >>> runs(np.array([[True, True, False], [False, False, True]]))
    'M0 0h2v1h-2zM2 1h1v1h-1z'
    """
    edges = np.diff(np.pad(mask, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    (r, start), (_, end) = np.nonzero(edges == 1), np.nonzero(edges == -1)
    return "".join(
        f"M{x} {y}h{w}v1h-{w}z"
        for x, y, w in zip(start.tolist(), r.tolist(), (end - start).tolist(), strict=True)
    )


def arrow_path(arrows: np.ndarray) -> str:
    """Arrows where a policy goes and dots where it stays, in units of cells.

    >>> arrow_path(np.array([[4, -1]]))
    'M0.42 0.5a.08 .08 0 1 0 .16 0a.08 .08 0 1 0-.16 0'
    """
    return "".join(
        f"M{c + 0.5 + start[1]:g} {r + 0.5 + start[0]:g}{drawn}"
        for r, c in np.argwhere(arrows >= 0).tolist()
        for start, drawn in [ARROWS[arrows[r, c]]]
    )


def borders_of(
    panel: Panel, shape: tuple[int, int]
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The border of a panel's region, if it has one."""
    return [] if panel.region is None else borders(panel.region.reshape(shape))


def pooled(panel: Panel, shape: tuple[int, int]) -> tuple[Panel, tuple[int, int]]:
    """A map that is small enough to draw: the means of blocks of cells, without its arrows.

    >>> pooled(Panel("v", np.arange(65_536.0)), (256, 256))[1]
    (128, 128)
    """
    rows, cols = shape
    if rows * cols <= MOST_CELLS:
        return panel, shape
    # A strip is shortened; a map shrinks both ways.
    strip = cols > 8 * rows
    by = (
        math.ceil(rows * cols / MOST_CELLS)
        if strip
        else math.ceil(math.sqrt(rows * cols / MOST_CELLS))
    )
    high, wide = (1 if strip else by), by
    # The last block may be smaller: it is filled with what does not count.
    r, c = np.divmod(np.arange(rows * cols), cols)
    small = (-(-rows // high), -(-cols // wide))
    block = (r // high) * small[1] + c // wide
    known = np.isfinite(panel.values)
    n = np.bincount(block, known, small[0] * small[1])
    sums = np.bincount(block, np.where(known, panel.values, 0.0), len(n))
    region = None if panel.region is None else np.bincount(block, panel.region, len(n)) > 0
    doubtful = panel.doubtful
    if doubtful is not None:
        doubtful = 2 * np.bincount(block, doubtful & known, len(n)) > n
    with np.errstate(invalid="ignore"):
        means = np.where(n > 0, sums / np.maximum(n, 1), np.nan)
    cells = f"{by} cells" if strip else f"{by} × {by} cells"
    note = f"{panel.note}; " * bool(panel.note) + f"drawn as means of {cells}"
    scale = panel.scale
    drawn = Panel(panel.title, means, panel.signed, region, note, limits=scale, doubtful=doubtful)
    return drawn, small


def describe_panel(panel: Panel, what: str = "cells") -> str:
    """A map in words."""
    known = panel.values[np.isfinite(panel.values)]
    if not known.size:
        return f"{panel.title}: nothing is known"
    words = f"{panel.title}: from {number(known.min())} to {number(known.max())}"
    if known.size < panel.values.size:
        words += f"; {panel.values.size - known.size:,} of {panel.values.size:,} {what} not known"
    if panel.doubtful is not None and panel.doubtful.any():
        words += f"; {int(panel.doubtful.sum()):,} {what} hardly known"
    return words


# -- graphs --------------------------------------------------------------------------------------


def graph(drawn: Graph, panel: Panel) -> str:
    """Places joined by lines, in the units of their coordinates; a title on each place.

    >>> two = Graph([Panel("r", np.array([0.0, 1.0]))], [(0, 0), (3, 0)], [(0, 1)], faint=[0])
    >>> picture = graph(two, two.panels[0])
    >>> picture.count("<circle"), picture.count('class="place faint"')
    (2, 1)
    """
    xy = np.array(drawn.places)
    low, high = xy.min(axis=0) - 1.0, xy.max(axis=0) + 1.0
    colours, level = palette(panel.colours), levels(panel)
    lines = "".join(
        "M{:g} {:g}L{:g} {:g}".format(*drawn.places[a], *drawn.places[b]) for a, b in drawn.links
    )
    parts = [f"<title>{escape(describe_panel(panel, 'places'))}</title>"]
    parts.append(f'<path class="link" d="{lines}"/>')
    names = dict(drawn.marks)
    for i, (x, y) in enumerate(drawn.places):
        known = bool(np.isfinite(panel.values[i]))
        hollow = i in drawn.faint or not known
        colour = colours[level[i]]
        look = 'class="place faint" r=".2"' if hollow else f'class="place" r=".36" fill="{colour}"'
        named = f"{i}, {names[i]}" if i in names else f"{i}"
        words = escape(f"{named}: {number(float(panel.values[i]))}" + " (little known)" * hollow)
        parts.append(f'<circle {look} cx="{x:g}" cy="{y:g}"><title>{words}</title></circle>')
    for i, name in drawn.marks:
        x, y = drawn.places[i]
        parts.append(f'<circle class="ring" r=".56" cx="{x:g}" cy="{y:g}"/>')
        # Inside of the picture, whichever border is near.
        anchor = "end" if x > (low[0] + high[0]) / 2 else "start"
        parts.append(
            f'<text class="place-name" x="{x:g}" y="{y - 0.75:g}" text-anchor="{anchor}">'
            f"{escape(name)}</text>"
        )
    wide, tall = high - low
    return (
        f'<svg class="map" viewBox="{low[0]:g} {low[1]:g} {wide:g} {tall:g}" role="img" '
        f'aria-label="{escape(panel.title)}">{"".join(parts)}</svg>'
    )


# -- charts --------------------------------------------------------------------------------------

WIDTH, HEIGHT = 600, 340
LEFT, RIGHT, TOP, BOTTOM = 72, 18, 12, 40


class Axis:
    """From numbers to places on the page, and the ticks between."""

    def __init__(self, values: Iterable[float], log: bool, begin: float, end: float) -> None:
        self.log, self.begin, self.end = log, begin, end
        kept = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
        self.low, self.high = (min(kept), max(kept)) if kept else (1.0, 10.0)
        self.given = sorted(set(kept))

    def widen(self, share: float = 0.05) -> Axis:
        """Leave room at both ends; begin at 0 where that is near."""
        if self.log:
            factor = (self.high / self.low) ** share if self.high > self.low else 2.0
            self.low, self.high = self.low / factor, self.high * factor
            return self
        near = 0 <= self.low < 0.5 * self.high
        room = share * (self.high - self.low) or share * abs(self.high) or 1.0
        self.low, self.high = (0.0 if near else self.low - room), self.high + room
        return self

    def place(self, value: float) -> float:
        """Where a number lies; beyond the axis is at its end. NaN where it has no place."""
        if not math.isfinite(value) or (self.log and value <= 0):
            return math.nan
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        share = (value - low) / (high - low)
        return self.begin + min(max(share, 0), 1) * (self.end - self.begin)

    def ticks(self) -> list[float]:
        """Round numbers on the axis; few numbers that were given are their own ticks."""
        if self.log and len(self.given) <= 8 and self.begin < self.end:
            return self.given
        found = self.factors() if self.log else []
        return found if len(found) > 1 else self.steps()

    def factors(self) -> list[float]:
        """Powers of ten, and 2 and 5 times them where there are few."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        if self.high > 300 * self.low:
            inside = range(first + (10.0**first < self.low), last + 1 - (10.0**last > self.high))
            return [10.0**d for d in inside[:: -(-len(inside) // 7)]]
        found = [m * 10.0**d for d in range(first, last + 1) for m in (1, 2, 5)]
        return [tick for tick in found if self.low <= tick <= self.high]

    def steps(self) -> list[float]:
        """Multiples of 1, 2 or 5 times a power of ten, at most six of them."""
        rough = (self.high - self.low) / 5
        power = 10.0 ** math.floor(math.log10(rough))
        step = power * next(m for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]


def line_chart(chart: Chart) -> str:
    """A chart: bands, lines and marks over two axes, with a title on each mark.

    >>> drawn = line_chart(Chart([Series("IAVI", [1, 2], [3, 4])], "x", "y"))
    >>> drawn.count('class="mark s0"')
    2
    """
    x = x_axis(chart)
    heights = [v for s in chart.series for given in (s.y, s.low, s.high) for v in numbers(given)]
    y = Axis(heights, chart.y_log, HEIGHT - BOTTOM, TOP).widen()
    parts = [f"<title>{escape(chart_words(chart))}</title>"]
    for tick in y.ticks():
        at = f"{y.place(tick):.1f}"
        parts.append(f'<path class="grid" d="M{LEFT} {at}H{WIDTH - RIGHT}"/>')
        parts.append(
            f'<text x="{LEFT - 9}" y="{at}" dy=".33em" text-anchor="end">{number(tick)}</text>'
        )
    parts.append(f'<path class="axis" d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    free = 0.0
    for tick in x.ticks():
        label, middle = number(tick), x.place(tick)
        half = 6.2 * len(label) + 4  # as wide as letters are on a phone
        if middle - half < free:
            continue
        free = middle + half
        parts.append(f'<path class="axis" d="M{middle:.1f} {HEIGHT - BOTTOM}v5"/>')
        parts.append(
            f'<text x="{middle:.1f}" y="{HEIGHT - BOTTOM + 10}" dy=".75em" text-anchor="middle">'
            f"{label}</text>"
        )
    for i, series in enumerate(chart.series):
        if series.low is not None and series.high is not None:
            parts.append(band(series, x, y, i))
    for i, series in enumerate(chart.series):
        parts.append(line(series, x, y, i))
    if not any(math.isfinite(v) for v in heights):
        parts.append(
            f'<text x="{WIDTH / 2}" y="{HEIGHT / 2}" text-anchor="middle">nothing is known</text>'
        )
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(chart_words(chart))}">{"".join(parts)}</svg>'
    )


def x_axis(chart: Chart) -> Axis:
    """The horizontal axis of a chart."""
    values = (v for s in chart.series for v in s.x)
    return Axis(values, chart.x_log, LEFT, WIDTH - RIGHT).widen(0.03)


def numbers(given: Sequence[float | None] | None) -> list[float]:
    """Numbers, NaN for what is not known; none where nothing was given."""
    return [math.nan if value is None else value for value in given or ()]


def stretches(places: Iterable[tuple[float, ...]]) -> list[list[tuple[float, ...]]]:
    """The stretches of points between gaps.

    >>> stretches([(0, 1), (1, math.nan), (2, 3), (3, 4)])
    [[(0, 1)], [(2, 3), (3, 4)]]
    """
    found: list[list[tuple[float, ...]]] = [[]]
    for point in places:
        if all(map(math.isfinite, point)):
            found[-1].append(point)
        elif found[-1]:
            found.append([])
    return [stretch for stretch in found if stretch]


def band(series: Series, x: Axis, y: Axis, i: int) -> str:
    """The band of a series."""
    bottom = y.begin
    rows = []
    for at, low, high in zip(series.x, numbers(series.low), numbers(series.high), strict=True):
        below = y.place(low)
        # On a scale of factors what is not positive lies below everything.
        below = bottom if y.log and low <= 0 else below
        rows.append((x.place(at), below, y.place(high)))
    parts = []
    for stretch in stretches(rows):
        upper = [f"{at:.1f} {high:.1f}" for at, _, high in stretch]
        lower = [f"{at:.1f} {low:.1f}" for at, low, _ in reversed(stretch)]
        parts.append("M" + "L".join(upper + lower) + "z")
    return f'<path class="band s{i % COLOURS}" d="{"".join(parts)}"/>'


def line(series: Series, x: Axis, y: Axis, i: int) -> str:
    """The line of a series and its marks."""
    colour, parts = f"s{i % COLOURS}", []
    if series.style != "points":
        points = (
            (x.place(a), y.place(b)) for a, b in zip(series.x, numbers(series.y), strict=True)
        )
        path = "".join(
            "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in stretch) for stretch in stretches(points)
        )
        parts.append(f'<path class="line {series.style} {colour}" d="{path}"/>')
    if marked(series):
        for a, b in zip(series.x, numbers(series.y), strict=True):
            at, height = x.place(a), y.place(b)
            if math.isfinite(at) and math.isfinite(height):
                words = escape(f"{series.name}: {number(a)}, {number(b)}")
                parts.append(
                    f'<path class="mark {colour}" transform="translate({at:.1f} {height:.1f})" '
                    f'd="{SHAPES[i % len(SHAPES)]}"><title>{words}</title></path>'
                )
    return "".join(parts)


def marked(series: Series) -> bool:
    """Whether its points are marked: they were measured, and are few enough to tell apart."""
    return series.style == "points" or (series.style == "line" and len(series.x) <= 40)


def swatch(series: Series, i: int) -> str:
    """The sign of a series in the legend."""
    colour, drawn = f"s{i % COLOURS}", ""
    if series.style != "points":
        drawn = f'<path class="line {series.style} {colour}" d="M0 7H28"/>'
    if marked(series):
        sign = SHAPES[i % len(SHAPES)]
        drawn += f'<path class="mark {colour}" transform="translate(14 7)" d="{sign}"/>'
    return f'<svg class="swatch" viewBox="0 0 28 14" aria-hidden="true">{drawn}</svg>'


def chart_words(chart: Chart) -> str:
    """A chart in words."""
    names = ", ".join(series.name for series in chart.series)
    return f"{chart.y_label} against {chart.x_label}: {names}"


# -- the highway ---------------------------------------------------------------------------------

SPEEDS = (8.0, 22.0)
"""Metres per second at the ends of the colours of cars; others have the nearest colour."""
SPEED_COLOURS = "RdYlBu"
VIEW = 100.0
"""How many metres of the road are drawn ahead and behind."""
METRE, LANE = 3.2, 26.0
"""How wide and how high a metre and a lane are drawn."""


def road(still: Still, drawn: int = 0) -> str:
    """The road around the ego, lane 0 below: what is allowed is tinted, what is not hatched.

    >>> picture = road(Still([0.0, 30.0], [1, 1], [20.0, 11.0], allowed=[0, 1], chosen=1))
    >>> picture.count('<rect class="car'), picture.count("free"), picture.count("url(#hatch0)")
    (2, 2, 1)
    """
    width, height = 2 * VIEW * METRE, still.n_lanes * LANE
    words = escape(still_words(still))
    parts = [
        f"<title>{words}</title>",
        f'<pattern id="hatch{drawn}" width="5" height="5" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><path class="hatch" d="M0 0V5" stroke-width="3"/></pattern>',
        f'<clipPath id="road{drawn}"><rect width="{width:g}" height="{height:g}" rx="6"/>'
        "</clipPath>",
        f'<g clip-path="url(#road{drawn})"><rect class="asphalt" width="{width:g}" '
        f'height="{height:g}"/>',
    ]
    parts += [
        f'<path class="stripe" d="M0 {i * LANE:g}H{width:g}"/>' for i in range(1, still.n_lanes)
    ]
    parts += [choice(still, by, drawn) for by in (1, 0, -1)]
    cars = zip(still.ahead, still.lanes, still.speeds, strict=True)
    # The ego comes last: it lies over the others.
    parts += reversed([car(*at, still.n_lanes, ego=i == 0) for i, at in enumerate(cars)])
    beyond = (VIEW - still.sight) * METRE
    parts += [
        f'<rect class="veil" x="{x:g}" width="{beyond:g}" height="{height:g}"/>'
        for x in (0.0, width - beyond)
    ]
    parts.append("</g>")
    for metres in range(-80, 81, 40):
        label = f"{metres:+d} m".replace("-", "−") if metres else "0"
        parts.append(
            f'<text x="{(VIEW + metres) * METRE:g}" y="{height + 18:g}" text-anchor="middle">'
            f"{label}</text>"
        )
    return (
        f'<svg class="road" viewBox="0 0 {width:g} {height + 24:g}" role="img" '
        f'aria-label="{words}">{"".join(parts)}</svg>'
    )


def choice(still: Still, by: int, drawn: int) -> str:
    """A cell beside the ego for a change by so many lanes, framed if it is chosen."""
    lane = still.lanes[0] + by
    if not 0 <= lane < still.n_lanes:
        return ""
    left, top = (VIEW - 13) * METRE, (still.n_lanes - 1 - lane) * LANE + 2
    cell = f'x="{left:g}" y="{top:g}" width="{21 * METRE:g}" height="{LANE - 4:g}" rx="4"'
    filled = 'class="free"' if by in still.allowed else f'fill="url(#hatch{drawn})"'
    frame = f'<rect class="chosen" {cell}/>' if by == still.chosen else ""
    return f"<rect {filled} {cell}/>{frame}"


def car(ahead: float, lane: int, speed: float, lanes: int, ego: bool) -> str:
    """A vehicle, from its rear to its front bumper, in the colour of its speed."""
    low, high = SPEEDS
    share = min(max((speed - low) / (high - low), 0.0), 1.0)
    colour = palette(SPEED_COLOURS)[round(share * (LEVELS - 1))]
    long, wide = 5 * METRE, 0.5 * LANE
    x, y = (VIEW + ahead) * METRE - long, (lanes - 0.5 - lane) * LANE - wide / 2
    body = f'x="{x:.1f}" y="{y:.1f}" width="{long:g}" height="{wide:g}" rx="3.5"'
    screen = (
        f'<rect class="windscreen" x="{x + 0.62 * long:.1f}" y="{y + 0.16 * wide:.1f}" '
        f'width="{0.16 * long:.1f}" height="{0.68 * wide:.1f}" rx="1"/>'
    )
    halo = f'<rect class="around" {body}/>' if ego else ""
    kind = "car ego" if ego else "car"
    return f'{halo}<rect class="{kind}" fill="{colour}" {body}/>{screen}'


def still_words(still: Still) -> str:
    """A moment on the highway in words."""
    ways = {0: "keeps its lane", 1: "changes to the left", -1: "changes to the right"}
    return (
        f"The ego drives {number(still.speeds[0], 3)} m/s in lane {still.lanes[0]} among "
        f"{len(still.ahead) - 1} others within {VIEW:g} m, and {ways[still.chosen]}"
    )


POWERS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def number(value: float, digits: int = 4) -> str:
    """A number for people: few digits, a true minus, powers of ten where it is far from 1.

    >>> number(-0.25), number(1024), number(3.2e-7), number(math.nan)
    ('−0.25', '1024', '3.2·10⁻⁷', '–')
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        # Four digits, and all that stand before the point.
        return f"{value:.{max(digits, 5 if abs(value) >= 10**digits else digits)}g}".replace(
            "-", "−"
        )
    mantissa, _, power = f"{value:.{digits - 2}e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".").replace("-", "−")
    power = f"10{str(int(power)).translate(POWERS)}"
    return power if mantissa == "1" else f"{mantissa}·{power}"


def table_of(chart: Chart) -> tuple[list[str], list[list[str]]]:
    """The numbers of a chart: its heads, and one row for each place on its axis.

    >>> table_of(Chart([Series("IAVI", [8], [0.5], [0.4], [0.6])], "trajectories", "EVD"))
    (['trajectories', 'IAVI'], [['8', '0.5 (0.4 to 0.6)']])
    """
    places = sorted({v for series in chart.series for v in series.x if math.isfinite(v)})
    said: list[dict[float, str]] = [{} for _ in chart.series]
    for words, series in zip(said, chart.series, strict=True):
        for a, b in zip(series.x, numbers(series.y), strict=True):
            words[a] = number(b)
        if series.low is not None:
            borders = zip(series.x, numbers(series.low), numbers(series.high), strict=True)
            for a, low, high in borders:
                words[a] += f" ({number(low)} to {number(high)})"
    rows = [[number(a), *(words.get(a, "") for words in said)] for a in places]
    return [chart.x_label, *(series.name for series in chart.series)], rows
