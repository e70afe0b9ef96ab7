"""Hard constraints from somebody's own Python file: ``FILE.py:NAME``. The file is run."""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from inverseq.errors import InvalidInput
from inverseq.labels import Labels, nearest
from inverseq.task import Constraint, Task


def constrained(task: Task, given: Sequence[str]) -> Task:
    """The task under the constraints of files.

    >>> constrained(Task(2, 0.9, n_states=3), []).constraints
    ()
    """
    return task.constrain(*(constraint(text, task) for text in given)) if given else task


def parts(text: str) -> tuple[Path, str]:
    """The file and the name in it.

    >>> parts("rules.py:no_left")
    (...('rules.py'), 'no_left')
    """
    file, colon, name = text.rpartition(":")
    if not colon or not file or not name.isidentifier():
        raise InvalidInput(
            f"`--constrain` must be given as FILE.py:NAME, such as rules.py:no_left; got {text!r}."
        )
    return Path(file), name


def constraint(text: str, task: Task) -> Constraint:
    """One constraint of a file: what it names may be of three kinds.

    A `Constraint`; a list of pairs (state, action), in labels, which are forbidden; or a function
    ``costs(states, actions)`` from a batch of states (a list of labels, or rows of numbers) and
    the list of labels of all actions to costs (batch, actions), which forbids what costs more
    than 0. (A mere array would hang on the order of the labels.)
    """
    file, name = parts(text)
    if not file.is_file():
        raise InvalidInput(f"`--constrain` must name a Python file; there is none at {file}.")
    try:
        held = runpy.run_path(str(file))
    except (Exception, SystemExit) as error:  # it is somebody's code
        raise InvalidInput(f"`--constrain` must name a file that runs; {said(file, error)}.") from (
            error
        )
    if name not in held:
        known = [word for word in held if not word.startswith("_")]
        raise InvalidInput(
            f"`--constrain` must name what {file} defines; it has no {name!r}."
            f"{nearest(name, known)}"
        )
    found = held[name]
    if isinstance(found, Constraint):
        return found
    labels = task.labels
    if callable(found) and not isinstance(found, type):
        cost_of = guarded(found, file, name, task)
        if task.n_states is None:
            return Constraint(cost_of, 0.0, name)
        states = list(labels.states) if labels and labels.states else list(range(task.n_states))
        try:
            cost = np.asarray(cost_of(states))
        except ValueError as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(f"`{name}` of {file} must return rows of one length.") from error
        shape = (task.n_states, task.n_actions)
        if cost.shape != shape or cost.dtype.kind not in "biuf":
            raise InvalidInput(
                f"`{name}` of {file} must return a cost for each state and action, an array of "
                f"shape {shape}; it returned {cost.dtype} of shape {cost.shape}."
            )
        return Constraint(cost.astype(float), 0.0, name)
    if isinstance(found, list | tuple | set | frozenset):
        return forbidden(list(found), name, file, task)
    raise InvalidInput(
        f"`{name}` of {file} must be a Constraint, a list of pairs (state, action), or a function "
        f"of states; it is a {type(found).__name__}."
    )


def forbidden(pairs: list[Any], name: str, file: Path, task: Task) -> Constraint:
    """Pairs of labels that must not be."""
    if task.n_states is None:
        raise InvalidInput(
            f"`{name}` of {file} must be a function or a Constraint: the states of this log are "
            f"rows of numbers, which a list cannot name."
        )
    labels = task.labels or Labels(range(task.n_states), range(task.n_actions))
    for i, pair in enumerate(pairs):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InvalidInput(
                f"`{name}` of {file} must hold pairs (state, action); entry {i} is {pair!r}."
            )
    cost = np.zeros((task.n_states, task.n_actions))
    try:
        states = labels.state_numbers([state for state, _ in pairs])
        actions = labels.action_numbers([action for _, action in pairs])
    except InvalidInput as error:
        raise InvalidInput(f"`{name}` of {file} must name what is in the log: {error}") from error
    cost[states, actions] = 1.0
    return Constraint(cost, 0.5, name)


def guarded(function: Any, file: Path, name: str, task: Task) -> Any:
    """The function of states alone, whose trouble is said with its place."""
    actions = list(task.labels.actions if task.labels else range(task.n_actions))

    def cost(states: Any) -> Any:
        try:
            return function(states, actions)
        except Exception as error:
            raise InvalidInput(
                f"`{name}` must return costs of states; {said(file, error)}."
            ) from error

    return cost


def said(file: Path, error: BaseException) -> str:
    """What went wrong in a file, and in which line."""
    lines, trace = [], error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    line = getattr(error, "lineno", None) or (lines[-1] if lines else None)
    where = f"line {line} of {file}" if line else str(file)
    what = str(error).partition(" (")[0] if isinstance(error, SyntaxError) else str(error)
    return f"{where} raised {type(error).__name__}: {what}".rstrip(".")
