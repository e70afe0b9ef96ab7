"""Policies and a road for tests of the highway: here, so that other processes can import them."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from inverseq.worlds import highway


@dataclass(frozen=True)
class Careless:
    """Ask for anything, safe or not; a pure function of the state."""

    def __call__(self, states, safe):
        drawn = [np.random.default_rng(row.view(np.uint32).tolist()).random() for row in states]
        return (3 * np.array(drawn)).astype(int)


@dataclass(frozen=True)
class Mortal:
    """Drive greedily, but be killed so many times at a decision of each process."""

    folder: str
    deaths: int
    calls: list = ()

    def __call__(self, states, safe):
        self.calls.append(1)
        if len(self.calls) == 7:
            for i in range(self.deaths):
                try:
                    (Path(self.folder) / f"death {i}").touch(exist_ok=False)
                except FileExistsError:
                    continue
                os.kill(os.getpid(), signal.SIGKILL)
        return highway.policies.greedy(states, safe)


@dataclass(frozen=True)
class Telling:
    """Keep the lane, and leave a file that says so."""

    file: str

    def __call__(self, states, safe):
        Path(self.file).touch()
        return highway.policies.keep(states, safe)


class Unreadable(Exception):
    """Cannot be sent from one process to another."""

    def __init__(self, first, second):
        super().__init__(first)


def failing(states, safe):
    """Fail with an ordinary error."""
    raise ZeroDivisionError("the policy divides by zero")


def failing_oddly(states, safe):
    """Fail with an error that cannot be sent."""
    raise Unreadable("no such luck", 2)


def misshapen(states, safe):
    """Return what is neither actions nor probabilities."""
    return np.zeros((1, 5))


def positions(*vehicles):
    """Of vehicles as (metres, lane, speed), the ego first."""
    metres, lanes, speeds = zip(*vehicles, strict=True)
    return np.array(metres, float), np.array(lanes), np.array(speeds, float)


class Road:
    """A simulation in which everybody keeps driving as fast as they do."""

    def __init__(self, *vehicles, crash_at=None, refuses=False):
        self.vehicles, self.crash_at, self.refuses = vehicles, crash_at, refuses
        self.asked, self.time, self.open = [], 0, True

    def load(self, scenario):
        self.metres, self.lanes, self.speeds = positions(*self.vehicles)
        self.asked, self.time, self.next = [], 0, None

    def change_lane(self, lane):
        self.asked.append(lane)
        self.next = None if self.refuses else lane

    def step(self):
        self.metres = (self.metres + self.speeds / 2) % 1000
        if self.next is not None:
            self.lanes = self.lanes.copy()
            self.lanes[0], self.next = self.next, None
        self.time += 1
        return int(self.time == self.crash_at)

    def positions(self):
        return self.metres, self.lanes, self.speeds

    def close(self):
        self.open = False


def drive(road, policy=highway.policies.keep, scenario=None, **options):
    """A recording on such a road; what it says of the scenario is not so, but for its number."""
    scenario = scenario or highway.Scenario("T1", len(road.vehicles) - 1, 0)
    return highway.record_trace(scenario, policy, simulation=road, **options)
