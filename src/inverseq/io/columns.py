"""Columns of somebody's table: Arrow's types to numbers of labels, rows of numbers, ranks of times.

Whatever cannot be taken for what it is named as ends in a message with the column and the row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from inverseq.errors import InvalidInput
from inverseq.labels import Label, nearest

Names = str | Sequence[str]


def as_table(given: Any) -> Any:
    """An Arrow table: of one, of anything that shows itself as one, or of columns by name."""
    import pyarrow as pa

    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    try:
        if hasattr(given, "__arrow_c_stream__"):
            return pa.table(given)
        if isinstance(given, Mapping):
            return pa.table({str(name): as_column(column) for name, column in given.items()})
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInput(f"A log must have columns of one type and length each: {error}.") from (
            error
        )
    raise InvalidInput(
        f"A log must be a table of polars, pandas (from 2.2) or Arrow, or a dictionary of columns; "
        f"got {type(given).__name__}."
    )


def as_column(given: Any) -> Any:
    """A column: an array of Arrow, or a list; rows of numbers become lists."""
    import pyarrow as pa

    if isinstance(given, pa.Array | pa.ChunkedArray):
        return given
    if isinstance(given, np.ndarray) and given.ndim > 1:
        width = int(np.prod(given.shape[1:]))
        return pa.FixedSizeListArray.from_arrays(pa.array(given.ravel()), width)
    return pa.array(given if isinstance(given, np.ndarray) else list(given))


def names_of(given: Names, what: str) -> tuple[str, ...]:
    """Names of columns, from one or from a list."""
    names = (given,) if isinstance(given, str) else tuple(given)
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidInput(
            f"`{what}` must be the name of a column or a list of them; got {given!r}."
        )
    return names


def column_of(table: Any, name: str, what: str) -> Any:
    """A column of a table, or the message with the names that are near."""
    if name not in table.column_names:
        raise InvalidInput(
            f"`{what}` must name a column of the log; it has none called {name!r}."
            f"{nearest(name, table.column_names)} Its columns: {', '.join(table.column_names)}."
        )
    if table.column_names.count(name) > 1:
        raise InvalidInput(
            f"`{what}` must name one column of the log; {table.column_names.count(name)} are "
            f"called {name!r}. Rename them."
        )
    return table[name]


def simple(column: Any, name: str, what: str) -> Any:
    """A column of labels as int64, text or booleans; None if it holds numbers that measure."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if pa.types.is_integer(kind):
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise InvalidInput(
                f"`{what}` must be integers less than 2**63; column {name!r} holds "
                f"{pc.max(column)}. Make them text."
            ) from error
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view":
        return column.cast(pa.large_string())
    if pa.types.is_boolean(kind):
        return column
    if pa.types.is_null(kind):
        return column.cast(pa.int64())
    if pa.types.is_floating(kind) or is_rows(kind):
        return None
    raise InvalidInput(
        f"`{what}` must be integers, text, categories, truth values or floating-point numbers; "
        f"column {name!r} holds {kind}. Convert it."
    )


def is_rows(kind: Any) -> bool:
    """Whether a column holds a list of numbers in each row."""
    import pyarrow as pa

    listed = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if not any(check(kind) for check in listed):
        return False
    inner = kind.value_type
    return is_rows(inner) or pa.types.is_floating(inner) or pa.types.is_integer(inner)


def missing(column: Any) -> np.ndarray:
    """Where a column has no value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return np.array(pc.is_null(column, nan_is_null=pa.types.is_floating(column.type)))


def rows_of_numbers(columns: Sequence[Any], names: Sequence[str], what: str) -> np.ndarray:
    """Columns of numbers side by side, or one column of lists, as float rows; NaN for no value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(columns) == 1 and is_rows(columns[0].type):
        column = columns[0].combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # of older versions, and without any rows
            column = pa.concat_arrays(column.chunks)
        shape = [len(column)]
        if column.null_count:
            # A list in the place of none, so that all have one length; its NaNs say what it is.
            full = column.drop_null()
            if not len(full):
                return np.full((len(column), 1), np.nan)
            at = np.cumsum(~missing(column)) - 1
            rows: np.ndarray = rows_of_numbers([pa.chunked_array([full])], names, what)
            rows = rows[np.maximum(at, 0)]
            rows[missing(column)] = np.nan
            return rows
        while is_rows(column.type):
            lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
            if len(np.unique(lengths)) > 1:
                odd = int(np.argmax(lengths != lengths[0]))
                row = odd // max(int(np.prod(shape[1:])), 1)
                raise InvalidInput(
                    f"`{what}` must be lists of one length; in column {names[0]!r} row 0 has "
                    f"{lengths[0]} numbers and row {row} has {lengths[odd]}."
                )
            shape.append(int(lengths[0]) if len(lengths) else 1)
            column = column.flatten()
        kept = np.float32 if pa.types.is_float32(column.type) else np.float64
        return np.array(column.to_numpy(zero_copy_only=False), kept).reshape(shape)
    for column, name in zip(columns, names, strict=True):
        if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
            raise InvalidInput(
                f"`{what}` must be all labels or all numbers; {name!r} holds {column.type} beside "
                f"columns of floating-point numbers. Cast those to integers, or leave it out."
            )
    kinds = {str(column.type) for column in columns}
    kept = np.float32 if kinds == {"float"} else np.float64
    return np.column_stack([column.to_numpy().astype(kept) for column in columns])


def coded(groups: Sequence[Sequence[Any]]) -> tuple[list[np.ndarray], list[Label]]:
    """Numbers for the labels in groups of columns that share them, and the labels, sorted.

    Each group has a column for each part of a label; no value becomes -1.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    parts, sizes, values = [], [], []
    for columns in zip(*groups, strict=True):
        kinds = {str(column.type) for column in columns if column.null_count < len(column)}
        if len(kinds) > 1:
            raise InvalidInput(
                f"States and next states must be of one type; they hold "
                f"{' and '.join(sorted(kinds))}. Convert one of them."
            )
        kind = next((c.type for c in columns if c.null_count < len(c)), columns[0].type)
        pieces = [chunk for c in columns for chunk in c.cast(kind).chunks]
        known = pc.unique(pa.chunked_array(pieces, kind)).drop_null()
        known = known.take(pc.sort_indices(known))
        parts.append(
            [pc.fill_null(pc.index_in(c.cast(kind), known), -1).to_numpy() for c in columns]
        )
        sizes.append(len(known))
        values.append(known.to_pylist())
    if len(values) == 1:
        return [np.asarray(codes, np.int64) for codes in parts[0]], values[0]
    if np.prod(np.array(sizes, float)) > 2**62:
        raise InvalidInput(f"The columns of a label have too many values together: {sizes}.")
    packed = []
    for codes in zip(*parts, strict=True):
        whole = np.zeros(len(codes[0]), np.int64)
        for code, size in zip(codes, sizes, strict=True):
            whole = whole * size + code
        packed.append(np.where(np.any([code < 0 for code in codes], axis=0), -1, whole))
    distinct = np.unique(np.concatenate(packed))
    distinct = distinct[distinct >= 0]
    split, rest = [], distinct
    for size in reversed(sizes):
        split.append(rest % max(size, 1))
        rest = rest // max(size, 1)
    spelt = [[value[i] for i in at] for value, at in zip(values, reversed(split), strict=True)]
    numbers = [np.where(p < 0, -1, np.searchsorted(distinct, p)) for p in packed]
    return numbers, list(zip(*spelt, strict=True))


UNKNOWN = -2
"""The number of a label that is not among the known ones."""


def renumbered(
    codes: list[np.ndarray], found: list[Label], known: tuple[Label, ...] | None
) -> tuple[list[np.ndarray], tuple[Label, ...]]:
    """The numbers that labels have among known ones, where those are given."""
    if known is None:
        return codes, tuple(found)
    place = {label: i for i, label in enumerate(known)}
    moved = np.array([*(place.get(label, UNKNOWN) for label in found), -1], np.int64)
    return [moved[code] for code in codes], known


def known(states: np.ndarray) -> np.ndarray:
    """Whether there is a state."""
    return states >= 0 if states.ndim == 1 else ~not_finite(states)


def not_finite(rows: np.ndarray) -> np.ndarray:
    """Where rows of numbers hold one that is not finite."""
    return np.asarray(~np.isfinite(rows.reshape(len(rows), -1)).all(axis=1))


def whole(column: Any, name: str, what: str = "action") -> Any:
    """A column of labels; floating-point numbers are taken where all of them are whole."""
    import pyarrow as pa
    import pyarrow.compute as pc

    labels = simple(column, name, what)
    if labels is not None:
        return labels
    if pa.types.is_floating(column.type):
        filled = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        values = filled.to_numpy()
        fraction = ~np.isnan(values) & (values != np.round(values))
        if not fraction.any():
            return filled.cast(pa.int64())
        row = int(fraction.argmax())
        raise InvalidInput(
            f"`{what}` must be labels; column {name!r} holds floating-point numbers, and row {row} "
            f"is {values[row]:g}. Make bins of them, and give each a number or a name."
        )
    raise InvalidInput(
        f"`{what}` must be labels; column {name!r} holds {column.type}. Give each of them a number "
        f"or a name."
    )


def first_seen(column: Any) -> np.ndarray:
    """Numbers for labels in the order in which they appear; -1 for no value."""
    import pyarrow.compute as pc

    values = pc.unique(column).drop_null()
    return np.asarray(pc.fill_null(pc.index_in(column, values), -1).to_numpy(), np.int64)


def key_of(episode: Any, unit: Any, names: Mapping[str, str | None]) -> np.ndarray | None:
    """A number for the episode of each row; two units never share one, whatever its label."""
    given = {"episode": episode, "unit": unit}
    parts = [
        first_seen(whole(column, names[what] or "", what))
        for what, column in given.items()
        if column is not None
    ]
    if len(parts) < 2:
        return parts[0] if parts else None
    episodes, units = parts
    packed = np.where((episodes < 0) | (units < 0), -1, episodes * (units.max() + 1) + units)
    values, first, at = np.unique(packed, return_index=True, return_inverse=True)
    rank = np.empty(len(values), np.int64)
    rank[np.argsort(np.where(values < 0, -1, first))] = np.arange(len(values)) - (values[0] < 0)
    return np.asarray(rank[at])


def as_labels(column: Any, name: str | None) -> np.ndarray:
    """Labels of episodes or units as integers or text; something where there is no value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    labels = whole(column, name or "", "episode")
    if pa.types.is_integer(labels.type):
        return np.asarray(pc.fill_null(labels, 0).to_numpy())
    return np.array(pc.fill_null(labels.cast(pa.large_string()), "").to_pylist(), str)


def times(column: Any, name: str | None) -> np.ndarray:
    """The rank of each time; -1 for no value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if "string" in str(column.type) and column.null_count < len(column):
        raise InvalidInput(
            f"`time` must be numbers, dates or time stamps; column {name!r} holds text, such as "
            f"{column.drop_null()[0].as_py()!r}. Convert it: text has another order."
        )
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    values = pc.unique(column).drop_null()
    values = values.take(pc.sort_indices(values))
    return np.asarray(pc.fill_null(pc.index_in(column, values), -1).to_numpy(), np.int64)


def truths(column: Any, name: str | None) -> np.ndarray:
    """Truth values, also where they are written as 0 and 1; false for no value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_boolean(column.type):
        numbers = whole(column, name or "", "terminated")
        found = pc.unique(numbers).drop_null().to_pylist()
        if not set(found) <= {0, 1} or not pa.types.is_integer(numbers.type):
            raise InvalidInput(
                f"`terminated` must be true or false, or 1 or 0; column {name!r} also holds "
                f"{next(value for value in found if value not in (0, 1))!r}."
            )
        column = numbers.cast(pa.bool_())
    return np.array(pc.fill_null(column, False), bool)
