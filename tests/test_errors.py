"""Bad input is named with its place and its value, and nothing else ever comes of it."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import inverseq as iq
from inverseq import evaluate, planning
from inverseq.algorithms import IAVI, IQL, Decay
from inverseq.demonstrations import Additive, Demonstrations
from inverseq.errors import (
    DamagedFile,
    InvalidInput,
    InverseqError,
    InverseqWarning,
    MissingExtra,
    NoFullSupport,
    NotConverged,
    NotIdentified,
)
from inverseq.gauges import Features, Reference, StateOnly, Uniform, Zero
from inverseq.io import storage
from inverseq.task import Constraint, Task

STAY, ROUND = np.eye(3), np.eye(3)[[1, 2, 0]]
MODEL = np.stack([STAY, ROUND], axis=1)
TASK = Task(2, 0.9, transitions=MODEL)
SEEN = Demonstrations([0, 1, 2, 0], [1, 1, 1, 0], [1, 2, 0, 0])
POLICY = np.array([[0.25, 0.75], [0.5, 0.5], [0.125, 0.875]])
COST = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])


def changed(array, where, value):
    array = np.array(array, dtype=float)
    array[where] = value
    return array


def task(**options):
    return Task(**{"n_actions": 2, "discount": 0.9, "transitions": MODEL, **options})


def unknown(**options):
    return task(transitions=None, **options)


def limited(cost=COST, threshold=0.5, **options):
    return task(constraints=[Constraint(cost, threshold, **options)])


def steps(**columns):
    return Demonstrations(**{"states": [0, 1], "actions": [0, 1], "next_states": [1, 2], **columns})


class Frame:
    """What a table of another library looks like from here."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)


# What nobody should be able to give for a number, an array or one of the nouns.
NONSENSE = {
    "text": "abc",
    "digits": "3",
    "bytes": b"ab",
    "texts": ["a", "b", "c"],
    "dictionary": {"a": 1},
    "set": {1, 2},
    "generator": (i for i in range(3)),
    "object": object(),
    "class": dict,
    "complex": np.full((3, 2), 0.5j),
    "ragged": [[1, 2], [1]],
    "dates": np.array(["2020-01-01"] * 3, dtype="M8[D]"),
    "objects": np.array([[0.5, 0.5]] * 3, dtype=object),
    "masked": np.ma.masked_array([0, 1, 2], [False, True, False]),
    "sparse": sp.coo_array(np.eye(2)),
    "NaN": np.nan,
    "NaNs": np.full((3, 2), np.nan),
    "deep": np.full((3, 2, 1, 1), 0.5),
}
ARRAYS = {name: NONSENSE[name] for name in NONSENSE if name not in ("NaNs", "deep")}


# -- the tree ------------------------------------------------------------------------------------


def test_every_error_can_be_caught_as_one_and_as_pythons_own():
    for error, builtin in (
        (InvalidInput, ValueError),
        (DamagedFile, OSError),
        (MissingExtra, ImportError),
    ):
        assert issubclass(error, InverseqError)
        assert issubclass(error, builtin)
    for warning in (NotConverged, NotIdentified, NoFullSupport):
        assert issubclass(warning, InverseqWarning)
        assert issubclass(warning, UserWarning)


# -- task ----------------------------------------------------------------------------------------

BAD_TASKS = [
    ({"n_actions": 0}, r"`Task.n_actions` must be a positive integer; got 0\."),
    ({"n_actions": 1.5}, r"`Task.n_actions` must be a positive integer; got 1\.5\."),
    ({"n_actions": True}, r"`Task.n_actions` must be a positive integer; got True\."),
    ({"n_actions": -2}, r"n_actions` must be a positive integer; got -2\."),
    ({"n_actions": None}, r"n_actions` must be a positive integer; got None\."),
    ({"n_actions": "2"}, r"n_actions` must be a positive integer; got '2'\."),
    ({"discount": -0.1}, r"`Task.discount` must lie in \[0, 1\]; got -0\.1\."),
    ({"discount": 1.01}, r"`Task.discount` must lie in \[0, 1\]; got 1\.01\."),
    ({"discount": np.nan}, r"`Task.discount` must lie in \[0, 1\]; got nan\."),
    ({"discount": None}, r"`Task.discount` must lie in \[0, 1\]; got None\."),
    ({"discount": "0.9"}, r"`Task.discount` must lie in \[0, 1\]; got '0\.9'\."),
    ({"discount": 1.0},
     r"discount` may be 1 only where every state can reach an end; from state 0 "),
    ({"temperature": 0}, r"`Task.temperature` must be positive and finite; got 0\."),
    ({"temperature": -1.0}, r"`Task.temperature` must be positive and finite; got -1\.0\."),
    ({"temperature": np.inf}, r"`Task.temperature` must be positive and finite; got inf\."),
    ({"temperature": np.nan}, r"`Task.temperature` must be positive and finite; got nan\."),
    ({"n_states": 4},
     r"`Task.n_states` must agree with .*; 4 was given and the model has 3 states"),
    ({"n_states": 0}, r"`Task.n_states` must be a positive integer; got 0\."),
    ({"n_states": 2.5}, r"`Task.n_states` must be a positive integer; got 2\.5\."),
    ({"n_states": 10**30}, r"`Task.n_states` must be a positive integer; got 10000000000"),
    ({"on_empty": "ignore"}, r"`Task.on_empty` must be 'viable' or 'raise'; got 'ignore'\."),
    ({"on_empty": None}, r"`Task.on_empty` must be 'viable' or 'raise'; got None\."),
    # -- the model --
    ({"transitions": changed(MODEL, (1, 0, 1), 0.93)},
     r"rows that sum to 1; row \(state 1, action 0\) sums to 0\.93\. Normalise it, or make action"
     r" 0 unavailable in state 1\."),
    ({"transitions": MODEL.astype(np.float32) * np.float32(1.0000001)},
     r"row \(state 0, action 0\) sums to 1\.000000119\. Normalise it in float64, or make"),
    ({"transitions": changed(MODEL, (2, 0, 2), 0.5), "terminal": [2]},
     r"row \(state 2, action 0\) sums to 0\.5\."),
    ({"transitions": changed(MODEL, (2, 1, 2), -0.5)}, r"P\(s'=2 \| s=2, a=1\) is -0\.5\."),
    ({"transitions": changed(MODEL, (1, 1, 0), np.nan)}, r"P\(s'=0 \| s=1, a=1\) is nan\."),
    ({"transitions": changed(MODEL, (1, 1, 0), np.inf)}, r"P\(s'=0 \| s=1, a=1\) is inf\."),
    ({"transitions": np.stack([STAY, ROUND])},
     r"shape \(states, actions, states\) with 2 actions; it has shape \(2, 3, 3\)\. Use `np\.stac"),
    ({"transitions": MODEL[:, :, :2]}, r"the same states .*; it leads from 3 states to 2\."),
    ({"transitions": np.zeros((0, 2, 0))}, r"it leads from 0 states to 0\."),
    ({"transitions": MODEL, "n_actions": 3}, r"with 3 actions; it has shape \(3, 2, 3\)\.$"),
    ({"transitions": np.eye(3)}, r"with 2 actions; it has shape \(3, 3\)\."),
    ({"transitions": 0.5}, r"with 2 actions; it has shape \(\)\."),
    ({"transitions": sp.csr_array(np.eye(3))}, r"one sparse matrix was given\. Put it in a list\."),
    ({"transitions": [sp.csr_array(STAY)]}, r"2 actions, but 1 matrices of shapes \[\(3, 3\)\]\."),
    ({"transitions": [sp.csr_array(STAY), sp.csr_array(np.eye(2))]},
     r"2 actions, but 2 matrices of shapes \[\(2, 2\), \(3, 3\)\]\."),
    ({"transitions": [sp.csr_array(STAY), None]},
     r"`Task.transitions\[1\]` must be an array of num"),
    ({"transitions": [sp.csr_array(STAY), np.ones(3)]},
     r"transitions\[1\]` must be a matrix of .*fl"),
    ({"transitions": [sp.csr_array(STAY), sp.csr_array(STAY * 1j)]},
     r"it is complex128 of shape \(3"),
    ({"transitions": [sp.csr_array(STAY), sp.csr_array(changed(ROUND, (2, 1), -1))]},
     r"P\(s'=1 \| s=2, a=1\) is -1\.0\."),
    ({"transitions": [sp.csr_array(STAY), sp.csr_array(changed(ROUND, (2, 1), 0.5))]},
     r"row \(state 2, action 1\) sums to 1\.5\."),
    ({"transitions": TASK.transitions, "n_actions": 3}, r"3 actions; the model given has 2\."),
    # -- what is available, where it ends, where it begins --
    ({"available": np.ones((3, 3), bool)},
     r"boolean of shape \(3, 2\); it is bool of shape \(3, 3\)"),
    ({"available": np.ones((3, 2))},
     r"boolean of shape \(3, 2\); it is float64 of shape \(3, 2\)\."),
    ({"available": np.ones((3, 2), int)}, r"boolean of shape \(3, 2\); it is int64"),
    ({"available": [[True, True], [False, False], [True, True]]},
     r"`Task.available` must leave an action in every state; state 1 has none of the 2\. Make it "),
    ({"terminal": np.array([True, False])}, r"`Task.terminal` must have 3 entries; it has 2\."),
    ({"terminal": [3]}, r"`Task.terminal` must lie from 0 to 2 .*; row 0 is 3\."),
    ({"terminal": [0, -1]}, r"`Task.terminal` must lie from 0 to 2 .*; row 1 is -1\."),
    ({"terminal": [0.0]}, r"must be a boolean mask over states, or state numbers.*got float64 of"),
    ({"terminal": [[0]]}, r"must be a boolean mask over states.*got int64 of shape \(1, 1\)"),
    ({"terminal": [0, 1, 2]}, r"leave a state in which something is decided; all 3 are terminal\."),
    ({"initial": [0.5, 0.5]}, r"`Task.initial` must be a distribution over 3 states.*shape \(2,\)"),
    ({"initial": [0.5, 0.6, 0.0]}, r"the sum is 1\.1 and the smallest is 0\. Normalise it\."),
    ({"initial": np.full(3, 1 / 3, np.float32)}, r"is 1\.00000003 .*\. Normalise it in float64\."),
    ({"initial": [1.5, -0.5, 0.0]},
     r"the sum is 1 and the smallest is -0\.5\. Leave no entry below 0\."),
    ({"initial": [np.nan, 1.0, 0.0]}, r"the sum is nan and the smallest is nan\."),
    ({"initial": 3}, r"`Task.initial` must lie from 0 to 2 .*; row 0 is 3\."),
    ({"initial": []}, r"`Task.initial` must be a distribution over 3 states"),
    # -- constraints --
    ({"constraints": Constraint(COST, 0.5)},
     r"`Task.constraints` must be a list of Constraints; got"),
    ({"constraints": [COST]}, r"`Task.constraints` must hold Constraints; got array"),
    ({"constraints": None}, r"`Task.constraints` must be a list of Constraints; got None\."),
    ({"constraints": [Constraint(COST[:2], 0.5, name="c")]},
     r"shape \(states, actions\) = \(3, 2\); 'c' has \(2, 2\)\."),
    ({"constraints": [Constraint(COST[:, :1], 0.5, name="c")]}, r"\(3, 2\); 'c' has \(3, 1\)\."),
]  # fmt: skip


@pytest.mark.parametrize(("options", "message"), BAD_TASKS)
def test_a_task_that_cannot_be_is_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        task(**options)


def test_terminal_states_without_a_table_have_no_numbers():
    with pytest.raises(InvalidInput, match=r"state numbers where the number of states is known"):
        unknown(terminal=[1])
    with pytest.raises(InvalidInput, match=r"distribution over None states or the number of one"):
        unknown(initial=1)
    for name in ("available", "terminal", "initial"):
        with pytest.raises(
            InvalidInput, match=f"`Task.{name}` must be an array of numbers; got str"
        ):
            unknown(**{name: "abc"})


def test_tables_say_how_many_states_there_are():
    assert unknown(available=np.ones((3, 2), bool)).n_states == 3
    assert unknown(terminal=np.array([True, False, False])).n_states == 3
    assert unknown(initial=[0.5, 0.5, 0.0]).n_states == 3
    assert unknown(constraints=[Constraint(COST, 0.5)]).n_states == 3
    assert unknown(constraints=[Constraint(lambda s: COST[s], 0.5)]).n_states is None
    with pytest.raises(InvalidInput, match=r"= \(3, 2\); 'constraint' has \(4, 2\)\."):
        unknown(constraints=[Constraint(COST, 0.5), Constraint(np.zeros((4, 2)), 0.5)])
    with pytest.raises(InvalidInput, match=r"`Task.terminal` must have 3 entries; it has 4\."):
        unknown(terminal=np.arange(4) == 0, available=np.ones((3, 2), bool))


def test_a_discount_of_one_needs_an_end_that_can_be_reached():
    assert task(discount=1, terminal=[2]).discount == 1
    leaking = np.concatenate([MODEL * 0.5, np.full((3, 2, 1), 0.5)], axis=2)
    assert task(discount=1, transitions=leaking).discount == 1
    shut = np.array([[True, True], [True, False], [True, True]])
    with pytest.raises(
        InvalidInput, match=r"from state 0 no episode ends. Name the `terminal` stat"
    ):
        task(discount=1, terminal=[2], available=shut)


def test_what_an_unavailable_action_does_is_not_looked_at():
    model = changed(MODEL, (1, 0, 1), 0.93)
    open_ = np.array([[True, True], [False, True], [True, True]])
    assert task(transitions=model, available=open_).n_states == 3
    everything = np.zeros((3, 2), bool)
    everything[[0, 2]] = True
    assert task(transitions=model, available=everything, terminal=[1]).available.all()


def test_on_a_stream_a_discount_of_one_needs_an_end_that_is_known():
    with pytest.raises(InvalidInput, match=r"it is 1, and the task has neither transitions nor"):
        IQL().partial_fit(SEEN, unknown(discount=1, n_states=3))
    found = IQL().partial_fit(SEEN, unknown(discount=1, n_states=3, terminal=[2]))
    assert np.isfinite(found.q_table).all()


def test_a_model_that_is_used_again_is_looked_at_again():
    shut = np.array([[True, True], [False, True], [True, True]])
    for value, sum_ in ((4.0, 4), (1.1, 1.1)):
        model = task(transitions=changed(MODEL, (1, 0, 1), value), available=shut).transitions
        assert task(transitions=model, available=shut).constrain().n_states == 3
        with pytest.raises(InvalidInput, match=rf"row \(state 1, action 0\) sums to {sum_}\."):
            task(transitions=model)
    negative = iq.transitions.Transitions(sp.csr_array(-MODEL.reshape(6, 3)), 2)
    with pytest.raises(InvalidInput, match=r"P\(s'=0 \| s=0, a=0\) is -1\.0"):
        task(transitions=negative)
    ended = {"transitions": changed(MODEL, (1, 0, 1), 4.0), "terminal": [1]}
    assert task(**ended, available=shut).constrain().n_states == 3  # nothing is decided there
    # What falls short of 1 ends, or is unknown.
    assert Task(2, 0.9, n_states=3).counted(SEEN).constrain().n_states == 3


BAD_CONSTRAINTS = [
    (lambda: Constraint(COST, np.nan, name="c"),
     r"`Constraint.threshold` must be .*; 'c' has nan\."),
    (lambda: Constraint(COST, None, name="c"),
     r"`Constraint.threshold` must be .*; 'c' has None\."),
    (lambda: Constraint(COST, "1", name="c"), r"`Constraint.threshold` must be .*; 'c' has '1'\."),
    (lambda: Constraint(COST, 1, name="c", scale=0),
     r"`Constraint.scale` must be pos.*; 'c' has 0\."),
    (lambda: Constraint(COST, 1, name="c", scale=np.inf),
     r"scale` must be positive; 'c' has inf\."),
    (lambda: Constraint(COST, 1, name="c", scale=np.nan),
     r"scale` must be positive; 'c' has nan\."),
    (lambda: Constraint(COST, 1, name=None), r"`Constraint.name` must be text; got None\."),
    (lambda: Constraint(np.ones(3), 1, name="c"), r"'c' has an array of shape \(3,\)\."),
    (lambda: Constraint(None, 1), r"`Constraint.cost` must be an array of numbers; got NoneType"),
    (lambda: Constraint(changed(COST, (2, 1), np.nan), 1, name="c"),
     r"must not be NaN; 'c' is NaN for state 2, action 1\."),
    (lambda: limited(lambda s: COST[s][:, :1], name="c").safe([0, 1]),
     r"one cost for each of the 2 actions; 'c' gave shape \(2, 1\)\."),
    (lambda: limited(lambda s: COST[s].sum(axis=1), name="c").safe([0, 1]),
     r"must return shape \(batch, actions\); 'c' returned \(2,\) for a batch of 2 states\."),
    (lambda: limited(lambda s: COST, name="c").safe([0, 1]),
     r"'c' returned \(3, 2\) for a batch of 2 states\."),
    (lambda: limited(lambda s: changed(COST[s], (1, 0), np.nan), name="c").safe([2, 1]),
     r"'c' is NaN for row 1 of the batch, action 0\."),
    (lambda: limited(lambda s: None).safe([0]), r"cost` must be an array of numbers; got NoneType"),
    (lambda: limited().safe([0, 3]), r"`states` must lie from 0 to 2 .*; row 1 is 3\."),
    (lambda: limited().safe([-1]), r"`states` must lie from 0 to 2 .*; row 0 is -1\."),
    (lambda: limited().safe(np.array([2**64 - 1], np.uint64)), r"row 0 is 18446744073709551615\."),
    (lambda: limited().safe([0.0]),
     r"must be the numbers of states, .*; got float64 of shape \(1,\)"),
    (lambda: limited().safe([True, False, True]),
     r"must be the numbers of states.*got bool of shape"),
    (lambda: limited().safe(1), r"`states` must be a batch of states; got 1 alone\."),
    (lambda: Constraint(COST, 0.5).allows(np.array([-1])), r"row 0 is -1\."),
    (lambda: Constraint(COST, 0.5).allows(np.array([0.5])),
     r"a 1-D array of integers; got float64"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), BAD_CONSTRAINTS)
def test_a_constraint_that_cannot_be_is_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


def test_infinite_costs_and_thresholds_compare_as_numbers_do():
    infinite = np.array([[np.inf, 1.0], [-np.inf, 0.0]])
    rows = np.arange(2)
    assert Constraint(infinite, 0.5).allows(rows).tolist() == [[False, False], [True, True]]
    assert Constraint(infinite, np.inf).allows(rows).all()
    assert Constraint(infinite, -np.inf).allows(rows).tolist() == [[False, False], [True, False]]


# -- where everything is forbidden ---------------------------------------------------------------

SHUT = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
SPEED = Constraint(SHUT, 0.5, name="speed")
SIDE = Constraint(np.array([[0.0, 0.0], [0.0, 0.0], [9.0, 0.0]]), 0.5, name="side")


def test_a_state_whose_actions_are_all_forbidden_is_named_with_its_constraints():
    strict = TASK.constrain(SPEED, SIDE)
    message = (
        r"viable action in every state that an episode can reach; state 2 has none: its 2 avail"
        r"able actions meet the constraints \['speed', 'side'\]\. Raise a threshold"
    )
    for call in (
        lambda: planning.viable(strict),
        lambda: IAVI().solve(POLICY, strict),
        lambda: IAVI().fit(SEEN, strict),
        lambda: IQL().fit(SEEN, strict),
        lambda: IQL().partial_fit(SEEN, strict),
        lambda: planning.solve(np.zeros(3), strict),
        lambda: IAVI().solve(POLICY, TASK).regauge(Zero(), strict),
    ):
        with pytest.raises(InvalidInput, match=message):
            call()


def test_a_state_from_which_there_is_no_way_but_into_it_is_named_too():
    half = Constraint(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]), 0.5, name="go on")
    corner = task(constraints=[SPEED, half], initial=1)
    with pytest.raises(
        InvalidInput,
        match=r"state 1 has none: its 2 available actions meet the constraints \['go on'\] and "
        r"actions \[1\], which they allow, may lead to states with no way out",
    ):
        planning.viable(corner)


def test_a_state_that_can_only_lead_to_a_dead_end_names_it():
    moves = np.zeros((3, 2, 3))
    moves[[0, 1], :, [1, 2]] = 1
    moves[2, :, 0] = 1
    closed = Constraint(np.array([[0, 0], [0, 0], [1, 1]]), 0.5, name="closed")
    with pytest.raises(
        InvalidInput,
        match=r"state 0 has none: its 2 available actions keep all constraints, but may lead to "
        r"states with no way out, such as state 2, where each breaks one of \['closed'\]",
    ):
        planning.viable(Task(2, 0.9, transitions=moves, initial=0).constrain(closed))


def test_where_nothing_begins_and_nobody_was_nothing_is_said():
    strict = task(constraints=[SPEED], initial=0)
    apart = Demonstrations([0, 0, 1], [0, 1, 0], [0, 1, 1])
    for found in (IAVI().fit(apart, strict), IQL(epochs=2000).fit(apart, strict)):
        assert found.safe_table.tolist() == [[True, True], [True, False], [False, False]]
        assert found.policy_table[2].tolist() == [0, 0]
        assert found.policy_table[1].tolist() == [1, 0]
    anywhere = task(constraints=[SPEED])
    moved = IAVI().fit(apart, TASK).regauge(Zero(), anywhere)
    assert np.array_equal(moved.safe_table, IAVI().fit(apart, anywhere).safe_table)
    with pytest.raises(InvalidInput, match="state 2 has none"):
        IAVI().fit(SEEN, strict)
    with pytest.raises(InvalidInput, match="state 2 has none"):
        planning.viable(strict, visited=np.array([False, False, True]))


def test_the_strict_form_refuses_any_such_state():
    strict = task(constraints=[SPEED], initial=0, on_empty="raise")
    with pytest.raises(InvalidInput, match="state 2 has none"):
        planning.viable(strict, visited=np.array([True, False, False]))
    with pytest.raises(InvalidInput, match="state 2 has none"):
        IAVI().solve(POLICY, strict)


# -- demonstrations and tasks that do not fit ----------------------------------------------------

ALGORITHMS = [IAVI(), IQL(epochs=2)]
BAD_STEPS = [
    ({"states": [0, 3]}, r"`Demonstrations.states` must lie from 0 to 2 .*; row 1 is 3\."),
    (
        {"next_states": [9, 0]},
        r"`Demonstrations.next_states` must lie from 0 to 2 .*; row 0 is 9\.",
    ),
    ({"actions": [0, 2]}, r"`Demonstrations.actions` must lie from 0 to 1 .*; row 1 is 2\."),
    ({"states": [0, 2**62]}, r"`Demonstrations.states` must .*row 1 is"),
]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("columns", "message"), BAD_STEPS)
def test_steps_outside_the_task_are_named_by_row(algorithm, columns, message):
    for known in (TASK, unknown(n_states=3)):
        with pytest.raises(InvalidInput, match=message):
            algorithm.fit(steps(**columns), known)
    with pytest.raises(InvalidInput, match=message):
        IQL().partial_fit(steps(**columns), TASK)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_steps_that_were_not_possible_are_named_by_row(algorithm):
    closed = task(available=np.array([[True, True], [True, False], [True, True]]))
    message = r"row 1 has action 1 in state 1, which `Task.available` rules out\."
    with pytest.raises(InvalidInput, match=message):
        algorithm.fit(steps(), closed)
    with pytest.raises(InvalidInput, match=message):
        algorithm.fit(steps(), unknown(available=closed.available))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_numbers_with_large_gaps_are_labels(algorithm):
    message = r"without large gaps; .* row 1 is in state 4611686018427387904\. Number them by `np"
    with pytest.raises(InvalidInput, match=message):
        algorithm.fit(steps(states=[0, 2**62]), unknown())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rows_of_numbers_are_no_table(algorithm):
    features = Demonstrations(np.ones((2, 4)), [0, 1], np.ones((2, 4)))
    for known in (TASK, unknown(n_states=3), unknown()):
        with pytest.raises(
            InvalidInput, match=r"states that are integers; these have shape \(4,\)"
        ):
            algorithm.fit(features, known)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_swapped_and_strange_arguments_are_named(algorithm):
    with pytest.raises(
        InvalidInput, match=r"`demonstrations` must be a `Demonstrations`; got Task\("
    ):
        algorithm.fit(TASK, SEEN)
    for given in NONSENSE.values():
        with pytest.raises(
            InvalidInput, match=r"`demonstrations` must be a `Demonstrations`; got "
        ):
            algorithm.fit(given, TASK)
        with pytest.raises(InvalidInput, match=r"`task` must be a `Task`; got "):
            algorithm.fit(SEEN, given)


BAD_COLUMNS = [
    ({"states": []}, r"`Demonstrations` must hold at least one step; `states` is empty\."),
    ({"actions": [0]},
     r"`Demonstrations.actions` must have one row per step; it has 1 rows and `sta"),
    ({"weights": [1, 1, 1]}, r"`Demonstrations.weights` must have one row per step; it has 3 rows"),
    ({"actions": [0.0, 1.0]}, r"actions` must be integers, .*; it is float64 of shape \(2,\)"),
    ({"actions": [0, -1]}, r"actions` must be numbered from 0; row 1 is -1\."),
    ({"states": [0, -5]}, r"states` must be numbered from 0; row 1 is -5\."),
    ({"states": [np.nan, 1.0]}, r"states` must be integers for a table.*; it is float64"),
    ({"states": [[0.0], [np.nan]], "next_states": [[0.0], [1.0]]},
     r"states` must be finite; row 1 h"),
    ({"weights": [1.0, np.nan]}, r"weights` must be finite and not negative; row 1 is nan\."),
    ({"states": [True, False]}, r"states` must be integers for a table.*; it is bool"),
    ({"states": np.ma.masked_array([0, 1], [False, True])},
     r"states` must have all .*; in row 1 some"),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "message"), BAD_COLUMNS)
def test_columns_that_cannot_be_are_refused(columns, message):
    with pytest.raises(InvalidInput, match=message):
        steps(**columns)


def test_counts_need_sizes_that_are_sizes():
    for wrong in (0, -1, 1.5, "3", True, np.nan):
        with pytest.raises(
            InvalidInput, match=f"`n_states` must be a positive integer; got {wrong!r}"
        ):
            SEEN.counts(wrong)
        with pytest.raises(
            InvalidInput, match=f"`n_actions` must be a positive integer; got {wrong!r}"
        ):
            SEEN.counts(3, wrong)
    with pytest.raises(InvalidInput, match=r"`fraction` must lie between 0 and 1; got '0\.2'\."):
        SEEN.split(fraction="0.2", seed=0)


# -- policies, rewards, solvers ------------------------------------------------------------------

BAD_POLICIES = [
    (POLICY[:2], r"`policy` must have shape \(3, 2\); it has \(2, 2\)\."),
    (POLICY.T, r"`policy` must have shape \(3, 2\); it has \(2, 3\)\."),
    (POLICY[0], r"`policy` must have shape \(3, 2\); it has \(2,\)\."),
    (changed(POLICY, (1, 0), 0.4), r"row of state 1 is \[0\.4, 0\.5\], with sum 0\.9\."),
    (changed(POLICY, (1, 0), np.nan), r"row of state 1 is \[nan, 0\.5\], with sum nan\."),
    (changed(POLICY, 2, [-0.5, 1.5]), r"row of state 2 is .* sum 1\. Leave no entry below 0\."),
    (np.array([[1 / 3, 2 / 3]] * 3, np.float32), r"sum 1\.00000003\. Normalise it in float64\."),
    (changed(POLICY, 0, [np.inf, 0]), r"row of state 0 is \[inf, 0\.0\], with sum inf\."),
    (np.array([0, 1, 1]), r"must have shape \(3, 2\); it has \(3,\)\."),
]  # fmt: skip
TAKE_POLICIES = [
    lambda policy: IAVI().solve(policy, TASK),
    lambda policy: planning.evaluate_policy(policy, np.zeros(3), TASK),
    lambda policy: planning.visitation(policy, TASK),
    lambda policy: evaluate.value_difference(policy, np.zeros(3), TASK),
    lambda policy: evaluate.expected_return(policy, np.zeros(3), TASK),
]


@pytest.mark.parametrize("take", TAKE_POLICIES)
@pytest.mark.parametrize(("policy", "message"), BAD_POLICIES)
def test_a_policy_that_is_none_is_refused(take, policy, message):
    with pytest.raises(InvalidInput, match=message):
        take(policy)


@pytest.mark.parametrize("take", TAKE_POLICIES)
@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_for_a_policy_is_refused(take, name):
    with pytest.raises(InvalidInput, match=r"`policy` must "):
        take(NONSENSE[name])


def test_a_policy_may_not_do_what_is_not_available():
    closed = task(available=np.array([[True, True], [True, False], [True, True]]))
    message = r"must be 0 where an action is not available; it is 0\.5 for action 1 in state 1\."
    with pytest.raises(InvalidInput, match=message):
        IAVI().solve(POLICY, closed)
    with pytest.raises(InvalidInput, match=message):
        planning.evaluate_policy(POLICY, np.zeros(3), closed)


def test_a_state_without_a_policy_has_no_reward():
    with pytest.raises(
        InvalidInput, match=r"sum to 1 in every state; the row of state 1 is all 0\."
    ):
        IAVI().solve([[1, 0], [0, 0], [1, 0]], TASK)


def test_zeros_of_a_policy_are_smoothed_with_a_warning():
    greedy = np.array([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])
    with pytest.warns(
        NoFullSupport,
        match=r"2 states have an available action of probability 0 \(the first is state 0\); there "
        r"`IAVI.smoothing` decides the reward\. Compare results for several of its values\.",
    ):
        found = IAVI().solve(greedy, TASK)
    assert found.policy_table[0] == pytest.approx([1e-3 / 1.002, 1.001 / 1.002])
    assert found.policy_table[1].tolist() == [0.5, 0.5]


def test_terminal_states_need_no_policy():
    ends = task(terminal=[2])
    found = IAVI().solve(changed(POLICY, 2, 0.0), ends)
    assert np.isfinite(found.reward_table).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        IAVI().solve(changed(POLICY, 2, [1.0, 0.0]), ends)


def test_without_smoothing_unseen_actions_have_no_logarithm():
    message = (
        r"`IAVI.smoothing` must give every available action some probability; action 0 in state 1"
    )
    with pytest.raises(InvalidInput, match=message):
        IAVI(smoothing=Additive(0)).fit(SEEN, TASK)
    with (
        pytest.warns(NoFullSupport),
        pytest.raises(InvalidInput, match=r"action 1 in state 0 has none\. Use `smoothing=Add"),
    ):
        IAVI(smoothing=Additive(0)).solve(changed(POLICY, 0, [1, 0]), TASK)
    with pytest.raises(InvalidInput, match=r"`IQL.smoothing` must add something.*Additive\(k=0\)"):
        IQL(smoothing=Additive(0))
    everything = Demonstrations([0, 0, 1, 1, 2, 2], [0, 1] * 3, [0, 1, 1, 2, 2, 0])
    assert IAVI(smoothing=Additive(0)).fit(everything, TASK).info.converged


def test_without_a_model_a_policy_is_not_enough():
    message = r"`Task.transitions` must be known here and this task has none\. Give `Task\(trans"
    for call in (
        lambda: IAVI().solve(POLICY, unknown(n_states=3)),
        lambda: IAVI().solve(POLICY, unknown()),
        lambda: planning.solve(np.zeros(3), unknown(n_states=3)),
        lambda: planning.evaluate_policy(POLICY, np.zeros(3), unknown(n_states=3)),
        lambda: planning.visitation(POLICY, unknown(n_states=3)),
        lambda: planning.viable(unknown(constraints=[SPEED])),
        lambda: IAVI().solve(POLICY, TASK).regauge(Zero(), unknown(n_states=3)),
    ):
        with pytest.raises(InvalidInput, match=message):
            call()
    with pytest.raises(
        InvalidInput, match=r"must know how many states there will be; give `Task\(n_st"
    ):
        IQL().partial_fit(SEEN, unknown())


BAD_REWARDS = [
    (np.zeros(2), r"must have shape \(3,\) or \(3, 2\); it has \(2,\)\."),
    (np.zeros((2, 3)), r"must have shape \(3,\) or \(3, 2\); it has \(2, 3\)\."),
    (np.array([0, np.nan, 0]), r"must be finite; that of state 1 is nan\."),
    (changed(np.zeros((3, 2)), (2, 1), np.inf), r"must be finite; entry \(2, 1\) is inf\."),
]
TAKE_REWARDS = [
    lambda reward: planning.solve(reward, TASK),
    lambda reward: planning.solve(reward, TASK, soft=True),
    lambda reward: planning.evaluate_policy(POLICY, reward, TASK),
    lambda reward: evaluate.value_difference(POLICY, reward, TASK),
    lambda reward: evaluate.transfer_return(reward, np.zeros(3), TASK),
    lambda reward: evaluate.transfer_return(np.zeros(3), reward, TASK),
]


@pytest.mark.parametrize("take", TAKE_REWARDS)
@pytest.mark.parametrize(("reward", "message"), BAD_REWARDS)
def test_a_reward_that_is_none_is_refused(take, reward, message):
    with pytest.raises(InvalidInput, match="`reward` " + message):
        take(reward)


@pytest.mark.parametrize("take", TAKE_REWARDS)
@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_for_a_reward_is_refused(take, name):
    with pytest.raises(InvalidInput, match=r"`reward` must "):
        take(NONSENSE[name])


WHOLE = r"must be an integer of at least 1; got "
BAD_SETTINGS = [
    (lambda: IAVI(solver="fast"),
     r"`solver` must be 'auto', 'direct', 'bicgstab', 'amg', 'sweeps' or 'backward'; got 'fast'\."),
    (lambda: IAVI(solver=None), r"`solver` must be .*; got None\."),
    (lambda: IAVI(backup="mean"), r"`backup` must be 'max', 'soft' or 'max_of_mean'; got 'mean'\."),
    (lambda: IAVI(gauge=Uniform), r"`gauge` must be Uniform\(\), .*; got <class"),
    (lambda: IAVI(gauge="state"), r"`gauge` must be Uniform\(\), .*; got 'state'\."),
    (lambda: IAVI(gauge=None), r"`gauge` must be Uniform\(\), .*; got None\."),
    (
        lambda: IAVI(smoothing=1e-3),
        r"`IAVI.smoothing` must be a `Additive` or `BackOff`; got 0\.001\.",
    ),
    (lambda: IAVI(tolerance=np.nan), r"`tolerance` must be a number from 0; got nan\."),
    (lambda: IAVI(tolerance=-1), r"`tolerance` must be a number from 0; got -1\."),
    (lambda: IAVI(tolerance="1"), r"`tolerance` must be a number from 0; got '1'\."),
    (lambda: IAVI(max_iterations=0), r"`max_iterations` " + WHOLE + r"0\."),
    (lambda: IAVI(max_iterations=2.5), r"`max_iterations` " + WHOLE + r"2\.5\."),
    (lambda: IAVI(max_iterations=None), r"`max_iterations` " + WHOLE + r"None\."),
    (lambda: IAVI(gauge=StateOnly(), solver="sweeps").solve(POLICY, TASK),
     r"`solver` must be 'auto' or 'direct' for StateOnly\(\), .*; got 'sweeps'\."),
    (lambda: IAVI(backup="max_of_mean").fit(SEEN, TASK),
     r"`IAVI\(backup='max_of_mean'\)` must have a"),
    (lambda: IAVI(backup="max_of_mean").solve(POLICY, limited()),
     r"`backup='max_of_mean'` must be used with an exact gauge, without constraints"),
    (lambda: IAVI(backup="max_of_mean", gauge=StateOnly()).solve(POLICY, TASK),
     r"`backup='max_of_mean'` must be used with an exact gauge"),
    (lambda: IAVI(backup="max_of_mean", gauge=Features(np.eye(3))).solve(POLICY, TASK),
     r"`backup='max_of_mean'` must be used with an exact gauge"),
    (lambda: IAVI(backup="max_of_mean").solve(POLICY, task(available=np.ones((3, 2), bool))),
     r"with every action available"),
    (lambda: IAVI().solve(POLICY, TASK).regauge(StateOnly(), TASK, backup="max_of_mean"),
     r"`backup='max_of_mean'` must be used with an exact gauge"),
    (lambda: IAVI().solve(POLICY, TASK).regauge(Uniform(), TASK, backup="min"),
     r"`backup` must be 'max', 'soft' or 'max_of_mean'; got 'min'\."),
    (lambda: IAVI().solve(POLICY, TASK).regauge(Uniform, TASK), r"`gauge` must be Uniform\(\)"),
    (lambda: IAVI(solver="backward").solve(POLICY, TASK),
     r"without cycles; state 0 can be reached"),
    (lambda: IQL(lr_q=0), r"`IQL.lr_q` must lie in \(0, 1\], or be a Decay; got 0\."),
    (lambda: IQL(lr_reward=1.1),
     r"`IQL.lr_reward` must lie in \(0, 1\], or be a Decay; got 1\.1\."),
    (lambda: IQL(lr_shifted=np.nan), r"`IQL.lr_shifted` must lie in \(0, 1\], .*; got nan\."),
    (lambda: IQL(lr_constrained="fast"), r"`IQL.lr_constrained` must lie in .*; got 'fast'\."),
    (lambda: IQL(lr_q=None), r"`IQL.lr_q` must lie in .*; got None\."),
    (lambda: IQL(epochs=0), r"`IQL.epochs` " + WHOLE + r"0\."),
    (lambda: IQL(epochs=1.5), r"`IQL.epochs` " + WHOLE + r"1\.5\."),
    (lambda: IQL(epochs=np.nan), r"`IQL.epochs` " + WHOLE + r"nan\."),
    (lambda: IQL(tolerance=np.nan), r"`IQL.tolerance` must be a number from 0; got nan\."),
    (lambda: IQL(smoothing=0.1), r"`IQL.smoothing` must be a `Additive`; got 0\.1\."),
    (lambda: IQL(centred="no"), r"`IQL.centred` must be a `bool`; got 'no'\."),
    (lambda: IQL().partial_fit(SEEN, TASK, SEEN),
     r"`previous` must be a `Solution`; got Demonstrat"),
    (lambda: IQL().partial_fit(SEEN, TASK, IAVI().fit(SEEN, TASK)),
     r"go on from a solution of `IQL`; "),
    (lambda: IQL().fit(SEEN, TASK, seed=0.5), r"`seed` must be an integer from 0; got 0\.5\."),
    (lambda: Decay(horizon=0.5),
     r"`Decay` must have a horizon .*; got horizon 0\.5 and power 1\.0\."),
    (lambda: Decay(power=0.5), r"got horizon 10\.0 and power 0\.5\."),
    (lambda: Decay(power=None), r"got horizon 10\.0 and power None\."),
    (lambda: Additive(-1), r"`Additive.k` must be finite and not negative; got -1\."),
    (lambda: Additive("1"), r"`Additive.k` must be finite and not negative; got '1'\."),
    (lambda: planning.solve(np.zeros(3), TASK, tolerance=np.nan),
     r"`tolerance` must be a number from"),
    (lambda: planning.solve(np.zeros(3), TASK, tolerance=-1.0),
     r"`tolerance` must be a number from 0"),
    (lambda: planning.solve(np.zeros(3), TASK, max_iterations=0),
     r"`max_iterations` " + WHOLE + "0"),
    (lambda: planning.solve(np.zeros(3), TASK, start=np.zeros(2)),
     r"`start` must have shape \(3,\); it is float64 of shape \(2,\)\."),
    (lambda: planning.solve(np.zeros(3), TASK, start=[0, np.nan, 0]),
     r"`start` must be finite; that of state 1 is nan\."),
    (lambda: planning.solve(np.zeros(3), TASK, safe=np.ones((3, 2))),
     r"`safe` must be boolean of shape \(3, 2\); it is float64"),
    (lambda: planning.solve(np.zeros(3), SEEN), r"`task` must be a `Task`; got Demonstrations\("),
    (lambda: planning.viable(limited(), visited=[0, 1]),
     r"`visited` must be boolean of shape \(3,\);"),
    (lambda: planning.visitation(POLICY, TASK, horizon=-1),
     r"`horizon` must be a number of .*; got -1"),
    (lambda: planning.visitation(POLICY, TASK, horizon=2.5),
     r"`horizon` must be a number of .*; got 2"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), BAD_SETTINGS)
def test_a_setting_that_cannot_be_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


def test_not_converged_names_the_knob():
    with pytest.warns(
        NotConverged, match=r"stopped after 3 sweeps while .* raise `max_iterations` or"
    ):
        found = IAVI(solver="sweeps", max_iterations=3).solve(POLICY, TASK)
    assert not found.info.converged
    assert found.info.iterations == len(found.info.change) == 3
    assert found.info.residual > 0.01
    with pytest.warns(
        NotConverged, match=r"`IQL` stopped after 2 epochs .* raise `epochs` or `tol"
    ):
        found = IQL(epochs=2, tolerance=0).fit(SEEN, TASK)
    assert not found.info.converged
    with pytest.warns(NotConverged, match=r"reached a residual of .* by \w+; raise `tolerance`"):
        found = IAVI(tolerance=1e-300).solve(POLICY, TASK)
    assert not found.info.converged
    assert "not converged" in repr(found)


BAD_GAUGES = [
    (Reference(2), r"`Reference.policy` must be an action from 0 to 1 or a table .*; got 2\."),
    (Reference(-1), r"`Reference.policy` must be an action from 0 to 1 or a table .*; got -1\."),
    (Reference(POLICY[:2]), r"`Reference.policy` must have shape \(3, 2\); it has \(2, 2\)\."),
    (Reference(0.5), r"`Reference.policy` must have shape \(3, 2\); it has \(\)\."),
    (Reference(changed(POLICY, (1, 0), 0.4)),
     r"that of state 1 is \[0\.4, 0\.5\], available are \[0, "),
    (Reference(changed(POLICY, (1, 0), np.nan)), r"that of state 1 is \[nan, 0\.5\]"),
    (Reference(0, value=np.nan), r"`Reference.value` must be finite, .*; it has shape \(\)\."),
    (Reference(0, value=np.zeros(2)),
     r"a number or one for each of 3 states; it has shape \(2,\)\."),
    (Reference("first"), r"`Reference.policy` must be an array of numbers; got str"),
    (Reference(0, value=None), r"`Reference.value` must be an array of numbers; got NoneType"),
    (Features(np.zeros(3)),
     r"`Features.phi` must have shape \(3, K\) or \(3, 2, K\); it has \(3,\)\."),
    (Features(np.zeros((2, 3))), r"must have shape \(3, K\) or \(3, 2, K\); it has \(2, 3\)\."),
    (Features(np.zeros((3, 0))), r"must have shape \(3, K\) or \(3, 2, K\); it has \(3, 0\)\."),
    (Features(changed(np.eye(3), (1, 1), np.nan)),
     r"`Features.phi` must be finite; 1 entries are not"),
    (Features(sp.csr_array(changed(np.eye(3), (1, 1), np.inf))),
     r"must be finite; 1 entries are not"),
    (Features(None), r"`Features.phi` must be an array of numbers; got NoneType"),
]  # fmt: skip


@pytest.mark.parametrize(("gauge", "message"), BAD_GAUGES)
def test_a_gauge_that_does_not_fit_is_refused(gauge, message):
    with pytest.raises(InvalidInput, match=message):
        IAVI(gauge=gauge).solve(POLICY, TASK)
    with pytest.raises(InvalidInput, match=message):
        IAVI().solve(POLICY, TASK).regauge(gauge, TASK)


def test_an_anchor_must_be_available_everywhere():
    closed = task(available=np.array([[True, True], [True, False], [True, True]]))
    policy = changed(POLICY, 1, [1.0, 0.0])
    with pytest.raises(
        InvalidInput, match=r"that of state 1 is \[0\.0, 1\.0\], available are \[0\]\."
    ):
        IAVI(gauge=Reference(1)).solve(policy, closed)


# -- asking a solution ---------------------------------------------------------------------------

FOUND = IAVI().solve(POLICY, limited())
ASK = ["reward", "q", "value", "q_constrained", "value_constrained", "predict", "predict_proba"]
BAD_STATES = [
    ([0.0, 1.0],
     r"`states` must be the numbers of states, a 1-D .*; got float64 of shape \(2,\)\."),
    ([[0, 1]], r"`states` must be the numbers of states.*; got int64 of shape \(1, 2\)\."),
    (1, r"`states` must be the numbers of states.*; got int64 of shape \(\)\."),
    ([True, False, True], r"`states` must be the numbers of states.*; got bool of shape \(3,\)\."),
    ([0, -1], r"`states` must lie from 0 to 2 \(`n_states` is 3\); row 1 is -1\."),
    ([0, 1, 3], r"`states` must lie from 0 to 2 \(`n_states` is 3\); row 2 is 3\."),
    (np.array([2**63], np.uint64),
     r"`states` must lie from 0 to 2.*; row 0 is 9223372036854775808\."),
    (["0"], r"`states` must be an array of numbers; got list, as an array <U1"),
    ([None], r"`states` must be an array of numbers; got list, as an array object"),
    (None, r"`states` must be an array of numbers; got NoneType"),
    ([[0], [1, 2]], r"`states` must be an array of numbers, but has rows of different shapes\."),
    ([np.nan], r"`states` must be the numbers of states.*; got float64"),
]  # fmt: skip


@pytest.mark.parametrize("method", ASK)
@pytest.mark.parametrize(("states", "message"), BAD_STATES)
def test_what_is_no_state_is_refused(method, states, message):
    with pytest.raises(InvalidInput, match=message):
        getattr(FOUND, method)(states)


def test_a_score_names_the_row_that_does_not_fit():
    with pytest.raises(InvalidInput, match=r"`states` must lie from 0 to 2 .*; row 1 is 3\."):
        FOUND.score(steps(states=[0, 3]))
    with pytest.raises(InvalidInput, match=r"`actions` must lie from 0 to 1 .*; row 0 is 7\."):
        FOUND.score(steps(actions=[7, 0]))
    with pytest.raises(InvalidInput, match=r"got float64 of shape \(2, 1\)"):
        FOUND.score(Demonstrations([[0.0], [1.0]], [0, 1], [[1.0], [0.0]]))
    with pytest.raises(
        InvalidInput, match=r"`demonstrations` must be a `Demonstrations`; got None"
    ):
        FOUND.score(None)


def test_regauging_needs_the_same_states_and_actions():
    message = (
        r"states and available actions of the solution: \(3, 2\), 6 pairs available; got Task\("
    )
    with pytest.raises(InvalidInput, match=message):
        FOUND.regauge(Uniform(), Task(1, 0.9, transitions=np.eye(3)[:, None]))
    with pytest.raises(InvalidInput, match=message):
        FOUND.regauge(Uniform(), iq.worlds.ring().task)
    with pytest.raises(InvalidInput, match=message):
        FOUND.regauge(Uniform(), task(available=np.array([[True, False]] * 3)))
    with pytest.raises(InvalidInput, match=r"`task` must be a `Task`; got Demonstrations"):
        FOUND.regauge(Uniform(), SEEN)


# -- measures ------------------------------------------------------------------------------------

BAD_MEASURES = [
    (lambda: evaluate.divergence(POLICY, POLICY[:2]), r"of one shape; got \(3, 2\) and \(2, 2\)\."),
    (lambda: evaluate.divergence(POLICY, POLICY * 2),
     r"`q` must hold probabilities .*with sum 2\."),
    (lambda: evaluate.divergence(changed(POLICY, 0, np.nan), POLICY),
     r"`p` must hold probabilities"),
    (lambda: evaluate.divergence(POLICY, POLICY, np.ones(2)),
     r"`weights` must have shape \(3,\); it i"),
    (lambda: evaluate.divergence(POLICY, POLICY, [1, np.nan, 1]),
     r"`weights` must be finite, not neg"),
    (lambda: evaluate.divergence(POLICY, POLICY, [0, 0, 0]), r"`weights` must be .* not all 0"),
    (lambda: evaluate.divergence(0 * POLICY, POLICY), r"`p` must have an action in some state"),
    (lambda: evaluate.reward_correlation(np.zeros(3), np.zeros(4)),
     r"got shapes \(3,\) and \(4,\)\."),
    (lambda: evaluate.reward_correlation([0, np.nan, 1], [0, 1, 2]),
     r"`recovered` must be finite; tha"),
    (lambda: evaluate.reward_correlation([0, 1, 2], [0, np.inf, 1]),
     r"`reward` must be finite; that o"),
    (lambda: evaluate.reward_correlation(COST, [0, 1, 2], np.ones((3, 2))),
     r"`available` must be bool"),
    (lambda: evaluate.likelihood(POLICY[:2], SEEN),
     r"`Demonstrations.states` must lie from 0 to 1 .*2"),
    (lambda: evaluate.likelihood(POLICY[:, :1] * 0 + 1, SEEN),
     r"`Demonstrations.actions` must lie fr"),
    (lambda: evaluate.likelihood(POLICY * 0.5, SEEN),
     r"`policy` must hold probabilities .*sum 0\.5\."),
    (lambda: evaluate.likelihood(POLICY, TASK),
     r"`demonstrations` must be a `Demonstrations`; got Tas"),
    (lambda: evaluate.likelihood(POLICY, SEEN, np.ones((3, 2))),
     r"`available` must be boolean of shap"),
    (lambda: evaluate.baselines(SEEN, None, TASK),
     r"`test` must be a `Demonstrations`; got None\."),
    (lambda: evaluate.baselines(SEEN, SEEN, TASK, 1.0),
     r"`smoothing` must be a `Additive`; got 1\.0\."),
    (lambda: evaluate.baselines(SEEN, steps(states=[0, 5]), TASK),
     r"states` must lie from 0 to 2 .*5\."),
    (lambda: evaluate.violations(SEEN, limited(), [0, 1, 0]), r"`region` must be boolean, .*int64"),
    (lambda: evaluate.violations(SEEN, limited(), np.ones(2, bool)),
     r"must lie from 0 to 1 .*row 2 is"),
    (lambda: evaluate.violations(steps(actions=[0, 9]), limited()),
     r"actions` must lie .*row 1 is 9"),
    (lambda: evaluate.violations(steps(states=[0, 9]), limited()),
     r"`states` must lie .*row 1 is 9"),
    (lambda: evaluate.one_hot([0, 2], 2), r"`actions` must lie from 0 to 1 .*; row 1 is 2\."),
    (lambda: evaluate.one_hot([0, -2], 2), r"`actions` must lie from 0 to 1 .*; row 1 is -2\."),
    (lambda: evaluate.one_hot([0.0], 2),
     r"`actions` must be integers, one for each .*; got float64"),
    (lambda: evaluate.one_hot([0], 0), r"`n_actions` must be a positive integer; got 0\."),
    (lambda: evaluate.value_difference(POLICY, np.zeros(3), SEEN),
     r"`task` must be a `Task`; got Demo"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), BAD_MEASURES)
def test_a_measure_of_what_cannot_be_measured_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize(
    "take",
    [
        lambda x: task(transitions=x), lambda x: task(available=x), lambda x: task(terminal=x),
        lambda x: task(initial=x), lambda x: task(discount=x), lambda x: task(n_actions=x),
        lambda x: task(temperature=x), lambda x: unknown(n_states=x), lambda x: task(on_empty=x),
        lambda x: task(constraints=x), lambda x: unknown(terminal=x), lambda x: unknown(initial=x),
        lambda x: Constraint(COST, x), lambda x: Constraint(COST, 1, scale=x),
        lambda x: steps(states=x), lambda x: steps(actions=x), lambda x: steps(weights=x),
        lambda x: evaluate.divergence(x, POLICY), lambda x: evaluate.divergence(POLICY, x),
        lambda x: evaluate.divergence(POLICY, POLICY, x),
        lambda x: evaluate.likelihood(x, SEEN), lambda x: evaluate.likelihood(POLICY, x),
        lambda x: evaluate.reward_correlation(x, np.arange(3.0)),
        lambda x: evaluate.violations(SEEN, limited(), x),
        lambda x: FOUND.predict(x), lambda x: limited().safe(x),
        lambda x: IAVI(tolerance=x), lambda x: IAVI(solver=x), lambda x: IAVI(gauge=x),
        lambda x: IAVI(gauge=Reference(x)).solve(POLICY, TASK),
        lambda x: IQL(lr_q=x), lambda x: IQL(epochs=x), lambda x: IQL(online=x),
        lambda x: planning.solve(np.zeros(3), TASK, start=x),
    ],
)  # fmt: skip
def test_nonsense_is_refused_everywhere(take, name):
    with pytest.raises(InvalidInput, match=r"`.+` must "):
        take(ARRAYS[name])


# -- forms that are good -------------------------------------------------------------------------


def variants(array):
    """The same numbers in other forms."""
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    still = array.copy()
    still.flags.writeable = False
    return {
        "Fortran": np.asfortranarray(array),
        "strided": wide[..., ::2],
        "read-only": still,
        "list": array.tolist(),
        "frame": Frame(array),
        "backward": array[::-1].copy()[::-1],
        "float32": array.astype(np.float32),
        "subclass": array.view(type("Labelled", (np.ndarray,), {})),
    }


FORMS = list(variants(np.zeros((2, 2))))


@pytest.mark.parametrize("form", FORMS)
def test_arrays_may_come_in_any_form(form):
    exact = IAVI().solve(POLICY, limited())
    model, policy, cost = (variants(array)[form] for array in (MODEL, POLICY, COST))
    other = task(transitions=model, constraints=[Constraint(cost, 0.5)])
    assert np.array_equal(other.transitions.dense(), MODEL)
    found = IAVI().solve(policy, other)
    assert np.array_equal(found.q_table, exact.q_table)
    assert np.array_equal(found.q_constrained_table, exact.q_constrained_table)
    reward = np.array([1.0, 0.0, 0.5])
    given = variants(reward)[form]
    assert np.array_equal(planning.solve(given, other).q, planning.solve(reward, other).q)
    assert np.array_equal(
        planning.evaluate_policy(policy, given, other),
        planning.evaluate_policy(POLICY, reward, other),
    )
    assert np.array_equal(planning.visitation(policy, other), planning.visitation(POLICY, other))
    assert evaluate.divergence(policy, POLICY) == 0
    assert evaluate.likelihood(policy, SEEN) == evaluate.likelihood(POLICY, SEEN)
    gauge = IAVI(gauge=Features(variants(np.eye(3))[form])).solve(POLICY, TASK)
    assert np.array_equal(
        gauge.q_table, IAVI(gauge=Features(np.eye(3))).solve(POLICY, TASK).q_table
    )


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.int64, bool, np.float16, ">f8"])
def test_numbers_may_be_of_any_kind(kind):
    exact = task()
    assert np.array_equal(task(transitions=MODEL.astype(kind)).transitions.dense(), MODEL)
    blocks = [sp.csr_array(block.astype(kind if kind not in (np.float16, ">f8") else float))
              for block in (STAY, ROUND)]  # fmt: skip
    assert np.array_equal(task(transitions=blocks).transitions.dense(), MODEL)
    greedy = np.array([[0, 1], [1, 0], [0, 1]], dtype=kind)
    assert np.array_equal(
        planning.evaluate_policy(greedy, COST.astype(kind), exact),
        planning.evaluate_policy(greedy.astype(float), COST, exact),
    )


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int32, np.uint32, np.uint64])
def test_states_and_actions_may_be_integers_of_any_kind(kind):
    columns = (SEEN.states, SEEN.actions, SEEN.next_states)
    seen = Demonstrations(*(column.astype(kind) for column in columns))
    assert np.array_equal(IAVI().fit(seen, TASK).q_table, IAVI().fit(SEEN, TASK).q_table)
    states = np.array([2, 0, 2], dtype=kind)
    assert np.array_equal(FOUND.predict(states), FOUND.predict([2, 0, 2]))
    assert np.array_equal(limited().safe(states), limited().safe([2, 0, 2]))
    assert task(terminal=np.array([1], kind)).terminal.tolist() == [False, True, False]
    assert task(initial=kind(1)).initial.tolist() == [0, 1, 0]


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
def test_sparse_matrices_may_come_in_any_form(form):
    blocks = [sp.csr_array(block).asformat(form) for block in (STAY, ROUND)]
    assert np.array_equal(task(transitions=blocks).transitions.dense(), MODEL)
    assert np.array_equal(task(transitions=tuple(blocks)).transitions.dense(), MODEL)
    mixed = task(transitions=[blocks[0], ROUND])
    assert np.array_equal(mixed.transitions.dense(), MODEL)
    old = [sp.csr_matrix(STAY).asformat(form), sp.csr_matrix(ROUND).asformat(form)]
    assert np.array_equal(task(transitions=old).transitions.dense(), MODEL)
    objects = np.empty(2, object)
    objects[:] = blocks
    assert np.array_equal(task(transitions=objects).transitions.dense(), MODEL)


def test_entries_that_occur_twice_are_summed_and_zeros_are_no_entries():
    twice = sp.csr_array(
        (np.array([0.25, 0.0, 0.75, 1.5, -0.5, 1.0]), np.array([1, 2, 1, 2, 2, 0]), [0, 3, 5, 6]),
        shape=(3, 3),
    )
    assert not twice.has_canonical_format
    before = twice.copy()
    given = task(transitions=[sp.csr_array(STAY), twice])
    matrix = given.transitions.matrix
    assert np.array_equal(given.transitions.dense(), MODEL)
    assert matrix.nnz == 6
    assert matrix.has_canonical_format
    for name in ("data", "indices", "indptr"):
        assert np.array_equal(getattr(twice, name), getattr(before, name))
    assert np.array_equal(IAVI().solve(POLICY, given).q_table, IAVI().solve(POLICY, TASK).q_table)


def test_no_states_give_no_answers():
    for empty in ([], np.zeros(0, int), np.zeros(0)):
        assert FOUND.predict(empty).shape == (0,)
        assert FOUND.value(empty).shape == (0,)
        assert FOUND.predict_proba(empty).shape == (0, 2)
        assert FOUND.q_constrained(empty).shape == (0, 2)
        assert limited().safe(empty).shape == (0, 2)
    assert task(terminal=[]).terminal.tolist() == [False] * 3
    assert task(terminal=np.zeros(0, int)).terminal.tolist() == [False] * 3


def test_inputs_are_neither_changed_nor_frozen():
    arrays = [MODEL.copy(), POLICY.copy(), COST.copy(), np.ones((3, 2), bool), np.full(3, 1 / 3)]
    model, policy, cost, available, initial = arrays
    terminal, reward = np.array([False, False, True]), np.zeros(3)
    given = task(transitions=model, available=available, terminal=terminal, initial=initial,
                 constraints=[Constraint(cost, 0.5)])  # fmt: skip
    found = IAVI().solve(policy, given)
    planning.solve(reward, given, start=reward)
    IAVI(gauge=Reference(policy)).solve(policy, given)
    for array, before in zip(arrays, (MODEL, POLICY, COST, True, 1 / 3), strict=True):
        assert array.flags.writeable
        assert (array == before).all()
    model[:] = policy[:] = cost[:] = 9
    available[:] = terminal[:] = True
    assert np.array_equal(IAVI().solve(POLICY, given).q_table, found.q_table)


# -- NaN never comes out -------------------------------------------------------------------------


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("gauge", [Uniform(), Reference(1, 2.0), Zero(), StateOnly()])
def test_extreme_policies_give_finite_numbers(gauge, discount):
    policy = np.array([[1e-300, 1.0], [1.0, 1e-300], [0.5, 0.5]])
    strict = task(discount=discount, constraints=[Constraint(COST, 0.5)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InverseqWarning)
        found = IAVI(gauge=gauge).solve(policy, strict)
    for name, array in found.tables.arrays().items():
        assert not np.isnan(array).any(), name
    assert np.isfinite(found.reward_table).all()
    assert np.isfinite(found.predict_proba([0, 1, 2])).all()


@pytest.mark.parametrize(
    "algorithm", [IAVI(), IAVI(gauge=StateOnly()), IQL(epochs=50, tolerance=10)]
)
def test_demonstrations_of_next_to_nothing_give_finite_numbers(algorithm):
    for seen in (
        Demonstrations([2], [0], [2]),
        Demonstrations([2], [0], [7], terminated=[True]),
        Demonstrations([0, 2], [0, 0], [0, 2], weights=[0, 1e-9]),
        Demonstrations([0, 2], [0, 0], [0, 2], weights=[1e12, 1]),
    ):
        for known in (TASK, unknown(n_states=3), task(terminal=[2])):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", InverseqWarning)
                found = algorithm.fit(seen, known)
            for name, array in found.tables.arrays().items():
                assert not np.isnan(array).any(), name


# -- damaged solutions ---------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    IAVI().fit(SEEN, limited()).save(tmp_path / "found")
    return tmp_path / "found"


FILES = ["solution.json", storage.ARRAYS]


@pytest.mark.parametrize("file", FILES)
def test_a_cut_solution_is_damaged(folder, file):
    data = (folder / file).read_bytes()
    for length in {*range(0, len(data), max(len(data) // 60, 1)), len(data) - 1}:
        (folder / file).write_bytes(data[:length])
        with pytest.raises(DamagedFile, match=rf"{file} is damaged: .* Take it from a backup"):
            iq.load(folder)


@pytest.mark.parametrize("file", FILES)
def test_an_edited_solution_is_damaged_or_the_same(folder, file):
    data = (folder / file).read_bytes()
    known = iq.load(folder)
    rng = np.random.default_rng(0)
    for at in rng.integers(len(data), size=150):
        (folder / file).write_bytes(
            data[:at] + bytes([data[at] ^ (1 << rng.integers(8))]) + data[at + 1 :]
        )
        try:
            found = iq.load(folder)
        except DamagedFile:
            continue
        assert np.array_equal(found.q_table, known.q_table)  # white space of the JSON
        assert found.info == known.info


def test_a_folder_without_a_file_is_damaged(folder, tmp_path):
    for file in FILES:
        copy = tmp_path / file.split(".")[0]
        shutil.copytree(folder, copy)
        (copy / file).unlink()
        with pytest.raises(DamagedFile, match=rf"{file} is damaged: it is missing"):
            iq.load(copy)
    with pytest.raises(InvalidInput, match="A saved solution is a folder; there is none at"):
        iq.load(tmp_path / "nowhere")


def forge(folder, change):
    """Edit the document and mend its checksum."""
    document = json.loads((folder / "solution.json").read_bytes())
    document.pop("sha256")
    change(document)
    document["sha256"] = storage.checksum(document)
    (folder / "solution.json").write_text(json.dumps(document))


def test_a_newer_solution_asks_for_a_newer_library(folder):
    forge(folder, lambda document: document.update(format=2))
    with pytest.raises(
        DamagedFile, match=r"by a newer version of inverseq \(format 2; this one know"
    ):
        iq.load(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda settings: settings.pop("temperature"),
        lambda settings: settings.pop("info"),
        lambda settings: settings["info"].pop("algorithm"),
        lambda settings: settings["info"].pop("change"),
        lambda settings: settings["info"].update(hologram=1),
        lambda settings: settings.update(temperature="warm"),
        lambda settings: settings.update(info=None),
        lambda settings: settings["info"].update(change=["a"]),
    ],
)
def test_a_solution_that_lacks_or_adds_something_is_damaged(folder, change):
    forge(folder, lambda document: change(document["settings"]))
    with pytest.raises(
        DamagedFile, match=r"must hold a solution of this version; it lacks or adds"
    ):
        iq.load(folder)


class Bomb:
    """A pickle that leaves a file behind when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_pickle_in_place_of_the_arrays_is_damaged_and_never_run(folder, tmp_path):
    trace = tmp_path / "it ran"
    bomb = pickle.dumps(Bomb(trace))
    bombs = {"pickle": bomb}
    array = np.empty(1, object)
    array[0] = Bomb(trace)
    np.save(tmp_path / "bomb.npy", array, allow_pickle=True)
    bombs["npy"] = (tmp_path / "bomb.npy").read_bytes()
    for data in bombs.values():
        (folder / storage.ARRAYS).write_bytes(data)
        with pytest.raises(DamagedFile, match="its checksum does not agree"):
            iq.load(folder)
        # Not even where somebody mended the checksum.
        forge(
            folder,
            lambda document, data=data: document.update(arrays=hashlib.sha256(data).hexdigest()),
        )
        with pytest.raises(DamagedFile, match="it is not what was written"):
            iq.load(folder)
        assert not trace.exists()


def test_tables_of_other_shapes_are_damaged(folder):
    from safetensors.numpy import save

    arrays, _ = storage.read_folder(folder, "solution")
    for change in ({"reward": np.zeros((2, 2))}, {"surprise": np.zeros((3, 2))}, {"q": None}):
        mended = {k: v for k, v in (arrays | change).items() if v is not None}
        data = save(mended)
        (folder / storage.ARRAYS).write_bytes(data)
        forge(
            folder,
            lambda document, data=data: document.update(arrays=hashlib.sha256(data).hexdigest()),
        )
        with pytest.raises(DamagedFile, match=r"must hold a solution of this version"):
            iq.load(folder)
