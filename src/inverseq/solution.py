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
from inverseq._checks import as_array, as_numbers, check_kind, check_range
from inverseq.demonstrations import Demonstrations
from inverseq.errors import DamagedFile, InvalidInput
from inverseq.io import storage
from inverseq.labels import Labels, are_labels, columns_of
from inverseq.nets import MLP, DeepSets, Network, Params, leaves, tree
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
    stranded: int | None = None
    """After how many steps every action was forbidden, where states are rows of numbers; there the
    actions of least worst violation stay allowed."""
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

    def check(self, states: Any) -> np.ndarray:
        """State numbers, checked."""
        return as_numbers(states, len(self.q), "states", "n_states")

    def look_up(self, name: str, states: np.ndarray) -> np.ndarray:
        """The rows of a table; what is safe is what is available where nothing is forbidden."""
        table = getattr(self, name)
        if name == "safe" and table is None:
            table = self.available
        if table is None:
            raise InvalidInput(NEEDS_CONSTRAINTS)
        return np.asarray(table[states])


@dataclass(frozen=True, eq=False)
class Networks:
    """A solution over rows of numbers: networks in place of tables.

    The networks are asked with NumPy. What is available and what is forbidden are functions, which
    are not saved: a solution that needs them must be given its task again, `load(folder, task)`.
    """

    network: Network
    """The architecture of all of them."""
    params: Mapping[str, Params]
    """Their parameters, by name: "q" (or "policy", the logits of a classifier), "reward" and
    "q_constrained"."""
    scaling: np.ndarray
    """What is taken from each input and by what it is divided, (2, inputs)."""
    n_actions: int
    temperature: float
    discount: float
    constrained: bool = False
    """Whether the policy has constraints to obey."""
    masked: bool = False
    """Whether not everything is available everywhere."""
    task: Task | None = None
    """What says which actions are available and which forbidden."""

    def check(self, states: Any) -> np.ndarray:
        """Rows of finite numbers, checked."""
        rows = as_array(states, "states")
        n = self.scaling.shape[1]
        if rows.ndim < 2 or rows[0].size != n or rows.dtype.kind not in "biuf":
            raise InvalidInput(
                f"`states` must be rows of {n} numbers for this solution; got {rows.dtype} of "
                f"shape {rows.shape}."
            )
        rows = rows.reshape(len(rows), n)
        wrong = ~np.isfinite(rows).all(axis=1)
        if wrong.any():
            raise InvalidInput(f"`states` must be finite; row {int(wrong.argmax())} is not.")
        return rows

    def look_up(self, name: str, states: np.ndarray) -> np.ndarray:
        """What a network says of states, or which actions are "available" or "safe" there."""
        if name in ("available", "safe"):
            if self.task is None and (self.masked or (name == "safe" and self.constrained)):
                raise InvalidInput(
                    "`Solution.task` must be there to know what is allowed: functions are not "
                    "saved. Load it with its task, `load(folder, task)`."
                )
            if self.task is None:
                return np.ones((len(states), self.n_actions), bool)
            return self.task.can(states) if name == "available" else self.task.safe(states)
        if name == "q":
            q = self._q(states)
        elif name == "q_constrained" and self.constrained and name not in self.params:
            return self._q(states)
        elif name in self.params:
            return self._evaluate(name, states)
        else:
            raise InvalidInput(NEEDS_CONSTRAINTS if name == "q_constrained" else NO_REWARD)
        if self.masked:
            q = np.where(self.look_up("available", states), q, -np.inf)
        return np.asarray(q)

    def _q(self, states: np.ndarray) -> np.ndarray:
        if "q" in self.params:
            return self._evaluate("q", states)
        # In the zero gauge the best action is worth what its probability says.
        logits, can = self._evaluate("policy", states), self.look_up("available", states)
        return np.asarray(self.temperature * equations.log_boltzmann(logits, can))

    def _evaluate(self, name: str, states: np.ndarray) -> np.ndarray:
        shift, scale = self.scaling
        x = ((states - shift) / scale).astype(self.scaling.dtype)
        parts = [x[at : at + LARGEST_BATCH] for at in range(0, max(len(x), 1), LARGEST_BATCH)]
        found = [np.asarray(self.network.apply(self.params[name], part)) for part in parts]
        return np.concatenate(found).astype(float)


@dataclass(frozen=True, eq=False)
class Spread:
    """How far a table of estimates may be from what it estimates, entry by entry.

    NaN where nothing was measured: what is not available, and states that the log never shows.
    """

    error: Table
    """The standard error."""
    low: Table
    """The lower end of an interval that covers the truth as often as the level says."""
    high: Table
    """The upper end."""

    def __post_init__(self) -> None:
        for name, array in self.arrays().items():
            if array.shape != self.error.shape:
                raise InvalidInput(
                    f"`Spread.{name}` must have the shape of `error`, {self.error.shape}; it has "
                    f"{array.shape}."
                )
            array.flags.writeable = False

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name."""
        return {"error": self.error, "low": self.low, "high": self.high}


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """What chance did to the tables of a solution; `inverseq.uncertainty` measures it."""

    reward: Spread
    """Of ``r(s, a)``."""
    q: Spread
    """Of ``Q(s, a)``, without constraints."""
    policy: Spread
    """Of the demonstrator's probabilities, without constraints."""
    method: str
    """"delta" or "bootstrap"."""
    level: float
    """How often the intervals are to cover the truth."""
    why: str
    """Why this method."""
    over: str = ""
    """What the bootstrap drew: "episode" or "unit"."""
    replications: int = 0
    """How often it drew."""
    seed: int | None = None
    """What it drew with."""


SPREADS = ("reward", "q", "policy")
HARDLY = 10
"""A state with fewer visits says hardly anything: of a fair coin thrown nine times the share of
heads has a standard error of 0.17."""
LARGEST_BATCH = 4096
"""So many states are put through a network at once: more would only need memory."""
NEEDS_CONSTRAINTS = (
    "`Solution.q_constrained` must come from a task with constraints; this one had none. Fit with "
    "`task.constrain(...)`."
)
NO_REWARD = (
    "`Solution.reward` must be a function of states; in this solution the reward depends on where "
    "an action led. Ask `Solution.reward_of(states, actions, next_states)`."
)


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

    found: Tables | Networks
    """What is behind the functions: arrays, or networks where states are rows of numbers."""
    temperature: float
    """The demonstrator's: policies are ``softmax(Q / temperature)``."""
    info: Info
    """How it was found, and how far to trust it."""
    labels: Labels | None = None
    """What states and actions are called. Every function takes labels that are text or tuples in
    the place of numbers; labels that are integers are turned into numbers by
    ``labels.state_numbers``."""
    uncertainty: Uncertainty | None = None
    """How far chance may have moved its tables, where that was measured: `inverseq.uncertainty`."""

    # -- functions of states --

    def reward(self, states: Any) -> np.ndarray:
        """``r(s, a)``, (batch, actions)."""
        return self._look_up("reward", states)

    def reward_of(
        self, states: Any, actions: Any, next_states: Any, terminated: Any = False
    ) -> np.ndarray:
        """The reward of each step, (batch,).

        Where the reward is no function of states and actions, in the zero gauge of networks, it is
        what the policy says of the action beyond what it says of the state to which it led.
        """
        rows = self._rows(states)
        if self.labels is not None and are_labels(actions):
            actions = self.labels.action_numbers(actions)
        actions = np.asarray(actions)
        check_range(actions, self.n_actions, "actions", "n_actions")
        each = np.arange(len(rows))
        if isinstance(self.found, Tables) or "reward" in self.found.params:
            return np.asarray(self.found.look_up("reward", rows)[each, actions])
        log_pi = self.found.look_up("q", rows)[each, actions]
        follows = equations.shifted_target(
            self.found.discount, np.asarray(terminated), self.value(next_states)
        )
        return np.asarray(equations.advantage(log_pi, follows))

    def q(self, states: Any) -> np.ndarray:
        """``Q(s, a)`` without constraints, (batch, actions)."""
        return self._look_up("q", states)

    def value(self, states: Any) -> np.ndarray:
        """``V(s) = max_a Q(s, a)`` without constraints, (batch,).

        The log-sum-exp in place of the maximum where the solution's backup is "soft".
        """
        rows = self._rows(states)
        return self._value(*(self.found.look_up(name, rows) for name in ("q", "available")))

    def q_constrained(self, states: Any) -> np.ndarray:
        """``Q_C(s, a)`` under the constraints, (batch, actions)."""
        return self._look_up("q_constrained", states)

    def value_constrained(self, states: Any) -> np.ndarray:
        """``max Q_C(s, a)`` over the safe actions, (batch,); minus infinity where there is none.

        The log-sum-exp in place of the maximum where the solution's backup is "soft".
        """
        rows = self._rows(states)
        return self._value(*(self.found.look_up(name, rows) for name in ("q_constrained", "safe")))

    def predict_proba(self, states: Any, *, constrained: bool = True) -> np.ndarray:
        """The policy, (batch, actions): exactly 0 on what is forbidden or not available.

        ``constrained=False`` asks for the demonstrator's own policy instead. Where nothing is left
        to do, the row is 0 throughout.
        """
        return np.asarray(np.exp(self.predict_log_proba(states, constrained=constrained)))

    def predict_log_proba(self, states: Any, *, constrained: bool = True) -> np.ndarray:
        """The logarithm of `predict_proba`, which does not round to minus infinity."""
        return self._log_policy(self._rows(states), constrained)

    def can(self, states: Any) -> np.ndarray:
        """What the demonstrator could do, bool (batch, actions)."""
        return self._look_up("available", states)

    def predict(self, states: Any, *, constrained: bool = True) -> np.ndarray:
        """The best action of each state (greedy), (batch,).

        Asked in labels it answers in labels; asked in numbers, in numbers.
        """
        rows = self._rows(states)
        log_pi = self._log_policy(rows, constrained)
        stuck = np.flatnonzero(np.isneginf(log_pi).all(axis=1))
        if stuck.size:
            raise InvalidInput(
                f"`Solution.predict` must be asked about states with a viable action; state "
                f"{rows[stuck[0]]} (row {stuck[0]}) has none under the constraints."
            )
        best = np.asarray(log_pi.argmax(axis=1))
        if self.labels is None or not are_labels(states):
            return best
        names = np.empty(self.n_actions, object)
        names[:] = self.labels.actions
        return np.asarray(names[best])

    def score(self, demonstrations: Demonstrations, *, constrained: bool = True) -> float:
        """The mean log-likelihood per step, in nats; minus infinity with a forbidden step."""
        check_kind(demonstrations, Demonstrations, "demonstrations")
        check_labels(self, demonstrations)
        rows = self._rows(demonstrations.states)
        check_range(demonstrations.actions, self.n_actions, "actions", "n_actions")
        each = self._log_policy(rows, constrained)[np.arange(len(rows)), demonstrations.actions]
        weights = demonstrations.step_weights
        # A step of weight 0 says nothing, not even where it is impossible.
        return float(np.average(each[weights > 0], weights=weights[weights > 0]))

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        found = self.found
        return int(found.q.shape[1]) if isinstance(found, Tables) else found.n_actions

    @property
    def constrained(self) -> bool:
        """Whether the policy has constraints to obey."""
        found = self.found
        return found.q_constrained is not None if isinstance(found, Tables) else found.constrained

    # -- tables --

    @property
    def tables(self) -> Tables:
        """The arrays, where states are those of a table."""
        if not isinstance(self.found, Tables):
            raise InvalidInput(
                f"`Solution.tables` must be those of a table of states; this solution of "
                f"{self.info.algorithm} is over rows of {self.found.scaling.shape[1]} numbers. Ask "
                f"its functions: `reward(states)`, `q(states)`, `predict_proba(states)`."
            )
        return self.found

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
            raise InvalidInput(NEEDS_CONSTRAINTS)
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

    def to_table(self) -> Any:
        """An Arrow table with a row for each state and action, under their labels.

        Labels of several columns are columns ``state_1``, ``state_2`` and so on. Of a history the
        present state is ``state``; ``before_1``, ``before_2`` and so on are those before it, null
        where it says nothing of them, and ``begins`` is whether the episode begins with it. Polars
        and pandas take it as it is: ``polars.from_arrow(table)``, ``table.to_pandas()``.

        >>> import inverseq as iq
        >>> log = {"place": ["a", "b", "a"], "move": ["go", "back", "go"]}
        >>> seen = iq.Demonstrations.from_table(log, state="place", action="move")
        >>> found = iq.BehaviouralCloning(prior=1.0).fit(seen, seen.task(0.9))
        >>> found.to_table().select(["state", "action", "probability", "visits"]).to_pylist()[1]
        {'state': 'a', 'action': 'go', 'probability': 0.666..., 'visits': 1.0}
        """
        import pyarrow as pa

        tables = self.tables
        n_states, n_actions = tables.q.shape
        labels = self.labels or Labels(range(n_states), range(n_actions))
        states, actions = np.divmod(np.arange(n_states * n_actions), n_actions)
        columns: dict[str, Any] = {}
        for named, numbers in (
            (labels.state_columns(), states),
            (columns_of("action", labels.actions), actions),
        ):
            columns |= {name: pa.array(c).take(pa.array(numbers)) for name, c in named.items()}
        columns |= {
            "reward": tables.reward.ravel(),
            "q": tables.q.ravel(),
            "probability": self.policy_table.ravel(),
            "available": tables.available.ravel(),
        }
        if tables.visits is not None:
            columns["visits"] = tables.visits.ravel()
        return pa.table(columns)

    @property
    def scarce(self) -> np.ndarray | None:
        """Which states the demonstrations never or hardly show (fewer than `HARDLY` visits), (S,).

        What stands there is convention or chance. None where there were no demonstrations.
        """
        return None if self.tables.visits is None else self.tables.visits.sum(axis=1) < HARDLY

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

    def unconstrained(self) -> Solution:
        """The same without what the constraints made of it: the demonstrator's own policy.

        >>> import numpy as np, inverseq as iq
        >>> task = iq.Task(2, 0.5, transitions=np.ones((1, 2, 1)))
        >>> ruled = task.constrain(iq.Constraint(np.array([[1.0, 0.0]]), 0.5))
        >>> found = iq.IAVI().solve(np.array([[0.25, 0.75]]), ruled)
        >>> found.policy_table, found.unconstrained().policy_table
        (array([[0., 1.]]), array([[0.25, 0.75]]))
        """
        if not self.constrained:
            return self
        found = self.found
        free: Tables | Networks
        if isinstance(found, Tables):
            free = replace(found, safe=None, q_constrained=None)
        else:
            task = None if found.task is None else found.task.unconstrained()
            free = replace(found, constrained=False, task=task)
        info = replace(self.info, task=dict(self.info.task) | {"constraints": []})
        return replace(self, found=free, info=info)

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
        return cls(tables, task.temperature, info, task.labels)

    def timed(self, seconds: float) -> Solution:
        """The same with its wall time, once all is done."""
        return replace(self, info=replace(self.info, seconds=seconds))

    # -- files --

    def save(self, folder: str | PathLike[str]) -> None:
        """Write a folder: arrays as safetensors, the rest as JSON, with checksums, whole or not."""
        found = self.found
        if isinstance(found, Tables):
            kept, arrays = {"kind": "tables"}, found.arrays()
        else:
            parts = [leaves(params, f"params/{name}") for name, params in found.params.items()]
            arrays = {name: array for part in parts for name, array in part.items()}
            arrays["scaling"] = found.scaling
            kept = {
                "kind": "networks",
                "network": plain(found.network),
                **{name: getattr(found, name) for name in KEPT},
            }
        about = {"temperature": self.temperature, "info": plain(dataclasses.asdict(self.info))}
        if self.labels is not None:
            about["labels"] = self.labels.plain()
        if (spread := self.uncertainty) is not None:
            fields = {f.name: getattr(spread, f.name) for f in dataclasses.fields(spread)}
            arrays |= leaves({name: fields.pop(name).arrays() for name in SPREADS}, "uncertainty")
            about["uncertainty"] = fields
        storage.write_folder(folder, "solution", arrays, kept | about)

    @classmethod
    def load(
        cls,
        folder: str | PathLike[str],
        task: Task | None = None,
        *,
        network: Network | None = None,
    ) -> Solution:
        """Read what `save` wrote; runs no code from it.

        ``task`` and ``network`` give back what is a function and so was not saved: what is
        available and forbidden where states are rows of numbers, and a network of your own.
        """
        arrays, settings = storage.read_folder(folder, "solution")
        try:
            known = dict(settings["info"])
            # What JSON cannot hold, infinities and NaN, was written as text.
            known["change"] = tuple(map(float, known["change"]))
            known["residual"] = None if known["residual"] is None else float(known["residual"])
            info, temperature = Info(**known), float(settings["temperature"])
            labels = Labels.from_plain(settings.get("labels"))
            about = settings.get("uncertainty")
            if about is not None:
                parts = tree(arrays, "uncertainty")
                reward, q, policy = (Spread(**parts[name]) for name in SPREADS)
                about = Uncertainty(reward, q, policy, **about)
                arrays = {n: x for n, x in arrays.items() if not n.startswith("uncertainty/")}
            if settings["kind"] == "tables":
                return cls(Tables(**arrays), temperature, info, labels, about)
            scaling = arrays.pop("scaling")
            params = tree(arrays, "params")
            made = network or known_network(settings["network"])
            kept = {name: settings[name] for name in KEPT}
        except (KeyError, TypeError, ValueError) as problem:
            raise DamagedFile(
                f"The folder {folder} must hold a solution of this version; it lacks or adds "
                f"something ({problem}). Fit again, or read it with the version that wrote it."
            ) from problem
        if made is None:
            raise InvalidInput(
                f"The folder {folder} holds a solution with a network of its own, "
                f"{settings['network']}, which is a function and was not saved. Give it: "
                f"`load(folder, network=...)`."
            )
        if task is not None:
            check_same(assumptions(task), info.task)
        return cls(Networks(made, params, scaling, **kept, task=task), temperature, info, labels)

    def _rows(self, states: Any) -> np.ndarray:
        """States as numbers or rows of numbers, checked."""
        if self.labels is not None and self.labels.states is not None and are_labels(states):
            states = self.labels.state_numbers(states)
        return self.found.check(states)

    def _look_up(self, name: str, states: Any) -> np.ndarray:
        return self.found.look_up(name, self._rows(states))

    def _value(self, q: np.ndarray, safe: np.ndarray) -> np.ndarray:
        soft = self.info.backup == "soft"
        return np.asarray(planning.state_value(q, safe, self.temperature, soft))

    def _log_policy(self, rows: np.ndarray, constrained: bool) -> np.ndarray:
        bound = constrained and self.constrained
        names = ("q_constrained", "safe") if bound else ("q", "available")
        found = self.found
        if isinstance(found, Tables) and len(rows) > len(found.q):
            # Rather each state once than each row.
            return np.asarray(self._log_policy(np.arange(len(found.q)), constrained)[rows])
        q, safe = (found.look_up(name, rows) for name in names)
        log_pi = equations.log_boltzmann(q, safe, self.temperature)
        return np.asarray(log_pi)

    def __repr__(self) -> str:
        found = self.found
        if isinstance(found, Tables):
            parts = [f"{len(found.q)} states"]
        else:
            parts = [f"states of {found.scaling.shape[1]} numbers"]
        parts += [f"{self.n_actions} actions", f"gauge {self.info.gauge}"]
        if self.constrained:
            parts += ["constrained by " + ", ".join(self.info.task.get("constraints", []))]
        if not self.info.converged:
            parts += ["not converged"]
        return f"Solution({self.info.algorithm}: {', '.join(parts)})"


KEPT = ("n_actions", "temperature", "discount", "constrained", "masked")
"""What is written of networks beside their parameters."""


def load(
    folder: str | PathLike[str], task: Task | None = None, *, network: Network | None = None
) -> Solution:
    """Read a solution that was saved with `Solution.save`; runs no code from it.

    ``task`` and ``network`` give back what is a function: see `Solution.load`.

    >>> import tempfile, numpy as np, inverseq as iq
    >>> task = iq.Task(2, 0.5, transitions=np.ones((1, 2, 1)))
    >>> found = iq.IAVI().solve(np.array([[0.25, 0.75]]), task)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found.save(f"{folder}/found")
    ...     iq.load(f"{folder}/found").policy_table
    array([[0.25, 0.75]])
    """
    return Solution.load(folder, task, network=network)


def known_network(settings: Any) -> Network | None:
    """A network of this library from its settings; None where it is somebody else's."""
    kinds: dict[str, Any] = {"MLP": MLP, "DeepSets": DeepSets}
    if not isinstance(settings, Mapping) or settings.get("is") not in kinds:
        return None
    fields = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items() if k != "is"}
    network: Network = kinds[settings["is"]](**fields)
    return network


def check_labels(solution: Solution, demonstrations: Demonstrations) -> None:
    """Raise where numbers of states or actions stand for something else in the demonstrations."""
    own, given = solution.labels, demonstrations.labels
    if own is not None and given is not None and own != given:
        raise InvalidInput(
            f"`demonstrations` must have the labels of the solution, {own!r}; they have {given!r}. "
            f"Read the log with `labels=solution.labels`."
        )


def check_same(given: Mapping[str, Any], kept: Mapping[str, Any]) -> None:
    """Raise unless a task is the one that a solution was found for."""
    for name, value in given.items():
        if name in kept and kept[name] != value:
            raise InvalidInput(
                f"`task` must be the one that the solution was found for; its {name} is {value!r} "
                f"and the solution's {kept[name]!r}."
            )


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
    if callable(value) and hasattr(value, "__qualname__") and not isinstance(value, type):
        # Its place in memory says nothing, and is another one every time.
        return f"{value.__module__}.{value.__qualname__}"
    return repr(value)
