"""Log: what the columns of a log mean, and what becomes of bad rows; one home for all verbs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from inverseq.errors import InvalidInput

if TYPE_CHECKING:
    from inverseq.demonstrations import Demonstrations
    from inverseq.history import History
    from inverseq.labels import Labels


@dataclass(frozen=True)
class Log:
    """How to read a log: which columns mean what.

    >>> Log(state=("node",), action=("move",)).on_bad
    'raise'
    """

    state: tuple[str, ...] = ()
    """The column with the state, or several."""
    action: tuple[str, ...] = ()
    """The column with the action, or several."""
    next_state: tuple[str, ...] = ()
    """The column or columns with where the step led; derived where not given."""
    episode: str | None = None
    """The column with the label of the episode."""
    unit: str | None = None
    """The column with who acted."""
    time: str | None = None
    """The column by which the rows of an episode are ordered."""
    terminated: str | None = None
    """The column that says whether the step truly ended its episode."""
    available: str | None = None
    """The column with what could be done, or "seen" for what was ever done in a state."""
    history: str | None = None
    """How many states before the present one belong to a state, such as 2, or "auto" for as many as
    foretell best."""
    on_bad: Literal["raise", "drop"] = "raise"
    """What becomes of bad rows: stop and say which, or leave them out and count them."""

    def read(self, path: Path, labels: Labels | None = None) -> Demonstrations:
        """The demonstrations in a log; one that needs no names of columns may have none."""
        from inverseq.io.files import read

        return read(
            path,
            state=self.state or None,
            action=self.action or None,
            next_state=self.next_state or None,
            episode=self.episode,
            unit=self.unit,
            time=self.time,
            terminated=self.terminated,
            available=self.available,
            # Labels that are known have the histories that go with them.
            history=None if labels is not None else self.remembered,
            labels=labels,
            on_bad=self.on_bad,
        )

    @property
    def remembered(self) -> History | None:
        """The history that is asked for.

        >>> Log(history="2").remembered, Log().remembered
        (2, None)
        """
        if self.history is None:
            return None
        if self.history == "auto":
            return "auto"
        if not self.history.isdecimal():
            raise InvalidInput(
                f"`--history` must be how many states before the present one belong to a state, "
                f"such as 2, or auto; got {self.history!r}."
            )
        return int(self.history)

    def over(self, other: Log) -> Log:
        """The same where something was said, the other one elsewhere.

        >>> Log(state=("place",)).over(Log(state=("node",), action=("move",)))
        Log(state=('place',), action=('move',), next_state=(), ...)
        """
        blank = Log()
        said = {f.name: getattr(self, f.name) for f in fields(self)}
        return Log(
            **{
                name: value if value != getattr(blank, name) else getattr(other, name)
                for name, value in said.items()
            }
        )

    def plain(self) -> dict[str, Any]:
        """As data that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Log:
        """From what `plain` gave, also after JSON made lists of tuples."""
        given: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        return cls(**given)
