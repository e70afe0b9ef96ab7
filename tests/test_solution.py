"""Solutions: what they answer, how they are brought to another gauge, and how they are kept."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import scipy.sparse as sp

import inverseq as iq
from inverseq import planning, worlds
from inverseq.algorithms import IAVI, IQL
from inverseq.demonstrations import Additive, Demonstrations
from inverseq.errors import InvalidInput, NotIdentified
from inverseq.gauges import Features, Reference, StateOnly, Uniform, Zero
from inverseq.solution import Info, Solution, Tables, plain
from inverseq.task import Constraint, Task

Q = np.array([[0.0, np.log(3), -np.inf], [1.0, 1.0, 1.0], [2.0, -np.inf, -np.inf]])
CAN = np.isfinite(Q)
SAFE = np.array([[True, False, False], [False, True, True], [False, False, False]])
QC = np.array([[5.0, 9.0, -np.inf], [7.0, np.log(2), np.log(6)], [-np.inf] * 3])
REWARD = np.array([[1.0, 2.0, 0.0], [3.0, 4.0, 5.0], [6.0, 0.0, 0.0]])
ALL = [0, 1, 2]


def bare(temperature=1.0):
    return Solution(Tables(REWARD.copy(), Q.copy(), CAN.copy()), temperature, Info("hand"))


def constrained(temperature=1.0):
    tables = Tables(REWARD.copy(), Q.copy(), CAN.copy(), SAFE.copy(), QC.copy())
    return Solution(tables, temperature, Info("hand", task={"constraints": ["limit"]}))


def objectworld():
    world = worlds.objectworld(5, 6, seed=0)
    return world, world.demonstrations(200, 8, seed=0)


def limit(world, seed=0):
    """A constraint that leaves viable actions everywhere."""
    cost = np.random.default_rng(seed).random((world.task.n_states, world.task.n_actions))
    cost[:, -1] = 0
    return Constraint(cost, 0.6, name="limit")


# -- questions -----------------------------------------------------------------------------------


def test_answers_without_constraints_by_hand():
    found = bare()
    rows = [2, 0, 0]
    assert np.array_equal(found.reward(rows), REWARD[rows])
    assert np.array_equal(found.q(rows), Q[rows])
    assert np.array_equal(found.value(rows), [2, np.log(3), np.log(3)])
    assert found.predict_proba(ALL) == pytest.approx(
        np.array([[0.25, 0.75, 0], [1 / 3, 1 / 3, 1 / 3], [1, 0, 0]])
    )
    assert np.array_equal(found.predict_proba(ALL), found.predict_proba(ALL, constrained=False))
    assert found.predict(ALL).tolist() == [1, 0, 0]
    assert np.array_equal(found.reward_table, REWARD)
    assert np.array_equal(found.q_table, Q)
    assert np.array_equal(found.value_table, [np.log(3), 1, 2])
    assert np.array_equal(found.safe_table, CAN)
    assert np.array_equal(found.policy_table, found.predict_proba(ALL))
    assert found.visited is None


def test_answers_under_constraints_by_hand():
    found = constrained()
    assert np.array_equal(found.q_constrained(ALL), QC)
    assert np.array_equal(found.q_constrained_table, QC)
    assert np.array_equal(found.value_constrained(ALL), [5, np.log(6), -np.inf])
    assert np.array_equal(found.value(ALL), bare().value(ALL))
    assert found.predict_proba(ALL) == pytest.approx(
        np.array([[1, 0, 0], [0, 0.25, 0.75], [0, 0, 0]])
    )
    assert found.predict_proba(ALL)[~SAFE].tolist() == [0] * 6
    assert found.predict([1, 0]).tolist() == [2, 0]
    assert np.array_equal(found.safe_table, SAFE)
    assert np.array_equal(found.policy_table, found.predict_proba(ALL))
    theirs = found.predict_proba(ALL, constrained=False)
    assert np.array_equal(theirs, bare().predict_proba(ALL))
    assert found.predict(ALL, constrained=False).tolist() == [1, 0, 0]


def test_without_constraints_there_are_no_constrained_values():
    message = (
        r"must come from a task with constraints; this one had none\. Fit with `task\.constrain"
    )
    for ask in (
        lambda: bare().q_constrained(ALL),
        lambda: bare().value_constrained(ALL),
        lambda: bare().q_constrained_table,
    ):
        with pytest.raises(InvalidInput, match=message):
            ask()


def test_a_state_with_no_way_out_has_no_best_action():
    found = constrained()
    message = r"state 2 \(row 1\) has none under the constraints\."
    with pytest.raises(InvalidInput, match=message):
        found.predict([0, 2, 1, 2])
    assert found.predict_proba([2]).tolist() == [[0, 0, 0]]
    assert found.predict([2], constrained=False).tolist() == [0]


def test_policies_are_at_the_temperature():
    warm = bare(temperature=2.0).predict_proba([0])[0]
    assert warm[1] / warm[0] == pytest.approx(np.sqrt(3))
    cold = constrained(temperature=0.5).predict_proba([1])[0]
    assert cold[2] / cold[1] == pytest.approx(9)


def test_scores_by_hand():
    seen = Demonstrations([0, 0, 1], [0, 1, 2], [0, 1, 2])
    logs = np.log([0.25, 0.75, 1 / 3])
    assert bare().score(seen) == pytest.approx(logs.mean())
    weighted = Demonstrations([0, 0, 1], [0, 1, 2], [0, 1, 2], weights=[2, 0, 1])
    assert bare().score(weighted) == pytest.approx((2 * logs[0] + logs[2]) / 3)
    # Action 1 is forbidden in state 0; where it weighs nothing it is as if it were not there.
    assert constrained().score(seen) == -np.inf
    assert constrained().score(seen, constrained=False) == pytest.approx(logs.mean())
    assert constrained().score(weighted) == pytest.approx(np.log(0.75) / 3)
    nowhere = Demonstrations([2], [0], [2])
    assert constrained().score(nowhere) == -np.inf
    unavailable = Demonstrations([2], [1], [2])
    assert bare().score(unavailable) == -np.inf


def test_the_arrays_are_read_only_and_the_answers_are_not():
    world, seen = objectworld()
    task = world.task.constrain(limit(world))
    for found in (constrained(), IAVI().fit(seen, task), IQL(tolerance=1).fit(seen, task)):
        for name, array in found.tables.arrays().items():
            assert not array.flags.writeable, name
        for array in (
            found.reward_table,
            found.q_table,
            found.q_constrained_table,
            found.safe_table,
        ):
            with pytest.raises(ValueError, match="read-only"):
                array[0, 0] = 1
        before = found.q(ALL)
        found.q(ALL)[:] = 7
        found.reward(ALL)[:] = 7
        found.value_table[:] = 7
        found.policy_table[:] = 7
        assert np.array_equal(found.q(ALL), before)
        with pytest.raises(dataclasses.FrozenInstanceError):
            found.temperature = 2


def test_tables_are_of_one_shape():
    with pytest.raises(
        InvalidInput,
        match=r"`Tables.updates` must have the shape of `q`, \(3, 3\); it has \(2, 3\)\.",
    ):
        Tables(REWARD.copy(), Q.copy(), CAN.copy(), updates=np.zeros((2, 3), int))


def test_unvisited_states_are_marked():
    task = Task(2, 0.9, n_states=4)
    seen = Demonstrations([0, 2, 2], [1, 0, 1], [2, 2, 0], weights=[1, 1, 0])
    for found in (IAVI().fit(seen, task), IQL(tolerance=1).fit(seen, task)):
        assert found.visited.tolist() == [True, False, True, False]
        assert found.info.unvisited_states == 2
        assert found.policy_table[[1, 3]].tolist() == [[0.5, 0.5]] * 2
    model = np.full((4, 2, 4), 0.25)
    exact = IAVI().solve(np.full((4, 2), 0.5), Task(2, 0.9, transitions=model))
    assert exact.visited is None
    assert exact.info.unvisited_states is None


def test_a_solution_says_what_it_is():
    assert repr(bare()) == "Solution(hand: 3 states, 3 actions, gauge )"
    world, seen = objectworld()
    found = IAVI(gauge=StateOnly()).fit(seen, world.task.constrain(limit(world)))
    assert repr(found) == (
        "Solution(IAVI: 25 states, 5 actions, gauge StateOnly(), constrained by limit)"
    )
    anchored = IAVI(gauge=Reference(world.expert(), np.zeros(25))).fit(seen, world.task)
    assert repr(anchored) == (
        "Solution(IAVI: 25 states, 5 actions, "
        "gauge Reference(policy=table (25, 5), value=table (25,)))"
    )


# -- another gauge -------------------------------------------------------------------------------

EXACT = [Uniform(), Reference(0, 2.0), Reference(4), Zero()]


@pytest.mark.parametrize("backup", ["max", "soft", "max_of_mean"])
@pytest.mark.parametrize("target", EXACT)
@pytest.mark.parametrize("source", EXACT)
def test_any_exact_gauge_leads_to_any_other(source, target, backup):
    world, _ = objectworld()
    expert = world.expert()
    direct = IAVI(gauge=target, backup=backup).solve(expert, world.task)
    around = IAVI(gauge=source).solve(expert, world.task).regauge(target, world.task, backup=backup)
    assert np.allclose(around.reward_table, direct.reward_table, rtol=0, atol=1e-9)
    assert np.allclose(around.q_table, direct.q_table, rtol=0, atol=1e-9)
    assert np.allclose(around.policy_table, expert, rtol=0, atol=1e-10)
    assert around.info.gauge == repr(target)
    assert around.info.backup == backup


@pytest.mark.parametrize("gauge", [Uniform(), Reference(2, 0.5), Zero(), StateOnly()])
def test_inverse_q_learning_in_a_stated_gauge_is_the_closed_form(gauge):
    world = worlds.ring(stay=True)
    seen = world.demonstrations(300, 10, seed=0)
    task = world.task
    exact = IAVI(gauge=gauge).fit(seen, task)
    sampled = IQL(tolerance=1e-9, epochs=20_000).fit(seen, task)
    assert np.abs(sampled.reward_table - exact.reward_table).max() > 0.1
    found = sampled.regauge(gauge, task)
    assert np.allclose(found.reward_table, exact.reward_table, atol=1e-4)
    assert np.allclose(found.q_table, exact.q_table, atol=1e-4)
    assert found.info.algorithm == "IQL"
    assert found.info.seed == 0
    assert np.array_equal(found.tables.visits, sampled.tables.visits)


def test_the_state_gauge_of_an_expert_is_the_true_reward():
    world, _ = objectworld()
    found = IAVI().solve(world.expert(), world.task).regauge(StateOnly(), world.task)
    truth = world.reward - world.reward.mean()
    assert np.allclose(found.reward_table, truth[:, None], atol=1e-7)
    assert found.info.unidentified_dimensions == 1
    assert found.info.residual < 1e-9


def test_a_gauge_changes_no_behaviour_at_any_temperature():
    world = worlds.objectworld(5, 6, seed=0, temperature=0.5)
    found = IAVI().solve(world.expert(), world.task)
    assert np.allclose(found.policy_table, world.expert(), atol=1e-10)
    for temperature in (0.5, 1.0, 3.0):
        elsewhere = dataclasses.replace(world.task, temperature=temperature)
        for gauge in EXACT:
            moved = found.regauge(gauge, elsewhere)
            assert moved.temperature == temperature
            assert np.allclose(moved.policy_table, world.expert(), rtol=0, atol=1e-10)
            assert np.allclose(
                moved.reward_table,
                IAVI(gauge=gauge).solve(world.expert(), elsewhere).reward_table,
                atol=1e-9,
            )


def test_a_gauge_changes_no_constrained_behaviour():
    world, _ = objectworld()
    task = world.task.constrain(limit(world))
    truth = planning.solve(world.reward, task)
    for gauge in EXACT:
        found = IAVI().solve(world.expert(), world.task).regauge(gauge, task)
        assert np.allclose(found.policy_table, truth.policy, atol=1e-9)
        assert np.array_equal(found.safe_table, truth.safe)


def test_another_gauge_keeps_the_backup_unless_another_is_named():
    world, _ = objectworld()
    found = IAVI(backup="soft").solve(world.expert(), world.task)
    direct = IAVI(gauge=Zero(), backup="soft").solve(world.expert(), world.task)
    moved = found.regauge(Zero(), world.task)
    assert moved.info.backup == "soft"
    assert np.allclose(moved.reward_table, direct.reward_table, rtol=0, atol=1e-9)
    assert found.regauge(Zero(), world.task, backup="max").info.backup == "max"


@pytest.mark.parametrize("backup", ["max", "soft"])
def test_values_are_what_the_action_values_were_made_of(backup):
    """Bellman's equation: r + discount E[V] = Q, and the same under constraints."""
    world = worlds.objectworld(5, 6, seed=0, temperature=0.5)
    task = dataclasses.replace(world.task, terminal=[7]).constrain(limit(world))
    for gauge in (*EXACT, StateOnly()):
        found = IAVI(gauge=gauge, backup=backup).solve(world.expert(), task)
        goes_on = np.arange(25) != 7
        v, v_c = found.value_table, found.value_constrained(np.arange(25))
        follows = task.discount * task.continuing.expect(v)
        assert np.allclose((found.reward_table + follows - found.q_table)[goes_on], 0, atol=1e-8)
        follows = task.discount * task.continuing.expect(v_c)
        off = found.reward_table + follows - found.q_constrained_table
        assert np.allclose(off[goes_on], 0, atol=1e-8)
        assert np.allclose([v[7], v_c[7]], 0, atol=1e-12)


def test_regauging_leaves_the_solution_as_it_was():
    world, seen = objectworld()
    found = IAVI().fit(seen, world.task)
    before = {name: array.copy() for name, array in found.tables.arrays().items()}
    found.regauge(Zero(), world.task)
    for name, array in found.tables.arrays().items():
        assert np.array_equal(array, before[name])


# -- files ---------------------------------------------------------------------------------------


def solutions():
    world, seen = objectworld()
    n = world.task.n_states
    task = world.task.constrain(limit(world))
    gauges = [
        Uniform(), Reference(1, 0.5), Reference(world.expert(), np.arange(float(n))), Zero(),
        StateOnly(), Features(world.features), Features(np.random.default_rng(0).random((n, 5, 2))),
        Features(sp.csr_array(world.features)),
    ]  # fmt: skip
    found = {
        f"IAVI {i} {g!r}": IAVI(gauge=g).fit(seen, t) for i, g in enumerate(gauges) for t in [task]
    }
    found["bare"] = IAVI().solve(world.expert(), world.task)
    found["sweeps"] = IAVI(solver="sweeps", tolerance=1e-3).fit(seen, task)
    found["IQL"] = IQL(tolerance=0.1).fit(seen, task, seed=3)
    found["IQL, paper"] = IQL.paper(tolerance=1).fit(seen, world.task)
    found["IQL, online"] = IQL(online=True, centred=True, tolerance=1).fit(seen, task)
    found["IQL, stream"] = IQL().partial_fit(seen, task)
    found["regauged"] = found["IQL"].regauge(Zero(), task)
    found["by hand"] = constrained()
    found["strange"] = dataclasses.replace(
        bare(),
        info=Info("strange", residual=float("inf"), change=(float("nan"), float("inf"), 0.1 + 0.2)),
    )
    return found


@pytest.fixture(scope="module")
def kept():
    return solutions()


NAMES = [
    "bare", "sweeps", "IQL", "IQL, paper", "IQL, online", "IQL, stream", "regauged", "by hand",
    "strange",
]  # fmt: skip


def same(a, b):
    """Whether two solutions are equal to the last bit."""
    x, y = a.tables.arrays(), b.tables.arrays()
    assert x.keys() == y.keys()
    for name in x:
        assert (x[name].dtype, x[name].shape) == (y[name].dtype, y[name].shape), name
        assert x[name].tobytes() == y[name].tobytes(), name
    assert a.temperature == b.temperature
    assert repr(a.info) == repr(b.info)  # NaN is not equal to itself
    assert repr(a) == repr(b)


@pytest.mark.parametrize("name", [*NAMES, "gauges"])
def test_what_was_saved_comes_back_to_the_last_bit(kept, tmp_path, name):
    for key, found in kept.items():
        if key != name and not (name == "gauges" and key.startswith("IAVI")):
            continue
        found.save(tmp_path / "found")
        same(iq.load(tmp_path / "found"), found)
        back = Solution.load(str(tmp_path / "found"))
        same(back, found)
        back.save(tmp_path / "again")
        for file in ("solution.json", "arrays.safetensors"):
            assert (tmp_path / "again" / file).read_bytes() == (
                tmp_path / "found" / file
            ).read_bytes()
        assert all(not array.flags.writeable for array in back.tables.arrays().values())


def test_what_was_kept_goes_on_as_before(kept, tmp_path):
    world, seen = objectworld()
    task = world.task.constrain(limit(world))
    kept["IQL, stream"].save(tmp_path / "found")
    more = world.demonstrations(20, 8, seed=9)
    direct = IQL().partial_fit(more, task, kept["IQL, stream"])
    later = IQL().partial_fit(more, task, iq.load(tmp_path / "found"))
    for name, array in direct.tables.arrays().items():
        assert array.tobytes() == later.tables.arrays()[name].tobytes()
    assert len(seen) == 1600


def test_the_record_is_plain_data_for_every_gauge(kept):
    for key, found in kept.items():
        record = plain(dataclasses.asdict(found.info))
        assert json.loads(json.dumps(record, allow_nan=False)) == record, key
        settings = found.info.settings
        assert json.loads(json.dumps(settings, allow_nan=False)) == settings, key
    settings = {k: v.info.settings["gauge"] for k, v in kept.items() if k.startswith("IAVI")}
    assert [gauge["is"] for gauge in settings.values()] == (
        ["Uniform", "Reference", "Reference", "Zero", "StateOnly"] + ["Features"] * 3
    )
    tables = [settings[key] for key in settings if "Reference" in key]
    assert tables[0] == {"is": "Reference", "policy": 1, "value": 0.5}
    assert tables[1]["policy"]["array"] == [25, 5]
    assert len(tables[1]["policy"]["sha256"]) == 64


def test_the_record_says_what_was_assumed(kept):
    info = kept["IQL"].info
    assert info.task == {
        "n_actions": 5, "discount": 0.9, "temperature": 1.0, "constraints": ["limit"],
    }  # fmt: skip
    assert info.algorithm == "IQL"
    assert info.seed == 3
    assert info.converged
    assert info.iterations == len(info.change)
    assert info.change[-1] < 0.1
    assert info.seconds > 0
    assert set(info.versions) == {"inverseq", "numpy", "python"}
    assert info.settings["smoothing"] == {"is": "Additive", "k": 1e-3}
    assert kept["sweeps"].info.solver == "sweeps"
    assert kept["sweeps"].info.change[0] > kept["sweeps"].info.change[-1]


def test_settings_become_plain_data():
    assert plain(np.float32(0.5)) == 0.5
    assert plain(np.array(3)) == 3
    assert plain((1, [np.int64(2)], {3: None})) == [1, [2], {"3": None}]
    assert plain([np.inf, -np.inf, np.nan]) == ["inf", "-inf", "nan"]
    assert plain(Additive(0.5)) == {"is": "Additive", "k": 0.5}
    assert plain(Additive) == "<class 'inverseq.demonstrations.Additive'>"
    table = plain(np.eye(2))
    assert table == plain(np.asfortranarray(np.eye(2)))
    assert table != plain(2 * np.eye(2))


def test_what_cannot_be_identified_is_said():
    world = worlds.ring()
    with pytest.warns(NotIdentified, match=r"StateOnly\(\) is not identified: 2 directions"):
        found = IAVI().solve(world.expert(), world.task).regauge(StateOnly(), world.task)
    assert found.info.unidentified_dimensions == 2
