"""Gridworld: any reward on a grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from inverseq._checks import state_mask
from inverseq.errors import InvalidInput
from inverseq.task import Task
from inverseq.worlds.grid import Grid, grid_shape, grid_transitions
from inverseq.worlds.world import World


def gridworld(
    size: int | tuple[int, int] = 10,
    *,
    reward: Any = None,
    terminal: Any = None,
    walls: Any = None,
    wind: float = 0.0,
    stay: bool = True,
    torus: bool = False,
    discount: float = 0.9,
    temperature: float = 1.0,
) -> World:
    """A grid with a reward in its cells; the features of a cell are its row and column in [0, 1].

    >>> world = gridworld((2, 3))
    >>> world.reward.reshape(world.shape)
    array([[0., 0., 0.],
           [0., 0., 1.]])
    >>> world.features[-2]
    array([1. , 0.5])

    Args:
        size: Rows and columns, or one number for both.
        reward: What acting in a cell pays, (rows, cols) or (S,); 1 in the lower right corner and 0
            elsewhere if not given.
        terminal: Cells that end the episode when entered: a mask (rows, cols) or (S,), or numbers.
        walls: Cells that cannot be entered, a mask (rows, cols); nobody starts in one.
            ``World.changed`` draws random ones.
        wind: The probability that a random action replaces the chosen one.
        stay: Whether staying is an action besides up, down, left and right.
        torus: Moves off one side arrive on the other, instead of staying.
        discount: How much less a reward is worth one step later.
        temperature: The expert's.
    """
    grid = Grid(grid_shape(size), wind, walls, torus, stay)
    if reward is None:
        reward = np.arange(grid.n_states) == grid.n_states - 1
    elif np.shape(reward) not in (grid.shape, (grid.n_states,)):
        raise InvalidInput(
            f"`reward` must have the shape {grid.shape} of the grid or ({grid.n_states},); it has "
            f"shape {np.shape(reward)}."
        )
    if terminal is not None:
        if np.shape(terminal) == grid.shape:
            terminal = np.ravel(terminal)
        terminal = state_mask(terminal, grid.n_states, "terminal")
    task = Task(
        grid.n_actions,
        discount,
        transitions=grid_transitions(grid),
        terminal=terminal,
        initial=grid.start(terminal),
        temperature=temperature,
    )
    corner = np.maximum(np.array(grid.shape) - 1, 1)
    features = np.indices(grid.shape).reshape(2, -1).T / corner
    return World(task, np.ravel(reward), features, "gridworld", grid)
