"""Minari: data sets of logs from environments of Gymnasium, to demonstrations and back.

Files on this machine only: nothing is downloaded, and reading runs no code from them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from inverseq._checks import as_whole, check_kind, check_range
from inverseq.demonstrations import Demonstrations
from inverseq.errors import DamagedFile, InvalidInput, MissingExtra
from inverseq.io.spaces import Spaces, make, need_gymnasium
from inverseq.io.storage import beside, damaged, sync

OWN = "inverseq"
"""Under this name lies what Minari has no place for: labels of episodes and units, as JSON."""
WEIGHTS = "inverseq_weights"
"""Under this name lie the weights of steps, among Minari's infos."""


def read_minari(dataset: str | os.PathLike[str]) -> Demonstrations:
    """The demonstrations in a data set of Minari, whose actions must be discrete.

    Observations become states as `inverseq.io.spaces` says. An episode that was only truncated did
    not end. Rewards are kept; where they are all NaN, there are none.

    >>> import tempfile
    >>> seen = Demonstrations([0, 1, 0], [1, 1, 0], [1, 2, 0], rewards=[0, 1, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_minari(seen, f"{folder}/walks-v0")
    ...     read_minari(f"{folder}/walks-v0")
    Demonstrations(3 steps in 2 episodes, 2 states, 2 actions, 0 ends, rewarded)

    Args:
        dataset: A path, given as such or as text that is absolute or begins with a dot; other text
            is the id of a data set among those of Minari (``MINARI_DATASETS_PATH``).
    """
    need_minari()
    folder = folder_of(dataset)
    data = folder if (folder / "metadata.json").exists() else folder / "data"
    if not data.is_dir():
        raise InvalidInput(
            f"A data set of Minari is a folder with `data` in it; there is none at {folder}. "
            f"Nothing is downloaded: do that by `minari download {dataset}`."
        )
    try:
        return demonstrations_of(data)
    except (InvalidInput, DamagedFile, MissingExtra):
        raise
    except Exception as error:  # damage shows itself in any way it likes
        raise damaged(data, f"Minari cannot read it ({error})") from error


def write_minari(
    demonstrations: Demonstrations,
    dataset: str | os.PathLike[str],
    *,
    n_states: int | None = None,
    n_actions: int | None = None,
    env: str | None = None,
) -> None:
    """Write demonstrations as a data set of Minari, whole or not at all; none is replaced.

    Minari keeps one more observation than actions. So each step of an episode must begin in the
    state to which the last one led. Where there are no rewards, NaN stands for them.

    Args:
        demonstrations: What was seen.
        dataset: Where to: a path or an id, as in `read_minari`; it ends in a version, as
            ``walks-v0`` does.
        n_states: How many states the table has; if not given, as many as the environment has, or
            the largest number that occurs plus 1.
        n_actions: How many actions there are; if not given, found in the same way.
        env: The id of the environment they come from, by which others can make it again.
    """
    need_minari()
    from minari import __version__ as version
    from minari.dataset.minari_storage import MinariStorage

    check_kind(demonstrations, Demonstrations, "demonstrations")
    check_chains(demonstrations)
    folder = folder_of(dataset)
    name = checked_name(dataset, folder)
    spec = None
    if env is not None:
        made = make(env)
        made.close()
        known, spec = Spaces.check(made.observation_space, made.action_space), made.spec
        n_states = known.n_states if n_states is None else n_states
        n_actions = known.n_actions if n_actions is None else n_actions
    states, actions = spaces_for(demonstrations, n_states, n_actions)
    partial = beside(folder)
    try:
        partial.mkdir(parents=True)
        storage = MinariStorage.new(
            partial / "data", observation_space=states, action_space=actions, env_spec=spec
        )
        storage.update_metadata({"dataset_id": name, "minari_version": version})
        storage.update_episodes(buffers(demonstrations))
        labels = own_labels(demonstrations)
        if labels:
            storage.update_episode_metadata(labels)
        for file in filter(Path.is_file, partial.rglob("*")):
            with file.open("rb+") as written:
                os.fsync(written.fileno())
        os.replace(partial, folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    sync(folder.parent)


# -- names -----------------------------------------------------------------------------------------


def folder_of(dataset: str | os.PathLike[str]) -> Path:
    """The folder of a data set: a path, or an id among those of Minari."""
    from minari.storage.datasets_root_dir import get_dataset_path

    if not isinstance(dataset, str | os.PathLike) or not os.fspath(dataset):
        raise InvalidInput(f"`dataset` must be a path, or the id of a data set; got {dataset!r}.")
    if is_path(dataset):
        return Path(dataset).resolve()
    return Path(get_dataset_path(os.fspath(dataset)))


def is_path(dataset: str | os.PathLike[str]) -> bool:
    """Whether it is a path rather than an id."""
    text = os.fspath(dataset)
    return not isinstance(dataset, str) or text.startswith(".") or Path(text).is_absolute()


def checked_name(dataset: str | os.PathLike[str], folder: Path) -> str:
    """The id of a new data set, if it is one that Minari understands and that is free."""
    from minari.dataset.minari_dataset import parse_dataset_id

    name = folder.name if is_path(dataset) else os.fspath(dataset)
    try:
        parse_dataset_id(name)
    except (ValueError, TypeError):  # the latter where there is no version
        raise InvalidInput(
            f"`dataset` must be named in letters, digits, `-` and `_`, and end in a version, as "
            f"walks-v0 does; got {name!r}."
        ) from None
    if folder.exists():
        raise InvalidInput(
            f"`dataset` must be a new one, and {folder} exists. Choose another name or version, or "
            f"delete what is there."
        )
    return name


# -- writing ---------------------------------------------------------------------------------------


def check_chains(d: Demonstrations) -> None:
    """Raise where an episode is no chain, of which Minari keeps one state between two actions."""
    episodes = d.in_order("Minari")
    goes_on = episodes[1:] == episodes[:-1]
    moved = d.states[1:] != d.next_states[:-1]
    torn = np.flatnonzero(goes_on & moved.any(axis=tuple(range(1, moved.ndim)))) + 1
    if torn.size:
        raise InvalidInput(
            f"`demonstrations` must be chains to be kept by Minari, each step beginning where the "
            f"last one led; row {torn[0]} of episode {episodes[torn[0]].item()!r} does not. "
            f"Give each chain its own label, or use `Demonstrations.save`."
        )


def spaces_for(d: Demonstrations, n_states: int | None, n_actions: int | None) -> tuple[Any, Any]:
    """The spaces that demonstrations lie in."""
    spaces = need_gymnasium().spaces
    for name, value in ("n_states", n_states), ("n_actions", n_actions):
        if value is not None and as_whole(value) < 1:
            raise InvalidInput(f"`{name}` must be a positive integer; got {value!r}.")
    if n_actions is None:
        n_actions = int(d.actions.max()) + 1
    check_range(d.actions, as_whole(n_actions), "Demonstrations.actions", "n_actions")
    actions = spaces.Discrete(as_whole(n_actions))
    if not d.tabular:
        return spaces.Box(-np.inf, np.inf, d.states.shape[1:], d.states.dtype), actions
    if n_states is None:
        n_states = int(max(d.states.max(), d.next_states.max())) + 1
    check_range(d.states, as_whole(n_states), "Demonstrations.states", "n_states")
    check_range(d.next_states, as_whole(n_states), "Demonstrations.next_states", "n_states")
    return spaces.Discrete(as_whole(n_states)), actions


def buffers(d: Demonstrations) -> Iterator[Any]:
    """Episode by episode, as Minari takes them."""
    from minari.data_collector import EpisodeBuffer

    rewards = np.full(len(d), np.nan) if d.rewards is None else d.rewards
    for first, after in pairwise([*d.starts.tolist(), len(d)]):
        rows, last = slice(first, after), slice(after - 1, after)
        cut = np.zeros(after - first, bool)
        cut[-1] = not d.terminated[after - 1]
        infos = None
        if d.weights is not None:
            infos = {WEIGHTS: np.append(d.weights[rows], 0.0)}  # they go with observations
        yield EpisodeBuffer(
            observations=np.concatenate([d.states[rows], d.next_states[last]]),
            actions=d.actions[rows],
            rewards=rewards[rows],
            terminations=d.terminated[rows],
            truncations=cut,
            infos=infos,
        )


def own_labels(d: Demonstrations) -> list[dict[str, str]]:
    """The labels of each episode and its unit, if they are more than its number."""
    starts = d.starts
    labels = {"episode": d.in_order("Minari")[starts].tolist()}
    if labels["episode"] == list(range(len(starts))):
        del labels["episode"]
    if d.units is not None:
        labels["unit"] = d.units[starts].tolist()
    each = zip(*labels.values(), strict=True)
    return [{OWN: json.dumps(dict(zip(labels, values, strict=True)))} for values in each]


# -- reading ---------------------------------------------------------------------------------------


def demonstrations_of(data: Path) -> Demonstrations:
    """What lies in the folder of data."""
    from minari.dataset.minari_storage import MinariStorage

    about = MinariStorage.read_raw_metadata(data)
    for name in "observation_space", "action_space":
        if not about.get(name):
            # Minari would make the environment to ask it, by whatever code the file names.
            raise InvalidInput(
                f"A data set of Minari must state its spaces; {data} lacks its `{name}`. Write it "
                f"anew with a version of Minari that states them."
            )
    storage = MinariStorage.read(data)
    spaces = Spaces.check(storage.observation_space, storage.action_space)
    numbers = range(storage.total_episodes)
    walks, rewards, weights, ends = [], [], [], []
    for i, episode in zip(numbers, storage.get_episodes(numbers), strict=True):
        actions = np.asarray(episode["actions"], np.int64) - spaces.first_action
        walks.append((spaces.batch(episode["observations"]), actions))
        rewards.append(np.asarray(episode["rewards"], float))
        weights.append((episode["infos"] or {}).get(WEIGHTS))
        ended = np.asarray(episode["terminations"], bool)
        if ended[:-1].any():
            raise InvalidInput(
                f"An episode must end with the step that terminates it; episode {i} of {data} goes "
                f"on after step {ended.argmax()}."
            )
        ends.append(ended.any())
    paid = not all(np.isnan(each).all() for each in rewards)
    seen = Demonstrations.from_episodes(
        walks, terminated=np.array(ends), rewards=rewards if paid else None
    )
    more: dict[str, Any] = {}
    weighed = [each[:-1] for each in weights if each is not None]
    if len(weighed) == len(walks):
        more["weights"] = np.concatenate(weighed)
    labels = [json.loads(each.get(OWN, "{}")) for each in storage.get_episode_metadata(numbers)]
    for column, key in ("episodes", "episode"), ("units", "unit"):
        if all(key in own for own in labels):
            more[column] = np.array([own[key] for own in labels])[seen.episodes]
    return replace(seen, **more)


def need_minari() -> None:
    """Raise, with the command that installs it, unless Minari and what it reads with are there."""
    try:
        import h5py  # noqa: F401
        import minari  # noqa: F401
        import PIL  # noqa: F401
    except ImportError:
        raise MissingExtra(
            "Data sets of Minari need it. Install it with `pip install 'inverseq[minari]'`."
        ) from None
