"""Somebody's table, to the steps of demonstrations: labels, order, next states, and what is wrong.

PyArrow does the reading and NumPy the rest. Rows are counted from 0, as they stand in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from inverseq._checks import as_array, check_choice
from inverseq.errors import InvalidInput
from inverseq.io.columns import (
    UNKNOWN,
    Names,
    as_labels,
    as_table,
    coded,
    column_of,
    key_of,
    known,
    missing,
    names_of,
    not_finite,
    renumbered,
    rows_of_numbers,
    simple,
    times,
    truths,
    whole,
)
from inverseq.labels import Label, Labels

OnBad = Literal["raise", "drop"]
Availability = str | np.ndarray | Mapping[Any, Any] | Callable[[Any], Any]

BAD = {
    "missing": "a value is missing or not finite",
    "unknown": "a label is not among the known ones",
    "unplaced": "another row of the episode has no time, so that their order is not known",
    "same time": "another row of the episode has the same time, so that their order is not known",
    "scattered": "the episode comes back after rows of others, and no time says how to order it",
    "after the end": "the episode had terminated before",
    "contradicted": "the next state is not the state in which the episode goes on",
    "unavailable": "the action is not among the available ones",
}
"""What a bad row is: it stops the reading, or is dropped."""
REMARKS = {
    "unsorted": "an earlier time than the row before it in its episode: sorted",
    "gathered": "the episode comes back after rows of others: put together by time",
    "arrival": "the last row of an episode, without an action: it is where the step before led",
    "open end": "the last row of an episode that did not terminate: where it led is not known, so "
    "it is no step",
    "lone": "the only row of an episode, which did not terminate: it is no step",
    "before a hole": "the row that follows was dropped: where this one led is not known, so it is "
    "no step",
    "shared": "the label of its episode belongs to several units: one episode for each",
    "rare": "the only row that takes its action",
}
"""What is worth knowing of rows, and stops nothing."""


@dataclass(frozen=True)
class Finding:
    """A kind of rows in a log: how many there are, where the first is, and what it means."""

    kind: str
    rows: int
    """How many rows."""
    first: int
    """The first of them, counted from 0."""
    means: str
    """What is the matter with them."""
    column: str = ""
    """The column in which the first of them is bad, where it is one."""

    def __str__(self) -> str:
        where = f", column {self.column!r}" if self.column else ""
        rows = f"{self.rows:,} row{'s' * (self.rows != 1)}"
        return f"{self.kind}: {rows} (the first is row {self.first}{where}): {self.means}"


@dataclass(frozen=True)
class Reading:
    """What became of the rows of a log.

    >>> log = {"place": [0, 1, 1, None], "move": [1, 1, 0, 1]}
    >>> steps = steps_of(log, state="place", action="move", on_bad="drop")
    >>> print(steps.reading)
    4 rows, 2 steps
    place: 2 labels
    move: 1 labels
    bad, dropped:
      missing: 1 row (the first is row 3, column 'place'): a value is missing or not finite
    remarks:
      before a hole: 1 row (the first is row 2): the row that follows was dropped: ...
    """

    rows: int
    """How many rows the log has."""
    steps: int
    """How many of them are steps."""
    bad: tuple[Finding, ...] = ()
    """Rows that stop the reading, or were dropped."""
    remarks: tuple[Finding, ...] = ()
    """Rows that are worth knowing of."""
    notes: tuple[str, ...] = ()
    """How the columns were taken."""

    @property
    def dropped(self) -> int:
        """How many rows are bad."""
        return sum(finding.rows for finding in self.bad)

    def plain(self) -> dict[str, Any]:
        """As data that JSON can hold."""
        return asdict(self) | {"dropped": self.dropped}

    def __str__(self) -> str:
        lines = [f"{self.rows:,} rows, {self.steps:,} steps", *self.notes]
        for title, findings in ("bad, dropped:", self.bad), ("remarks:", self.remarks):
            if findings:
                lines += [title, *(f"  {finding}" for finding in findings)]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of a log, as the arrays that demonstrations hold."""

    arrays: dict[str, np.ndarray]
    labels: Labels
    available: np.ndarray | None
    reading: Reading
    counted: bool = False
    """Whether they are different steps, which weigh as often as they were seen."""


def steps_of(
    table: Any,
    *,
    state: Names,
    action: Names,
    next_state: Names | None = None,
    episode: str | None = None,
    unit: str | None = None,
    time: str | None = None,
    terminated: str | None = None,
    available: Availability | None = None,
    labels: Labels | None = None,
    on_bad: OnBad = "raise",
) -> Steps:
    """The steps of a table; see `Demonstrations.from_table`, which says what the arguments are."""
    check_choice(on_bad, ("raise", "drop"), "on_bad")
    steps = steps_in(
        as_table(table),
        [names_of(name, what) for name, what in ((state, "state"), (action, "action"))],
        None if next_state is None else names_of(next_state, "next_state"),
        {"episode": episode, "unit": unit, "time": time, "terminated": terminated},
        available,
        labels,
    )
    check_reading(steps.reading, on_bad)
    return steps


def steps_in(
    table: Any,
    names: list[tuple[str, ...]],
    following: tuple[str, ...] | None,
    others: Mapping[str, str | None],
    available: Availability | None,
    labels: Labels | None,
    goes_on: bool = False,
) -> Steps:
    """The steps of an Arrow table, whatever else is in it.

    ``goes_on`` says that it is a part, whose first row belongs to the episode of what was before.
    """
    import pyarrow as pa

    try:
        return Log.of(table, names, following, others, available, labels).steps(goes_on)
    except pa.ArrowException as error:
        raise InvalidInput(f"The columns of a log must be of one type each: {error}.") from error


def check_reading(reading: Reading, on_bad: OnBad) -> None:
    """Raise where there are bad rows that must not be, or no steps."""
    n = f"{reading.rows:,}"
    if reading.bad and on_bad == "raise":
        raise InvalidInput(
            f"A log must have no bad rows; of {n} rows {reading.dropped:,} are bad. "
            + "; ".join(map(str, reading.bad))
            + ". Mend them, or leave them out by on_bad='drop'."
        )
    if not reading.steps:
        said = "; ".join(map(str, [*reading.bad, *reading.remarks]))
        raise InvalidInput(f"A log must show at least one step; of {n} rows none is. {said}.")


# -- a log -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Log:
    """A log in numbers, a row for each of its rows; -1 and NaN where there is no value."""

    states: np.ndarray
    next_states: np.ndarray | None
    actions: np.ndarray
    labels: Labels
    key: np.ndarray | None
    """The episode, numbered as they first appear; those of units where there are only those."""
    episode: Any
    unit: Any
    time: np.ndarray | None
    terminated: np.ndarray | None
    choices: np.ndarray | None
    """What was available in each row, (rows, actions)."""
    available: np.ndarray | None
    """What was available in each state, where it was said for all of them."""
    seen_only: bool
    """Whether what was never done in a state was not available there."""
    columns: dict[str, np.ndarray]
    """Where each column has no value."""
    following: tuple[str, ...]
    """The columns of next states."""
    names: list[tuple[str, ...]]
    """The columns of states and of actions."""
    fixed: bool
    """Whether the labels were given."""
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        table: Any,
        names: list[tuple[str, ...]],
        following: tuple[str, ...] | None,
        others: Mapping[str, str | None],
        available: Availability | None,
        labels: Labels | None,
    ) -> Log:
        """Take the columns of a table for what they are."""
        blank: dict[str, np.ndarray] = {}
        notes: list[str] = []
        state, action = names
        if not len(table):
            raise InvalidInput("A log must hold at least one row; this one is empty.")
        if following is not None and len(following) != len(state):
            raise InvalidInput(
                f"`next_state` must name as many columns as `state`, {len(state)}; it names "
                f"{len(following)}."
            )

        def take(columns: tuple[str, ...], what: str) -> tuple[list[Any], list[Any]]:
            raw = [column_of(table, name, what) for name in columns]
            return raw, [simple(c, name, what) for c, name in zip(raw, columns, strict=True)]

        raw, plain = take(state, "state")
        blank |= {name: missing(column) for name, column in zip(state, raw, strict=True)}
        then_raw, then = take(following, "next_state") if following else ([], [])
        tabular = all(column is not None for column in plain)
        if available is not None and not tabular:
            raise InvalidInput(
                "`available` must be told of the states of a table; these are rows of numbers. "
                "Give `Task(available=...)` a function of states."
            )
        known_states = None if labels is None else labels.states
        if tabular:
            if following and any(column is None for column in then):
                raise InvalidInput(
                    f"`next_state` must be labels where `state` is; column {following[0]!r} holds "
                    f"{then_raw[0].type}."
                )
            found, named = coded([plain, then] if following else [plain])
            found, states = renumbered(found, named, known_states)
        else:
            found = [rows_of_numbers(raw, state, "state")]
            if following:
                found.append(rows_of_numbers(then_raw, following, "next_state"))
                if found[0].shape != found[1].shape:
                    raise InvalidInput(
                        f"`next_state` must have the form of `state`, {found[0].shape}; it has "
                        f"{found[1].shape}."
                    )
            states = None
            notes.append(
                f"{', '.join(state)}: floating-point, so states are rows of "
                f"{int(np.prod(found[0].shape[1:]))} numbers; cast to integers for labels"
            )
            blank[state[0]] |= not_finite(found[0])
        if following:
            blank |= {name: missing(c) for name, c in zip(following, then_raw, strict=True)}
            if not tabular:
                blank[following[0]] |= not_finite(found[1])

        did, _ = take(action, "action")
        blank |= {name: missing(column) for name, column in zip(action, did, strict=True)}
        acts = [whole(c, name) for c, name in zip(did, action, strict=True)]
        taken, called, choices = actions_of(table, acts, available, labels, blank)
        table_of = None
        if states is not None and not (available is None or isinstance(available, str)):
            table_of, more = available_table(available, states, called, labels is not None)
            taken, called = renumbered([taken], list(called), more)[0][0], more

        kept: dict[str, Any] = {}
        for what, name in others.items():
            kept[what] = None if name is None else column_of(table, name, what)
            if name is not None:
                blank[name] = missing(kept[what])
        return cls(
            found[0],
            found[1] if following else None,
            taken,
            Labels(states, called),
            key_of(kept["episode"], kept["unit"], others),
            None if kept["episode"] is None else as_labels(kept["episode"], others["episode"]),
            None if kept["unit"] is None else as_labels(kept["unit"], others["unit"]),
            None if kept["time"] is None else times(kept["time"], others["time"]),
            None
            if kept["terminated"] is None
            else truths(kept["terminated"], others["terminated"]),
            choices,
            table_of,
            isinstance(available, str) and available == "seen",
            blank,
            following or (),
            names,
            labels is not None,
            tuple(notes),
        )

    def steps(self, from_before: bool = False) -> Steps:
        """Order the rows, find where each led, and sort out what is bad."""
        n = len(self.actions)
        kinds = Kinds(n)
        ended = np.zeros(n, bool) if self.terminated is None else self.terminated.copy()
        order, runs = self._order(kinds, ended)
        goes_on = np.append(runs[1:] == runs[:-1], False)  # the next row is of the same episode
        follows = np.append(from_before, goes_on[:-1])  # so is the one before
        arrived = self._arrivals(kinds, order, goes_on, follows)
        if arrived.any():
            # Where the row that only says where it led is an end, the step before it ended.
            ended[order[:-1][arrived[1:]]] |= ended[order[1:][arrived[1:]]]
        self._find_missing(kinds, order, arrived, ended[order])
        if self.next_states is None:
            led, out = self._derive(kinds, order, goes_on, follows, arrived, ended[order])
        else:
            led, out = self._given(kinds, order, goes_on, arrived, ended[order])

        available = self._available(kinds, order, out)
        kept = kinds.fine(order) & ~out
        rows = order[kept]
        once = np.flatnonzero(np.bincount(self.actions[rows]) == 1)
        if len(once):
            kinds.remark("rare", np.sort(rows[np.isin(self.actions[rows], once)]))
        arrays = {
            "states": self.states[rows],
            "actions": self.actions[rows],
            "next_states": led[kept],
            "terminated": ended[rows],
        }
        if self.episode is not None or self.next_states is None:
            arrays["episodes"] = self._episodes(kinds, rows, runs[kept])
        if self.unit is not None:
            arrays["units"] = self.unit[rows]
        labels, available = self._compact(arrays, available)
        notes = [*self.notes, f"{', '.join(self.names[1])}: {len(labels.actions):,} labels"]
        if labels.states is not None:
            notes.insert(0, f"{', '.join(self.names[0])}: {len(labels.states):,} labels")
        reading = Reading(n, len(rows), kinds.bad(), kinds.remarks(), tuple(notes))
        return Steps(arrays, labels, available, reading)

    def _arrivals(
        self, kinds: Kinds, order: np.ndarray, goes_on: np.ndarray, follows: np.ndarray
    ) -> np.ndarray:
        """Which rows end an episode without an action, and only say where the last step led."""
        if self.next_states is not None:
            return np.zeros(len(order), bool)
        nothing_done = (self.actions[order] == -1) & known(self.states)[order]
        return np.asarray(nothing_done & follows & ~goes_on & kinds.fine(order))

    def _find_missing(
        self, kinds: Kinds, order: np.ndarray, arrived: np.ndarray, ended: np.ndarray
    ) -> None:
        """Rows without a value that they need, or with a label that nobody knows."""
        for name, gone in self.columns.items():
            # Where an episode ended, nothing need follow; where it arrived, nothing be done.
            unneeded = arrived | ended if name in self.following else arrived
            kinds.add("missing", order[gone[order] & ~unneeded], name)
        kinds.add("unknown", order[self.actions[order] == UNKNOWN])
        if self.states.ndim > 1:
            return
        kinds.add("unknown", order[self.states[order] == UNKNOWN])
        if self.next_states is not None:
            kinds.add("unknown", order[(self.next_states[order] == UNKNOWN) & ~ended])

    def _derive(
        self,
        kinds: Kinds,
        order: np.ndarray,
        goes_on: np.ndarray,
        follows: np.ndarray,
        arrived: np.ndarray,
        ended: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where each row led: the state of the next one of its episode; and which are no steps."""
        after = np.append(order[1:], order[-1])
        reached = goes_on & known(self.states)[after] & kinds.placed(after)
        if self.time is None and self.key is not None:
            # A row without an episode may be what came between.
            holes = np.cumsum(self.key < 0)
            reached &= holes[after] == holes[order]
        lost = ~reached & ~ended & ~arrived & kinds.fine(order)
        alone = ~goes_on & ~follows
        kinds.remark("arrival", order[arrived])
        kinds.remark("before a hole", order[lost & goes_on])
        kinds.remark("open end", order[lost & ~goes_on & ~alone])
        kinds.remark("lone", order[lost & alone])
        return self.states[np.where(reached, after, order)], lost | arrived

    def _given(
        self,
        kinds: Kinds,
        order: np.ndarray,
        goes_on: np.ndarray,
        arrived: np.ndarray,
        ended: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where each row says that it led; all of them are steps."""
        assert self.next_states is not None
        after, led = np.append(order[1:], order[-1]), self.next_states[order]
        if self.episode is not None:
            both = goes_on & ~ended & kinds.fine(order) & kinds.fine(after)
            differs = (led != self.states[after]).reshape(len(order), -1).any(axis=1)
            kinds.add("contradicted", order[both & differs])
        nowhere = (ended & ~known(led)).reshape(-1, *[1] * (led.ndim - 1))
        return np.where(nowhere, self.states[order], led), arrived

    def _compact(
        self, arrays: dict[str, np.ndarray], available: np.ndarray | None
    ) -> tuple[Labels, np.ndarray | None]:
        """The labels that occur in steps, unless they are given, and what is available."""
        called, states = list(self.labels.actions), self.labels.states
        if not self.fixed and available is None and len(arrays["actions"]):
            used, moved = in_use(arrays["actions"])
            arrays["actions"] = moved[arrays["actions"]]
            called = [called[i] for i in used]
        if states is None:
            return Labels(None, called), None
        if not self.fixed and len(arrays["states"]):
            led = np.where(arrays["terminated"], arrays["states"], arrays["next_states"])
            used, moved = in_use(arrays["states"], led)
            arrays["states"], arrays["next_states"] = moved[arrays["states"]], moved[led]
            states = tuple(states[i] for i in used)
            available = None if available is None else available[used]
        if self.seen_only:
            shape = (len(states), len(called))
            available = seen_available(arrays["states"], arrays["actions"], shape)
        return Labels(states, called), available

    def _order(self, kinds: Kinds, ended: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows in the order of their episodes, and a number for the episode of each."""
        n = len(self.actions)
        rows = np.arange(n)
        key = self.key if self.key is not None else np.zeros(n, np.int64)
        unplaced = key < 0
        by_row = self.next_states is not None and self.episode is None and self.time is None
        if by_row:
            return rows, rows
        starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        again = np.ones(len(starts), bool)
        again[np.unique(key[starts], return_index=True)[1]] = False
        back = np.repeat(again, np.diff(starts, append=n)) & ~unplaced
        order = np.argsort(key, kind="stable") if again.any() else rows
        if self.time is None:
            kinds.add("scattered", rows[back])
        else:
            timeless = self.time < 0
            if timeless.any() and self.next_states is None:
                lost = np.isin(key, key[timeless & ~unplaced]) & ~timeless
                kinds.add("unplaced", rows[lost])
            kinds.remark("gathered", rows[back])
            same = key[order][1:] == key[order][:-1]
            earlier = self.time[order][1:] < self.time[order][:-1]
            kinds.remark("unsorted", np.sort(order[1:][same & earlier]))
            if (same & earlier).any() or timeless.any():
                order = np.lexsort((self.time, key))
            same = key[order][1:] == key[order][:-1]
            same &= (self.time[order][1:] == self.time[order][:-1]) & (self.time[order][1:] >= 0)
            twice = np.append(same, False) | np.append(False, same)
            kinds.add("same time", np.sort(order[twice & ~unplaced[order]]))
        begins = np.append(True, key[order][1:] != key[order][:-1])
        counts = ended[order].astype(np.int64)
        before = np.cumsum(counts) - counts
        at = np.maximum.accumulate(np.where(begins, np.arange(n), 0))
        late = before > before[at]
        if self.episode is not None:
            kinds.add("after the end", np.sort(order[late & ~unplaced[order]]))
        else:
            begins |= np.append(False, ended[order][:-1])
        return order, np.cumsum(begins)

    def _episodes(self, kinds: Kinds, rows: np.ndarray, runs: np.ndarray) -> np.ndarray:
        """A label for the episode of each step."""
        if self.episode is None:
            return np.unique(runs, return_inverse=True)[1]
        if self.unit is None:
            return np.asarray(self.episode[rows])
        pairs = np.unique(runs, return_index=True)[1]
        labels, whose = self.episode[rows], self.unit[rows]
        named, n_units = np.unique(labels[pairs], return_counts=True)
        shared = np.isin(labels, named[n_units > 1])
        if not shared.any():
            return np.asarray(labels)
        kinds.remark("shared", np.sort(rows[shared]))
        return np.array([f"{u}/{e}" for u, e in zip(whose, labels, strict=True)])

    def _available(self, kinds: Kinds, order: np.ndarray, out: np.ndarray) -> np.ndarray | None:
        """What is available in each state, and which steps show something else."""
        labels, table = self.labels, self.available
        if self.choices is not None:
            rows = np.sort(order[kinds.fine(order)])
            table = np.ones((len(labels.states or ()), len(labels.actions)), bool)
            states, first = np.unique(self.states[rows], return_index=True)
            table[states] = self.choices[rows[first]]
            differs = (self.choices[rows] != table[self.states[rows]]).any(axis=1)
            if differs.any():
                row = int(rows[differs.argmax()])
                other = int(rows[first[np.searchsorted(states, self.states[row])]])
                raise InvalidInput(
                    f"`available` must be the same whenever a state is; in state "
                    f"{(labels.states or ())[self.states[row]]!r} it differs between row {other} "
                    f"and row {row}. Add what makes the difference to `state`."
                )
        if table is not None:
            rows = order[kinds.fine(order) & ~out]
            kinds.add("unavailable", rows[~table[self.states[rows], self.actions[rows]]])
        return table


class Kinds:
    """Which rows are bad and why: the first reason found is the one that counts."""

    def __init__(self, n: int) -> None:
        self.kind = np.zeros(n, np.int8)
        self.found: dict[str, dict[str, Any]] = {}

    def add(self, kind: str, rows: np.ndarray, column: str = "") -> None:
        """These rows are bad, unless they are already."""
        rows = rows[self.kind[rows] == 0]
        self.kind[rows] = 1 + list(BAD).index(kind)
        self._put(kind, rows, column)

    def remark(self, kind: str, rows: np.ndarray) -> None:
        """These rows are worth knowing of."""
        self._put(kind, rows, "")

    def _put(self, kind: str, rows: np.ndarray, column: str) -> None:
        if not len(rows):
            return
        held = self.found.setdefault(kind, {"rows": 0, "first": rows.min(), "column": column})
        held["rows"] += len(rows)
        if rows.min() < held["first"]:
            held |= {"first": rows.min(), "column": column}

    def fine(self, rows: np.ndarray) -> np.ndarray:
        """Whether rows are not bad."""
        return np.asarray(self.kind[rows] == 0)

    def placed(self, rows: np.ndarray) -> np.ndarray:
        """Whether it is known where in their episode rows belong."""
        astray = [1 + list(BAD).index(kind) for kind in PLACELESS]
        return ~np.isin(self.kind[rows], astray)

    def bad(self) -> tuple[Finding, ...]:
        """What is bad, kind by kind."""
        return self._findings(BAD)

    def remarks(self) -> tuple[Finding, ...]:
        """What is worth knowing, kind by kind."""
        return self._findings(REMARKS)

    def _findings(self, kinds: Mapping[str, str]) -> tuple[Finding, ...]:
        found = [
            (kind, means, self.found[kind]) for kind, means in kinds.items() if kind in self.found
        ]
        return tuple(
            Finding(kind, int(held["rows"]), int(held["first"]), means, held["column"])
            for kind, means, held in found
        )


PLACELESS = ("unplaced", "same time", "scattered", "after the end")
"""Bad rows of which not even the state says where the row before led."""


def actions_of(
    table: Any,
    columns: list[Any],
    available: Availability | None,
    labels: Labels | None,
    blank: dict[str, np.ndarray],
) -> tuple[np.ndarray, tuple[Label, ...], np.ndarray | None]:
    """The number of each row's action, the labels, and what was available in each row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = None if labels is None else labels.actions
    if not isinstance(available, str) or available == "seen":
        found, called = renumbered(*coded([columns]), names)
        return found[0], called, None
    listed = column_of(table, available, "available")
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if not any(check(listed.type) for check in lists) or len(columns) > 1:
        raise InvalidInput(
            f"`available` must name a column of lists, of truth values or of the labels of one "
            f"column of actions; column {available!r} holds {listed.type}."
        )
    blank[available] = missing(listed)
    n, lengths = len(listed), pc.fill_null(pc.list_value_length(listed), 0).to_numpy()
    inner = pc.list_flatten(listed)
    if pa.types.is_boolean(inner.type):
        width = int(lengths.max(initial=0))
        if ((lengths != width) & ~blank[available]).any():
            row = int(((lengths != width) & ~blank[available]).argmax())
            raise InvalidInput(
                f"`available` must have a truth value for each action; row {row} has "
                f"{lengths[row]}, another {width}."
            )
        found, called = renumbered(*coded([columns]), names or tuple(range(width)))
        if len(called) != width:
            raise InvalidInput(
                f"`available` must have a truth value for each of the {len(called)} actions; the "
                f"lists have {width}."
            )
        choices = np.zeros((n, width), bool)
        choices[~blank[available]] = np.array(pc.fill_null(inner, False)).reshape(-1, width)
        return found[0], called, choices
    inner = simple(inner, available, "available")
    if inner is None:
        raise InvalidInput(f"`available` must list labels of actions; it lists {listed.type}.")
    both, called = renumbered(*coded([columns, [inner]]), names)
    choices = np.zeros((n, len(called)), bool)
    offered = both[1] >= 0
    choices[np.repeat(np.arange(n), lengths)[offered], both[1][offered]] = True
    return both[0], called, choices


def available_table(
    given: Any, states: Sequence[Label], called: tuple[Label, ...], fixed: bool
) -> tuple[np.ndarray, tuple[Label, ...]]:
    """What is available, (states, actions), from a table, a mapping or a function of labels.

    And the labels of the actions: those that are only ever offered are added, unless all are fixed.
    """
    if not callable(given) and not isinstance(given, Mapping):
        table, shape = as_array(given, "available"), (len(states), len(called))
        if table.dtype != bool or table.shape != shape:
            raise InvalidInput(
                f"`available` must be boolean of shape {shape}, in the order of the labels; it is "
                f"{table.dtype} of shape {table.shape}."
            )
        return table, called
    offered: list[list[Any]] = []
    for label in states:
        if isinstance(given, Mapping) and label not in given:
            raise InvalidInput(f"`available` must say what can be done in state {label!r} too.")
        offered.append(list(given[label] if isinstance(given, Mapping) else given(label)))
    if not fixed:
        every = set(called).union(*offered)
        other = [label for label in every if called and type(label) is not type(called[0])]
        if other:
            raise InvalidInput(
                f"`available` must list labels of actions, such as {called[0]!r}; got {other[0]!r}."
            )
        called = tuple(sorted(every))
    known = Labels(None, called)
    table = np.zeros((len(states), len(called)), bool)
    for s, listed in enumerate(offered):
        table[s, known.action_numbers(listed)] = True
    return table, called


def in_use(*numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which numbers occur, and what each becomes where only those are counted."""
    size = max(int(part.max()) for part in numbers) + 1
    occurs = np.zeros(size, bool)
    for part in numbers:
        occurs[part] = True
    return np.flatnonzero(occurs), np.cumsum(occurs) - 1


def seen_available(states: np.ndarray, actions: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """What was ever done in a state is available there; everything where nothing was done."""
    table = np.zeros(shape, bool)
    table[states, actions] = True
    table[~table.any(axis=1)] = True
    return table
