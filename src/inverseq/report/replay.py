"""A drive on the highway to look at: recordings as a page that plays them, or as a still picture.

A recording is plain data, as `inverseq.worlds.highway.record_trace` makes it. The page is one HTML
file that needs nothing else. Other than a report it has a script; its content policy knows the
fingerprint of that one, and lets no other run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inverseq.errors import InvalidInput
from inverseq.report import svg
from inverseq.report.blocks import Chart, Series, Still
from inverseq.report.page import template_of

if TYPE_CHECKING:
    from markupsafe import Markup

SCRIPT = Path(__file__).with_name("replay.js")
SIGNS = {1: "↗", 0: "→", -1: "↘"}
"""How an action looks that leads so many lanes to the left, when one drives to the right."""

Trace = Mapping[str, Any]


def replay_page(traces: Sequence[Trace], titles: Sequence[str]) -> str:
    """Recordings of one scenario as the text of an HTML file that plays them side by side.

    >>> trace = {
    ...     "format": "sumo-ring-trace/2",
    ...     "meta": {
    ...         "track_m": 1000.0, "lanes": 3, "dt_s": 2.0, "action_every": 1, "v_des": 20.0,
    ...         "sight_m": 80.0, "traffic": "T2", "n": 0, "seed": 0,
    ...         "actions": ["keep"], "to_the_left": [0], "vehicles": [{"id": 0, "len": 5.0}],
    ...     },
    ...     "steps": [{"a": 0, "q": None}],
    ...     "frames": [[[0], "0", [200]], [[400], "0", [200]]],
    ... }
    >>> "<canvas" in replay_page([trace], ["alone"])
    True

    Args:
        traces: The recordings, of the same scenario and as many decisions.
        titles: Who drives in each.
    """
    from markupsafe import Markup

    check_traces(traces, titles)
    meta = traces[0]["meta"]
    chart = speed_chart(traces, titles)
    axis = svg.x_axis(chart)
    script = SCRIPT.read_text(encoding="utf-8")
    seconds = seconds_of(traces[0])[-1]
    low, high = svg.SPEEDS
    data = {
        "traces": list(traces),
        "colours": svg.palette(svg.SPEED_COLOURS),
        "speeds": svg.SPEEDS,
    }
    return template_of("replay.html").render(
        title=f"{meta['n']} others on the highway",
        lead=lead(traces, seconds),
        titles=titles,
        valued=[any(step["q"] for step in trace["steps"]) for trace in traces],
        actions=sorted(
            (
                {"number": i, "name": name, "sign": SIGNS[by], "by": by}
                for i, (name, by) in enumerate(
                    zip(meta["actions"], meta["to_the_left"], strict=True)
                )
            ),
            key=lambda action: -action["by"],
        ),
        seconds=seconds,
        speeds=(f"{low:g}", f"{high:g}"),
        scale=svg.SPEED_COLOURS,
        gradient=Markup(svg.gradient(svg.SPEED_COLOURS)),
        chart=chart,
        drawn=Markup(svg.line_chart(chart)),
        swatch=lambda series, i: Markup(svg.swatch(series, i)),
        ends=(axis.place(0.0), axis.place(seconds)),
        heights=(svg.TOP, svg.HEIGHT - svg.BOTTOM),
        data=embedded(data),
        script=Markup(script),
        sha256=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def still(trace: Trace, step: int, caption: str = "", replay: str = "") -> Still:
    """The moment of a decision as a block for a document: the road around the ego.

    Args:
        trace: The recording.
        step: Which decision, from 0.
        caption: What the picture shows.
        replay: The file beside the report that plays the recording, such as ``drive.html``, to
            which the picture then leads.
    """
    check_format(trace, 0)
    meta, steps = trace["meta"], trace["steps"]
    if not 0 <= step < len(steps):
        raise InvalidInput(
            f"`step` must be the number of a decision, from 0 to {len(steps) - 1}; got {step!r}."
        )
    metres, lanes, speeds = trace["frames"][step * meta["action_every"]]
    ring, ego = 10 * meta["track_m"], metres[0]
    ahead = [((x - ego + ring / 2) % ring - ring / 2) / 10 for x in metres]
    near = [i for i, way in enumerate(ahead) if abs(way) < svg.VIEW + 5]
    beside = meta["to_the_left"]
    return Still(
        ahead=[ahead[i] for i in near],
        lanes=[int(lanes[i]) for i in near],
        speeds=[speeds[i] / 10 for i in near],
        allowed=[by for by, may in zip(beside, steps[step]["safe_kr"], strict=True) if may],
        chosen=beside[steps[step]["a"]],
        n_lanes=meta["lanes"],
        sight=meta["sight_m"],
        caption=caption,
        replay=replay,
    )


def check_traces(traces: Sequence[Trace], titles: Sequence[str]) -> None:
    """Raise unless there are recordings that can be played side by side, and a title for each."""
    if not traces or len(traces) != len(titles):
        raise InvalidInput(
            f"`traces` must be one recording or more, and `titles` one for each; got "
            f"{len(traces)} and {len(titles)}."
        )
    for i, trace in enumerate(traces):
        check_format(trace, i)
        same = ("traffic", "n", "seed")
        first, other = ([t["meta"][name] for name in same] for t in (traces[0], trace))
        if first != other or len(trace["frames"]) != len(traces[0]["frames"]):
            raise InvalidInput(
                f"`traces` must be of one scenario and one length; the first is of {first} with "
                f"{len(traces[0]['frames'])} frames, and number {i} of {other} with "
                f"{len(trace['frames'])}."
            )


def check_format(trace: Trace, i: int) -> None:
    """Raise unless it is a recording of this version."""
    from inverseq.worlds.highway.trace import FORMAT

    found = trace.get("format")
    if found != FORMAT:
        raise InvalidInput(
            f"`traces` must be recordings of format {FORMAT}; number {i} has {found!r}. Record it "
            f"again with `highway.record_trace`."
        )


def seconds_of(trace: Trace) -> list[float]:
    """When each frame was."""
    return [i * trace["meta"]["dt_s"] for i in range(len(trace["frames"]))]


def speed_chart(traces: Sequence[Trace], titles: Sequence[str]) -> Chart:
    """The ego's speed over time, one line for each recording."""
    times, wanted = seconds_of(traces[0]), traces[0]["meta"]["v_des"]
    series = [
        Series(title, times, [frame[2][0] / 10 for frame in trace["frames"]])
        for title, trace in zip(titles, traces, strict=True)
    ]
    desired = Series("what it wants", [times[0], times[-1]], [wanted, wanted], style="dashed")
    return Chart([*series, desired], "seconds", "speed in m/s")


def lead(traces: Sequence[Trace], seconds: float) -> str:
    """What the page shows, in words."""
    meta = traces[0]["meta"]
    who, same, react = "A policy drives", "", ""
    if len(traces) > 1:
        who, same, react = "Each policy drives", "the same ", ", who begin alike and react to it"
    return (
        f"{who} for {seconds:g} seconds among {same}{meta['n']} others{react}: traffic "
        f"{meta['traffic']}, seed {meta['seed']}, on a ring of {meta['track_m']:g} m, from left to "
        f"right. Every {meta['dt_s'] * meta['action_every']:g} seconds the car keeps its lane or "
        f"changes it. It sees {meta['sight_m']:g} m ahead and behind."
    )


def embedded(data: Any) -> Markup:
    """Data as JSON that can stand within a page, whatever texts it holds."""
    from markupsafe import Markup

    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))
