"""World: a task together with the true reward."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from inverseq import planning
from inverseq._checks import ROW_SUM_TOLERANCE, as_array, as_whole, finite, normalise
from inverseq._random import generator
from inverseq.demonstrations import Demonstrations
from inverseq.errors import InvalidInput
from inverseq.shapes import Integers, Sparse, Table
from inverseq.task import Task
from inverseq.worlds.grid import Grid, grid_transitions, wall_mask

MOST_STEPS = 100_000_000
"""A step takes 33 bytes, and four times as many while it is made."""


@dataclass(frozen=True, eq=False, repr=False)
class World:
    """A task together with what its expert is after.

    >>> from inverseq.worlds import gridworld
    >>> world = gridworld(3)
    >>> world
    World('gridworld', 9 states, 5 actions, 3 × 3 cells)
    >>> world.expert()[4].round(2)  # in the middle: up, down, left, right, stay
    array([0.07, 0.35, 0.07, 0.35, 0.15])
    """

    task: Task
    """What is assumed; its transitions are known."""
    reward: np.ndarray
    """The true reward, paid for acting in a state, (S,)."""
    features: np.ndarray
    """What describes the states, (S, K)."""
    name: str
    """What figures and tables call it."""
    grid: Grid | None = None
    """How one moves, where the world is a grid."""

    def __post_init__(self) -> None:
        if self.task.transitions is None:
            raise InvalidInput("`World.task` must have its transitions; this one has none.")
        n = self.task.transitions.n_states
        for name, dimensions in ("reward", 1), ("features", 2):
            array = np.array(as_array(getattr(self, name), f"World.{name}"), dtype=float)
            if array.ndim != dimensions or len(array) != n:
                raise InvalidInput(
                    f"`World.{name}` must have {dimensions} dimensions, the first of the task's "
                    f"{n} states; it has shape {array.shape}."
                )
            finite(array, f"World.{name}")
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def shape(self) -> tuple[int, int] | None:
        """Rows and columns of the map, where there is one."""
        return None if self.grid is None else self.grid.shape

    def expert(self) -> Table:
        """The demonstrator: the Boltzmann policy over the optimal Q of the true reward, (S, A).

        It knows no constraints.

        >>> from inverseq.worlds import ring
        >>> np.log(ring().expert()[1] / ring().expert()[1, 1])  # towards the reward in state 0
        array([0.9, 0. ])
        """
        return planning.solve(self.reward, self.task.unconstrained()).policy

    def demonstrations(
        self, episodes: int, length: int, policy: np.ndarray | None = None, *, seed: Any
    ) -> Demonstrations:
        """What a policy does in this world, ``expert()`` if none is given.

        An episode ends where it enters a terminal state or where the model's missing probability
        was drawn (its last next state is then the current one, and never read); it is cut after
        ``length`` steps.

        >>> from inverseq.worlds import chain
        >>> seen = chain().demonstrations(2, 10, np.array([[1.0, 0.0]] * 4), seed=0)
        >>> seen.states, seen.next_states, seen.terminated
        (array([0, 1, 2, 0, 1, 2]),
         array([1, 2, 3, 1, 2, 3]),
         array([False, False,  True, False, False,  True]))

        Args:
            episodes: How many.
            length: How many steps an episode has at most.
            policy: Probabilities (S, A); a row may be all 0 in a state that is never met.
            seed: An integer; the same seed gives the same demonstrations.
        """
        for name, value in ("episodes", episodes), ("length", length):
            if as_whole(value) < 1:
                raise InvalidInput(f"`{name}` must be an integer of at least 1; got {value!r}.")
        episodes, length = as_whole(episodes), as_whole(length)
        if episodes * length > MOST_STEPS:
            raise InvalidInput(
                f"`episodes` times `length` must be at most {MOST_STEPS:,} steps, which take 13 GB "
                f"to make; got {episodes:,} times {length:,}. Make fewer or shorter ones, or parts "
                f"to save one by one."
            )
        task, rng = self.task, generator(seed)
        assert task.transitions is not None  # checked when the world was made
        acts = Rows(self._policy(self.expert() if policy is None else policy))
        moves = Rows(task.transitions.matrix)

        running = np.arange(episodes)
        states = rng.choice(task.transitions.n_states, episodes, p=task.start())
        steps = []
        for _ in range(length):
            actions = acts.draw(states, rng.random(len(states)))
            if (actions < 0).any():
                raise InvalidInput(
                    f"`policy` must have an action in every state that is met; its row of state "
                    f"{states[actions < 0][0]} is all 0."
                )
            arrived = moves.draw(states * task.n_actions + actions, rng.random(len(states)))
            ended = arrived < 0
            next_states = np.where(ended, states, arrived)
            if task.terminal is not None:
                ended |= task.terminal[next_states]
            steps.append((running, states, actions, next_states, ended))
            running, states = running[~ended], next_states[~ended]
            if not running.size:
                break
        episode, *columns = map(np.concatenate, zip(*steps, strict=True))
        order = np.argsort(episode, kind="stable")
        states, actions, next_states, terminated = (column[order] for column in columns)
        return Demonstrations(
            states, actions, next_states, terminated=terminated, episodes=episode[order]
        )

    def changed(self, *, walls: Any = None, wind: float | None = None, seed: Any = None) -> World:
        """The same reward and features under other dynamics; what is not given stays as it is.

        >>> from inverseq.worlds import gridworld
        >>> gridworld(10).changed(walls=0.15, seed=0).grid.walls.sum()
        np.int64(15)

        Args:
            walls: Cells that cannot be entered: a mask (rows, cols), or the fraction to draw.
            wind: The probability that a random action replaces the chosen one.
            seed: Which cells a fraction of walls takes.
        """
        if self.grid is None:
            raise InvalidInput(
                f"`World.changed` must have a grid to change; {self.name!r} is none. Make another "
                f"`World` of the same reward and features with the task you want."
            )
        grid = replace(
            self.grid,
            walls=self.grid.walls if walls is None else wall_mask(walls, self.grid.shape, seed),
            wind=self.grid.wind if wind is None else wind,
        )
        transitions: Any = grid_transitions(grid)
        initial = grid.start(self.task.terminal)
        task = replace(self.task, transitions=transitions, initial=initial)
        return replace(self, task=task, grid=grid)

    def _policy(self, policy: np.ndarray) -> Sparse:
        """The policy as sparse rows, without the actions that it never takes."""
        import scipy.sparse as sp

        policy = as_array(policy, "policy").astype(float)
        expected = (self.task.n_states, self.task.n_actions)
        if policy.shape != expected:
            raise InvalidInput(
                f"`policy` must have shape (states, actions) = {expected}; it has {policy.shape}."
            )
        sums = policy.sum(axis=1)
        whole = (np.abs(sums - 1) <= ROW_SUM_TOLERANCE) | (sums == 0)
        right = whole & (policy >= 0).all(axis=1)
        if not right.all():
            s = right.argmin()
            raise InvalidInput(
                f"`policy` must have rows of probabilities that sum to 1; that of state {s} sums "
                f"to {sums[s]:.10g} and its smallest entry is {policy[s].min():.6g}. "
                f"{normalise(sums[s])}."
            )
        return sp.csr_array(policy)

    def __repr__(self) -> str:
        parts = [f"{self.task.n_states} states", f"{self.task.n_actions} actions"]
        if self.shape is not None:
            parts += ["{} × {} cells".format(*self.shape)]
        return f"World({self.name!r}, {', '.join(parts)})"


class Rows:
    """Draws from the rows of a sparse matrix of probabilities that stores no zeros.

    >>> import scipy.sparse as sp
    >>> rows = Rows(sp.csr_array([[0.0, 0.4, 0.6], [0.0, 0.0, 0.5]]))
    >>> rows.draw(np.array([0, 0, 1, 1]), np.array([0.3, 0.7, 0.3, 0.7]))
    array([ 1,  2,  2, -1])
    """

    def __init__(self, matrix: Sparse) -> None:
        sums = np.asarray(matrix.sum(axis=1)).ravel()
        # A sum that misses 1 by rounding leaves nothing to end with.
        self.mass = np.where(sums < 1 - ROW_SUM_TOLERANCE, sums, 1.0)
        self.first, self.last = matrix.indptr[:-1], matrix.indptr[1:] - 1
        self.before = np.concatenate([[0.0], np.cumsum(matrix.data)])
        self.columns = np.append(matrix.indices, -1).astype(np.int64)

    def draw(self, rows: Integers, u: np.ndarray) -> np.ndarray:
        """The column of each row at ``u``, uniform in [0, 1); -1 beyond the sum of the row."""
        first, last = self.first[rows], self.last[rows]
        entry = np.searchsorted(self.before, self.before[first] + u, side="right") - 1
        # Rounding in the cumulative sum must not reach an entry of a neighbouring row.
        entry = np.clip(entry, first, last)
        return self.columns[np.where(u < self.mass[rows], entry, -1)]
