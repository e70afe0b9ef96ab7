"""Demonstrations: checked once, never changed, split whole, counted exactly, saved safely."""

import os
import pickle
import re
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import inverseq as iq
from inverseq import evaluate, identification, uncertainty
from inverseq.demonstrations import Additive, Demonstrations
from inverseq.errors import DamagedFile, InvalidInput
from inverseq.history import BackOff
from inverseq.io import storage
from inverseq.io.overview import overview

law = settings(deadline=None)  # the first example pays for the imports
COLUMNS = ("states", "actions", "next_states", "terminated", "episodes", "units", "weights")
COLUMNS += ("rewards",)


def same(a, b):
    """Whether two demonstrations are equal to the last bit and type."""
    for name in COLUMNS:
        x, y = getattr(a, name), getattr(b, name)
        if (x is None) != (y is None):
            return False
        if x is not None and (x.dtype, x.shape, x.tobytes()) != (y.dtype, y.shape, y.tobytes()):
            return False
    return True


@st.composite
def labels(draw, n):
    """Labels, integers or text, that lie together."""
    kind = st.integers(-5, 2**62) if draw(st.booleans()) else st.text("ab é🐀'\0", max_size=4)
    found = np.array(draw(st.lists(kind, min_size=n, max_size=n)))
    groups, member = np.unique(found, return_inverse=True)
    return groups[np.sort(member)]


@st.composite
def demonstrations(draw, tabular=None):
    """Random demonstrations: a table or features, with or without each of the options."""
    n = draw(st.integers(1, 12))
    if draw(st.booleans()) if tabular is None else tabular:
        states, following = (draw(arrays.arrays(int, n, elements=st.integers(0, 6))) for _ in "ab")
    else:
        kind = draw(st.sampled_from([np.float32, np.float64]))
        shape = (n, *draw(st.lists(st.integers(1, 3), min_size=1, max_size=2)))
        finite = st.floats(allow_nan=False, allow_infinity=False, width=32)
        states, following = (draw(arrays.arrays(kind, shape, elements=finite)) for _ in "ab")
    given = {}
    if draw(st.booleans()):
        given["episodes"] = draw(labels(n))
    if draw(st.booleans()):
        given["units"] = np.repeat(draw(labels(1)), n) if given else draw(labels(n))
    if draw(st.booleans()):
        given["weights"] = draw(arrays.arrays(float, n, elements=st.floats(0.1, 10)))
    if draw(st.booleans()):
        given["rewards"] = draw(arrays.arrays(float, n, elements=st.floats(-1e300, 1e300)))
    terminated = draw(arrays.arrays(bool, n))
    if "episodes" in given:
        terminated[:-1] &= given["episodes"][1:] != given["episodes"][:-1]
    actions = draw(arrays.arrays(np.int32, n, elements=st.integers(0, 3)))
    return Demonstrations(states, actions, following, terminated=terminated, **given)


# -- what is inside ----------------------------------------------------------------------------


def test_lists_become_tables_of_int64():
    seen = Demonstrations([0, 1], [1, 0], [1, 2])
    assert seen.tabular
    assert seen.states.dtype == seen.actions.dtype == seen.next_states.dtype == np.int64
    assert not seen.terminated.any()
    assert seen.units is None
    assert seen.weights is None
    assert seen.rewards is None


@pytest.mark.parametrize(
    ("kind", "stored"),
    [(np.float32, np.float32), (float, float), (np.float16, float), (int, float)],
)
def test_rows_of_numbers_are_features(kind, stored):
    seen = Demonstrations(np.ones((3, 2, 4), kind), [0, 0, 0], np.ones((3, 2, 4), kind))
    assert not seen.tabular
    assert seen.states.dtype == stored
    assert seen.n_episodes == 1


def test_inputs_are_neither_changed_nor_frozen_nor_shared():
    given = {
        "states": np.array([0, 1]),
        "actions": np.array([1, 0]),
        "next_states": np.array([1, 2]),
        "terminated": np.array([False, True]),
        "episodes": np.array(["a", "a"]),
        "units": np.array([7, 7]),
        "weights": np.array([1.0, 2.0]),
        "rewards": np.array([-1.0, 0.0]),
    }
    before = {name: array.copy() for name, array in given.items()}
    seen = Demonstrations(**given)
    for name, array in given.items():
        assert array.flags.writeable
        np.testing.assert_array_equal(array, before[name])
        assert not np.shares_memory(array, getattr(seen, name))
        with pytest.raises(ValueError, match="read-only"):
            getattr(seen, name)[0] = before[name][1]
    with pytest.raises(AttributeError):
        seen.states = given["states"]


def test_episodes_begin_after_ends_jumps_and_changes_of_unit():
    ends = [False, True, False, False, False]
    seen = Demonstrations(
        [0, 1, 2, 5, 6], [0] * 5, [1, 2, 3, 6, 7], terminated=ends, units=[*"aaaab"]
    )
    assert seen.episodes.tolist() == [0, 0, 1, 2, 3]
    assert seen.starts.tolist() == [0, 2, 3, 4]
    assert seen.n_episodes == 4
    x = np.array([[0.0, 1.0], [0.0, 2.0], [1.0, 2.0]])
    assert Demonstrations(x, [0, 0, 0], x + np.array([0.0, 1.0])).episodes.tolist() == [0, 0, 1]


def test_labels_of_pandas_are_text():
    seen = Demonstrations([0], [0], [0], units=np.array(["rat"], dtype=object))
    assert seen.units.dtype == "<U3"
    wide = Demonstrations([0], [0], [0], units=np.array(["rat"], dtype="U40"))
    assert wide.units.dtype == "<U3"


def test_repr_says_what_is_inside():
    seen = Demonstrations(
        np.arange(1600) % 7, np.arange(1600) % 5, np.zeros(1600, int), episodes=np.arange(1600) // 8
    )
    assert repr(seen) == "Demonstrations(1,600 steps in 200 episodes, 7 states, 5 actions, 0 ends)"
    x = np.zeros((1, 3))
    one = Demonstrations(x, [4], x, terminated=[True], units=["a"], weights=[2], rewards=[0])
    assert repr(one) == (
        "Demonstrations(1 step in 1 episode, states of shape (3,), 1 action, 1 end, 1 unit, "
        "weighted, rewarded)"
    )
    assert len(seen) == 1600


X = np.zeros((3, 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"states": []}, "must hold at least one step; `states` is empty"),
        (
            {"states": None},
            "`Demonstrations.states` must be an array with one row per step; got None",
        ),
        (
            {"states": [[0], [0, 1], [2]]},
            "`Demonstrations.states` must be an array, but has rows of",
        ),
        (
            {"states": [0.0, 1.0, 2.0]},
            "`Demonstrations.states` must be integers for a table, or numbers of shape "
            "(steps, features); it is float64 of shape (3,), and row 0 is 0.0.",
        ),
        (
            {"states": [0, -2, -3]},
            "`Demonstrations.states` must be numbered from 0; row 1 is -2.",
        ),
        ({"next_states": [1, 2, -1]}, "next_states` must be numbered from 0; row 2 is -1."),
        ({"next_states": [1, 2]}, "next_states` must have one row per step; it has 2 rows and"),
        ({"next_states": X}, "must have the shape of `states`, (3,); it has (3, 2)."),
        ({"states": [[*"ab"]] * 3, "next_states": X}, "at least one number per step; it is <U1"),
        ({"states": np.zeros((3, 0)), "next_states": np.zeros((3, 0))}, "of shape (3, 0)."),
        (
            {"states": [[0, 0], [0, np.nan], [np.inf, 0]], "next_states": X},
            "`Demonstrations.states` must be finite; row 1 holds nan.",
        ),
        (
            {"states": X, "next_states": [[0, 0], [0, 0], [-np.inf, 0]]},
            "`Demonstrations.next_states` must be finite; row 2 holds -inf.",
        ),
        ({"actions": [0, 1]}, "`Demonstrations.actions` must have one row per step; it has 2 rows"),
        (
            {"actions": [0.0, 1.0, 1.0]},
            "`Demonstrations.actions` must be integers, one action per step; it is float64 of "
            "shape (3,), and row 0 is 0.0.",
        ),
        ({"actions": [True, False, True]}, "it is bool of shape (3,), and row 0 is True."),
        ({"actions": [[0], [1], [1]]}, "it is int64 of shape (3, 1), and row 0 is [0]."),
        ({"actions": np.zeros((3, 0), int)}, "it is int64 of shape (3, 0), and row 0 is []."),
        ({"actions": [0, 0, -1]}, "`Demonstrations.actions` must be numbered from 0; row 2 is -1."),
        ({"terminated": [0, 0, 1]}, "terminated` must be boolean, one value per step; it is int64"),
        (
            {"terminated": [True]},
            "terminated` must have one row per step; it has 1 rows and `states`",
        ),
        (
            {"terminated": [False, True, False], "episodes": [*"aaa"]},
            "`Demonstrations.terminated` may be true only in the last row of an episode; it is in "
            "row 1, and episode 'a' goes on.",
        ),
        (
            {"episodes": [4, 5, 4]},
            "`Demonstrations.episodes` must keep the rows of an episode together; episode 4 comes "
            "back in row 2.",
        ),
        (
            {"episodes": [0.5, 1, 2]},
            "episodes` must be integers or text, one label per step; it is",
        ),
        (
            {"units": np.array(["a", "b", None], dtype=object)},
            "`Demonstrations.units` must be integers or text; row 2 is None.",
        ),
        (
            {"units": [*"abb"], "episodes": [7, 7, 7]},
            "`Demonstrations.units` must not change within an episode; episode 7 does so in row 1, "
            "to 'b'.",
        ),
        (
            {"weights": [1, -0.5, np.nan]},
            "`Demonstrations.weights` must be finite and not negative; row 1 is -0.5.",
        ),
        ({"weights": [1, 1, np.inf]}, "must be finite and not negative; row 2 is inf."),
        ({"weights": [0, 0, 0]}, "`Demonstrations.weights` must not all be zero; all 3 are."),
        ({"weights": [*"abc"]}, "weights` must be numbers, one per step; it is <U1"),
        ({"rewards": [1, 2]}, "rewards` must have one row per step; it has 2 rows and `states`"),
        ({"rewards": [[1], [2], [3]]}, "rewards` must be numbers, one per step; it is int64 of"),
        (
            {"rewards": [1, np.nan, np.inf]},
            "`Demonstrations.rewards` must be finite; row 1 is nan. Leave such steps out, or give",
        ),
    ],
)
def test_errors_name_the_column_and_the_row(change, message):
    given = {"states": [0, 1, 2], "actions": [0, 1, 0], "next_states": [1, 2, 3]} | change
    with pytest.raises(InvalidInput, match=re.escape(message)):
        Demonstrations(**given)


# -- from episodes, joined, split ----------------------------------------------------------------


def test_from_episodes_of_any_length():
    seen = Demonstrations.from_episodes(
        [([0, 1, 2], [1, 0]), (np.array([0, 1]), np.array([1]))],
        terminated=[True, False],
        units=["rat 1", "rat 2"],
        rewards=[[0, 2], np.array([-0.5], np.float32)],
    )
    assert seen.states.tolist() == [0, 1, 0]
    assert seen.next_states.tolist() == [1, 2, 1]
    assert seen.actions.tolist() == [1, 0, 1]
    assert seen.terminated.tolist() == [False, True, False]
    assert seen.episodes.tolist() == [0, 0, 1]
    assert seen.units.tolist() == ["rat 1", "rat 1", "rat 2"]
    assert seen.rewards.tolist() == [0, 2, -0.5]
    assert seen.rewards.dtype == np.float64


@law
@given(demonstrations())
def test_what_from_episodes_makes_has_the_same_episodes(seen):
    seen = Demonstrations(  # a chain: each step begins where the last one of its episode led
        seen.states, seen.actions, seen.next_states, terminated=seen.terminated
    )
    bounds = [*seen.starts, len(seen)]
    parts = [slice(a, b) for a, b in pairwise(bounds)]
    again = Demonstrations.from_episodes(
        (
            (np.concatenate([seen.states[rows], seen.next_states[rows][-1:]]), seen.actions[rows])
            for rows in parts
        ),
        terminated=np.array([seen.terminated[rows][-1] for rows in parts]),
    )
    np.testing.assert_array_equal(again.next_states, seen.next_states)
    for name in ("states", "actions", "terminated", "episodes"):
        np.testing.assert_array_equal(getattr(again, name), getattr(seen, name))


@pytest.mark.parametrize(
    ("episodes", "options", "message"),
    [
        ([], {}, "must hold at least one episode; got none"),
        ([([0, 1], [0]), ([0, 1], [0, 1])], {}, "episode 1 has 2 states and 2 actions."),
        ([([0], [])], {}, "at least one action, and one more state than actions: the state where"),
        ([([0, 1], [0]), [0, 1, 2]], {}, "a pair (states, actions); episode 1 is not."),
        (
            [(np.zeros((2, 3)), [0]), (np.zeros((2, 4)), [0])],
            {},
            "a state of episode 0 has shape (3,), one of episode 1 has (4,).",
        ),
        (
            [([0, 1], [0])],
            {"terminated": [True, False]},
            "each episode, of which there are 1; it has shape (2,)",
        ),
        (
            [([0, 1], [0])],
            {"terminated": [1]},
            "terminated` must be boolean, one value per step; it",
        ),
        (
            [([0, 1], [0])],
            {"units": [*"abc"]},
            "`units` must have one entry for each episode, of which there are 1; it has shape (3,)",
        ),
        (
            [([0, 1], [0])],
            {"rewards": 1.0},
            "`rewards` must have one array for each episode, of which there are 1; got 1.0.",
        ),
        (
            [([0, 1], [0])],
            {"rewards": [[1.0], [2.0]]},
            "`rewards` must have one array for each episode, of which there are 1; it has 2.",
        ),
        (
            [([0, 1], [0]), ([0, 1, 2], [0, 0])],
            {"rewards": [[1.0], [2.0]]},
            "one reward for each action; episode 1 has 2 actions and rewards of shape (1,).",
        ),
    ],
)
def test_errors_name_the_episode(episodes, options, message):
    with pytest.raises(InvalidInput, match=re.escape(message)):
        Demonstrations.from_episodes(episodes, **options)


@law
@given(demonstrations(tabular=True))
def test_concatenate_keeps_episodes_apart_and_adds_counts(seen):
    both = Demonstrations.concatenate([seen, seen])
    assert len(both) == 2 * len(seen)
    assert both.n_episodes == 2 * seen.n_episodes
    assert (both.units is None) == (seen.units is None)
    np.testing.assert_allclose(both.counts().visits, 2 * seen.counts().visits)


def test_concatenate_weighs_with_one_where_nothing_was_said():
    plain, heavy = Demonstrations([0], [0], [1]), Demonstrations([0], [0], [1], weights=[3])
    assert Demonstrations.concatenate([plain, heavy]).weights.tolist() == [1, 3]


def test_concatenate_has_rewards_only_where_all_parts_have_them():
    plain, paid = Demonstrations([0], [0], [1]), Demonstrations([0], [0], [1], rewards=[3])
    assert Demonstrations.concatenate([paid, paid]).rewards.tolist() == [3, 3]
    assert Demonstrations.concatenate([plain, paid]).rewards is None


def test_concatenate_needs_parts_of_one_form():
    table, rows = Demonstrations([0], [0], [1]), Demonstrations([[0.5]], [0], [[1]], units=["a"])
    message = (
        "part 0 has integer states and no units, part 1 has states of shape (1,) and units that "
        "are text."
    )
    with pytest.raises(InvalidInput, match=re.escape(message)):
        Demonstrations.concatenate([table, rows])
    with pytest.raises(InvalidInput, match="at least one part; got none"):
        Demonstrations.concatenate([])


@law
@given(
    demonstrations(), st.sampled_from(["unit", "episode"]), st.floats(0.01, 0.99), st.integers(0, 9)
)
def test_split_parts_whole_groups_and_keeps_the_order(seen, by, fraction, seed):
    groups = seen.units if by == "unit" else seen.episodes
    if groups is None:
        with pytest.raises(InvalidInput, match=r"needs `Demonstrations.units`; there are none"):
            seen.split(by, fraction, seed=seed)
        return
    n = len(np.unique(groups))
    if n == 1:
        with pytest.raises(InvalidInput, match=rf"needs at least two {by}s; there is only"):
            seen.split(by, fraction, seed=seed)
        return
    train, test = seen.split(by, fraction, seed=seed)
    mine = [part.units if by == "unit" else part.episodes for part in (train, test)]
    assert not set(mine[0].tolist()) & set(mine[1].tolist())
    assert abs(len(np.unique(mine[1])) - fraction * n) < 1
    in_test = np.isin(groups, mine[1])
    assert same(test, seen.select(in_test))
    assert same(train, seen.select(~in_test))
    assert len(train) + len(test) == len(seen)
    assert all(map(same, (train, test), seen.split(by, fraction, seed=seed)))


def test_split_differs_by_seed():
    seen = Demonstrations(range(50), [0] * 50, range(50), episodes=range(50))
    tests = {tuple(seen.split("episode", seed=seed)[1].states) for seed in range(5)}
    assert len(tests) == 5
    assert {len(test) for test in tests} == {10}


def test_split_and_select_say_what_they_need():
    seen = Demonstrations([0, 1], [0, 0], [1, 2])
    with pytest.raises(InvalidInput, match="`by` must be 'unit' or 'episode'; got 'animal'"):
        seen.split("animal", seed=0)
    with pytest.raises(InvalidInput, match=r"`fraction` must lie between 0 and 1; got 1\.5"):
        seen.split("episode", 1.5, seed=0)
    with pytest.raises(InvalidInput, match=r"mask over the 2 steps; got int64 of shape \(2,\)"):
        seen.select([1, 0])
    with pytest.raises(InvalidInput, match="at least one step"):
        seen.select([False, False])


# -- counts --------------------------------------------------------------------------------------


@law
@given(demonstrations(tabular=True), st.integers(0, 2))
def test_counts_equal_a_slow_loop(seen, more):
    n_states, n_actions = 7 + more, 4 + more
    visits, followed = np.zeros((n_states, n_actions)), np.zeros((n_states, n_actions, n_states))
    weights = np.ones(len(seen)) if seen.weights is None else seen.weights
    for s, a, t, end, w in zip(
        seen.states, seen.actions, seen.next_states, seen.terminated, weights, strict=True
    ):
        visits[s, a] += w
        followed[s, a, t] += 0 if end else w
    counts = seen.counts(n_states, n_actions)
    np.testing.assert_allclose(counts.visits, visits)
    model = followed / np.where(visits > 0, visits, 1)[..., None]
    np.testing.assert_allclose(counts.transitions.dense(), model, atol=1e-12)
    assert counts.transitions.matrix.nnz == np.count_nonzero(model)


@law
@given(demonstrations(tabular=True), st.randoms(use_true_random=False))
def test_the_order_of_episodes_does_not_change_counts(seen, random):
    episodes = [seen.select(seen.episodes == label) for label in np.unique(seen.episodes)]
    random.shuffle(episodes)
    shuffled, counts = Demonstrations.concatenate(episodes).counts(7, 4), seen.counts(7, 4)
    np.testing.assert_allclose(shuffled.visits, counts.visits)
    np.testing.assert_allclose(shuffled.transitions.dense(), counts.transitions.dense(), atol=1e-12)


def test_what_follows_an_end_does_not_count():
    seen = Demonstrations([0, 0], [1, 1], [1, 99], terminated=[False, True])
    counts = seen.counts()
    assert counts.visits.tolist() == [[0, 2], [0, 0]]
    assert counts.transitions.ends().tolist() == [[1, 0.5], [1, 1]]
    assert counts.transitions.matrix.nnz == 1


def test_a_pair_of_weight_zero_was_never_seen():
    counts = Demonstrations([0, 1], [0, 0], [1, 1], weights=[0, 2]).counts()
    assert counts.visits.tolist() == [[0], [2]]
    assert counts.transitions.dense()[:, 0].tolist() == [[0, 0], [0, 1]]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((2, 2), "`Demonstrations.states` must lie from 0 to 1 (`n_states` is 2); row 1 is 2."),
        (
            (3, 2),
            "`Demonstrations.next_states` must lie from 0 to 2 (`n_states` is 3); row 1 is 3.",
        ),
        ((4, 1), "`Demonstrations.actions` must lie from 0 to 0 (`n_actions` is 1); row 1 is 1."),
    ],
)
def test_counts_name_the_row_out_of_range(sizes, message):
    with pytest.raises(InvalidInput, match=re.escape(message)):
        Demonstrations([0, 2], [0, 1], [2, 3]).counts(*sizes)


def test_features_cannot_be_counted():
    with pytest.raises(
        InvalidInput, match=r"needs states that are integers; these have shape \(2,\)"
    ):
        Demonstrations(X, [0, 0, 0], X).counts()


# -- the smoothed policy ---------------------------------------------------------------------------


@law
@given(
    arrays.arrays(float, (5, 3), elements=st.floats(0, 1e6)),
    st.sampled_from([0.0, 1e-6, 1e-3, 1.0]),
)
def test_additive_smoothing_by_hand(visits, k):
    available = np.array([[True, True, True], [True, False, True]] * 2 + [[False, True, False]])
    policy = Additive(k).policy(visits, available)
    np.testing.assert_allclose(policy.sum(axis=1), 1)
    assert (policy[~available] == 0).all()
    for row, seen, can in zip(policy, visits, available, strict=True):
        weight = (seen + k) * can if (seen * can).any() else 1.0 * can
        np.testing.assert_allclose(row, weight / weight.sum())


@pytest.mark.parametrize("k", [-1.0, np.nan, np.inf])
def test_smoothing_must_be_finite_and_not_negative(k):
    with pytest.raises(
        InvalidInput, match=f"`Additive.k` must be finite and not negative; got {k}"
    ):
        Additive(k)


# -- files -----------------------------------------------------------------------------------------


@law
@given(seen=demonstrations())
def test_save_and_load_round_trip(tmp_path_factory, seen):
    path = tmp_path_factory.mktemp("round") / "trip.parquet"
    seen.save(path)
    assert same(Demonstrations.load(path), seen)


@pytest.fixture
def saved(tmp_path):
    seen = Demonstrations([0, 1], [1, 0], [1, 2], units=["a", "a"], weights=[1, 2])
    seen.save(tmp_path / "seen.parquet")
    return seen, tmp_path / "seen.parquet"


def test_others_can_read_the_file(saved):
    _, path = saved
    assert pq.read_table(path).to_pydict() == {
        "state": [0, 1],
        "action": [1, 0],
        "next_state": [1, 2],
        "terminated": [False, False],
        "episode": [0, 0],
        "unit": ["a", "a"],
        "weight": [1.0, 2.0],
    }


def test_every_damaged_byte_is_noticed_or_harmless(saved):
    seen, path = saved
    data = path.read_bytes()
    noticed = 0
    for i in range(len(data)):
        path.write_bytes(data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :])
        try:
            assert same(Demonstrations.load(path), seen), f"byte {i}"
        except DamagedFile as error:
            assert str(path) in str(error)  # noqa: PT017
            noticed += 1
    assert noticed > len(data) / 3


def test_every_cut_is_noticed(saved):
    _, path = saved
    data = path.read_bytes()
    for i in range(0, len(data), 7):
        path.write_bytes(data[:i])
        with pytest.raises(DamagedFile, match=r"seen\.parquet is damaged: .* save it again"):
            Demonstrations.load(path)


def test_edited_columns_are_noticed(saved):
    _, path = saved
    table = pq.read_table(path)
    edited = table.set_column(1, "action", pa.array([1, 1]))
    pq.write_table(edited, path)
    with pytest.raises(DamagedFile, match=r"seen\.parquet is damaged: its checksum does not agree"):
        Demonstrations.load(path)
    pq.write_table(table.replace_schema_metadata({}), path)
    with pytest.raises(DamagedFile, match=r"it is not what `Demonstrations.save` wrote"):
        Demonstrations.load(path)


def test_files_of_the_future_and_missing_files(saved):
    _, path = saved
    table = pq.read_table(path)
    later = table.schema.metadata | {b"inverseq.demonstrations": b"5"}
    pq.write_table(table.replace_schema_metadata(later), path)
    message = r"written by a newer version of inverseq \(format 5; this one knows 4\)"
    with pytest.raises(DamagedFile, match=message):
        Demonstrations.load(path)
    with pytest.raises(InvalidInput, match=r"there is none at .*nowhere\.parquet"):
        Demonstrations.load(path.with_name("nowhere.parquet"))


@pytest.mark.parametrize(("given", "version"), [({}, b"1"), ({"rewards": [0.5, -1]}, b"2")])
def test_only_a_file_with_rewards_is_of_the_second_format(given, version, tmp_path):
    seen = Demonstrations([0, 1], [1, 0], [1, 2], **given)
    seen.save(tmp_path / "seen.parquet")
    written = pq.read_table(tmp_path / "seen.parquet")
    assert written.schema.metadata[b"inverseq.demonstrations"] == version
    assert ("reward" in written.column_names) == ("rewards" in given)
    assert same(Demonstrations.load(tmp_path / "seen.parquet"), seen)


def test_a_crash_while_saving_leaves_the_old_file(saved, monkeypatch):
    seen, path = saved

    def crash(*_):
        raise OSError("the disk is gone")

    monkeypatch.setattr(storage.os, "replace", crash)
    with pytest.raises(OSError, match="the disk is gone"):
        Demonstrations([5], [5], [5]).save(path)
    assert same(Demonstrations.load(path), seen)
    assert os.listdir(path.parent) == [path.name]


# -- counts --------------------------------------------------------------------------------------


COUNTS = {
    "states": [0, 1, 1], "actions": [1, 0, 1], "next_states": [1, 0, 1], "weights": [3, 2, 1],
    "terminated": [False, False, True], "counted": True,
}  # fmt: skip


@pytest.mark.parametrize(
    "ask",
    [
        lambda d: d.starts,
        lambda d: d.n_episodes,
        lambda d: d.split("episode", seed=0),
        lambda d: d.split("unit", seed=0),
        lambda d: d.with_history(1),
        lambda d: BackOff.chosen(d, d.task(0.9)),
        lambda d: evaluate.groups(d),
        lambda d: iq.MaxEnt().fit(d, d.task(0.9)),
        lambda d: identification.discount_profile(iq.IAVI(), d, d.task(0.9)),
        lambda d: iq.IAVI(gauge=iq.Features(np.eye(2))).fit(d, d.task(0.9)),
        lambda d: iq.IQL(online=True).fit(d, d.task(0.9)),
        lambda d: iq.IQL().partial_fit(d, d.task(0.9)),
        lambda d: uncertainty.fit(iq.IAVI(), d, d.task(0.9), workers=0),
        lambda d: uncertainty.fit(iq.IAVI(), d, d.task(0.9), method="bootstrap", workers=0),
    ],
)
def test_what_needs_an_order_refuses_counts(ask):
    message = r"steps in their order, and these are counts of steps; read the log without `counts`"
    with pytest.raises(InvalidInput, match=message):
        ask(Demonstrations(**COUNTS))


def test_counts_say_what_they_are_and_stay_so(tmp_path):
    seen = Demonstrations(**COUNTS)
    assert repr(seen) == (
        "Demonstrations(counts of 6 steps, 3 of them different, 2 states, 2 actions, 1 end)"
    )
    assert (seen.episodes, seen.units) == (None, None)
    seen.save(tmp_path / "seen.parquet")
    kept = pq.read_schema(tmp_path / "seen.parquet").metadata
    assert kept[b"inverseq.demonstrations"] == b"4"
    steps = Demonstrations([1, 0], [1, 1], [1, 1])
    both = Demonstrations.concatenate([seen, steps])
    for same in (
        Demonstrations.load(tmp_path / "seen.parquet"),
        both,
        pickle.loads(pickle.dumps(seen)),
    ):
        assert same.counted
        assert same.episodes is None
        np.testing.assert_array_equal(same.times_seen[:3], [3, 2, 1])
    np.testing.assert_array_equal(both.times_seen, [3, 2, 1, 1, 1])
    part = seen.select(seen.actions == 1)
    assert part.counted
    np.testing.assert_array_equal(part.times_seen, [3, 1])
    assert not steps.counted
    np.testing.assert_array_equal(steps.times_seen, [1, 1])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"weights": [3, 2.5, 1]}, r"`Demonstrations.weights` must be whole .* row 1 is 2.5"),
        ({"episodes": [0, 0, 1]}, "`Demonstrations.episodes` must not be given with `counted`"),
        ({"units": [0, 0, 1]}, "`Demonstrations.units` must not be given with `counted`"),
        ({"counted": 1}, "`Demonstrations.counted` must be"),
    ],
)
def test_counts_that_are_none_are_refused(changed, message):
    with pytest.raises(InvalidInput, match=message):
        Demonstrations(**COUNTS | changed)


def test_counts_are_measured_as_the_steps_that_they_count():
    world = iq.worlds.gridworld(3)
    seen = world.demonstrations(episodes=40, length=8, seed=0)
    rows, times = np.unique(
        np.stack([seen.states, seen.actions, seen.next_states]), axis=1, return_counts=True
    )
    counts = Demonstrations(*rows, weights=times, counted=True)
    found = iq.IAVI().fit(seen, world.task)
    whole, part = (evaluate.likelihood(found, d) for d in (seen, counts))
    assert part.nats == pytest.approx(whole.nats, rel=1e-12)
    assert part.accuracy == pytest.approx(whole.accuracy, rel=1e-12)
    assert (part.steps, part.steps_choice) == (whole.steps, whole.steps_choice) == (320, 320)
    assert (part.interval, part.interval_choice, part.interval_bits, part.over) == (None,) * 4
    assert None not in (whole.interval, whole.interval_choice, whole.over)
    forbidden = world.task.constrain(iq.Constraint(np.eye(5)[np.zeros(9, int)], 0.5))
    broken = [evaluate.violations(d, forbidden, np.arange(9) > 6) for d in (seen, counts)]
    assert broken[0] == broken[1]
    assert broken[0].chosen > 0
    assert broken[0].blown > 0
    shown = [overview(d) for d in (seen, counts)]
    assert (shown[1].episodes, shown[1].lengths, shown[1].holes) == (None, None, None)
    alike = ("steps", "ends", "states", "departed", "few", "pairs", "visited", "visits", "actions")
    assert [getattr(shown[0], name) for name in alike] == [
        getattr(shown[1], name) for name in alike
    ]
    assert "episodes" not in dict(shown[1].rows())
