"""Files of logs: Parquet, CSV, JSON lines and Arrow, and the data sets of others.

A log is read whole, or counted batch by batch where it is larger than memory. No file runs code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from inverseq._checks import check_choice
from inverseq._progress import Bar
from inverseq.demonstrations import Demonstrations
from inverseq.errors import InvalidInput
from inverseq.history import History, check_history, remembered
from inverseq.io.columns import Names, column_of, names_of
from inverseq.io.logs import Availability, OnBad
from inverseq.labels import Labels

FORMATS = {
    "parquet": "parquet",
    "csv": "csv",
    "tsv": "csv",
    "jsonl": "json",
    "ndjson": "json",
    "arrow": "ipc",
    "feather": "ipc",
    "ipc": "ipc",
}
"""How the name of a file ends, and what that means."""
EMPTY = ["", "NA", "NaN", "nan", "null"]
"""What stands for no value in a CSV file."""
BATCH = 2**20
"""So many rows of a file are counted at once."""

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


def read(
    path: Paths,
    *,
    state: Names | None = None,
    action: Names | None = None,
    next_state: Names | None = None,
    episode: str | None = None,
    unit: str | None = None,
    time: str | None = None,
    terminated: str | None = None,
    available: Availability | None = None,
    labels: Labels | None = None,
    history: History | None = None,
    on_bad: OnBad = "raise",
    counts: bool = False,
    progress: bool | None = None,
) -> Demonstrations:
    """The demonstrations in a log: a file, several that follow one another, or a folder of them.

    >>> import tempfile, pathlib, inverseq as iq
    >>> rows = ["bout,place,move", "1,home,run", "1,port,drink", "1,port,run", "2,home,run"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "log.csv")
    ...     _ = file.write_text("\\n".join([*rows, "2,port,run"]))
    ...     seen = iq.read(file, state="place", action="move", episode="bout")
    >>> seen
    Demonstrations(3 steps in 2 episodes, 2 states, 2 actions, 0 ends)
    >>> found = iq.IAVI().fit(seen, seen.task(0.9))
    >>> found.predict(["home"])
    array(['run'], dtype=object)

    Args:
        path: ``.parquet``, ``.csv``, ``.tsv``, ``.jsonl``, ``.ndjson``, ``.arrow`` or ``.feather``;
            text also with ``.gz`` at the end. Or trajectories of the ``imitation`` library (a
            folder that a Hugging Face data set was saved to, or ``.npz``), a data set of Minari, or
            a file of `Demonstrations.save`; none of them needs the names of columns.
        state: This, and the names up to ``on_bad``, as in `Demonstrations.from_table`.
        counts: Give each distinct step once, with how often it was seen as its weight. A Parquet or
            Arrow file may then be larger than memory: what is needed is memory for the counts (and
            for the longest episode, where next states are derived). Counts have no episodes.
        progress: Show a bar: on a terminal where not given.
    """
    check_choice(on_bad, ("raise", "drop"), "on_bad")
    check_history(history, labels)
    if counts and (history is not None or (labels is not None and labels.histories is not None)):
        raise InvalidInput(
            "`history` must not be asked for with `counts`: counts have no order. Read the steps."
        )
    if state is None or action is None:
        if (state, action) == (None, None) and isinstance(path, str | PathLike):
            known = foreign(path)
            if known is not None:
                return remembered(known, history, labels)
        raise InvalidInput(
            f"`state` and `action` must name columns of the log; got {state!r} and {action!r}. "
            f"`inverseq show` lists the columns."
        )
    if counts:
        return counted(
            path, state, action, next_state,
            {"episode": episode, "unit": unit, "time": time, "terminated": terminated},
            available, labels, on_bad, progress,
        )  # fmt: skip
    wanted = columns_of(state, action, next_state, episode, unit, time, terminated, available)
    return Demonstrations.from_table(
        load(path, wanted),
        state=state,
        action=action,
        next_state=next_state,
        episode=episode,
        unit=unit,
        time=time,
        terminated=terminated,
        available=available,
        labels=labels,
        history=history,
        on_bad=on_bad,
    )


def columns_of(
    state: Names,
    action: Names,
    next_state: Names | None,
    *others: Any,
) -> list[str]:
    """The columns that are needed, each once."""
    names = [*names_of(state, "state"), *names_of(action, "action")]
    names += names_of(next_state, "next_state") if next_state is not None else ()
    names += [name for name in others if isinstance(name, str) and name != "seen"]
    return list(dict.fromkeys(names))


# -- files -------------------------------------------------------------------------------------


def files_of(path: Paths) -> tuple[list[Path], str]:
    """The files that a path names, in order, and their one format."""
    given = [Path(path)] if isinstance(path, str | PathLike) else [Path(each) for each in path]
    files: list[Path] = []
    for each in given:
        if each.is_dir():
            inside = sorted(f for f in each.rglob("*") if f.is_file() and format_of(f) is not None)
            if not inside:
                raise InvalidInput(
                    f"A log must be a file or a folder of them; in {each} none ends in "
                    f"{', '.join('.' + ending for ending in FORMATS)}."
                )
            files += inside
        elif each.is_file():
            files.append(each)
        else:
            raise InvalidInput(f"A log must be a file or a folder; there is none at {each}.")
    if not files:
        raise InvalidInput("A log must be a file or a folder; got an empty list.")
    formats = {format_of(file): file for file in files}
    if None in formats:
        raise InvalidInput(
            f"A log must end in {', '.join('.' + ending for ending in FORMATS)}, text also in .gz "
            f"after it; {formats[None].name} does not."
        )
    if len(formats) > 1:
        raise InvalidInput(
            f"The files of a log must be of one format; got "
            f"{' and '.join(sorted(map(str, formats)))}."
        )
    return files, str(next(iter(formats)))


def format_of(file: Path) -> str | None:
    """The format that the name of a file tells."""
    name = file.name.lower()
    zipped = name.endswith(".gz")
    found = FORMATS.get(name.removesuffix(".gz").rpartition(".")[2])
    return None if zipped and found not in ("csv", "json") else found


def load(path: Paths, columns: Sequence[str] | None = None) -> Any:
    """The table in a file, or in several of them that follow one another."""
    import pyarrow as pa

    files, kind = files_of(path)
    tables = []
    for file in files:
        try:
            tables.append(LOADERS[kind](file, columns))
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise unreadable(file, kind, error) from error
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise InvalidInput(f"The files of a log must have the same columns: {error}.") from error


def unreadable(file: Path, kind: str, error: Exception) -> InvalidInput:
    """The error for a file that is not what its name says."""
    said = str(error).partition("\n")[0].rstrip(".")
    return InvalidInput(f"{file} must be readable as {kind}; it is not: {said}.")


def load_parquet(file: Path, columns: Sequence[str] | None) -> Any:
    """A Parquet file, only the columns that are needed."""
    import pyarrow.parquet as pq

    known = pq.ParquetFile(file)
    return known.read(columns=wanted(known.schema_arrow.names, columns))


def load_csv(file: Path, columns: Sequence[str] | None) -> Any:
    """A CSV file with a line of names; tabs between columns where it ends in .tsv."""
    import pyarrow as pa
    import pyarrow.csv as csv

    tabs = ".tsv" in file.name.lower()
    convert = csv.ConvertOptions(null_values=EMPTY, strings_can_be_null=True)
    parse = csv.ParseOptions(delimiter="\t" if tabs else ",")
    with pa.input_stream(str(file), compression="detect") as stream:
        table = csv.read_csv(stream, parse_options=parse, convert_options=convert)
    return table.select(wanted(table.column_names, columns) or table.column_names)


def load_json(file: Path, columns: Sequence[str] | None) -> Any:
    """A file with a JSON object in each line."""
    import pyarrow as pa
    import pyarrow.json as json

    with pa.input_stream(str(file), compression="detect") as stream:
        table = json.read_json(stream)
    return table.select(wanted(table.column_names, columns) or table.column_names)


def load_ipc(file: Path, columns: Sequence[str] | None) -> Any:
    """A file of Arrow, of either form, or of Feather."""
    import pyarrow as pa
    import pyarrow.feather as feather

    with file.open("rb") as opened:
        start = opened.read(6)
    if start in (b"ARROW1", b"FEA1\0\0") or start[:4] == b"FEA1":
        table = feather.read_table(file)
    else:
        with pa.memory_map(str(file)) as source:
            table = pa.ipc.open_stream(source).read_all()
    return table.select(wanted(table.column_names, columns) or table.column_names)


LOADERS = {"parquet": load_parquet, "csv": load_csv, "json": load_json, "ipc": load_ipc}


def wanted(names: Sequence[str], columns: Sequence[str] | None) -> list[str] | None:
    """The columns to read; all of them where one is not there, so that a message can name them."""
    if columns is None or not set(columns) <= set(names):
        return None
    return list(columns)


def foreign(path: str | PathLike[str]) -> Demonstrations | None:
    """What needs no names of columns: a data set of `imitation`, of Minari, or our own file."""
    from inverseq.io.imitation import is_imitation, read_imitation

    given = Path(path)
    if is_imitation(given):
        return read_imitation(given)
    if given.is_dir() and any(
        (given / n).exists() for n in ("metadata.json", "data/metadata.json")
    ):
        from inverseq.io.minari import read_minari

        return read_minari(given)
    if given.is_file() and given.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            kept = pq.read_schema(given).metadata or {}
        except pa.ArrowException as error:
            raise unreadable(given, "parquet", error) from error
        if b"inverseq.demonstrations" in kept:
            return Demonstrations.load(given)
    return None


# -- counts ------------------------------------------------------------------------------------


def counted(
    path: Paths,
    state: Names,
    action: Names,
    next_state: Names | None,
    others: dict[str, str | None],
    available: Availability | None,
    labels: Labels | None,
    on_bad: OnBad,
    progress: bool | None,
) -> Demonstrations:
    """Each distinct step of a log once, with its count as its weight."""
    from inverseq.io.counting import Counting

    if isinstance(available, str) and available != "seen":
        raise InvalidInput(
            f"`available` must not be a column where `counts` are asked for; got {available!r}. "
            f"Give a table, a dictionary or a function, or 'seen'."
        )
    names = columns_of(state, action, next_state, *others.values())
    stream = Counting(
        [names_of(state, "state"), names_of(action, "action")],
        None if next_state is None else names_of(next_state, "next_state"),
        others,
        labels,
        on_bad,
    )
    for batch in batches(path, names, stream.named, progress):
        stream.add(batch)
    return Demonstrations.from_steps(stream.steps(available))


def batches(
    path: Paths, names: list[str], categories: Sequence[str], progress: bool | None
) -> Iterator[Any]:
    """The rows of files in order, some at a time."""
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    files, kind = files_of(path)
    if kind != "parquet" and not (kind == "ipc" and is_ipc_file(files)):
        table = load(path, names)
        for name in names:
            column_of(table, name, "a column")
        yield from table.select(names).to_batches(BATCH)
        return
    try:
        schema = pq.read_schema(files[0]) if kind == "parquet" else None
        form: Any = ds.IpcFileFormat()
        if schema is not None:
            nothing = schema.empty_table()
            text = [n for n in categories if str(column_of(nothing, n, "state").type) in TEXT]
            form = ds.ParquetFileFormat(dictionary_columns=text)
        data = ds.dataset([str(file) for file in files], format=form)
        nothing = data.schema.empty_table()
        for name in names:
            column_of(nothing, name, "a column")
        with Bar("counting steps", data.count_rows(), progress) as bar:
            for batch in data.to_batches(
                columns=names, batch_size=BATCH, batch_readahead=4, fragment_readahead=1
            ):
                yield batch
                bar.advance(len(batch))
    except (pa.ArrowException, OSError) as error:
        raise unreadable(files[0], kind, error) from error


TEXT = ("string", "large_string")


def is_ipc_file(files: Sequence[Path]) -> bool:
    """Whether Arrow files can be read in parts."""
    starts = []
    for file in files:
        with file.open("rb") as opened:
            starts.append(opened.read(6))
    return all(start == b"ARROW1" for start in starts)
