r"""The paper on one page.

One function per formula of *Deep Inverse Q-learning with Constraints* (Kalweit, Huegle, Werling,
Boedecker 2020); equation numbers are counted in the order of its source. Every algorithm of the
library is one of these functions in a loop, a solve or a loss, and no formula has a second home.

Actions are the last axis: the same function serves one state ``(A,)``, a table ``(S, A)`` or a
batch, under NumPy, inside the compiled kernels and under JAX's transformations. The bodies use
operators and the three words at the end of the page, which the libraries spell differently.

=============  =====================================================================
``s a``        state, action; ``n`` is the number of actions available in a state
``q v r``      action values ``(..., A)``, state value, reward
``q_sh``       shifted action values: the discounted value of what follows, no reward
``pi log_pi``  the demonstrator's policy and its logarithm, times the temperature
``eta``        advantage: what the choice says beyond the value of what follows
``rho``        how often each action was seen
``gamma``      discount; ``terminated`` is 1 where nothing follows
``safe``       which actions may be taken; ``available`` is what was possible at all
=============  =====================================================================
"""

from __future__ import annotations

from typing import Any

from inverseq.shapes import Array, Mask, PerState, Scalar, Values

# -- the six formulas ------------------------------------------------------------------------


def value(q: Values, safe: Mask) -> PerState:
    r"""The maximum of Eqs. 9 and 13: a state is worth its best action among those allowed.

    .. math:: V(s) = \max_{a \in S(s)} Q(s, a)

    A selection, never ``q + (-inf)``, which is NaN where a forbidden ``q`` is infinite. A state
    with nothing allowed is worth minus infinity.

    >>> import numpy as np
    >>> float(value(np.array([1.0, 5.0, 2.0]), np.array([True, False, True])))
    2.0
    """
    return largest(select(safe, q, -INFINITY))


def shifted_target(gamma: Scalar, terminated: Scalar, v_next: PerState) -> PerState:
    r"""Eq. 11: what follows an action is worth the discounted value of the next state.

    .. math:: y^{Sh} = \gamma (1 - d) V(s')

    >>> shifted_target(0.5, 0, 4.0), shifted_target(0.5, 1, 4.0)
    (2.0, 0.0)
    """
    return gamma * (1 - terminated) * v_next


def advantage(log_pi: Values, q_sh: Values) -> Values:
    r"""Eqs. 5 and 10: the part of a choice that the value of what follows does not explain.

    .. math:: \eta^a_s = \log \pi(a|s) - Q^{Sh}(s, a)

    >>> advantage(-1.0, 2.0)
    -3.0
    """
    return log_pi - q_sh


def reward_target(eta: Values, r: Values, available: Mask) -> Values:
    r"""Eqs. 6 and 12: the reward of each action that agrees with the rewards of the others.

    .. math:: y^r(s, a) = \eta^a_s + \frac{1}{n-1} \sum_{b \ne a} (r(s, b) - \eta^b_s)

    Where only one action is available the sum is empty and the target is ``eta``.

    >>> import numpy as np
    >>> reward_target(np.array([1.0, 3.0]), np.array([0.0, 2.0]), np.array([True, True]))
    array([0., 2.])
    """
    d = select(available, r - eta, 0.0)
    n = total(available)
    return eta + (total(d) - d) / (n - 1 + (n == 1))


def action_value_target(r: Any, gamma: Scalar, terminated: Scalar, v_next: PerState) -> Any:
    r"""Bellman's equation (below Eq. 7), and Eq. 13 where ``v_next`` is over the safe actions.

    .. math:: y^Q(s, a) = r(s, a) + \gamma (1 - d) V(s')

    >>> action_value_target(1.0, 0.5, 0, 4.0)
    3.0
    """
    return r + gamma * (1 - terminated) * v_next


def closed_form_reward(eta: Values, available: Mask) -> Values:
    r"""The minimum-norm solution of the linear system of Eq. 7.

    .. math:: r(s, a) = \eta^a_s - \frac{1}{n} \sum_b \eta^b_s

    Its coefficient matrix is :math:`\frac{n}{n-1} (I - J / n)`, so the system says only that reward
    and advantage agree after their means are taken off; the least-norm reward has mean zero. It is
    0 where only one action is available, and 0 for an action that is not.

    >>> import numpy as np
    >>> closed_form_reward(np.array([1.0, 3.0, 9.0]), np.array([True, True, False]))
    array([-1.,  1.,  0.])
    """
    eta = select(available, eta, 0.0)
    n = total(available)
    return select(available, eta - total(eta) / n, 0.0)


# -- policies --------------------------------------------------------------------------------


def log_boltzmann(q: Values, safe: Mask, temperature: Scalar = 1.0) -> Values:
    r"""The logarithm of Eq. 1, restricted to what is safe: minus infinity on everything else.

    .. math:: \log \pi(a|s) = Q(s, a) / T - \log \sum_{b \in S(s)} e^{Q(s, b) / T}

    Uniform over the safe actions where none of them has a finite ``q``, whatever the others are.

    >>> import numpy as np
    >>> np.exp(log_boltzmann(np.array([0.0, np.nan, np.inf]), np.array([True, False, False])))
    array([1., 0., 0.])
    """
    space = q.__array_namespace__()
    finite = safe & space.isfinite(q)
    usable = select(finite.any(-1, keepdims=True), finite, safe)
    x = select(finite, q, 0.0) / temperature
    top = largest(select(usable, x, -INFINITY))[..., None]
    # A row without a safe action has no policy: its logarithms are minus infinity throughout.
    x = select(usable, x - select(space.isfinite(top), top, 0.0), -INFINITY)
    mass = total(space.exp(x))
    return x - space.log(select(mass > 0, mass, 1.0))


def count_policy(rho: Values, k: Scalar, available: Mask) -> Values:
    r"""The demonstrator's policy from counts (section 4), ``k`` added to each available action.

    .. math:: \tilde\pi(a|s) = (\rho(s, a) + k) / \sum_b (\rho(s, b) + k)

    >>> import numpy as np
    >>> count_policy(np.array([3.0, 1.0, 0.0]), 0.0, np.array([True, True, False]))
    array([0.75, 0.25, 0.  ])
    """
    weight = select(available, rho + k, 0.0)
    return weight / total(weight)


def backed_off_policy(rho: Values, kappa: Scalar, pi: Values) -> Values:
    r"""The policy of a history from its counts and from the policy of a shorter one.

    .. math:: \pi_k(a|h) = (\rho(h, a) + \kappa \pi_{k-1}(a|h')) / (\sum_b \rho(h, b) + \kappa)

    >>> import numpy as np
    >>> backed_off_policy(np.array([3.0, 1.0]), 4.0, np.array([0.5, 0.5]))
    array([0.625, 0.375])
    """
    return (rho + kappa * pi) / (total(rho) + kappa)


# -- the three words that NumPy, the compiler and JAX spell differently ------------------------

INFINITY = float("inf")


def select(condition: Array, x: Any, y: Any) -> Array:
    """The array ``x`` where the condition holds, ``y`` elsewhere."""
    return x.__array_namespace__().where(condition, x, y)


def largest(x: Array) -> Array:
    """The maximum over actions."""
    return x.max(-1)


def total(x: Array) -> Array:
    """The sum over actions, as an axis of length 1 so that it combines with ``x``."""
    return x.sum(-1, keepdims=True)
