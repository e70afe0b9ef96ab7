"""Maps: one number for each cell of a grid, side by side."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from inverseq.errors import InvalidInput, MissingExtra
from inverseq.io import storage

SUFFIXES = (".png", ".svg", ".pdf")
INK, FAINT, MARK = "#1f2430", "#8a8f98", "#d1495b"
STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1), (0, 0))
"""Rows and columns that each arrow goes: up, down, left, right, stay, as in `worlds.grid`."""


@dataclass(frozen=True, eq=False)
class Panel:
    """One map.

    >>> Panel("reward", np.zeros(4)).title
    'reward'
    """

    title: str
    """What it shows."""
    values: np.ndarray
    """One number for each state, (S,); NaN where nothing is known (drawn hatched)."""
    signed: bool = False
    """Whether zero is special: then its colour is neutral and the scale is symmetric."""
    region: np.ndarray | None = None
    """Cells to outline, bool (S,)."""
    note: str = ""
    """A line below."""
    arrows: np.ndarray | None = None
    """A policy: 0 to 4 for up, down, left, right and stay, -1 for no arrow, integers (S,)."""
    limits: tuple[float, float] | None = None
    """The values at the ends of the scale, where several maps share one."""
    doubtful: np.ndarray | None = None
    """Cells of which hardly anything is known, bool (S,): hatched over their colour."""

    def __post_init__(self) -> None:
        for name, kind in ("values", float), ("region", bool), ("arrows", int), ("doubtful", bool):
            given = getattr(self, name)
            if given is not None:
                array = np.array(given, dtype=kind)
                array.flags.writeable = False
                object.__setattr__(self, name, array)
        if self.arrows is not None and not np.isin(self.arrows, range(-1, len(STEPS))).all():
            raise InvalidInput(
                f"`Panel.arrows` must lie from -1 to {len(STEPS) - 1}; {self.title!r} has "
                f"{self.arrows.min()} to {self.arrows.max()}."
            )
        if self.limits is not None:
            low, high = map(float, self.limits)
            object.__setattr__(self, "limits", (low, high))

    @property
    def colours(self) -> str:
        """What Matplotlib calls the colour map."""
        return "RdBu" if self.signed else "viridis"

    @property
    def scale(self) -> tuple[float, float]:
        """The values that get the first and the last colour.

        >>> Panel("reward", np.array([-1.0, 3.0, np.nan]), signed=True).scale
        (-3.0, 3.0)
        """
        known = self.values[np.isfinite(self.values)]
        low, high = self.limits or ((known.min(), known.max()) if known.size else (0.0, 1.0))
        if self.signed:
            high = max(abs(low), abs(high), 1e-12)
            low = -high
        return float(low), float(high)


def draw(
    panels: Sequence[Panel],
    shape: tuple[int, int],
    path: str | PathLike[str],
    *,
    title: str = "",
    columns: int | None = None,
) -> Path:
    """Draw maps side by side and write them as a picture; the kind is that of the path's ending.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw([Panel("reward", np.arange(4.0))], (2, 2), f"{folder}/maps.png").name
    'maps.png'
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise InvalidInput(f"A picture must end in one of {SUFFIXES}; {path.name!r} does not.")
    check_panels(panels, shape)
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra(
            "Pictures need Matplotlib. Install it with `pip install 'inverseq[report]'`."
        ) from None

    columns = min(len(panels), columns or len(panels))
    rows = -(-len(panels) // columns)
    height = 2.7 * shape[0] / shape[1]
    size = (3.25 * columns, (height + 0.55) * rows + (0.4 if title else 0))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, panel in zip(axes, panels, strict=False):
        cells = panel.values.reshape(shape)
        low, high = panel.scale
        axis.set_facecolor("#f0f0f2")
        image = axis.imshow(
            np.where(np.isfinite(cells), cells, np.nan),
            cmap=panel.colours,
            vmin=low,
            vmax=high,
            interpolation="nearest",
        )
        if not np.isfinite(cells).all():
            axis.patch.set(hatch="////", edgecolor="#c9ccd2")
        if panel.doubtful is not None and panel.doubtful.any():
            doubtful = np.ma.masked_equal(panel.doubtful.reshape(shape).astype(float), 0.0)
            edges = np.arange(shape[1] + 1) - 0.5, np.arange(shape[0] + 1) - 0.5
            axis.pcolor(*edges, doubtful, hatch="////", alpha=0.0, edgecolor="#c9ccd2")
        if panel.region is not None:
            outline(axis, panel.region.reshape(shape))
        if panel.arrows is not None:
            point(axis, panel.arrows.reshape(shape))
        axis.set_title(panel.title, fontsize=10, color=INK, pad=5)
        axis.set_xlabel(panel.note, fontsize=8, color=FAINT)
        axis.set_xticks([])
        axis.set_yticks([])
        for spine in axis.spines.values():
            spine.set_color("#c9ccd2")
        bar = figure.colorbar(image, ax=axis, fraction=0.046, pad=0.03)
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=7, length=2, colors=FAINT)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    if title:
        figure.suptitle(title, fontsize=11, color=INK, fontweight="bold")
    data = io.BytesIO()
    figure.savefig(data, format=path.suffix[1:], dpi=160, facecolor="white")
    storage.write_file(path, data.getvalue())
    return path


def check_panels(panels: Sequence[Panel], shape: tuple[int, int]) -> None:
    """Raise unless every map has one entry for each cell of the grid."""
    cells = shape[0] * shape[1]
    for panel in panels:
        for name in ("values", "region", "arrows", "doubtful"):
            array = getattr(panel, name)
            if array is not None and array.shape != (cells,):
                raise InvalidInput(
                    f"`Panel.{name}` must have one number for each of {cells} cells; "
                    f"{panel.title!r} has shape {array.shape}."
                )


def borders(region: np.ndarray) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The sides of cells where a region ends, each from one (row, column) corner to the other.

    >>> len(borders(np.array([[True, True, False]])))
    6
    """
    padded = np.pad(region, 1)
    lines = []
    for r, c in np.argwhere(region).tolist():
        for dr, dc, (a, b), (y, x) in (
            (-1, 0, (0, 0), (0, 1)),
            (1, 0, (1, 0), (1, 1)),
            (0, -1, (0, 0), (1, 0)),
            (0, 1, (0, 1), (1, 1)),
        ):
            if not padded[r + 1 + dr, c + 1 + dc]:
                lines.append(((r + a, c + b), (r + y, c + x)))
    return lines


def outline(axis, region: np.ndarray) -> None:  # type: ignore[no-untyped-def]
    """Draw the border of a region of cells."""
    from matplotlib.collections import LineCollection

    lines = [[(x - 0.5, y - 0.5) for y, x in line] for line in borders(region)]
    axis.add_collection(LineCollection(lines, colors=MARK, linewidths=1.6, capstyle="round"))


def point(axis, arrows: np.ndarray) -> None:  # type: ignore[no-untyped-def]
    """Draw a policy: an arrow where it goes, a dot where it stays."""
    r, c = np.nonzero(arrows >= 0)
    down, right = np.array(STEPS)[arrows[r, c]].T
    going = (down != 0) | (right != 0)
    axis.quiver(
        *(c[going], r[going], right[going], down[going]),
        pivot="mid",
        angles="xy",
        scale_units="xy",
        scale=1.6,
        color="white",
    )
    axis.scatter(c[~going], r[~going], s=3, color="white")
