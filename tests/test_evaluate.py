"""Each measure by hand on tiny worlds, and what must hold between them."""

from __future__ import annotations

import numpy as np
import pytest

import inverseq as iq
from inverseq import evaluate, planning, worlds
from inverseq.algorithms import IAVI
from inverseq.demonstrations import Additive, Demonstrations
from inverseq.gauges import Reference, StateOnly, Uniform, Zero
from inverseq.task import Constraint, Task

STAY, ROUND = np.eye(3), np.eye(3)[[1, 2, 0]]
TASK = Task(2, 0.5, transitions=np.stack([STAY, ROUND], axis=1))
THIRD = np.log(3)


def random_world(seed, discount=0.9):
    rng = np.random.default_rng(seed)
    model = rng.random((6, 3, 6)) ** 4
    model /= model.sum(axis=2, keepdims=True)
    task = Task(3, discount, transitions=model, initial=rng.dirichlet(np.ones(6)))
    return worlds.World(task, rng.normal(size=6), np.eye(6), "random")


def random_policy(seed, shape=(6, 3)):
    return np.random.default_rng(seed).dirichlet(np.ones(shape[1]), shape[0])


# -- value ---------------------------------------------------------------------------------------


def test_value_differences_by_hand():
    # In state 0 action 1 moves to state 1, which pays 2 and is left by nobody.
    model = np.array([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], dtype=float)
    task, reward = Task(2, 0.5, transitions=model), np.array([0.0, 2.0])
    # V*(1) = 4 and V*(0) = 2, so that Q(0, .) is (1, 2): the expert's odds of moving are e.
    p = np.e / (1 + np.e)
    expert = np.array([2 * p / (1 - 0.5 * (1 - p)), 4.0])
    never, always = [[1, 0], [1, 0]], [[0, 1], [0, 1]]
    found = evaluate.value_difference(never, reward, task)
    assert found.evd == pytest.approx(expert[0] / 2, abs=1e-12)
    assert found.evd_squared == pytest.approx(expert[0] ** 2 / 2, abs=1e-12)
    assert found.evd_absolute == pytest.approx(expert[0] / 2, abs=1e-12)
    better = evaluate.value_difference(always, reward, task)
    assert better.evd == pytest.approx((expert[0] - 2) / 2, abs=1e-12)
    assert better.evd < 0
    assert better.evd_absolute == pytest.approx(-better.evd)


@pytest.mark.parametrize("seed", range(5))
def test_the_expert_gives_nothing_away_and_the_best_policy_takes_something(seed):
    world = random_world(seed)
    expert = evaluate.value_difference(world.expert(), world.reward, world.task)
    assert max(abs(expert.evd), expert.evd_squared, expert.evd_absolute) < 1e-9
    best = np.eye(3)[planning.solve(world.reward, world.task).greedy]
    least = evaluate.value_difference(best, world.reward, world.task)
    assert least.evd < 0
    for other in range(10):
        found = evaluate.value_difference(random_policy(other), world.reward, world.task)
        assert found.evd >= least.evd
        assert found.evd_absolute >= abs(found.evd)
        assert found.evd_squared >= found.evd_absolute**2 - 1e-12


def test_value_differences_do_not_see_a_constant_and_scale_under_one_policy():
    world, policy = random_world(0), random_policy(1)
    found = evaluate.value_difference(policy, world.reward, world.task)
    shifted = evaluate.value_difference(policy, world.reward + 7, world.task)
    assert shifted.evd == pytest.approx(found.evd, abs=1e-9)


@pytest.mark.parametrize("gauge", [Uniform(), Reference(1, 3.0), Zero()])
def test_the_value_difference_of_an_exact_gauge_is_that_of_cloning(gauge):
    world = worlds.objectworld(5, 6, seed=0)
    seen = world.demonstrations(60, 8, seed=0)
    visits = seen.counts(world.task.n_states, world.task.n_actions).visits
    cloning = Additive(1e-3).policy(visits, world.task.available_table())
    found = IAVI(gauge=gauge).fit(seen, world.task)
    ours, theirs = (
        evaluate.value_difference(policy, world.reward, world.task)
        for policy in (found.policy_table, cloning)
    )
    assert ours.evd == pytest.approx(theirs.evd, abs=1e-9)
    assert ours.evd_squared == pytest.approx(theirs.evd_squared, abs=1e-9)
    assert ours.evd > 0.01


def test_terminal_states_and_states_without_an_action_do_not_count():
    chain = worlds.chain(0.5)
    expert = planning.evaluate_policy(chain.expert(), chain.reward, chain.task)
    policy = np.array([[0, 1], [0, 1], [0, 1], [0, 0]])
    found = evaluate.value_difference(policy, chain.reward, chain.task)
    assert found.evd == pytest.approx((expert - chain.reward)[:3].mean(), abs=1e-12)
    trap = worlds.trap(0.5)
    safe = planning.solve(trap.reward, trap.task).policy
    free = trap.task.unconstrained()
    expert = planning.evaluate_policy(trap.expert(), trap.reward, free)
    found = evaluate.value_difference(safe, trap.reward, trap.task)
    assert found.evd == pytest.approx((expert[:3] - [-1.75, -1.5, -1]).mean(), abs=1e-12)
    assert np.isfinite([found.evd, found.evd_squared, found.evd_absolute]).all()


def test_returns_begin_where_episodes_begin():
    task = Task(2, 0.5, transitions=np.stack([STAY, ROUND], axis=1), initial=[0.25, 0.75, 0])
    around = np.array([[0, 1]] * 3)
    # Round and round: V(s) = r(s) + V(s + 1) / 2.
    values = np.linalg.solve(np.eye(3) - ROUND / 2, [8.0, 4.0, 1.0])
    found = evaluate.expected_return(around, [8, 4, 1], task)
    assert found == pytest.approx(0.25 * values[0] + 0.75 * values[1])
    uniform = evaluate.expected_return(around, [8, 4, 1], TASK)
    assert uniform == pytest.approx(values.mean())


def test_the_return_of_a_constrained_policy_is_finite_where_it_begins():
    trap = worlds.trap(0.5)
    plan = planning.solve(trap.reward, trap.task)
    assert evaluate.expected_return(plan.policy, trap.reward, trap.task) == -1.75
    assert evaluate.transfer_return(trap.reward, trap.reward, trap.task) == -1.75


def test_transfer_plans_for_one_reward_and_counts_the_other():
    start = Task(2, 0.5, transitions=np.stack([STAY, ROUND], axis=1), initial=0)
    true = np.array([1.0, 0.0, 0.0])
    assert evaluate.transfer_return(true, true, start) == pytest.approx(2)
    assert evaluate.transfer_return(100 * true + 5, true, start) == pytest.approx(2)
    # Who wants to be in state 1 acts once in state 0, goes there and stays.
    assert evaluate.transfer_return([0, 1, 0], true, start) == pytest.approx(1)
    pairs = np.array([[0.0, 1.0]] * 3)
    assert evaluate.transfer_return(pairs, true, start) == pytest.approx(1 / (1 - 0.5**3))


def test_only_an_identified_gauge_transfers_to_other_dynamics():
    world = worlds.objectworld(8, 10, seed=0)
    elsewhere = world.changed(walls=0.15, seed=1)
    best = evaluate.transfer_return(world.reward, world.reward, elsewhere.task)
    returns = {
        gauge: evaluate.transfer_return(
            IAVI(gauge=gauge).solve(world.expert(), world.task).reward_table,
            world.reward,
            elsewhere.task,
        )
        for gauge in (StateOnly(), Uniform())
    }
    assert returns[StateOnly()] == pytest.approx(best, abs=1e-6)
    assert returns[Uniform()] < best - 0.5
    kept = evaluate.expected_return(world.expert(), world.reward, elsewhere.task)
    assert kept < best - 0.1


def test_the_best_return_is_nobodys_to_beat():
    world = random_world(3)
    best = evaluate.transfer_return(world.reward, world.reward, world.task)
    for seed in range(10):
        assert evaluate.expected_return(random_policy(seed), world.reward, world.task) <= best
        guess = np.random.default_rng(seed).normal(size=6)
        assert evaluate.transfer_return(guess, world.reward, world.task) <= best + 1e-9


# -- acting alike --------------------------------------------------------------------------------


def test_divergence_by_hand():
    p, q = np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([[0.25, 0.75], [0.5, 0.5]])
    first = 0.5 * np.log(2) + 0.5 * np.log(2 / 3)
    assert evaluate.divergence(p, q) == pytest.approx((first + np.log(2)) / 2)
    assert evaluate.divergence(p, q, np.array([1, 3])) == pytest.approx((first + 3 * np.log(2)) / 4)
    assert evaluate.divergence(p, q, np.array([1, 0])) == pytest.approx(first)


def test_divergence_is_infinite_where_the_other_never_does_it():
    p, q = np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([[0.5, 0.5], [1.0, 0.0]])
    assert evaluate.divergence(p, q) == np.inf
    assert evaluate.divergence(q, p) == pytest.approx(np.log(2) / 2)
    assert evaluate.divergence(p, q, [1, 0]) == 0


def test_a_state_in_which_nothing_is_done_does_not_count():
    p, q = np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[0.5, 0.5], [0.5, 0.5]])
    assert evaluate.divergence(p, q) == pytest.approx(np.log(2))
    assert evaluate.divergence(q, p) == np.inf


@pytest.mark.parametrize("seed", range(5))
def test_divergence_is_positive_and_0_only_from_itself(seed):
    p, q = random_policy(seed), random_policy(seed + 100)
    assert evaluate.divergence(p, p) == 0
    assert evaluate.divergence(p, q) > 0
    assert evaluate.divergence(p, q) != pytest.approx(evaluate.divergence(q, p))
    swap = np.random.default_rng(seed).permutation(3)
    assert evaluate.divergence(p[:, swap], q[:, swap]) == pytest.approx(evaluate.divergence(p, q))


LIKELY = np.array([[0.75, 0.25], [0.5, 0.5], [1.0, 0.0]])
CHOICE = np.array([[True, True], [True, True], [True, False]])
DONE = Demonstrations([0, 0, 1, 2], [0, 1, 1, 0], [0, 1, 2, 2])


def test_likelihood_by_hand():
    nats = np.log([0.75, 0.25, 0.5, 1.0])
    found = evaluate.likelihood(LIKELY, DONE, CHOICE)
    assert np.allclose(evaluate.log_probabilities(LIKELY, DONE), nats)
    assert found.nats == pytest.approx(nats.mean())
    assert found.bits == pytest.approx(np.log2([0.75, 0.25, 0.5, 1.0]).mean())
    assert found.nats_choice == pytest.approx(nats[:3].mean())
    assert found.bits_choice == pytest.approx(nats[:3].mean() / np.log(2))
    assert (found.steps, found.steps_choice) == (4, 3)
    # Of two equally probable actions each is half a guess.
    assert (found.accuracy, found.accuracy_choice) == (2.5 / 4, pytest.approx(1.5 / 3))
    assert evaluate.likelihood(LIKELY, DONE).steps_choice == 4


def test_likelihood_by_weights():
    weighted = Demonstrations([0, 0, 1, 2], [0, 1, 1, 0], [0, 1, 2, 2], weights=[3, 0, 1, 4])
    found = evaluate.likelihood(LIKELY, weighted, CHOICE)
    assert found.nats == pytest.approx((3 * np.log(0.75) + np.log(0.5)) / 8)
    assert found.nats_choice == pytest.approx((3 * np.log(0.75) + np.log(0.5)) / 4)
    assert found.accuracy == pytest.approx(7.5 / 8)
    twice = DONE.select(np.array([True, False, True, True]))
    again = Demonstrations.concatenate([twice, twice])
    assert evaluate.likelihood(LIKELY, again).nats == evaluate.likelihood(LIKELY, twice).nats


def test_an_impossible_step_is_minus_infinity_unless_it_weighs_nothing():
    seen = Demonstrations([2, 0], [1, 0], [0, 1])
    found = evaluate.likelihood(LIKELY, seen)
    assert found.nats == found.bits == -np.inf
    ignored = Demonstrations([2, 0], [1, 0], [0, 1], weights=[0, 2])
    assert evaluate.likelihood(LIKELY, ignored).nats == pytest.approx(np.log(0.75))


def test_a_state_without_an_action_foretells_nothing_and_ties_share_the_hit():
    policy = np.array([[0.0, 0.0, 0.0], [0.25, 0.5, 0.25], [0.4, 0.2, 0.4]])

    def accuracy(state, action):
        return evaluate.likelihood(policy, Demonstrations([state], [action], [0])).accuracy

    assert [accuracy(0, a) for a in range(3)] == [0, 0, 0]
    assert [accuracy(1, a) for a in range(3)] == [0, 1, 0]
    assert [accuracy(2, a) for a in range(3)] == [0.5, 0, 0.5]


def test_without_a_choice_there_is_nothing_to_measure_it_by():
    found = evaluate.likelihood(LIKELY, Demonstrations([2], [0], [2]), CHOICE)
    assert found.nats == 0
    assert np.isnan(found.nats_choice)
    assert np.isnan(found.accuracy_choice)
    assert found.steps_choice == 0


def test_baselines_by_hand():
    train = Demonstrations([0, 0, 0, 1], [0, 0, 1, 1], [0, 0, 1, 2])
    test = Demonstrations([0, 1, 2], [0, 1, 0], [1, 2, 2])
    task = Task(2, 0.9, n_states=3, available=CHOICE)
    found = evaluate.baselines(train, test, task)
    assert found["uniform"].nats == pytest.approx(2 * np.log(0.5) / 3)
    assert found["frequencies"].nats == pytest.approx(2 * np.log(0.5) / 3)
    assert found["cloning"].nats == pytest.approx((np.log(3 / 5) + np.log(2 / 3)) / 3)
    assert found["cloning"].nats_choice == pytest.approx((np.log(3 / 5) + np.log(2 / 3)) / 2)
    assert {x.steps for x in found.values()} == {3}
    sharp = evaluate.baselines(train, test, task, Additive(1e-9))["cloning"]
    assert sharp.nats == pytest.approx(np.log(2 / 3) / 3, abs=1e-6)


def test_baselines_find_out_how_many_states_there_are():
    train, test = Demonstrations([0], [0], [1]), Demonstrations([4], [1], [0])
    found = evaluate.baselines(train, test, Task(2, 0.9))
    assert found["cloning"].nats == pytest.approx(np.log(0.5))


def test_scores_are_causal():
    world = random_world(4)
    seen = world.demonstrations(20, 10, seed=0)
    policy = IAVI().fit(seen, world.task).policy_table
    scores = evaluate.log_probabilities(policy, seen)
    rng = np.random.default_rng(0)
    for t in (0, 3, 57, len(seen) - 1):
        # Whatever is done or met after step t, and where step t led, is drawn anew.
        states, actions, following = (
            x.copy() for x in (seen.states, seen.actions, seen.next_states)
        )
        for column, n in (states, 6), (actions, 3):
            column[t + 1 :] = rng.integers(n, size=len(seen) - t - 1)
        following[t:] = rng.integers(6, size=len(seen) - t)
        other = Demonstrations(states, actions, following, episodes=np.arange(len(seen)))
        after = evaluate.log_probabilities(policy, other)
        assert np.array_equal(after[: t + 1], scores[: t + 1])
        assert t == len(seen) - 1 or not np.array_equal(after, scores)
    order = rng.permutation(len(seen))
    mixed = Demonstrations(
        seen.states[order], seen.actions[order], seen.next_states[order], episodes=order
    )
    assert np.array_equal(evaluate.log_probabilities(policy, mixed), scores[order])


def test_the_score_of_a_solution_is_the_likelihood_of_its_policy():
    world = random_world(5)
    train, test = world.demonstrations(40, 10, seed=0).split(seed=0)
    found = IAVI().fit(train, world.task)
    assert found.score(test) == pytest.approx(
        evaluate.likelihood(found.policy_table, test).nats, abs=1e-12
    )


# -- the reward ----------------------------------------------------------------------------------


def test_correlation_by_hand_and_its_blind_spots():
    x, y = np.array([0.0, 1.0, 2.0]), np.array([0.0, 2.0, 1.0])
    assert evaluate.reward_correlation(x, y) == pytest.approx(0.5)
    for scale, shift in (3.0, -7.0), (1e-200, 0.0), (1e200, 0.0), (1.0, 1e6):
        assert evaluate.reward_correlation(scale * x + shift, y) == pytest.approx(0.5, abs=1e-6)
        assert evaluate.reward_correlation(y, scale * x + shift) == pytest.approx(0.5, abs=1e-6)
    assert evaluate.reward_correlation(-x, y) == pytest.approx(-0.5)
    assert evaluate.reward_correlation(x, -3 * x + 1) == -1
    assert evaluate.reward_correlation([0, 1, 2], [0, 1, 2]) == 1


def test_correlation_over_pairs():
    pairs = np.array([[0.0, 4.0], [1.0, 5.0], [2.0, 6.0]])
    states = np.array([0.0, 1.0, 2.0])
    expected = np.corrcoef(pairs.ravel(), np.repeat(states, 2))[0, 1]
    assert evaluate.reward_correlation(pairs, states) == pytest.approx(expected)
    assert evaluate.reward_correlation(pairs, pairs) == 1
    first = np.array([[True, False]] * 3)
    wild = np.where(first, pairs, np.nan)
    assert evaluate.reward_correlation(wild, states, first) == 1


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e9, 1 / 3])
def test_a_constant_correlates_with_nothing(constant):
    assert np.isnan(evaluate.reward_correlation(np.full(7, constant), np.arange(7.0)))
    assert np.isnan(evaluate.reward_correlation(np.arange(7.0), np.full(7, constant)))


def test_the_state_gauge_correlates_fully_with_the_true_reward():
    world = worlds.objectworld(6, 8, seed=1)
    found = IAVI(gauge=StateOnly()).solve(world.expert(), world.task)
    assert evaluate.reward_correlation(found.reward_table, world.reward) == pytest.approx(1)
    paper = IAVI().solve(world.expert(), world.task)
    assert evaluate.reward_correlation(paper.reward_table, world.reward) < 0.9


# -- constraints ---------------------------------------------------------------------------------


def test_what_is_chosen_is_told_from_what_only_happened():
    forbidden = Constraint(np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]), 0.5)
    task = Task(2, 0.9, n_states=3, constraints=[forbidden])
    #                          ok     chosen blown  stays  chosen and blown
    seen = Demonstrations([0, 0, 1, 2, 0], [0, 1, 0, 0, 1], [1, 1, 2, 2, 2])
    region = np.array([False, False, True])
    assert evaluate.violations(seen, task) == evaluate.Violations(2, 0, 5)
    assert evaluate.violations(seen, task, region) == evaluate.Violations(2, 1, 5)
    assert evaluate.violations(seen, task.unconstrained(), region) == evaluate.Violations(0, 2, 5)


def test_what_is_written_after_an_end_need_not_be_a_state():
    task = Task(2, 0.9, n_states=3, constraints=[Constraint(np.zeros((3, 2)), 0.5)])
    region = np.array([False, True, False])
    ended = Demonstrations([0, 2], [0, 0], [1, 99], terminated=[True, True])
    # Entering a forbidden terminal state is being blown into it; 99 is nowhere.
    assert evaluate.violations(ended, task, region) == evaluate.Violations(0, 1, 2)


def test_a_constrained_policy_chooses_no_violation_and_the_expert_does():
    world = worlds.gridworld(4, wind=0.2)
    cost = np.zeros((16, 5))
    cost[:, 1] = 1  # going down is forbidden
    task = world.task.constrain(Constraint(cost, 0.5))
    policy = IAVI().solve(world.expert(), task).policy_table
    careful = world.demonstrations(50, 20, policy, seed=0)
    careless = world.demonstrations(50, 20, seed=0)
    assert evaluate.violations(careful, task).chosen == 0
    assert evaluate.violations(careless, task).chosen == (careless.actions == 1).sum() > 0


def test_one_hot_is_the_policy_that_acts_so():
    assert evaluate.one_hot([2, 0, -1], 3).tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0]]
    assert evaluate.one_hot(np.zeros(0, int), 2).shape == (0, 2)


def test_the_measures_are_public():
    assert iq.evaluate is evaluate
