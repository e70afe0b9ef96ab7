"""Identification: what no log of any length could tell, and what this one does tell.

Behaviour says which action is how likely. It does not say how large rewards are (only in units of
the temperature), and in an exact gauge it says nothing of the discount either: at every discount
there is a reward that explains the same choices. Only a restricted family of rewards can fit worse
at one discount than at another, and how much worse is what a profile shows.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from inverseq._checks import as_number, as_whole, check_kind, check_workers
from inverseq._processes import side_by_side
from inverseq._progress import Bar
from inverseq._random import generator
from inverseq.demonstrations import Demonstrations, tabulated
from inverseq.errors import InvalidInput, InverseqWarning
from inverseq.evaluate import groups, interval, log_probabilities
from inverseq.solution import Info
from inverseq.task import Task

EXACT = ("Uniform", "Reference", "Zero", "that of its path")
"""Gauges that reproduce whatever policy they are given, at any discount."""
FLAT = 1e-9
"""Differences of log-likelihood per step below this are rounding."""
DISCOUNTS = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class Verdict:
    """What is known of a reward and what is not, each in a sentence.

    >>> print(Verdict("Identified: the policy.", "Not identified: the reward.", False))
    Identified: the policy. Not identified: the reward.
    """

    known: str
    """What the log can tell."""
    unknown: str
    """What no log of this kind can tell."""
    identified: bool
    """Whether the reward is, up to a constant and to its unit."""

    def __str__(self) -> str:
        return f"{self.known} {self.unknown}"


def kind(gauge: str) -> str:
    """The kind of a gauge from its description: "by" for the likeliest reward of a family.

    >>> kind("Reference(policy=0, value=1.0)"), kind("that of its path")
    ('Reference', 'that of its path')
    """
    return "by" if " by " in gauge else gauge.partition("(")[0]


def verdict(info: Info) -> Verdict:
    """What is identified of a solution, and what is not: of its reward, discount and temperature.

    >>> import inverseq as iq
    >>> world = iq.worlds.gridworld(3)
    >>> said = verdict(iq.IAVI().solve(world.expert(), world.task).info)
    >>> print(said.known)
    Identified: the policy, and which action is better than another in a state, by how much.
    >>> print(said.unknown)
    Not identified: the reward across states (it is that of a gauge), the discount, the temperature.
    """
    of, free = kind(info.gauge), info.unidentified_dimensions
    if of == "the given reward":
        return Verdict("The reward was given.", "Nothing was recovered from behaviour.", True)
    if of in EXACT or not of:
        return Verdict(
            "Identified: the policy, and which action is better than another in a state, by how "
            "much.",
            "Not identified: the reward across states (it is that of a gauge), the discount, the "
            "temperature.",
            False,
        )
    allowed = int(of == "StateOnly")
    which = "the reward of the state" if allowed else "the reward within its family"
    unit = "the temperature, and with it the unit of the reward"
    if free is not None and free > allowed:
        return Verdict(
            f"Identified: the policy, if {which} is what the demonstrator was after.",
            f"Not identified: {free:,} directions of the reward, which nothing in the data "
            f"determines, and {unit}.",
            False,
        )
    up_to = " up to a constant" if allowed else ""
    counted = "" if free is not None else ", as far as the dynamics let choices tell (not counted)"
    return Verdict(
        f"Identified: {which}{up_to}{counted}, given the discount; the discount only by how well "
        f"each foretells what is held out.",
        f"Not identified: {unit}.",
        free is not None,
    )


@dataclass(frozen=True, eq=False)
class Profile:
    """How well held-out steps are foretold at each discount."""

    discounts: tuple[float, ...]
    """Those that were tried."""
    nats: np.ndarray
    """The mean log-likelihood of a held-out step at each."""
    low: np.ndarray
    """The lower ends of intervals, over episodes or units."""
    high: np.ndarray
    """The upper ends."""
    as_good: np.ndarray
    """Which of them foretell as well as the best one, up to chance: the interval of the difference,
    step by step, reaches 0."""
    identified: bool
    """Whether the profile tells discounts apart."""
    verdict: str
    """What that means, in a sentence."""
    over: str
    """What was held out and taken to be independent: "episode" or "unit"."""

    @property
    def best(self) -> float:
        """The discount at which held-out steps are likeliest."""
        return self.discounts[int(self.nats.argmax())]


def discount_profile(
    algorithm: Any,
    demonstrations: Demonstrations,
    task: Task,
    *,
    discounts: Sequence[float] = DISCOUNTS,
    folds: int = 5,
    level: float = 0.95,
    seed: int = 0,
    workers: int | None = None,
    progress: bool | None = None,
) -> Profile:
    """Fit at each discount to all episodes but those of a fold, and foretell the steps of those.

    For exact gauges it is flat, whatever the data: there the discount is an assumption. Elsewhere
    it says at which discounts *this algorithm* foretells best. Its prior and its own noise, which
    discounts change too, have a part in that: the more so the fewer the data.

    >>> import inverseq as iq
    >>> world = iq.worlds.gridworld(3)
    >>> seen = world.demonstrations(episodes=100, length=10, seed=0)
    >>> profile = discount_profile(iq.IAVI(), seen, world.task, discounts=(0.5, 0.9), workers=0)
    >>> profile.identified, bool(np.ptp(profile.nats) < 1e-9)
    (False, True)
    >>> print(profile.verdict)
    Not identified: in the gauge Uniform() every discount explains the log equally well.

    Args:
        algorithm: Any algorithm for tables; `BoltzmannMLE`, or `IAVI` in a projected gauge, can
            tell discounts apart.
        demonstrations: What was seen.
        task: What is assumed but for its discount; its constraints do not count.
        discounts: Which to try.
        folds: Into how many parts episodes (or units) are divided.
        level: How often the intervals are to cover.
        seed: That of the division, and of every fit.
        workers: How many processes; 0 fits one after another in this one, None takes one for each
            core. The answer is the same, bit for bit.
        progress: None shows a bar on a terminal.
    """
    check_kind(demonstrations, Demonstrations, "demonstrations")
    check_kind(task, Task, "task")
    given = tuple(as_number(discount) for discount in discounts)
    if len(given) < 2 or not all(0 <= discount <= 1 for discount in given):
        raise InvalidInput(
            f"`discounts` must be at least two numbers in [0, 1]; got {tuple(discounts)!r}."
        )
    check_workers(workers)
    demonstrations.in_order("`discount_profile`")
    d, (over, member) = demonstrations, groups(demonstrations)
    n = int(member.max()) + 1
    if not 2 <= as_whole(folds) <= n:
        raise InvalidInput(
            f"`folds` must be an integer from 2 to the number of {over}s, {n}; got {folds!r}."
        )
    part = (generator(seed).permutation(n) % as_whole(folds))[member]
    # A fold may lack the states of the highest numbers.
    n_states = len(tabulated(d, task)[1])
    free = replace(task.unconstrained(), n_states=n_states)
    parts = range(as_whole(folds))
    jobs = [
        (algorithm, d, replace(free, discount=discount), part == fold, seed)
        for discount in given
        for fold in parts
    ]
    each, gauge = np.empty((len(given), len(d))), ""
    name = f"{type(algorithm).__name__} at {len(given)} discounts"
    with Bar(name, len(jobs), progress) as bar:
        for i, found in side_by_side(held_out, jobs, workers):
            each[i // len(parts), jobs[i][3]], gauge = found
            bar.advance()
    weights = d.step_weights
    counts = weights > 0
    nats = np.array([np.average(x[counts], weights=weights[counts]) for x in each])
    low, high = np.array([interval(x, weights, member, level) for x in each]).T
    best = int(nats.argmax())
    reach = [interval(x - each[best], weights, member, level)[1] for x in each]
    # Where a step was impossible there is no interval, and no doubt.
    as_good = np.array([i == best or upper >= -FLAT for i, upper in enumerate(reach)])
    flat = bool(np.ptp(nats) <= FLAT) if np.isfinite(nats).all() else False
    exact = kind(gauge) in EXACT
    identified = not (exact or flat or as_good.all())
    return Profile(
        given, nats, low, high, as_good, identified,
        said(given, as_good, gauge, exact, flat, identified), over,
    )  # fmt: skip


def held_out(
    algorithm: Any, demonstrations: Demonstrations, task: Task, test: np.ndarray, seed: int
) -> tuple[np.ndarray, str]:
    """Log-probabilities of the steps of a fold by a fit to the others, and its gauge."""
    with warnings.catch_warnings():
        # What the parts do not identify is what this is about.
        warnings.simplefilter("ignore", InverseqWarning)
        found = algorithm.fit(demonstrations.select(~test), task, seed=seed, progress=False)
    return log_probabilities(found, demonstrations.select(test)), found.info.gauge


def said(
    discounts: Sequence[float],
    as_good: np.ndarray,
    gauge: str,
    exact: bool,
    flat: bool,
    identified: bool,
) -> str:
    """A profile in a sentence."""
    if exact:
        but = "" if flat else "; what differs is how far the algorithm came"
        return (
            f"Not identified: in the gauge {gauge} every discount explains the log equally "
            f"well{but}."
        )
    if not identified:
        return (
            "Not identified by this log: no discount that was tried foretells held-out steps "
            "better than another beyond chance."
        )
    kept = ", ".join(f"{d:g}" for d, good in zip(discounts, as_good, strict=True) if good)
    return (
        f"Of the discounts tried, held-out steps are foretold best at {kept}, and worse beyond "
        f"chance at the others. The noise and the prior of an algorithm depend on the discount "
        f"too: this speaks for a discount, and does not prove it."
    )
