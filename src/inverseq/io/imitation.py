"""Trajectories of the `imitation` library: data sets of Hugging Face on the disk, and `.npz`.

Read with PyArrow and NumPy alone. What `imitation` keeps as pickles, the infos, is not looked at.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from inverseq.demonstrations import Demonstrations
from inverseq.errors import DamagedFile, InvalidInput
from inverseq.io.storage import damaged

NEEDED = ("obs", "acts", "terminal")


def is_imitation(path: Path) -> bool:
    """Whether there is a saved data set of Hugging Face, or a `.npz`."""
    return (path / "dataset_info.json").is_file() or (path.suffix == ".npz" and path.is_file())


def read_imitation(path: str | PathLike[str]) -> Demonstrations:
    """The demonstrations in trajectories of the `imitation` library, whose actions are discrete.

    An episode that is not `terminal` was cut. Rewards are kept where there are any.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = f"{folder}/walks.npz"
    ...     np.savez(file, obs=[0, 1, 2, 5, 6], acts=[1, 1, 0], indices=[2], terminal=[True, False])
    ...     read_imitation(file)
    Demonstrations(3 steps in 2 episodes, 3 states, 2 actions, 1 end)
    """
    given = Path(path)
    try:
        observed, acts, terminal, rewards = (npz if given.suffix == ".npz" else folder)(given)
        for i, (states, actions) in enumerate(zip(observed, acts, strict=True)):
            if len(states) != len(actions) + 1 or not len(actions):
                raise InvalidInput(
                    f"A trajectory must have actions, and one observation more; trajectory {i} of "
                    f"{given} has {len(states)} observations and {len(actions)} actions."
                )
    except (InvalidInput, DamagedFile):
        raise
    except Exception as error:  # damage shows itself in any way it likes
        raise damaged(given, f"it holds no trajectories of `imitation` ({error})") from error
    check_actions(acts, given)
    return Demonstrations.from_episodes(
        [(table_or_rows(states), squeezed(a)) for states, a in zip(observed, acts, strict=True)],
        terminated=np.asarray(terminal, bool),
        rewards=rewards,
    )


Found = tuple[Sequence[Any], Sequence[Any], Any, Sequence[Any] | None]


def npz(path: Path) -> Found:
    """The older form: arrays of all trajectories, and where each but the first begins."""
    with np.load(path, allow_pickle=False) as data:
        names = [name for name in (*NEEDED, "indices") if name not in data.files]
        if names:
            raise InvalidInput(
                f"{path} must hold trajectories of `imitation`: arrays obs, acts, indices and "
                f"terminal; it lacks {' and '.join(names)}."
            )
        arrays = {}
        for name in (*NEEDED, "indices", "rews"):
            if name not in data.files:
                continue
            try:
                arrays[name] = data[name]
            except ValueError as error:
                raise InvalidInput(
                    f"{path} must hold numbers in `{name}`; it holds pickled objects, and reading "
                    f"those could run any code. Load it with `imitation` where you trust it, and "
                    f"save it as arrays of numbers."
                ) from error
    begins = arrays["indices"]
    # Each trajectory has one observation more than actions.
    observed = np.split(arrays["obs"], begins + np.arange(len(begins)) + 1)
    rewards = np.split(arrays["rews"], begins) if "rews" in arrays else None
    return observed, np.split(arrays["acts"], begins), arrays["terminal"], rewards


def folder(path: Path) -> Found:
    """The newer form: Arrow files with a trajectory in each row."""
    import pyarrow as pa

    state, files = path / "state.json", sorted(path.glob("*.arrow"))
    if state.is_file():
        named = json.loads(state.read_text())["_data_files"]
        # Only files of the folder, whatever else is named.
        files = [path / Path(each["filename"]).name for each in named]
    if not files:
        raise InvalidInput(f"{path} must be a saved data set; it holds no Arrow files.")
    tables = []
    for file in files:
        with pa.memory_map(str(file)) as source:
            tables.append(pa.ipc.open_stream(source).read_all())
    table = pa.concat_tables(tables)
    lacking = [name for name in NEEDED if name not in table.column_names]
    if lacking:
        raise InvalidInput(
            f"{path} must hold trajectories of `imitation`: columns obs, acts and terminal; it "
            f"lacks {' and '.join(lacking)}. It has {', '.join(table.column_names)}."
        )
    rewards = lists(table["rews"]) if "rews" in table.column_names else None
    return lists(table["obs"]), lists(table["acts"]), table["terminal"].to_numpy(), rewards


def lists(column: Any) -> list[np.ndarray]:
    """The arrays in a column of lists, however deep they are."""
    return [np.array(row.as_py()) for row in column]


def check_actions(acts: Sequence[np.ndarray], path: Path) -> None:
    """Raise unless actions are discrete."""
    for i, actions in enumerate(acts):
        array = squeezed(actions)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise InvalidInput(
                f"Actions must be discrete, one integer for each step; in trajectory {i} of {path} "
                f"they are {array.dtype} of shape {array.shape}. Number them."
            )


def squeezed(actions: Any) -> np.ndarray:
    """Actions without axes of size 1."""
    array = np.asarray(actions)
    return array.reshape(len(array)) if array.size == len(array) else array


def table_or_rows(states: Any) -> np.ndarray:
    """Observations as states: integers of one axis are those of a table; one float is a row."""
    array = np.asarray(states)
    return array if array.ndim > 1 or array.dtype.kind in "iu" else array.reshape(-1, 1)
