"""The border: what is given becomes an array or a number, or a message.

Every message says what must hold, what was given and where, and what to do. Inside the library
nothing is checked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from inverseq.errors import InvalidInput

ROW_SUM_TOLERANCE = 1e-8
"""How far probabilities may be from a sum of 1."""


def as_array(given: Any, name: str) -> np.ndarray:
    """An array of numbers or truth values, or the message that says what was given instead."""
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise InvalidInput(
            f"`{name}` must be an array of numbers, but has rows of different shapes."
        ) from error
    if array.dtype.kind not in "biuf":
        raise InvalidInput(
            f"`{name}` must be an array of numbers; got {type(given).__name__}, as an array "
            f"{array.dtype} of shape {array.shape}."
        )
    if np.ma.is_masked(given):
        raise InvalidInput(f"`{name}` must have all its entries; some of them are masked.")
    return array


def as_number(given: Any) -> float:
    """A number as a float; NaN for what is none, so that it passes no comparison.

    >>> as_number(np.float32(0.5)), as_number("0.5"), as_number(True)
    (0.5, nan, nan)
    """
    if getattr(given, "ndim", None) == 0:
        given = np.asarray(given).item()
    if isinstance(given, bool) or not isinstance(given, Real):
        return float("nan")
    try:
        return float(given)
    except OverflowError:
        return float("nan")


def as_whole(given: Any) -> int:
    """A whole number that is not negative as an int; -1 for anything else.

    >>> as_whole(3.0), as_whole(1.5), as_whole(True), as_whole(-7)
    (3, -1, -1, -1)
    """
    number = as_number(given)
    return int(number) if 0 <= number < 2**53 and number == int(number) else -1


def as_numbers(given: Any, n: int, what: str, owner: str) -> np.ndarray:
    """Numbers of some of n states, in an array of one axis."""
    array = as_array(given, what)
    if not array.size:
        array = array.astype(int)  # an empty list has no kind
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise InvalidInput(
            f"`{what}` must be the numbers of states, a 1-D array of integers; got {array.dtype} "
            f"of shape {array.shape}."
        )
    check_range(array, n, what, owner)
    return array


def table_of_states(given: Any, name: str) -> Any:
    """What has one entry or row for each state, if it is such a thing rather than numbers."""
    array = None if given is None or callable(given) else as_array(given, name)
    if array is None or not array.ndim or not array.size or array.dtype.kind in "iu":
        return None
    return array


def state_mask(given: Any, n_states: int | None, name: str) -> np.ndarray:
    """A boolean mask over states, from a mask or a list of state numbers."""
    given = as_array(given, name)
    if not given.size:
        given = given.astype(int)  # an empty list has no kind
    if given.dtype == bool and given.ndim == 1:
        if n_states is not None and len(given) != n_states:
            raise InvalidInput(f"`{name}` must have {n_states} entries; it has {len(given)}.")
        return np.array(given)
    if given.dtype.kind not in "iu" or given.ndim > 1 or n_states is None:
        raise InvalidInput(
            f"`{name}` must be a boolean mask over states, or state numbers where the number of "
            f"states is known; got {given.dtype} of shape {given.shape}."
        )
    numbers = np.atleast_1d(given)
    check_range(numbers, n_states, name, "Task.n_states")
    mask = np.zeros(n_states, bool)
    mask[numbers] = True
    return mask


def distribution(given: Any, n_states: int | None) -> np.ndarray:
    """A distribution over states, from one or from the number of a state."""
    given = as_array(given, "Task.initial")
    if given.ndim == 0 and given.dtype.kind in "iu" and n_states is not None:
        return state_mask(given, n_states, "Task.initial").astype(float)
    weights: np.ndarray = given.astype(float)
    if weights.ndim != 1 or not weights.size or (n_states is not None and len(weights) != n_states):
        raise InvalidInput(
            f"`Task.initial` must be a distribution over {n_states} states or the number of one; "
            f"got shape {weights.shape}."
        )
    if not (weights >= 0).all() or abs(weights.sum() - 1) > ROW_SUM_TOLERANCE:
        raise InvalidInput(
            f"`Task.initial` must hold probabilities that sum to 1; the sum is "
            f"{weights.sum():.10g} and the smallest is {weights.min():.6g}. "
            f"{normalise(weights.sum())}."
        )
    return weights


def shaped(given: Any, shape: tuple[int, ...], name: str, kind: type = float) -> np.ndarray:
    """An array of this shape and kind, or the message."""
    array = as_array(given, name)
    if array.shape != shape or (kind is bool and array.dtype != bool):
        what = "be boolean of shape" if kind is bool else "have shape"
        raise InvalidInput(
            f"`{name}` must {what} {shape}; it is {array.dtype} of shape {array.shape}."
        )
    return array.astype(kind, copy=False)


def check_workers(given: Any) -> None:
    """Raise unless there can be so many processes: None for one on each core, 0 for none."""
    if given is not None and as_whole(given) < 0:
        raise InvalidInput(f"`workers` must be None or an integer from 0; got {given!r}.")


def check_range(values: np.ndarray, n: int, what: str, owner: str) -> None:
    """Raise unless all values are integers from 0 to n - 1, naming the first row that is not."""
    if not values.size:
        return
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= n:
        row = int(np.flatnonzero((values < 0) | (values >= n))[0])
        raise InvalidInput(
            f"`{what}` must lie from 0 to {n - 1} (`{owner}` is {n}); row {row} is {values[row]}."
        )


def check_rows(given: Any, name: str = "policy") -> np.ndarray:
    """A table of floats whose rows are distributions, or all 0 where nothing can be done."""
    table = as_array(given, name).astype(float)
    if table.ndim != 2:
        raise InvalidInput(f"`{name}` must have shape (states, actions); it has {table.shape}.")
    right = np.abs(table.sum(axis=1) - 1) <= ROW_SUM_TOLERANCE
    if right.all() and (table >= 0).all():
        return table
    bad = ~(right & (table >= 0).all(axis=1)) & table.any(axis=1)
    if bad.any():
        s = int(np.flatnonzero(bad)[0])
        raise InvalidInput(
            f"`{name}` must hold probabilities that sum to 1 in every state; the row of state {s} "
            f"is {table[s].tolist()}, with sum {table[s].sum():.10g}. "
            f"{normalise(table[s].sum())}."
        )
    return table


def check_row_sums(
    sums: np.ndarray, available: np.ndarray | None, terminal: np.ndarray | None
) -> None:
    """Raise unless the rows of what can be done sum to 1; those of terminal states may be empty."""
    wrong = np.abs(sums - 1) > ROW_SUM_TOLERANCE
    if available is not None:
        wrong &= available
    if terminal is not None:
        wrong &= ~(terminal[:, None] & (sums == 0))
    if wrong.any():
        s, a = np.argwhere(wrong)[0]
        raise InvalidInput(
            f"`Task.transitions` must have rows that sum to 1; row (state {s}, action {a}) sums to "
            f"{sums[s, a]:.10g}. {normalise(sums[s, a])}, or make action {a} unavailable in state "
            f"{s}."
        )


def normalise(total: float) -> str:
    """What to do about probabilities with this sum; float32 misses 1 by more than is allowed."""
    missed = abs(total - 1)
    if missed <= ROW_SUM_TOLERANCE:
        return "Leave no entry below 0"
    return "Normalise it in float64" if missed < 1e-5 else "Normalise it"


def finite(array: np.ndarray, name: str) -> None:
    """Raise unless all entries are finite, naming the first that is not."""
    wrong = np.argwhere(~np.isfinite(array))
    if wrong.size:
        where = tuple(wrong[0].tolist())
        place = f"entry {where}" if len(where) > 1 else f"that of state {where[0]}"
        raise InvalidInput(f"`{name}` must be finite; {place} is {array[where]}.")


def check_stopping(tolerance: Any, max_iterations: Any = 1) -> None:
    """Raise unless a loop with these can end, and has a beginning."""
    if not as_number(tolerance) >= 0:
        raise InvalidInput(f"`tolerance` must be a number from 0; got {tolerance!r}.")
    if as_whole(max_iterations) < 1:
        raise InvalidInput(
            f"`max_iterations` must be an integer of at least 1; got {max_iterations!r}."
        )


def check_choice(given: Any, options: Sequence[str], name: str) -> None:
    """Raise unless it is one of these words."""
    if not isinstance(given, str) or given not in options:
        words = " or ".join((", ".join(map(repr, options[:-1])), repr(options[-1])))
        raise InvalidInput(f"`{name}` must be {words}; got {given!r}.")


def check_kind(given: Any, kind: type | tuple[type, ...], name: str) -> None:
    """Raise unless it is one of the library's nouns: arguments are easily swapped."""
    if not isinstance(given, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        named = " or ".join(f"`{each.__name__}`" for each in kinds)
        raise InvalidInput(f"`{name}` must be a {named}; got {given!r:.60}.")
