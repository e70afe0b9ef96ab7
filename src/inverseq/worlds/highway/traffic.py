"""The road and who drives on it: a ring of 1000 m with three lanes, and drivers drawn by a seed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from inverseq._checks import as_whole, check_choice
from inverseq._random import generator
from inverseq.errors import InvalidInput

ROAD = 1000.0
"""Metres around the ring; a position is that of a front bumper, modulo this."""
EDGES = 4
"""The ring's net has as many edges of one length."""
LANES = 3
"""Lane 0 is the right one."""
NET = Path(__file__).with_name("ring.net.xml")
"""The ring as SUMO reads it."""

VEHICLE = 5.0
"""Metres from bumper to bumper, of every vehicle."""
MIN_GAP = 2.5
"""Metres that drivers leave to a vehicle ahead when both stand."""
HEADWAY = 1.0
"""Seconds that drivers leave to a vehicle ahead when both drive."""
BRAKING = 4.5
"""How fast vehicles slow down, in m/s per second."""
DESIRED_SPEED = 20.0
"""Metres per second: what the ego wants to drive, and the fastest that it can."""

SUBSTEP = 0.5
"""Seconds of one step of the simulation."""
SUBSTEPS = 4
"""How many of them lie between two decisions: 2 seconds."""
WARM_UP = 120
"""How many of them pass before the first decision: 60 seconds."""

MOST_VEHICLES = 120
"""Beside the ego: more find no safe place to start from."""
FIRST_TRAINING_SEED = 1_000
"""Scenarios for training are drawn from here on, so that none is one of the evaluation's."""
LAST_SEED = 2**31 - 1
"""The largest that SUMO takes."""
SPARSE, DENSE = 30, 90
"""How many vehicles there are beside the ego, in training: any number from one to the other."""

Traffic = Literal["T1", "T2"]
NEVER_KEEP_RIGHT = {"T1": 0.0, "T2": 0.3}
"""The share of drivers that stay in any lane, however empty the right one is. In T1 all keep right,
as SUMO's drivers do by default; in T2 one has to overtake."""
CLASSES = (("slow", 0.12, 10.0, 12.0), ("normal", 0.43, 15.0, 18.0), ("fast", 0.45, 19.0, 23.0))
"""Classes of drivers: name, share, and the range of the speeds that they want to drive."""
START_SPEED = 8.0


@dataclass(frozen=True)
class Scenario:
    """Which drivers are on the road and how chance goes on: the same scenario is the same traffic.

    >>> scenario = Scenario("T2", n=60, seed=7)
    >>> ego, *others = scenario.drivers()
    >>> len(others), others[0].max_speed
    (60, 11.3)
    """

    traffic: Traffic
    """Which mixture of drivers: T1 all keep right, T2 30 % never do."""
    n: int
    """How many vehicles there are beside the ego."""
    seed: int
    """Chooses drivers and places, and seeds the simulation."""

    def __post_init__(self) -> None:
        check_choice(self.traffic, tuple(NEVER_KEEP_RIGHT), "Scenario.traffic")
        for name, largest in ("n", MOST_VEHICLES), ("seed", LAST_SEED):
            value = getattr(self, name)
            if not 0 <= as_whole(value) <= largest:
                raise InvalidInput(
                    f"`Scenario.{name}` must be an integer from 0 to {largest}; got {value!r}."
                )
            object.__setattr__(self, name, as_whole(value))

    def drivers(self) -> tuple[Driver, ...]:
        """Who is on the road, the ego first.

        Lanes are filled evenly, and every driver has a slot of its lane to itself.
        """
        # Only `random` is used: its numbers are the same in every version of NumPy.
        rng = generator(1_000 * self.seed + self.n)
        places = [(lane, i) for i in range(1 + self.n // LANES) for lane in range(LANES)]
        places = places[: self.n + 1]
        cars = [sum(lane == own for own, _ in places) for lane in range(LANES)]
        order = rng.random(len(places)).argsort(kind="stable")
        drivers = []
        for which, u in zip(order, rng.random((len(places), 7)), strict=True):
            lane, slot = places[which]
            width = ROAD / cars[lane]
            room = width - VEHICLE - MIN_GAP - 1.3 * HEADWAY * START_SPEED
            position = (slot + 0.5) * width + (u[0] - 0.5) * room
            drivers.append(Driver.drawn(lane, position, u[1:], NEVER_KEEP_RIGHT[self.traffic]))
        return (Driver.ego(drivers[0]), *drivers[1:])

    def routes(self) -> str:
        """The drivers as SUMO reads them: types, routes and vehicles, named by number from 0."""
        ring = [" ".join(f"e{(k + i) % EDGES}" for i in range(EDGES)) for k in range(EDGES)]
        lines = [f'<route id="r{k}" edges="{ring[k]}" repeat="500"/>' for k in range(EDGES)]
        for i, driver in enumerate(self.drivers()):
            edge, position = divmod(driver.position, ROAD / EDGES)
            lines += [
                f'<vType id="t{i}" length="{VEHICLE}" minGap="{MIN_GAP}" tau="{HEADWAY}" '
                f'decel="{BRAKING}" speedDev="0" sigma="{driver.imperfection}" '
                f'maxSpeed="{driver.max_speed:.3f}" accel="{driver.acceleration:.3f}" '
                f'lcSpeedGain="{driver.speed_gain:.3f}" lcKeepRight="{driver.keeps_right:d}" '
                f'lcCooperative="{driver.cooperation:.3f}"/>',
                f'<vehicle id="{i}" type="t{i}" route="r{edge:.0f}" depart="0" '
                f'departLane="{driver.lane}" departPos="{position:.3f}" '
                f'departSpeed="{START_SPEED}"/>',
            ]
        return "\n".join(["<routes>", *lines, "</routes>", ""])


@dataclass(frozen=True)
class Driver:
    """One vehicle: where it starts, and how it is driven."""

    kind: str
    """The class: ego, slow, normal or fast."""
    lane: int
    """Where it starts."""
    position: float
    """Where it starts, in metres."""
    max_speed: float
    """How fast it wants to drive, in m/s."""
    acceleration: float = 2.6
    """In m/s per second."""
    imperfection: float = 0.0
    """How far a driver falls short of the speed that it could drive: SUMO's sigma."""
    speed_gain: float = 1.0
    """How eagerly lanes are changed to be faster: SUMO's lcSpeedGain."""
    cooperation: float = 1.0
    """How willingly others are let in: SUMO's lcCooperative."""
    keeps_right: bool = True
    """Whether the driver returns to the right lane when it is free."""

    @classmethod
    def drawn(cls, lane: int, position: float, u: Any, never_keep_right: float) -> Driver:
        """A driver from six numbers that are uniform in [0, 1)."""
        shares = [share for _, share, _, _ in CLASSES]
        below = sum(u[0] >= sum(shares[: i + 1]) for i in range(len(shares) - 1))
        kind, _, low, high = CLASSES[below]
        return cls(
            kind,
            lane,
            round(float(position), 3) % ROAD,
            max_speed=round(low + (high - low) * float(u[1]), 3),
            acceleration=round(1.8 + float(u[2]), 3),
            imperfection=0.3,
            speed_gain=round(0.5 + 1.5 * float(u[3]), 3),
            cooperation=round(float(u[4]), 3),
            keeps_right=bool(u[5] >= never_keep_right),
        )

    @classmethod
    def ego(cls, place: Driver) -> Driver:
        """The ego in the place of another: SUMO drives it along its lane, without imperfection."""
        return cls("ego", place.lane, place.position, DESIRED_SPEED)


def evaluation_scenarios(traffic: Traffic) -> tuple[Scenario, ...]:
    """The 260 scenarios of the evaluation: seeds 0 to 19 for each n of 30, 35, ..., 90.

    >>> scenarios = evaluation_scenarios("T1")
    >>> len(scenarios), scenarios[0], scenarios[-1]
    (260, Scenario(traffic='T1', n=30, seed=0), Scenario(traffic='T1', n=90, seed=19))
    """
    numbers = range(SPARSE, DENSE + 1, 5)
    return tuple(Scenario(traffic, n, seed) for n in numbers for seed in range(20))


def training_scenarios(episodes: int, traffic: Traffic, *, seed: Any) -> tuple[Scenario, ...]:
    """Scenarios with 30 to 90 vehicles, none of which is one of the evaluation's.

    >>> training_scenarios(1, "T2", seed=0)
    (Scenario(traffic='T2', n=81, seed=1367865170),)
    """
    if as_whole(episodes) < 1:
        raise InvalidInput(f"`episodes` must be an integer of at least 1; got {episodes!r}.")
    rng = generator(seed)
    return tuple(training_scenario(traffic, (SPARSE, DENSE), rng) for _ in range(int(episodes)))


def training_scenario(traffic: Traffic, n: tuple[int, int], rng: Any) -> Scenario:
    """One scenario with any number of vehicles in a range, for training."""
    vehicles = int(rng.integers(n[0], n[1] + 1))
    return Scenario(traffic, vehicles, int(rng.integers(FIRST_TRAINING_SEED, LAST_SEED + 1)))


def fingerprint(scenarios: Sequence[Scenario]) -> str:
    """SHA-256 of all that the simulation is told about some scenarios, and of the road.

    >>> fingerprint([Scenario("T1", 0, 0)])[:16]
    '...'
    """
    checksum = hashlib.sha256(NET.read_bytes())
    for scenario in scenarios:
        checksum.update(f"{scenario.seed}\n{scenario.routes()}".encode())
    return checksum.hexdigest()
