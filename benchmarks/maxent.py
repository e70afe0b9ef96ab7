"""What an iteration of the baselines costs, which must not be slow to make ours look fast."""

from __future__ import annotations

import warnings

import numpy as np

from benchmarks.measure import Row, best
from inverseq import BoltzmannMLE, DeepMaxEnt, MaxEnt, worlds
from inverseq.errors import NotConverged

FEW, MANY = 20, 120
"""The cost of an iteration is that of as many more: what begins and ends a fit drops out."""


def run() -> list[Row]:
    """Objectworld, 1,024 states, 4 features: processor time of one more iteration."""
    world = worlds.objectworld(seed=0)
    seen = world.demonstrations(1_000, 8, seed=0)
    phi = world.features
    estimators = {
        "MaxEnt": lambda n: MaxEnt(phi, max_iterations=n, tolerance=0.0),
        "MaxEnt, single step": lambda n: MaxEnt(
            phi, inner_steps=1, max_iterations=n, tolerance=0.0
        ),
        "MaxEnt, causal": lambda n: MaxEnt(phi, causal=True, max_iterations=n, tolerance=0.0),
        "DeepMaxEnt": lambda n: DeepMaxEnt(phi, max_iterations=n, tolerance=0.0),
        "BoltzmannMLE": lambda n: BoltzmannMLE(phi, max_iterations=n, tolerance=0.0),
    }
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        for name, make in estimators.items():
            fits = {
                str(n): lambda n=n, make=make: make(n).fit(seen, world.task) for n in (FEW, MANY)
            }
            fits[str(FEW)]()  # compiled
            times = best(3, fits)
            each = 1e3 * (times[str(MANY)] - times[str(FEW)]) / (MANY - FEW)
            target = 2.0 if name.startswith("MaxEnt") else None
            rows.append(Row(name, float(np.round(each, 3)), "ms", at_most=target))
    return rows
