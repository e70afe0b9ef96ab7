"""The laws of the exact and the projected gauges, over random small worlds.

What is compared with is dense and slow, and written here from the page of mathematics.
"""

import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from inverseq import evaluate, planning
from inverseq.algorithms import IAVI, IQL
from inverseq.demonstrations import Additive, Demonstrations
from inverseq.errors import InvalidInput, NotConverged, NotIdentified
from inverseq.gauges import Features, Reference, StateOnly, Uniform, Zero
from inverseq.task import Constraint, Task
from inverseq.worlds import chain, gamble, objectworld, ring
from random_worlds import EITHER, boltzmann, worlds

MODERATE = st.sampled_from([0.0, 0.3, 0.5, 0.9, 0.95])
IDENTIFYING = st.sampled_from([0.3, 0.5, 0.9, 0.95])
NOTHING_FORBIDDEN = 2.0


def scale(*arrays):
    """The largest finite number, at least 1: what an error is compared with."""
    return max(1.0, *(np.abs(x[np.isfinite(x)]).max(initial=0.0) for x in arrays))


def close(x, y, tolerance=1e-10):
    """Equal up to a tolerance relative to the largest finite number; infinities in place."""
    np.testing.assert_array_equal(np.isfinite(x), np.isfinite(y))
    np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * scale(x, y))


def softmax(q, temperature, allowed):
    x = np.where(allowed, q, -np.inf) / temperature
    weight = np.exp(x - x.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def logarithm(policy, world):
    return np.where(
        world.pairs, world.task.temperature * np.log(np.where(world.pairs, policy, 1.0)), 0.0
    )


def solve_all(world, policy, task=None):
    """Every exact gauge under every backup that is defined."""
    task = world.task if task is None else task
    backups = [b for b in world.backups() if not (b == "max_of_mean" and task.constraints)]
    for backup in backups:
        for gauge in world.gauges():
            yield gauge, backup, IAVI(gauge=gauge, backup=backup).solve(policy, task)


# -- exact gauges: the expert is recovered --------------------------------------------------------


@given(worlds(), st.booleans())
@settings(max_examples=60)
def test_the_expert_is_recovered_in_every_exact_gauge(world, degenerate):
    policy = world.policy(degenerate)
    for gauge, backup, found in solve_all(world, policy):
        q = found.q_table
        again = softmax(q, world.task.temperature, world.available)
        context = f"{gauge!r} {backup}"
        assert np.abs(again - policy).max() < 1e-10, context
        assert np.abs(found.policy_table - policy).max() < 1e-10, context
        assert (found.policy_table[~world.available] == 0).all()
        assert np.isneginf(q[~world.available]).all()
        assert (found.reward_table[~world.available] == 0).all()


@given(worlds(discounts=st.just(0.9999)))
@settings(max_examples=40)
def test_the_expert_is_recovered_at_a_discount_close_to_one(world):
    policy = world.policy(degenerate=True)
    for gauge, backup, found in solve_all(world, policy):
        off = np.abs(found.policy_table - policy)
        assert off.max() < 1e-10, (gauge, backup)
        assert found.info.converged


@given(worlds(), st.booleans())
@settings(max_examples=50)
def test_every_gauge_fixes_what_it_says(world, degenerate):
    policy = world.policy(degenerate)
    l, p, gamma = logarithm(policy, world), world.model, world.task.discount
    for gauge, backup, found in solve_all(world, policy):
        r = found.reward_table
        off = 1e-10 * scale(found.q_table)
        if isinstance(gauge, Uniform):
            assert np.abs(r.sum(axis=1)).max() < off
        elif isinstance(gauge, Reference):
            mu = gauge.table(world.available)
            earned = (mu * r).sum(axis=1) - gauge.earned(len(r))
            assert np.abs(earned[world.decides]).max() < off
        else:
            if backup == "max":
                beyond = p @ np.where(world.pairs, l, -np.inf).max(axis=1, initial=-1e300)
            elif backup == "soft":
                beyond = np.zeros(l.shape)
            else:
                beyond = np.einsum("sat,tb->sab", p, l).max(axis=2)
            close(r, np.where(world.pairs, l - gamma * beyond, 0.0))
            expected = np.where(world.available, l, -np.inf)
            close(found.q_table[world.decides], expected[world.decides])


@given(worlds(), st.booleans())
@settings(max_examples=60)
def test_the_reward_asks_for_the_action_values_that_it_came_from(world, degenerate):
    policy = world.policy(degenerate)
    for gauge, backup, found in solve_all(world, policy):
        if backup == "max_of_mean":
            continue  # its forward problem is not Bellman's
        plan = planning.solve(found.reward_table, world.task, soft=backup == "soft")
        off = np.abs(plan.q[world.pairs] - found.q_table[world.pairs]).max()
        assert off < 1e-8 * scale(found.q_table), (gauge, backup)
        v = found.q_table.max(axis=1) if backup == "max" else plan.v
        close(plan.v, np.where(world.decides, v, 0.0), 1e-8)


@given(worlds(unavailable=st.just(False)))
@settings(max_examples=50)
def test_the_literal_operator_satisfies_its_own_equation(world):
    policy = world.policy()
    for gauge in world.gauges():
        found = IAVI(gauge=gauge, backup="max_of_mean").solve(policy, world.task)
        q = np.where(world.decides[:, None], found.q_table, 0.0)
        follows = np.einsum("sat,tb->sab", world.model, q).max(axis=2)
        expected = q - world.task.discount * follows
        close(found.reward_table[world.decides], expected[world.decides])


@given(worlds(terminal=st.just(True)))
@settings(max_examples=20)
def test_nothing_is_said_about_terminal_states(world):
    for _, _, found in solve_all(world, world.policy()):
        ended = ~world.decides
        assert (found.reward_table[ended] == 0).all()
        np.testing.assert_allclose(found.value_table[ended], 0, atol=1e-12)


# -- exact gauges under constraints ---------------------------------------------------------------


def differences(q, safe):
    """Action values beside the first safe one of each state; what is not safe is left out."""
    first = q[np.arange(len(q)), safe.argmax(axis=1)]
    return np.where(safe, q - np.where(safe.any(axis=1), first, 0.0)[:, None], 0.0)


def constrained(world):
    """The task under random constraints, where those leave a viable action in every state."""
    task = world.task.constrain(*world.constraints())
    try:
        planning.viable(task)
    except InvalidInput:
        assume(False)
    return task


@given(worlds(), st.booleans())
@settings(max_examples=40)
def test_the_constrained_policy_is_the_same_in_every_exact_gauge(world, degenerate):
    task, policy = constrained(world), world.policy(degenerate)
    for backup in ("max", "soft"):
        found = [IAVI(gauge=g, backup=backup).solve(policy, task) for g in world.gauges()]
        safe, size = (
            found[0].safe_table,
            max(scale(f.q_table, f.q_constrained_table) for f in found),
        )
        for other in found:
            np.testing.assert_array_equal(other.safe_table, safe)
            assert (other.policy_table[~safe] == 0).all()
            off = 1e-9 * size
            parts = (differences(f.q_constrained_table, safe) for f in (found[0], other))
            np.testing.assert_allclose(*parts, rtol=0, atol=off)
            np.testing.assert_allclose(
                other.policy_table, found[0].policy_table, rtol=0, atol=off / task.temperature
            )


@given(worlds(discounts=MODERATE), st.booleans(), st.booleans())
@settings(max_examples=80)
def test_it_is_the_one_planned_from_the_true_reward(world, of_pairs, soft):
    reward = world.reward_of_pairs() if of_pairs else world.reward()
    task = constrained(world)
    expert, plan = boltzmann(world, reward, soft)
    assume(expert[world.pairs].min() > 1e-200)
    right = planning.solve(reward, task, soft=soft)
    for gauge in world.gauges():
        found = IAVI(gauge=gauge, backup="soft" if soft else "max").solve(expert, task)
        np.testing.assert_array_equal(found.safe_table, right.safe)
        off = 1e-9 * scale(plan.q, found.q_table)
        np.testing.assert_allclose(
            found.policy_table[world.decides], right.policy[world.decides], rtol=0, atol=off
        )
        parts = (differences(q, right.safe) for q in (found.q_constrained_table, right.q))
        np.testing.assert_allclose(*parts, rtol=0, atol=off)


@given(worlds(), st.booleans())
@settings(max_examples=60)
def test_a_state_may_be_lost_where_no_episode_begins(world, soft):
    """There the row is 0 throughout, nothing leads there, and no number turns into NaN."""
    cost = world.rng.random(world.available.shape)
    cost[0] = 1.0  # nothing is allowed in state 0
    task = replace(world.task, initial=world.task.n_states - 1)
    task = task.constrain(Constraint(cost, 0.8))
    try:
        safe = planning.viable(task)
    except InvalidInput:
        assume(False)
    assume(not safe[0].any())
    found = IAVI(backup="soft" if soft else "max").solve(world.policy(), task)
    lost = ~safe.any(axis=1)
    to_lost = world.model[:, :, lost].sum(axis=2) > 0
    assert (found.policy_table[lost] == 0).all()
    assert (found.policy_table[to_lost] == 0).all()
    np.testing.assert_allclose(found.policy_table[~lost].sum(axis=1), 1)
    assert np.isneginf(found.q_constrained_table[to_lost]).all()
    assert not np.isnan(found.q_constrained_table).any()


@given(worlds())
@settings(max_examples=30)
def test_nothing_forbidden_is_no_constraint_bit_for_bit(world):
    policy = world.policy()
    free = Constraint(world.rng.random(world.available.shape), NOTHING_FORBIDDEN)
    gauges = [*world.gauges(), Features(world.rng.normal(size=(world.task.n_states, 1)))]
    for gauge in gauges:
        for backup in ("max", "soft"):
            # One feature may well be one too many.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NotIdentified)
                plain = IAVI(gauge=gauge, backup=backup).solve(policy, world.task)
                bound = IAVI(gauge=gauge, backup=backup).solve(policy, world.task.constrain(free))
            assert bound.policy_table.tobytes() == plain.policy_table.tobytes()
            assert bound.q_table.tobytes() == plain.q_table.tobytes()
            assert bound.reward_table.tobytes() == plain.reward_table.tobytes()
            np.testing.assert_array_equal(bound.q_constrained_table, plain.q_table)


# -- projected gauges -----------------------------------------------------------------------------


def unidentified(world):
    """A basis of the potentials that the policy does not see, and the rewards that they make.

    The stacked ``P_a - P_b`` over pairs of actions, among the states in which something is decided:
    its kernel. A potential ``h`` in it changes the reward of the state by ``h - gamma P_a h``.
    """
    p, pairs, live = world.model, world.pairs, np.flatnonzero(world.decides)
    rows = [
        p[s, a, live] - p[s, b, live]
        for s in live
        for a in np.flatnonzero(pairs[s])
        for b in np.flatnonzero(pairs[s])
        if a < b
    ]
    stacked = world.task.discount * np.array(rows).reshape(len(rows), len(live))
    singular = np.linalg.svd(stacked, compute_uv=False) if rows else np.zeros(0)
    # A hair's breadth from a kernel is another question than a kernel.
    assume(not ((singular > 1e-12) & (singular < 1e-2)).any())
    kernel = scipy.linalg.null_space(stacked, rcond=1e-10) if rows else np.eye(len(live))
    first = pairs.argmax(axis=1)[live]
    moved = kernel - world.task.discount * p[live, first][:, live] @ kernel
    return kernel, moved, live


def holds_constants(kernel):
    ones = np.ones(len(kernel))
    return bool(kernel.size) and np.abs(kernel @ (kernel.T @ ones) - ones).max() < 1e-8


@given(worlds(discounts=IDENTIFYING), st.booleans())
@settings(max_examples=100)
def test_the_true_reward_of_the_state_returns_up_to_what_is_unidentified(world, soft):
    kernel, moved, live = unidentified(world)
    reward = world.reward()
    expert, plan = boltzmann(world, reward, soft)
    assume(expert[world.pairs].min() > 1e-30)
    constants = holds_constants(kernel)
    estimator = IAVI(gauge=StateOnly(), backup="soft" if soft else "max")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = estimator.solve(expert, world.task)
    assert found.info.unidentified_dimensions == kernel.shape[1]
    warned = [w for w in caught if issubclass(w.category, NotIdentified)]
    goes_on = world.model[world.pairs].sum(axis=1)
    alike = np.ptp(goes_on) < 1e-9
    assert len(caught) == len(warned) == int(kernel.shape[1] > (constants and alike))
    assert found.info.residual < 1e-7 * scale(plan.q)

    recovered = np.array([found.reward_table[s, world.pairs[s]] for s in live], dtype=object)
    assert all((row == row[0]).all() for row in recovered)
    off = np.array([row[0] for row in recovered], dtype=float) - reward[live]
    size = 1e-6 * scale(plan.q)
    rest = off - moved @ np.linalg.lstsq(moved, off, rcond=None)[0] if kernel.size else off
    assert np.abs(rest).max() < size
    if kernel.shape[1] == 1 and constants and holds_constants(moved / (1e-300 + moved.max())):
        assert np.ptp(off) < size
    # It is zero in the mean wherever a constant would not show.
    if constants:
        assert abs(sum(row[0] for row in recovered)) < size * len(live)
    # Whatever is unidentified, the policy is that of the expert.
    np.testing.assert_allclose(found.policy_table[live], expert[live], rtol=0, atol=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_true_reward_returns_on_objectworld(temperature):
    world = objectworld(32, seed=3, temperature=temperature)
    found = IAVI(gauge=StateOnly()).solve(world.expert(), world.task)
    off = found.reward_table - world.reward[:, None]
    assert np.ptp(off) < 1e-6
    assert found.info.unidentified_dimensions == 1


def test_a_ring_hides_the_parity_and_shows_it_to_who_can_stay():
    with pytest.warns(NotIdentified, match="2 directions"):
        found = IAVI(gauge=StateOnly()).solve(ring().expert(), ring().task)
    assert found.info.unidentified_dimensions == 2
    world = ring(stay=True)
    found = IAVI(gauge=StateOnly()).solve(world.expert(), world.task)
    assert found.info.unidentified_dimensions == 1
    assert np.ptp(found.reward_table - world.reward[:, None]) < 1e-9


@pytest.mark.parametrize("features", [False, True])
def test_where_states_end_differently_what_can_be_added_is_no_constant_and_is_said(features):
    end, rng = np.array([0.0, 0.5, 0.2]), np.random.default_rng(0)
    model = rng.dirichlet(np.ones(3), size=(3, 2)) * (1 - end)[:, None, None]
    model = np.concatenate([model, np.repeat(end, 2).reshape(3, 2, 1)], axis=2)
    task, reward = Task(2, 0.9, transitions=model), np.array([1.0, 2.0, -1.0])
    expert = planning.solve(reward, task).policy
    gauge = Features(np.eye(3)) if features else StateOnly()
    with pytest.warns(NotIdentified, match=r"not identified up to a constant: .*\(0\.1 to 0\.55\)"):
        found = IAVI(gauge=gauge).solve(expert, task)
    assert found.info.unidentified_dimensions == 1
    off = found.reward_table[:, 0] - reward
    assert np.ptp(off) > 0.1
    assert np.ptp(off / (1 - 0.9 * (1 - end))) < 1e-6
    same = np.full(3, 0.2)
    model[:, :, :3] *= ((1 - same) / (1 - end))[:, None, None]
    model[:, :, 3] = same[:, None]
    task = Task(2, 0.9, transitions=model)
    found = IAVI(gauge=gauge).solve(planning.solve(reward, task).policy, task)
    assert np.ptp(found.reward_table[:, 0] - reward) < 1e-6


@given(worlds(), st.integers(1, 40))
@settings(max_examples=100)
@pytest.mark.filterwarnings("ignore::inverseq.errors.NotIdentified")
def test_what_few_steps_leave_open_is_counted_as_a_dense_rank_counts_it(world, steps):
    """Unknowns in which a step has a part, less the rank of the equations that the steps give."""
    seen = world.demonstrations(steps)
    n = world.task.n_states
    s, a = np.nonzero(seen.counts(n, world.task.n_actions).visits)
    joint = np.hstack([np.eye(n)[s] - world.task.discount * world.model[s, a], -np.eye(n)[s]])
    joint = joint * np.sqrt(seen.counts(n, world.task.n_actions).visits[s, a])[:, None]
    size = np.sqrt((joint**2).sum(axis=0))
    joint = joint[:, size > 0] / size[size > 0]
    singular = np.linalg.svd(joint, compute_uv=False)
    assume(not ((singular > 1e-7) & (singular < 1e-3)).any())
    found = IAVI(gauge=StateOnly()).fit(seen, world.task)
    assert found.info.unidentified_dimensions == joint.shape[1] - (singular >= 1e-3).sum()


@given(worlds(discounts=MODERATE), st.integers(1, 40), st.integers(1, 3))
@settings(max_examples=50)
@pytest.mark.filterwarnings("ignore::inverseq.errors.NotIdentified")
def test_weights_that_no_seen_choice_feels_are_counted(world, steps, n_features):
    """By how the policy in the states that were seen moves when a weight is moved."""
    seen = world.demonstrations(steps)
    n = world.task.n_states
    phi = world.rng.integers(-1, 2, (n, n_features)).astype(float)
    found = IAVI(gauge=Features(phi, ridge=1.0), backup="soft").fit(seen, world.task)
    reward, step = found.reward_table, 1e-4
    felt = []
    for column in phi.T:
        ahead, behind = (
            planning.solve(reward + d * column[:, None], world.task, soft=True).policy
            for d in (step, -step)
        )
        felt.append(((ahead - behind) / step)[np.unique(seen.states)].ravel())
    felt = np.array(felt) * (np.abs(felt).max(axis=1, keepdims=True) > 1e-5)
    size = np.linalg.norm(felt, axis=1, keepdims=True)
    singular = np.linalg.svd(felt / np.where(size > 0, size, 1), compute_uv=False)
    assume(not ((singular > 1e-6) & (singular < 1e-2)).any())
    assert found.info.unidentified_dimensions == n_features - (singular >= 1e-2).sum()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::inverseq.errors.NotIdentified")
def test_what_sparse_data_leave_open_is_counted_in_a_second():
    world = objectworld(64, 200, seed=0)
    seen = world.demonstrations(500, 8, seed=0)
    began = time.process_time()
    found = IAVI(gauge=StateOnly()).fit(seen, world.task)
    assert time.process_time() - began < 5
    assert found.info.unidentified_dimensions == 2280


@given(worlds(discounts=IDENTIFYING), st.integers(1, 3), st.booleans())
@settings(max_examples=80)
def test_the_weights_of_features_return_where_they_are_identified(world, n_features, of_pairs):
    shape = (*world.available.shape, n_features)
    phi = world.rng.normal(size=shape if of_pairs else (shape[0], n_features))
    w = world.rng.normal(size=n_features)
    expert, plan = boltzmann(world, phi @ w)
    assume(expert[world.pairs].min() > 1e-30)
    # Identified where no potential and weights other than 0 agree: h - gamma P_a h = phi w'.
    p, gamma, live = world.model, world.task.discount, world.decides
    s, a = np.nonzero(world.pairs)
    potential = np.eye(len(p))[s][:, live] - gamma * p[s, a][:, live]
    features = phi[s, a] if of_pairs else phi[s]
    joint = np.hstack([potential, -features])
    singular = np.linalg.svd(joint, compute_uv=False)
    assume(len(joint) >= joint.shape[1] and singular[-1] > 1e-2)
    found = IAVI(gauge=Features(phi)).solve(expert, world.task)
    assert found.info.unidentified_dimensions == 0
    assert found.info.residual < 1e-8 * scale(plan.q)
    off = np.abs(found.reward_table - np.where(world.pairs, (phi @ w).reshape(len(p), -1), 0))
    assert off[world.pairs].max() < 1e-6 * scale(plan.q)
    np.testing.assert_allclose(found.policy_table[live], expert[live], rtol=0, atol=1e-6)


def random_graph(n=2_000, n_actions=3, degree=3, seed=0):
    """A model whose graph no small set of states separates, so that its factors are dense."""
    rng = np.random.default_rng(seed)
    rows, size = np.repeat(np.arange(n), degree), n * degree
    weights = rng.dirichlet(np.ones(degree), size=(n_actions, n)).reshape(n_actions, size)
    blocks = [sp.csr_array((w, (rows, rng.integers(n, size=size))), shape=(n, n)) for w in weights]
    return Task(n_actions, 0.95, transitions=blocks), rng


def test_the_true_reward_returns_where_the_graph_is_too_wide_for_factors():
    task, rng = random_graph()
    reward = rng.normal(size=task.n_states)
    expert = planning.solve(reward, task).policy
    found = IAVI(gauge=StateOnly()).solve(expert, task)
    assert np.ptp(found.reward_table[:, 0] - reward) < 1e-6
    assert found.info.unidentified_dimensions is None
    weights, phi = rng.normal(size=3), rng.normal(size=(task.n_states, 3))
    expert = planning.solve(phi @ weights, task).policy
    found = IAVI(gauge=Features(phi)).solve(expert, task)
    np.testing.assert_allclose(found.reward_table[:, 0], phi @ weights, rtol=0, atol=1e-6)


def test_iterations_and_factors_find_the_same_least_squares(monkeypatch):
    """Also of what few steps leave open, and then they say when they stopped too soon."""
    world = objectworld(8, n_objects=6, seed=0)
    seen = world.demonstrations(30, 8, seed=0)
    gauge = IAVI(gauge=StateOnly(), solver="direct")
    with pytest.warns(NotIdentified):
        direct = gauge.fit(seen, world.task)
    monkeypatch.setattr("inverseq._linear.DIRECT_FRONT", 0)
    iterated = replace(gauge, solver="auto").fit(seen, world.task)
    close(iterated.reward_table, direct.reward_table, 1e-6)
    assert iterated.info.residual == pytest.approx(direct.info.residual, abs=1e-9)
    assert iterated.info.converged
    monkeypatch.setattr("inverseq.gauges.LONGEST_LSMR", 3)
    with pytest.warns(NotConverged, match="stopped least squares after 3 iterations of LSMR"):
        hurried = replace(gauge, solver="auto").fit(seen, world.task)
    assert not hurried.info.converged


def test_a_reward_outside_the_family_leaves_a_residual():
    world = objectworld(8, n_objects=8, seed=1)
    features = np.column_stack([world.features, world.reward])
    found = IAVI(gauge=Features(features)).solve(world.expert(), world.task)
    assert found.info.residual < 1e-9
    found = IAVI(gauge=Features(world.features)).solve(world.expert(), world.task)
    assert found.info.residual > 1e-2
    # The policy is that of the projected reward, no longer the expert's.
    plan = planning.solve(found.reward_table, world.task)
    np.testing.assert_allclose(found.policy_table, plan.policy, rtol=0, atol=1e-9)
    assert np.abs(found.policy_table - world.expert()).max() > 1e-2


@given(worlds())
@settings(max_examples=50)
def test_the_residual_of_a_projection_is_the_least_there_is(world):
    """It is what dense least squares leaves, weighted by visits."""
    seen = world.demonstrations(60)
    phi = world.rng.normal(size=(world.task.n_states, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotIdentified)
        found = IAVI(gauge=Features(phi), smoothing=Additive(1.0)).fit(seen, world.task)
    visits = seen.counts(*world.available.shape).visits
    l = logarithm(Additive(1.0).policy(visits, world.available), world)
    m = np.where(world.pairs, l, -np.inf).max(axis=1, initial=-1e300)
    s, a = np.nonzero((visits > 0) & world.pairs)
    gamma, p = world.task.discount, world.model[s, a]
    joint = np.hstack([np.eye(len(l))[s] - gamma * p, -phi[s]])
    goal = gamma * p @ m - l[s, a]
    root = np.sqrt(visits[s, a])
    columns = joint / np.maximum(np.linalg.norm(joint, axis=0), 1e-300)
    singular = np.linalg.svd(columns, compute_uv=False)
    assume(not ((singular > 1e-12) & (singular < 1e-3)).any())
    z = np.linalg.lstsq(root[:, None] * joint, root * goal, rcond=None)[0]
    left = np.sqrt((root**2 * (joint @ z - goal) ** 2).sum() / visits.sum())
    assert found.info.residual == pytest.approx(left, abs=1e-6)


# -- solvers --------------------------------------------------------------------------------------


@given(worlds(acyclic=st.just(True), discounts=st.sampled_from([0.0, 0.5, 0.9, 0.999, 1.0])))
@settings(max_examples=50)
def test_one_pass_backward_is_the_solve_where_nothing_comes_back(world):
    policy = world.policy()
    for gauge in world.gauges():
        for backup in ("max", "soft"):
            solve, backward = (
                IAVI(gauge=gauge, backup=backup, solver=solver).solve(policy, world.task)
                for solver in ("auto", "backward")
            )
            close(backward.q_table, solve.q_table, 1e-12)
            close(backward.reward_table, solve.reward_table, 1e-12)
            assert backward.info.solver == "backward"
            assert backward.info.residual < 1e-12 * scale(solve.q_table)


@pytest.mark.parametrize("gauge", [Uniform(), Reference(0), Zero()])
def test_one_pass_backward_is_refused_on_a_cycle(gauge):
    model = np.zeros((3, 1, 4))
    model[0, 0, 1] = model[1, 0, 2] = model[2, 0, 1] = 1
    with pytest.raises(InvalidInput, match=r"without cycles; state [012] can be reached again"):
        IAVI(gauge=gauge, solver="backward").solve(np.ones((3, 1)), Task(1, 0.9, transitions=model))


def test_a_loop_that_ends_in_a_terminal_state_is_no_cycle():
    model = np.eye(2)[[[1], [1]]]
    task = Task(1, 0.9, transitions=model, terminal=[1])
    assert IAVI(solver="backward").solve(np.ones((2, 1)), task).info.converged


@given(worlds(discounts=st.sampled_from([0.0, 0.3, 0.5, 0.9])))
@settings(max_examples=30)
def test_sweeps_converge_to_the_solve(world):
    policy = world.policy()
    for gauge in world.gauges():
        for backup in world.backups():
            sweeps, solve = (
                IAVI(gauge=gauge, backup=backup, solver=solver).solve(policy, world.task)
                for solver in ("sweeps", "auto")
            )
            close(sweeps.q_table, solve.q_table, 1e-8)
            close(sweeps.reward_table, solve.reward_table, 1e-8)
            assert sweeps.info.converged
            assert sweeps.info.residual < 1e-8


def test_sweeps_that_are_cut_short_say_so_and_still_imitate():
    world = objectworld(8, n_objects=4, seed=1, discount=0.99)
    expert = world.expert()
    with pytest.warns(NotConverged, match="stopped after 3 sweeps"):
        found = IAVI(solver="sweeps", max_iterations=3).solve(expert, world.task)
    assert not found.info.converged
    assert len(found.info.change) == found.info.iterations == 3
    assert found.info.residual > 1e-3
    np.testing.assert_allclose(found.policy_table, expert, rtol=0, atol=1e-12)


@given(worlds(discounts=st.sampled_from([0.0, 0.5, 0.9, 0.99])))
@settings(max_examples=30)
def test_krylov_methods_agree_with_the_factorisation(world):
    policy = world.policy()
    for gauge in world.gauges():
        krylov, direct = (
            IAVI(gauge=gauge, solver=solver).solve(policy, world.task)
            for solver in ("bicgstab", "direct")
        )
        close(krylov.q_table, direct.q_table, 1e-7)
        close(krylov.reward_table, direct.reward_table, 1e-7)


# -- edges ----------------------------------------------------------------------------------------


@given(worlds(discounts=st.just(1.0), acyclic=st.just(True)))
@settings(max_examples=40)
def test_a_discount_of_one_is_allowed_where_every_way_ends(world):
    policy = world.policy()
    for _, backup, found in solve_all(world, policy):
        np.testing.assert_allclose(found.policy_table[world.decides], policy[world.decides])
        if backup != "max_of_mean":
            plan = planning.solve(found.reward_table, world.task, soft=backup == "soft")
            close(plan.q[world.pairs], found.q_table[world.pairs], 1e-10)


@given(worlds(discounts=st.just(1.0), leaking=st.just(True), terminal=st.just(False)))
@settings(max_examples=40)
def test_at_a_discount_of_one_the_constrained_policy_is_still_the_same_in_every_gauge(world):
    policy, task = world.policy(), constrained(world)
    found = [IAVI(gauge=gauge).solve(policy, task) for gauge in world.gauges()]
    for other in found:
        np.testing.assert_allclose(
            other.policy_table, found[0].policy_table, rtol=0, atol=1e-8 / task.temperature
        )


def test_who_dawdles_at_a_discount_of_one_keeps_dawdling():
    """The wait has a reward of 0 in the uniform gauge, so that Bellman's equation holds for many
    values; the one that came from the demonstrator counts, also under constraints."""
    model = np.zeros((2, 3, 3))
    model[:, 0] = np.eye(3)[:2]  # wait
    model[:, 1, 2] = 1  # leave
    model[:, 2] = np.eye(3)[[1, 0]]  # go to the other state
    policy = np.array([[0.7, 0.1, 0.2], [0.6, 0.1, 0.3]])
    cost = np.array([[0, 0, 1.0], [0, 0, 0]])
    task = Task(3, 1.0, transitions=model).constrain(Constraint(cost, 0.5))
    found = [IAVI(gauge=g).solve(policy, task) for g in (Uniform(), Reference(1, 2.0), Zero())]
    for solution in found:
        odds = solution.policy_table[:, 0] / solution.policy_table[:, 1]
        np.testing.assert_allclose(odds, [7, 6])
        assert solution.policy_table[0, 2] == 0


@given(worlds(discounts=st.just(0.0)))
@settings(max_examples=20)
def test_without_a_future_the_reward_is_the_log_probability(world):
    policy = world.policy()
    l = logarithm(policy, world)
    for gauge, _, found in solve_all(world, policy):
        close(found.q_table[world.pairs], found.reward_table[world.pairs])
        if isinstance(gauge, Zero):
            close(found.reward_table, l)
        if isinstance(gauge, Uniform):
            mean = l.sum(axis=1, keepdims=True) / world.available.sum(axis=1, keepdims=True)
            close(found.reward_table, np.where(world.pairs, l - mean, 0))


@given(worlds(actions=st.just(1)))
@settings(max_examples=30)
def test_who_has_no_choice_reveals_nothing(world):
    policy = np.ones((world.task.n_states, 1))
    for gauge, _, found in solve_all(world, policy):
        assert (found.policy_table == 1).all()
        if isinstance(gauge, Uniform | Zero):
            np.testing.assert_allclose(found.reward_table, 0, atol=1e-12)
            np.testing.assert_allclose(found.q_table, 0, atol=1e-9)


def test_absorbing_states_are_worth_an_endless_stay():
    """State 1 absorbs: all its actions stay there, so their rewards say how much is preferred."""
    p0, p1, gamma = 0.8, 0.3, 0.9
    model = np.eye(2)[[[0, 1], [1, 1]]]
    policy = np.array([[p0, 1 - p0], [p1, 1 - p1]])
    found = IAVI().solve(policy, Task(2, gamma, transitions=model))
    # State 1: r(b) = l(b) - mean l, and V = max r + gamma V.
    r1 = np.log(policy[1]) - np.log(policy[1]).mean()
    v1 = r1.max() / (1 - gamma)
    np.testing.assert_allclose(found.reward_table[1], r1)
    np.testing.assert_allclose(found.value_table[1], v1)
    # State 0: action 0 stays, so Q(0, 0) = r + gamma V0 with V0 = Q(0, 0); action 1 leads to v1.
    # r(0, 0) = x, r(0, 1) = -x: x / (1 - gamma) - (-x + gamma v1) = log-odds.
    x = (np.log(p0 / (1 - p0)) + gamma * v1) / (1 / (1 - gamma) + 1)
    np.testing.assert_allclose(found.reward_table[0], [x, -x])
    np.testing.assert_allclose(found.q_table[0], [x / (1 - gamma), -x + gamma * v1])


def test_two_states_by_hand():
    """Both states: "stay" (0) and "move" (1); log-odds of moving are 1 in state 0, -2 in state 1.

    In the uniform gauge r(s, move) = -r(s, stay) = x_s. State 0 prefers to move, state 1 to stay:

        V1 = -x1 + g V1,    V0 = x0 + g V1
        log-odds 0:  1 = 2 x0 + g V1 - g V0
        log-odds 1: -2 = 2 x1 + g V0 - g V1

    With g = 1/2: V1 = -2 x1 and V0 = x0 - x1, so 1 = 3/2 x0 - 1/2 x1 and -2 = 1/2 x0 + 5/2 x1: x0 =
    3/8, x1 = -7/8, V1 = 7/4, V0 = 5/4.
    """
    stay, move = np.eye(2), np.eye(2)[::-1]
    odds = np.exp(np.array([1.0, -2.0]))
    policy = np.column_stack([1 / (1 + odds), odds / (1 + odds)])
    task = Task(2, 0.5, transitions=np.stack([stay, move], axis=1))
    found = IAVI().solve(policy, task)
    np.testing.assert_allclose(found.reward_table, [[-3 / 8, 3 / 8], [7 / 8, -7 / 8]])
    np.testing.assert_allclose(found.value_table, [5 / 4, 7 / 4])
    np.testing.assert_allclose(found.q_table, [[1 / 4, 5 / 4], [7 / 4, -1 / 4]])
    # A reward of the state: h with m + h = V, Q(move) - Q(stay) = g (V_other - V_own) = 1, so
    # V1 - V0 = 2 from state 0 and 4 from state 1: the family cannot hold both.
    assert IAVI(gauge=StateOnly()).solve(policy, task).info.residual > 0.1


@pytest.mark.parametrize("g", [0.6, 0.75, 0.95])
def test_the_chain_by_hand(g):
    world = chain(discount=g)
    for solver in ("auto", "backward", "sweeps"):
        found = IAVI(solver=solver).solve(world.expert(), world.task)
        go = [-g * (1 - g) / 2, g, 0, 0]
        np.testing.assert_allclose(found.reward_table, np.outer(go, [1, -1]), atol=1e-12)
        np.testing.assert_allclose(found.q_table[:, 0], [g * (3 * g - 1) / 2, g, 0, 0], atol=1e-12)


def test_the_two_operators_read_opposite_rewards_from_a_gamble():
    world, g = gamble(discount=0.5), 0.5
    for backup, sign in ("max", -1), ("max_of_mean", 1):
        found = IAVI(backup=backup).solve(world.expert(), world.task)
        np.testing.assert_allclose(found.reward_table[0, 0], sign * g**2 / 2)


# -- beside dynamic discrete choice ---------------------------------------------------------------


@given(worlds(unavailable=st.just(False)), st.sampled_from([0.0, 0.7, -2.0]))
def test_an_anchor_with_the_soft_backup_is_the_inversion_of_choice_probabilities(world, g):
    """Hotz and Miller (1993): with extreme-value shocks of mean zero and scale T,

        V(s) = v(s, a) - T log p(a|s)   for every action,   v(s, a) = u(s, a) + gamma E V(s').

    With u known for the anchor, its equation alone is linear in V. Standard Gumbel shocks have the
    mean T times Euler's constant, and V = v - T log p + 0.5772... T: it enters once in each period,
    so that V rises by 0.5772 T / (1 - gamma) where no episode ends, and no u changes; where some
    do, the actions that put the end off would look less rewarding by what they collect of it.
    """
    p, gamma, t = world.policy(), world.task.discount, world.task.temperature
    model, n = world.model, world.task.n_states
    u = np.zeros(p.shape)
    u[:, 0] = np.where(world.decides, g, 0.0)
    surprise = np.where(world.decides[:, None], -t * np.log(p), 0.0)
    v = np.linalg.solve(np.eye(n) - gamma * model[:, 0], u[:, 0] + surprise[:, 0])
    for a in range(1, p.shape[1]):
        chosen = v - surprise[:, a]
        u[:, a] = chosen - gamma * model[:, a] @ v
    found = IAVI(gauge=Reference(0, value=g), backup="soft").solve(p, world.task)
    close(found.reward_table, u, 1e-9)
    close(found.q_table[world.decides], (v[:, None] - surprise)[world.decides], 1e-9)


# -- names do not matter --------------------------------------------------------------------------


def renamed(world, states, actions):
    """The task in which state ``states[i]`` is called i, and action ``actions[j]`` is called j."""
    task = world.task
    p = task.transitions.dense()[states][:, actions][:, :, states]
    ends = task.transitions.ends()[states][:, actions][:, :, None]
    pick = {"transitions": np.concatenate([p, ends], axis=2)}
    if task.available is not None:
        pick["available"] = task.available[states][:, actions]
        pick["transitions"][~pick["available"]] = 0
    if task.terminal is not None:
        pick["terminal"] = task.terminal[states]
    costs = [Constraint(c.cost[states][:, actions], c.threshold) for c in task.constraints]
    return Task(
        task.n_actions, task.discount, temperature=task.temperature, constraints=costs, **pick
    )


def called(gauge, states, actions):
    """The same gauge under the new names."""
    if isinstance(gauge, Reference):
        value = np.broadcast_to(gauge.value, len(states))[states]
        if isinstance(gauge.policy, int):
            return Reference(int(np.flatnonzero(actions == gauge.policy)[0]), value)
        return Reference(gauge.policy[states][:, actions], value)
    return Features(gauge.phi[states]) if isinstance(gauge, Features) else gauge


@given(worlds())
@settings(max_examples=40)
@pytest.mark.filterwarnings("ignore::inverseq.errors.NotIdentified")
def test_new_names_for_states_and_actions_rename_the_answer(world):
    states = world.rng.permutation(world.task.n_states)
    actions = world.rng.permutation(world.task.n_actions)
    world = replace(world, task=constrained(world))
    policy = world.policy()
    phi = Features(world.rng.normal(size=(world.task.n_states, 2)))
    for gauge in [*world.gauges(), StateOnly(), phi]:
        found = IAVI(gauge=gauge).solve(policy, world.task)
        other = IAVI(gauge=called(gauge, states, actions)).solve(
            policy[states][:, actions], renamed(world, states, actions)
        )
        # Of what is not identified the smallest is returned, by a norm of its own: least squares
        # compares columns of unit length.
        tolerance = 1e-9 if not isinstance(gauge, StateOnly | Features) else 1e-5
        close(other.q_table, found.q_table[states][:, actions], tolerance)
        close(other.reward_table, found.reward_table[states][:, actions], tolerance)
        pick = found.policy_table[states][:, actions]
        np.testing.assert_allclose(other.policy_table, pick, rtol=0, atol=1e-5)


@given(worlds())
@settings(max_examples=40)
@pytest.mark.filterwarnings("ignore::inverseq.errors.NotConverged")
def test_new_names_rename_what_is_learned_from_samples(world):
    states = world.rng.permutation(world.task.n_states)
    actions = world.rng.permutation(world.task.n_actions)
    new_state, new_action = np.argsort(states), np.argsort(actions)
    seen = world.demonstrations(100)
    again = Demonstrations(
        new_state[seen.states], new_action[seen.actions], new_state[seen.next_states],
        terminated=seen.terminated, episodes=seen.episodes,
    )  # fmt: skip
    for iql in (IQL(epochs=3, shuffle=False), IQL(epochs=3, centred=True)):
        found = iql.fit(seen, world.task)
        other = iql.fit(again, renamed(world, states, actions))
        close(other.q_table, found.q_table[states][:, actions])
        close(other.reward_table, found.reward_table[states][:, actions])
    found, other = IAVI().fit(seen, world.task), IAVI().fit(again, renamed(world, states, actions))
    close(other.q_table, found.q_table[states][:, actions])


@given(worlds(), st.booleans())
@settings(max_examples=40)
def test_the_order_of_episodes_does_not_matter_to_counts(world, known):
    seen = world.demonstrations(80)
    order = world.rng.permutation(len(seen))
    columns = ("states", "actions", "next_states")
    again = Demonstrations(
        *(getattr(seen, name)[order] for name in columns),
        terminated=seen.terminated[order], episodes=seen.episodes[order],
    )  # fmt: skip
    task = world.task if known else replace(world.task, transitions=None)
    found, other = IAVI().fit(seen, task), IAVI().fit(again, task)
    assert found.q_table.tobytes() == other.q_table.tobytes()
    assert found.reward_table.tobytes() == other.reward_table.tobytes()


def test_what_is_given_stays_as_it_was():
    rng = np.random.default_rng(0)
    model = rng.dirichlet(np.ones(4), size=(4, 3))
    policy = rng.dirichlet(np.ones(3), size=4)
    available, terminal = np.ones((4, 3), bool), np.array([False, False, False, True])
    initial, cost = np.array([1.0, 0, 0, 0]), rng.random((4, 3))
    mu, g, phi = policy[::-1].copy(), rng.random(4), rng.random((4, 2))
    states, actions, follows = (rng.integers(n, size=50) for n in (3, 3, 4))
    ended, weights = follows == 3, rng.random(50)
    given_arrays = [
        model, policy, available, terminal, initial, cost, mu, g, phi,
        states, actions, follows, ended, weights,
    ]  # fmt: skip
    copies = [array.copy() for array in given_arrays]
    available[3] = [True, False, False]  # the task fills the row of a terminal state, in its copy
    copies[2] = available.copy()

    task = Task(
        3, 0.9, transitions=model, available=available, terminal=terminal, initial=initial,
        constraints=[Constraint(cost, 0.95)],
    )  # fmt: skip
    seen = Demonstrations(
        states, actions, follows, terminated=ended, weights=weights, episodes=np.arange(50)
    )
    for gauge in (Uniform(), Reference(mu, g), Zero(), StateOnly(), Features(phi)):
        IAVI(gauge=gauge).solve(policy, task)
        IAVI(gauge=gauge).fit(seen, task)
    IQL(tolerance=1.0).fit(seen, task)
    planning.solve(g, task)
    planning.evaluate_policy(policy, g, task)
    for array, copy in zip(given_arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
        assert array.flags.writeable


def test_models_given_as_sparse_matrices_stay_as_they_were():
    rng = np.random.default_rng(0)
    blocks = [sp.csr_array(rng.dirichlet(np.ones(3), size=3)) for _ in range(2)]
    copies = [block.copy() for block in blocks]
    task = Task(2, 0.9, transitions=blocks, terminal=[2])
    IAVI().solve(np.full((3, 2), 0.5), task)
    for block, copy in zip(blocks, copies, strict=True):
        np.testing.assert_array_equal(block.toarray(), copy.toarray())
        assert block.nnz == copy.nnz


# -- an action twice ------------------------------------------------------------------------------


def split(world):
    """The world with a copy of its last action."""
    p = world.task.transitions.dense()
    ends = world.task.transitions.ends()
    p, ends = (np.concatenate([x, x[:, -1:]], axis=1) for x in (p, ends))
    p = np.concatenate([p, ends[..., None]], axis=2)
    task = Task(
        p.shape[1], world.task.discount, terminal=world.task.terminal,
        temperature=world.task.temperature, transitions=p,
    )  # fmt: skip
    return replace(world, task=task)


def halved(policy):
    """The last action's probability shared between it and its copy."""
    return np.column_stack([policy[:, :-1], policy[:, -1] / 2, policy[:, -1] / 2])


@given(worlds(unavailable=st.just(False), actions=st.integers(2, 4)))
@settings(max_examples=40)
def test_an_action_split_in_two_costs_each_half_t_log_2(world):
    """With an anchor that is not split and the soft backup: nothing else moves, because a logarithm
    cannot tell two halves from one action that is chosen half as often."""
    two, policy = split(world), world.policy()
    t = world.task.temperature
    anchor = IAVI(gauge=Reference(0), backup="soft")
    one, both = anchor.solve(policy, world.task), anchor.solve(halved(policy), two.task)
    cost = np.where(world.decides, t * np.log(2), 0.0)
    close(both.reward_table[:, :-2], one.reward_table[:, :-1], 1e-9)
    close(both.reward_table[:, -1], one.reward_table[:, -1] - cost, 1e-9)
    close(both.reward_table[:, -2], both.reward_table[:, -1])
    np.testing.assert_allclose(
        both.policy_table[world.decides], halved(policy)[world.decides], atol=1e-9
    )


@given(worlds(unavailable=st.just(False), discounts=MODERATE))
@settings(max_examples=30)
def test_in_every_gauge_the_halves_of_an_action_are_alike_and_sum_to_it(world):
    """The rewards of the others may move: the uniform gauge weighs actions, and now counts one
    twice; and the best of two halves is worse than the whole."""
    two, policy = split(world), world.policy()
    for _, _, found in solve_all(two, halved(policy)):
        close(found.reward_table[:, -1], found.reward_table[:, -2])
        whole = np.column_stack(
            [found.policy_table[:, :-2], found.policy_table[:, -2:].sum(axis=1)]
        )
        np.testing.assert_allclose(whole[world.decides], policy[world.decides], atol=1e-10)


def test_the_uniform_gauge_sees_that_an_action_is_there_twice():
    model = np.ones((1, 2, 1))
    policy = np.array([[0.5, 0.5]])
    one = IAVI().solve(policy, Task(2, 0.0, transitions=model))
    np.testing.assert_allclose(one.reward_table, [[0, 0]], atol=1e-15)
    two = IAVI().solve(halved(policy), Task(3, 0.0, transitions=np.ones((1, 3, 1))))
    np.testing.assert_allclose(two.reward_table, np.log(2) * np.array([[2, -1, -1]]) / 3)


@given(worlds(unavailable=st.just(False), discounts=IDENTIFYING))
@settings(max_examples=30)
@pytest.mark.filterwarnings("ignore::inverseq.errors.NotIdentified")
def test_the_state_gauge_does_not_see_that_an_action_is_there_twice(world):
    """A Boltzmann expert with two copies takes each as often as the one before, beside the others:
    another policy, the same values, the same reward."""
    kernel, *_ = unidentified(world)
    two, reward = split(world), world.reward()
    (first, plan), (second, again) = boltzmann(world, reward), boltzmann(two, reward)
    assume(min(first.min(), second.min()) > 1e-30)
    close(plan.q, again.q[:, :-1], 1e-10)
    state = IAVI(gauge=StateOnly())
    one, both = state.solve(first, world.task), state.solve(second, two.task)
    assert one.info.unidentified_dimensions == both.info.unidentified_dimensions
    if one.info.unidentified_dimensions == int(holds_constants(kernel)):
        close(both.reward_table[:, 0], one.reward_table[:, 0], 1e-6)


# -- carried elsewhere ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_only_the_state_gauge_carries_over_to_other_dynamics(seed):
    world = objectworld(24, n_objects=30, seed=seed)
    elsewhere = {
        "home": world.task,
        "walls": world.changed(walls=0.15, seed=seed).task,
        "wind": world.changed(wind=0.6).task,
        "patience": replace(world.task, discount=0.97),
    }
    state, uniform = (
        IAVI(gauge=gauge).solve(world.expert(), world.task).reward_table
        for gauge in (StateOnly(), Uniform())
    )
    lost = {}
    for name, task in elsewhere.items():
        best = evaluate.transfer_return(world.reward, world.reward, task)
        assert evaluate.transfer_return(state, world.reward, task) == pytest.approx(best, abs=1e-6)
        lost[name] = (best - evaluate.transfer_return(uniform, world.reward, task)) / best
    assert lost["walls"] > 0.2
    assert lost["patience"] > 0.03
    assert lost["home"] == pytest.approx(0, abs=1e-6)
    # This wind is the mean over actions, the very reference of the uniform gauge: what it gives
    # every action alike, more of it or less, hardly bends the way. It tells no gauges apart.
    assert lost["wind"] == pytest.approx(0, abs=1e-6)


# -- plans for one reward after another --------------------------------------------------------


@given(
    worlds(discounts=st.sampled_from([0.0, 0.5, 0.9, 0.99]))
    | worlds(discounts=st.just(1.0), leaking=st.just(True)),
    EITHER,
    EITHER,
)
def test_a_planner_agrees_with_a_plan_from_nothing(world, soft, bound):
    task = world.task
    if bound:
        task = task.constrain(*world.constraints())
        try:
            planning.viable(task)
        except InvalidInput:
            assume(False)
    planner = planning.Planner(task, soft=soft)
    reward = -1 - abs(world.reward_of_pairs())  # soft values at a discount of 1 may be infinite
    far = 10 * world.reward_of_pairs() if task.discount < 1 else 2 * reward
    for r in (reward, reward + 0.01 * world.rng.normal(size=reward.shape), far, reward):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            warm, cold = planner.solve(r), planning.solve(r, task, soft=soft)
        assert warm.converged >= cold.converged
        if not cold.converged:
            continue
        distance = 1 / (1 - min(task.discount, 0.99))
        close(warm.v, cold.v, 3e-9 * distance)
        close(warm.q, cold.q, 3e-9 * distance)
        np.testing.assert_array_equal(warm.safe, cold.safe)
        np.testing.assert_array_equal(warm.policy == 0, cold.policy == 0)


def test_a_planner_factorises_seldom_where_rewards_move_little():
    world = objectworld(size=10, n_objects=8, seed=0)
    planner = planning.Planner(world.task)
    for k in range(50):
        reward = world.reward + 0.01 * k * world.features[:, 0]
        plan = planner.solve(reward)
        assert plan.converged
    close(plan.v, planning.solve(reward, world.task, soft=True).v, 1e-8)
    assert planner.factored < 10


def test_a_planner_leaves_wide_graphs_to_plain_planning(monkeypatch):
    world = objectworld(size=10, n_objects=8, seed=0)
    monkeypatch.setattr("inverseq._linear.DIRECT_FRONT", 3)
    planner = planning.Planner(world.task)
    for reward in (world.reward, 1.01 * world.reward):
        close(planner.solve(reward).v, planning.solve(reward, world.task, soft=True).v, 1e-8)
    assert planner.factored == 0
