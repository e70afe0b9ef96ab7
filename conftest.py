"""Turns on the checking of the shapes in annotations, for every test run.

It lies here and not in tests/ so that it is read before any module of the package is collected for
the examples in its docstrings.
"""

import signal
from typing import Any, get_args

# jaxtyping comes before inverseq: `inverseq.shapes` gives checked types only where it finds it.
import jaxtyping
from beartype import BeartypeConf, beartype
from hypothesis import settings

CHECKED = [
    "inverseq.equations",
    "inverseq._checks",
    "inverseq.transitions",
    "inverseq.task",
    "inverseq.demonstrations",
    "inverseq.solution",
    "inverseq.gauges",
    "inverseq.planning",
    "inverseq.matching",
    "inverseq.evaluate",
    "inverseq.algorithms",
    "inverseq.worlds",
]

# An int is a fine float, as PEP 484 says and mypy agrees.
checked = beartype(conf=BeartypeConf(is_pep484_tower=True))


def check_shapes(function):
    """What the import hook puts around every function: its arrays are checked, and they alone."""
    # Everything else is for mypy, and for the library's own messages, which the tests read.
    for name, hint in function.__annotations__.items():
        if not is_array(hint):
            function.__annotations__[name] = Any
    return checked(function)


def is_array(hint):
    """Whether an annotation carries a shape."""
    parts = (hint, *get_args(hint))
    return any(
        isinstance(part, type) and issubclass(part, jaxtyping.AbstractArray) for part in parts
    )


jaxtyping.install_import_hook(CHECKED, f"{__name__}.check_shapes")

# Shells start what runs in the background deaf to interrupts, and tests send some.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no failure.
settings.register_profile("inverseq", deadline=None)
settings.load_profile("inverseq")
