"""How well an answer foretells steps, beside what every likelihood must be read beside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from inverseq import evaluate
from inverseq.demonstrations import Additive, Demonstrations
from inverseq.evaluate import UNKNOWN, Likelihood
from inverseq.report import Column, Table
from inverseq.report.solutions import digits
from inverseq.solution import Solution, Tables


def scores(
    found: Solution, test: Demonstrations, taken: np.ndarray, level: float = 0.95
) -> dict[str, Likelihood]:
    """How likely steps are: by the answer, by its constraints, and by what knows less.

    >>> import inverseq as iq
    >>> seen = Demonstrations([0, 1, 0], [0, 1, 1], [1, 0, 1])
    >>> found = iq.IAVI().fit(seen, seen.task(0.9))
    >>> list(scores(found, seen, np.array([1.0, 2.0])))
    ['IAVI', 'cloning', 'frequencies', 'uniform']

    Args:
        found: What was fitted.
        test: The steps.
        taken: How often each action was taken in what it was fitted to.
        level: How often the intervals are to cover.
    """
    name, free = found.info.algorithm, found.unconstrained()
    rows = {name: evaluate.likelihood(free, test, level=level)}
    if found.constrained:
        rows[f"{name}, constrained"] = evaluate.likelihood(found, test, level=level)
    if isinstance(found.found, Tables):
        tables = found.found
        assert tables.visits is not None
        policies = evaluate.plainest(tables.visits, tables.available)
        known = {
            label: evaluate.likelihood(policy, test, tables.available, level=level)
            for label, policy in policies.items()
        }
        if name == "BehaviouralCloning":
            known.pop("cloning")
    else:
        can = free.can(test.states)
        each, choice = np.arange(len(test)), can.sum(axis=1) > 1
        overall = np.broadcast_to(taken, can.shape)
        plain = {
            "frequencies": Additive(1.0).policy(overall, can),
            "uniform": can / can.sum(axis=1, keepdims=True),
        }
        with np.errstate(divide="ignore"):
            known = {
                label: evaluate.scored(np.log(policy), each, choice, test, level=level)
                for label, policy in plain.items()
            }
    order = [label for label in ("cloning", "frequencies", "uniform") if label in known]
    return rows | {label: known[label] for label in order}


def taken(seen: Demonstrations, n_actions: int) -> np.ndarray:
    """How often each action was taken.

    >>> taken(Demonstrations([0, 1], [1, 1], [1, 0]), 2)
    array([0., 2.])
    """
    return np.bincount(seen.actions, seen.step_weights, minlength=n_actions).astype(float)


def plain(name: str, score: Likelihood) -> dict[str, Any]:
    """A score as data that JSON can hold, but for infinities and NaN."""
    low, high = score.interval or UNKNOWN
    low_choice, high_choice = score.interval_choice or UNKNOWN
    return {
        "method": name,
        "log_likelihood": score.nats,
        "low": low,
        "high": high,
        "steps": score.steps,
        "bits": score.bits,
        "accuracy": score.accuracy,
        "log_likelihood_choice": score.nats_choice,
        "low_choice": low_choice,
        "high_choice": high_choice,
        "steps_choice": score.steps_choice,
        "bits_choice": score.bits_choice,
        "accuracy_choice": score.accuracy_choice,
    }


def table(found: Mapping[str, Likelihood], caption: str) -> Table:
    """Scores side by side: of all steps and, where some were forced, of those with a choice."""
    first = next(iter(found.values()))
    forced = 0 < first.steps_choice < first.steps
    heads = ["nats a step", "interval", "bits", "foretold"]
    heads += ["nats with a choice", "bits", "foretold"] if forced else []
    rows = []
    for name, score in found.items():
        row = [name, digits(score.nats, 4), ends(score.interval or UNKNOWN), digits(score.bits, 4)]
        row.append(f"{score.accuracy:.1%}")
        if forced:
            row += [digits(score.nats_choice, 4), digits(score.bits_choice, 4)]
            row.append(f"{score.accuracy_choice:.1%}")
        rows.append(row)
    notes = [
        f"Of {first.steps:,} steps"
        + (f", {first.steps_choice:,} of them with a choice" if forced else "")
        + f". Intervals of 95 % are over {first.over}s. Foretold: how often the most probable "
        f"action was the one."
    ]
    if any(np.isneginf(score.nats) for score in found.values()):
        notes.append("−inf: some step is impossible by that row.")
    return Table(["", *(Column(head, numeric=True) for head in heads)], rows, caption, notes)


def ends(interval: tuple[float, float]) -> str:
    """An interval in words; nothing where there is none.

    >>> ends((-0.5, 0.25))
    '−0.500 to 0.250'
    """
    return "" if np.isnan(interval).any() else " to ".join(digits(x) for x in interval)
