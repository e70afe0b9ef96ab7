"""Objectworld: the benchmark of Levine, Popović and Koltun (2011), as the paper uses it."""

from __future__ import annotations

from typing import Any

import numpy as np

from inverseq._checks import as_whole
from inverseq._random import generator
from inverseq.errors import InvalidInput
from inverseq.task import Task
from inverseq.worlds.grid import Grid, grid_shape, grid_transitions, wall_mask
from inverseq.worlds.world import World


def objectworld(
    size: int | tuple[int, int] = 32,
    n_objects: int = 50,
    n_colours: int = 2,
    wind: float = 0.3,
    discount: float = 0.9,
    *,
    seed: Any,
    temperature: float = 1.0,
    walls: Any = None,
) -> World:
    """A grid with coloured objects, whose reward is a nonlinear function of distances to them.

    Objects lie on distinct random cells; each has an inner and an outer colour. Acting in a cell
    pays +1 within 3 cells of outer colour 0 and within 2 cells of outer colour 1, -1 within 3 cells
    of outer colour 0 only, and 0 elsewhere, by Manhattan distance. All other colours distract.

    The features are the Euclidean distances, in cells, to the nearest object of inner colour
    0 .. C-1 and then of outer colour 0 .. C-1. Where no object has the colour the distance is the
    length of the grid's diagonal, ``sqrt(rows**2 + cols**2)``, as in Levine's code: further than
    any two cells can be apart.

    >>> world = objectworld(seed=0)
    >>> world
    World('objectworld', 1024 states, 5 actions, 32 × 32 cells)
    >>> np.unique(world.reward)
    array([-1.,  0.,  1.])
    >>> world.features.shape
    (1024, 4)

    Args:
        size: Rows and columns, or one number for both.
        n_objects: How many objects there are.
        n_colours: How many colours, at least 2.
        wind: The probability that a random action replaces the chosen one.
        discount: How much less a reward is worth one step later.
        seed: Where objects lie and which colours they have.
        temperature: The expert's.
        walls: Cells that cannot be entered: a mask (rows, cols), or the fraction of cells to draw.
            They change neither objects nor distances.
    """
    from scipy.ndimage import distance_transform_cdt, distance_transform_edt

    rng = generator(seed)
    shape = grid_shape(size)
    rows, cols = shape
    if not 0 <= as_whole(n_objects) <= rows * cols:
        raise InvalidInput(
            f"`n_objects` must be an integer from 0 to {rows * cols}, one cell of the {rows} × "
            f"{cols} grid for each; got {n_objects!r}."
        )
    if as_whole(n_colours) < 2:
        raise InvalidInput(
            f"`n_colours` must be an integer of at least 2: the reward has two; got {n_colours!r}."
        )
    n_objects, n_colours = as_whole(n_objects), as_whole(n_colours)

    cells = rng.choice(rows * cols, n_objects, replace=False)
    inner, outer = rng.integers(n_colours, size=(2, n_objects))
    free = np.ones((2, n_colours, rows * cols), bool)
    free[0, inner, cells] = free[1, outer, cells] = False
    free = free.reshape(2 * n_colours, rows, cols)

    def distances(transform: Any, free: np.ndarray) -> np.ndarray:
        absent = np.full(shape, np.hypot(rows, cols))
        return np.array([absent if f.all() else transform(f) for f in free]).reshape(len(free), -1)

    features = distances(distance_transform_edt, free).T
    nearest = distances(lambda f: distance_transform_cdt(f, "taxicab"), free[n_colours:][:2])
    reward = np.where(nearest[0] <= 3, np.where(nearest[1] <= 2, 1.0, -1.0), 0.0)

    grid = Grid(shape, wind, wall_mask(walls, shape, rng))
    task = Task(
        grid.n_actions,
        discount,
        transitions=grid_transitions(grid),
        initial=grid.start(),
        temperature=temperature,
    )
    return World(task, reward, features, "objectworld", grid)
