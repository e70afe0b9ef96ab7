"""BoltzmannMLE: what it claims beside the contract."""

import numpy as np
import pytest
from scipy.optimize import minimize

import inverseq as iq
from inverseq import evaluate, planning
from inverseq.errors import InvalidInput, NotConverged
from inverseq.nets import MLP


def exact_counts(task, policy, n=1e6):
    """Steps whose frequencies are those of a policy, with every state as often."""
    pairs = np.indices(policy.shape).reshape(2, -1)
    follows = np.asarray(task.transitions.matrix.argmax(axis=1)).ravel()
    return iq.Demonstrations(
        pairs[0], pairs[1], follows, weights=n * policy.ravel(), episodes=np.arange(policy.size)
    )


@pytest.mark.parametrize("backup", ["max", "soft"])
def test_two_states_by_a_search_that_knows_no_gradient(backup):
    """One number, how much better state 1 is; its likelihood by planning alone."""
    stay, move = np.eye(2), np.eye(2)[::-1]
    task = iq.Task(2, 0.5, transitions=np.stack([stay, move], axis=1))
    seen = iq.Demonstrations([0] * 10 + [1] * 10, [1] * 7 + [0] * 3 + [0] * 8 + [1] * 2, [0] * 20,
                             episodes=np.arange(20))  # fmt: skip

    def negative(w):
        plan = planning.solve(np.array([0.0, w[0]]), task, soft=backup == "soft")
        return -evaluate.likelihood(plan.policy, seen).nats

    best = minimize(negative, [0.5], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-14})
    phi = np.array([[0.0], [1.0]])
    found = iq.BoltzmannMLE(phi, ridge=0.0, deviation=None, backup=backup, tolerance=1e-15).fit(
        seen, task
    )
    reward = found.reward_table[:, 0]
    assert abs((reward[1] - reward[0]) - best.x[0]) < 1e-5
    assert abs(found.score(seen) + best.fun) < 1e-10


def test_the_expert_itself_is_the_most_likely():
    """With all that can be known of its policy, and any reward of the state, it is found."""
    world = iq.worlds.objectworld(size=5, n_objects=5, seed=1)
    expert = world.expert()
    seen = exact_counts(world.task, expert)
    found = iq.BoltzmannMLE(ridge=1e-3, tolerance=1e-15, max_iterations=20_000).fit(
        seen, world.task
    )
    np.testing.assert_allclose(found.policy_table, expert, rtol=0, atol=1e-3)
    off = found.reward_table[:, 0] - world.reward
    assert np.ptp(off) < 0.02


def test_no_reward_of_the_family_is_more_likely():
    world = iq.worlds.objectworld(size=5, n_objects=5, seed=0)
    seen = world.demonstrations(100, 8, seed=0)
    found = iq.BoltzmannMLE(world.features, ridge=0.0, deviation=None, tolerance=1e-14).fit(
        seen, world.task
    )
    rng = np.random.default_rng(0)
    reward = found.reward_table[:, 0]
    for _ in range(20):
        other = reward + world.features @ rng.normal(size=4) * 1e-3
        assert planning_score(other, world.task, seen) <= found.score(seen) + 1e-9


def planning_score(reward, task, seen):
    return evaluate.likelihood(planning.solve(reward, task).policy, seen).nats


def test_features_of_pairs_say_what_actions_cost():
    """An expert that pays for moving: no reward of the state explains it, one of pairs does."""
    world = iq.worlds.gridworld(4, wind=0.1)
    cost = np.zeros((16, 5))
    cost[:, :4] = -0.7
    goal = np.zeros((16, 1))
    goal[15] = 1.0
    reward = cost + 3 * goal
    expert = planning.solve(reward, world.task).policy
    seen = world.demonstrations(4_000, 10, expert, seed=0)
    phi = np.stack([np.repeat(goal, 5, axis=1), cost], axis=2)
    by_pairs = iq.BoltzmannMLE(phi, deviation=None).fit(seen, world.task)
    by_states = iq.BoltzmannMLE(goal, deviation=None).fit(seen, world.task)
    assert by_pairs.score(seen) > by_states.score(seen) + 0.01
    moving = by_pairs.reward_table[0, 0] - by_pairs.reward_table[0, 4]
    assert abs(moving + 0.7) < 0.05


@pytest.mark.slow
def test_a_network_sees_what_a_line_cannot():
    world = iq.worlds.objectworld(size=12, n_objects=12, seed=0)
    seen = world.demonstrations(100, 8, seed=0)
    more = world.demonstrations(2_000, 8, seed=1)
    bent = iq.BoltzmannMLE(world.features, MLP((32, 32), "tanh"), deviation=None)
    straight = iq.BoltzmannMLE(world.features, deviation=None)
    scores = [algorithm.fit(seen, world.task).score(more) for algorithm in (bent, straight)]
    assert scores[0] > scores[1] + 0.01


def test_with_many_steps_states_deviate_from_their_features():
    """A reward that its features cannot say is found all the same, given time."""
    world = iq.worlds.objectworld(size=6, n_objects=6, seed=2)
    seen = world.demonstrations(20_000, 8, seed=0)
    blind = np.random.default_rng(0).normal(size=(36, 2))
    free = iq.BoltzmannMLE(blind).fit(seen, world.task)
    bound = iq.BoltzmannMLE(blind, deviation=None).fit(seen, world.task)
    right, wrong = (
        evaluate.reward_correlation(found.reward_table[:, 0], world.reward)
        for found in (free, bound)
    )
    assert right > 0.95 > wrong


def test_the_seed_is_that_of_the_network():
    world = iq.worlds.objectworld(size=4, n_objects=4, seed=0)
    seen = world.demonstrations(20, 8, seed=0)
    small = iq.BoltzmannMLE(world.features, MLP((4,)), max_iterations=50, tolerance=1e-4)
    one, same, other = (small.fit(seen, world.task, seed=s) for s in (0, 0, 1))
    assert one.reward_table.tobytes() == same.reward_table.tobytes()
    assert one.reward_table.tobytes() != other.reward_table.tobytes()
    assert one.info.seed == 0
    assert iq.BoltzmannMLE(world.features).fit(seen, world.task, seed=3).info.seed is None


def test_it_says_which_family_its_reward_is_of():
    world = iq.worlds.objectworld(size=4, n_objects=4, seed=0)
    seen = world.demonstrations(20, 8, seed=0)
    shape = "Features(phi of shape (16, 4)) by a linear function"
    free, bound = (
        iq.BoltzmannMLE(world.features, deviation=deviation).fit(seen, world.task).info.gauge
        for deviation in (10.0, None)
    )
    assert (free, bound) == (f"{shape}, states may deviate", shape)


def test_a_rule_is_kept_and_planned_for():
    world = iq.worlds.objectworld(size=5, n_objects=5, seed=0)
    seen = world.demonstrations(100, 8, seed=0)
    never_up = iq.Constraint(np.eye(5)[[0] * 25], 0.5, name="never up")
    found = iq.BoltzmannMLE(world.features).fit(seen, world.task.constrain(never_up))
    assert (found.policy_table[:, 0] == 0).all()
    plan = planning.solve(found.reward_table, world.task.constrain(never_up))
    np.testing.assert_allclose(found.policy_table, plan.policy, rtol=0, atol=1e-9)


def test_steps_cut_short_are_said():
    world = iq.worlds.objectworld(size=5, n_objects=5, seed=0)
    seen = world.demonstrations(100, 8, seed=0)
    with pytest.warns(NotConverged, match=r"stopped after 2 steps .* raise `max_iterations`"):
        found = iq.BoltzmannMLE(world.features, max_iterations=2).fit(seen, world.task)
    assert not found.info.converged
    assert len(found.info.change) == found.info.iterations == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ridge": -1.0}, r"`BoltzmannMLE.ridge` must be finite and not negative; got -1.0"),
        ({"deviation": float("nan")}, r"`BoltzmannMLE.deviation` must be finite"),
        ({"network": MLP()}, r"`BoltzmannMLE.network` must have features"),
        ({"backup": "hard"}, r"`BoltzmannMLE.backup` must be 'max' or 'soft'; got 'hard'"),
        ({"tolerance": -1.0}, r"`tolerance` must be a number from 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(InvalidInput, match=message):
        iq.BoltzmannMLE(**settings)


def test_features_of_another_world_are_refused():
    world = iq.worlds.objectworld(size=4, n_objects=4, seed=0)
    seen = world.demonstrations(5, 8, seed=0)
    with pytest.raises(
        InvalidInput, match=r"must have shape \(16, K\) or \(16, 5, K\); .*\(9, 2\)"
    ):
        iq.BoltzmannMLE(np.ones((9, 2))).fit(seen, world.task)
    holes = np.full((16, 2), np.nan)
    with pytest.raises(InvalidInput, match=r"`BoltzmannMLE.features` must be finite; 32 entries"):
        iq.BoltzmannMLE(holes).fit(seen, world.task)


def test_new_names_for_states_rename_the_answer_up_to_where_it_stops():
    world = iq.worlds.objectworld(size=4, n_objects=4, seed=0)
    seen = world.demonstrations(200, 8, seed=0)
    order = np.random.default_rng(0).permutation(16)
    new = np.argsort(order)
    again = iq.Demonstrations(
        new[seen.states], seen.actions, new[seen.next_states], episodes=seen.episodes
    )
    model = world.task.transitions.dense()[order][:, :, order]
    renamed = iq.Task(5, world.task.discount, transitions=model)
    close = iq.BoltzmannMLE(tolerance=1e-14)
    one, other = close.fit(seen, world.task), close.fit(again, renamed)
    np.testing.assert_allclose(other.reward_table, one.reward_table[order], rtol=0, atol=1e-3)
