"""The simulation: what is asked of SUMO, and the only place that knows how to ask.

`Simulation` is all that an environment needs; `Sumo` is the one that drives. A process holds one
simulation: libsumo keeps its state in global variables, and starting a second one silently replaces
the first. So the last to load has it, and whoever had it before is told so.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from typing import Any, Protocol

import numpy as np

from inverseq.errors import InvalidInput, MissingExtra, SimulationFailed
from inverseq.worlds.highway.traffic import EDGES, LANES, NET, ROAD, SUBSTEP, Scenario

EGO = "0"
OBEY = 256
"""The mode in which SUMO never changes the ego's lane on its own, and does as it is told unless
cars would touch. (Under its default it would wait for a better moment, or refuse.)"""

Positions = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Of all vehicles, the ego first: metres along the ring, lanes, and speeds in m/s."""


class Simulation(Protocol):
    """All that an environment asks of a simulator."""

    def load(self, scenario: Scenario) -> None:
        """Begin anew: all vehicles of a scenario on the road, at time 0."""

    def change_lane(self, lane: int) -> None:
        """Let the ego change to a lane within the next step, or not at all."""

    def step(self) -> int:
        """Let half a second pass; how many collisions there are."""

    def positions(self) -> Positions:
        """Where everybody is."""

    def close(self) -> None:
        """End, if it has begun."""


class Sumo:
    """SUMO within this process.

    >>> sumo = Sumo()
    >>> sumo.load(Scenario("T1", n=2, seed=0))
    >>> sumo.step()
    0
    >>> metres, lanes, speeds = sumo.positions()
    >>> len(metres), lanes
    (3, array([...]))
    >>> sumo.close()
    """

    holder: Sumo | None = None
    """Who has the one simulation of this process."""

    def __init__(self) -> None:
        self.sumo = need_sumo()
        self.names: list[str] = []
        self.starts = {f"e{k}_{l}": k * ROAD / EDGES for k in range(EDGES) for l in range(LANES)}
        self.lanes = {f"e{k}_{l}": l for k in range(EDGES) for l in range(LANES)}

    def load(self, scenario: Scenario) -> None:
        """Begin anew: all vehicles of a scenario on the road, at time 0."""
        with tempfile.TemporaryDirectory(prefix="inverseq-") as folder:
            routes = os.path.join(folder, "routes.xml")
            with open(routes, "w", encoding="utf-8") as file:
                file.write(scenario.routes())
            options = [
                *("--net-file", str(NET), "--route-files", routes, "--route-steps", "0"),
                *("--step-length", str(SUBSTEP), "--seed", str(scenario.seed)),
                *("--collision.action", "warn", "--time-to-teleport", "-1"),
                *("--no-step-log", "--no-warnings", "--duration-log.disable"),
            ]
            Sumo.holder = self
            if self.sumo.isLoaded():
                self.sumo.load(options)
            else:
                self.sumo.start(["sumo", *options])
        self.names = [str(i) for i in range(scenario.n + 1)]
        self.step()
        if self.sumo.vehicle.getIDCount() != len(self.names):
            raise SimulationFailed(
                f"SUMO must place all {len(self.names)} vehicles of {scenario} at once; it placed "
                f"{self.sumo.vehicle.getIDCount()}."
            )
        self.sumo.vehicle.setLaneChangeMode(EGO, OBEY)

    def change_lane(self, lane: int) -> None:
        """Let the ego change to a lane within the next step, or not at all."""
        self.check()
        self.sumo.vehicle.changeLane(EGO, lane, 0.0)

    def step(self) -> int:
        """Let half a second pass; how many collisions there are.

        Of these SUMO speaks before cars touch: where one is nearer to another than its least gap.
        """
        self.check()
        self.sumo.simulationStep()
        return len(self.sumo.simulation.getCollisions())

    def positions(self) -> Positions:
        """Where everybody is; whoever has left the road is an error of SUMO's."""
        self.check()
        vehicle, names = self.sumo.vehicle, self.names
        on = list(map(vehicle.getLaneID, names))
        metres = np.array(list(map(vehicle.getLanePosition, names)))
        metres += np.array(list(map(self.starts.__getitem__, on)))
        lanes = np.array(list(map(self.lanes.__getitem__, on)))
        return metres, lanes, np.array(list(map(vehicle.getSpeed, names)))

    def close(self) -> None:
        """End, if it has begun and nobody else has it."""
        if Sumo.holder is self:
            Sumo.holder = None
            self.sumo.close()

    def check(self) -> None:
        """Raise unless the simulation of this process is this one."""
        if Sumo.holder is not self:
            raise InvalidInput(
                "A process must have one simulation at a time, and this one has ended or another "
                "environment has begun its own. Reset this environment to take it back, or use "
                "`rollouts`, which has a process for each."
            )


def need_sumo() -> Any:
    """Libsumo, or the message that says how to install it."""
    try:
        # It prints a guess about PyArrow, with which it works.
        with contextlib.redirect_stdout(io.StringIO()):
            import libsumo
    except ImportError:
        raise MissingExtra(
            "The highway needs SUMO. Install it with `pip install 'inverseq[sumo]'`."
        ) from None
    return libsumo
