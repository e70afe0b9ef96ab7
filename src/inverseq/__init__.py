"""inverseq: from what somebody did, what were they after, and how should it be done under my rules?

Demonstrations and a Task go into an algorithm's ``fit``; a Solution comes out: a reward, action
values, and a policy that obeys hard constraints. See the docstrings of `Demonstrations`, `Task`,
`IAVI` and `IQL`, each with an example that runs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from inverseq.version import __version__

if TYPE_CHECKING:
    from inverseq import errors, evaluate, identification, nets, planning, uncertainty, worlds
    from inverseq.algorithms import (
        CDQN,
        CIQL,
        DCIQL,
        DIQL,
        DQN,
        IAVI,
        IQL,
        BehaviouralCloning,
        BoltzmannMLE,
        Classifier,
        Decay,
        DeepMaxEnt,
        MaxEnt,
    )
    from inverseq.demonstrations import Additive, Demonstrations
    from inverseq.gauges import Features, Reference, StateOnly, Uniform, Zero
    from inverseq.history import BackOff, Histories
    from inverseq.io.files import read
    from inverseq.labels import Labels
    from inverseq.solution import Solution, load
    from inverseq.task import Constraint, Task
    from inverseq.training import fit_seeds

__all__ = [
    "CDQN",
    "CIQL",
    "DCIQL",
    "DIQL",
    "DQN",
    "IAVI",
    "IQL",
    "Additive",
    "BackOff",
    "BehaviouralCloning",
    "BoltzmannMLE",
    "Classifier",
    "Constraint",
    "Decay",
    "DeepMaxEnt",
    "Demonstrations",
    "Features",
    "Histories",
    "Labels",
    "MaxEnt",
    "Reference",
    "Solution",
    "StateOnly",
    "Task",
    "Uniform",
    "Zero",
    "__version__",
    "errors",
    "evaluate",
    "fit_seeds",
    "identification",
    "load",
    "nets",
    "planning",
    "read",
    "uncertainty",
    "worlds",
]

# Where each name is at home: it is imported on first use, so that who needs one pays for one.
HOMES = {
    **dict.fromkeys(("CIQL", "IAVI", "IQL", "Decay"), "algorithms"),
    **dict.fromkeys(("CDQN", "Classifier", "DCIQL", "DIQL", "DQN"), "algorithms"),
    **dict.fromkeys(("BehaviouralCloning", "BoltzmannMLE", "DeepMaxEnt", "MaxEnt"), "algorithms"),
    **dict.fromkeys(("Additive", "Demonstrations"), "demonstrations"),
    **dict.fromkeys(("Features", "Reference", "StateOnly", "Uniform", "Zero"), "gauges"),
    **dict.fromkeys(("BackOff", "Histories"), "history"),
    **dict.fromkeys(("Solution", "load"), "solution"),
    **dict.fromkeys(("Constraint", "Task"), "task"),
    "Labels": "labels",
    "fit_seeds": "training",
    "read": "io.files",
}
MODULES = {
    *("errors", "evaluate", "identification", "nets", "planning", "uncertainty", "worlds"),
}

# Hidden from type checkers: they would take every misspelt name for something of any type.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in MODULES:
            return import_module(f"inverseq.{name}")
        if name not in HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"inverseq.{HOMES[name]}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
