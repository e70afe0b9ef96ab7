"""Files that are whole or not there: one file, or a folder of arrays and settings.

Everything is written beside its place, brought to the disk and renamed, so that a crash leaves the
old version or the new one. Everything is read with its checksums, and reading runs no code.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from inverseq.errors import DamagedFile, InvalidInput

FOLDER_FORMAT = 1
ARRAYS = "arrays.safetensors"
REPORT = "report.html"
"""A page about a folder may lie in it: it is made again from what it tells of."""

Name = str | os.PathLike[str]


def write_file(path: Name, data: bytes) -> None:
    """Write a whole file or nothing; folders on the way to it are made.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file(f"{folder}/results/table.txt", b"1 2 3")
    ...     Path(f"{folder}/results/table.txt").read_bytes()
    b'1 2 3'
    """
    path = Path(path).resolve()  # a link stays a link: what it leads to is replaced
    write_files(path.parent, {path.name: data})


def write_files(folder: Name, files: Mapping[str, bytes]) -> None:
    """Write files that belong together: none takes its place before all are on the disk.

    Between the first and the last that takes its place a crash can still fall; the last should
    therefore hold the checksums of the others.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_files(folder, {"rows": b"1 2 3", "sums": b"6"})
    ...     sorted(file.name for file in Path(folder).iterdir())
    ['rows', 'sums']
    """
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    partials = {folder / name: beside(folder / name) for name in files}
    try:
        for partial, data in zip(partials.values(), files.values(), strict=True):
            with partial.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        for path, partial in partials.items():
            os.replace(partial, path)
    except BaseException:
        for partial in partials.values():
            partial.unlink(missing_ok=True)
        raise
    sync(folder)


def write_folder(
    folder: Name, kind: str, arrays: Mapping[str, np.ndarray], settings: Mapping[str, Any]
) -> None:
    """Write arrays and settings as one folder; one of the same kind is replaced.

    Settings are strict JSON: text, finite numbers, truth values, ``None``, and lists and
    dictionaries of them. Anything else, infinities included, is a ``TypeError`` that names its
    place: whoever saves decides what stands for it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     write_folder(f"{parent}/found", "solution", {"q": np.eye(2)}, {"discount": 0.9})
    ...     arrays, settings = read_folder(f"{parent}/found", "solution")
    >>> arrays["q"], settings
    (array([[1., 0.], [0., 1.]]), {'discount': 0.9})
    """
    from safetensors.numpy import save

    folder = Path(folder).resolve()
    check_replaceable(folder, kind)
    check_json(settings, "settings")
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise TypeError(f"`arrays[{name!r}]` must hold numbers; its dtype is {array.dtype}.")
    data = save({name: np.asarray(array, order="C") for name, array in arrays.items()})
    document = {
        "format": FOLDER_FORMAT,
        "arrays": hashlib.sha256(data).hexdigest(),
        "settings": settings,
    }
    document["sha256"] = checksum(document)

    with replaced(folder) as partial:
        write_file(partial / ARRAYS, data)
        write_file(partial / f"{kind}.json", json.dumps(document, indent=1).encode())


@contextmanager
def replaced(folder: Name) -> Iterator[Path]:
    """An empty folder that takes the place of another once all is in it; or never, if that fails.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     with replaced(f"{parent}/run") as new:
    ...         write_file(new / "rows", b"1 2 3")
    ...     Path(f"{parent}/run/rows").read_bytes()
    b'1 2 3'
    """
    folder = Path(folder).resolve()
    partial, old = beside(folder), beside(folder)
    try:
        partial.mkdir(parents=True)
        yield partial
        if folder.exists():
            os.replace(folder, old)
        os.replace(partial, folder)
    except BaseException:
        if old.exists() and not folder.exists():
            os.replace(old, folder)
        shutil.rmtree(partial, ignore_errors=True)
        raise
    sync(folder.parent)
    if old.exists():
        shutil.rmtree(old)


def read_folder(folder: Name, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the settings of a folder, after its checksums."""
    from safetensors.numpy import load

    folder = Path(folder)
    if not folder.is_dir():
        raise InvalidInput(f"A saved {kind} is a folder; there is none at {folder}.")
    settings_file, arrays_file = folder / f"{kind}.json", folder / ARRAYS
    text = read(settings_file)
    try:
        document = json.loads(text)
        version = int(document["format"])
        # Of a newer format nothing else is known.
        if version > FOLDER_FORMAT:
            raise newer(settings_file, version, FOLDER_FORMAT)
        settings, arrays_sum = document["settings"], document["arrays"]
        own_sum = document.pop("sha256")
    except DamagedFile:
        raise
    except Exception as error:  # damage shows itself in any way it likes
        raise damaged(settings_file, "it is not what was written") from error
    if checksum(document) != own_sum:
        raise damaged(settings_file, "its checksum does not agree")
    data = read(arrays_file)
    if hashlib.sha256(data).hexdigest() != arrays_sum:
        raise damaged(arrays_file, "its checksum does not agree")
    try:
        return load(data), settings
    except Exception as error:  # whoever mends checksums can still write what is no array
        raise damaged(arrays_file, "it is not what was written") from error


def damaged(path: Path, reason: str) -> DamagedFile:
    """The error for a file that is not as it was written."""
    return DamagedFile(f"{path} is damaged: {reason}. Take it from a backup, or save it again.")


def newer(path: Path, version: int, known: int) -> DamagedFile:
    """The error for a file from the future."""
    return DamagedFile(
        f"{path} was written by a newer version of inverseq (format {version}; this one knows "
        f"{known}). Update inverseq to read it."
    )


def read(path: Path) -> bytes:
    """The bytes of a file that must be there."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise damaged(path, "it is missing") from error
    except IsADirectoryError as error:
        raise damaged(path, "it is a folder") from error


def checksum(document: Mapping[str, Any]) -> str:
    """SHA-256 of the one way to write a document: sorted keys, no spaces."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def check_json(value: Any, place: str) -> None:
    """Raise unless the value comes back from JSON as it went in, but for tuples."""
    match value:
        case dict() if all(isinstance(key, str) for key in value):
            for key, item in value.items():
                check_json(item, f"{place}[{key!r}]")
        case list() | tuple():
            for i, item in enumerate(value):
                check_json(item, f"{place}[{i}]")
        case None | int() | str():
            pass
        case float() if math.isfinite(value):
            pass
        case _:
            raise TypeError(
                f"`{place}` must be text, a finite number, None, or a list or dictionary (with "
                f"text as keys) of them; it is {value!r}."
            )


def check_replaceable(folder: Path, kind: str, held: Collection[str] = (ARRAYS,)) -> None:
    """Raise unless nothing would be lost by replacing the folder: it holds only what is written."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InvalidInput(
            f"A {kind} is saved as a folder; {folder} is a file. Choose another name."
        )
    found = {file.name for file in folder.iterdir()}
    settings_file = f"{kind}.json"
    foreign = sorted(found - {settings_file, REPORT, *held})
    if foreign or (found and settings_file not in found):
        other = (foreign or sorted(found))[0]
        raise InvalidInput(
            f"A {kind} may replace only a saved {kind}; {folder} holds {other}. Choose another "
            f"folder, or empty this one."
        )


def beside(path: Path) -> Path:
    """A name that nobody uses, in the same folder and so on the same disk."""
    return path.with_name(f".{path.name}.{uuid4().hex}.partial")


def sync(folder: Path) -> None:
    """Bring the names in a folder to the disk; Windows has no way to ask for it."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
