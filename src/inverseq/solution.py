"""Solution: what was found. A reward, action values and a policy, as functions of states."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from inverseq import equations, planning
from inverseq._checks import as_numbers, check_kind, check_range
from inverseq.demonstrations import Demonstrations
from inverseq.errors import DamagedFile, InvalidInput
from inverseq.io import storage
from inverseq.shapes import MaskTable, Table
from inverseq.task import Task
from inverseq.version import __version__

if TYPE_CHECKING:
    from inverseq.gauges import Backup, Gauge


def versions() -> dict[str, str]:
    """What things are computed with, for the record.

    >>> sorted(versions())
    ['inverseq', 'numpy', 'python']
    """
    return {
        "inverseq": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


@dataclass(frozen=True)
class Info:
    """How a solution was found, and how far to trust it."""

    algorithm: str
    """Which algorithm found it."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Its hyperparameters, as plain data."""
    task: Mapping[str, Any] = field(default_factory=dict)
    """What was assumed: discount, temperature, names of the constraints."""
    gauge: str = ""
    """Which of the many rewards this one is; see `inverseq.gauges`."""
    backup: Backup = "max"
    """How the values of the next state were summarised."""
    solver: str = ""
    """What computed it."""
    converged: bool = True
    """Whether the tolerance was met."""
    iterations: int = 0
    """Sweeps, epochs or solver iterations."""
    residual: float | None = None
    """By how much the equations that define the solution are missed."""
    change: tuple[float, ...] = ()
    """The largest change of the reward in each iteration: the paper's criterion."""
    unidentified_dimensions: int | None = None
    """How many directions of the reward nothing in the data determines (projected gauges)."""
    unvisited_states: int | None = None
    """How many states the demonstrations never show; their policy is uniform by convention."""
    seconds: float = 0.0
    """Wall time."""
    seed: int | None = None
    """The seed, where chance had a part."""
    versions: Mapping[str, str] = field(default_factory=versions)
    """What it was computed with."""


@dataclass(frozen=True, eq=False)
class Tables:
    """A solution over the states of a table; row ``s`` of each array belongs to state ``s``."""

    reward: Table
    """``r(s, a)``; 0 where an action is not available."""
    q: Table
    """``Q(s, a)``; minus infinity where an action is not available."""
    available: MaskTable
    """What the demonstrator could do."""
    safe: MaskTable | None = None
    """What the constraints leave, looking ahead: see `planning.viable`."""
    q_constrained: Table | None = None
    """``Q_C(s, a)``: the values of the best way on among what is safe."""
    visits: Table | None = None
    """How often each pair was seen, ``rho(s, a)``."""
    q_shifted: Table | None = None
    """``Q_sh(s, a)`` of a sampled algorithm, by which it can go on."""
    updates: np.ndarray | None = None
    """How many updates each pair has had, by which its learning rate can go on."""

    def __post_init__(self) -> None:
        for name, array in self.arrays().items():
            if array.shape != self.q.shape:
                raise InvalidInput(
                    f"`Tables.{name}` must have the shape of `q`, {self.q.shape}; it has "
                    f"{array.shape}."
                )
            array.flags.writeable = False

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that there are, by name."""
        named = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {name: array for name, array in named.items() if array is not None}

    def rows(self, states: Any) -> np.ndarray:
        """State numbers, checked."""
        return as_numbers(states, len(self.q), "states", "n_states")


@dataclass(frozen=True, eq=False)
class Solution:
    """What was found: a reward, action values, and a policy that obeys the task's constraints.

    >>> import numpy as np, inverseq as iq
    >>> stay, move = np.eye(2), np.eye(2)[::-1]
    >>> task = iq.Task(2, 0.9, transitions=np.stack([stay, move], axis=1))
    >>> found = iq.IAVI().solve(np.array([[0.2, 0.8], [0.6, 0.4]]), task)
    >>> found.predict_proba([0, 1])
    array([[0.2, 0.8],
           [0.6, 0.4]])
    >>> found.predict([0, 1])
    array([1, 0])
    """

    tables: Tables
    """The arrays behind the functions."""
    temperature: float
    """The demonstrator's: policies are ``softmax(Q / temperature)``."""
    info: Info
    """How it was found, and how far to trust it."""

    # -- functions of states --

    def reward(self, states: Any) -> np.ndarray:
        """``r(s, a)``, (batch, actions)."""
        return np.asarray(self.tables.reward[self.tables.rows(states)])

    def q(self, states: Any) -> np.ndarray:
        """``Q(s, a)`` without constraints, (batch, actions)."""
        return np.asarray(self.tables.q[self.tables.rows(states)])

    def value(self, states: Any) -> np.ndarray:
        """``V(s) = max_a Q(s, a)`` without constraints, (batch,).

        The log-sum-exp in place of the maximum where the solution's backup is "soft".
        """
        rows = self.tables.rows(states)
        return self._value(self.tables.q[rows], self.tables.available[rows])

    def q_constrained(self, states: Any) -> np.ndarray:
        """``Q_C(s, a)`` under the constraints, (batch, actions)."""
        return np.asarray(self.q_constrained_table[self.tables.rows(states)])

    def value_constrained(self, states: Any) -> np.ndarray:
        """``max Q_C(s, a)`` over the safe actions, (batch,); minus infinity where there is none.

        The log-sum-exp in place of the maximum where the solution's backup is "soft".
        """
        rows = self.tables.rows(states)
        return self._value(self.q_constrained_table[rows], self.safe_table[rows])

    def predict_proba(self, states: Any, *, constrained: bool = True) -> np.ndarray:
        """The policy, (batch, actions): exactly 0 on what is forbidden or not available.

        ``constrained=False`` asks for the demonstrator's own policy instead. Where nothing is left
        to do, the row is 0 throughout.
        """
        return np.asarray(np.exp(self._log_policy(self.tables.rows(states), constrained)))

    def predict(self, states: Any, *, constrained: bool = True) -> np.ndarray:
        """The best action of each state (greedy), (batch,)."""
        rows = self.tables.rows(states)
        log_pi = self._log_policy(rows, constrained)
        stuck = np.flatnonzero(np.isneginf(log_pi).all(axis=1))
        if stuck.size:
            raise InvalidInput(
                f"`Solution.predict` must be asked about states with a viable action; state "
                f"{rows[stuck[0]]} (row {stuck[0]}) has none under the constraints."
            )
        return np.asarray(log_pi.argmax(axis=1))

    def score(self, demonstrations: Demonstrations, *, constrained: bool = True) -> float:
        """The mean log-likelihood per step, in nats; minus infinity with a forbidden step."""
        check_kind(demonstrations, Demonstrations, "demonstrations")
        rows = self.tables.rows(demonstrations.states)
        check_range(demonstrations.actions, self.tables.q.shape[1], "actions", "n_actions")
        log_pi = self._log_policy(np.arange(len(self.tables.q)), constrained)
        each, weights = log_pi[rows, demonstrations.actions], demonstrations.step_weights
        # A step of weight 0 says nothing, not even where it is impossible.
        return float(np.average(each[weights > 0], weights=weights[weights > 0]))

    # -- tables --

    @property
    def reward_table(self) -> np.ndarray:
        """``r(s, a)`` for every state, (S, A)."""
        return self.tables.reward

    @property
    def q_table(self) -> np.ndarray:
        """``Q(s, a)`` for every state, (S, A)."""
        return self.tables.q

    @property
    def value_table(self) -> np.ndarray:
        """``V(s)`` for every state, (S,)."""
        return self.value(np.arange(len(self.tables.q)))

    @property
    def q_constrained_table(self) -> np.ndarray:
        """``Q_C(s, a)`` for every state, (S, A)."""
        if self.tables.q_constrained is None:
            raise InvalidInput(
                "`Solution.q_constrained` must come from a task with constraints; this one had "
                "none. Fit with `task.constrain(...)`."
            )
        return self.tables.q_constrained

    @property
    def safe_table(self) -> np.ndarray:
        """Which actions the policy may take, (S, A)."""
        return self.tables.available if self.tables.safe is None else self.tables.safe

    @property
    def policy_table(self) -> np.ndarray:
        """The policy for every state, (S, A)."""
        return self.predict_proba(np.arange(len(self.tables.q)))

    @property
    def visited(self) -> np.ndarray | None:
        """Which states the demonstrations show, (S,); None where there were no demonstrations."""
        return None if self.tables.visits is None else self.tables.visits.sum(axis=1) > 0

    # -- other views --

    def regauge(self, gauge: Gauge, task: Task, *, backup: Backup | None = None) -> Solution:
        """The same behaviour explained by the reward of another gauge, on a task with a model.

        A reward is one of many; to compare two solutions, or to carry a reward elsewhere, bring
        them to a stated gauge first. ``backup`` is that of the solution, unless another is named.
        """
        import time

        from inverseq import gauges

        began = time.perf_counter()
        check_kind(task, Task, "task")
        available = self.tables.available
        if not np.array_equal(task.available_table(task.continuing.n_states), available):
            raise InvalidInput(
                f"`Solution.regauge` must be given a task with the states and available actions of "
                f"the solution: {available.shape}, {available.sum()} pairs available; got {task!r}."
            )
        backup = self.info.backup if backup is None else backup
        log_pi = equations.log_boltzmann(self.tables.q, available, self.temperature)
        found = gauges.recover(
            np.where(available, task.temperature * log_pi, 0.0),
            task,
            gauge,
            backup=backup,
            weights=self.tables.visits,
            visited=self.visited,
        )
        return Solution.recovered(
            found,
            task,
            replace(
                self.info, gauge=repr(gauge), backup=backup, seconds=time.perf_counter() - began
            ),
            self.tables.visits,
        )

    @classmethod
    def recovered(cls, found: Any, task: Task, info: Info, visits: np.ndarray | None) -> Solution:
        """From a `gauges.Recovery`; what ``info`` says of the task stays."""
        info = replace(
            info,
            task=assumptions(task) | dict(info.task),
            solver=found.solver,
            converged=found.converged,
            iterations=found.iterations,
            residual=found.residual,
            change=found.change,
            unidentified_dimensions=found.unidentified_dimensions,
        )
        available = task.available_table()
        tables = Tables(found.reward, found.q, available, found.safe, found.q_constrained, visits)
        return cls(tables, task.temperature, info)

    def timed(self, seconds: float) -> Solution:
        """The same with its wall time, once all is done."""
        return replace(self, info=replace(self.info, seconds=seconds))

    # -- files --

    def save(self, folder: str | PathLike[str]) -> None:
        """Write a folder: arrays as safetensors, the rest as JSON, with checksums, whole or not."""
        settings = {
            "kind": "tables",
            "temperature": self.temperature,
            "info": plain(dataclasses.asdict(self.info)),
        }
        storage.write_folder(folder, "solution", self.tables.arrays(), settings)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Solution:
        """Read what `save` wrote; runs no code from it."""
        arrays, settings = storage.read_folder(folder, "solution")
        try:
            known = dict(settings["info"])
            # What JSON cannot hold, infinities and NaN, was written as text.
            known["change"] = tuple(map(float, known["change"]))
            known["residual"] = None if known["residual"] is None else float(known["residual"])
            return cls(Tables(**arrays), float(settings["temperature"]), Info(**known))
        except (KeyError, TypeError, ValueError) as problem:
            raise DamagedFile(
                f"The folder {folder} must hold a solution of this version; it lacks or adds "
                f"something ({problem}). Fit again, or read it with the version that wrote it."
            ) from problem

    def _value(self, q: np.ndarray, safe: np.ndarray) -> np.ndarray:
        return planning.state_value(q, safe, self.temperature, self.info.backup == "soft")

    def _log_policy(self, rows: np.ndarray, constrained: bool) -> np.ndarray:
        tables = self.tables
        if constrained and tables.q_constrained is not None:
            q, safe = tables.q_constrained, self.safe_table
        else:
            q, safe = tables.q, tables.available
        return np.asarray(equations.log_boltzmann(q[rows], safe[rows], self.temperature))

    def __repr__(self) -> str:
        states, actions = self.tables.q.shape
        parts = [f"{states} states", f"{actions} actions", f"gauge {self.info.gauge}"]
        if self.tables.q_constrained is not None:
            parts += ["constrained by " + ", ".join(self.info.task.get("constraints", []))]
        if not self.info.converged:
            parts += ["not converged"]
        return f"Solution({self.info.algorithm}: {', '.join(parts)})"


def load(folder: str | PathLike[str]) -> Solution:
    """Read a solution that was saved with `Solution.save`; runs no code from it.

    >>> import tempfile, numpy as np, inverseq as iq
    >>> task = iq.Task(2, 0.5, transitions=np.ones((1, 2, 1)))
    >>> found = iq.IAVI().solve(np.array([[0.25, 0.75]]), task)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found.save(f"{folder}/found")
    ...     iq.load(f"{folder}/found").policy_table
    array([[0.25, 0.75]])
    """
    return Solution.load(folder)


def assumptions(task: Task) -> dict[str, Any]:
    """What a task assumed, as plain data for the record."""
    return {
        "n_actions": task.n_actions,
        "discount": task.discount,
        "temperature": task.temperature,
        "constraints": [constraint.name for constraint in task.constraints],
    }


def plain(value: Any) -> Any:
    """Settings as plain data that JSON can hold; an array becomes its shape and fingerprint."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"is": type(value).__name__, **fields}
    if isinstance(value, np.ndarray) and value.ndim:
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return {"array": list(value.shape), "sha256": digest}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return repr(value)
