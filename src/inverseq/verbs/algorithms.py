"""Algorithms by name, with their settings and gauges as text: what a person types.

No register: each name is that of a class of `inverseq.algorithms`, and its settings are its fields.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from inverseq.errors import InvalidInput
from inverseq.labels import Labels, nearest

if TYPE_CHECKING:
    from inverseq.gauges import Gauge

NAMES = {
    "iavi": "IAVI",
    "iql": "IQL",
    "cloning": "BehaviouralCloning",
    "boltzmann-mle": "BoltzmannMLE",
    "maxent": "MaxEnt",
    "deep-maxent": "DeepMaxEnt",
    "diql": "DIQL",
}
"""What is typed, and the class that it names."""
FOR_ROWS = ("cloning", "diql")
"""Those that take states that are rows of numbers."""
GAUGES = ("uniform", "state-only", "zero")


def made(name: str, changes: Sequence[str] = ()) -> Any:
    """An algorithm from its name and ``setting=value`` texts.

    >>> made("iavi", ["smoothing.k=0.1"]).smoothing
    Additive(k=0.1)
    """
    from inverseq import algorithms

    if name not in NAMES:
        raise InvalidInput(
            f"`--algorithm` must be one of {', '.join(NAMES)}; got {name!r}.{nearest(name, NAMES)}"
        )
    found = getattr(algorithms, NAMES[name])()
    if name == "cloning" and any(change.startswith("classifier.") for change in changes):
        found = algorithms.BehaviouralCloning(classifier=algorithms.Classifier())
    for change in changes:
        path, equals, text = change.partition("=")
        if not equals or not path:
            raise InvalidInput(
                f"`--set` must be given as setting=value, such as --set tolerance=1e-6; got "
                f"{change!r}."
            )
        found = changed(found, path.split("."), text, name)
    return found


def changed(held: Any, path: Sequence[str], text: str, owner: str) -> Any:
    """The same settings with one of them changed, which may lie inside another."""
    name = path[0].replace("-", "_")
    known = [field.name for field in fields(held)]
    if name not in known:
        raise InvalidInput(
            f"`--set` must name a setting of {owner}; it has none called {name!r}."
            f"{nearest(name, known)} Its settings: {', '.join(known)}."
        )
    old = getattr(held, name)
    if len(path) > 1:
        if not is_dataclass(old):
            raise InvalidInput(
                f"`--set` must name a setting that there is; {owner}.{name} has none inside it."
            )
        value = changed(old, path[1:], text, f"{owner}.{name}")
    elif is_dataclass(old):
        inner = ", ".join(f"{name}.{field.name}" for field in fields(old))
        raise InvalidInput(f"`--set` must name one of the settings of {name}: {inner}.")
    else:
        value = as_value(text)
    try:
        return replace(held, **{name: value})
    except InvalidInput:
        raise
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"`--set {'.'.join(path)}={text}` must give {owner} what it takes; it does not: "
            f"{error}."
        ) from error


def as_value(text: str) -> Any:
    """A value as it is typed: a number, true, false, none, a list, or else text.

    >>> as_value("1e-3"), as_value("[64, 64]"), as_value("none"), as_value("zero")
    (0.001, (64, 64), None, 'zero')
    """
    try:
        value = json.loads(text)
    except ValueError:
        words: dict[str, Any] = {"none": None, "True": True, "False": False, "None": None}
        return words.get(text, text)
    return tuple(value) if isinstance(value, list) else value


def gauge_of(text: str, labels: Labels | None, n_actions: int) -> Gauge:
    """A gauge from its name; ``reference:ACTION`` makes the reward of one action 0 everywhere.

    >>> gauge_of("reference:stay", Labels(["a"], ["go", "stay"]), 2)
    Reference(policy=1, value=0.0)
    """
    from inverseq.gauges import Reference, StateOnly, Uniform, Zero

    kinds: dict[str, Gauge] = {"uniform": Uniform(), "state-only": StateOnly(), "zero": Zero()}
    if text in kinds:
        return kinds[text]
    kind, colon, action = text.partition(":")
    if kind != "reference" or not colon:
        raise InvalidInput(
            f"`--gauge` must be one of {', '.join(GAUGES)}, or reference:ACTION; got {text!r}."
            f"{nearest(text, GAUGES)}"
        )
    called = [str(label) for label in (labels.actions if labels else range(n_actions))]
    if action not in called:
        raise InvalidInput(
            f"`--gauge reference:ACTION` must name an action of the log; it has none called "
            f"{action!r}.{nearest(action, called)} Its actions: {', '.join(called)}."
        )
    return Reference(called.index(action))
