"""Networks as plain functions: parameters that are arrays, and a function of them and of states.

JAX is imported on first use, so that who fits a table never loads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from inverseq._checks import as_whole, check_choice
from inverseq.errors import InvalidInput, MissingExtra
from inverseq.shapes import Array

Params: TypeAlias = Any
"""A tree of arrays, as JAX knows it."""


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

    def __post_init__(self) -> None:
        if not isinstance(self.hidden, tuple) or any(as_whole(n) < 1 for n in self.hidden):
            raise InvalidInput(
                f"`MLP.hidden` must be a tuple of positive integers; got {self.hidden!r}."
            )
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
            params.append((weights, jax.numpy.zeros(n_out)))
        return params

    def apply(self, params: Params, x: Array) -> Array:
        """The outputs (..., n_outputs) for inputs (..., n_inputs)."""
        jax = need_jax()
        bend = jax.nn.relu if self.activation == "relu" else jax.numpy.tanh
        for weights, bias in params[:-1]:
            x = bend(x @ weights + bias)
        weights, bias = params[-1]
        return x @ weights + bias


def need_jax() -> Any:
    """JAX, or the message that says how to install it."""
    try:
        import jax
    except ImportError:
        raise MissingExtra(
            "Networks need JAX. Install it with `pip install 'inverseq[deep]'`."
        ) from None
    return jax
