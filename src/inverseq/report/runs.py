"""Runs: what an experiment leaves behind. Rows of numbers, what they say, and how they came about.

A run is a folder. ``rows.jsonl`` holds one result on each line, ``document.json`` what a report
says of them, and ``run.json`` the rest, with the checksums of both. The folder may hold more, such
as saved solutions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from inverseq.errors import InvalidInput
from inverseq.io import storage
from inverseq.report.blocks import Document, from_plain, settle, to_plain
from inverseq.solution import plain, versions

RUN_FORMAT = 1
RUN, ROWS, DOCUMENT = "run.json", "rows.jsonl", "document.json"


@dataclass(frozen=True)
class Run:
    """The results of an experiment.

    >>> run = Run("demo", Document("Demo", "It works.", []), rows=[{"method": "IAVI", "evd": 0.09}])
    >>> run.rows[0]["evd"]
    0.09
    """

    kind: str
    """Which experiment it is."""
    document: Document
    """What a report says of it."""
    rows: Sequence[Mapping[str, Any]] = ()
    """Its results, one mapping for each; an infinity or NaN becomes a text."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What it was asked to do, as plain data."""
    command: str = ""
    """The command that makes it again."""
    seed: int | None = None
    """The seed, where chance had a part."""
    seconds: float = 0.0
    """Wall time."""
    versions: Mapping[str, str] = field(default_factory=versions)
    """What it was computed with."""

    def __post_init__(self) -> None:
        settle(self, rows=tuple(plain(dict(row)) for row in self.rows))
        settle(self, settings=plain(dict(self.settings)), versions=dict(self.versions))


def save_run(folder: str | PathLike[str], run: Run) -> None:
    """Save a run as a folder; one that is there is replaced, and other files stay.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_run(folder, Run("demo", Document("Demo", "It works.", []), [{"evd": 0.09}]))
    ...     load_run(folder).rows
    ({'evd': 0.09},)
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"A run is saved as a folder; {folder} is a file. Choose another name.")
    for name in ("solution.json", storage.ARRAYS):
        if (folder / name).exists():
            raise InvalidInput(
                f"A run must have a folder of its own; {folder} holds {name}. Choose another one, "
                f"or one above it."
            )
    if (folder / RUN).exists() and not is_run(folder):
        raise InvalidInput(
            f"A run may replace only a run; {folder} holds a {RUN} of something else. Choose "
            f"another folder."
        )
    lines = [json.dumps(row, allow_nan=False) + "\n" for row in run.rows]
    rows = "".join(lines).encode()
    document = json.dumps(to_plain(run.document), allow_nan=False).encode()
    record = {
        "format": RUN_FORMAT,
        "kind": run.kind,
        "title": run.document.title,
        "command": run.command,
        "settings": run.settings,
        "versions": run.versions,
        "seed": run.seed,
        "seconds": run.seconds,
        "files": {ROWS: sha256(rows), DOCUMENT: sha256(document)},
    }
    record["sha256"] = storage.checksum(record)
    # The record comes last: it holds the checksums of the others.
    files = {ROWS: rows, DOCUMENT: document, RUN: json.dumps(record, indent=1).encode()}
    storage.write_files(folder, files)


def load_run(folder: str | PathLike[str]) -> Run:
    """Read what `save_run` wrote, after its checksums; runs no code from it.

    >>> load_run("nowhere")
    Traceback (most recent call last):
    ...
    inverseq.errors.InvalidInput: A run is a folder with run.json; there is none at nowhere.
    """
    folder = Path(folder)
    if not is_run(folder):
        raise InvalidInput(f"A run is a folder with {RUN}; there is none at {folder}.")
    place = folder / RUN
    text = storage.read(place)
    try:
        record = json.loads(text)
        version, own_sum = int(record["format"]), record.pop("sha256")
    except Exception as error:  # damage shows itself in any way it likes
        raise storage.damaged(place, "it is not what was written") from error
    if version > RUN_FORMAT:
        raise storage.newer(place, version, RUN_FORMAT)
    if storage.checksum(record) != own_sum:
        raise storage.damaged(place, "its checksum does not agree")
    data = {}
    for name in (ROWS, DOCUMENT):
        data[name] = storage.read(folder / name)
        if sha256(data[name]) != record.get("files", {}).get(name):
            raise storage.damaged(folder / name, "its checksum does not agree")
    names = ("kind", "settings", "command", "seed", "seconds", "versions")
    try:
        known = {name: record[name] for name in names}
        rows = [json.loads(line) for line in data[ROWS].splitlines()]
        document = json.loads(data[DOCUMENT])
    except (KeyError, ValueError) as error:
        raise storage.damaged(place, f"it lacks something ({error})") from error
    return Run(document=from_plain(document, str(folder / DOCUMENT)), rows=rows, **known)


def is_run(folder: Path) -> bool:
    """Whether the folder holds a run: a record that is ours, or one too broken to tell."""
    try:
        record = json.loads((folder / RUN).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (ValueError, RecursionError):
        return True
    return isinstance(record, dict) and {"format", "kind"} <= record.keys()


def sha256(data: bytes) -> str:
    """The fingerprint of a file."""
    return hashlib.sha256(data).hexdigest()
