"""Gymnasium: what is recorded is what happened, what is evaluated is what was paid."""

import re
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import inverseq as iq
from inverseq import planning
from inverseq.errors import InvalidInput, MissingExtra
from inverseq.io.spaces import Spaces, need_gymnasium
from inverseq.worlds import gym

COLUMNS = ("states", "actions", "next_states", "terminated", "episodes", "rewards")


def balance(states):
    """Pushes to the side to which the pole falls: 500 steps, mostly."""
    return (states[:, 2] + 0.3 * states[:, 3] + 0.05 * states[:, 1] > 0).astype(int)


def clumsy(states):
    """Does not look ahead: episodes of many lengths, and the pole falls."""
    return (states[:, 2] > 0).astype(int)


def by_hand(env, act, episodes, seed, max_steps=10**9):
    """One episode after another, one step after another, as anybody would write it."""
    seeds = np.random.default_rng(seed).integers(2**31, size=(episodes, 2))
    rows = []
    for episode, (own, _) in enumerate(seeds.tolist()):
        before, over, steps = env.reset(seed=own)[0], False, 0
        while not over:
            action = act(np.asarray(before)[None])[0]
            after, reward, terminated, truncated, _ = env.step(action)
            rows.append((before, action, after, terminated, episode, reward))
            before, steps = after, steps + 1
            over = terminated or truncated or steps == max_steps
    return dict(zip(COLUMNS, map(np.array, zip(*rows, strict=True)), strict=True))


def identical(seen, other):
    for name in COLUMNS:
        one, two = getattr(seen, name), getattr(other, name)
        assert (one.dtype, one.shape) == (two.dtype, two.shape), name
        assert one.tobytes() == two.tobytes(), name


class Told(gymnasium.Env):
    """An environment that does what it is told: of these spaces, so long, at this pay."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, observation=None, action=None, length=3, pay=1.0):
        self.observation_space = spaces.Discrete(5) if observation is None else observation
        self.action_space = spaces.Discrete(2) if action is None else action
        self.length, self.pay, self.taken = length, pay, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.taken.append(int(action))
        self.steps += 1
        return self.observation_space.sample(), self.pay, self.steps == self.length, False, {}


# -- recording -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "act", "max_steps"),
    [
        ("CartPole-v1", clumsy, None),
        ("CartPole-v1", balance, 40),
        ("FrozenLake-v1", lambda states: states % 4, None),
        ("Taxi-v4", lambda states: states % 6, None),
    ],
)
def test_side_by_side_is_one_after_another(name, act, max_steps):
    env, limits = gymnasium.make(name), {} if max_steps is None else {"max_steps": max_steps}
    expected = by_hand(env, act, 40, seed=5, **limits)
    together = gym.record(name, act, 40, seed=5, max_steps=max_steps)
    alone = gym.record(env, act, 40, seed=5, max_steps=max_steps)
    made = gym.record(lambda: gymnasium.make(name), act, 40, seed=5, max_steps=max_steps)
    for column in COLUMNS:
        np.testing.assert_array_equal(getattr(together, column), expected[column])
    identical(together, alone)
    identical(together, made)
    env.close()


def test_no_step_crosses_from_one_episode_into_the_next():
    seen = gym.record("CartPole-v1", clumsy, 50, seed=0)
    goes_on = seen.episodes[1:] == seen.episodes[:-1]
    np.testing.assert_array_equal(seen.next_states[:-1][goes_on], seen.states[1:][goes_on])
    starts = seen.states[seen.starts]
    assert np.abs(starts).max() <= 0.05  # where CartPole begins
    ends = seen.next_states[np.append(seen.starts[1:], len(seen)) - 1]
    assert (np.abs(ends[:, 2]) > 12 * np.pi / 180).all()  # where it ends: the pole has fallen
    assert seen.terminated.sum() == seen.n_episodes == 50
    assert len(np.unique(np.diff(seen.starts))) > 10


def test_a_cut_is_not_an_end():
    seen = gym.record("CartPole-v1", balance, 3, seed=0)
    assert len(seen) == 1500  # CartPole's own limit
    assert not seen.terminated.any()
    assert seen.n_episodes == 3
    assert gym.record("CartPole-v1", balance, 3, seed=0, max_steps=7).n_episodes == 3
    lake = gym.record("FrozenLake-v1", "random", 20, seed=0)
    assert set(lake.next_states[lake.terminated]) <= {5, 7, 11, 12, 15}
    assert not np.isin(lake.states, [5, 7, 11, 12, 15]).any()


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 99), st.sampled_from([0, 0.3]))
def test_a_shorter_recording_is_the_beginning_of_a_longer_one(few, more, seed, explore):
    few, more = sorted([few, more])

    def act(states):
        return states % 4

    long = gym.record("FrozenLake-v1", act, more, seed=seed, explore=explore)
    short = gym.record("FrozenLake-v1", act, few, seed=seed, explore=explore)
    identical(short, long.select(long.episodes < few))


def test_seeds_decide():
    one, again, other = (gym.record("FrozenLake-v1", "random", 30, seed=s) for s in (1, 1, 2))
    identical(one, again)
    assert one.states.tobytes() != other.states.tobytes()


def test_a_policy_is_always_asked_about_a_batch_of_one_size():
    sizes = set()

    def act(states):
        sizes.add(states.shape)
        return clumsy(states)

    gym.record("CartPole-v1", act, 21, seed=0)
    assert sizes == {(gym.PARALLEL, 4)}


def test_rewards_are_those_of_the_environment():
    seen = gym.record("Taxi-v4", "random", 5, seed=0)
    table = gymnasium.make("Taxi-v4").unwrapped.P
    paid = [table[s][a][0][2] for s, a in zip(seen.states, seen.actions, strict=True)]
    np.testing.assert_array_equal(seen.rewards, paid)


def test_chance_explores_at_its_rate_and_evenly():
    seen = gym.record(lambda: Told(length=500), lambda states: 0 * states, 20, seed=0, explore=0.4)
    assert abs(seen.actions.mean() - 0.2) < 4 * np.sqrt(0.2 * 0.8 / 10_000)
    never = gym.record(lambda: Told(length=500), lambda states: 0 * states, 2, seed=0)
    assert not never.actions.any()
    always = gym.record("FrozenLake-v1", lambda states: 0 * states, 20, seed=0, explore=1)
    identical(always, gym.record("FrozenLake-v1", "random", 20, seed=0))


def test_sampled_actions_have_the_probabilities_of_the_policy():
    chances = np.array([0.0, 0.2, 0.5, 0.3, 0.0], np.float32)
    seen = gym.record(
        lambda: Told(action=spaces.Discrete(5), length=500),
        lambda states: np.tile(chances, (len(states), 1)), 40, seed=0, sample=True,
    )  # fmt: skip
    shares = np.bincount(seen.actions, minlength=5) / len(seen)
    assert (np.abs(shares - chances) <= 4 * np.sqrt(chances * (1 - chances) / len(seen))).all()
    assert shares[[0, 4]].tolist() == [0, 0]


@given(st.integers(1, 6), st.integers(0, 2**32), st.sampled_from([0.0, 0.5, 1 - 2**-53]))
def test_what_has_no_probability_is_never_drawn(n, seed, luck):
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.full(n, 0.3), size=50) * (rng.random((50, n)) < 0.5)
    chances[:, rng.integers(n)] += 1e-9
    chances /= chances.sum(axis=1, keepdims=True)
    chosen = gym.drawn(chances, chances.shape, np.full(50, luck))
    assert (chances[np.arange(50), chosen] > 0).all()


def test_the_luck_of_the_policy_is_not_that_of_the_environment():
    # With the same numbers a slip would follow from the choice, and counts would miss the model.
    seen = gym.record("FrozenLake-v1", "random", 4000, seed=0)
    model = gym.task_of("FrozenLake-v1", 0.9).transitions.dense()[0]
    at_start = seen.states == 0
    for action in range(4):
        follows = seen.next_states[at_start & (seen.actions == action)]
        counted = np.bincount(follows, minlength=16) / len(follows)
        assert np.abs(counted - model[action]).max() < 4 * np.sqrt(0.25 / len(follows))


def test_who_acted_is_written_down():
    seen = gym.record("FrozenLake-v1", "random", 3, seed=0, units=["a", "b", "a"])
    assert [seen.units[row] for row in seen.starts] == ["a", "b", "a"]
    assert set(gym.record("FrozenLake-v1", "random", 3, seed=0, units=7).units) == {7}


def test_what_is_made_here_is_closed_and_what_is_given_is_not():
    closed = []

    class Closing(Told):
        def close(self):
            closed.append(self)

    given_one = Closing()
    gym.record(given_one, "random", 3, seed=0)
    assert closed == []
    gym.record(Closing, "random", 3, seed=0)
    assert len(closed) == 3
    with pytest.raises(InvalidInput):
        gym.record(Closing, lambda states: states + 9, 3, seed=0)
    assert len(closed) == 6


# -- spaces ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "shape", "kind"),
    [
        (spaces.Box(0, 1, (3,), np.float32), (3,), np.float32),
        (spaces.Box(0, 1, (3,), np.float64), (3,), np.float64),
        (spaces.Box(0, 255, (2, 2), np.uint8), (2, 2), np.float64),
        (spaces.Box(0, 1, ()), (1,), np.float32),
        (spaces.MultiBinary(3), (3,), np.float64),
        (spaces.MultiDiscrete([2, 3]), (5,), np.float64),
        (spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (3,))]), (5,), np.float64),
        (spaces.Dict(a=spaces.Discrete(2, start=4), b=spaces.Box(0, 1, (2, 2))), (6,), np.float64),
        (spaces.Dict(a=spaces.Box(0, 1, (1,)), b=spaces.Box(0, 1, (2,))), (3,), np.float32),
    ],
)
def test_observations_become_rows_of_numbers(space, shape, kind):
    seen = gym.record(lambda: Told(space), "random", 4, seed=0)
    assert seen.states.shape == (12, *shape)
    assert seen.states.dtype == kind
    assert Spaces.check(space, spaces.Discrete(2)).n_states is None


@given(st.integers(0, 99), st.integers(1, 5))
def test_a_batch_of_arrays_is_a_list_of_observations(seed, n):
    space = spaces.Dict(
        a=spaces.Discrete(3, start=-1),
        b=spaces.Tuple([spaces.MultiBinary(2), spaces.Box(-1, 1, (2, 2))]),
    )
    space.seed(seed)
    known = Spaces.check(space, spaces.Discrete(2))
    one_by_one = [space.sample() for _ in range(n)]
    batch = {
        "a": np.array([each["a"] for each in one_by_one]),
        "b": tuple(np.array([each["b"][i] for each in one_by_one]) for i in range(2)),
    }
    expected = np.stack([spaces.flatten(space, each) for each in one_by_one])
    np.testing.assert_array_equal(known.states(one_by_one), expected)
    np.testing.assert_array_equal(known.batch(batch), expected)


def test_the_order_of_a_dictionary_does_not_matter():
    parts = {
        "b": spaces.Discrete(2),
        "a": spaces.Tuple([spaces.Dict(d=spaces.Box(0, 1, (1,)), c=spaces.Discrete(3))]),
    }
    one, other = (
        Spaces.check(spaces.Dict(**{name: parts[name] for name in order}), spaces.Discrete(2))
        for order in ("ab", "ba")
    )
    seen = [{"b": 1, "a": ({"d": np.array([0.5]), "c": 2},)}]
    assert one.states(seen).tolist() == other.states(seen).tolist() == [[0, 0, 1, 0.5, 0, 1]]


def test_states_and_actions_are_numbered_from_0_whatever_they_are_called():
    env = Told(spaces.Discrete(4, start=-2), spaces.Discrete(3, start=10), length=50)
    seen = gym.record(env, "random", 4, seed=0)
    assert set(seen.states) == {0, 1, 2, 3}
    assert set(seen.actions) == {0, 1, 2}
    np.testing.assert_array_equal(np.array(env.taken), seen.actions + 10)
    assert gym.task_of(env, 0.9).n_states == 4


def test_observations_that_an_environment_writes_over_are_kept():
    class Reuses(Told):
        def __init__(self):
            super().__init__(spaces.Box(0, 99, (1,)))
            self.place = np.zeros(1, np.float32)

        def reset(self, **given):
            super().reset(**given)
            self.place[:] = 0
            return self.place, {}

        def step(self, action):
            *_, terminated, truncated, info = super().step(action)
            self.place += 1
            return self.place, 1.0, terminated, truncated, info

    seen = gym.record(Reuses, "random", 2, seed=0)
    assert seen.states.ravel().tolist() == [0, 1, 2, 0, 1, 2]
    assert seen.next_states.ravel().tolist() == [1, 2, 3, 1, 2, 3]


# -- evaluation ------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.integers(0, 30), st.integers(1, 40), st.sampled_from([None, 5]))
def test_an_evaluation_adds_up_what_a_recording_holds(seed, episodes, max_steps):
    task = iq.Task(4, 0.9, n_states=16).constrain(
        iq.Constraint(np.eye(16, 4), 0.5, name="not that way")
    )
    given = {"seed": seed, "max_steps": max_steps}
    seen = gym.record("FrozenLake-v1", "random", episodes, **given)
    found = gym.evaluate("random", "FrozenLake-v1", episodes, task=task, **given)
    wrong = ~task.safe(seen.states)[np.arange(len(seen)), seen.actions]
    for array, weights in (
        (found.returns, seen.rewards), (found.lengths, None), (found.violations, wrong)
    ):  # fmt: skip
        np.testing.assert_array_equal(array, np.bincount(seen.episodes, weights))
    assert found.violations.sum() == iq.evaluate.violations(seen, task).chosen
    assert found.violation_rate == wrong.mean()


def test_the_task_is_asked_and_not_the_policy():
    # Never push right when the cart is right of 0.02, says the task; the policy knows of nothing.
    cost = iq.Constraint(lambda states: np.stack([0 * states[:, 0], states[:, 0]], axis=1), 0.02)
    task = iq.Task(2, 0.99).constrain(cost)
    careless = gym.evaluate(balance, "CartPole-v1", 20, seed=0, task=task)
    assert (careless.violations > 0).any()

    def careful(states):
        return np.where(states[:, 0] > 0.02, 0, balance(states))

    kept = gym.evaluate(careful, "CartPole-v1", 20, seed=0, task=task)
    assert kept.violations.tolist() == [0] * 20
    assert kept.mean < careless.mean
    assert gym.evaluate(balance, "CartPole-v1", 20, seed=0).violations is None


def test_what_an_evaluation_says_of_itself():
    found = gym.Evaluation(np.array([1.0, 2.0, 6.0]), np.array([10, 20, 30]))
    assert len(found) == 3
    assert found.mean == 3
    assert found.standard_error == pytest.approx(np.sqrt(7 / 3))
    assert np.isnan(found.violation_rate)
    assert repr(found) == "Evaluation(3 episodes, return 3 ± 1.53, length 20)"
    alone = gym.Evaluation(np.array([1.5]), np.array([1000]), np.array([1]))
    assert np.isnan(alone.standard_error)
    assert (
        repr(alone) == "Evaluation(1 episode, return 1.5, length 1000, 1 violation in 1,000 steps)"
    )
    with pytest.raises(ValueError, match="read-only"):
        found.returns[0] = 0


# -- tasks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["FrozenLake-v1", "FrozenLake8x8-v1", "Taxi-v4", "CliffWalking-v1"]
)
def test_the_model_of_a_task_is_the_table_of_the_environment(name):
    table = gymnasium.make(name).unwrapped.P
    task = gym.task_of(name, 0.9)
    goes_on = np.zeros((task.n_states, task.n_actions, task.n_states))
    ends = np.zeros((task.n_states, task.n_actions))
    for s, actions in table.items():
        for a, outcomes in actions.items():
            for chance, after, _, end in outcomes:
                if end:
                    ends[s, a] += chance
                else:
                    goes_on[s, a, after] += chance
    reached = reached_before_an_end(goes_on, task.start())
    np.testing.assert_allclose(task.continuing.dense()[reached], goes_on[reached], atol=1e-12)
    np.testing.assert_allclose(task.continuing.ends()[reached], ends[reached], atol=1e-12)
    assert not reached[task.terminal].any()


def reached_before_an_end(goes_on, start):
    """Which states can be reached before an end."""
    reached = start > 0
    for _ in range(len(reached)):
        reached = reached | (goes_on[reached].sum(axis=(0, 1)) > 0)
    return reached


def test_terminal_states_are_those_in_which_episodes_end():
    assert np.flatnonzero(gym.task_of("FrozenLake-v1", 0.9).terminal).tolist() == [5, 7, 11, 12, 15]
    assert np.flatnonzero(gym.task_of("CliffWalking-v1", 1).terminal).tolist() == [47]
    taxi = gym.task_of("Taxi-v4", 0.9)
    assert np.flatnonzero(taxi.terminal).tolist() == [0, 85, 410, 475]
    assert np.count_nonzero(taxi.start()) == 300


def test_where_an_end_is_not_told_by_the_state_it_has_a_column_of_its_own():
    class Coin(Told):
        """Action 1 ends in state 0 or goes on in it."""

        P = {  # noqa: RUF012
            0: {0: [(1.0, 1, 0, False)], 1: [(0.5, 0, 0, True), (0.5, 0, 0, False)]},
            1: {0: [(1.0, 0, 0, False)], 1: [(0.25, 1, 0, True), (0.75, 0, 0, False)]},
        }

    task = gym.task_of(Coin(spaces.Discrete(2)), 0.9)
    assert task.terminal is None
    assert task.transitions.dense().tolist() == [[[0, 1], [0.5, 0]], [[1, 0], [0.75, 0]]]
    assert task.transitions.ends().tolist() == [[0, 0.5], [0, 0.25]]


def test_a_wrapped_table_is_not_taken_for_the_model():
    lake = gymnasium.make("FrozenLake-v1")
    turned = gymnasium.wrappers.TransformAction(lake, lambda a: 3 - a, lake.action_space)
    assert gym.task_of(turned, 0.9).transitions is None
    assert gym.task_of(turned, 0.9).n_states == 16
    counting = gymnasium.wrappers.RecordEpisodeStatistics(lake)
    assert gym.task_of(counting, 0.9).transitions is not None


def test_the_expert_of_the_lake_is_recovered_and_does_as_well():
    """From its model, through a recording, to a policy that fares like the one recorded."""
    task = gym.task_of("FrozenLake-v1", 0.99)
    table = gymnasium.make("FrozenLake-v1").unwrapped.P
    reward = np.array(
        [[sum(p * r for p, _, r, _ in table[s][a]) for a in range(4)] for s in range(16)]
    )
    reward[task.terminal] = 0
    best = planning.solve(reward, task).q.argmax(axis=1)
    seen = gym.record("FrozenLake-v1", lambda states: best[states], 300, seed=0)
    assert 0.6 < seen.rewards.sum() / 300 < 0.85  # the lake is slippery: nobody reaches 0.9
    found = iq.IAVI().fit(seen, task)
    visited = np.unique(seen.states)
    np.testing.assert_array_equal(found.predict(visited), best[visited])
    expert = gym.evaluate(lambda states: best[states], "FrozenLake-v1", 500, seed=1)
    learned = gym.evaluate(found, "FrozenLake-v1", 500, seed=1)
    np.testing.assert_array_equal(learned.returns, expert.returns)
    chance = gym.evaluate("random", "FrozenLake-v1", 500, seed=1)
    assert learned.mean > chance.mean + 0.5


def test_a_solution_is_asked_for_its_best_action_or_for_its_probabilities():
    task = gym.task_of("FrozenLake-v1", 0.9)
    found = iq.IAVI().fit(gym.record("FrozenLake-v1", "random", 50, seed=0), task)
    best = gym.record("FrozenLake-v1", found, 10, seed=1)
    np.testing.assert_array_equal(best.actions, found.predict(best.states))
    drawn = gym.record("FrozenLake-v1", found, 10, seed=1, sample=True)
    assert (drawn.actions != found.predict(drawn.states)).any()
    table = found.policy_table
    same = gym.record("FrozenLake-v1", lambda states: table[states], 10, seed=1, sample=True)
    identical(drawn, same)
    assert repr(gym.evaluate(found, "FrozenLake-v1", 10, seed=1, sample=True)) == repr(
        gym.evaluate(lambda states: table[states], "FrozenLake-v1", 10, seed=1, sample=True)
    )


# -- recovered rewards -----------------------------------------------------------------------------


class Paying:
    """As much of a solution as its reward is: 10 s + a, and what was reached unless it ended."""

    def __init__(self, n_actions):
        self.n_actions = n_actions

    def __repr__(self):
        return f"Paying({self.n_actions})"

    def reward_of(self, states, actions, next_states, terminated):
        assert actions.max() < self.n_actions
        first, then = (x if x.ndim == 1 else x[:, 0] for x in (states, next_states))
        return 10.0 * first + actions + 100.0 * np.where(terminated, 0, then)


@pytest.mark.parametrize(("name", "n_actions"), [("CartPole-v1", 2), ("FrozenLake-v1", 4)])
def test_the_wrapper_passes_the_checks_of_gymnasium(name, n_actions):
    env = gym.recovered(gymnasium.make(name, disable_env_checker=True), Paying(n_actions))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is different from the unwrapped version.*")
        warnings.filterwarnings("ignore", message=".*space (minimum|maximum) value is.*infinity.*")
        check_env(env, skip_render_check=True)
    again = env.spec.make()
    assert isinstance(again.solution, Paying)


def test_the_recovered_reward_is_paid_and_the_true_one_is_told():
    env = gym.recovered(gymnasium.make("FrozenLake-v1"), Paying(4))
    plain = gymnasium.make("FrozenLake-v1")
    rng = np.random.default_rng(0)
    for episode in range(30):
        state, over = env.reset(seed=episode)[0], False
        assert plain.reset(seed=episode)[0] == state
        while not over:
            action = rng.integers(4)
            after, reward, terminated, truncated, info = env.step(action)
            theirs = plain.step(action)
            assert reward == 10 * state + action + 100 * (0 if terminated else after)
            assert isinstance(reward, float)
            assert (after, info.pop("true_reward"), terminated, truncated, info) == theirs
            state, over = after, terminated or truncated


def test_actions_of_another_numbering_are_paid_right():
    env = gym.recovered(Told(action=spaces.Discrete(2, start=7)), Paying(2))
    state, _ = env.reset(seed=0)
    after, reward, *_ = env.step(8)
    assert reward == 10 * state + 1 + 100 * after


@pytest.mark.parametrize("mode", gymnasium.vector.AutoresetMode)
@pytest.mark.parametrize("name", ["FrozenLake-v1", "CartPole-v1"])
def test_a_vector_environment_pays_as_its_parts_would(mode, name):
    n_actions = gymnasium.make(name).action_space.n
    solution, options = Paying(n_actions), {"autoreset_mode": mode}
    make = gymnasium.make_vec
    # Some episodes of CartPole are cut so early, and where they are cut something was reached.
    limit = {"max_episode_steps": 15, "vectorization_mode": "sync", "vector_kwargs": options}
    whole = gym.recovered(make(name, 3, **limit), solution)
    parts = make(name, 3, wrappers=[lambda env: gym.recovered(env, solution)], **limit)
    np.testing.assert_array_equal(whole.reset(seed=3)[0], parts.reset(seed=3)[0])
    rng, ends = np.random.default_rng(0), 0
    for _ in range(200):
        actions = rng.integers(n_actions, size=3)
        one, other = whole.step(actions), parts.step(actions)
        for mine, theirs in zip(one[:4], other[:4], strict=True):
            np.testing.assert_array_equal(mine, theirs)
        over = one[2] | one[3]
        ends += over.sum()
        if mode is gymnasium.vector.AutoresetMode.DISABLED and over.any():
            # Each its own options: an environment takes the mask out of them.
            for env in whole, parts:
                env.reset(options={"reset_mask": over.copy()})
        true = one[4]["true_reward"]
        assert one[4]["_true_reward"].all()
        told = other[4].get("_true_reward", np.zeros(3, bool))
        np.testing.assert_array_equal(true[told], other[4].get("true_reward", true)[told])
    assert ends > 5


def test_a_vector_environment_with_a_loop_of_its_own_pays_too():
    env = gym.recovered(gymnasium.make_vec("CartPole-v1", 4), Paying(2))
    before, _ = env.reset(seed=0)
    over = np.zeros(4, bool)
    for _ in range(100):
        actions = env.action_space.sample()
        after, rewards, terminated, truncated, infos = env.step(actions)
        reached = np.where(terminated, 0, after[:, 0])
        due = 10.0 * before[:, 0] + actions + 100.0 * reached
        np.testing.assert_array_equal(rewards, np.where(over, 0, due))
        np.testing.assert_array_equal(infos["true_reward"], np.where(over, 0, 1))
        before, over = after, terminated | truncated


# -- errors ----------------------------------------------------------------------------------------

LAKE = "FrozenLake-v1"
THE_SAME = Told()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: gym.record("Nowhere-v1", "random", 1, seed=0),
            "`env` must be an environment that Gymnasium can make here; 'Nowhere-v1': ",
        ),
        (lambda: gym.record("no_such:Thing-v1", "random", 1, seed=0), "No module named 'no_such'"),
        (
            lambda: gym.record(5, "random", 1, seed=0),
            "must be an environment of Gymnasium, the id of one, or a function that makes one; "
            "got 5.",
        ),
        (lambda: gym.record(lambda: 5, "random", 1, seed=0), "makes one; the function returned 5."),
        (
            lambda: gym.record(lambda: THE_SAME, "random", 2, seed=0),
            "must make another environment whenever it is called; it returned the same one again.",
        ),
        (
            lambda: gym.record(LAKE, "random", 0, seed=0),
            "`episodes` must be an integer of at least",
        ),
        (
            lambda: gym.record(LAKE, "random", 1, seed=-1),
            "`seed` must be an integer from 0; got -1",
        ),
        (
            lambda: gym.record(LAKE, "random", 1, seed=0, max_steps=0),
            "`max_steps` must be an integer of at least 1; got 0.",
        ),
        (
            lambda: gym.record(LAKE, "random", 1, seed=0, explore=1.5),
            "`explore` must be a probability, from 0 to 1; got 1.5.",
        ),
        (
            lambda: gym.record(LAKE, "random", 2, seed=0, units=[*"abc"]),
            "`units` must have one entry for each episode, of which there are 2; it has shape (3,)",
        ),
        (
            lambda: gym.record(LAKE, "greedy", 1, seed=0),
            "`policy` must be a Solution, a function from a batch of states to their actions, or "
            "'random'; got 'greedy'.",
        ),
        (
            lambda: gym.record(LAKE, lambda states: states * 0.5, 2, seed=0),
            "`policy` must choose one action, an integer from 0 to 3, for each of the 2 states of "
            "a batch; it returned float64 of shape (2,).",
        ),
        (
            lambda: gym.record(LAKE, lambda states: states[:1], 2, seed=0),
            "it returned int64 of shape (1,).",
        ),
        (
            lambda: gym.record(LAKE, lambda states: states + 4, 2, seed=0),
            "it returned int64 of shape (2,), from 4 to 4.",
        ),
        (
            lambda: gym.record(LAKE, lambda states: np.ones((2, 4)) / 3, 2, seed=0, sample=True),
            "`policy` must give probabilities that sum to 1, of shape (states, actions) = (2, 4), "
            "to draw from; it returned [0.333",
        ),
        (
            lambda: gym.record(
                LAKE, lambda states: np.array([[0, 0, 0, 1], [2, -1, 0, 0]]), 2, seed=0, sample=True
            ),
            "it returned [2.0, -1.0, 0.0, 0.0] for row 1.",
        ),
        (
            lambda: gym.record(LAKE, lambda states: np.ones((2, 3)), 2, seed=0, sample=True),
            "it returned shape (2, 3).",
        ),
        (
            lambda: gym.record(Told(action=spaces.Box(-1, 1, (2,))), "random", 1, seed=0),
            "The actions must be discrete, `gymnasium.spaces.Discrete`; the action space is "
            "Box(-1.0, 1.0, (2,), float32).",
        ),
        (
            lambda: gym.record(Told(spaces.Sequence(spaces.Discrete(2))), "random", 1, seed=0),
            "The observations must have one size; the observation space is Sequence(",
        ),
        (
            lambda: gym.record(Told(pay=np.nan), "random", 1, seed=0),
            "must pay finite rewards; step 0 of episode 0 paid nan.",
        ),
        (
            lambda: gym.evaluate("random", LAKE, 1, seed=0, task=iq.Task(3, 0.9)),
            "`Task.n_actions` must be that of the environment, 4; it is 3.",
        ),
        (
            lambda: gym.evaluate("random", LAKE, 1, seed=0, task=iq.Task(4, 0.9, n_states=9)),
            "`Task.n_states` must be that of the environment, 16; it is 9.",
        ),
        (lambda: gym.evaluate("random", LAKE, 1, seed=0, task=0.9), "`task` must be a `Task`; got"),
        (
            lambda: gym.recovered(LAKE, Paying(4)),
            "`env` must be an environment of Gymnasium, to be",
        ),
        (
            lambda: gym.recovered(gymnasium.make(LAKE), Paying(3)),
            "`solution` must be a Solution with the environment's 4 actions; got Paying(3), "
            "which has 3.",
        ),
        (lambda: gym.recovered(gymnasium.make_vec(LAKE), 5), "got 5, which has None."),
        (lambda: gym.task_of(LAKE, 1.5), "`Task.discount` must lie in [0, 1]; got 1.5."),
    ],
)
def test_errors_say_what_must_hold(call, message):
    with pytest.raises(InvalidInput, match=re.escape(message)):
        call()


def test_an_episode_that_does_not_end_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(gym, "LONGEST", 1000)
    stay = lambda states: 0 * states  # noqa: E731
    message = r"episode 0 did not in 1,000 steps\. Give `max_steps`, after which it is cut\."
    with pytest.raises(InvalidInput, match=message):
        gym.record(Told(length=-1), stay, 1, seed=0)
    assert len(gym.record(Told(length=-1), stay, 1, seed=0, max_steps=1500)) == 1500
    assert len(gym.record(Told(length=1000), stay, 1, seed=0)) == 1000


def test_without_gymnasium_the_message_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gymnasium", None)
    message = re.escape("Install it with `pip install 'inverseq[gym]'`")
    for call in (need_gymnasium, lambda: gym.record(LAKE, "random", 1, seed=0)):
        with pytest.raises(MissingExtra, match=message):
            call()
