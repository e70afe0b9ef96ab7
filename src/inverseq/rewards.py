"""Families of rewards: from parameters to ``r(s, a)``, and a derivative back.

What an algorithm that climbs a likelihood needs of a reward, whether it is a table, linear in
features, or a network of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from inverseq._checks import as_array
from inverseq.errors import InvalidInput
from inverseq.nets import MLP, need_jax


class Family(NamedTuple):
    """Rewards by their parameters."""

    start: np.ndarray
    """The first parameters, (P,)."""
    prior: np.ndarray
    """How strongly each is held to 0, (P,)."""
    reward: Callable[[np.ndarray], np.ndarray]
    """From parameters to ``r(s, a)``, (S, A)."""
    pull: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """From parameters and the derivative of something by the reward to that by the parameters."""


def of_states(shape: tuple[int, int], strength: float) -> Family:
    """Any reward of the state.

    >>> family = of_states((2, 3), strength=1.0)
    >>> family.reward(np.array([0.0, 5.0]))
    array([[0., 0., 0.], [5., 5., 5.]])
    >>> family.pull(family.start, np.ones((2, 3)))
    array([3., 3.])
    """
    n_states, n_actions = shape

    def reward(theta: np.ndarray) -> np.ndarray:
        return np.repeat(theta[:, None], n_actions, axis=1)

    def pull(theta: np.ndarray, by_reward: np.ndarray) -> np.ndarray:
        return np.asarray(by_reward.sum(axis=1))

    return Family(np.zeros(n_states), np.full(n_states, strength), reward, pull)


def linear(phi: np.ndarray, shape: tuple[int, int], strength: float) -> Family:
    """Linear in features of states (S, 1, K) or of pairs (S, A, K).

    >>> family = linear(np.array([[[1.0]], [[2.0]]]), (2, 3), strength=1.0)
    >>> family.reward(np.array([5.0]))
    array([[ 5.,  5.,  5.], [10., 10., 10.]])
    >>> family.pull(family.start, np.ones((2, 3)))
    array([9.])
    """

    def reward(theta: np.ndarray) -> np.ndarray:
        return np.broadcast_to(phi @ theta, shape)

    def pull(theta: np.ndarray, by_reward: np.ndarray) -> np.ndarray:
        return np.asarray(np.tensordot(of_inputs(by_reward, phi), phi, axes=2))

    k = phi.shape[2]
    return Family(np.zeros(k), np.full(k, strength), reward, pull)


def by_network(
    phi: np.ndarray, shape: tuple[int, int], network: MLP, strength: float, seed: int
) -> Family:
    """A network of features; the prior holds its weights and leaves its biases free.

    >>> family = by_network(np.ones((2, 1, 4)), (2, 3), MLP((8,)), strength=1.0, seed=0)
    >>> family.start.shape, family.reward(family.start).shape
    ((49,), (2, 3))
    """
    jax = need_jax()
    from jax.flatten_util import ravel_pytree

    # Quasi-Newton steps need the digits; they are asked for here and nowhere else.
    with jax.enable_x64(True):
        params = network.init(jax.random.key(seed), phi.shape[2], 1)
        start = np.array(ravel_pytree(params)[0])
        weights = jax.tree.map(lambda x: jax.numpy.full_like(x, x.ndim > 1), params)
        held = np.array(ravel_pytree(weights)[0])
        inputs = jax.numpy.asarray(phi)
    forward, backward = compiled(network, phi.shape[2])

    def reward(theta: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            return np.broadcast_to(np.asarray(forward(theta, inputs)), shape)

    def pull(theta: np.ndarray, by_reward: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            return np.asarray(backward(theta, inputs, of_inputs(by_reward, phi)))

    return Family(start, strength * held, reward, pull)


@lru_cache
def compiled(network: MLP, n_inputs: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A network of flat parameters and its derivative, compiled once for all fits."""
    jax = need_jax()
    from jax.flatten_util import ravel_pytree

    with jax.enable_x64(True):
        _, unravel = ravel_pytree(network.init(jax.random.key(0), n_inputs, 1))

    def forward(theta: Any, inputs: Any) -> Any:
        return network.apply(unravel(theta), inputs)[..., 0]

    def backward(theta: Any, inputs: Any, by_output: Any) -> Any:
        return jax.vjp(lambda theta: forward(theta, inputs), theta)[1](by_output)[0]

    return jax.jit(forward), jax.jit(backward)


def together(one: Family, other: Family) -> Family:
    """Sums of a reward of one family and a reward of the other."""
    n = len(one.start)

    def reward(theta: np.ndarray) -> np.ndarray:
        return np.asarray(one.reward(theta[:n]) + other.reward(theta[n:]))

    def pull(theta: np.ndarray, by_reward: np.ndarray) -> np.ndarray:
        return np.concatenate([one.pull(theta[:n], by_reward), other.pull(theta[n:], by_reward)])

    start, prior = (
        np.concatenate([getattr(f, name) for f in (one, other)]) for name in ("start", "prior")
    )
    return Family(start, prior, reward, pull)


def of_inputs(by_reward: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """A derivative by the rewards of pairs, as one by what features speak of."""
    return by_reward.sum(axis=1, keepdims=True) if phi.shape[1] == 1 else by_reward


def standardised(given: Any, shape: tuple[int, int], name: str) -> np.ndarray:
    """Features (S, K) or (S, A, K) as (S, 1 or A, K), of mean 0 and deviation 1.

    >>> standardised(np.array([[1.0], [3.0]]), (2, 5), "features")[:, 0, 0]
    array([-1.,  1.])
    """
    phi = as_array(given, name).astype(float)
    if phi.shape[:-1] not in (shape[:1], shape) or phi.shape[-1] == 0:
        raise InvalidInput(
            f"`{name}` must have shape ({shape[0]}, K) or ({shape[0]}, {shape[1]}, K); it has "
            f"{phi.shape}."
        )
    if not np.isfinite(phi).all():
        raise InvalidInput(
            f"`{name}` must be finite; {int((~np.isfinite(phi)).sum())} entries are not."
        )
    phi = phi[:, None] if phi.ndim == 2 else phi
    spread = phi.std(axis=(0, 1))
    # A feature that is the same everywhere is kept as it is.
    return np.asarray(
        np.where(spread > 0, (phi - phi.mean(axis=(0, 1))) / np.where(spread > 0, spread, 1.0), phi)
    )
