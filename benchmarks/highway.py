"""The highway: what observing, checking and deciding add to SUMO's own steps, and two processes."""

from __future__ import annotations

import os
import time

import numpy as np

from benchmarks.measure import Row, best
from inverseq.worlds.highway import Highway, Scenario, evaluation_scenarios, policies, rollouts
from inverseq.worlds.highway.client import EGO, need_sumo
from inverseq.worlds.highway.rules import ACTIONS, KEEP
from inverseq.worlds.highway.traffic import SUBSTEPS

DECISIONS = 200
VEHICLES = (30, 60, 90)


def run() -> list[Row]:
    """Decisions of two seconds per second of the processor; then episodes by the clock."""
    rows = []
    for n in VEHICLES:
        raw, ours = stepping(Scenario("T2", n, seed=1))
        rows += [
            Row(f"libsumo alone, {n} vehicles", DECISIONS / raw, "/s", note="the same traffic"),
            Row(f"Highway.step, {n} vehicles", DECISIONS / ours, "/s"),
            Row("  share of it", raw / ours, "", at_least=0.75 if n == 60 else None),
        ]
    return rows + side_by_side()


def stepping(scenario: Scenario) -> tuple[float, float]:
    """Seconds that libsumo alone takes for some decisions, and that the environment takes.

    Both drive the same traffic: what the ego did under the environment is asked of libsumo again,
    and in the end everybody must be where they were.
    """
    env = Highway(decisions=DECISIONS)
    asked = np.random.default_rng(0).integers(len(ACTIONS), size=DECISIONS).tolist()
    lanes: list[int | None] = []
    seconds: dict[str, list[float]] = {"raw": [], "ours": []}
    for _ in range(5):
        _, info = env.reset(options={"scenario": scenario})
        lanes.clear()
        began = time.process_time()
        for action in asked:
            info = env.step(action)[-1]
            lanes.append(None if info["executed"] == KEEP else int(info["positions"][1][0]))
        seconds["ours"].append(time.process_time() - began)
        env.reset(options={"scenario": scenario})
        seconds["raw"].append(replay(lanes))
        there = env.simulation.positions()
        assert all(map(np.array_equal, there, info["positions"])), "the traffic must be the same"
    env.close()
    return min(seconds["raw"]), min(seconds["ours"])


def replay(lanes: list[int | None]) -> float:
    """Seconds of SUMO's steps and of nothing else, but the changes that were made."""
    sumo = need_sumo()
    step, change = sumo.simulationStep, sumo.vehicle.changeLane
    began = time.process_time()
    for lane in lanes:
        if lane is not None:
            change(EGO, lane, 0.0)
        for _ in range(SUBSTEPS):
            step()
    return time.process_time() - began


def side_by_side() -> list[Row]:
    """Whole episodes with all around them, in one process and in two.

    By the clock, and by processor time: a process that never waits for a core is done when its own
    part is, and its parent beside it.
    """
    scenarios = evaluation_scenarios("T2")[::2]
    busy: dict[str, float] = {}

    def drive(workers: int) -> None:
        before = os.times()
        rollouts(scenarios, policies.greedy, workers=workers, progress=False)
        after = os.times()
        theirs = sum(after[2:4]) - sum(before[2:4])
        ours = sum(after[:2]) - sum(before[:2])
        alone = theirs / workers + ours
        busy[str(workers)] = min(alone, busy.get(str(workers), alone))

    runs = {str(workers): lambda workers=workers: drive(workers) for workers in (1, 2)}
    load = os.getloadavg()[0]
    times = best(3, runs, clock=time.perf_counter)
    speed = {name: 100 * len(scenarios) / seconds for name, seconds in times.items()}
    return [
        Row(
            "rollouts, 1 process", speed["1"], "/s", note="with starts, resets, warming up, checks"
        ),
        Row("rollouts, 2 processes", speed["2"], "/s", note=f"load before: {load:.1f}"),
        Row("  2 processes / 1", speed["2"] / speed["1"], "×", at_least=1.6, note="on idle cores"),
        Row("  the same by processor time", busy["1"] / busy["2"], "×", note="if none had to wait"),
    ]
