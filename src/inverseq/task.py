"""Task: what is assumed. Constraint: what must hold.

A task is a Markov decision problem without its reward: actions (and which are available where),
discount, temperature, the transition model if it is known, where episodes end and begin, and the
hard constraints. It is checked once, here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from inverseq._checks import (
    as_array,
    as_number,
    as_numbers,
    as_whole,
    check_choice,
    check_row_sums,
    distribution,
    state_mask,
    table_of_states,
)
from inverseq.errors import InvalidInput
from inverseq.labels import Labels
from inverseq.shapes import Sparse, States
from inverseq.transitions import Transitions, never_ending

if TYPE_CHECKING:
    from inverseq.demonstrations import Demonstrations


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
    available: np.ndarray | Callable[[Any], Any] | None
    """What the demonstrator could do at all, bool (S, A); for rows of numbers a function from a
    batch of states to bool (batch, A). Means, sums and maxima run over these."""
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
    labels: Labels | None
    """What states and actions are called; solutions take it over."""

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
        labels: Labels | None = None,
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

        sums, again = None, isinstance(transitions, Transitions)
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
            known = None if callable(available) else available
            given = {"available": known, "terminal": terminal, "initial": initial}
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
        if available is not None and not callable(available):
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
            if again and terminal is not None:
                # Below, every action was made available there, whatever its row holds.
                sums[terminal] = 0.0
            check_row_sums(sums, None if callable(available) else available, terminal)
        if callable(available) and n_states is not None:
            raise InvalidInput(
                f"`Task.available` must be a table where there is one of states; this task has "
                f"{n_states} states and a function. Give `available(np.arange({n_states}))`."
            )
        if available is not None and not callable(available) and terminal is not None:
            # Nothing is decided there; a full row keeps means finite.
            available[terminal] = True
        if initial is not None:
            initial = distribution(initial, n_states)
        for array in (available, terminal, initial):
            if isinstance(array, np.ndarray):
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
        if labels is not None:
            labels.check(n_states, n_actions, "Task")
        put("labels", labels)
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
        violation stay allowed (`stranded` says where). For tables ``planning.viable`` looks further
        ahead than this.
        """
        can, excess = self._judged(states)
        safe = can & (excess <= 0)
        if np.ndim(states) > 1:
            worst = np.where(can, excess, np.inf)
            least = worst <= worst.min(axis=1, keepdims=True)
            safe = np.where(safe.any(axis=1, keepdims=True), safe, can & least)
        return np.asarray(safe)

    def stranded(self, states: Any) -> np.ndarray:
        """Where every available action violates some constraint, bool (batch,).

        >>> task = Task(2, 0.9, constraints=[Constraint(lambda x: np.repeat(x, 2, axis=1), 0.0)])
        >>> task.stranded([[-1.0], [1.0]])
        array([False,  True])
        """
        can, excess = self._judged(states)
        return np.asarray(~(can & (excess <= 0)).any(axis=1))

    def can(self, states: Any) -> np.ndarray:
        """Which actions are available, whatever is forbidden, bool (batch, actions)."""
        states = as_array(states, "states")
        if not states.ndim:
            raise InvalidInput(f"`states` must be a batch of states; got {states[()]} alone.")
        tabular = states.ndim == 1
        if tabular and self.n_states is not None:
            states = as_numbers(states, self.n_states, "states", "Task.n_states")
        shape = (len(states), self.n_actions)
        if self.available is None or (not tabular and not callable(self.available)):
            return np.ones(shape, bool)
        if not callable(self.available):
            return np.array(self.available[states])
        can = as_array(self.available(states), "Task.available")
        if can.dtype != bool or can.shape != shape:
            raise InvalidInput(
                f"`Task.available` must return booleans of shape (batch, actions) = {shape}; it "
                f"returned {can.dtype} of shape {can.shape}."
            )
        nothing = np.flatnonzero(~can.any(axis=1))
        if nothing.size:
            raise InvalidInput(
                f"`Task.available` must leave an action in every state; row {nothing[0]} of the "
                f"batch has none."
            )
        return can

    def _judged(self, states: Any) -> tuple[np.ndarray, np.ndarray]:
        """Which actions are available, and the worst excess of each over the constraints."""
        can, states = self.can(states), as_array(states, "states")
        excess = [self._excess(constraint, states) for constraint in self.constraints]
        return can, np.max(excess, axis=0) if excess else np.full(can.shape, -np.inf)

    def available_table(self, n_states: int | None = None) -> np.ndarray:
        """Which actions are available in each state of the table, bool (S, A)."""
        if callable(self.available):
            raise InvalidInput(
                "`Task.available` must be a table here; it is a function, which is for states that "
                "are rows of numbers."
            )
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

    @cached_property
    def uniform(self) -> np.ndarray:
        """The policy that knows nothing, (S, A): uniform over what is available."""
        available = self.available_table()
        policy = np.asarray(available / available.sum(axis=1, keepdims=True))
        policy.flags.writeable = False
        return policy

    @cached_property
    def uniform_chain(self) -> Sparse:
        """``Pbar``: the model as it counts, under the policy that knows nothing, (S, S)."""
        return self.continuing.under(self.uniform)

    @cached_property
    def kept(self) -> dict[str, Any]:
        """Where the system of the uniform chain and its factors stay for the next solve."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        # Factors stay in the process that made them.
        return {name: value for name, value in self.__dict__.items() if name != "kept"}

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
        if callable(self.available):
            parts += ["availability by the state"]
        elif self.available is not None:
            parts += [f"{self.available.mean():.0%} of pairs available"]
        if self.terminal is not None:
            parts += [f"{self.terminal.sum()} terminal"]
        if self.temperature != 1:
            parts += [f"temperature {self.temperature:g}"]
        if self.constraints:
            parts += ["constrained by " + ", ".join(repr(c.name) for c in self.constraints)]
        return f"Task({', '.join(parts)})"
