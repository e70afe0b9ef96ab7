"""Gymnasium's spaces: its observations as states, its actions as numbers from 0.

Gymnasium is imported on first use, so that who has a table and a log never loads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from inverseq.errors import InvalidInput, MissingExtra


@dataclass(frozen=True)
class Spaces:
    """How the observations and actions of somebody's environment are states and actions here.

    Discrete observations are the states of a table. Numbers in a box keep their shape, as float32
    where they are that and float64 otherwise; a single number becomes a row. All else is flattened
    as Gymnasium does it; dictionaries in the order of their names, whatever order they are in.

    >>> from gymnasium import spaces
    >>> known = Spaces.check(spaces.Discrete(3, start=1), spaces.Discrete(2, start=5))
    >>> known.n_states, known.n_actions, known.first_action
    (3, 2, 5)
    >>> known.states([1, 3])
    array([0, 2])
    """

    observation: Any
    """The space of an observation."""
    n_states: int | None
    """How many states the table has, where observations are discrete."""
    n_actions: int
    """How many actions there are."""
    first_action: int
    """What Gymnasium calls action 0."""

    @classmethod
    def check(cls, observation: Any, action: Any) -> Spaces:
        """From the space of an observation and that of an action, or the message."""
        spaces = need_gymnasium().spaces
        if not isinstance(action, spaces.Discrete):
            raise InvalidInput(
                f"The actions must be discrete, `gymnasium.spaces.Discrete`; the action space is "
                f"{action}. Give each of a few actions a number, for instance by "
                f"`gymnasium.wrappers.TransformAction`."
            )
        if not observation.is_np_flattenable:
            raise InvalidInput(
                f"The observations must have one size; the observation space is {observation}. "
                f"Wrap the environment so that it shows rows of numbers."
            )
        n_states = int(observation.n) if isinstance(observation, spaces.Discrete) else None
        return cls(in_order(observation), n_states, int(action.n), int(action.start))

    def states(self, observations: Any) -> np.ndarray:
        """The states of a list of observations."""
        spaces = need_gymnasium().spaces
        space = self.observation
        if self.n_states is not None:
            return np.asarray(observations, np.int64) - int(space.start)
        if isinstance(space, spaces.Box):
            rows = np.asarray(observations)
            rows = rows.reshape(len(rows), *(space.shape or (1,)))
        else:
            rows = np.stack([spaces.flatten(space, observation) for observation in observations])
        return rows.astype(np.float32 if rows.dtype == np.float32 else np.float64)

    def batch(self, observations: Any) -> np.ndarray:
        """The states of observations in a batch: arrays, or dictionaries or tuples of them.

        >>> from gymnasium import spaces
        >>> space = spaces.Dict(place=spaces.Discrete(2), fuel=spaces.Box(0, 1, (1,)))
        >>> known = Spaces.check(space, spaces.Discrete(2))
        >>> known.batch({"fuel": np.array([[0.5], [1.0]]), "place": np.array([0, 1])})
        array([[0.5, 1. , 0. ],
               [1. , 0. , 1. ]])
        """
        from gymnasium.vector.utils import batch_space, iterate

        if isinstance(observations, dict | tuple):
            observations = iterate(batch_space(self.observation), observations)
        return self.states(observations)


def in_order(space: Any) -> Any:
    """The space with its dictionaries in the order of their names.

    Files know no other: who learns from one and then acts must see the same rows.
    """
    spaces = need_gymnasium().spaces
    if isinstance(space, spaces.Dict):
        return spaces.Dict({name: in_order(space[name]) for name in sorted(space.spaces)})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([in_order(part) for part in space.spaces])
    return space


def make(env: str) -> Any:
    """An environment by its id, or the message."""
    gymnasium = need_gymnasium()
    try:
        return gymnasium.make(env)
    except (gymnasium.error.Error, ImportError) as error:
        raise InvalidInput(
            f"`env` must be an environment that Gymnasium can make here; {env!r}: {error}"
        ) from error


def need_gymnasium() -> Any:
    """Gymnasium, or the message that says how to install it."""
    try:
        import gymnasium
    except ImportError:
        raise MissingExtra(
            "Environments need Gymnasium. Install it with `pip install 'inverseq[gym]'`."
        ) from None
    return gymnasium
