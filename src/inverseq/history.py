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
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from inverseq import equations
from inverseq._checks import as_number, as_numbers, as_whole, check_kind
from inverseq.errors import InvalidInput
from inverseq.labels import Labels
from inverseq.shapes import MaskTable, Table
from inverseq.task import Constraint, Task
from inverseq.transitions import Transitions

if TYPE_CHECKING:
    from inverseq.demonstrations import Demonstrations

BEGIN, NOTHING = -1, -2
"""What stands before the first state of an episode, and before that."""
LENGTHS = (0, 1, 2, 3, 4, 5)
STRENGTHS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Among which held-out parts choose."""
FOLDS = 5
"""How many such parts there are."""

History = int | Literal["auto"]
"""How many states before the present one are part of a state; "auto" chooses on held-out parts."""


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
    strength: float = 4.0
    """How many visits of its own outweigh what the shorter history says, in the smoothing that goes
    with these histories: `Demonstrations.smoothing`."""

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

    def decoded(self) -> list[tuple[int, ...]]:
        """The states of every history, as by `decode`."""
        said = self.symbols[:, ::-1].tolist()
        return [tuple(s for s in states if s != NOTHING) for states in said]

    def find(self, states: Sequence[int]) -> int:
        """The number of a history, given earliest first as by `decode`; of its longest known end
        where it was not shown."""
        given = list(states)[: -self.length - 2 : -1]
        symbols = np.full((1, self.length + 1), NOTHING)
        symbols[0, : len(given)] = given
        as_numbers(symbols[:, 0], self.n_states, "states", "Histories.n_states")
        return int(self._find(symbols)[0])

    def encode(self, demonstrations: Demonstrations) -> Demonstrations:
        """The demonstrations with histories as states; also such as these were not made of.

        Labels become those of histories, and what is available is so whatever came before.
        """
        d = demonstrations
        check_tabular(d)
        if d.histories is not None and d.histories.length:
            raise InvalidInput(
                f"Histories must be made of states without history; these are {d.histories!r} "
                f"already. Take the demonstrations that were there before, or read the log anew."
            )
        following = np.where(d.terminated, d.states, d.next_states)
        for name, given in ("states", d.states), ("next_states", following):
            as_numbers(given, self.n_states, f"Demonstrations.{name}", "Histories.n_states")
        symbols = before(d, self.length)
        after = preceded(following, symbols)
        return replace(
            d,
            states=self._find(symbols),
            next_states=self._find(after),
            labels=None if d.labels is None else d.labels.alone.with_history(self),
            available=None if d.available is None else d.available[self.states],
        )

    def unseen(self, demonstrations: Demonstrations) -> np.ndarray:
        """Which steps have a history of which only a shorter end is known, (steps,)."""
        symbols = before(demonstrations, self.length)
        known = self.symbols[self._find(symbols)]
        return np.asarray((known != NOTHING).sum(axis=1) < (symbols != NOTHING).sum(axis=1))

    def plain(self) -> dict[str, Any]:
        """As data that JSON can hold: the arguments that make the same histories."""
        return {
            "length": self.length,
            "n_states": self.n_states,
            "keys": self.keys.tolist(),
            "strength": self.strength,
        }

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
        folds: int = FOLDS,
        k: float = 1.0,
    ) -> BackOff:
        """The length and strength under which parts that were held out are likeliest.

        The parts are whole units, or whole episodes where there are fewer units than parts.
        """
        score = held_out(
            demonstrations, task, lengths=lengths, strengths=strengths, folds=folds, k=k
        )
        i, j = divmod(int(score.argmax()), len(strengths))
        strength, n_states = float(strengths[j]), demonstrations_states(demonstrations, task)
        histories = Histories.of(demonstrations, lengths[i], n_states)
        return cls(replace(histories, strength=strength), strength, k)

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
    folds: int = FOLDS,
    k: float = 1.0,
) -> np.ndarray:
    """The mean log-likelihood of a held-out step, (lengths, strengths), in nats.

    Every fold is left out once: whole units by turns, or whole episodes where there are fewer units
    than folds.
    """
    d = demonstrations
    check_tabular(d)
    check_kind(task, Task, "task")
    for labels in (d.units, d.in_order("A choice of histories")):
        if labels is not None:
            groups, member = np.unique(labels, return_inverse=True)
            if len(groups) >= as_whole(folds):
                break
    if not 2 <= as_whole(folds) <= len(groups):
        raise InvalidInput(
            f"`folds` must lie from 2 to the number of episodes, {len(groups)}; got {folds!r}."
        )
    if not len(lengths) or not len(strengths):
        raise InvalidInput("`lengths` and `strengths` must each hold something to choose from.")
    n_states = demonstrations_states(d, task)
    available = task.available_table(n_states)
    d = replace(d, labels=None, available=None)  # nobody asks what so many histories are called
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
    """The states of each step's history, (steps, length + 1), the present one first.

    What came before a step that does not begin where the last one led is not known: a step is
    missing between them.
    """
    d = demonstrations
    rows, begins = np.arange(len(d)), np.zeros(len(d), bool)
    begins[d.starts] = True
    follows = np.append(False, d.states[1:] == d.next_states[:-1]) & ~begins
    last = np.maximum.accumulate(np.where(follows, 0, rows))
    since = rows - last
    symbols = np.full((len(d), length + 1), NOTHING)
    symbols[:, 0] = d.states
    for i in range(1, length + 1):
        symbols[(since == i - 1) & begins[last], i] = BEGIN
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


def remembered(
    seen: Demonstrations, history: History | None, labels: Labels | None
) -> Demonstrations:
    """What was read with histories as states: those of the labels, or as many as are asked for."""
    known = None if labels is None else labels.histories
    if known is None and history is None:
        return seen
    if not seen.tabular or seen.labels is None:
        seen = numbered(seen, labels)
    if known is not None and labels is not None and seen.labels != labels.alone:
        raise InvalidInput(
            f"`labels` must be those of the log; they are {labels.alone!r} without history, and "
            f"those of the log are {seen.labels!r}."
        )
    histories = known if known is not None else asked_for(seen, history)
    found = histories.encode(seen)
    if seen.reading is not None:
        said = f"history: {len(histories):,} of up to {histories.length} states before the present"
        if known is not None:
            unseen = int(histories.unseen(seen).sum())
            said += f"; {unseen:,} of {len(seen):,} steps have one of which only the end is known"
        elif history == "auto":
            said += f"; strength {histories.strength:g}; both chosen on held-out parts"
        reading = replace(seen.reading, notes=(*seen.reading.notes, said))
        object.__setattr__(found, "reading", reading)
    return found


def numbered(seen: Demonstrations, labels: Labels | None) -> Demonstrations:
    """The demonstrations with labels, their numbers where there are none: these keep histories."""
    check_tabular(seen)
    task = seen.task(0.0)
    alone = Labels(range(task.n_states or 0), range(task.n_actions))
    return replace(seen, labels=alone if labels is None else labels.alone)


def asked_for(seen: Demonstrations, history: History | None) -> Histories:
    """The histories of a length, or of the best one."""
    task = seen.task(0.0)
    if history != "auto":
        return Histories.of(seen, as_whole(history), task.n_states)
    if seen.n_episodes < 2:
        raise InvalidInput(
            "`history='auto'` must have at least two episodes, to hold some out; this log has one. "
            "Give the length yourself, such as history=2."
        )
    return BackOff.chosen(seen, task, folds=min(FOLDS, seen.n_episodes)).histories


def check_history(history: Any, labels: Labels | None) -> None:
    """Raise unless a log can be read with such histories."""
    if history is not None and history != "auto" and as_whole(history) < 0:
        raise InvalidInput(
            f"`history` must be how many states before the present one are part of a state, an "
            f"integer from 0, or 'auto'; got {history!r}."
        )
    known = None if labels is None else labels.histories
    if known is not None and history not in (None, known.length):
        raise InvalidInput(
            f"`history` must be that of `labels`, {known.length}, or be left out; got {history!r}."
        )


def check_tabular(demonstrations: Any) -> None:
    """Raise unless states are numbers of a table."""
    if not demonstrations.tabular:
        raise InvalidInput(
            f"Histories must be made of states that are integers; these have shape "
            f"{demonstrations.states.shape[1:]}. Number them, or put earlier states beside the "
            f"features."
        )
