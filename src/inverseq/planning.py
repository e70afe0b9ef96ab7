"""The forward problem, once: from a reward and a model to values, policies and visits.

Everything is sparse and vectorised over states. Tolerances are on the largest residual of the
equation that is being solved, relative to the largest value where that exceeds 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inverseq import _linear, equations
from inverseq._checks import (
    as_array,
    as_whole,
    check_kind,
    check_rows,
    check_stopping,
    finite,
    shaped,
)
from inverseq.errors import InvalidInput, NotConverged
from inverseq.shapes import MaskTable, Sparse, Table, Vector
from inverseq.task import Task

POLISHED = 0.99
"""Beyond this discount a plan ends with one more solve for the value of its policy."""
LONGEST_NEWTON = 60
"""Steps of a planner at most; a handful is usual, and plain planning can do the rest."""
WORTH_FACTORS = 8
"""A factorisation costs as much as about so many steps with factors that are there."""


@dataclass(frozen=True, eq=False)
class Plan:
    """The solution of a decision problem whose reward is known."""

    q: Table
    """``Q(s, a)`` of the best way on under the task's constraints; also for forbidden actions, and
    minus infinity for those that are not available or lead to where there is no way out."""
    v: Vector
    """``V(s)``: 0 in terminal states, minus infinity where no viable action is left."""
    policy: Table
    """The Boltzmann policy over ``q`` among the safe actions, exactly 0 elsewhere."""
    safe: MaskTable
    """Which actions are available, keep the constraints now, and never lead where none would."""
    iterations: int
    residual: float
    """The largest change that one more backup makes to ``v``."""
    converged: bool

    @property
    def greedy(self) -> np.ndarray:
        """The best safe action of each state, (S,); -1 where there is none."""
        best = np.where(self.safe, self.q, -np.inf).argmax(axis=1)
        return np.where(self.safe.any(axis=1), best, -1)


def solve(
    reward: np.ndarray,
    task: Task,
    *,
    soft: bool = False,
    tolerance: float = 1e-11,
    max_iterations: int = 100_000,
    start: np.ndarray | None = None,
    safe: np.ndarray | None = None,
) -> Plan:
    """Plan for a reward: what a recovered reward asks for, on its own task or on another one.

    Value iteration, sped up by solving for the value of its current policy (Howard's method; with
    ``soft=True``, Newton's), so that a discount of 0.9999 costs no more than one of 0.9.

    >>> import numpy as np
    >>> stay, move = np.eye(2), np.eye(2)[::-1]
    >>> task = Task(2, 0.5, transitions=np.stack([stay, move], axis=1))
    >>> plan = solve(np.array([0.0, 1.0]), task)
    >>> plan.v, plan.greedy
    (array([1., 2.]), array([1, 0]))

    Args:
        reward: ``r(s)`` or ``r(s, a)``.
        task: The task to plan on; its constraints are obeyed.
        soft: Use the log-sum-exp of the values, at the task's temperature, in place of the maximum.
        tolerance: The residual to stop at, relative to the largest value where that exceeds 1.
        max_iterations: How many backups at most.
        start: Values (S,) to begin with, for instance those of a similar reward.
        safe: The viable actions, where they are known already.
    """
    r = reward_table(reward, task)
    check_stopping(tolerance, max_iterations)
    bellman = Bellman(task, soft, safe)
    r = bellman.counted(r)
    v = np.zeros(len(r)) if start is None else bellman.values(start)
    q, after = bellman.backup(r, v)
    residual, iterations, jump = np.inf, 0, 20

    def goal() -> float:
        return tolerance * max(1.0, float(np.abs(after).max()))

    while iterations < max_iterations:
        iterations += 1
        v = after
        if task.discount < 1 and iterations % jump == 0:
            # A jump that missed by more than the plan may would undo the backups before it.
            v = policy_value(q, r, bellman.safe, task, soft, bellman.dead, goal() / 10)
        q, after = bellman.backup(r, v)
        residual = float(np.abs(after - v).max())
        if residual <= goal():
            break
        if not np.isfinite(residual):
            break
        if iterations == jump:
            jump = 2  # one solve costs dozens of backups, but after the first few it converges
    if POLISHED < task.discount < 1 and np.isfinite(residual):
        # A residual says little of values where the discount is close to 1; a solve does.
        v = policy_value(q, r, bellman.safe, task, soft, bellman.dead, goal() / 10)
        again = bellman.backup(r, v)
        if (missed := float(np.abs(again[1] - v).max())) <= residual:
            (q, after), residual = again, missed
    converged = residual <= goal()
    if not converged:
        warnings.warn(
            f"`planning.solve` stopped with a residual of {residual:.2g} after {iterations} "
            f"backups; raise `max_iterations` or `tolerance`, or check that values are finite at "
            f"this discount.",
            NotConverged,
            stacklevel=2,
        )
    return bellman.plan(q, after, iterations, residual, converged)


class Planner:
    """Plans for one reward after another, each beginning where the last one ended.

    Values move little when a reward does, and so does the chain of the policy that they ask for.
    The planner keeps the values and the factors of an old chain, and corrects the values by
    modified Newton steps, ``v += (I - discount * P_old)^-1 (T v - v)``, which cost about as much as
    a backup. Only where the old factors have become poor is the chain of today's policy factorised.
    With the hard maximum the same is Howard's method. An answer misses Bellman's equation by no
    more than `planning.solve` may; what cannot be had in this way is left to it.

    >>> import numpy as np
    >>> stay, move = np.eye(2), np.eye(2)[::-1]
    >>> task = Task(2, 0.5, transitions=np.stack([stay, move], axis=1))
    >>> planner = Planner(task, soft=False)
    >>> planner.solve(np.array([0.0, 1.0])).v, planner.solve(np.array([0.0, 1.1])).v
    (array([1., 2.]), array([1.1, 2.2]))
    """

    def __init__(
        self,
        task: Task,
        *,
        soft: bool = True,
        tolerance: float = 1e-9,
        safe: np.ndarray | None = None,
    ) -> None:
        """For a task and its constraints; the arguments are those of `planning.solve`."""
        check_kind(task, Task, "task")
        check_stopping(tolerance)
        self.task, self.soft, self.tolerance = task, soft, tolerance
        self.bellman = Bellman(task, soft, safe)
        self.v = np.zeros(task.continuing.n_states)
        self.factor: Any = None
        self.factored = 0
        """How many chains have been factorised."""
        # At a discount of 1 Bellman's equation may have several solutions, and where the graph is
        # wide factors cost more than they save: there plain planning goes on from the last values.
        self.newton = task.discount < 1 and _linear.thin(task.uniform_chain)

    def solve(self, reward: np.ndarray) -> Plan:
        """The plan for a reward, ``r(s)`` or ``r(s, a)``."""
        r = self.bellman.counted(reward_table(reward, self.task))
        plan = self._newton(r) if self.newton else None
        if plan is None:
            begin = self.v if self.task.discount < 1 else None
            plan = solve(
                r, self.task, soft=self.soft, tolerance=self.tolerance, start=begin,
                safe=self.bellman.safe,
            )  # fmt: skip
        if plan.converged:
            self.v = np.where(self.bellman.dead, 0.0, plan.v)
        return plan

    def _newton(self, r: Table) -> Plan | None:
        v, fresh = self.v, False
        q, after = self.bellman.backup(r, v)
        residual = float(np.abs(after - v).max())
        for iteration in range(1, LONGEST_NEWTON):
            goal = self.tolerance * max(1.0, float(np.abs(after).max()))
            if residual <= goal:
                return self.bellman.plan(q, after, iteration, residual, True)
            if self.factor is None:
                try:
                    self.factor, fresh = self._factorise(q), True
                except (RuntimeError, MemoryError):  # singular, or the factors do not fit
                    return None
            ahead = v + self.factor.solve(after - v)
            q_ahead, after_ahead = self.bellman.backup(r, ahead)
            left = float(np.abs(after_ahead - ahead).max())
            if not np.isfinite(left):
                if fresh:
                    return None
                self.factor = None
                continue
            shrunk = left / residual
            if shrunk < 1 or fresh:
                v, q, after, residual = ahead, q_ahead, after_ahead, left
            # Steps at this pace that would cost more than factors that make the next ones short.
            if shrunk >= 1 or residual * shrunk**WORTH_FACTORS > goal:
                self.factor = None
            fresh = False
        return None

    def _factorise(self, q: Table) -> Any:
        self.factored += 1
        policy = self.bellman.policy(q)
        chain = self.task.continuing.under(policy)
        return _linear.factorise(_linear.System(chain, self.task.discount))


class Bellman:
    """Bellman's equation on a task, with the hard or the soft maximum over what is viable."""

    def __init__(self, task: Task, soft: bool, safe: np.ndarray | None = None) -> None:
        self.task, self.soft, self.model = task, soft, task.continuing
        shape = (self.model.n_states, task.n_actions)
        self.safe = viable(task) if safe is None else shaped(safe, shape, "safe", bool)
        n = self.model.n_states
        self.ended = np.zeros(n, bool) if task.terminal is None else task.terminal
        self.dead = np.asarray(~self.safe.any(axis=1))
        self.idle = self.dead | self.ended
        """Where nothing is decided, so that values are 0 while planning goes on."""

    def counted(self, r: Table) -> np.ndarray:
        """A reward as it counts: nothing is earned in terminal states."""
        return np.where(self.ended[:, None], 0.0, r) if self.ended.any() else r

    def values(self, start: np.ndarray) -> np.ndarray:
        """Values to begin with."""
        # Plans say minus infinity of states with no way out; one of another task may do so here.
        given = shaped(start, self.idle.shape, "start")
        v = np.where(self.idle | np.isneginf(given), 0.0, given)
        finite(v, "start")
        return v

    def backup(self, r: Table, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The action values that follow from values, and the values that follow from those."""
        q = equations.action_value_target(r, self.task.discount, 0, self.model.expect(v))
        best = state_value(q, self.safe, self.task.temperature, self.soft)
        return q, np.where(self.idle, 0.0, best) if self.idle.any() else best

    def policy(self, q: Table) -> np.ndarray:
        """The policy whose value the next step of Howard's or Newton's method is."""
        return improved(q, self.safe, self.task.temperature, self.soft, self.dead)[0]

    def plan(
        self, q: Table, v: np.ndarray, iterations: int, residual: float, converged: bool
    ) -> Plan:
        """The values as a plan: minus infinity where there is no way out."""
        v = np.where(self.dead, -np.inf, v)
        if self.dead.any():
            q = np.where(self.model.expect(self.dead.astype(float)) > 0, -np.inf, q)
        q = np.where(self.task.available_table(), q, -np.inf)
        policy = np.exp(equations.log_boltzmann(q, self.safe, self.task.temperature))
        return Plan(q, v, policy, self.safe, iterations, residual, converged)


def evaluate_policy(
    policy: Any, reward: Any, task: Task, *, tolerance: float = 1e-10
) -> np.ndarray:
    """The value (S,) of following a policy (S, A) under a reward: one linear solve.

    Minus infinity in a state without an action, as constrained policies have them where there is
    no way out; the policy may not lead there.

    >>> import numpy as np
    >>> task = Task(1, 0.5, transitions=np.ones((1, 1, 1)))
    >>> evaluate_policy(np.ones((1, 1)), np.array([3.0]), task)
    array([6.])
    """
    policy, lost = checked_policy(policy, task)
    r = reward_table(reward, task)
    check_stopping(tolerance)
    if task.terminal is not None:
        r = np.where(task.terminal[:, None], 0.0, r)
    chain = task.continuing.under(policy)
    check_ending(chain, task, "the policy")
    solved = _linear.solve(chain, task.discount, (policy * r).sum(axis=1), tolerance=tolerance)
    warn_unless(solved, "planning.evaluate_policy")
    return np.where(lost, -np.inf, solved.x)


def visitation(
    policy: Any, task: Task, *, horizon: int | None = None, tolerance: float = 1e-10
) -> np.ndarray:
    """How often each state is visited, (S,), from the task's initial distribution.

    Discounted and without end by default, so that it sums to ``1 / (1 - discount)`` where no
    episode ends; with a ``horizon``, the plain number of visits in that many steps. The visit that
    enters a terminal state counts.

    >>> import numpy as np
    >>> task = Task(1, 0.5, transitions=np.ones((1, 1, 1)))
    >>> visitation(np.ones((1, 1)), task), visitation(np.ones((1, 1)), task, horizon=3)
    (array([2.]), array([3.]))
    """
    policy, lost = checked_policy(policy, task)
    check_stopping(tolerance)
    assert task.transitions is not None  # or there had been no `continuing` to check against
    begins = np.flatnonzero(lost & (task.start() > 0))
    if begins.size and task.initial is not None:
        raise InvalidInput(
            f"`policy` must have an action where an episode begins; its row of state {begins[0]} "
            f"is all 0."
        )
    moving = policy if task.terminal is None else np.where(task.terminal[:, None], 0.0, policy)
    forward = task.transitions.under(moving).T.tocsr()
    if horizon is None:
        check_ending(task.transitions.under(moving), task, "the policy")
        solved = _linear.solve(forward, task.discount, task.start(), tolerance=tolerance)
        warn_unless(solved, "planning.visitation")
        return solved.x
    if as_whole(horizon) < 0:
        raise InvalidInput(f"`horizon` must be a number of steps from 0; got {horizon!r}.")
    now = task.start()
    visits = np.zeros_like(now)
    for _ in range(as_whole(horizon)):
        visits += now
        now = forward @ now
    return visits


def viable(task: Task, visited: np.ndarray | None = None) -> np.ndarray:
    """Which actions can be taken and still leave a safe action for ever after, bool (S, A).

    An action is also forbidden when it leads with positive probability to a state where none is
    viable. What the model does not know is taken to be harmless.

    A state without a viable action is an error if an episode can begin in it or a demonstration
    ``visited`` it (where neither is known, any state); with ``on_empty="raise"``, always.
    """
    model = task.continuing
    states = np.arange(model.n_states)
    if visited is not None:
        visited = shaped(visited, states.shape, "visited", bool)
    terminal = np.zeros(model.n_states, bool) if task.terminal is None else task.terminal
    safe = task.safe(states) if task.constraints else task.available_table().copy()
    safe[terminal] = True
    if not task.constraints:
        return safe
    dead = np.zeros(model.n_states, bool)
    while (dying := ~safe.any(axis=1) & ~dead).any():
        dead |= dying
        safe &= ~(model.expect(dying.astype(float)) > 0)
    if dead.any():
        begins = np.zeros(model.n_states, bool)
        if task.initial is not None:
            begins |= task.initial > 0
        if visited is not None:
            begins |= visited
        if (task.initial is None and visited is None) or task.on_empty == "raise":
            begins[:] = True
        if (dead & begins).any():
            raise InvalidInput(no_way_out(task, int(np.flatnonzero(dead & begins)[0])))
    return safe


def no_way_out(task: Task, state: int) -> str:
    """The message for a state whose actions are all forbidden, naming what met there."""
    here = np.array([state])
    can = task.available_table()[state]
    left = task.safe(here)[0]
    met = broken(task, state)
    if not met:
        end = dead_end(task, state)
        detail = (
            f"its {int(can.sum())} available actions keep all constraints, but may lead to states "
            f"with no way out, such as state {end}, where each breaks one of {broken(task, end)}"
        )
    else:
        detail = f"its {int(can.sum())} available actions meet the constraints {met}"
        if left.any():
            rest = np.flatnonzero(left).tolist()
            detail += f" and actions {rest}, which they allow, may lead to states with no way out"
    return (
        f"`Task.constraints` must leave a viable action in every state that an episode can reach; "
        f"state {state} has none: {detail}. Raise a threshold, make another action available, or "
        f"say with `Task(initial=...)` where episodes begin."
    )


def broken(task: Task, state: int) -> list[str]:
    """The constraints that some available action of a state breaks, by name."""
    here = np.array([state])
    can = task.available_table()[state]
    return [c.name for c in task.constraints if (can & ~c.allows(here)[0]).any()]


def dead_end(task: Task, state: int) -> int:
    """The nearest state that safe actions may lead to and in which none is left."""
    model = task.continuing
    safe = task.safe(np.arange(model.n_states))
    reached = np.arange(model.n_states) == state
    while safe[reached].any(axis=1).all():
        pairs = np.flatnonzero((reached[:, None] & safe).ravel())
        reached[model.matrix[pairs].indices] = True
    return int(np.flatnonzero(reached & ~safe.any(axis=1))[0])


# -- shared pieces -----------------------------------------------------------------------------


def soft_value(q: Table, safe: MaskTable, temperature: float) -> np.ndarray:
    """The log-sum-exp of the values of the safe actions, at a temperature."""
    # An action after the other: NumPy is slow along an axis as short as that of actions.
    columns = np.ascontiguousarray(np.where(safe, q, -np.inf).T)
    top = columns.max(axis=0)
    finite = np.isfinite(top)
    x = columns - np.where(finite, top, 0.0)
    mass = np.exp(x / temperature, where=finite, out=np.ones_like(x)).sum(axis=0)
    return np.asarray(top + temperature * np.log(mass))


def state_value(q: Table, safe: MaskTable, temperature: float, soft: bool) -> np.ndarray:
    """What the safe actions of each state are worth together, (S,): the best, or the soft value."""
    return soft_value(q, safe, temperature) if soft else np.asarray(equations.value(q, safe))


def worth_nothing(
    log_pi: Table, available: MaskTable, temperature: float, soft: bool = False
) -> np.ndarray:
    """Action values of a state whose value is 0 that still show its policy, as it was given."""
    v = state_value(log_pi, available, temperature, soft)
    return np.asarray(np.where(available, log_pi - v[:, None], -np.inf))


def policy_value(
    q: Table, r: Table, safe: MaskTable, task: Task, soft: bool, dead: np.ndarray, enough: float
) -> np.ndarray:
    """The value of the policy that ``q`` suggests: the jump of Howard's and Newton's methods.

    ``enough`` is the residual to stop at.
    """
    policy, bonus = improved(q, safe, task.temperature, soft, dead)
    gain = (policy * np.where(policy > 0, r + bonus, 0.0)).sum(axis=1)
    tolerance = enough / max(1.0, float(np.abs(gain).max()))
    return _linear.solve(task.continuing.under(policy), task.discount, gain, tolerance=tolerance).x


def improved(
    q: Table, safe: MaskTable, temperature: float, soft: bool, dead: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The policy that ``q`` suggests, and what each choice earns it beside the reward."""
    if soft:
        log_pi = equations.log_boltzmann(q, safe, temperature)
        policy = np.exp(log_pi)
        bonus = -temperature * np.where(policy > 0, log_pi, 0.0)
    else:
        policy = np.zeros_like(q)
        policy[np.arange(len(q)), np.where(safe, q, -np.inf).argmax(axis=1)] = 1.0
        bonus = np.zeros_like(q)
    policy[dead] = 0.0
    return policy, bonus


def reward_table(reward: Any, task: Task, name: str = "reward") -> np.ndarray:
    """A reward as ``r(s, a)``, checked."""
    check_kind(task, Task, "task")
    r = as_array(reward, name).astype(float)
    s, a = task.continuing.n_states, task.n_actions
    if r.shape not in ((s,), (s, a)):
        raise InvalidInput(f"`{name}` must have shape ({s},) or ({s}, {a}); it has {r.shape}.")
    possible = r if r.ndim == 1 else np.where(task.available_table(), r, 0.0)
    finite(possible, name)
    return np.broadcast_to(possible[:, None], (s, a)) if r.ndim == 1 else possible


def check_policy(policy: Any, task: Task, name: str = "policy") -> np.ndarray:
    """One distribution over available actions for every state in which something is decided."""
    table, lost = checked_policy(policy, task, name)
    if lost.any():
        raise InvalidInput(
            f"`{name}` must hold probabilities that sum to 1 in every state; the row of state "
            f"{np.flatnonzero(lost)[0]} is all 0."
        )
    return table


def checked_policy(policy: Any, task: Task, name: str = "policy") -> tuple[np.ndarray, np.ndarray]:
    """A policy, and the states in which it has no action, where it may not lead."""
    check_kind(task, Task, "task")
    shape = (task.continuing.n_states, task.n_actions)
    given = as_array(policy, name)
    if given.shape != shape:
        raise InvalidInput(f"`{name}` must have shape {shape}; it has {given.shape}.")
    table = check_rows(given, name)
    impossible = (table > 0) & ~task.available_table()
    if impossible.any():
        s, a = np.argwhere(impossible)[0]
        raise InvalidInput(
            f"`{name}` must be 0 where an action is not available; it is {table[s, a]:.6g} for "
            f"action {a} in state {s}."
        )
    lost = np.asarray(~table.any(axis=1))
    if task.terminal is not None:
        lost &= ~task.terminal
    if (
        lost.any()
        and (leads := (table > 0) & (task.continuing.expect(lost.astype(float)) > 0)).any()
    ):
        s, a = np.argwhere(leads)[0]
        raise InvalidInput(
            f"`{name}` must have an action wherever it leads; action {a} in state {s} may lead to "
            f"a state whose row is all 0."
        )
    return table, lost


def check_ending(chain: Sparse, task: Task, what: str) -> None:
    """With a discount of 1, raise unless every state reaches an end under this chain."""
    if task.discount < 1:
        return
    from inverseq.transitions import Transitions, never_ending

    n = chain.shape[0]
    stuck = never_ending(Transitions(chain, 1), np.ones((n, 1), bool))
    if task.terminal is not None:
        stuck &= ~task.terminal
    if stuck.any():
        raise InvalidInput(
            f"`Task.discount` may be 1 only where every state reaches an end under {what}; state "
            f"{np.flatnonzero(stuck)[0]} does not. Use a discount below 1."
        )


def warn_unless(solved: _linear.Solved, caller: str) -> None:
    """Warn where a linear system was not solved to its tolerance."""
    if not solved.converged:
        warnings.warn(
            f"`{caller}` reached a residual of {solved.residual:.2g} by {solved.solver}; raise "
            f"`tolerance`, or install PyAMG (`pip install 'inverseq[amg]'`) for large models.",
            NotConverged,
            stacklevel=3,
        )


def by_levels(task: Task) -> Sequence[np.ndarray]:
    """States in reverse topological order, grouped so that a group needs only earlier ones."""
    import scipy.sparse as sp

    model = task.continuing
    graph = model.under(task.available_table().astype(float))
    backward = sp.csr_array(graph.T)
    waiting = np.diff(graph.indptr)
    ready = np.flatnonzero(waiting == 0)
    levels, done = [], 0
    while ready.size:
        levels.append(ready)
        done += ready.size
        before = backward[ready].indices
        waiting = waiting - np.bincount(before, minlength=model.n_states)
        ready = np.unique(before[waiting[before] == 0])
    if done < model.n_states:
        state = int(np.flatnonzero(waiting > 0)[0])
        raise InvalidInput(
            f"`solver='backward'` must have a model without cycles; state {state} can be reached "
            f"again from itself or leads into a cycle. Use `solver='auto'`."
        )
    return levels
