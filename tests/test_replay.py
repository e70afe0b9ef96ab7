"""The page that plays recordings and the still picture: what they hold, and what they refuse."""

import base64
import hashlib
import json
import re
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers import Road, drive
from inverseq.errors import InvalidInput, MissingExtra
from inverseq.report import Document, Still, from_plain, render, replay_page, still, svg, to_plain
from inverseq.worlds.highway import Scenario, policies

pytestmark = pytest.mark.skipif(
    find_spec("gymnasium") is None, reason="gymnasium is not installed (extra `gym`)"
)
EVIL = """</script><script>alert("1")</script> & 'quotes' <b>"""


def data_of(page):
    return json.loads(
        re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1]
    )


@pytest.fixture(scope="module")
def crowd():
    """200 s of 61 vehicles."""
    rng = np.random.default_rng(0)
    speeds = np.round(rng.uniform(8, 23, 60), 1)
    others = zip(np.linspace(15, 985, 60), rng.integers(0, 3, 60), speeds, strict=True)
    road = Road((0, 1, 18), *((float(x), int(lane), float(v)) for x, lane, v in others))
    return drive(road, values=lambda rows: rng.normal(80, 1, (len(rows), 3)), decisions=100)


def test_a_page_of_two_drives_is_one_file_below_a_megabyte_that_holds_them_whole(crowd):
    page = replay_page([crowd, crowd], ["expert", "DCIQL"])
    assert len(page.encode()) < 1_000_000
    assert data_of(page)["traces"] == [crowd, crowd]
    assert page.count("<canvas") == 2
    for title in ("expert", "DCIQL"):
        assert f"{title}</h2>" in page
    assert not re.search(
        r"""(?:src|href)=["'](?!data:,)|url\((?!#)|@import|https?://(?!www\.w3\.org)""", page
    )
    assert page == replay_page([crowd, crowd], ["expert", "DCIQL"])


def test_the_policy_of_the_page_lets_its_own_script_run_and_no_other(crowd):
    page = replay_page([crowd], ["alone"])
    allowed = re.search(r"script-src 'sha256-([^']+)'\"", page)[1]
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert base64.b64decode(allowed) == hashlib.sha256(script.encode()).digest()
    assert "default-src 'none'" in page


def test_a_title_appears_as_text_and_nothing_breaks_out_of_the_data(crowd):
    named = crowd | {"meta": crowd["meta"] | {"remark": EVIL}}
    page = replay_page([named], [EVIL])
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert") >= 3
    assert data_of(page)["traces"][0]["meta"]["remark"] == EVIL


def test_without_values_no_bars_are_shown(crowd):
    silent = drive(Road((0, 1, 20)), decisions=1)
    assert 'class="actions silent"' in replay_page([silent], ["keep"])
    assert 'class="actions silent"' not in replay_page([crowd], ["expert"])


def test_what_cannot_be_played_is_refused(crowd):
    short = drive(Road((0, 1, 20)), decisions=2)
    other = drive(Road((0, 1, 20)), scenario=Scenario("T2", 0, 5), decisions=2)
    with pytest.raises(InvalidInput, match=r"`titles` one for each; got 2 and 1"):
        replay_page([short, short], ["one"])
    with pytest.raises(InvalidInput, match=r"one recording or more.*got 0 and 0"):
        replay_page([], [])
    with pytest.raises(InvalidInput, match=r"\['T1', 0, 0\] with 9 frames, .* 1 of \['T2', 0, 5\]"):
        replay_page([short, other], ["one", "two"])
    longer = drive(Road((0, 1, 20)), decisions=3)
    with pytest.raises(InvalidInput, match=r"with 9 frames, and number 1 .* with 13"):
        replay_page([short, longer], ["one", "two"])
    old = short | {"format": "sumo-ring-trace/1"}
    with pytest.raises(InvalidInput, match=r"format sumo-ring-trace/2; number 1 has '.*/1'"):
        replay_page([short, old], ["one", "two"])
    with pytest.raises(InvalidInput, match=r"`step` must be .* from 0 to 1; got 2"):
        still(short, 2)


@pytest.mark.parametrize("module", ["jinja2", "matplotlib"])
def test_without_its_extra_the_error_is_the_command_that_installs_it(module, crowd, monkeypatch):
    svg.palette.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=r"pip install 'inverseq\[report\]'"):
        replay_page([crowd], ["alone"])


# -- stills -------------------------------------------------------------------------------------

ALONE = drive(Road((0, 1, 20)), decisions=1) if find_spec("gymnasium") else {}


@given(
    st.integers(0, 9999).map(lambda x: x / 10),
    st.lists(st.tuples(st.integers(0, 9999).map(lambda x: x / 10), st.integers(0, 2)), max_size=20),
)
def test_a_still_shows_who_is_within_view_where_it_is(place, others):
    lanes = "1" + "".join(str(lane) for _, lane in others)
    metres = [round(10 * x) for x in (place, *(x for x, _ in others))]
    block = still(ALONE | {"frames": [[metres, lanes, [200] * len(metres)]]}, 0)
    ways = [(x - place + 500) % 1000 - 500 for x, _ in others]
    near = [(0.0, 1), *((way, lane) for way, (_, lane) in zip(ways, others, strict=True))]
    near = [(way, lane) for way, lane in near if abs(way) < 105]
    assert np.allclose(block.ahead, [way for way, _ in near], atol=1e-6)
    assert list(block.lanes) == [lane for _, lane in near]
    assert svg.road(block).count('<rect class="car') == len(near)


def test_a_still_says_what_may_be_done_and_what_is():
    # Nobody is on the right: one has to go there, and goes to the left.
    trace = drive(Road((0, 1, 20)), policies.left, decisions=2)
    block = still(trace, 0, "Against the rule")
    assert (block.allowed, block.chosen) == ((-1,), 1)
    picture = svg.road(block)
    assert (picture.count('class="free"'), picture.count("url(#hatch0)")) == (1, 2)
    chosen = re.search(r'class="chosen" x="\S+" y="([\d.]+)"', picture)[1]
    assert float(chosen) == 2, "the left lane is above"
    assert "changes to the left" in picture
    # There is no lane to the left of the left one.
    assert svg.road(still(trace, 1)).count('rx="4"/>') == 3


def test_a_still_is_plain_data_and_leads_to_its_replay():
    block = still(drive(Road((0, 1, 20)), decisions=1), 0, "A moment", "drive.html")
    assert from_plain(json.loads(json.dumps(to_plain(block)))) == block
    page = render(Document("Highway", "A lead.", [block, block]))
    assert page.count('<a href="drive.html">') == 4
    assert page.count('id="RdYlBu"') == 1
    assert "<script" not in page
    assert len(set(re.findall(r'clipPath id="(\w+)"', page))) == 2
    assert "drive.html" not in render(Document("", "", [Still([0], [1], [20], [0], 0)]))


@pytest.mark.parametrize(
    "name", ["javascript:alert(1)", "../drive.html", "https://a.b/drive.html", "drive.htm", ".html"]
)
def test_a_still_leads_to_a_page_beside_it_and_to_nothing_else(name):
    with pytest.raises(InvalidInput, match=r"`Still.replay` must be the name of a page beside"):
        Still([0], [1], [20], [0], 0, replay=name)


def test_a_still_has_an_ego_and_everything_of_each_vehicle():
    with pytest.raises(InvalidInput, match=r"of the ego at least; got 0, 0 and 0"):
        Still([], [], [], [0], 0)
    with pytest.raises(InvalidInput, match=r"got 2, 1 and 1"):
        Still([0, 5], [1], [20], [0], 0)
