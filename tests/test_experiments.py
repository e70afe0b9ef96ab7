"""Experiments: jobs are done once, rows are complete, and what is said follows from the rows."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from inverseq.errors import InvalidInput
from inverseq.experiments import command, jobs, objectworld
from inverseq.experiments.demo import Demo
from inverseq.experiments.objectworld import Objectworld, claims, findings, methods, paper, studies
from inverseq.report import Chart, Maps, Section, Table, load_run

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


def test_those_whose_turn_is_first_begin_first(tmp_path):
    kept, given = tmp_path / "jobs.jsonl", [{"x": x} for x in (1, 3, 2)]
    found = jobs.done(squared, given, kept, 0, "squaring", False, lambda job: -job["x"])
    assert CALLS == [3, 2, 1]
    assert [r["y"] for r in found] == [1, 9, 4]


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


OWNER = """
import os, time
from inverseq._processes import side_by_side

def tell(folder):
    open(os.path.join(folder, str(os.getpid())), "w").close()
    time.sleep(600)

if __name__ == "__main__":
    list(side_by_side(tell, [({folder!r},)] * 2, 2))
"""


def test_processes_end_with_their_owner_even_if_it_is_killed(tmp_path):
    script, seen = tmp_path / "owner.py", tmp_path / "seen"
    seen.mkdir()
    script.write_text(OWNER.format(folder=str(seen)))
    owner = subprocess.Popen([sys.executable, script], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: len(list(seen.iterdir())) == 2)
    finally:
        owner.kill()
        owner.wait()
    for process in seen.iterdir():
        wait_until(lambda name=process.name: not running(int(name)))


def wait_until(true):
    """A busy machine may take its time; one on which it never comes true has failed."""
    for _ in range(1_200):
        if true():
            return
        time.sleep(0.1)
    raise AssertionError("it did not come true")


def running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


# -- the Objectworld ----------------------------------------------------------------------------

KEYS = {
    *("experiment", "method", "world", "trajectories", "evd", "evd_squared"),
    *("reward_correlation", "seconds", "iterations", "converged"),
}
GRIDS = {"MaxEnt": ((0.1,), (0.01,)), "IQL": ((0.01, 0.01), (0.01, 0.1), (0.1, 0.01), (1e9, 1e9))}
SMALL = objectworld.QUICK._replace(
    steps=4_000,
    trajectories=(8, 64),
    table_methods=("IAVI, exact policy", "IAVI", "IAVI, state gauge", "IQL", "MaxEnt"),
    other_worlds=1,
    other_trajectories=(8,),
    other_methods=("IAVI", "MaxEnt"),
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
        patch.setattr(objectworld, "GRIDS", GRIDS)
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


def test_machines_read_ten_names_and_can_tell_every_row_from_every_other(small):
    said = small[0].plain()
    assert set(said) == {"rows"}
    assert all(set(row) == KEYS for row in said["rows"])
    assert len(said["rows"]) == len(small[0].rows)
    names = ("experiment", "method", "world", "trajectories")
    marks = [tuple(row[name] for name in names) for row in said["rows"]]
    assert len(set(marks)) == len(marks)


def test_what_is_saved_is_what_came_out(small):
    result, settings = small
    saved = load_run(settings.out)
    assert [dict(row) for row in saved.rows] == json.loads(json.dumps(result.rows))
    assert saved.kind == "objectworld"
    begins = "inverseq reproduce objectworld --quick --tune --size 6 --objects 6 --workers 0 --out "
    assert saved.command == begins + str(settings.out)
    assert result.report.is_file()


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        (Demo(), ""),
        (Demo(size=8, out=Path("my demo")), " --size 8 --out 'my demo'"),
        (Objectworld(only=("curve", "tune")), " --only curve tune"),
        (
            Objectworld(quick=True, discount=0.95, out=Path("a b")),
            " --quick --discount 0.95 --out 'a b'",
        ),
    ],
)
def test_a_command_says_what_differs_from_the_defaults(settings, options):
    assert command("do it", settings) == f"do it{options}"


def test_only_what_is_asked_for_is_computed(tmp_path, monkeypatch):
    monkeypatch.setattr(objectworld, "QUICK", SMALL)
    monkeypatch.setattr(objectworld, "GRIDS", {"MaxEnt": ((0.1,),)})
    settings = Objectworld(quick=True, only=("tune",), size=6, objects=6, workers=0, out=tmp_path)
    rows = objectworld.run(settings, progress=False).rows
    assert {row["experiment"] for row in rows} == {"tune"}


def test_with_the_other_discount_as_its_own_nothing_is_computed_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(objectworld, "QUICK", SMALL)
    settings = Objectworld(
        quick=True, only=("curve",), size=6, objects=6, discount=0.99, workers=0, out=tmp_path
    )
    rows = objectworld.run(settings, progress=False).rows
    assert len({json.dumps(row, sort_keys=True) for row in rows}) == len(rows)
    assert {row["discount"] for row in rows} == {0.99}


def test_a_second_run_computes_nothing(small, monkeypatch):
    result, settings = small

    def never(*_):
        raise AssertionError("computed again")

    monkeypatch.setattr(objectworld, "QUICK", SMALL)
    monkeypatch.setattr(objectworld, "GRIDS", GRIDS)
    monkeypatch.setattr(jobs, "in_turn", never)
    again = objectworld.run(settings, progress=False)
    assert again.rows == result.rows


def test_the_exact_policy_has_no_value_difference(small):
    rows = [r for r in small[0].rows if r["experiment"] == "table"]
    exact = [r for r in rows if r["method"] == "IAVI, exact policy"]
    assert {r["discount"] for r in exact} == {0.9, 0.99}
    for row in exact:
        assert abs(row["evd"]) < 1e-8
        assert row["reward_correlation"] > 0.999


def test_a_method_is_judged_by_the_reward_it_found_and_by_the_policy_it_assumed(small):
    rows = [r for r in small[0].rows if r["experiment"] == "table"]
    names = [r["method"] for r in rows]
    assert "MaxEnt" in names
    assert "MaxEnt, own policy" in names
    assert "IAVI, own policy" not in names


def test_in_the_world_as_it_was_nothing_returns_more_than_the_true_reward(small):
    rows = [r for r in small[0].rows if r["experiment"] == "transfer"]
    for change, discount in {(r["change"], r["discount"]) for r in rows}:
        here = [r for r in rows if (r["change"], r["discount"]) == (change, discount)]
        (best,) = (r["value"] for r in here if r["method"] == "true reward")
        for row in here:
            assert row["value"] <= best + 1e-9
            assert abs(row["evd"] - (best - row["value"])) < 1e-9


def test_the_exact_state_gauge_transfers_as_the_true_reward_does(small):
    rows = [r for r in small[0].rows if r["experiment"] == "transfer"]
    assert len(rows) > 20
    ours = [r for r in rows if r["method"] == "IAVI, exact policy, state gauge"]
    assert len({row["change"] for row in ours}) == 5
    for row in ours:
        assert row["evd"] < 1e-6


def test_smaller_sets_are_the_first_of_larger_ones():
    job = {"size": 4, "objects": 4, "discount": 0.9, "world": 0, "most": 64}
    many, few = (studies.demonstrations(job, n) for n in (64, 8))
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
    first = next(
        block
        for block in blocks(small[0].document)
        if isinstance(block, Table) and block.columns[-1].title == "paper: time"
    )
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


def claimed(evd):
    """What the claims of the curve are answered, by how they begin."""
    table = claims.claims(curve_rows(evd))
    return {line[0].split()[0]: line[1:] for line in table.rows}


FOUND = {
    "IAVI": {256: 3.0, 512: 0.5},
    "MaxEnt": {256: 6.0, 512: 6.0},
    "Deep MaxEnt": {256: 1.0, 512: 2.0},
    "BoltzmannMLE": {256: 1.05, 512: 0.5},
}


def test_the_paper_s_findings_are_told_with_our_numbers():
    said = claimed(FOUND)
    assert said["MaxEnt"] == (
        "it is worse than IAVI everywhere; than Deep MaxEnt everywhere",
        "yes",
    )
    assert said["Beyond"] == ("IAVI is below MaxEnt everywhere; Deep MaxEnt at 512", "yes")
    # The last "Deep MaxEnt" is the one that is unstable: it rises, and so does its deviation.
    assert said["Deep"][1] == "yes"
    assert "EVD² 1.00 at 256, 2.00 at 512" in said["Deep"][0]


def test_findings_that_do_not_show_are_denied():
    calm = claimed(FOUND | {"Deep MaxEnt": {256: 4.0, 512: 0.25}})
    assert calm["Deep"][1] == "no"
    assert calm["Beyond"] == ("IAVI is below MaxEnt everywhere; Deep MaxEnt at 256", "no")


def test_the_table_is_held_to_the_paper_s():
    def row(method, evd, seconds, iterations):
        job = {"world": 0, "discount": 0.9}
        values = {"evd": evd, "seconds": seconds, "iterations": iterations}
        return studies.row(job, "table", method, **values)

    rows = [
        row("IAVI", 0.001, 0.01, 1),
        row("IQL", 0.001, 9.0, 240),
        row("IQL, paper's rates", 0.01, 8.0, 200),
        row("MaxEnt", 2.0, 0.3, 150),
        row("MaxEnt, single step", 2.0, 0.1, 140),
    ]
    said = [line[1:] for line in claims.claims(rows).rows]
    assert said[0] == ("EVD 0.001, 0.010 and 2.000", "yes")
    assert said[1][1] == "partly"
    assert said[2][1] == "no"


def test_without_rows_to_tell_of_nothing_is_claimed():
    assert claims.claims([]) is None
    assert claims.aimed({}) is None
    assert claims.aimed(claims.measured(curve_rows({"MaxEnt": {8: 1.0}}), "curve")) is None


def aim_of(evd):
    return claims.aimed(claims.measured(curve_rows(evd), "curve"))


def test_the_aim_is_said_to_be_reached_by_whoever_reaches_it():
    said = aim_of(FOUND)
    assert "is reached: BoltzmannMLE has at most 1.05 times" in said.caption
    assert "(at 256 trajectories)" in said.caption
    assert [line[2] for line in said.rows] == ["Deep MaxEnt", "IAVI"]


def test_an_aim_that_was_missed_is_said_to_be_missed():
    said = aim_of({"IAVI": {8: 3.0, 16: 1.0}, "Deep MaxEnt": {8: 1.0, 16: 1.0}})
    assert "is missed: IAVI has at most 3.00 times" in said.caption
    assert said.rows[0][-1] == "0 of 2"
    assert not said.rows[0][4].best
    assert said.rows[1][4].best


def test_methods_are_compared_world_by_world():
    """Ours is always 0.9 times the other, in worlds that differ much: the interval knows it."""
    hard = np.array([1.0, 5.0, 20.0, 100.0])
    squared = {"IAVI": {8: 0.9 * hard}, "MaxEnt": {8: hard}}
    (found,) = claims.compared(squared, "IAVI")
    assert (found.other, found.wins, found.worlds) == ("MaxEnt", 4, 4)
    np.testing.assert_allclose([found.ratio, found.low, found.high], 0.9)


def test_learning_rates_make_a_line_or_a_surface(small):
    rows = [r for r in small[0].rows if r["experiment"] == "tune"]
    chart, surface = findings.tune(rows)
    assert [list(series.x) for series in chart.series] == [[0.01, 0.1]]
    assert [line[0] for line in surface.rows] == ["0.01", "0.1", "1e+09"]
    cells = [cell.text for line in surface.rows for cell in line[1:]]
    assert cells[-1] == "–"  # it diverged
    known = [float(text) for text in cells if text != "–"]
    assert len(known) == 3
    best = [float(cell.text) for line in surface.rows for cell in line[1:] if cell.best]
    assert best == [min(known)]


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
