"""Files and folders are whole or not there, and what was damaged is noticed."""

import json
import os
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from inverseq.errors import DamagedFile, InvalidInput
from inverseq.io import storage
from inverseq.io.storage import read_folder, write_file, write_files, write_folder

ARRAYS = {"q": np.array([[1.0, -np.inf]]), "safe": np.array([[True, False]])}
SETTINGS = {"discount": 0.9, "gauge": "uniform", "seed": None, "change": [0.5, 0.25]}

words = st.text("ab é🐀'\"\\\0", max_size=5)
documents = st.dictionaries(
    words,
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | words
        | st.floats(allow_nan=False, allow_infinity=False),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)
tables = arrays.arrays(
    st.sampled_from(["f8", "f4", "i8", "i4", "u1", "?"]),
    arrays.array_shapes(min_dims=0, min_side=0),
)


def equal(a, b):
    return a.keys() == b.keys() and all(
        (a[k].dtype, a[k].shape, a[k].tobytes()) == (b[k].dtype, b[k].shape, b[k].tobytes())
        for k in a
    )


def names(folder):
    return sorted(os.listdir(folder))


@pytest.fixture
def saved(tmp_path):
    folder = tmp_path / "found"
    write_folder(folder, "solution", ARRAYS, SETTINGS)
    return folder


class Crash:
    """`os.replace` that fails at its n-th call."""

    def __init__(self, at):
        self.calls, self.at, self.replace = 0, at, os.replace

    def __call__(self, source, target):
        self.calls += 1
        if self.calls == self.at:
            raise OSError("the disk is gone")
        self.replace(source, target)


# -- one file ------------------------------------------------------------------------------------


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "deep" / "down" / "file"
    for data in (b"one", b"", b"three"):
        write_file(path, data)
        assert path.read_bytes() == data
    assert names(path.parent) == ["file"]


def test_a_file_gets_the_usual_permissions(tmp_path):
    (tmp_path / "usual").write_bytes(b"")
    write_file(tmp_path / "ours", b"")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_crash_leaves_the_old_file(tmp_path, monkeypatch, call):
    write_file(tmp_path / "file", b"old")

    def crash(*_):
        raise OSError("the disk is gone")

    monkeypatch.setattr(storage.os, call, crash)
    with pytest.raises(OSError, match="the disk is gone"):
        write_file(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("at", [1, 2])
def test_files_that_belong_together_take_their_places_after_all_are_written(
    tmp_path, monkeypatch, at
):
    write_files(tmp_path, {"rows": b"old", "sums": b"old"})
    monkeypatch.setattr(storage.os, "replace", Crash(at))
    with pytest.raises(OSError, match="the disk is gone"):
        write_files(tmp_path, {"rows": b"new", "sums": b"new"})
    assert names(tmp_path) == ["rows", "sums"]
    # The last of them, which knows the others, is old in either case.
    assert (tmp_path / "rows").read_bytes() == (b"old" if at == 1 else b"new")
    assert (tmp_path / "sums").read_bytes() == b"old"


# -- folders: what goes in comes out -------------------------------------------------------------


@given(found=st.dictionaries(words, tables, max_size=3), options=documents)
@settings(deadline=None)
def test_write_and_read_round_trip(tmp_path_factory, found, options):
    folder = tmp_path_factory.mktemp("round") / "trip"
    write_folder(folder, "solution", found, options)
    arrays, read = read_folder(folder, "solution")
    assert equal(arrays, found)
    assert read == options


@pytest.mark.parametrize(
    "array",
    [np.arange(6.0).reshape(2, 3).T, np.arange(8)[::2], np.arange(3, dtype=">f8")],
    ids=["transposed", "strided", "big endian"],
)
def test_arrays_may_lie_in_memory_as_they_like(tmp_path, array):
    write_folder(tmp_path / "found", "solution", {"x": array}, {})
    np.testing.assert_array_equal(read_folder(tmp_path / "found", "solution")[0]["x"], array)


def test_the_same_content_gives_the_same_bytes(tmp_path):
    for name, found in (("one", ARRAYS), ("two", dict(reversed(ARRAYS.items())))):
        write_folder(tmp_path / name, "solution", found, SETTINGS)
    for file in names(tmp_path / "one"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_inputs_are_unchanged(saved):
    assert SETTINGS == {"discount": 0.9, "gauge": "uniform", "seed": None, "change": [0.5, 0.25]}
    assert ARRAYS["q"].flags.writeable
    assert names(saved) == ["arrays.safetensors", "solution.json"]
    assert names(saved.parent) == ["found"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": np.inf}, "`settings['tolerance']` must be text, a finite number"),
        ({"a": [1, {"b": float("nan")}]}, "`settings['a'][1]['b']` must be text, a finite number"),
        ({"a": {1: 2}}, "`settings['a']` must be"),
        ({"a": np.float32(1)}, "it is np.float32(1.0)."),
        ({"a": {1, 2}}, "it is {1, 2}."),
    ],
)
def test_settings_are_strict_json(tmp_path, options, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        write_folder(tmp_path / "found", "solution", {}, options)
    assert names(tmp_path) == []


def test_arrays_hold_numbers(tmp_path):
    with pytest.raises(TypeError, match=r"`arrays\['x'\]` must hold numbers; its dtype is object"):
        write_folder(tmp_path / "found", "solution", {"x": np.array([None])}, {})


# -- folders: replacing and crashing -------------------------------------------------------------


def test_a_folder_of_the_same_kind_is_replaced(saved):
    write_folder(saved, "solution", {}, {"new": True})
    assert read_folder(saved, "solution") == ({}, {"new": True})
    assert names(saved.parent) == ["found"]
    (saved.parent / "empty").mkdir()
    write_folder(saved.parent / "empty", "solution", {}, {})
    assert names(saved.parent) == ["empty", "found"]


@pytest.mark.parametrize("foreign", ["thesis.tex", "arrays.safetensors"])
def test_a_folder_of_somebody_else_is_refused(tmp_path, foreign):
    (tmp_path / foreign).write_bytes(b"mine")
    message = rf"may replace only a saved solution; .* holds {foreign}\. Choose another folder"
    with pytest.raises(InvalidInput, match=message):
        write_folder(tmp_path, "solution", ARRAYS, SETTINGS)
    assert names(tmp_path) == [foreign]


def test_a_folder_with_anything_added_or_of_another_kind_is_refused(saved):
    with pytest.raises(InvalidInput, match=r"holds solution\.json"):
        write_folder(saved, "policy", ARRAYS, SETTINGS)
    (saved / "notes.txt").write_bytes(b"mine")
    with pytest.raises(InvalidInput, match=r"holds notes\.txt"):
        write_folder(saved, "solution", ARRAYS, SETTINGS)
    with pytest.raises(InvalidInput, match=r"notes\.txt is a file\. Choose another name"):
        write_folder(saved / "notes.txt", "solution", ARRAYS, SETTINGS)


def test_a_report_may_lie_in_a_folder_and_goes_with_it(saved, tmp_path):
    (saved / "report.html").write_bytes(b"of what was saved before")
    read_folder(saved, "solution")
    write_folder(saved, "solution", {}, {})
    assert names(saved) == ["arrays.safetensors", "solution.json"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "report.html").write_bytes(b"of something else")
    with pytest.raises(InvalidInput, match=r"other holds report\.html"):
        write_folder(tmp_path / "other", "solution", {}, {})


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_a_crash_leaves_the_old_folder(saved, monkeypatch, at):
    # The calls: the arrays, the settings, the old folder aside, the new one in its place.
    monkeypatch.setattr(storage.os, "replace", Crash(at))
    with pytest.raises(OSError, match="the disk is gone"):
        write_folder(saved, "solution", {}, {})
    arrays, options = read_folder(saved, "solution")
    assert equal(arrays, ARRAYS)
    assert options == SETTINGS
    assert names(saved.parent) == ["found"]


def test_a_crash_leaves_nothing_where_nothing_was(tmp_path, monkeypatch):
    monkeypatch.setattr(storage.os, "replace", Crash(3))
    with pytest.raises(OSError, match="the disk is gone"):
        write_folder(tmp_path / "found", "solution", {}, {})
    assert names(tmp_path) == []


# -- folders: damage -------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["arrays.safetensors", "solution.json"])
def test_every_damaged_byte_is_noticed_or_harmless(saved, file):
    data = (saved / file).read_bytes()
    for i in range(len(data)):
        (saved / file).write_bytes(data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :])
        try:
            arrays, options = read_folder(saved, "solution")
        except DamagedFile as error:
            assert str(saved) in str(error)  # noqa: PT017
        else:
            assert file == "solution.json"
            assert equal(arrays, ARRAYS)
            assert options == SETTINGS
    (saved / file).write_bytes(data[:-1])
    with pytest.raises(DamagedFile, match=rf"{file} is damaged: .* Take it from a backup, or save"):
        read_folder(saved, "solution")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "null", "[" * 100_000, '{"format": "x"}', '{"format": Infinity}', "\xff"],
)
def test_broken_settings_are_noticed(saved, text):
    (saved / "solution.json").write_text(text, encoding="latin-1")
    with pytest.raises(DamagedFile, match=r"solution\.json is damaged: it is not what was written"):
        read_folder(saved, "solution")


@pytest.mark.parametrize("file", ["arrays.safetensors", "solution.json"])
def test_missing_files_are_noticed(saved, file):
    (saved / file).unlink()
    with pytest.raises(DamagedFile, match=rf"{file} is damaged: it is missing"):
        read_folder(saved, "solution")


@pytest.mark.parametrize("file", ["arrays.safetensors", "solution.json"])
def test_a_folder_in_the_place_of_a_file_is_damage(saved, file):
    (saved / file).unlink()
    (saved / file).mkdir()
    with pytest.raises(DamagedFile, match=rf"{file} is damaged: it is a folder"):
        read_folder(saved, "solution")


def test_files_of_two_folders_do_not_mix(saved):
    write_folder(saved.parent / "other", "solution", {"q": np.zeros((1, 2))}, SETTINGS)
    os.replace(saved.parent / "other" / "arrays.safetensors", saved / "arrays.safetensors")
    with pytest.raises(DamagedFile, match=r"arrays\.safetensors is damaged: its checksum does not"):
        read_folder(saved, "solution")


def test_folders_of_the_future_and_missing_folders(saved):
    document = json.loads((saved / "solution.json").read_text())
    (saved / "solution.json").write_text(json.dumps(document | {"format": 2}))
    message = r"newer version of inverseq \(format 2; this one knows 1\)\. Update inverseq"
    with pytest.raises(DamagedFile, match=message):
        read_folder(saved, "solution")
    (saved / "solution.json").write_text(json.dumps({"format": 2, "parts": ["elsewhere"]}))
    with pytest.raises(DamagedFile, match=message):
        read_folder(saved, "solution")
    with pytest.raises(
        InvalidInput, match=r"A saved solution is a folder; there is none at .*gone"
    ):
        read_folder(saved.parent / "gone", "solution")
