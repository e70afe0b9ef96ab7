"""The sequential loop of inverse Q-learning, compiled; and the one that counts what a log shows.

The first is written once. Its formulas are handed in: those of `inverseq.equations` (plain Python
and compiled), and a fused form without temporary arrays, which is several times faster and which
the tests hold to the equations. No formula lives here but those fused ones.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.extending import overload, register_jitable

from inverseq import equations

# -- the three words of the page of equations, for the compiler ----------------------------------
# (It compares the names and annotations of both signatures, hence none.)


@overload(equations.select)
def _select(condition, x, y):  # type: ignore[no-untyped-def]
    return lambda condition, x, y: np.where(condition, x, y)


@overload(equations.largest)
def _largest(x):  # type: ignore[no-untyped-def]
    return lambda x: x.max()


@overload(equations.total)
def _total(x):  # type: ignore[no-untyped-def]
    return lambda x: x.sum()


# -- the formulas that the loop needs, in two forms ------------------------------------------------


class Formulas(NamedTuple):
    """What the loop computes at a transition, from the tables and the number of a state."""

    value: Callable[..., Any]
    """``V(s)`` from action values."""
    reward: Callable[..., Any]
    """The target of ``r(s, a)`` from ``l``, ``Q_sh`` and ``r``."""
    observe: Callable[..., Any]
    """Bring the row of ``l`` up to date after a visit."""


def from_equations(wrap: Callable[..., Any]) -> Formulas:
    """The formulas as calls into the page of equations; ``wrap`` prepares each for its use."""
    # A test run may wrap the equations in shape checks, which the compiler cannot read.
    best = wrap(inspect.unwrap(equations.value))
    advantage = wrap(inspect.unwrap(equations.advantage))
    reward_target = wrap(inspect.unwrap(equations.reward_target))
    closed_form_reward = wrap(inspect.unwrap(equations.closed_form_reward))
    count_policy = wrap(inspect.unwrap(equations.count_policy))
    select = equations.select

    def value(q, safe, s):  # type: ignore[no-untyped-def]
        return best(q[s], safe[s])

    def reward(l, q_sh, r, available, s, a, centred):  # type: ignore[no-untyped-def]
        eta = advantage(l[s], q_sh[s])
        if centred:
            return closed_form_reward(eta, available[s])[a]
        return reward_target(eta, r[s], available[s])[a]

    def observe(l, rho, available, s, a, k, temperature):  # type: ignore[no-untyped-def]
        pi = count_policy(rho[s], k, available[s])
        l[s] = temperature * np.log(select(available[s], pi, 1.0))

    return Formulas(wrap(value), wrap(reward), wrap(observe))


@register_jitable
def fused_value(q, safe, s):  # type: ignore[no-untyped-def]
    """`equations.value` without a temporary."""
    # A choice between two values takes no jump, which a maximum over noise would often mispredict.
    best = -np.inf
    for b in range(q.shape[1]):
        x = q[s, b]
        best = x if safe[s, b] & (x > best) else best
    return best


@register_jitable
def fused_reward(l, q_sh, r, available, s, a, centred):  # type: ignore[no-untyped-def]
    """`equations.reward_target` (or `closed_form_reward`) of the `advantage`, for one action."""
    n, others = 0, 0.0
    for b in range(l.shape[1]):
        other = available[s, b] & (b != a)
        d = (0.0 if centred else r[s, b]) - (l[s, b] - q_sh[s, b])
        n += other
        others += d if other else 0.0
    # With one action the policy is certain, and the term that `fused_observe` leaves out is all.
    eta = (l[s, a] if n > 0 else 0.0) - q_sh[s, a]
    if centred:
        return eta - (eta - others) / (n + 1)
    return eta + others / max(n, 1)


@register_jitable
def fused_observe(l, rho, available, s, a, k, temperature):  # type: ignore[no-untyped-def]
    """The logarithm of `equations.count_policy` up to a term that is the same for all actions.

    That term drops out of both reward targets where there is a choice, so one logarithm a visit is
    enough.
    """
    l[s, a] = temperature * np.log(rho[s, a] + k)


FUSED = Formulas(fused_value, fused_reward, fused_observe)

# -- the loop ----------------------------------------------------------------------------------


def make_loop(formulas: Formulas, compile_: Callable[..., Any]) -> Callable[..., Any]:
    """Algorithms 1 and 3 over a sequence of transitions, in the order of the paper."""
    value, reward, observe = formulas

    def loop(  # type: ignore[no-untyped-def]
        states, actions, next_states, weights, blocks, block,
        l, rho, q_sh, r, q, q_c, updates,
        available, safe,
        rate_sh, rate_r, rate_q, rate_c,
        gamma, k, temperature, counting, centred, constrained,
    ):  # fmt: skip
        last = len(rate_r) - 1
        weighted = len(weights) > 0
        weight = 1.0
        for start in blocks:
            for i in range(start, min(start + block, len(states))):
                s, a, s_next = states[i], actions[i], next_states[i]
                if weighted:
                    weight = weights[i]
                if counting:
                    rho[s, a] += weight
                    observe(l, rho, available, s, a, k, temperature)
                updates[s, a] += 1
                n = min(updates[s, a], last)
                # A transition that ended (s_next < 0) is followed by nothing.
                v = gamma * value(q, available, s_next) if s_next >= 0 else 0.0

                rate = min(1.0, weight * rate_sh[n])
                q_sh[s, a] = (1 - rate) * q_sh[s, a] + rate * v
                rate = min(1.0, weight * rate_r[n])
                goal = reward(l, q_sh, r, available, s, a, centred)
                r[s, a] = (1 - rate) * r[s, a] + rate * goal
                rate = min(1.0, weight * rate_q[n])
                q[s, a] = (1 - rate) * q[s, a] + rate * (r[s, a] + v)
                if constrained:
                    v = gamma * value(q_c, safe, s_next) if s_next >= 0 else 0.0
                    # Where nothing is safe next, the pair is not viable: nobody asks its value.
                    if v > -np.inf:
                        rate = min(1.0, weight * rate_c[n])
                        q_c[s, a] = (1 - rate) * q_c[s, a] + rate * (r[s, a] + v)

    return compile_(loop)  # type: ignore[no-any-return]


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile, and keep the result on disk."""
    return numba.njit(function, cache=True, nogil=True)  # type: ignore[no-any-return]


plain_loop = make_loop(from_equations(lambda function: function), lambda function: function)
"""The loop as Python runs it: slow, and what the others must equal."""

shared_loop = make_loop(from_equations(register_jitable), jit)
"""The loop compiled over the page of equations."""

fused_loop = make_loop(FUSED, jit)
"""The loop compiled over the fused formulas: what `IQL` runs."""


def count_loop(keys, amounts, table, filled):  # type: ignore[no-untyped-def]
    """Count keys from 0 in a table of (key, count) whose free places hold -1: by amounts, or by 1.

    It stops where three quarters of the table are full, and says how many keys are counted and how
    many places are taken.
    """
    last = len(table) - 1
    shift = np.uint64(64 - round(np.log2(len(table))))
    for i in range(len(keys)):
        key = keys[i]
        at = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> shift)
        while table[at, 0] != key and table[at, 0] >= 0:
            at = (at + 1) & last
        if table[at, 0] < 0:
            if 4 * filled > 3 * last:
                return i, filled
            table[at, 0] = key
            filled += 1
        table[at, 1] += amounts[i] if len(amounts) else 1
    return len(keys), filled


def look_up_loop(values, low, table, found):  # type: ignore[no-untyped-def]
    """Find the numbers of integers in a table that begins at the lowest; False if one has none."""
    for i in range(len(values)):
        at = values[i] - low
        if at < 0 or at >= len(table) or table[at] < 0:
            return False
        found[i] = table[at]
    return True


def pack_loop(states, actions, follows, action_bits, next_bits, keys):  # type: ignore[no-untyped-def]
    """Make keys of steps, and say the largest of each of their parts."""
    most_s = most_a = most_f = np.int64(0)
    for i in range(len(states)):
        s, a, f = np.int64(states[i]), np.int64(actions[i]), np.int64(follows[i])
        most_s = s if s > most_s else most_s
        most_a = a if a > most_a else most_a
        most_f = f if f > most_f else most_f
        keys[i] = (((s << action_bits) | a) << next_bits) | f
    return most_s, most_a, most_f


counting_loop, looking_up_loop, packing_loop = jit(count_loop), jit(look_up_loop), jit(pack_loop)
"""The loops by which `inverseq.io.tally` counts."""
