"""Documents and runs: what goes in comes out, and what was damaged is noticed."""

import json
import math
import os
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inverseq.errors import DamagedFile, InvalidInput
from inverseq.io import storage
from inverseq.report import (
    Cell,
    Chart,
    Column,
    Document,
    Maps,
    Panel,
    Run,
    Section,
    Series,
    Settings,
    Table,
    Text,
    from_plain,
    load_run,
    save_run,
    to_plain,
)

REGION = np.array([True, False, False, True, False, False])
PANEL = Panel(
    "value",
    np.array([0.1, np.nan, np.inf, -np.inf, 1e-300, 3]),
    True,
    REGION,
    "note",
    np.array([-1, 0, 1, 2, 3, 4]),
    (-2, 2),
)
EVERYTHING = Document(
    "Everything",
    "One of each.",
    [
        Text("One.\n\nTwo.", warning=True),
        Table(
            ["method", Column("EVD", numeric=True)],
            [["IAVI", Cell("0.1", best=True, to="Maps")], [None, 3], [0.1, 1]],
            "A table.",
            ["A note."],
        ),
        Chart(
            [
                Series("IQL", [1, 2], [0.1, None], [0.0, None], [0.2, 0.3]),
                Series("paper", [1, 2], [1, 1], style="dashed"),
            ],
            "x",
            "y",
            True,
            True,
            "A chart.",
        ),
        Section("Maps", [Section("Inner", [Maps([PANEL], (2, 3), "A map.")])]),
        Settings({"block": "Text", "gauge": {"is": "Zero"}, "out": None, "at": [1, math.inf]}),
    ],
)

numbers = st.floats() | st.integers(-(10**6), 10**6)
cells = numbers.filter(math.isfinite) | st.text(max_size=5) | st.none()
cells |= st.builds(Cell, st.text(max_size=5), st.booleans(), st.text(max_size=5))
texts = st.builds(Text, st.text(max_size=20), st.booleans())
tables = st.integers(1, 3).flatmap(
    lambda n: st.builds(
        Table,
        st.lists(
            st.text(max_size=4) | st.builds(Column, st.text(max_size=4)), min_size=n, max_size=n
        ),
        st.lists(st.lists(cells, min_size=n, max_size=n), max_size=3),
        st.text(max_size=5),
        st.lists(st.text(max_size=5), max_size=2),
    )
)
series = st.lists(st.tuples(*[numbers | st.none()] * 4), max_size=4).map(
    lambda rows: (
        Series("s", *(list(column) for column in zip(*rows, strict=True)))
        if rows
        else Series("s", [], [])
    )
)
charts = st.builds(
    Chart, st.lists(series, max_size=3), st.text(max_size=3), st.text(max_size=3), st.booleans()
)
maps = st.lists(numbers, min_size=6, max_size=6).map(lambda v: Maps([Panel("m", v)], (3, 2)))
leaves = texts | tables | charts | maps
blocks = st.recursive(
    leaves, lambda inner: st.builds(Section, st.text(max_size=5), st.lists(inner, max_size=3))
)
documents = st.builds(
    Document, st.text(max_size=9), st.text(max_size=9), st.lists(blocks, max_size=4)
)


@pytest.fixture
def saved(tmp_path):
    folder = tmp_path / "run"
    save_run(folder, Run("demo", EVERYTHING, [{"evd": 0.1}, {"evd": None}], {"size": 8}, seed=3))
    return folder


def names(folder):
    return sorted(os.listdir(folder))


# -- documents -----------------------------------------------------------------------------------


@given(documents)
def test_a_document_comes_back_from_json_as_it_went_in(document):
    text = json.dumps(to_plain(document), allow_nan=False)
    assert json.dumps(to_plain(from_plain(json.loads(text)))) == text


def test_every_block_comes_back_with_its_arrays():
    text = json.dumps(to_plain(EVERYTHING), allow_nan=False)
    back = from_plain(json.loads(text))
    assert to_plain(back) == to_plain(EVERYTHING)
    panel = back.blocks[3].blocks[0].blocks[0].panels[0]
    for name in ("values", "region", "arrows"):
        np.testing.assert_array_equal(getattr(panel, name), getattr(PANEL, name))
    assert (panel.limits, panel.note, panel.signed) == ((-2.0, 2.0), "note", True)
    assert back.blocks[4].mapping["block"] == "Text"
    assert back.blocks[:2] == EVERYTHING.blocks[:2]


def test_what_a_panel_was_given_is_unchanged_and_what_it_holds_cannot_change():
    given = np.arange(6.0)
    panel = Panel("v", given)
    given[0] = 7
    assert panel.values[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        panel.values[0] = 1


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"block": "Movie"}, "must be one of Document, .*; got 'Movie'. .* update inverseq"),
        ({"title": "no block"}, "got None"),
        ([1], r"got \[1\]"),
        ({"block": "Text"}, "A Text of a document must have the fields of this version"),
        ({"block": "Text", "text": "", "colour": "red"}, "lacks or adds something .*colour"),
        ({"block": "Section", "title": "", "blocks": [{"block": "Song"}]}, "got 'Song'"),
        ({"block": "Series", "name": "", "x": [1], "y": []}, "one number for each of 1 in `x`"),
        ({"block": "Panel", "title": "", "values": ["much"]}, "A Panel of a document"),
        ({"block": "Maps", "panels": [], "shape": 3}, "A Maps of a document"),
    ],
)
def test_what_is_no_block_is_damage(plain, message):
    with pytest.raises(DamagedFile, match=message):
        from_plain(plain)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Table(["a", "b"], [[1, 2], [3]]), r"each of 2 columns; row 1 has 1\."),
        (lambda: Series("s", [1, 2], [1]), r"`Series\.y` .* 2 in `x`; series 's' has 1\."),
        (lambda: Series("s", [1], [1], low=[0]), "both borders; series 's' has one"),
        (lambda: Series("s", [1], [1], style="wavy"), r"`Series\.style` .* got 'wavy'"),
        (lambda: Maps([Panel("v", np.zeros(5))], (2, 3)), r"each of 6 cells; 'v' has shape \(5,\)"),
        (lambda: Panel("v", np.zeros(2), arrows=np.array([0, 5])), r"from -1 to 4; 'v' has 0 to 5"),
    ],
)
def test_blocks_that_cannot_be_right_are_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


# -- runs ----------------------------------------------------------------------------------------


def test_a_run_comes_back_as_it_was_saved(saved):
    run = load_run(saved)
    assert (run.kind, run.seed, run.settings) == ("demo", 3, {"size": 8})
    assert run.rows == ({"evd": 0.1}, {"evd": None})
    assert to_plain(run.document) == to_plain(EVERYTHING)
    assert {"inverseq", "numpy", "python"} <= run.versions.keys()
    assert names(saved) == ["document.json", "rows.jsonl", "run.json"]
    assert json.loads((saved / "run.json").read_text())["title"] == "Everything"


def test_rows_are_plain_data(tmp_path):
    row = {"evd": np.float64(0.5), "n": np.int64(3), "worst": np.inf, "none": None}
    save_run(tmp_path, Run("demo", Document("", "", []), [row]))
    assert load_run(tmp_path).rows == ({"evd": 0.5, "n": 3, "worst": "inf", "none": None},)


def test_a_run_is_replaced_and_what_else_lies_there_stays(saved):
    (saved / "maps.png").write_bytes(b"picture")
    save_run(saved, Run("other", Document("New", "", [])))
    assert load_run(saved).kind == "other"
    assert (saved / "maps.png").read_bytes() == b"picture"


@pytest.mark.parametrize("file", ["run.json", "rows.jsonl", "document.json"])
def test_a_damaged_run_is_noticed(saved, file):
    data = (saved / file).read_bytes()
    middle = len(data) // 2
    for broken in (data[:-1], data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]):
        (saved / file).write_bytes(broken)
        with pytest.raises(DamagedFile, match=rf"{file} is damaged: .* Take it from a backup"):
            load_run(saved)


@pytest.mark.parametrize("file", ["rows.jsonl", "document.json"])
def test_a_missing_file_of_a_run_is_noticed(saved, file):
    (saved / file).unlink()
    with pytest.raises(DamagedFile, match=rf"{file} is damaged: it is missing"):
        load_run(saved)


def test_runs_of_the_future_are_said(saved):
    record = json.loads((saved / "run.json").read_text())
    (saved / "run.json").write_text(json.dumps(record | {"format": 2}))
    with pytest.raises(
        DamagedFile, match=r"newer version of inverseq \(format 2; this one knows 1\)"
    ):
        load_run(saved)


@pytest.mark.parametrize("text", ["[" * 100_000, "\xff", '{"format": "x", "kind": 1}'])
def test_a_broken_record_is_noticed(saved, text):
    (saved / "run.json").write_text(text, encoding="latin-1")
    with pytest.raises(DamagedFile, match=r"run\.json is damaged: it is not what was written"):
        load_run(saved)


def test_a_record_that_lacks_something_is_damage(saved):
    record = json.loads((saved / "run.json").read_text())
    del record["sha256"], record["settings"]
    record["sha256"] = storage.checksum(record)
    (saved / "run.json").write_text(json.dumps(record))
    with pytest.raises(
        DamagedFile, match=r"run\.json is damaged: it lacks something \('settings'\)"
    ):
        load_run(saved)


def test_where_there_is_no_run_it_is_said(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for place in (tmp_path, tmp_path / "gone", tmp_path / "file"):
        with pytest.raises(InvalidInput, match=r"A run is a folder with run\.json; there is none"):
            load_run(place)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("run.json", '{"speed": 3}', r"holds a run\.json of something else"),
        ("solution.json", "{}", r"must have a folder of its own; .* holds solution\.json"),
    ],
)
def test_a_folder_of_something_else_is_left_alone(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidInput, match=message):
        save_run(tmp_path, Run("demo", EVERYTHING))
    assert (tmp_path / name).read_text() == text
    assert names(tmp_path) == [name]


def test_a_run_is_a_folder(tmp_path):
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(InvalidInput, match=re.escape("file is a file. Choose another name.")):
        save_run(tmp_path / "file", Run("demo", EVERYTHING))


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_crash_leaves_the_old_run_or_is_noticed(saved, monkeypatch, at):
    calls, replace = [], os.replace

    def crash(source, target):
        calls.append(target)
        if len(calls) == at:
            raise OSError("the disk is gone")
        replace(source, target)

    monkeypatch.setattr(storage.os, "replace", crash)
    with pytest.raises(OSError, match="the disk is gone"):
        save_run(saved, Run("other", Document("New", "", []), [{"evd": 2}]))
    assert names(saved) == ["document.json", "rows.jsonl", "run.json"]
    if at == 1:
        assert load_run(saved).kind == "demo"
    else:
        with pytest.raises(DamagedFile, match=r"rows\.jsonl is damaged: its checksum"):
            load_run(saved)


def test_a_full_disk_leaves_the_old_run(saved, monkeypatch):
    synced, fsync = [], os.fsync

    def full(descriptor):
        synced.append(descriptor)
        if len(synced) == 3:
            raise OSError("no space left")
        fsync(descriptor)

    monkeypatch.setattr(storage.os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        save_run(saved, Run("other", Document("New", "", [])))
    assert load_run(saved).kind == "demo"
    assert names(saved) == ["document.json", "rows.jsonl", "run.json"]
