"""The paper's formulas: by hand, as laws, and the same under NumPy, the compiler and JAX."""

import inspect
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from inverseq.equations import (
    action_value_target,
    advantage,
    closed_form_reward,
    count_policy,
    log_boltzmann,
    reward_target,
    shifted_target,
    value,
)

ALL = np.ones(3, bool)
SOME = np.array([True, False, True])
NONE = np.zeros(3, bool)
INF, NAN = math.inf, math.nan

numbers = st.floats(-50, 50)


@st.composite
def tables(draw):
    """Two tables of numbers and a mask that leaves an action in every state."""
    shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 5)))
    x, y = (draw(arrays.arrays(float, shape, elements=numbers)) for _ in range(2))
    mask = draw(arrays.arrays(bool, shape))
    mask[np.arange(shape[0]), draw(st.integers(0, shape[1] - 1))] = True
    return x, y, mask


def random_tables(seed=0, states=6, actions=4):
    """The same, drawn once, where hypothesis would cost a compilation each time."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, states, actions))
    mask = rng.random((states, actions)) < 0.6
    mask[np.arange(states), rng.integers(actions, size=states)] = True
    return x, y, mask


# -- numbers by hand ----------------------------------------------------------------------------


def test_value_is_the_best_safe_action():
    assert value(np.array([1.0, 5.0, 2.0]), ALL) == 5
    assert value(np.array([1.0, 5.0, 2.0]), SOME) == 2


@pytest.mark.parametrize("forbidden", [INF, -INF, NAN, 1e308])
def test_value_does_not_see_what_is_forbidden(forbidden):
    assert value(np.array([1.0, forbidden, 2.0]), SOME) == 2


@pytest.mark.parametrize("q", [0.0, INF, -INF, NAN])
def test_a_state_with_nothing_allowed_is_worth_minus_infinity(q):
    assert value(np.full(3, q), NONE) == -INF


def test_shifted_target_is_discounted_and_ends():
    v = np.array([4.0, 4.0])
    np.testing.assert_array_equal(shifted_target(0.5, np.array([0.0, 1.0]), v), [2.0, 0.0])


def test_advantage_takes_off_what_follows():
    eta = advantage(np.log([0.5, 0.25, 0.25]), np.array([1.0, 0.0, -1.0]))
    np.testing.assert_allclose(eta, [-1 - math.log(2), -math.log(4), 1 - math.log(4)])


def test_reward_target_by_hand():
    # For the first action: 1 + ((5 - 2) + (7 - 4)) / 2.
    eta, r = np.array([1.0, 2.0, 4.0]), np.array([3.0, 5.0, 7.0])
    np.testing.assert_allclose(reward_target(eta, r, ALL), [4.0, 2 + (2 + 3) / 2, 4 + (2 + 3) / 2])


def test_reward_target_by_hand_where_an_action_is_unavailable():
    eta, r = np.array([1.0, 99.0, 4.0]), np.array([3.0, -77.0, 7.0])
    np.testing.assert_allclose(reward_target(eta, r, SOME)[SOME], [1 + 3, 4 + 2])


def test_action_value_target_is_bellman():
    r, v, terminated = np.array([1.0, 1.0]), np.array([4.0, 4.0]), np.array([0.0, 1.0])
    np.testing.assert_array_equal(action_value_target(r, 0.5, terminated, v), [3.0, 1.0])


def test_closed_form_reward_by_hand():
    np.testing.assert_allclose(closed_form_reward(np.array([1.0, 3.0, 8.0]), ALL), [-3, -1, 4])
    np.testing.assert_allclose(closed_form_reward(np.array([1.0, 3.0, 8.0]), SOME), [-3.5, 0, 3.5])


def test_count_policy_by_hand():
    rho = np.array([3.0, 0.0, 1.0])
    np.testing.assert_allclose(count_policy(rho, 0.0, ALL), [0.75, 0, 0.25])
    np.testing.assert_allclose(count_policy(rho, 1.0, ALL), [4 / 7, 1 / 7, 2 / 7])
    np.testing.assert_allclose(count_policy(rho, 1.0, SOME), [4 / 6, 0, 2 / 6])


def test_log_boltzmann_by_hand():
    q = np.log([1.0, 2.0, 5.0])
    np.testing.assert_allclose(np.exp(log_boltzmann(q, ALL)), [1 / 8, 2 / 8, 5 / 8])
    np.testing.assert_allclose(np.exp(log_boltzmann(q, SOME)), [1 / 6, 0, 5 / 6])
    np.testing.assert_allclose(np.exp(log_boltzmann(q, ALL, 0.5)), [1 / 30, 4 / 30, 25 / 30])


# -- one action ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [np.array([True]), np.array([False, True, False])])
def test_a_single_action_is_what_it_is(mask):
    eta, r = np.full(mask.shape, -0.7), np.full(mask.shape, 3.0)
    assert reward_target(eta, r, mask)[mask] == -0.7
    assert (closed_form_reward(eta, mask) == 0).all()
    np.testing.assert_array_equal(np.exp(log_boltzmann(r, mask)), mask.astype(float))
    np.testing.assert_array_equal(count_policy(r, 0.0, mask), mask.astype(float))


# -- Theorem 1 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_theorem_1_the_system_of_equation_7_always_has_a_solution(n):
    rng = np.random.default_rng(n)
    others = 1 - np.eye(n)
    x = np.eye(n) - others / (n - 1)
    assert np.linalg.matrix_rank(x) == n - 1
    for eta in rng.normal(scale=[[0.1], [1], [30]], size=(3, n)):
        y = eta - others @ eta / (n - 1)
        assert np.linalg.matrix_rank(np.column_stack([x, y])) == n - 1
        r = closed_form_reward(eta, np.ones(n, bool))
        np.testing.assert_allclose(x @ r, y, atol=1e-12)
        np.testing.assert_allclose(r, np.linalg.lstsq(x, y, rcond=None)[0], atol=1e-12)


# -- laws ---------------------------------------------------------------------------------------


@given(tables(), numbers)
def test_the_closed_form_is_a_fixed_point_up_to_any_constant(table, c):
    eta, _, mask = table
    r = closed_form_reward(eta, mask) + c
    several = mask & (mask.sum(-1, keepdims=True) > 1)  # one action alone keeps its advantage
    np.testing.assert_allclose(reward_target(eta, r, mask)[several], r[several], atol=1e-11)


@given(tables())
def test_the_closed_form_has_mean_zero_over_what_is_available(table):
    eta, _, mask = table
    r = closed_form_reward(eta, mask)
    np.testing.assert_allclose(r.sum(-1), 0, atol=1e-12)
    assert (r[~mask] == 0).all()


@given(tables())
def test_an_unavailable_action_is_as_good_as_absent(table):
    x, y, mask = table
    for i, keep in enumerate(mask):
        there = np.ones(keep.sum(), bool)
        same(value(x[i], keep), value(x[i, keep], there))
        same(reward_target(x[i], y[i], keep)[keep], reward_target(x[i, keep], y[i, keep], there))
        same(closed_form_reward(x[i], keep)[keep], closed_form_reward(x[i, keep], there))
        same(log_boltzmann(x[i], keep)[keep], log_boltzmann(x[i, keep], there))
        rho = np.abs(y[i]) + 0.1
        same(count_policy(rho, 0.5, keep)[keep], count_policy(rho[keep], 0.5, there))


def same(a, b):
    """Equal but for the order in which a sum was taken."""
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@given(tables(), st.sampled_from([INF, -INF, NAN]))
def test_what_an_unavailable_action_holds_does_not_matter(table, odd):
    x, y, mask = table
    other = np.where(mask, x, odd)
    np.testing.assert_array_equal(value(other, mask), value(x, mask))
    np.testing.assert_array_equal(closed_form_reward(other, mask), closed_form_reward(x, mask))
    np.testing.assert_array_equal(log_boltzmann(other, mask), log_boltzmann(x, mask))
    # The target of the unavailable action itself is not defined, so its eta stays a number.
    r = np.where(mask, y, odd)
    np.testing.assert_array_equal(reward_target(x, r, mask)[mask], reward_target(x, y, mask)[mask])


@given(tables(), st.floats(0.05, 20))
def test_log_boltzmann_is_a_policy_over_the_safe_actions(table, temperature):
    q, _, mask = table
    log_pi = log_boltzmann(q, mask, temperature)
    np.testing.assert_allclose(np.exp(log_pi).sum(-1), 1, atol=1e-12)
    assert (log_pi[~mask] == -INF).all()
    assert np.isfinite(log_pi[mask]).all()
    # Differences of logarithms are differences of q: Eq. 1 read backwards.
    first = mask.argmax(-1)[:, None]
    expected = (q - np.take_along_axis(q, first, -1)) / temperature
    seen = log_pi - np.take_along_axis(log_pi, first, -1)
    np.testing.assert_allclose(seen[mask], expected[mask], atol=1e-9)


@pytest.mark.parametrize("q", [NAN, INF, -INF])
def test_log_boltzmann_is_uniform_where_no_safe_action_has_a_finite_value(q):
    np.testing.assert_array_equal(
        np.exp(log_boltzmann(np.array([q, 7.0, q]), SOME)), [0.5, 0.0, 0.5]
    )


@pytest.mark.parametrize("q", [NAN, INF, -INF])
def test_log_boltzmann_leaves_out_a_safe_action_without_a_finite_value(q):
    np.testing.assert_array_equal(
        np.exp(log_boltzmann(np.array([1.0, q, 1.0]), ALL)), [0.5, 0, 0.5]
    )


@pytest.mark.parametrize("q", [0.0, NAN, INF])
def test_log_boltzmann_is_minus_infinity_throughout_where_nothing_is_safe(q):
    assert (log_boltzmann(np.full(3, q), NONE) == -INF).all()


@pytest.mark.parametrize("size", [1e4, -1e4, 1e300])
def test_log_boltzmann_does_not_overflow(size):
    np.testing.assert_array_equal(
        log_boltzmann(np.array([size, size, size - abs(size) / 2]), ALL)[:2], [-math.log(2)] * 2
    )


def test_log_boltzmann_leaves_its_arguments_alone():
    q, safe = np.array([1.0, NAN, INF]), SOME.copy()
    q.flags.writeable = safe.flags.writeable = False
    log_boltzmann(q, safe)


# -- one state, a table, a batch ----------------------------------------------------------------

PER_ACTION = {
    "advantage": lambda x, y, m: advantage(x, y),
    "reward_target": reward_target,
    "closed_form_reward": lambda x, y, m: closed_form_reward(x, m),
    "log_boltzmann": lambda x, y, m: log_boltzmann(x, m, 0.7),
    "count_policy": lambda x, y, m: count_policy(x * x, 0.5, m),
    "action_value_target": lambda x, y, m: action_value_target(x, 0.9, 0.0, y),
}
PER_STATE = {
    "value": lambda x, y, m: value(x, m),
    "shifted_target": lambda x, y, m: shifted_target(0.9, 0.0, value(y, m)),
}
FORMULAS = PER_ACTION | PER_STATE


@pytest.mark.parametrize("name", FORMULAS)
@settings(max_examples=30)
@given(table=tables())
def test_a_table_is_its_states_one_by_one_and_a_batch_is_its_tables(name, table):
    f = FORMULAS[name]
    whole = f(*table)
    rows = np.stack([f(*(part[i] for part in table)) for i in range(len(table[0]))])
    np.testing.assert_array_equal(whole, rows)
    batch = f(*(np.stack([part, part]) for part in table))
    np.testing.assert_array_equal(batch, np.stack([whole, whole]))


# -- under the compiler -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["value", "reward_target", "closed_form_reward", "count_policy", "targets"]
)
def test_compiled_formulas_equal_plain_ones(name):
    numba = pytest.importorskip("numba")
    import inverseq._kernels  # noqa: F401  gives the compiler its three words

    compilable = {
        f.__name__: numba.extending.register_jitable(inspect.unwrap(f))
        for f in (
            value,
            shifted_target,
            advantage,
            reward_target,
            action_value_target,
            closed_form_reward,
            count_policy,
        )
    }
    v, sh, adv = (compilable[n] for n in ("value", "shifted_target", "advantage"))
    target, q_target = compilable["reward_target"], compilable["action_value_target"]
    closed, policy = compilable["closed_form_reward"], compilable["count_policy"]
    kernels = {
        "value": (lambda x, y, m: v(x, m), lambda x, y, m: value(x, m)),
        "reward_target": (lambda x, y, m: target(x, y, m), reward_target),
        "closed_form_reward": (lambda x, y, m: closed(x, m), PER_ACTION["closed_form_reward"]),
        "count_policy": (lambda x, y, m: policy(x * x, 0.5, m), PER_ACTION["count_policy"]),
        "targets": (
            lambda x, y, m: q_target(x, 0.9, 0.0, sh(0.9, 0.0, adv(x, y))),
            lambda x, y, m: action_value_target(
                x, 0.9, 0.0, shifted_target(0.9, 0.0, advantage(x, y))
            ),
        ),
    }
    kernel, plain = kernels[name]
    compiled = numba.njit(kernel)
    for x, y, mask in zip(*random_tables(), strict=True):
        np.testing.assert_allclose(compiled(x, y, mask), plain(x, y, mask), rtol=1e-14, atol=1e-14)


# -- under JAX ----------------------------------------------------------------------------------


@pytest.fixture
def jax():
    """JAX with 64 bits, for one test only."""
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        yield jax


@pytest.mark.parametrize("name", FORMULAS)
def test_jax_equals_numpy(jax, name):
    f = FORMULAS[name]
    table = random_tables()
    expected = f(*table)
    given_to_jax = [jax.numpy.asarray(part) for part in table]
    assert given_to_jax[0].dtype == np.float64
    for run in (f, jax.jit(f), jax.vmap(f), jax.jit(jax.vmap(f))):
        np.testing.assert_allclose(run(*given_to_jax), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("odd", [0.0, NAN, INF, -INF])
def test_gradients_under_jax_contain_no_nan(jax, odd):
    q = jax.numpy.array([[1.0, odd, 2.0], [odd, odd, 0.5], [3.0, 3.0, 3.0]])
    safe = jax.numpy.array([[True, False, True], [False, False, True], [True, True, True]])

    def of_value(q):
        return value(q, safe).sum()

    def of_policy(q):
        return jax.numpy.where(safe, log_boltzmann(q, safe), 0.0)[:, 2].sum()

    def of_entropy(q):
        log_pi = jax.numpy.where(safe, log_boltzmann(q, safe), 0.0)
        return (jax.numpy.exp(log_pi) * log_pi).sum()

    for f in (of_value, of_policy, of_entropy):
        gradient = np.asarray(jax.grad(f)(q))
        assert np.isfinite(gradient).all()
        assert (gradient[~np.asarray(safe)] == 0).all()


def test_the_gradient_of_the_policy_is_one_minus_the_policy(jax):
    q = np.array([0.3, -1.0, 2.0])
    gradient = jax.grad(lambda q: log_boltzmann(q, jax.numpy.asarray(SOME))[0])(jax.numpy.array(q))
    pi = np.exp(log_boltzmann(q, SOME))
    np.testing.assert_allclose(gradient, np.array([1.0, 0.0, 0.0]) - pi, atol=1e-12)
