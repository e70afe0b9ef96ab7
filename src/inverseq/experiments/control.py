"""Control: deep inverse Q-learning end to end on Gymnasium, with cloning and a rule beside it.

An expert is trained by deep Q-learning on the true reward; from a few of its episodes others learn
to act like it. Then a rule comes into force that the expert never had, and what it costs is
compared: learned with the rule (DCIQL), or only masked when acting.
"""

from __future__ import annotations

import itertools
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from inverseq.demonstrations import Demonstrations
from inverseq.errors import InvalidInput, InverseqWarning
from inverseq.experiments.jobs import done
from inverseq.nets import MLP
from inverseq.report import Block, Column, Document, Run, Section, Table, save_run, write_report
from inverseq.solution import Solution, load, plain
from inverseq.task import Constraint, Task

DISCOUNT = 0.99
EXPERTS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "settings": {
            "iterations": 40_000, "learning_rate": 3e-4, "batch_size": 128, "double": True,
            "collect_every": 500,
        },
        "hidden": (64, 64), "explore": (0.1, 0.1), "max_steps": None,
    },
    "LunarLander-v3": {
        "settings": {
            "iterations": 110_000, "learning_rate": 5e-4, "batch_size": 128, "double": True,
            "tau": 0.005, "collect_every": 500,
        },
        "hidden": (128, 128), "explore": (0.5, 0.05), "max_steps": 600,
    },
}  # fmt: skip
"""How the expert of each environment is trained: how its steps are explored, from the first to the
45th of its rounds of episodes, and where these are cut."""
COLLECTED = 4
"""Episodes that it plays between two chunks of its training."""
LOOKED_AT = 10
"""After so many of those it is tried out, and the best that was met is the expert."""
EPISODES = (1, 5, 20)
"""How many of its episodes are demonstrated."""
RIGHT = 1
"""The action of CartPole that pushes to the right."""
LIMIT = 0.5
"""The rule of CartPole: never push right where the cart is further right than this."""
WAVERING = 0.3
"""The share of random steps in the demonstrations where a rule is to be obeyed: what is safe is to
be planned for, and of actions that nobody ever took nothing is known."""


@dataclass(frozen=True)
class Control:
    """Gymnasium's CartPole and LunarLander: an expert, its imitators, and a rule."""

    quick: bool = False
    """CartPole only, two seeds, fewer evaluations; by the same code."""
    seeds: int = 5
    """How many seeds: each has demonstrations and parameters of its own."""
    workers: int | None = None
    """How many processes work at a time; as many as there are cores where not given."""
    out: Path = Path("runs/control")
    """The folder for results, experts and report."""

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise InvalidInput(f"`seeds` must be at least 1; got {self.seeds}.")
        if self.workers is not None and self.workers < 0:
            raise InvalidInput(f"`workers` must not be negative; got {self.workers}.")


@dataclass(frozen=True, eq=False)
class Result:
    """What came out."""

    rows: Sequence[dict[str, Any]]
    document: Document
    report: Path
    folder: Path
    seconds: float


def run(settings: Control, *, progress: bool | None = None) -> Result:
    """Compute what is not there yet, save everything, write the report."""
    began = time.perf_counter()
    environments = list(EXPERTS)[:1] if settings.quick else list(EXPERTS)
    seeds = range(2 if settings.quick else settings.seeds)
    workers = (os.cpu_count() or 1) if settings.workers is None else settings.workers
    kept = settings.out / "jobs.jsonl"
    trials = 20 if settings.quick else 50
    rows: list[dict[str, Any]] = []

    def compute(work: Any, jobs: list[dict[str, Any]], what: str) -> None:
        for found in done(work, jobs, kept, workers, f"control: {what}", progress):
            rows.extend(found)

    common = {"trials": trials, "folder": str(settings.out / "experts")}
    jobs = [{**common, "environment": name, **EXPERTS[name]} for name in environments]
    compute(expert, jobs, "experts")
    jobs = [
        {**common, "environment": name, "episodes": n, "method": method, "seed": seed}
        for name in environments for n in EPISODES for method in IMITATORS for seed in seeds
    ]  # fmt: skip
    compute(imitate, jobs, "imitators")
    jobs = [
        {**common, "environment": "CartPole-v1", "episodes": 20, "method": method, "seed": seed}
        for method in RULED for seed in seeds
    ]  # fmt: skip
    compute(obey, jobs, "a rule")
    document = told(rows, settings.quick)
    seconds = time.perf_counter() - began
    saved = Run(
        "control", document, rows, settings=plain(settings), seconds=seconds, seed=0,
        command="inverseq reproduce control" + (" --quick" if settings.quick else ""),
    )  # fmt: skip
    save_run(settings.out, saved)
    return Result(rows, document, write_report(settings.out), settings.out, seconds)


# -- what is computed ----------------------------------------------------------------------------


def expert(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Train the expert of an environment by what it meets, and keep it."""
    from inverseq.algorithms import DQN
    from inverseq.worlds import gym

    name = job["environment"]
    task, turns = gym.task_of(name, DISCOUNT), itertools.count()
    first, last = job["explore"]

    best: list[tuple[float, Solution]] = []

    def collect(found: Solution) -> Demonstrations:
        turn = next(turns)
        if turn % LOOKED_AT == 0:
            tried(found)
        explore = max(last, first + (last - first) * turn / 45)
        return gym.record(
            name, found, COLLECTED, seed=1_000 + turn, explore=explore, max_steps=job["max_steps"]
        )

    def tried(found: Solution) -> None:
        best.append((gym.evaluate(found, name, 20, seed=500).mean, found))
        best[:] = [max(best, key=lambda entry: entry[0])]

    began = time.perf_counter()
    begun = gym.record(name, "random", 50, seed=0)
    learner = DQN(**job["settings"], network=MLP(tuple(job["hidden"])))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InverseqWarning)
        tried(learner.fit(begun, task, seed=0, progress=False, collect=collect))
    found = best[0][1]
    found.save(Path(job["folder"]) / name)
    return [row(job, "expert", found, found, None, time.perf_counter() - began)]


def imitate(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Learn from some episodes of the expert."""
    from inverseq.worlds import gym

    seen, task = shown(job), gym.task_of(job["environment"], DISCOUNT)
    found, seconds = fitted(IMITATORS[job["method"]], seen, task, job["seed"])
    return [row(job, "imitation", found, found, None, seconds)]


def obey(job: dict[str, Any]) -> list[dict[str, Any]]:
    """The same under a rule."""
    from inverseq.worlds import gym

    free = gym.task_of("CartPole-v1", DISCOUNT)
    task = free.constrain(Constraint(pushes_right, 0.5, "never push right of the limit"))
    fit, masked = RULED[job["method"]]
    if fit is None:
        found, seconds = load(Path(job["folder"]) / "CartPole-v1"), 0.0
    else:
        found, seconds = fitted(fit, shown(job, WAVERING), free if masked else task, job["seed"])
    policy = (lambda x: among_safe(found, task, x)) if masked else found
    return [row(job, "rule", found, policy, task, seconds)]


def pushes_right(x: np.ndarray) -> np.ndarray:
    """The cost of the rule, (batch, 2)."""
    return np.asarray((x[:, :1] > LIMIT) & (np.arange(2) == RIGHT))


def among_safe(found: Solution, task: Task, x: np.ndarray) -> np.ndarray:
    """What is best without the rule, of what the rule allows: the rule is only in the mask."""
    q = found.predict_proba(x, constrained=False)
    return np.asarray(np.where(task.safe(x), q, -1.0).argmax(axis=1))


def shown(job: dict[str, Any], explore: float = 0.0) -> Demonstrations:
    """Episodes of the expert; other seeds see other ones."""
    from inverseq.worlds import gym

    name = job["environment"]
    found = load(Path(job["folder"]) / name)
    seed = 10_000 + job["seed"]
    return gym.record(name, found, job["episodes"], seed=seed, explore=explore)


def fitted(
    algorithm: Callable[[], Any], seen: Demonstrations, task: Task, seed: int
) -> tuple[Solution, float]:
    """A solution, and how long it took."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InverseqWarning)
        found = algorithm().fit(seen, task, seed=seed, progress=False)
    return found, found.info.seconds


def row(
    job: dict[str, Any], experiment: str, found: Solution, policy: Any, task: Task | None,
    seconds: float,
) -> dict[str, Any]:  # fmt: skip
    """How a policy fares, by the environment's own reward and the task's own rules."""
    from inverseq.worlds import gym

    name, seed = job["environment"], job.get("seed")
    fared = gym.evaluate(policy, name, job["trials"], seed=50_000 + (seed or 0), task=task)
    return {
        "experiment": experiment,
        "environment": name,
        "method": job.get("method", "expert"),
        "episodes": job.get("episodes"),
        "seed": seed,
        "return": fared.mean,
        "violations": None if fared.violations is None else int(fared.violations.sum()),
        "steps": int(fared.lengths.sum()),
        "seconds": seconds,
        "iterations": found.info.iterations,
        "converged": found.info.converged,
    }


def cloning() -> Any:
    """Behavioural cloning with its defaults."""
    from inverseq.algorithms import BehaviouralCloning

    return BehaviouralCloning()


def diql() -> Any:
    """Deep inverse Q-learning with its defaults."""
    from inverseq.algorithms import DIQL

    return DIQL()


def thorough() -> Any:
    """The same with clipped double Q, and for longer."""
    from inverseq.algorithms import DIQL

    return DIQL(double=True, iterations=60_000)


def zero() -> Any:
    """The same in the zero gauge."""
    from inverseq.algorithms import DIQL

    return DIQL(gauge="zero")


IMITATORS: dict[str, Callable[[], Any]] = {"behavioural cloning": cloning, "DIQL": diql}
RULED: dict[str, tuple[Callable[[], Any] | None, bool]] = {
    "DCIQL": (diql, False),
    "DCIQL, double Q, 60,000 iterations": (thorough, False),
    "DCIQL, zero gauge": (zero, False),
    "DIQL, masked": (diql, True),
    "behavioural cloning, masked": (cloning, True),
    "expert, masked": (None, True),
}
"""How each is fitted, and whether the rule is only a mask when acting."""


# -- what is said --------------------------------------------------------------------------------


def told(rows: Sequence[dict[str, Any]], quick: bool) -> Document:
    """Tables of means over seeds."""
    experts = {r["environment"]: r["return"] for r in rows if r["experiment"] == "expert"}
    blocks: list[Block] = [Section("Imitation", list(imitations(rows, experts)))]
    blocks.append(Section("A rule that the expert never had", [rules(rows)]))
    return Document(
        "Control: an expert imitated, and a rule obeyed",
        "Returns are the environment's own, means over seeds with the standard deviation between "
        "seeds" + (" (a quick run)." if quick else "."),
        blocks,
    )


def imitations(rows: Sequence[dict[str, Any]], experts: dict[str, float]) -> Iterator[Table]:
    """Returns against the number of episodes, one table for each environment."""
    for name, best in experts.items():
        body = []
        for method in IMITATORS:
            returns = [
                [r["return"] for r in rows
                 if (r["environment"], r["method"], r["episodes"], r["experiment"])
                 == (name, method, n, "imitation")]
                for n in EPISODES
            ]  # fmt: skip
            body.append([method, *map(spread, returns)])
        columns = [Column("method"), *(Column(f"{n} episodes", True) for n in EPISODES)]
        yield Table(columns, body, caption=f"{name}: the expert's return is {best:.1f}")


def rules(rows: Sequence[dict[str, Any]]) -> Table:
    """Returns and violations under the rule."""
    body = []
    for method in RULED:
        mine = [r for r in rows if (r["experiment"], r["method"]) == ("rule", method)]
        broken = sum(r["violations"] for r in mine)
        steps = sum(r["steps"] for r in mine)
        body.append([method, spread([r["return"] for r in mine]), f"{broken:,} of {steps:,}"])
    columns = [Column("method"), Column("return", True), Column("rule broken", True)]
    caption = (
        f"CartPole-v1, never push right where the cart is right of {LIMIT:g}; 20 episodes of an "
        f"expert {WAVERING:.0%} of whose steps are random"
    )
    return Table(columns, body, caption=caption)


def spread(numbers: Sequence[float]) -> str:
    """Mean and standard deviation."""
    deviation = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else float("nan")
    return f"{np.mean(numbers):.1f} ± {deviation:.1f}"
