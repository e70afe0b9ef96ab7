"""How long it takes to get going: imports and the command line's help, in fresh interpreters."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks.measure import Row, best, fresh

REPEATS = 10
LOADED = """
import json, sys
before = set(sys.modules)
{code}
print(json.dumps(sorted({{name.partition(".")[0] for name in set(sys.modules) - before}})))
"""
EVERYTHING = "from inverseq import *"


def run() -> list[Row]:
    """Wall time in fresh interpreters, best of ten."""
    programs = {
        "nothing": python("pass"),
        "numpy": python("import numpy"),
        "package": python("import inverseq"),
        "everything": python(EVERYTHING),
        "help": lambda: subprocess.run(
            [sys.executable, "-m", "inverseq", "--help"], check=True, capture_output=True
        ),
    }
    times = best(REPEATS, programs, clock=time.perf_counter)
    return [
        Row("python -c pass", times["nothing"]),
        Row("import numpy", times["numpy"]),
        Row("import inverseq", times["package"], note=loaded("import inverseq")),
        Row("import inverseq / import numpy", times["package"] / times["numpy"], "×", at_most=1.5),
        Row(EVERYTHING, times["everything"], note=loaded(EVERYTHING)),
        Row("... / import numpy", times["everything"] / times["numpy"], "×"),
        Row("inverseq --help", times["help"], at_most=0.5),
    ]


def python(code: str) -> Callable[[], object]:
    """Running this in an interpreter of its own."""
    return lambda: subprocess.run([sys.executable, "-c", code], check=True)


def loaded(code: str) -> str:
    """Which packages from outside the standard library this loads."""
    names = fresh(LOADED.format(code=code))
    outside = [name for name in names if name not in sys.stdlib_module_names]
    return "loads " + ", ".join(name for name in outside if not name.startswith("_"))
