"""Progress bars: shown on a terminal, and only once the work has taken two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Sequence
from typing import TypeVar

PATIENCE = 2.0

T = TypeVar("T")


def track(items: Sequence[T], what: str, show: bool | None = None) -> Generator[T]:
    """The items one by one, with a bar on standard error once they take long.

    ``show=None`` shows it on a terminal only, ``True`` always and at once, ``False`` never.

    >>> list(track([1, 2, 3], "counting"))
    [1, 2, 3]
    """
    if show is False or (show is None and not sys.stderr.isatty()):
        yield from items
        return
    began = time.monotonic()
    bar = None
    try:
        for done, item in enumerate(items):
            if bar is None and (show or time.monotonic() - began > PATIENCE):
                from rich.console import Console
                from rich.progress import Progress

                bar = Progress(console=Console(stderr=True), transient=True)
                bar.start()
                bar.add_task(what, total=len(items), completed=done)
            yield item
            if bar is not None:
                bar.advance(bar.task_ids[0])
    finally:
        if bar is not None:
            bar.stop()
