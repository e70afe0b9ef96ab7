"""The loop of all deep algorithms, once: minibatches, targets that follow, chunks, checkpoints.

An algorithm is a `Rule`: the names of its networks, and their losses on a minibatch. The networks
are of one architecture, so that they lie stacked in one tree of arrays and are computed side by
side. Iterations run in compiled chunks; what happens in iteration ``i`` depends on the seed and on
``i``, never on where a chunk ends. So a run that was interrupted and resumed is bit for bit the run
that was not, and the length of a chunk can follow the clock.

Between chunks: the progress bar, a line of metrics, a checkpoint, further data, and a look at the
losses, so that a divergence is reported where it began.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from inverseq import planning
from inverseq._checks import as_array, as_number, as_whole, check_choice, check_kind, check_range
from inverseq._processes import side_by_side
from inverseq._progress import Bar
from inverseq._random import generator
from inverseq.demonstrations import Demonstrations, check_possible, named
from inverseq.errors import Diverged, InvalidInput, MissingExtra, NotConverged
from inverseq.io import storage
from inverseq.nets import MLP, DeepSets, Network, Params, need_jax
from inverseq.shapes import Array
from inverseq.solution import Info, Networks, Solution, Tables, assumptions, plain
from inverseq.task import Task

CHUNK_SECONDS = 0.5
"""How long a chunk takes: an interrupt waits for its end."""
CHECKPOINT_SECONDS = 30.0
"""How much work an interruption may cost."""
BLOCK = 64
"""For how many iterations minibatches are drawn at once."""
BETAS = (0.9, 0.999)
"""How much of what they were Adam's two means keep in an iteration."""
EXPLODED = 1e12
"""A squared error beyond this will not come back."""
AUDITED = 4096
"""How many steps are looked at to see how well the equations hold in the end."""

Batch: TypeAlias = Mapping[str, Any]
"""Columns of a minibatch: states, actions, next_states, terminated, weights, available,
available_next, safe_next, and what an algorithm adds."""
Apply: TypeAlias = Callable[[Params, Array], Array]
"""From stacked parameters and states to outputs (networks, batch, actions)."""
Collect: TypeAlias = Callable[[Solution], Demonstrations | None]
"""What is asked for further demonstrations, given the solution so far; None ends the asking."""


class Rule(Protocol):
    """An algorithm, to the loop. Rules that are equal are compiled once."""

    def __hash__(self) -> int: ...

    @property
    def names(self) -> tuple[str, ...]:
        """Its networks, in the order of the stack."""
        ...

    @property
    def followed(self) -> int:
        """From which one on they have target copies."""
        ...

    def judge(self, apply: Apply, params: Params, target: Params, batch: Batch) -> Verdict:
        """What is to be said of each network on a minibatch; the sum of the losses is minimised."""
        ...


class Verdict(NamedTuple):
    """What is to be said of networks on a minibatch, one number for each."""

    loss: Array
    drift: Array
    """How much larger targets are than outputs in the mean; 0 for a classifier."""
    size: Array
    """The root mean square of the outputs."""


def regression(outputs: Array, targets: Array, weights: Any = 1.0) -> Verdict:
    """Mean squared errors of networks: outputs and targets are (networks, batch).

    >>> regression(np.array([[1.0, 3.0]]), np.array([[2.0, 3.0]])).drift
    array([0.5])
    """
    error = targets - outputs
    size = (outputs * outputs).mean(-1) ** 0.5
    return Verdict((weights * error * error).mean(-1), (weights * error).mean(-1), size)


def classification(log_pi: Array, actions: Array, weights: Any = 1.0) -> Verdict:
    """The cross-entropy of one classifier: log-probabilities (batch, actions), and what was done.

    The sum of the softmax runs over all available actions: departure 11.
    """
    loss = -(weights * chosen(log_pi, actions)).mean(-1, keepdims=True)
    return Verdict(loss, 0 * loss, 0 * loss)


def chosen(values: Array, actions: Array) -> Array:
    """The entries (..., batch) of what was done in values (..., batch, actions)."""
    space = values.__array_namespace__()
    return space.where(actions[:, None] == space.arange(values.shape[-1]), values, 0.0).sum(-1)


def fixed(x: Array) -> Array:
    """The same, as something that is not to be learned from."""
    return x if isinstance(x, np.ndarray) else need_jax().lax.stop_gradient(x)


def part(params: Params, which: slice) -> Params:
    """Some of the networks of a stack."""
    return need_jax().tree.map(lambda x: x[which], params)


TWIN = "_twin"


def twins(names: Sequence[str], double: bool) -> tuple[str, ...]:
    """The networks of action values: two of each for clipped double Q.

    >>> twins(["q", "q_c"], double=True)
    ('q', 'q_twin', 'q_c', 'q_c_twin')
    """
    return tuple(name + end for name in names for end in (("", TWIN) if double else ("",)))


def smallest(values: Any, names: Sequence[str]) -> dict[str, Array]:
    """Clipped double Q: of the two networks of a kind, the smaller value; by kind."""
    found: dict[str, Array] = {}
    for name, value in zip(names, values, strict=True):
        kind = name.removesuffix(TWIN)
        space = value.__array_namespace__()
        found[kind] = space.minimum(found[kind], value) if kind in found else value
    return found


def aimed(names: Sequence[str], aims: Mapping[str, Array]) -> Array:
    """The targets of networks (networks, batch); twins share one. Nothing is learned from them."""
    each = [aims[name.removesuffix(TWIN)] for name in names]
    return fixed(each[0].__array_namespace__().stack(each))


def together(*verdicts: Verdict) -> Verdict:
    """Verdicts of further networks behind those of the first."""
    space = verdicts[0].loss.__array_namespace__()
    return Verdict(*(space.concatenate(parts) for parts in zip(*verdicts, strict=True)))


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The settings that all deep algorithms share."""

    iterations: int = 20_000
    """How many minibatches."""
    batch_size: int = 64
    """How many steps are in one; they are drawn with replacement."""
    learning_rate: float = 1e-3
    """Of Adam."""
    network: Network = field(default_factory=MLP)
    """The architecture of every network: an `MLP`, `DeepSets`, or anything with their methods."""
    features: np.ndarray | None = None
    """For states of a table, what the networks see of each, (S, K); None is a one for the state
    itself and zeros for the others."""
    standardise: bool = True
    """Give rows of numbers mean 0 and deviation 1 over the demonstrations (not where the network is
    one of sets)."""
    precision: Literal["float32", "float64"] = "float32"
    """Of all arrays."""
    tolerance: float = 0.05
    """The answer counts as converged where targets and values agree in the mean to this, as a share
    of the size of the values."""
    collect_every: int = 1_000
    """How many iterations lie between two demands for further data, where data is collected."""

    def __post_init__(self) -> None:
        name = type(self).__name__
        for whole in ("iterations", "batch_size", "collect_every"):
            if as_whole(getattr(self, whole)) < 1:
                raise InvalidInput(
                    f"`{name}.{whole}` must be an integer of at least 1; got "
                    f"{getattr(self, whole)!r}."
                )
        if not 0 < as_number(self.learning_rate) < np.inf:
            raise InvalidInput(
                f"`{name}.learning_rate` must be positive and finite; got {self.learning_rate!r}."
            )
        if not as_number(self.tolerance) >= 0:
            raise InvalidInput(
                f"`{name}.tolerance` must be a number from 0; got {self.tolerance!r}."
            )
        if not isinstance(self.network, Network):
            raise InvalidInput(
                f"`{name}.network` must have the methods `init` and `apply`; got {self.network!r}."
            )
        check_kind(self.standardise, bool, f"{name}.standardise")
        check_choice(self.precision, ("float32", "float64"), f"{name}.precision")

    def __eq__(self, other: object) -> bool:
        # Arrays compare entry by entry, settings as a whole.
        return type(other) is type(self) and plain(self) == plain(other)

    def __hash__(self) -> int:
        return hash(json.dumps(plain(self), sort_keys=True))


def check_following(settings: Any) -> None:
    """Raise unless targets follow and are of a kind that there is."""
    name = type(settings).__name__
    if not 0 < as_number(settings.tau) <= 1:
        raise InvalidInput(f"`{name}.tau` must lie in (0, 1]; got {settings.tau!r}.")
    check_kind(settings.double, bool, f"{name}.double")


class Watch(NamedTuple):
    """What goes on beside the training."""

    progress: bool | None = None
    checkpoint: str | PathLike[str] | None = None
    log: str | PathLike[str] | None = None
    tensorboard: str | PathLike[str] | None = None
    collect: Collect | None = None


# -- the data and the answer -------------------------------------------------------------------


class Problem:
    """Demonstrations and a task as the loop needs them, and networks as a solution of them."""

    def __init__(self, demonstrations: Demonstrations, task: Task, settings: Trained) -> None:
        check_kind(demonstrations, Demonstrations, "demonstrations")
        check_kind(task, Task, "task")
        task = named(task, demonstrations)
        self.settings, self.seen = settings, demonstrations
        self.tabular, self.dtype = demonstrations.tabular, np.dtype(settings.precision)
        self.task = task
        self.visits: np.ndarray | None = None
        self.safe: np.ndarray | None = None
        self.inputs: np.ndarray | None = None
        if self.tabular:
            self._read_table()
        else:
            if task.n_states is not None:
                raise InvalidInput(
                    f"`Demonstrations.states` must be those of the task; the task has "
                    f"{task.n_states} states, and these are rows of shape "
                    f"{demonstrations.states.shape[1:]}."
                )
            rows = demonstrations.states.reshape(len(demonstrations), -1)
            self.n_inputs = rows.shape[1]
            self.scaling = np.stack([np.zeros(self.n_inputs), np.ones(self.n_inputs)])
            if settings.standardise and not isinstance(settings.network, DeepSets):
                spread = rows.std(axis=0, dtype=float)
                self.scaling[0] = rows.mean(axis=0, dtype=float)
                # What never changes is kept as it is, lest its rounding be blown up.
                self.scaling[1] = np.where(spread > 1e-6, spread, 1.0)
            self.scaling = self.scaling.astype(self.dtype)

    def _read_table(self) -> None:
        seen, task = self.seen, self.task
        self.visits = seen.counts(task.n_states, task.n_actions).visits
        # What is viable is read from the model, so that one is counted where there is none.
        known = task if task.transitions is not None else task.counted(seen)
        check_possible(seen, known.available_table())
        self.task = known
        if task.constraints:
            self.safe = planning.viable(known, self.visits.sum(axis=1) > 0)
        features = self.settings.features
        n = len(self.visits)
        inputs = np.eye(n) if features is None else as_array(features, "features").astype(float)
        if inputs.ndim != 2 or len(inputs) != n or not np.isfinite(inputs).all():
            raise InvalidInput(
                f"`{type(self.settings).__name__}.features` must be finite numbers of shape "
                f"(states, K), with {n} states; they have shape {inputs.shape}."
            )
        if features is not None and self.settings.standardise:
            spread = inputs.std(axis=0)
            inputs = (inputs - inputs.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        self.inputs, self.n_inputs = inputs.astype(self.dtype), inputs.shape[1]

    @property
    def constrained(self) -> bool:
        """Whether there is something to obey."""
        return bool(self.task.constraints)

    def binds(self, growing: bool) -> bool:
        """Whether constrained values differ from free ones.

        Where no demonstration led to a state with a forbidden action they begin equal and have
        equal targets for ever, so that nothing is to be computed. Of data to come nobody knows.
        """
        if not self.constrained or growing:
            return self.constrained
        follows = self.follows(self.seen)
        safe = self.task.safe(follows) if self.safe is None else self.safe[follows]
        return bool((self.task.can(follows) & ~safe)[~self.seen.terminated].any())

    def columns(self, seen: Demonstrations) -> dict[str, np.ndarray]:
        """What the loop reads of demonstrations: masks are worked out here, once for each step."""
        task = self.task
        check_range(seen.actions, task.n_actions, "Demonstrations.actions", "Task.n_actions")
        real = {"actions": seen.actions.astype(np.int32)}
        if seen.terminated.any() or not self.tabular:
            real["terminated"] = seen.terminated.astype(self.dtype)
        if seen.weights is not None:
            real["weights"] = (seen.weights / seen.weights.mean()).astype(self.dtype)
        if seen.rewards is not None:
            real["rewards"] = seen.rewards.astype(self.dtype)
        follows = self.follows(seen)
        if task.available is not None:
            real["available"], real["available_next"] = task.can(seen.states), task.can(follows)
            impossible = np.flatnonzero(~real["available"][np.arange(len(seen)), seen.actions])
            if impossible.size:
                row = int(impossible[0])
                raise InvalidInput(
                    f"`Demonstrations.actions` must be available where they were taken; row {row} "
                    f"has action {seen.actions[row]}, which `Task.available` rules out there."
                )
        if self.constrained:
            real["safe_next"] = task.safe(follows) if self.safe is None else self.safe[follows]
        for name, states in ("states", seen.states), ("next_states", follows):
            real[name] = states.astype(np.int32) if self.tabular else self._scaled(states)
        return real

    def follows(self, seen: Demonstrations) -> np.ndarray:
        """The next states; what is written after an end need not be one."""
        ended = seen.terminated.reshape(-1, *[1] * (seen.states.ndim - 1))
        return np.where(ended, seen.states, seen.next_states)

    @cached_property
    def stranded(self) -> int:
        """After how many steps every action is forbidden."""
        goes_on = ~self.seen.terminated
        some = self.constrained and not self.tabular and goes_on.any()
        return int(self.task.stranded(self.seen.next_states[goes_on]).sum()) if some else 0

    def _scaled(self, states: np.ndarray) -> np.ndarray:
        shift, scale = self.scaling
        scaled = (states.reshape(len(states), -1) - shift) / scale
        return np.asarray(scaled, self.dtype)

    def evaluate(self, params: Params) -> np.ndarray:
        """What one network says of every state of the table, (S, A)."""
        assert self.inputs is not None
        return np.asarray(self.settings.network.apply(params, self.inputs)).astype(float)

    def solution(self, params: Mapping[str, Params], info: Info) -> Solution:
        """A solution from networks by name: "q" (or "policy"), "reward", "q_constrained"."""
        task = self.task
        if not self.tabular:
            info = replace(info, task=assumptions(task), stranded=self.stranded)
            found = Networks(
                self.settings.network, dict(params), self.scaling, task.n_actions,
                task.temperature, task.discount, self.constrained, task.available is not None, task,
            )  # fmt: skip
            return Solution(found, task.temperature, info, task.labels)
        assert self.visits is not None
        said = {name: self.evaluate(part) for name, part in params.items()}
        return tabulated(said, task, self.visits, self.safe, info)


def tabulated(
    said: Mapping[str, np.ndarray], task: Task, visits: np.ndarray, safe: Any, info: Info
) -> Solution:
    """A solution over a table, from what networks say of every state."""
    available = task.available_table()
    q, reward = said["q"].copy(), np.where(available, said["reward"], 0.0)
    q_c = said.get("q_constrained", q).copy() if safe is not None else None
    if task.terminal is not None:
        reward[task.terminal] = 0.0
        nothing = planning.worth_nothing(np.zeros_like(q), available, task.temperature)
        for table in (q, q_c):
            if table is not None:
                table[task.terminal] = nothing[task.terminal]
    if q_c is not None:
        # A pair that may lead to a state without a safe action has no value under constraints.
        lost = task.continuing.expect((~safe.any(axis=1)).astype(float)) > 0
        q_c = np.where(available & ~lost, q_c, -np.inf)
    tables = Tables(reward, np.where(available, q, -np.inf), available, safe, q_c, visits)
    unvisited = int((visits.sum(axis=1) == 0).sum())
    info = replace(info, task=assumptions(task), unvisited_states=unvisited)
    return Solution(tables, task.temperature, info, task.labels)


# -- the compiled part -------------------------------------------------------------------------


class State(NamedTuple):
    """What the next iteration needs."""

    params: Params
    """All networks, stacked."""
    target: Params
    """The copies that follow slowly, of those that have one."""
    optimiser: Any
    """`Moments`; nothing where the slope itself is followed."""


class Moments(NamedTuple):
    """What Adam remembers of the slopes."""

    count: Array
    """How many there were."""
    mean: Params
    square: Params
    """The mean of their squares."""


def adam(moments: Moments, slope: Params) -> tuple[Params, Moments]:
    """The direction of Adam (Kingma and Ba 2015), and what it remembers then.

    Equal to that of optax up to rounding. That one divides every entry by each of its two
    corrections, which costs as much as everything else in it; here they are two numbers.
    """
    jax = need_jax()
    count = moments.count + 1

    def follow(mean: Params, of: Callable[[Array], Array], beta: float) -> Params:
        return jax.tree.map(lambda m, g: m + (1 - beta) * (of(g) - m), mean, slope)

    def share(beta: float) -> Array:
        """How much of a mean that began at 0 is known: 1 - beta ** count."""
        return -jax.numpy.expm1(count * float(np.log(beta)))

    mean = follow(moments.mean, lambda g: g, BETAS[0])
    square = follow(moments.square, lambda g: g * g, BETAS[1])
    first, second = 1 / share(BETAS[0]), 1 / share(BETAS[1])
    direction = jax.tree.map(
        lambda m, v: first * m / (jax.numpy.sqrt(second * v) + 1e-8), mean, square
    )
    return direction, Moments(count, mean, square)


class Report(NamedTuple):
    """What a chunk says of itself."""

    losses: Array
    """Mean loss of each network."""
    bad: Array
    """The first iteration with a loss that is not finite or exploded; -1 without one."""
    worst: Array
    """The losses of that iteration, else of the last one."""


class Program(NamedTuple):
    """A rule, compiled."""

    begin: Callable[..., State]
    """The first state, from a key and the number of inputs."""
    run: Callable[..., tuple[State, Report]]
    """Iterations from one number to another: (state, data, inputs, key, rates, n, start, stop)."""


@lru_cache(maxsize=32)
def program(
    rule: Rule,
    network: Network,
    optimiser: Literal["adam", "sgd"] = "adam",
    tau: float = 1.0,
    batch_size: int = 64,
    n_actions: int = 2,
) -> Program:
    """The compiled loop of a rule; the same settings are compiled once in a process.

    ``network`` may be a packed one of sets. A minibatch that does not fit is computed by the whole.
    """
    jax = need_jax()
    space = jax.numpy
    whole = replace(network, room=None) if isinstance(network, DeepSets) else network
    packs = isinstance(network, DeepSets) and network.room is not None

    def begin(key: Array, n_inputs: int) -> State:
        # A constrained network begins where the free one does, so that nothing forbidden is the
        # same run.
        own = {name: i for i, name in enumerate(rule.names)}
        first = [own.get(twin_of(name), own[name]) for name in rule.names]
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(space.array(first))
        params = jax.vmap(lambda k: whole.init(k, n_inputs, n_actions))(keys)
        none = jax.tree.map(space.zeros_like, params)
        kept = Moments(space.zeros(()), none, none) if optimiser == "adam" else ()
        return State(params, followed(params), kept)

    def followed(params: Params) -> Params:
        return jax.tree.map(lambda x: x[rule.followed :], params)

    def gradient(
        net: Network, params: Params, target: Params, batch: Batch
    ) -> tuple[Params, Array]:
        def apply(stack: Params, states: Array) -> Array:
            return jax.vmap(net.apply, (0, None))(stack, states)

        def total(params: Params) -> tuple[Array, Array]:
            losses = rule.judge(apply, params, target, batch).loss
            return losses.sum(), losses

        slope, losses = jax.grad(total, has_aux=True)(params)
        return slope, losses

    def descend(params: Params, target: Params, batch: Batch) -> tuple[Params, Array]:
        if not packs:
            return gradient(whole, params, target, batch)
        fits = network.fits(batch["states"])  # type: ignore[attr-defined]
        if "next_states" in batch:
            fits = fits & network.fits(batch["next_states"])  # type: ignore[attr-defined]

        def by(net: Network) -> Callable[..., tuple[Params, Array]]:
            return lambda *given: gradient(net, *given)

        chosen: tuple[Params, Array] = jax.lax.cond(
            fits, by(network), by(whole), params, target, batch
        )
        return chosen

    def step(state: State, batch: Batch, rates: Array) -> tuple[State, Array]:
        slope, losses = descend(state.params, state.target, batch)
        kept = state.optimiser
        if optimiser == "adam":
            slope, kept = adam(kept, slope)

        def moved(p: Array, by: Array) -> Array:
            return p - rates.reshape(-1, *[1] * (p.ndim - 1)) * by

        params = jax.tree.map(moved, state.params, slope)
        target = jax.tree.map(lambda t, p: t + tau * (p - t), state.target, followed(params))
        if tau == 1:
            target = followed(params)
        return State(params, target, kept), losses

    def run(
        state: State, data: Batch, inputs: Any, key: Array, rates: Array, n: Array, *span: Array
    ) -> tuple[State, Report]:
        start, stop = span

        def draw(i: Array) -> Array:
            return jax.random.randint(
                jax.random.fold_in(key, i), (batch_size,), 0, n, dtype=space.int32
            )

        def block(number: Array, here: tuple[State, Report]) -> tuple[State, Report]:
            # Random numbers for many iterations take hardly longer than those for one.
            begins = start + number * BLOCK
            drawn = jax.vmap(draw)(begins + space.arange(BLOCK, dtype=space.int32))

            def body(i: Array, here: tuple[State, Report]) -> tuple[State, Report]:
                state, report = here
                batch = minibatch(data, inputs, drawn[i - begins], n_actions)
                state, losses = step(state, batch, rates)
                wrong = ~(losses < EXPLODED).all()
                first = wrong & (report.bad < 0)
                worst = space.where(first | (report.bad < 0), losses, report.worst)
                bad = space.where(first, i, report.bad)
                return state, Report(report.losses + losses, bad, worst)

            ends = space.minimum(begins + BLOCK, stop)
            done: tuple[State, Report] = jax.lax.fori_loop(begins, ends, body, here)
            return done

        zeros = space.zeros(len(rule.names), rates.dtype)
        state, report = jax.lax.fori_loop(
            0, -((start - stop) // BLOCK), block, (state, Report(zeros, space.int32(-1), zeros))
        )
        return state, report._replace(losses=report.losses / (stop - start))

    return Program(begin, jax.jit(run))


def minibatch(data: Batch, inputs: Any, at: Array, n_actions: int) -> Batch:
    """Some rows of the columns, states as what networks see of them."""
    everything = np.ones((len(at), n_actions), bool)
    batch = {"terminated": 0, "weights": 1.0, **dict.fromkeys(MASKS, everything)}
    batch |= {name: column[at] for name, column in data.items()}
    if inputs is not None:
        batch |= {name: inputs[batch[name]] for name in STATES}
    return batch


STATES = ("states", "next_states")
MASKS = ("available", "available_next", "safe_next")
"""What everything is, unless a column says otherwise."""


def audit(rule: Rule, problem: Problem, params: Params, memory: Memory) -> float:
    """How far targets and values disagree in the mean, as a share of the size of the values.

    The networks are their own targets here, so that slow copies cannot hide how far it still is.
    It is computed with NumPy.
    """
    some = generator(0).integers(memory.n, size=min(AUDITED, memory.n))
    params = need_jax().tree.map(np.asarray, params)
    batch = minibatch(memory.columns, problem.inputs, some, problem.task.n_actions)
    network = problem.settings.network

    def apply(stack: Params, states: Array) -> Array:
        n = len(need_jax().tree.leaves(stack)[0])
        return np.stack([network.apply(index(stack, i), states) for i in range(n)])

    target = part(params, slice(rule.followed, None))
    said = rule.judge(apply, params, target, batch)
    return float(np.max(np.abs(said.drift) / np.maximum(said.size, 1.0)))


def twin_of(name: str) -> str:
    """The free network that a constrained one begins as: "q" for "q_c"."""
    return name.replace("q_c", "q")


def index(params: Params, i: int) -> Params:
    """One network of a stack, as NumPy knows it."""
    return need_jax().tree.map(lambda x: np.asarray(x[i]), params)


# -- the loop ----------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """What training came to."""

    params: dict[str, Params]
    """Networks by name."""
    info: Info


def train(
    rule: Rule,
    problem: Problem,
    columns: Callable[[Demonstrations], dict[str, np.ndarray]],
    tau: float,
    seed: int,
    watch: Watch,
    solution: Callable[[Problem, dict[str, Params], Info], Solution],
) -> Outcome:
    """Run a rule over the steps of a problem until the iterations of its settings are done.

    Args:
        rule: The algorithm.
        problem: Demonstrations, task and settings.
        columns: From demonstrations to the columns that the rule reads.
        tau: By which share targets follow in an iteration.
        seed: For the first parameters and the minibatches.
        watch: What goes on beside it.
        solution: From networks by name to a solution, for who collects data.
    """
    jax, settings = need_jax(), problem.settings
    name = type(settings).__name__
    generator(seed)  # checked as everywhere
    data = columns(problem.seen)
    with precise(settings.precision):
        network = settings.network
        if isinstance(network, DeepSets):
            network = network.packed(data["states"], settings.batch_size)
        n_actions = problem.task.n_actions
        compiled = program(rule, network, "adam", tau, settings.batch_size, n_actions)
        key, first = jax.random.split(jax.random.key(seed))
        state = compiled.begin(first, problem.n_inputs)
        rates = jax.numpy.full(len(rule.names), settings.learning_rate, settings.precision)
        inputs = None if problem.inputs is None else jax.numpy.asarray(problem.inputs)
        memory = Memory(data, growing=watch.collect is not None)
        kept = Checkpoints.of(watch.checkpoint, about(rule, settings, seed, data))
        here = (kept.restore(state, memory) if kept else None) or (state, 0)
        log = Log(watch, here[1])
        collect = watch.collect
        pace, saved, interrupted = 1.0, time.monotonic(), False
        try:
            with Bar(name, settings.iterations, watch.progress, done=here[1]) as bar:
                while here[1] < settings.iterations:
                    state, start = here
                    stop = min(start + max(int(pace), 1), settings.iterations)
                    if collect is not None:
                        if start and start % settings.collect_every == 0:
                            so_far = by_name(rule, state.params)
                            info = Info(name, iterations=start, seed=seed)
                            more = collect(solution(problem, so_far, info))
                            if more is None:
                                collect = None
                            else:
                                memory.append(columns(more))
                        stop = min(
                            stop, start + settings.collect_every - start % settings.collect_every
                        )
                    began = time.monotonic()
                    after, report = compiled.run(
                        state, memory.device(), inputs, key, rates, np.int32(memory.n),
                        np.int32(start), np.int32(stop),
                    )  # fmt: skip
                    jax.block_until_ready(after)
                    if int(report.bad) >= 0:
                        raise diverged(name, rule, report, start, kept)
                    here = (after, stop)
                    took = time.monotonic() - began
                    # Compiling is part of the first chunk: it says nothing of the pace.
                    faster = (stop - start) * CHUNK_SECONDS / max(took, 1e-9)
                    pace = min(10 * pace, max(faster, 1.0))
                    losses = dict(zip(rule.names, map(float, report.losses), strict=True))
                    log.write(stop, took / (stop - start), losses)
                    bar.advance(stop - start, noted(losses, (stop - start) / took))
                    if kept and time.monotonic() - saved > CHECKPOINT_SECONDS:
                        kept.save(*here, memory)
                        saved = time.monotonic()
        except KeyboardInterrupt:
            interrupted = True
        finally:
            log.close()
        state, done = here
        if kept:
            kept.save(state, done, memory)
        residual = audit(rule, problem, state.params, memory)
        params = by_name(rule, state.params)
    converged = residual <= settings.tolerance and not interrupted and np.isfinite(residual)
    if not converged:
        why = "was interrupted" if interrupted else "stopped"
        warnings.warn(
            f"`{name}` {why} after {done:,} iterations while targets and values still disagreed "
            f"by {residual:.2g} of their size; raise `iterations`, or let values move faster with "
            f"`tau` or `learning_rate`.",
            NotConverged,
            stacklevel=3,
        )
    info = Info(
        name, settings=plain(settings), solver="Adam", converged=bool(converged), iterations=done,
        residual=residual, seed=seed,
    )  # fmt: skip
    return Outcome(params, info)


def by_name(rule: Rule, params: Params) -> dict[str, Params]:
    """The networks of a stack, as NumPy knows them."""
    return {name: index(params, i) for i, name in enumerate(rule.names)}


def precise(precision: str) -> AbstractContextManager[Any]:
    """Where arrays may have 64 bits, if that is asked for."""
    return need_jax().enable_x64(True) if precision == "float64" else nullcontext()


def noted(losses: Mapping[str, float], pace: float) -> str:
    """What stands behind the bar."""
    return f"{pace:,.0f}/s  " + "  ".join(f"{name} {loss:.2g}" for name, loss in losses.items())


def diverged(
    name: str, rule: Rule, report: Report, start: int, kept: Checkpoints | None
) -> Diverged:
    """The error that says where it began and what is left."""
    worst = dict(zip(rule.names, map(float, report.worst), strict=True))
    first = next(n for n, loss in worst.items() if not loss < EXPLODED)
    last = kept.newest() if kept else None
    where = f"the last good checkpoint is {last}" if last else "no checkpoint was kept"
    return Diverged(
        f"`{name}` diverged: the loss of {first!r} is {worst[first]:.3g} in iteration "
        f"{int(report.bad):,}; until {start:,} all was well, and {where}. Use a smaller "
        f"`learning_rate` or `tau`, a smaller discount, or scale the rewards."
    )


def fit_seeds(
    algorithm: Any,
    demonstrations: Demonstrations,
    task: Task,
    seeds: Sequence[int],
    *,
    workers: int | None = None,
    progress: bool | None = None,
) -> list[Solution]:
    """One solution for each seed, in processes side by side.

    On a machine of few cores that is the fastest: a run keeps about one core busy, and several runs
    in one program are no faster than one after another (``docs/benchmarks.md``).

    >>> import inverseq as iq
    >>> world = iq.worlds.gridworld(3)
    >>> seen = world.demonstrations(100, 8, seed=0)
    >>> found = fit_seeds(iq.IQL(tolerance=0.1), seen, world.task, [1, 2], workers=0)
    >>> [solution.info.seed for solution in found]
    [1, 2]

    Args:
        algorithm: What has a method ``fit`` with a seed.
        demonstrations: What was seen.
        task: What is assumed. What it holds of functions must be functions of a module, so that
            other processes find them.
        seeds: One for each run.
        workers: How many processes; 0 runs one after another in this one, None takes one for each
            core.
        progress: As everywhere: None shows a bar on a terminal.
    """
    workers = min(os.cpu_count() or 1, len(seeds)) if workers is None else workers
    with Bar(f"{type(algorithm).__name__} for {len(seeds)} seeds", len(seeds), progress) as bar:
        if workers == 0:
            found = []
            for seed in seeds:
                found.append(one_of_seeds(algorithm, demonstrations, task, seed))
                bar.advance()
            return found
        try:
            pickle.dumps(task)
        except Exception as error:  # whatever a function of the user's raises
            raise InvalidInput(
                f"`task` must hold functions of a module to be sent to other processes ({error}). "
                f"Define them at the top of a file, or use `workers=0`."
            ) from error
        jobs = [(algorithm, demonstrations, task, seed) for seed in seeds]
        finished = {}
        for number, solution in side_by_side(one_of_seeds, jobs, workers):
            finished[number] = solution
            bar.advance()
    return [finished[number] for number in range(len(seeds))]


def one_of_seeds(algorithm: Any, seen: Demonstrations, task: Task, seed: int) -> Solution:
    """A run, where its process finds it."""
    found: Solution = algorithm.fit(seen, task, seed=seed, progress=False)
    return found


class Memory:
    """The columns of all steps so far, on the device; what grows keeps room for more.

    >>> memory = Memory({"actions": np.arange(3)}, growing=True)
    >>> memory.append({"actions": np.arange(2)})
    >>> memory.n, len(memory.columns["actions"])
    (5, 8)
    """

    def __init__(self, columns: Mapping[str, np.ndarray], growing: bool = False) -> None:
        self.n = len(columns["actions"])
        self.first = self.n
        self.columns = dict(columns)
        self.growing = growing
        self._device: dict[str, Array] | None = None

    def append(self, more: Mapping[str, np.ndarray]) -> None:
        """Further steps behind the others."""
        if set(more) != set(self.columns):
            odd = sorted(set(more) ^ set(self.columns))[0]
            raise InvalidInput(
                f"`collect` must return demonstrations like the first ones; only one of them has "
                f"{odd!r}."
            )
        n = self.n + len(more["actions"])
        for name, column in self.columns.items():
            if n > len(column):
                # Twice the room, so that programs are compiled for few sizes.
                room = 2 ** int(np.ceil(np.log2(n)))
                grown = np.zeros((room, *column.shape[1:]), column.dtype)
                grown[: self.n] = column[: self.n]
                column = self.columns[name] = grown
            column[self.n : n] = more[name]
        self.n, self._device = n, None

    def collected(self) -> dict[str, np.ndarray]:
        """What was appended."""
        return {name: column[self.first : self.n] for name, column in self.columns.items()}

    def device(self) -> dict[str, Array]:
        """The columns where they are computed with."""
        if self._device is None:
            jax = need_jax()
            self._device = {name: jax.numpy.asarray(c) for name, c in self.columns.items()}
        return self._device


# -- what is kept ------------------------------------------------------------------------------


def about(
    rule: Rule, settings: Trained, seed: int, data: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """What a run depends on, but for how long it goes on."""
    sums = {}
    for name, column in data.items():
        bits = np.ascontiguousarray(column).tobytes()
        sums[name] = f"{column.shape} {hashlib.sha256(bits).hexdigest()[:16]}"
    chosen = {k: v for k, v in plain(settings).items() if k not in ("iterations", "tolerance")}
    return {"settings": chosen, "rule": plain(rule), "seed": seed, "data": sums}


class Checkpoints:
    """States of a run in a folder: each in a folder of its own, whole or not there.

    The newest is written beside the older one, which is removed after it: a crash at any moment
    leaves one to go on from.
    """

    def __init__(self, folder: str | PathLike[str], about: Mapping[str, Any]) -> None:
        self.folder, self.about = Path(folder), about
        if self.folder.exists() and not self.folder.is_dir():
            raise InvalidInput(
                f"`checkpoint` must be a folder; {self.folder} is a file. Choose another name."
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(self.folder.iterdir()):
            if path.name.startswith(".") and path.name.endswith(".partial"):
                shutil.rmtree(path)  # a crash left it
            elif not path.is_dir() or not path.name.isdecimal():
                raise InvalidInput(
                    f"`checkpoint` must be a folder of checkpoints, or empty; {self.folder} holds "
                    f"{path.name}, which no checkpoint has. Choose another folder."
                )

    @classmethod
    def of(cls, folder: str | PathLike[str] | None, about: Mapping[str, Any]) -> Checkpoints | None:
        """Where something is to be kept."""
        return None if folder is None else cls(folder, about)

    def newest(self) -> Path | None:
        """The last state that was kept."""
        return max(self.folder.iterdir(), default=None, key=lambda path: int(path.name))

    def save(self, state: State, iteration: int, memory: Memory) -> None:
        """Keep a state, and then no older one."""
        target = self.folder / f"{iteration:012d}"
        if not target.exists():
            leaves = need_jax().tree.leaves(state)
            arrays = {f"state/{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
            arrays |= {f"data/{name}": column for name, column in memory.collected().items()}
            kept = {"iteration": iteration, "about": self.about}
            storage.write_folder(target, "checkpoint", arrays, kept)
        for path in sorted(self.folder.iterdir()):
            if path != target:
                shutil.rmtree(path)

    def restore(self, like: State, memory: Memory) -> tuple[State, int] | None:
        """The last state that was kept, if it is one of this run."""
        newest = self.newest()
        if newest is None:
            return None
        jax = need_jax()
        arrays, kept = storage.read_folder(newest, "checkpoint")
        found = kept.get("about", {})
        for place, given in flat(self.about).items():
            there = flat(found).get(place)
            if there != given:
                raise InvalidInput(
                    f"`checkpoint` must be one of this run; in {newest} {place} is {there!r}, and "
                    f"here it is {given!r}. Choose another folder, or go on with the same settings."
                )
        leaves, form = jax.tree.flatten(like)
        states = [arrays.pop(f"state/{i}") for i in range(len(leaves))]
        collected = {name.removeprefix("data/"): column for name, column in arrays.items()}
        if collected and len(collected["actions"]):
            memory.append(collected)
        return jax.tree.unflatten(form, map(jax.numpy.asarray, states)), int(kept["iteration"])


def flat(nested: Any, place: str = "") -> dict[str, Any]:
    """Nested settings by their place.

    >>> flat({"a": {"b": 1}})
    {'a.b': 1}
    """
    if not isinstance(nested, Mapping):
        return {place: nested if not isinstance(nested, tuple) else list(nested)}
    parts = [flat(part, f"{place}.{key}" if place else str(key)) for key, part in nested.items()]
    return {key: value for part in parts for key, value in part.items()}


class Log:
    """Metrics of each chunk: a line of JSON in a file, and points for TensorBoard."""

    def __init__(self, watch: Watch, begins: int) -> None:
        self.file = self.board = None
        if watch.log is not None:
            path = Path(watch.log)
            path.parent.mkdir(parents=True, exist_ok=True)
            # A run that goes on repeats what came after its checkpoint.
            lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
            past = [line for line in lines if earlier(line, begins)]
            storage.write_file(path, "".join(f"{line}\n" for line in past).encode())
            self.file = path.open("a", encoding="utf-8")
        if watch.tensorboard is not None:
            try:
                from tensorboardX import SummaryWriter
            except ImportError:
                raise MissingExtra(
                    "TensorBoard needs a writer. Install it with `pip install "
                    "'inverseq[tensorboard]'`."
                ) from None
            self.board = SummaryWriter(str(watch.tensorboard))

    def write(self, iteration: int, seconds: float, losses: Mapping[str, float]) -> None:
        """The mean losses of a chunk that ended with this iteration."""
        if self.file is not None:
            line = {"iteration": iteration, "seconds_per_iteration": seconds, "losses": losses}
            self.file.write(json.dumps(line) + "\n")
            self.file.flush()
        if self.board is not None:
            for name, loss in losses.items():
                self.board.add_scalar(f"loss/{name}", loss, iteration)

    def close(self) -> None:
        """Nothing more comes."""
        for sink in (self.file, self.board):
            if sink is not None:
                sink.close()


def earlier(line: str, iteration: int) -> bool:
    """Whether a line of metrics is whole and of an iteration up to this one."""
    try:
        return int(json.loads(line)["iteration"]) <= iteration
    except (ValueError, KeyError, TypeError):
        return False
