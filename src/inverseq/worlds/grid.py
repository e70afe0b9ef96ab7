"""The dynamics of grids: cells, moves, wind and walls, without any reward.

A state is ``row * cols + col``. Actions are up, down, left, right and, where there is one, stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from inverseq._checks import as_number
from inverseq._random import generator
from inverseq.errors import InvalidInput
from inverseq.shapes import Vector

if TYPE_CHECKING:
    from scipy.sparse import csr_array

STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1), (0, 0))
MOST_CELLS = 2**26
"""A model takes 300 bytes a cell: an entry of 12 bytes for 5 actions and as many ways the wind."""


@dataclass(frozen=True, eq=False)
class Grid:
    """How one moves on a grid.

    >>> grid = Grid((2, 3), wind=0.3)
    >>> grid.n_states, grid.n_actions
    (6, 5)
    """

    shape: tuple[int, int]
    """Rows and columns."""
    wind: float = 0.0
    """The probability that an action drawn uniformly from all of them replaces the chosen one,
    which so happens with probability ``1 - wind + wind / n_actions``."""
    walls: Any = None
    """Cells that cannot be entered, bool (rows, cols); none where not given."""
    torus: bool = False
    """Moves off one side arrive on the other; otherwise they stay."""
    stay: bool = True
    """Whether there is a fifth action, which stays."""

    def __post_init__(self) -> None:
        if not 0 <= as_number(self.wind) <= 1:
            raise InvalidInput(f"`wind` must be a probability, in [0, 1]; got {self.wind!r}.")
        walls = np.zeros(self.shape, bool) if self.walls is None else np.array(self.walls)
        if walls.dtype != bool or walls.shape != self.shape:
            raise InvalidInput(
                f"`walls` must be a boolean mask of the grid's shape {self.shape}; it is "
                f"{walls.dtype} of shape {walls.shape}."
            )
        walls.flags.writeable = False
        object.__setattr__(self, "walls", walls)

    @property
    def n_states(self) -> int:
        """How many cells there are, walls included."""
        return self.shape[0] * self.shape[1]

    @property
    def n_actions(self) -> int:
        """4, or 5 with ``stay``."""
        return 5 if self.stay else 4

    def start(self, terminal: np.ndarray | None = None) -> Vector:
        """Uniform over the cells that are neither walls nor terminal, (S,).

        >>> Grid((1, 3), walls=np.array([[True, False, False]])).start()
        array([0. , 0.5, 0.5])
        """
        cells = ~self.walls.ravel()
        if terminal is not None:
            cells &= ~terminal
        if not cells.any():
            raise InvalidInput(
                f"An episode must have a cell to start in; all {self.n_states} are walls or "
                f"terminal. Leave one of them free."
            )
        return np.asarray(cells / cells.sum(), dtype=float)


def grid_transitions(grid: Grid) -> list[csr_array[Any, tuple[int, int]]]:
    """The model of a grid, one sparse matrix (S, S) per action.

    A move into a wall stays where it is. A wall can be left, though nobody is ever inside one.

    >>> up, down, left, right = grid_transitions(Grid((1, 3), wind=0.4, stay=False))
    >>> right.toarray().round(2)
    array([[0.3, 0.7, 0. ],
           [0.1, 0.2, 0.7],
           [0. , 0.1, 0.9]])
    """
    import scipy.sparse as sp

    n = grid.n_states
    here, cell = np.arange(n), np.indices(grid.shape).reshape(2, n)
    moves = []
    for step in STEPS[: grid.n_actions]:
        row, col = cell + np.reshape(step, (2, 1))
        # A move has one direction, so that clipping it to the grid is staying.
        there = np.ravel_multi_index((row, col), grid.shape, mode="wrap" if grid.torus else "clip")
        there = np.where(grid.walls.ravel()[there], here, there)
        moves.append(sp.csr_array((np.ones(n), there, np.arange(n + 1)), shape=(n, n)))
    blown = sum(moves[1:], start=moves[0]) * (grid.wind / grid.n_actions)
    return [move * (1 - grid.wind) + blown for move in moves]


def grid_shape(size: Any) -> tuple[int, int]:
    """Rows and columns, from both or from the one number of a square.

    >>> grid_shape(3), grid_shape((2, 5))
    ((3, 3), (2, 5))
    """
    given = np.array(size)
    if given.dtype.kind not in "iu" or given.shape not in ((), (2,)) or given.min() < 1:
        raise InvalidInput(
            f"`size` must be an integer of at least 1, or two of them (rows, cols); got {size!r}."
        )
    rows, cols = np.broadcast_to(given, 2).tolist()
    if rows * cols > MOST_CELLS:
        raise InvalidInput(
            f"`size` must be of at most {MOST_CELLS:,} cells, whose model fills 20 GB; got "
            f"{rows:,} × {cols:,}. Make the grid smaller."
        )
    return rows, cols


def wall_mask(walls: Any, shape: tuple[int, int], seed: Any) -> Any:
    """A mask as it was given, or a fraction of the cells, drawn without replacement.

    >>> wall_mask(0.25, (2, 4), seed=0).sum()
    np.int64(2)
    """
    if walls is None or np.ndim(walls) > 0:
        return walls
    if not 0 <= as_number(walls) < 1:
        raise InvalidInput(
            f"`walls` must be a mask of shape {shape} or a fraction of the cells in [0, 1); got "
            f"{walls!r}."
        )
    if seed is None:
        raise InvalidInput(f"`seed` must be given to draw the cells of `walls={walls}`.")
    n = shape[0] * shape[1]
    mask = np.zeros(n, bool)
    mask[generator(seed).choice(n, round(walls * n), replace=False)] = True
    return mask.reshape(shape)
