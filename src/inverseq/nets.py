"""Networks as plain functions: parameters that are arrays, and a function of them and of states.

The functions are written for any array that knows its namespace: training runs them under JAX,
which is imported on first use, and a solution asks them with NumPy alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from inverseq._checks import as_array, as_whole, check_choice
from inverseq.errors import InvalidInput, MissingExtra
from inverseq.shapes import Array

Params: TypeAlias = Any
"""A tree of arrays, as JAX knows it."""


@runtime_checkable
class Network(Protocol):
    """What a network is: two functions. Any object that has them will do."""

    def __hash__(self) -> int: ...

    def init(self, key: Array, n_inputs: int, n_outputs: int) -> Params:
        """Random parameters."""
        ...

    def apply(self, params: Params, x: Array) -> Array:
        """The outputs (batch, n_outputs) for rows of numbers (batch, n_inputs)."""
        ...


@dataclass(frozen=True)
class MLP:
    """Layers that are fully connected, with a linear one at the end.

    >>> import jax
    >>> net = MLP(hidden=(8,))
    >>> params = net.init(jax.random.key(0), n_inputs=3, n_outputs=2)
    >>> net.apply(params, jax.numpy.ones((5, 3))).shape
    (5, 2)
    """

    hidden: tuple[int, ...] = (64, 64)
    """How many units each hidden layer has; none is a linear function."""
    activation: Literal["relu", "tanh"] = "relu"
    """What bends the output of a hidden layer."""
    bias: bool = True
    """Whether a layer adds a number of its own to each output."""

    def __post_init__(self) -> None:
        check_layers(self.hidden, "MLP.hidden")
        check_choice(self.activation, ("relu", "tanh"), "MLP.activation")

    def init(self, key: Array, n_inputs: int, n_outputs: int) -> Params:
        """Random parameters: a list of pairs (weights, bias), uniform as befits the fan-in."""
        jax = need_jax()
        sizes = (n_inputs, *self.hidden, n_outputs)
        params = []
        for layer, (n_in, n_out) in enumerate(pairwise(sizes)):
            key, own = jax.random.split(key)
            gain = 6 if layer < len(self.hidden) else 3  # a bend takes half of the variance
            bound = (gain / n_in) ** 0.5
            weights = jax.random.uniform(own, (n_in, n_out), minval=-bound, maxval=bound)
            params.append((weights, jax.numpy.zeros(n_out)) if self.bias else (weights,))
        return params

    def apply(self, params: Params, x: Array) -> Array:
        """The outputs (..., n_outputs) for inputs (..., n_inputs)."""
        *hidden, (weights, *bias) = params
        for layer in hidden:
            x = self._bend(affine(layer, x))
        # Outputs are few: the slope of their weights is several times quicker the other way round.
        return affine((turned(weights).T, *bias), x)

    def apply_long(self, params: Params, x: Array) -> Array:
        """The same, under JAX, for rows (n_rows, n_inputs) that are many more than units.

        Hidden layers lie in columns: the first of a stack of networks on the same rows then comes
        out one network behind the other, where rows would have to be transposed.
        """
        einsum = need_jax().numpy.einsum
        *hidden, (weights, *bias) = params
        h = x.T
        for matrix, *shift in hidden:
            h = einsum("io,in->on", matrix, h)
            h = self._bend(h + shift[0][:, None] if shift else h)
        y = turned(h) @ weights
        return y + bias[0] if bias else y

    def _bend(self, x: Array) -> Array:
        return relu(x) if self.activation == "relu" else x.__array_namespace__().tanh(x)


@dataclass(frozen=True)
class DeepSets:
    """A network of a set, whatever its size and order, beside numbers that are always there.

    Each member is encoded by itself, the codes are added up, and what follows sees the sum (the
    architecture of the paper's appendix, after Huegle et al. 2019). A state is one row: ``static``
    numbers, then room for ``members``, each with a first number that is 1 where there is one, and
    its ``features``. `join` makes such rows.

    >>> import jax
    >>> net = DeepSets(members=4, features=2, static=1, encoder=(5, 6), decoder=(6,), head=(7,))
    >>> row = net.join(np.ones((1, 4, 2)), np.array([[True, True, False, False]]), np.ones((1, 1)))
    >>> params = net.init(jax.random.key(0), row.shape[1], n_outputs=3)
    >>> net.apply(params, row).shape
    (1, 3)
    """

    members: int
    """For how many there is room."""
    features: int
    """How many numbers describe one."""
    static: int
    """How many numbers are always there; they come first."""
    encoder: tuple[int, ...] = (20, 80)
    """The layers that every member goes through by itself."""
    decoder: tuple[int, ...] = (80, 20)
    """The layers that the sum goes through."""
    head: tuple[int, ...] = (100, 100)
    """The layers that what came of the sum goes through beside the static numbers."""
    room: int | None = None
    """How many members of a whole batch are computed, packed one behind the other; None computes
    all the room there is. Training sets it: see `packed`."""

    def __post_init__(self) -> None:
        for name in ("members", "features", "static"):
            least = 0 if name == "static" else 1
            if as_whole(getattr(self, name)) < least:
                raise InvalidInput(
                    f"`DeepSets.{name}` must be an integer from {least}; got "
                    f"{getattr(self, name)!r}."
                )
        for name in ("encoder", "decoder", "head"):
            check_layers(getattr(self, name), f"DeepSets.{name}")
        if not self.encoder or not self.decoder:
            raise InvalidInput("`DeepSets` must have an encoder and a decoder of at least a layer.")

    @property
    def n_inputs(self) -> int:
        """How long a row is."""
        return self.static + self.members * (1 + self.features)

    def join(self, members: Any, present: Any, static: Any) -> np.ndarray:
        """Rows from members (n, members, features), which are there (n, members), and the rest.

        >>> DeepSets(2, 1, 1).join([[[5.0], [7.0]]], [[True, False]], [[3.0]])
        array([[3., 1., 5., 0., 0.]], dtype=float32)
        """
        there = np.asarray(present, dtype=bool)[..., None]
        each = np.concatenate([there, np.where(there, as_array(members, "members"), 0.0)], axis=2)
        flat = each.reshape(len(each), -1)
        rows = np.concatenate([as_array(static, "static"), flat], axis=1).astype(np.float32)
        self._check_width(rows.shape[1])
        return rows

    def split(self, x: Array) -> tuple[Array, Array, Array]:
        """Members (n, members, features), which are there (n, members), static (n, static)."""
        each = x[:, self.static :].reshape(len(x), self.members, 1 + self.features)
        return each[..., 1:], each[..., 0] > 0, x[:, : self.static]

    def init(self, key: Array, n_inputs: int, n_outputs: int) -> Params:
        """Random parameters: lists of pairs (weights, bias) for the three parts."""
        self._check_width(n_inputs)
        keys = need_jax().random.split(key, 3)
        parts = zip(self._parts(n_outputs), keys, strict=True)
        return [part.init(key, n_in, n_out) for (part, n_in, n_out), key in parts]

    def apply(self, params: Params, x: Array) -> Array:
        """The outputs (batch, n_outputs) for rows (batch, n_inputs)."""
        members, present, static = self.split(x)
        space = x.__array_namespace__()
        (encoder, *_), (decoder, *_), (head, *_) = self._parts(0)
        if self.room is None:
            codes = relu(encoder.apply(params[0], members))
            pooled = space.where(present[..., None], codes, 0.0).sum(1)
        else:
            pooled = self._packed_sum(encoder, params[0], members, present)
        rest = relu(decoder.apply(params[1], pooled))
        return head.apply(params[2], space.concatenate([rest, static], axis=1))

    def packed(self, states: np.ndarray, batch_size: int) -> DeepSets:
        """The same network with room for what batches of these states hold, but for rare ones.

        Three deviations above the mean; `fits` tells whether a batch is one of the rare ones.
        """
        sizes = self.split(states)[1].sum(axis=1)
        likely = batch_size * sizes.mean() + 3 * np.sqrt(batch_size) * sizes.std()
        # Vectors of the processor are full at multiples of 16.
        rounded = 16 * int(np.ceil(max(likely, 1) / 16))
        return replace(self, room=min(rounded, batch_size * self.members))

    def fits(self, x: Array) -> Array:
        """Whether all members of a batch have room."""
        return True if self.room is None else self.split(x)[1].sum() <= self.room

    def _packed_sum(self, encoder: MLP, params: Params, members: Array, present: Array) -> Array:
        jax = need_jax()
        n = len(members)
        # Those that are there one behind the other; what room is left belongs to a set of its own.
        (at,) = jax.numpy.nonzero(present.ravel(), size=self.room, fill_value=n * self.members)
        rows = members.reshape(-1, self.features).at[at].get(mode="fill", fill_value=0.0)
        codes = relu(encoder.apply_long(params, rows))
        return jax.ops.segment_sum(
            codes, at // self.members, num_segments=n + 1, indices_are_sorted=True
        )[:n]

    def _parts(self, n_outputs: int) -> list[tuple[MLP, int, int]]:
        """The three networks that it is made of, with their numbers of inputs and outputs."""
        *inner, code = self.encoder
        *middle, rest = self.decoder
        return [
            (MLP(tuple(inner)), self.features, code),
            (MLP(tuple(middle)), code, rest),
            (MLP(self.head), rest + self.static, n_outputs),
        ]

    def _check_width(self, n_inputs: int) -> None:
        if n_inputs != self.n_inputs:
            raise InvalidInput(
                f"`DeepSets` must be given rows of static + members * (1 + features) = "
                f"{self.n_inputs} numbers; these have {n_inputs}. `DeepSets.join` makes them."
            )


class Function(NamedTuple):
    """A network of your own: a function of parameters and states, and one that makes parameters.

    >>> import jax
    >>> def init(key, n_inputs, n_outputs):
    ...     return jax.random.normal(key, (n_inputs, n_outputs))
    >>> Function(init, lambda params, x: x @ params).apply(np.ones((3, 2)), np.ones((5, 3))).shape
    (5, 2)
    """

    init: Callable[[Array, int, int], Params]
    """From a key of JAX and the numbers of inputs and outputs to parameters, a tree of arrays."""
    apply: Callable[[Params, Array], Array]
    """From parameters and rows (batch, n_inputs) to outputs (batch, n_outputs)."""


# -- trees of parameters -----------------------------------------------------------------------


def leaves(params: Params, name: str) -> dict[str, np.ndarray]:
    """The arrays of a tree of lists, tuples and dictionaries, each under the path to it.

    >>> sorted(leaves([(np.ones(2), np.ones(1))], "q"))
    ['q/0/0', 'q/0/1']
    """
    if isinstance(params, dict):
        pairs: Any = sorted(params.items())
    elif isinstance(params, list | tuple):
        pairs = enumerate(params)
    else:
        return {name: np.asarray(params)}
    return {k: v for key, part in pairs for k, v in leaves(part, f"{name}/{key}").items()}


def tree(arrays: dict[str, np.ndarray], name: str) -> Params:
    """The tree that `leaves` took apart; what was a tuple is a list.

    >>> tree(leaves([(np.ones(2), np.ones(1))], "q"), "q")
    [[array([1., 1.]), array([1.])]]
    """
    if name in arrays:
        return arrays[name]
    under = [path[len(name) + 1 :] for path in arrays if path.startswith(f"{name}/")]
    keys = sorted({path.partition("/")[0] for path in under})
    if all(key.isdecimal() for key in keys):
        return [tree(arrays, f"{name}/{i}") for i in range(len(keys))]
    return {key: tree(arrays, f"{name}/{key}") for key in keys}


# -- what networks are made of -----------------------------------------------------------------


def affine(layer: Sequence[Array], x: Array) -> Array:
    """One layer, with a bias if it has one."""
    return x @ layer[0] + layer[1] if len(layer) == 2 else x @ layer[0]


def turned(x: Array) -> Array:
    """The transposed matrix; under JAX as one that is written down, and so are its slopes.

    Otherwise the compiler multiplies by the matrix as it lies, be that slower than to turn it.
    """
    return x.T if isinstance(x, np.ndarray) else need_jax().lax.optimization_barrier(x.T)


def relu(x: Array) -> Array:
    """What is positive; its slope at 0 is 0."""
    return np.maximum(x, 0) if isinstance(x, np.ndarray) else need_jax().nn.relu(x)


def check_layers(given: Any, name: str) -> None:
    """Raise unless these are sizes of layers."""
    if not isinstance(given, tuple) or any(as_whole(n) < 1 for n in given):
        raise InvalidInput(f"`{name}` must be a tuple of positive integers; got {given!r}.")


def need_jax() -> Any:
    """JAX, or the message that says how to install it."""
    try:
        import jax
    except ImportError:
        raise MissingExtra(
            "Networks need JAX. Install it with `pip install 'inverseq[deep]'`."
        ) from None
    return jax


def need_optax() -> Any:
    """Optax, or the message that says how to install it."""
    try:
        import optax
    except ImportError:
        raise MissingExtra(
            "Training needs optax. Install it with `pip install 'inverseq[deep]'`."
        ) from None
    return optax
