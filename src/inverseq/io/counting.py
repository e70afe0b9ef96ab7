"""Counting a log that passes by, batch after batch.

Rows that say where they led are counted as they come. Where that must be derived, or belongs to
episodes, a part of the log is taken that holds whole episodes, and read as any table is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from inverseq.errors import InvalidInput
from inverseq.io.columns import key_of, missing, simple, truths, whole
from inverseq.io.logs import (
    BAD,
    REMARKS,
    Availability,
    Finding,
    OnBad,
    Reading,
    Steps,
    available_table,
    check_reading,
    seen_available,
    steps_in,
)
from inverseq.io.tally import END, Numbering, Tally
from inverseq.labels import Label, Labels

WAITS = ("open end", "lone", "arrival")
"""What the last row of a part is, while nobody knows what follows."""
COMES_BACK = "the episode comes back after rows of others, and rows are counted as they stand"
"""What is bad about scattered rows where there is a time to order them by."""
ELSEWHERE = ("rare", "shared")
"""What a part cannot tell: it is about all rows."""


class Counting:
    """The counts so far, and the rows that wait for those that follow."""

    def __init__(
        self,
        names: list[tuple[str, ...]],
        following: tuple[str, ...] | None,
        others: Mapping[str, str | None],
        labels: Labels | None,
        on_bad: OnBad,
    ) -> None:
        if labels is not None and labels.states is None:
            raise InvalidInput("`labels` must have labels of states for a log that is counted.")
        self.names, self.following, self.others = names, following, others
        self.labels, self.on_bad = labels, on_bad
        self.states = Numbering(None if labels is None else labels.states)
        self.actions = Numbering(None if labels is None else labels.actions)
        self.tally, self.rows, self.n_steps = Tally(), 0, 0
        self.found: dict[str, Finding] = {}
        self.held: Any = None
        """The last rows, of an episode that may go on."""
        self.goes_on = False
        """Whether the next row that is looked at belongs to the episode of the one before."""
        self.over: set[Any] = set()
        """The episodes that did not go on."""
        self.keyed = others["episode"] is not None or others["unit"] is not None
        ordered = [others[what] for what in ("episode", "time")]
        self.complete = following is not None and ordered == [None, None]
        if others["time"] is not None and not self.keyed:
            raise InvalidInput(
                "`time` must come with `episode` or `unit` where `counts` are asked for: rows are "
                "sorted within an episode, not in a whole log. Sort it, and leave `time` out."
            )

    @property
    def named(self) -> list[str]:
        """The columns of labels."""
        return [*self.names[0], *self.names[1], *(self.following or ())]

    def add(self, batch: Any) -> None:
        """Count the steps of the next rows."""
        import pyarrow as pa

        if not len(batch):
            return
        if self.complete:
            self._add_complete(batch)
            self.rows += len(batch)
        else:
            table = pa.Table.from_batches([batch])
            table = table if self.held is None else pa.concat_tables([self.held, table])
            self.held = None
            cut = self._cut(table) if self.keyed else self._end(table)
            if cut:
                self._add_part(table.slice(0, cut), last=True)
            if cut < len(table):
                rest = table.slice(cut)
                if self.keyed:
                    self.held = rest
                else:
                    self._add_part(rest, last=False)
        if self.on_bad == "raise" and any(kind in BAD for kind in self.found):
            check_reading(self._reading(()), "raise")

    def steps(self, available: Availability | None) -> Steps:
        """What it all came to: each distinct step once, sorted, with its count as its weight."""
        if self.held is not None:
            self._add_part(self.held, last=True)
        check_reading(self._reading(()), self.on_bad)
        states, actions, follows, counts = self.tally.steps()
        fixed = self.labels is not None
        named, moved = in_order(self.states.labels, fixed)
        called, moved_actions = in_order(self.actions.labels, fixed)
        states, actions = moved[states], moved_actions[actions]
        ended = follows == END
        led = np.where(ended, states, moved[np.where(ended, 0, follows - 1)])
        table = None
        if isinstance(available, str):
            table = seen_available(states, actions, (len(named), len(called)))
        elif available is not None:
            table, more = available_table(available, named, called, fixed)
            actions = np.array([more.index(label) for label in called])[actions]
            called = more
            impossible = ~table[states, actions]
            if impossible.any():
                i = int(impossible.argmax())
                raise InvalidInput(
                    f"`available` must hold what was done; {called[actions[i]]!r} in state "
                    f"{named[states[i]]!r} is not in it, and {counts[i]:,} rows show it."
                )
        order = np.lexsort((led, actions, states, ended))
        arrays = {
            "states": states[order],
            "actions": actions[order],
            "next_states": led[order],
            "terminated": ended[order],
            "weights": counts[order].astype(float),
        }
        notes = (
            f"{', '.join(self.names[0])}: {len(named):,} labels",
            f"{', '.join(self.names[1])}: {len(called):,} labels",
        )
        return Steps(arrays, Labels(named, called), table, self._reading(notes), counted=True)

    def _add_complete(self, batch: Any) -> None:
        """Rows that say themselves where they led, and belong to nothing."""
        assert self.following is not None
        n, terminated, unit = len(batch), self.others["terminated"], self.others["unit"]
        bad, ended = np.zeros(n, bool), np.zeros(n, bool)
        if terminated is not None:
            ended = truths(batch.column(terminated), terminated)
        names = [*self.names[0], *self.following, *self.names[1], unit, terminated]
        for name in dict.fromkeys(filter(None, names)):
            column = batch.column(name)
            if not column.null_count and "float" not in str(column.type):
                continue
            gone = missing(column) & ~bad
            if name in self.following:
                gone &= ~ended
            self._find("missing", gone, name)
            bad |= gone
        kept = np.flatnonzero(~bad) if bad.any() else None
        if kept is not None:
            batch, ended = batch.take(kept), ended[kept]
        states = self.states.of(self._parts(batch, self.names[0], "state"))
        actions = self.actions.of(self._parts(batch, self.names[1], "action"))
        if ended.any():
            going = np.flatnonzero(~ended)
            follows = np.full(len(batch), END, np.int64)
            led = self._parts(batch.take(going), self.following, "next_state")
            follows[going] = self.states.of(led) + 1
        else:
            follows = self.states.of(self._parts(batch, self.following, "next_state")) + 1
        if self.labels is not None:
            n_states, n_actions = len(self.labels.states or ()), len(self.labels.actions)
            fine = (states < n_states) & (actions < n_actions) & (follows <= n_states)
            if not fine.all():
                unknown = np.zeros(n, bool)
                unknown[~fine if kept is None else kept[~fine]] = True
                self._find("unknown", unknown)
                states, actions, follows = states[fine], actions[fine], follows[fine]
                self.states.forget(n_states)
                self.actions.forget(n_actions)
        self._tally(states, actions, follows)

    def _parts(self, batch: Any, names: tuple[str, ...], what: str) -> list[Any]:
        import pyarrow as pa

        plain = []
        for name in names:
            column = batch.column(name)
            kind = column.type
            plainly = pa.types.is_integer(kind) and not pa.types.is_uint64(kind)
            if not (plainly or pa.types.is_dictionary(kind)):
                column = as_labels(column, name, what)
            plain.append(column)
        return plain

    def _cut(self, table: Any) -> int:
        """How many rows belong to episodes that did not go on to the last row."""
        key = self._plain_key(table)
        key = self._key(table) if key is None else key
        changes = np.flatnonzero(key[1:] != key[:-1])
        return int(changes[-1]) + 1 if len(changes) else 0

    def _plain_key(self, table: Any) -> np.ndarray | None:
        """The labels of episodes, where these are integers and all that tells episodes apart."""
        import pyarrow as pa

        name = self.others["episode"]
        if name is None or self.others["unit"] is not None:
            return None
        column = table[name]
        if column.null_count or not pa.types.is_integer(column.type):
            return None
        return np.asarray(column.to_numpy())

    def _key(self, table: Any) -> np.ndarray:
        episode, unit = (
            None if name is None else table[name]
            for name in (self.others["episode"], self.others["unit"])
        )
        key = key_of(episode, unit, self.others)
        assert key is not None
        return key

    def _add_part(self, table: Any, last: bool) -> None:
        """Count what a part shows, and find what is wrong with it.

        Unless it is the last of its episodes, its last row waits for what follows.
        """
        n, rows = len(table), np.arange(self.rows, self.rows + len(table))
        for names, what in zip((*self.names, self.following), PARTS, strict=True):
            for name in names or ():
                as_labels(table[name].slice(0, 0), name, what)
        if self._add_plain(table):
            self.rows += n
            return
        if self.keyed:
            table, rows = self._first_time(table, rows)
        if len(table):
            steps = steps_in(
                table, self.names, self.following, self.others, None, self.labels, self.goes_on
            )
            arrays, labels = steps.arrays, steps.labels
            assert labels.states is not None
            findings = [*steps.reading.bad, *steps.reading.remarks]
            self.goes_on = False
            if not last:
                # Only of the last row can this be said; if nothing is, it is bad, and over.
                waiting = [finding.kind for finding in findings if finding.kind in WAITS]
                if waiting:
                    findings = [finding for finding in findings if finding.kind not in WAITS]
                    self.held, n = table.slice(len(table) - 1), n - 1
                self.goes_on = waiting != ["lone"]
            for finding in findings:
                if finding.kind not in ELSEWHERE:
                    self._merge(replace(finding, first=int(rows[finding.first])))
            if steps.reading.steps:
                states = self.states.places(labels.states)
                actions = self.actions.places(labels.actions)
                follows = np.where(arrays["terminated"], END, states[arrays["next_states"]] + 1)
                self._tally(states[arrays["states"]], actions[arrays["actions"]], follows)
        self.rows += n

    def _add_plain(self, table: Any) -> bool:
        """Count whole episodes at once, where no row needs a closer look; else say that some do."""
        key, terminated = self._plain_key(table), self.others["terminated"]
        if key is None or self.following is not None or self.labels is not None:
            return False
        if (time := self.others["time"]) is not None and not rising(table[time], key):
            return False
        names = [*self.named, *([terminated] if terminated else [])]
        if any(table[name].null_count or "float" in str(table[name].type) for name in names):
            return False
        ended = np.zeros(len(key), bool)
        if terminated is not None:
            ended = truths(table[terminated], terminated)
        starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        last = np.append(starts[1:], len(key)) - 1
        whose = [(label,) for label in key[starts].tolist()]
        come_back = len(set(whose)) < len(whose) or not self.over.isdisjoint(whose)
        if come_back or ended.sum() > ended[last].sum():
            return False
        self.over.update(whose)

        cut, lone = ~ended[last], starts == last
        self._remark("open end", last[cut & ~lone])
        self._remark("lone", last[cut & lone])
        acted, there = np.ones(len(key), bool), np.ones(len(key), bool)
        acted[last[cut]], there[last[cut & lone]] = False, False
        batch = table.unify_dictionaries().combine_chunks().to_batches()[0]
        states = np.zeros(len(key), np.int64)
        states[there] = self.states.of(self._parts(taken(batch, there), self.names[0], "state"))
        actions = self.actions.of(self._parts(taken(batch, acted), self.names[1], "action"))
        follows = np.append(states[1:] + 1, END)
        follows[last] = END
        self._tally(states[acted], actions, follows[acted])
        return True

    def _end(self, table: Any) -> int:
        """How many rows belong to episodes that truly ended."""
        name = self.others["terminated"]
        ended = np.flatnonzero([] if name is None else truths(table[name], name))
        return int(ended[-1]) + 1 if len(ended) else 0

    def _first_time(self, table: Any, rows: np.ndarray) -> tuple[Any, np.ndarray]:
        """The rows of episodes as far as they did not come back after others; the rest are bad.

        Also where it could be put together by time: what is bad must not depend on how rows pass.
        """
        import pyarrow as pa

        key = self._key(table)
        begins = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        names = [name for name in (self.others["unit"], self.others["episode"]) if name]
        columns = [table[name].take(pa.array(begins)).to_pylist() for name in names]
        again = []
        for number, who in zip(key[begins].tolist(), zip(*columns, strict=True), strict=True):
            again.append(number >= 0 and who in self.over)
            if number >= 0:
                self.over.add(who)
        back = np.repeat(again, np.diff(begins, append=len(key)))
        if not back.any():
            return table, rows
        means = BAD["scattered"] if self.others["time"] is None else COMES_BACK
        self._merge(Finding("scattered", int(back.sum()), int(rows[back.argmax()]), means))
        return table.take(pa.array(np.flatnonzero(~back))), rows[~back]

    def _tally(self, states: np.ndarray, actions: np.ndarray, follows: np.ndarray) -> None:
        self.n_steps += len(states)
        self.tally.add(states, actions, follows)

    def _find(self, kind: str, rows: np.ndarray, column: str = "") -> None:
        """Rows of this batch are bad."""
        if rows.any():
            first = self.rows + int(rows.argmax())
            self._merge(Finding(kind, int(rows.sum()), first, BAD[kind], column))

    def _remark(self, kind: str, rows: np.ndarray) -> None:
        """Rows of this part are worth knowing of."""
        if len(rows):
            first = self.rows + int(rows[0])
            self._merge(Finding(kind, len(rows), first, REMARKS[kind]))

    def _merge(self, finding: Finding) -> None:
        held = self.found.get(finding.kind)
        if held is not None:
            early = held if held.first <= finding.first else finding
            finding = replace(early, rows=held.rows + finding.rows)
        self.found[finding.kind] = finding

    def _reading(self, notes: tuple[str, ...]) -> Reading:
        def of(kinds: Mapping[str, str]) -> tuple[Finding, ...]:
            return tuple(self.found[kind] for kind in kinds if kind in self.found)

        return Reading(self.rows, self.n_steps, of(BAD), of(REMARKS), notes)


PARTS = ("state", "action", "next_state")
"""What the columns of labels are, in order."""


def as_labels(column: Any, name: str, what: str) -> Any:
    """A column of labels, or the message that numbers that measure cannot be counted."""
    labels = whole(column, name) if what == "action" else simple(column, name, what)
    if labels is None:
        raise InvalidInput(
            f"`{what}` must be labels to be counted; column {name!r} holds {column.type}. Make "
            f"bins of it, or read the log without `counts`."
        )
    return labels


def taken(batch: Any, rows: np.ndarray) -> Any:
    """The rows for which a mask is true, without a copy where it is true throughout."""
    return batch if rows.all() else batch.take(np.flatnonzero(rows))


def rising(times: Any, key: np.ndarray) -> bool:
    """Whether it is plain that the rows of each episode are in order."""
    import pyarrow as pa

    kind = times.type
    if times.null_count or not (pa.types.is_integer(kind) or pa.types.is_timestamp(kind)):
        return False
    clock = times.to_numpy()
    return bool((clock[1:] > clock[:-1])[key[1:] == key[:-1]].all())


def in_order(labels: dict[Label, int], fixed: bool) -> tuple[tuple[Label, ...], np.ndarray]:
    """Labels sorted, unless they are fixed, and the new number of each old one."""
    named: list[Any] = list(labels)
    if fixed:
        return tuple(named), np.arange(len(named))
    order = sorted(range(len(named)), key=named.__getitem__)
    moved = np.empty(len(named), np.int64)
    moved[order] = np.arange(len(named))
    return tuple(named[i] for i in order), moved
