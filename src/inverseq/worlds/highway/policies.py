"""Drivers to compare with, and the one who drives by what was learned.

A policy is called with a batch of observations and with what is safe in each, (batch, 131) and
(batch, 3); it returns the actions, (batch,), or the probabilities by which to draw them,
(batch, 3). It must be picklable to drive in other processes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from inverseq.task import Constraint
from inverseq.worlds.highway.rules import KEEP, LEFT, RIGHT, neighbours
from inverseq.worlds.highway.traffic import DESIRED_SPEED

Policy = Callable[[np.ndarray, np.ndarray], np.ndarray]


def keep(states: np.ndarray, safe: np.ndarray) -> np.ndarray:
    """Never change lanes.

    >>> keep(np.zeros((2, 131)), np.ones((2, 3), bool))
    array([0, 0])
    """
    return np.full(len(safe), KEEP)


def left(states: np.ndarray, safe: np.ndarray) -> np.ndarray:
    """Change to the left whenever that is safe."""
    return np.where(safe[:, LEFT], LEFT, KEEP)


def right(states: np.ndarray, safe: np.ndarray) -> np.ndarray:
    """Change to the right whenever that is safe."""
    return np.where(safe[:, RIGHT], RIGHT, KEEP)


def random(states: np.ndarray, safe: np.ndarray) -> np.ndarray:
    """Anything that is safe, with equal probability.

    >>> random(np.zeros((1, 131)), np.array([[True, False, True]]))
    array([[0.5, 0. , 0.5]])
    """
    return np.asarray(safe / safe.sum(axis=1, keepdims=True))


def greedy(states: np.ndarray, safe: np.ndarray) -> np.ndarray:
    """Change into the safe lane whose next vehicle in sight is the fastest.

    Beyond the desired speed nothing is gained, and half a metre per second is not worth a change.
    """
    near = neighbours(states)
    empty = np.isinf(near.gaps[:, 0])
    pace = np.where(empty, DESIRED_SPEED, np.minimum(near.speeds[:, 0], DESIRED_SPEED))
    pace[:, KEEP] += 0.5
    return np.asarray(np.where(safe, pace, -np.inf).argmax(axis=1))


@dataclass(frozen=True)
class Obeying:
    """A policy to which all that constraints forbid is shown as not safe: masked, not taught.

    >>> from inverseq.worlds.highway import keep_right, observe
    >>> empty_road = observe(np.array([0.0]), np.array([1]), np.array([20.0]))[None]
    >>> Obeying(random, (keep_right(),))(empty_road, np.ones((1, 3), bool))
    array([[0., 0., 1.]])
    """

    policy: Policy
    """Who drives; it must choose among what is safe."""
    constraints: tuple[Constraint, ...]
    """What it has to obey; where they leave nothing that is safe, they are not asked."""

    def __call__(self, states: np.ndarray, safe: np.ndarray) -> np.ndarray:
        """What the policy says."""
        allowed = np.logical_and.reduce([safe, *(c.allows(states) for c in self.constraints)])
        left = allowed.any(axis=1, keepdims=True)
        return self.policy(states, np.where(left, allowed, safe))


@dataclass(frozen=True)
class Wavering:
    """A policy in whose place, now and then, chance decides among all that is safe.

    What a driver never does shows nothing of what it leads to. Who is to be imitated under rules
    should have done, sometimes, what the rules may demand.

    >>> Wavering(keep, 0.3)(np.zeros((1, 131)), np.ones((1, 3), bool))
    array([[0.8, 0.1, 0.1]])
    """

    policy: Policy
    """Who drives."""
    share: float
    """How often chance decides, from 0 to 1."""

    def __call__(self, states: np.ndarray, safe: np.ndarray) -> np.ndarray:
        """Probabilities of the actions."""
        answer = np.asarray(self.policy(states, safe))
        shares = np.eye(safe.shape[1])[answer] if answer.ndim == 1 else answer
        mixed = (1 - self.share) * shares / shares.sum(axis=1, keepdims=True)
        return np.asarray(mixed + self.share * random(states, safe))


class Probabilities(Protocol):
    """What a `Solution` offers."""

    def predict_proba(self, states: np.ndarray, *, constrained: bool = True) -> np.ndarray:
        """Probabilities of the actions, (batch, actions)."""


@dataclass(frozen=True)
class Learned:
    """Drive by a solution: its most likely action among those that are safe.

    Masking what is unsafe here keeps an unconstrained solution from asking for it again and again.
    """

    solution: Probabilities
    """What was learned from observations of the highway."""
    constrained: bool = True
    """Whether by its constrained policy, or as the demonstrator that it explains."""
    drawn: bool = False
    """Whether actions are drawn by their probabilities instead."""

    def __call__(self, states: np.ndarray, safe: np.ndarray) -> np.ndarray:
        """The actions, or their probabilities where they are drawn."""
        shares = np.asarray(self.solution.predict_proba(states, constrained=self.constrained))
        if not self.drawn:
            return np.asarray(np.where(safe, shares, -1.0).argmax(axis=1))
        # Where only what is unsafe has any, all that is safe has the same.
        shares = np.where(safe, np.maximum(shares, np.finfo(float).tiny), 0.0)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))
