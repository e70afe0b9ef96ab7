"""Histories and back-off: what is remembered, what leans on what, and that nothing looks ahead."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inverseq as iq
from inverseq import evaluate
from inverseq.errors import InvalidInput
from inverseq.history import BackOff, Histories, held_out

law = settings(deadline=None, max_examples=50)
N_STATES, N_ACTIONS = 4, 3


@st.composite
def walks(draw, most=5, n_states=N_STATES):
    """Demonstrations in episodes that go on where they led, some of which end."""
    episodes, ends = [], []
    for _ in range(draw(st.integers(1, most))):
        n = draw(st.integers(1, 8))
        states = draw(st.lists(st.integers(0, n_states - 1), min_size=n + 1, max_size=n + 1))
        actions = draw(st.lists(st.integers(0, N_ACTIONS - 1), min_size=n, max_size=n))
        episodes.append((states, actions))
        ends.append(draw(st.booleans()))
    return iq.Demonstrations.from_episodes(episodes, terminated=ends)


def remembered(seen, length):
    """The history of each step, by looking back one step after the other."""
    found = []
    for row in range(len(seen)):
        history, at = [int(seen.states[row])], row
        for _ in range(length):
            at -= 1
            if at < 0 or seen.episodes[at] != seen.episodes[row]:
                history.insert(0, -1)
                break
            history.insert(0, int(seen.states[at]))
        found.append(tuple(history))
    return found


def by_hand(train, length, strength, k, available):
    """The backed-off policy as a function of a history, from dictionaries."""
    counts = Counter()
    for history, action in zip(remembered(train, length), train.actions, strict=True):
        for begin in range(len(history)):
            counts[history[begin:], int(action)] += 1

    def policy(history):
        can = available[history[-1]]
        own = np.array([counts[history, a] for a in range(N_ACTIONS)], float) * can
        if len(history) == 1:
            weights = (own if own.any() else np.ones(N_ACTIONS)) + k
            return weights * can / (weights * can).sum()
        shorter = policy(history[1:])
        return (own + strength * shorter) / (own.sum() + strength) if own.any() else shorter

    return policy


def visits_of(histories, seen, n_actions=N_ACTIONS):
    return histories.encode(seen).counts(len(histories), n_actions).visits


EVERY = np.ones((N_STATES, N_ACTIONS), bool)
LINE = iq.Demonstrations([0, 1], [0, 1], [1, 2])

# -- what is remembered -------------------------------------------------------------------------


@law
@given(walks())
def test_without_history_everything_is_as_it_was(seen):
    augmented, histories = seen.with_history(0, N_STATES)
    assert len(histories) == N_STATES
    assert np.array_equal(augmented.states, seen.states)
    follows = ~seen.terminated
    assert np.array_equal(augmented.next_states[follows], seen.next_states[follows])
    visits = seen.counts(N_STATES, N_ACTIONS).visits
    policy = BackOff(histories, strength=7.0, k=0.5).policy(visits, EVERY)
    assert np.array_equal(policy, iq.Additive(0.5).policy(visits, EVERY))


@law
@given(walks(), st.integers(0, 4))
def test_each_step_has_the_states_before_it_and_the_beginning_of_its_episode(seen, length):
    augmented, histories = seen.with_history(length)
    said = [histories.decode(number) for number in augmented.states]
    assert said == remembered(seen, length)
    assert [histories.find(history) for history in said] == augmented.states.tolist()
    assert np.array_equal(histories.states[augmented.states], seen.states)


@law
@given(walks(), st.integers(1, 3))
def test_what_follows_is_the_history_of_the_next_step(seen, length):
    augmented, _ = seen.with_history(length)
    goes_on = seen.episodes[1:] == seen.episodes[:-1]
    assert np.array_equal(augmented.next_states[:-1][goes_on], augmented.states[1:][goes_on])
    for name in ("actions", "terminated", "episodes"):
        assert np.array_equal(getattr(augmented, name), getattr(seen, name))


@law
@given(walks(), walks(), st.integers(0, 3))
def test_episodes_never_mix(one, other, length):
    together = iq.Demonstrations.concatenate([one, other])
    histories = Histories.of(together, length, N_STATES)
    apart = [histories.encode(part).states for part in (one, other)]
    assert np.array_equal(histories.encode(together).states, np.concatenate(apart))
    turned = iq.Demonstrations.concatenate([other, one])
    assert np.array_equal(Histories.of(turned, length, N_STATES).keys, histories.keys)


@law
@given(walks(), walks(), st.integers(1, 3))
def test_an_unseen_history_is_known_by_its_longest_end_that_was_seen(train, test, length):
    histories = Histories.of(train, length, N_STATES)
    known = {histories.decode(number) for number in range(len(histories))}
    for number, own in zip(histories.encode(test).states, remembered(test, length), strict=True):
        said = histories.decode(number)
        assert own[-len(said) :] == said
        assert len(said) == len(own) or own[-len(said) - 1 :] not in known


# -- what leans on what -------------------------------------------------------------------------


@law
@given(walks(), walks(), st.integers(0, 3), st.sampled_from([0.0, 0.3, 4.0]))
def test_back_off_is_the_formula_also_for_histories_that_were_not_seen(
    train, test, length, strength
):
    available = EVERY.copy()
    available[0, :2] = False
    train, test = (
        iq.Demonstrations(
            d.states, np.where(d.states == 0, 2, d.actions), d.next_states,
            terminated=d.terminated, episodes=d.episodes,
        )
        for d in (train, test)
    )  # fmt: skip
    histories = Histories.of(train, length, N_STATES)
    smoothing = BackOff(histories, strength, k=0.5)
    policy = smoothing.policy(visits_of(histories, train), available[histories.states])
    expected = by_hand(train, length, strength, 0.5, available)
    for number, own in zip(histories.encode(test).states, remembered(test, length), strict=True):
        assert policy[number] == pytest.approx(expected(own), abs=1e-12)
    assert (policy[~available[histories.states]] == 0).all()
    assert policy.sum(axis=1) == pytest.approx(1.0)


@law
@given(walks(), st.integers(1, 3))
def test_a_weak_hold_gives_the_counts_of_what_was_seen(seen, length):
    augmented, histories = seen.with_history(length, N_STATES)
    visits = visits_of(histories, seen)
    policy = BackOff(histories, strength=0.0).policy(visits, EVERY[histories.states])
    own = visits[augmented.states]
    assert policy[augmented.states] == pytest.approx(own / own.sum(axis=1, keepdims=True))
    nearly = BackOff(histories, strength=1e-12).policy(visits, EVERY[histories.states])
    assert nearly == pytest.approx(policy, abs=1e-9)


@law
@given(walks(), st.integers(1, 3))
def test_a_strong_hold_gives_the_policy_of_the_shorter_history(seen, length):
    histories = Histories.of(seen, length, N_STATES)
    policy = BackOff(histories, strength=1e13).policy(
        visits_of(histories, seen), EVERY[histories.states]
    )
    assert policy == pytest.approx(policy[histories.shorter], abs=1e-9)
    alone = iq.Additive(1.0).policy(seen.counts(N_STATES, N_ACTIONS).visits, EVERY)
    assert policy == pytest.approx(alone[histories.states], abs=1e-9)


@law
@given(walks(), walks(), st.integers(0, 3))
def test_iavi_on_histories_has_the_policy_of_its_count_table(train, test, length):
    task = iq.Task(N_ACTIONS, 0.9, n_states=N_STATES)
    augmented, histories = train.with_history(length, N_STATES)
    over, smoothing = histories.task(task), BackOff(histories, 2.0)
    found = iq.IAVI(smoothing=smoothing).fit(augmented, over)
    table = smoothing.policy(visits_of(histories, train), over.available_table())
    assert found.policy_table == pytest.approx(table, abs=1e-9)
    scored = histories.encode(test)
    each = evaluate.log_probabilities(table, scored)
    assert found.score(scored) == pytest.approx(each.mean(), abs=1e-9)


def test_a_hundred_visits_outweigh_four():
    seen = iq.Demonstrations.from_episodes([([0] * 101, [1] * 100)])
    augmented, histories = seen.with_history(1)
    policy = BackOff(histories, strength=4.0, k=1.0).policy(
        augmented.counts(len(histories), 2).visits, np.ones((len(histories), 2), bool)
    )
    alone = 101 / 102
    assert policy[histories.find((0, 0)), 1] == pytest.approx((99 + 4 * alone) / 103)
    assert policy[histories.find((-1, 0)), 1] == pytest.approx((1 + 4 * alone) / 5)


# -- nothing looks ahead ------------------------------------------------------------------------


@law
@given(walks(most=3), walks(most=2), walks(most=2), st.integers(0, 3), st.randoms())
def test_the_score_of_a_step_does_not_know_what_follows(train, test, other, length, random):
    histories = Histories.of(train, length, N_STATES)
    policy = BackOff(histories, 2.0).policy(visits_of(histories, train), EVERY[histories.states])
    t = random.randrange(len(test))

    def scores(seen):
        return evaluate.log_probabilities(policy, histories.encode(seen))

    rows = np.arange(len(test))
    order = np.array([*rows[: t + 1], *random.sample(rows[t + 1 :].tolist(), len(rows) - t - 1)])
    permuted = iq.Demonstrations(
        test.states[order], test.actions[order], test.next_states[order],
        episodes=np.where(rows <= t, test.episodes, test.episodes.max() + 1),
    )  # fmt: skip
    # Another future of the same episode, and other ones after it.
    label, later = test.episodes[t], 100 + np.arange(len(other))
    changed = iq.Demonstrations(
        [*test.states[: t + 1], *other.states], [*test.actions[: t + 1], *other.actions],
        [*test.next_states[: t + 1], *other.next_states],
        episodes=[*test.episodes[: t + 1], *np.where(other.episodes == 0, label, later)],
    )  # fmt: skip
    before = scores(test)[: t + 1].tobytes()
    assert scores(permuted)[: t + 1].tobytes() == before
    assert scores(changed)[: t + 1].tobytes() == before


# -- the task over histories --------------------------------------------------------------------


def small_task(**given):
    rng = np.random.default_rng(0)
    transitions = rng.dirichlet(np.ones(N_STATES), (N_STATES, N_ACTIONS))
    return iq.Task(N_ACTIONS, 0.9, transitions=transitions, **given)


@law
@given(walks(), st.integers(0, 3))
def test_the_world_does_not_remember(seen, length):
    task = small_task()
    histories = Histories.of(seen, length, N_STATES)
    model = histories.task(task).transitions.dense()
    now = histories.states
    for h in range(len(histories)):
        for following in range(N_STATES):
            there = now == following
            assert model[h][:, there].sum(axis=1) == pytest.approx(
                task.transitions.dense()[now[h], :, following]
            )
        for after in np.flatnonzero(model[h].any(axis=0)):
            whole = (*histories.decode(h), int(now[after]))
            said = histories.decode(after)
            assert whole[-len(said) :] == said


def test_a_task_over_histories_keeps_what_is_assumed():
    seen = iq.Demonstrations.from_episodes([([0, 1, 2, 3], [0, 1, 2])], terminated=True)
    available = EVERY.copy()
    available[1, 0] = False
    cost = np.arange(12.0).reshape(4, 3)
    rules = [
        iq.Constraint(cost, 4.0, "a table"),
        iq.Constraint(lambda states: cost[states], 4.0, "a function"),
    ]
    task = small_task(
        available=available, terminal=[3], initial=0, temperature=2.0, constraints=rules
    )
    _, histories = seen.with_history(1, N_STATES)
    over = histories.task(task)
    now = histories.states
    assert np.array_equal(over.available, task.available[now])
    assert np.array_equal(over.terminal, task.terminal[now])
    assert over.temperature == 2.0
    assert over.discount == 0.9
    assert over.initial[histories.find((-1, 0))] == 1.0
    numbers = np.arange(len(histories))
    for rule, own in zip(over.constraints, task.constraints, strict=True):
        assert np.array_equal(rule.allows(numbers), own.allows(now))
    assert histories.task(iq.Task(N_ACTIONS, 0.9)).transitions is None


def test_a_rule_binds_every_history_of_a_state():
    walk = [0, 1, 0, 2] * 30 + [0]
    seen = iq.Demonstrations.from_episodes([(walk, [0, 2, 1, 2] * 30)])
    cost = np.zeros((3, 3))
    cost[0, 1] = 1.0
    task = iq.Task(3, 0.9, n_states=3, constraints=[iq.Constraint(cost, 0.5, "not to the right")])
    augmented, histories = seen.with_history(2)
    found = iq.IAVI(smoothing=BackOff(histories)).fit(augmented, histories.task(task))
    assert (found.policy_table[histories.states == 0, 1] == 0).all()


# -- what is chosen -----------------------------------------------------------------------------


def alternating(n, seed, noise=0.1):
    """An arm of a T-maze, then the other, as a rule."""
    rng = np.random.default_rng(seed)
    episodes = []
    for _ in range(n):
        arm, states, actions = int(rng.integers(2)), [0], []
        for _ in range(20):
            arm = arm if rng.random() < noise else 1 - arm
            states += [1 + arm, 0]
            actions += [arm, 2]
        episodes.append((states, actions))
    return iq.Demonstrations.from_episodes(episodes)


def test_the_history_that_matters_is_chosen_on_what_was_held_out():
    seen, task = alternating(40, seed=0), iq.Task(3, 0.9, n_states=3)
    grids = {"lengths": (0, 1, 2), "strengths": (1.0, 64.0)}
    score = held_out(seen, task, **grids)
    # At the middle one of two arms is foretold at 9 in 10, at the arms nothing is chosen.
    by_noise = 0.5 * (0.9 * np.log(0.9) + 0.1 * np.log(0.1))
    assert score[1:].max() == pytest.approx(by_noise, abs=0.05)
    assert score[0].max() < -0.33
    chosen = BackOff.chosen(seen, task, **grids)
    i, j = np.unravel_index(score.argmax(), score.shape)
    assert chosen.histories.length == grids["lengths"][i] >= 1
    assert chosen.strength == grids["strengths"][j]
    assert np.array_equal(chosen.histories.keys, Histories.of(seen, grids["lengths"][i], 3).keys)


def test_units_are_held_out_whole():
    seen = alternating(6, seed=1)
    units = np.repeat([0, 0, 1, 1, 2, 2], 40)
    by_unit = iq.Demonstrations(
        seen.states, seen.actions, seen.next_states, episodes=seen.episodes, units=units
    )
    task = iq.Task(3, 0.9, n_states=3)
    grids = {"lengths": (1,), "strengths": (4.0,)}
    expected = 0.0
    for unit in range(3):
        train, test = by_unit.select(units != unit), by_unit.select(units == unit)
        histories = Histories.of(train, 1, 3)
        policy = BackOff(histories, 4.0).policy(
            visits_of(histories, train), np.ones((len(histories), 3), bool)
        )
        expected += evaluate.log_probabilities(policy, histories.encode(test)).sum()
    found = held_out(by_unit, task, **grids, folds=3)
    assert found == pytest.approx(np.array([[expected / len(seen)]]))


# -- logs ---------------------------------------------------------------------------------------

PLACES, MOVES = "stuv", "xyz"
COLUMNS = {"state": "place", "action": "move", "episode": "bout", "terminated": "over"}


def log_of(seen):
    """A row for each step, under labels, with where it led."""
    return {
        "place": [PLACES[s] for s in seen.states],
        "move": [MOVES[a] for a in seen.actions],
        "then": [PLACES[s] for s in seen.next_states],
        "bout": seen.episodes.tolist(),
        "over": seen.terminated.tolist(),
    }


def read_log(log, **given):
    return iq.Demonstrations.from_table(log, **COLUMNS, next_state="then", **given)


def same_steps(one, other):
    names = ("states", "actions", "next_states", "terminated", "episodes")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


@law
@given(walks())
def test_a_log_with_no_history_is_the_log(seen):
    plain, read = read_log(log_of(seen)), read_log(log_of(seen), history=0)
    assert same_steps(plain, read)
    assert read.labels == plain.labels == read.labels.alone
    assert plain.histories is None
    assert len(read.histories) == len(plain.labels.states)
    assert isinstance(plain.smoothing, iq.Additive)


@law
@given(walks(), st.integers(0, 3))
def test_a_log_with_history_is_the_log_and_then_its_history(seen, length):
    log = log_of(seen)
    plain, read = read_log(log, available="seen"), read_log(log, available="seen", history=length)
    augmented, histories = plain.with_history(length)
    assert same_steps(read, augmented)
    assert read.labels == augmented.labels
    assert np.array_equal(read.histories.keys, histories.keys)
    assert np.array_equal(read.counts().visits, augmented.counts().visits)
    assert np.array_equal(read.available, plain.available[histories.states])
    task = read.task(0.9)
    assert task.n_states == len(histories)
    assert np.array_equal(task.available, histories.task(plain.task(0.9)).available)


@law
@given(walks(), st.integers(1, 3))
def test_labels_say_the_states_that_were_there(seen, length):
    read = read_log(log_of(seen), history=length)
    own = [
        tuple(None if s < 0 else PLACES[s] for s in history) for history in remembered(seen, length)
    ]
    assert [read.labels.states[number] for number in read.states] == own
    assert np.array_equal(read.labels.state_numbers(own), read.states)


@law
@given(walks(), walks(), st.integers(0, 3))
def test_held_out_logs_have_the_numbers_of_the_histories_that_were_learned(train, test, length):
    every = iq.Labels(PLACES, MOVES)
    learned = read_log(log_of(train), labels=every, history=length)
    held = read_log(log_of(test), labels=learned.labels)
    plain = read_log(log_of(test), labels=every)
    assert same_steps(held, learned.histories.encode(plain))
    assert held.labels == learned.labels
    assert same_steps(read_log(log_of(train), labels=learned.labels), learned)
    smoothing = learned.smoothing
    found = iq.IAVI(smoothing=smoothing).fit(learned, learned.task(0.9))
    table = smoothing.policy(learned.counts().visits, learned.task(0.9).available_table())
    each = evaluate.log_probabilities(table, held)
    assert found.score(held) == pytest.approx(each.mean(), abs=1e-9)


@law
@given(walks(), st.integers(0, 3), st.sampled_from([1.0, 16.0]))
def test_files_keep_histories(tmp_path_factory, seen, length, strength):
    folder = tmp_path_factory.mktemp("kept")
    plain = read_log(log_of(seen), history=None)
    histories = replace(Histories.of(plain, length, plain.task(0.9).n_states), strength=strength)
    read = histories.encode(plain)
    read.save(folder / "seen.parquet")
    iq.IAVI(smoothing=read.smoothing).fit(read, read.task(0.9)).save(folder / "found")
    for kept in (iq.read(folder / "seen.parquet").labels, iq.load(folder / "found").labels):
        assert kept == read.labels
        assert np.array_equal(kept.histories.keys, histories.keys)
        assert (kept.histories.length, kept.histories.strength) == (length, strength)
    part = read.select(read.actions == read.actions[0])
    assert part.histories is read.histories
    assert part.smoothing.strength == strength


def test_nothing_is_remembered_over_a_hole():
    log = {"place": ["s", "t", None, "u", "v"], "move": ["x"] * 5, "bout": [1] * 5}
    read = iq.Demonstrations.from_table(
        log, state="place", action="move", episode="bout", on_bad="drop", history=3
    )
    said = [read.labels.states[number] for number in read.states]
    assert said == [(None, "s"), ("u",)]
    # The step from "t" led to the row that was dropped, and is none.
    assert read.reading.steps == 2


def test_solutions_speak_of_histories():
    seen = alternating(20, seed=0)
    read = read_log(log_of(seen), history=2)
    found = iq.IAVI(smoothing=read.smoothing).fit(read, read.task(0.9))
    asked = [("s", "t", "s"), ("s", "u", "s")]
    assert found.predict(asked).tolist() == ["y", "x"]
    # What was never shown falls back to its longest end, and a place alone is one from who knows.
    assert found.predict([("v", "s", "t", "s")[1:], ("u", "u", "s")]).tolist() == ["y", "x"]
    assert found.predict(["t"]).tolist() == found.predict([("t",)]).tolist() == ["z"]
    rows = found.to_table().to_pylist()
    row = next(r for r in rows if (r["state"], r["before_1"], r["before_2"]) == ("s", "t", "s"))
    assert not row["begins"]
    begins = {(r["state"], r["before_1"], r["before_2"]) for r in rows if r["begins"]}
    assert begins == {("s", None, None), ("t", "s", None), ("u", "s", None)}
    assert (
        found.labels.state_words(int(found.labels.state_numbers([(None, "s")])[0])) == "start → s"
    )


def test_labels_of_several_columns_have_history():
    log = {"x": [0, 1, 0, 1], "side": list("lrlr"), "move": [0, 1, 0, 1], "bout": [1, 1, 1, 1]}
    read = iq.Demonstrations.from_table(
        log, state=["x", "side"], action="move", episode="bout", history=1
    )
    left, right = (0, "l"), (1, "r")
    assert read.labels.states[2:] == ((None, left), (right, left), (left, right))
    found = iq.IAVI(smoothing=read.smoothing).fit(read, read.task(0.9))
    assert found.predict([((1, "r"), (0, "l"))]).tolist() == [0]
    names = found.to_table().column_names
    assert names[:5] == ["state_1", "state_2", "before_1_1", "before_1_2", "begins"]


def test_length_and_strength_of_a_log_are_chosen_on_what_was_held_out():
    seen = alternating(40, seed=0)
    read = read_log(log_of(seen), history="auto")
    plain = read_log(log_of(seen))
    chosen = BackOff.chosen(plain, plain.task(0.9))
    assert read.histories.length == chosen.histories.length >= 2
    assert read.smoothing.strength == chosen.strength
    assert f"strength {chosen.strength:g}; both chosen" in read.reading.notes[-1]
    # The best of all lengths and strengths, by the measure that chose.
    score = held_out(plain, plain.task(0.9))
    best = held_out(
        plain, plain.task(0.9), lengths=[read.histories.length], strengths=[chosen.strength]
    )
    assert best[0, 0] == pytest.approx(score.max(), abs=1e-12)


def test_logs_of_others_have_history_under_their_numbers(tmp_path):
    seen = alternating(4, seed=0)
    seen.save(tmp_path / "seen.parquet")
    read = iq.read(tmp_path / "seen.parquet", history=1)
    assert same_steps(read, seen.with_history(1)[0])
    assert read.labels.states[read.states[0]] == (None, 0)
    assert same_steps(iq.read(tmp_path / "seen.parquet", labels=read.labels), read)
    other = iq.Labels("abc", "xyz").with_history(read.histories)
    read.save(tmp_path / "more.parquet")
    with pytest.raises(InvalidInput, match=r"without history; these are Histories\(8 of up to 1"):
        iq.read(tmp_path / "more.parquet", history=2)
    read_log(log_of(seen)).save(tmp_path / "named.parquet")
    with pytest.raises(
        InvalidInput, match=r"`labels` must be those of the log; they are Labels\(3"
    ):
        iq.read(tmp_path / "named.parquet", labels=other)


@pytest.mark.parametrize("history", [-1, 1.5, "long", True])
def test_a_history_is_a_whole_number_or_chosen(history):
    message = f"`history` must be how many .* or 'auto'; got {re.escape(repr(history))}"
    with pytest.raises(InvalidInput, match=message):
        read_log(log_of(LINE), history=history)


def test_histories_that_cannot_be_read(tmp_path):
    log = log_of(LINE)
    read = read_log(log, history=1)
    with pytest.raises(InvalidInput, match=r"`history` must be that of `labels`, 1, .* got 2"):
        read_log(log, history=2, labels=read.labels)
    with pytest.raises(InvalidInput, match="at least two episodes"):
        read_log(log, history="auto")
    with pytest.raises(InvalidInput, match="counts have no order"):
        iq.read(tmp_path / "log.csv", state="s", action="a", counts=True, history=1)
    with pytest.raises(InvalidInput, match=r"integers; these have shape \(1,\)"):
        iq.Demonstrations.from_table(
            {"s": [0.5, 1.5], "a": [0, 1]}, state="s", action="a", history=1
        )
    with pytest.raises(InvalidInput, match="already"):
        read.with_history(2)
    with pytest.raises(InvalidInput, match=r"row 1 is \('x', 's'\), with 'x'"):
        read.labels.state_numbers([("s",), ("x", "s")])
    with pytest.raises(InvalidInput, match="end with the present state; row 0 is \\(None,\\)"):
        read.labels.state_numbers([(None,)])
    with pytest.raises(
        InvalidInput, match=r"each of the 3 states of the histories; got .*2 states"
    ):
        iq.Labels("ab", "x").with_history(read.histories)


# -- what is refused ----------------------------------------------------------------------------


def test_numbers_of_states_are_needed():
    rows = iq.Demonstrations([[0.5]], [0], [[1.5]])
    with pytest.raises(InvalidInput, match=r"integers; these have shape \(1,\)"):
        rows.with_history(1)


@pytest.mark.parametrize("length", [-1, 1.5, "two"])
def test_a_length_is_a_whole_number(length):
    with pytest.raises(InvalidInput, match=f"`length` .* got {re.escape(repr(length))}"):
        LINE.with_history(length)


def test_there_are_enough_states():
    with pytest.raises(InvalidInput, match="got 2, and they show state 2"):
        LINE.with_history(1, 2)
    _, histories = LINE.with_history(1)
    with pytest.raises(InvalidInput, match="row 1 is 7"):
        histories.encode(iq.Demonstrations([0, 7], [0, 0], [1, 0]))
    with pytest.raises(InvalidInput, match="made of, 3; it has 4"):
        histories.task(small_task())


@pytest.mark.parametrize("field", ["strength", "k"])
@pytest.mark.parametrize("value", [-1.0, np.inf, np.nan])
def test_a_strength_is_a_number_from_0(field, value):
    _, histories = LINE.with_history(1)
    with pytest.raises(InvalidInput, match=f"`BackOff.{field}` must be finite .* got {value}"):
        BackOff(histories, **{field: value})


def test_counts_are_those_of_the_histories():
    _, histories = LINE.with_history(1)
    with pytest.raises(InvalidInput, match=r"its 6 histories; there are 3 rows"):
        BackOff(histories).policy(np.ones((3, 2)), np.ones((3, 2), bool))


def test_parts_to_hold_out_are_there():
    with pytest.raises(InvalidInput, match=r"from 2 to .* 1; got 5"):
        held_out(LINE, iq.Task(2, 0.9))
    with pytest.raises(InvalidInput, match="must each hold something"):
        held_out(alternating(5, 0), iq.Task(3, 0.9), lengths=())


def test_other_smoothings_are_refused_by_name():
    with pytest.raises(InvalidInput, match=r"must be a `Additive` or `BackOff`; got 0.5"):
        iq.IAVI(smoothing=0.5)
