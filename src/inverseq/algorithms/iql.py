"""IQL and CIQL: (Constrained) Inverse Q-learning (Kalweit et al. 2020, section 4, Algorithms 1, 3).

Each observed transition moves four tables a little: the shifted values of what follows, the reward
that makes the demonstrator's choice consistent with them, the action values of that reward, and,
on a task with constraints, action values whose next action must be safe. No model is needed. (This
is not *implicit* Q-learning, which shares the acronym.)

Equations: ``shifted_target``, ``advantage``, ``reward_target`` (or ``closed_form_reward``),
``action_value_target``, ``value``; the loop over them is `inverseq._kernels`. Needs: samples.
Departures from the paper: 7 to 10 in ``docs/departures.md``.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from inverseq import equations, planning
from inverseq._checks import as_number, as_whole, check_kind
from inverseq._progress import track
from inverseq._random import generator
from inverseq.demonstrations import Additive, Counts, Demonstrations, check_possible, named
from inverseq.errors import InvalidInput, NotConverged
from inverseq.solution import Info, Solution, Tables, assumptions, plain
from inverseq.task import Task

LONGEST_RATE_TABLE = 2**22
"""Beyond this many updates of one pair a decaying rate stays where it is."""
DIVERGED = 1e12
"""A reward that changes by this much in an epoch will not come back."""
BLOCK = 1024
"""Epochs reorder blocks of this many transitions, so that the memory is read in order."""


@dataclass(frozen=True)
class Decay:
    """A learning rate that falls with the number N of updates of a pair.

    It is ``(horizon / (horizon + N - 1)) ** power``: 1 at first, about half after ``horizon``
    updates. ``Decay(horizon=1, power=0.6)`` is the textbook's ``1 / N ** 0.6``.

    >>> Decay(horizon=1, power=0.6).table(3)
    array([1.        , 1.        , 0.65975396, 0.5172...])
    """

    horizon: float = 10.0
    """How many updates it takes to fall. The effective horizon ``1 / (1 - discount)`` is enough for
    the values themselves to converge (``centred``); policies converge with less."""
    power: float = 1.0
    """In (0.5, 1], so that the noise of samples averages out but no start is remembered."""

    def __post_init__(self) -> None:
        if not (0.5 < as_number(self.power) <= 1 and 1 <= as_number(self.horizon) < np.inf):
            raise InvalidInput(
                f"`Decay` must have a horizon of at least 1 and a power in (0.5, 1]; got horizon "
                f"{self.horizon!r} and power {self.power!r}."
            )

    def table(self, n: int) -> np.ndarray:
        """The rates of the first ``n`` updates, at indices 1 to ``n``."""
        before = np.maximum(np.arange(n + 1) - 1, 0)
        horizon = float(self.horizon)
        return np.asarray((horizon / (horizon + before)) ** self.power)


Rate = float | Decay


class State(NamedTuple):
    """What the next transition needs: the paper's tables and the counts behind two of them."""

    rho: np.ndarray
    """How often each pair was seen (its weight)."""
    q_sh: np.ndarray
    r: np.ndarray
    q: np.ndarray
    q_c: np.ndarray
    """Starts equal to ``q``, and stays so while nothing is forbidden."""
    updates: np.ndarray
    """How many updates each pair has had."""


@dataclass(frozen=True)
class IQL:
    """Tabular Inverse Q-learning; on a task with constraints, Constrained Inverse Q-learning.

    >>> import inverseq as iq
    >>> world = iq.worlds.objectworld(size=4, n_objects=4, seed=0)
    >>> seen = world.demonstrations(500, 8, seed=0)
    >>> sampled = iq.IQL(tolerance=1e-3).fit(seen, world.task)
    >>> exact = iq.IAVI().fit(seen, world.task)
    >>> bool(abs(sampled.policy_table - exact.policy_table).max() < 0.02)
    True
    """

    lr_reward: Rate = Decay()
    """The learning rate of the reward: a number, or `Decay` by visits to the pair."""
    lr_q: Rate = Decay()
    """That of the action values."""
    lr_shifted: Rate = Decay()
    """That of the shifted values."""
    lr_constrained: Rate | None = None
    """That of the constrained values; ``None`` is that of the action values."""
    epochs: int = 1000
    """How often to go through the data at most."""
    tolerance: float = 1e-4
    """The paper's criterion: stop once no reward changes by more between two epochs."""
    centred: bool = False
    """Give each state's rewards mean zero, so that reward and values converge to IAVI's too."""
    online: bool = False
    """Let the counts grow along the data, as on a stream, instead of counting first."""
    shuffle: bool = True
    """Shuffle the transitions once, and their blocks before every epoch (the first epoch of an
    ``online`` fit keeps the order of the data)."""
    smoothing: Additive = Additive(1e-3)
    """What is added to the counts of available actions before the logarithm."""

    def __post_init__(self) -> None:
        for name in ("lr_reward", "lr_q", "lr_shifted", "lr_constrained"):
            rate = getattr(self, name)
            if rate is None and name == "lr_constrained":
                continue
            if not isinstance(rate, Decay) and not 0 < as_number(rate) <= 1:
                raise InvalidInput(f"`IQL.{name}` must lie in (0, 1], or be a Decay; got {rate!r}.")
        if as_whole(self.epochs) < 1:
            raise InvalidInput(
                f"`IQL.epochs` must be an integer of at least 1; got {self.epochs!r}."
            )
        if not as_number(self.tolerance) >= 0:
            raise InvalidInput(f"`IQL.tolerance` must be a number from 0; got {self.tolerance!r}.")
        for name in ("centred", "online", "shuffle"):
            check_kind(getattr(self, name), bool, f"IQL.{name}")
        check_kind(self.smoothing, Additive, "IQL.smoothing")
        if self.smoothing.k == 0:
            raise InvalidInput(
                "`IQL.smoothing` must add something, or actions never seen have no logarithm; got "
                "Additive(k=0). The paper's is about Additive(1e-6)."
            )

    @classmethod
    def paper(cls, **changes: Any) -> IQL:
        """The paper's constants: all learning rates 1e-3, without decay.

        With constant rates the reward keeps moving by the noise of single samples, so that the
        paper's criterion is not met in practice; see departure 8.

        >>> IQL.paper().lr_q
        0.001
        """
        return replace(cls(lr_reward=1e-3, lr_q=1e-3, lr_shifted=1e-3), **changes)

    def fit(
        self,
        demonstrations: Demonstrations,
        task: Task,
        *,
        seed: int = 0,
        progress: bool | None = None,
    ) -> Solution:
        """Over a fixed data set, until the reward stands still or the epochs are used up."""
        from inverseq._kernels import fused_loop

        began = time.perf_counter()
        check_kind(demonstrations, Demonstrations, "demonstrations")
        check_kind(task, Task, "task")
        if self.online:
            demonstrations.in_order("`IQL(online=True)`")
        task = named(task, demonstrations)
        counts = demonstrations.counts(task.n_states, task.n_actions)
        known = task if task.transitions is not None else task.counted(demonstrations)
        available = known.available_table()
        check_possible(demonstrations, available)
        safe = planning.viable(known, counts.visits.sum(axis=1) > 0) if task.constraints else None

        rng = generator(seed)
        steps = Steps.of(demonstrations, task)
        longest = min(int(steps.most) * self.epochs, LONGEST_RATE_TABLE)
        rates = self._rates(longest)
        state = fresh(available.shape)
        if not self.online:
            state.rho[:] = counts.visits
        log_pi = self._log_policy(state.rho, available, task.temperature)
        changes: list[float] = []
        for epoch in track(range(self.epochs), "IQL epochs", progress):
            counting = self.online and epoch == 0
            if epoch == int(self.online):
                steps = steps.even()
                steps = steps.shuffled(rng) if self.shuffle else steps
            blocks = steps.blocks(rng if self.shuffle and not counting else None)
            before = state.r.copy()
            self._pass(fused_loop, steps, blocks, log_pi, state, rates, known, safe, counting)
            self._complete(log_pi, state, known, available)
            changes.append(float(np.abs(state.r - before).max()))
            if changes[-1] < self.tolerance:
                break
            if not changes[-1] < DIVERGED:
                raise InvalidInput(
                    f"`IQL` must have learning rates that let it settle; after {len(changes)} "
                    f"epochs the reward changes by {changes[-1]:.2g}. Use `Decay()`, smaller "
                    f"constants, or `centred=True`."
                )
        converged = changes[-1] < self.tolerance
        if not converged:
            warnings.warn(
                f"`IQL` stopped after {len(changes)} epochs while the reward still changed by "
                f"{changes[-1]:.2g}; raise `epochs` or `tolerance`"
                f"{'.' if self._decays else ', or use rates that decay: `Decay()`.'}",
                NotConverged,
                stacklevel=2,
            )
        policy = self.smoothing.policy(state.rho, available)
        info = Info(
            "IQL",
            settings=plain(self),
            gauge=self._gauge,
            solver="sampled",
            converged=converged,
            iterations=len(changes),
            residual=self._residual(state, policy, known, counts),
            change=tuple(changes),
            unvisited_states=int((counts.visits.sum(axis=1) == 0).sum()),
            seconds=time.perf_counter() - began,
            seed=seed,
        )
        return solution(state, known, safe, info)

    def partial_fit(
        self, demonstrations: Demonstrations, task: Task, previous: Solution | None = None
    ) -> Solution:
        """Go through further demonstrations once, in their order, and go on from ``previous``.

        A stream in blocks gives the same result as in one piece. The task must say how many states
        there are, and with constraints it must know its transitions. ``info.change`` has one entry
        for each block, and ``info.converged`` says whether the last one met the tolerance, which of
        a short block means little.

        >>> import inverseq as iq
        >>> world = iq.worlds.objectworld(size=4, n_objects=4, seed=0)
        >>> first, second = (world.demonstrations(50, 8, seed=seed) for seed in (0, 1))
        >>> found = iq.IQL().partial_fit(first, world.task)
        >>> found = iq.IQL().partial_fit(second, world.task, found)
        >>> int(found.tables.updates.sum())
        800
        """
        from inverseq._kernels import fused_loop

        began = time.perf_counter()
        check_kind(demonstrations, Demonstrations, "demonstrations")
        check_kind(task, Task, "task")
        demonstrations.in_order("`IQL.partial_fit`")
        task = named(task, demonstrations)
        if task.n_states is None:
            raise InvalidInput(
                "`IQL.partial_fit` must know how many states there will be; give "
                "`Task(n_states=...)`."
            )
        if task.discount == 1 and task.transitions is None and task.terminal is None:
            raise InvalidInput(
                "`Task.discount` may be 1 on a stream only where it is known that episodes end; it "
                "is 1, and the task has neither transitions nor terminal states. Give either, or "
                "use a discount below 1."
            )
        available = task.available_table()
        check_possible(demonstrations, available)
        state = fresh(available.shape) if previous is None else resumed(previous, available.shape)
        steps = Steps.of(demonstrations, task)
        seen = state.rho.sum(axis=1) > 0
        seen[steps.states] = True
        safe = planning.viable(task, seen) if task.constraints else None
        rates = self._rates(min(int(state.updates.max()) + steps.most, LONGEST_RATE_TABLE))
        log_pi = self._log_policy(state.rho, available, task.temperature)
        before = state.r.copy()
        self._pass(
            fused_loop, steps, steps.blocks(None), log_pi, state, rates, task, safe, counting=True
        )
        self._complete(log_pi, state, task, available)
        change = () if previous is None else previous.info.change
        change = (*change, float(np.abs(state.r - before).max()))
        info = Info(
            "IQL",
            settings=plain(self),
            gauge=self._gauge,
            solver="sampled",
            converged=change[-1] < self.tolerance,
            iterations=len(change),
            change=change,
            unvisited_states=int((state.rho.sum(axis=1) == 0).sum()),
            seconds=time.perf_counter() - began,
        )
        return solution(state, task, safe, info)

    # -- one pass over the data --

    def _pass(
        self,
        loop: Any,
        steps: Steps,
        blocks: np.ndarray,
        log_pi: np.ndarray,
        state: State,
        rates: dict[str, np.ndarray],
        task: Task,
        safe: np.ndarray | None,
        counting: bool,
    ) -> None:
        available = task.available_table(len(log_pi))
        loop(
            steps.states, steps.actions, steps.next_states, steps.weights, blocks, BLOCK,
            log_pi, state.rho, state.q_sh, state.r, state.q, state.q_c, state.updates,
            available, available if safe is None else safe,
            rates["lr_shifted"], rates["lr_reward"], rates["lr_q"], rates["lr_constrained"],
            task.discount, self.smoothing.k, task.temperature,
            counting, self.centred, safe is not None,
        )  # fmt: skip

    def _complete(
        self, log_pi: np.ndarray, state: State, task: Task, available: np.ndarray
    ) -> None:
        """What is known without a sample: of pairs never seen, and of states where all is over.

        No transition moves a pair that was never seen, and nothing is known to follow it: where
        others of its state were seen, its reward is what the closed form says.
        """
        # Without centring it keeps a reward of 0, on which the rewards of the others settle.
        if self.centred:
            eta = equations.advantage(log_pi, state.q_sh)
            reward = equations.closed_form_reward(eta, available)
            unseen = unseen_pairs(state.rho, available)
            for table in (state.r, state.q, state.q_c):
                table[unseen] = reward[unseen]
        if task.terminal is not None:
            state.r[task.terminal] = 0.0
            nothing = planning.worth_nothing(log_pi, available, task.temperature)
            for table in (state.q, state.q_c):
                table[task.terminal] = nothing[task.terminal]

    @property
    def _decays(self) -> bool:
        return all(isinstance(r, Decay) for r in (self.lr_reward, self.lr_q, self.lr_shifted))

    @property
    def _gauge(self) -> str:
        # Without centring the offset of a state depends on the order of its updates: departure 9.
        return "Uniform()" if self.centred else "that of its path"

    def _rates(self, longest: int) -> dict[str, np.ndarray]:
        """Each rate as a table by the number of the update."""
        given = {"lr_shifted": self.lr_shifted, "lr_reward": self.lr_reward, "lr_q": self.lr_q}
        given["lr_constrained"] = self.lr_q if self.lr_constrained is None else self.lr_constrained
        made = {
            rate: rate.table(longest) if isinstance(rate, Decay) else np.full(longest + 1, rate)
            for rate in set(given.values())
        }
        return {name: made[rate] for name, rate in given.items()}

    def _log_policy(self, rho: np.ndarray, available: np.ndarray, temperature: float) -> np.ndarray:
        # Up to a term per state, as the fused loop keeps it: see `_kernels.fused_observe`.
        return temperature * np.log(np.where(available, rho + self.smoothing.k, 1.0))

    def _residual(self, state: State, policy: np.ndarray, task: Task, counts: Counts) -> float:
        """By how much the visited pairs miss the three equations on the counted model."""
        available, model = task.available_table(), counts.transitions
        if task.terminal is not None:
            model = model.without(task.terminal)
        log_pi = task.temperature * np.log(np.where(available, policy, 1.0))
        v = equations.value(state.q, available)
        shifted = equations.shifted_target(task.discount, 0, model.expect(v))
        eta = np.where(available, equations.advantage(log_pi, state.q_sh), 0.0)
        if self.centred:
            goal = equations.closed_form_reward(eta, available)
        else:
            goal = equations.reward_target(eta, state.r, available)
        missed = np.maximum(np.abs(state.q_sh - shifted), np.abs(state.r - goal))
        missed = np.maximum(missed, np.abs(state.q - (state.r + shifted)))
        seen = counts.visits > 0
        if task.terminal is not None:
            seen &= ~task.terminal[:, None]  # nothing is decided there, whatever a log says
        return float(missed[seen].max(initial=0.0))


CIQL = IQL
"""Constrained Inverse Q-learning is `IQL` on a task with constraints."""


class Steps(NamedTuple):
    """Demonstrations as the compiled loop reads them."""

    states: np.ndarray
    actions: np.ndarray
    next_states: np.ndarray
    """-1 where the episode ended."""
    weights: np.ndarray
    """Empty where every step counts alike."""
    most: int
    """How often the most frequent pair occurs."""

    @classmethod
    def of(cls, demonstrations: Demonstrations, task: Task) -> Steps:
        """Small integers, with the ends marked; steps of weight 0 are left out."""
        d = demonstrations
        if d.weights is not None and not d.weights.all():
            d = d.select(d.weights > 0)
        ended = d.terminated
        if task.terminal is not None:
            ended = ended | task.terminal[np.where(ended, 0, d.next_states)]
        pairs = np.bincount(d.states * task.n_actions + d.actions)
        return cls(
            d.states.astype(np.int32),
            d.actions.astype(np.int32),
            np.where(ended, -1, d.next_states).astype(np.int32),
            np.zeros(0) if d.weights is None else np.asarray(d.weights),
            int(pairs.max()),
        )

    def even(self) -> Steps:
        """The same with weights of mean 1: of a fixed data set their unit must not set the pace."""
        if not len(self.weights):
            return self
        return self._replace(weights=self.weights / self.weights.mean())

    def shuffled(self, rng: np.random.Generator) -> Steps:
        """The same transitions in random order."""
        order = rng.permutation(len(self.states))
        weights = self.weights[order] if len(self.weights) else self.weights
        rows = (self.states[order], self.actions[order], self.next_states[order])
        return Steps(*rows, weights, self.most)

    def blocks(self, rng: np.random.Generator | None) -> np.ndarray:
        """Where each block of transitions begins, in random order or in that of the data."""
        starts = np.arange(0, len(self.states), BLOCK)
        return starts if rng is None else rng.permutation(starts)


def fresh(shape: tuple[int, ...]) -> State:
    """Everything zero, as the paper starts."""
    rho, q_sh, r, q, q_c = np.zeros((5, *shape))
    return State(rho, q_sh, r, q, q_c, np.zeros(shape, np.int64))


def unseen_pairs(rho: np.ndarray, available: np.ndarray) -> np.ndarray:
    """The available pairs that were never seen, in states that were."""
    return np.asarray(available & (rho == 0) & rho.any(axis=1, keepdims=True))


def resumed(previous: Solution, shape: tuple[int, ...]) -> State:
    """The state that a solution ended with, to be changed freely."""
    check_kind(previous, Solution, "previous")
    tables = previous.tables
    if tables.q_shifted is None or tables.updates is None or tables.visits is None:
        raise InvalidInput(
            f"`IQL.partial_fit` must go on from a solution of `IQL`; got one of "
            f"{previous.info.algorithm}."
        )
    if tables.q.shape != shape:
        raise InvalidInput(
            f"`IQL.partial_fit` must go on with the same states and actions; the solution has "
            f"{tables.q.shape}, the task {shape}."
        )
    # What was said of pairs never seen was not learned from samples: see `IQL._complete`.
    learned = tables.available & ~unseen_pairs(tables.visits, tables.available)
    reward, q = np.where(learned, tables.reward, 0.0), np.where(learned, tables.q, 0.0)
    q_c = q if tables.q_constrained is None else tables.q_constrained
    q_c = np.where(learned & np.isfinite(q_c), q_c, 0.0)
    kept = (tables.visits, tables.q_shifted, reward, q, q_c, tables.updates)
    return State(*(array.copy() for array in kept))


def solution(state: State, task: Task, safe: np.ndarray | None, info: Info) -> Solution:
    """The tables as a solution; what is not available or leads nowhere has no value."""
    available = task.available_table()
    q_c = None
    if safe is not None:
        # A pair that may lead to a state without a safe action has no value under constraints.
        lost = task.continuing.expect((~safe.any(axis=1)).astype(float)) > 0
        q_c = np.where(available & ~lost, state.q_c, -np.inf)
    tables = Tables(
        state.r,
        np.where(available, state.q, -np.inf),
        available,
        safe,
        q_c,
        state.rho,
        state.q_sh,
        state.updates,
    )
    info = replace(info, task=assumptions(task))
    return Solution(tables, task.temperature, info, task.labels)
