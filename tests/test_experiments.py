"""Experiments: jobs are done once, rows are complete, and what is said follows from the rows."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import inverseq as iq
from inverseq.errors import InvalidInput
from inverseq.experiments import jobs, objectworld
from inverseq.experiments.objectworld import Objectworld, findings, methods, paper, studies
from inverseq.report import Chart, Maps, Section, Table, Text, load_run

# -- jobs ---------------------------------------------------------------------------------------

CALLS = []


def squared(job):
    """What the jobs of these tests do."""
    CALLS.append(job["x"])
    if job.get("stop"):
        raise KeyboardInterrupt
    return {"y": job["x"] ** 2, "z": float("nan") if job["x"] == 3 else 0.5}


@pytest.fixture(autouse=True)
def _no_calls():
    CALLS.clear()


def do(kept, *xs, workers=0, **extra):
    given = [{"x": x} | extra for x in xs]
    return jobs.done(squared, given, kept, workers, "squaring", False)


def test_results_come_in_the_order_of_the_jobs_and_are_kept(tmp_path):
    kept = tmp_path / "deep" / "jobs.jsonl"
    assert [r["y"] for r in do(kept, 3, 1, 2)] == [9, 1, 4]
    assert [r["y"] for r in do(kept, 2, 3)] == [4, 9]
    assert CALLS == [3, 1, 2]


def test_a_changed_job_is_another_one(tmp_path):
    kept = tmp_path / "jobs.jsonl"
    do(kept, 1, 2)
    do(kept, 1, 2, note="other")
    assert CALLS == [1, 2, 1, 2]


def test_what_was_done_before_an_interruption_is_not_done_again(tmp_path):
    kept = tmp_path / "jobs.jsonl"
    with pytest.raises(KeyboardInterrupt):
        jobs.done(squared, [{"x": 1}, {"x": 2, "stop": True}], kept, 0, "squaring", False)
    do(kept, 1, 5)
    assert CALLS == [1, 2, 5]


def test_a_line_that_was_cut_off_is_done_again(tmp_path):
    kept = tmp_path / "jobs.jsonl"
    do(kept, 1, 2)
    kept.write_bytes(kept.read_bytes()[:-9])
    assert [r["y"] for r in do(kept, 1, 2, 4)] == [1, 4, 16]
    assert CALLS == [1, 2, 2, 4]
    assert len(kept.read_text().splitlines()) == 3


def test_processes_give_results_in_the_order_of_the_jobs(tmp_path):
    given = [{"a": 1, "b": 2}, {}, {"c": 3}]
    beside = jobs.done(len, given, tmp_path / "beside.jsonl", 2, "counting", False)
    assert beside == [2, 0, 1]


# -- the Objectworld ----------------------------------------------------------------------------

KEYS = {
    *("experiment", "method", "world", "trajectories", "evd", "evd_squared"),
    *("reward_correlation", "seconds", "iterations", "converged"),
}
SMALL = objectworld.QUICK._replace(
    steps=4_000,
    trajectories=(8, 64),
    table_methods=("IAVI, exact policy", "IAVI", "IAVI, state gauge", "IQL", "MaxEnt"),
    curve_methods=("IAVI", "MaxEnt", "BoltzmannMLE"),
    checkpoints=(800, 1600),
    rates=((1e-2, 1e-2, 1e-2),),
    numbers=(8, 64),
    tune_steps=800,
)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A run that is small in everything."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objectworld, "QUICK", SMALL)
        patch.setattr(objectworld, "GRIDS", {"MaxEnt": (0.1, 0.01), "IQL": (0.01,)})
        settings = Objectworld(quick=True, tune=True, size=6, objects=6, workers=0, out=folder)
        yield objectworld.run(settings, progress=False), settings


def blocks(holder):
    for block in holder.blocks:
        yield block
        if isinstance(block, Section):
            yield from blocks(block)


def test_every_row_has_the_names_that_readers_rely_on(small):
    rows = small[0].rows
    assert all(set(row) >= KEYS for row in rows)
    assert {row["experiment"] for row in rows} == {"table", "transfer", "curve", "online", "tune"}
    json.dumps(rows, allow_nan=False)


def test_what_is_saved_is_what_came_out(small):
    result, settings = small
    saved = load_run(settings.out)
    assert [dict(row) for row in saved.rows] == json.loads(json.dumps(result.rows))
    assert saved.kind == "objectworld"
    assert "inverseq reproduce objectworld --quick --tune" in saved.command
    assert result.report.is_file()


def test_a_second_run_computes_nothing(small, monkeypatch):
    result, settings = small

    def never(*_):
        raise AssertionError("computed again")

    monkeypatch.setattr(objectworld, "QUICK", SMALL)
    monkeypatch.setattr(objectworld, "GRIDS", {"MaxEnt": (0.1, 0.01), "IQL": (0.01,)})
    monkeypatch.setattr(jobs, "in_turn", never)
    again = objectworld.run(settings, progress=False)
    assert again.rows == result.rows


def test_the_exact_policy_has_no_value_difference(small):
    (row,) = (
        r for r in small[0].rows if r["method"] == "IAVI, exact policy" and r["evd"] is not None
    )
    assert abs(row["evd"]) < 1e-9
    assert row["reward_correlation"] > 0.999


def test_a_method_is_judged_by_the_reward_it_found_and_by_the_policy_it_assumed(small):
    rows = [r for r in small[0].rows if r["experiment"] == "table"]
    names = [r["method"] for r in rows]
    assert "MaxEnt" in names
    assert "MaxEnt, own policy" in names
    assert "IAVI, own policy" not in names


def test_in_the_world_as_it_was_nothing_returns_more_than_the_true_reward(small):
    rows = [r for r in small[0].rows if r["experiment"] == "transfer"]
    for change in {r["change"] for r in rows}:
        best = [r["value"] for r in rows if r["change"] == change and r["method"] == "true reward"]
        others = [r["value"] for r in rows if r["change"] == change]
        assert max(others) <= max(best) + 1e-9


def test_the_exact_state_gauge_transfers_as_the_true_reward_does(small):
    rows = [r for r in small[0].rows if r["experiment"] == "transfer"]
    pairs = {(r["change"], r["draw"]): r["value"] for r in rows if r["method"] == "true reward"}
    ours = [r for r in rows if r["method"] == "IAVI, exact policy, state gauge"]
    assert len(ours) == len(pairs) >= 4
    for row in ours:
        assert abs(row["value"] - pairs[row["change"], row["draw"]]) < 1e-6


def test_smaller_sets_are_the_first_of_larger_ones():
    world = iq.worlds.objectworld(size=4, n_objects=4, seed=0)
    job = {"world": 0, "most": 64}
    many, few = (studies.demonstrations(world, job, n) for n in (64, 8))
    assert few.n_episodes == 8
    np.testing.assert_array_equal(few.states, many.states[: len(few)])


def test_a_learner_that_diverges_leaves_what_came_before():
    job = {
        "size": 4,
        "objects": 4,
        "discount": 0.99,
        "world": 0,
        "name": "wild",
        "rates": (1.0, 1.0, 1.0),
        "checkpoints": (800, 1600),
    }
    rows = studies.online(job)
    assert len(rows) <= 2
    assert all(np.isfinite(row["evd"]) for row in rows)


def test_the_report_holds_tables_charts_and_maps(small):
    said = list(blocks(small[0].document))
    assert sum(isinstance(block, Table) for block in said) >= 3
    assert sum(isinstance(block, Chart) for block in said) >= 4
    assert sum(isinstance(block, Maps) for block in said) >= 3


def test_the_paper_s_numbers_stand_beside_ours(small):
    first = next(block for block in blocks(small[0].document) if isinstance(block, Table))
    lines = {getattr(line[0], "text", line[0]): line for line in first.rows}
    assert lines["MaxEnt"][-2:] == ("11.58 ± 0.00", "8.08 ± 1 h")
    assert lines["MaxEnt, own policy"][-2:] == (None, None)


def curve_rows(evd):
    """Rows of a curve with given squared EVDs by method and number, two worlds each."""
    return [
        studies.row(
            {"world": world, "discount": 0.9}, "curve", method, trajectories=n,
            evd=value, evd_squared=value * (0.9 + 0.2 * world),
        )
        for method, values in evd.items()
        for n, value in values.items()
        for world in (0, 1)
    ]  # fmt: skip


def said_of(evd):
    rows = curve_rows(evd)
    return "\n".join(block.text for block in findings.curve(rows) if isinstance(block, Text))


def test_the_verdict_names_the_crossover_and_the_aim():
    evd = {
        "IAVI": {256: 3.0, 512: 0.5},
        "MaxEnt": {256: 6.0, 512: 6.0},
        "Deep MaxEnt, paper's network": {256: 1.0, 512: 2.0},
        "BoltzmannMLE": {256: 1.05, 512: 0.5},
    }
    said = said_of(evd)
    assert "IAVI is better than both MaxEnt methods at 512, and not at 256" in said
    assert "rises from 256 to 512" in said
    assert "is reached: BoltzmannMLE is at most 1.05 times the best (at 256 trajectories)" in said


def test_an_aim_that_was_missed_is_said_to_be_missed():
    said = said_of({"IAVI": {8: 3.0, 16: 1.0}, "Deep MaxEnt": {8: 1.0, 16: 1.0}})
    assert "is missed: IAVI is at most 3.00 times the best (at 8 trajectories)" in said


def test_every_method_of_the_tables_exists():
    for scale in (objectworld.FULL, objectworld.QUICK):
        known = {*methods.EXACT, *methods.METHODS}
        assert set(scale.table_methods) <= known
        assert set(scale.curve_methods) <= set(methods.METHODS)
    reported = {m.paper for m in (methods.EXACT | methods.METHODS).values()} - {""}
    assert reported == set(paper.TABLE)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"only": ("tabel",)}, r"`only` must name some of .*; got 'tabel'"),
        ({"workers": -1}, r"`workers` must not be negative; got -1"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, message):
    with pytest.raises(InvalidInput, match=message):
        replace(Objectworld(out=Path("nowhere")), **changes)
