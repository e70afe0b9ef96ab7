"""Standard errors: that they follow the counts, agree with one another, and cover the truth."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks import coverage
from hypothesis import given, settings
from hypothesis import strategies as st

import inverseq as iq
from inverseq import uncertainty
from inverseq.demonstrations import Additive, Demonstrations
from inverseq.errors import InvalidInput
from inverseq.gauges import Reference, StateOnly, Uniform, Zero
from inverseq.solution import Solution
from inverseq.task import Task
from random_worlds import worlds

MODERATE = st.sampled_from([0.0, 0.5, 0.9])


def steps_of(visits, follows, n_states):
    """Demonstrations with these counts: follows[s, a] are counts of next states and, last, ends."""
    s, a, t = np.nonzero(follows)
    times = follows[s, a, t].astype(int)
    assert np.array_equal(follows.sum(axis=2), visits)
    s, a, t = (np.repeat(x, times) for x in (s, a, t))
    ended = t == n_states
    return Demonstrations(
        s, a, np.where(ended, 0, t), terminated=ended, episodes=np.arange(len(s))
    )  # fmt: skip


def log_of(world, rng, n=400):
    """Counts of a log in which every pair has 40 visits or more, and no best action is tied."""
    task = world.task
    policy = np.where(world.available, rng.random(world.available.shape) + 0.2, 0.0)
    policy /= policy.sum(axis=1, keepdims=True)
    visits = np.where(world.pairs, np.rint(n * policy), 0.0)
    rows = task.transitions.dense()
    rows = np.concatenate([rows, 1 - rows.sum(axis=2, keepdims=True)], axis=2).clip(0)
    follows = np.zeros(rows.shape)
    for s, a in np.argwhere(world.pairs):
        follows[s, a] = rng.multinomial(visits[s, a], rows[s, a] / rows[s, a].sum())
    return visits, follows


def recovered(algorithm, task, visits, follows, counted):
    """Reward and values as a function of counts that need not be whole."""
    smooth = algorithm.smoothing.policy(visits, task.available_table())
    if counted:
        share = follows / np.maximum(follows.sum(axis=2, keepdims=True), 1e-300)
        share[follows.sum(axis=2) == 0, -1] = 1
        task = replace(task, n_states=None, transitions=share)
    found = algorithm.solve(smooth, task)
    return found.reward_table, found.q_table


def by_differences(algorithm, world, visits, follows, counted):
    """The variances by differentiating the whole solve by every count, dense and slow."""
    task, pairs = world.task, world.pairs
    base = recovered(algorithm, task, visits, follows, counted)
    variances = [np.zeros(x.shape) for x in base]

    def slopes(change_visits, change_follows, h):
        ends = [
            recovered(
                algorithm, task, visits + w * h * change_visits, follows + w * h * change_follows,
                counted,
            )
            for w in (-1, 1)
        ]  # fmt: skip
        with np.errstate(invalid="ignore"):
            return [(high - low) / (2 * h) for low, high in zip(*ends, strict=True)]

    nothing = np.zeros(visits.shape), np.zeros(follows.shape)
    for s in np.flatnonzero(pairs.any(axis=1)):
        actions = np.flatnonzero(pairs[s])
        n = visits[s].sum()
        p = visits[s, actions] / n
        each = []
        for a in actions:
            change = nothing[0].copy()
            change[s, a] = 1
            each.append(slopes(change, nothing[1], 1e-2))
        for i, variance in enumerate(variances):
            by = np.array([slope[i] for slope in each])
            variance += n * (
                (p[:, None, None] * by**2).sum(0) - (p[:, None, None] * by).sum(0) ** 2
            )
    for s, a in np.argwhere(pairs) if counted else []:
        seen = np.flatnonzero(follows[s, a])
        n = follows[s, a].sum()
        p = follows[s, a, seen] / n
        each = []
        for t in seen:
            change = nothing[1].copy()
            change[s, a, t] = 1
            each.append(slopes(nothing[0], change, 1e-2))
        for i, variance in enumerate(variances):
            by = np.array([slope[i] for slope in each])
            variance += n * (
                (p[:, None, None] * by**2).sum(0) - (p[:, None, None] * by).sum(0) ** 2
            )
    return variances


@given(
    worlds(discounts=MODERATE, states=st.integers(2, 5), actions=st.integers(2, 3)),
    st.booleans(),
    st.sampled_from(["max", "soft"]),
    st.data(),
)
@settings(max_examples=25)
def test_the_delta_method_contracts_the_derivative_of_the_solve_with_the_covariance(
    world, counted, backup, data
):
    visits, follows = log_of(world, world.rng)
    gauge = data.draw(st.sampled_from(world.gauges()))
    algorithm = iq.IAVI(gauge=gauge, backup=backup, smoothing=Additive(0.0))
    seen = steps_of(visits, follows, world.task.n_states)
    task = replace(world.task, transitions=None) if counted else world.task
    job = uncertainty.Job(algorithm, seen, task, None, 0)
    found = job.solution(seen, task, False)
    measured = uncertainty.delta_variances(job, found)
    expected = by_differences(algorithm, world, visits, follows, counted)
    for mine, theirs in zip(measured, expected, strict=False):
        mine, theirs = mine[world.pairs], theirs[world.pairs]
        np.testing.assert_allclose(mine, theirs, rtol=2e-3, atol=1e-6)


def clear_world(n_states=6, seed=0, discount=0.9):
    """A world and a policy with a clear best action in every state."""
    rng = np.random.default_rng(seed)
    model = rng.dirichlet(np.ones(n_states), (n_states, 3))
    policy = np.array([rng.permutation([0.55, 0.27, 0.18]) for _ in range(n_states)])
    return Task(3, discount, transitions=model), policy, model


def draw(policy, model, n, rng, weights=None):
    states = np.repeat(np.arange(len(policy)), n)
    actions = coverage.drawn(policy[states], rng)
    following = coverage.drawn(model[states, actions], rng)
    return Demonstrations(
        states, actions, following, episodes=np.arange(len(states)), weights=weights
    )


def measured(found):
    assert found.uncertainty is not None
    return found.uncertainty


@pytest.mark.parametrize("counted", [False, True])
def test_the_error_falls_with_the_root_of_the_number_of_visits(counted):
    task, policy, model = clear_world()
    visits = np.rint(1000 * policy)
    follows = np.rint(visits[:, :, None] * model)
    visits = follows.sum(axis=2)
    follows = np.concatenate([follows, np.zeros((6, 3, 1))], axis=2)
    given_task = Task(3, 0.9, n_states=6) if counted else task
    errors = []
    for times in (1, 4):
        seen = steps_of(times * visits, times * follows, 6)
        found = measured(uncertainty.fit(iq.IAVI(smoothing=Additive(0)), seen, given_task))
        assert found.method == "delta"
        errors.append([found.reward.error, found.q.error, found.policy.error])
    np.testing.assert_allclose(errors[0], 2 * np.array(errors[1]), rtol=1e-9)


def test_a_counted_model_adds_its_own_errors_to_those_of_the_policy():
    task, policy, model = clear_world()
    seen = draw(policy, model, 600, np.random.default_rng(0))
    rows = seen.counts(6, 3).transitions
    known = measured(uncertainty.fit(iq.IAVI(), seen, replace(task, transitions=rows)))
    counted = measured(uncertainty.fit(iq.IAVI(), seen, Task(3, 0.9, n_states=6)))
    assert (counted.reward.error > known.reward.error).all()
    assert (counted.q.error > known.q.error).all()
    np.testing.assert_allclose(counted.policy.error, known.policy.error, rtol=1e-12)


def test_the_error_of_one_state_by_hand():
    # Alone with two actions of log-odds x: r = (x, -x) / 2, and x has variance 1/n0 + 1/n1.
    task = Task(2, 0.0, transitions=np.ones((1, 2, 1)))
    seen = Demonstrations([0] * 400, [0] * 300 + [1] * 100, [0] * 400, episodes=range(400))
    found = uncertainty.fit(iq.IAVI(smoothing=Additive(0)), seen, task)
    spread = measured(found).reward
    error = np.sqrt(1 / 300 + 1 / 100) / 2
    np.testing.assert_allclose(spread.error, [[error, error]], rtol=1e-12)
    np.testing.assert_allclose(spread.high - found.reward_table, 1.959964 * error, rtol=1e-6)
    share = measured(found).policy
    np.testing.assert_allclose(share.error, np.sqrt(0.75 * 0.25 / 400), rtol=1e-12)
    np.testing.assert_allclose(share.low[0, 0] + share.high[0, 1], 1, rtol=1e-12)
    assert 0 < share.low[0, 1] < 0.25 < share.high[0, 1] < 1


def test_weights_of_one_size_change_nothing_and_uneven_ones_cost_precision():
    task, policy, model = clear_world()
    seen = draw(policy, model, 600, np.random.default_rng(0))
    plain = measured(uncertainty.fit(iq.IAVI(smoothing=Additive(0)), seen, task))
    double = replace(seen, weights=np.full(len(seen), 2.0))
    same = measured(uncertainty.fit(iq.IAVI(smoothing=Additive(0)), double, task))
    np.testing.assert_allclose(same.reward.error, plain.reward.error, rtol=1e-9)
    uneven = replace(seen, weights=np.random.default_rng(1).exponential(size=len(seen)))
    more = measured(uncertainty.fit(iq.IAVI(), uneven, task))
    # Exponential weights are worth half of the steps.
    ratio = more.reward.error / plain.reward.error
    assert ratio.mean() == pytest.approx(np.sqrt(2), rel=0.1)


@pytest.mark.parametrize("counted", [False, True])
def test_the_delta_method_and_the_bootstrap_agree(counted):
    task, policy, model = clear_world()
    seen = draw(policy, model, 600, np.random.default_rng(0))
    task = Task(3, 0.9) if counted else task
    options = {"replications": 300, "workers": 0}
    delta = measured(uncertainty.fit(iq.IAVI(), seen, task, method="delta"))
    drawn = measured(uncertainty.fit(iq.IAVI(), seen, task, method="bootstrap", **options))
    for name in ("reward", "q", "policy"):
        ratio = getattr(drawn, name).error / getattr(delta, name).error
        assert np.abs(ratio - 1).max() < 0.2, name  # five errors of an error from 300 draws
        assert ratio.mean() == pytest.approx(1, abs=0.04), name


@pytest.mark.parametrize("method", ["delta", "bootstrap"])
def test_relabelling_relabels(method):
    task, policy, model = clear_world()
    seen = draw(policy, model, 300, np.random.default_rng(0))
    states, actions = np.random.default_rng(1).permutation(6), np.array([2, 0, 1])
    named = Demonstrations(
        states[seen.states], actions[seen.actions], states[seen.next_states],
        episodes=np.arange(len(seen)),
    )  # fmt: skip
    turned = np.empty_like(model)
    turned[np.ix_(states, actions, states)] = model
    options = {"method": method, "replications": 10, "workers": 0}
    one = measured(uncertainty.fit(iq.IAVI(), seen, task, **options))
    other = measured(uncertainty.fit(iq.IAVI(), named, Task(3, 0.9, transitions=turned), **options))
    for name in ("error", "low", "high"):
        mine, theirs = getattr(one.reward, name), getattr(other.reward, name)
        np.testing.assert_allclose(theirs[np.ix_(states, actions)], mine, rtol=1e-7, atol=1e-10)


def test_blocks_of_columns_are_only_a_matter_of_memory(monkeypatch):
    task, policy, model = clear_world()
    seen = draw(policy, model, 300, np.random.default_rng(0))
    whole = measured(uncertainty.fit(iq.IAVI(), seen, task))
    monkeypatch.setattr(uncertainty, "BLOCK_NUMBERS", 36)
    parts = measured(uncertainty.fit(iq.IAVI(), seen, task))
    np.testing.assert_allclose(parts.reward.error, whole.reward.error, rtol=1e-12)


# -- coverage ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
def test_intervals_cover_the_truth(known):
    logs = 300
    found = coverage.coverage(known, "auto", coverage.independent, logs, workers=0)
    assert found.refused == 0
    assert ((found.share.mean(axis=(1, 2)) > 0.92) & (found.share.mean(axis=(1, 2)) < 0.97)).all()
    # Of 60 pairs none is beyond what 300 throws of a coin with 0.95 do in a million.
    assert found.share.min() > 0.95 - 4.9 * np.sqrt(0.95 * 0.05 / logs)


# -- which method --------------------------------------------------------------------------------


def test_the_method_is_chosen_by_what_holds_and_says_why():
    task, policy, model = clear_world()
    rng = np.random.default_rng(0)
    seen = draw(policy, model, 600, rng)

    def chosen(algorithm=None, seen=seen, **options):
        algorithm = algorithm or iq.IAVI()
        found = uncertainty.fit(algorithm, seen, task, replications=3, workers=0, **options)
        return measured(found).method, measured(found).why

    method, why = chosen()
    assert method == "delta"
    assert why.startswith("every pair was seen at least ")
    few = draw(policy, model, 60, rng)
    least = few.counts(6, 3).visits.min()
    method, why = chosen(seen=few)
    assert method == "bootstrap"
    assert f"was seen {least:.0f} times, where the delta method needs 30" in why
    even = draw(np.full((6, 3), 1 / 3), model, 600, rng)
    method, why = chosen(seen=even)
    assert method == "bootstrap"
    assert "standard errors only, where the delta method needs 2" in why
    assert chosen(iq.IAVI(backup="soft"), even)[0] == "delta"  # which has no maximum
    assert chosen(iq.IAVI(gauge=Zero()))[0] == "delta"
    assert chosen(iq.IAVI(gauge=StateOnly())) == (
        "bootstrap", "the delta method is for exact gauges, and StateOnly() is none"
    )  # fmt: skip
    assert chosen(iq.BehaviouralCloning())[1].endswith("for IAVI, and this is BehaviouralCloning")
    assert chosen(method="bootstrap") == ("bootstrap", "it was asked for")


def test_units_that_may_differ_are_left_to_the_bootstrap():
    # Eight animals of which every second prefers the other action: steps are not independent.
    rng = np.random.default_rng(0)
    units = np.repeat(np.arange(8), 400)
    actions = (rng.random(len(units)) < np.where(units % 2, 0.9, 0.3)).astype(int)
    stay = np.zeros(len(units), int)
    seen = Demonstrations(stay, actions, stay, episodes=np.arange(len(units)) // 20)
    task = Task(2, 0.5, transitions=np.ones((1, 2, 1)))
    assert measured(uncertainty.fit(iq.IAVI(), seen, task)).method == "delta"
    named = replace(seen, units=units)
    found = measured(uncertainty.fit(iq.IAVI(), named, task, workers=0))
    assert (found.method, found.over) == ("bootstrap", "unit")
    assert found.why.startswith("each of 8 units may have ways of its own")
    delta = measured(uncertainty.fit(iq.IAVI(), seen, task))
    assert (found.policy.error > 5 * delta.policy.error).all()
    with pytest.raises(InvalidInput, match="must not be asked for here: each of 8 units"):
        uncertainty.fit(iq.IAVI(), named, task, method="delta")


@pytest.mark.parametrize("known", [True, False])
def test_counts_have_the_errors_of_the_steps_that_they_count(known):
    rng = np.random.default_rng(0)
    state, action = rng.integers(2, size=4000), rng.integers(2, size=4000)
    action = np.where(rng.random(4000) < 0.3, 1, action)
    led = rng.integers(2, size=4000)
    task = Task(2, 0.9, n_states=2, transitions=np.full((2, 2, 2), 0.5) if known else None)
    rows, times = np.unique(np.stack([state, action, led]), axis=1, return_counts=True)
    counts = Demonstrations(*rows, weights=times, counted=True)
    spreads = [
        measured(uncertainty.fit(iq.IAVI(), d, task, method="delta"))
        for d in (Demonstrations(state, action, led), counts)
    ]
    assert "seen at least" in spreads[1].why
    assert spreads[0].why == spreads[1].why
    for name in ("reward", "q", "policy"):
        steps, counted = (getattr(spread, name).error for spread in spreads)
        np.testing.assert_allclose(counted, steps, rtol=1e-9)


def test_too_many_states_are_left_to_the_bootstrap(monkeypatch):
    task, policy, model = clear_world()
    monkeypatch.setattr(uncertainty, "LARGEST_DELTA", 5)
    seen = draw(policy, model, 600, np.random.default_rng(0))
    found = uncertainty.fit(iq.IAVI(), seen, task, replications=3, workers=0)
    assert "6 states are more than the 5 of which" in measured(found).why


# -- the bootstrap -------------------------------------------------------------------------------


def test_the_bootstrap_does_not_depend_on_who_draws():
    world = iq.worlds.gridworld(3)
    seen = world.demonstrations(40, 10, seed=0)

    def drawn(workers, seed=0):
        found = uncertainty.fit(
            iq.IAVI(), seen, world.task, replications=12, workers=workers, seed=seed
        )
        return measured(found).reward

    here, there, other = drawn(0), drawn(2), drawn(0, seed=1)
    assert np.array_equal(here.low, there.low, equal_nan=True)
    assert np.array_equal(here.error, there.error, equal_nan=True)
    assert not np.array_equal(here.error, other.error, equal_nan=True)


def test_units_are_drawn_where_there_are_several():
    world = iq.worlds.gridworld(3)
    seen = world.demonstrations(40, 10, seed=0)
    number = np.unique(seen.episodes, return_inverse=True)[1]

    def over(n):
        whole = replace(seen, units=number % n)
        found = uncertainty.fit(iq.IAVI(), whole, world.task, replications=2, workers=0)
        return measured(found).over

    assert [over(n) for n in (1, 4, 5, 10)] == ["episode", "episode", "unit", "unit"]


def test_units_that_differ_show_in_the_error():
    # Each of eight acts always alike: only who is drawn matters.
    task = Task(2, 0.5, transitions=np.ones((1, 2, 1)))
    episodes = np.repeat(np.arange(80), 10)
    units = episodes // 10
    actions = (units % 2).astype(int)
    seen = Demonstrations([0] * 800, actions, [0] * 800, episodes=episodes)
    options = {"replications": 200, "workers": 0, "method": "bootstrap"}
    alone = uncertainty.fit(iq.IAVI(), seen, task, **options)
    together = uncertainty.fit(iq.IAVI(), replace(seen, units=units), task, **options)
    # Shares of 80 episodes, and of 8 animals.
    ratio = measured(together).policy.error / measured(alone).policy.error
    assert ratio == pytest.approx(np.sqrt(10), rel=0.2)


def test_any_algorithm_can_be_drawn_and_rewards_are_brought_to_one_gauge():
    world = iq.worlds.gridworld(3)
    seen = world.demonstrations(60, 10, seed=0)
    options = {"replications": 4, "workers": 0}
    with pytest.warns(iq.errors.NotConverged):
        found = uncertainty.fit(iq.IQL(epochs=5), seen, world.task, **options)
    assert found.info.gauge == "Uniform()"
    assert np.abs(found.reward_table.sum(axis=1)).max() < 1e-9
    state = uncertainty.fit(iq.IAVI(), seen, world.task, gauge=Reference(4), **options)
    assert np.abs(state.reward_table[:, 4]).max() < 1e-9
    assert np.nanmax(measured(state).reward.error[:, 4]) < 1e-9
    for algorithm in (iq.MaxEnt(world.features), iq.BoltzmannMLE()):
        found = uncertainty.fit(algorithm, seen, world.task, **options)
        assert np.nanmax(measured(found).reward.error) > 0


def test_what_was_never_seen_has_no_error():
    seen = Demonstrations([0, 1, 0, 1], [0, 1, 1, 0], [1, 0, 1, 0], episodes=range(4))
    task = Task(2, 0.5, n_states=3)
    found = uncertainty.fit(iq.IAVI(), seen, task, replications=20, workers=0)
    spread = measured(found)
    assert np.isnan(spread.reward.error[2]).all()
    assert np.isfinite(spread.reward.error[:2]).all()
    assert found.scarce is not None
    assert found.scarce.all()


def test_states_of_which_no_draw_is_sure_keep_their_numbers():
    # The last states may be missing in a draw: the tables stay as large.
    seen = Demonstrations(range(6), [0, 1] * 3, range(1, 7), episodes=range(6))
    found = uncertainty.fit(iq.IAVI(), seen, Task(2, 0.5), replications=20, workers=0)
    assert measured(found).reward.error.shape == (7, 2)


def test_constraints_change_nothing_of_the_errors():
    task, policy, model = clear_world()
    seen = draw(policy, model, 300, np.random.default_rng(0))
    cost = np.zeros((6, 3))
    cost[2, policy[2].argmax()] = 1
    ruled = task.constrain(iq.Constraint(cost, 0.5))
    for method in ("delta", "bootstrap"):
        options = {"method": method, "replications": 3, "workers": 0}
        one = measured(uncertainty.fit(iq.IAVI(), seen, task, **options))
        found = uncertainty.fit(iq.IAVI(), seen, ruled, **options)
        assert found.constrained
        assert np.array_equal(one.reward.error, measured(found).reward.error)


# -- what is kept and what is refused ------------------------------------------------------------


def test_it_is_saved_and_loaded_with_the_solution(tmp_path):
    task, policy, model = clear_world()
    seen = draw(policy, model, 300, np.random.default_rng(0))
    for method in ("delta", "bootstrap"):
        found = uncertainty.fit(
            iq.IAVI(), seen, task, method=method, replications=3, workers=0, seed=7
        )
        found.save(tmp_path / method)
        back = measured(Solution.load(tmp_path / method))
        mine = measured(found)
        for table in ("reward", "q", "policy"):
            for name in ("error", "low", "high"):
                one, other = (getattr(getattr(x, table), name) for x in (mine, back))
                assert np.array_equal(one, other, equal_nan=True)
        about = ("method", "level", "why", "over", "replications", "seed")
        assert [getattr(mine, x) for x in about] == [getattr(back, x) for x in about]
    assert iq.IAVI().fit(seen, task).uncertainty is None


def test_inputs_are_refused_with_their_numbers():
    task, policy, model = clear_world()
    seen = draw(policy, model, 60, np.random.default_rng(0))

    def refused(match, seen=seen, task=task, **options):
        with pytest.raises(InvalidInput, match=match):
            uncertainty.fit(iq.IAVI(), seen, task, **options)

    least = seen.counts(6, 3).visits.min()
    refused(rf"must not be asked for here: action . of state . was seen {least:.0f} times",
            method="delta")  # fmt: skip
    refused(r"`level` must lie between 0 and 1; got 95\.", level=95)
    refused(r"`replications` must be an integer of at least 2; got 1", replications=1)
    refused(r"`workers` must be None or an integer from 0; got -1\.", workers=-1)
    refused(r"`method` must be 'auto', 'delta' or 'bootstrap'; got 'exact'", method="exact")
    refused(r"`seed` must be an integer from 0; got -1\.", seed=-1)
    refused(r"`replications` must be fewer for 6 states and 3 actions: 10,000,000 would need 4 GiB",
            replications=10**7)  # fmt: skip
    one = replace(seen, episodes=np.zeros(len(seen), int))
    refused(r"`Demonstrations.episodes` must be at least 2 for the bootstrap", seen=one, workers=0)
    rows = Demonstrations([[0.0], [1.0]], [0, 1], [[1.0], [0.0]])
    refused(r"must have states that are numbers of a table; these have shape \(1,\)", seen=rows)


def test_the_gap_of_the_values_is_the_gap_of_the_logarithms():
    task, policy, model = clear_world()
    seen = draw(policy, model, 600, np.random.default_rng(0))
    found = iq.IAVI(gauge=Uniform(), smoothing=Additive(0)).fit(seen, task)
    visits = seen.counts(6, 3).visits
    pairs = np.ones((6, 3), bool)
    lead = uncertainty.leads(found, visits, pairs)
    most = np.sort(visits, axis=1)[:, ::-1]
    expected = np.log(most[:, 0] / most[:, 1]) / np.sqrt(1 / most[:, 0] + 1 / most[:, 1])
    np.testing.assert_allclose(lead, expected, rtol=1e-9)
