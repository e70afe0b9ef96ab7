"""Worlds: dynamics and rewards by slow loops, draws by counting, answers by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from inverseq.errors import InvalidInput
from inverseq.task import Task
from inverseq.worlds import World, chain, gamble, gridworld, objectworld, ring, trap
from inverseq.worlds.grid import STEPS, Grid, grid_transitions
from inverseq.worlds.world import Rows

DISCOUNTS = [0.2, 0.5, 0.9, 0.99]
UP, DOWN, LEFT, RIGHT, STAY = range(5)


def dense(world):
    return world.task.transitions.dense()


def optimal(world, allowed=None):
    """Q and V by dense value iteration over the allowed actions."""
    p = dense(world)
    if world.task.terminal is not None:
        p[world.task.terminal] = 0
        p[:, :, world.task.terminal] = 0
    allowed = np.ones(p.shape[:2], bool) if allowed is None else allowed
    v = np.zeros(len(p))
    for _ in range(4000):
        q = world.reward[:, None] + world.task.discount * p @ v
        v = np.where(allowed.any(1), np.where(allowed, q, -np.inf).max(1), -1e9)
    return q, v


def softmax(q):
    weight = np.exp(q - q.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def uniform_gauge(world, max_of_mean=False):
    """Inverse action-value iteration by hand: r and Q whose mean reward over actions is 0."""
    p, g, pi = dense(world), world.task.discount, softmax(optimal(world)[0])
    if world.task.terminal is not None:
        p[world.task.terminal] = 0
        p[:, :, world.task.terminal] = 0
    r = np.zeros(pi.shape)
    q = np.zeros(pi.shape)
    for _ in range(50):
        follow = (p @ q).max(axis=2) if max_of_mean else p @ q.max(axis=1)
        eta = np.log(pi) - g * follow
        r = eta - eta.mean(axis=1, keepdims=True)
        q = r + g * follow
    return r, q


# -- grids -----------------------------------------------------------------------------------


def slow_transitions(grid):
    rows, cols = grid.shape
    p = np.zeros((grid.n_actions, grid.n_states, grid.n_states))
    for s in range(grid.n_states):
        for done in range(grid.n_actions):
            row, col = s // cols + STEPS[done][0], s % cols + STEPS[done][1]
            if grid.torus:
                row, col = row % rows, col % cols
            blocked = not (0 <= row < rows and 0 <= col < cols) or grid.walls[row, col]
            there = s if blocked else row * cols + col
            for chosen in range(grid.n_actions):
                p[chosen, s, there] += grid.wind / grid.n_actions + (1 - grid.wind) * (
                    chosen == done
                )
    return p


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    wind=st.sampled_from([0.0, 0.3, 1.0]),
    torus=st.booleans(),
    stay=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_transitions_are_those_of_a_slow_loop(shape, wind, torus, stay, seed):
    walls = np.random.default_rng(seed).random(shape) < 0.3
    grid = Grid(shape, wind, walls, torus, stay)
    model = grid_transitions(grid)
    assert len(model) == grid.n_actions
    np.testing.assert_allclose([m.toarray() for m in model], slow_transitions(grid), atol=1e-15)
    for m in model:
        np.testing.assert_allclose(m.sum(axis=1), 1, atol=1e-15)
        assert m.has_canonical_format
        assert (m.data > 0).all()


def test_wind_by_hand():
    p = dense(gridworld(3, wind=0.5))
    middle = np.zeros(9)
    middle[[1, 7, 3, 5, 4]] = [0.6, 0.1, 0.1, 0.1, 0.1]  # up is chosen, or drawn among five
    np.testing.assert_allclose(p[4, UP], middle)
    corner = np.zeros(9)
    corner[[0, 1, 3]] = [0.3, 0.6, 0.1]  # up, left and stay all stay
    np.testing.assert_allclose(p[0, RIGHT], corner)


def test_torus_wraps_and_walls_block():
    p = dense(gridworld(3, torus=True))
    assert p[0, UP, 6] == p[0, LEFT, 2] == p[8, DOWN, 2] == p[8, RIGHT, 6] == 1
    walls = np.zeros((3, 3), bool)
    walls[1, 1] = True
    world = gridworld(3, walls=walls)
    p = dense(world)
    assert p[1, DOWN, 1] == p[3, RIGHT, 3] == 1
    assert (p[[0, 1, 2, 3, 5, 6, 7, 8], :, 4] == 0).all()
    np.testing.assert_allclose(world.task.start(), np.where(np.arange(9) == 4, 0, 1 / 8))


def test_gridworld_takes_shapes_rewards_and_terminals():
    world = gridworld((2, 3), terminal=[5], stay=False, temperature=2.0, discount=0.8)
    assert world.shape == (2, 3)
    assert (world.task.n_actions, world.task.discount, world.task.temperature) == (4, 0.8, 2.0)
    np.testing.assert_array_equal(world.reward, [0, 0, 0, 0, 0, 1])
    np.testing.assert_allclose(world.task.start(), [0.2] * 5 + [0])
    np.testing.assert_allclose(world.features[4], [1, 0.5])
    reward = np.arange(6.0).reshape(2, 3)
    mask = reward == 2
    by_map = gridworld((2, 3), reward=reward, terminal=mask)
    by_state = gridworld((2, 3), reward=reward.ravel(), terminal=mask.ravel())
    np.testing.assert_array_equal(by_map.reward, by_state.reward)
    np.testing.assert_array_equal(by_map.task.terminal, by_state.task.terminal)
    np.testing.assert_array_equal(gridworld(1).features, [[0, 0]])


# -- objectworld -----------------------------------------------------------------------------


def objects(shape, n_objects, n_colours, seed):
    """The objects that a seed gives: cells, inner and outer colours."""
    rng = np.random.default_rng(seed)
    cells = rng.choice(shape[0] * shape[1], n_objects, replace=False)
    return cells, *rng.integers(n_colours, size=(2, n_objects))


@pytest.mark.parametrize(("shape", "n_objects", "n_colours"), [((9, 7), 9, 3), ((6, 6), 36, 2)])
def test_features_and_reward_are_those_of_a_slow_loop(shape, n_objects, n_colours):
    world = objectworld(shape, n_objects, n_colours, seed=4)
    found = objects(shape, n_objects, n_colours, seed=4)
    places = [divmod(int(cell), shape[1]) for cell in found[0]]
    for s in range(len(world.reward)):
        row, col = divmod(s, shape[1])
        features = []
        for colours in found[1:]:
            for colour in range(n_colours):
                of = [p for p, c in zip(places, colours, strict=True) if c == colour]
                features.append(min(np.hypot(row - r, col - c) for r, c in of))
        manhattan = [
            min(
                abs(row - r) + abs(col - c)
                for (r, c), outer in zip(places, found[2], strict=True)
                if outer == colour
            )
            for colour in (0, 1)
        ]
        reward = 0 if manhattan[0] > 3 else (1 if manhattan[1] <= 2 else -1)
        np.testing.assert_allclose(world.features[s], features, rtol=1e-15)
        assert world.reward[s] == reward


def test_an_absent_colour_is_a_diagonal_away():
    world = objectworld((6, 8), n_objects=0, seed=0)
    np.testing.assert_array_equal(world.features, np.full((48, 4), 10.0))
    np.testing.assert_array_equal(world.reward, np.zeros(48))
    one = objectworld((6, 8), n_objects=1, n_colours=3, seed=0)
    assert ((one.features == 10.0).all(axis=0)).sum() == 4


def test_objects_lie_on_distinct_cells():
    for seed in range(20):
        world = objectworld(5, 20, seed=seed)
        assert ((world.features[:, :2] == 0).any(axis=1)).sum() == 20
        np.testing.assert_array_equal(
            (world.features[:, :2] == 0).sum(axis=1), (world.features[:, 2:] == 0).sum(axis=1)
        )


def test_the_seed_decides_the_world():
    one, again, other = objectworld(seed=1), objectworld(seed=1), objectworld(seed=2)
    np.testing.assert_array_equal(one.features, again.features)
    np.testing.assert_array_equal(one.reward, again.reward)
    assert (one.features != other.features).any()


def test_objectworld_is_the_one_of_the_paper():
    world = objectworld(seed=0)
    assert world.shape == (32, 32)
    assert (world.task.n_states, world.task.n_actions, world.task.discount) == (1024, 5, 0.9)
    assert dense(world)[33, STAY, 33] == pytest.approx(0.7 + 0.3 / 5)


def test_walls_leave_objects_alone():
    free, walled = objectworld(8, 10, seed=3), objectworld(8, 10, seed=3, walls=0.25)
    np.testing.assert_array_equal(free.features, walled.features)
    np.testing.assert_array_equal(free.reward, walled.reward)
    assert walled.grid.walls.sum() == 16
    assert walled.task.start()[walled.grid.walls.ravel()].sum() == 0


# -- changed dynamics ------------------------------------------------------------------------


def test_changed_keeps_reward_features_and_assumptions():
    world = gridworld(4, terminal=[15], wind=0.1, discount=0.7, temperature=0.5, torus=True)
    walls = np.eye(4, k=1, dtype=bool)
    other = world.changed(walls=walls)
    same = gridworld(
        4, terminal=[15], wind=0.1, discount=0.7, temperature=0.5, torus=True, walls=walls
    )
    np.testing.assert_array_equal(other.reward, world.reward)
    np.testing.assert_array_equal(other.features, world.features)
    np.testing.assert_array_equal(dense(other), dense(same))
    np.testing.assert_array_equal(other.task.start(), same.task.start())
    assert (other.task.discount, other.task.temperature) == (0.7, 0.5)
    calm = other.changed(wind=0.0)
    np.testing.assert_array_equal(calm.grid.walls, walls)
    assert set(np.unique(dense(calm))) == {0.0, 1.0}


def test_changed_draws_walls_from_its_seed():
    world = objectworld(10, 5, seed=0)
    one, again = world.changed(walls=0.15, seed=1), world.changed(walls=0.15, seed=1)
    other = world.changed(walls=0.15, seed=2)
    assert one.grid.walls.sum() == other.grid.walls.sum() == 15
    np.testing.assert_array_equal(one.grid.walls, again.grid.walls)
    assert (one.grid.walls != other.grid.walls).any()
    assert not world.grid.walls.any()


# -- demonstrations --------------------------------------------------------------------------


def assert_frequencies(counts, probabilities):
    """Within five standard deviations of the binomial; never where the probability is 0."""
    n = counts.sum(axis=-1, keepdims=True)
    bound = 5 * np.sqrt(n * probabilities * (1 - probabilities)) + 1e-9 * n
    assert (np.abs(counts - n * probabilities) <= bound).all()


def test_frequencies_are_the_probabilities():
    world = gridworld(3, wind=0.4, walls=np.eye(3, k=2, dtype=bool))
    seen = world.demonstrations(20_000, 6, seed=0)
    s, a, t = seen.states, seen.actions, seen.next_states
    counts = np.zeros((9, 5, 9))
    np.add.at(counts, (s, a, t), 1)
    assert counts.sum() == 120_000
    assert counts[2].sum() == 0
    assert_frequencies(counts.sum(axis=2), world.expert())
    assert_frequencies(counts, dense(world))
    first = np.flatnonzero(np.diff(seen.episodes, prepend=-1))
    assert_frequencies(np.bincount(s[first], minlength=9), world.task.start())


def test_episodes_are_connected_and_cut_at_their_length():
    seen = gridworld(4, wind=0.3).demonstrations(50, 7, seed=3)
    np.testing.assert_array_equal(seen.episodes, np.repeat(np.arange(50), 7))
    states, next_states = seen.states.reshape(50, 7), seen.next_states.reshape(50, 7)
    np.testing.assert_array_equal(states[:, 1:], next_states[:, :-1])
    assert not seen.terminated.any()
    assert {seen.states.dtype, seen.actions.dtype, seen.next_states.dtype} == {np.dtype(np.int64)}


def test_a_terminal_state_ends_the_episode():
    seen = gridworld(3, terminal=[8]).demonstrations(500, 40, seed=0)
    np.testing.assert_array_equal(seen.terminated, seen.next_states == 8)
    assert (seen.states != 8).all()
    steps = np.bincount(seen.episodes)
    ended = np.bincount(seen.episodes, seen.terminated)
    assert len(steps) == 500
    np.testing.assert_array_equal(steps[ended == 0], 40)
    assert set(np.unique(ended)) == {0, 1}
    np.testing.assert_array_equal(seen.terminated[np.cumsum(steps) - 1], ended)


def test_missing_probability_ends_the_episode():
    world = World(Task(1, 0.9, transitions=[[[0.75, 0.25]]]), np.ones(1), np.ones((1, 1)), "leak")
    seen = world.demonstrations(10_000, 1000, seed=0)
    assert (seen.next_states == 0).all()
    assert seen.terminated.sum() == 10_000
    assert_frequencies(
        np.array([(~seen.terminated).sum(), seen.terminated.sum()]), np.array([0.75, 0.25])
    )
    gambled = gamble().demonstrations(100, 9, np.full((4, 2), 0.5), seed=1)
    ends = gambled.terminated
    assert ends.sum() == 100
    np.testing.assert_array_equal(gambled.next_states[ends], gambled.states[ends])


def test_no_draw_leaves_its_row_or_takes_a_zero():
    rng = np.random.default_rng(0)
    table = (
        rng.random((3000, 7)) * (rng.random((3000, 7)) < 0.5)
        + 1e-12 * np.eye(7)[np.arange(3000) % 7]
    )
    table /= table.sum(axis=1, keepdims=True)
    rows, every = Rows(sp.csr_array(table)), np.arange(3000)
    for u in (0.0, 0.5, np.nextafter(1.0, 0.0)):
        assert (table[every, rows.draw(every, np.full(3000, u))] > 0).all()
    # Each border belongs to the entry that begins there: a shift by one would be seen.
    upto = np.cumsum(table, axis=1)
    for a in range(7):
        inside = table[:, a] > 1e-6
        u = np.where(inside, upto[:, a] - table[:, a] / 2, 0)
        assert (rows.draw(every, u)[inside] == a).all()


def test_zero_probabilities_are_never_taken():
    policy = np.tile([0.0, 0.3, 0.0, 0.7, 0.0], (9, 1))
    seen = gridworld(3, wind=0.2).demonstrations(20_000, 5, policy, seed=0)
    assert set(np.unique(seen.actions)) == {1, 3}
    assert_frequencies(np.bincount(seen.actions, minlength=5), policy[0])


def test_the_seed_decides_the_demonstrations():
    world = objectworld(6, 8, seed=0)
    one, again = world.demonstrations(20, 8, seed=5), world.demonstrations(20, 8, seed=5)
    other = world.demonstrations(20, 8, seed=6)
    np.testing.assert_array_equal(one.next_states, again.next_states)
    assert (one.next_states != other.next_states).any()


@pytest.mark.parametrize("world", [gridworld(3, wind=0.3, terminal=[8]), objectworld(6, 8, seed=1)])
def test_the_expert_is_boltzmann_over_the_optimal_values(world):
    hot = replace(world, task=replace(world.task, temperature=0.25))
    q = optimal(world)[0]
    decides = np.ones(len(q), bool) if world.task.terminal is None else ~world.task.terminal
    np.testing.assert_allclose(world.expert()[decides], softmax(q)[decides], atol=1e-9)
    np.testing.assert_allclose(hot.expert()[decides], softmax(q / 0.25)[decides], atol=1e-9)


# -- four-state worlds -----------------------------------------------------------------------


@pytest.mark.parametrize("g", DISCOUNTS)
def test_chain_by_hand(g):
    world = chain(g)
    q, v = optimal(world)
    np.testing.assert_allclose(q[:3], [[1 + g * (2 * g - 1), 1], [2 * g - 1, -1], [2, 2]])
    np.testing.assert_allclose(v, [max(1, q[0, 0]), 2 * g - 1, 2, 0])
    go = sigmoid(np.array([g * (2 * g - 1), 2 * g, 0]))
    np.testing.assert_allclose(world.expert()[:3, 0], go, atol=1e-9)
    r, q = uniform_gauge(world)
    np.testing.assert_allclose(r[:3, 0], [-g * (1 - g) / 2, g, 0], atol=1e-12)
    np.testing.assert_allclose(q[:3, 0], [g * (3 * g - 1) / 2, g, 0], atol=1e-12)
    np.testing.assert_allclose(q[:3, 1], -r[:3, 0], atol=1e-12)


def test_chain_does_not_tell_the_reward_of_a_state_that_nothing_leads_to():
    world, told = chain(), []
    for s in range(3):
        other = replace(world, reward=world.reward + np.eye(4)[s])
        told.append(not np.allclose(other.expert(), world.expert(), atol=1e-9))
    assert told == [False, True, True]


@pytest.mark.parametrize("g", DISCOUNTS)
def test_gamble_by_hand(g):
    world = gamble(g)
    q, v = optimal(world)
    np.testing.assert_allclose(v[1:], [4 + g, 4 + g, 4])
    blind = dense(world)[0, 0] @ q
    np.testing.assert_allclose(blind.max(), 4 - g)
    np.testing.assert_allclose(q[0, 0] - q[0, 1], g**2)
    np.testing.assert_allclose(g * (blind.max() - v[3]), -(g**2))
    np.testing.assert_allclose(world.expert()[0, 0], sigmoid(g**2), atol=1e-9)
    assert uniform_gauge(world)[0][0, 0] == pytest.approx(-(g**2) / 2)
    assert uniform_gauge(world, max_of_mean=True)[0][0, 0] == pytest.approx(g**2 / 2)


@pytest.mark.parametrize("g", DISCOUNTS)
@pytest.mark.parametrize("stay", [False, True])
def test_ring_by_hand(g, stay):
    world = ring(g, stay=stay)
    v = np.array([1, g, g**2, g]) / ((1 - g) if stay else (1 - g**2))
    np.testing.assert_allclose(optimal(world)[1], v)
    log = np.log(world.expert())
    np.testing.assert_allclose(log[[0, 2], 0], log[[0, 2], 1], atol=1e-9)
    if stay:
        np.testing.assert_allclose(log[0, 2] - log[0, 0], g)
        np.testing.assert_allclose(log[1, 0] - log[1, 2], g)
        np.testing.assert_allclose(log[1, 2] - log[1, 1], g**2)
        np.testing.assert_allclose(log[2, 0] - log[2, 2], g**2)
    else:
        np.testing.assert_allclose(log[1, 0] - log[1, 1], g)


@pytest.mark.parametrize(("stay", "unidentified"), [(False, 2), (True, 1)])
def test_ring_leaves_parity_open_unless_one_can_stay(stay, unidentified):
    world = ring(stay=stay)
    p = dense(world)
    differences = np.concatenate([p[:, 0] - p[:, a] for a in range(1, p.shape[1])])
    assert 4 - np.linalg.matrix_rank(differences) == unidentified
    shifted = replace(world, reward=world.reward + 3 * np.array([1, -1, 1, -1]) + 2)
    assert np.allclose(shifted.expert(), world.expert(), atol=1e-9) == (not stay)


@pytest.mark.parametrize("g", DISCOUNTS)
def test_trap_by_hand(g):
    world = trap(g)
    q, v = optimal(world)
    np.testing.assert_allclose(v, [-1, -1, -1, 0])
    np.testing.assert_allclose(q[:2, 0] - q[:2, 1], g)
    np.testing.assert_allclose(world.expert()[:2, 0], sigmoid(g), atol=1e-9)

    now = world.task.safe(np.arange(4))
    np.testing.assert_array_equal(now, [[True, True]] * 3 + [[False, False]])
    allowed = now & ~(dense(world)[:, :, ~now.any(axis=1)] > 0).any(axis=2)
    np.testing.assert_array_equal(
        allowed, [[False, True], [False, True], [True, True], [False] * 2]
    )
    v = optimal(world, allowed)[1]
    np.testing.assert_allclose(v[:3], [-(1 + g + g**2), -(1 + g), -1])


def test_whoever_looks_at_the_present_only_walks_into_the_trap():
    world = trap()
    now = world.task.safe(np.arange(4))
    policy = np.where(now, np.eye(2)[optimal(world)[0].argmax(axis=1)], 0)
    with pytest.raises(
        InvalidInput, match=r"in every state that is met; its row of state 3 is all 0"
    ):
        world.demonstrations(1, 5, policy, seed=0)
    policy[:2] = [0, 1]
    seen = world.demonstrations(1, 5, policy, seed=0)
    np.testing.assert_array_equal(seen.states, [0, 1, 2])


# -- messages --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gridworld(0), r"`size` must be an integer of at least 1, .*; got 0\."),
        (lambda: gridworld((3, 0)), r"two of them \(rows, cols\); got \(3, 0\)\."),
        (lambda: gridworld(3, wind=1.5), r"`wind` must be a probability, in \[0, 1\]; got 1\.5"),
        (lambda: gridworld(3, reward=np.ones(4)), r"shape \(3, 3\) .* or \(9,\); .* \(4,\)"),
        (lambda: gridworld(3, walls=np.ones(9, bool)), r"\(3, 3\); it is bool of shape \(9,\)"),
        (lambda: gridworld(2, walls=np.ones((2, 2), bool)), r"all 4 are walls or terminal"),
        (lambda: gridworld(2, terminal=[4]), r"`terminal` must lie from 0 to 3 .* row 0 is 4"),
        (lambda: objectworld(-1, seed=0), r"`size` .* got -1\."),
        (
            lambda: objectworld(3, 10, seed=0),
            r"`n_objects` must be an integer from 0 to 9, .* 3 × 3 .* got 10",
        ),
        (lambda: objectworld(5, 2.5, seed=0), r"`n_objects` must be an integer from .*; got 2\.5"),
        (lambda: objectworld(5, 3, 1, seed=0), r"`n_colours` must be .* at least 2: .* got 1\."),
        (lambda: objectworld(5, 3, 2.5, seed=0), r"`n_colours` must be an integer .* got 2\.5\."),
        (lambda: objectworld(5, 3, wind="a", seed=0), r"`wind` must be a prob.*; got 'a'\."),
        (lambda: objectworld(5, 3, walls="a", seed=0), r"`walls` must be a mask .*; got 'a'\."),
        (lambda: gridworld((10**6, 10**6)), r"`size` must be of at most 67,108,864 cells"),
        (lambda: gridworld(2, reward=[0, 0, np.nan, 0]), r"reward` must be .*state 2 is nan"),
        (lambda: gridworld(2, reward=list("abcd")), r"reward` must be an array of numbers; got"),
        (lambda: objectworld(5, 3, wind=-0.1, seed=0), r"`wind` .* got -0\.1"),
        (lambda: objectworld(5, 3, walls=1.0, seed=0), r"shape \(5, 5\) or a fraction .* got 1\.0"),
        (lambda: gridworld(5).changed(walls=0.2), r"`seed` must be given .* `walls=0\.2`"),
        (
            lambda: chain().changed(wind=0.1),
            r"`World\.changed` must have a grid .* 'chain' is none",
        ),
        (lambda: replace(chain(), reward=np.ones(3)), r"`World\.reward` .* 4 states; .* \(3,\)"),
        (lambda: replace(chain(), features=np.ones(4)), r"`World\.features` .* 2 dim.* \(4,\)"),
        (lambda: replace(chain(), task=Task(2, 0.9)), r"`World\.task` must have its transitions"),
        (lambda: chain().demonstrations(0, 5, seed=0), r"`episodes` must be .* at least 1; got 0"),
        (lambda: chain().demonstrations(5, 0, seed=0), r"`length` must be .* at least 1; got 0"),
        (lambda: chain().demonstrations(2.5, 3, seed=0), r"`episodes` must be an int.* got 2\.5"),
        (lambda: chain().demonstrations(2, 2.5, seed=0), r"`length` must be an int.* got 2\.5\."),
        (lambda: chain().demonstrations(2, 3, "x", seed=0), r"`policy` must be an array .*; got"),
        (
            lambda: chain().demonstrations(10**6, 10**6, seed=0),
            r"at most 100,000,000 steps, .* got 1,000,000 times 1,000,000\.",
        ),
        (
            lambda: chain().demonstrations(1, 1, np.ones((4, 3)) / 3, seed=0),
            r"`policy` must have shape \(states, actions\) = \(4, 2\); it has \(4, 3\)",
        ),
        (
            lambda: chain().demonstrations(
                1, 1, np.array([[0.5, 0.5]] * 2 + [[0.5, 0.4]] * 2), seed=0
            ),
            r"that of state 2 sums to 0\.9 and its smallest entry is 0\.4",
        ),
        (
            lambda: chain().demonstrations(1, 1, np.array([[1.5, -0.5]] * 4), seed=0),
            r"that of state 0 sums to 1 and its smallest entry is -0\.5",
        ),
    ],
)
def test_errors_say_what_was_given(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


def test_arrays_are_copies_that_cannot_be_written():
    reward = np.zeros((3, 3))
    world = gridworld(3, reward=reward)
    reward[0, 0] = 7
    assert world.reward[0] == 0
    for array in (world.reward, world.features, world.grid.walls):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
