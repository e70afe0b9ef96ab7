"""DCIQL as a loop in eager PyTorch, written to be fast: what the deep engine is timed against.

Algorithm 4 of Kalweit et al. (2020). All networks are of one architecture, so that each layer of
theirs is one stack (networks, out, in), applied to states that lie in columns. An iteration is
three passes forward (the networks, and the targets that are needed on s and on s'), and one
backward from the sum of the losses. Batches are gathered many at a time.

``python -m benchmarks.deep_reference`` times the variants. PyTorch is needed by this file alone:
``pip install --group bench``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from benchmarks.measure import Row, best
from inverseq.nets import DeepSets

BATCH, CHUNK = 64, 32
"""How many steps are in a minibatch, and how many minibatches are gathered at once."""
RATE = TAU = 1e-4
DISCOUNT, FLOOR = 0.99, math.log(1e-4)
SETS = DeepSets(members=32, features=3, static=3)

Parameters: TypeAlias = dict[str, list[tuple[np.ndarray, np.ndarray]]]
"""Of each network, by name, its layers from first to last: weights (in, out) and bias (out,)."""


class Kind(NamedTuple):
    """An architecture for all networks, with ReLU between its layers, and the networks."""

    layers: tuple[tuple[int, int], ...]
    encoder: int
    """How many of the layers each member of a set goes through before the sum."""
    join: int
    """The layer that sees the static numbers as well."""
    names: tuple[str, ...]
    """All but the first have target copies; of those the first two are needed on s."""


KINDS = {
    "mlp": Kind(((4, 64), (64, 64), (64, 2)), 0, -1, ("rho", "r", "q_sh", "q", "q_c")),
    "sets": Kind(
        ((3, 20), (20, 80), (80, 80), (80, 20), (23, 100), (100, 100), (100, 3)), 2, 4,
        ("rho", "r", "q_sh", "q", "q_twin", "q_c", "q_c_twin"),
    ),
}  # fmt: skip


class Steps(NamedTuple):
    """What both sides of the comparison learn from."""

    states: np.ndarray
    actions: np.ndarray
    next_states: np.ndarray
    terminated: np.ndarray
    safe_next: np.ndarray
    """What the constraints allow in the next state, (n, actions); never nothing."""


def synthetic_sets(n: int, seed: int) -> np.ndarray:
    """Rows of `SETS`: a speed and two lanes that exist or not, then members, present ones first.

    How many there are is normal with mean 10.6 and deviation 4.6, rounded, and within 0 and 26.
    """
    rng = np.random.default_rng(seed)
    present = np.arange(32) < np.clip(np.rint(rng.normal(10.6, 4.6, n)), 0, 26)[:, None]
    distance, lane = rng.uniform(-1, 1, present.shape), rng.integers(-2, 3, present.shape)
    members = np.stack([distance, rng.normal(0, 0.2, present.shape), lane], axis=2)
    static = np.column_stack([rng.uniform(0.4, 1.1, n), rng.integers(0, 2, (n, 2))])
    return SETS.join(members, present, static)


def synthetic(kind: str, n: int = 50_000, seed: int = 0) -> Steps:
    """A walk through such sets, or through normal rows of four, that ends once in a hundred."""
    rng, n_actions = np.random.default_rng([seed, 1]), KINDS[kind].layers[-1][1]
    rows = synthetic_sets(n + 1, seed) if kind == "sets" else rng.normal(size=(n + 1, 4))
    safe = rng.random((n, n_actions)) < 0.8
    safe[:, 0] = True
    rows = rows.astype(np.float32)
    return Steps(rows[:-1], rng.integers(n_actions, size=n), rows[1:], rng.random(n) < 0.01, safe)


def initial(kind: str, seed: int) -> Parameters:
    """Uniform weights that befit the fan-in; Q_C begins as Q."""
    rng = np.random.default_rng(seed)
    found: Parameters = {}
    for name in KINDS[kind].names:
        found[name] = found.get(name.replace("q_c", "q")) or [
            (rng.uniform(-1, 1, (i, o)) * (6 / i) ** 0.5, np.zeros(o))
            for i, o in KINDS[kind].layers
        ]
    return found


class Reference:
    """Networks, targets and Adam's moments as stacks, and the data as tensors.

    ``plain`` is the loop of a careful engineer: stacked networks, `torch.optim.Adam(fused=True)`,
    a minibatch gathered in each iteration, and as many members of each set computed as the largest
    one has, and masked. Without it, it goes further than one would in practice.
    ``foreach`` is the other form of Adam.
    """

    def __init__(
        self,
        kind: str,
        data: Steps,
        seed: int = 0,
        *,
        start: Parameters | None = None,
        dtype: str = "float32",
        plain: bool = False,
        foreach: bool = False,
    ) -> None:
        torch = self.torch = need_torch()
        torch.set_num_threads(1)
        self.kind, self.plain, self.foreach = KINDS[kind], plain, foreach
        self.dtype, self.random = getattr(torch, dtype), torch.Generator().manual_seed(seed)
        start = initial(kind, seed) if start is None else start
        self.online: list[Any] = []
        for layer in range(len(self.kind.layers)):
            w, b = (np.stack([start[name][layer][i] for name in self.kind.names]) for i in (0, 1))
            self.online += [self._tensor(w.swapaxes(1, 2)), self._tensor(b[:, :, None])]
        # Every network but the classifier is followed by its target.
        self.followed = [p[1:] for p in self.online]
        self.target = [p.clone() for p in self.followed]
        self.on_s, self.on_next = [p[:2] for p in self.target], [p[2:] for p in self.target]
        self.moments = [[torch.zeros_like(p) for p in self.online] for _ in range(2)]
        self.counts = [torch.zeros(()) for _ in self.online]
        for p in self.online:
            p.requires_grad_()
        self.adam = torch.optim.Adam(self.online, lr=RATE, fused=True) if plain else None
        self.actions = torch.as_tensor(data.actions)
        self.discounts = self._tensor(DISCOUNT * (1.0 - data.terminated))
        # Q takes its maximum over all actions, Q_C over the safe ones.
        self.allowed = torch.as_tensor(np.stack([data.safe_next | True, data.safe_next], axis=1))
        self.states = [self._resident(rows) for rows in (data.states, data.next_states)]
        self.runs = torch.arange(len(self.kind.names) * BATCH * SETS.members)
        self.scale = torch.tensor(1 / BATCH, dtype=self.dtype)
        self.last: tuple[Any, ...] = ()

    def run(self, iterations: int, indices: np.ndarray | None = None) -> dict[str, float]:
        """Iterations on minibatches (iterations, 64) that are given or drawn; the last losses."""
        torch, size = self.torch, (iterations, BATCH)
        if indices is None:
            drawn = torch.randint(len(self.actions), size, generator=self.random)
        else:
            drawn = torch.as_tensor(indices).view(size)
        for batch in self._batches(drawn):
            self._loss(*batch).backward(self.scale)
            self._descend()
            torch._foreach_lerp_(self.target, self.followed, TAU)
        log_rho, actions, values, y = (x.detach() for x in self.last)
        losses = [-log_rho.gather(1, actions[None]).mean((1, 2)), ((values - y) ** 2).mean(1)]
        return dict(zip(self.kind.names, torch.cat(losses).tolist(), strict=True))

    def parameters(self, target: bool = False) -> Parameters:
        """The networks as they are now, or their target copies."""
        stacks = [p.detach().numpy().copy() for p in (self.target if target else self.online)]
        layers = [*zip(stacks[::2], stacks[1::2], strict=True)]
        names = self.kind.names[1:] if target else self.kind.names
        return {name: [(w[k].T, b[k, :, 0]) for w, b in layers] for k, name in enumerate(names)}

    def _loss(self, s: Any, s_next: Any, actions: Any, discounts: Any, allowed: Any) -> Any:
        """The losses of all networks, summed over the batch; the targets are constants."""
        torch, functional, n = self.torch, self.torch.nn.functional, len(self.kind.names)
        n_actions = allowed.shape[1]
        rho, others = self._outputs(self.online, s).split((1, n - 1))
        log_rho = rho.log_softmax(1)
        values = others.gather(1, actions.expand(n - 1, 1, BATCH))[:, 0]
        with torch.no_grad():
            r, q_sh = self._outputs(self.on_s, s).unbind()
            q = self._outputs(self.on_next, s_next)
            twins = (n - 3) // 2
            if twins > 1:
                q = q.view(2, twins, n_actions, BATCH).amin(1)
            v = torch.where(allowed, q, -math.inf).amax(1).mul_(discounts)
            # y = eta(a) + sum over b != a of (r(b) - eta(b)) / (n - 1)
            eta = log_rho[0].clamp(min=FLOOR).sub_(q_sh)
            rest = r - eta
            y = torch.sub(eta, rest, alpha=1 / (n_actions - 1))
            own = torch.stack((y, r, log_rho[0])).gather(1, actions.expand(3, 1, BATCH))
            y, r, log_pi = own.unbind()
            y = torch.add(y, rest.sum(0), alpha=1 / (n_actions - 1))
            # Nothing is learned of the reward of an action that is hardly ever taken.
            y = torch.where(log_pi > FLOOR, y, values[:1])
            y = torch.cat((y, v[:1], (r + v).repeat_interleave(twins, 0)))
        self.last = log_rho, actions, values, y
        likelihood = functional.nll_loss(log_rho, actions, reduction="sum")
        return likelihood + functional.mse_loss(values, y, reduction="sum")

    def _outputs(self, stacks: list[Any], inputs: tuple[Any, ...]) -> Any:
        """Of each network in the stacks the values (networks, actions, batch)."""
        torch, n, (columns, *sets) = self.torch, len(stacks[0]), inputs
        layers = [*zip(stacks[::2], stacks[1::2], strict=True)]
        h = columns = columns.expand(n, -1, -1)
        if sets:
            h = sets[0].expand(n, -1, -1)
            for w, b in layers[: self.kind.encoder - 1]:
                h = torch.baddbmm(b, w, h).relu_()
            w, b = layers[self.kind.encoder - 1]
            if self.plain:
                h = torch.baddbmm(b.mT, h.mT, w.mT).relu_().view(n, BATCH, -1, w.shape[1])
                h = torch.matmul(sets[1], h)[:, :, 0].mT
            else:
                runs = self.runs[: n * h.shape[2]]
                h = summed_layer()(h, w, b, sets[1], runs, sets[2][: n * BATCH]).mT
        *hidden, (w, b) = layers
        for layer, (own, bias) in enumerate(hidden[self.kind.encoder :], self.kind.encoder):
            if layer == self.kind.join:
                h = torch.cat((h, columns), 1)
            h = torch.baddbmm(bias, own, h).relu_()
        return torch.baddbmm(b, w, h)

    def _descend(self) -> None:
        """One step of Adam."""
        torch = self.torch
        if self.adam is not None:
            self.adam.step()
            self.adam.zero_grad()
            return
        arrays = [self.online, [p.grad for p in self.online], *self.moments, []]
        settings: dict[str, Any] = {"lr": RATE, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
        settings |= {"weight_decay": 0.0, "amsgrad": False, "maximize": False}
        with torch.no_grad():
            if self.foreach:
                torch.optim._functional.adam(*arrays, self.counts, foreach=True, **settings)
            else:
                # What `torch.optim.Adam(fused=True)` comes to, without its bookkeeping.
                self.counts[0].add_(1)
                torch._fused_adam_(*arrays, self.counts[:1] * len(self.online), **settings)
        for p in self.online:
            p.grad = None

    def _batches(self, drawn: Any) -> Iterator[tuple[Any, ...]]:
        """What `_loss` takes, for each row of indices."""
        for some in drawn.split(1 if self.plain else CHUNK):
            n, at = len(some), some.reshape(-1)
            allowed = self.allowed[at].view(n, BATCH, 2, -1).permute(0, 2, 3, 1).contiguous()
            yield from zip(
                *(self._gathered(states, at, n) for states in self.states),
                self.actions[at].view(n, 1, BATCH).unbind(),
                self.discounts[at].view(n, BATCH).unbind(),
                allowed.unbind(),
                strict=True,
            )

    def _tensor(self, array: np.ndarray) -> Any:
        """A copy in the precision of the loop."""
        return self.torch.tensor(np.ascontiguousarray(array), dtype=self.dtype)

    def _resident(self, rows: np.ndarray) -> tuple[Any, ...]:
        """States as they wait: sets as padded members and a mask, or as a long list of columns."""
        if not self.kind.encoder:
            return (self._tensor(rows),)
        members, present, static = SETS.split(rows)
        counts = present.sum(1)
        if self.plain:
            largest = (members[:, : counts.max()], present[:, : counts.max()])
            return self._tensor(static), *map(self._tensor, largest)
        places = [self.torch.as_tensor(x) for x in (counts.cumsum() - counts, counts)]
        return self._tensor(static), self._tensor(members[present].T), *places

    def _gathered(self, states: tuple[Any, ...], at: Any, n: int) -> list[tuple[Any, ...]]:
        """The inputs of n batches: static columns, columns of members, and which set is whose."""
        torch, (rows, *sets) = self.torch, states
        columns = rows.index_select(0, at).view(n, BATCH, -1).mT.contiguous().unbind()
        if not sets:
            return [(x,) for x in columns]
        if self.plain:
            members = sets[0][at].view(n, -1, SETS.features).mT.contiguous().unbind()
            return [*zip(columns, members, sets[1][at].view(n, BATCH, 1, -1), strict=True)]
        begins, counts = sets[1][at], sets[2][at]
        ends = counts.cumsum(0)
        shift = (begins - ends + counts).repeat_interleave(counts)
        members = sets[0].index_select(1, shift + torch.arange(len(shift)))
        owners = torch.arange(BATCH).repeat(n).repeat_interleave(counts)
        # The members of each further network lie behind those of the one before.
        sizes = counts.view(n, 1, BATCH).sum(2, keepdim=True)
        first = (ends - counts).view(n, 1, BATCH)
        networks = torch.arange(len(self.kind.names)).view(-1, 1)
        starts = (first - first[:, :, :1] + sizes * networks).view(n, -1).unbind()
        parts = sizes.view(-1).tolist()
        return [*zip(columns, members.split(parts, 1), owners.split(parts), starts, strict=True)]


@cache
def summed_layer() -> Any:
    """The encoder's last layer, its ReLU and the sum over each set, with their own backward.

    Nearly half of the arithmetic is here. Autograd would multiply in the slower order of axes, and
    write and read the gradients of all members once more.
    """
    torch = need_torch()

    class SummedLayer(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any, w: Any, b: Any, owners: Any, runs: Any, starts: Any) -> Any:
            h = torch.baddbmm(b.mT, x.mT, w.mT).relu_()
            ctx.save_for_backward(x, w, h, owners)
            # Bags of consecutive rows are the fastest sums over segments that there are.
            bags = torch.nn.functional.embedding_bag(runs, h.flatten(0, 1), starts, mode="sum")
            return bags.view(len(w), BATCH, -1)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, w, h, owners = ctx.saved_tensors
            g = g.index_select(1, owners)
            torch.ops.aten.threshold_backward.grad_input(g, h, 0, grad_input=g)
            to_w, to_b = torch.bmm(x, g).mT, g.sum(1, keepdim=True).mT
            return torch.bmm(w.mT, g.mT), to_w, to_b, None, None, None

    return SummedLayer.apply


def need_torch() -> Any:
    """PyTorch, or the message that says how to install it."""
    try:
        import torch
    except ImportError:
        raise SystemExit(
            "This benchmark needs PyTorch. Install it with `pip install torch==2.13.0`."
        ) from None
    return torch


def run() -> list[Row]:
    """Iterations per second of DCIQL in eager PyTorch by wall time, the best of short runs."""
    settings: dict[str, tuple[str, int, dict[str, Any]]] = {
        "MLP": ("mlp", 32, {}),
        "MLP, foreach": ("mlp", 32, {"foreach": True}),
        "sets": ("sets", 8, {}),
        "sets, foreach": ("sets", 8, {"foreach": True}),
        "MLP, plain": ("mlp", 32, {"plain": True}),
        "sets, plain": ("sets", 8, {"plain": True}),
    }
    data = {kind: synthetic(kind) for kind in KINDS}
    loops = {name: Reference(kind, data[kind], **own) for name, (kind, _, own) in settings.items()}
    turns = {name: partial(loops[name].run, settings[name][1]) for name in loops}
    best(3, turns)
    times = best(60, turns, time.perf_counter)
    return [Row(name, settings[name][1] / least, "it/s") for name, least in times.items()]


if __name__ == "__main__":
    for row in run():
        print(f"{row.what:<28}{row.figure:8.0f} {row.unit}")
