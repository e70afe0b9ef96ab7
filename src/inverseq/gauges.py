r"""The gauge: which of the many rewards that explain a policy.

Every reward that explains a policy exactly is, for some function ``h`` of the state,

.. math:: Q(s, a) = l(s, a) + h(s), \qquad r(s, a) = Q(s, a) - \gamma E[m(s') + h(s')]

with ``l`` the log-probabilities (times the temperature) and ``m(s)`` their maximum: rewards differ
by potential-based shaping and nothing in the demonstrations tells them apart. The gauge chooses.

Exact gauges (``Uniform``, ``Reference``, ``Zero``) reproduce the policy, whatever it is, and all
lead to the same policy under constraints. Projected gauges (``StateOnly``, ``Features``) look for a
reward of a given family; only these can be carried to other dynamics or another discount.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from inverseq import _linear, equations, likelihood, planning
from inverseq._checks import ROW_SUM_TOLERANCE, as_array, as_number, check_choice, check_stopping
from inverseq._progress import track
from inverseq.errors import InvalidInput, NotConverged, NotIdentified
from inverseq.shapes import MaskTable, Sparse, Table
from inverseq.task import Task

Backup = Literal["max", "soft", "max_of_mean"]
Solver = Literal["auto", "direct", "bicgstab", "amg", "sweeps", "backward"]


@dataclass(frozen=True)
class Uniform:
    """The paper's gauge: in every state the rewards of the available actions have mean zero.

    >>> Uniform()
    Uniform()
    """


@dataclass(frozen=True, eq=False)
class Reference:
    """In every state a reference policy earns a known reward: ``sum_a mu(a|s) r(s, a) = g(s)``.

    >>> Reference(0, value=1.0)  # action 0 is the anchor: it earns 1 everywhere
    Reference(policy=0, value=1.0)
    """

    policy: np.ndarray | int
    """The reference policy (S, A), or the number of the action that is the anchor."""
    value: np.ndarray | float = 0.0
    """What it earns: a number, or one for each state."""

    def table(self, available: MaskTable) -> np.ndarray:
        """The reference policy, (S, A)."""
        n_states, n_actions = available.shape
        mu = as_array(self.policy, "Reference.policy")
        if mu.ndim == 0 and mu.dtype.kind in "iu":
            if not 0 <= mu < n_actions:
                raise InvalidInput(
                    f"`Reference.policy` must be an action from 0 to {n_actions - 1} or a table of "
                    f"probabilities; got {int(mu)}."
                )
            mu = np.eye(n_actions)[np.full(n_states, mu)]
        mu = mu.astype(float)
        if mu.shape != available.shape:
            raise InvalidInput(
                f"`Reference.policy` must have shape {available.shape}; it has {mu.shape}."
            )
        bad = ~(mu >= 0).all(axis=1) | ~(np.abs(mu.sum(axis=1) - 1) <= ROW_SUM_TOLERANCE)
        bad |= ((mu > 0) & ~available).any(axis=1)
        if bad.any():
            s = int(np.flatnonzero(bad)[0])
            raise InvalidInput(
                f"`Reference.policy` must be a distribution over the available actions of every "
                f"state; that of state {s} is {mu[s].tolist()}, available are "
                f"{np.flatnonzero(available[s]).tolist()}."
            )
        return mu

    def earned(self, n_states: int) -> np.ndarray:
        """What the reference policy earns, (S,)."""
        g = as_array(self.value, "Reference.value").astype(float)
        if g.shape not in ((), (n_states,)) or not np.isfinite(g).all():
            raise InvalidInput(
                f"`Reference.value` must be finite, a number or one for each of {n_states} states; "
                f"it has shape {g.shape}."
            )
        return np.broadcast_to(g, (n_states,))

    def __repr__(self) -> str:
        shown = [
            x if np.ndim(x) == 0 else f"table {np.shape(x)}" for x in (self.policy, self.value)
        ]
        return "Reference(policy={}, value={})".format(*shown)


@dataclass(frozen=True)
class Zero:
    """No potential at all, ``h = 0``: nothing to solve, ``r = l - gamma max l(s')`` per transition.

    >>> Zero()
    Zero()
    """


@dataclass(frozen=True)
class StateOnly:
    """The reward depends on the state alone, ``r(s, a) = r(s)``; it is centred to mean zero.

    For a policy that is Boltzmann over the optimal values of such a reward this is the true reward,
    up to what ``info.unidentified_dimensions`` counts (as a rule one: a constant, unless episodes
    end with another probability in one state than in another).

    >>> StateOnly()
    StateOnly()
    """


@dataclass(frozen=True, eq=False)
class Features:
    """The reward is linear in features, ``r(s, a) = phi . w``.

    From demonstrations, least squares is only where the search for ``w`` begins: rounds of weighted
    least squares follow, until the demonstrations are most likely. Pairs that were never visited
    say nothing, and a prior keeps few demonstrations from saying too much.

    >>> import numpy as np
    >>> Features(np.eye(3))
    Features(phi of shape (3, 3))
    """

    phi: np.ndarray
    """The features: (S, K) of a state, or (S, A, K) of a pair."""
    ridge: float | None = None
    """The strength of the prior on the weights (Gaussian, mean zero, of features scaled to a root
    mean square of 1), for demonstrations. ``None`` chooses by the likelihood of episodes held out;
    0 is none."""

    def __post_init__(self) -> None:
        if self.ridge is not None and not 0 <= as_number(self.ridge) < np.inf:
            raise InvalidInput(
                f"`Features.ridge` must be finite and not negative, or None; got {self.ridge!r}."
            )

    def __repr__(self) -> str:
        ridge = "" if self.ridge is None else f", ridge={self.ridge:g}"
        return f"Features(phi of shape {np.shape(self.phi)}{ridge})"


Gauge: TypeAlias = Uniform | Reference | Zero | StateOnly | Features
EXACT = (Uniform, Reference, Zero)


class Recovery(NamedTuple):
    """The reward of a gauge and what it was computed by."""

    reward: np.ndarray
    q: np.ndarray
    safe: np.ndarray | None
    """The viable actions, where the task has constraints."""
    q_constrained: np.ndarray | None
    solver: str
    iterations: int
    residual: float
    """Exact gauges: the largest amount by which their linear equations are missed. Projected ones:
    by how much the family misses the policy, root mean square over the (weighted) pairs."""
    converged: bool
    unidentified_dimensions: int | None = None
    """Projected gauges: how many directions of the reward nothing in the policy determines, where
    it can be counted."""
    change: tuple[float, ...] = ()
    """Sweeps: the largest change of the reward in each."""


def recover(
    log_pi: Table,
    task: Task,
    gauge: Gauge,
    *,
    backup: Backup = "max",
    solver: Solver = "auto",
    tolerance: float = 1e-10,
    max_iterations: int = 100_000,
    weights: np.ndarray | None = None,
    visited: np.ndarray | None = None,
    progress: bool | None = None,
) -> Recovery:
    """The reward, in a gauge, that explains log-probabilities (S, A), times the temperature.

    Under constraints it goes on to plan for that reward among the viable actions.
    """
    check_settings(gauge, backup, solver, tolerance, max_iterations)
    if backup == "max_of_mean" and (
        task.constraints or task.available is not None or not isinstance(gauge, EXACT)
    ):
        raise InvalidInput(
            "`backup='max_of_mean'` must be used with an exact gauge, without constraints and with "
            "every action available: the maximum of a mean is not defined otherwise. Use 'max'."
        )
    # Checked first: it is cheap, and an answer that no policy may follow helps nobody.
    safe = planning.viable(task, visited) if task.constraints else None
    available, given = task.available_table(), log_pi
    if task.terminal is not None:
        # Nothing is decided there, so that no log-probability says anything of the reward.
        log_pi = np.where(task.terminal[:, None], 0.0, log_pi)
    if isinstance(gauge, EXACT):
        if solver == "backward":
            found = backward(log_pi, task, gauge, backup)
        elif solver == "sweeps":
            found = sweeps(log_pi, task, gauge, backup, tolerance, max_iterations, progress)
        else:
            found = exact(log_pi, task, gauge, backup, solver, tolerance)
    else:
        if solver not in ("auto", "direct"):
            raise InvalidInput(
                f"`solver` must be 'auto' or 'direct' for {gauge!r}, which is a least-squares "
                f"problem; got {solver!r}."
            )
        found = projected(log_pi, task, gauge, backup, solver, weights)
    if task.terminal is not None:
        shown = planning.worth_nothing(given, available, task.temperature, backup == "soft")
        found = found._replace(q=np.where(task.terminal[:, None], shown, found.q))
    return found if safe is None else restricted(found, task, safe, backup)


def restricted(found: Recovery, task: Task, safe: MaskTable, backup: Backup) -> Recovery:
    """The same reward, and the values of the best way on among the viable actions."""
    available = task.available_table()
    if np.array_equal(safe, available):
        return found._replace(safe=safe, q_constrained=found.q)
    # Shaping moves these values along with the reward, and the plan with them. From 0 it would not
    # be so at a discount of 1, where Bellman's equation has more than one solution.
    soft = backup == "soft"
    v = planning.state_value(found.q, available, task.temperature, soft)
    plan = planning.solve(found.reward, task, soft=soft, safe=safe, start=v)
    q = plan.q if task.terminal is None else np.where(task.terminal[:, None], found.q, plan.q)
    converged = found.converged and plan.converged
    return found._replace(safe=safe, q_constrained=q, converged=converged)


def planned(
    reward: Table,
    task: Task,
    safe: np.ndarray | None,
    backup: Backup,
    *,
    solver: str,
    changes: list[float],
    residual: float,
    converged: bool,
) -> Recovery:
    """A reward that was found by climbing, with its forward solution, also under constraints."""
    pays = task.available_table()
    if task.terminal is not None:
        pays = pays & ~task.terminal[:, None]
    reward = np.where(pays, reward, 0.0)
    plan = planning.solve(reward, task.unconstrained(), soft=backup == "soft")
    found = Recovery(
        reward, plan.q, None, None, solver, len(changes), residual,
        converged and plan.converged, None, tuple(changes),
    )  # fmt: skip
    return found if safe is None else restricted(found, task, safe, backup)


def check_settings(
    gauge: Any, backup: Any, solver: Any, tolerance: Any, max_iterations: Any
) -> None:
    """Raise unless there are such a gauge, backup and solver, and the solver can end."""
    if not isinstance(gauge, get_args(Gauge)):
        raise InvalidInput(
            f"`gauge` must be Uniform(), Reference(...), Zero(), StateOnly() or Features(...); got "
            f"{gauge!r}."
        )
    check_choice(backup, get_args(Backup), "backup")
    check_choice(solver, get_args(Solver), "solver")
    check_stopping(tolerance, max_iterations)


# -- exact gauges ------------------------------------------------------------------------------


def reference(gauge: Gauge, task: Task) -> tuple[np.ndarray, np.ndarray]:
    """The policy ``mu`` and the reward ``g`` that it earns, by which a gauge fixes ``h``."""
    available = task.available_table()
    if isinstance(gauge, Reference):
        g = gauge.earned(len(available))
        return gauge.table(available), g if task.terminal is None else np.where(task.terminal, 0, g)
    return task.uniform, np.zeros(len(available))


def exact(
    log_pi: Table, task: Task, gauge: Gauge, backup: Backup, solver: Any, tolerance: float
) -> Recovery:
    r"""One linear solve for ``h``, then Bellman's equation read backward for the reward.

    .. math:: (I - \gamma P_\mu) h = g - \mu \cdot l + \gamma P_\mu m
    """
    model, gamma, available = task.continuing, task.discount, task.available_table()
    log_pi = np.where(available, log_pi, 0.0)
    # What the best next action is worth beyond h(s'), expected: E[m(s')].
    beyond = follow(log_pi, task, backup)
    if isinstance(gauge, Zero):
        h, solved = np.zeros(model.n_states), None
    else:
        mu, g = reference(gauge, task)
        own = not isinstance(gauge, Reference)
        chain, kept = (task.uniform_chain, task.kept) if own else (model.under(mu), None)
        planning.check_ending(chain, task, f"the reference policy of {gauge!r}")
        b = g + (mu * (gamma * beyond - log_pi)).sum(axis=1)
        solved = _linear.solve(chain, gamma, b, solver, tolerance, kept)
        planning.warn_unless(solved, "IAVI")
        h = solved.x
    q = np.where(available, log_pi + h[:, None], -np.inf)
    shifted = equations.shifted_target(gamma, 0, beyond + model.expect(h))
    reward = np.where(available, log_pi + h[:, None] - shifted, 0.0)
    if solved is None:
        return Recovery(reward, q, None, None, "none", 0, 0.0, True)
    return Recovery(
        reward, q, None, None, solved.solver, solved.iterations, solved.residual, solved.converged
    )


def follow(q: Table, task: Task, backup: Backup) -> np.ndarray:
    """What follows each pair, (S, A): the expected value of the next state, under a backup."""
    model, available = task.continuing, task.available_table()
    if backup != "max_of_mean":
        v = planning.state_value(q, available, task.temperature, backup == "soft")
        return model.expect(v)
    each = [model.expect(column) for column in np.ascontiguousarray(q.T)]
    return np.asarray(np.max(each, axis=0))


def step(
    log_pi: Table, shifted: Table, mu: Table, g: np.ndarray, available: MaskTable
) -> tuple[np.ndarray, np.ndarray]:
    """The paper's update of a state (or many): reward and action values from what follows."""
    eta = equations.advantage(log_pi, shifted)
    reward = equations.closed_form_reward(eta, available)
    # Zero for the paper's gauge, whose reward has this mean already.
    reward = np.where(available, reward + (g - (mu * reward).sum(axis=1))[:, None], 0.0)
    return reward, np.where(available, reward + shifted, 0.0)


def sweeps(
    log_pi: Table,
    task: Task,
    gauge: Gauge,
    backup: Backup,
    tolerance: float,
    max_iterations: int,
    progress: bool | None,
) -> Recovery:
    """The paper's procedure: every state again and again, until nothing moves."""
    if isinstance(gauge, Zero):
        return exact(log_pi, task, gauge, backup, "auto", tolerance)
    available = task.available_table()
    log_pi = np.where(available, log_pi, 0.0)
    mu, g = reference(gauge, task)
    reward, q = np.zeros_like(log_pi), np.zeros_like(log_pi)
    changes: list[float] = []
    moved = np.inf
    for _ in track(range(max_iterations), "IAVI sweeps", progress):
        shifted = task.discount * follow(q, task, backup)
        before = reward, q
        reward, q = step(log_pi, shifted, mu, g, available)
        changes.append(float(np.abs(reward - before[0]).max()))
        # A reward may stand still while the values rise alike in all states.
        moved = max(changes[-1], float(np.abs(q - before[1]).max()))
        if moved < tolerance:
            break
    # One more backup shows by how much the equations are still missed.
    after = step(log_pi, task.discount * follow(q, task, backup), mu, g, available)
    residual = float(max(np.abs(after[0] - reward).max(), np.abs(after[1] - q).max()))
    converged = moved < tolerance
    if not converged:
        warnings.warn(
            f"`IAVI(solver='sweeps')` stopped after {len(changes)} sweeps while rewards or values "
            f"still changed by {moved:.2g}; raise `max_iterations` or "
            f"`tolerance`, or use `solver='auto'`, which needs no sweeps.",
            NotConverged,
            stacklevel=2,
        )
    q = np.where(available, q, -np.inf)
    return Recovery(
        reward, q, None, None, "sweeps", len(changes), residual, converged, None, tuple(changes)
    )


def backward(log_pi: Table, task: Task, gauge: Gauge, backup: Backup) -> Recovery:
    """One pass from the ends to the beginnings, each state once, for models without cycles."""
    model, available = task.continuing, task.available_table()
    levels = planning.by_levels(task)
    if isinstance(gauge, Zero):
        return exact(log_pi, task, gauge, backup, "auto", 0.0)._replace(solver="backward")
    if backup == "max_of_mean":
        raise InvalidInput("`solver='backward'` must be used with `backup` 'max' or 'soft'.")
    log_pi = np.where(available, log_pi, 0.0)
    mu, g = reference(gauge, task)
    reward, q, v = np.zeros_like(log_pi), np.zeros_like(log_pi), np.zeros(model.n_states)
    a = task.n_actions
    for level in levels:
        rows = (level[:, None] * a + np.arange(a)).ravel()
        shifted = task.discount * (model.matrix[rows] @ v).reshape(len(level), a)
        reward[level], q[level] = step(
            log_pi[level], shifted, mu[level], g[level], available[level]
        )
        v[level] = planning.state_value(
            q[level], available[level], task.temperature, backup == "soft"
        )
    after, _ = step(log_pi, task.discount * model.expect(v), mu, g, available)
    residual = float(np.abs(after - reward).max())
    q = np.where(available, q, -np.inf)
    return Recovery(reward, q, None, None, "backward", len(levels), residual, True)


# -- projected gauges --------------------------------------------------------------------------


def projected(
    log_pi: Table,
    task: Task,
    gauge: Gauge,
    backup: Backup,
    solver: Solver,
    weights: np.ndarray | None,
) -> Recovery:
    r"""Least squares for ``h`` and ``w`` together, then the forward solution of the reward.

    .. math:: l(s, a) + h(s) - \gamma E[m(s') + h(s')] \approx \phi(s, a) \cdot w
    """
    import scipy.sparse as sp

    model, gamma, available = task.continuing, task.discount, task.available_table()
    n_states, n_actions = available.shape
    log_pi, seen = np.where(available, log_pi, 0.0), weights
    weights = available.astype(float) if weights is None else np.where(available, weights, 0.0)
    if task.terminal is not None:
        weights = np.where(task.terminal[:, None], 0.0, weights)
    if not weights.any():
        # Only ends were seen, and nothing was decided there: every pair says as little.
        decides = True if task.terminal is None else ~task.terminal[:, None]
        weights = (available & decides).astype(float)
    phi = feature_matrix(gauge, n_states, n_actions)
    each_state = sp.kron(sp.eye_array(n_states), np.ones((n_actions, 1)), format="csr")
    # The unknowns are h, then w; what no weighted pair speaks of is left out (and stays 0).
    rows = sp.hstack([each_state - gamma * model.matrix, -phi], format="csr")
    goal = (gamma * follow(log_pi, task, backup) - log_pi).ravel()
    root = np.sqrt(weights.ravel() / weights.mean())
    scaled = sp.csr_array(rows.multiply(root[:, None]))
    size = np.sqrt(np.asarray(scaled.multiply(scaled).sum(axis=0)).ravel())
    used = np.flatnonzero(size > 0)
    scaled = sp.csr_array(scaled[:, used].multiply(1 / size[used]))
    thin = solver == "direct" or _linear.thin(task.uniform_chain)
    least = LeastSquares(scaled, thin)
    dimensions = least.unidentified()
    z = np.zeros(rows.shape[1])
    z[used] = least.solve(root * goal) / size[used]
    w = z[n_states:]

    missed = root * (rows @ z - goal)
    residual = float(np.sqrt((missed**2).sum() / (root**2).sum()))
    # What raising every potential by 1 does to the rewards, and the weights that do the same.
    raised = rows[:, :n_states] @ np.ones(n_states)
    states = used < n_states
    shift = np.zeros(len(w))
    shift[used[~states] - n_states] = (
        LeastSquares(scaled[:, ~states], thin).solve(-root * raised) / size[used[~states]]
    )
    direction = np.concatenate([np.ones(n_states), shift])[used] * size[used]
    constant = least.maps_to_zero(direction)
    if constant and isinstance(gauge, StateOnly):
        known = used[~states] - n_states
        # A constant, where all states go on with the same probability; 0 where nothing is
        # discounted and no known state ends.
        mean = shift[known].mean()
        w -= shift * (w[known].mean() / mean if mean > 1e-8 else 0.0)
    rounds = least.rounds
    if isinstance(gauge, Features) and seen is not None and len(w) <= MOST_FEATURES:
        w, more, dimensions = likeliest(seen, log_pi, task, phi, w, gauge.ridge or 0.0, backup)
        rounds += more
    if dimensions is not None and dimensions > constant:
        warnings.warn(
            f"The reward in the gauge {gauge!r} is not identified: {dimensions} directions of it "
            f"leave the policy unchanged, and the one returned is any of them. Add an anchor with "
            f"`Reference`, or fewer features.",
            NotIdentified,
            stacklevel=3,
        )
    elif constant and np.ptp(raised[root > 0]) > 2 * ROW_SUM_TOLERANCE:
        warnings.warn(
            f"The reward in the gauge {gauge!r} is not identified up to a constant: episodes end "
            f"with another probability in one state than in another, so that any multiple of 1 "
            f"minus the discounted probability of going on ({raised[root > 0].min():.3g} to "
            f"{raised[root > 0].max():.3g}) can be added to the rewards of the states and leave "
            f"the policy unchanged. Add an anchor with `Reference`.",
            NotIdentified,
            stacklevel=3,
        )
    reward = np.where(available, (phi @ w).reshape(n_states, n_actions), 0.0)
    plan = planning.solve(reward, task.unconstrained(), soft=backup == "soft")
    q = np.where(available, plan.q, -np.inf)
    converged = least.converged and plan.converged
    return Recovery(reward, q, None, None, "least squares", rounds, residual, converged, dimensions)


MOST_FEATURES = 2_000
"""Beyond this many the least-squares answer is not refined: its rounds would need dense matrices of
pairs by features."""
LONGEST = 50
"""Rounds of reweighting at most; a dozen suffice."""
LONGEST_LSMR = 5_000
"""Iterations of LSMR at most; a random graph of 20,000 states takes some hundred."""


def likeliest(
    seen: Table,
    log_pi: Table,
    task: Task,
    phi: Sparse,
    w: np.ndarray,
    ridge: float,
    backup: Backup,
) -> tuple[np.ndarray, int, int]:
    """The weights under which a policy is most likely where it was seen, from a first guess.

    Also the number of rounds, and how many directions of the weights change no likelihood.
    """
    available = task.available_table()
    policy = np.where(available, np.exp(log_pi / task.temperature), 0.0)
    who = likelihood.Demonstrator(
        seen.sum(axis=1, keepdims=True) * policy, task, soft=backup == "soft"
    )
    dense = phi.toarray().reshape(*available.shape, -1)
    scale = (dense**2).mean(axis=(0, 1))
    w, rounds = likelihood.score(who, dense, w, ridge * scale, LONGEST)
    return w, rounds, likelihood.blind(who, dense, w, LeastSquares.negligible)


class LeastSquares:
    """Sparse least squares whose matrix, of columns of length 1, may map directions to zero.

    Where the graph is thin, the normal equations are damped a little, factorised once, and refined
    on the true residual until the damping no longer shows: what is determined converges at a rate
    of damping to squared singular value, and what is not stays 0. Where it is wide the factors
    would be dense, but LSMR converges in some hundred iterations, to the same solution.
    """

    damping = 1e-9
    negligible = 4.6e-8
    """The square of a singular value below which nothing is determined."""

    def __init__(self, matrix: Sparse, thin: bool) -> None:
        import scipy.sparse as sp

        self.matrix, self.thin, self.rounds, self.converged = matrix, thin, 0, True
        if not thin:
            return
        self.transposed = sp.csr_array(matrix.T)
        self.normal = sp.csr_array(self.transposed @ matrix)

    def shifted(self, shift: float) -> Any:
        """The factors of the normal matrix with a number added to its diagonal."""
        import scipy.sparse as sp

        return _linear.sparse_factors(self.normal + shift * sp.eye_array(self.normal.shape[0]))

    def solve(self, goal: np.ndarray, rounds: int = 60) -> np.ndarray:
        """The least-squares solution."""
        if not self.thin:
            return self._iterated(goal)
        z, factor = np.zeros(self.matrix.shape[1]), self.shifted(self.damping)
        for self.rounds in range(1, rounds + 1):
            change = factor.solve(self.transposed @ (goal - self.matrix @ z))
            z += change
            if np.abs(change).max(initial=0) <= 1e-13 * np.abs(z).max(initial=0):
                break
        return z

    def _iterated(self, goal: np.ndarray) -> np.ndarray:
        from scipy.sparse.linalg import lsmr

        z, _, self.rounds, *_ = lsmr(
            self.matrix, goal, atol=1e-14, btol=1e-14, conlim=0.0, maxiter=LONGEST_LSMR
        )
        self.converged = self.rounds < LONGEST_LSMR
        if not self.converged:
            warnings.warn(
                f"`IAVI` stopped least squares after {self.rounds} iterations of LSMR. Use "
                f"`solver='direct'` if there is memory for factors, or another gauge.",
                NotConverged,
                stacklevel=5,
            )
        return np.asarray(z)

    def unidentified(self) -> int | None:
        """How many directions the matrix maps to zero, without finding any of them.

        Factors that pivot on the diagonal have as many negative pivots as the matrix has negative
        eigenvalues (Sylvester), which are those that the shift has moved below 0. ``None`` where
        there are no factors.
        """
        if not self.thin:
            return None
        return int((self.shifted(-self.negligible).U.diagonal() < 0).sum())

    def maps_to_zero(self, z: np.ndarray) -> bool:
        """Whether a direction is one of those."""
        return bool(((self.matrix @ z) ** 2).sum() <= self.negligible * (z**2).sum())


def feature_matrix(gauge: Gauge, n_states: int, n_actions: int) -> Sparse:
    """The features of every pair as a (S * A, K) matrix."""
    import scipy.sparse as sp

    each_action = np.ones((n_actions, 1))
    if not isinstance(gauge, Features):
        return sp.kron(sp.eye_array(n_states), each_action, format="csr")
    given: Any = gauge.phi
    sparse = bool(sp.issparse(given))
    phi: Any = sp.csr_array(given) if sparse else as_array(given, "Features.phi").astype(float)
    if phi.shape[:-1] not in ((n_states,), (n_states, n_actions)) or phi.shape[-1] == 0:
        raise InvalidInput(
            f"`Features.phi` must have shape ({n_states}, K) or ({n_states}, {n_actions}, K); it "
            f"has {phi.shape}."
        )
    values = phi.data if sparse else phi
    if not np.isfinite(values).all():
        raise InvalidInput(
            f"`Features.phi` must be finite; {int((~np.isfinite(values)).sum())} entries are not."
        )
    if phi.ndim == 3:
        return sp.csr_array(phi.reshape(n_states * n_actions, -1))
    return sp.kron(sp.csr_array(phi), each_action, format="csr")
