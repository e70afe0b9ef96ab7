"""Rules of the road as constraints: pure functions of observations, for arrays of NumPy and of JAX.

Each costs 1 for an action that it forbids and 0 for others, and its threshold is 0. Keeping the
lane is forbidden only where the rule to keep right demands a change that is safe, so that something
is always left to do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from inverseq._checks import as_number
from inverseq.errors import InvalidInput
from inverseq.shapes import Array
from inverseq.task import Constraint, Task
from inverseq.worlds.highway.observation import RANGE, split
from inverseq.worlds.highway.traffic import BRAKING, DESIRED_SPEED, HEADWAY, MIN_GAP, VEHICLE

ACTIONS = ("keep", "left", "right")
KEEP, LEFT, RIGHT = range(3)
IS = np.eye(3, dtype=bool)
TO_THE_LEFT = (0, 1, -1)
"""By how many lanes each action leads to the left."""
LANE_OF = np.array(TO_THE_LEFT, np.float32)[:, None]
AHEAD_BEHIND = np.array([[1], [-1]], np.float32)


def safety() -> Constraint:
    """Change only into a lane that is there and free.

    A lane is free if the gap to the next vehicle ahead, and from the next one behind, is at least
    what Krauss's drivers keep: who follows can stop behind who leads after one second of reaction,
    both braking alike, and 2.5 m remain.

    >>> import numpy as np
    >>> from inverseq.worlds.highway import observe
    >>> row = observe(np.array([0.0, 990.0]), np.array([1, 2]), np.array([20.0, 20.0]))
    >>> dict(zip(ACTIONS, safety().allows(row[None])[0].tolist()))  # a car is close behind
    {'keep': True, 'left': False, 'right': True}
    """
    return Constraint(unsafe, threshold=0.0, name="safety")


def keep_right(horizon: float = 20.0, margin: bool = True) -> Constraint:
    """Drive on the right wherever one can stay there for a while at the present speed.

    A lane counts as free for that long if its next vehicle ahead is as fast, or is not reached
    within ``horizon`` seconds at the present speeds. It forbids everything but a change to the
    right where that is safe and the right lane is free, and a change to the left where the own lane
    is free.

    >>> import numpy as np
    >>> from inverseq.worlds.highway import observe
    >>> row = observe(np.array([0.0, 60.0]), np.array([1, 1]), np.array([20.0, 10.0]))
    >>> dict(zip(ACTIONS, keep_right().allows(row[None])[0].tolist()))  # the right lane is empty
    {'keep': False, 'left': False, 'right': True}

    Args:
        horizon: For how many seconds a lane must be free.
        margin: Whether a vehicle ahead counts as reached where one has to slow down for it, at the
            least gap and one second of the own speed behind it, or only where bumpers meet.
    """
    if not 0 < as_number(horizon) < float("inf"):
        raise InvalidInput(f"`horizon` must be a positive number of seconds; got {horizon!r}.")
    cost = partial(not_right, horizon=float(horizon), margin=bool(margin))
    return Constraint(cost, threshold=0.0, name="keep right")


def task(*constraints: Constraint, discount: float = 0.99) -> Task:
    """The highway as a task: what is not safe is not available to anybody.

    Without constraints these are `safety` and `keep_right`; ``task().unconstrained()`` has none.

    >>> task()
    Task(3 actions, discount 0.99, ..., constrained by 'safety', 'keep right')

    Args:
        constraints: What is to be obeyed.
        discount: How much less a reward is worth one decision later.
    """
    rules = constraints or (safety(), keep_right())
    return Task(len(ACTIONS), discount, available=safety().allows, constraints=rules)


BLOCK = 20_000
"""So many observations are looked at once: more would only need memory."""


def in_blocks(cost: Callable[[Array], Array], states: Array) -> Array:
    """The costs of a long list of observations, some at a time."""
    if states.ndim != 2 or len(states) <= BLOCK:
        return cost(states)
    parts = [cost(states[at : at + BLOCK]) for at in range(0, len(states), BLOCK)]
    return states.__array_namespace__().concatenate(parts)


def unsafe(states: Array) -> Array:
    """The cost of `safety`: 1 for a change that is not safe, (..., actions)."""
    return in_blocks(lambda some: 1 * ~safe(neighbours(some)), states)


def not_right(states: Array, horizon: float, margin: bool) -> Array:
    """The cost of `keep_right`, (..., actions)."""
    return in_blocks(lambda some: against_right(neighbours(some), horizon, margin), states)


def against_right(near: Neighbours, horizon: float, margin: bool) -> Array:
    """1 for an action that does not keep right, by who is next to the ego."""
    empty = free(near, horizon, margin)
    forced = (safe(near) & empty)[..., RIGHT:]
    return 1 * ((forced | empty[..., :1] & IS[LEFT]) & ~IS[RIGHT])


class Neighbours(NamedTuple):
    """The next vehicles in the lanes to which the actions lead."""

    exists: Array
    """Whether there is such a lane, (..., actions)."""
    speed: Array
    """The ego's, (..., 1)."""
    gaps: Array
    """Metres between bumpers, ahead and behind, (..., 2, actions): negative where vehicles are side
    by side, infinite where none is in sight."""
    speeds: Array
    """Those of the vehicles, ahead and behind, (..., 2, actions); any number where none is."""


def neighbours(states: Array) -> Neighbours:
    """Who is next to the ego, by its observations."""
    space = states.__array_namespace__()
    members, there, static = split(states)
    speed = DESIRED_SPEED * static[..., :1]
    speeds = speed + DESIRED_SPEED * members[..., 1]
    # Axes: ahead and behind, the lanes of the actions, members.
    away = (members[..., 0] * RANGE)[..., None, None, :] * AHEAD_BEHIND[:, None]
    there = there[..., None, :] & (members[..., None, :, 2] == LANE_OF)
    away = space.where(there[..., None, :, :] & (away >= 0), away, space.inf)
    nearest = away.min(axis=-1)
    others = space.where(away == nearest[..., None], speeds[..., None, None, :], 0).max(axis=-1)
    # The static features after the speed say whether there is a lane to the left, to the right.
    return Neighbours((static > 0) | IS[KEEP], speed, nearest - VEHICLE, others)


def safe(near: Neighbours) -> Array:
    """Which actions lead into a lane that is there and free; keeping the lane always does.

    Ahead the ego follows at its speed, behind it is followed: what it brakes sooner or later than
    the other, the gap must make up for.
    """
    space = near.gaps.__array_namespace__()
    speed = near.speed[..., None, :]
    follower = space.where(AHEAD_BEHIND > 0, speed, near.speeds)
    later = AHEAD_BEHIND * (speed * speed - near.speeds * near.speeds) / (2 * BRAKING)
    needed = MIN_GAP + space.maximum(HEADWAY * follower + later, 0)
    return near.exists & (near.gaps >= needed).all(axis=-2) | IS[KEEP]


def free(near: Neighbours, horizon: float, margin: bool) -> Array:
    """In which lanes the ego reaches nobody within some seconds, if all speeds stay as they are."""
    room = near.gaps[..., 0, :] - (MIN_GAP + HEADWAY * near.speed if margin else 0)
    closing = near.speed - near.speeds[..., 0, :]
    return (closing <= 0) | (room >= horizon * closing)
