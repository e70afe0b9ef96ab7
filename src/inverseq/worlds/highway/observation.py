"""What the ego sees: its own speed, which lanes there are, and the vehicles within 80 m.

An observation is one row of 131 numbers, so that demonstrations can hold it: three static features,
then 32 members of four numbers each. The first of the four is 1 for a vehicle and 0 for an empty
place; vehicles come first, the nearest before the others.

    static   own speed / 20, 1 if there is a lane to the left, 1 if there is one to the right
    member   1, metres ahead / 80, speed beyond the ego's / 20, lanes to the left of the ego's
"""

from __future__ import annotations

import numpy as np

from inverseq.errors import InvalidInput
from inverseq.shapes import Array
from inverseq.worlds.highway.traffic import DESIRED_SPEED, LANES, ROAD

STATIC = 3
"""How many numbers come before the members."""
MEMBERS = 32
"""How many vehicles there is room for; more have not been seen within range."""
FEATURES = 3
"""How many numbers describe a vehicle, beside the one that says that it is there."""
WIDTH = STATIC + MEMBERS * (1 + FEATURES)
"""How many numbers an observation has."""
RANGE = 80.0
"""How far the ego sees ahead and behind, in metres."""


def observe(metres: np.ndarray, lanes: np.ndarray, speeds: np.ndarray) -> np.ndarray:
    """The row that the ego, which is the first of the vehicles, sees: float32 (131,).

    >>> row = observe(np.array([990.0, 30.0, 500.0]), np.array([0, 1, 0]), np.array([20.0, 15, 10]))
    >>> row[:7]
    array([ 1. ,  1. ,  0. ,  1. ,  0.5 , -0.25,  1. ], dtype=float32)
    >>> bool(row[7:].any())
    False
    """
    # Numbers of one vehicle are faster as numbers of Python.
    own, lane, speed = float(metres[0]), int(lanes[0]), float(speeds[0])
    ahead = (metres - (own - ROAD / 2)) % ROAD - ROAD / 2
    distance = np.abs(ahead)
    distance[0] = np.inf
    nearest = distance.argsort()[:MEMBERS]
    nearest = nearest[: int((distance[nearest] <= RANGE).sum())]

    row = np.zeros(WIDTH, np.float32)
    row[:STATIC] = speed / DESIRED_SPEED, lane < LANES - 1, lane > 0
    members = row[STATIC:].reshape(MEMBERS, 1 + FEATURES)[: len(nearest)]
    members[:, 0] = 1
    members[:, 1] = ahead[nearest] / RANGE
    members[:, 2] = (speeds[nearest] - speed) / DESIRED_SPEED
    members[:, 3] = lanes[nearest] - lane
    return row


def split(states: Array) -> tuple[Array, Array, Array]:
    """Members (..., 32, 3), which of them are there (..., 32), and static features (..., 3).

    For arrays of NumPy and of JAX, with any number of axes before the last.

    >>> row = observe(np.array([0.0, 40.0]), np.array([1, 1]), np.array([20.0, 10.0]))
    >>> members, there, static = split(row[None])
    >>> members[there], static
    (array([[ 0.5, -0.5,  0. ]], dtype=float32), array([[1., 1., 1.]], dtype=float32))
    """
    if states.shape[-1:] != (WIDTH,):
        raise InvalidInput(
            f"An observation of the highway must have {WIDTH} numbers: {STATIC} static features "
            f"and {MEMBERS} members of {1 + FEATURES}; got an array of shape {states.shape}."
        )
    members = states[..., STATIC:].reshape(*states.shape[:-1], MEMBERS, 1 + FEATURES)
    return members[..., 1:], members[..., 0] > 0, states[..., :STATIC]
