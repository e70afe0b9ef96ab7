"""Logs that are larger than memory: counted batch by batch, with memory for the counts alone.

A batch is turned into numbers of states and actions in the order in which they appear, its steps
into keys, and those are counted in a table with a place for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from inverseq.errors import InvalidInput
from inverseq.labels import Label

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

SPAN = 2**22
"""Integers that lie closer together are looked up in a table; others are hashed by Arrow."""
ACTION_BITS, NEXT_BITS = 14, 25
"""So many bits of a key say what was done, and what followed; 24 are left for the state."""
SMALLEST = 2**16
"""How many places a table of keys has at first."""
END = 0
"""What follows a step that terminated; next states are counted from 1."""


class Numbering:
    """Numbers for labels in the order in which they appear, the same in every batch.

    >>> import pyarrow as pa
    >>> known = Numbering()
    >>> known.of([pa.array(["home", "port", "home"])]), known.of([pa.array(["port", "sea"])])
    (array([0, 1, 0]), array([1, 2]))
    """

    def __init__(self, known: Sequence[Label] | None = None) -> None:
        self.labels: dict[Label, int] = {label: i for i, label in enumerate(known or ())}
        self.low = 0
        self.table = np.zeros(0, np.int32)

    def __len__(self) -> int:
        return len(self.labels)

    def of(self, columns: Sequence[Any]) -> np.ndarray:
        """The numbers of a batch's labels; a label has a part in each column, all without nulls."""
        import pyarrow as pa

        if len(columns) > 1:
            return self._of_parts(columns)
        column = columns[0]
        if pa.types.is_integer(column.type) and len(column):
            # In a narrow type the distance from the lowest label would not fit.
            values = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
            if len(self.table) and (found := self._known(values)) is not None:
                return found
            low, high = int(values.min()), int(values.max())
            if len(self.table):
                low, high = min(low, self.low), max(high, self.low + len(self.table) - 1)
            if high - low < SPAN:
                return self._looked_up(values, low, high)
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        own = np.asarray(column.indices.to_numpy(zero_copy_only=False))
        words = column.dictionary.to_pylist()
        used = np.flatnonzero(np.bincount(own, minlength=len(words)))
        places = np.zeros(len(words), np.int64)
        places[used] = [self.labels.setdefault(words[i], len(self.labels)) for i in used]
        return np.asarray(places[own])

    def places(self, labels: Sequence[Label]) -> np.ndarray:
        """The number of each of these labels."""
        return np.array([self.labels.setdefault(x, len(self.labels)) for x in labels], np.int64)

    def forget(self, n: int) -> None:
        """Keep the first labels only."""
        if len(self.labels) > n:
            self.labels = dict(list(self.labels.items())[:n])
            self.table[self.table >= n] = -1

    def _known(self, values: np.ndarray) -> np.ndarray | None:
        """The numbers of integers, if the table has all of them, in one pass."""
        from inverseq._kernels import looking_up_loop

        found = np.empty(len(values), np.int32)
        return found if looking_up_loop(values, self.low, self.table, found) else None

    def _looked_up(self, values: np.ndarray, low: int, high: int) -> np.ndarray:
        if low < self.low or high >= self.low + len(self.table):
            table = np.full(high - low + 1, -1, np.int32)
            if len(self.table):
                table[self.low - low :][: len(self.table)] = self.table
            else:
                for label, number in self.labels.items():
                    if isinstance(label, int) and low <= label <= high:
                        table[label - low] = number
            self.low, self.table = low, table
        shifted = values if self.low == 0 else values - self.low
        numbers = self.table[shifted]
        if len(numbers) and numbers.min() < 0:
            new = np.zeros(len(self.table), bool)
            new[shifted] = self.table[shifted] < 0
            for at in np.flatnonzero(new).tolist():
                value = at + self.low
                self.table[at] = self.labels.setdefault(value, len(self.labels))
            numbers = self.table[shifted]
        return np.asarray(numbers)

    def _of_parts(self, columns: Sequence[Any]) -> np.ndarray:
        whole_key, sizes, values = np.zeros(len(columns[0]), np.int64), [], []
        for column in columns:
            if not hasattr(column, "indices"):
                column = column.dictionary_encode()
            words = column.dictionary.to_pylist()
            whole_key = whole_key * len(words) + column.indices.to_numpy(zero_copy_only=False)
            sizes.append(len(words))
            values.append(words)
        if np.prod(np.array(sizes, float)) > 2**62:
            raise InvalidInput(f"The columns of a label have too many values together: {sizes}.")
        keys, at = np.unique(whole_key, return_inverse=True)
        spelt, rest = [], keys
        for size, words in zip(reversed(sizes), reversed(values), strict=True):
            spelt.append([words[i] for i in (rest % size).tolist()])
            rest = rest // size
        labels = zip(*reversed(spelt), strict=True)
        numbers = [self.labels.setdefault(label, len(self.labels)) for label in labels]
        return np.asarray(np.array(numbers, np.int64)[at])


class Tally:
    """How often each state, action and next state followed one another.

    >>> tally = Tally()
    >>> tally.add(np.array([0, 0, 0]), np.array([1, 1, 1]), np.array([2, 2, END]))
    >>> [part.tolist() for part in tally.steps()]
    [[0, 0], [1, 1], [0, 2], [1, 2]]
    """

    def __init__(self) -> None:
        self.table, self.filled = empty(SMALLEST), 0
        self.helper: ThreadPoolExecutor | None = None
        self.counting: Future[None] | None = None

    def add(self, states: np.ndarray, actions: np.ndarray, follows: np.ndarray) -> None:
        """Count these steps, in a thread of its own: what follows can be read meanwhile."""
        from concurrent.futures import ThreadPoolExecutor

        from inverseq._kernels import packing_loop

        if not len(states):
            return
        parts = [states, actions, follows]
        if any(part.dtype != np.int32 for part in parts):  # for two types it is compiled, not eight
            parts = [part.astype(np.int64) for part in parts]
        keys = np.empty(len(states), np.int64)
        largest = packing_loop(*parts, ACTION_BITS, NEXT_BITS, keys)
        for name, most, bits in zip(
            ("states", "actions", "states"), largest,
            (NEXT_BITS - 1, ACTION_BITS, NEXT_BITS), strict=True,
        ):  # fmt: skip
            if most >= 2**bits:
                raise InvalidInput(
                    f"A log must have fewer than {2**bits:,} {name} to be counted; this one has "
                    f"more."
                )
        self.wait()
        self.helper = self.helper or ThreadPoolExecutor(1)
        self.counting = self.helper.submit(self._put, keys)

    def wait(self) -> None:
        """Let the counting end, or raise what ended it."""
        if self.counting is not None:
            self.counting.result()
        self.counting = None

    def steps(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """States, actions, what followed, and how often; in order."""
        self.wait()
        if self.helper is not None:
            self.helper.shutdown()
            self.helper = None
        held = self.table[self.table[:, 0] >= 0]
        held = held[np.argsort(held[:, 0])]
        keys, last_action = held[:, 0], 2**ACTION_BITS - 1
        pairs, follows = keys >> NEXT_BITS, keys & (2**NEXT_BITS - 1)
        return pairs >> ACTION_BITS, pairs & last_action, follows, held[:, 1]

    def _put(self, keys: np.ndarray) -> None:
        from inverseq._kernels import counting_loop

        once = np.zeros(0, np.int64)
        done, self.filled = counting_loop(keys, once, self.table, self.filled)
        while done < len(keys):
            held = self.table[self.table[:, 0] >= 0]
            self.table = empty(2 * len(self.table))
            old, how_often = (np.ascontiguousarray(column) for column in held.T)
            _, self.filled = counting_loop(old, how_often, self.table, 0)
            keys = keys[done:]
            done, self.filled = counting_loop(keys, once, self.table, self.filled)


def empty(size: int) -> np.ndarray:
    """A table of keys and counts without keys."""
    return np.stack([np.full(size, -1, np.int64), np.zeros(size, np.int64)], axis=1)
