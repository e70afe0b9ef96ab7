"""The paper's two tabular procedures as they are written, state by state and step by step.

They are what the library is timed against: the plain reading of Kalweit et al. (2020) in NumPy and
Python, and of the first also a version with whatever can be moved out of its loop moved out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np


def iavi_sweeps(
    transitions: np.ndarray, policy: np.ndarray, discount: float, tolerance: float
) -> tuple[np.ndarray, np.ndarray, int]:
    """Section 3 as it is written: all states again and again, until no reward changes by more.

    Each state solves the system of Eq. 7 by least squares and uses the newest values of the others,
    which takes half the sweeps of a copy of the table. ``transitions`` is (S, A, S); the value of
    what follows is ``E[max Q]``. Returns the reward, Q and the number of sweeps.
    """
    n_states, n = policy.shape
    reward, q = np.zeros((n_states, n)), np.zeros((n_states, n))
    sweeps, change = 0, math.inf
    while change >= tolerance:
        sweeps, change = sweeps + 1, 0.0
        for s in range(n_states):
            follows = discount * (transitions[s] @ q.max(axis=1))
            eta = np.log(policy[s]) - follows  # Eq. 5
            others = np.full((n, n), 1 / (n - 1))
            np.fill_diagonal(others, 0.0)
            x = np.eye(n) - others  # Eq. 7, left
            y = eta - others @ eta  # Eq. 7, right
            r = np.linalg.lstsq(x, y, rcond=None)[0]
            change = max(change, float(np.abs(r - reward[s]).max()))
            reward[s] = r
            q[s] = r + follows
    return reward, q, sweeps


def iavi_sweeps_tuned(
    transitions: np.ndarray, policy: np.ndarray, discount: float, tolerance: float
) -> tuple[np.ndarray, np.ndarray, int]:
    """The same sweeps with what is constant made once, sums over likely states only, and ``V``."""
    n_states, n = policy.shape
    log_pi = np.log(policy)
    others = (1 - np.eye(n)) / (n - 1)
    x = np.eye(n) - others
    likely = [np.flatnonzero(rows.any(axis=0)) for rows in transitions]
    model = [transitions[s][:, likely[s]].copy() for s in range(n_states)]
    reward, q, v = np.zeros((n_states, n)), np.zeros((n_states, n)), np.zeros(n_states)
    sweeps, change = 0, math.inf
    while change >= tolerance:
        sweeps, change = sweeps + 1, 0.0
        for s in range(n_states):
            follows = discount * (model[s] @ v[likely[s]])
            eta = log_pi[s] - follows
            r = np.linalg.lstsq(x, eta - others @ eta, rcond=None)[0]
            change = max(change, float(np.abs(r - reward[s]).max()))
            reward[s] = r
            q[s] = r + follows
            v[s] = q[s].max()
    return reward, q, sweeps


def iql_pass(
    steps: Iterable[tuple[int, int, int]],
    n_states: int,
    n_actions: int,
    discount: float,
    rate: float,
    epsilon: float,
) -> list[list[list[float]]]:
    """Algorithm 1, one pass over (s, a, s'), in lists and scalars. Returns ``Q_sh, r, Q``.

    ``epsilon`` is added to each count, so that actions not seen yet have a logarithm.
    """
    actions = range(n_actions)
    rho, q_sh, r, q = ([[0.0] * n_actions for _ in range(n_states)] for _ in range(4))
    for s, a, s_next in steps:
        rho[s][a] += 1
        total = sum(rho[s]) + n_actions * epsilon
        v = discount * max(q[s_next])
        q_sh[s][a] = (1 - rate) * q_sh[s][a] + rate * v
        eta = [math.log((rho[s][b] + epsilon) / total) - q_sh[s][b] for b in actions]
        rest = sum(r[s][b] - eta[b] for b in actions if b != a)
        r[s][a] = (1 - rate) * r[s][a] + rate * (eta[a] + rest / (n_actions - 1))
        q[s][a] = (1 - rate) * q[s][a] + rate * (r[s][a] + v)
    return [q_sh, r, q]
