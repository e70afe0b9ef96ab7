"""Jobs: what an experiment computes, in processes side by side, each result kept as it comes.

A job is plain data, and its results are written to a file under a fingerprint of that data: an
experiment that was interrupted goes on where it was, and one that was changed computes only what
changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from inverseq._processes import side_by_side
from inverseq._progress import track
from inverseq.solution import plain
from inverseq.version import __version__

Job = Mapping[str, Any]
"""All that a result depends on, as plain data."""
Work = Callable[[dict[str, Any]], Any]
"""What does a job: a function of a module, so that other processes find it. It gives plain data."""


def done(
    work: Work,
    jobs: Sequence[Job],
    kept: Path,
    workers: int,
    what: str,
    progress: bool | None,
    turn: Callable[[Job], Any] | None = None,
) -> list[Any]:
    """The results of all jobs, in their order; those that ``kept`` holds are not done again.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done(len, [{"a": 1}, {}], Path(folder) / "jobs.jsonl", 0, "counting", False)
    [1, 0]

    Args:
        work: What does a job.
        jobs: What there is to do.
        kept: The file of results.
        workers: How many processes; 0 does everything in this one.
        what: What the progress bar says.
        progress: As everywhere: None shows a bar on a terminal.
        turn: By what to sort the jobs that are left: if the longest come first, all processes have
            something to do until the end.
    """
    known = read(kept)
    marks = [fingerprint(work, job) for job in jobs]
    left = [(mark, job) for mark, job in zip(marks, jobs, strict=True) if mark not in known]
    if turn is not None:
        left.sort(key=lambda each: turn(each[1]))
    if left:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with kept.open("a", encoding="utf-8") as file:
            finished = at_once if workers else in_turn
            for mark, result in ticking(finished(work, left, workers), len(left), what, progress):
                known[mark] = plain(result)
                file.write(json.dumps({"job": mark, "result": known[mark]}) + "\n")
                file.flush()
    return [known[mark] for mark in marks]


def left_of(work: Work, jobs: Sequence[Job], kept: Path) -> list[Job]:
    """The jobs whose results are not kept yet.

    >>> left_of(len, [{"a": 1}], Path("nowhere"))
    [{'a': 1}]
    """
    known = read(kept)
    return [job for job in jobs if fingerprint(work, job) not in known]


def in_turn(work: Work, left: Sequence[tuple[str, Job]], workers: int) -> Iterator[tuple[str, Any]]:
    """One job after another, in this process."""
    for mark, job in left:
        yield mark, work(dict(job))


def at_once(work: Work, left: Sequence[tuple[str, Job]], workers: int) -> Iterator[tuple[str, Any]]:
    """Several jobs at a time, in processes of their own, as they finish."""
    for number, result in side_by_side(work, [(dict(job),) for _, job in left], workers):
        yield left[number][0], result


def ticking(
    results: Iterator[tuple[str, Any]], n: int, what: str, progress: bool | None
) -> Iterator[tuple[str, Any]]:
    """The same, with a progress bar."""
    for _ in track(range(n), what, progress):
        yield next(results)
    results.close()  # type: ignore[attr-defined]


def fingerprint(work: Callable[..., Any], job: Job) -> str:
    """What names a result: the function, its data, and the version of the library.

    A ``folder`` says where files lie, and nothing of a result.

    >>> fingerprint(len, {"a": 1, "folder": "here"}) == fingerprint(len, {"a": 1})
    True
    """
    named = {"work": f"{work.__module__}.{work.__qualname__}", "version": __version__}
    said = {name: value for name, value in plain(dict(job)).items() if name != "folder"}
    text = json.dumps({**named, "job": said}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(kept: Path) -> dict[str, Any]:
    """The results of a file; a line that was cut off when something stopped is done again."""
    results: dict[str, Any] = {}
    if not kept.exists():
        return results
    whole, lines = True, kept.read_text(encoding="utf-8").splitlines(keepends=True)
    for line in lines:
        try:
            entry = json.loads(line)
            results[entry["job"]] = entry["result"]
        except (ValueError, KeyError, TypeError):
            whole = False
    if lines and (not whole or not lines[-1].endswith("\n")):
        from inverseq.io.storage import write_file

        text = "".join(json.dumps({"job": m, "result": r}) + "\n" for m, r in results.items())
        write_file(kept, text.encode())
    return results
