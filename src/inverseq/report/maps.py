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
    rows_cols = shape[0] * shape[1]
    for panel in panels:
        if np.shape(panel.values) != (rows_cols,):
            raise InvalidInput(
                f"`Panel.values` must have one number for each of {rows_cols} cells; "
                f"{panel.title!r} has shape {np.shape(panel.values)}."
            )
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
        cells = np.asarray(panel.values, dtype=float).reshape(shape)
        known = cells[np.isfinite(cells)]
        low, high = (known.min(), known.max()) if known.size else (0.0, 1.0)
        if panel.signed:
            high = max(abs(low), abs(high), 1e-12)
            low = -high
        axis.set_facecolor("#f0f0f2")
        image = axis.imshow(
            np.where(np.isfinite(cells), cells, np.nan),
            cmap="RdBu" if panel.signed else "viridis",
            vmin=low,
            vmax=high,
            interpolation="nearest",
        )
        if not np.isfinite(cells).all():
            axis.patch.set(hatch="////", edgecolor="#c9ccd2")
        if panel.region is not None:
            outline(axis, np.asarray(panel.region).reshape(shape))
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


def outline(axis, region: np.ndarray) -> None:  # type: ignore[no-untyped-def]
    """Draw the border of a region of cells."""
    padded = np.pad(region, 1)
    lines = []
    for r, c in np.argwhere(region):
        for dr, dc, ends in (
            (-1, 0, ((0, 0), (0, 1))),
            (1, 0, ((1, 0), (1, 1))),
            (0, -1, ((0, 0), (1, 0))),
            (0, 1, ((0, 1), (1, 1))),
        ):
            if not padded[r + 1 + dr, c + 1 + dc]:
                lines.append([(c + x - 0.5, r + y - 0.5) for y, x in ends])
    from matplotlib.collections import LineCollection

    axis.add_collection(LineCollection(lines, colors=MARK, linewidths=1.6, capstyle="round"))
