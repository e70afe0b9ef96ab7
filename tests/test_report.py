"""Pictures: what is on them, and what they refuse."""

import re
import sys

import numpy as np
import pytest

from inverseq.errors import InvalidInput, MissingExtra
from inverseq.report import Panel, draw


@pytest.mark.parametrize(
    ("suffix", "begins"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")]
)
def test_the_kind_of_picture_is_that_of_its_name(tmp_path, suffix, begins):
    path = draw([Panel("reward", np.arange(6.0))], (2, 3), tmp_path / f"maps{suffix}")
    assert path.read_bytes().startswith(begins)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_every_panel_carries_its_title_and_note(tmp_path):
    panels = [
        Panel("true reward", np.arange(4.0), signed=True, note="what it was after"),
        Panel("value", np.array([1.0, np.nan, 2.0, 3.0]), region=np.array([1, 0, 0, 1], bool)),
        Panel("flat", np.zeros(4), signed=True),
    ]
    path = draw(panels, (2, 2), tmp_path / "maps.svg", title="An expert", columns=2)
    written = re.sub(r"\s+", " ", path.read_text())
    for text in ("true reward", "what it was after", "value", "flat", "An expert"):
        assert f"<!-- {text} -->" in written


def test_a_policy_is_drawn_over_its_map(tmp_path):
    # The same map with and without: where the arrows are, and only there, it is white.
    from matplotlib.image import imread

    dark = np.zeros(16)
    dark[0] = 1
    arrows = np.full(16, -1)
    arrows[[5, 10]] = [3, 4]
    plain = imread(draw([Panel("p", dark)], (4, 4), tmp_path / "plain.png"))
    pointed = imread(draw([Panel("p", dark, arrows=arrows)], (4, 4), tmp_path / "arrows.png"))
    changed = (plain != pointed).any(axis=2)
    assert 20 < changed.sum() < 0.02 * changed.size
    assert (pointed[changed].max(axis=0)[:3] > 0.99).all()


def test_nothing_known_is_drawn_as_such(tmp_path):
    draw([Panel("reward", np.full(4, np.nan))], (2, 2), tmp_path / "maps.png")


def test_values_of_the_wrong_size_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"one number for each of 6 cells; 'v' has shape \(5,\)"):
        draw([Panel("v", np.zeros(5))], (2, 3), tmp_path / "maps.png")


def test_an_unknown_kind_of_picture_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"must end in one of .*; 'maps.bmp' does not"):
        draw([Panel("v", np.zeros(6))], (2, 3), tmp_path / "maps.bmp")


def test_without_matplotlib_the_error_is_the_command_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=re.escape("pip install 'inverseq[report]'")):
        draw([Panel("v", np.zeros(6))], (2, 3), tmp_path / "maps.png")
    assert list(tmp_path.iterdir()) == []
