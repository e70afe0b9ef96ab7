"""MaxEnt, DeepMaxEnt and what they share, against numbers by hand, slow loops and differences."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize

import inverseq as iq
from inverseq import matching, planning
from inverseq.errors import InvalidInput, NotConverged
from inverseq.matching import Causal, Seen, Stationary
from random_worlds import boltzmann, worlds

STAY, MOVE = np.eye(2), np.eye(2)[::-1]
TWO = iq.Task(2, 0.5, transitions=np.stack([STAY, MOVE], axis=1))


def walks(task, episodes=400, length=6, seed=0, policy=None):
    """Episodes of a random policy, or of one that is given."""
    rng = np.random.default_rng(seed)
    available = task.available_table()
    if policy is None:
        policy = np.where(available, rng.random(available.shape) + 0.1, 0)
        policy /= policy.sum(axis=1, keepdims=True)
    n = task.n_states
    world = iq.worlds.World(task, np.zeros(n), np.zeros((n, 1)), "walk")
    return world.demonstrations(episodes, length, policy, seed=seed)


def observed(demonstrations, task, horizon=None, start="seen", discount=1.0):
    pairs = demonstrations.counts(task.n_states, task.n_actions).visits
    return matching.observed(demonstrations, task, pairs, horizon, start, discount)


# -- numbers by hand -----------------------------------------------------------------------------


def stationary_by_hand(w):
    """Two states, the second pays w; staying or moving. The chance to be in it after one step."""
    v = np.zeros(2)
    for _ in range(200):
        q = np.array([[0.5 * v[0], 0.5 * v[1]], [w + 0.5 * v[1], w + 0.5 * v[0]]])
        v = np.log(np.exp(q).sum(axis=1))
    return np.exp(q - v[:, None])[0, 1]


def test_a_world_of_two_states_by_hand():
    # 7 of 10 episodes move from 0 to 1, and are cut there after a second step.
    episodes = [([0, 1, 1], [1, 0])] * 7 + [([0, 0, 0], [0, 0])] * 3
    seen = iq.Demonstrations.from_episodes(episodes)
    phi = np.array([[0.0], [1.0]])
    found = iq.MaxEnt(phi, learning_rate=1.0, tolerance=1e-10).fit(seen, TWO)
    assert found.info.converged
    w = brentq(lambda w: stationary_by_hand(w) - 0.7, -10, 10, xtol=1e-13)
    np.testing.assert_allclose(found.reward_table, [[0, 0], [w, w]], atol=1e-8)
    # With two steps to go, only the first choice matters, and the second state pays at once.
    found = iq.MaxEnt(phi, causal=True, solver="lbfgs", tolerance=1e-12).fit(seen, TWO)
    assert found.info.converged
    np.testing.assert_allclose(found.reward_table[1, 0] * 0.5, np.log(0.7 / 0.3), atol=1e-6)


def test_the_solution_is_soft_optimal_for_its_reward():
    seen = walks(TWO)
    found = iq.MaxEnt().fit(seen, TWO)
    plan = planning.solve(found.reward_table, TWO, soft=True)
    np.testing.assert_allclose(found.policy_table, plan.policy, atol=1e-12)
    assert found.info.backup == "soft"
    assert found.info.task["horizon"] == 6
    assert found.info.task["start"] == "seen"
    assert found.info.gauge == "StateOnly()"
    assert iq.MaxEnt(np.ones((2, 1))).fit(seen, TWO).info.gauge == "Features(phi of shape (2, 1))"


# -- what was seen, and what is expected ---------------------------------------------------------


def expected_slowly(demonstrations, task, policies, discount, horizon, ended):
    """One episode after the other, as far as it is compared: the definition."""
    d, model = demonstrations, task.continuing.dense()
    first = d.starts
    lengths = np.diff(first, append=len(d))
    visits, weight = np.zeros(task.n_states), 0.0
    for i, (row, length) in enumerate(zip(first, lengths, strict=True)):
        own = d.step_weights[row : row + length].mean()
        steps = horizon if ended[i] else min(length, horizon)
        now = np.eye(task.n_states)[d.states[row]]
        for age in range(steps):
            visits += own * discount**age * now
            now = np.einsum("s,sa,sat->t", now, policies(steps - age), model)
        weight += own
    return visits / weight


@pytest.mark.parametrize("discount", [1.0, 0.7])
@pytest.mark.parametrize("horizon", [None, 3, 9])
def test_episodes_of_all_lengths_are_compared_with_as_many_steps(discount, horizon):
    rng = np.random.default_rng(0)
    model = np.concatenate([rng.dirichlet(np.ones(4), (4, 2)) * 0.9, np.full((4, 2, 1), 0.1)], 2)
    task = iq.Task(2, 0.8, transitions=model)
    parts = [walks(task, 5, length, seed=length) for length in (1, 2, 5, 7)]
    seen = iq.Demonstrations.concatenate(parts)
    weights = rng.random(seen.n_episodes)[
        np.searchsorted(seen.starts, np.arange(len(seen)), "right") - 1
    ]
    seen = replace(seen, weights=weights)
    assert seen.terminated.any()
    what = observed(seen, task, horizon, "seen", discount)
    tables = rng.dirichlet(np.ones(2), (10, 4))
    last = np.append(seen.starts[1:], len(seen)) - 1
    slow = expected_slowly(
        seen, task, lambda k: tables[k], discount, horizon or 7, seen.terminated[last]
    )
    np.testing.assert_allclose(matching.expected(what, task, lambda k: tables[k]), slow, atol=1e-12)

    age = np.arange(len(seen)) - np.repeat(seen.starts, np.diff(seen.starts, append=len(seen)))
    first = weights[seen.starts].sum()
    by_hand = np.zeros(4)
    for state, w, a in zip(seen.states, weights, age, strict=True):
        by_hand[state] += w * discount**a * (a < (horizon or 7)) / first
    np.testing.assert_allclose(what.visits, by_hand, atol=1e-12)


def test_an_end_that_the_model_rules_out_is_a_cut():
    cut = iq.Demonstrations([0, 1, 0], [1, 1, 0], [1, 0, 0], episodes=[0, 0, 1])
    ended = replace(cut, terminated=np.array([False, True, True]))
    for name in ("visits", "begins"):
        one, other = (getattr(observed(seen, TWO), name) for seen in (cut, ended))
        assert abs(one - other).sum() == 0


def test_what_enters_a_terminal_state_has_ended():
    model = np.zeros((3, 1, 3))
    model[0, 0, 1:] = model[1, 0, ::2] = 0.5
    model[2, 0, 2] = 1
    task = iq.Task(1, 0.9, transitions=model, terminal=[2])
    marked, silent = (
        iq.Demonstrations.from_episodes([([0, 1, 2], [0, 0]), ([0, 2], [0])], terminated=t)
        for t in (True, False)
    )
    one, other = observed(marked, task), observed(silent, task)
    np.testing.assert_array_equal(one.begins.toarray(), other.begins.toarray())
    assert one.begins.toarray()[1, 0] == 1  # both had two steps to go
    np.testing.assert_allclose(one.visits, [1, 0.5, 0])
    np.testing.assert_allclose(matching.expected(one, task, lambda _: np.ones((3, 1))), one.visits)


def test_the_start_of_the_task_can_be_used():
    task = replace(TWO, initial=np.array([0.25, 0.75]))
    seen = iq.Demonstrations([0, 1, 0], [1, 1, 0], [1, 0, 0], episodes=[0, 0, 1])
    begins = observed(seen, task, start="task").begins.toarray()
    np.testing.assert_allclose(begins, [[0.125, 0.375], [0.125, 0.375]])
    assert iq.MaxEnt(start="task", tolerance=0.01).fit(seen, task).info.task["start"] == "task"


@given(worlds(), st.integers(0, 100))
@settings(max_examples=30)
def test_who_follows_the_policies_is_expected_to_be_seen(world, seed):
    """From the same starts, expected visits are those of planning.visitation, for one length."""
    task = world.task
    policy = world.policy()
    initial = np.where(world.decides, world.rng.random(task.n_states) + 0.1, 0)
    task = replace(task, initial=initial / initial.sum(), transitions=task.transitions)
    seen = walks(task, 20, 4, seed, policy)
    what = observed(seen, task, horizon=4, start="task")
    if not (what.begins.toarray()[:3] == 0).all():
        return  # an episode ended by what the model does not call an end
    visits = planning.visitation(policy, task, horizon=4)
    visits[~world.decides] = 0
    np.testing.assert_allclose(matching.expected(what, task, lambda _: policy), visits, atol=1e-9)


# -- the gradient --------------------------------------------------------------------------------


def discounted_likelihood(reward, task, visits_of_expert, starts, horizon, inner_discount):
    """The expected discounted causal log-likelihood of an expert, by its definition."""
    model, t = task.continuing.dense(), task.temperature
    can = task.available_table()
    v, log_pi = np.zeros(task.n_states), []
    for _ in range(horizon):
        q = np.where(can, reward[:, None] + inner_discount * model @ v, -np.inf) / t
        v = t * np.log(np.exp(q - q.max(axis=1, keepdims=True)).sum(axis=1)) + t * q.max(axis=1)
        log_pi.append(np.where(can, q - v[:, None] / t, 0.0))
    now, total = starts.copy(), 0.0
    for age in range(horizon):
        pairs = now[:, None] * visits_of_expert
        total += task.discount**age * (pairs * log_pi[horizon - 1 - age]).sum()
        now = np.einsum("sa,sat->t", pairs, model)
    return total


def exact_problem(world, horizon=5):
    """What infinitely many episodes of an expert show, from everywhere."""
    task, n = world.task, world.task.n_states
    expert = boltzmann(world, world.reward_of_pairs())[0]
    starts = world.decides / world.decides.sum()
    import scipy.sparse as sp

    begins = sp.csr_array(np.vstack([np.zeros((horizon - 1, n)), starts[None]]))
    seen = Seen(np.zeros(n), begins, task.discount, np.zeros((n, task.n_actions)))
    return seen._replace(visits=matching.expected(seen, task, lambda _: expert)), expert, starts


@given(worlds(discounts=st.sampled_from([0.3, 0.5, 0.9, 0.99])))
@settings(max_examples=25)
def test_the_causal_gradient_is_that_of_the_discounted_likelihood(world):
    task, horizon = world.task, 5
    seen, expert, starts = exact_problem(world, horizon)
    reward = np.where(world.decides, world.reward(), 0.0)
    gradient = Causal(task, seen).missed(reward)

    def likelihood(r, inner):
        return task.temperature * discounted_likelihood(
            np.where(world.decides, r, 0.0), task, expert, starts, horizon, inner
        )

    def differences(inner):
        eye, h = np.eye(task.n_states), 1e-5
        return np.array(
            [
                (likelihood(reward + h * e, inner) - likelihood(reward - h * e, inner)) / (2 * h)
                for e in eye
            ]
        )

    np.testing.assert_allclose(gradient, differences(task.discount), atol=1e-6)


def test_without_the_discount_in_the_inner_policy_it_would_not_be():
    """What a well-known library does: discounted visits, of a policy that does not discount."""
    world = iq.worlds.objectworld(size=4, n_objects=4, seed=0, discount=0.7)
    task, horizon = world.task, 5
    starts = task.start()
    expert, reward = world.expert(), world.reward + 0.1 * np.arange(16)
    import scipy.sparse as sp

    begins = sp.csr_array(np.vstack([np.zeros((horizon - 1, 16)), starts[None]]))
    seen = Seen(np.zeros(16), begins, 0.7, np.zeros((16, 5)))
    seen = seen._replace(visits=matching.expected(seen, task, lambda _: expert))

    def differences(inner):
        eye, h = np.eye(16), 1e-5
        arguments = (task, expert, starts, horizon, inner)
        return np.array([
            (discounted_likelihood(reward + h * e, *arguments)
             - discounted_likelihood(reward - h * e, *arguments)) / (2 * h) for e in eye
        ])  # fmt: skip

    right = Causal(task, seen).missed(reward)
    careless = Causal(replace(task, discount=1 - 1e-12), seen).missed(reward)
    np.testing.assert_allclose(right, differences(0.7), atol=1e-8)
    assert np.abs(careless - differences(0.7)).max() > 0.01
    # Nor is it the gradient of the likelihood of that careless policy.
    assert np.abs(careless - differences(1.0)).max() > 0.01


def test_the_value_of_the_causal_form_has_its_gradient():
    task = iq.worlds.gridworld(3, wind=0.2).task
    seen = observed(walks(task, 30, 5), task, None, "seen", task.discount)
    causal, reward, h = Causal(task, seen), np.random.default_rng(0).normal(size=9), 1e-5
    values = []
    for e in np.eye(9):
        pair = []
        for sign in (1, -1):
            causal.missed(reward + sign * h * e)
            pair.append(causal.value)
        values.append((pair[0] - pair[1]) / (2 * h))
    np.testing.assert_allclose(causal.missed(reward), values, atol=1e-7)


# -- matching ------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"inner_steps": 1}, {"causal": True}], ids=str)
def test_with_a_feature_for_each_state_what_was_seen_is_expected(settings):
    world = iq.worlds.gridworld(3, wind=0.3)
    seen = world.demonstrations(3_000, 5, seed=0)
    maxent = iq.MaxEnt(tolerance=1e-6, learning_rate=0.2, **settings)
    found = maxent.fit(seen, world.task)
    assert found.info.converged
    assert found.info.residual < 1e-3
    discount = world.task.discount if settings.get("causal") else 1.0
    what = observed(seen, world.task, discount=discount)
    exact = replace(maxent, inner_steps=None).inner(world.task, what)
    missed = exact.missed(found.reward_table[:, 0])
    assert np.abs(missed).max() < 1e-3 < what.visits.min()


def test_two_ways_to_climb_end_on_the_same_top():
    world = iq.worlds.objectworld(size=8, n_objects=8, seed=0)
    seen = world.demonstrations(2_000, 8, seed=0)
    slow, fast = (
        iq.MaxEnt(world.features, causal=True, standardise=True, tolerance=1e-8, **more).fit(
            seen, world.task
        )
        for more in ({"learning_rate": 0.2}, {"solver": "lbfgs"})
    )
    np.testing.assert_allclose(slow.reward_table, fast.reward_table, atol=1e-5)
    assert fast.info.iterations < slow.info.iterations / 4

    # And an optimiser that knows nothing of gradients finds it too.
    phi = matching.feature_table(world.features, 64, True, "MaxEnt")
    causal = Causal(world.task, observed(seen, world.task, discount=world.task.discount))

    def loss(w):
        causal.missed(phi @ w)
        return -causal.value

    blind = minimize(
        loss,
        np.zeros(4),
        method="Nelder-Mead",
        options={"xatol": 1e-7, "fatol": 1e-12, "maxiter": 4000},
    )
    # Up to a constant, which an endless world does not show.
    apart = phi @ blind.x - fast.reward_table[:, 0]
    np.testing.assert_allclose(apart, apart.mean(), atol=1e-4)


def test_a_single_inner_step_ends_where_full_plans_do():
    world = iq.worlds.objectworld(size=8, n_objects=8, seed=0)
    seen = world.demonstrations(2_000, 8, seed=0)
    full, single = (
        iq.MaxEnt(world.features, tolerance=1e-8, inner_steps=n).fit(seen, world.task)
        for n in (None, 1)
    )
    np.testing.assert_allclose(single.reward_table, full.reward_table, atol=1e-4)


def test_the_temperature_is_the_unit_of_the_reward():
    world = iq.worlds.gridworld(3, wind=0.3)
    seen = world.demonstrations(300, 5, seed=0)
    one, other = (
        iq.MaxEnt(tolerance=1e-3).fit(seen, replace(world.task, temperature=t)) for t in (1.0, 2.5)
    )
    np.testing.assert_allclose(2.5 * one.reward_table, other.reward_table, atol=1e-6)
    assert one.info.iterations == other.info.iterations


def test_features_may_be_brought_to_one_scale():
    world = iq.worlds.gridworld(3, wind=0.3)
    seen = world.demonstrations(300, 5, seed=0)
    phi = np.random.default_rng(0).normal(size=(9, 2))
    scaled = phi * [10.0, 0.1] + [5.0, 3.0]
    one, other = (
        iq.MaxEnt(x, standardise=True, tolerance=1e-7).fit(seen, world.task) for x in (phi, scaled)
    )
    np.testing.assert_allclose(one.reward_table, other.reward_table, atol=1e-7)


# -- what is refused, and said -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"solver": "lbfgs"}, "causal=True"),
        ({"causal": True, "inner_steps": 1}, "inner_steps` must be None"),
        ({"inner_steps": 0}, "got 0"),
        ({"horizon": 2.5}, r"got 2\.5"),
        ({"learning_rate": -1}, "got -1"),
        ({"start": "here"}, "'here'"),
        ({"standardise": 1}, "standardise"),
        ({"max_iterations": 0}, "max_iterations"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings, message):
    with pytest.raises(InvalidInput, match=message):
        iq.MaxEnt(**settings)


@pytest.mark.parametrize("shape", [(3, 1), (2,), (2, 0)])
def test_features_must_be_rows_of_states(shape):
    with pytest.raises(InvalidInput, match=r"must have shape \(2, K\)"):
        iq.MaxEnt(np.ones(shape)).fit(walks(TWO), TWO)
    with pytest.raises(InvalidInput, match="must be finite"):
        iq.MaxEnt(np.array([[0.0], [np.nan]])).fit(walks(TWO), TWO)


def test_a_rate_that_explodes_is_an_error_that_says_so():
    phi = 1e200 * np.array([[0.0], [1.0]])
    with pytest.raises(InvalidInput, match=r"after \d steps it is no longer finite"):
        iq.MaxEnt(phi, learning_rate=1e6).fit(walks(TWO), TWO)


def test_settings_are_equal_where_their_features_are():
    x = np.arange(4.0).reshape(2, 2)
    for algorithm in (iq.MaxEnt, iq.DeepMaxEnt):
        assert algorithm(x) == algorithm(x.copy())
        assert algorithm(x) != algorithm(x + 1)


def test_what_no_policy_can_show_is_not_converged():
    # With one action nothing can be changed, and what was seen differs from what is expected.
    task = iq.Task(1, 0.5, transitions=np.full((2, 1, 2), 0.5))
    seen = iq.Demonstrations([0, 1, 1], [0, 0, 0], [1, 1, 1], episodes=[0, 0, 0])
    with pytest.warns(NotConverged, match=r"after 50 steps .* raise `max_iterations`"):
        iq.MaxEnt(max_iterations=50).fit(seen, task)


# -- networks ------------------------------------------------------------------------------------


def test_a_network_without_hidden_layers_takes_the_step_of_maxent():
    world = iq.worlds.objectworld(size=5, n_objects=5, seed=0)
    seen = world.demonstrations(300, 6, seed=0)
    deep = iq.DeepMaxEnt(
        world.features, net(()),
        optimiser="sgd", weight_decay=0.0, clip=None, learning_rate=0.01, halving=None,
        max_iterations=1,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        after = deep.fit(seen, world.task, seed=3).reward_table[:, 0]
        # A first step of no length shows where it began.
        before = replace(deep, learning_rate=1e-30).fit(seen, world.task, seed=3).reward_table[:, 0]
    phi = matching.feature_table(world.features, 25, True, "DeepMaxEnt")
    missed = Stationary(world.task, observed(seen, world.task)).missed(before)
    assert abs(missed.sum()) < 1e-9  # so that the bias stays where it is
    np.testing.assert_allclose(after - before, 0.01 * phi @ (phi.T @ missed), atol=1e-6)
    assert np.abs(after - before).max() > 1e-3


def net(hidden):
    from inverseq.nets import MLP

    return MLP(hidden=hidden)


def test_a_network_explains_what_a_linear_reward_cannot():
    world = iq.worlds.objectworld(size=8, n_objects=8, seed=0)
    seen, test = (world.demonstrations(4_000, 8, seed=s) for s in (0, 1))
    deep = iq.DeepMaxEnt(world.features).fit(seen, world.task, seed=0)
    linear = iq.MaxEnt(world.features).fit(seen, world.task)
    assert deep.info.converged
    assert deep.score(test) > linear.score(test) + 0.02


def test_the_settings_of_the_appendix():
    phi = np.ones((2, 1))
    deep = iq.DeepMaxEnt.paper(phi, tolerance=1e-3)
    assert deep.network.hidden == (3, 3, 3)
    assert (deep.learning_rate, deep.halving, deep.tolerance) == (1e-3, None, 1e-3)
    assert deep.features is phi


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"network": None}, "must be a `MLP`"),
        ({"weight_decay": -1.0}, r"got -1\.0"),
        ({"clip": 0}, "`DeepMaxEnt.clip` must be positive; got 0"),
        ({"halving": 0}, "`DeepMaxEnt.halving` must be positive; got 0"),
        ({"optimiser": "lion"}, "'lion'"),
    ],
)
def test_settings_of_networks_that_cannot_be_meant_are_refused(settings, message):
    with pytest.raises(InvalidInput, match=message):
        iq.DeepMaxEnt(**settings)


def test_nothing_is_compiled_twice():
    from inverseq.algorithms.deep_maxent import functions

    seen = walks(TWO, 20, 3)
    deep = iq.DeepMaxEnt(max_iterations=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        deep.fit(seen, TWO, seed=0)
        compiled = functions(deep.network, deep.optimiser, deep.clip)
        traced = compiled.step._cache_size()
        deep.fit(seen, TWO, seed=1)
    assert compiled.step._cache_size() == traced


# -- cloning -------------------------------------------------------------------------------------


def test_cloning_adds_the_prior_to_each_available_action():
    available = np.array([[True, True], [True, False], [True, True]])
    task = iq.Task(2, 0.9, n_states=3, available=available)
    seen = iq.Demonstrations([0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 1, 0])
    found = iq.BehaviouralCloning(prior=2.0).fit(seen, task)
    np.testing.assert_allclose(found.policy_table, [[4 / 7, 3 / 7], [1, 0], [0.5, 0.5]])
    assert found.info.gauge == "Zero()"
    with pytest.raises(InvalidInput, match="got 0"):
        iq.BehaviouralCloning(prior=0)
