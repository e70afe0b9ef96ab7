"""The deep engine against eager PyTorch, against the machine, and several seeds at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.deep_reference import BATCH, DISCOUNT, KINDS, RATE, SETS, TAU, Reference, synthetic
from benchmarks.measure import Row, best
from inverseq import training
from inverseq.algorithms import diql, dqn
from inverseq.nets import MLP

NETWORKS: dict[str, Any] = {"mlp": MLP((64, 64)), "sets": SETS}
SPAN = {"mlp": 300, "sets": 60}
"""Iterations of the engine in one turn."""
TURN = {"mlp": 64, "sets": 16}
"""Iterations of the reference in one turn."""
SEEDS = 5


def run() -> list[Row]:
    """DCIQL: iterations per second by wall time, batch 64."""
    rows: list[Row] = []
    for kind, title in (("mlp", "MLP"), ("sets", "sets")):
        engine, data = Engine(kind), synthetic(kind)
        turns: dict[str, Callable[[], object]] = {"engine": partial(engine.run, SPAN[kind])}
        loops = {"plain": Reference(kind, data, plain=True), "tuned": Reference(kind, data)}
        turns |= {name: partial(loop.run, TURN[kind]) for name, loop in loops.items()}
        best(2, turns, time.perf_counter)
        least = best(12, turns, time.perf_counter)
        pace = {name: (SPAN if name == "engine" else TURN)[kind] / s for name, s in least.items()}
        careful = "stacked networks, fused Adam, one thread"
        further = "minibatches gathered many at a time, Adam's kernel alone"
        if kind == "sets":
            careful += ", sets padded"
            further += ", sets packed by hand, a backward pass of their own"
        rows += [
            Row(f"{title}: the engine", pace["engine"], "it/s"),
            Row(f"{title}: eager PyTorch", pace["plain"], "it/s", note=careful),
            Row(f"{title}: engine / PyTorch", pace["engine"] / pace["plain"], "x", at_least=4.0),
            Row(f"{title}: eager PyTorch, tuned", pace["tuned"], "it/s", note=further),
            Row(f"{title}: engine / PyTorch, tuned", pace["engine"] / pace["tuned"], "x"),
        ]
        rows += [machine_share(kind, engine, pace["engine"]), disagreement(kind)]
    return rows + others() + seeds()


class Engine:
    """The compiled loop of DCIQL on the data of the reference."""

    def __init__(
        self, kind: str, dtype: Any = np.float32, rule: training.Rule | None = None
    ) -> None:
        import jax

        data, self.kind = synthetic(kind), kind
        self.rule = dciql(kind) if rule is None else rule
        network = NETWORKS[kind]
        self.network = network.packed(data.states, BATCH) if kind == "sets" else network
        n_actions = KINDS[kind].layers[-1][1]
        self.program = training.program(self.rule, self.network, "adam", TAU, BATCH, n_actions)
        columns = {
            "states": data.states.astype(dtype), "actions": data.actions.astype(np.int32),
            "next_states": data.next_states.astype(dtype),
            "terminated": data.terminated.astype(dtype), "safe_next": data.safe_next,
            "rewards": np.zeros(len(data.actions), dtype),
        }  # fmt: skip
        self.columns = {name: jax.numpy.asarray(column) for name, column in columns.items()}
        self.key, self.n = jax.random.key(0), np.int32(len(data.actions))
        self.rates = jax.numpy.full(len(self.rule.names), RATE, dtype)
        self.inputs = data.states.shape[1]
        self.state = self.program.begin(self.key, self.inputs)

    def run(self, iterations: int) -> training.State:
        """So many iterations, from the first state."""
        state, _ = self.program.run(
            self.state, self.columns, None, self.key, self.rates, self.n,
            np.int32(0), np.int32(iterations),
        )  # fmt: skip
        ready(state)
        return state

    def run_all(self, iterations: int) -> None:
        """The same for several seeds in one program."""
        import jax

        if not hasattr(self, "together"):
            self.together = jax.jit(
                jax.vmap(self.program.run, (0, None, None, 0, None, None, None, None))
            )
            self.keys = jax.random.split(self.key, SEEDS)
            self.states = jax.tree.map(
                lambda *x: jax.numpy.stack(x),
                *[self.program.begin(k, self.inputs) for k in self.keys],
            )
        done = self.together(
            self.states, self.columns, None, self.keys, self.rates, self.n,
            np.int32(0), np.int32(iterations),
        )  # fmt: skip
        ready(done)


def dciql(kind: str, zero: bool = False) -> diql.Rule:
    """Algorithm 4, for sets with clipped double Q."""
    return diql.Rule(
        DISCOUNT, 1.0, 1e-4, constrained=True, double=kind == "sets", centred=False,
        zero=zero, given=False,
    )  # fmt: skip


def others() -> list[Row]:
    """What else the highway is learned with: fewer networks."""
    rules: dict[str, training.Rule] = {
        "zero gauge": dciql("sets", zero=True),
        "CDQN": dqn.Rule(DISCOUNT, True, True),
    }
    n = SPAN["sets"]
    turns: dict[str, Callable[[], object]] = {
        name: partial(Engine("sets", rule=rule).run, n) for name, rule in rules.items()
    }
    best(1, turns)
    least = best(8, turns, time.perf_counter)
    return [Row(f"sets: the engine, {name}", n / least[name], "it/s") for name in rules]


def ready(found: Any) -> None:
    """Wait for it."""
    import jax

    wait: Any = jax.block_until_ready
    wait(found)


def disagreement(kind: str, iterations: int = 20) -> Row:
    """By how much the two loops differ after some iterations on the same minibatches, 64 bits."""
    import jax

    with jax.enable_x64(True):
        engine, data = Engine(kind, np.float64), synthetic(kind)
        names, layers = engine.rule.names, len(KINDS[kind].layers)

        def by_name(state: training.State) -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
            leaves = [np.asarray(x) for x in jax.tree.leaves(state.params)]
            pairs = [(leaves[2 * i], leaves[2 * i + 1]) for i in range(layers)]
            return {n: [(w[k], b[k]) for w, b in pairs] for k, n in enumerate(names)}

        loop = Reference(kind, data, start=by_name(engine.state), dtype="float64")
        drawn = [
            jax.random.randint(
                jax.random.fold_in(engine.key, i), (BATCH,), 0, engine.n, dtype=np.int32
            )
            for i in range(iterations)
        ]
        loop.run(iterations, np.asarray(drawn))
        ours, theirs = by_name(engine.run(iterations)), loop.parameters()
    apart = max(
        float(np.abs(np.asarray(x) - np.asarray(y)).max())
        for name in names
        for mine, other in zip(ours[name], theirs[name], strict=True)
        for x, y in zip(mine, other, strict=True)
    )
    title = "MLP" if kind == "mlp" else kind
    return Row(f"{title}: apart after {iterations} iterations", apart, "", at_most=1e-8)


def machine_share(kind: str, engine: Engine, pace: float) -> Row:
    """The arithmetic of an iteration, against what products of matrices of its shapes reach."""
    import jax

    names, layers = engine.rule.names, KINDS[kind].layers
    members = 10.6 * BATCH
    rows = [members if i < KINDS[kind].encoder else BATCH for i in range(len(layers))]
    forward = sum(2 * n * i * o for n, (i, o) in zip(rows, layers, strict=True))
    inward = sum(2 * n * i * o for n, (i, o) in zip(rows[1:], layers[1:], strict=True))
    targets = len(names) - 1
    # Forward, the slopes of weights, and those of inputs but for the first layer's.
    work = len(names) * (2 * forward + inward) + targets * forward

    k = len(names)
    shapes = [(round(n), i, o) for n, (i, o) in zip(rows, layers, strict=True)]
    pairs = [(jax.numpy.ones((k, n, i)), jax.numpy.ones((k, i, o))) for n, i, o in shapes]

    @jax.jit
    def products(pairs: Any) -> Any:
        return [a @ b for a, b in pairs]

    def multiply() -> None:
        for _ in range(20):
            ready(products(pairs))

    multiply()
    rate = 20 * k * forward / best(5, {"multiply": multiply}, time.perf_counter)["multiply"]
    share = work * pace / rate
    note = f"{work / 1e6:.0f} MFLOP an iteration, {rate / 1e9:.0f} GFLOP/s by products alone"
    return Row(
        f"{'MLP' if kind == 'mlp' else kind}: share of the rate of products", share, "", note=note
    )


def seeds() -> list[Row]:
    """Several seeds of the small networks, in one program or one after another."""
    engine, n = Engine("mlp"), SPAN["mlp"]

    def in_turn() -> None:
        for _ in range(SEEDS):
            engine.run(n)

    turns: dict[str, Callable[[], object]] = {
        "in turn": in_turn,
        "vmap": partial(engine.run_all, n),
    }
    best(1, turns, time.perf_counter)
    least = best(5, turns, time.perf_counter)
    ratio = least["vmap"] / least["in turn"]
    note = "below 1 would speak for one program"
    return [Row(f"MLP: {SEEDS} seeds in one program / in turn", ratio, "x", note=note)]
