"""Recordings of episodes for a page that shows them: every half second, who is where."""

from __future__ import annotations

import json
from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np

from inverseq._checks import check_kind
from inverseq._random import generator
from inverseq.worlds.highway.checker import check
from inverseq.worlds.highway.client import Positions, Simulation, Sumo
from inverseq.worlds.highway.observation import RANGE
from inverseq.worlds.highway.policies import Policy
from inverseq.worlds.highway.rollouts import decide
from inverseq.worlds.highway.rules import ACTIONS, KEEP, TO_THE_LEFT, keep_right, safety
from inverseq.worlds.highway.traffic import (
    DESIRED_SPEED,
    LANES,
    ROAD,
    SUBSTEP,
    SUBSTEPS,
    VEHICLE,
    Scenario,
)

FORMAT = "sumo-ring-trace/2"


def record_trace(
    scenario: Scenario,
    policy: Policy,
    *,
    values: Callable[[np.ndarray], np.ndarray] | None = None,
    decisions: int = 100,
    simulation: Simulation | None = None,
) -> dict[str, Any]:
    """An episode as plain data, ready for JSON.

    - ``format``: what this is, ``sumo-ring-trace/2``.
    - ``meta``: the road, how far the ego sees, the scenario, the names of actions and by how many
      lanes they lead to the left, and the vehicles, the ego first.
    - ``steps``, one for each decision: the action ``a`` that was asked for and what was
      ``executed``; what is ``safe`` and what the rule to keep right leaves of it, ``safe_kr``; the
      values ``q`` of the actions, if there are any (None where one is not finite); and what `check`
      found against the rules: whether the decision broke the rule to ``keep_right``, whether it was
      an ``unsafe`` change, and whether there was a ``collision`` on the way.
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
            action, before = decide(policy, row, info["safe"], rng), info["positions"]
            decided = action if info["safe"][action] else KEEP
            step: dict[str, Any] = {
                "a": action,
                "safe": safe.tolist(),
                "safe_kr": (safe & right).tolist(),
                "q": None if values is None else finite(np.asarray(values(row[None]))[0]),
            }
            row, _, _, truncated, info = env.step(action)
            found = check([before, info["positions"]], [decided])
            step |= {
                "executed": info["executed"],
                "keep_right": bool(found.keep_right),
                "unsafe": bool(found.safety),
                "collision": info["collision"] or found.collisions > 0,
            }
            steps.append(step)
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
        "sight_m": RANGE,
        "traffic": scenario.traffic,
        "n": scenario.n,
        "seed": scenario.seed,
        "actions": list(ACTIONS),
        "to_the_left": list(TO_THE_LEFT),
        "vehicles": vehicles,
    }
    return {"format": FORMAT, "meta": meta, "steps": steps, "frames": watched.frames}


def save_trace(trace: dict[str, Any], path: str | PathLike[str]) -> None:
    """Write a recording as JSON without spaces, whole or not at all."""
    from inverseq.io.storage import write_file

    write_file(path, json.dumps(trace, separators=(",", ":")).encode())


def finite(values: np.ndarray) -> list[float | None]:
    """The values of the actions for JSON, which knows no infinity.

    >>> finite(np.array([1.5, -np.inf]))
    [1.5, None]
    """
    return [value if np.isfinite(value) else None for value in values.tolist()]


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
