"""Logs: what a table says is what demonstrations hold, and what is wrong with it is said."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inverseq as iq
from inverseq import Demonstrations, Labels, cli
from inverseq.algorithms.iql import Decay
from inverseq.errors import InvalidInput
from inverseq.io import counting, files
from inverseq.io.tally import END, Tally


def table_of(seen, states, actions):
    """A row for each step, under labels."""
    return {
        "place": [states[s] for s in seen.states],
        "move": [actions[a] for a in seen.actions],
        "then": [states[s] for s in seen.next_states],
        "bout": seen.episodes.tolist(),
        "over": seen.terminated.tolist(),
    }


def by_label(seen):
    """How often each labelled step was seen."""
    found = {}
    for s, a, n, end, weight in zip(
        seen.states, seen.actions, seen.next_states, seen.terminated, seen.step_weights, strict=True
    ):
        states, actions = seen.labels.states, seen.labels.actions
        key = (states[s], actions[a], None if end else states[n])
        found[key] = found.get(key, 0) + weight
    return found


def remarks_of(seen):
    """What was remarked of rows, but for what only all rows together can tell."""
    return [finding for finding in seen.reading.remarks if finding.kind not in ("rare", "shared")]


@st.composite
def walks(draw):
    """Episodes over a few states, some of which truly end."""
    n_states, n_actions = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    episodes = []
    for _ in range(draw(st.integers(1, 4))):
        length = draw(st.integers(1, 6))
        states = draw(
            st.lists(st.integers(0, n_states - 1), min_size=length + 1, max_size=length + 1)
        )
        actions = draw(st.lists(st.integers(0, n_actions - 1), min_size=length, max_size=length))
        episodes.append((states, actions))
    ends = draw(st.lists(st.booleans(), min_size=len(episodes), max_size=len(episodes)))
    return Demonstrations.from_episodes(episodes, terminated=ends)


LABELS = {
    "text": (lambda i: "stuvw"[i], lambda i: "xyz"[i]),
    "integers": (lambda i: 10 * i - 20, lambda i: -i),
    "truth values": (lambda i: i % 2 == 0, lambda i: i == 0),
}


@settings(max_examples=60, deadline=None)
@given(walks(), st.permutations(range(5)), st.permutations(range(3)), st.sampled_from([*LABELS]))
def test_demonstrations_come_back_from_a_table_of_labels(seen, states, actions, kind):
    state, action = LABELS[kind]
    log = table_of(seen, [state(i) for i in states], [action(i) for i in actions])
    columns = {"state": "place", "action": "move", "episode": "bout", "terminated": "over"}
    # Two labels of truth values may stand for more states, which then contradict nothing.
    back = Demonstrations.from_table(log, next_state="then", **columns)
    expected = {}
    for place, move, then, over in zip(
        log["place"], log["move"], log["then"], log["over"], strict=True
    ):
        key = (place, move, None if over else then)
        expected[key] = expected.get(key, 0) + 1
    assert by_label(back) == expected
    assert back.labels.actions == tuple(sorted(set(log["move"])))
    assert back.n_episodes == seen.n_episodes
    assert back.reading.steps == back.reading.rows == len(seen)
    assert not back.reading.bad


@settings(max_examples=60, deadline=None)
@given(walks(), st.randoms(use_true_random=False))
def test_next_states_are_derived_in_the_order_of_time_whatever_the_order_of_rows(seen, chance):
    rows = []
    for start, stop in zip(seen.starts, [*seen.starts[1:], len(seen)], strict=True):
        for step, row in enumerate(range(start, stop)):
            over = bool(seen.terminated[row])
            rows.append((seen.states[row], seen.actions[row], step, seen.episodes[row], over))
        if not over:
            # Where it was cut a last row without an action says where it had got to.
            rows.append((seen.next_states[row], None, step + 1, seen.episodes[row], False))
    chance.shuffle(rows)
    names = ("place", "move", "clock", "bout", "over")
    log = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    back = Demonstrations.from_table(
        log, state="place", action="move", time="clock", episode="bout", terminated="over"
    )
    named = Demonstrations.from_table(
        table_of(seen, range(5), range(3)), state="place", action="move", next_state="then",
        terminated="over", episode="bout",
    )  # fmt: skip
    assert by_label(back) == by_label(named)
    assert len(back) == len(seen)
    assert back.n_episodes == seen.n_episodes


# -- columns -------------------------------------------------------------------------------------


def test_labels_of_several_columns_are_tuples():
    log = {"x": [0, 0, 1], "side": ["l", "r", "l"], "move": ["a", "b", "a"], "speed": [1, 2, 1]}
    seen = Demonstrations.from_table(log, state=["x", "side"], action=["move", "speed"])
    assert seen.labels.states == ((0, "l"), (0, "r"), (1, "l"))
    assert seen.labels.actions == (("a", 1), ("b", 2))
    assert seen.states.tolist() == [0, 1]
    assert seen.next_states.tolist() == [1, 2]


def test_categories_and_truth_values_are_labels():
    log = pa.table(
        {
            "place": pa.array(["b", "a", "b"]).dictionary_encode(),
            "move": pa.array([True, False, True]),
        }
    )
    seen = Demonstrations.from_table(log, state="place", action="move")
    assert seen.labels == Labels(["a", "b"], [False, True])
    assert seen.states.tolist() == [1, 0]


@pytest.mark.parametrize("wrap", [dict, pa.table, lambda columns: Stream(pa.table(columns))])
def test_tables_of_every_kind_are_read(wrap):
    log = {"place": [3, 5, 3], "move": ["go", "back", "go"]}
    seen = Demonstrations.from_table(wrap(log), state="place", action="move")
    assert seen.labels == Labels([3, 5], ["back", "go"])
    assert seen.actions.tolist() == [1, 0]


class Stream:
    """What a frame of polars or pandas shows of itself."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def test_columns_of_floating_point_numbers_are_rows_of_numbers():
    log = {"x": [0.5, 1.5, 2.5], "y": [1, 2, 3], "move": [0, 1, 0]}
    seen = Demonstrations.from_table(log, state=["x", "y"], action="move")
    assert seen.states.tolist() == [[0.5, 1], [1.5, 2]]
    assert seen.next_states.tolist() == [[1.5, 2], [2.5, 3]]
    assert seen.labels == Labels(None, [0, 1])
    assert "floating-point" in seen.reading.notes[0]
    alone = Demonstrations.from_table(log, state="x", action="move")
    assert alone.states.tolist() == [[0.5], [1.5]]


def test_a_column_of_lists_is_rows_of_numbers():
    log = {"at": [[0.5, 1.0], [1.5, 2.0], None, [3.5, 4.0]], "move": [0, 1, 0, 1]}
    seen = Demonstrations.from_table(log, state="at", action="move", on_bad="drop")
    assert seen.states.tolist() == [[0.5, 1.0]]
    assert seen.next_states.tolist() == [[1.5, 2.0]]
    assert seen.reading.bad[0].first == 2
    images = {"at": np.arange(12.0).reshape(3, 4), "move": [0, 1, 0]}
    assert Demonstrations.from_table(images, state="at", action="move").states.shape == (2, 4)


def test_whole_floating_point_numbers_are_labels_of_actions():
    log = pa.table({"place": [0, 1, 0], "move": [2.0, 7.0, 2.0]})
    assert Demonstrations.from_table(log, state="place", action="move").labels.actions == (2, 7)
    broken = pa.table({"place": [0, 1, 0], "move": [2.0, 0.25, 2.0]})
    with pytest.raises(InvalidInput, match=r"holds floating-point numbers, and row 1 is 0.25"):
        Demonstrations.from_table(broken, state="place", action="move")


@pytest.mark.parametrize(
    ("log", "columns", "message"),
    [
        (
            {"node": [0], "m": [0]},
            {"state": "nod", "action": "m"},
            "none called 'nod'. Did you mean 'node'",
        ),
        (
            {"s": [0], "m": [0]},
            {"state": "s", "action": "m", "time": "tme"},
            "`time` must name a column",
        ),
        ({"s": [], "m": []}, {"state": "s", "action": "m"}, "at least one row; this one is empty"),
        (
            {"s": [None], "m": [0]},
            {"state": "s", "action": "m"},
            "missing: 1 row (the first is row 0, column 's')",
        ),
        ({"s": [0, 1], "m": [0]}, {"state": "s", "action": "m"}, "one type and length each"),
        ({"s": [0, "a"], "m": [0, 1]}, {"state": "s", "action": "m"}, "one type and length each"),
        (
            {"s": [0, 1], "m": [0, 1], "t": ["9", "10"]},
            {"state": "s", "action": "m", "time": "t"},
            "'t' holds text, such as '9'",
        ),
        (
            {"s": [0, 1], "m": [0, 1], "t": pa.array([None, None], pa.string())},
            {"state": "s", "action": "m", "time": "t"},
            "missing: 2 rows (the first is row 0, column 't')",
        ),
        (
            {"s": [[1.0, 2.0], [1.0], [1.0, 2.0, 3.0]], "m": [0, 1, 0]},
            {"state": "s", "action": "m"},
            "row 0 has 2 numbers and row 1 has 1.",
        ),
        (
            {"s": [0, 1], "m": [0, 1], "t": [0, 2]},
            {"state": "s", "action": "m", "terminated": "t"},
            "'t' also holds 2",
        ),
        (
            {"s": [0, 1], "m": [0, 1], "n": ["a", "b"]},
            {"state": "s", "action": "m", "next_state": "n"},
            "int64 and large_string",
        ),
        (
            {"s": [0, 1], "m": [0, 1], "n": [0, 1]},
            {"state": ["s", "m"], "action": "m", "next_state": "n"},
            "as many columns as `state`, 2; it names 1",
        ),
        (
            {"s": [0.5, 1], "w": ["a", "b"], "m": [0, 1]},
            {"state": ["s", "w"], "action": "m"},
            "'w' holds string beside",
        ),
        (
            {"s": [0], "m": [0]},
            {"state": "s", "action": "m"},
            "at least one step; of 1 rows none is. lone: 1 row",
        ),
    ],
)
def test_columns_that_cannot_be_what_they_are_named_as(log, columns, message):
    with pytest.raises(InvalidInput) as error:
        Demonstrations.from_table(log, **columns)
    assert message in str(error.value)


def test_what_is_no_table_is_refused():
    with pytest.raises(InvalidInput, match="a dictionary of columns; got int"):
        Demonstrations.from_table(3, state="s", action="a")


# -- bad rows ------------------------------------------------------------------------------------

CLEAN = {
    "place": ["a", "b", "c", "a", "c", "b"],
    "move": [0, 1, 0, 1, 0, 1],
    "then": ["b", "c", "a", "c", "b", "a"],
    "bout": [1, 1, 1, 2, 2, 2],
    "clock": [0, 1, 2, 0, 1, 2],
    "over": [False, False, True, False, False, False],
}
ALL = {"state": "place", "action": "move", "episode": "bout", "terminated": "over"}


def changed(**columns):
    """The clean log with some entries replaced: column = {row: value}."""
    log = {name: list(values) for name, values in CLEAN.items()}
    for name, entries in columns.items():
        for row, value in entries.items():
            log[name][row] = value
    return log


@pytest.mark.parametrize(
    ("log", "more", "kind", "rows", "first", "steps"),
    [
        (changed(place={1: None}), {}, "missing", 1, 1, 3),
        (changed(place={1: None}), {"next_state": "then"}, "missing", 1, 1, 5),
        (changed(move={0: None}), {}, "missing", 1, 0, 4),
        (changed(bout={1: None}), {}, "scattered", 1, 2, 2),
        (changed(over={4: None}), {}, "missing", 1, 4, 4),
        (changed(clock={4: None}), {"time": "clock"}, "unplaced", 2, 3, 3),
        (changed(clock={4: 0}), {"time": "clock"}, "same time", 2, 3, 3),
        (changed(bout={5: 1}), {}, "scattered", 1, 5, 4),
        (changed(over={0: True}), {}, "after the end", 2, 1, 3),
        (changed(then={0: "a"}), {"next_state": "then"}, "contradicted", 1, 0, 5),
        (CLEAN, {"labels": Labels("ab", [0, 1])}, "unknown", 2, 2, 1),
        (CLEAN, {"available": {"a": [0], "b": [1], "c": [0]}}, "unavailable", 1, 3, 4),
    ],
)
def test_bad_rows_stop_the_reading_or_are_dropped_and_counted(log, more, kind, rows, first, steps):
    with pytest.raises(InvalidInput) as error:
        Demonstrations.from_table(log, **ALL, **more)
    plural = "s" if rows > 1 else ""
    assert f"{kind}: {rows} row{plural} (the first is row {first}" in str(error.value)
    assert "on_bad='drop'" in str(error.value)
    seen = Demonstrations.from_table(log, **ALL, **more, on_bad="drop")
    found = {finding.kind: finding for finding in seen.reading.bad}
    assert (found[kind].rows, found[kind].first) == (rows, first)
    assert len(seen) == seen.reading.steps == steps
    assert seen.reading.rows == 6


def test_the_clean_log_has_no_bad_rows():
    seen = Demonstrations.from_table(CLEAN, **ALL)
    assert not seen.reading.bad
    assert len(seen) == 5
    assert seen.terminated.tolist() == [False, False, True, False, False]
    assert [remark.kind for remark in seen.reading.remarks] == ["open end"]
    assert json.loads(json.dumps(seen.reading.plain()))["remarks"][0]["first"] == 5


def test_remarks_are_counted_and_stop_nothing():
    log = {
        "place": ["b", "a", "a", "c", "a"],
        "move": [1, 0, 2, None, 0],
        "bout": [1, 1, 2, 3, 3],
        "clock": [2, 1, 1, 9, 5],
    }
    seen = Demonstrations.from_table(
        log, state="place", action="move", episode="bout", time="clock"
    )
    remarks = {remark.kind: (remark.rows, remark.first) for remark in seen.reading.remarks}
    assert remarks == {
        "unsorted": (2, 1),
        "arrival": (1, 3),
        "open end": (1, 0),
        "lone": (1, 2),
    }
    assert by_label(seen) == {("a", 0, "b"): 1, ("a", 0, "c"): 1}


def test_an_action_that_is_taken_once_is_remarked():
    log = {"place": [0, 1, 0, 1], "move": [0, 0, 1, 0]}
    (_, rare) = Demonstrations.from_table(log, state="place", action="move").reading.remarks
    assert (rare.kind, rare.rows, rare.first) == ("rare", 1, 2)


def test_a_terminal_last_row_without_an_action_ends_the_episode():
    log = {"place": [0, 1, 2], "move": [0, 1, None], "over": [0, 0, 1], "bout": [1, 1, 1]}
    seen = Demonstrations.from_table(log, **ALL)
    assert seen.terminated.tolist() == [False, True]


def test_one_label_of_two_units_is_two_episodes():
    log = {"place": [0, 1, 2, 1], "move": [0, 0, 1, 1], "bout": [1, 1, 1, 1], "who": list("aabb")}
    seen = Demonstrations.from_table(log, state="place", action="move", episode="bout", unit="who")
    assert seen.episodes.tolist() == ["a/1", "b/1"]
    assert seen.units.tolist() == ["a", "b"]
    assert by_label(seen) == {(0, 0, 1): 1, (2, 1, 1): 1}
    assert any(remark.kind == "shared" and remark.rows == 2 for remark in seen.reading.remarks)


# -- what is available ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "available",
    [
        "can",
        "mask",
        {"a": [0, 1], "b": [1], "c": [0, 1]},
        lambda label: [1] if label == "b" else [0, 1],
        np.array([[1, 1], [0, 1], [1, 1]], bool),
    ],
)
def test_what_is_available_reaches_the_task(available):
    can = {"a": [1, 0], "b": [1], "c": [0, 1]}
    log = CLEAN | {"can": [can[p] for p in CLEAN["place"]]}
    log["mask"] = [[a in can[p] for a in (0, 1)] for p in CLEAN["place"]]
    seen = Demonstrations.from_table(log, **ALL, available=available)
    task = seen.task(0.9)
    assert task.available.tolist() == [[True, True], [False, True], [True, True]]
    assert (task.n_states, task.n_actions, task.discount) == (3, 2, 0.9)
    assert task.labels == seen.labels
    found = iq.IAVI().fit(seen, task)
    assert found.predict_proba(["b"])[0].tolist() == [0.0, 1.0]


def test_seen_makes_available_what_was_ever_done():
    log = {"place": ["a", "b", "a"], "move": ["go", "back", "go"]}
    seen = Demonstrations.from_table(log, state="place", action="move", available="seen")
    assert seen.available.tolist() == [[False, True], [True, False]]


def test_actions_that_are_only_offered_have_numbers():
    log = {"place": ["a", "b", "a"], "move": ["go", "back", "go"]}
    offers = {"a": ["go", "stay"], "b": ["back"]}
    seen = Demonstrations.from_table(log, state="place", action="move", available=offers)
    assert seen.labels.actions == ("back", "go", "stay")
    assert seen.available.tolist() == [[False, True, True], [True, False, False]]


def test_availability_that_changes_within_a_state_is_refused():
    log = {"place": [0, 1, 0], "move": [0, 0, 1], "can": [[0, 1], [0], [1]]}
    with pytest.raises(InvalidInput, match="in state 0 it differs between row 0 and row 2"):
        Demonstrations.from_table(log, state="place", action="move", available="can")


# -- labels in results ---------------------------------------------------------------------------


def test_labels_stay_with_parts_files_tasks_and_solutions(tmp_path):
    seen = Demonstrations.from_table(CLEAN, **ALL, available="seen")
    seen.save(tmp_path / "seen.parquet")
    for same in (
        Demonstrations.load(tmp_path / "seen.parquet"),
        iq.read(tmp_path / "seen.parquet"),
        seen.select(np.ones(len(seen), bool)),
        Demonstrations.concatenate([seen, seen]),
        seen.split("episode", 0.5, seed=0)[0],
    ):
        assert same.labels == seen.labels
        assert (same.available == seen.available).all()
    for algorithm in (iq.IAVI(), iq.IQL(epochs=2), iq.BehaviouralCloning(), iq.BoltzmannMLE()):
        found = algorithm.fit(seen, iq.Task(2, 0.9, available=seen.available))
        assert found.labels == seen.labels
    found.save(tmp_path / "found")
    back = iq.load(tmp_path / "found")
    assert back.labels == seen.labels
    assert back.predict(["a", "b"]).tolist() == found.predict(["a", "b"]).tolist()
    assert back.to_table().equals(found.to_table())


def test_other_labels_are_refused():
    seen = Demonstrations.from_table(CLEAN, **ALL)
    other = Demonstrations.from_table(changed(place={0: "z"}), **ALL)
    found = iq.IAVI().fit(seen, seen.task(0.9))
    with pytest.raises(InvalidInput, match=r"the labels of the solution, Labels\(3 states"):
        found.score(other)
    with pytest.raises(InvalidInput, match=r"the labels of the solution, Labels\(3 states"):
        iq.evaluate.likelihood(found, other)
    with pytest.raises(InvalidInput, match=r"Read the log with `labels=task.labels`"):
        iq.IAVI().fit(other, seen.task(0.9))
    with pytest.raises(InvalidInput, match="those of part 1 are not those of part 0"):
        Demonstrations.concatenate([seen, other])
    assert found.score(Demonstrations.from_table(CLEAN, **ALL, labels=found.labels)) < 0
    with pytest.raises(InvalidInput, match="row 0 is 'nowhere'"):
        found.predict(["nowhere"])


def test_the_table_of_a_solution_names_states_and_actions():
    log = {"x": [0, 0, 1, 0], "y": ["l", "r", "l", "l"], "move": ["a", "b", "a", "b"]}
    seen = Demonstrations.from_table(log, state=["x", "y"], action="move")
    found = iq.BehaviouralCloning(prior=1.0).fit(seen, seen.task(0.5))
    rows = found.to_table().to_pylist()
    assert len(rows) == 6
    first = rows[0]
    assert (first["state_1"], first["state_2"], first["action"]) == (0, "l", "a")
    assert (first["visits"], first["probability"]) == (1.0, pytest.approx(2 / 3))
    assert found.predict([(0, "l")]).tolist() == ["a"]


@pytest.mark.parametrize(
    ("states", "actions", "message"),
    [
        ([0, 0], [0], "0 is the label of number 0 and of number 1"),
        ([0.5], [0], "must be integers, text or tuples of them; got 0.5"),
    ],
)
def test_labels_that_cannot_be(states, actions, message):
    with pytest.raises(InvalidInput) as error:
        Labels(states, actions)
    assert message in str(error.value)


# -- files ---------------------------------------------------------------------------------------


def write(log, path):
    """The log as a file of the kind that its name says."""
    table = pa.table(log)
    name = path.name
    if name.endswith(".parquet"):
        pq.write_table(table, path, row_group_size=2)
    elif ".csv" in name or ".tsv" in name:
        options = pa.csv.WriteOptions(delimiter="\t" if "tsv" in name else ",")
        with pa.output_stream(str(path), compression="detect") as sink:
            pa.csv.write_csv(table, sink, options)
    elif ".jsonl" in name:
        text = "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()
        path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    elif name.endswith(".feather"):
        pa.feather.write_feather(table, path)
    elif name.endswith("stream.arrow"):
        with pa.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table)
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    return path


KINDS = [
    "log.parquet",
    "log.csv",
    "log.csv.gz",
    "log.tsv",
    "log.jsonl",
    "log.jsonl.gz",
    "log.arrow",
    "stream.arrow",
    "log.feather",
]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("counts", [False, True])
def test_files_of_every_kind_say_the_same(tmp_path, name, counts):
    log = changed(move={4: None})
    expected = Demonstrations.from_table(log, **ALL, on_bad="drop")
    file = write(log, tmp_path / name)
    seen = iq.read(file, **ALL, on_bad="drop", counts=counts)
    assert by_label(seen) == by_label(expected)
    assert seen.labels == expected.labels
    assert seen.reading.bad == expected.reading.bad
    assert seen.reading.steps == expected.reading.steps


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint64"])
@pytest.mark.parametrize("next_kind", ["int16", "int64", "uint32"])
def test_labels_of_every_type_of_integers_are_counted_alike(tmp_path, monkeypatch, kind, next_kind):
    low = 0 if "u" in kind or "u" in next_kind else -100
    rng = np.random.default_rng(0)
    far = 1 if kind.endswith("int8") else 300
    log = {
        "s": pa.array((rng.integers(low, 100, 500) * far).tolist(), kind),
        "a": pa.array((rng.integers(low // 50, 2, 500)).tolist(), "int8"),
        "n": pa.array((rng.integers(low, 100, 500) * 300).tolist(), next_kind),
        "e": pa.array(np.repeat(np.arange(50), 10)),
    }
    pq.write_table(pa.table(log), tmp_path / "log.parquet")
    monkeypatch.setattr(files, "BATCH", 100)
    # Arrow numbers labels of one type only.
    log = {name: pa.array(column.to_pylist(), "int64") for name, column in log.items()}
    for more in ({"next_state": "n"}, {"episode": "e"}):
        columns = {"state": "s", "action": "a", **more}
        whole = Demonstrations.from_table(log, **columns)
        counted = iq.read(tmp_path, **columns, counts=True)
        assert by_label(counted) == by_label(whole)
        assert counted.labels == whole.labels


@pytest.mark.parametrize("more", [{"next_state": "n"}, {"episode": "e"}])
@pytest.mark.parametrize("counts", [False, True])
def test_integers_that_are_too_large_are_refused(tmp_path, more, counts):
    large = pa.array([1, 2**63, 0], "uint64")
    log = {"s": large, "a": [0, 1, 0], "n": large, "e": [0, 0, 1]}
    pq.write_table(pa.table(log), tmp_path / "log.parquet")
    with pytest.raises(InvalidInput, match=r"2\*\*63; column '.' holds 9223372036854775808"):
        iq.read(tmp_path, state="s", action="a", **more, counts=counts)


@pytest.mark.parametrize("batch", [1, 2, 3, 7])
@pytest.mark.parametrize(
    "columns",
    [
        {"next_state": "then"},
        {"next_state": "then", "terminated": "over"},
        {"next_state": "then", "terminated": "over", "episode": "bout"},
        {"next_state": "then", "unit": "who"},
        {"episode": "bout"},
        {"episode": "bout", "unit": "who"},
        {"episode": "bout", "terminated": "over", "time": "clock"},
        {"unit": "bout", "terminated": "over"},
        {"terminated": "over"},
        {},
    ],
)
def test_counts_of_a_stream_are_those_of_the_whole(tmp_path, monkeypatch, batch, columns):
    rng = np.random.default_rng(batch)
    n = 60
    over = rng.random(n) < 0.1
    bout = np.append(0, np.cumsum(over)[:-1])
    log = {
        "place": [None if rng.random() < 0.05 else str(s) for s in rng.integers(4, size=n)],
        "move": [None if rng.random() < 0.05 else int(a) for a in rng.integers(3, size=n)],
        "then": [str(s) for s in rng.integers(4, size=n)],
        "bout": bout,
        "clock": np.arange(n),
        "over": over,
        "who": bout % 3,
    }
    for i in (0, 1):
        half = {name: values[30 * i : 30 * i + 30] for name, values in log.items()}
        pq.write_table(pa.table(half), tmp_path / f"{i}.parquet", row_group_size=4)
    monkeypatch.setattr(files, "BATCH", batch)
    common = {"state": "place", "action": "move", "on_bad": "drop", **columns}
    whole = iq.read(tmp_path, **common)
    counted = iq.read(tmp_path, **common, counts=True)
    assert by_label(counted) == by_label(whole)
    assert counted.labels == whole.labels
    assert counted.reading.rows == n
    assert counted.reading.steps == len(whole)
    assert counted.reading.bad == whole.reading.bad
    assert remarks_of(counted) == remarks_of(whole)
    total = counted.counts(len(whole.labels.states), 3)
    expected = whole.counts(len(whole.labels.states), 3)
    np.testing.assert_array_equal(total.visits, expected.visits)
    np.testing.assert_allclose(total.transitions.dense(), expected.transitions.dense(), rtol=1e-14)


@settings(max_examples=40, deadline=None)
@given(walks(), st.sampled_from(["integers", "text"]), st.integers(1, 9), st.booleans())
def test_whole_episodes_in_order_are_counted_as_they_are_read(seen, kind, batch, timed):
    state, action = LABELS[kind]
    log = table_of(seen, [state(i) for i in range(5)], [action(i) for i in range(3)])
    log["clock"] = list(range(len(seen)))
    columns = {"state": "place", "action": "move", "episode": "bout", "terminated": "over"}
    columns |= {"time": "clock"} if timed else {}
    names = {"state": ("place",), "action": ("move",)}
    others = {name: columns.get(name) for name in ("episode", "unit", "time", "terminated")}
    try:
        whole = Demonstrations.from_table(log, **columns)
    except InvalidInput:
        whole = None  # no row is a step
    stream = counting.Counting([names["state"], names["action"]], None, others, None, "raise")
    closer = []
    stream._first_time = lambda *given: closer.append(given)  # the way by which others go
    for part in pa.table(log).to_batches(max_chunksize=batch):
        stream.add(part)
    if whole is None:
        with pytest.raises(InvalidInput, match="at least one step"):
            stream.steps(None)
        return
    counted = Demonstrations.from_steps(stream.steps(None))
    assert not closer
    assert by_label(counted) == by_label(whole)
    assert counted.labels == whole.labels
    assert remarks_of(counted) == remarks_of(whole)
    assert counted.reading.rows == len(seen)


def test_episodes_that_come_back_and_clocks_that_go_back_are_looked_at(tmp_path):
    log = {"s": [0, 1, 2, 3], "a": [0, 1, 0, 1], "e": [1, 1, 2, 2], "t": [0, 1, 5, 4]}
    columns = {"state": "s", "action": "a", "episode": "e", "time": "t"}
    file = write(log, tmp_path / "log.parquet")
    counted = iq.read(file, **columns, counts=True)
    assert by_label(counted) == {(0, 0, 1): 1, (3, 1, 2): 1}
    assert [finding.kind for finding in counted.reading.remarks] == ["unsorted", "open end"]
    file = write(log | {"e": [1, 2, 2, 1], "t": [0, 1, 2, 3]}, tmp_path / "back.parquet")
    with pytest.raises(InvalidInput, match=r"scattered: 1 row \(the first is row 3\)"):
        iq.read(file, **columns, counts=True)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, None]), st.sampled_from([0, 1, None]), st.sampled_from([0, 0, 1])
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 5),
)
def test_a_log_without_episodes_is_counted_as_it_is_read(rows, batch):
    log = dict(zip("sat", zip(*rows, strict=True), strict=True))
    table = pa.table({name: pa.array(column, "int64") for name, column in log.items()})
    columns = {"state": "s", "action": "a", "terminated": "t"}
    others = {"episode": None, "unit": None, "time": None, "terminated": "t"}
    stream = counting.Counting([("s",), ("a",)], None, others, None, "drop")
    for part in table.to_batches(max_chunksize=batch):
        stream.add(part)
    try:
        whole = Demonstrations.from_table(table, **columns, on_bad="drop")
    except InvalidInput:  # no row is a step
        with pytest.raises(InvalidInput, match="at least one step"):
            stream.steps(None)
        return
    counted = Demonstrations.from_steps(stream.steps(None))
    assert by_label(counted) == by_label(whole)
    assert counted.labels == whole.labels
    assert counted.reading.bad == whole.reading.bad
    assert remarks_of(counted) == remarks_of(whole)


def test_a_last_row_that_only_says_where_it_led_is_counted_as_it_is_read(tmp_path):
    file = write({"s": [0, 1, 2], "a": [0, 1, None]}, tmp_path / "log.parquet")
    counted = iq.read(file, state="s", action="a", counts=True)
    assert by_label(counted) == {(0, 0, 1): 1, (1, 1, 2): 1}
    assert [finding.kind for finding in counted.reading.remarks] == ["arrival"]


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 10])
@pytest.mark.parametrize("more", [{}, {"time": "t"}, {"time": "t", "next_state": "n"}])
def test_an_episode_that_comes_back_is_bad_however_rows_pass(tmp_path, monkeypatch, batch, more):
    log = {"s": [0, 1, 2, 3, 4, 5], "a": [0, 1, 0, 1, 0, 1], "e": [1, 1, 2, 2, 1, 2]}
    log |= {"n": [1, 4, 3, 5, 0, 0], "t": [0, 1, 0, 1, 2, 2]}
    file = write(log, tmp_path / "log.parquet")
    monkeypatch.setattr(files, "BATCH", batch)
    columns = {"state": "s", "action": "a", "episode": "e", "counts": True, **more}
    with pytest.raises(InvalidInput, match=r"scattered: \d rows? \(the first is row 4\)"):
        iq.read(file, **columns)
    counted = iq.read(file, **columns, on_bad="drop")
    assert [(bad.kind, bad.rows, bad.first) for bad in counted.reading.bad] == [("scattered", 2, 4)]
    assert ("as they stand" in counted.reading.bad[0].means) == ("time" in more)
    assert counted.reading.steps == (4 if "next_state" in more else 2)
    remarked = [(remark.kind, remark.rows) for remark in remarks_of(counted)]
    assert remarked == ([] if "next_state" in more else [("open end", 2)])


def test_algorithms_fit_counts_as_they_fit_steps(tmp_path):
    world = iq.worlds.gridworld(3)
    seen = world.demonstrations(episodes=50, length=8, seed=0)
    log = {"s": seen.states, "a": seen.actions, "n": seen.next_states}
    file = write(log, tmp_path / "log.parquet")
    counted = iq.read(file, state="s", action="a", next_state="n", counts=True)
    assert len(counted) < len(seen)
    assert counted.step_weights.sum() == len(seen)
    assert counted.counted
    # Rates wait for the steps that were seen least: they weigh little beside the others.
    rate = Decay(horizon=300)
    iql = iq.IQL(rate, rate, rate, centred=True, tolerance=1e-9, epochs=20_000)
    for algorithm in (iq.IAVI(), iq.BehaviouralCloning(), iq.BoltzmannMLE(), iql):
        from_counts = algorithm.fit(counted, counted.task(0.9))
        from_steps = algorithm.fit(seen, counted.task(0.9))
        rtol = 1e-6 if algorithm is iql else 1e-9
        np.testing.assert_allclose(from_counts.q_table, from_steps.q_table, rtol=rtol)
        np.testing.assert_array_equal(from_counts.tables.visits, from_steps.tables.visits)


def test_bad_rows_stop_the_counting_with_their_place_in_the_whole_log(tmp_path, monkeypatch):
    log = changed(place={4: None})
    file = write(log, tmp_path / "log.parquet")
    monkeypatch.setattr(files, "BATCH", 2)
    with pytest.raises(InvalidInput, match=r"1 row \(the first is row 4, column 'place'\)"):
        iq.read(file, state="place", action="move", next_state="then", counts=True)
    scattered = changed(bout={5: 1})
    file = write(scattered, tmp_path / "log.parquet")
    with pytest.raises(InvalidInput, match=r"scattered: 1 row \(the first is row 5"):
        iq.read(file, state="place", action="move", episode="bout", counts=True)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), st.integers(0, 10)), max_size=60))
def test_a_tally_counts_as_python_does(steps):
    tally = Tally()
    tally.places, tally.counts = np.full(4, -1, np.int64), np.zeros(4, np.int64)
    expected = {}
    for part in (steps[:20], steps[20:]):
        tally.add(*np.array(part, np.int64).reshape(-1, 3).T)
        for step in part:
            expected[step] = expected.get(step, 0) + 1
    found = list(zip(*(column.tolist() for column in tally.steps()), strict=True))
    assert found == [(*step, n) for step, n in sorted(expected.items())]
    assert END == 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("log.txt", b"a,b", "log.txt does not"),
        ("log.parquet", b"nothing", "must be readable as parquet; it is not"),
        ("log.csv", b"s,a\n1,2\n3\n", "Expected 2 columns, got 1"),
        ("log.jsonl", b'{"s": 1', "must be readable as json"),
        ("log.arrow", b"ARROW1nonsense", "must be readable as ipc"),
        ("log.csv", b"", "must be readable as csv"),
    ],
)
@pytest.mark.parametrize("counts", [False, True])
def test_files_that_are_not_what_they_are_called(tmp_path, name, content, message, counts):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidInput) as error:
        iq.read(path, state="s", action="a", counts=counts)
    assert message in str(error.value)


def test_places_without_a_log(tmp_path):
    with pytest.raises(InvalidInput, match="there is none at"):
        iq.read(tmp_path / "none.csv", state="s", action="a")
    with pytest.raises(InvalidInput, match="none ends in"):
        iq.read(tmp_path, state="s", action="a")
    with pytest.raises(InvalidInput, match="`state` and `action` must name columns"):
        iq.read(tmp_path)
    write(CLEAN, tmp_path / "log.csv")
    write(CLEAN, tmp_path / "log.parquet")
    with pytest.raises(InvalidInput, match="of one format; got csv and parquet"):
        iq.read(tmp_path, state="place", action="move")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"available": "over"}, "must not be a column where `counts`"),
        ({"time": "clock"}, "`time` must come with `episode` or `unit`"),
        ({"state": "clok"}, "none called 'clok'. Did you mean 'clock'?"),
    ],
)
@pytest.mark.parametrize("name", ["log.parquet", "log.csv"])
def test_what_cannot_be_counted(tmp_path, name, more, message):
    file = write(CLEAN, tmp_path / name)
    with pytest.raises(InvalidInput) as error:
        iq.read(file, **{"state": "place", "action": "move", "counts": True} | more)
    assert message in str(error.value)


def test_numbers_that_measure_are_not_counted(tmp_path):
    log = {"x": [0.5, 0.7, 0.9], "y": [0.5, 0.7, 0.9], "move": [0, 1, 0]}
    file = write(log, tmp_path / "log.parquet")
    for more in ({}, {"next_state": "y"}):
        with pytest.raises(InvalidInput, match="to be counted; column 'x' holds double"):
            iq.read(file, state="x", action="move", counts=True, **more)


def test_labels_that_are_given_bound_what_is_counted(tmp_path):
    file = write(CLEAN, tmp_path / "log.parquet")
    known = Labels("ab", [0, 1])
    for more in ({"next_state": "then"}, {"episode": "bout"}):
        arguments = {"state": "place", "action": "move", "labels": known, "on_bad": "drop"} | more
        counted, whole = iq.read(file, counts=True, **arguments), iq.read(file, **arguments)
        assert by_label(counted) == by_label(whole)
        assert counted.labels == known
        assert counted.reading.bad == whole.reading.bad
    assert counting.PARTS == ("state", "action", "next_state")


# -- trajectories of `imitation` -----------------------------------------------------------------


def hugging_face(folder, columns):
    """A data set as `datasets` saves it: a stream of Arrow, and JSON that names it."""
    folder.mkdir()
    table = pa.table(columns)
    with pa.ipc.new_stream(str(folder / "data-00000-of-00001.arrow"), table.schema) as writer:
        writer.write_table(table)
    state = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text("{}")
    return folder


WALKS = {
    "obs": [[[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]], [[5.0, 0.0], [6.0, 0.0]]],
    "acts": [[1, 0], [2]],
    "infos": [['{"py/object": "os.system"}', "{}"], ["{}"]],
    "terminal": [True, False],
    "rews": [[0.0, 1.0], [0.5]],
}


def test_a_saved_data_set_of_imitation_is_read_without_looking_at_its_pickles(tmp_path):
    seen = iq.read(hugging_face(tmp_path / "walks", WALKS))
    assert seen.states.tolist() == [[0, 1], [1, 1], [5, 0]]
    assert seen.next_states.tolist() == [[1, 1], [2, 1], [6, 0]]
    assert seen.actions.tolist() == [1, 0, 2]
    assert seen.terminated.tolist() == [False, True, False]
    assert seen.rewards.tolist() == [0, 1, 0.5]


def test_a_saved_data_set_names_no_files_but_its_own(tmp_path):
    folder = hugging_face(tmp_path / "walks", WALKS)
    hugging_face(tmp_path / "other", WALKS | {"acts": [[2, 2], [2]]})
    named = {"_data_files": [{"filename": "../other/data-00000-of-00001.arrow"}]}
    (folder / "state.json").write_text(json.dumps(named))
    assert iq.read(folder).actions.tolist() == [1, 0, 2]


def npz_of(path, **more):
    """The same trajectories in the older form."""
    arrays = {
        "obs": np.concatenate([np.array(states) for states in WALKS["obs"]]),
        "acts": np.array([1, 0, 2]),
        "rews": np.array([0, 1, 0.5]),
        "indices": np.array([2]),
        "terminal": np.array([True, False]),
        "infos": np.array([{}, {}, {}], dtype=object),
    }
    np.savez(path, **arrays | more)
    return path


def test_the_older_form_of_imitation_says_the_same(tmp_path):
    new = iq.read(hugging_face(tmp_path / "walks", WALKS))
    old = iq.read(npz_of(tmp_path / "walks.npz"))
    for name in ("states", "actions", "next_states", "terminated", "episodes", "rewards"):
        np.testing.assert_array_equal(getattr(old, name), getattr(new, name))


def test_trajectories_that_need_pickles_are_refused(tmp_path):
    path = npz_of(tmp_path / "walks.npz", obs=np.array([{}] * 5, dtype=object))
    with pytest.raises(InvalidInput, match="pickled objects, and reading those could run any code"):
        iq.read(path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (WALKS | {"acts": [[0.5, 1.5], [2.5]]}, "in trajectory 0 of"),
        (WALKS | {"acts": [[1, 0], [2, 2]]}, "trajectory 1 of"),
        ({name: WALKS[name] for name in ("obs", "acts")}, "it lacks terminal. It has obs, acts"),
    ],
)
def test_trajectories_that_cannot_be(tmp_path, columns, message):
    with pytest.raises(InvalidInput) as error:
        iq.read(hugging_face(tmp_path / "walks", columns))
    assert message in str(error.value)


def test_a_damaged_archive_is_said_to_be(tmp_path):
    (tmp_path / "walks.npz").write_bytes(b"PK nothing")
    with pytest.raises(iq.errors.DamagedFile, match="is damaged: it holds no trajectories"):
        iq.read(tmp_path / "walks.npz")


# -- inverseq show -------------------------------------------------------------------------------


def test_show_lists_the_columns_of_a_log(tmp_path, capsys):
    file = write(CLEAN, tmp_path / "log.csv")
    assert cli.main(["show", str(file)]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in CLEAN)
    assert "6 rows" in said
    assert cli.main(["show", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["columns"]["place"] == "string"


def test_show_says_what_is_in_a_log(tmp_path, capsys):
    file = str(write(changed(move={4: None}), tmp_path / "log.parquet"))
    names = ["--state", "place", "--action", "move", "--episode", "bout", "--terminated", "over"]
    assert cli.main(["show", file, *names, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["steps"], said["episodes"], said["ends"], said["states"]) == (4, 2, 1, 3)
    assert said["actions"] == {"0": 2, "1": 2}
    assert (said["pairs"], said["visited"], said["few"], said["holes"]) == (6, 4, 3, 0)
    assert said["lengths"] == {
        "least": 1, "a quarter": 1, "half": 1, "three quarters": 3, "most": 3
    }  # fmt: skip
    assert said["reading"]["bad"][0] | {"means": ""} == {
        "kind": "missing", "rows": 1, "first": 4, "means": "", "column": "move"
    }  # fmt: skip
    assert cli.main(["show", file, *names]) == 0
    said = capsys.readouterr().out
    assert all(word in said for word in ("Bad rows, left out", "missing", "fewer than 30 times"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--state", "plce", "--action", "move"], "Did you mean 'place'?"),
        (["--state", "place"], "must both name columns"),
    ],
)
def test_show_refuses_in_one_sentence(tmp_path, capsys, arguments, message):
    file = write(CLEAN, tmp_path / "log.csv")
    assert cli.main(["show", str(file), *arguments]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
