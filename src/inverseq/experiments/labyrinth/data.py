"""The recordings: a maze and what animals did in it, read from two files and checked."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from inverseq.demonstrations import Demonstrations
from inverseq.errors import InvalidInput
from inverseq.task import Task

STEPS, NODES = "labyrinth_steps.parquet", "labyrinth_nodes.csv"
LEFT, RIGHT, OUT = range(3)
WHOLE, TRUTH, LABEL = "integers", "true or false", "text"
STEP_COLUMNS = {
    **dict.fromkeys(("trajectory", "bout", "node", "action", "next_node"), WHOLE),
    "animal": LABEL,
}
NODE_COLUMNS = {
    **dict.fromkeys(("node", "level", "parent", "in_left", "in_right", "x", "y"), WHOLE),
    **dict.fromkeys(("is_leaf", "is_water_port"), TRUTH),
}


@dataclass(frozen=True, eq=False)
class Maze:
    """A maze that forks in two at every node but the end nodes; home is outside of it."""

    parent: np.ndarray
    """The node outward of each, (N,); that of the entrance, node 0, is home, N."""
    leads: np.ndarray
    """Where each action leads, (N, 3); -1 where it is not possible."""
    depth: np.ndarray
    """How many forks there are between the entrance and each node, (N,)."""
    xy: np.ndarray
    """Where each node lies, (N, 2)."""
    port: int
    """Where there is water."""

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def home(self) -> int:
        """What the log calls the place outside."""
        return len(self)

    @property
    def available(self) -> np.ndarray:
        """Which actions are possible, (N, 3)."""
        return np.asarray(self.leads >= 0)

    @cached_property
    def ends(self) -> np.ndarray:
        """The end nodes."""
        return np.flatnonzero(self.leads[:, LEFT] < 0)

    def task(self, discount: float) -> Task:
        """The walk as a decision problem: going home ends an episode, and one begins at node 0."""
        n = len(self)
        transitions = np.zeros((n, 3, n + 1))
        s, a = np.nonzero(self.available)
        transitions[s, a, self.leads[s, a]] = 1.0
        return Task(3, discount, transitions=transitions, available=self.available, initial=0)

    def into(self, nodes: Any) -> tuple[np.ndarray, np.ndarray]:
        """The pairs (state, action) that enter nodes from their parents."""
        nodes = np.asarray(nodes)
        outward = self.parent[nodes]
        return outward, np.where(self.leads[outward, LEFT] == nodes, LEFT, RIGHT)

    def branch(self, root: int) -> np.ndarray:
        """Which nodes lie in the branch that begins at one, bool (N,)."""
        inside = np.asarray(np.arange(len(self)) == root)
        for node in np.argsort(self.depth, kind="stable")[1:]:
            inside[node] |= inside[self.parent[node]]
        return inside

    def distance(self, node: int) -> np.ndarray:
        """How many tunnels lie between each node and one, (N,)."""
        trunk = [node]
        while trunk[-1] != 0:
            trunk.append(int(self.parent[trunk[-1]]))
        apart = np.zeros(len(self), np.int64)
        apart[trunk] = np.arange(len(trunk))
        on_trunk = np.isin(np.arange(len(self)), trunk)
        for other in np.argsort(self.depth, kind="stable"):
            if not on_trunk[other]:
                apart[other] = apart[self.parent[other]] + 1
        return apart


@dataclass(frozen=True, eq=False)
class Log:
    """What was seen: steps in bouts, cut by trajectories, of several animals."""

    maze: Maze
    seen: Demonstrations
    """Units are trajectories; an episode is a bout of an animal within a trajectory."""
    animals: np.ndarray
    """Who made each step, (steps,). Some trajectories run from one animal into the next."""
    bouts: np.ndarray
    """The how-manieth bout of its animal in this log each step belongs to, from 0, (steps,)."""

    def select(self, rows: np.ndarray) -> Log:
        """Some of the steps."""
        return Log(self.maze, self.seen.select(rows), self.animals[rows], self.bouts[rows])

    def fold(self, fold: int, folds: int) -> tuple[Log, Log]:
        """Train and test: every ``folds``-th trajectory is held out."""
        assert self.seen.units is not None
        tested = self.seen.units % folds == fold
        return self.select(~tested), self.select(tested)


def read(folder: Path) -> Log:
    """The recordings in a folder, or one clear sentence on what is wrong with it."""
    if not folder.is_dir():
        raise InvalidInput(
            f"`data` must be the folder that holds {STEPS} and {NODES}; there is no folder "
            f"{folder}."
        )
    maze = read_maze(folder / NODES)
    return read_steps(folder / STEPS, maze)


def fingerprint(folder: Path) -> str:
    """What names the contents of both files."""
    files = (found(folder / name).read_bytes() for name in (NODES, STEPS))
    return hashlib.sha256(b"".join(hashlib.sha256(data).digest() for data in files)).hexdigest()


def read_maze(path: Path) -> Maze:
    """The maze, if its tunnels make a tree."""
    from pyarrow import ArrowInvalid, csv

    try:
        table = csv.read_csv(found(path))
    except ArrowInvalid as error:
        raise InvalidInput(f"{path} must be a table of comma-separated values; {error}.") from error
    columns = checked_columns(table, NODE_COLUMNS, path)
    n = len(columns["node"])
    order = np.argsort(columns["node"], kind="stable")
    columns = {name: values[order] for name, values in columns.items()}
    if n < 3 or not np.array_equal(columns["node"], np.arange(n)):
        raise InvalidInput(f"{path} must have one row for each node, numbered from 0; it has {n}.")
    parent, level = columns["parent"], columns["level"]
    leads = np.stack([columns["in_left"], columns["in_right"], parent], axis=1)
    if parent[0] != n or level[0] != 0:
        raise InvalidInput(
            f"{path} must have node 0 as the entrance: level 0, and as its parent the home, {n}; "
            f"it has level {level[0]} and parent {parent[0]}."
        )
    odd = np.argwhere((leads[:, :2] < -1) | (leads[:, :2] >= n))
    if odd.size:
        node, side = odd[0]
        raise InvalidInput(
            f"{path} must lead inward from each node to nodes from 0 to {n - 1}, or to -1 at its "
            f"end; {('in_left', 'in_right')[side]} of node {node} is {leads[node, side]}."
        )
    for node in range(1, n):
        outward = int(parent[node])
        if not 0 <= outward < n or level[outward] != level[node] - 1:
            raise InvalidInput(
                f"{path} must have a parent one level above for each node; node {node} of level "
                f"{level[node]} has {outward}."
            )
        if np.sum(leads[outward, :OUT] == node) != 1:
            raise InvalidInput(
                f"{path} must name each node as one child of its parent; node {node} is not one of "
                f"the children {leads[outward, :OUT].tolist()} of {outward}."
            )
    ends = leads[:, LEFT] < 0
    wrong = (ends != (leads[:, RIGHT] < 0)) | (ends != columns["is_leaf"])
    if wrong.any():
        raise InvalidInput(
            f"{path} must have two children (in_left, in_right) for each node, or -1 twice and "
            f"is_leaf; node {np.argmax(wrong)} differs."
        )
    ports = np.flatnonzero(columns["is_water_port"])
    if len(ports) != 1 or not ends[ports[0]]:
        raise InvalidInput(
            f"{path} must have one water port (is_water_port), at an end node; it has "
            f"{ports.tolist()}."
        )
    xy = np.stack([columns["x"], columns["y"]], axis=1)
    return Maze(parent, leads, level, xy, int(ports[0]))


def read_steps(path: Path, maze: Maze) -> Log:
    """The steps, if each is one that the maze allows."""
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    try:
        table = pq.read_table(found(path))
    except ArrowException as error:
        raise InvalidInput(f"{path} must be a Parquet file; {error}.") from error
    columns = checked_columns(table, STEP_COLUMNS, path)
    node, action, following = (columns[name] for name in ("node", "action", "next_node"))
    if not len(node):
        raise InvalidInput(f"{path} must hold at least one step; it is empty.")
    for name, values, n in ("node", node, len(maze)), ("action", action, 3):
        outside = (values < 0) | (values >= n)
        if outside.any():
            row = int(np.argmax(outside))
            raise InvalidInput(
                f"`{name}` of {path} must lie from 0 to {n - 1}; row {row} has {values[row]}."
            )
    wrong = maze.leads[node, action] != following
    if wrong.any():
        row = int(np.argmax(wrong))
        leads = maze.leads[node[row], action[row]]
        raise InvalidInput(
            f"`next_node` of {path} must be where the action leads; in row {row} action "
            f"{action[row]} at node {node[row]} leads to {following[row]}, and by the maze "
            f"{'nowhere' if leads < 0 else f'to {leads}'}."
        )
    trajectory, bout, animal = (columns[name] for name in ("trajectory", "bout", "animal"))
    begins = changes(trajectory) | changes(bout) | changes(animal)
    seen = Demonstrations(
        node, action, following, terminated=following == maze.home,
        episodes=np.cumsum(begins) - 1, units=trajectory,
    )  # fmt: skip
    broken = ~begins[1:] & (node[1:] != following[:-1])
    if broken.any():
        row = int(np.argmax(broken)) + 1
        raise InvalidInput(
            f"`node` of {path} must be where the step before led, within a bout; row {row} is at "
            f"{node[row]}, and the step before led to {following[row - 1]}."
        )
    return Log(maze, seen, animal, bout_numbers(animal, bout))


def bout_numbers(animal: np.ndarray, bout: np.ndarray) -> np.ndarray:
    """The bouts of each animal, numbered by the order in which they come.

    >>> bout_numbers(np.array(["A", "A", "B", "A"]), np.array([7, 9, 7, 9]))
    array([0, 1, 0, 1])
    """
    numbers = np.empty(len(bout), np.int64)
    for who in np.unique(animal):
        own = animal == who
        _, first, member = np.unique(bout[own], return_index=True, return_inverse=True)
        numbers[own] = np.argsort(np.argsort(first))[member]
    return numbers


def changes(labels: np.ndarray) -> np.ndarray:
    """Where a label is not that of the row before.

    >>> changes(np.array([3, 3, 4]))
    array([ True, False,  True])
    """
    return np.append(True, labels[1:] != labels[:-1])


def found(path: Path) -> Path:
    """The path of a file that is there."""
    if not path.is_file():
        raise InvalidInput(
            f"`data` must be the folder that holds {STEPS} and {NODES}; there is no file {path}."
        )
    return path


def checked_columns(table: Any, kinds: dict[str, str], path: Path) -> dict[str, np.ndarray]:
    """The columns by name, if all are there, whole, and of their kind."""
    import pyarrow as pa

    names: Sequence[str] = table.column_names
    missing = [name for name in kinds if name not in names]
    if missing:
        raise InvalidInput(
            f"{path} must have the columns {', '.join(kinds)}; {', '.join(missing)} is missing "
            f"from {', '.join(names)}."
        )
    is_kind = {
        WHOLE: pa.types.is_integer,
        TRUTH: pa.types.is_boolean,
        LABEL: lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
    }
    columns = {}
    for name, kind in kinds.items():
        column = table[name]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if not is_kind[kind](column.type):
            raise InvalidInput(f"`{name}` of {path} must be {kind}; it is {column.type}.")
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy()))
            raise InvalidInput(f"`{name}` of {path} must not be empty; in row {row} it is.")
        values = column.to_numpy()
        columns[name] = values.astype({WHOLE: np.int64, TRUTH: bool, LABEL: str}[kind])
    return columns
