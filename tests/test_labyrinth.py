"""The labyrinth experiment, on a small maze made here in the form of the recordings."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import inverseq as iq
from inverseq import cli, evaluate
from inverseq.errors import InvalidInput
from inverseq.experiments import labyrinth
from inverseq.experiments.labyrinth import Labyrinth, card, data, findings, studies
from inverseq.history import BackOff, Histories
from inverseq.report import Graph, Section, Table, load_run, to_plain

DEPTH, PORT = 3, 12
N = 2 ** (DEPTH + 1) - 1
ANIMALS, TRAJECTORIES, LENGTH = ("A", "B", "C"), 30, 80


def maze_table():
    """A maze of 15 nodes; left and right are swapped at every third node."""
    rows = []
    for node in range(N):
        level = int(np.log2(node + 1))
        leaf = level == DEPTH
        children = [-1, -1] if leaf else [2 * node + 1, 2 * node + 2][:: -1 if node % 3 == 1 else 1]
        rows.append({
            "node": node, "level": level, "parent": N if node == 0 else (node - 1) // 2,
            "in_left": children[0], "in_right": children[1],
            "x": 2 * (node - 2**level + 1) * 2 ** (DEPTH - level), "y": level,
            "is_leaf": leaf, "is_water_port": node == PORT,
        })  # fmt: skip
    return rows


def steps_table(seed=0):
    """Animals that seldom turn back, and go to the port more often than elsewhere."""
    rng, nodes = np.random.default_rng(seed), maze_table()
    leads = [[row["in_left"], row["in_right"], row["parent"]] for row in nodes]
    trunk = {PORT, (PORT - 1) // 2, 2, 0}
    rows, bout, step, before, node = [], 0, 0, N, 0
    for trajectory in range(TRAJECTORIES):
        for position in range(LENGTH):
            # One trajectory in the middle runs from one animal into the next.
            done = trajectory * LENGTH + position
            animal = ANIMALS[min(done * len(ANIMALS) // (TRAJECTORIES * LENGTH - 40), 2)]
            if rows and animal != rows[-1]["animal"]:
                bout, step, before, node = bout + 1, 0, N, 0
            weight = np.array([
                0.0 if led < 0 else (0.2 if led == before else 1.0) * (3.0 if led in trunk else 1.0)
                for led in leads[node]
            ])  # fmt: skip
            action = int(rng.choice(3, p=weight / weight.sum()))
            following = leads[node][action]
            rows.append({
                "trajectory": trajectory, "position": position, "animal": animal, "bout": bout,
                "step": step, "node": node, "action": action, "next_node": following,
            })  # fmt: skip
            before, node, step = node, following, step + 1
            if node == N:
                bout, step, before, node = bout + 1, 0, N, 0
    return rows


def write(folder, steps=None, nodes=None, drop=()):
    folder.mkdir(parents=True, exist_ok=True)
    nodes = maze_table() if nodes is None else nodes
    lines = [",".join(nodes[0])]
    # As Python writes them, but for the truth: true and false.
    lines += [",".join(str(value) for value in row.values()).lower() for row in nodes]
    (folder / data.NODES).write_text("\n".join(lines) + "\n")
    table = pa.Table.from_pylist(steps_table() if steps is None else steps)
    pq.write_table(table.drop_columns(list(drop)), folder / data.STEPS)
    return folder


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    return write(tmp_path_factory.mktemp("recordings"))


@pytest.fixture(scope="module")
def log(recordings):
    return data.read(recordings)


SMALL = labyrinth.FULL._replace(
    folds=(0,),
    single=tuple(name for name in studies.SINGLE if name not in labyrinth.SLOW),
    lengths=(0, 1, 2),
    strengths=(4.0, 16.0),
    discounts=(0.7, 0.9),
    steps=20_000,
    bouts=(1, 4),
    few=("uniform over legal moves", "counts: depth", "counts: node", *studies.FEW[-2:]),
)


@pytest.fixture(scope="module")
def small(recordings, tmp_path_factory):
    """All of it, small in everything."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labyrinth, "QUICK", SMALL)
        settings = Labyrinth(recordings, quick=True, workers=0, out=folder)
        yield labyrinth.run(settings, progress=False), settings


def blocks(holder):
    for block in holder.blocks:
        yield block
        if isinstance(block, Section):
            yield from blocks(block)


# -- the recordings -----------------------------------------------------------------------------


def test_the_maze_is_read_with_its_swapped_children(log):
    maze = log.maze
    assert len(maze) == N
    assert maze.port == PORT
    assert maze.home == N
    assert maze.leads[1].tolist() == [4, 3, 0]
    assert maze.leads[0].tolist() == [1, 2, N]
    assert np.array_equal(maze.ends, np.arange(7, 15))
    assert maze.available[7].tolist() == [False, False, True]
    assert np.flatnonzero(maze.branch(2)).tolist() == [2, 5, 6, 11, 12, 13, 14]
    s, a = maze.into([3, 4])
    assert maze.leads[s, a].tolist() == [3, 4]
    assert maze.distance(PORT)[[PORT, 5, 11, 2, 0, 1, 3, 7]].tolist() == [0, 1, 2, 2, 3, 4, 5, 6]


def test_bouts_are_episodes_and_trajectories_are_units(log):
    seen = log.seen
    starts = seen.starts
    assert (seen.states[starts][seen.units[starts] == 0] == 0).any()
    assert np.array_equal(seen.terminated, seen.next_states == N)
    goes_on = np.flatnonzero(~np.isin(np.arange(1, len(seen)), starts))
    assert np.array_equal(seen.next_states[goes_on], seen.states[goes_on + 1])
    train, test = log.fold(1, 5)
    assert set(test.seen.units.tolist()) == set(range(1, TRAJECTORIES, 5))
    assert len(train.seen) + len(test.seen) == len(seen)
    assert [int(log.bouts[log.animals == who].min()) for who in ANIMALS] == [0, 0, 0]


def swapped(rows, row, **values):
    return [{**given, **values} if i == row else given for i, given in enumerate(rows)]


def test_what_is_wrong_with_the_recordings_is_said(tmp_path):
    def refused(message, **given):
        folder = write(tmp_path / "wrong", **given)
        with pytest.raises(InvalidInput, match=message):
            data.read(folder)

    steps, nodes = steps_table(), maze_table()
    refused("columns .*; bout, animal is missing from trajectory", drop=["animal", "bout"])
    refused("`node` .* from 0 to 14; row 5 has 15", steps=swapped(steps, 5, node=15))
    there = steps[7]["next_node"]
    refused(
        f"in row 7 action .* leads to {(there + 1) % N}, and by the maze to {there}",
        steps=swapped(steps, 7, next_node=(there + 1) % N),
    )
    texts = [{**row, "node": str(row["node"])} for row in steps]
    refused("`node` .* must be integers; it is string", steps=texts)
    refused("`node` .* must not be empty; in row 3", steps=swapped(steps, 3, node=None))
    gap = next(i for i, row in enumerate(steps) if row["step"] == 1)
    refused(f"within a bout; row {gap} is at", steps=[*steps[:gap], *steps[gap + 1 :]][: gap + 3])
    refused("one row for each node, numbered from 0; it has 14", nodes=nodes[:5] + nodes[6:])
    refused(
        "one level above for each node; node 5 of level 2 has 9", nodes=swapped(nodes, 5, parent=9)
    )
    refused("node 4 is not one of the children", nodes=swapped(nodes, 1, in_left=5))
    refused("0 to 14, or to -1 .* in_right of node 3 is 99", nodes=swapped(nodes, 3, in_right=99))
    refused("or -1 twice and is_leaf; node 8 differs", nodes=swapped(nodes, 8, is_leaf=False))
    refused(r"one water port .*; it has \[9, 12\]", nodes=swapped(nodes, 9, is_water_port=True))
    refused("node 0 as the entrance: .* parent 3", nodes=swapped(nodes, 0, parent=3))


def test_files_that_are_no_recordings_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="there is no folder"):
        data.read(tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match=f"there is no file .*{data.NODES}"):
        data.read(tmp_path)
    folder = write(tmp_path / "broken")
    (folder / data.STEPS).write_bytes(b"no table")
    with pytest.raises(InvalidInput, match="must be a Parquet file"):
        data.read(folder)


def test_too_little_is_refused_before_anything_is_written(tmp_path):
    few = write(tmp_path / "few", [row for row in steps_table() if row["trajectory"] < 9])
    with pytest.raises(InvalidInput, match=r"at least 25 trajectories.* it has 9"):
        labyrinth.run(Labyrinth(few, out=tmp_path / "out"))
    one = write(tmp_path / "one", [{**row, "animal": "A"} for row in steps_table()])
    with pytest.raises(InvalidInput, match=r"at least two animals.* \['A'\]"):
        labyrinth.run(Labyrinth(one, out=tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_the_command_says_what_it_needs(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["reproduce", "labyrinth", "--data", "nowhere"]) == cli.BAD_INPUT
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "there is no folder nowhere" in said
    with pytest.raises(InvalidInput, match="-1"):
        Labyrinth(tmp_path, workers=-1)


# -- scores -------------------------------------------------------------------------------------


def test_intervals_are_over_animals():
    tallies = {"A": [10, -5.0, 5, -4.0], "B": [30, -21.0, 5, -5.0], "C": [20, -10.0, 4, -4.0]}
    found = findings.estimate(tallies)
    assert found.mean == pytest.approx(-36 / 60)
    # Of a mean of ratios with weights n: residuals sum(x) - mean n are 1, -3, 2; t(2) is 4.303.
    error = np.sqrt((1 + 9 + 4) / (3 * 2)) / 20 * 4.302652729911275
    assert found.high - found.mean == pytest.approx(error)
    assert findings.estimate(tallies, choice=True).mean == pytest.approx(-13 / 14)
    assert np.isnan(findings.estimate({"A": [10, -5.0, 5, -4.0]}).low)


def test_scores_of_animals_add_up(log):
    policy = log.maze.task(0.9).uniform
    found = studies.tally(policy, log.seen, log.maze.available, log.animals)
    assert set(found) == set(ANIMALS)
    assert sum(tally[0] for tally in found.values()) == len(log.seen)
    expected = evaluate.likelihood(policy, log.seen, log.maze.available)
    assert findings.estimate(found).mean == pytest.approx(expected.nats)
    assert findings.estimate(found, choice=True).mean == pytest.approx(expected.nats_choice)
    assert expected.nats_choice == pytest.approx(-np.log(3))


def test_no_score_knows_what_follows(log):
    train, test = log.fold(0, 5)
    task = log.maze.task(0.9)
    histories = Histories.of(train.seen, 2, N)
    smoothing = BackOff(histories, 4.0)
    deep = studies.back_off(smoothing, histories.encode(train.seen), task)[0]
    flat = studies.closed_form(train.seen, task).policy_table
    seen, rng = test.seen, np.random.default_rng(1)
    for t in rng.integers(0, len(seen), 20):
        # From here on another walk, that begins where the step led or at the entrance.
        states, actions, following = (
            getattr(seen, name).copy() for name in ("states", "actions", "next_states")
        )
        for row in range(t + 1, len(seen)):
            states[row] = 0 if following[row - 1] == N else following[row - 1]
            actions[row] = rng.choice(np.flatnonzero(log.maze.available[states[row]]))
            following[row] = log.maze.leads[states[row], actions[row]]
        label = np.concatenate([[0], np.cumsum(following[:-1] == N)])
        other = type(seen)(
            states, actions, following, terminated=following == N,
            episodes=np.where(np.arange(len(seen)) <= t, seen.episodes,
                              seen.episodes[t] + label - label[t]),
        )  # fmt: skip
        for policy, kept in ((flat, Histories.of(train.seen, 0, N)), (deep, histories)):
            before, after = (
                evaluate.log_probabilities(policy, kept.encode(d))[: t + 1] for d in (seen, other)
            )
            assert before.tobytes() == after.tobytes()


def test_pieces_begin_everywhere_and_stay_in_their_episode(log):
    pieces = studies.pieces(log.seen, 5, 2)
    starts = pieces.starts
    lengths = np.diff(starts, append=len(pieces))
    assert lengths.max() == 5
    inside = np.flatnonzero(~np.isin(np.arange(1, len(pieces)), starts))
    assert np.array_equal(pieces.next_states[inside], pieces.states[inside + 1])


# -- the experiment -----------------------------------------------------------------------------


def test_rewards_of_the_node_equal_the_node_row(small):
    rows = small[0].rows
    for name, off in findings.equal(rows):
        exact = name in ("behavioural cloning", "IAVI")
        assert abs(off) < (1e-12 if exact else card.EQUAL), name


def test_histories_equal_their_count_tables_and_beat_the_node(small):
    rows = small[0].rows
    assert all(row["off_table"] < card.SAME for row in findings.pick(rows, "history"))
    methods = findings.scored(rows)
    node = findings.estimate(findings.joined(methods["counts: node"])).mean
    for length in (1, 2, 3):
        table, reward = (
            findings.estimate(findings.joined(methods[name])).mean
            for name in (f"counts: node + {length} previous", f"IAVI, node + {length} previous")
        )
        assert reward == pytest.approx(table, abs=1e-9)
        assert reward > node + 0.05
    chosen = findings.pick(rows, "history", method="IAVI, node + history, chosen")
    assert {row["length"] for row in chosen} <= {1, 2}


def test_a_closed_branch_is_never_entered(small):
    found = findings.pick(small[0].rows, "forbidden")
    assert {row["branch"] for row in found} == {1, 2}
    assert all(row["inside"] == 0 and row["simulated"] >= 20_000 for row in found)
    assert all(row["held_out_inside"] > 0 for row in found)
    for row in found:
        scored = [findings.estimate(row[f"untouched_{kind}"]).mean for kind in ("bound", "free")]
        if "masked" in row["method"]:
            assert scored[0] == pytest.approx(scored[1])
        assert np.isfinite(findings.estimate(row["judged_bound"]).mean)


def test_the_port_is_ranked_by_the_reward_in_closed_form(small, log):
    maze, can = log.maze, log.maze.available
    policy = iq.Additive(1.0).policy(log.seen.counts(N, 3).visits, can)
    log_pi = np.log(np.where(can, policy, 1.0))
    best = np.where(can, log_pi, -np.inf).max(axis=1)
    share = can / can.sum(axis=1, keepdims=True)
    moves = np.zeros((N, 3, N))
    s, a = np.nonzero(can & (maze.leads != maze.home))
    moves[s, a, maze.leads[s, a]] = 1.0
    mean = np.einsum("sa,san->sn", share, moves)
    pooled = findings.pick(small[0].rows, "port", animal=None)
    for row in pooled:
        g = row["discount"]
        h = np.linalg.solve(np.eye(N) - g * mean, g * mean @ best - (share * log_pi).sum(axis=1))
        reward = log_pi + h[:, None] - g * moves @ (best + h)
        entering = reward[maze.into(maze.ends)]
        at = maze.ends == PORT
        assert row["rank"] == (entering >= entering[at] - 1e-12).sum()
        assert row["rank_visits"] == 1
    assert {row["of"] for row in pooled} == {8}


def test_rows_are_data_and_the_document_follows_from_them(small):
    result, settings = small
    json.dumps(result.plain(), allow_nan=False)
    names = {"experiment", "method", "log_likelihood", "low", "high", "bits", "steps", "animals"}
    scored = [row for row in result.plain()["rows"] if row["experiment"] != "port"]
    assert all(set(row) >= names for row in scored)
    assert all(row["low"] <= row["log_likelihood"] <= row["high"] for row in scored)
    kept = load_run(settings.out)
    assert to_plain(findings.document(kept.rows, quick=True)) == to_plain(result.document)
    assert kept.command.startswith("inverseq reproduce labyrinth --data ")


def test_every_row_has_the_ladder_beside_it(small):
    tables = [block for block in blocks(small[0].document) if isinstance(block, Table)]
    beside = next(table for table in tables if "beside the ladder" in table.caption)
    titles = [column.title for column in beside.columns]
    assert titles == ["method", "nats", "uniform", "frequencies", "node", "+ 1", "+ 2", "+ 3"]
    methods = [row[0] for row in beside.rows]
    assert set(SMALL.single) < set(methods)
    assert set(card.LADDER) < set(methods)
    # The card speaks of other recordings.
    assert "data card" not in Path(small[0].report).read_text()


def test_the_maze_is_drawn(small):
    drawn = next(block for block in blocks(small[0].document) if isinstance(block, Graph))
    assert len(drawn.places) == N
    assert len(drawn.links) == N - 1
    assert drawn.marks == ((PORT, "water"),)
    page = Path(small[0].report).read_text()
    assert page.count('class="ring"') == 2
    assert page.count("<circle") == 2 * (N + 1)


def test_what_was_computed_is_kept(small):
    result, settings = small
    jobs = (settings.out / "jobs.jsonl").read_bytes()
    again = labyrinth.run(replace(settings), progress=False)
    assert (settings.out / "jobs.jsonl").read_bytes() == jobs
    assert to_plain(again.document) == to_plain(result.document)


def test_other_recordings_are_computed_anew(recordings, tmp_path):
    other = write(tmp_path / "other", steps_table(seed=1))
    assert data.fingerprint(other) != data.fingerprint(recordings)
    assert re.fullmatch("[0-9a-f]{64}", data.fingerprint(other))
