"""What is in a log: its columns, states and actions, episodes, how well they are covered, holes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from inverseq.demonstrations import Demonstrations
from inverseq.io.files import Paths, load
from inverseq.io.logs import Reading
from inverseq.labels import words

FEW = 30
"""With fewer visits the share of an action is hardly known."""
QUANTILES = {"least": 0.0, "a quarter": 0.25, "half": 0.5, "three quarters": 0.75, "most": 1.0}
SHOWN = 20
"""So many actions are listed; the rest are added up."""


@dataclass(frozen=True)
class Contents:
    """The columns of a table, for who does not know them yet."""

    rows: int
    columns: dict[str, str]
    """The type of each column."""
    examples: dict[str, list[str]]
    """The first few different values of each."""

    def plain(self) -> dict[str, Any]:
        """As data that JSON can hold."""
        return asdict(self)


def contents(path: Paths) -> Contents:
    """What columns there are in a file.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "log.csv")
    ...     _ = file.write_text("place,move\\nhome,1\\nport,2\\n")
    ...     contents(file).columns
    {'place': 'string', 'move': 'int64'}
    """
    table = load(path)
    first = table.slice(0, 1000)
    examples = {
        name: list(dict.fromkeys(str(value)[:20] for value in first[name].to_pylist()))[:3]
        for name in table.column_names
    }
    kinds = {name: str(table.schema.field(name).type) for name in table.column_names}
    return Contents(len(table), kinds, examples)


@dataclass(frozen=True)
class Overview:
    """What demonstrations hold, in figures."""

    steps: int
    episodes: int | None
    """How many episodes there are; None of counts, like what else speaks of an order."""
    lengths: dict[str, float] | None
    """Quantiles of the number of steps of an episode."""
    ends: int
    """How many episodes truly ended."""
    units: int | None
    states: int | None
    """How many states there are, where they are those of a table."""
    departed: int | None
    """How many of them were acted in."""
    few: int | None
    """How many of those fewer than 30 times."""
    pairs: int | None
    """How many pairs of states and actions are available."""
    visited: int | None
    """How many of them were seen."""
    visits: dict[str, float] | None
    """Quantiles of how often those were."""
    holes: int | None
    """How many steps do not begin where the one before them in their episode led."""
    actions: dict[str, float]
    """How often each action was taken."""
    reading: Reading | None
    """What became of the rows."""

    def plain(self) -> dict[str, Any]:
        """As data that JSON can hold."""
        reading = None if self.reading is None else self.reading.plain()
        return {**asdict(self), "reading": reading}

    def rows(self) -> list[tuple[str, str]]:
        """Names and figures, for a table."""
        said = [] if self.reading is None else [("rows", f"{self.reading.rows:,}")]
        said += [("steps", f"{self.steps:,}")]
        if self.episodes is None or self.lengths is None:
            said += [("... that truly end an episode", f"{self.ends:,}")]
        else:
            said += [
                ("episodes", f"{self.episodes:,}"),
                ("... that truly end", f"{self.ends:,}"),
                ("... steps in each", spread(self.lengths)),
            ]
        if self.units is not None:
            said.append(("units", f"{self.units:,}"))
        if self.states is not None and self.visits is not None:
            said += [
                ("states", f"{self.states:,}"),
                ("... acted in", f"{self.departed:,}"),
                (f"... fewer than {FEW} times", f"{self.few:,}"),
                ("pairs of state and action", f"{self.pairs:,}"),
                ("... seen", f"{self.visited:,}"),
                ("... visits of each seen", spread(self.visits)),
            ]
        if self.holes is not None:
            said.append(("holes within episodes", f"{self.holes:,}"))
        said.append(("actions", f"{len(self.actions):,}"))
        total = sum(self.actions.values())
        most = sorted(self.actions.items(), key=lambda item: -item[1])
        said += [(f"... {name}", f"{n:,.0f} ({n / total:.1%})") for name, n in most[:SHOWN]]
        rest = [n for _, n in most[SHOWN:]]
        if rest:
            said.append(
                (f"... {len(rest):,} others", f"{sum(rest):,.0f} ({sum(rest) / total:.1%})")
            )
        return said


def overview(seen: Demonstrations) -> Overview:
    """What is in demonstrations.

    >>> log = {"place": ["a", "b", "a", "b"], "move": ["go", "back", "go", "back"]}
    >>> said = overview(Demonstrations.from_table(log, state="place", action="move"))
    >>> said.steps, said.states, said.visited, said.actions
    (3, 2, 2, {'back': 1.0, 'go': 2.0})
    """
    n_actions = seen.task(0.0).n_actions
    taken = np.bincount(seen.actions, seen.step_weights, minlength=n_actions)
    called = range(n_actions) if seen.labels is None else map(words, seen.labels.actions)
    table: dict[str, Any] = dict.fromkeys(
        ("states", "departed", "few", "pairs", "visited", "visits")
    )
    if seen.tabular:
        visits = seen.counts().visits
        each = visits.sum(axis=1)
        pairs = visits.size if seen.available is None else int(seen.available.sum())
        table = {
            "states": len(visits),
            "departed": int((each > 0).sum()),
            "few": int(((each > 0) & (each < FEW)).sum()),
            "pairs": pairs,
            "visited": int((visits > 0).sum()),
            "visits": quantiles(visits[visits > 0]),
        }
    order: dict[str, Any] = dict.fromkeys(("episodes", "lengths", "holes"))
    if not seen.counted:
        starts, joined = seen.starts, np.ones(len(seen), bool)
        joined[starts] = False
        moved = seen.states[1:] != seen.next_states[:-1]
        moved = moved.any(axis=tuple(range(1, moved.ndim)))
        order = {
            "episodes": len(starts),
            "lengths": quantiles(np.diff(starts, append=len(seen))),
            "holes": int((joined[1:] & moved).sum()),
        }
    times = seen.times_seen
    return Overview(
        steps=int(times.sum()),
        ends=int(times[seen.terminated].sum()),
        units=None if seen.units is None else len(np.unique(seen.units)),
        actions={str(name): float(n) for name, n in zip(called, taken, strict=True)},
        reading=seen.reading,
        **order,
        **table,
    )


def quantiles(values: np.ndarray) -> dict[str, float]:
    """The least, the most, and what a quarter, half and three quarters are at most."""
    found = np.quantile(values, list(QUANTILES.values()), method="inverted_cdf")
    return dict(zip(QUANTILES, found.astype(float).tolist(), strict=True))


def spread(found: dict[str, float]) -> str:
    """Quantiles in words."""
    return (
        f"{found['least']:,.0f} to {found['most']:,.0f}, half of them "
        f"{found['a quarter']:,.0f} to {found['three quarters']:,.0f}"
    )
