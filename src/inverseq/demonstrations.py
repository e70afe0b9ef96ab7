"""Demonstrations: what was seen. Counts: what it adds up to. Additive: the policy behind counts.

Demonstrations are arrays with one row per step. They are checked once, here, and nowhere else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from inverseq import equations
from inverseq._checks import as_number, as_whole, check_choice, check_kind, check_range
from inverseq._random import generator
from inverseq.errors import DamagedFile, InvalidInput
from inverseq.labels import Labels
from inverseq.shapes import Integers, MaskTable, States, Table
from inverseq.task import Task
from inverseq.transitions import Transitions

if TYPE_CHECKING:
    from inverseq.history import BackOff, Histories, History
    from inverseq.io.columns import Names
    from inverseq.io.logs import Availability, OnBad, Reading, Steps

FILE_FORMAT = 4
"""The second one may hold rewards, the third labels and what is available, the fourth counts;
without them the first is written, which older versions read."""
LARGEST_TABLE = 2**31
"""Beyond this many pairs of states and actions, numbers of states are taken to be labels."""


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Demonstrations:
    """What was seen, step by step: in this state, this action, and then that state.

    States are integers (a table), or rows of numbers of shape (steps, features) or more (networks).
    The arrays are read-only copies of what is given.

    >>> seen = Demonstrations([0, 1, 0], [1, 1, 0], [1, 2, 0], terminated=[False, True, False])
    >>> seen
    Demonstrations(3 steps in 2 episodes, 2 states, 2 actions, 1 end)
    >>> seen.episodes
    array([0, 0, 1])
    """

    states: States
    """Where each step began: int64 (steps,) for a table, else floats (steps, ...)."""
    actions: Integers
    """What was done, int64 (steps,)."""
    next_states: States
    """Where each step led, in the form of ``states``."""
    terminated: np.ndarray
    """Where an episode truly ended, bool (steps,): nothing that follows such a step counts. An
    episode that was only cut, by a time limit or the end of a recording, did not end."""
    episodes: np.ndarray | None
    """The label of each step's episode, integers or text (steps,); its rows lie together. Where
    none are given, a new episode begins after a step that terminated, where the unit changes, and
    where a step does not begin in the state to which the last one led. Counts have none."""
    units: np.ndarray | None
    """Who acted: the label of an animal, a driver or a patient, integers or text (steps,)."""
    weights: np.ndarray | None
    """How much each step counts, float64 (steps,); 1 where none are given. Of counts: how often."""
    rewards: np.ndarray | None
    """The reward that was paid for each step, where the log holds one, float64 (steps,); only
    algorithms that learn from a known reward look at it."""
    labels: Labels | None
    """What states and actions are called, where a log gave them names."""
    available: np.ndarray | None
    """What could be done in each state of the table, bool (states, actions), where a log says it;
    `task` takes it over."""
    counted: bool
    """Whether each row is a step that was seen as often as it weighs, wherever it was: counts have
    no order, no episodes and no units."""
    reading: Reading | None = field(init=False)
    """What became of the rows of the log, in the demonstrations that were read from one; parts of
    them have none."""

    def __init__(
        self,
        states: Any,
        actions: Any,
        next_states: Any,
        *,
        terminated: Any = None,
        episodes: Any = None,
        units: Any = None,
        weights: Any = None,
        rewards: Any = None,
        labels: Labels | None = None,
        available: Any = None,
        counted: bool = False,
    ) -> None:
        given = {"states": states, "actions": actions, "next_states": next_states}
        options = zip(OPTIONS, (terminated, episodes, units, weights, rewards), strict=True)
        given |= {name: array for name, array in options if array is not None}
        rows = {name: rows_of(array, name) for name, array in given.items()}
        n = len(rows["states"])
        if n == 0:
            raise InvalidInput("`Demonstrations` must hold at least one step; `states` is empty.")
        for name, array in rows.items():
            if len(array) != n:
                raise InvalidInput(
                    f"`Demonstrations.{name}` must have one row per step; it has {len(array)} rows "
                    f"and `states` has {n}."
                )
        if rows["states"].shape != rows["next_states"].shape:
            raise InvalidInput(
                f"`Demonstrations.next_states` must have the shape of `states`, "
                f"{rows['states'].shape}; it has {rows['next_states'].shape}."
            )
        rows.setdefault("terminated", np.zeros(n, bool))
        rows = {name: CHECKS[name](array, name) for name, array in rows.items()}
        check_kind(counted, bool, "Demonstrations.counted")
        if counted:
            check_counted(rows)
        elif episodes is None:
            rows["episodes"] = derived_episodes(
                rows["states"], rows["next_states"], rows["terminated"], rows.get("units")
            )
        for array in rows.values():
            array.flags.writeable = False
        for name in CHECKS:
            object.__setattr__(self, name, rows.get(name))
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "available", available)
        object.__setattr__(self, "counted", counted)
        object.__setattr__(self, "reading", None)
        if self.episodes is not None:
            self._check_episodes(self.episodes)
        self._check_labels()

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        state: Names,
        action: Names,
        next_state: Names | None = None,
        episode: str | None = None,
        unit: str | None = None,
        time: str | None = None,
        terminated: str | None = None,
        available: Availability | None = None,
        labels: Labels | None = None,
        history: History | None = None,
        on_bad: OnBad = "raise",
    ) -> Demonstrations:
        """From somebody's table: of polars, pandas or Arrow, or a dictionary of columns.

        >>> log = {"place": ["home", "home", "port"], "move": ["wait", "run", "drink"]}
        >>> seen = Demonstrations.from_table(log, state="place", action="move")
        >>> seen.labels.states, seen.states, seen.next_states
        (('home', 'port'), array([0, 0]), array([0, 1]))
        >>> print(seen.reading.remarks[0])
        open end: 1 row (the first is row 2): the last row of an episode that did not terminate: ...

        Args:
            table: A row for each step.
            state: The column with the state, or a list of columns. Integers, text, categories and
                truth values are labels; they are numbered in sorted order and kept in ``labels``.
                Floating-point numbers, or one column of lists of numbers, are rows of numbers.
            action: The column with the action, or a list of columns: labels.
            next_state: The column or columns with where the step led. Where not given it is the
                state of the next row of the episode; the last row of an episode is a step only if
                it terminated, for else nobody knows where it led.
            episode: The column with the label of the episode. Where not given, all rows of a unit
                are one episode, and after one that terminated a new one begins.
            unit: The column with who acted; the same label of an episode under two units is two
                episodes.
            time: The column by which the rows of an episode are ordered; else they are in order.
            terminated: The column that says whether the step truly ended its episode.
            available: What could be done: the name of a column with a list of labels or of truth
                values in each row, "seen" for what was ever done in a state, a boolean table in the
                order of the labels, or a dictionary or a function from the label of a state to
                labels of actions.
            labels: The labels to number by, those of other demonstrations or of a model; any other
                label is a bad row. Where they are those of histories, the states are these too.
            history: How many states before the present one are part of each state, or "auto" to
                choose on held-out parts. Fit with ``smoothing``; ``histories`` says which there
                are, and labels are tuples, in which None stands for the beginning of the episode.
            on_bad: "raise" to stop at bad rows, "drop" to leave them out; ``reading`` says what was
                dropped and why.
        """
        from inverseq.history import check_history, remembered
        from inverseq.io.logs import steps_of

        check_history(history, labels)
        steps = steps_of(
            table,
            state=state,
            action=action,
            next_state=next_state,
            episode=episode,
            unit=unit,
            time=time,
            terminated=terminated,
            available=available,
            labels=None if labels is None else labels.alone,
            on_bad=on_bad,
        )
        return remembered(cls.from_steps(steps), history, labels)

    @classmethod
    def from_steps(cls, steps: Steps) -> Demonstrations:
        """From the steps that were found in a log, with what was found on the way."""
        seen = cls(
            **steps.arrays, labels=steps.labels, available=steps.available, counted=steps.counted
        )
        object.__setattr__(seen, "reading", steps.reading)
        return seen

    @classmethod
    def from_episodes(
        cls,
        episodes: Iterable[Any],
        *,
        terminated: Any = False,
        units: Any = None,
        rewards: Any = None,
    ) -> Demonstrations:
        """From pairs (states, actions), each with one more state than actions: where it ended.

        ``terminated`` says whether they truly ended there, ``units`` who acted: one entry for each
        episode, or one for all. ``rewards`` has one array for each episode: what each of its steps
        was paid.

        >>> Demonstrations.from_episodes([([0, 1, 2], [1, 1]), ([2, 0], [0])], terminated=True)
        Demonstrations(3 steps in 2 episodes, 3 states, 2 actions, 2 ends)
        """
        pairs = [checked_episode(episode, i) for i, episode in enumerate(episodes)]
        if not pairs:
            raise InvalidInput("`Demonstrations` must hold at least one episode; got none.")
        first = pairs[0][0].shape[1:]
        for i, (states, _) in enumerate(pairs):
            if states.shape[1:] != first:
                raise InvalidInput(
                    f"`Demonstrations.states` must be of one shape; a state of episode 0 has shape "
                    f"{first}, one of episode {i} has {states.shape[1:]}."
                )
        lengths = [len(actions) for _, actions in pairs]
        last = np.zeros(sum(lengths), bool)
        last[np.cumsum(lengths) - 1] = True
        return cls(
            np.concatenate([states[:-1] for states, _ in pairs]),
            np.concatenate([actions for _, actions in pairs]),
            np.concatenate([states[1:] for states, _ in pairs]),
            terminated=np.where(last, per_step(terminated, lengths, "terminated"), False),
            episodes=per_step(np.arange(len(pairs)), lengths, "episodes"),
            units=None if units is None else per_step(units, lengths, "units"),
            rewards=None if rewards is None else joined_rewards(rewards, lengths),
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Demonstrations]) -> Demonstrations:
        """All steps of all parts, in order.

        Episodes are numbered anew, so that none of two parts are merged. Units keep their labels: a
        label that is in two parts is one unit. Where some parts have weights, the others weigh 1;
        rewards are there only where all parts have them. With a part of counts, all are counts.

        >>> part = Demonstrations([0, 1], [0, 0], [1, 2])
        >>> Demonstrations.concatenate([part, part])
        Demonstrations(4 steps in 2 episodes, 2 states, 1 action, 0 ends)
        """
        if not parts:
            raise InvalidInput("`Demonstrations.concatenate` needs at least one part; got none.")
        for i, part in enumerate(parts):
            if part._form != parts[0]._form:
                raise InvalidInput(
                    f"`Demonstrations.concatenate` needs parts of one form; part 0 has "
                    f"{parts[0]._form}, part {i} has {part._form}."
                )
            same = np.array_equal(part.available, parts[0].available)  # type: ignore[arg-type]
            if part.labels != parts[0].labels or not same:
                raise InvalidInput(
                    f"`Demonstrations.concatenate` needs parts with the same labels and the same "
                    f"available actions; those of part {i} are not those of part 0. Read it with "
                    f"`labels=`."
                )
        counted = any(part.counted for part in parts)
        episodes = None
        if not counted:
            lengths = np.concatenate([np.diff(part.starts, append=len(part)) for part in parts])
            episodes = np.repeat(np.arange(len(lengths)), lengths)
        weighted = any(part.weights is not None for part in parts)
        rewarded = all(part.rewards is not None for part in parts)

        def join(name: str) -> np.ndarray:
            return np.concatenate([getattr(part, name) for part in parts])

        return cls(
            join("states"),
            join("actions"),
            join("next_states"),
            terminated=join("terminated"),
            episodes=episodes,
            units=None if parts[0].units is None else join("units"),
            weights=np.concatenate([part.step_weights for part in parts]) if weighted else None,
            rewards=join("rewards") if rewarded else None,
            labels=parts[0].labels,
            available=parts[0].available,
            counted=counted,
        )

    # -- what is inside --

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def tabular(self) -> bool:
        """Whether states are numbers of a table rather than rows of numbers."""
        return self.states.ndim == 1

    @property
    def histories(self) -> Histories | None:
        """Which histories the states are, where the log was read with ``history``."""
        return None if self.labels is None else self.labels.histories

    @property
    def smoothing(self) -> Additive | BackOff:
        """What `IAVI` smooths counts by: those of histories lean on those of shorter ones.

        >>> log = {"place": ["a", "b", "a", "c"] * 9, "move": ["left", "back", "right", "back"] * 9}
        >>> seen = Demonstrations.from_table(log, state="place", action="move", history=1)
        >>> from inverseq import IAVI
        >>> found = IAVI(smoothing=seen.smoothing).fit(seen, seen.task(0.9))
        >>> found.predict([("b", "a"), ("c", "a")])
        array(['right', 'left'], dtype=object)
        """
        if self.histories is None:
            return Additive()
        from inverseq.history import BackOff

        return BackOff(self.histories, self.histories.strength)

    @property
    def starts(self) -> np.ndarray:
        """The rows in which episodes begin."""
        episodes = self.in_order("`Demonstrations.starts`")
        return np.flatnonzero(np.append(True, episodes[1:] != episodes[:-1]))

    @property
    def n_episodes(self) -> int:
        """How many episodes there are."""
        self.in_order("`Demonstrations.n_episodes`")
        return len(self.starts)

    @property
    def times_seen(self) -> Integers:
        """How often each row was seen, int64 (steps,): 1, but of counts as often as it weighs.

        >>> Demonstrations([0, 1], [0, 0], [1, 0], weights=[7, 2], counted=True).times_seen
        array([7, 2])
        """
        return self.step_weights.astype(np.int64) if self.counted else np.ones(len(self), np.int64)

    def in_order(self, what: str, instead: str = "") -> np.ndarray:
        """The labels of episodes; for what needs them, it raises where steps were counted.

        ``instead`` is another way out for the message to name.
        """
        if self.episodes is None:
            raise InvalidInput(
                f"{what} needs steps in their order, and these are counts of steps; read the log "
                f"without `counts`{instead}."
            )
        return self.episodes

    def task(self, discount: float, *, temperature: float = 1.0) -> Task:
        """The task of these demonstrations: their states, actions, labels and what is available.

        The model is counted by the algorithms that need one. Constraints are added by
        `Task.constrain`, all else by `dataclasses.replace`.

        >>> log = {"place": ["a", "b", "a"], "move": ["go", "back", "go"]}
        >>> seen = Demonstrations.from_table(log, state="place", action="move", available="seen")
        >>> seen.task(0.9)
        Task(2 states, 2 actions, discount 0.9, transitions unknown, 50% of pairs available)
        """
        n_states, n_actions = self._sizes()
        return Task(
            n_actions,
            discount,
            n_states=n_states,
            available=self.available,
            temperature=temperature,
            labels=self.labels,
        )

    def counts(self, n_states: int | None = None, n_actions: int | None = None) -> Counts:
        """How often each pair was seen, and what followed it; for tables.

        Where the numbers of states and actions are not given they are those of the labels, or the
        largest that occur, plus 1. What follows a step that terminated does not count, neither here
        nor there.

        >>> counts = Demonstrations([0, 0, 1], [1, 1, 0], [1, 0, 1]).counts()
        >>> counts.visits
        array([[0., 2.], [1., 0.]])
        >>> counts.transitions.dense()[0, 1]
        array([0.5, 0.5])
        """
        import scipy.sparse as sp

        if not self.tabular:
            raise InvalidInput(
                f"`Demonstrations.counts` needs states that are integers; these have shape "
                f"{self.states.shape[1:]}. Number them, or use an algorithm for features."
            )
        following = np.where(self.terminated, 0, self.next_states)
        for name, value in ("n_states", n_states), ("n_actions", n_actions):
            if value is not None and as_whole(value) < 1:
                raise InvalidInput(f"`{name}` must be a positive integer; got {value!r}.")
        states, actions = self._sizes()
        n_states, n_actions = int(n_states or states or 0), int(n_actions or actions)
        check_range(self.states, n_states, "Demonstrations.states", "n_states")
        check_range(following, n_states, "Demonstrations.next_states", "n_states")
        check_range(self.actions, n_actions, "Demonstrations.actions", "n_actions")

        n_pairs = n_states * n_actions
        if n_pairs > LARGEST_TABLE:
            row = int(self.states.argmax())
            raise InvalidInput(
                f"`Demonstrations.states` must be numbered without large gaps; a table of "
                f"{n_states:,} states and {n_actions:,} actions is too large, and row {row} is in "
                f"state {self.states[row]}. Number them by `np.unique(..., return_inverse=True)`."
            )
        pairs = self.states * n_actions + self.actions
        visits = np.bincount(pairs, self.weights, minlength=n_pairs).astype(float)
        weights = np.where(self.terminated, 0.0, self.step_weights)
        seen = sp.csr_array((weights, (pairs, following)), shape=(n_pairs, n_states))
        seen.eliminate_zeros()
        seen.data /= np.repeat(visits, np.diff(seen.indptr))
        return Counts(visits.reshape(n_states, n_actions), Transitions(seen, n_actions))

    @property
    def step_weights(self) -> np.ndarray:
        """How much each step counts, also where no weights were given."""
        return np.ones(len(self)) if self.weights is None else self.weights

    def __repr__(self) -> str:
        if self.counted:
            seen = amount(int(self.times_seen.sum()), "step")
            parts = [f"counts of {seen}, {len(self):,} of them different"]
        else:
            parts = [f"{amount(len(self), 'step')} in {amount(self.n_episodes, 'episode')}"]
        if self.tabular:
            parts += [amount(len(np.unique(self.states)), "state")]
        else:
            parts += [f"states of shape {self.states.shape[1:]}"]
        parts += [amount(len(np.unique(self.actions)), "action")]
        parts += [amount(int(self.times_seen[self.terminated].sum()), "end")]
        if self.units is not None:
            parts += [amount(len(np.unique(self.units)), "unit")]
        if self.weights is not None and not self.counted:
            parts += ["weighted"]
        if self.rewards is not None:
            parts += ["rewarded"]
        return f"Demonstrations({', '.join(parts)})"

    # -- parts of it --

    def select(self, rows: Any) -> Demonstrations:
        """The steps for which a boolean mask is true, in their order and under their labels.

        >>> seen = Demonstrations([0, 1, 2], [0, 1, 0], [1, 2, 3])
        >>> seen.select(seen.actions == 0).states
        array([0, 2])
        """
        rows = np.asarray(rows)
        if rows.dtype != bool or rows.shape != (len(self),):
            raise InvalidInput(
                f"`select` needs a boolean mask over the {amount(len(self), 'step')}; got "
                f"{rows.dtype} of shape {rows.shape}."
            )
        return replace(self, **{name: array[rows] for name, array in self._arrays().items()})

    def split(
        self, by: str = "episode", fraction: float = 0.2, *, seed: int
    ) -> tuple[Demonstrations, Demonstrations]:
        """Train and test, with every "unit" or "episode" whole on one side; rows keep their order.

        The test side gets a fraction of the units or episodes: at least one, and not the last one.

        >>> seen = Demonstrations(range(10), [0] * 10, range(1, 11), episodes=range(10))
        >>> train, test = seen.split("episode", 0.3, seed=0)
        >>> len(train), len(test)
        (7, 3)
        """
        check_choice(by, ("unit", "episode"), "by")
        self.in_order("`Demonstrations.split`")
        if not 0 < as_number(fraction) < 1:
            raise InvalidInput(f"`fraction` must lie between 0 and 1; got {fraction!r}.")
        labels = self.units if by == "unit" else self.episodes
        if labels is None:
            raise InvalidInput("`split` by unit needs `Demonstrations.units`; there are none.")
        groups, member = np.unique(labels, return_inverse=True)
        n = len(groups)
        if n < 2:
            raise InvalidInput(
                f"`split` needs at least two {by}s; there is only {groups[0].item()!r}."
            )
        n_test = min(max(round(fraction * n), 1), n - 1)
        chosen = generator(seed).permutation(n) < n_test
        return self.select(~chosen[member]), self.select(chosen[member])

    def with_history(
        self, length: int, n_states: int | None = None
    ) -> tuple[Demonstrations, Histories]:
        """The same with up to ``length`` states before the present one as part of each state, and
        what the new numbers mean; never across episodes or over steps that are missing.

        Labels, where there are any, become tuples of labels; what is available stays so.

        >>> seen = Demonstrations.from_episodes([([0, 1, 0, 2], [0, 2, 1])])
        >>> augmented, histories = seen.with_history(1)
        >>> [histories.decode(i) for i in augmented.states]  # -1 is where the episode begins
        [(-1, 0), (0, 1), (1, 0)]
        """
        from inverseq.history import Histories

        self.in_order("`Demonstrations.with_history`")
        n_states = self._sizes()[0] if n_states is None else n_states
        histories = Histories.of(self, length, n_states)
        return histories.encode(self), histories

    # -- files --

    def save(self, path: str | PathLike[str]) -> None:
        """Write one Parquet file, whole or not at all; states that are rows become lists.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Demonstrations([0, 1], [1, 0], [1, 2]).save(f"{folder}/seen.parquet")
        ...     Demonstrations.load(f"{folder}/seen.parquet")
        Demonstrations(2 steps in 1 episode, 2 states, 2 actions, 0 ends)
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        from inverseq.io.storage import write_file

        columns = {column(name): stored(array) for name, array in self._arrays().items()}
        named = self._named()
        version = 3 if named else 1 if self.rewards is None else 2
        version = FILE_FORMAT if self.counted else version
        about = {"inverseq.demonstrations": str(version), "inverseq.sha256": self._checksum()}
        about |= {f"inverseq.{name}": text for name, text in named.items()}
        sink = pa.BufferOutputStream()
        pq.write_table(
            pa.table(columns, metadata=about), sink, compression="zstd", write_page_checksum=True
        )
        write_file(path, sink.getvalue().to_pybytes())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Demonstrations:
        """Read what ``save`` wrote, or raise ``DamagedFile``."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        from inverseq.io.storage import damaged, newer

        path = Path(path)
        if not path.is_file():
            raise InvalidInput(f"`Demonstrations.load` needs a file, and there is none at {path}.")
        source = pa.BufferReader(path.read_bytes())
        try:
            file = pq.ParquetFile(source, page_checksum_verification=True)
            about = file.schema_arrow.metadata
            version = int(about[b"inverseq.demonstrations"])
            if version > FILE_FORMAT:
                raise newer(path, version, FILE_FORMAT)
            table = file.read()
            found = [name for name in CHECKS if column(name) in table.column_names]
            seen = cls(
                **{name: restored(table[column(name)]) for name in found},
                labels=Labels.from_plain(json.loads(about.get(b"inverseq.labels", "null"))),
                available=json.loads(about.get(b"inverseq.available", "null")),
                counted=json.loads(about.get(b"inverseq.counted", "false")),
            )
            if seen._checksum().encode() != about[b"inverseq.sha256"]:
                raise damaged(path, "its checksum does not agree")
        except DamagedFile:
            raise
        except Exception as error:  # damage shows itself in any way it likes
            raise damaged(path, "it is not what `Demonstrations.save` wrote") from error
        return seen

    # -- private --

    def _arrays(self) -> dict[str, np.ndarray]:
        arrays = {name: getattr(self, name) for name in CHECKS}
        return {name: array for name, array in arrays.items() if array is not None}

    def _checksum(self) -> str:
        # Page checksums leave the rest of a file unguarded: names, types, numbers of rows.
        checksum = hashlib.sha256()
        for name, array in self._arrays().items():
            checksum.update(f"{name} {array.dtype.str} {array.shape} ".encode() + array.tobytes())
        for name, text in self._named().items():
            checksum.update(f"{name} {text}".encode())
        return checksum.hexdigest()

    def _named(self) -> dict[str, str]:
        """Labels, what is available and whether steps are counted, as JSON, where it is so."""
        named: dict[str, Any] = {}
        if self.labels is not None:
            named["labels"] = self.labels.plain()
        if self.available is not None:
            named["available"] = self.available.tolist()
        if self.counted:
            named["counted"] = True
        return {name: json.dumps(data) for name, data in named.items()}

    def _sizes(self) -> tuple[int | None, int]:
        """How many states, where they are those of a table, and how many actions."""
        labels, available = self.labels, self.available
        if available is not None:
            return len(available), available.shape[1]
        n_actions = int(self.actions.max()) + 1 if labels is None else len(labels.actions)
        if not self.tabular:
            return None, n_actions
        if labels is not None and labels.states is not None:
            return len(labels.states), n_actions
        following = np.where(self.terminated, 0, self.next_states)
        return int(max(self.states.max(), following.max())) + 1, n_actions

    def _check_labels(self) -> None:
        labels, available = self.labels, self.available
        if available is not None:
            available = np.array(available)
            if not self.tabular or available.dtype != bool or available.ndim != 2:
                raise InvalidInput(
                    f"`Demonstrations.available` must be boolean of shape (states, actions), for "
                    f"the states of a table; it is {available.dtype} of shape {available.shape}, "
                    f"for {self._form}."
                )
            available.flags.writeable = False
            object.__setattr__(self, "available", available)
        if labels is not None and (labels.states is not None) != self.tabular:
            raise InvalidInput(
                f"`Labels.states` must be there for the states of a table, and only for them; got "
                f"{labels!r} for {self._form}."
            )
        if labels is None and available is None:
            return
        n_states, n_actions = self._sizes()
        if labels is not None:
            labels.check(n_states, n_actions, "Demonstrations")
        check_range(self.actions, n_actions, "Demonstrations.actions", "n_actions")
        if n_states is not None:
            following = np.where(self.terminated, 0, self.next_states)
            check_range(self.states, n_states, "Demonstrations.states", "n_states")
            check_range(following, n_states, "Demonstrations.next_states", "n_states")

    @property
    def _form(self) -> str:
        states = "integer states" if self.tabular else f"states of shape {self.states.shape[1:]}"
        if self.units is None:
            return f"{states} and no units"
        return f"{states} and units that are {KINDS[self.units.dtype.kind]}"

    def _check_episodes(self, episodes: np.ndarray) -> None:
        def label(row: int) -> str:
            return repr(episodes[row].item())

        starts = self.starts
        first = np.unique(episodes[starts], return_index=True)[1]
        if len(first) < len(starts):
            row = np.delete(starts, first)[0]
            raise InvalidInput(
                f"`Demonstrations.episodes` must keep the rows of an episode together; episode "
                f"{label(row)} comes back in row {row}. Sort the rows, or give each run a label of "
                f"its own."
            )
        goes_on = episodes[1:] == episodes[:-1]
        early = np.flatnonzero(goes_on & self.terminated[:-1])
        if early.size:
            raise InvalidInput(
                f"`Demonstrations.terminated` may be true only in the last row of an episode; it "
                f"is in row {early[0]}, and episode {label(early[0])} goes on."
            )
        if self.units is None:
            return
        changed = np.flatnonzero(goes_on & (self.units[1:] != self.units[:-1])) + 1
        if changed.size:
            raise InvalidInput(
                f"`Demonstrations.units` must not change within an episode; episode "
                f"{label(changed[0])} does so in row {changed[0]}, to "
                f"{self.units[changed[0]].item()!r}."
            )


@dataclass(frozen=True, eq=False)
class Counts:
    """What demonstrations of a table add up to."""

    visits: Table
    """How much weight each pair has, (S, A)."""
    transitions: Transitions
    """What followed: the rows of seen pairs sum to the share that did not terminate, the others are
    empty."""


@dataclass(frozen=True)
class Additive:
    """The demonstrator's policy from counts: ``k`` more visits for each available action.

    The paper's epsilon inside the logarithm is ``Additive(1e-6)``, which is renormalised.

    >>> Additive(1.0).policy(np.array([[3.0, 1.0], [0.0, 0.0]]), np.ones((2, 2), bool))
    array([[0.66666667, 0.33333333], [0.5 , 0.5 ]])
    """

    k: float = 1e-3
    """How many visits are added."""

    def __post_init__(self) -> None:
        if not 0 <= as_number(self.k) < np.inf:
            raise InvalidInput(f"`Additive.k` must be finite and not negative; got {self.k!r}.")

    def policy(self, visits: Table, available: MaskTable) -> np.ndarray:
        """Probabilities (S, A): uniform over what is available in states without visits."""
        # With k = 0 a state without visits has no policy; one visit to each action makes one.
        visited = np.where(available, visits, 0.0).any(axis=-1, keepdims=True)
        return np.asarray(equations.count_policy(np.where(visited, visits, 1.0), self.k, available))


def tabulated(demonstrations: Demonstrations, task: Task) -> tuple[Task, np.ndarray]:
    """The task with a model, counted where it has none, and the visits of each pair, (S, A)."""
    check_kind(demonstrations, Demonstrations, "demonstrations")
    check_kind(task, Task, "task")
    task = named(task, demonstrations)
    visits = demonstrations.counts(task.n_states, task.n_actions).visits
    task = task.counted(demonstrations) if task.transitions is None else task
    check_possible(demonstrations, task.available_table())
    return task, visits


def named(task: Task, demonstrations: Demonstrations) -> Task:
    """The task with the labels of the demonstrations where it has none; they must agree."""
    if demonstrations.labels is None or task.labels == demonstrations.labels:
        return task
    if task.labels is None:
        return replace(task, labels=demonstrations.labels)
    raise InvalidInput(
        f"`Demonstrations.labels` must be those of the task, {task.labels!r}; they are "
        f"{demonstrations.labels!r}. Read the log with `labels=task.labels`."
    )


def check_possible(demonstrations: Demonstrations, available: MaskTable) -> None:
    """Raise where a demonstration shows what is not available, naming the row."""
    check_kind(demonstrations, Demonstrations, "demonstrations")
    d = demonstrations
    check_range(d.states, len(available), "Demonstrations.states", "n_states")
    check_range(d.actions, available.shape[1], "Demonstrations.actions", "Task.n_actions")
    follows = np.where(d.terminated, 0, d.next_states)
    check_range(follows, len(available), "Demonstrations.next_states", "n_states")
    impossible = np.flatnonzero(~available[d.states, d.actions])
    if impossible.size:
        row = int(impossible[0])
        raise InvalidInput(
            f"`Demonstrations.actions` must be available where they were taken; row {row} has "
            f"action {d.actions[row]} in state {d.states[row]}, which `Task.available` rules out."
        )


# -- checks, one per column --------------------------------------------------------------------


def rows_of(given: Any, name: str) -> np.ndarray:
    """A copy as an array with one row per step."""
    try:
        array = np.array(given, order="C")
    except ValueError as error:
        raise InvalidInput(
            f"`Demonstrations.{name}` must be an array, but has rows of different shapes."
        ) from error
    if np.ma.is_masked(given):
        row = int(np.argmax(np.ma.getmaskarray(given).reshape(len(array), -1).any(axis=1)))
        raise InvalidInput(
            f"`Demonstrations.{name}` must have all its entries; in row {row} some are masked. "
            f"Leave such steps out."
        )
    if array.ndim == 0:
        raise InvalidInput(
            f"`Demonstrations.{name}` must be an array with one row per step; got {given!r}."
        )
    return array


def check_vector(array: np.ndarray, name: str, kinds: str, what: str) -> np.ndarray:
    """The array, if it has one axis and one of the kinds of NumPy's types."""
    if array.ndim != 1 or array.dtype.kind not in kinds:
        raise InvalidInput(
            f"`Demonstrations.{name}` must be {what}; it is {array.dtype} of shape "
            f"{array.shape}, and row 0 is {array[0]}."
        )
    return array


def check_numbers(array: np.ndarray, name: str, what: str) -> np.ndarray:
    """Integers from 0."""
    array = check_vector(array, name, "iu", what)
    if array.min() < 0:
        row = int(np.argmax(array < 0))
        raise InvalidInput(
            f"`Demonstrations.{name}` must be numbered from 0; row {row} is {array[row]}."
        )
    return array.astype(np.int64, copy=False)


def check_actions(array: np.ndarray, name: str) -> np.ndarray:
    """One action per step."""
    return check_numbers(array, name, "integers, one action per step")


def check_states(array: np.ndarray, name: str) -> np.ndarray:
    """Integers from 0, or rows of finite numbers."""
    if array.ndim == 1:
        what = "integers for a table, or numbers of shape (steps, features)"
        return check_numbers(array, name, what)
    if array.dtype.kind not in "biuf" or array[0].size == 0:
        raise InvalidInput(
            f"`Demonstrations.{name}` must hold at least one number per step; it is {array.dtype} "
            f"of shape {array.shape}."
        )
    array = array.astype(np.float32 if array.dtype == np.float32 else np.float64, copy=False)
    wrong = ~np.isfinite(array).all(axis=tuple(range(1, array.ndim)))
    if wrong.any():
        row = int(np.argmax(wrong))
        bad = array[row][~np.isfinite(array[row])][0]
        raise InvalidInput(
            f"`Demonstrations.{name}` must be finite; row {row} holds {bad}. Leave such steps out."
        )
    return array


def check_terminated(array: np.ndarray, name: str) -> np.ndarray:
    """One truth value per step."""
    return check_vector(array, name, "b", "boolean, one value per step")


def check_labels(array: np.ndarray, name: str) -> np.ndarray:
    """Integers or text, of the least width that holds them."""
    if array.dtype.kind in "OT":
        for row, label in enumerate(array):
            if not isinstance(label, str):
                raise InvalidInput(
                    f"`Demonstrations.{name}` must be integers or text; row {row} is {label!r}."
                )
        array = array.astype(str)
    array = check_vector(array, name, "iuU", "integers or text, one label per step")
    if array.dtype.kind == "U":
        return array.astype(f"U{max(int(np.strings.str_len(array).max()), 1)}")
    return array.astype(np.int64, copy=False)


def check_weights(array: np.ndarray, name: str) -> np.ndarray:
    """Finite and not negative, and not all zero."""
    array = check_vector(array, name, "biuf", "numbers, one per step").astype(float, copy=False)
    wrong = ~(np.isfinite(array) & (array >= 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidInput(
            f"`Demonstrations.{name}` must be finite and not negative; row {row} is {array[row]}."
        )
    if not array.any():
        raise InvalidInput(f"`Demonstrations.{name}` must not all be zero; all {len(array)} are.")
    return array


def check_rewards(array: np.ndarray, name: str) -> np.ndarray:
    """Finite."""
    array = check_vector(array, name, "biuf", "numbers, one per step").astype(float, copy=False)
    wrong = ~np.isfinite(array)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidInput(
            f"`Demonstrations.{name}` must be finite; row {row} is {array[row]}. Leave such steps "
            f"out, or give no rewards."
        )
    return array


def check_counted(rows: dict[str, np.ndarray]) -> None:
    """Nothing that belongs to an order, and whole numbers of steps."""
    for name in ("episodes", "units"):
        if name in rows:
            raise InvalidInput(
                f"`Demonstrations.{name}` must not be given with `counted`: counts know none."
            )
    weights = rows.get("weights", np.ones(1))
    broken = np.flatnonzero(weights != np.round(weights))
    if broken.size:
        raise InvalidInput(
            f"`Demonstrations.weights` must be whole where steps are counted, how often each was "
            f"seen; row {broken[0]} is {weights[broken[0]]}."
        )


OPTIONS = ("terminated", "episodes", "units", "weights", "rewards")
CHECKS = {
    "states": check_states,
    "actions": check_actions,
    "next_states": check_states,
    "terminated": check_terminated,
    "episodes": check_labels,
    "units": check_labels,
    "weights": check_weights,
    "rewards": check_rewards,
}


def checked_episode(episode: Any, i: int) -> tuple[np.ndarray, np.ndarray]:
    """The states and actions of an episode, if there is one more state than actions."""
    if not isinstance(episode, tuple | list) or len(episode) != 2:
        raise InvalidInput(f"An episode must be a pair (states, actions); episode {i} is not.")
    states, actions = rows_of(episode[0], "states"), rows_of(episode[1], "actions")
    if not 0 < len(actions) == len(states) - 1:
        raise InvalidInput(
            f"An episode must have at least one action, and one more state than actions: the state "
            f"where it ended; episode {i} has {amount(len(states), 'state')} and "
            f"{amount(len(actions), 'action')}."
        )
    return states, actions


def per_step(given: Any, lengths: list[int], name: str) -> np.ndarray:
    """What is given for each episode, or once for all of them, repeated for each of its steps."""
    array = np.asarray(given)
    if array.shape not in ((), (len(lengths),)):
        raise InvalidInput(
            f"`{name}` must have one entry for each episode, of which there are {len(lengths)}; it "
            f"has shape {array.shape}."
        )
    return np.repeat(np.broadcast_to(array, len(lengths)), lengths)


def joined_rewards(given: Any, lengths: list[int]) -> np.ndarray:
    """What was paid in each episode, one after another, if there is one reward for each step."""
    if not isinstance(given, Iterable):
        raise InvalidInput(
            f"`rewards` must have one array for each episode, of which there are {len(lengths)}; "
            f"got {given!r}."
        )
    parts = [rows_of(rewards, "rewards") for rewards in given]
    if len(parts) != len(lengths):
        raise InvalidInput(
            f"`rewards` must have one array for each episode, of which there are {len(lengths)}; "
            f"it has {len(parts)}."
        )
    for i, (rewards, length) in enumerate(zip(parts, lengths, strict=True)):
        if rewards.shape != (length,):
            raise InvalidInput(
                f"`rewards` must have one reward for each action; episode {i} has "
                f"{amount(length, 'action')} and rewards of shape {rewards.shape}."
            )
    return np.concatenate(parts)


def derived_episodes(
    states: np.ndarray,
    next_states: np.ndarray,
    terminated: np.ndarray,
    units: np.ndarray | None,
) -> np.ndarray:
    """Numbers of episodes: a step goes on with one if it begins where the last one led."""
    moved = states[1:] != next_states[:-1]
    begins = moved.any(axis=tuple(range(1, moved.ndim))) | terminated[:-1]
    if units is not None:
        begins |= units[1:] != units[:-1]
    return np.append(0, np.cumsum(begins))


# -- columns of files, and words of messages ---------------------------------------------------

KINDS = {"i": "integers", "U": "text"}


def column(name: str) -> str:
    """The name of a column: it speaks of one step."""
    return name.removesuffix("s")


def stored(array: np.ndarray) -> Any:
    """An array as a column: rows of numbers become lists of fixed size."""
    import pyarrow as pa

    # As an array, text would be cut at its first NUL.
    values = pa.array(array.tolist() if array.dtype.kind == "U" else array.ravel())
    for size in array.shape[:0:-1]:
        values = pa.FixedSizeListArray.from_arrays(values, size)
    return values


def restored(values: Any) -> np.ndarray:
    """A column as an array."""
    import pyarrow as pa

    shape, values = [len(values)], values.combine_chunks()
    while pa.types.is_fixed_size_list(values.type):
        shape.append(values.type.list_size)
        values = values.flatten()
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(shape)


def amount(n: int, thing: str) -> str:
    """A number of things: 1 step, 1,600 steps."""
    return f"{n:,} {thing}" + "s" * (n != 1)
