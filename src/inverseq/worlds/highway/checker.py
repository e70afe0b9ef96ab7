"""What was done on the road, judged from the simulator's positions alone.

It shares no code with the rules that policies are given, and it looks around the whole ring where
they look 80 m far: vehicle by vehicle, as one would check a recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from inverseq.worlds.highway.client import Positions
from inverseq.worlds.highway.traffic import BRAKING, HEADWAY, LANES, MIN_GAP, ROAD, VEHICLE

ROUNDING = 1e-3
"""By how many metres, or metres per second, a limit must be missed: observations are rounded."""


LANES_TO_THE_LEFT = {0: 0, 1: 1, 2: -1}
"""Of the actions keep, left and right."""


@dataclass(frozen=True)
class Breaches:
    """How often a rule was broken in an episode."""

    keep_right: int
    """Decisions against the rule to keep right."""
    safety: int
    """Changes of lanes into a gap that was too short."""
    collisions: int
    """Decisions before which two vehicles, whichever, were in one place."""


def check(
    recording: Sequence[Positions],
    decisions: Sequence[int],
    horizon: float = 20.0,
    margin: bool = True,
) -> Breaches:
    """Count what is against the rules in an episode, from what was where at each decision.

    >>> import numpy as np
    >>> lanes, speeds = np.array([0, 0]), np.array([20.0, 20.0])
    >>> before, after = np.array([0.0, 500.0]), np.array([40.0, 540.0])
    >>> recording = [(before, lanes, speeds), (after, lanes + [1, 0], speeds)]
    >>> check(recording, [1])  # to the left without a reason
    Breaches(keep_right=1, safety=0, collisions=0)

    Args:
        recording: Where everybody was, once for each decision and once where the last one led.
        decisions: The actions. They count only where the ego did not change its lane: if it wanted
            to, and another car came into the gap in the same moment, it did not choose to stay.
        horizon: That of `keep_right`.
        margin: That of `keep_right`.
    """
    scenes = [scene(positions) for positions in recording]
    keep_right = safety = 0
    for (now, then), decision in zip(pairwise(scenes), decisions, strict=True):
        lane, moved = now[0][1], then[0][1] - now[0][1]
        wanted = moved or LANES_TO_THE_LEFT[int(decision)]
        stays = reaches_nobody(now, lane, horizon, margin)
        could = lane > 0 and fits(now, lane - 1, ROUNDING)
        should = could and reaches_nobody(now, lane - 1, horizon, margin)
        keep_right += (should and wanted != -1) or (stays and wanted == 1)
        safety += moved != 0 and not fits(now, lane + moved, -ROUNDING)
    return Breaches(keep_right, safety, sum(overlaps(vehicles) for vehicles in scenes))


Vehicle = tuple[float, int, float]
"""Metres along the ring, lane, speed."""


def scene(positions: Positions) -> list[Vehicle]:
    """The vehicles one by one, the ego first."""
    metres, lanes, speeds = (column.tolist() for column in positions)
    return list(zip(metres, lanes, speeds, strict=True))


def distance(back: float, front: float) -> float:
    """Metres from one place forward to another."""
    return (front - back) % ROAD


def fits(vehicles: list[Vehicle], lane: int, reserve: float) -> bool:
    """Whether the ego fits into a lane that is there, with so many metres to spare."""
    (place, _, speed), *others = vehicles
    if not 0 <= lane < LANES:
        return False
    in_lane = [(x, v) for x, its_lane, v in others if its_lane == lane]
    if not in_lane:
        return True
    ahead, its_speed = min((distance(place, x), v) for x, v in in_lane)
    behind, follower = min((distance(x, place), v) for x, v in in_lane)
    return (
        ahead - VEHICLE >= stopping(speed, its_speed) + reserve
        and behind - VEHICLE >= stopping(follower, speed) + reserve
    )


def stopping(follower: float, leader: float) -> float:
    """What must lie between two vehicles so that the second can always stop behind the first."""
    way_of_follower = follower * HEADWAY + follower**2 / (2 * BRAKING)
    way_of_leader = leader**2 / (2 * BRAKING)
    return MIN_GAP + max(way_of_follower - way_of_leader, 0.0)


def reaches_nobody(vehicles: list[Vehicle], lane: int, horizon: float, margin: bool) -> bool:
    """Whether the ego could drive in a lane for some seconds and certainly not catch up."""
    (place, _, speed), *others = vehicles
    ahead = [(distance(place, x), v) for x, its_lane, v in others if its_lane == lane]
    if not ahead:
        return True
    way, its_speed = min(ahead)
    if its_speed > speed + ROUNDING:
        return True
    room = way - VEHICLE - (MIN_GAP + speed * HEADWAY if margin else 0.0)
    return room - (speed - its_speed) * horizon >= ROUNDING


def overlaps(vehicles: list[Vehicle]) -> bool:
    """Whether two vehicles of a lane are in one place."""
    for lane in range(LANES):
        places = sorted(place for place, its_lane, _ in vehicles if its_lane == lane)
        following = zip(places, places[1:] + places[:1], strict=True)
        if len(places) > 1 and any(distance(x, y) < VEHICLE for x, y in following):
            return True
    return False
