"""IAVI on a grid of a million cells: seconds, memory, and how close it comes to the hardware."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.measure import Row, best, copy_bandwidth, fresh
from inverseq import _linear
from inverseq.task import Task
from inverseq.transitions import Transitions
from inverseq.worlds.grid import Grid, grid_transitions

SIDE = 1024
LIMITS = {"seconds": 15.0, "residual": 1e-8, "gib": 4.0}
CASES = [(0.9, "auto"), (0.99, "auto"), (0.99, "amg"), (0.9999, "auto"), (0.9999, "amg")]
"""Up to 0.99 "auto" is BiCGSTAB alone; at 0.9999 that takes 930 iterations, a minute and more."""

SOLVE = """
import json, sys
from benchmarks.iavi_large import solve
print(json.dumps(solve(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3])))
"""


def run() -> list[Row]:
    """Wall time at 1,048,576 states, 5 actions, wind 0.3."""
    rows = []
    for discount, solver in CASES:
        found = fresh(SOLVE, SIDE, discount, solver)
        asked = solver == "auto"
        name = f"discount {discount:g}, {solver}"
        within = LIMITS if asked and discount < 0.999 else {}
        note = str(found["solver"])
        if found["solver"] != "direct":
            note += f", {found['iterations']} iterations"
        rows += [
            Row(name, found["solve"], at_most=within.get("seconds"), note=note),
            Row("  of which processor time", found["busy"]),
            Row("  residual", found["residual"], "", at_most=within.get("residual")),
        ]
        if asked:
            rows += [
                Row("  peak memory", found["gib"], "GiB", at_most=within.get("gib")),
                Row("  building the Task", found["build"], note="with its model"),
            ]
    return rows + limit()


def build(side: int, discount: float) -> tuple[Task, np.ndarray]:
    """The task, and a policy: the softmax of random normal values."""
    task = Task(5, discount, transitions=grid_transitions(Grid((side, side), wind=0.3)))
    policy = np.exp(np.random.default_rng(0).standard_normal((side * side, 5)))
    policy /= policy.sum(axis=1, keepdims=True)
    return task, policy


def solve(side: int, discount: float, solver: Any) -> dict[str, Any]:
    """Build, solve and check one case, and say what the process took."""
    import resource

    from inverseq import IAVI

    began = time.perf_counter()
    task, policy = build(side, discount)
    built, busy = time.perf_counter(), time.process_time()
    found = IAVI(solver=solver).solve(policy, task)
    done, busy = time.perf_counter(), time.process_time() - busy
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Bellman's equation and the gauge, computed anew: both are what the answer must satisfy.
    v = found.q_table.max(axis=1)
    missed = found.q_table - found.reward_table - discount * task.continuing.expect(v)
    residual = max(
        float(np.abs(missed).max()), float(np.abs(found.reward_table.mean(axis=1)).max())
    )
    return {
        "build": built - began,
        "solve": done - built,
        "busy": busy,
        "residual": residual,
        "solver": found.info.solver,
        "iterations": found.info.iterations,
        "gib": peak / 2**20,
    }


def limit() -> list[Row]:
    """What an iteration of BiCGSTAB must move, against what a copy moves in the same time."""
    model, _ = Transitions.check(grid_transitions(Grid((SIDE, SIDE), wind=0.3)), 5)
    n = model.n_states
    chain = model.under(np.full((n, 5), 0.2))
    b = np.random.default_rng(0).standard_normal(n)
    count = 0

    def iterate() -> None:
        nonlocal count
        count = _linear.solve(chain, 0.99, b, "bicgstab").iterations

    times = best(3, {"iterate": iterate, "product": lambda: chain @ b})
    bandwidth = copy_bandwidth()
    matrix = chain.data.nbytes + chain.indices.nbytes + chain.indptr.nbytes
    product = matrix + 2 * b.nbytes
    # Two products, six scalar products (11 vectors read) and six updates (13 read, 6 written).
    iteration = 2 * product + 30 * b.nbytes
    rate = iteration * count / times["iterate"]
    return [
        Row("copy bandwidth", bandwidth / 1e9, "GB/s", note="read and written"),
        Row("one product, of copy bandwidth", product / times["product"] / bandwidth, "×"),
        Row("one iteration, of copy bandwidth", rate / bandwidth, "×", note="BiCGSTAB"),
        Row("bytes per iteration", iteration / 1e6, "MB", note="matrix twice, 34 vectors"),
    ]
