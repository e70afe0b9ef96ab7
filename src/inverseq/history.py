"""Histories: states with those before them. BackOff: the policy behind few counts of many of them.

Who remembers where it came from chooses by more than the present state. With the last few states
taken into the state the choice is one of the present again, and every algorithm for tables applies.
But most long histories are seldom seen, so that their counts lean on those of shorter ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from inverseq import equations
from inverseq._checks import as_number, as_numbers, as_whole, check_kind
from inverseq.errors import InvalidInput
from inverseq.shapes import MaskTable, Table
from inverseq.task import Constraint, Task
from inverseq.transitions import Transitions

if TYPE_CHECKING:
    from inverseq.demonstrations import Demonstrations

BEGIN, NOTHING = -1, -2
"""What stands before the first state of an episode, and before that."""
LENGTHS = (0, 1, 2, 3, 4, 5)
STRENGTHS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Among which held-out parts choose."""


@dataclass(frozen=True, eq=False, repr=False)
class Histories:
    """The histories that demonstrations show, numbered.

    The first numbers are those of the states alone, so that without history everything is as it
    was; longer histories follow. A history ends with the present state, and never reaches into
    another episode: that the episode begins there is part of it. One that was not shown has the
    number of its longest end that was.

    >>> from inverseq import Demonstrations
    >>> seen = Demonstrations.from_episodes([([0, 1, 0, 1], [0, 1, 0])])
    >>> augmented, histories = seen.with_history(1)
    >>> augmented.states
    array([2, 4, 3])
    >>> [histories.decode(i) for i in augmented.states]
    [(-1, 0), (0, 1), (1, 0)]
    >>> other = Demonstrations([0, 0], [0, 0], [0, 0], episodes=[0, 0])
    >>> histories.decode(histories.encode(other).states[1])  # (0, 0) was never shown
    (0,)
    """

    length: int
    """How many states before the present one are looked at."""
    n_states: int
    """How many states there are."""
    keys: np.ndarray
    """Each longer history, from number ``n_states`` on, as the number of the history without its
    earliest state, times ``n_states + 1``, plus that state plus 1; ascending, int64."""

    @classmethod
    def of(
        cls, demonstrations: Demonstrations, length: int, n_states: int | None = None
    ) -> Histories:
        """Those that demonstrations show, with up to ``length`` states before the present one.

        ``n_states`` is how many states there are, where it is more than the demonstrations show.
        """
        if as_whole(length) < 0:
            raise InvalidInput(
                f"`length` must be how many states before the present one are looked at, an "
                f"integer from 0; got {length!r}."
            )
        length, d = as_whole(length), demonstrations
        check_tabular(d)
        following = np.where(d.terminated, d.states, d.next_states)
        shown = int(max(d.states.max(), following.max())) + 1
        n_states = shown if n_states is None else as_whole(n_states)
        if n_states < shown:
            raise InvalidInput(
                f"`n_states` must be more than every state of the demonstrations; got {n_states}, "
                f"and they show state {shown - 1}."
            )
        symbols = before(d, length)
        after = preceded(following, symbols)[~d.terminated]
        symbols = np.concatenate([symbols, after])
        number, base, known = symbols[:, 0].copy(), n_states + 1, n_states
        keys: list[np.ndarray] = [np.empty(0, np.int64)]
        for earlier in symbols.T[1:]:
            goes_on = earlier != NOTHING
            key = number[goes_on] * base + earlier[goes_on] + 1
            new, place = np.unique(key, return_inverse=True)
            number[goes_on] = known + place
            keys.append(new)
            known += len(new)
        return cls(length, n_states, np.concatenate(keys))

    def __post_init__(self) -> None:
        keys = np.array(self.keys, dtype=np.int64)
        keys.flags.writeable = False
        object.__setattr__(self, "keys", keys)

    def __len__(self) -> int:
        return self.n_states + len(self.keys)

    @cached_property
    def shorter(self) -> np.ndarray:
        """The number of each history without its earliest state, (H,); a state's own is itself."""
        return np.concatenate([np.arange(self.n_states), self.keys // (self.n_states + 1)])

    @cached_property
    def levels(self) -> tuple[slice, ...]:
        """The numbers of the histories of each length, from the states alone on."""
        ends = [0, self.n_states]
        while ends[-1] < len(self):
            longer = np.searchsorted(self.keys, ends[-1] * (self.n_states + 1))
            ends.append(self.n_states + int(longer))
        return tuple(slice(a, b) for a, b in pairwise(ends))

    @cached_property
    def symbols(self) -> np.ndarray:
        """The states of each history, (H, length + 1), the present one first; -1 is the beginning
        of the episode, -2 what the history does not say."""
        found = np.full((len(self), self.length + 1), NOTHING)
        found[: self.n_states, 0] = np.arange(self.n_states)
        for i, level in enumerate(self.levels[1:], 1):
            found[level] = found[self.shorter[level]]
            found[level, i] = self.keys[shifted(level, -self.n_states)] % (self.n_states + 1) - 1
        return found

    @property
    def states(self) -> np.ndarray:
        """The present state of each history, (H,): ``table[histories.states]`` brings what is known
        of states to histories."""
        return np.asarray(self.symbols[:, 0])

    def decode(self, number: int) -> tuple[int, ...]:
        """The states of a history, earliest first; -1 is the beginning of the episode."""
        number = int(as_numbers([number], len(self), "number", "len(histories)")[0])
        said = self.symbols[number]
        return tuple(said[said != NOTHING][::-1].tolist())

    def find(self, states: Sequence[int]) -> int:
        """The number of a history, given earliest first as by `decode`; of its longest known end
        where it was not shown."""
        given = list(states)[: -self.length - 2 : -1]
        symbols = np.full((1, self.length + 1), NOTHING)
        symbols[0, : len(given)] = given
        as_numbers(symbols[:, 0], self.n_states, "states", "Histories.n_states")
        return int(self._find(symbols)[0])

    def encode(self, demonstrations: Demonstrations) -> Demonstrations:
        """The demonstrations with histories as states; also such as these were not made of."""
        d = demonstrations
        check_tabular(d)
        following = np.where(d.terminated, d.states, d.next_states)
        for name, given in ("states", d.states), ("next_states", following):
            as_numbers(given, self.n_states, f"Demonstrations.{name}", "Histories.n_states")
        symbols = before(d, self.length)
        after = preceded(following, symbols)
        return replace(d, states=self._find(symbols), next_states=self._find(after))

    def task(self, task: Task) -> Task:
        """The task over histories: what may be done, and what follows, depends on the state alone.

        Where the task has no model the new one has none, and an algorithm counts it.
        """
        check_kind(task, Task, "task")
        n = self.n_states
        if task.n_states not in (None, n):
            raise InvalidInput(
                f"`task` must have as many states as the histories are made of, {n}; it has "
                f"{task.n_states}."
            )
        initial = None
        if task.initial is not None:
            first = np.full((n, self.length + 1), NOTHING)
            first[:, 0] = np.arange(n)
            first[:, 1:2] = BEGIN
            initial = np.bincount(self._find(first), task.initial, len(self))
        return Task(
            task.n_actions,
            task.discount,
            n_states=len(self),
            transitions=None if task.transitions is None else self._model(task.transitions),
            available=task.available_table(n)[self.states],
            terminal=None if task.terminal is None else task.terminal[self.states],
            initial=initial,
            temperature=task.temperature,
            constraints=[self._constraint(constraint) for constraint in task.constraints],
            on_empty=task.on_empty,
        )

    def _model(self, model: Transitions) -> Transitions:
        import scipy.sparse as sp

        pairs = self.states[:, None] * model.n_actions + np.arange(model.n_actions)
        rows = model.matrix[pairs.ravel()]
        origin = np.repeat(np.arange(len(self)), model.n_actions).repeat(np.diff(rows.indptr))
        led = self._find(preceded(rows.indices, self.symbols[origin]))
        shape = (len(self) * model.n_actions, len(self))
        return Transitions(sp.csr_array((rows.data, led, rows.indptr), shape=shape), len(pairs[0]))

    def _constraint(self, constraint: Constraint) -> Constraint:
        cost, states = constraint.cost, self.states
        if not callable(cost):
            return replace(constraint, cost=cost[states])
        asked = cost
        return replace(constraint, cost=lambda numbers: asked(states[np.asarray(numbers)]))

    def _find(self, symbols: np.ndarray) -> np.ndarray:
        """The number of the longest known end of each row of states, the present one first."""
        number = symbols[:, 0].astype(np.int64)
        goes_on = np.ones(len(number), bool)
        for earlier in symbols.T[1:]:
            key = number * (self.n_states + 1) + earlier + 1
            place = np.searchsorted(self.keys, key)
            goes_on &= (earlier != NOTHING) & (place < len(self.keys))
            goes_on[goes_on] = self.keys[place[goes_on]] == key[goes_on]
            number[goes_on] = self.n_states + place[goes_on]
        return number

    def __repr__(self) -> str:
        return (
            f"Histories({len(self):,} of up to {self.length} states before the present one, of "
            f"{self.n_states} states)"
        )


@dataclass(frozen=True, eq=False)
class BackOff:
    """The demonstrator's policy from counts of histories, each leaning on the one shorter by one.

    A history is as good as ``strength`` visits of what its shorter history says; a state alone gets
    ``k`` more visits for each available action, as by `Additive`.

    >>> import inverseq as iq
    >>> walk = [0, 1, 0, 2] * 50 + [0]  # to the left and to the right by turns
    >>> seen = iq.Demonstrations.from_episodes([(walk, [0, 2, 1, 2] * 50)])
    >>> augmented, histories = seen.with_history(1)
    >>> task = histories.task(iq.Task(3, 0.9, n_states=3))
    >>> found = iq.IAVI(smoothing=BackOff(histories, strength=4.0)).fit(augmented, task)
    >>> from_left, from_right = (histories.find((arm, 0)) for arm in (1, 2))
    >>> found.predict([from_left, from_right])
    array([1, 0])
    >>> bool(abs(found.policy_table[0, :2] - 0.5).max() < 0.01)  # in the middle, from who knows
    True
    """

    histories: Histories
    """Whose counts these are."""
    strength: float = 4.0
    """How many visits of its own outweigh what the shorter history says."""
    k: float = 1.0
    """How many visits are added for each available action where nothing shorter is left."""

    def __post_init__(self) -> None:
        check_kind(self.histories, Histories, "BackOff.histories")
        for name in ("strength", "k"):
            given = getattr(self, name)
            if not 0 <= as_number(given) < np.inf:
                raise InvalidInput(
                    f"`BackOff.{name}` must be finite and not negative; got {given!r}."
                )

    @classmethod
    def chosen(
        cls,
        demonstrations: Demonstrations,
        task: Task,
        *,
        lengths: Sequence[int] = LENGTHS,
        strengths: Sequence[float] = STRENGTHS,
        folds: int = 5,
        k: float = 1.0,
    ) -> BackOff:
        """The length and strength under which parts that were held out are likeliest.

        The parts are whole units, or whole episodes where there are no units.
        """
        score = held_out(
            demonstrations, task, lengths=lengths, strengths=strengths, folds=folds, k=k
        )
        i, j = divmod(int(score.argmax()), len(strengths))
        n_states = demonstrations_states(demonstrations, task)
        return cls(Histories.of(demonstrations, lengths[i], n_states), float(strengths[j]), k)

    def policy(self, visits: Table, available: MaskTable) -> np.ndarray:
        """Probabilities (H, A) of histories, from the visits of each and of those it ends."""
        held = self.histories
        if len(visits) != len(held):
            raise InvalidInput(
                f"`BackOff` must be given the counts of its {len(held)} histories; there are "
                f"{len(visits)} rows. Count `histories.encode(demonstrations)` on "
                f"`histories.task(task)`."
            )
        rho = np.where(available, visits, 0.0)
        for level in reversed(held.levels[1:]):
            np.add.at(rho, held.shorter[level], rho[level])
        alone, *longer = held.levels
        visited = np.asarray(rho.any(axis=-1, keepdims=True))
        # As in `Additive`: with k = 0 a state without visits has no policy but the uniform one.
        counts = np.where(visited[alone], rho[alone], 1.0)
        policy = np.empty(rho.shape)
        policy[alone] = equations.count_policy(counts, self.k, available[alone])
        for level in longer:
            leans = policy[held.shorter[level]]
            # A history that was never taken further has nothing of its own to say.
            own = equations.backed_off_policy(
                np.where(visited[level], rho[level], leans), self.strength, leans
            )
            policy[level] = own
        return policy


def held_out(
    demonstrations: Demonstrations,
    task: Task,
    *,
    lengths: Sequence[int] = LENGTHS,
    strengths: Sequence[float] = STRENGTHS,
    folds: int = 5,
    k: float = 1.0,
) -> np.ndarray:
    """The mean log-likelihood of a held-out step, (lengths, strengths), in nats.

    Every fold is left out once: whole units by turns, or whole episodes where there are no units.
    """
    d = demonstrations
    check_tabular(d)
    check_kind(task, Task, "task")
    labels = d.episodes if d.units is None else d.units
    groups, member = np.unique(labels, return_inverse=True)
    if not 2 <= as_whole(folds) <= len(groups):
        raise InvalidInput(
            f"`folds` must lie from 2 to the number of units (or episodes), {len(groups)}; got "
            f"{folds!r}."
        )
    if not len(lengths) or not len(strengths):
        raise InvalidInput("`lengths` and `strengths` must each hold something to choose from.")
    n_states = demonstrations_states(d, task)
    available = task.available_table(n_states)
    total = np.zeros((len(lengths), len(strengths)))
    for fold in range(as_whole(folds)):
        tested = np.asarray(member % folds == fold)
        train, test = d.select(~tested), d.select(tested)
        for i, length in enumerate(lengths):
            histories = Histories.of(train, length, n_states)
            visits = histories.encode(train).counts(len(histories), task.n_actions).visits
            scored = histories.encode(test)
            weights = scored.step_weights
            for j, strength in enumerate(strengths):
                policy = BackOff(histories, strength, k).policy(visits, available[histories.states])
                with np.errstate(divide="ignore"):
                    each = np.log(policy[scored.states, scored.actions])
                total[i, j] += each[weights > 0] @ weights[weights > 0]
    return np.asarray(total / d.step_weights.sum())


def before(demonstrations: Demonstrations, length: int) -> np.ndarray:
    """The states of each step's history, (steps, length + 1), the present one first."""
    d = demonstrations
    rows = np.arange(len(d))
    starts = d.starts
    since = rows - np.repeat(starts, np.diff(starts, append=len(d)))
    symbols = np.full((len(d), length + 1), NOTHING)
    symbols[:, 0] = d.states
    for i in range(1, length + 1):
        symbols[since == i - 1, i] = BEGIN
        known = since >= i
        symbols[known, i] = d.states[rows[known] - i]
    return symbols


def preceded(following: np.ndarray, symbols: np.ndarray) -> np.ndarray:
    """The histories that end with these states and go on with the given ones."""
    return np.concatenate([following[:, None], symbols[:, :-1]], axis=1)


def shifted(level: slice, by: int) -> slice:
    """The same stretch of another array."""
    return slice(level.start + by, level.stop + by)


def demonstrations_states(demonstrations: Demonstrations, task: Task) -> int:
    """How many states there are: the task's, or those that are shown."""
    if task.n_states is not None:
        return task.n_states
    d = demonstrations
    return int(max(d.states.max(), np.where(d.terminated, 0, d.next_states).max())) + 1


def check_tabular(demonstrations: Any) -> None:
    """Raise unless states are numbers of a table."""
    if not demonstrations.tabular:
        raise InvalidInput(
            f"Histories must be made of states that are integers; these have shape "
            f"{demonstrations.states.shape[1:]}. Number them, or put earlier states beside the "
            f"features."
        )
