"""Experiments: settings as data, a run, and what came out. Only the command line imports them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import fields
from typing import Any


def command(words: str, settings: Any) -> str:
    """The command that does it again: the words, and what differs from the defaults.

    >>> from inverseq.experiments.demo import Demo
    >>> command("inverseq demo", Demo(size=8))
    'inverseq demo --size 8'
    """
    return " ".join([words, *options(settings)])


def options(settings: Any) -> Iterator[str]:
    """The options of a command, for what differs from the defaults."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        if value == field.default:
            continue
        yield f"--{field.name.replace('_', '-')}"
        if not isinstance(value, bool):
            yield from map(shlex.quote, map(str, value if isinstance(value, tuple) else [value]))
