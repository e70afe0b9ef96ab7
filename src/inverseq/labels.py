"""Labels: what the numbers of states and actions stand for in somebody's log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from inverseq.errors import InvalidInput

if TYPE_CHECKING:
    from inverseq.history import Histories

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
    histories: Histories | None = field(compare=False)
    """Which histories the states are, where they are. The label of one is the tuple of the labels
    of its states, the present one last; None stands before the first state of an episode."""

    def __init__(self, states: Iterable[Any] | None, actions: Iterable[Any]) -> None:
        named = None if states is None else checked(states, "states")
        object.__setattr__(self, "states", named)
        object.__setattr__(self, "actions", checked(actions, "actions"))
        object.__setattr__(self, "histories", None)

    def with_history(self, histories: Histories) -> Labels:
        """The labels of histories, from those of the states that they are made of."""
        if self.states is None or len(self.states) != histories.n_states:
            raise InvalidInput(
                f"`Labels.states` must have a label for each of the {histories.n_states:,} states "
                f"of the histories; got {self!r}."
            )
        found = Labels(self.states, self.actions)
        if histories.length:
            named = (None, *self.states)
            said = [tuple(named[s + 1] for s in states) for states in histories.decoded()]
            object.__setattr__(found, "states", tuple(said))
        object.__setattr__(found, "histories", histories)
        return found

    @property
    def alone(self) -> Labels:
        """The labels of states without those before them; the same where there are no histories.

        >>> import inverseq as iq
        >>> log = {"place": ["home", "port", "home"], "move": ["run", "run", "run"]}
        >>> seen = iq.Demonstrations.from_table(log, state="place", action="move", history=1)
        >>> seen.labels.states[2:], seen.labels.alone.states
        (((None, 'home'), ('port', 'home'), ('home', 'port')), ('home', 'port'))
        """
        if self.histories is None or self.states is None:
            return self
        states: Iterable[Any] = self.states[: self.histories.n_states]
        return Labels([s[0] for s in states] if self._remember else states, self.actions)

    def state_numbers(self, labels: Iterable[Any]) -> np.ndarray:
        """The numbers of states, from their labels; a history that is not known has the number of
        its longest end that is."""
        if self._remember and not isinstance(labels, str):
            labels = [self._known_end(label, row) for row, label in enumerate(labels)]
            return np.array([self._states[label] for label in labels], np.int64)
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

    @property
    def _remember(self) -> bool:
        """Whether labels are tuples of those of several states."""
        return self.histories is not None and self.histories.length > 0

    def _known_end(self, label: Any, row: int) -> Label:
        """The longest end of a history that has a number."""
        given = label if isinstance(label, tuple | list) else (label,)
        parts = tuple(None if part is None else as_label(part, "states") for part in given)
        for part in parts:
            if part is not None and (part,) not in self._states:
                raise InvalidInput(
                    f"`states` must be histories of known labels; row {row} is {label!r}, with "
                    f"{part!r}.{nearest(str(part), map(str, self.alone.states or ()))}"
                )
        if not parts or parts[-1] is None:
            raise InvalidInput(
                f"`states` must be histories that end with the present state; row {row} is "
                f"{label!r}."
            )
        begin = next(i for i in range(len(parts)) if parts[i:] in self._states)
        return parts[begin:]

    def plain(self) -> dict[str, Any]:
        """As data that JSON can hold."""
        alone = {"states": self.alone.states, "actions": self.actions}
        return alone if self.histories is None else alone | {"histories": self.histories.plain()}

    @classmethod
    def from_plain(cls, data: Mapping[str, Any] | None) -> Labels | None:
        """From what `plain` gave, also after JSON made lists of tuples."""
        if data is None:
            return None
        labels = cls(data["states"], data["actions"])
        if "histories" not in data:
            return labels
        from inverseq.history import Histories

        return labels.with_history(Histories(**data["histories"]))

    def check(self, n_states: int | None, n_actions: int, owner: str) -> None:
        """Raise unless there is a label for each state and each action."""
        known = {"states": (self.states, n_states), "actions": (self.actions, n_actions)}
        for name, (labels, n) in known.items():
            if labels is not None and n is not None and len(labels) != n:
                raise InvalidInput(
                    f"`Labels.{name}` must have one label for each of the {n:,} {name} of "
                    f"`{owner}`; there are {len(labels):,}."
                )

    def state_columns(self) -> dict[str, list[Any]]:
        """The labels of states as columns, with None where a history says nothing.

        >>> Labels(states=[(3, "left"), (4, "left")], actions=[0]).state_columns()
        {'state_1': [3, 4], 'state_2': ['left', 'left']}
        """
        states: Any = self.states or ()
        if not self._remember or self.histories is None:
            return columns_of("state", states)
        columns = columns_of("state", [said[-1] for said in states])
        for back in range(1, self.histories.length + 1):
            part = [said[-1 - back] if len(said) > back else None for said in states]
            columns |= columns_of(f"before_{back}", part)
        return columns | {"begins": [said[0] is None for said in states]}

    def state_words(self, state: int) -> str:
        """What a state is called, for a reader.

        >>> Labels(states=[(3, "left")], actions=[0]).state_words(0)
        '3, left'
        """
        if self.states is None or not self._remember:
            return words((self.states or ())[state])
        said: tuple[Any, ...] = self.states[state]  # type: ignore[assignment]
        return " → ".join("start" if part is None else words(part) for part in said)

    def __repr__(self) -> str:
        kind = "histories" if self._remember else "states"
        states = "rows of numbers" if self.states is None else f"{len(self.states):,} {kind}"
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


def columns_of(name: str, labels: Sequence[Any]) -> dict[str, list[Any]]:
    """Labels as columns: one, or one for each part of those of several columns."""
    parts = next((len(label) for label in labels if isinstance(label, tuple)), 0)
    if not parts:
        return {name: list(labels)}
    each = [(None,) * parts if label is None else label for label in labels]
    return {f"{name}_{i}": list(part) for i, part in enumerate(zip(*each, strict=True), 1)}


def words(label: Label) -> str:
    """A label for a reader.

    >>> words((3, "left"))
    '3, left'
    """
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)
