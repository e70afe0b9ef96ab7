"""What every algorithm promises. It is found here by being in `inverseq.algorithms`."""

import dataclasses
import inspect
import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

from inverseq import algorithms, planning, worlds
from inverseq.demonstrations import Demonstrations
from inverseq.errors import NotConverged
from inverseq.solution import Solution
from inverseq.task import Constraint, Task
from inverseq.training import Trained

S, A = 9, 3


def estimators():
    """Every dataclass with a method `fit`, once, however many names it has."""
    named = {name: getattr(algorithms, name) for name in algorithms.__all__}
    found = {
        cls: name
        for name, cls in reversed(named.items())
        if inspect.isclass(cls) and dataclasses.is_dataclass(cls) and hasattr(cls, "fit")
    }
    return sorted(found, key=lambda cls: cls.__name__)


def every(promise=None):
    """For each algorithm; for those that can keep the promise, where not all can."""
    without = EXCUSED[promise] if promise else {}
    able = [cls for cls in estimators() if cls.__name__ not in without]
    return pytest.mark.parametrize("algorithm", able, ids=lambda cls: cls.__name__)


# What some algorithms cannot promise, and why. Everything else every algorithm must.
RESTRICTED = "its reward is one of the state alone, which explains few policies exactly"
RANDOM = "its weights begin at random, differently for each name"
ROUNDED = "what is compiled with it decides the last bits of a network (test_diql.py)"
PAID = "it does what pays, and not what was done"
EXCUSED = {
    "it imitates any policy": {
        **dict.fromkeys(("MaxEnt", "DeepMaxEnt", "BoltzmannMLE"), RESTRICTED),
        "DQN": PAID,
    },
    "it foretells what was done": {"DQN": PAID},
    "it imitates who never tries anything else": {
        **dict.fromkeys(("MaxEnt", "DeepMaxEnt", "BoltzmannMLE"), RESTRICTED),
        "DQN": PAID,
        "DIQL": "no sample moves the value of an action that was never taken",
    },
    "what it explains does not depend on constraints": dict.fromkeys(("DIQL", "DQN"), ROUNDED),
    "names do not matter": {
        **dict.fromkeys(("DeepMaxEnt", "DIQL", "DQN"), RANDOM),
        "BoltzmannMLE": "it stops near the top; how near, rounding decides (test_boltzmann_mle.py)",
    },
    "it can be cut short": {"BehaviouralCloning": "it counts once and has no loop"},
}
EVERY = every()
pytestmark = pytest.mark.filterwarnings("ignore::inverseq.errors.NotConverged")


def problem(seed=0, steps=600, available=None, length=10):
    """A task with its model, and episodes of somebody who is soft-optimal for a reward of states.

    So that an algorithm whose rewards are of states alone has something to find, too.
    """
    rng = np.random.default_rng(seed)
    model = rng.dirichlet(np.full(S, 0.3), size=(S, A))
    task = Task(A, 0.8, transitions=model, available=available)
    reward = rng.normal(size=S)
    policy = planning.solve(reward, task, soft=True).policy
    walks = []
    for _ in range(steps // length):
        states, actions = [rng.integers(S)], []
        for _ in range(length):
            actions.append(rng.choice(A, p=policy[states[-1]]))
            states.append(rng.choice(S, p=model[states[-1], actions[-1]]))
        walks.append((states, actions))
    paid = [reward[states[:-1]] for states, _ in walks]
    return Demonstrations.from_episodes(walks, rewards=paid), task


def tables(solution):
    return solution.tables.arrays()


def same(x, y):
    """Bit for bit."""
    assert tables(x).keys() == tables(y).keys()
    for name, array in tables(x).items():
        assert array.dtype == tables(y)[name].dtype
        assert array.tobytes() == tables(y)[name].tobytes(), name


def close(x, y, tolerance=1e-9):
    np.testing.assert_array_equal(np.isfinite(x), np.isfinite(y))
    np.testing.assert_allclose(
        x, y, rtol=0, atol=tolerance * max(1, np.abs(y[np.isfinite(y)]).max())
    )


def restrictions(n=1, seed=0):
    cost = np.random.default_rng(seed).random((S, A))
    cost[:, 0] = 0.0
    return [Constraint(cost, 0.6, name=f"limit {i}") for i in range(n)]


def brisk(algorithm):
    """With its defaults, but not for long: what is promised here does not wait for convergence."""
    if algorithm in (algorithms.MaxEnt, algorithms.DeepMaxEnt):
        return algorithm(max_iterations=200)
    return algorithm(iterations=200) if issubclass(algorithm, Trained) else algorithm()


def patient(algorithm):
    """With its defaults, but for those that begin far from where they end."""
    return algorithm(iterations=3_000) if issubclass(algorithm, Trained) else brisk(algorithm)


def test_the_algorithms_are_found():
    assert {algorithms.IAVI, algorithms.IQL, algorithms.MaxEnt} <= set(estimators())
    assert algorithms.CIQL is algorithms.IQL


def test_who_is_excused_exists():
    named = {cls.__name__ for cls in estimators()}
    assert all(set(excused) <= named for excused in EXCUSED.values())


def test_every_module_of_the_room_brings_its_algorithm():
    """A file that is not in `__all__` would escape these tests."""
    from pathlib import Path

    rooms = {path.stem for path in Path(algorithms.__file__).parent.glob("*.py")} - {"__init__"}
    assert rooms == {cls.__module__.rpartition(".")[2] for cls in estimators()}


@EVERY
def test_it_is_frozen_and_all_its_settings_have_defaults(algorithm):
    assert algorithm.__dataclass_params__.frozen
    estimator = algorithm()
    assert estimator == algorithm()
    field = dataclasses.fields(algorithm)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(estimator, field, None)
    assert algorithm.__doc__
    assert inspect.getmodule(algorithm).__doc__


@EVERY
def test_fit_is_called_alike(algorithm):
    parameters = inspect.signature(algorithm.fit).parameters
    assert list(parameters)[:3] == ["self", "demonstrations", "task"]
    for name in ("seed", "progress"):
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters[name].default is not inspect.Parameter.empty
    assert not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())


@EVERY
@pytest.mark.parametrize("bound", [False, True])
def test_its_policy_is_one_and_never_does_what_is_forbidden(algorithm, bound):
    available = np.random.default_rng(3).random((S, A)) < 0.8
    available[:, 0] = True
    seen, task = problem(available=available)
    task = task.constrain(*restrictions(2)) if bound else task
    found = brisk(algorithm).fit(seen, task, seed=0)
    policy = found.policy_table
    np.testing.assert_allclose(policy.sum(axis=1), 1, rtol=0, atol=1e-12)
    assert (policy >= 0).all()
    assert (policy[~task.safe(np.arange(S))] == 0).all()
    assert (policy[found.safe_table] > 0).all()
    np.testing.assert_array_equal(policy[[4, 2, 4]], found.predict_proba([4, 2, 4]))
    assert found.safe_table[np.arange(S), found.predict(np.arange(S))].all()
    free = found.predict_proba(np.arange(S), constrained=False)
    assert (free[~available] == 0).all()
    assert np.isfinite(found.reward_table).all()
    assert (found.reward_table[~available] == 0).all()


@EVERY
def test_nothing_forbidden_is_no_constraint(algorithm):
    seen, task = problem()
    never = Constraint(np.zeros((S, A)), 1.0, name="never bites")
    plain, free = (brisk(algorithm).fit(seen, t, seed=0) for t in (task, task.constrain(never)))
    assert plain.policy_table.tobytes() == free.policy_table.tobytes()
    assert plain.reward_table.tobytes() == free.reward_table.tobytes()
    np.testing.assert_array_equal(free.q_constrained_table, plain.q_table)


@every("what it explains does not depend on constraints")
def test_a_constraint_changes_the_policy_and_not_what_was_explained(algorithm):
    seen, task = problem()
    plain, bound = (
        brisk(algorithm).fit(seen, t, seed=0) for t in (task, task.constrain(*restrictions()))
    )
    assert np.abs(plain.policy_table - bound.policy_table).max() > 0.1
    assert plain.reward_table.tobytes() == bound.reward_table.tobytes()
    assert plain.q_table.tobytes() == bound.q_table.tobytes()
    np.testing.assert_array_equal(
        bound.predict_proba(np.arange(S), constrained=False), plain.policy_table
    )


@EVERY
@pytest.mark.parametrize("known", [True, False])
def test_what_is_given_stays_as_it_was(algorithm, known):
    seen, task = problem(available=np.ones((S, A), bool))
    task = task.constrain(*restrictions())
    task = task if known else replace(task, transitions=None)
    arrays = [seen.states, seen.actions, seen.next_states, seen.terminated, seen.episodes]
    arrays += [task.available, task.constraints[0].cost]
    if known:
        matrix = task.transitions.matrix
        arrays += [matrix.data, matrix.indices, matrix.indptr]
    before = [array.copy() for array in arrays]
    estimator = algorithm()
    brisk(algorithm).fit(seen, task, seed=0)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert estimator == algorithm()


@EVERY
def test_a_solution_cannot_be_changed(algorithm):
    found = brisk(algorithm).fit(*problem(), seed=0)
    for array in tables(found).values():
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.temperature = 2.0


@EVERY
@pytest.mark.parametrize("bound", [False, True])
def test_what_is_saved_is_what_is_loaded(algorithm, bound, tmp_path):
    seen, task = problem()
    found = brisk(algorithm).fit(seen, task.constrain(*restrictions()) if bound else task, seed=5)
    found.save(tmp_path / "found")
    again = Solution.load(tmp_path / "found")
    same(found, again)
    assert again.info == found.info
    assert again.temperature == found.temperature
    assert again.policy_table.tobytes() == found.policy_table.tobytes()
    assert again.score(seen) == found.score(seen)


@EVERY
def test_the_same_seed_gives_the_same_bits(algorithm):
    seen, task = problem()
    one, again, other = (brisk(algorithm).fit(seen, task, seed=seed) for seed in (1, 1, 2))
    same(one, again)
    random = one.info.seed is not None
    different = any(x.tobytes() != tables(other)[n].tobytes() for n, x in tables(one).items())
    assert random == different, "a seed is on record where it had a part, and only there"


@EVERY
def test_it_leaves_the_generator_of_others_alone(algorithm):
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].tobytes()  # noqa: NPY002
    brisk(algorithm).fit(*problem(), seed=0)
    assert np.random.get_state()[1].tobytes() == before  # noqa: NPY002


@every("names do not matter")
def test_new_names_for_states_and_actions_rename_the_answer(algorithm):
    seen, task = problem()
    task = task.constrain(*restrictions())
    rng = np.random.default_rng(4)
    states, actions = rng.permutation(S), rng.permutation(A)
    model, cost = task.transitions.dense(), task.constraints[0].cost
    again = Demonstrations(
        np.argsort(states)[seen.states], np.argsort(actions)[seen.actions],
        np.argsort(states)[seen.next_states], episodes=seen.episodes,
    )  # fmt: skip
    renamed = Task(
        A, task.discount, transitions=model[states][:, actions][:, :, states],
        constraints=[Constraint(cost[states][:, actions], 0.6)],
    )  # fmt: skip
    one, other = (
        brisk(algorithm).fit(seen, task, seed=0),
        brisk(algorithm).fit(again, renamed, seed=0),
    )
    for name in ("reward_table", "q_table", "q_constrained_table", "policy_table"):
        close(getattr(other, name), getattr(one, name)[states][:, actions])


@every("it imitates who never tries anything else")
@pytest.mark.parametrize("n_actions", [1, 3])
def test_who_always_does_the_same_is_imitated(algorithm, n_actions):
    """One action that is always taken, or one in each state."""
    rng = np.random.default_rng(0)
    model = rng.dirichlet(np.ones(S), size=(S, n_actions))
    always = rng.integers(n_actions, size=S)
    states = np.repeat(np.arange(S), 40)
    follows = np.array([rng.choice(S, p=model[s, always[s]]) for s in states])
    seen = Demonstrations(states, always[states], follows, episodes=np.arange(len(states)))
    found = patient(algorithm).fit(seen, Task(n_actions, 0.9, transitions=model), seed=0)
    np.testing.assert_array_equal(found.predict(np.arange(S)), always)
    assert found.score(seen) > np.log(0.9)


@every("it foretells what was done")
def test_it_does_not_need_the_model(algorithm):
    seen, _ = problem()
    found = patient(algorithm).fit(seen, Task(A, 0.8), seed=0)
    assert found.q_table.shape == (S, A)
    assert found.score(seen) > np.log(1 / A)


@every("it imitates any policy")
def test_it_imitates_with_and_without_the_model(algorithm):
    seen, task = problem()
    found = patient(algorithm).fit(seen, Task(A, 0.8), seed=0)
    frequencies = seen.counts(S, A).visits
    frequencies = frequencies / frequencies.sum(axis=1, keepdims=True)
    assert np.abs(found.policy_table - frequencies).max() < 0.05
    known = patient(algorithm).fit(seen, task, seed=0)
    assert np.abs(known.policy_table - frequencies).max() < 0.05


@EVERY
def test_it_writes_down_how_it_came_about(algorithm):
    seen, task = problem()
    task = task.constrain(*restrictions())
    found = brisk(algorithm).fit(seen, task, seed=0)
    info = found.info
    assert info.algorithm == algorithm.__name__
    assert info.settings["is"] == algorithm.__name__
    assert set(info.settings) - {"is"} == {f.name for f in dataclasses.fields(algorithm)}
    assert json.loads(json.dumps(info.settings)) == info.settings
    assert json.loads(json.dumps(dataclasses.asdict(info)))
    assert info.gauge
    assert info.solver
    assert isinstance(info.converged, bool)
    assert info.seconds > 0
    assert info.residual is not None
    assert np.isfinite(info.residual)
    assert info.unvisited_states == 0
    assert set(info.versions) >= {"inverseq", "numpy", "python"}
    assert info.task["discount"] == 0.8
    assert info.task["constraints"] == ["limit 0"]
    assert algorithm.__name__ in repr(found)


@every("it can be cut short")
def test_too_little_time_is_a_warning_and_not_an_error(algorithm):
    """With one epoch or sweep, or whatever the algorithm counts its work in."""
    names = {f.name for f in dataclasses.fields(algorithm)}
    hurried = {"epochs": 1, "max_iterations": 1, "iterations": 1, "tolerance": 0.0}
    if algorithm is algorithms.IAVI:
        hurried["solver"] = "sweeps"  # its default has no loop
    estimator = algorithm(**{name: value for name, value in hurried.items() if name in names})
    seen, task = problem()
    with pytest.warns(NotConverged, match=r"raise `(epochs|max_iterations|iterations)`"):
        found = estimator.fit(seen, task, seed=0)
    assert not found.info.converged
    np.testing.assert_allclose(found.policy_table.sum(axis=1), 1)
    assert "not converged" in repr(found)


@EVERY
def test_where_it_converged_nothing_is_warned(algorithm):
    # A world in which choices decide where one goes, so that what they show is clear.
    world = worlds.gridworld(3, wind=0.1)
    seen, task = world.demonstrations(2_000, 6, seed=0), world.task
    known = {"reward": world.reward} if algorithm is algorithms.DQN else {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = algorithm(**known).fit(seen, task, seed=0)
    assert found.info.converged
