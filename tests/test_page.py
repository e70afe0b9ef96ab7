"""The page of a report: what is on it, what is drawn, and that it stays within its file."""

import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import inverseq as iq
from inverseq.errors import DamagedFile, InvalidInput, MissingExtra
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
    describe,
    render,
    save_run,
    svg,
    write_report,
)
from inverseq.report.page import flat

EVIL = """<script>alert("1")</script> & 'quotes' <b>"""
CELL = re.compile(r"M(\d+) (\d+)h(\d+)v1h-(\d+)z")


def page(*blocks, title="A title", lead="A lead."):
    return render(Document(title, lead, blocks))


class Reader(HTMLParser):
    """The tags of a page that are open and close in order, their attributes, and the text."""

    VOID = frozenset({"meta", "link", "br", "hr", "img"})

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.said, self.open = [], [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.said.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.said).split())


def fills(drawn):
    """The colours of a map and the cells that each covers."""
    found = {}
    for colour, path in re.findall(r'<path fill="(#\w+)" d="([^"]+)"/>', drawn):
        assert CELL.sub("", path) == ""
        cells = {(int(y), int(x) + i) for x, y, w, _ in CELL.findall(path) for i in range(int(w))}
        found[colour] = cells
    return found


# -- text ----------------------------------------------------------------------------------------


def test_whatever_is_said_appears_as_text():
    read = Reader(
        page(
            Text(EVIL, warning=True),
            Table([EVIL, Column(EVIL, True)], [[EVIL, Cell(EVIL, True, EVIL)]], EVIL, [EVIL]),
            Chart([Series(EVIL, [1, 2], [1, 2])], EVIL, EVIL, caption=EVIL),
            Section(EVIL, [Maps([Panel(EVIL, np.arange(4.0), note=EVIL)], (2, 2), EVIL)]),
            Settings({EVIL: EVIL}, EVIL),
            title=EVIL,
            lead=EVIL,
        )
    )
    assert "script" not in read.tags
    assert "b" not in read.tags
    plain = " ".join(EVIL.split())
    assert read.text.count(plain) > 20
    assert ("svg", "aria-label", EVIL) in read.attributes


def test_cells_say_what_they_hold():
    table = Table(
        ["method", Column("EVD", numeric=True)],
        [["IAVI", Cell("0.09 ± 0.00", best=True)], ["none", None], ["n", -1200], ["x", 0.123456]],
    )
    html = page(table)
    assert re.search(r'<td class="number best">\s*0\.09 ± 0\.00\s*</td>', html)
    cells = [text.strip() for text in re.findall(r'<td class="number[^>]*>([^<]*)</td>', html)]
    assert cells == ["0.09 ± 0.00", "–", "−1,200", "0.1235"]


def test_a_table_leads_to_the_section_that_it_names():
    table = Table(["method"], [[Cell("IQL *", to="IQL, twice")], [Cell("gone", to="nowhere")]])
    html = page(table, Section("IQL, twice", [Section("IQL twice", [])]))
    assert '<a href="#iql-twice">IQL *</a>' in html
    assert '<section id="iql-twice">' in html
    assert '<section id="iql-twice-">' in html
    assert "gone</a>" not in html
    assert page(*[Section("Maps", [])] * 2).count('id="maps"') == 1


def test_settings_are_flat_and_nothing_is_said():
    plain = {"a": {"is": "Decay", "to": 1}, "b": [1, 2], "c": None, "d": True, "e": 0, "f": {}}
    assert list(flat(plain)) == [
        *(("a", "Decay"), ("a.to", "1"), ("b", "1, 2"), ("c", "none")),
        *(("d", "yes"), ("e", "0"), ("f", "none")),
    ]


# -- the file ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def everything():
    values = np.arange(12.0)
    values[3] = np.nan
    return page(
        Text("One.\n\nTwo."),
        Section("Charts", [Chart([Series("a", [1, 10], [1, 2], [0, 1], [2, 3])], "x", "y", True)]),
        Section(
            "Maps",
            [
                Maps(
                    [
                        Panel("m", values, region=values > 8),
                        Panel("p", values, True, arrows=np.arange(12) % 6 - 1),
                    ],
                    (3, 4),
                ),
                Maps([Panel("strip", values)], (1, 12)),
            ],
        ),
        Section("Settings", [Settings({"a": 1})]),
    )


def test_nothing_leads_out_of_the_file(everything):
    read = Reader(everything)
    ids = [value for _, name, value in read.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for _, name, value in read.attributes:
        if name in ("href", "src", "xlink:href", "srcset", "action", "data"):
            assert value == "data:," or value.removeprefix("#") in ids
    for target in re.findall(r"url\(([^)]*)\)", everything):
        assert target.removeprefix("#") in ids
    assert not re.search(r"https?:|file:|@import|<script|javascript:", everything)
    assert "default-src 'none'" in everything


def test_the_page_is_complete_and_every_figure_has_a_name(everything):
    read = Reader(everything)
    assert everything.startswith("<!doctype html>")
    assert {"h1", "nav", "figure", "details", "table", "svg"} <= set(read.tags)
    roles = everything.count('role="img"')
    assert roles == everything.count("aria-label=") - 1  # the list of sections has one too
    assert roles == len(re.findall(r'role="img"[^>]*><title>', everything))


def test_the_same_document_gives_the_same_page(everything):
    assert page(Text("a")) == page(Text("a"))


def test_sections_within_sections_have_headings_of_their_own():
    html = page(Section("One", [Section("Two", [Text("deep")])]))
    assert "<h2>One</h2>" in html
    assert "<h3>Two</h3>" in html


# -- maps ----------------------------------------------------------------------------------------


def test_a_map_covers_every_known_cell_once():
    values = np.random.default_rng(0).normal(size=(9, 7))
    values[2, 3:6] = np.nan
    values[4, 4] = np.inf
    drawn = svg.heat_map(Panel("v", values.ravel()), (9, 7))
    covered = [cell for cells in fills(drawn).values() for cell in cells]
    assert len(covered) == len(set(covered)) == np.isfinite(values).sum()
    assert set(covered) == set(map(tuple, np.argwhere(np.isfinite(values)).tolist()))
    hatched = re.search(r'<path fill="url\(#hatch0\)" d="([^"]+)"', drawn)[1]
    assert sum(int(w) for _, _, w, _ in CELL.findall(hatched)) == 4


def test_the_extremes_have_the_colours_of_the_ends():
    drawn = fills(svg.heat_map(Panel("v", np.array([0.0, 0.5, 1.0, np.nan])), (2, 2)))
    assert drawn["#440154"] == {(0, 0)}
    assert drawn["#fde725"] == {(1, 0)}
    signed = fills(svg.heat_map(Panel("v", np.array([-1.0, 0.0, 2.0]), signed=True), (1, 3)))
    assert signed["#053061"] == {(0, 2)}
    assert signed[svg.palette("RdBu")[svg.LEVELS // 2]] == {(0, 1)}
    assert "#67001f" not in signed


def test_one_scale_for_several_maps():
    halves = fills(svg.heat_map(Panel("v", np.array([0.0, 2.0]), limits=(0, 1)), (1, 2)))
    assert halves == {"#440154": {(0, 0)}, "#fde725": {(0, 1)}}
    assert Panel("v", np.array([0.0, 2.0]), limits=(0, 1)).scale == (0.0, 1.0)


def test_nothing_known_is_all_hatched():
    drawn = svg.heat_map(Panel("v", np.full(4, np.nan)), (2, 2))
    assert fills(drawn) == {}
    assert "nothing is known" in drawn


def test_a_region_is_outlined_and_a_policy_has_an_arrow_for_each_cell():
    region = np.zeros((3, 3), bool)
    region[1, :2] = True
    arrows = np.array([0, 1, 2, 3, 4, -1, 0, 0, 0])
    panel = Panel("p", np.arange(9.0), region=region.ravel(), arrows=arrows)
    drawn = svg.heat_map(panel, (3, 3))
    sides = re.search(r'class="region" d="([^"]+)"', drawn)[1]
    assert sides.count("M") == 6
    paths = re.findall(r'class="arrow \w+" d="([^"]+)"', drawn)
    assert sum(path.count("M") for path in paths) == 8
    up = svg.arrow_path(np.array([[0]]))
    assert up.startswith("M0.5 0.8v-.6")  # from below the middle, upwards


def test_a_large_map_is_drawn_as_means_and_keeps_its_scale():
    values = np.arange(300.0 * 300).reshape(300, 300)
    values[:3, :3] = np.nan
    small, shape = svg.pooled(Panel("v", values.ravel()), (300, 300))
    assert shape == (100, 100)
    assert np.isnan(small.values[0])
    assert small.values[1] == values[:3, 3:6].mean()
    assert small.scale == (3.0, 300.0**2 - 1)
    assert small.note == "drawn as means of 3 × 3 cells"
    assert len(svg.heat_map(Panel("v", values.ravel()), (300, 300))) < 200_000
    strip, shape = svg.pooled(Panel("v", np.arange(50_000.0)), (1, 50_000))
    assert shape == (1, 12_500)
    np.testing.assert_allclose(strip.values[:2], [1.5, 5.5])


# -- charts --------------------------------------------------------------------------------------


def test_a_gap_parts_a_line_and_every_point_has_its_mark():
    chart = Chart([Series("a", [1, 2, 3, 4], [1, None, 3, 4])], "x", "y")
    drawn = svg.line_chart(chart)
    path = re.search(r'class="line line s0" d="([^"]*)"', drawn)[1]
    assert path.count("M") == 2
    assert drawn.count('class="mark s0"') == 3
    assert "<title>a: 3, 3</title>" in drawn


def test_points_lie_where_the_numbers_say():
    chart = Chart([Series("a", [1, 10, 100], [1, 10, 100])], "x", "y", True, True)
    places = re.findall(r'translate\(([\d.]+) ([\d.]+)\)"', svg.line_chart(chart))
    x, y = np.array(places, float).T
    np.testing.assert_allclose(np.diff(x)[0], np.diff(x)[1], atol=0.11)
    np.testing.assert_allclose(np.diff(y)[0], np.diff(y)[1], atol=0.11)
    assert x[0] < x[1]
    assert y[0] > y[1]


def test_a_scale_of_factors_leaves_out_what_is_not_positive():
    chart = Chart([Series("a", [1, 2], [0.0, 2.0], [-1, 1], [1, 3])], "x", "y", y_log=True)
    drawn = svg.line_chart(chart)
    assert "nan" not in drawn
    assert drawn.count('class="mark s0"') == 1
    assert re.search(r'class="band s0" d="M[^"]+z"', drawn)


@pytest.mark.parametrize(
    ("y", "log"),
    [
        ([None], False),
        ([], True),
        ([0.0], False),
        ([5.0], True),
        ([-3, -3], False),
        ([1e-9, 1e9], True),
    ],
)
def test_every_chart_can_be_drawn(y, log):
    drawn = svg.line_chart(Chart([Series("a", range(len(y)), y)], "x", "y", y_log=log))
    assert "nan" not in drawn.replace("nothing", "")
    assert "inf" not in drawn
    Reader(drawn)


def test_ticks_are_round_and_few_numbers_are_their_own():
    trajectories = [8, 16, 32, 64, 128, 256, 512, 1024]
    assert svg.Axis(trajectories, True, 0, 1).widen().ticks() == trajectories
    assert svg.Axis([0, 0.93], False, 1, 0).widen().ticks() == pytest.approx(
        [0, 0.2, 0.4, 0.6, 0.8]
    )
    ticks = svg.Axis([1e-4, 10], True, 1, 0).widen().ticks()
    assert ticks == pytest.approx([1e-4, 1e-3, 1e-2, 0.1, 1, 10])
    assert svg.Axis([6, 9], True, 1, 0).widen().ticks() == pytest.approx([6, 7, 8, 9])
    assert len(svg.Axis([1e-100, 1e100], True, 1, 0).widen().ticks()) <= 8


def test_the_numbers_of_a_chart_are_below_it():
    chart = Chart([Series("a", [1, 2], [0.5, 0.25]), Series("b", [2], [3], [2], [4])], "n", "y")
    assert svg.table_of(chart) == (
        ["n", "a", "b"],
        [["1", "0.5", ""], ["2", "0.25", "3 (2 to 4)"]],
    )
    assert "3 (2 to 4)" in page(chart)


# -- solutions and runs --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def solutions():
    world = iq.worlds.gridworld(4)
    cost = np.zeros((16, 5))
    cost[5, 4] = 1
    ruled = world.task.constrain(iq.Constraint(cost, 0.5, name="no rest"))
    # Short walks from the corner: some cells are never seen.
    seen = iq.Demonstrations([0, 1, 1, 5, 0], [3, 4, 1, 0, 1], [1, 1, 5, 1, 4])
    return {
        "exact": iq.IAVI().solve(world.expert(), world.task),
        "state": iq.IAVI(gauge=iq.StateOnly()).solve(world.expert(), world.task),
        "ruled": iq.IAVI().fit(seen, ruled),
    }


def panels(document):
    return {p.title: p for b in document.blocks if isinstance(b, Maps) for p in b.panels}


def test_a_solution_on_a_grid_shows_its_reward_values_and_policy(solutions):
    shown = panels(describe(solutions["state"], (4, 4)))
    assert list(shown) == ["reward", "value", "policy"]
    np.testing.assert_allclose(shown["reward"].values, solutions["state"].reward_table[:, 0])
    np.testing.assert_allclose(shown["value"].values, solutions["state"].value_table)
    # Down the last column and along the last row to the goal in the corner, then stay there.
    arrows = shown["policy"].arrows.reshape(4, 4)
    assert arrows[:3, 3].tolist() == [1, 1, 1]
    assert arrows[3, :3].tolist() == [3, 3, 3]
    # On the diagonal down and right are as good.
    assert arrows[0, 0] == -1


def test_a_reward_of_actions_has_a_map_for_each_on_one_scale(solutions):
    shown = panels(describe(solutions["exact"], (4, 4)))
    names = [f"reward of {name}" for name in ("up", "down", "left", "right", "stay")]
    assert list(shown)[:5] == names
    assert len({shown[name].scale for name in names}) == 1


def test_what_was_never_seen_is_not_drawn_as_known(solutions):
    found = solutions["ruled"]
    shown = panels(describe(found, (4, 4)))
    assert {"value under the constraints", "policy under the constraints"} <= shown.keys()
    for panel in shown.values():
        assert np.isnan(panel.values[~found.visited]).all(), panel.title
        assert np.isfinite(panel.values[found.visited]).any(), panel.title
        if panel.arrows is not None:
            assert (panel.arrows[~found.visited] == -1).all()


def test_what_was_hardly_seen_is_hatched_over_its_colour_and_the_legend_says_so(solutions):
    found = solutions["ruled"]
    hardly = found.scarce & found.visited
    assert np.flatnonzero(hardly).tolist() == [0, 1, 5]  # all in which one of five steps began
    document = describe(found, (4, 4))
    for panel in panels(document).values():
        np.testing.assert_array_equal(panel.doubtful, hardly)
    html = render(document)
    assert html.count('fill="url(#doubt') == len(panels(document))
    legends = "never seen, or nothing can be done there", "seen fewer than 10 times"
    assert all(html.count(f"</span>{words}</li>") == 2 for words in legends)
    # Where all was seen, or nothing says what was, there is no legend.
    assert 'class="legend"' not in render(describe(solutions["exact"], (4, 4)))
    assert "A star: seen fewer than 10 times." in render(describe(found))


def test_errors_and_intervals_stand_beside_the_reward():
    seen = iq.worlds.gridworld(3).demonstrations(200, 20, np.full((9, 5), 0.2), seed=0)
    task = iq.worlds.gridworld(3).task
    found = iq.uncertainty.fit(iq.IAVI(), seen, task, replications=20, workers=0)
    spread, reward = found.uncertainty.reward, found.reward_table
    html = Reader(render(describe(found))).text.replace("−", "-")
    assert f"{reward[4, 2]:.3f} ({spread.low[4, 2]:.2f} to {spread.high[4, 2]:.2f})" in html
    assert "95% intervals by a bootstrap, from 20 draws of episodes" in html
    shown = panels(describe(found, (3, 3)))
    np.testing.assert_array_equal(shown["error of left"].values, spread.error[:, 2])
    tables = [b for b in describe(found, (3, 3)).blocks if isinstance(b, Table)]
    best = np.unravel_index(reward.argmax(), reward.shape)
    first = tables[-1].rows[0]
    assert first[:3] == (str(best[0]), ["up", "down", "left", "right", "stay"][best[1]],
                         f"{reward.max():.3f}")  # fmt: skip
    assert first[3] == f"{spread.error[best]:.3f}"


def test_without_a_grid_few_states_are_a_table_and_many_are_strips(solutions):
    html = render(describe(solutions["ruled"]))
    assert "What was found, by state" in html
    assert "never seen, or not available" in html
    world = iq.worlds.gridworld(10)
    found = iq.IAVI().solve(world.expert(), world.task)
    blocks = [block for block in describe(found).blocks if isinstance(block, Maps)]
    assert [block.shape for block in blocks] == [(5, 100), (1, 100), (5, 100)]
    # Columns are states, rows are actions.
    strip = blocks[2].panels[0].values.reshape(5, 100)
    np.testing.assert_array_equal(strip.T, found.policy_table)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "Identified: the reward of the state up to a constant"),
        ({"unidentified_dimensions": 3}, "Not identified: 3 directions of the reward"),
        ({"converged": False, "iterations": 1234}, "Not converged: after 1,234 iterations"),
        ({"gauge": "that of its path"}, "its gauge: that of its path"),
        ({"gauge": "Features(phi of shape (9, 2))"}, "it is linear in features"),
        ({"gauge": "Features(phi of shape (9, 2)) by MLP()"}, "likeliest one of a family"),
    ],
)
def test_the_page_of_a_solution_says_how_far_to_trust_it(solutions, changes, said):
    from dataclasses import replace

    found = solutions["state"]
    changed = replace(found, info=replace(found.info, **changes))
    assert said in Reader(render(describe(changed))).text


def test_a_shape_that_does_not_fit_is_refused(solutions):
    with pytest.raises(InvalidInput, match=r"with 16 cells, one for each state; 3 x 5 are 15\."):
        describe(solutions["state"], (3, 5))


def test_a_solution_folder_with_a_report_can_be_loaded_and_replaced(solutions, tmp_path):
    folder = tmp_path / "found"
    solutions["state"].save(folder)
    path = write_report(folder, shape=(4, 4))
    assert path == folder / "report.html"
    assert "<h1>found</h1>" in path.read_text(encoding="utf-8")
    iq.load(folder)
    solutions["exact"].save(folder)
    assert sorted(file.name for file in folder.iterdir()) == ["arrays.safetensors", "solution.json"]


def test_a_report_of_a_run_says_how_it_was_made(tmp_path):
    run = Run("demo", Document("Demo", "", []), [{"evd": 1}], {"size": 8}, "inverseq demo", 7)
    save_run(tmp_path / "run", run)
    path = write_report(tmp_path / "run", tmp_path / "elsewhere" / "page.html")
    text = Reader(path.read_text(encoding="utf-8")).text
    assert "command inverseq demo" in text
    assert "seed 7" in text
    assert "size 8" in text
    assert "1 rows in rows.jsonl, SHA-256" in text
    assert not (tmp_path / "run" / "report.html").exists()


def test_what_is_no_run_is_refused(solutions, tmp_path):
    with pytest.raises(InvalidInput, match=r"must have a saved run .* is neither\. Save one first"):
        write_report(tmp_path)
    save_run(tmp_path / "run", Run("demo", Document("Demo", "", [])))
    with pytest.raises(InvalidInput, match="`shape` must be left out for a run"):
        write_report(tmp_path / "run", shape=(2, 2))
    with pytest.raises(InvalidInput, match=r"`out` must be a file, such as report\.html"):
        write_report(tmp_path / "run", tmp_path)
    (tmp_path / "run" / "document.json").write_text("{}")
    with pytest.raises(DamagedFile, match=r"document\.json is damaged"):
        write_report(tmp_path / "run")


@pytest.mark.parametrize("module", ["jinja2", "matplotlib"])
def test_without_its_extra_the_error_is_the_command_that_installs_it(module, monkeypatch):
    svg.palette.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=re.escape("pip install 'inverseq[report]'")):
        page(Maps([Panel("v", np.zeros(4))], (2, 2)))
