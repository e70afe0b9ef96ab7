"""The highway of the paper: when to change lanes, on a ring among other drivers, under SUMO.

The ego's speed is left to the simulator; every two seconds it keeps its lane or changes it. Rules
of the road are constraints, pure functions of what the ego sees. Gymnasium knows the world as
``inverseq/Highway-v0`` once this module is imported. To drive takes
``pip install 'inverseq[sumo]'``; observations, rules and the checker need nothing.

>>> from inverseq.worlds import highway
>>> scenario = highway.evaluation_scenarios("T2")[0]
>>> seen = highway.rollouts([scenario], highway.policies.greedy, decisions=5, workers=0)
>>> states = seen.demonstrations().states
>>> highway.safety().allows(states).shape
(5, 3)
"""

from typing import TYPE_CHECKING, Any

from inverseq.worlds.highway import policies
from inverseq.worlds.highway.checker import Breaches, check
from inverseq.worlds.highway.observation import observe, split
from inverseq.worlds.highway.rollouts import Rollouts, rollouts
from inverseq.worlds.highway.rules import keep_right, safety, task
from inverseq.worlds.highway.trace import record_trace, save_trace
from inverseq.worlds.highway.traffic import (
    Scenario,
    evaluation_scenarios,
    fingerprint,
    training_scenarios,
)

if TYPE_CHECKING:
    from inverseq.worlds.highway.environment import Highway

try:
    import gymnasium
except ImportError:
    # Who only looks at data has no use for it; who asks for `Highway` is told.
    pass
else:
    gymnasium.register("inverseq/Highway-v0", f"{__name__}.environment:Highway")

__all__ = [
    "Breaches",
    "Highway",
    "Rollouts",
    "Scenario",
    "check",
    "evaluation_scenarios",
    "fingerprint",
    "keep_right",
    "observe",
    "policies",
    "record_trace",
    "rollouts",
    "safety",
    "save_trace",
    "split",
    "task",
    "training_scenarios",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name != "Highway":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from inverseq.worlds.highway.environment import Highway

        return Highway
