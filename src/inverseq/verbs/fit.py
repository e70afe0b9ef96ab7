"""fit: read a log, recover a reward, and leave a folder that tells of it and can be made again.

The folder is a run, so that a report can be made of it: ``solution`` in it is what was found, and
``fit.json`` all that it was found with.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from inverseq._checks import as_number, as_whole
from inverseq.errors import InvalidInput, MissingExtra
from inverseq.verbs.log import Log

if TYPE_CHECKING:
    from inverseq.demonstrations import Demonstrations
    from inverseq.evaluate import Likelihood
    from inverseq.report import Block, Document
    from inverseq.solution import Solution
    from inverseq.task import Task

FORMAT = 1
KIND = "fit"
SETTINGS = "fit.json"
HELD = ("run.json", "rows.jsonl", "document.json", "solution")
"""What else lies in the folder of a fit."""
QUICK = ("IAVI", "BehaviouralCloning")
"""What is fitted so quickly that its uncertainty is measured without being asked for."""


@dataclass(frozen=True)
class Fit:
    """What to fit to a log.

    >>> Fit(discount=0.9).algorithm
    'iavi'
    """

    algorithm: str = "iavi"
    """iavi, iql, cloning, boltzmann-mle, maxent, deep-maxent or diql."""
    discount: float | None = None
    """How much less a reward is worth one step later, in [0, 1]. It must be said: a log hardly
    tells it."""
    gauge: str | None = None
    """Which of the many rewards: uniform, state-only, zero, or reference:ACTION."""
    set: tuple[str, ...] = ()
    """Settings of the algorithm as name=value, such as iterations=20000 or smoothing.k=0.1."""
    constrain: tuple[str, ...] = ()
    """Hard constraints as FILE.py:NAME. It runs the file, so name only your own. NAME is a list of
    forbidden pairs (state, action); a function of states and actions to costs, above 0 forbidden;
    or a Constraint."""
    uncertainty: Literal["auto", "delta", "bootstrap", "none"] = "auto"
    """How to measure what chance did: auto measures where it is quick, by what holds there."""
    replications: int = 200
    """How often the bootstrap fits again."""
    seed: int = 0
    """The seed of all that chance has a part in."""


@dataclass(frozen=True)
class Kept:
    """All that a fit was made with: what ``fit.json`` holds."""

    path: Path
    """The log."""
    sha256: str
    """Its fingerprint."""
    log: Log
    """How it was read."""
    fit: Fit
    """What was fitted."""
    command: str = ""
    """The command that did it."""

    def plain(self) -> dict[str, Any]:
        """As data that JSON can hold."""
        return {
            "format": FORMAT,
            "command": self.command,
            "log": str(self.path),
            "sha256": self.sha256,
            "columns": self.log.plain(),
            "fit": asdict(self.fit),
        }

    @classmethod
    def load(cls, file: Path) -> Kept:
        """Read a settings file; somebody may have edited it."""
        if not file.is_file():
            raise InvalidInput(f"`--settings` must name a file such as RUN/fit.json; got {file}.")
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
            known = {field.name for field in fields(Fit)} | {field.name for field in fields(Log)}
            unknown = [name for name in (*data["fit"], *data["columns"]) if name not in known]
            if int(data["format"]) > FORMAT:
                raise InvalidInput(
                    f"{file} was written by a newer version of inverseq (format {data['format']}; "
                    f"this one knows {FORMAT}). Update inverseq to read it."
                )
            if unknown:
                raise InvalidInput(f"{file} must hold settings of a fit; {unknown[0]!r} is none.")
            given: Any = data["fit"].items()
            given = {k: tuple(v) if isinstance(v, list) else v for k, v in given}
            log, fit = Log.from_plain(data["columns"]), Fit(**given)
            check_texts(log, file)
            check_texts(fit, file)
            return cls(Path(data["log"]), str(data["sha256"]), log, fit, str(data["command"]))
        except InvalidInput:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidInput(
                f"{file} must be the fit.json of a fit; it is not ({type(error).__name__}: "
                f"{error}). Fit again, or name another file."
            ) from error


def check_texts(settings: Log | Fit, file: Path) -> None:
    """Raise unless what is text by default is text, or was left out, and lists are of text."""
    for field in fields(settings):
        given, default = getattr(settings, field.name), field.default
        if isinstance(default, tuple):
            right = isinstance(given, tuple) and all(isinstance(each, str) for each in given)
        elif isinstance(default, str):
            right = isinstance(given, str)
        elif default is None and field.name != "discount":
            right = given is None or isinstance(given, str)
        else:
            continue  # numbers are checked where they are used
        if not right:
            what = "a list of text" if isinstance(default, tuple) else "text"
            raise InvalidInput(f"`{field.name}` of {file} must be {what}; got {given!r}.")


@dataclass(frozen=True, eq=False)
class Result:
    """What came out of a fit."""

    folder: Path
    report: Path | None
    """The page; None where what draws it is not installed."""
    path: Path
    """The log."""
    seen: Demonstrations
    found: Solution
    scores: dict[str, Likelihood]
    remarks: tuple[str, ...]
    """What a reader must know, in sentences."""

    def plain(self) -> dict[str, Any]:
        """As data that JSON can hold."""
        from inverseq import identification
        from inverseq.solution import plain
        from inverseq.verbs import scores

        info, reading, said = self.found.info, self.seen.reading, identification.verdict
        spread = self.found.uncertainty
        return {
            "run": str(self.folder),
            "report": None if self.report is None else str(self.report),
            "algorithm": info.algorithm,
            "gauge": info.gauge,
            "discount": info.task["discount"],
            "constraints": info.task["constraints"],
            "converged": info.converged,
            "steps": len(self.seen),
            "dropped": 0 if reading is None else reading.dropped,
            "verdict": asdict(said(info)),
            "uncertainty": None if spread is None else spread.method,
            "rows": [plain(scores.plain(*row)) for row in self.scores.items()],
            "remarks": list(self.remarks),
        }


def run(
    path: Path,
    log: Log,
    settings: Fit,
    out: Path,
    *,
    command: str = "",
    before: str = "",
    workers: int | None = None,
    progress: bool | None = None,
) -> Result:
    """Read, fit, measure, and write the folder: whole, or not at all.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     csv = Path(folder, "log.csv")
    ...     rows = ["e,s,a", "1,home,go", "1,port,back", "1,home,go", "2,home,go", "2,port,back"]
    ...     _ = csv.write_text("\\n".join(rows))
    ...     log = Log(state=("s",), action=("a",), episode="e")
    ...     result = run(csv, log, Fit(discount=0.9), Path(folder, "run"), workers=0)
    ...     print(result.found, result.folder.name, (result.folder / "fit.json").is_file())
    Solution(IAVI: 2 states, 2 actions, gauge Uniform()) run True

    Args:
        path: The log.
        log: How to read it.
        settings: What to fit.
        out: The folder to write.
        command: The command that does it again, for the record.
        before: The fingerprint that the log had, where a fit is done again.
        workers: How many processes measure uncertainty; 0 is this one, None one for each core.
        progress: None shows a bar on a terminal.
    """
    from inverseq.io import storage
    from inverseq.verbs import scores

    began = time.perf_counter()
    settings = checked(settings)
    storage.check_replaceable(out.resolve(), KIND, HELD)
    storage_parent(out)
    remarks: list[str] = []
    with heard(remarks):
        seen = log.read(path)
        task = task_of(seen, settings)
        found, why = answer(seen, task, settings, workers, progress)
    mark = fingerprint(path)
    if before and mark != before:
        remarks.append(f"{path.name} has changed since the settings were written.")
    if why:
        remarks.append(why)
    remarks += said_of_states(found)
    taken = scores.taken(seen, found.n_actions)
    explained = scores.scores(found, seen, taken)
    if found.constrained:
        remarks.append(said_of_rules(found, seen, task))
    kept = Kept(path.resolve(), mark, log, settings, command)
    whole = document(path, seen, found, explained, remarks)
    rows = [scores.plain(*row) for row in explained.items()]
    seconds = time.perf_counter() - began
    record = kept.plain() | {"taken": taken.tolist()}
    page = write(out, kept, record, found, whole, rows, seconds)
    if page is None:
        remarks.append("A report needs Jinja2: `pip install 'inverseq[report]'`, then report.")
    return Result(out, page, path, seen, found, explained, tuple(remarks))


def checked(settings: Fit) -> Fit:
    """The settings, if they can be used: said before the log is read, which may be long."""
    from inverseq.verbs import algorithms, rules

    if settings.discount is None:
        raise InvalidInput(
            "`--discount` must be given, such as --discount 0.9: how much less a reward is worth "
            "one step later. A log hardly tells it, and no value is right for all."
        )
    if not 0 <= as_number(settings.discount) <= 1:
        raise InvalidInput(f"`--discount` must lie in [0, 1]; got {settings.discount!r}.")
    if as_whole(settings.seed) < 0:
        raise InvalidInput(f"`--seed` must be an integer from 0; got {settings.seed!r}.")
    if as_whole(settings.replications) < 2:
        raise InvalidInput(f"`--replications` must be at least 2; got {settings.replications!r}.")
    algorithms.made(settings.algorithm, settings.set)
    placed = []
    for text in settings.constrain:
        file, name = rules.parts(text)
        placed.append(f"{file.resolve()}:{name}")
    return replace(settings, constrain=tuple(placed))


def storage_parent(out: Path) -> None:
    """Raise where the folder could not be made, before the work."""
    for above in out.resolve().parents:
        if above.exists():
            if not above.is_dir():
                raise InvalidInput(f"`--out` must be a folder; {above} is a file.")
            return


def task_of(seen: Demonstrations, settings: Fit) -> Task:
    """What is assumed: the log's states, actions and names, the discount and the constraints."""
    from inverseq.verbs import rules

    assert settings.discount is not None
    return rules.constrained(seen.task(settings.discount), settings.constrain)


@contextmanager
def heard(remarks: list[str]) -> Iterator[None]:
    """Collect warnings in place of printing them, each once."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield
    remarks += dict.fromkeys(str(each.message) for each in said)


def answer(
    seen: Demonstrations, task: Task, settings: Fit, workers: int | None, progress: bool | None
) -> tuple[Solution, str]:
    """What is found, and why its uncertainty was not measured, where it was not."""
    from inverseq import uncertainty
    from inverseq.demonstrations import tabulated
    from inverseq.verbs import algorithms

    algorithm = algorithms.made(settings.algorithm, settings.set)
    if seen.tabular and seen.histories is not None and settings.algorithm == "iavi":
        if any(text.startswith("smoothing") for text in settings.set):
            raise InvalidInput(
                "`--set smoothing` must be left out with `--history`: counts of histories lean on "
                "those of shorter ones. Without `--history` it smooths the counts of states."
            )
        algorithm = replace(algorithm, smoothing=seen.smoothing)
    if not seen.tabular and settings.algorithm not in algorithms.FOR_ROWS:
        raise InvalidInput(
            f"`--algorithm` must be one of {' and '.join(algorithms.FOR_ROWS)} where states are "
            f"rows of numbers; got {settings.algorithm!r}. For a table, give `--state` columns of "
            f"integers or text."
        )
    gauge, name = None, type(algorithm).__name__
    if settings.gauge is not None and name == "DIQL":
        algorithm = algorithms.made("diql", (*settings.set, f"gauge={settings.gauge}"))
    elif settings.gauge is not None:
        gauge = algorithms.gauge_of(settings.gauge, seen.labels, task.n_actions)
        if not seen.tabular:
            raise InvalidInput(
                f"`--gauge` must be left out for {settings.algorithm} where states are rows of "
                f"numbers; got {settings.gauge!r}."
            )
    if gauge is not None and name == "IAVI":
        algorithm, gauge = replace(algorithm, gauge=gauge), None
    asked, why = settings.uncertainty, ""
    if asked == "auto" and not seen.tabular:
        asked = "none"
        why = "Uncertainty was not measured: it is for states of a table."
    elif asked == "auto" and name not in QUICK:
        asked = "none"
        why = (
            f"Uncertainty was not measured: {name} would be fitted "
            f"{settings.replications} times. Ask for it by `--uncertainty bootstrap`."
        )
    if asked != "none":
        try:
            found = uncertainty.fit(
                algorithm,
                seen,
                task,
                method=asked,
                replications=settings.replications,
                gauge=gauge,
                seed=settings.seed,
                workers=workers,
                progress=progress,
            )
        except InvalidInput as error:
            if asked != "auto":
                raise
            why = f"Uncertainty was not measured: {error}"
        else:
            return found, ""
    found = algorithm.fit(seen, task, seed=settings.seed, progress=progress)
    if gauge is not None:
        found = found.regauge(gauge, tabulated(seen, task)[0])
    return found, why


def said_of_states(found: Solution) -> list[str]:
    """How many states say little."""
    from inverseq.solution import HARDLY, Tables

    if not isinstance(found.found, Tables) or found.scarce is None or found.visited is None:
        return []
    never, scarce = int((~found.visited).sum()), int((found.scarce & found.visited).sum())
    said = []
    if never:
        said.append(
            f"In {never:,} of {len(found.scarce):,} states nothing was ever seen to be done."
        )
    if scarce:
        said.append(
            f"{scarce:,} of {len(found.scarce):,} states were seen fewer than {HARDLY} times: what "
            f"stands there is mostly chance."
        )
    return said


def said_of_rules(found: Solution, seen: Demonstrations, task: Task) -> str:
    """What the constraints forbid of what was done."""
    from inverseq import evaluate

    broken = evaluate.violations(seen, task).chosen
    names = ", ".join(found.info.task["constraints"])
    return (
        f"Constrained by {names}: the policy never does what {broken:,} of {len(seen):,} steps of "
        f"the log did. The reward is that of the log, without constraints."
    )


def fingerprint(path: Path) -> str:
    """The SHA-256 of a log: of a file, or of the files of a folder with their names."""
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    inside = sorted(file for file in path.rglob("*") if file.is_file())
    parts = [f"{file.relative_to(path)} {fingerprint(file)}\n" for file in inside]
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def document(
    path: Path,
    seen: Demonstrations,
    found: Solution,
    explained: dict[str, Likelihood],
    remarks: Sequence[str],
) -> Document:
    """What a report says of a fit."""
    from inverseq.report import Document, Section, Text, tell
    from inverseq.verbs import scores, show

    info = found.info
    states = f"{len(found.tables.q):,} states" if seen.tabular else "states that are rows"
    lead = (
        f"What {info.algorithm} found in {path.name}: the reward that explains {len(seen):,} steps "
        f"of {seen.n_episodes:,} episodes, in {states} with {found.n_actions} actions, at a "
        f"discount of {info.task['discount']:g}."
    )
    inside = Text(
        "These are the steps that it was fitted to. How well it foretells others is said by "
        "`inverseq compare LOG` and `inverseq evaluate RUN HELDOUT`."
    )
    blocks: list[Block] = [Text(remark) for remark in remarks]
    blocks += [
        Section("What was found", tell(found)),
        Section("How well it explains the log", [scores.table(explained, IN_SAMPLE), inside]),
        Section("What is in the log", show.tables(seen, path.name)),
    ]
    return Document(f"{path.stem}: {info.algorithm}", lead, blocks)


IN_SAMPLE = "How likely its own steps are"


def write(
    out: Path,
    kept: Kept,
    record: dict[str, Any],
    found: Solution,
    whole: Document,
    rows: Any,
    seconds: float,
) -> Path | None:
    """The folder, in one go; and its page, where that can be drawn."""
    from inverseq.io import storage
    from inverseq.report import Run, save_run, write_report

    with storage.replaced(out) as folder:
        found.save(folder / "solution")
        text = json.dumps(kept.plain(), indent=1)
        storage.write_file(folder / SETTINGS, text.encode())
        run = Run(
            KIND, whole, rows, record, kept.command, kept.fit.seed, seconds, found.info.versions
        )
        save_run(folder, run)
        try:
            write_report(folder)
        except MissingExtra:
            return None
    return out / storage.REPORT
