"""IAVI on the paper's Objectworld: one linear solve against sweeps of least-squares problems."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.measure import Row, best, fresh
from benchmarks.reference import iavi_sweeps, iavi_sweeps_tuned
from inverseq import IAVI, Task, worlds

TOLERANCE = 1e-4
"""The paper's: sweeps end once no reward changes by more."""

CALLS = 20
"""One call is too short to take turns with seconds."""
REPEATS = 3

COLD = """
import json, time
import numpy as np
from inverseq import IAVI, Task, worlds
world = worlds.objectworld(seed=0)
policy = np.random.default_rng(0).dirichlet(np.ones(5), 1024)
began = time.process_time()
IAVI().solve(policy, world.task)
print(json.dumps(time.process_time() - began))
"""
"""Includes the import of SciPy's sparse solvers."""


def run() -> list[Row]:
    """1,024 states, 5 actions, discount 0.9."""
    world = worlds.objectworld(seed=0)
    policy, task = world.expert(), world.task
    model, discount = world.task.continuing.dense(), world.task.discount

    written = iavi_sweeps(model, policy, discount, TOLERANCE)
    exact = IAVI().solve(policy, task)
    ours = IAVI(solver="sweeps", tolerance=TOLERANCE)
    # A change below the tolerance leaves at most this much to come.
    far = TOLERANCE * discount / (1 - discount)
    apart = float(np.abs(exact.reward_table - written[0]).max())
    assert apart < far, f"The reference and IAVI must agree to {far:.1g}; they differ by {apart}."

    # A task keeps its chain and its factors; these have none yet.
    unsolved = iter([[replace(task) for _ in range(CALLS)] for _ in range(2 * REPEATS)])

    def first(tasks: list[Task]) -> None:
        while tasks:
            IAVI().solve(policy, tasks.pop())

    def first_in_new_memory(tasks: list[Task]) -> None:
        for new in tasks:
            IAVI().solve(policy, new)

    times = best(
        REPEATS,
        {
            "written": lambda: iavi_sweeps(model, policy, discount, TOLERANCE),
            "tuned": lambda: iavi_sweeps_tuned(model, policy, discount, TOLERANCE),
            "ours": lambda: ours.solve(policy, task),
            "again": lambda: [IAVI().solve(policy, task) for _ in range(CALLS)],
            "first": lambda: first(next(unsolved)),
            "new": lambda: first_in_new_memory(next(unsolved)),
        },
    )
    for name in ("again", "first", "new"):
        times[name] /= CALLS
    cold = min(fresh(COLD) for _ in range(3))
    sweeps = ours.solve(policy, task).info.iterations
    return [
        Row("IAVI, first on a task", times["first"], note=f"residual {exact.info.residual:.0e}"),
        Row("  the same, in new memory", times["new"], note="all tasks live on, with factors"),
        Row("IAVI, again on it", times["again"], note="chain and factors were kept"),
        Row("IAVI, first call of a process", cold),
        Row("IAVI, sweeps over the table", times["ours"], note=f"{sweeps} sweeps to 1e-4"),
        Row("paper's sweeps as written", times["written"], note=f"{written[2]} sweeps to 1e-4"),
        Row("paper's sweeps, tuned by hand", times["tuned"], note="constants out of the loop"),
        Row("as written / IAVI, first", times["written"] / times["first"], "×", at_least=2000),
        Row("as written / the same, new memory", times["written"] / times["new"], "×"),
        Row("as written / IAVI, again", times["written"] / times["again"], "×", at_least=2000),
        Row("tuned by hand / IAVI, again", times["tuned"] / times["again"], "×"),
        Row("as written / IAVI, first call", times["written"] / cold, "×"),
        Row("largest difference of rewards", apart, "", at_most=far, note="what sweeps leave"),
    ]
