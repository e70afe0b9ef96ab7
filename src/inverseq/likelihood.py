r"""The likelihood of a Boltzmann demonstrator under a reward, with its gradient through planning.

The demonstrator takes action ``a`` with probability ``softmax(Q*(s, .) / T)``, where ``Q*`` solves
Bellman's equation for the reward. A small change of the reward changes the fixed point by implicit
differentiation: with ``mu`` the policy that the backup follows (greedy for "max", Boltzmann for
"soft"),

.. math:: dQ = dr + \gamma P\, dV, \qquad (I - \gamma P_\mu)\, dV = \mu \cdot dr

so that the gradient of any function of ``Q*`` costs one transposed solve, however many parameters
the reward has.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from inverseq import _linear, equations, planning
from inverseq.shapes import Sparse, Table
from inverseq.task import Task

STEADY = 1e-10
"""An action stays the greedy one unless another is better by more than this, relative to the
largest value: ties must not make the policy wander."""
LONGEST = 1_000
"""How many policies are tried at most; a few suffice."""


class Likelihood(NamedTuple):
    """The likelihood at a reward, and what it is made of."""

    value: float
    """The mean log-likelihood of a step."""
    gradient: Table
    """Its derivative by ``r(s, a)``."""
    q: Table
    """``Q*(s, a)``; minus infinity where an action is not available."""
    policy: Table


class Demonstrator:
    """A Boltzmann demonstrator who was seen ``visits(s, a)`` times, on a task with a model.

    Values, policies and factors stay from one reward to the next, which is as a rule similar.

    >>> import inverseq as iq
    >>> task = iq.Task(2, 0.5, transitions=np.ones((1, 2, 1)))
    >>> likely = Demonstrator(np.array([[3.0, 1.0]]), task).at(np.array([[0.0, 0.0]]))
    >>> round(likely.value, 3), likely.gradient
    (-0.693, array([[ 0.25, -0.25]]))
    """

    def __init__(self, visits: Table, task: Task, soft: bool = False) -> None:
        self.task, self.soft = task.unconstrained(), soft
        self.model, self.available = self.task.continuing, task.available_table()
        decides = np.ones(len(visits), bool) if task.terminal is None else ~task.terminal
        self.decides = decides[:, None]
        counted = np.where(self.available & self.decides, visits, 0.0)
        self.seen = float(counted.sum())
        # Where only ends were seen nothing was decided, and every reward is as likely.
        self.share = counted / max(self.seen, np.finfo(float).tiny)
        self.thin = _linear.thin(self.task.uniform_chain)
        self.backward: Sparse = self.model.backward.tocsr()
        self.chosen: np.ndarray | None = None
        self.v: np.ndarray | None = None
        self.factor: Any = None

    def at(self, reward: Table) -> Likelihood:
        """The likelihood of what was seen under a reward (S, A), and its gradient."""
        q = self._plan(reward)
        log_pi = equations.log_boltzmann(q, self.available, self.task.temperature)
        policy = np.exp(log_pi)
        value = float((self.share * np.where(self.available, log_pi, 0.0)).sum())
        by_q = (self.share - self.share.sum(axis=1, keepdims=True) * policy) / self.task.temperature
        # What a better next state would do: the adjoint of the fixed point.
        passed_on = self.factor.solve(
            self.task.discount * (self.backward @ by_q.ravel()), trans="T"
        )
        gradient = by_q + self._follows(policy) * passed_on[:, None]
        gradient = np.where(self.available & self.decides, gradient, 0.0)
        return Likelihood(value, gradient, q, policy)

    def sensitivity(self, directions: np.ndarray, policy: Table) -> np.ndarray:
        """How ``Q*`` at the last reward changes along directions of it, (S, A, K) like them."""
        s, a, k = directions.shape
        mu = self._follows(policy)
        by_v = self.factor.solve(np.einsum("sa,sak->sk", mu, directions))
        moved = self.task.discount * (self.model.matrix @ by_v).reshape(s, a, k)
        return np.asarray(directions + moved)

    def _follows(self, policy: Table) -> np.ndarray:
        """The policy by which the value of the next state is backed up, (S, A)."""
        if self.soft:
            return policy
        assert self.chosen is not None
        greedy = np.zeros(self.available.shape)
        greedy[np.arange(len(greedy)), self.chosen] = 1.0
        return greedy

    def _factorise(self, chain: Sparse) -> None:
        system = _linear.System(chain, self.task.discount)
        self.factor = _linear.factorise(system) if self.thin else _linear.Iterated(system)

    def _follow(self) -> None:
        """Factorise the chain of the greedy policy, whose rows are rows of the model."""
        assert self.chosen is not None
        pairs = np.arange(len(self.chosen)) * self.task.n_actions + self.chosen
        self._factorise(self.model.matrix[pairs])

    def _plan(self, reward: Table) -> np.ndarray:
        """``Q*`` of a reward; leaves the factors of the chain that it follows."""
        r = np.where(self.decides, reward, 0.0)
        # Not every policy ends, so that without a discount Howard's method may have no equation.
        if self.soft or self.task.discount == 1:
            plan = planning.solve(r, self.task, soft=self.soft, start=self.v)
            self.v, self.chosen = plan.v, plan.greedy
            self._factorise(self.model.under(self._follows(plan.policy)))
            if not self.soft:
                return plan.q
            # The factors are there: a step of Newton's takes the values to the last digit.
            q = equations.action_value_target(r, self.task.discount, 0, self.model.expect(plan.v))
            best = planning.soft_value(q, self.available, self.task.temperature)
            v = plan.v + self.factor.solve(np.where(self.decides[:, 0], best, 0.0) - plan.v)
            q = equations.action_value_target(r, self.task.discount, 0, self.model.expect(v))
            return np.asarray(np.where(self.available, q, -np.inf))
        # Howard's policy iteration: exact, and most rewards keep the policy of the last one.
        rows = np.arange(len(r))
        if self.chosen is None:
            self.chosen = np.where(self.available, r, -np.inf).argmax(axis=1)
            self._follow()
        for _ in range(LONGEST):
            v = self.factor.solve(r[rows, self.chosen])
            q = equations.action_value_target(r, self.task.discount, 0, self.model.expect(v))
            best = equations.value(q, self.available)
            better = best > q[rows, self.chosen] + STEADY * max(1.0, float(np.abs(best).max()))
            if not better.any():
                break
            greedy = np.where(self.available, q, -np.inf).argmax(axis=1)
            self.chosen = np.where(better, greedy, self.chosen)
            self._follow()
        return np.asarray(np.where(self.available, q, -np.inf))


def score(
    demonstrator: Demonstrator, phi: np.ndarray, start: np.ndarray, ridge: np.ndarray, rounds: int
) -> tuple[np.ndarray, int]:
    r"""The weights of features (S, A, K) that make what was seen most likely, by Fisher scoring.

    Each round is a least-squares problem with new weights: how far every pair should move, in units
    of what its visits can tell. With ``J`` the sensitivity of ``Q*`` and ``W`` the covariance of
    actions under the present policy times the visits,

    .. math:: (J^\top W J / T^2 + \rho)\, \delta = J^\top (n - N \pi) / T - \rho w

    Returns the weights and the number of rounds; a round that does not improve is the last.
    """
    prior = ridge / max(demonstrator.seen, np.finfo(float).tiny)

    def objective(w: np.ndarray) -> tuple[float, Likelihood]:
        here = demonstrator.at(phi @ w)
        return here.value - 0.5 * float(prior @ w**2), here

    zero = np.zeros_like(start)
    w = max((zero, start), key=lambda w: objective(w)[0])
    best, here = objective(w)
    longest = 1.0
    for done in range(1, rounds + 1):
        information = fisher(demonstrator, phi, here.policy)
        slope = np.tensordot(here.gradient, phi, axes=2) - prior * w
        # Without a prior what nothing was seen of would have no equation.
        held = information + np.diag(prior + 1e-12 * max(1.0, information.max(initial=0.0)))
        step = np.linalg.solve(held, slope)
        for tried in longest * 0.5 ** np.arange(12):
            value, there = objective(w + tried * step)
            if value > best:
                break
        else:
            return w, done
        gained, best, here, w = value - best, value, there, w + tried * step
        # Along an edge of the likelihood one step after the other must be short.
        longest = min(1.0, 2 * tried)
        if gained <= 1e-9 * max(1.0, abs(best)):
            return w, done
    return w, rounds


def fisher(demonstrator: Demonstrator, phi: np.ndarray, policy: Table) -> np.ndarray:
    """What a visit tells on average of the weights at the last reward, (K, K)."""
    jacobian = demonstrator.sensitivity(phi, policy)
    mean = np.einsum("sa,sak->sk", policy, jacobian)
    around = (jacobian - mean[:, None]).reshape(-1, phi.shape[2])
    weight = demonstrator.share.sum(axis=1, keepdims=True) * policy
    return np.asarray(
        (around * weight.reshape(-1, 1)).T @ around / demonstrator.task.temperature**2
    )


def blind(demonstrator: Demonstrator, phi: np.ndarray, w: np.ndarray, negligible: float) -> int:
    """How many directions of the weights no visit tells anything of."""
    information = fisher(demonstrator, phi, demonstrator.at(phi @ w).policy)
    size = np.sqrt(np.diag(information))
    told = size > 1e-12 * max(1.0, float(size.max(initial=0.0)))
    scaled = information[np.ix_(told, told)] / np.outer(size[told], size[told])
    weak = np.linalg.eigvalsh(scaled) < negligible if told.any() else np.zeros(0, bool)
    return int((~told).sum() + weak.sum())
