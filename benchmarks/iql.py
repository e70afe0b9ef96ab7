"""IQL: transitions per second of one pass, against Python, and against the memory it must touch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from benchmarks.measure import Row, best
from benchmarks.reference import iql_pass
from inverseq import IQL, Constraint, Decay, Demonstrations, Task, _kernels, worlds
from inverseq.algorithms.iql import BLOCK, State, Steps, fresh
from inverseq.errors import NotConverged

STEPS = 1_700_000
"""As many as in the paper."""
ACTIONS = 5
EPOCHS = 200


def run() -> list[Row]:
    """Processor time of one pass of the inner loop, then of whole fits."""
    rows: list[Row] = []
    for n_states, target in ((1_024, 15.0), (100_000, 2.0)):
        rows += one_pass(n_states, target)
    return rows + interpreted() + whole_fits()


def one_pass(n_states: int, target: float) -> list[Row]:
    """The compiled loop as `IQL` runs it after the first pass, and a loop of its reads alone."""
    steps = transitions(n_states, STEPS)
    plain, counting = Pass(n_states, steps), Pass(n_states, steps, counting=True)
    safe = np.random.default_rng(1).random((n_states, ACTIONS)) < 0.9
    safe[:, 0] = True
    bound, touched = Pass(n_states, steps, safe=safe), Pass(n_states, steps)
    passes: dict[str, Callable[[], object]] = {
        "plain": plain.run,
        "counting": counting.run,
        "bound": bound.run,
        "touch": touched.touch,
    }
    for function in passes.values():
        function()  # compiles
    times = best(5, passes)
    speed = {name: STEPS / time / 1e6 for name, time in times.items()}
    lines = plain.lines()
    size = f"{n_states:,} states"
    return [
        Row(f"IQL, {size}", speed["plain"], "M/s", at_least=target),
        Row("  the first pass of a stream", speed["counting"], "M/s", note="a logarithm more"),
        Row("  with constraints", speed["bound"], "M/s", note="a fourth table"),
        Row("  its memory accesses alone", speed["touch"], "M/s", note=f"{lines:.1f} cache lines"),
        Row("  IQL / its accesses alone", speed["plain"] / speed["touch"], "×"),
    ]


def interpreted() -> list[Row]:
    """The same loop as Python runs it, Algorithm 1 in lists, and compiled over the equations."""
    n_states = 1_024
    fused, shared = (transitions(n_states, n) for n in (STEPS, 200_000))
    few = transitions(n_states, 4_000)
    listed = list(
        zip(few.states.tolist(), few.actions.tolist(), few.next_states.tolist(), strict=True)
    )
    runs: dict[str, tuple[int, Callable[[], object]]] = {
        "fused": (STEPS, Pass(n_states, fused, counting=True).run),
        "shared": (200_000, Pass(n_states, shared, _kernels.shared_loop, counting=True).run),
        "plain": (4_000, Pass(n_states, few, _kernels.plain_loop, counting=True).run),
        "lists": (4_000, lambda: iql_pass(listed, n_states, ACTIONS, 0.9, 1e-3, 1e-3)),
    }
    for _, function in runs.values():
        function()  # compiles
    times = best(3, {name: function for name, (_, function) in runs.items()})
    speed = {name: runs[name][0] / time / 1e6 for name, time in times.items()}
    return [
        Row("compiled over the equations", speed["shared"], "M/s"),
        Row("Algorithm 1 in Python's lists", speed["lists"], "M/s"),
        Row("Python over the equations", speed["plain"], "M/s"),
        Row("IQL / compiled equations", speed["fused"] / speed["shared"], "×"),
        Row("IQL / Algorithm 1 in lists", speed["fused"] / speed["lists"], "×"),
        Row("IQL / Python over the equations", speed["fused"] / speed["plain"], "×"),
    ]


def whole_fits() -> list[Row]:
    """1.7 million steps of the expert of an Objectworld, 200 epochs, from data to solution."""
    world = worlds.objectworld(seed=0)
    seen = world.demonstrations(STEPS // 8, 8, seed=0)
    cost = np.zeros((world.task.n_states or 0, ACTIONS))
    cost[::7, 0] = 1.0
    constrained = world.task.constrain(Constraint(cost, 0.5))
    settings = IQL(epochs=EPOCHS, tolerance=0.0)

    def fit(demonstrations: Demonstrations, task: Task) -> Callable[[], object]:
        return lambda: settings.fit(demonstrations, task, progress=False)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        fit(world.demonstrations(10, 8, seed=0), world.task)()  # compiles
        times = best(1, {"free": fit(seen, world.task), "bound": fit(seen, constrained)})
    rate = EPOCHS * len(seen) / times["free"] / 1e6
    name = f"IQL.fit, {EPOCHS} epochs"
    return [
        Row(name, times["free"], at_most=60.0, note=f"{rate:.1f} M/s with all around it"),
        Row("  with constraints", times["bound"], at_most=60.0),
    ]


def transitions(n_states: int, n: int) -> Steps:
    """Random steps to neighbours on a square grid, in no order: the worst one for the caches."""
    rng = np.random.default_rng(0)
    states, actions = rng.integers(n_states, size=n), rng.integers(ACTIONS, size=n)
    side = int(n_states**0.5)
    moved = states + rng.choice([-side, -1, 0, 1, side], size=n)
    demonstrations = Demonstrations(states, actions, moved % n_states)
    return Steps.of(demonstrations, Task(ACTIONS, 0.9, n_states=n_states))


class Pass:
    """One pass of a loop over transitions, with everything that it needs."""

    def __init__(
        self,
        n_states: int,
        steps: Steps,
        loop: Any = _kernels.fused_loop,
        counting: bool = False,
        safe: np.ndarray | None = None,
    ) -> None:
        self.steps, self.loop, self.counting, self.safe = steps, loop, counting, safe
        self.shape = (n_states, ACTIONS)
        self.state: State = fresh(self.shape)
        self.available = np.ones(self.shape, bool)
        # Values that are all alike would make every branch of the loop easy to predict.
        self.log_pi = np.log(np.random.default_rng(2).dirichlet(np.ones(ACTIONS), n_states))
        self.rate = Decay().table(STEPS)

    def run(self) -> None:
        """The loop itself."""
        steps, state, rate = self.steps, self.state, self.rate
        self.loop(
            steps.states, steps.actions, steps.next_states, steps.weights,
            np.arange(0, len(steps.states), BLOCK), BLOCK,
            self.log_pi, state.rho, state.q_sh, state.r, state.q, state.q_c, state.updates,
            self.available, self.available if self.safe is None else self.safe,
            rate, rate, rate, rate, 0.9, 1e-3, 1.0,
            self.counting, False, self.safe is not None,
        )  # fmt: skip

    def touch(self) -> None:
        """Its reads and writes without its arithmetic."""
        steps, state = self.steps, self.state
        touch_rows(
            steps.states, steps.actions, steps.next_states,
            self.log_pi, state.q_sh, state.r, state.q, state.updates, self.available, self.rate,
        )  # fmt: skip

    def lines(self) -> float:
        """How many cache lines of 64 bytes a transition needs, counting those of its tables."""

        # A row of k bytes begins anywhere on a multiple of its entries.
        def row(nbytes: int, entry: int) -> float:
            return 1 + (nbytes - entry) / 64

        tables = 4 * row(8 * ACTIONS, 8) + row(8, 8)  # l, q_sh, r of s; q of s'; updates of (s, a)
        return tables + 1 + 2 * row(ACTIONS, 1)  # q of (s, a); what is available in s and s'


@numba.njit
def touch_rows(  # type: ignore[no-untyped-def]
    states, actions, next_states, l, q_sh, r, q, updates, available, rate
):
    """Read each row that the loop reads, and write each entry that it writes."""
    n = l.shape[1]
    for i in range(len(states)):
        s, a, s_next = states[i], actions[i], next_states[i]
        total = 0.0
        for b in range(n):
            total += l[s, b] + q_sh[s, b] + r[s, b] + q[s_next, b]
            total += available[s, b] + available[s_next, b]
        updates[s, a] += 1
        total += rate[min(updates[s, a], len(rate) - 1)]
        q_sh[s, a] = r[s, a] = q[s, a] = 1e-9 * total
