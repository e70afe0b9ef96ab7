"""Task: what is assumed. Constraint: what must hold.

A task is a Markov decision problem without its reward: actions (and which are available where),
discount, temperature, the transition model if it is known, where episodes end and begin, and the
hard constraints. It is checked once, here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from inverseq.errors import InvalidInput
from inverseq.shapes import MaskTable, MaskVector, Sparse, States, Table, Vector

if TYPE_CHECKING:
    from inverseq.demonstrations import Demonstrations

ROW_SUM_TOLERANCE = 1e-8


@dataclass(frozen=True, eq=False)
class Constraint:
    """A hard constraint: an action is safe in a state where its cost is at most the threshold.

    >>> import numpy as np
    >>> cost = np.array([[1.0, 0.0], [0.0, 0.0]])
    >>> no_left = Constraint(cost, threshold=0.5, name="no left turn in state 0")
    >>> no_left.allows(np.array([0, 1]))
    array([[False,  True],
           [ True,  True]])
    """

    cost: np.ndarray | Callable[[Any], Any]
    """``c(s, a)``: a table of shape (states, actions), or a function from a batch of states to the
    costs of shape (batch, actions)."""

    threshold: float
    """The largest cost that is allowed."""

    name: str = "constraint"
    """What messages call it."""

    scale: float = 1.0
    """One unit of violation, by which constraints are compared where all actions violate one."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InvalidInput(f"`Constraint.name` must be text; got {self.name!r}.")
        if not callable(self.cost):
            cost = np.array(as_array(self.cost, "Constraint.cost"), dtype=float)
            if cost.ndim != 2:
                raise InvalidInput(
                    f"`Constraint.cost` must be a table of shape (states, actions) or a function "
                    f"of a batch of states; {self.name!r} has an array of shape {cost.shape}."
                )
            if np.isnan(cost).any():
                s, a = np.argwhere(np.isnan(cost))[0]
                raise InvalidInput(
                    f"`Constraint.cost` must not be NaN; {self.name!r} is NaN for state {s}, "
                    f"action {a}. Where nothing is forbidden the cost is -inf."
                )
            cost.flags.writeable = False
            object.__setattr__(self, "cost", cost)
        if np.isnan(as_number(self.threshold)):
            raise InvalidInput(
                f"`Constraint.threshold` must be a number; {self.name!r} has {self.threshold!r}."
            )
        if not 0 < as_number(self.scale) < np.inf:
            raise InvalidInput(
                f"`Constraint.scale` must be positive; {self.name!r} has {self.scale!r}."
            )
        object.__setattr__(self, "threshold", as_number(self.threshold))
        object.__setattr__(self, "scale", as_number(self.scale))

    def excess(self, states: States) -> np.ndarray:
        """Cost minus threshold in units of ``scale``, (batch, actions); positive is a violation."""
        if callable(self.cost):
            cost = as_array(self.cost(states), "Constraint.cost").astype(float)
        else:
            cost = self.cost[as_numbers(states, len(self.cost), "states", "len(Constraint.cost)")]
        if cost.ndim != 2 or len(cost) != len(states):
            raise InvalidInput(
                f"`Constraint.cost` must return shape (batch, actions); {self.name!r} returned "
                f"{cost.shape} for a batch of {len(states)} states."
            )
        if np.isnan(cost).any():
            row, action = np.argwhere(np.isnan(cost))[0]
            raise InvalidInput(
                f"`Constraint.cost` must not be NaN; {self.name!r} is NaN for row {row} of the "
                f"batch, action {action}."
            )
        # An infinite cost is within an infinite threshold, where their difference is NaN.
        over = np.subtract(
            cost, self.threshold, out=np.zeros(cost.shape), where=cost != self.threshold
        )
        return np.asarray(over / self.scale)

    def allows(self, states: States) -> np.ndarray:
        """Which actions keep this constraint: (batch, actions)."""
        return self.excess(states) <= 0


class Transitions:
    """``P(s'|s, a)``, stored sparse: one row per pair ``s * n_actions + a``.

    A row may sum to less than 1: the rest is the probability that the episode ends there, or that
    nobody knows what follows. Either way nothing that follows counts.
    """

    def __init__(self, matrix: Sparse, n_actions: int) -> None:
        """From a (states * actions, states) matrix whose rows have been checked."""
        self.matrix, self.n_actions = matrix, n_actions
        self.n_states: int = matrix.shape[1]

    @classmethod
    def check(cls, given: Any, n_actions: int) -> tuple[Transitions, np.ndarray]:
        """From what users give: (S, A, S) or A matrices (S, S); one more column is the end.

        Also returns the sums of the rows, (S, A), the column for the end included.
        """
        import scipy.sparse as sp

        if isinstance(given, Transitions):
            if given.n_actions != n_actions:
                raise InvalidInput(
                    f"`Task.transitions` must be of the task's {n_actions} actions; the model "
                    f"given has {given.n_actions}."
                )
            return given, np.ones((given.n_states, n_actions))
        if sp.issparse(given):
            raise InvalidInput(
                "`Task.transitions` must be an array (states, actions, states) or a sequence "
                "of A sparse matrices; one sparse matrix was given. Put it in a list."
            )
        several = isinstance(given, list | tuple) or getattr(given, "dtype", "") == "O"
        if several and any(sp.issparse(block) for block in given):
            blocks = [sparse_block(block, action) for action, block in enumerate(given)]
            shapes = {block.shape for block in blocks}
            if len(blocks) != n_actions or len(shapes) > 1:
                raise InvalidInput(
                    f"`Task.transitions` must be one matrix (states, states) per action; "
                    f"{n_actions} actions, but {len(blocks)} matrices of shapes {sorted(shapes)}."
                )
            n_states = blocks[0].shape[0]
            stacked = interleave(blocks)
            stacked.sum_duplicates()
        else:
            dense = as_array(given, "Task.transitions").astype(float)
            if dense.ndim != 3 or dense.shape[1] != n_actions:
                # By far the most frequent slip: one matrix per action, along the first axis.
                first = dense.ndim == 3 and dense.shape[::2] == (n_actions, dense.shape[1])
                hint = " Use `np.stack(matrices, axis=1)`." if first else ""
                raise InvalidInput(
                    f"`Task.transitions` must have shape (states, actions, states) with "
                    f"{n_actions} actions; it has shape {dense.shape}.{hint}"
                )
            n_states = dense.shape[0]
            stacked = sp.csr_array(dense.reshape(n_states * n_actions, dense.shape[2]))
        if n_states == 0 or stacked.shape[1] not in (n_states, n_states + 1):
            raise InvalidInput(
                f"`Task.transitions` must lead from states to the same states (one more column may "
                f"hold the probability of the end); it leads from {n_states} states to "
                f"{stacked.shape[1]}."
            )
        entries = stacked.data
        if not np.isfinite(entries).all() or (entries.size and entries.min() < 0):
            worst = int(np.flatnonzero(~(np.isfinite(entries) & (entries >= 0)))[0])
            row = int(np.searchsorted(stacked.indptr, worst, side="right")) - 1
            raise InvalidInput(
                f"`Task.transitions` must hold probabilities; P(s'={stacked.indices[worst]} | "
                f"s={row // n_actions}, a={row % n_actions}) is {entries[worst]}."
            )
        stacked.eliminate_zeros()
        sums = np.asarray(stacked.sum(axis=1)).reshape(n_states, n_actions)
        if stacked.shape[1] > n_states:
            stacked = sp.csr_array(stacked[:, :n_states])
        return cls(stacked, n_actions), sums

    def expect(self, v: Vector) -> np.ndarray:
        """``E[v(s') | s, a]`` for every pair, (S, A)."""
        return np.asarray(self.matrix @ v).reshape(self.n_states, self.n_actions)

    def under(self, policy: Table) -> Sparse:
        """``P_mu(s'|s)``, the (S, S) model of the chain under a policy."""
        import scipy.sparse as sp

        a, n = self.n_actions, self.n_states
        row = self.matrix.indptr.dtype
        mix = sp.csr_array(
            (policy.ravel(), np.arange(n * a, dtype=row), np.arange(0, n * a + 1, a, dtype=row)),
            shape=(n, n * a),
        )
        chain = sp.csr_array(mix @ self.matrix)
        chain.sort_indices()
        chain.eliminate_zeros()
        return chain

    def ends(self) -> np.ndarray:
        """The probability that the episode ends (or is unknown) after each pair, (S, A)."""
        sums = np.asarray(self.matrix.sum(axis=1)).reshape(self.n_states, self.n_actions)
        return np.asarray(np.clip(1.0 - sums, 0.0, 1.0))

    def dense(self) -> np.ndarray:
        """The whole model as an array (S, A, S), for small worlds and tests."""
        shape = (self.n_states, self.n_actions, self.n_states)
        return np.asarray(self.matrix.toarray()).reshape(shape)

    def without(self, terminal: MaskVector) -> Transitions:
        """What counts for values: entering a terminal state ends, and none is left."""
        import scipy.sparse as sp

        from_states = np.repeat(~terminal, self.n_actions)
        keep = np.repeat(from_states, np.diff(self.matrix.indptr)) & ~terminal[self.matrix.indices]
        kept = sp.csr_array(
            (np.where(keep, self.matrix.data, 0.0), self.matrix.indices, self.matrix.indptr),
            shape=self.matrix.shape,
            copy=True,
        )
        kept.eliminate_zeros()
        return Transitions(kept, self.n_actions)

    def __repr__(self) -> str:
        entries = f"{self.matrix.nnz:,} entries"
        return f"Transitions({self.n_states} states, {self.n_actions} actions, {entries})"


def sparse_block(given: Any, action: int) -> Sparse:
    """The matrix of one action as CSR."""
    import scipy.sparse as sp

    name = f"Task.transitions[{action}]"
    block: Any = given if sp.issparse(given) else as_array(given, name)
    if block.dtype.kind not in "biuf" or block.ndim != 2:
        raise InvalidInput(
            f"`{name}` must be a matrix of numbers (states, states); it is {block.dtype} of shape "
            f"{block.shape}."
        )
    return sp.csr_array(block, dtype=float)


def interleave(blocks: Sequence[Sparse]) -> Sparse:
    """Stack A matrices (S, N) so that row ``s * A + a`` is row ``s`` of matrix ``a``."""
    import scipy.sparse as sp

    a, (n_states, n_columns) = len(blocks), blocks[0].shape
    lengths = np.stack([np.diff(block.indptr) for block in blocks], axis=1).ravel()
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.empty(indptr[-1], dtype=np.int32 if indptr[-1] < 2**31 else np.int64)
    data = np.empty(indptr[-1])
    for i, block in enumerate(blocks):
        # Each stored entry of row s moves by the distance between the old and the new row start.
        shift = np.repeat(indptr[i:-1:a] - block.indptr[:-1], np.diff(block.indptr))
        place = shift + np.arange(block.nnz)
        indices[place], data[place] = block.indices, block.data
    indptr = indptr.astype(indices.dtype)
    return sp.csr_array((data, indices, indptr), shape=(n_states * a, n_columns))


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Task:
    """What is assumed: a decision problem without its reward.

    States are the integers below ``n_states`` (tables), or rows of numbers (networks), for which
    ``n_states`` stays ``None``. Entering a terminal state ends the episode: it has value 0 and
    nothing is decided there.

    >>> import numpy as np
    >>> stay, move = np.eye(2), np.eye(2)[::-1]
    >>> task = Task(2, 0.9, transitions=np.stack([stay, move], axis=1))
    >>> task
    Task(2 states, 2 actions, discount 0.9, transitions known)
    >>> cost = np.array([[0.0, 1.0], [0.0, 0.0]])
    >>> careful = task.constrain(Constraint(cost, threshold=0.5, name="stay home"))
    >>> careful.safe(np.array([0, 1]))
    array([[ True, False],
           [ True,  True]])
    """

    n_actions: int
    """How many actions there are."""
    discount: float
    """How much less a reward is worth one step later, in [0, 1]; stated here and only here."""
    n_states: int | None
    """How many states a table has; taken from the model where there is one."""
    transitions: Transitions | None
    """The model. Give an array (S, A, S) or A sparse matrices (S, S) whose rows sum to 1; one more
    column may hold the probability that the episode ends, or that nobody knows what follows."""
    available: np.ndarray | None
    """What the demonstrator could do at all, bool (S, A). Means, sums and maxima run over these."""
    terminal: np.ndarray | None
    """Which states end an episode when entered, bool (S,) or the list of their numbers."""
    initial: np.ndarray | None
    """Where episodes begin: a distribution (S,), or the number of one state."""
    temperature: float
    """The demonstrator's: its policy is ``softmax(Q / temperature)``."""
    constraints: tuple[Constraint, ...]
    """What must hold. Given a task with constraints, an algorithm returns a policy that obeys."""
    on_empty: Literal["viable", "raise"]
    """Where every action of a state of a table is forbidden. "viable": actions that may lead into
    such a state are forbidden as well, and it is an error only if an episode can begin there or a
    demonstration was there. "raise": any such state is an error."""

    def __init__(
        self,
        n_actions: int,
        discount: float,
        *,
        n_states: int | None = None,
        transitions: Any = None,
        available: Any = None,
        terminal: Any = None,
        initial: Any = None,
        temperature: float = 1.0,
        constraints: Sequence[Constraint] = (),
        on_empty: Literal["viable", "raise"] = "viable",
    ) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        if as_whole(n_actions) < 1:
            raise InvalidInput(f"`Task.n_actions` must be a positive integer; got {n_actions!r}.")
        if not 0 <= as_number(discount) <= 1:
            raise InvalidInput(f"`Task.discount` must lie in [0, 1]; got {discount!r}.")
        if not 0 < as_number(temperature) < np.inf:
            raise InvalidInput(
                f"`Task.temperature` must be positive and finite; got {temperature!r}."
            )
        check_choice(on_empty, ("viable", "raise"), "Task.on_empty")
        if n_states is not None and as_whole(n_states) < 1:
            raise InvalidInput(f"`Task.n_states` must be a positive integer; got {n_states!r}.")
        n_actions = as_whole(n_actions)
        n_states = None if n_states is None else as_whole(n_states)

        sums = None
        if transitions is not None:
            transitions, sums = Transitions.check(transitions, n_actions)
            if n_states not in (None, transitions.n_states):
                raise InvalidInput(
                    f"`Task.n_states` must agree with `Task.transitions`; {n_states} was given and "
                    f"the model has {transitions.n_states} states."
                )
            n_states = transitions.n_states
        try:
            constraints = tuple(constraints)
        except TypeError:
            raise InvalidInput(
                f"`Task.constraints` must be a list of Constraints; got {constraints!r}."
            ) from None
        if n_states is None:
            given = {"available": available, "terminal": terminal, "initial": initial}
            tables = [table_of_states(array, f"Task.{name}") for name, array in given.items()]
            tables += [table_of_states(getattr(c, "cost", None), "cost") for c in constraints]
            n_states = next((len(table) for table in tables if table is not None), None)

        if terminal is not None:
            terminal = state_mask(terminal, n_states, "Task.terminal")
            if terminal.all():
                raise InvalidInput(
                    f"`Task.terminal` must leave a state in which something is decided; all "
                    f"{len(terminal)} are terminal."
                )
        if available is not None:
            available = np.array(as_array(available, "Task.available"))
            if available.dtype != bool or available.shape != (n_states, n_actions):
                raise InvalidInput(
                    f"`Task.available` must be boolean of shape ({n_states}, {n_actions}); it is "
                    f"{available.dtype} of shape {available.shape}."
                )
            decides = np.ones(len(available), bool) if terminal is None else ~terminal
            nothing = np.flatnonzero(~available.any(axis=1) & decides)
            if nothing.size:
                raise InvalidInput(
                    f"`Task.available` must leave an action in every state; state {nothing[0]} has "
                    f"none of the {n_actions}. Make it terminal, or make an action available."
                )
        if transitions is not None and sums is not None:
            check_row_sums(sums, available, terminal)
        if available is not None and terminal is not None:
            # Nothing is decided there; a full row keeps means finite.
            available[terminal] = True
        if initial is not None:
            initial = distribution(initial, n_states)
        for array in (available, terminal, initial):
            if array is not None:
                array.flags.writeable = False

        put("n_actions", n_actions)
        put("discount", float(discount))
        put("n_states", n_states)
        put("transitions", transitions)
        put("available", available)
        put("terminal", terminal)
        put("initial", initial)
        put("temperature", float(temperature))
        put("constraints", ())
        put("on_empty", on_empty)
        self._constrain(constraints)
        if discount == 1 and transitions is not None:
            self._check_termination()

    # -- derived tasks --

    def constrain(self, *constraints: Constraint) -> Task:
        """The same task under further constraints."""
        return replace(self, constraints=self.constraints + constraints)

    def unconstrained(self) -> Task:
        """The same task without its constraints."""
        return replace(self, constraints=()) if self.constraints else self

    def counted(self, demonstrations: Demonstrations) -> Task:
        """The same task with the model that the demonstrations' counts give.

        What follows a pair that was never seen is unknown, and counts as nothing.

        >>> from inverseq import Demonstrations
        >>> seen = Demonstrations([0, 1], [1, 1], [1, 0])
        >>> Task(2, 0.9).counted(seen).transitions.dense()[0, 1]
        array([0., 1.])
        """
        counts = demonstrations.counts(self.n_states, self.n_actions)
        return replace(self, n_states=None, transitions=counts.transitions)

    # -- questions about states --

    def safe(self, states: Any) -> np.ndarray:
        """Which actions are available and keep every constraint, bool (batch, actions).

        For rows of numbers, where all available actions violate a constraint, those of least worst
        violation stay allowed. For tables ``planning.viable`` looks further ahead than this.
        """
        states = as_array(states, "states")
        tabular = states.ndim == 1
        if tabular and self.n_states is not None:
            states = as_numbers(states, self.n_states, "states", "Task.n_states")
        if not states.ndim:
            raise InvalidInput(f"`states` must be a batch of states; got {states[()]} alone.")
        can = np.ones((len(states), self.n_actions), bool)
        if self.available is not None and tabular:
            can = self.available[states]
        if not self.constraints:
            return np.array(can)
        excess = np.max(
            [self._excess(constraint, states) for constraint in self.constraints], axis=0
        )
        safe = can & (excess <= 0)
        if not tabular:
            worst = np.where(can, excess, np.inf)
            least = worst <= worst.min(axis=1, keepdims=True)
            safe = np.where(safe.any(axis=1, keepdims=True), safe, can & least)
        return np.asarray(safe)

    def available_table(self, n_states: int | None = None) -> np.ndarray:
        """Which actions are available in each state of the table, bool (S, A)."""
        if self.available is not None:
            return self.available
        n = self.n_states if self.n_states is not None else n_states
        if n is None:
            raise InvalidInput("`Task.n_states` must be known here; give it, or the transitions.")
        return np.ones((n, self.n_actions), bool)

    @cached_property
    def continuing(self) -> Transitions:
        """The model as it counts for values: what leads into a terminal state leads nowhere."""
        if self.transitions is None:
            raise InvalidInput(
                "`Task.transitions` must be known here and this task has none. Give "
                "`Task(transitions=...)`, count them with `task.counted(demonstrations)`, or use "
                "`IQL`, which learns from samples."
            )
        model = self.transitions
        return model if self.terminal is None else model.without(self.terminal)

    def start(self) -> np.ndarray:
        """Where episodes begin: `initial`, or uniform over the states that are not terminal."""
        if self.initial is not None:
            return self.initial
        if self.n_states is None:
            raise InvalidInput("`Task.initial` must be known here; give it, or the transitions.")
        weight = np.ones(self.n_states) if self.terminal is None else (~self.terminal).astype(float)
        return np.asarray(weight / weight.sum())

    # -- checks that need the whole task --

    def _constrain(self, constraints: tuple[Constraint, ...]) -> None:
        for constraint in constraints:
            if not isinstance(constraint, Constraint):
                raise InvalidInput(f"`Task.constraints` must hold Constraints; got {constraint!r}.")
            if callable(constraint.cost):
                continue
            expected = (self.n_states or len(constraint.cost), self.n_actions)
            if constraint.cost.shape != expected:
                raise InvalidInput(
                    f"`Constraint.cost` must have the task's shape (states, actions) = {expected}; "
                    f"{constraint.name!r} has {constraint.cost.shape}."
                )
        object.__setattr__(self, "constraints", constraints)

    def _excess(self, constraint: Constraint, states: np.ndarray) -> np.ndarray:
        excess = constraint.excess(states)
        if excess.shape[1] != self.n_actions:
            raise InvalidInput(
                f"`Constraint.cost` must give one cost for each of the {self.n_actions} actions; "
                f"{constraint.name!r} gave shape {excess.shape}."
            )
        return excess

    def _check_termination(self) -> None:
        stuck = never_ending(self.continuing, self.available_table())
        if self.terminal is not None:
            stuck &= ~self.terminal
        if stuck.any():
            raise InvalidInput(
                f"`Task.discount` may be 1 only where every state can reach an end; from state "
                f"{np.flatnonzero(stuck)[0]} no episode ends. Name the `terminal` states, or use a "
                f"discount below 1."
            )

    def __repr__(self) -> str:
        parts = [] if self.n_states is None else [f"{self.n_states} states"]
        parts += [f"{self.n_actions} actions", f"discount {self.discount:g}"]
        parts += ["transitions known" if self.transitions is not None else "transitions unknown"]
        if self.available is not None:
            parts += [f"{self.available.mean():.0%} of pairs available"]
        if self.terminal is not None:
            parts += [f"{self.terminal.sum()} terminal"]
        if self.temperature != 1:
            parts += [f"temperature {self.temperature:g}"]
        if self.constraints:
            parts += ["constrained by " + ", ".join(repr(c.name) for c in self.constraints)]
        return f"Task({', '.join(parts)})"


def never_ending(transitions: Transitions, available: MaskTable) -> np.ndarray:
    """From which states no episode can end under the available actions, bool (S,)."""
    import scipy.sparse as sp
    from scipy.sparse.csgraph import breadth_first_order

    n = transitions.n_states
    ends = ((transitions.ends() > ROW_SUM_TOLERANCE) & available).any(axis=1)
    chain = transitions.under(available.astype(float)).tocoo()
    # Walk backward from one extra node that stands for the end.
    source = np.concatenate([chain.col, np.full(int(ends.sum()), n)])
    target = np.concatenate([chain.row, np.flatnonzero(ends)])
    backward = sp.csr_array((np.ones(len(source)), (source, target)), shape=(n + 1, n + 1))
    reached = breadth_first_order(backward, n, return_predecessors=False)
    stuck = np.ones(n + 1, bool)
    stuck[reached] = False
    return stuck[:n]


def check_row_sums(
    sums: np.ndarray, available: np.ndarray | None, terminal: np.ndarray | None
) -> None:
    """Raise unless the rows of what can be done sum to 1; those of terminal states may be empty."""
    wrong = np.abs(sums - 1) > ROW_SUM_TOLERANCE
    if available is not None:
        wrong &= available
    if terminal is not None:
        wrong &= ~(terminal[:, None] & (sums == 0))
    if wrong.any():
        s, a = np.argwhere(wrong)[0]
        raise InvalidInput(
            f"`Task.transitions` must have rows that sum to 1; row (state {s}, action {a}) sums to "
            f"{sums[s, a]:.10g}. Normalise it, or make action {a} unavailable in state {s}."
        )


def check_range(values: np.ndarray, n: int, what: str, owner: str) -> None:
    """Raise unless all values are integers from 0 to n - 1, naming the first row that is not."""
    if not values.size:
        return
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= n:
        row = int(np.flatnonzero((values < 0) | (values >= n))[0])
        raise InvalidInput(
            f"`{what}` must lie from 0 to {n - 1} (`{owner}` is {n}); row {row} is {values[row]}."
        )


def state_mask(given: Any, n_states: int | None, name: str) -> np.ndarray:
    """A boolean mask over states, from a mask or a list of state numbers."""
    given = as_array(given, name)
    if not given.size:
        given = given.astype(int)  # an empty list has no kind
    if given.dtype == bool and given.ndim == 1:
        if n_states is not None and len(given) != n_states:
            raise InvalidInput(f"`{name}` must have {n_states} entries; it has {len(given)}.")
        return np.array(given)
    if given.dtype.kind not in "iu" or given.ndim > 1 or n_states is None:
        raise InvalidInput(
            f"`{name}` must be a boolean mask over states, or state numbers where the number of "
            f"states is known; got {given.dtype} of shape {given.shape}."
        )
    numbers = np.atleast_1d(given)
    check_range(numbers, n_states, name, "Task.n_states")
    mask = np.zeros(n_states, bool)
    mask[numbers] = True
    return mask


def distribution(given: Any, n_states: int | None) -> np.ndarray:
    """A distribution over states, from one or from the number of a state."""
    given = as_array(given, "Task.initial")
    if given.ndim == 0 and given.dtype.kind in "iu" and n_states is not None:
        return state_mask(given, n_states, "Task.initial").astype(float)
    weights: np.ndarray = given.astype(float)
    if weights.ndim != 1 or not weights.size or (n_states is not None and len(weights) != n_states):
        raise InvalidInput(
            f"`Task.initial` must be a distribution over {n_states} states or the number of one; "
            f"got shape {weights.shape}."
        )
    if not (weights >= 0).all() or abs(weights.sum() - 1) > ROW_SUM_TOLERANCE:
        raise InvalidInput(
            f"`Task.initial` must hold probabilities that sum to 1; the sum is "
            f"{weights.sum():.10g} and the smallest is {weights.min():.6g}."
        )
    return weights


# -- what was given, in the form that is wanted --------------------------------------------------


def as_number(given: Any) -> float:
    """A number as a float; NaN for what is none, so that it passes no comparison.

    >>> as_number(np.float32(0.5)), as_number("0.5"), as_number(True)
    (0.5, nan, nan)
    """
    if getattr(given, "ndim", None) == 0:
        given = np.asarray(given).item()
    if isinstance(given, bool) or not isinstance(given, Real):
        return float("nan")
    try:
        return float(given)
    except OverflowError:
        return float("nan")


def as_whole(given: Any) -> int:
    """A whole number that is not negative as an int; -1 for anything else.

    >>> as_whole(3.0), as_whole(1.5), as_whole(True), as_whole(-7)
    (3, -1, -1, -1)
    """
    number = as_number(given)
    return int(number) if 0 <= number < 2**53 and number == int(number) else -1


def as_array(given: Any, name: str) -> np.ndarray:
    """An array of numbers or truth values, or the message that says what was given instead."""
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise InvalidInput(
            f"`{name}` must be an array of numbers, but has rows of different shapes."
        ) from error
    if array.dtype.kind not in "biuf":
        raise InvalidInput(
            f"`{name}` must be an array of numbers; got {type(given).__name__}, as an array "
            f"{array.dtype} of shape {array.shape}."
        )
    if np.ma.is_masked(given):
        raise InvalidInput(f"`{name}` must have all its entries; some of them are masked.")
    return array


def as_numbers(given: Any, n: int, what: str, owner: str) -> np.ndarray:
    """Numbers of some of n states, in an array of one axis."""
    array = as_array(given, what)
    if not array.size:
        array = array.astype(int)  # an empty list has no kind
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise InvalidInput(
            f"`{what}` must be the numbers of states, a 1-D array of integers; got {array.dtype} "
            f"of shape {array.shape}."
        )
    check_range(array, n, what, owner)
    return array


def table_of_states(given: Any, name: str) -> Any:
    """What has one entry or row for each state, if it is such a thing rather than numbers."""
    array = None if given is None or callable(given) else as_array(given, name)
    if array is None or not array.ndim or not array.size or array.dtype.kind in "iu":
        return None
    return array


def check_choice(given: Any, options: Sequence[str], name: str) -> None:
    """Raise unless it is one of these words."""
    if not isinstance(given, str) or given not in options:
        words = " or ".join((", ".join(map(repr, options[:-1])), repr(options[-1])))
        raise InvalidInput(f"`{name}` must be {words}; got {given!r}.")


def check_kind(given: Any, kind: type, name: str) -> None:
    """Raise unless it is one of the library's nouns: arguments are easily swapped."""
    if not isinstance(given, kind):
        raise InvalidInput(f"`{name}` must be a `{kind.__name__}`; got {given!r:.60}.")
