"""`inverseq drive`: who may drive, what comes out, and how it refuses."""

import json
import re
import sys
from importlib.util import find_spec

import numpy as np
import pytest

import inverseq as iq
from inverseq import cli
from inverseq.experiments.drive import driven, driver
from inverseq.nets import MLP, DeepSets
from inverseq.solution import Info, Networks, Solution, assumptions
from inverseq.worlds import highway
from inverseq.worlds.highway import policies

needs_sumo = pytest.mark.skipif(
    find_spec("libsumo") is None or find_spec("gymnasium") is None,
    reason="libsumo is not installed (extra `sumo`)",
)
needs_jax = pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed")
RULES = (highway.safety(), highway.keep_right())


def saved(folder, constraints=(), available=None, inputs=131, n_actions=3):
    """A solution with networks that nobody trained."""
    import jax

    net = MLP(hidden=(4,))
    if inputs == 131:
        net = DeepSets(members=32, features=3, static=3, encoder=(4,), decoder=(4,), head=(4,))
    task = iq.Task(n_actions, 0.99, available=available, constraints=constraints)
    names = ["q", "q_constrained"] if constraints else ["q"]
    params = {
        name: net.init(jax.random.key(i), inputs, n_outputs=n_actions)
        for i, name in enumerate(names)
    }
    scaling = np.stack([np.zeros(inputs), np.ones(inputs)]).astype(np.float32)
    found = Networks(net, params, scaling, n_actions, 1.0, 0.99, bool(constraints), bool(available))
    Solution(found, 1.0, Info("DIQL", task=assumptions(task))).save(folder)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Solutions: of the highway, with and without rules, and of other worlds."""
    pytest.importorskip("jax")
    folder = tmp_path_factory.mktemp("solutions")
    saved(folder / "expert", available=highway.safety().allows)
    saved(folder / "diql")
    saved(folder / "dciql", RULES)
    saved(folder / "polite", (iq.Constraint(np.zeros_like, 0.5, name="be polite"),))
    saved(folder / "cartpole", inputs=4)
    saved(folder / "two", n_actions=2)
    ring = np.stack([np.eye(2), np.eye(2)[::-1]], axis=1)
    task = iq.Task(2, 0.9, transitions=ring)
    iq.IAVI().solve(np.full((2, 2), 0.5), task).save(folder / "table")
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "`solutions` must name at least one: the folder of a saved solution, or one of right"),
        (["nowhere"], "some of right, keep, left, random, greedy; nowhere is neither."),
        (["nowhere+rules"], "nowhere is neither"),
        (["greedy", "--scenario", "60"], "a seed, such as 60:0; got '60'"),
        (["greedy", "--scenario", "-1:0"], "such as 60:0; got '-1:0'"),
        (["greedy", "--scenario", "121:0"], "`Scenario.n` must be an integer from 0 to 120"),
        (["greedy", "--decisions", "0"], "`Highway.decisions` must be an integer from 1 to 10000"),
        (["greedy", "--out", "."], "`out` must be a file, such as drive.html; . is a folder"),
        (["greedy", "--titles", "a", "b"], "one for each of 1 solutions; got 2"),
    ],
)
def test_what_cannot_be_driven_is_one_clear_sentence_and_exit_code_2(
    arguments, message, tmp_path, monkeypatch, capsys
):
    refused(["drive", *arguments], message, tmp_path, monkeypatch, capsys)


@needs_jax
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cartpole", "rows of 131 numbers with 3 actions; the states of cartpole are rows of 4 "),
        ("two", "the states of two are rows of 131 numbers with 2 actions"),
        ("table", "the states of table are a table with 2 actions"),
        ("polite", "that of polite has a constraint 'be polite', which was not saved"),
        ("broken", "broken"),
    ],
)
def test_a_solution_of_something_else_is_one_clear_sentence_and_exit_code_2(
    name, message, folders, monkeypatch, capsys
):
    (folders / "broken").mkdir(exist_ok=True)
    (folders / "broken" / "solution.json").write_text("{")
    refused(["drive", "greedy", name], message, folders, monkeypatch, capsys)


def refused(arguments, message, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert cli.main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("inverseq: ")
    assert said.err.count("\n") == 1
    assert message in said.err
    assert not (folder / "drive.html").exists()


def test_without_sumo_one_is_told_how_to_install_it_once_all_else_is_right(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "libsumo", None)
    refused(["drive", "nowhere"], "nowhere is neither", tmp_path, monkeypatch, capsys)
    refused(["drive", "greedy"], "pip install 'inverseq[sumo]'", tmp_path, monkeypatch, capsys)


# -- who drives ---------------------------------------------------------------------------------


def rows(n=60):
    rng = np.random.default_rng(0)
    return np.array(
        [
            highway.observe(rng.random(40) * 1000, rng.integers(3, size=40), rng.random(40) * 20)
            for _ in range(n)
        ]
    )


@needs_jax
def test_a_solution_drives_by_what_it_learned_under_its_rules(folders):
    states = rows()
    safe = highway.safety().allows(states)
    ruled = np.logical_and(*(rule.allows(states) for rule in RULES))
    each = np.arange(len(states))

    free = driver(str(folders / "diql"))
    learned = iq.load(folders / "diql")
    np.testing.assert_array_equal(free.values(states), learned.q(states))
    best = np.where(safe, learned.q(states), -np.inf).argmax(axis=1)
    np.testing.assert_array_equal(free.policy(states, safe), best)
    assert not ruled[each, best].all(), "there would be nothing to obey"

    bound = driver(str(folders / "dciql"))
    assert ruled[each, bound.policy(states, safe)].all()
    learned = iq.load(folders / "dciql", iq.Task(3, 0.99, constraints=RULES))
    np.testing.assert_array_equal(bound.values(states), learned.q_constrained(states))

    obeying = driver(str(folders / "diql+rules"))
    assert obeying.title == "diql, obeying"
    assert ruled[each, obeying.policy(states, safe)].all()
    np.testing.assert_array_equal(obeying.values(states), free.values(states))

    expert = driver(str(folders / "expert"))
    assert np.isneginf(expert.values(states)[~safe]).all()
    assert np.isfinite(expert.values(states)[safe]).all()


@needs_jax
def test_a_folder_is_meant_before_a_driver_of_its_name(folders, monkeypatch):
    monkeypatch.chdir(folders)
    assert driver("greedy").policy is policies.greedy
    saved(folders / "greedy")
    assert isinstance(driver("greedy").policy, policies.Learned)
    saved(folders / "odd+rules")
    assert driver("odd+rules").title == "odd+rules"


# -- with SUMO ----------------------------------------------------------------------------------


@needs_sumo
@needs_jax
def test_a_drive_is_a_page_and_its_numbers(folders, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(folders)
    page = tmp_path / "deep" / "page.html"
    given = ["drive", "dciql", "random", "random", "--scenario", "45:3", "--traffic", "T1"]
    given += ["--decisions", "6", "--out", str(page)]
    assert cli.main([*given, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["scenario"] == {"traffic": "T1", "n": 45, "seed": 3}
    assert said["page"] == str(page)
    assert [row["policy"] for row in said["rows"]] == ["dciql", "random (1)", "random (2)"]
    assert said["rows"][1] == said["rows"][2] | {"policy": "random (1)"}
    first = page.read_bytes()
    traces = json.loads(re.search(r'id="data">(.*?)</script>', first.decode())[1])["traces"]
    assert [len(trace["steps"]) for trace in traces] == [6, 6, 6]
    assert traces[0]["steps"][0]["q"] is not None
    assert traces[1]["steps"][0]["q"] is None
    assert all(step["safe_kr"][step["a"]] for step in traces[0]["steps"])

    assert cli.main([*given, "--titles", "DCIQL", "[/]", "<other>"]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1] == f"Page: {page}"
    for word in ("DCIQL", "[/]", "<other>", "against keep right", "seed 3"):
        assert word in shown
    assert b"&lt;other&gt;</h2>" in page.read_bytes()


@needs_sumo
def test_the_numbers_of_a_drive_are_those_of_rollouts():
    scenario = highway.Scenario("T2", 30, 1)
    trace = highway.record_trace(scenario, policies.random, decisions=30)
    seen = highway.rollouts([scenario], policies.random, decisions=30, workers=0)
    found = driven("random", trace)
    assert found.speed == pytest.approx(seen.speeds.mean(), abs=0.05)  # decimetres per second
    assert found.lane_changes == (seen.actions != 0).sum() > 0
    assert found.keep_right == seen.keep_right.sum()
    assert (found.unsafe, found.collisions) == (0, 0)
