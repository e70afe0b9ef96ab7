"""Reports and replays in a browser: they render, are quiet, stay in their file, and fit a phone."""

import json
import re
import subprocess
from importlib.util import find_spec

import numpy as np
import pytest

from chromium import BROWSER, FLAGS, NAMES, Tab
from drivers import Road, drive
from inverseq import cli
from inverseq.report import (
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
    replay_page,
    save_run,
    write_report,
)
from inverseq.worlds.highway import policies

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason=f"no browser: none of {', '.join(NAMES)} is on PATH"
)
PHONE = 390
DARK, LIGHT = "--blink-settings=preferredColorScheme=0", "--blink-settings=preferredColorScheme=1"

# What a frame of a given width tells of itself.
MEASURE = """<script>
addEventListener("load", () => parent.postMessage(JSON.stringify({
  width: innerWidth,
  needed: Math.max(document.documentElement.scrollWidth, document.body.scrollWidth),
  paper: getComputedStyle(document.documentElement).backgroundColor,
  ink: getComputedStyle(document.documentElement).color,
  chart: document.querySelector("svg.chart")?.getBoundingClientRect().width ?? 0,
  maps: [...document.querySelectorAll("svg.map")].map(m => m.getBoundingClientRect().height),
}), "*"));
</script>"""
FRAME = """<!doctype html><title>-</title>
<script>addEventListener("message", e => { document.title = e.data; });</script>
<iframe src="measured.html" style="border:0;width:{width}px;height:900px"></iframe>"""


@pytest.fixture
def visit(tmp_path):
    """Open a page: what became of it, what the console said, and what it asked the network for."""
    visits = []

    def open_page(path, *flags):
        visits.append(path)
        profile, log = tmp_path / f"profile{len(visits)}", tmp_path / f"log{len(visits)}.json"
        seen = subprocess.run(
            [
                *(BROWSER, *FLAGS, "--virtual-time-budget=3000", *flags),
                *(f"--user-data-dir={profile}", f"--log-net-log={log}"),
                *("--dump-dom", path.as_uri()),
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        said = [line for line in seen.stderr.splitlines() if ":CONSOLE" in line]
        return seen.stdout, said, requests(json.loads(log.read_text()))

    return open_page


def requests(log):
    """The addresses that a page asked for; the browser's own errands have no page as origin."""
    parameters = [event.get("params", {}) for event in log["events"]]
    return {
        asked["url"]
        for asked in parameters
        if "url" in asked and asked.get("initiator", "not an origin") != "not an origin"
    }


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A page with one of everything, and words and tables too wide for a phone."""
    folder = tmp_path_factory.mktemp("run")
    values = np.linspace(-1, 2, 144)
    values[:9] = np.nan
    n = [8, 16, 32, 64, 128, 256, 512, 1024]
    y = 9 / np.sqrt(n)
    heads = [Column(f"a long head {i}", numeric=True) for i in range(9)]
    document = Document(
        "What an expert was after: " + "Averyveryverylongwordindeed" * 3,
        "A lead.",
        [
            Text("Not converged.", warning=True),
            Section("Results", [Table(["method", *heads], [["IAVI", *[0.123] * 9]], "Table")]),
            Section(
                "Figures",
                [
                    Chart([Series("IAVI", n, y, y / 2, y * 2)], "trajectories", "EVD", True, True),
                    Maps(
                        [
                            Panel("reward", values, signed=True, region=values > 1.5),
                            Panel("policy", values, arrows=np.arange(144) % 5),
                        ],
                        (12, 12),
                    ),
                    Maps([Panel("strip", values)], (1, 144)),
                ],
            ),
            Section("Settings", [Settings({"name" * 20: "value" * 40})]),
        ],
    )
    save_run(folder, Run("test", document, settings={"size": 8}, command="inverseq " * 30))
    return write_report(folder)


def test_the_page_renders_and_the_console_is_silent(report, visit):
    html, said, asked = visit(report)
    assert said == []
    assert asked <= {report.as_uri(), "data:,"}
    for piece in ("<h1>What an expert", 'class="chart"', 'class="map"', 'class="strip"', "IAVI"):
        assert piece in html
    assert html.count("<table") >= 4


def test_what_leads_out_would_be_noticed_and_is_stopped(report, visit, tmp_path):
    outside = '<img src="http://127.0.0.1:9/x.png"><script>console.error("heard")</script></body>'
    html = report.read_text(encoding="utf-8").replace("</body>", outside)
    guarded, open_ = tmp_path / "guarded.html", tmp_path / "open.html"
    guarded.write_text(html, encoding="utf-8")
    policy = re.search(r'<meta http-equiv="Content-Security-Policy"[^>]*>', html)[0]
    open_.write_text(html.replace(policy, ""), encoding="utf-8")

    _, said, asked = visit(open_)
    assert "http://127.0.0.1:9/x.png" in asked
    assert any("heard" in line for line in said)

    _, said, asked = visit(guarded)
    assert not any("127.0.0.1" in address for address in asked)
    assert sum("Content Security Policy" in line for line in said) == 2
    assert not any('"heard"' in line and "violates" not in line for line in said)


@pytest.fixture
def measure(visit, tmp_path):
    """Measure a page in a frame as wide as a screen that no headless window could be."""

    def in_frame(report, width, scheme):
        html = report.read_text(encoding="utf-8")
        allowed = html.replace(
            "default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';"
        )
        (tmp_path / "measured.html").write_text(
            allowed.replace("</head>", MEASURE + "</head>"), encoding="utf-8"
        )
        frame = tmp_path / "frame.html"
        frame.write_text(FRAME.replace("{width}", str(width)), encoding="utf-8")
        seen, said, _ = visit(frame, scheme, "--window-size=1400,1000")
        assert said == []
        return json.loads(re.search(r"<title>(.*?)</title>", seen)[1])

    return in_frame


@pytest.mark.parametrize("width", [320, PHONE, 1280])
def test_the_page_is_as_wide_as_the_screen_and_no_wider(report, measure, width):
    found = measure(report, width, LIGHT)
    assert found["width"] == width
    assert found["needed"] <= width
    assert 0.5 * min(width, 700) < found["chart"] <= width
    assert len(found["maps"]) == 2
    assert all(height > 100 for height in found["maps"])


def brightness(colour):
    return np.mean([int(part) for part in re.findall(r"\d+", colour)[:3]])


def test_day_and_night_differ_and_both_can_be_read(report, measure):
    day, night = measure(report, PHONE, LIGHT), measure(report, PHONE, DARK)
    assert brightness(day["paper"]) > 240 > 60 > brightness(day["ink"])
    assert brightness(night["paper"]) < 40 < 200 < brightness(night["ink"])


def test_the_report_of_the_demo_opens(tmp_path, visit, measure, capsys):
    small = ["--size", "8", "--objects", "6", "--episodes", "400", "--block", "2", "--epochs", "5"]
    assert cli.main(["demo", *small, "--out", str(tmp_path / "out")]) == 0
    path = tmp_path / "out" / "report.html"
    assert capsys.readouterr().out.rstrip().endswith(str(path))
    assert path.stat().st_size < 1_000_000
    html, said, _ = visit(path)
    assert said == []
    assert all(f">{name}</h2>" in html for name in ("Results", "Maps", "IAVI", "IQL", "CIQL"))
    assert measure(path, PHONE, DARK)["needed"] <= PHONE


# -- replays ------------------------------------------------------------------------------------

needs_gymnasium = pytest.mark.skipif(
    find_spec("gymnasium") is None, reason="gymnasium is not installed (extra `gym`)"
)
END = 40
TIME = "Number(document.getElementById('slider').value)"
BUTTON = "document.querySelector('#play span').textContent"


@pytest.fixture(scope="module")
def replay(tmp_path_factory):
    """Two drives: to the left, which is against the rule, and on the lane between."""
    others = [(float(x), x // 30 % 3, 10.0 + x % 12) for x in range(100, 960, 30)]
    traces = [
        drive(Road((0, 1, 20), *others), policy, values=values, decisions=END // 2)
        for policy, values in (
            (policies.left, lambda rows: np.array([[1.0, 3.0, 2.0]])),
            (policies.keep, None),
        )
    ]
    path = tmp_path_factory.mktemp("replay") / "drive.html"
    path.write_text(replay_page(traces, ["Expert", "A name of many words " * 6]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    tab = Tab(tmp_path_factory.mktemp("browser"))
    yield tab
    tab.close()


@pytest.fixture
def tab(browser, replay):
    """The replay, opened on a screen by day."""
    browser.prefer(color_scheme="light")
    browser.screen(1280)
    browser.open(replay.as_uri())
    yield browser
    assert browser.said == []


def all_texts(tab, selector):
    return tab.ask(f"[...document.querySelectorAll({selector!r})].map(e => e.textContent.trim())")


def pictures(tab):
    return tab.ask("[...document.querySelectorAll('canvas')].map(canvas => canvas.toDataURL())")


def colours(tab, i):
    """How many colours a canvas shows."""
    return tab.ask(f"""(() => {{
        const canvas = document.querySelectorAll("canvas")[{i}];
        const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
        copy.drawImage(canvas, 0, 0);
        const {{data}} = copy.getImageData(0, 0, canvas.width, canvas.height);
        return new Set(new Uint32Array(data.buffer)).size;
    }})()""")


@needs_gymnasium
def test_a_replay_runs_its_script_is_quiet_and_asks_nobody(replay, visit):
    html, said, asked = visit(replay)
    assert said == []
    assert asked <= {replay.as_uri(), "data:,"}
    assert f">0:00 / 0:{END}</output>" in html
    assert html.count("<canvas") == html.count("m/s in lane 1 with") == 2


@needs_gymnasium
def test_a_replay_lets_no_other_script_run(replay, visit, tmp_path):
    page = tmp_path / "other.html"
    other = "<script>document.title = 'taken'</script></body>"
    page.write_text(replay.read_text("utf-8").replace("</body>", other), encoding="utf-8")
    html, said, _ = visit(page)
    assert "<title>taken" not in html
    assert sum("Content Security Policy" in line for line in said) == 1


@needs_gymnasium
def test_a_replay_shows_both_drives_side_by_side(tab):
    # The road, its lines, cars in the colours of their speeds, and their rims.
    assert min(colours(tab, 0), colours(tab, 1)) > 20
    first, second = pictures(tab)
    assert first != second
    boxes = tab.ask(
        "[...document.querySelectorAll('canvas')].map(c => c.getBoundingClientRect().toJSON())"
    )
    assert boxes[0]["top"] == boxes[1]["top"], "however long the titles are"
    assert boxes[0]["right"] < boxes[1]["left"]


@needs_gymnasium
def test_a_replay_plays_smoothly_and_pauses(tab):
    still = pictures(tab)
    tab.ask("document.getElementById('play').click()")
    assert tab.ask(BUTTON) == "Pause"
    tab.until(f"{TIME} > 1")
    assert pictures(tab) != still
    # Between two moments that were recorded there are pictures, too.
    tab.until(f"{TIME} % 0.5 > 0.01 && {TIME} % 0.5 < 0.49")
    tab.press(" ")
    assert tab.ask(BUTTON) == "Play"
    at, still = tab.ask(TIME), pictures(tab)
    tab.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert (tab.ask(TIME), pictures(tab)) == (at, still)


@needs_gymnasium
def test_a_replay_obeys_the_keyboard(tab):
    seen = {}
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "End", "Home"):
        tab.press(key)
        seen.setdefault(tab.ask(TIME), set()).add(tuple(pictures(tab)))
    assert list(seen) == [2, 4, END, 0]
    assert all(len(drawn) == 1 for drawn in seen.values()), "the same moment, the same picture"
    assert len(set().union(*seen.values())) == 4
    tab.press("End")
    tab.press(" ")
    tab.until(f"{TIME} > 0 && {TIME} < {END / 2}")  # once more from the beginning
    tab.press(" ")
    # The space bar presses a button that has the focus once, not twice.
    tab.ask("document.getElementById('play').focus()")
    tab.press(" ")
    assert tab.ask(BUTTON) == "Pause"
    # Arrows on the speeds choose a speed, and leave the time alone.
    tab.press(" ")
    at = tab.ask(TIME)
    tab.ask("document.querySelector('input[name=pace]:checked').focus()")
    tab.press("ArrowRight")
    assert tab.ask("document.querySelector('input[name=pace]:checked').value") == "4"
    assert tab.ask(TIME) == at


@needs_gymnasium
def test_a_replay_ends_by_itself(tab):
    tab.ask(f"go({END - 1}); document.querySelector('input[value=\"8\"]').checked = true")
    tab.press(" ")
    tab.until(f"{TIME} === {END} && {BUTTON} === 'Play'")


@needs_gymnasium
def test_a_replay_says_what_was_chosen_and_what_it_broke(tab):
    assert all_texts(tab, ".chosen .name") == ["↗left", "→keep"]
    assert all_texts(tab, ".chosen .verdict")[0] == "chosen, against keep right"
    assert all_texts(tab, "[data-is=breaches]")[0] == "1"
    assert all_texts(tab, "[data-is=mean]") == ["–", "–"]
    # Rows are left, keep and right, worth 3, 1 and 2: the best is full, the worst nearly empty.
    widths = tab.ask("[...document.querySelectorAll('.bar span')].map(bar => bar.style.width)")
    assert widths[:3] == ["100%", "2%", "50%"]
    assert all_texts(tab, ".value")[:3] == ["3.00", "1.00", "2.00"]
    forbidden = "[...document.querySelectorAll('.forbidden')].map(row => row.dataset.action)"
    assert tab.ask(forbidden)[:2] == ["1", "0"]
    tab.press("End")
    assert all_texts(tab, "[data-is=mean]") == ["20.0", "20.0"]
    assert all_texts(tab, "[data-is=changes]") == ["1", "0"]


@needs_gymnasium
def test_a_replay_begins_where_its_address_says(tab, replay):
    tab.open("about:blank")
    tab.open(f"{replay.as_uri()}#t=12.5")
    assert tab.ask(TIME) == 12.5
    assert all_texts(tab, "#clock") == [f"0:12 / 0:{END}"]


@needs_gymnasium
def test_who_wants_less_motion_sees_recorded_moments_only(tab):
    tab.prefer(reduced_motion="reduce")
    tab.ask("window.seen = []; setInterval(() => seen.push(slider.valueAsNumber), 5)")
    assert tab.ask(BUTTON) == "Play"
    tab.press(" ")
    tab.until("slider.valueAsNumber >= 2")
    assert {time % 0.5 for time in tab.ask("seen")} == {0}


@needs_gymnasium
@pytest.mark.parametrize("width", [320, PHONE, 1280])
def test_a_replay_is_as_wide_as_the_screen_and_no_wider(tab, width):
    tab.screen(width, scale=2)
    tab.until(f"innerWidth === {width}")
    tab.ask("show()")
    dots = "[...document.querySelectorAll('canvas')].every(c => c.width === 2 * c.clientWidth)"
    tab.until(dots)  # as sharp as the screen
    assert tab.ask("document.documentElement.scrollWidth") <= width
    for wide in tab.ask("[...document.querySelectorAll('canvas')].map(c => c.clientWidth)"):
        assert 0.4 * width < wide < width


@needs_gymnasium
def test_a_replay_follows_day_and_night(tab):
    road = """(() => {
        const copy = new OffscreenCanvas(1, 1).getContext("2d");
        copy.drawImage(document.querySelector("canvas"), -200, -3);
        return String(copy.getImageData(0, 0, 1, 1).data);
    })()"""
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    assert min(brightness(tab.ask(road)), brightness(tab.ask(paper))) > 200
    tab.prefer(color_scheme="dark")
    tab.until("theme.paper !== '#fdfdfc'")
    assert max(brightness(tab.ask(road)), brightness(tab.ask(paper))) < 80
