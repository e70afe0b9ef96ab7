"""Progress bars: shown on a terminal, and only once the work has taken two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Sequence
from typing import Any, TypeVar

PATIENCE = 2.0

T = TypeVar("T")


class Bar:
    """A bar on standard error that appears once the work takes long.

    ``show=None`` shows it on a terminal only, ``True`` always and at once, ``False`` never.

    >>> with Bar("counting", total=3, show=False) as bar:
    ...     bar.advance(3)
    """

    def __init__(self, what: str, total: int, show: bool | None = None, done: int = 0) -> None:
        self.what, self.total, self.done = what, total, done
        self.wanted = sys.stderr.isatty() if show is None else show
        self.began = time.monotonic() - (PATIENCE if show else 0.0)
        self.shown: Any = None

    def advance(self, by: int = 1, note: str = "") -> None:
        """So much more is done; the note stands behind the bar."""
        self.done += by
        if not self.wanted:
            return
        if self.shown is None and time.monotonic() - self.began >= PATIENCE:
            from rich.console import Console
            from rich.progress import Progress

            self.shown = Progress(
                *Progress.get_default_columns(),
                "{task.fields[note]}",
                console=Console(stderr=True),
                transient=True,
            )
            self.shown.start()
            self.shown.add_task(self.what, total=self.total, completed=self.done, note=note)
        elif self.shown is not None:
            self.shown.update(self.shown.task_ids[0], completed=self.done, note=note)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *error: object) -> None:
        if self.shown is not None:
            self.shown.stop()


def track(items: Sequence[T], what: str, show: bool | None = None) -> Generator[T]:
    """The items one by one, with a bar on standard error once they take long.

    >>> list(track([1, 2, 3], "counting"))
    [1, 2, 3]
    """
    with Bar(what, len(items), show) as bar:
        for item in items:
            bar.advance(0)
            yield item
            bar.advance()
