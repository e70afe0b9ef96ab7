"""From a log to an answer on the command line: what is written, said, repeated and refused."""

import json
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import inverseq as iq
from inverseq import cli, identification
from inverseq.verbs import algorithms, compare

PLACES = [f"{row}{column}" for row in "abc" for column in "123"]
MOVES = ["up", "down", "left", "right", "stay"]
READ = ["--state", "place", "--action", "move", "--episode", "bout", "--time", "clock"]
ARRAYS = "solution/arrays.safetensors"
SHORT = ["--set", "classifier.iterations=400"]
SOME = ["--methods", "cloning", "IAVI"]
NO_ERRORS = ["--uncertainty", "none"]
QUICK = [*READ, "--discount", "0.9", "--workers", "0"]


def walks(path, *, episodes=60, seed=0, animals=0):
    """A log of walks over nine places, in CSV, with a last row that says where a walk ended."""
    world = iq.worlds.gridworld(3, wind=0.1)
    seen = world.demonstrations(episodes=episodes, length=10, seed=seed)
    lines = ["animal,bout,clock,place,move"]
    for row in range(len(seen)):
        bout, clock = divmod(row, 10)
        animal = f"m{bout % animals}" if animals else "m0"
        place, move = PLACES[seen.states[row]], MOVES[seen.actions[row]]
        lines.append(f"{animal},{bout},{clock},{place},{move}")
        if clock == 9:
            lines.append(f"{animal},{bout},10,{PLACES[seen.next_states[row]]},")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    walks(tmp_path / "walks.csv")
    walks(tmp_path / "later.csv", seed=1, episodes=20)
    return tmp_path


def said(capsys, *arguments):
    """What a command prints as JSON."""
    assert cli.main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


# -- fit ----------------------------------------------------------------------------------------


def test_from_a_csv_file_to_a_report(here, capsys):
    assert cli.main(["fit", "walks.csv", *QUICK, "--replications", "20", "--out", "run"]) == 0
    told = capsys.readouterr().out
    assert "600 steps of 60 episodes, 9 states, 5 actions" in told
    assert "Not identified: the reward across states" in told
    assert all(name in told for name in ("cloning", "frequencies", "uniform", "c3", "stay"))
    assert "from 20 draws" in " ".join(told.split())
    assert told.splitlines()[-1].endswith("run/report.html")
    page = (here / "run" / "report.html").read_text(encoding="utf-8")
    assert all(word in page for word in ("c3", "What is in walks.csv", "arrival", "cloning"))
    (here / "run" / "report.html").unlink()
    assert cli.main(["report", "run"]) == 0
    assert (here / "run" / "report.html").read_text(encoding="utf-8") == page


def test_what_is_saved_answers_in_labels_and_is_the_fit_of_the_library(here, capsys):
    told = said(capsys, "fit", "walks.csv", *QUICK, *NO_ERRORS, "--out", "run")
    seen = iq.read("walks.csv", state="place", action="move", episode="bout", time="clock")
    ours, theirs = iq.IAVI().fit(seen, seen.task(0.9)), iq.load("run/solution")
    assert np.array_equal(ours.reward_table, theirs.reward_table)
    assert theirs.predict(["c3"])[0] in MOVES
    assert told["verdict"]["identified"] is False
    assert told["rows"][0]["log_likelihood"] == pytest.approx(ours.score(seen))
    assert [row["method"] for row in told["rows"]] == ["IAVI", "cloning", "frequencies", "uniform"]
    assert told["rows"][3]["log_likelihood"] == pytest.approx(-np.log(5))
    assert (told["steps"], told["dropped"], told["uncertainty"]) == (600, 0, None)


def test_a_settings_file_repeats_a_fit_bit_for_bit(here, capsys):
    given = ["fit", "walks.csv", *QUICK, "--replications", "10", "--seed", "3", "--algorithm"]
    given += ["iavi", "--set", "smoothing.k=0.5", "--gauge", "state-only", "--out", "one"]
    assert cli.main(given) == 0
    held = json.loads((here / "one" / "fit.json").read_text())
    assert held["command"].startswith("inverseq fit walks.csv --state place --action move")
    assert "smoothing.k=0.5" in held["command"]
    again = ["fit", "--settings", "one/fit.json", "--workers", "0", "--out", "two"]
    assert cli.main(again) == 0
    arrays = [
        (here / run / "solution" / "arrays.safetensors").read_bytes() for run in ("one", "two")
    ]
    assert arrays[0] == arrays[1]
    assert (here / "two" / "fit.json").read_text() == (here / "one" / "fit.json").read_text()
    assert iq.load("two/solution").uncertainty.seed == 3
    # In its own folder it takes the place of what is there.
    assert cli.main(["fit", "--settings", "one/fit.json", "--workers", "0"]) == 0
    assert (here / "one" / ARRAYS).read_bytes() == arrays[0]
    assert "has changed" not in capsys.readouterr().out
    walks(here / "walks.csv", seed=5)
    assert cli.main(again) == 0
    assert "walks.csv has changed since the settings were written" in capsys.readouterr().out


def test_the_command_that_is_kept_makes_the_same_run(here, capsys):
    import shlex

    given = [
        "fit",
        "walks.csv",
        *QUICK,
        "--uncertainty",
        "none",
        "--on-bad",
        "drop",
        "--out",
        "a b",
    ]
    assert cli.main(given) == 0
    command = json.loads((here / "a b" / "fit.json").read_text())["command"]
    first = (here / "a b" / ARRAYS).read_bytes()
    assert cli.main(shlex.split(command)[1:]) == 0
    assert (here / "a b" / ARRAYS).read_bytes() == first


@pytest.mark.parametrize("name", [n for n in algorithms.NAMES if n not in ("diql", "deep-maxent")])
def test_every_algorithm_for_tables_fits_a_log(here, capsys, name):
    changes = {"iql": ["epochs=20"], "maxent": ["max_iterations=20"]}.get(name, [])
    given = ["--set", *changes] if changes else []
    told = said(capsys, "fit", "walks.csv", *QUICK[:-2], "--algorithm", name, *given,
                *NO_ERRORS)  # fmt: skip
    assert told["run"] == f"walks-{name}"
    assert (here / f"walks-{name}" / "report.html").is_file()
    uniform = next(row for row in told["rows"] if row["method"] == "uniform")
    assert told["rows"][0]["log_likelihood"] > uniform["log_likelihood"]


def test_a_log_of_numbers_is_fitted_by_networks_and_evaluated(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    table = {"x": x[:, 0], "y": x[:, 1], "turn": np.where(x[:, 0] > 0, "left", "right")}
    pq.write_table(pa.table(table | {"run": np.arange(400) // 20}), "drive.parquet")
    given = ["--state", "x", "y", "--action", "turn", "--episode", "run", "--discount", "0.9"]
    (tmp_path / "rules.py").write_text(
        "def no_left(x, turns):\n    return [[turn == 'left' for turn in turns]] * len(x)\n"
    )
    told = said(capsys, "fit", "drive.parquet", *given, "--algorithm", "cloning", *SHORT,
                "--constrain", "rules.py:no_left", "--out", "run")  # fmt: skip
    assert [row["method"] for row in told["rows"]] == [
        "BehaviouralCloning", "BehaviouralCloning, constrained", "frequencies", "uniform",
    ]  # fmt: skip
    assert told["rows"][1]["log_likelihood"] == "-inf"
    assert any("Uncertainty was not measured" in remark for remark in told["remarks"])
    assert "left" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    held = said(capsys, "evaluate", "run", "drive.parquet")
    assert held["rows"] == told["rows"]
    assert cli.main(["fit", "drive.parquet", *given, "--algorithm", "iavi"]) == 2
    assert "must be one of cloning and diql where states are rows" in capsys.readouterr().err
    assert cli.main(["evaluate", "run", "drive.parquet", "--state", "x"]) == 2
    assert "must be rows of 2 numbers" in capsys.readouterr().err


# -- constraints --------------------------------------------------------------------------------

RULES = """
import inverseq as iq
import numpy as np

pairs = [("b2", "up"), ("b2", "left")]
ready = iq.Constraint(np.repeat([[1.0, 0.0, 0.0, 0.0, 0.0]], 9, axis=0), 0.5, "never down")

def no_stay(places, moves):
    return [[place != "c3" and move == "stay" for move in moves] for place in places]

def broken(places, moves):
    return [[place["no"] for place in places]]

def narrow(places, moves):
    return np.zeros((len(places), 2))

def ragged(places, moves):
    return [[0] * i for i in range(len(places))]

def lonely(places):
    return np.zeros((len(places), 5))

number = 3
unknown = [("z9", "up")]
crooked = [("b2", "up", "down")]
"""


@pytest.mark.parametrize(
    ("name", "forbidden"),
    [
        ("pairs", lambda s, a: s == "b2" and a in ("up", "left")),
        ("ready", lambda s, a: a == "down"),
        ("no_stay", lambda s, a: a == "stay" and s != "c3"),
    ],
)
def test_a_constraint_of_a_file_is_never_violated(here, capsys, name, forbidden):
    (here / "rules.py").write_text(RULES)
    told = said(capsys, "fit", "walks.csv", *QUICK, *NO_ERRORS, "--constrain",
                f"rules.py:{name}", "--out", "run")  # fmt: skip
    found = iq.load("run/solution")
    barred = np.array([[forbidden(s, a) for a in MOVES] for s in PLACES])
    barred = barred[:, [MOVES.index(label) for label in found.labels.actions]]
    assert found.labels.states == tuple(PLACES)
    assert not found.policy_table[barred].any()
    assert found.unconstrained().policy_table[barred].all()
    assert [row["method"] for row in told["rows"]][:2] == ["IAVI", "IAVI, constrained"]
    assert any("Constrained by" in remark for remark in told["remarks"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("rules.py", "must be given as FILE.py:NAME"),
        ("nowhere.py:pairs", "there is none at"),
        ("rules.py:pair", "it has no 'pair'. Did you mean 'pairs'"),
        ("rules.py:number", "it is a int"),
        ("rules.py:broken", "raised TypeError"),
        ("rules.py:narrow", "an array of shape (9, 5); it returned float64 of shape (9, 2)"),
        ("rules.py:ragged", "must return rows of one length"),
        ("rules.py:lonely", "takes 1 positional argument but 2 were given"),
        ("rules.py:unknown", "row 0 is 'z9'"),
        ("rules.py:crooked", "entry 0 is ('b2', 'up', 'down')"),
        ("raises.py:pairs", "line 2 of"),
        ("syntax.py:pairs", "SyntaxError"),
    ],
)
def test_a_constraint_that_cannot_be_is_one_clear_sentence(here, capsys, given, message):
    (here / "rules.py").write_text(RULES)
    (here / "raises.py").write_text("x = 1\n1 / 0\n")
    (here / "syntax.py").write_text("x = = 1\n")
    refused(capsys, ["fit", "walks.csv", *QUICK, "--constrain", given, "--out", "run"], message)
    assert not (here / "run").exists()


# -- what cannot be -----------------------------------------------------------------------------


def refused(capsys, arguments, message):
    """A command ends with exit code 2 and one sentence that says this."""
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("inverseq: ")
    assert message in err
    assert len(err.splitlines()) == 1
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.csv", *QUICK], "there is none at nowhere.csv"),
        (["folder", *QUICK], "in folder none ends in"),
        (["empty.csv", *QUICK], "must be readable as csv"),
        (["heads.csv", *QUICK], "must hold at least one row"),
        (["text.parquet", *QUICK], "must be readable as parquet"),
        (["text.txt", *QUICK], "text.txt does not"),
        (["walks.csv", "--state", "plaice", *QUICK[2:]], "Did you mean 'place'?"),
        (["walks.csv", "--action", "move", "--discount", "0.9"], "must name columns of the log"),
        (["walks.csv", *READ], "`--discount` must be given"),
        (["walks.csv", *READ, "--discount", "1.5"], "must lie in [0, 1]; got 1.5"),
        (["walks.csv", *READ, "--discount", "nan"], "must lie in [0, 1]; got nan"),
        (["walks.csv", *QUICK, "--algorithm", "iaiv"], "got 'iaiv'. Did you mean 'iavi'"),
        (["walks.csv", *QUICK, "--gauge", "unifrom"], "got 'unifrom'. Did you mean 'uniform'"),
        (["walks.csv", *QUICK, "--gauge", "reference:sty"], "Did you mean 'stay'"),
        (["walks.csv", *QUICK, "--set", "tolerence=1"], "Did you mean 'tolerance'"),
        (["walks.csv", *QUICK, "--set", "tolerance"], "must be given as setting=value"),
        (["walks.csv", *QUICK, "--set", "smoothing.k=many"], "`Additive.k` must be finite"),
        (["walks.csv", *QUICK, "--set", "smoothing=1"], "one of the settings of smoothing"),
        (["walks.csv", *QUICK, "--set", "solver.k=1"], "iavi.solver has none inside it"),
        (["walks.csv", *QUICK, "--seed", "-1"], "must be an integer from 0; got -1"),
        (["walks.csv", *QUICK, "--replications", "1"], "must be at least 2; got 1"),
        (["walks.csv", *QUICK, "--uncertainty", "delta"], "must not be asked for here"),
        (["walks.csv", *QUICK, "--out", "taken"], "taken holds diary.txt"),
        (["walks.csv", *QUICK, "--out", "walks.csv"], "walks.csv is a file"),
        (["walks.csv", *QUICK, "--out", "walks.csv/run"], "walks.csv is a file"),
        (["holes.csv", *QUICK], "missing: 1 row (the first is row 1, column 'place')"),
        (["--settings", "nowhere.json"], "got nowhere.json"),
        (["--settings", "walks.csv"], "must be the fit.json of a fit"),
        (["walks.csv", "--settings", "walks.csv"], "`--settings` must stand alone"),
        ([], "must be given a log"),
    ],
)
def test_a_fit_that_cannot_be_is_one_clear_sentence(here, capsys, arguments, message):
    (here / "folder").mkdir()
    (here / "taken").mkdir()
    (here / "taken" / "diary.txt").write_text("Dear diary")
    (here / "empty.csv").write_text("")
    (here / "heads.csv").write_text("place,move,bout,clock\n")
    for name in ("text.parquet", "text.txt"):
        (here / name).write_text("no table at all")
    (here / "holes.csv").write_text("place,move,bout,clock\na,go,1,0\n,go,1,1\na,go,1,2\n")
    before = sorted(here.rglob("*"))
    refused(capsys, ["fit", *arguments], message)
    assert sorted(here.rglob("*")) == before


def turns(path, episodes, seed):
    """A log of somebody who goes to the left and to the right of the middle by turns."""
    rng = np.random.default_rng(seed)
    lines = ["bout,place,move"]
    for bout in range(episodes):
        left = bool(rng.integers(2))
        for _ in range(10):
            way = ("left" if left else "right") if rng.random() < 0.95 else "stay"
            lines.append(f"{bout},middle,{way}")
            if way != "stay":
                lines.append(f"{bout},{way} arm,back")
                left = not left
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.parametrize("history", ["1", "2", "auto"])
def test_memory_foretells_who_goes_by_turns(tmp_path, monkeypatch, capsys, history):
    monkeypatch.chdir(tmp_path)
    turns(tmp_path / "turns.csv", 40, 0)
    turns(tmp_path / "later.csv", 10, 1)
    given = ["--state", "place", "--action", "move", "--episode", "bout", "--discount", "0.9"]
    nats = {}
    for out, more in ("without", []), ("with", ["--history", history]):
        said(capsys, "fit", "turns.csv", *given, *NO_ERRORS, *more, "--out", out)
        rows = said(capsys, "evaluate", out, "later.csv")["rows"]
        nats[out] = next(row for row in rows if row["method"] == "IAVI")["log_likelihood"]
    assert nats["with"] > nats["without"] + 0.1


@pytest.mark.parametrize(
    ("verb", "arguments", "message"),
    [
        ("fit", ["--history", "two"], "such as 2, or auto; got 'two'"),
        ("fit", ["--history", "1", "--set", "smoothing.k=1"], "must be left out with `--history`"),
        ("compare", ["--history", "1"], "must be left out of compare"),
    ],
)
def test_a_history_that_cannot_be_is_one_clear_sentence(here, capsys, verb, arguments, message):
    assert cli.main([verb, "walks.csv", *QUICK, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_log_of_one_step_is_shown_and_fitted(here, capsys):
    (here / "one.csv").write_text("place,move,bout,clock\na,go,1,0\nb,,1,1\n")
    assert said(capsys, "show", "one.csv", *READ)["steps"] == 1
    told = said(capsys, "fit", "one.csv", *QUICK, "--out", "run")
    assert told["steps"] == 1
    assert "must be at least 2 for the bootstrap" in told["remarks"][0]


def test_bad_rows_are_dropped_when_asked_and_told_in_the_report(here, capsys):
    lines = (here / "walks.csv").read_text().splitlines()
    lines[5] = lines[5].replace(lines[5].split(",")[3], "")
    (here / "walks.csv").write_text("\n".join(lines))
    told = said(capsys, "fit", "walks.csv", *QUICK, "--on-bad", "drop", *NO_ERRORS)
    assert told["dropped"] == 1
    assert "Bad rows, left out" in (here / "walks-iavi" / "report.html").read_text(encoding="utf-8")


def test_a_settings_file_of_somebody_else_is_refused_by_what_is_wrong(here, capsys):
    assert cli.main(["fit", "walks.csv", *QUICK, *NO_ERRORS, "--out", "run"]) == 0
    capsys.readouterr()
    held = json.loads((here / "run" / "fit.json").read_text())
    for change, message in (
        ({"format": 9}, "newer version of inverseq (format 9"),
        ({"fit": held["fit"] | {"disocunt": 1}}, "'disocunt' is none"),
        ({"columns": None}, "must be the fit.json of a fit"),
        ({"fit": held["fit"] | {"discount": "high"}}, "`--discount` must"),
        ({"fit": held["fit"] | {"seed": None}}, "`--seed` must"),
        (
            {"columns": held["columns"] | {"state": 3}},
            "`state` of mine.json must be a list of text",
        ),
        ({"fit": held["fit"] | {"algorithm": ["iavi"]}}, "`algorithm` of mine.json must be text"),
        ({"log": "gone.csv"}, "there is none at gone.csv"),
    ):
        (here / "mine.json").write_text(json.dumps(held | change))
        refused(capsys, ["fit", "--settings", "mine.json", "--out", "other"], message)
    refused(capsys, ["fit", "--settings", "mine.json"], "`--out` must be given")


@pytest.mark.parametrize("verb", ["fit", "compare", "evaluate"])
def test_an_interruption_leaves_nothing_half_written(here, capsys, monkeypatch, verb):
    assert cli.main(["fit", "walks.csv", *QUICK, *NO_ERRORS, "--out", "run"]) == 0
    capsys.readouterr()
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}

    def interrupted(*_, **__):
        signal.raise_signal(signal.SIGINT)

    # While the last file is written: all else is already there.
    monkeypatch.setattr("inverseq.report.page.render", interrupted)
    monkeypatch.setattr("inverseq.evaluate.log_probabilities", interrupted)
    monkeypatch.setattr("inverseq.identification.log_probabilities", interrupted)
    monkeypatch.setattr("inverseq.evaluate.likelihood", interrupted) if verb == "evaluate" else None
    arguments = {
        "fit": ["fit", "walks.csv", *QUICK, *NO_ERRORS, "--out", "run"],
        "compare": ["compare", "walks.csv", *QUICK],
        "evaluate": ["evaluate", "run", "later.csv"],
    }[verb]
    assert cli.main(arguments) == 130
    assert capsys.readouterr().err == "inverseq: interrupted\n"
    assert {path: path.read_bytes() for path in here.rglob("*") if path.is_file()} == before


# -- evaluate -----------------------------------------------------------------------------------


def test_a_run_foretells_another_log_by_its_own_numbers(here, capsys):
    assert cli.main(["fit", "walks.csv", *QUICK, *NO_ERRORS, "--out", "run"]) == 0
    capsys.readouterr()
    told = said(capsys, "evaluate", "run", "later.csv")
    found = iq.load("run/solution")
    later = iq.read(
        "later.csv", state="place", action="move", episode="bout", time="clock", labels=found.labels
    )
    rows = {row["method"]: row for row in told["rows"]}
    assert rows["IAVI"]["log_likelihood"] == pytest.approx(found.score(later))
    seen = iq.read("walks.csv", state="place", action="move", episode="bout", time="clock")
    cloned = iq.BehaviouralCloning().fit(seen, seen.task(0.9))
    assert rows["cloning"]["log_likelihood"] == pytest.approx(cloned.score(later))
    assert told["steps"] == 200
    assert (told["unknown_states"], told["unknown_action_steps"]) == (0, 0)
    assert cli.main(["evaluate", "run", "later.csv"]) == 0
    assert "How likely the steps of later.csv are" in capsys.readouterr().out


def test_what_the_run_never_saw_is_counted_and_said(here, capsys):
    assert cli.main(["fit", "walks.csv", *QUICK, *NO_ERRORS, "--out", "run"]) == 0
    text = (here / "later.csv").read_text()
    extra = ["m0,new,0,c3,stay", "m0,new,1,d4,up", "m0,new,2,c3,jump", "m0,new,3,c3,"]
    (here / "later.csv").write_text(text + "\n".join(extra))
    capsys.readouterr()
    told = said(capsys, "evaluate", "run", "later.csv")
    assert told["steps"] == 203
    assert told["rows"][0]["steps"] == 201
    assert (told["unknown_states"], told["unknown_state_steps"]) == (1, 1)
    assert told["unknown_action_steps"] == 1
    assert cli.main(["evaluate", "run", "later.csv"]) == 0
    out = capsys.readouterr().out
    assert "1 of 203 steps begin in 1 states that the log of the run never had" in out


def test_held_out_columns_may_be_called_otherwise(here, capsys):
    assert cli.main(["fit", "walks.csv", *QUICK, *NO_ERRORS, "--out", "run"]) == 0
    capsys.readouterr()
    first = said(capsys, "evaluate", "run", "later.csv")
    text = (here / "later.csv").read_text().replace("place,move", "where,what", 1)
    (here / "renamed.csv").write_text(text)
    refused(capsys, ["evaluate", "run", "renamed.csv"], "it has none called 'place'")
    renamed = ["--state", "where", "--action", "what"]
    assert said(capsys, "evaluate", "run", "renamed.csv", *renamed)["rows"] == first["rows"]
    refused(capsys, ["evaluate", "here", "later.csv"], "must be given the folder of a fit")
    (here / "other.csv").write_text("place,move,bout,clock\nx,go,1,0\ny,go,1,1\nx,,1,2\n")
    refused(capsys, ["evaluate", "run", "other.csv"], "none is. Such as state 'x'")


def test_an_impossible_step_is_minus_infinity_and_said(here, capsys):
    # Right is never done in a1 here, and so is taken to be impossible.
    lines = ["place,move,bout,clock", "a,go,1,0", "b,back,1,1", "a,go,1,2", "b,,1,3"]
    lines += ["a,go,2,0", "b,back,2,1", "a,,2,2"]
    (here / "ring.csv").write_text("\n".join(lines))
    (here / "odd.csv").write_text("\n".join(["place,move,bout,clock", "a,back,1,0", "a,,1,1"]))
    given = ["fit", "ring.csv", *QUICK, "--available", "seen", *NO_ERRORS]
    assert cli.main([*given, "--out", "run"]) == 0
    capsys.readouterr()
    told = said(capsys, "evaluate", "run", "odd.csv")
    assert told["impossible_steps"] == 1
    assert {row["log_likelihood"] for row in told["rows"]} == {"-inf"}


# -- compare ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_methods_are_ranked_by_what_they_foretell(here, capsys):
    told = said(capsys, "compare", "walks.csv", *QUICK, "--folds", "2", "--seed", "1")
    assert all(
        set(row) == {"method", "log_likelihood", "low", "high", "steps"} for row in told["rows"]
    )
    nats = [row["log_likelihood"] for row in told["rows"]]
    assert nats == sorted(nats, reverse=True)
    rows = {row["method"]: row for row in told["rows"]}
    assert {"cloning", "IAVI", "IQL", "BoltzmannMLE", "MaxEnt", "uniform"} <= set(rows)
    assert rows["uniform"]["log_likelihood"] == pytest.approx(-np.log(5))
    # The identity: in an exact gauge, inverse reinforcement learning is smoothed cloning.
    assert rows["IAVI"]["log_likelihood"] == pytest.approx(rows["cloning"]["log_likelihood"])
    assert all(row["steps"] == 600 and row["low"] <= row["log_likelihood"] <= row["high"]
               for row in told["rows"] if row["method"] != "uniform")  # fmt: skip
    assert told["failed"] == {}
    assert any("by identity" in remark for remark in told["remarks"])


def test_compare_scores_each_episode_by_the_fit_to_the_others(here, capsys):
    told = said(capsys, "compare", "walks.csv", *QUICK, "--folds", "4", *SOME)
    seen = iq.read("walks.csv", state="place", action="move", episode="bout", time="clock")
    member = np.unique(seen.episodes, return_inverse=True)[1]
    part = (np.random.default_rng(0).permutation(60) % 4)[member]
    each = np.empty(len(seen))
    for fold in range(4):
        cloned = iq.BehaviouralCloning().fit(seen.select(part != fold), seen.task(0.9))
        test = seen.select(part == fold)
        each[part == fold] = cloned.predict_log_proba(test.states)[
            np.arange(len(test)), test.actions
        ]
    rows = {row["method"]: row for row in told["rows"]}
    assert rows["cloning"]["log_likelihood"] == pytest.approx(each.mean())


def test_compare_holds_out_units_where_there_are_enough(here, capsys):
    walks(here / "herd.csv", animals=6, episodes=30)
    told = said(capsys, "compare", "herd.csv", *QUICK, "--unit", "animal", "--folds", "3", *SOME)
    assert told["over"] == "unit"


def test_a_method_that_fails_is_named_with_its_reason(here, capsys, monkeypatch):
    def diverges(*_, **__):
        raise iq.errors.Diverged("it ran away")

    monkeypatch.setattr(iq.IQL, "fit", diverges)
    given = ["compare", "walks.csv", *QUICK, "--folds", "2", "--methods", "IAVI", "IQL"]
    told = said(capsys, *given)
    assert told["failed"] == {"IQL": "it ran away"}
    assert "IQL" not in {row["method"] for row in told["rows"]}
    assert cli.main(given) == 0
    assert "IQL failed: it ran away" in capsys.readouterr().out


def test_without_a_discount_compare_says_which_it_took(here, capsys):
    told = said(capsys, "compare", "walks.csv", *READ, "--workers", "0", "--folds", "2", *SOME)
    assert told["discount"] == 0.9
    assert any("No discount was given, and 0.9 was taken" in remark for remark in told["remarks"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*QUICK, "--folds", "61"], "from 2 to the number of episodes, 60; got 61"),
        ([*READ[:4], "--discount", "0.9"], "Name the column that tells episodes apart"),
        ([*QUICK, "--discount", "2"], "must lie in [0, 1]; got 2.0"),
        ([*QUICK, "--methods", "IAVY"], "got 'IAVY'. Did you mean 'IAVI'"),
        ([*QUICK, "--smoothing", "0"], "must be positive; got 0.0"),
        ([*QUICK, "--seed", "-2"], "-2"),
    ],
)
def test_a_comparison_that_cannot_be_is_one_clear_sentence(here, capsys, arguments, message):
    lines = (here / "walks.csv").read_text().splitlines()
    (here / "walks.csv").write_text("\n".join(line for line in lines if not line.endswith(",")))
    refused(capsys, ["compare", "walks.csv", *arguments], message)


def test_many_states_leave_out_what_plans_in_every_step():
    n = compare.SMALL + 1
    ring = iq.Demonstrations(np.arange(n), np.zeros(n, int), np.roll(np.arange(n), -1))
    fitted, left_out = compare.methods(ring, 1.0)
    assert "BoltzmannMLE" not in fitted
    assert "1,001 states" in left_out["MaxEnt"]


# -- the shell ----------------------------------------------------------------------------------


def test_an_unknown_command_is_one_sentence_with_the_nearest(capsys):
    refused(capsys, ["compere"], "got 'compere'. Did you mean 'compare'")


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_shells_complete_commands_and_options(capsys, shell):
    with pytest.raises(SystemExit) as end:
        cli.main(["--tyro-print-completion", shell])
    assert not end.value.code
    script = capsys.readouterr().out
    assert all(word in script for word in ("compare", "--next-state", "--discount"))


def test_a_log_is_fitted_in_a_process_of_its_own(here):
    command = [
        sys.executable,
        "-m",
        "inverseq",
        "fit",
        "walks.csv",
        *QUICK,
        "--uncertainty",
        "none",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert identification.verdict(iq.load("walks-iavi/solution").info).unknown in done.stdout
