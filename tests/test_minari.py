"""Minari: what is written is what is read, to the bit; what is read runs nothing."""

import json
import os
import pickle
import re
import sys
from contextlib import suppress
from dataclasses import replace

import gymnasium
import h5py
import minari
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from minari.data_collector import EpisodeBuffer

from inverseq.demonstrations import Demonstrations
from inverseq.errors import DamagedFile, InvalidInput, MissingExtra
from inverseq.io.minari import read_minari, write_minari
from inverseq.worlds import gym

COLUMNS = ("states", "actions", "next_states", "terminated", "episodes", "units", "weights")
COLUMNS += ("rewards",)


def identical(one, other):
    for name in COLUMNS:
        x, y = getattr(one, name), getattr(other, name)
        assert (x is None) == (y is None), name
        if x is not None:
            assert (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes()), name


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Minari's own folder of data sets, for this test."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "store"))
    return tmp_path / "store"


@st.composite
def chains(draw):
    """Demonstrations whose episodes are chains, with or without each of the options."""
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    n = sum(lengths)
    if draw(st.booleans()):
        shape, elements, kind = (), st.integers(0, 6), np.int64
    else:
        kind = draw(st.sampled_from([np.float32, np.float64]))
        shape = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=2)))
        elements = st.floats(allow_nan=False, allow_infinity=False, width=32)
    walks = [
        (
            draw(arrays.arrays(kind, (length + 1, *shape), elements=elements)),
            draw(arrays.arrays(np.int64, length, elements=st.integers(0, 3))),
        )
        for length in lengths
    ]
    ends = np.array(draw(st.lists(st.booleans(), min_size=len(walks), max_size=len(walks))))
    seen = Demonstrations.from_episodes(walks, terminated=ends)
    text = st.text("ab é🐀'/\0", max_size=4).filter(lambda label: not label.endswith("\0"))
    labels = st.one_of(
        st.lists(st.integers(-5, 2**62), min_size=len(walks), max_size=len(walks), unique=True),
        st.lists(text, min_size=len(walks), max_size=len(walks), unique=True),
    )  # fmt: skip
    more = {}
    if draw(st.booleans()):
        more["episodes"] = np.array(draw(labels))[seen.episodes]
    if draw(st.booleans()):
        more["units"] = np.array(draw(labels))[seen.episodes]
    if draw(st.booleans()):
        more["weights"] = draw(arrays.arrays(float, n, elements=st.floats(0.1, 10)))
    if draw(st.booleans()):
        more["rewards"] = draw(arrays.arrays(float, n, elements=st.floats(-1e300, 1e300)))
    return replace(seen, **more)


@settings(max_examples=40)
@given(seen=chains())
def test_what_is_written_is_read_to_the_bit(tmp_path_factory, seen):
    folder = tmp_path_factory.mktemp("round") / "trip-v0"
    write_minari(seen, folder)
    identical(read_minari(folder), seen)
    assert os.listdir(folder.parent) == [folder.name]


@pytest.mark.parametrize("name", ["CartPole-v1", "FrozenLake-v1", "Taxi-v4"])
def test_a_recording_goes_to_minari_and_comes_back(name, store):
    seen = gym.record(name, "random", 6, seed=0, units=[*"aabbcc"])
    write_minari(seen, "lab/walks-v3", env=name)
    identical(read_minari("lab/walks-v3"), seen)
    identical(read_minari(store / "lab" / "walks-v3"), seen)
    theirs = minari.load_dataset("lab/walks-v3")
    env = theirs.recover_environment()
    assert env.spec.id == name
    assert theirs.action_space == env.action_space
    assert theirs.total_steps == len(seen)
    assert list(minari.list_local_datasets()) == ["lab/walks-v3"]
    assert not [*store.rglob("*.partial")]


def test_others_read_the_episodes_as_they_were(store):
    seen = Demonstrations.from_episodes(
        [([3, 1, 0], [1, 0]), ([0, 2], [1])], terminated=[True, False], rewards=[[1, 2], [3]]
    )
    write_minari(seen, "walks-v0", n_states=9, n_actions=4)
    first, second = minari.load_dataset("walks-v0").iterate_episodes()
    assert first.observations.tolist() == [3, 1, 0]
    assert first.actions.tolist() == [1, 0]
    assert first.rewards.tolist() == [1, 2]
    assert first.terminations.tolist() == [False, True]
    assert first.truncations.tolist() == [False, False]
    assert second.terminations.tolist() == [False]
    assert second.truncations.tolist() == [True]
    theirs = minari.load_dataset("walks-v0")
    assert theirs.observation_space == spaces.Discrete(9)
    assert theirs.action_space == spaces.Discrete(4)


def test_without_rewards_there_is_nothing_that_could_be_taken_for_one(store):
    seen = Demonstrations([0, 1], [0, 0], [1, 2])
    write_minari(seen, "walks-v0")
    assert np.isnan(next(minari.load_dataset("walks-v0").iterate_episodes()).rewards).all()
    assert read_minari("walks-v0").rewards is None


def theirs(name, observation, action, episodes, data_format="hdf5"):
    """A data set as somebody else makes one."""
    with pytest.warns(UserWarning, match="is set to None|env_spec is None"):
        minari.create_dataset_from_buffers(
            name, [EpisodeBuffer(**episode) for episode in episodes],
            observation_space=observation, action_space=action, data_format=data_format,
        )  # fmt: skip


def episode(observations, actions, rewards=None, ended=False):
    n = len(actions)
    return {
        "observations": observations,
        "actions": np.array(actions),
        "rewards": np.arange(1.0, n + 1) if rewards is None else rewards,
        "terminations": np.append(np.zeros(n - 1, bool), ended),
        "truncations": np.append(np.zeros(n - 1, bool), not ended),
    }


@pytest.mark.parametrize("data_format", ["hdf5", "arrow", "parquet"])
def test_dictionaries_are_flattened_and_numbers_begin_at_0(store, data_format):
    space = spaces.Dict(place=spaces.Discrete(3, start=1), fuel=spaces.Box(0, 1, (2,)))
    fuel = np.array([[0.5, 1], [0.25, 0], [1, 1]], np.float32)
    first = episode({"place": np.array([1, 3, 2]), "fuel": fuel}, [8, 7], ended=True)
    second = episode({"place": np.array([2, 2]), "fuel": fuel[:2]}, [7])
    theirs("walks-v0", space, spaces.Discrete(2, start=7), [first, second], data_format)
    seen = read_minari("walks-v0")
    assert seen.actions.tolist() == [1, 0, 0]
    assert seen.episodes.tolist() == [0, 0, 1]
    assert seen.terminated.tolist() == [False, True, False]
    assert seen.rewards.tolist() == [1, 2, 1]
    rows = [
        np.append(own, spaces.flatten(space["place"], np.int64(place)))
        for place, own in zip([1, 3, 2], fuel, strict=True)
    ]
    np.testing.assert_array_equal(seen.states[:2], rows[:2])
    np.testing.assert_array_equal(seen.next_states[:2], rows[1:])


@pytest.mark.parametrize("data_format", ["hdf5", "arrow", "parquet"])
def test_every_format_of_minari_is_read(store, data_format):
    x = np.array([[0.1], [0.2], [0.3]], np.float32)
    theirs("rows-v0", spaces.Box(0, 1, (1,)), spaces.Discrete(2), [episode(x, [1, 0])], data_format)
    seen = read_minari("rows-v0")
    assert seen.states.tobytes() == x[:2].tobytes()
    assert seen.next_states.tobytes() == x[1:].tobytes()
    numbers = episode(np.array([4, 0, 2]), [1, 1])
    theirs("table-v0", spaces.Discrete(5), spaces.Discrete(2), [numbers], data_format)
    assert read_minari("table-v0").states.tolist() == [4, 0]


def test_an_episode_that_is_added_later_takes_labels_with_it_or_none(store):
    labels = {"units": ["a", "a"], "weights": [1, 2], "rewards": [0, 1]}
    seen = Demonstrations([0, 1], [0, 0], [1, 2], **labels)
    write_minari(seen, "walks-v0")
    added = EpisodeBuffer(**episode(np.array([0, 1]), [0]))
    minari.load_dataset("walks-v0").update_dataset_from_buffer([added])
    again = read_minari("walks-v0")
    assert len(again) == 3
    assert again.units is None
    assert again.weights is None
    assert again.rewards.tolist() == [0, 1, 1]


# -- what must not happen --------------------------------------------------------------------------


def test_a_data_set_that_would_have_code_run_is_refused(store, tmp_path):
    write_minari(Demonstrations([0, 1], [0, 0], [1, 2]), "walks-v0")
    about = store / "walks-v0" / "data" / "metadata.json"
    known = json.loads(about.read_text())
    made = tmp_path / "made by the file"
    spec = EnvSpec("Bomb-v0", entry_point="os:mkdir", kwargs={"path": str(made)})
    with suppress(Exception):
        gymnasium.make(spec)
    made.rmdir()  # it does go off
    del known["observation_space"]
    about.write_text(json.dumps(known | {"env_spec": spec.to_json()}))
    with pytest.raises(
        InvalidInput, match=r"must state its spaces; .* lacks its `observation_spac"
    ):
        read_minari("walks-v0")
    assert not made.exists()


class Bomb:
    """What a pickle may do to its reader."""

    def __reduce__(self):
        return os.mkdir, (os.environ["BOMB"],)


def test_a_pickle_in_the_place_of_data_is_not_opened(store, tmp_path, monkeypatch):
    monkeypatch.setenv("BOMB", str(tmp_path / "exploded"))
    write_minari(Demonstrations([0, 1], [0, 0], [1, 2]), "walks-v0")
    data = store / "walks-v0" / "data"
    bomb = pickle.dumps(Bomb())
    with h5py.File(data / "main_data.hdf5", "a") as file:
        group = file["episode_0"]
        del group["observations"]
        group["observations"] = np.frombuffer(bomb, np.uint8)
        group.attrs["inverseq"] = np.void(bomb)
    with pytest.raises(InvalidInput, match="one more state than actions"):
        read_minari("walks-v0")
    (data / "main_data.hdf5").write_bytes(bomb)
    with pytest.raises(DamagedFile, match="Minari cannot read it"):
        read_minari("walks-v0")
    (data / "metadata.json").write_bytes(bomb)
    with pytest.raises(DamagedFile, match="Minari cannot read it"):
        read_minari("walks-v0")
    assert not (tmp_path / "exploded").exists()


def test_a_crash_while_writing_leaves_nothing(tmp_path, monkeypatch):
    def crash(*_):
        raise OSError("the disk is gone")

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(OSError, match="the disk is gone"):
        write_minari(Demonstrations([0, 1], [0, 0], [1, 2]), tmp_path / "walks-v0")
    assert os.listdir(tmp_path) == []


# -- errors ----------------------------------------------------------------------------------------

SEEN = Demonstrations([0, 1], [0, 2], [1, 2])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: read_minari("nowhere-v0"), "is a folder with `data` in it; there is none at"),
        (lambda: read_minari("nowhere-v0"), "do that by `minari download nowhere-v0`."),
        (lambda: read_minari(5), "`dataset` must be a path, or the id of a data set; got 5."),
        (lambda: read_minari(""), "`dataset` must be a path, or the id of a data set; got ''."),
        (
            lambda: write_minari(SEEN, "walks"),
            "must be named in letters, digits, `-` and `_`, and end in a version, as walks-v0 "
            "does; got 'walks'.",
        ),
        (lambda: write_minari(SEEN, "a/../../walks-v0"), "got 'a/../../walks-v0'."),
        (lambda: write_minari(5, "walks-v0"), "`demonstrations` must be a `Demonstrations`; got 5"),
        (
            lambda: write_minari(SEEN, "walks-v0", n_actions=2),
            "`Demonstrations.actions` must lie from 0 to 1 (`n_actions` is 2); row 1 is 2.",
        ),
        (
            lambda: write_minari(SEEN, "walks-v0", n_states=2),
            "`Demonstrations.next_states` must lie from 0 to 1 (`n_states` is 2); row 1 is 2.",
        ),
        (
            lambda: write_minari(SEEN, "walks-v0", n_states=2.5),
            "`n_states` must be a positive integer; got 2.5.",
        ),
        (
            lambda: write_minari(SEEN, "walks-v0", env="CartPole-v1"),
            "`Demonstrations.actions` must lie from 0 to 1 (`n_actions` is 2); row 1 is 2.",
        ),
        (
            lambda: write_minari(SEEN, "walks-v0", env="Nowhere-v1"),
            "`env` must be an environment that Gymnasium can make here; 'Nowhere-v1'",
        ),
        (
            lambda: write_minari(
                Demonstrations([0, 1, 5], [0, 0, 0], [1, 2, 6], episodes=[*"bbb"]), "walks-v0"
            ),
            "each step beginning where the last one led; row 2 of episode 'b' does not.",
        ),
    ],
)
def test_errors_say_what_must_hold(call, message, store):
    with pytest.raises(InvalidInput, match=re.escape(message)):
        call()
    assert not store.exists() or os.listdir(store) == []


def test_nothing_is_replaced(store):
    write_minari(SEEN, "walks-v0")
    with pytest.raises(InvalidInput, match=r"`dataset` must be a new one, and .*walks-v0 exists"):
        write_minari(SEEN, "walks-v0")
    identical(read_minari("walks-v0"), SEEN)


def test_continuous_actions_are_refused(store):
    x = np.zeros((2, 1), np.float32)
    one = {**episode(x, [0]), "actions": np.zeros((1, 1), np.float32)}
    theirs("arms-v0", spaces.Box(0, 1, (1,)), spaces.Box(-1, 1, (1,)), [one])
    with pytest.raises(InvalidInput, match=r"actions must be discrete, .* is Box\(-1\.0, 1\.0"):
        read_minari("arms-v0")


def test_an_episode_that_goes_on_after_its_end_is_refused(store):
    one = {**episode(np.arange(3), [0, 0]), "terminations": np.array([True, False])}
    theirs("walks-v0", spaces.Discrete(3), spaces.Discrete(1), [one])
    with pytest.raises(InvalidInput, match=r"terminates it; episode 0 of .* goes on after step 0"):
        read_minari("walks-v0")


def test_without_minari_the_message_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "h5py", None)
    message = re.escape("Install it with `pip install 'inverseq[minari]'`")
    for call in (lambda: read_minari("x-v0"), lambda: write_minari(SEEN, tmp_path / "x-v0")):
        with pytest.raises(MissingExtra, match=message):
            call()
