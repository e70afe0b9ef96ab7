"""The command line: what it prints, what it writes, and how it refuses."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import inverseq
from inverseq import cli
from inverseq.report import load_run

SMALL = ["demo", "--size", "8", "--objects", "6", "--episodes", "400", "--block", "2"]


def run(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "inverseq", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "100"},
    )


def test_help_names_every_command_and_says_what_the_program_is_for(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["--help"])
    said = capsys.readouterr().out
    assert end.value.code == 0
    assert "demonstrations" in said
    assert all(name in said for name in cli.COMMANDS)
    assert "--version" in said


def test_help_of_a_command_explains_every_option(capsys):
    with pytest.raises(SystemExit):
        cli.main(["demo", "--help"])
    said = capsys.readouterr().out
    for option in ("size", "objects", "episodes", "length", "block", "discount", "seed", "out"):
        assert f"--{option} " in said
    assert "--json" in said


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == inverseq.__version__ + "\n"


def test_demo_prints_a_table_and_writes_a_report_a_picture_and_solutions(tmp_path, capsys):
    assert cli.main([*SMALL, "--epochs", "20", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[-1].endswith(str(tmp_path / "out" / "report.html"))
    assert all(word in said for word in ("IAVI", "IQL", "CIQL", "EVD", "rule broken", "maps.png"))
    assert (tmp_path / "out" / "maps.png").read_bytes().startswith(b"\x89PNG")
    ruled = inverseq.load(tmp_path / "out" / "ciql")
    assert ruled.info.task["constraints"] == ["no entry"]


def test_the_run_of_the_demo_holds_what_it_printed(tmp_path, capsys):
    out = tmp_path / "out"
    assert cli.main([*SMALL, "--epochs", "5", "--out", str(out), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    run = load_run(out)
    assert printed["report"] == str(out / "report.html")
    assert list(run.rows) == printed["rows"]
    assert (run.kind, run.seed, run.settings["block"]) == ("demo", 0, 2)
    assert run.command.startswith("inverseq demo --size 8 --objects 6 --episodes 400 --block 2")
    sections = [block.title for block in run.document.blocks]
    assert sections == ["Results", "Maps", "IAVI", "IAVI, state gauge", "IQL", "CIQL"]


def test_report_makes_a_page_of_a_run_and_of_a_solution(tmp_path, capsys):
    out = tmp_path / "out"
    assert cli.main([*SMALL, "--epochs", "5", "--out", str(out)]) == 0
    first = (out / "report.html").read_bytes()
    (out / "report.html").unlink()
    capsys.readouterr()
    assert cli.main(["report", str(out)]) == 0
    assert capsys.readouterr().out == f"{out / 'report.html'}\n"
    assert (out / "report.html").read_bytes() == first

    page = tmp_path / "ciql.html"
    arguments = ["report", str(out / "ciql"), "--shape", "8", "8", "--out", str(page), "--json"]
    assert cli.main(arguments) == 0
    assert json.loads(capsys.readouterr().out) == {"report": str(page)}
    assert "policy under the constraints" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "must have a saved run (a folder with run.json) or a saved solution"),
        (["found", "--shape", "3", "3"], "grid with 2 cells, one for each state; 3 x 3 are 9"),
        (["found", "--shape", "-1", "-2"], "-1 x -2"),
        (["found", "--out", "."], "`out` must be a file, such as report.html; . is a folder"),
    ],
)
def test_a_report_that_cannot_be_made_is_one_clear_sentence(
    tmp_path, capsys, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    ring = np.stack([np.eye(2), np.eye(2)[::-1]], axis=1)
    task = inverseq.Task(2, 0.9, transitions=ring)
    inverseq.IAVI().solve(np.full((2, 2), 0.5), task).save("found")
    assert cli.main(["report", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("inverseq: ")
    assert message in said.err
    assert not (tmp_path / "found" / "report.html").exists()


def test_demo_as_json_keeps_the_rule_and_recovers_the_reward(tmp_path, capsys):
    assert cli.main([*SMALL, "--out", str(tmp_path / "out"), "--json"]) == 0
    rows = {row["method"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows["CIQL"]["chosen"] == 0
    # The expert does enter the block, so that the rule has something to forbid.
    assert rows["IQL"]["chosen"] > 0
    assert rows["CIQL"]["evd"] > rows["IQL"]["evd"]
    assert rows["IAVI, state gauge"]["reward_correlation"] > 0.7
    assert abs(rows["IAVI"]["evd_squared"] - rows["IQL"]["evd_squared"]) < 0.01


def test_same_seed_same_results_but_for_the_time(tmp_path, capsys):
    seen = []
    for name in ("one", "two"):
        cli.main([*SMALL, "--epochs", "5", "--out", str(tmp_path / name), "--json"])
        rows = json.loads(capsys.readouterr().out)["rows"]
        seen.append([{k: v for k, v in row.items() if k != "seconds"} for row in rows])
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--size", "0"], "`size`"),
        (["--objects", "65"], "65"),
        (["--block", "8"], "`block` must be at least 1 and smaller than the world, 8 x 8; got 8"),
        (["--episodes", "0"], "`episodes` and `length` must be at least 1; got 0 and 8"),
        (["--discount", "1.5"], "1.5"),
        (["--discount", "1"], "`Task.discount` may be 1 only where"),
        (["--epochs", "0"], "`IQL.epochs` must be an integer of at least 1; got 0"),
        (["--seed", "-1"], "-1"),
        (["--episodes", "1000000000000"], "at most 100,000,000 steps"),
        (["--length", "100000000000"], "400 times 100,000,000,000. Make fewer or shorter ones"),
        (["--size", "10000000"], "got 10,000,000 × 10,000,000. Make the grid smaller."),
    ],
)
def test_bad_input_is_one_clear_sentence_and_exit_code_2(tmp_path, capsys, arguments, message):
    assert cli.main([*SMALL, *arguments, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("inverseq: ")
    assert message in said.err
    assert "Traceback" not in said.err
    assert not (tmp_path / "out").exists()


def test_what_does_not_fit_into_memory_is_one_clear_sentence_and_exit_code_2(
    tmp_path, capsys, monkeypatch
):
    def too_large(*_):
        raise MemoryError("Unable to allocate 7 TiB")

    monkeypatch.setattr(inverseq.IQL, "_pass", too_large)
    assert cli.main([*SMALL, "--out", str(tmp_path / "out")]) == 2
    said = "inverseq: this does not fit into memory (Unable to allocate 7 TiB); ask for less.\n"
    assert capsys.readouterr().err == said


def test_a_file_in_the_place_of_the_results_is_refused_before_the_work(
    tmp_path, capsys, monkeypatch
):
    def too_late(*_, **__):
        raise AssertionError

    monkeypatch.setattr(inverseq.IAVI, "fit", too_late)
    (tmp_path / "file").write_text("not a folder")
    for out in (tmp_path / "file", tmp_path / "file" / "deep" / "out"):
        assert cli.main([*SMALL, "--out", str(out)]) == 2
        assert f"`out` must be a folder; {tmp_path / 'file'} is a file" in capsys.readouterr().err


def test_an_unknown_option_or_command_is_refused_with_exit_code_2():
    for arguments in (["demo", "--sizes", "3"], ["fly"], ["demo", "--size", "many"]):
        refused = run(*arguments)
        assert refused.returncode == 2
        assert "Traceback" not in refused.stderr + refused.stdout


def test_a_place_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    refused = run(*SMALL, "--epochs", "2", "--out", str(tmp_path / "file" / "out"))
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
    assert "file" in refused.stderr


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    command = f"{sys.executable} -m inverseq demo --help | head -n 1"
    gone = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in gone.stderr
    assert "Exception" not in gone.stderr


def test_an_interruption_ends_cleanly_and_leaves_nothing_half_written(
    tmp_path, capsys, monkeypatch
):
    def interrupted(*_):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(inverseq.IQL, "_pass", interrupted)
    assert cli.main([*SMALL, "--out", str(tmp_path / "out")]) == 130
    assert capsys.readouterr().err == "inverseq: interrupted\n"
    assert not (tmp_path / "out").exists()


QUICK = ["reproduce", "objectworld", "--quick", "--only", "online", "--size", "6", "--objects", "6"]


def test_reproduce_prints_rows_that_machines_read(tmp_path, capsys):
    given = [*QUICK, "--workers", "0", "--out", str(tmp_path), "--json"]
    assert cli.main(given) == 0
    said = json.loads(capsys.readouterr().out)
    assert {row["experiment"] for row in said["rows"]} == {"online"}
    names = {"experiment", "method", "world", "trajectories", "evd", "evd_squared"}
    names |= {"reward_correlation", "seconds", "iterations", "converged"}
    assert all(set(row) == names for row in said["rows"])
    assert (tmp_path / "report.html").is_file()


def test_reproduce_ends_with_where_its_report_is(tmp_path, capsys):
    assert cli.main([*QUICK, "--workers", "0", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[-1].endswith(str(tmp_path / "report.html"))


def test_reproduce_knows_what_there_is_to_reproduce(tmp_path):
    refused = run("reproduce", "labyrinths", cwd=tmp_path)
    assert refused.returncode == 2
    assert "objectworld" in refused.stderr + refused.stdout
    refused = run("reproduce", "objectworld", "--only", "tabel", cwd=tmp_path)
    assert refused.returncode == 2
    assert "`only` must name some of" in refused.stderr
    assert not list(tmp_path.iterdir())
