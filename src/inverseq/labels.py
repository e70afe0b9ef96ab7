"""Labels: what the numbers of states and actions stand for in somebody's log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any

import numpy as np

from inverseq.errors import InvalidInput

Label = int | str | tuple[Any, ...]
"""A value of one column (booleans are integers), or those of several."""


@dataclass(frozen=True)
class Labels:
    """What states and actions are called: entry i of each belongs to number i.

    >>> labels = Labels(states=["home", "port"], actions=["stay", "run"])
    >>> labels.state_numbers(["port", "home"])
    array([1, 0])
    >>> labels.actions[1]
    'run'
    """

    states: tuple[Label, ...] | None
    """A label for each state of a table; None where states are rows of numbers."""
    actions: tuple[Label, ...]
    """A label for each action."""

    def __init__(self, states: Iterable[Any] | None, actions: Iterable[Any]) -> None:
        named = None if states is None else checked(states, "states")
        object.__setattr__(self, "states", named)
        object.__setattr__(self, "actions", checked(actions, "actions"))

    def state_numbers(self, labels: Iterable[Any]) -> np.ndarray:
        """The numbers of states, from their labels."""
        return numbers(labels, self._states, "states")

    def action_numbers(self, labels: Iterable[Any]) -> np.ndarray:
        """The numbers of actions, from their labels."""
        return numbers(labels, self._actions, "actions")

    @cached_property
    def _states(self) -> dict[Label, int]:
        return {label: i for i, label in enumerate(self.states or ())}

    @cached_property
    def _actions(self) -> dict[Label, int]:
        return {label: i for i, label in enumerate(self.actions)}

    def plain(self) -> dict[str, Any]:
        """As data that JSON can hold."""
        return {"states": self.states, "actions": self.actions}

    @classmethod
    def from_plain(cls, data: Mapping[str, Any] | None) -> Labels | None:
        """From what `plain` gave, also after JSON made lists of tuples."""
        return None if data is None else cls(data["states"], data["actions"])

    def check(self, n_states: int | None, n_actions: int, owner: str) -> None:
        """Raise unless there is a label for each state and each action."""
        known = {"states": (self.states, n_states), "actions": (self.actions, n_actions)}
        for name, (labels, n) in known.items():
            if labels is not None and n is not None and len(labels) != n:
                raise InvalidInput(
                    f"`Labels.{name}` must have one label for each of the {n:,} {name} of "
                    f"`{owner}`; there are {len(labels):,}."
                )

    def __repr__(self) -> str:
        states = "rows of numbers" if self.states is None else f"{len(self.states):,} states"
        return f"Labels({states}, {len(self.actions):,} actions)"


def checked(given: Iterable[Any], name: str) -> tuple[Label, ...]:
    """Labels as a tuple: integers, text, or tuples of them, and no two the same."""
    labels = tuple(as_label(label, name) for label in given)
    if len(set(labels)) < len(labels):
        first: dict[Label, int] = {}
        for i, label in enumerate(labels):
            if first.setdefault(label, i) != i:
                raise InvalidInput(
                    f"`Labels.{name}` must differ; {label!r} is the label of number "
                    f"{first[label]} and of number {i}."
                )
    return labels


def as_label(given: Any, name: str) -> Label:
    """One label as plain data."""
    if isinstance(given, np.generic):
        given = given.item()
    if isinstance(given, int | str):
        return given
    if isinstance(given, tuple | list) and given:
        return tuple(as_label(part, name) for part in given)
    raise InvalidInput(f"`Labels.{name}` must be integers, text or tuples of them; got {given!r}.")


def are_labels(given: Any) -> bool:
    """Whether these are text or tuples rather than numbers of states or rows of numbers.

    >>> are_labels(["home"]), are_labels([(3, "left")]), are_labels([3]), are_labels([[0.5, 1]])
    (True, True, False, False)
    """
    if isinstance(given, np.ndarray):
        return given.dtype.kind in "UTO"
    return isinstance(given, list | tuple) and bool(given) and isinstance(given[0], str | tuple)


def numbers(given: Iterable[Any], known: Mapping[Label, int], name: str) -> np.ndarray:
    """The number of each label, or the message that names the nearest."""
    if isinstance(given, str):
        raise InvalidInput(f"`{name}` must be a list of labels; got {given!r} alone.")
    found = []
    for row, label in enumerate(given):
        label = as_label(label, name)
        if label not in known:
            raise InvalidInput(
                f"`{name}` must be known labels; row {row} is {label!r}."
                f"{nearest(str(label), map(str, known))}"
            )
        found.append(known[label])
    return np.array(found, np.int64)


def nearest(word: str, known: Iterable[str]) -> str:
    """A sentence with what was probably meant; nothing where nothing is near.

    >>> nearest("nod", ["node", "time"])
    " Did you mean 'node'?"
    """
    close = get_close_matches(word, list(known), n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""


def words(label: Label) -> str:
    """A label for a reader.

    >>> words((3, "left"))
    '3, left'
    """
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)
