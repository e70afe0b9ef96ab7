"""Recordings of episodes for a page that shows them: every half second, who is where."""

from __future__ import annotations

import json
from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np

from inverseq._checks import check_kind
from inverseq._random import generator
from inverseq.worlds.highway.client import Positions, Simulation, Sumo
from inverseq.worlds.highway.policies import Policy
from inverseq.worlds.highway.rollouts import decide
from inverseq.worlds.highway.rules import ACTIONS, keep_right, safety
from inverseq.worlds.highway.traffic import (
    DESIRED_SPEED,
    LANES,
    ROAD,
    SUBSTEP,
    SUBSTEPS,
    VEHICLE,
    Scenario,
)

FORMAT = "sumo-ring-trace/1"


def record_trace(
    scenario: Scenario,
    policy: Policy,
    *,
    values: Callable[[np.ndarray], np.ndarray] | None = None,
    decisions: int = 100,
    simulation: Simulation | None = None,
) -> dict[str, Any]:
    """An episode as plain data, ready for JSON.

    - ``format``: what this is, ``sumo-ring-trace/1``.
    - ``meta``: the road, the scenario, the names of actions, and the vehicles, the ego first.
    - ``steps``, one for each decision: the action ``a`` that was asked for and what was
      ``executed``; what is ``safe`` and what the rule to keep right leaves of it, ``safe_kr``; the
      values ``q`` of the actions, if there are any.
    - ``frames``, one at the first decision and one after each half second: the positions of all
      vehicles in decimetres along the ring, their lanes as digits of one text, and their speeds in
      decimetres per second. A position is that of the front bumper.

    >>> from inverseq.worlds.highway import policies
    >>> trace = record_trace(Scenario("T1", n=2, seed=0), policies.left, decisions=1)
    >>> len(trace["steps"]), len(trace["frames"]), trace["meta"]["vehicles"][0]
    (1, 5, {'id': 0, 'type': 'ego', 'len': 5.0, 'vmax': 20.0})

    Args:
        scenario: Where to drive.
        policy: Who drives, as in `rollouts`.
        values: The values of the actions, (batch, 3), from observations, (batch, 131).
        decisions: How many.
        simulation: Who drives the others; SUMO if nobody is named.
    """
    from inverseq.worlds.highway.environment import Highway

    check_kind(scenario, Scenario, "scenario")
    watched = Watched(Sumo() if simulation is None else simulation)
    env = Highway(decisions=decisions, simulation=watched)
    rng, rules = generator(scenario.seed), (safety(), keep_right())
    try:
        row, info = env.reset(options={"scenario": scenario})
        # What passed before the first decision is not of the episode.
        del watched.frames[:-1]
        steps, truncated = [], False
        while not truncated:
            safe, right = (rule.allows(row[None])[0] for rule in rules)
            step: dict[str, Any] = {
                "a": decide(policy, row, info["safe"], rng),
                "safe": safe.tolist(),
                "safe_kr": (safe & right).tolist(),
                "q": None if values is None else np.asarray(values(row[None]))[0].tolist(),
            }
            row, _, _, truncated, info = env.step(step["a"])
            steps.append(step | {"executed": info["executed"]})
    finally:
        env.close()
    vehicles = [
        {"id": i, "type": driver.kind, "len": VEHICLE, "vmax": driver.max_speed}
        for i, driver in enumerate(scenario.drivers())
    ]
    meta = {
        "track_m": ROAD,
        "lanes": LANES,
        "dt_s": SUBSTEP,
        "action_every": SUBSTEPS,
        "v_des": DESIRED_SPEED,
        "traffic": scenario.traffic,
        "n": scenario.n,
        "seed": scenario.seed,
        "actions": list(ACTIONS),
        "vehicles": vehicles,
    }
    return {"format": FORMAT, "meta": meta, "steps": steps, "frames": watched.frames}


def save_trace(trace: dict[str, Any], path: str | PathLike[str]) -> None:
    """Write a recording as JSON without spaces, whole or not at all."""
    from inverseq.io.storage import write_file

    write_file(path, json.dumps(trace, separators=(",", ":")).encode())


class Watched:
    """A simulation of which every step is written down."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.frames: list[list[Any]] = []
        self.load, self.change_lane = simulation.load, simulation.change_lane
        self.positions, self.close = simulation.positions, simulation.close

    def step(self) -> int:
        """Half a second, written down."""
        collisions = self.simulation.step()
        self.frames.append(frame(self.simulation.positions()))
        return collisions


def frame(positions: Positions) -> list[Any]:
    """Decimetres, a digit for each lane, decimetres per second."""
    metres, lanes, speeds = positions
    x = np.rint(10 * metres).astype(int) % int(10 * ROAD)
    return [
        x.tolist(),
        "".join(map(str, lanes.tolist())),
        np.rint(10 * speeds).astype(int).tolist(),
    ]
