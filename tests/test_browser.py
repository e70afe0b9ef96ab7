"""The page of a report in a browser: it renders, is quiet, stays in its file, and fits a phone."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

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
    save_run,
    write_report,
)

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason=f"no browser: none of {', '.join(NAMES)} is on PATH"
)
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--enable-logging=stderr", "--virtual-time-budget=3000"),
    # What the browser itself asks for finds nobody.
    "--host-resolver-rules=MAP * ~NOTFOUND",
]
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
                *(BROWSER, *FLAGS, *flags, f"--user-data-dir={profile}", f"--log-net-log={log}"),
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


def test_day_and_night_differ_and_both_can_be_read(report, measure):
    def brightness(colour):
        return np.mean([int(part) for part in re.findall(r"\d+", colour)[:3]])

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
