"""The highway as a Gymnasium environment: a decision every two seconds."""

from __future__ import annotations

from typing import Any

import numpy as np

from inverseq._checks import as_whole, check_choice, check_kind
from inverseq.errors import InvalidInput, MissingExtra
from inverseq.worlds.highway.client import Simulation, Sumo
from inverseq.worlds.highway.observation import STATIC, WIDTH, observe
from inverseq.worlds.highway.rules import ACTIONS, KEEP, LEFT, RIGHT, TO_THE_LEFT, neighbours, safe
from inverseq.worlds.highway.traffic import (
    DENSE,
    DESIRED_SPEED,
    MOST_VEHICLES,
    NEVER_KEEP_RIGHT,
    SPARSE,
    SUBSTEPS,
    WARM_UP,
    Scenario,
    Traffic,
    training_scenario,
)

try:
    import gymnasium
except ImportError:
    raise MissingExtra(
        "The highway is a Gymnasium environment. Install it with `pip install 'inverseq[sumo]'`."
    ) from None

LANE_CHANGE = 0.01
"""What a change of lanes costs."""
MOST_DECISIONS = 10_000
"""Routes are long enough for these."""


class Highway(gymnasium.Env[np.ndarray, np.int64]):
    """A ring of 1000 m with three lanes, on which the ego keeps its lane or changes it.

    Its speed is left to SUMO, and whether a change is safe is checked before it is asked for: one
    that is not safe is not made, whatever the action says. The reward of a decision is
    ``1 - |v - 20| / 20`` for the speed ``v`` that it leads to, less 0.01 for a change of lanes.
    Nothing ends an episode but the number of its decisions: it is truncated and never terminated.

    With every state comes ``info``:

    - ``safe``: which of the actions keep, left, right are safe in it;
    - ``executed``: what was done in the last decision (0 after a reset);
    - ``collision``: whether SUMO reported one, of anybody, since the last decision;
    - ``speed``: the ego's, in m/s;
    - ``positions``: of all vehicles, the ego first: metres along the ring, lanes (0 is the right
      one), and speeds. No observation was made of them yet, so that a checker may use them.

    >>> env = Highway()
    >>> row, info = env.reset(options={"scenario": Scenario("T2", n=60, seed=7)})
    >>> row.shape, info["safe"]
    ((131,), array([...]))
    >>> row, reward, terminated, truncated, info = env.step(KEEP)
    >>> env.close()

    Args:
        traffic: Which mixture of drivers: T1 all keep right, T2 30 % never do.
        n: The smallest and the largest number of vehicles beside the ego, from which a reset draws.
        decisions: After how many an episode is cut.
        simulation: Who drives the others; SUMO if nobody is named.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - it is Gymnasium's

    def __init__(
        self,
        traffic: Traffic = "T2",
        n: tuple[int, int] = (SPARSE, DENSE),
        decisions: int = 100,
        simulation: Simulation | None = None,
    ) -> None:
        check_choice(traffic, tuple(NEVER_KEEP_RIGHT), "Highway.traffic")
        if len(n) != 2 or not 0 <= as_whole(n[0]) <= as_whole(n[1]) <= MOST_VEHICLES:
            raise InvalidInput(
                f"`Highway.n` must be the smallest and the largest number of vehicles, from 0 to "
                f"{MOST_VEHICLES}; got {n!r}."
            )
        if not 1 <= as_whole(decisions) <= MOST_DECISIONS:
            raise InvalidInput(
                f"`Highway.decisions` must be an integer from 1 to {MOST_DECISIONS}; got "
                f"{decisions!r}."
            )
        self.traffic, self.n, self.decisions = traffic, n, decisions
        self.simulation = Sumo() if simulation is None else simulation
        self.decision: int | None = None

        bound = np.full(WIDTH, 2.0, np.float32)
        below = -bound
        below[:STATIC] = 0
        below[STATIC::4] = 0
        bound[STATIC::4] = 1
        self.observation_space = gymnasium.spaces.Box(below, bound)
        self.action_space = gymnasium.spaces.Discrete(len(ACTIONS))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """The first state of a scenario: that of ``options["scenario"]``, or one for training."""
        super().reset(seed=seed)
        scenario = (options or {}).get("scenario")
        if scenario is None:
            scenario = training_scenario(self.traffic, self.n, self.np_random)
        check_kind(scenario, Scenario, 'options["scenario"]')
        self.simulation.load(scenario)
        collisions = sum([self.simulation.step() for _ in range(WARM_UP)])
        self.decision = 0
        row = self.look()
        return row, self.info(KEEP, collisions)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Two seconds later: the next state, the reward, and whether the episode is cut."""
        if self.decision is None:
            raise InvalidInput(
                "`Highway.step` must follow `Highway.reset`, which begins a scenario."
            )
        chosen = as_whole(action)
        if chosen not in range(len(ACTIONS)):
            raise InvalidInput(
                f"`action` must be {KEEP} (keep), {LEFT} (left) or {RIGHT} (right); got {action!r}."
            )
        lane = int(self.positions[1][0])
        if chosen != KEEP and self.safe[chosen]:
            self.simulation.change_lane(lane + TO_THE_LEFT[chosen])
        collisions = sum([self.simulation.step() for _ in range(SUBSTEPS)])
        self.decision += 1
        row = self.look()
        executed = TO_THE_LEFT.index(int(self.positions[1][0]) - lane)
        info = self.info(executed, collisions)
        reward = 1 - abs(info["speed"] - DESIRED_SPEED) / DESIRED_SPEED
        reward -= LANE_CHANGE * (executed != KEEP)
        return row, reward, False, self.decision >= self.decisions, info

    def close(self) -> None:
        """End the simulation."""
        self.decision = None
        self.simulation.close()

    def look(self) -> np.ndarray:
        """What the ego sees now, after which it is known what is safe."""
        self.positions = self.simulation.positions()
        row = observe(*self.positions)
        self.safe = safe(neighbours(row))
        return row

    def info(self, executed: int, collisions: int) -> dict[str, Any]:
        """What is said beside an observation."""
        return {
            "safe": self.safe,
            "executed": executed,
            "collision": collisions > 0,
            "speed": float(self.positions[2][0]),
            "positions": self.positions,
        }
