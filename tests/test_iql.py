"""Inverse Q-learning from samples: what it converges to, how it goes on, and what it refuses."""

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import inverseq as iq
from inverseq import planning
from inverseq.algorithms import CIQL, IAVI, IQL, Decay
from inverseq.demonstrations import Additive, Demonstrations
from inverseq.errors import InvalidInput, NotConverged
from inverseq.gauges import Reference, StateOnly, Uniform, Zero
from inverseq.solution import Solution
from inverseq.task import Constraint, Task
from random_worlds import worlds

S, A = 16, 5
PATIENT = {"tolerance": 1e-6, "epochs": 20_000}
TABLES = ("reward", "q", "visits", "q_shifted", "updates", "q_constrained", "safe")


def steps_of(seed, n, terminal=(), **options):
    """Independent steps of the expert of a small objectworld, from every state alike."""
    world = iq.worlds.objectworld(size=4, n_objects=4, seed=0)
    rng = np.random.default_rng(seed)
    model, policy = world.task.transitions.dense(), world.expert()
    states = rng.integers(S, size=n)
    actions = np.array([rng.choice(A, p=policy[s]) for s in states])
    follows = np.array([rng.choice(S, p=model[pair]) for pair in zip(states, actions, strict=True)])
    ended = np.isin(follows, terminal)
    return Demonstrations(
        states, actions, follows, terminated=ended, episodes=np.arange(n), **options
    )


MANY = steps_of(0, 3000)
FEW = steps_of(1, 200)
TASK = Task(A, 0.9, n_states=S)
COST = np.random.default_rng(7).random((S, A))
BOUND = TASK.constrain(Constraint(COST, 0.7, name="dear"))
FREE = TASK.constrain(Constraint(COST, 2.0, name="never bites"))


def same(x, y, tables=TABLES):
    """Bit for bit."""
    for name in tables:
        one, other = getattr(x.tables, name), getattr(y.tables, name)
        assert (one is None) == (other is None), name
        if one is not None:
            assert one.tobytes() == other.tobytes(), name


def gap(x, y):
    """The largest difference; infinities in place."""
    np.testing.assert_array_equal(np.isfinite(x), np.isfinite(y))
    return np.abs(x[np.isfinite(x)] - y[np.isfinite(y)]).max()


# -- what it converges to -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"lr_reward": Decay(1, 0.6), "lr_q": Decay(1, 0.6), "lr_shifted": Decay(1, 0.6)},
        {"lr_reward": Decay(50), "lr_q": Decay(30, 0.9)},
        {"centred": True},
        {"shuffle": False},
        {"online": True},
        {"online": True, "centred": True},
        {"smoothing": Additive(0.5)},
    ],
    ids=str,
)
def test_the_policy_becomes_that_of_the_counts(settings):
    iql = IQL(**(PATIENT | {"tolerance": 1e-5} | settings))
    found = iql.fit(MANY, TASK)
    exact = IAVI(smoothing=iql.smoothing).fit(MANY, TASK)
    assert found.info.converged
    assert gap(found.policy_table, exact.policy_table) < 1e-3


def test_it_gets_closer_the_longer_it_goes_on():
    exact = IAVI().fit(MANY, TASK)
    off = [
        gap(
            IQL(tolerance=tolerance, epochs=20_000).fit(MANY, TASK).policy_table, exact.policy_table
        )
        for tolerance in (1e-2, 1e-4, 1e-6)
    ]
    assert off[0] > 5 * off[1] > 25 * off[2]
    assert off[2] < 3e-5


def test_without_centring_the_reward_keeps_an_offset_in_each_state():
    exact, found = IAVI().fit(MANY, TASK), IQL(**PATIENT).fit(MANY, TASK)
    off = found.q_table - exact.q_table
    assert np.abs(off).max() > 0.5
    assert np.ptp(off, axis=1).max() < 1e-3
    assert found.info.gauge == "that of its path"


@pytest.mark.parametrize("seen", [MANY, FEW], ids=["every pair", "some pairs never"])
def test_centred_rewards_and_values_become_those_of_the_counted_model(seen):
    exact = IAVI().fit(seen, TASK)
    found = IQL(centred=True, **PATIENT).fit(seen, TASK)
    visits = seen.counts(S, A).visits
    assert (visits == 0).any() == (seen is FEW)
    assert gap(found.policy_table, exact.policy_table) < 1e-3
    assert gap(found.reward_table, exact.reward_table) < 2e-3
    assert gap(found.q_table, exact.q_table) < 5e-3
    assert found.info.gauge == repr(Uniform())


@given(worlds(discounts=st.sampled_from([0.0, 0.3, 0.5, 0.9]), leaking=st.just(True)))
@settings(max_examples=25)
def test_so_they_do_in_random_worlds_with_ends_and_impossible_actions(world):
    seen = world.demonstrations(100)
    task = replace(world.task, transitions=None, n_states=world.task.n_states)
    exact = IAVI().fit(seen, task)
    found = IQL(centred=True, tolerance=1e-7, epochs=20_000).fit(seen, task)
    assert gap(found.policy_table, exact.policy_table) < 1e-2
    size = max(1.0, np.abs(exact.q_table[np.isfinite(exact.q_table)]).max())
    assert gap(found.reward_table, exact.reward_table) < 1e-2 * size
    assert gap(found.q_table, exact.q_table) < 2e-2 * size


def test_a_pair_that_was_never_seen_earns_what_the_closed_form_says():
    """Two states; in state 0 action 2 was never taken. Its shifted value is 0, what follows the
    others is V(1): the closed form gives its reward from the advantages of all three."""
    states, actions, follows = [0] * 6 + [1] * 3, [0, 0, 0, 0, 1, 1, 0, 1, 2], [1] * 6 + [0] * 3
    seen = Demonstrations(states, actions, follows, terminated=[False] * 6 + [True] * 3)
    found = IQL(centred=True, tolerance=1e-9, epochs=5000).fit(seen, Task(3, 0.5, n_states=2))
    l = np.log((np.array([4, 2, 0]) + 1e-3) / 6.003)
    # State 1 takes three actions alike and ends: its rewards and values are 0, and so is V(1).
    np.testing.assert_allclose(found.reward_table[1], 0, atol=1e-9)
    np.testing.assert_allclose(found.reward_table[0], l - l.mean(), atol=1e-6)
    np.testing.assert_allclose(found.q_table[0], l - l.mean(), atol=1e-6)
    np.testing.assert_allclose(found.policy_table[0], np.exp(l), atol=1e-6)
    assert found.tables.updates[0, 2] == 0


def test_a_state_with_one_action_says_nothing():
    """Its log-probability is 0, whatever the count is."""
    available = np.array([[True, False], [True, True]])
    seen = Demonstrations([0, 1] * 500, [0, 0] * 500, [1, 0] * 500)
    for centred in (False, True):
        found = IQL(centred=centred, **PATIENT).fit(
            seen, Task(2, 0.5, n_states=2, available=available)
        )
        assert found.info.residual < 1e-6
        if centred:
            assert found.reward_table[0, 0] == 0
        else:  # the empty sum: the reward is the advantage, which takes away what follows
            np.testing.assert_allclose(found.q_table[0, 0], 0, atol=1e-6)


@pytest.fixture(scope="module")
def found():
    """What it finds without centring where every pair was seen, and centred where not."""
    return {
        "every pair": (MANY, IQL(**PATIENT).fit(MANY, TASK)),
        "some pairs never": (FEW, IQL(centred=True, tolerance=1e-7, epochs=50_000).fit(FEW, TASK)),
    }


@pytest.mark.parametrize("which", ["every pair", "some pairs never"])
@pytest.mark.parametrize("gauge", [Uniform(), Reference(2, 1.0), Zero(), StateOnly()], ids=str)
def test_brought_to_a_gauge_it_agrees_with_the_exact_method(gauge, which, found):
    seen, sampled = found[which]
    exact = IAVI(gauge=gauge).fit(seen, TASK)
    again = sampled.regauge(gauge, TASK.counted(seen))
    assert gap(again.policy_table, exact.policy_table) < 1e-3
    assert gap(again.reward_table, exact.reward_table) < 1e-2
    assert again.info.algorithm == "IQL"
    assert again.info.gauge == repr(gauge)


def test_a_temperature_scales_reward_and_values_and_leaves_the_policy():
    cold = replace(TASK, temperature=0.5)
    one, half = (IQL(centred=True, **PATIENT).fit(MANY, task) for task in (TASK, cold))
    assert gap(one.policy_table, half.policy_table) < 1e-4
    assert gap(one.reward_table / 2, half.reward_table) < 1e-3


# -- under constraints ----------------------------------------------------------------------------


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("online", [False, True])
@pytest.mark.parametrize("seen", [MANY, FEW], ids=["every pair", "some pairs never"])
@pytest.mark.filterwarnings("ignore::inverseq.errors.NotConverged")
def test_a_constraint_that_never_bites_changes_nothing_bit_for_bit(centred, online, seen):
    iql = CIQL(centred=centred, online=online, epochs=40)
    plain, free = iql.fit(seen, TASK), iql.fit(seen, FREE)
    same(plain, free, ("reward", "q", "visits", "q_shifted", "updates"))
    assert free.q_constrained_table.tobytes() == plain.q_table.tobytes()
    assert free.policy_table.tobytes() == plain.policy_table.tobytes()


@pytest.mark.parametrize("centred", [False, True])
def test_the_constrained_policy_becomes_that_of_the_exact_method(centred):
    exact = IAVI().fit(MANY, BOUND)
    found = IQL(centred=centred, **PATIENT).fit(MANY, BOUND)
    np.testing.assert_array_equal(found.safe_table, exact.safe_table)
    assert gap(found.policy_table, exact.policy_table) < 2e-3
    assert gap(found.policy_table, found.predict_proba(np.arange(S), constrained=False)) > 0.1


def test_so_it_does_where_what_is_safe_was_hardly_ever_seen():
    """The only safe action of some states was never taken: its reward counts under constraints."""
    cost = np.zeros((S, A))
    seen_once = FEW.counts(S, A).visits > 0
    lacking = np.flatnonzero((~seen_once).any(axis=1) & seen_once.any(axis=1))
    cost[lacking] = seen_once[lacking]
    task = TASK.constrain(Constraint(cost, 0.5))
    exact = IAVI().fit(FEW, task)
    found = IQL(centred=True, **PATIENT).fit(FEW, task)
    assert lacking.size
    assert gap(found.q_constrained_table, exact.q_constrained_table) < 2e-2
    assert gap(found.policy_table, exact.policy_table) < 5e-3


@given(worlds(discounts=st.sampled_from([0.0, 0.5, 0.9])), st.booleans(), st.booleans())
@settings(max_examples=40)
@pytest.mark.filterwarnings("ignore::inverseq.errors.NotConverged")
def test_what_is_forbidden_is_never_done(world, centred, known):
    seen = world.demonstrations(60)
    task = world.task.constrain(*world.constraints())
    task = task if known else replace(task, transitions=None, n_states=world.task.n_states)
    try:
        found = IQL(centred=centred, epochs=20).fit(seen, task)
    except InvalidInput:
        assume(False)
    policy = found.policy_table
    right = planning.viable(task if known else task.counted(seen), found.visited)
    np.testing.assert_array_equal(found.safe_table, right)
    assert (policy[~right] == 0).all()
    np.testing.assert_allclose(policy[right.any(axis=1)].sum(axis=1), 1)
    assert not np.isnan(found.q_constrained_table).any()


@pytest.mark.parametrize("centred", [False, True])
def test_what_leads_where_nothing_is_safe_has_no_value(centred):
    """In the trap a short cut is allowed that leads to a state where everything is forbidden."""
    world = iq.worlds.trap()
    careful = planning.solve(world.reward, world.task)
    seen = world.demonstrations(200, 10, careful.policy, seed=0)
    exact = IAVI().fit(seen, world.task)
    found = IQL(centred=centred, tolerance=1e-4).fit(seen, world.task)
    for constrained in (exact, found):
        np.testing.assert_array_equal(constrained.safe_table, careful.safe)
        short = constrained.q_constrained_table[:2, 0]
        np.testing.assert_array_equal(short, -np.inf)
        np.testing.assert_array_equal(constrained.policy_table[:2], [[0, 1], [0, 1]])
    if centred:
        # All that was seen; what the paths that were never taken are worth is another matter.
        assert gap(found.reward_table, exact.reward_table) < 1e-2


def test_the_constrained_values_may_learn_at_their_own_rate():
    with pytest.warns(NotConverged):
        own = IQL(epochs=3, lr_constrained=0.5).fit(MANY, FREE)
    with pytest.warns(NotConverged):
        as_q = IQL(epochs=3).fit(MANY, FREE)
    same(own, as_q, ("reward", "q", "q_shifted"))
    assert gap(own.q_constrained_table, as_q.q_constrained_table) > 1e-3


# -- streams --------------------------------------------------------------------------------------


def in_blocks(iql, seen, task, borders, through=lambda found: found):
    found = None
    for first, last in zip([0, *borders], [*borders, len(seen)], strict=True):
        rows = (np.arange(len(seen)) >= first) & (np.arange(len(seen)) < last)
        found = through(iql.partial_fit(seen.select(rows), task, found))
    return found


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("rate", [Decay(), Decay(1, 0.6), 0.1], ids=str)
@pytest.mark.parametrize("bound", [False, True])
def test_a_stream_in_blocks_is_a_stream_in_one_piece(centred, rate, bound):
    world = iq.worlds.objectworld(size=4, n_objects=4, seed=0)
    task = world.task.constrain(*BOUND.constraints) if bound else TASK
    iql = IQL(lr_reward=rate, lr_q=rate, lr_shifted=rate, centred=centred)
    whole = iql.partial_fit(FEW, task)
    same(in_blocks(iql, FEW, task, [1, 2, 77, 150]), whole)
    assert whole.tables.updates.sum() == len(FEW)


@pytest.mark.parametrize("bound", [False, True])
def test_a_stream_goes_on_from_a_file(bound, tmp_path):
    world = iq.worlds.objectworld(size=4, n_objects=4, seed=0)
    task = world.task.constrain(*BOUND.constraints) if bound else TASK
    iql, names = IQL(centred=True), iter(range(9))

    def through(found):
        folder = tmp_path / str(next(names))
        found.save(folder)
        return Solution.load(folder)

    same(in_blocks(iql, FEW, task, [40, 90], through), iql.partial_fit(FEW, task))


def test_a_stream_says_how_far_the_reward_moved_in_each_block_and_whether_that_was_little():
    found = in_blocks(IQL(), FEW, TASK, [40, 90])
    first = IQL().partial_fit(FEW.select(np.arange(len(FEW)) < 40), TASK)
    assert found.info.iterations == len(found.info.change) == 3
    assert found.info.change[0] == gap(first.reward_table, 0 * first.reward_table) > 1e-4
    assert not first.info.converged
    assert not found.info.converged
    assert "not converged" in repr(found)
    calm = IQL(tolerance=found.info.change[-1] * 1.001)
    assert in_blocks(calm, FEW, TASK, [40, 90]).info.converged


def test_going_on_leaves_the_previous_solution_as_it_was():
    iql = IQL()
    first = iql.partial_fit(FEW, TASK)
    before = {name: array.copy() for name, array in first.tables.arrays().items()}
    second = iql.partial_fit(MANY, TASK, first)
    for name, array in before.items():
        np.testing.assert_array_equal(getattr(first.tables, name), array)
    assert second.info.iterations == 2
    np.testing.assert_array_equal(
        second.tables.visits, FEW.counts(S, A).visits + MANY.counts(S, A).visits
    )


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("task", [TASK, BOUND], ids=["free", "bound"])
def test_the_first_epoch_online_is_a_stream(centred, task):
    task = task.counted(FEW)
    iql = IQL(online=True, centred=centred, epochs=1, tolerance=0.0)
    with pytest.warns(NotConverged):
        epoch = iql.fit(FEW, task, seed=3)
    same(epoch, iql.partial_fit(FEW, task))


def test_a_fit_can_be_followed_by_a_stream():
    found = IQL(centred=True).fit(FEW, TASK)
    more = IQL(centred=True).partial_fit(MANY, TASK, found)
    assert gap(more.tables.visits, FEW.counts(S, A).visits + MANY.counts(S, A).visits) == 0
    both = Demonstrations.concatenate([FEW, MANY])
    assert gap(IQL().fit(both, TASK).tables.visits, more.tables.visits) == 0
    exact = IAVI().fit(both, TASK).policy_table
    # The rates have fallen over all the epochs of the fit, so that it goes on slowly.
    assert np.abs(more.policy_table - exact).mean() < np.abs(found.policy_table - exact).mean()


def test_a_stream_goes_on_only_from_itself():
    with pytest.raises(InvalidInput, match="must go on from a solution of `IQL`; got one of IAVI"):
        IQL().partial_fit(FEW, TASK, IAVI().fit(FEW, TASK))
    found = IQL().partial_fit(FEW, TASK)
    with pytest.raises(InvalidInput, match=r"the solution has \(16, 5\), the task \(17, 5\)"):
        IQL().partial_fit(FEW, replace(TASK, n_states=17), found)
    with pytest.raises(InvalidInput, match="how many states there will be"):
        IQL().partial_fit(FEW, Task(A, 0.9))


# -- chance ---------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::inverseq.errors.NotConverged")
def test_the_same_seed_gives_the_same_bits_and_another_another_path():
    iql = IQL(epochs=5)
    one, again, other = (iql.fit(MANY, BOUND, seed=seed) for seed in (1, 1, 2))
    same(one, again)
    assert one.info.change == again.info.change
    assert one.info.seed == 1
    assert gap(one.q_table, other.q_table) > 1e-6
    in_order = replace(iql, shuffle=False)
    same(in_order.fit(MANY, TASK, seed=1), in_order.fit(MANY, TASK, seed=2))


# -- rates, stopping, and what is written down ----------------------------------------------------


@given(st.floats(1, 1e4), st.floats(0.51, 1))
def test_a_decaying_rate_starts_at_one_and_falls_for_ever(horizon, power):
    rates = Decay(horizon, power).table(2000)
    assert rates[0] == rates[1] == 1
    assert (np.diff(rates[1:]) < 0).all()
    assert (rates > 0).all()
    n = np.arange(1, 2001)
    np.testing.assert_allclose(rates[1:], (horizon / (horizon + n - 1)) ** power)
    # Half of the way at about the horizon: (1/2) ** power exactly one update later.
    exact = (horizon / (horizon + horizon)) ** power
    assert rates[min(int(horizon), 1999)] >= exact - 1e-12 or horizon >= 1999


@pytest.mark.parametrize("power", [0.51, 0.75, 1.0])
def test_its_rates_remember_no_start_and_average_noise(power):
    """Robbins and Monro: the sum diverges, the sum of squares does not."""
    rates = Decay(5.0, power).table(1_000_000)[1:]
    decades = [rates[10**k : 10 ** (k + 1)].sum() for k in (3, 4, 5)]
    assert decades[0] <= decades[1] * 1.01
    assert decades[1] <= decades[2] * 1.01
    squares = [(rates[10**k : 10 ** (k + 1)] ** 2).sum() for k in (3, 4, 5)]
    assert squares[0] > squares[1] > squares[2]


@pytest.mark.parametrize("settings", [{"horizon": 0.5}, {"power": 0.5}, {"power": 1.1}])
def test_other_rates_are_refused(settings):
    with pytest.raises(InvalidInput, match=r"horizon of at least 1 and a power in \(0.5, 1\]"):
        Decay(**settings)


def test_the_papers_constants_move_slowly_and_do_not_settle():
    paper = IQL.paper(epochs=20)
    assert (paper.lr_reward, paper.lr_q, paper.lr_shifted) == (1e-3, 1e-3, 1e-3)
    assert paper.lr_constrained is None
    with pytest.warns(NotConverged, match="stopped after 20 epochs"):
        found = paper.fit(MANY, TASK)
    assert not found.info.converged
    assert found.info.iterations == len(found.info.change) == 20
    exact = IAVI().fit(MANY, TASK)
    early = gap(found.policy_table, exact.policy_table)
    assert early > 0.03
    with pytest.warns(NotConverged):
        longer = replace(paper, epochs=2000, tolerance=0.0).fit(MANY, TASK)
    assert gap(longer.policy_table, exact.policy_table) < early / 3


@pytest.mark.parametrize("tolerance", [1e-2, 1e-3, 1e-4])
def test_it_stops_at_the_papers_criterion(tolerance):
    found = IQL(tolerance=tolerance).fit(MANY, TASK)
    change = np.array(found.info.change)
    assert change[-1] < tolerance
    assert (change[:-1] >= tolerance).all()
    assert found.info.iterations == len(change) < 1000


def test_change_is_how_far_the_reward_moved():
    found = []
    for epochs in (1, 2):
        with pytest.warns(NotConverged):
            found.append(IQL(epochs=epochs, tolerance=0.0).fit(MANY, TASK))
    assert found[0].info.change[0] == np.abs(found[0].reward_table).max()
    assert found[1].info.change[1] == gap(found[1].reward_table, found[0].reward_table)


def dense_residual(found, seen, task, centred):
    """The three equations on the counted model, pair by pair, for what was seen."""
    q, r, q_sh, t = found.q_table, found.reward_table, found.tables.q_shifted, task.temperature
    n_states = len(q)
    available = task.available_table(n_states)
    terminal = np.zeros(n_states, bool) if task.terminal is None else task.terminal
    weights = np.ones(len(seen)) if seen.weights is None else seen.weights
    rho, follows = np.zeros(q.shape), np.zeros(q.shape)
    rows = zip(seen.states, seen.actions, seen.next_states, seen.terminated, weights, strict=True)
    for s, a, s_next, ended, weight in rows:
        rho[s, a] += weight
        if not (ended or terminal[s_next]):
            follows[s, a] += weight * max(q[s_next, b] for b in np.flatnonzero(available[s_next]))
    worst = 0.0
    for s, a in zip(*np.nonzero(rho * ~terminal[:, None]), strict=True):
        can = np.flatnonzero(available[s])
        k = found.info.settings["smoothing"]["k"]
        l = t * np.log((rho[s] + k) / (rho[s, can] + k).sum())
        eta = l - q_sh[s]
        shifted = task.discount * follows[s, a] / rho[s, a]
        if centred:
            goal = eta[a] - eta[can].mean()
        else:
            others = [r[s, b] - eta[b] for b in can if b != a]
            goal = eta[a] + (sum(others) / len(others) if others else 0.0)
        worst = max(
            worst,
            abs(q_sh[s, a] - shifted),
            abs(r[s, a] - goal),
            abs(q[s, a] - r[s, a] - shifted),
        )
    return worst


@given(worlds(discounts=st.sampled_from([0.0, 0.5, 0.9])), st.booleans(), st.booleans())
@settings(max_examples=40)
@pytest.mark.filterwarnings("ignore::inverseq.errors.NotConverged")
def test_the_residual_says_by_how_much_the_equations_are_missed(world, centred, weighted):
    seen = world.demonstrations(50)
    if weighted:
        seen = replace(seen, weights=world.rng.random(50) + 0.1)
    # Of an end in a terminal state the steps themselves need not know.
    entered = ~np.append(world.decides, True)[seen.next_states]
    seen = replace(seen, terminated=seen.terminated & ~entered)
    found = IQL(centred=centred, epochs=10).fit(seen, world.task)
    right = dense_residual(found, seen, world.task, centred)
    assert found.info.residual == pytest.approx(right, rel=1e-8, abs=1e-8)


def test_the_residual_falls_where_the_change_only_slows_down():
    """Small constant rates meet the criterion at once; the residual says that it means nothing."""
    slow = IQL(lr_reward=1e-7, lr_q=1e-7, lr_shifted=1e-7).fit(MANY, TASK)
    assert slow.info.converged
    assert slow.info.iterations == 1
    assert slow.info.residual > 0.3
    assert IQL(**PATIENT).fit(MANY, TASK).info.residual < 1e-3


def test_states_without_demonstrations_are_counted_and_uniform():
    found = IQL(tolerance=1e-3).fit(FEW, replace(TASK, n_states=S + 2))
    assert found.info.unvisited_states == 2
    np.testing.assert_array_equal(found.policy_table[S:], 1 / A)
    np.testing.assert_array_equal(found.visited, [True] * S + [False] * 2)


# -- ends, weights, and what cannot be ------------------------------------------------------------


def test_nothing_follows_an_end():
    """Whether a step says so or the task does; where it led is not read."""
    whole = steps_of(2, 1000, terminal=[5])
    by_step = whole.select(whole.states != 5)
    silent = replace(by_step, terminated=np.zeros(len(by_step), bool))
    elsewhere = replace(by_step, next_states=np.where(by_step.terminated, 11, by_step.next_states))
    ended = replace(TASK, terminal=[5])
    first = IQL().fit(by_step, TASK)
    same(IQL().fit(elsewhere, TASK), first)
    same(IQL().fit(silent, ended), first)
    same(IQL().fit(by_step, ended), first)
    on = replace(whole, terminated=np.zeros(1000, bool))
    assert gap(IQL().fit(on, TASK).q_table, IQL().fit(whole, TASK).q_table) > 1e-3


def test_the_residual_ends_where_the_task_does():
    """Also where a log goes on from a terminal state, as this one does: that is not judged."""
    silent = steps_of(2, 1000)
    found = IQL(tolerance=1e-2).fit(silent, replace(TASK, terminal=[5]))
    right = dense_residual(found, silent, replace(TASK, terminal=[5]), centred=False)
    assert found.info.residual == pytest.approx(right, rel=1e-9)


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("centred", [False, True])
def test_nothing_is_said_of_a_terminal_state_in_the_log(centred, bound):
    """As in the exact method: reward 0, and values of which the best is 0."""
    task = replace(BOUND if bound else TASK, terminal=[5])
    task = task if not bound else task.counted(MANY)
    exact = IAVI().fit(MANY, task)
    iql = IQL(centred=centred, tolerance=1e-3)
    streamed = in_blocks(iql, MANY, task, [100, 1500])
    same(streamed, iql.partial_fit(MANY, task))
    for found in (iql.fit(MANY, task), replace(iql, online=True).fit(MANY, task), streamed):
        assert found.tables.visits[5].sum() > 0
        np.testing.assert_array_equal(found.reward_table[5], 0)
        np.testing.assert_allclose(found.q_table[5], exact.q_table[5], atol=1e-12)
        assert found.value_table[5] == 0
        if bound:
            np.testing.assert_array_equal(found.q_constrained_table[5], found.q_table[5])


def test_an_end_cuts_what_follows_in_streams_too():
    by_step = steps_of(2, 300, terminal=[5])
    by_step = by_step.select(by_step.states != 5)
    silent = replace(by_step, terminated=np.zeros(len(by_step), bool))
    same(IQL().partial_fit(silent, replace(TASK, terminal=[5])), IQL().partial_fit(by_step, TASK))


@pytest.mark.parametrize("centred", [False, True])
def test_a_weight_of_three_is_the_same_step_three_times_in_the_limit(centred):
    weights = np.random.default_rng(0).integers(1, 4, len(FEW))
    repeated = Demonstrations(
        *(np.repeat(x, weights) for x in (FEW.states, FEW.actions, FEW.next_states)),
        episodes=np.arange(weights.sum()),
    )
    weighted = replace(FEW, weights=weights.astype(float))
    iql = IQL(centred=centred, **PATIENT)
    one, other = iql.fit(weighted, TASK), iql.fit(repeated, TASK)
    np.testing.assert_array_equal(one.tables.visits, other.tables.visits)
    assert gap(one.policy_table, other.policy_table) < 5e-3
    if centred:
        exact = IAVI().fit(weighted, TASK)
        for found in (one, other):
            assert gap(found.q_table, exact.q_table) < 2e-2


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
def test_the_unit_of_the_weights_does_not_set_the_pace(unit):
    weights = np.random.default_rng(0).random(len(MANY)) + 0.5
    smoothing = Additive(1e-3 * unit)
    seen = [replace(MANY, weights=weights * u) for u in (1.0, unit)]
    one = IQL(centred=True).fit(seen[0], TASK)
    other = IQL(centred=True, smoothing=smoothing).fit(seen[1], TASK)
    assert gap(one.q_table, other.q_table) < 1e-6
    assert one.info.iterations == other.info.iterations


def test_a_stream_counts_weights():
    weighted = replace(FEW, weights=np.random.default_rng(0).random(len(FEW)))
    found = IQL().partial_fit(weighted, TASK)
    np.testing.assert_allclose(found.tables.visits, weighted.counts(S, A).visits)
    same(in_blocks(IQL(), weighted, TASK, [50, 51]), found)


def test_weights_of_one_are_no_weights():
    same(IQL().fit(replace(FEW, weights=np.ones(len(FEW))), TASK), IQL().fit(FEW, TASK))
    one = IQL().partial_fit(replace(FEW, weights=np.ones(len(FEW))), TASK)
    same(one, IQL().partial_fit(FEW, TASK))


def test_a_weight_of_zero_is_a_step_that_was_not_seen():
    left_out = (FEW.states == FEW.states[0]) & (FEW.actions == FEW.actions[0])
    weighted = replace(FEW, weights=np.where(left_out, 0.0, 1.0))
    kept = FEW.select(~left_out)
    iql = IQL(centred=True, tolerance=1e-6, epochs=20_000)
    one = iql.fit(weighted, TASK)
    for online in (iql, replace(iql, online=True)):
        same(online.fit(weighted, TASK), online.fit(kept, TASK))
    same(iql.partial_fit(weighted, TASK), iql.partial_fit(kept, TASK))
    assert gap(one.reward_table, IAVI().fit(weighted, TASK).reward_table) < 5e-3


def test_an_action_that_is_not_available_is_an_error_that_names_its_row():
    available = np.ones((S, A), bool)
    available[FEW.states[7], FEW.actions[7]] = False
    task = replace(TASK, available=available)
    row = int(np.flatnonzero(~available[FEW.states, FEW.actions])[0])
    message = rf"row {row} has\s+action {FEW.actions[row]} in state {FEW.states[row]}"
    for attempt in (IQL().fit, IQL().partial_fit):
        with pytest.raises(InvalidInput, match=message):
            attempt(FEW, task)


@pytest.mark.slow
def test_a_million_steps_are_learned_in_seconds():
    many = Demonstrations.concatenate([MANY] * 334)
    IQL(epochs=1, tolerance=np.inf).fit(FEW, TASK)  # compiled by now
    began = time.perf_counter()
    with pytest.warns(NotConverged):
        IQL(epochs=10, tolerance=0.0).fit(many, TASK)
    assert time.perf_counter() - began < 10


def test_rates_that_never_settle_are_said_and_not_returned():
    world = iq.worlds.objectworld(size=8, n_objects=8, seed=0)
    seen = world.demonstrations(2_000, 8, seed=0)
    rates = {"lr_reward": 0.5, "lr_q": 0.5, "lr_shifted": 0.5}
    with pytest.raises(InvalidInput, match=r"after \d+ epochs the reward changes by .*`Decay\(\)`"):
        IQL(**rates, epochs=5_000).fit(seen, world.task)
    with pytest.warns(NotConverged, match="or use rates that decay"):
        centred = IQL(**rates, epochs=50, centred=True).fit(seen, world.task)
    assert np.abs(centred.reward_table).max() < 100
