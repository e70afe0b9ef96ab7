"""Planning against slow loops, dense solves, simulation and brute force on tiny worlds."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from inverseq import planning, worlds
from inverseq.errors import InvalidInput, NotConverged
from inverseq.task import Constraint, Task

SEEDS = range(24)


@dataclass
class Tiny:
    """A random world of a few states, dense, with whatever its seed's bits ask for."""

    task: Task
    reward: np.ndarray
    rng: np.random.Generator

    @property
    def shape(self):
        return self.reward.shape

    @property
    def ended(self):
        n = len(self.reward)
        return np.zeros(n, bool) if self.task.terminal is None else self.task.terminal

    @property
    def can(self):
        return self.task.available_table()

    @property
    def model(self):
        """What counts: nothing follows in or after a terminal state."""
        p = self.task.transitions.dense()
        p[self.ended] = 0
        p[:, :, self.ended] = 0
        return p

    @property
    def gains(self):
        return np.where(self.ended[:, None], 0.0, self.reward)

    def constrained(self):
        """With two random constraints, and episodes that begin where nothing speaks against it."""
        costs = self.rng.random((2, *self.shape))
        task = self.task.constrain(*(Constraint(c, 0.6, name=f"c{i}") for i, c in enumerate(costs)))
        alive = [s for s in range(len(self.reward)) if largest_viable(self, task)[s]]
        return None if not alive else Task(
            task.n_actions, task.discount, transitions=task.transitions, available=task.available,
            terminal=task.terminal, initial=alive[0], temperature=task.temperature,
            constraints=task.constraints,
        )  # fmt: skip

    def policy(self):
        weight = np.where(self.can, self.rng.random(self.shape) + 0.1, 0.0)
        return weight / weight.sum(axis=1, keepdims=True)


def tiny(seed, discount=None, states=4, actions=3):
    rng = np.random.default_rng(seed)
    p = np.where(
        rng.random((states, actions, states)) < 0.5, rng.random((states, actions, states)), 0
    )
    end = np.where(rng.random((states, actions, 1)) < (0.3 if seed & 1 else 0.0), 0.5, 0.0)
    end[p.sum(axis=2) == 0] = 1
    p = np.concatenate([p, end], axis=2)
    p /= p.sum(axis=2, keepdims=True)
    available = None
    if seed & 2:
        available = rng.random((states, actions)) < 0.6
        available[np.arange(states), rng.integers(actions, size=states)] = True
        p[~available] = 0.7  # what cannot be done has no meaning
    task = Task(
        actions,
        [0.0, 0.5, 0.9, 0.99][seed % 4] if discount is None else discount,
        transitions=p,
        available=available,
        terminal=[states - 1] if seed & 4 else None,
        temperature=0.5 if seed & 8 else 1.0,
    )
    return Tiny(task, rng.normal(size=(states, actions)), rng)


def slow_plan(world, allowed, soft=False, tolerance=1e-13):
    """Value iteration, one number after the other."""
    p, r, g, t = world.model, world.gains, world.task.discount, world.task.temperature
    n_states, n_actions = r.shape
    v = [0.0] * n_states
    while True:
        q = [
            [r[s, a] + g * sum(p[s, a, z] * v[z] for z in range(n_states) if p[s, a, z])
             for a in range(n_actions)]
            for s in range(n_states)
        ]  # fmt: skip
        after = []
        for s in range(n_states):
            choices = [q[s][a] for a in range(n_actions) if allowed[s][a]]
            top = max(choices)
            best = top + t * np.log(sum(np.exp((x - top) / t) for x in choices)) if soft else top
            after.append(0.0 if world.ended[s] else best)
        change = max(abs(x - y) for x, y in zip(v, after, strict=True))
        v = after
        if change <= tolerance * (1 - g):
            return np.array(q), np.array(v)


def softmax(q, allowed, temperature):
    weight = np.where(allowed, np.exp((q - q.max()) / temperature), 0.0)
    return weight / weight.sum(axis=1, keepdims=True)


def dense_value(p, r, g, policy):
    chain = np.einsum("sa,sat->st", policy, p)
    return np.linalg.solve(np.eye(len(p)) - g * chain, (policy * r).sum(axis=1))


def largest_viable(world, task):
    """The union of all sets of states in which one can stay safe for ever: by trying all sets."""
    p, n = world.model, len(world.reward)
    safe = world.can & np.all([c.cost <= c.threshold for c in task.constraints], axis=0)
    safe |= world.ended[:, None]
    union = np.zeros(n, bool)
    for members in product([False, True], repeat=n):
        members = np.array(members)
        leaves = p[:, :, ~members].sum(axis=2) > 0
        if (safe & ~leaves).any(axis=1)[members].all():
            union |= members
    return union


# -- the optimal values --------------------------------------------------------------------------


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_planning_equals_a_slow_loop(seed, soft):
    world = tiny(seed)
    plan = planning.solve(world.reward, world.task, soft=soft)
    can = world.can | world.ended[:, None]
    q, v = slow_plan(world, can, soft)
    assert plan.converged
    assert np.allclose(plan.v, v, rtol=0, atol=1e-8)
    assert np.allclose(plan.q[world.can], q[world.can], rtol=0, atol=1e-8)
    assert np.array_equal(plan.safe, can)
    assert np.allclose(plan.policy, softmax(plan.q, can, world.task.temperature), atol=1e-12)
    assert not plan.policy[~can].any()
    best = np.where(can, plan.q, -np.inf)
    assert (best[np.arange(len(best)), plan.greedy] == best.max(axis=1)).all()


@pytest.mark.parametrize("soft", [False, True])
def test_a_reward_of_states_is_one_of_pairs(soft):
    world = tiny(7)
    r = world.reward[:, 0]
    short = planning.solve(r, world.task, soft=soft)
    long = planning.solve(np.repeat(r[:, None], world.shape[1], axis=1), world.task, soft=soft)
    assert np.array_equal(short.q, long.q)


def test_what_cannot_be_done_may_have_any_reward():
    world = tiny(2)
    wild = np.where(world.can, world.reward, np.nan)
    assert np.array_equal(
        planning.solve(wild, world.task).v, planning.solve(world.reward, world.task).v
    )


@pytest.mark.parametrize("tolerance", [1e-2, 1e-5, 1e-9, 1e-11])
@pytest.mark.parametrize("discount", [0.5, 0.99, 0.9999])
def test_the_tolerance_is_kept(discount, tolerance):
    world = tiny(3, discount, states=12)
    for soft in (False, True):
        plan = planning.solve(world.reward, world.task, soft=soft, tolerance=tolerance)
        q = world.gains + discount * world.model @ plan.v
        t = world.task.temperature
        top = np.where(world.can, q, -np.inf).max(axis=1)
        if soft:
            q = np.where(world.can, q, -np.inf)
            top += t * np.log(np.exp((q - top[:, None]) / t).sum(axis=1))
        after = np.where(world.ended, 0.0, top)
        missed = np.abs(after - plan.v).max()
        scale = max(1.0, np.abs(plan.v).max())
        assert plan.converged
        assert plan.residual <= tolerance * scale
        # The plan's value is one backup further than the residual it reports.
        assert missed <= plan.residual + 1e-13 * scale


def test_a_discount_near_one_costs_few_backups():
    world = tiny(0, 0.9999, states=30, actions=3)
    for soft in (False, True):
        plan = planning.solve(world.reward, world.task, soft=soft)
        assert plan.iterations < 60
        policy = plan.policy if soft else np.eye(3)[plan.greedy]
        bonus = 0.0
        if soft:
            bonus = -world.task.temperature * np.log(np.where(policy > 0, policy, 1))
        value = dense_value(world.model, world.gains + bonus, 0.9999, policy)
        assert np.abs(plan.v - value).max() < 1e-8 * np.abs(value).max()


def test_without_a_future_the_best_reward_is_the_value():
    world = tiny(4)
    plan = planning.solve(world.reward, tiny(4, 0.0).task)
    assert np.array_equal(plan.v, np.where(world.ended, 0.0, world.reward.max(axis=1)))


def test_without_a_discount_the_value_of_a_maze_is_the_way_that_is_left():
    end = np.zeros((5, 6), bool)
    end[4, 5] = True
    walls = np.zeros((5, 6), bool)
    walls[1:, 2] = walls[:-1, 4] = True
    maze = worlds.gridworld((5, 6), terminal=end, walls=walls, reward=-np.ones(30), discount=1.0)
    plan = planning.solve(maze.reward, maze.task)
    steps = {(4, 5): 0}
    edge = [(4, 5)]
    for row, col in edge:
        for there in ((row + 1, col), (row - 1, col), (row, col + 1), (row, col - 1)):
            inside = 0 <= there[0] < 5 and 0 <= there[1] < 6
            if inside and not walls[there] and there not in steps:
                steps[there] = steps[row, col] + 1
                edge.append(there)
    for cell, distance in steps.items():
        assert plan.v.reshape(5, 6)[cell] == -distance


def test_a_terminal_state_is_worth_nothing_whatever_it_pays_and_wherever_it_leads():
    for follows in (np.eye(2)[[1, 1]], np.eye(2)[[0, 0]], np.zeros((2, 2))):
        model = np.stack([np.eye(2)[[1, 0]], follows])
        plan = planning.solve(np.array([1.0, 9.0]), Task(2, 0.9, transitions=model, terminal=[1]))
        assert plan.v.tolist() == pytest.approx([10.0, 0.0])


@pytest.mark.parametrize("seed", [0, 5, 10, 15])
@pytest.mark.parametrize("soft", [False, True])
def test_a_warm_start_leads_to_the_same_plan(seed, soft):
    world = tiny(seed)
    cold = planning.solve(world.reward, world.task, soft=soft)
    for start in (cold.v, 100 * world.rng.normal(size=4), np.full(4, -np.inf), [1, 2, 3, 4]):
        warm = planning.solve(world.reward, world.task, soft=soft, start=start)
        assert np.allclose(warm.v, cold.v, rtol=0, atol=1e-8)
    assert planning.solve(world.reward, world.task, soft=soft, start=cold.v).iterations <= 2


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("discount", [0.5, 0.9, 0.99])
def test_where_factors_would_be_dense_iterations_are_as_good(discount, size, soft):
    """A graph so wide that the value of a policy is iterated, and known to a tolerance only."""
    n, rng = 2_000, np.random.default_rng(0)
    rows = np.repeat(np.arange(n), 3)
    blocks = [
        sp.csr_array((np.full(3 * n, 1 / 3), (rows, rng.integers(n, size=3 * n))), shape=(n, n))
        for _ in range(3)
    ]
    task = Task(3, discount, transitions=blocks, temperature=size)
    plan = planning.solve(size * rng.normal(size=n), task, soft=soft, max_iterations=60)
    assert plan.converged


@pytest.mark.parametrize("soft", [False, True])
def test_close_to_a_discount_of_1_a_small_residual_is_not_enough(soft):
    """Values that are too high by as much everywhere miss the equation by next to nothing."""
    world = worlds.objectworld(6, n_objects=5, seed=0, discount=0.9999)
    right = planning.solve(world.reward, world.task, soft=soft)
    start = right.v + 1e-4
    again = planning.solve(world.reward, world.task, soft=soft, start=start)
    assert again.converged
    assert np.abs(again.v - right.v).max() < 1e-6


def test_stopping_early_is_said_with_its_knob_and_is_no_error():
    world = tiny(3, 0.99)
    with pytest.warns(NotConverged, match=r"residual of [\d.e-]+ after 2 backups; raise `max_iter"):
        plan = planning.solve(world.reward, world.task, max_iterations=2)
    assert not plan.converged
    assert plan.iterations == 2
    assert plan.residual > 1e-6


def test_a_value_without_bounds_ends_with_a_warning():
    # Staying pays for ever, and a discount of 1 is allowed because one could also leave.
    model = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    task = Task(2, 1.0, transitions=model, terminal=[1])
    with pytest.warns(NotConverged, match="check that values are finite at this discount"):
        plan = planning.solve(np.array([1.0, 0.0]), task, max_iterations=200)
    assert not plan.converged


def test_a_reward_can_be_planned_for_on_another_task():
    world, other = tiny(0), tiny(1)
    assert not np.allclose(other.model, world.model)
    plan = planning.solve(world.reward, other.task)
    _, v = slow_plan(Tiny(other.task, world.reward, world.rng), other.can)
    assert np.allclose(plan.v, v, atol=1e-8)


# -- under constraints ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_constrained_planning_equals_trying_every_policy(seed):
    world = tiny(seed)
    task = world.constrained()
    if task is None:
        return
    p, r, g, n = world.model, world.gains, task.discount, 4
    safe = world.can & np.all([c.cost <= c.threshold for c in task.constraints], axis=0)
    best = np.full(n, -np.inf)
    best[world.ended] = 0
    for actions in product(range(3), repeat=n):
        rows = np.arange(n)
        if not world.can[rows, actions].all():
            continue
        chain = p[rows, actions]
        value = np.linalg.solve(np.eye(n) - g * chain, r[rows, actions])
        reach = np.linalg.matrix_power(np.eye(n) + (chain > 0), n) > 0
        breaks = ~safe[rows, actions] & ~world.ended
        obeys = ~(reach & breaks).any(axis=1) & ~world.ended
        best[obeys] = np.maximum(best[obeys], value[obeys])
    plan = planning.solve(world.reward, task)
    assert np.allclose(plan.v, best, rtol=0, atol=1e-8)
    assert np.array_equal(plan.v == -np.inf, best == -np.inf)
    assert np.array_equal(plan.greedy == -1, best == -np.inf)
    assert not np.isnan(plan.q).any()
    assert not plan.policy[~plan.safe].any()


@pytest.mark.parametrize("seed", range(60))
def test_the_viable_set_is_the_greatest_fixed_point(seed):
    world = tiny(seed)
    task = world.constrained()
    if task is None:
        return
    lives = largest_viable(world, task)
    safe = world.can & np.all([c.cost <= c.threshold for c in task.constraints], axis=0)
    leaves = world.model[:, :, ~lives].sum(axis=2) > 0
    expected = (safe & ~leaves) | world.ended[:, None]
    assert np.array_equal(planning.viable(task), expected)


def test_a_constraint_reaches_back_to_what_leads_into_the_trap():
    world = worlds.trap(0.5)
    plan = planning.solve(world.reward, world.task)
    assert plan.greedy.tolist() == [1, 1, 0, -1]
    assert plan.v.tolist() == [-1.75, -1.5, -1.0, -np.inf]
    assert plan.policy.tolist() == [[0, 1], [0, 1], [0.5, 0.5], [0, 0]]


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("discount", [0.0, 0.9, 1.0])
def test_states_without_a_way_out_make_no_nan(discount, soft):
    world = worlds.trap(discount)
    plan = planning.solve(world.reward, world.task, soft=soft)
    assert not np.isnan(plan.q).any()
    assert np.isneginf(plan.q[:2, 0]).all()
    assert np.isfinite(plan.q[:2, 1]).all()
    assert not plan.policy[:2, 0].any()


def test_what_the_model_does_not_know_is_harmless():
    # Action 0 leads to the trap or nobody knows where, action 1 nobody knows where.
    model = np.array([[[0, 0.5, 0.5], [0, 0, 1]], [[0, 0, 1], [0, 0, 1]]])
    shut = Constraint(np.array([[0.0, 0.0], [1.0, 1.0]]), 0.5)
    task = Task(2, 0.9, transitions=model, initial=0, constraints=[shut])
    assert planning.viable(task).tolist() == [[False, True], [False, False]]


def test_known_viable_actions_are_taken_as_given():
    world = tiny(0)
    safe = np.zeros(world.shape, bool)
    safe[:, 1] = True
    plan = planning.solve(world.reward, world.task, safe=safe)
    _, v = slow_plan(world, safe)
    assert np.allclose(plan.v, v, atol=1e-8)


# -- the value of a policy -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_the_value_of_a_policy_equals_a_dense_solve(seed):
    world = tiny(seed)
    policy = world.policy()
    expected = dense_value(world.model, world.gains, world.task.discount, policy)
    expected[world.ended] = 0
    value = planning.evaluate_policy(policy, world.reward, world.task)
    assert np.allclose(value, expected, rtol=1e-10, atol=1e-10)


def test_the_value_of_the_greedy_policy_is_the_optimal_value():
    world = tiny(9)
    plan = planning.solve(world.reward, world.task)
    value = planning.evaluate_policy(np.eye(3)[plan.greedy], world.reward, world.task)
    assert np.allclose(value, plan.v, atol=1e-8)


def test_rows_of_terminal_states_may_be_empty():
    world = tiny(4)
    policy = world.policy()
    whole = planning.evaluate_policy(policy, world.reward, world.task)
    policy[world.ended] = 0
    assert np.array_equal(planning.evaluate_policy(policy, world.reward, world.task), whole)
    assert np.array_equal(
        planning.visitation(policy, world.task),
        planning.visitation(np.where(policy.any(axis=1)[:, None], policy, 1 / 3), world.task),
    )


def test_a_constrained_policy_can_be_valued_where_it_acts():
    world = worlds.trap(0.5)
    policy = planning.solve(world.reward, world.task).policy
    value = planning.evaluate_policy(policy, world.reward, world.task)
    assert value.tolist() == [-1.75, -1.5, -1.0, -np.inf]
    assert planning.visitation(policy, world.task).tolist() == [1, 0.5, 0.25, 0]
    with pytest.raises(
        InvalidInput, match=r"where an episode begins; its row of state 0 is all 0\."
    ):
        planning.visitation([[0, 0], [0, 1], [0.5, 0.5], [0, 0]], world.task)
    with pytest.raises(InvalidInput, match=r"action 0 in state 0 may lead to a state whose row is"):
        planning.evaluate_policy([[0.5, 0.5], [0, 1], [0.5, 0.5], [0, 0]], world.reward, world.task)


def test_without_a_discount_a_constrained_policy_can_be_valued_too():
    world = worlds.trap(1.0)
    policy = planning.solve(world.reward, world.task).policy
    value = planning.evaluate_policy(policy, world.reward, world.task)
    assert value.tolist() == [-3, -2, -1, -np.inf]
    assert planning.visitation(policy, world.task).tolist() == [1, 1, 1, 0]


def test_without_a_discount_a_policy_must_reach_an_end():
    model = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    task = Task(2, 1.0, transitions=model, terminal=[1])
    value = planning.evaluate_policy([[0.75, 0.25], [1, 0]], [-1, 0], task)
    assert value.tolist() == [-4, 0]
    assert planning.visitation([[0.75, 0.25], [1, 0]], task).tolist() == [4, 1]
    with pytest.raises(InvalidInput, match="under the policy; state 0 does not"):
        planning.evaluate_policy([[1, 0], [1, 0]], [-1, 0], task)


# -- visits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_visits_equal_a_dense_solve(seed):
    world = tiny(seed)
    policy = world.policy()
    p = world.task.transitions.dense()
    p[world.ended] = 0
    chain = np.einsum("sa,sat->st", policy, p)
    start = world.task.start()
    expected = np.linalg.solve(np.eye(4) - world.task.discount * chain.T, start)
    assert np.allclose(planning.visitation(policy, world.task), expected, atol=1e-9)
    now, visits = start, 0
    for _ in range(5):
        visits, now = visits + now, chain.T @ now
    assert np.allclose(planning.visitation(policy, world.task, horizon=5), visits, atol=1e-12)
    assert not planning.visitation(policy, world.task, horizon=0).any()


@pytest.mark.parametrize("seed", [0, 3, 6])
def test_visits_weigh_rewards_into_the_return(seed):
    world = tiny(seed)
    policy = world.policy()
    gain = (policy * world.gains).sum(axis=1)
    value = planning.evaluate_policy(policy, world.reward, world.task)
    assert planning.visitation(policy, world.task) @ gain == pytest.approx(
        world.task.start() @ value
    )


def test_visits_equal_the_frequencies_of_a_simulation():
    world = tiny(5, 0.9)
    policy, n, steps = world.policy(), 20_000, 12
    p = np.column_stack([world.model.reshape(12, 4), np.zeros(12)])
    whole = world.task.transitions.dense().reshape(12, 4)
    whole[np.repeat(world.ended, 3)] = 0
    p[:, :4], p[:, 4] = whole, np.clip(1 - whole.sum(axis=1), 0, 1)
    rng = np.random.default_rng(0)
    states = rng.choice(4, n, p=world.task.start())
    seen = np.zeros(4)
    for _ in range(steps):
        seen += np.bincount(states, minlength=5)[:4]
        states = states[states < 4]
        actions = (rng.random((len(states), 1)) > policy[states].cumsum(axis=1)[:, :-1]).sum(axis=1)
        rows = p[states * 3 + actions].cumsum(axis=1)
        states = (rng.random((len(states), 1)) > rows[:, :-1]).sum(axis=1)
    expected = planning.visitation(policy, world.task, horizon=steps)
    assert np.abs(seen / n - expected).max() < 5 * steps / np.sqrt(n)
    assert np.abs(seen / n - expected).max() < 0.05


# -- order ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_levels_go_backward_from_the_ends(seed):
    rng = np.random.default_rng(seed)
    n = 9
    p = np.triu(rng.random((2, n, n + 1)) < 0.3, 1).astype(float)
    p[..., -1] += p.sum(axis=2) == 0
    p /= p.sum(axis=2, keepdims=True)
    order = rng.permutation(n)
    p = p[:, order][:, :, np.append(order, n)]
    task = Task(2, 1.0, transitions=p.swapaxes(0, 1))
    levels = planning.by_levels(task)
    assert sorted(np.concatenate(levels).tolist()) == list(range(n))
    done = np.zeros(n, bool)
    for level in levels:
        follows = p[:, level, :n].any(axis=(0, 1))
        assert not (follows & ~done).any()
        done[level] = True


def test_a_cycle_has_no_order_and_is_named():
    with pytest.raises(InvalidInput, match=r"without cycles; state \d can be reached.*'auto'"):
        planning.by_levels(worlds.ring().task)
    assert [level.tolist() for level in planning.by_levels(worlds.chain().task)] == [
        [2, 3],
        [1],
        [0],
    ]
