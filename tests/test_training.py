"""The loop of the deep algorithms: chunks, checkpoints, interrupts, divergence, memory, seeds."""

import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import jax
import numpy as np
import pytest

import inverseq as iq
from inverseq import training
from inverseq.algorithms import diql, dqn
from inverseq.demonstrations import Demonstrations
from inverseq.errors import DamagedFile, Diverged, InvalidInput, NotConverged
from inverseq.nets import MLP, DeepSets
from inverseq.task import Constraint, Task

pytestmark = pytest.mark.filterwarnings("ignore::inverseq.errors.NotConverged")
SMALL = MLP((8,), "tanh")


def rows(n=300, seed=0, n_actions=3, rewarded=True):
    """Steps over rows of two numbers."""
    rng = np.random.default_rng(seed)
    states, follows = rng.normal(size=(2, n, 2))
    return Demonstrations(
        states, rng.integers(n_actions, size=n), follows, terminated=rng.random(n) < 0.1,
        episodes=np.arange(n), rewards=rng.normal(size=n) if rewarded else None,
    )  # fmt: skip


def params_of(solution):
    return {name: jax.tree.leaves(part) for name, part in solution.found.params.items()}


def same(x, y):
    """Bit for bit."""
    one, other = params_of(x), params_of(y)
    assert one.keys() == other.keys()
    for name, arrays in one.items():
        for a, b in zip(arrays, other[name], strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), name


TASK = Task(3, 0.9)


def brief(**changes):
    return replace(iq.DIQL(iterations=300, batch_size=16, network=SMALL), **changes)


# -- one iteration ------------------------------------------------------------------------------


@pytest.mark.parametrize("centred", [False, True])
def test_a_table_as_a_network_takes_the_tabular_step(centred):
    """One state of four at a time, one sub-update after another, its targets copied after each."""
    from inverseq._kernels import plain_loop

    s, a, gamma, rates = 4, 3, 0.9, {"q_sh": 0.3, "r": 0.2, "q": 0.5, "q_c": 0.4}
    rng = np.random.default_rng(0)
    log_pi = np.log(rng.dirichlet(np.ones(a), size=s))
    safe = rng.random((s, a)) < 0.7
    safe[:, 0] = True
    tables = {name: rng.normal(size=(s, a)) for name in ("r", "q_sh", "q", "q_c")}
    steps = [rng.integers(s, size=20), rng.integers(a, size=20), rng.integers(s, size=20)]

    expected = {name: table.copy() for name, table in tables.items()}
    plain_loop(
        *steps, np.zeros(0), np.array([0]), 20, log_pi, np.zeros((s, a)),
        *(expected[name] for name in ("q_sh", "r", "q", "q_c")), np.zeros((s, a), int),
        np.ones((s, a), bool), safe,
        *(np.full(2, rates[name]) for name in ("q_sh", "r", "q", "q_c")),
        gamma, 0.0, 1.0, False, centred, True,
    )  # fmt: skip

    with jax.enable_x64(True):
        rule = diql.Rule(gamma, 1.0, 1e-9, True, False, centred, False, True)
        program = training.program(rule, MLP((), bias=False), "sgd", 1.0, 1, a)
        stack = np.stack([tables[name] for name in rule.names])
        # A table of one-hot states is its own matrix of weights.
        state = training.State(
            [(stack,)], [(stack,)], program.begin(jax.random.key(0), s).optimiser
        )
        for here, done, there in zip(*steps, strict=True):
            data = {
                "states": np.array([here]), "actions": np.array([done]),
                "next_states": np.array([there]), "log_pi": log_pi[[here]],
                "safe_next": safe[[there]],
            }  # fmt: skip
            for name in ("q_sh", "r", "q", "q_c"):
                # The slope of a squared error is twice the error.
                rate = np.array([rates[n] / 2 if n == name else 0.0 for n in rule.names])
                state, _ = program.run(state, data, np.eye(s), jax.random.key(0), rate, 1, 0, 1)
        found = dict(zip(rule.names, np.asarray(state.params[0][0]), strict=True))
    for name, table in expected.items():
        np.testing.assert_allclose(found[name], table, rtol=0, atol=1e-12, err_msg=name)


def batch_of(x, n_actions, seed=0):
    rng = np.random.default_rng(seed)
    n = len(x)
    safe = rng.random((n, n_actions)) < 0.7
    safe[:, 0] = True
    return {
        "states": x, "next_states": x[rng.permutation(n)],
        "actions": rng.integers(n_actions, size=n).astype(np.int32), "safe_next": safe,
        "terminated": (rng.random(n) < 0.2).astype(x.dtype),
        "rewards": rng.normal(size=n).astype(x.dtype),
    }  # fmt: skip


SETS = DeepSets(members=5, features=2, static=1, encoder=(4, 6), decoder=(6, 3), head=(5,))


def sets(n, seed=0, least=0):
    rng = np.random.default_rng(seed)
    present = np.arange(5) < rng.integers(least, 6, n)[:, None]
    return SETS.join(rng.normal(size=(n, 5, 2)), present, rng.normal(size=(n, 1)))


RULES = {
    "DIQL": diql.Rule(0.9, 1.0, 1e-4, False, False, False, False, False),
    "DCIQL, centred, double": diql.Rule(0.9, 0.7, 1e-4, True, True, True, False, False),
    "DCIQL, zero gauge": diql.Rule(0.9, 1.0, 1e-4, True, False, False, True, False),
    "CDQN": dqn.Rule(0.9, True, True),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("packed", [False, True])
def test_a_step_goes_down_the_slope_that_finite_differences_find(rule, packed, monkeypatch):
    x = sets(12).astype(float)
    net = replace(SETS.packed(x, 12), room=12 * 5) if packed else SETS
    with jax.enable_x64(True):
        batch = training.minibatch(batch_of(x, 3), None, np.arange(12), 3)
        state = training.program(rule, net, "sgd", 0.5, 12, 3).begin(jax.random.key(1), x.shape[1])
        # Biases begin at 0, where empty sets would sit on the edge of a rectified unit.
        state = state._replace(params=jax.tree.map(lambda p: p + 0.05, state.params))
        target = jax.tree.map(lambda t: t + 0.1, state.target)

        def apply(stack, states):
            return jax.vmap(net.apply, (0, None))(stack, jax.numpy.asarray(states))

        def loss(params):
            return rule.judge(apply, params, target, batch).loss.sum()

        slope = jax.grad(loss)(state.params)
        # What is not to be learned from stays, for the differences, as it is here.
        kept = []
        monkeypatch.setattr(training, "fixed", lambda x: kept.append(x) or x)
        loss(state.params)
        rng = np.random.default_rng(0)
        direction = jax.tree.map(lambda p: rng.normal(size=p.shape), state.params)

        def ahead(by):
            again = iter(kept)
            monkeypatch.setattr(training, "fixed", lambda x: next(again))
            return float(loss(jax.tree.map(lambda p, d: p + by * d, state.params, direction)))

        rise = (ahead(1e-6) - ahead(-1e-6)) / 2e-6
        pairs = zip(jax.tree.leaves(slope), jax.tree.leaves(direction), strict=True)
        along = sum(float((g * d).sum()) for g, d in pairs)
    assert len(kept) >= 1
    assert abs(along) > 1e-3
    np.testing.assert_allclose(along, rise, rtol=1e-6)


def test_constrained_values_are_the_free_ones_where_nothing_is_forbidden():
    """Bit for bit, in one program."""
    rule = RULES["DCIQL, centred, double"]
    data = batch_of(sets(200), 3)
    data["safe_next"] = np.ones((200, 3), bool)
    program = training.program(rule, SETS.packed(sets(200), 16), "adam", 0.01, 16, 3)
    state = program.begin(jax.random.key(0), SETS.n_inputs)
    rates = np.full(len(rule.names), 1e-3, np.float32)
    state, _ = program.run(state, data, None, jax.random.key(1), rates, 200, 0, 300)
    for i, name in enumerate(rule.names):
        if name.startswith("q_c"):
            free = training.index(state.params, rule.names.index(training.twin_of(name)))
            for x, y in zip(
                jax.tree.leaves(free), jax.tree.leaves(training.index(state.params, i)), strict=True
            ):
                assert x.tobytes() == y.tobytes()


def test_a_batch_of_full_sets_loses_no_member():
    """The packed program computes it by the whole network, to the same result."""
    rule, x = RULES["DIQL"], np.concatenate([sets(900), sets(100, seed=1, least=5)])
    small = replace(SETS.packed(sets(900), 32), room=96)
    rates = np.full(len(rule.names), 1e-2, np.float32)
    ends = []
    for n, data in (("common", batch_of(x[:900], 3)), ("full", batch_of(x[900:], 3))):
        both = []
        for net in (small, SETS):
            program = training.program(rule, net, "adam", 0.1, 32, 3)
            state = program.begin(jax.random.key(0), SETS.n_inputs)
            state, _ = program.run(
                state, data, None, jax.random.key(1), rates, len(data["actions"]), 0, 5
            )
            both.append(jax.tree.leaves(state.params))
        ends.append(n)
        for one, other in zip(*both, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=2e-5, err_msg=n)
    assert not bool(small.fits(x[900:932]))


def test_an_action_that_is_hardly_ever_taken_says_nothing_of_its_reward():
    rule = diql.Rule(0.9, 1.0, 0.2, False, False, False, False, True)
    net = MLP((), bias=False)
    program = training.program(rule, net, "sgd", 0.5, 1, 3)
    state = program.begin(jax.random.key(0), 1)
    for pi, moves in ((0.1, False), (0.5, True)):
        data = {
            "states": np.ones((1, 1), np.float32), "next_states": np.ones((1, 1), np.float32),
            "actions": np.zeros(1, np.int32),
            "log_pi": np.log(np.array([[pi, 0.3, 0.7 - pi]], np.float32)),
        }  # fmt: skip
        rates = np.full(len(rule.names), 0.1, np.float32)
        after, _ = program.run(state, data, None, jax.random.key(0), rates, 1, 0, 1)
        r = rule.names.index("r")
        moved = np.asarray(after.params[0][0][r]) != np.asarray(state.params[0][0][r])
        assert moved.any() == moves


def test_adam_is_that_of_optax():
    import optax

    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        like = [np.zeros((2, 3)), np.zeros(4)]
        reference = optax.scale_by_adam()
        theirs = reference.init(like)
        ours = training.Moments(np.zeros(()), like, like)
        for _ in range(20):
            slope = [rng.normal(size=x.shape) * 10.0 ** rng.integers(-6, 3) for x in like]
            expected, theirs = reference.update(slope, theirs)
            found, ours = training.adam(ours, slope)
            for x, y in zip(found, expected, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-12)


def test_where_a_block_of_draws_ends_does_not_matter():
    """Iterations one at a time are those of a single call, across the ends of blocks."""
    rule, data = RULES["DCIQL, zero gauge"], batch_of(rows(50).states.astype(np.float32), 3)
    program = training.program(rule, SMALL, "adam", 0.1, 8, 3)
    begun = program.begin(jax.random.key(0), 2)
    rates, last = np.full(len(rule.names), 1e-2, np.float32), training.BLOCK + 5

    def run(state, *span):
        return program.run(state, data, None, jax.random.key(1), rates, 50, *span)[0]

    whole, state = run(begun, 0, last), begun
    for i in range(last):
        state = run(state, i, i + 1)
    for x, y in zip(jax.tree.leaves(whole), jax.tree.leaves(state), strict=True):
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


# -- chunks --------------------------------------------------------------------------------------


def test_where_a_chunk_ends_does_not_matter(monkeypatch):
    seen = rows()
    monkeypatch.setattr(training, "CHUNK_SECONDS", 0.0)
    one = brief().fit(seen, TASK, seed=3)
    monkeypatch.setattr(training, "CHUNK_SECONDS", 100.0)
    same(one, brief().fit(seen, TASK, seed=3))


def test_nothing_is_compiled_after_the_first_chunk(monkeypatch):
    monkeypatch.setattr(training, "CHUNK_SECONDS", 0.0)
    seen = rows(seed=1)
    rule = diql.Rule(0.9, 1.0, 1e-4, False, False, brief().centred, False, False)
    program = training.program(rule, SMALL, "adam", brief().tau, 16, 3)
    brief().fit(seen, TASK, seed=0)
    compiled = program.run._cache_size()
    assert compiled >= 1
    brief(iterations=400).fit(seen, TASK, seed=1)
    assert program.run._cache_size() == compiled


def test_a_chunk_leaves_a_line_of_metrics(tmp_path):
    log = tmp_path / "run" / "metrics.jsonl"
    brief().fit(rows(), TASK, log=log, tensorboard=tmp_path / "board")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines[-1]["iteration"] == 300
    assert set(lines[0]["losses"]) == {"rho", "r", "q_sh", "q"}
    assert all(np.isfinite(list(line["losses"].values())).all() for line in lines)
    assert any((tmp_path / "board").iterdir())


def test_sixty_four_bits_are_used_where_they_are_asked_for():
    found = brief(precision="float64").fit(rows(), TASK)
    assert {np.asarray(x).dtype for arrays in params_of(found).values() for x in arrays} == {
        np.dtype(float)
    }
    assert not jax.config.jax_enable_x64


# -- divergence ----------------------------------------------------------------------------------


def test_a_divergence_is_reported_where_it_began(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    seen = rows()
    big = replace(seen, rewards=np.full(len(seen), 1e7))
    wild = iq.DQN(iterations=300, batch_size=16, network=SMALL)
    with pytest.raises(
        Diverged,
        match=r"loss of 'q' is 1e\+14 in iteration 0; until 0 all was well, and no checkpoint",
    ):
        wild.fit(big, TASK)
    good = wild.fit(seen, TASK, checkpoint=tmp_path / "run")
    assert good.info.iterations == 300
    # The same run with later data that explodes: what was good is kept.
    late = replace(wild, collect_every=100)
    with pytest.raises(Diverged, match=r"the last good checkpoint is .*0{9}\d00"):
        late.fit(seen, TASK, checkpoint=tmp_path / "other", collect=lambda found: big)
    assert len(list((tmp_path / "other").iterdir())) == 1


# -- checkpoints ---------------------------------------------------------------------------------


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    seen, task = rows(), TASK.constrain(Constraint(lambda x: (x[:, :1] > 0) * np.eye(3)[1], 0.5))
    whole = brief(iterations=500, double=True).fit(seen, task, seed=4)
    folder = tmp_path / "run"
    brief(iterations=200, double=True).fit(seen, task, seed=4, checkpoint=folder)
    resumed = brief(iterations=500, double=True).fit(seen, task, seed=4, checkpoint=folder)
    same(whole, resumed)
    assert resumed.info.iterations == 500
    again = brief(iterations=500, double=True).fit(seen, task, seed=4, checkpoint=folder)
    same(whole, again)


def test_another_run_is_refused(tmp_path):
    seen, folder = rows(), tmp_path / "run"
    brief().fit(seen, TASK, seed=0, checkpoint=folder)
    with pytest.raises(
        InvalidInput,
        match=r"`checkpoint` must be one of this run; in .* seed is 0, and here it is 1",
    ):
        brief().fit(seen, TASK, seed=1, checkpoint=folder)
    with pytest.raises(InvalidInput, match=r"settings.tau is 0.01, and here it is 0.5"):
        brief(tau=0.5).fit(seen, TASK, seed=0, checkpoint=folder)
    with pytest.raises(InvalidInput, match=r"rule.discount is 0.9, and here it is 0.8"):
        brief().fit(seen, Task(3, 0.8), seed=0, checkpoint=folder)
    with pytest.raises(InvalidInput, match=r"data.actions is"):
        brief().fit(rows(seed=1), TASK, seed=0, checkpoint=folder)


class Evil:
    """What runs when somebody unpickles it."""

    def __reduce__(self):
        return os.system, ("touch evil-was-here",)


def test_a_pickle_in_the_folder_is_refused_and_never_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen, folder = rows(), tmp_path / "run"
    brief().fit(seen, TASK, checkpoint=folder)
    (folder / "state.pkl").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(InvalidInput, match=r"holds state.pkl, which no checkpoint has"):
        brief().fit(seen, TASK, checkpoint=folder)
    (folder / "state.pkl").unlink()
    (newest,) = folder.iterdir()
    (newest / "arrays.safetensors").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(DamagedFile, match=r"its checksum does not agree"):
        brief().fit(seen, TASK, checkpoint=folder)
    assert not (tmp_path / "evil-was-here").exists()


PROGRAM = """
import sys, warnings
import numpy as np
import inverseq as iq
from inverseq import training
from test_training import SMALL, TASK, rows

warnings.simplefilter("ignore")
training.CHECKPOINT_SECONDS = 0.0
training.CHUNK_SECONDS = 0.02
print("ready", flush=True)
found = iq.DIQL(iterations=6_000, batch_size=16, network=SMALL, double=True).fit(
    rows(), TASK, seed=7, checkpoint=sys.argv[1]
)
print("done", found.info.iterations, flush=True)
found.save(sys.argv[2])
"""


def start(folder, out):
    here = os.path.dirname(__file__)
    path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(folder), str(out)],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


def newest(folder):
    kept = [path.name for path in folder.glob("[0-9]*")] if folder.is_dir() else []
    return int(max(kept, default="0"))


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_moment_ends_as_if_it_never_was(tmp_path):
    whole = iq.DIQL(iterations=6_000, batch_size=16, network=SMALL, double=True).fit(
        rows(), TASK, seed=7
    )
    folder, rng, moments = tmp_path / "run", np.random.default_rng(0), []
    for _ in range(4):
        run, before = start(folder, tmp_path / "found"), newest(folder)
        # Once something new is kept, at any moment of its work.
        while newest(folder) <= before and run.poll() is None:
            time.sleep(0.002)
        time.sleep(float(rng.uniform(0, 0.2)))
        run.send_signal(signal.SIGKILL)
        run.communicate()
        moments.append(newest(folder))
    assert moments == sorted(moments)
    assert moments[0] > 0
    last = start(folder, tmp_path / "found")
    out, _ = last.communicate(timeout=240)
    assert "done 6000" in out
    same(whole, iq.load(tmp_path / "found"))


@pytest.mark.slow
def test_an_interrupt_ends_with_the_solution_so_far_and_can_be_resumed(tmp_path):
    whole = iq.DIQL(iterations=6_000, batch_size=16, network=SMALL, double=True).fit(
        rows(), TASK, seed=7
    )
    folder = tmp_path / "run"
    run = start(folder, tmp_path / "early")
    while newest(folder) == 0 and run.poll() is None:
        time.sleep(0.002)
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=240)
    early = iq.load(tmp_path / "early")
    done = early.info.iterations
    assert f"done {done}" in out
    assert newest(folder) == done
    if done < 6_000:
        assert not early.info.converged
    resumed = start(folder, tmp_path / "found")
    resumed.communicate(timeout=240)
    same(whole, iq.load(tmp_path / "found"))


def test_an_interrupt_is_said(monkeypatch, tmp_path):
    calls = []

    def interrupt(found):
        calls.append(found.info.iterations)
        raise KeyboardInterrupt

    with pytest.warns(NotConverged, match=r"was interrupted after 100 iterations"):
        found = brief(collect_every=100).fit(rows(), TASK, collect=interrupt)
    assert calls == [100]
    assert found.info.iterations == 100


# -- data that grows ----------------------------------------------------------------------------


def test_data_can_grow_between_iterations():
    seen, later = rows(rewarded=False), rows(50, seed=9, rewarded=False)
    asked = []

    def collect(found):
        asked.append((found.info.iterations, found.predict_proba(seen.states[:2]).shape))
        return later if len(asked) < 3 else None

    found = brief(collect_every=50).fit(seen, TASK, seed=1, collect=collect)
    assert asked == [(50, (2, 3)), (100, (2, 3)), (150, (2, 3))]
    alone = brief(collect_every=50).fit(seen, TASK, seed=1)
    with pytest.raises(AssertionError):
        same(found, alone)


def test_what_was_collected_is_in_the_checkpoint(tmp_path):
    seen = rows(rewarded=False)

    def collecting():
        more = iter(range(100))
        return lambda found: rows(
            40, seed=1_000 + found.info.iterations + 0 * next(more), rewarded=False
        )

    whole = brief(collect_every=50).fit(seen, TASK, collect=collecting())
    brief(collect_every=50, iterations=170).fit(
        seen, TASK, collect=collecting(), checkpoint=tmp_path / "run"
    )
    resumed = brief(collect_every=50).fit(
        seen, TASK, collect=collecting(), checkpoint=tmp_path / "run"
    )
    same(whole, resumed)


def test_what_is_collected_must_be_alike():
    with pytest.raises(InvalidInput, match=r"only one of them has 'weights'"):
        brief(collect_every=50).fit(
            rows(rewarded=False), TASK,
            collect=lambda found: replace(rows(10, rewarded=False), weights=np.ones(10)),
        )  # fmt: skip


# -- seeds --------------------------------------------------------------------------------------


def test_seeds_in_processes_are_those_in_turn():
    seen, estimator = rows(), iq.DIQL(iterations=100, batch_size=16, network=SMALL)
    in_turn = iq.fit_seeds(estimator, seen, TASK, [0, 5], workers=0)
    at_once = iq.fit_seeds(estimator, seen, TASK, [0, 5], workers=2)
    for one, other in zip(in_turn, at_once, strict=True):
        same(one, other)
    with pytest.raises(AssertionError):
        same(*in_turn)


def test_what_cannot_be_sent_to_a_process_is_said():
    task = TASK.constrain(Constraint(lambda x: np.zeros((len(x), 3)), 0.5))
    with pytest.raises(InvalidInput, match=r"`task` must hold functions of a module"):
        iq.fit_seeds(iq.DIQL(iterations=1), rows(), task, [0, 1], workers=2)


# -- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"iterations": 0}, r"`DIQL.iterations` must be an integer of at least 1; got 0"),
        ({"batch_size": 1.5}, r"`DIQL.batch_size` must be an integer of at least 1; got 1.5"),
        ({"learning_rate": 0}, r"`DIQL.learning_rate` must be positive and finite; got 0"),
        ({"tau": 0}, r"`DIQL.tau` must lie in \(0, 1\]; got 0"),
        ({"tolerance": np.nan}, r"`DIQL.tolerance` must be a number from 0; got nan"),
        ({"network": 3}, r"`DIQL.network` must have the methods `init` and `apply`; got 3"),
        ({"precision": "half"}, r"`DIQL.precision` must be 'float32' or 'float64'; got 'half'"),
        ({"gauge": "one"}, r"`DIQL.gauge` must be 'learned' or 'zero'; got 'one'"),
        ({"least": 1.0}, r"`DIQL.least` must lie between 0 and 1; got 1.0"),
    ],
)
def test_wrong_settings_are_named(settings, said):
    with pytest.raises(InvalidInput, match=said):
        iq.DIQL(**settings)


def test_wrong_data_are_named():
    seen = rows()
    with pytest.raises(InvalidInput, match=r"`DQN` must know what was paid"):
        iq.DQN().fit(rows(rewarded=False), TASK)
    with pytest.raises(
        InvalidInput, match=r"the task has 5 states, and these are rows of shape \(2,\)"
    ):
        iq.DIQL().fit(seen, Task(3, 0.9, n_states=5))
    with pytest.raises(InvalidInput, match=r"`Demonstrations.actions` .*below.* 2|Task.n_actions"):
        iq.DIQL().fit(seen, Task(2, 0.9))
    only = Task(3, 0.9, available=lambda x: np.tile([True, True, False], (len(x), 1)))
    with pytest.raises(
        InvalidInput, match=r"row \d+ has action 2, which `Task.available` rules out"
    ):
        iq.DIQL().fit(seen, only)
    with pytest.raises(InvalidInput, match=r"`DQN.reward` must be finite; that of step 0 is not"):
        iq.DQN(reward=lambda s, a, t: np.full(len(s), np.nan)).fit(seen, TASK)
