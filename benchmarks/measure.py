"""Rows of a table, timers that take turns, fresh processes, and what the machine is."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Row:
    """One figure, and what it should be."""

    what: str
    figure: float
    unit: str = "s"
    at_least: float | None = None
    """The target, where more is better."""
    at_most: float | None = None
    """The target, where less is better."""
    note: str = ""

    @property
    def target(self) -> str:
        """The target in words; empty where there is none."""
        if self.at_least is not None:
            return f"≥ {number(self.at_least)}"
        return "" if self.at_most is None else f"≤ {number(self.at_most)}"

    @property
    def met(self) -> bool | None:
        """Whether the figure is what it should be; None where nothing was asked."""
        if self.at_least is not None:
            return self.figure >= self.at_least
        return None if self.at_most is None else self.figure <= self.at_most


def number(value: float) -> str:
    """Three figures that count, and no exponent where a reader needs none."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        digits = 0 if value == int(value) or abs(value) >= 100 else 2 if abs(value) >= 1 else 4
        return f"{value:,.{digits}f}"
    return f"{value:.1e}"


def best(
    repeats: int,
    functions: Mapping[str, Callable[[], object]],
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """The least seconds that each function takes; they take turns, under the same load.

    They are seconds of the processor, so that waiting for neighbours does not count, and those of
    all threads do. For other processes only ``clock=time.perf_counter`` sees anything.
    """
    least = dict.fromkeys(functions, float("inf"))
    for _ in range(repeats):
        for name, function in functions.items():
            began = clock()
            function()
            least[name] = min(least[name], clock() - began)
    return least


def fresh(code: str, *arguments: object) -> Any:
    """What ``code`` prints as JSON in an interpreter of its own."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def copy_bandwidth(megabytes: int = 256, repeats: int = 5) -> float:
    """Bytes per second, read and written, of copying an array too large for the caches."""
    source = np.ones(megabytes * 2**20 // 8)
    target = np.empty_like(source)
    return 2 * source.nbytes / best(repeats, {"copy": lambda: np.copyto(target, source)})["copy"]


def machine() -> Mapping[str, str]:
    """What the figures were measured on."""
    packages = {"NumPy": "numpy", "SciPy": "scipy", "Numba": "numba", "PyAMG": "pyamg"}
    packages |= {"SUMO": "libsumo"}
    return {
        "processor": processor(),
        "cores": str(os.cpu_count()),
        "Python": platform.python_version(),
        **{name: installed(package) for name, package in packages.items()},
        "load at the start": f"{os.getloadavg()[0]:.1f}",
    }


def processor() -> str:
    """The name of the processor, where the system tells."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":", 1)[1].strip() for line in file if "model name" in line]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def installed(package: str) -> str:
    """The version of a package, or that there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
