"""What is identified: verdicts of gauges, and profiles over discounts."""

from dataclasses import replace

import numpy as np
import pytest

import inverseq as iq
from inverseq import identification
from inverseq.demonstrations import Demonstrations
from inverseq.errors import InvalidInput
from inverseq.identification import discount_profile, verdict
from inverseq.solution import Info

DISCOUNTS = (0.0, 0.5, 0.9, 0.99)


def gridworld():
    world = iq.worlds.gridworld(3)
    return world, world.demonstrations(80, 10, seed=0)


@pytest.mark.parametrize(
    "gauge", [iq.Uniform(), iq.Zero(), iq.Reference(4, 0.5)], ids=lambda gauge: type(gauge).__name__
)
@pytest.mark.parametrize("counted", [False, True])
def test_the_profile_of_an_exact_gauge_is_flat_and_so_is_its_verdict(gauge, counted):
    world, seen = gridworld()
    task = iq.Task(5, 0.9) if counted else world.task
    profile = discount_profile(iq.IAVI(gauge=gauge), seen, task, discounts=DISCOUNTS, workers=0)
    assert np.ptp(profile.nats) < 1e-9
    assert not profile.identified
    assert profile.as_good.all()
    assert profile.verdict == (
        f"Not identified: in the gauge {gauge!r} every discount explains the log equally well."
    )


def test_a_profile_foretells_every_step_once_from_the_others():
    world, seen = gridworld()
    profile = discount_profile(
        iq.IAVI(), seen, world.task, discounts=(0.5, 0.9), folds=4, seed=3, workers=0
    )
    number = np.unique(seen.episodes, return_inverse=True)[1]
    part = (np.random.default_rng(3).permutation(80) % 4)[number]
    each = np.empty(len(seen))
    for fold in range(4):
        found = iq.IAVI().fit(seen.select(part != fold), world.task)
        test = seen.select(part == fold)
        each[part == fold] = np.log(found.policy_table)[test.states, test.actions]
    np.testing.assert_allclose(profile.nats, each.mean(), rtol=1e-12)
    # Equal weights, equal lengths: the interval is that of the means of episodes.
    means = each.reshape(80, 10).mean(axis=1)
    reach = 1.990450 * means.std(ddof=1) / np.sqrt(80)
    np.testing.assert_allclose(profile.high - profile.nats, reach, rtol=1e-6)
    np.testing.assert_allclose(profile.nats - profile.low, reach, rtol=1e-6)


def test_a_family_of_rewards_tells_a_discount_of_which_choices_speak():
    # One is paid in a far corner alone: how early the way there is taken tells the discount.
    world = iq.worlds.gridworld(4, discount=0.7)
    seen = world.demonstrations(1500, 12, seed=0)
    goal = np.eye(16)[:, [15]]
    profile = discount_profile(
        iq.IAVI(gauge=iq.Features(goal, ridge=0.0)), seen, world.task,
        discounts=(0.3, 0.5, 0.7, 0.9, 0.99), folds=2, workers=0,
    )  # fmt: skip
    assert profile.best == 0.7
    assert profile.identified
    assert profile.as_good.tolist() == [False, False, True, False, False]
    assert "foretold best at 0.7, and worse beyond chance" in profile.verdict
    assert np.ptp(profile.nats) > 0.005


def test_few_data_do_not_tell():
    world, _ = gridworld()
    seen = world.demonstrations(6, 3, seed=0)
    profile = discount_profile(
        iq.BoltzmannMLE(ridge=1.0), seen, world.task, discounts=(0.8, 0.85), folds=2, workers=0
    )
    assert not profile.identified
    assert profile.verdict.startswith("Not identified by this log")


def test_a_profile_does_not_depend_on_who_fits():
    world, seen = gridworld()
    one, other = (
        discount_profile(
            iq.IAVI(gauge=iq.StateOnly()), seen, world.task, discounts=(0.5, 0.9), workers=workers
        )
        for workers in (0, 2)
    )
    assert np.array_equal(one.nats, other.nats)
    assert np.array_equal(one.low, other.low)


def test_a_profile_refuses_what_it_cannot_divide():
    world, seen = gridworld()

    def refused(match, **options):
        with pytest.raises(InvalidInput, match=match):
            discount_profile(iq.IAVI(), seen, world.task, workers=0, **options)

    refused(r"`folds` must be an integer from 2 to the number of episodes, 80; got 81", folds=81)
    refused(r"`folds` must be an integer from 2 .* got 1\.", folds=1)
    refused(r"at least two numbers in \[0, 1\]; got \(0\.5,\)", discounts=(0.5,))
    refused(r"at least two numbers in \[0, 1\]; got \(0\.5, 1\.5\)", discounts=(0.5, 1.5))


@pytest.mark.parametrize(
    ("gauge", "free", "identified", "known", "unknown"),
    [
        ("Uniform()", None, False, "the policy", "the discount, the temperature"),
        ("that of its path", None, False, "the policy", "the reward across states"),
        ("", None, False, "the policy", "the reward across states"),
        ("StateOnly()", 1, True, "reward of the state up to a constant, given", "unit of the"),
        ("StateOnly()", 0, True, "reward of the state up to a constant, given", "unit of the"),
        ("StateOnly()", 2, False, "the policy, if the reward of the state", "2 directions"),
        ("StateOnly()", None, False, "(not counted)", "unit of the reward"),
        ("Features(phi of shape (9, 2))", 0, True, "reward within its family, given", "unit"),
        ("Features(phi of shape (9, 2))", 1, False, "reward within its family", "1 directions"),
        ("Features(phi of shape (9, 2)) by MLP()", None, False, "within its family", "unit"),
        ("the given reward", None, True, "was given", "Nothing was recovered"),
    ],
)
def test_verdicts(gauge, free, identified, known, unknown):
    found = verdict(Info("hand", gauge=gauge, unidentified_dimensions=free))
    assert found.identified == identified
    assert known in found.known
    assert unknown in found.unknown
    assert str(found) == f"{found.known} {found.unknown}"


def test_every_gauge_of_every_algorithm_has_a_kind():
    world, seen = gridworld()
    kinds = {"Uniform", "Reference", "Zero", "StateOnly", "Features", "by", "that of its path"}
    for algorithm in (
        iq.IAVI(),
        iq.IQL(tolerance=0.1),
        iq.MaxEnt(),
        iq.BoltzmannMLE(world.features),
    ):
        found = algorithm.fit(seen, world.task)
        assert identification.kind(found.info.gauge) in kinds


def test_likelihoods_have_intervals_over_who_acts():
    policy = np.array([[0.75, 0.25], [1.0, 0.0]])
    available = np.array([[True, True], [True, False]])
    states, actions = [0, 0, 1, 0, 0, 1], [0, 1, 0, 0, 0, 0]
    seen = Demonstrations(states, actions, states, episodes=[0, 0, 0, 1, 1, 1])
    found = iq.evaluate.likelihood(policy, seen, available)
    each = np.log([0.75, 0.25, 1, 0.75, 0.75, 1]).reshape(2, 3)
    error = each.mean(axis=1).std(ddof=1) / np.sqrt(2)
    assert found.nats == pytest.approx(each.mean())
    assert found.interval == pytest.approx(
        (each.mean() - 12.706205 * error, each.mean() + 12.706205 * error), rel=1e-6
    )
    chosen = each[:, :2]
    error = chosen.mean(axis=1).std(ddof=1) / np.sqrt(2)
    assert found.interval_choice == pytest.approx(
        (chosen.mean() - 12.706205 * error, chosen.mean() + 12.706205 * error), rel=1e-6
    )
    assert np.multiply(found.interval_bits, np.log(2)) == pytest.approx(found.interval)
    assert np.multiply(found.interval_bits_choice, np.log(2)) == pytest.approx(
        found.interval_choice
    )
    assert found.over == "episode"
    whole = replace(seen, episodes=np.zeros(6, int))
    assert np.isnan(iq.evaluate.likelihood(policy, whole).interval).all()
    wide = iq.evaluate.likelihood(policy, seen, level=0.5).interval
    assert wide[1] - wide[0] == pytest.approx(2 * (each.mean(axis=1).std(ddof=1) / np.sqrt(2)))


def test_intervals_of_likelihoods_cover():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(1000):
        # Episodes differ in length and in how likely their steps are.
        lengths = rng.integers(5, 30, 40)
        member = np.repeat(np.arange(40), lengths)
        values = rng.normal(size=40)[member] + rng.normal(size=len(member))
        low, high = iq.evaluate.interval(values, np.ones(len(values)), member)
        covered += low <= 0 <= high
    # Four binomial errors around 0.95, and a point less: groups are few and uneven.
    assert 0.91 < covered / 1000 < 0.98


def test_the_likelihood_of_a_solution_is_that_of_its_table():
    world, seen = gridworld()
    available = np.ones((9, 5), bool)
    available[4, 0] = False
    seen = seen.select((seen.states != 4) | (seen.actions != 0))
    found = iq.IAVI().fit(seen, replace(world.task, available=available))
    one = iq.evaluate.likelihood(found, seen)
    other = iq.evaluate.likelihood(found.policy_table, seen, available)
    for name in ("nats", "nats_choice", "accuracy", "accuracy_choice", "interval"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-12)
    assert one.nats == pytest.approx(found.score(seen), rel=1e-12)


def test_the_likelihood_of_networks_is_their_score():
    _, seen = gridworld()
    rows = np.eye(9)
    seen = Demonstrations(
        rows[seen.states], seen.actions, rows[seen.next_states], episodes=seen.episodes
    )
    train, test = seen.split("episode", 0.3, seed=0)
    found = iq.BehaviouralCloning(classifier=iq.Classifier(iterations=50)).fit(
        train, iq.Task(5, 0.9), seed=0
    )
    measured = iq.evaluate.likelihood(found, test)
    assert measured.nats == pytest.approx(found.score(test), rel=1e-12)
    assert measured.interval[0] < measured.nats < measured.interval[1]
    np.testing.assert_allclose(
        np.exp(found.predict_log_proba(rows)), found.predict_proba(rows), rtol=1e-12
    )
