"""The highway experiment: who is made for whom, what is kept, and what is said of the results."""

import json
import re
import shutil
from itertools import product

import numpy as np
import pytest

from inverseq.demonstrations import Demonstrations
from inverseq.errors import InvalidInput
from inverseq.experiments import highway
from inverseq.experiments.highway import plan, stages
from inverseq.experiments.highway.findings import document, gains, interval, verdicts
from inverseq.experiments.highway.plan import AGENTS, FULL, QUICK, Plan
from inverseq.report import Chart, Maps, Section, Still, Table, Text, load_run
from inverseq.solution import load
from inverseq.worlds.highway import policies

SMALL = QUICK._replace(
    expert_episodes=1, shown_episodes=1, iterations=12, milestones=(5,), each=1, few=1
)
TASKS = ("agents", "iterations", "samples")

# -- the plan --------------------------------------------------------------------------------------


def test_everybody_is_tried_as_often_as_is_said():
    trials = list(Plan(FULL, range(5)).trials())
    by_study = {name: [t for t in trials if t["experiment"] == name] for name in TASKS}
    ours = 5 * 2 * len(AGENTS)
    with_the_papers_rates = 5 * 2 * sum("cloning" not in name for name in AGENTS)
    assert len(by_study["agents"]) == ours + with_the_papers_rates
    assert len(by_study["samples"]) == 4 * 2
    assert len(by_study["iterations"]) == 2 * 5 * 4 * 5
    assert all(t["each"] == 20 for t in by_study["agents"])


def test_all_demonstrations_are_those_of_one_expert():
    made = Plan(FULL, range(5))
    experts = [data["expert"] for data in made.demonstrations]
    assert experts == [made.expert] * 2
    assert made.expert["learner"] == "DQN"
    assert not any(data["expert"] for data in made.expert["data"])
    shown = sum(part["episodes"] for part in plan.parts_of(made.demonstrations))
    assert shown * stages.DECISIONS == 50_000
    collected = sum(part["episodes"] for part in plan.parts_of(made.collected))
    assert collected * stages.DECISIONS == 500_000


def test_one_training_serves_all_who_come_from_it():
    trainings = plan.grouped(trial["agent"] for trial in Plan(FULL, range(5)).trials())
    # DIQL, zero gauge, DQN twice, each with two rates; cloning with one; and four for the samples.
    assert len(trainings) == 5 * (4 * 2 + 1) + 4 * 2
    followed = [numbers for job, numbers in trainings if job["learner"] == "DIQL"]
    assert [1_000, 3_000, 10_000, 30_000, 100_000] in followed


def test_some_steps_are_neighbours_and_other_seeds_have_others():
    states = np.arange(600.0)[:, None]
    seen = Demonstrations(states, np.zeros(600, int), states + 1, episodes=np.arange(600) // 100)
    few = [stages.some(seen, 10, seed).states[:, 0] for seed in range(8)]
    for found in few:
        assert found[0] % 100 == 0
        np.testing.assert_array_equal(np.diff(found), 1)
    assert len({found[0] for found in few}) > 1
    many = stages.some(seen, 550, 1).states[:, 0]
    assert len(many) == 550
    assert stages.some(seen, None, 0) is seen


def test_a_wavering_driver_does_what_is_safe():
    wavering = policies.Wavering(policies.left, 0.5)
    safe = np.array([[True, True, False], [True, False, False], [True, True, True]])
    shares = wavering(np.zeros((3, 131)), safe)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert (shares[~safe] == 0).all()
    np.testing.assert_allclose(shares[0], [0.25, 0.75, 0.0])
    drawn = policies.Wavering(policies.random, 0.5)(np.zeros((3, 131)), safe)
    np.testing.assert_allclose(drawn, policies.random(None, safe))


def test_what_an_interrupt_left_is_not_kept_as_a_solution(tmp_path, monkeypatch):
    data = {"expert": None, "wavers": False, "seed": 0, "episodes": 1}
    path = stages.driven(str(tmp_path), *stages.shards(data))
    path.parent.mkdir(parents=True)
    states = np.zeros((20, 131))
    Demonstrations(states, np.zeros(20, int), states, rewards=np.ones(20)).save(path)
    job = {"learner": "DQN", "rates": "ours", "seed": 0, "samples": None, "data": [data]}
    # An interrupted fit ends with fewer iterations than it was asked for.
    short = {"DQN": lambda rates, n: stages.dqn(rates, min(n, 3))}
    monkeypatch.setattr(stages, "LEARNERS", short)
    with pytest.raises(KeyboardInterrupt):
        stages.train(str(tmp_path), job, [3, 6])
    first, second = stages.solutions(str(tmp_path), job, [3, 6])
    assert (first.exists(), second.exists()) == (True, False)
    # It goes on where it was.
    monkeypatch.setattr(stages, "LEARNERS", {"DQN": stages.dqn})
    stages.train(str(tmp_path), job, [3, 6])
    assert load(second).info.iterations == 6


# -- a run -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A run that is small in everything."""
    folder = tmp_path_factory.mktemp("highway")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "QUICK", SMALL)
        settings = highway.Highway(quick=True, workers=2, out=folder)
        yield highway.run(settings, progress=False), settings


@pytest.mark.slow
def test_a_run_says_all_that_it_should_and_is_not_computed_twice(small, monkeypatch):
    result, settings = small
    said = result.plain()["rows"]
    assert {row["experiment"] for row in said} == set(TASKS)
    assert {row["method"] for row in said} == set(AGENTS)
    assert all(set(row) == set(highway.KEYS) for row in said)
    json.dumps(said, allow_nan=False)
    obeying = [row for row in said if row["method"].startswith(("DCIQL", "CDQN"))]
    assert obeying
    assert all(row["keep_right"] == row["safety"] == row["collisions"] == 0 for row in obeying)
    kinds = {type(block) for block in walk(result.document)}
    assert {Table, Chart, Maps, Still, Text} <= kinds
    assert "DCIQL" in (settings.out / stages.REPLAY).read_text(encoding="utf-8")
    assert load_run(settings.out).rows
    assert "keep right" in result.report.read_text(encoding="utf-8")

    # With the results of its trials, nobody is driven or trained again.
    for made in ("steps", "solutions"):
        shutil.rmtree(settings.out / made)
    monkeypatch.setattr(plan, "QUICK", SMALL)
    again = highway.run(settings, progress=False)
    assert again.plain() == result.plain()
    assert not (settings.out / "solutions").exists()


def walk(holder):
    for block in holder.blocks:
        yield block
        if isinstance(block, Section):
            yield from walk(block)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"only": ("agent",)}, "got 'agent'"),
        ({"rates": ("theirs",)}, "got 'theirs'"),
        ({"seeds": 0}, "got 0"),
        ({"workers": 0}, "got 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(InvalidInput, match=message):
        highway.Highway(**settings)


# -- what is said ----------------------------------------------------------------------------------


def results(speed_of, breaches_of=lambda method: 0, seeds=3, scenarios=40):
    """Rows as a run has them, with speeds by method, seed and scenario."""
    rng = np.random.default_rng(0)
    traffic = rng.normal(size=scenarios)
    for method, seed, where in product(AGENTS, range(seeds), ("T1", "T2")):
        speeds = speed_of(method) + traffic + 0.01 * rng.normal(size=scenarios)
        yield {
            "experiment": "agents", "method": method, "rates": "ours", "seed": seed,
            "samples": None, "iterations": 10, "traffic": where, "speed": speeds.mean(),
            "decisions": 100 * scenarios, "vehicles": [30] * scenarios, "speeds": speeds.tolist(),
            "keep_right": breaches_of(method), "safety": 0, "collisions": 0, "lane_changes": 0.1,
        }  # fmt: skip


def test_an_interval_holds_the_mean_and_grows_with_what_varies():
    rng = np.random.default_rng(1)
    between = rng.normal(size=(5, 1)) + np.zeros((5, 100))
    within = rng.normal(size=(5, 100))
    for each in between, within:
        found = interval(each)
        assert found.low <= found.mean <= found.high
    # Five seeds that differ say less than five hundred numbers that do.
    widths = [interval(each).high - interval(each).low for each in (between, within)]
    assert widths[0] > 3 * widths[1]


def test_verdicts_count_breaches_and_tell_the_share_of_the_experts_speed():
    fast = {"expert": 20.0, "DCIQL": 19.4, "DCIQL, zero gauge": 15.0}
    rows = list(results(lambda method: fast.get(method, 17.0)))
    text = list(verdicts(rows))
    assert "0 breaches and 0 collisions in 48,000 decisions" in text[0]
    assert re.search(r"^DCIQL: 0\.97\d .* at least 95%", text[1])
    assert re.search(r"^DCIQL, zero gauge: 0\.7\d\d .* less than 95%", text[2])
    broken = list(results(lambda method: 17.0, lambda method: 2 * (method == "DCIQL")))
    assert "12 breaches" in next(verdicts(broken))


def test_without_the_expert_no_share_of_its_speed_is_told():
    # The paper's rates alone: the expert that is imitated has ours.
    rows = [{**row, "rates": "paper"} for row in results(lambda method: 17.0)]
    said = list(verdicts(rows))
    assert "48,000 decisions" in said[0]
    assert said[1:] == [
        "The share of the expert's speed is not told: its rates, ours, were left out."
    ]


def test_the_table_of_gains_says_who_broke_the_rule():
    def note(breaking):
        table = gains(list(results(lambda method: 17.0, lambda method: int(method in breaking))))
        return table.notes[0]

    assert "of those in this table: nobody." in note(())
    assert "of those in this table: CDQN, expert." in note(("expert", "CDQN", "cloning"))


def test_gains_are_differences_whatever_their_sign():
    fast = {"DCIQL": 16.0, "DIQL, masked": 15.5, "expert, masked": 17.0}
    table = gains(list(results(lambda method: fast.get(method, 16.0))))
    lines = {row[0]: row[1] for row in table.rows}
    assert lines["DCIQL minus DIQL, masked"].startswith("+0.5")
    assert lines["DCIQL minus expert, masked"].startswith("-1.0")


def test_the_document_of_some_studies_leaves_out_the_others():
    rows = list(results(lambda method: 17.0))
    said = document(rows, None, [], 10, quick=False)
    titles = [block.title for block in said.blocks if isinstance(block, Section)]
    assert "Who drives how fast, and breaks which rule" in titles
    assert "What each place is worth" not in titles
