"""inverseq: from what somebody did, what were they after, and how should it be done under my rules?

Demonstrations and a Task go into an algorithm's ``fit``; a Solution comes out: a reward, action
values, and a policy that obeys hard constraints. See the docstrings of `Demonstrations`, `Task`,
`IAVI` and `IQL`, each with an example that runs.
"""

from inverseq import evaluate, planning, worlds
from inverseq.algorithms import CIQL, IAVI, IQL, Decay
from inverseq.demonstrations import Additive, Demonstrations
from inverseq.gauges import Features, Reference, StateOnly, Uniform, Zero
from inverseq.solution import Solution, load
from inverseq.task import Constraint, Task
from inverseq.version import __version__

__all__ = [
    "CIQL",
    "IAVI",
    "IQL",
    "Additive",
    "Constraint",
    "Decay",
    "Demonstrations",
    "Features",
    "Reference",
    "Solution",
    "StateOnly",
    "Task",
    "Uniform",
    "Zero",
    "__version__",
    "evaluate",
    "load",
    "planning",
    "worlds",
]
