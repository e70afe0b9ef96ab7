"""Deep inverse Q-learning: what it explains, what it obeys, what it keeps and gives back."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inverseq as iq
from inverseq.demonstrations import Demonstrations
from inverseq.errors import DamagedFile, InvalidInput
from inverseq.nets import MLP, Function
from inverseq.solution import Info, Networks, Solution
from inverseq.task import Constraint, Task
from inverseq.worlds import gridworld

pytestmark = pytest.mark.filterwarnings("ignore::inverseq.errors.NotConverged")
SMALL = MLP((8,), "tanh")


def right_is_forbidden(x):
    """No right turn where the first number is positive."""
    return np.where(np.arange(3) == 2, x[:, :1], -1.0)


RULE = Constraint(right_is_forbidden, 0.0, "no right turn")


def rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(n, 2)).astype(np.float32)
    actions = (states @ [1.0, -1.0] + rng.logistic(size=n) > 0).astype(int) + (rng.random(n) < 0.3)
    return Demonstrations(states, actions, rng.normal(size=(n, 2)).astype(np.float32))


def random_networks(task, poison=(), seed=0):
    """A solution whose networks were not trained, and whose outputs may not even be numbers."""
    rng = np.random.default_rng(seed)
    params = {
        name: [[rng.normal(size=(2, 8)), rng.normal(size=8)],
               [rng.normal(size=(8, 3)), rng.normal(size=3)]]
        for name in ("q", "reward", "q_constrained")
    }  # fmt: skip
    for value in poison:
        params["q_constrained"][1][1][rng.integers(3)] = value
        params["q"][1][1][rng.integers(3)] = value
    found = Networks(
        SMALL, params, np.array([[0.0, 0.0], [1.0, 1.0]]), 3, 1.0, 0.9, True,
        task.available is not None, task,
    )  # fmt: skip
    return Solution(found, 1.0, Info("DIQL"))


# -- what is forbidden ---------------------------------------------------------------------------


@settings(max_examples=50)
@given(
    st.lists(st.sampled_from([np.inf, -np.inf, np.nan, 1e300]), max_size=4),
    st.integers(0, 1000), st.booleans(),
)  # fmt: skip
def test_what_is_forbidden_has_probability_zero_whatever_networks_say(poison, seed, masked):
    def there(x):
        return np.stack([x[:, 1] > -1, np.ones(len(x), bool), np.ones(len(x), bool)], axis=1)

    task = Task(3, 0.9, available=there if masked else None, constraints=[RULE])
    found = random_networks(task, poison, seed)
    x = np.random.default_rng(seed).normal(size=(50, 2))
    with np.errstate(all="ignore"):
        policy = found.predict_proba(x)
    safe = task.safe(x)
    assert (policy[~safe] == 0).all()
    np.testing.assert_allclose(policy.sum(axis=1), 1, rtol=0, atol=1e-12)
    with np.errstate(all="ignore"):
        assert safe[np.arange(50), found.predict(x)].all()


def test_where_everything_is_forbidden_the_least_violation_stays_and_is_counted():
    cost = Constraint(lambda x: np.abs(x[:, :1]) * [1.0, 2.0, 3.0], 0.5, "near the middle")
    task = Task(3, 0.9, constraints=[cost])
    seen = rows()
    found = iq.DIQL(iterations=50, network=SMALL).fit(seen, task)
    far = np.array([[2.0, 0.0], [0.1, 0.0]])
    assert task.stranded(far).tolist() == [True, False]
    policy = found.predict_proba(far)
    assert policy[0].tolist() == [1.0, 0.0, 0.0]
    assert (policy[1] > 0).all()
    assert found.info.stranded == int((np.abs(seen.next_states[:, 0]) > 0.5).sum())


def test_a_network_never_chooses_what_is_forbidden_after_training():
    seen, task = rows(), Task(3, 0.9).constrain(RULE)
    for estimator in (
        iq.DIQL(iterations=100, network=SMALL),
        iq.DIQL(iterations=100, network=SMALL, gauge="zero"),
        iq.BehaviouralCloning(classifier=iq.Classifier(iterations=100, network=SMALL)),
        iq.DQN(iterations=100, network=SMALL, reward=lambda s, a, t: s[:, 0]),
    ):
        found = estimator.fit(seen, task, seed=0)
        x = rows(200, seed=5).states
        assert (found.predict_proba(x)[x[:, 0] > 0, 2] == 0).all()
        assert (found.predict_proba(x, constrained=False)[:, 2] > 0).all()


# -- what it explains ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def covered():
    """A small world in which every pair is seen, and a rule that costs something there."""
    world = gridworld(3, wind=0.2)
    seen = world.demonstrations(4_000, 8, policy=softened(world), seed=0)
    cost = np.zeros((9, 5))
    cost[:, int(world.expert()[4].argmax())] = [0, 0, 0, 0, 1, 0, 0, 0, 0]
    return seen, world.task.constrain(Constraint(cost, 0.5))


def softened(world):
    return 0.7 * world.expert() + 0.3 * world.task.uniform


@pytest.mark.slow
def test_both_gauges_reach_the_constrained_policy_that_can_be_computed(covered):
    """The constrained policy does not depend on the gauge: that of the exact solve is the same."""
    seen, task = covered
    exact = iq.IAVI().fit(seen, task)
    assert (
        np.abs(exact.policy_table - exact.predict_proba(np.arange(9), constrained=False)).max()
        > 0.1
    )
    common = {"iterations": 30_000, "batch_size": 128, "learning_rate": 5e-4, "tau": 0.02}
    full = iq.DIQL(**common).fit(seen, task, seed=0)
    zero = iq.DIQL(**common, gauge="zero").fit(seen, task, seed=0)
    for found in (full, zero):
        assert (found.policy_table[task.constraints[0].cost > 0.5] == 0).all()
        assert np.abs(found.policy_table - exact.policy_table).max() < 0.06
    assert np.abs(full.policy_table - zero.policy_table).max() < 0.06


def test_a_policy_that_is_given_needs_no_classifier(covered):
    seen, task = covered
    expert = iq.IAVI().fit(seen, task.unconstrained()).policy_table
    found = iq.DIQL(iterations=6_000, policy=expert).fit(seen, task.unconstrained(), seed=0)
    assert np.abs(found.policy_table - expert).max() < 0.06
    zero = iq.DIQL(iterations=1, policy=expert, gauge="zero").fit(seen, task)
    free = zero.predict_proba(np.arange(9), constrained=False)
    np.testing.assert_allclose(free, expert, rtol=0, atol=1e-7)
    with pytest.raises(
        InvalidInput, match=r"must have something to learn; .* `IAVI\(gauge=Zero\(\)\)"
    ):
        iq.DIQL(policy=expert, gauge="zero").fit(seen, task.unconstrained())


def test_the_zero_gauge_without_constraints_is_cloning():
    seen, task = rows(), Task(3, 0.9)
    network = MLP((8,), "tanh")
    zero = iq.DIQL(iterations=200, network=network, gauge="zero").fit(seen, task, seed=3)
    cloned = iq.BehaviouralCloning(classifier=iq.Classifier(iterations=200, network=network)).fit(
        seen, task, seed=3
    )
    np.testing.assert_array_equal(
        zero.predict_proba(seen.states), cloned.predict_proba(seen.states)
    )


def test_constraints_leave_what_is_explained_as_it_was():
    """Up to rounding: what a network is compiled with decides its last bits."""
    seen, task = rows(), Task(3, 0.9)
    estimator = iq.DIQL(iterations=200, network=SMALL, precision="float64")
    free, bound = (estimator.fit(seen, t, seed=1) for t in (task, task.constrain(RULE)))
    for name in ("reward", "q"):
        np.testing.assert_allclose(
            getattr(free, name)(seen.states), getattr(bound, name)(seen.states), rtol=0, atol=1e-9
        )
    np.testing.assert_allclose(
        free.predict_proba(seen.states),
        bound.predict_proba(seen.states, constrained=False), rtol=0, atol=1e-9,
    )  # fmt: skip


def test_nothing_forbidden_is_the_same_run():
    seen, task = rows(), Task(3, 0.9)
    never = Constraint(lambda x: np.zeros((len(x), 3)), 1.0)
    estimator = iq.DIQL(iterations=100, network=SMALL)
    free, bound = (estimator.fit(seen, t, seed=1) for t in (task, task.constrain(never)))
    assert free.predict_proba(seen.states).tobytes() == bound.predict_proba(seen.states).tobytes()
    assert free.q(seen.states).tobytes() == bound.q_constrained(seen.states).tobytes()


def test_the_reward_of_a_step_in_the_zero_gauge_is_what_its_formula_says():
    seen, gamma = rows(), 0.9
    found = iq.DIQL(iterations=50, network=SMALL, gauge="zero").fit(seen, Task(3, gamma))
    log_pi = np.log(found.predict_proba(seen.states))
    ahead = np.log(found.predict_proba(seen.next_states)).max(axis=1)
    ended = np.arange(len(seen)) % 2 == 0
    np.testing.assert_allclose(
        found.reward_of(seen.states, seen.actions, seen.next_states, ended),
        log_pi[np.arange(len(seen)), seen.actions] - gamma * (1 - ended) * ahead, atol=1e-6,
    )  # fmt: skip
    with pytest.raises(
        InvalidInput, match=r"Ask `Solution.reward_of\(states, actions, next_states\)`"
    ):
        found.reward(seen.states)


# -- what is available ---------------------------------------------------------------------------


def test_what_is_not_available_counts_for_nothing():
    """An action that was never possible changes neither means nor maxima: it might not be there."""
    rng = np.random.default_rng(0)
    states, follows = rng.normal(size=(2, 300, 2))
    seen = Demonstrations(states, rng.integers(2, size=300), follows)

    def first_two(x):
        return np.tile([True, True, False], (len(x), 1))

    net = Function(MLP((8,), "tanh").init, lambda p, x: MLP((8,), "tanh").apply(p, x))
    common = {"iterations": 300, "batch_size": 16, "precision": "float64"}
    found = iq.DIQL(**common, network=net).fit(seen, Task(3, 0.9, available=first_two), seed=0)
    policy = found.predict_proba(states)
    assert (policy[:, 2] == 0).all()
    assert np.isneginf(found.q(states)[:, 2]).all()
    reward = found.reward(states)[:, :2]
    assert np.abs(reward.sum(axis=1)).mean() < 3.0  # centred over two, not over three
    two = iq.DIQL(**common, network=net).fit(seen, Task(2, 0.9), seed=0)
    assert two.score(seen) == pytest.approx(found.score(seen), abs=0.1)


# -- what is kept ---------------------------------------------------------------------------------


@pytest.mark.parametrize("gauge", ["learned", "zero"])
def test_networks_are_saved_and_loaded(tmp_path, gauge):
    seen, task = rows(), Task(3, 0.9, temperature=0.5)
    found = iq.DIQL(iterations=50, network=SMALL, gauge=gauge).fit(seen, task, seed=0)
    found.save(tmp_path / "found")
    again = iq.load(tmp_path / "found")
    assert again.info == found.info
    assert again.predict_proba(seen.states).tobytes() == found.predict_proba(seen.states).tobytes()
    assert again.score(seen) == found.score(seen)
    assert again.q(seen.states).tobytes() == found.q(seen.states).tobytes()
    with pytest.raises(InvalidInput, match=r"this solution of DIQL is over rows of 2 numbers"):
        again.tables  # noqa: B018


def test_a_constrained_solution_is_given_its_task_again(tmp_path):
    seen, task = rows(), Task(3, 0.9).constrain(RULE)
    found = iq.DIQL(iterations=50, network=SMALL).fit(seen, task, seed=0)
    found.save(tmp_path / "found")
    alone = iq.load(tmp_path / "found")
    np.testing.assert_array_equal(alone.q(seen.states), found.q(seen.states))
    with pytest.raises(InvalidInput, match=r"Load it with its task, `load\(folder, task\)`"):
        alone.predict(seen.states)
    again = iq.load(tmp_path / "found", task)
    np.testing.assert_array_equal(
        again.predict_proba(seen.states), found.predict_proba(seen.states)
    )
    with pytest.raises(InvalidInput, match=r"its discount is 0.5 and the solution's 0.9"):
        iq.load(tmp_path / "found", Task(3, 0.5).constrain(RULE))


def test_a_network_of_your_own_is_given_again(tmp_path):
    own = Function(MLP((4,)).init, MLP((4,)).apply)
    seen = rows()
    found = iq.DIQL(iterations=20, network=own).fit(seen, Task(3, 0.9))
    found.save(tmp_path / "found")
    with pytest.raises(InvalidInput, match=r"which is a function and was not saved"):
        iq.load(tmp_path / "found")
    again = iq.load(tmp_path / "found", network=own)
    np.testing.assert_array_equal(again.q(seen.states), found.q(seen.states))


def test_an_edited_solution_is_refused(tmp_path):
    found = iq.DIQL(iterations=5, network=SMALL).fit(rows(), Task(3, 0.9))
    found.save(tmp_path / "found")
    file = tmp_path / "found" / "solution.json"
    file.write_text(file.read_text().replace('"discount": 0.9', '"discount": 0.8', 1))
    with pytest.raises(DamagedFile, match=r"its checksum does not agree"):
        iq.load(tmp_path / "found")


def test_states_of_another_shape_are_refused():
    found = iq.DIQL(iterations=5, network=SMALL).fit(rows(), Task(3, 0.9))
    with pytest.raises(
        InvalidInput, match=r"rows of 2 numbers for this solution; got float64 of shape \(1, 3\)"
    ):
        found.q(np.ones((1, 3)))
    with pytest.raises(InvalidInput, match=r"must be finite; row 1 is not"):
        found.q([[0.0, 0.0], [np.nan, 0.0]])


# -- known answers --------------------------------------------------------------------------------


def test_q_learning_finds_the_value_of_a_chain_by_hand():
    """Reward 1 for going on, 0 for stopping, which ends: 1 / (1 - discount), and 0."""
    n = 400
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=n)
    x = np.ones((n, 1))
    seen = Demonstrations(
        x, actions, x, terminated=actions == 0, episodes=np.arange(n), rewards=actions.astype(float)
    )
    found = iq.DQN(iterations=3_000, tau=0.05, network=MLP((8,)), standardise=False).fit(
        seen, Task(2, 0.5)
    )
    np.testing.assert_allclose(found.q([[1.0]]), [[0.0, 2.0]], atol=0.02)
    careful = Task(2, 0.5).constrain(Constraint(lambda x: np.tile([0.0, 1.0], (len(x), 1)), 0.5))
    bound = iq.DQN(iterations=3_000, tau=0.05, network=MLP((8,)), standardise=False).fit(
        seen, careful
    )
    # Going on is paid 1 once more, and then one must stop.
    np.testing.assert_allclose(bound.q_constrained([[1.0]]), [[0.0, 1.0]], atol=0.02)
    np.testing.assert_allclose(bound.q([[1.0]]), [[0.0, 2.0]], atol=0.02)
    np.testing.assert_array_equal(bound.predict([[1.0]]), [0])


def test_weights_are_repetitions():
    seen = rows(60)
    weights = np.random.default_rng(1).integers(1, 4, 60)
    again = np.repeat(np.arange(60), weights)
    twice = Demonstrations(seen.states[again], seen.actions[again], seen.next_states[again])
    weighted = replace(seen, weights=weights.astype(float))
    estimator = iq.BehaviouralCloning(
        classifier=iq.Classifier(iterations=3_000, network=MLP(()), learning_rate=3e-3)
    )
    one, other = (estimator.fit(d, Task(3, 0.9), seed=0) for d in (weighted, twice))
    np.testing.assert_allclose(
        one.predict_proba(seen.states), other.predict_proba(seen.states), rtol=0, atol=0.05
    )
