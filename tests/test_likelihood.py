"""The likelihood of a Boltzmann demonstrator: its gradient is a slope, its maximum a maximum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inverseq as iq
from inverseq import likelihood, planning
from inverseq.errors import InvalidInput
from inverseq.likelihood import Demonstrator
from random_worlds import worlds

MODERATE = st.sampled_from([0.0, 0.3, 0.5, 0.9, 0.95])


def slopes(who, reward, direction, step=1e-6):
    """The derivative along a direction by differences, and whether the function bends there."""
    ahead, here, behind = (who.at(reward + d * direction) for d in (step, 0.0, -step))
    return (ahead.value - behind.value) / (2 * step), here


@given(worlds(discounts=MODERATE), st.booleans())
@settings(max_examples=60)
def test_the_gradient_is_the_slope(world, soft):
    visits = world.rng.integers(0, 20, world.available.shape).astype(float)
    who = Demonstrator(visits, world.task, soft)
    reward = world.reward_of_pairs()
    direction = world.rng.normal(size=reward.shape)
    measured, here = slopes(who, reward, direction)
    scale = max(1.0, 1 / world.task.temperature) / (1 - world.task.discount)
    assert abs(measured - (here.gradient * direction).sum()) < 1e-6 * scale


@given(worlds(discounts=MODERATE), st.booleans())
@settings(max_examples=40)
def test_values_move_as_their_sensitivity_says(world, soft):
    who = Demonstrator(np.ones(world.available.shape), world.task, soft)
    reward = world.reward_of_pairs() * world.decides[:, None]
    direction = world.rng.normal(size=reward.shape) * world.decides[:, None]
    here = who.at(reward)
    moved = who.sensitivity(direction[:, :, None], here.policy)[:, :, 0]
    step = 1e-6
    ahead, behind = (
        np.where(world.available, who.at(reward + d * direction).q, 0.0) for d in (step, -step)
    )
    measured = (ahead - behind) / (2 * step)
    expected = np.where(world.available, moved, 0.0)
    scale = max(1.0, 1 / world.task.temperature) / (1 - world.task.discount) ** 2
    np.testing.assert_allclose(measured, expected, rtol=0, atol=1e-6 * scale)


@pytest.mark.parametrize("soft", [False, True])
def test_where_factors_would_be_dense_iterations_do_the_same(soft, monkeypatch):
    world = iq.worlds.objectworld(8, n_objects=6, seed=0)
    visits = np.random.default_rng(0).integers(0, 9, (64, 5)).astype(float)
    phi = np.repeat(world.features[:, None], 5, axis=1)
    found = []
    for front in (1_500, 0):
        monkeypatch.setattr("inverseq._linear.DIRECT_FRONT", front)
        who = Demonstrator(visits, world.task, soft)
        for reward in (0.3 * phi[:, :, 0], np.repeat(world.reward[:, None], 5, axis=1)):
            here = who.at(reward)
        found.append([here.value, here.gradient, here.q, who.sensitivity(phi, here.policy)])
        assert type(who.factor).__name__ == ("Band" if front else "Iterated")
    for factors, iterations in zip(*found, strict=True):
        np.testing.assert_allclose(iterations, factors, rtol=0, atol=1e-9)


@given(worlds(), st.booleans())
@settings(max_examples=40)
def test_it_plans_as_planning_does_whatever_came_before(world, soft):
    who = Demonstrator(np.ones(world.available.shape), world.task, soft)
    for _ in range(3):
        reward = world.reward_of_pairs()
        plan = planning.solve(reward, world.task, soft=soft)
        found = who.at(reward)
        size = max(1.0, np.abs(plan.q[np.isfinite(plan.q)]).max())
        decided = world.pairs
        np.testing.assert_allclose(found.q[decided], plan.q[decided], rtol=0, atol=1e-7 * size)


def test_the_likelihood_is_that_of_the_solution():
    world = iq.worlds.objectworld(size=5, n_objects=5, seed=0)
    seen = world.demonstrations(50, 8, seed=0)
    who = Demonstrator(seen.counts(25, 5).visits, world.task)
    found = iq.BoltzmannMLE(world.features).fit(seen, world.task)
    assert abs(who.at(found.reward_table).value - found.score(seen)) < 1e-12


def test_a_state_that_only_ends_says_nothing():
    model = np.zeros((2, 2, 2))
    model[:, :, 1] = 1
    task = iq.Task(2, 0.9, transitions=model, terminal=[1])
    who = Demonstrator(np.array([[3.0, 1.0], [5.0, 5.0]]), task)
    here = who.at(np.zeros((2, 2)))
    np.testing.assert_allclose(here.gradient, [[0.25, -0.25], [0, 0]])


# -- weights of features ------------------------------------------------------------------------


def feature_world(seed, size=5, k=3):
    """A world whose reward is linear in random features, and steps of its expert."""
    rng = np.random.default_rng(seed)
    world = iq.worlds.gridworld(size, wind=0.2)
    phi = rng.normal(size=(size * size, k))
    reward = phi @ rng.normal(size=k)
    plan = planning.solve(reward, world.task)
    return world.task, phi, reward, world.demonstrations(400, 10, plan.policy, seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_reweighted_features_are_the_most_likely(seed):
    """Fisher scoring and quasi-Newton steps are two ways up the same hill."""
    task, phi, _, seen = feature_world(seed)
    phi = phi - phi.mean(axis=0)
    weighted = iq.IAVI(gauge=iq.Features(phi, ridge=0.0), smoothing=iq.Additive(1e-9))
    fisher = weighted.fit(seen, task)
    climbed = iq.BoltzmannMLE(phi, ridge=0.0, deviation=None, tolerance=1e-14).fit(seen, task)
    assert abs(fisher.score(seen) - climbed.score(seen)) < 1e-6
    np.testing.assert_allclose(fisher.policy_table, climbed.policy_table, rtol=0, atol=5e-3)


@pytest.mark.parametrize("seed", range(3))
def test_reweighting_only_makes_it_more_likely(seed):
    task, phi, _, seen = feature_world(seed)
    few = seen.select(np.arange(len(seen)) < 100)
    visits = few.counts(task.n_states, task.n_actions).visits
    who = Demonstrator(visits, task)
    pairs = np.repeat(phi[:, None], task.n_actions, axis=1)
    start = np.random.default_rng(seed).normal(size=phi.shape[1])
    none = np.zeros_like(start)
    found, rounds = likelihood.score(who, pairs, start, none, 50)
    assert 1 <= rounds <= 50
    reached = who.at(pairs @ found).value
    assert reached >= max(who.at(pairs @ start).value, who.at(pairs @ none).value)
    # Nothing near is better.
    for direction in np.eye(len(start)):
        for step in (-1e-3, 1e-3):
            assert who.at(pairs @ (found + step * direction)).value < reached + 1e-9


def test_a_stronger_prior_keeps_weights_smaller():
    task, phi, _, seen = feature_world(0)
    few = seen.select(np.arange(len(seen)) < 40)
    sizes = [
        np.abs(iq.IAVI(gauge=iq.Features(phi, ridge=ridge)).fit(few, task).reward_table).max()
        for ridge in (0.1, 10.0, 1000.0)
    ]
    assert sizes[0] > sizes[1] > sizes[2]
    assert sizes[2] < 0.1


def test_the_prior_is_chosen_by_episodes_held_out():
    """Features that mean nothing are held down; those that mean all are let go."""
    task, phi, _, seen = feature_world(1)
    few = seen.select(np.arange(len(seen)) < 150)
    told = iq.IAVI(gauge=iq.Features(phi)).fit(few, task)
    noise = np.random.default_rng(9).normal(size=(task.n_states, 12))
    misled = iq.IAVI(gauge=iq.Features(noise)).fit(few, task)

    def chosen(found):
        return float(found.info.gauge.rpartition("ridge=")[2].rstrip(")"))

    assert chosen(told) < chosen(misled)
    assert told.info.settings["gauge"]["ridge"] is None  # what was asked for


def test_with_hardly_any_episodes_there_is_nothing_to_hold_out():
    task, phi, _, seen = feature_world(1)
    found = iq.IAVI(gauge=iq.Features(phi)).fit(seen.select(seen.episodes < 4), task)
    assert found.info.gauge.endswith("ridge=1)")


@pytest.mark.slow
def test_features_generalise_where_counts_do_not():
    task, phi, reward, seen = feature_world(2, size=12)
    few = seen.select(seen.episodes < 20)
    by_features = iq.IAVI(gauge=iq.Features(phi)).fit(few, task)
    by_counts = iq.IAVI().fit(few, task)
    lost = [
        iq.evaluate.value_difference(found.policy_table, reward, task).evd_squared
        for found in (by_features, by_counts)
    ]
    assert lost[0] < 0.1 * lost[1]


@pytest.mark.parametrize("ridge", [-1.0, float("nan"), float("inf"), "much"])
def test_a_prior_must_be_a_strength(ridge):
    with pytest.raises(InvalidInput, match=r"`Features.ridge` must be finite"):
        iq.Features(np.eye(3), ridge=ridge)
