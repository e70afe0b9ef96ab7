"""evaluate: how well a fitted run foretells the steps of another log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from inverseq.demonstrations import Demonstrations
from inverseq.errors import InvalidInput
from inverseq.evaluate import Likelihood
from inverseq.labels import Labels
from inverseq.solution import Solution, Tables, load, plain
from inverseq.task import Task
from inverseq.verbs import rules, scores
from inverseq.verbs.fit import SETTINGS, Kept, heard
from inverseq.verbs.log import Log


@dataclass(frozen=True)
class Result:
    """How well a run foretells."""

    scores: dict[str, Likelihood]
    steps: int
    """How many steps the log has; those in unknown states, or of unknown actions, are not scored.
    """
    unknown_states: int
    """How many states the run knows nothing of."""
    unknown_state_steps: int
    """How many steps begin there."""
    unknown_action_steps: int
    """How many of the others take an action that the run does not know."""
    unvisited_steps: int
    """How many of those that are scored begin where the run's log never showed an action."""
    impossible_steps: int
    """How many of those that are scored take what the run takes to be impossible there."""
    remarks: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """As data that JSON can hold."""
        names = ["steps", "unknown_states", "unknown_state_steps", "unknown_action_steps"]
        names += ["unvisited_steps", "impossible_steps"]
        rows = [plain(scores.plain(*row)) for row in self.scores.items()]
        counted = {name: getattr(self, name) for name in names}
        return {"rows": rows, **counted, "remarks": list(self.remarks)}


def run(folder: Path, path: Path, log: Log) -> Result:
    """Read the other log as the run's own was read, but for what ``log`` says, and score it."""
    if not (folder / SETTINGS).is_file():
        raise InvalidInput(
            f"`inverseq evaluate` must be given the folder of a fit (with {SETTINGS}); {folder} is "
            f"none. Make one by `inverseq fit LOG ... --out {folder}`."
        )
    kept = Kept.load(folder / SETTINGS)
    found = solution_of(folder, kept)
    remarks: list[str] = []
    # What can be done where, the solution knows.
    columns = replace(log.over(kept.log), available=None)
    remembers = found.labels is not None and found.labels.histories is not None
    with heard(remarks):
        # Of a history that the run never had its end is known, if all its states and actions are.
        seen = columns.read(path, found.labels if remembers else None)
    test = seen if remembers else relabelled(seen, found.labels)
    known_action = test.actions < found.n_actions
    known_state, unknown_states = np.ones(len(test), bool), 0
    tables = found.found if isinstance(found.found, Tables) else None
    if (tables is not None) != test.tabular:
        kinds = {True: "labels", False: "rows of numbers"}
        raise InvalidInput(
            f"The states of {path.name} must be {kinds[tables is not None]}, as those of the run "
            f"are; they are {kinds[test.tabular]}. Name other columns by `--state`."
        )
    if tables is None:
        width, own = found.found.scaling.shape[1], test.states[0].size  # type: ignore[union-attr]
        if width != own:
            raise InvalidInput(
                f"The states of {path.name} must be rows of {width} numbers, as those of the run "
                f"are; they are rows of {own}. Name other columns by `--state`."
            )
    else:
        known_state = test.states < len(tables.q)
        unknown_states = len(np.unique(test.states[~known_state]))
    scored = known_state & known_action
    if not scored.any():
        raise InvalidInput(
            f"{path.name} must have steps in states of the run, by actions of the run; of its "
            f"{len(test):,} steps none is. Such as state {called(seen, 0)}: are these the columns?"
        )
    part = narrowed(test.select(scored), found)
    unknown_actions = int((known_state & ~known_action).sum())
    unvisited = impossible = 0
    if tables is not None:
        assert tables.visits is not None
        unvisited = int((tables.visits[part.states].sum(axis=1) == 0).sum())
        impossible = int((~tables.available[part.states, part.actions]).sum())
    return Result(
        scores.scores(found, part, action_counts(folder, found)),
        len(test), unknown_states, int((~known_state).sum()), unknown_actions,
        unvisited, impossible, tuple(remarks),
    )  # fmt: skip


def solution_of(folder: Path, kept: Kept) -> Solution:
    """What was found; with its constraints, where those are functions."""
    found = load(folder / "solution")
    if isinstance(found.found, Tables) or not kept.fit.constrain:
        return found
    task = Task(found.n_actions, found.found.discount, labels=found.labels)
    return load(folder / "solution", rules.constrained(task, kept.fit.constrain))


def action_counts(folder: Path, found: Solution) -> np.ndarray:
    """How often each action was taken in the log of the run."""
    from inverseq.report import load_run

    if isinstance(found.found, Tables) and found.found.visits is not None:
        return np.asarray(found.found.visits.sum(axis=0))
    return np.asarray(load_run(folder).settings["taken"], float)


def relabelled(seen: Demonstrations, labels: Labels | None) -> Demonstrations:
    """The same steps by the numbers of other labels; what those lack gets the numbers behind them.

    >>> log = {"place": ["b", "c", "b"], "move": ["go", "go", "go"]}
    >>> seen = Demonstrations.from_table(log, state="place", action="move")
    >>> relabelled(seen, Labels(["a", "b"], ["go"])).states
    array([1, 2])
    """
    own = seen.labels
    if labels is None or own is None:
        return seen
    actions = merged(labels.actions, own.actions)
    states = None
    arrays: dict[str, Any] = {
        "actions": np.array([actions[label] for label in own.actions])[seen.actions]
    }
    if labels.states is not None and own.states is not None:
        states = merged(labels.states, own.states)
        number = np.array([states[label] for label in own.states])
        arrays |= {"states": number[seen.states], "next_states": number[seen.next_states]}
    elif own.states is not None:
        return seen
    return replace(seen, **arrays, labels=Labels(states, actions), available=None)


def merged(first: Any, more: Any) -> dict[Any, int]:
    """Numbers of labels: those of the first, then the others."""
    return {label: i for i, label in enumerate(dict.fromkeys([*first, *more]))}


def narrowed(part: Demonstrations, found: Solution) -> Demonstrations:
    """Steps without what the run does not know: where they led is not scored."""
    return replace(part, next_states=part.states, labels=found.labels, available=None)


def called(seen: Demonstrations, row: int) -> str:
    """What the state of a step is called."""
    states = None if seen.labels is None else seen.labels.states
    return repr(seen.states[row].tolist() if states is None else states[seen.states[row]])


def said(result: Result) -> list[str]:
    """What a reader must know of the scores, in sentences."""
    n = f"of {result.steps:,} steps"
    told = []
    if result.unknown_state_steps:
        told.append(
            f"{result.unknown_state_steps:,} {n} begin in {result.unknown_states:,} states that "
            f"the log of the run never had: not scored."
        )
    if result.unknown_action_steps:
        told.append(
            f"{result.unknown_action_steps:,} {n} take an action that the log of the run never "
            f"had: not scored."
        )
    if result.unvisited_steps:
        told.append(
            f"{result.unvisited_steps:,} {n} begin where the log of the run never showed what is "
            f"done: there the policy is a convention."
        )
    if result.impossible_steps:
        told.append(
            f"{result.impossible_steps:,} {n} take what the run takes to be impossible there "
            f"(`--available`): they make the mean minus infinity."
        )
    return [*told, *result.remarks]
