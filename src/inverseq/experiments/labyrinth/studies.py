"""What is computed: a job each, from plain data to rows of results.

Every score is causal: that of a step depends on the states up to it, and on nothing that follows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from inverseq import evaluate
from inverseq.algorithms import IAVI, IQL, BehaviouralCloning, BoltzmannMLE, MaxEnt
from inverseq.demonstrations import Additive, Demonstrations
from inverseq.errors import InverseqWarning
from inverseq.experiments.labyrinth.data import LEFT, OUT, Log, Maze, read
from inverseq.history import BackOff, Histories
from inverseq.solution import Solution
from inverseq.task import Constraint, Task
from inverseq.worlds import World

Row = dict[str, Any]
Fit = Callable[[Demonstrations, Task], Solution]

SMOOTHING = Additive(1.0)
"""Of every table of nodes: Laplace's, which the data card used."""
STRENGTH = 4.0
"""Of the ladder's longer histories: the data card's."""
WINDOW, STRIDE = 50, 10
"""Pieces of bouts for maximum entropy, which looks at the first steps of an episode most."""
HARDLY = 30
"""Fewer visits leave a reward hardly known."""


@lru_cache(maxsize=2)
def opened(folder: str, contents: str) -> Log:
    """The recordings of a job; ``contents`` names what was in the files."""
    return read(Path(folder))


def log_of(job: dict[str, Any]) -> Log:
    """The recordings of a job."""
    return opened(job["data"], job["contents"])


# -- scores --------------------------------------------------------------------------------------


def tally(
    policy: np.ndarray, scored: Demonstrations, available: np.ndarray, animals: np.ndarray
) -> dict[str, list[float]]:
    """For each animal: steps, the sum of their log-likelihoods, and both where there was a choice.

    >>> seen = Demonstrations([0, 1], [0, 1], [1, 0])
    >>> can = np.array([[True, False], [True, True]])
    >>> tally(np.array([[1.0, 0.0], [0.5, 0.5]]), seen, can, np.array(["A", "A"]))
    {'A': [2, -0.693..., 1, -0.693...]}
    """
    each = evaluate.log_probabilities(policy, scored)
    choice = available.sum(axis=1)[scored.states] > 1
    return {
        str(who): [
            int(own.sum()), float(each[own].sum()),
            int((own & choice).sum()), float(each[own & choice].sum()),
        ]
        for who in np.unique(animals)
        for own in [animals == who]
    }  # fmt: skip


def described(job: dict[str, Any]) -> list[Row]:
    """How much there is: steps, and what may count as independent."""
    log = log_of(job)
    seen = log.seen
    assert seen.units is not None
    pairs = {(int(unit), str(who)) for unit, who in zip(seen.units, log.animals, strict=True)}
    trajectories = len(np.unique(seen.units))
    choice = log.maze.available.sum(axis=1)[seen.states] > 1
    return [
        row("log", "", None, steps=len(seen), steps_choice=int(choice.sum()),
            trajectories=trajectories, shared=len(pairs) - trajectories,
            animals=len(np.unique(log.animals)), bouts=seen.n_episodes, nodes=len(log.maze))
    ]  # fmt: skip


def row(experiment: str, method: str, fold: int | None, **values: Any) -> Row:
    """A result with the names that every row has; None where one does not apply."""
    return {"experiment": experiment, "method": method, "fold": fold, **values}


# -- the ladder of count tables, and what must be read beside it ---------------------------------


def ladder(job: dict[str, Any]) -> list[Row]:
    """Uniform, frequencies, and count tables with 0, 1, 2, 3 previous nodes, on a fold."""
    train, test = log_of(job).fold(job["fold"], job["folds"])
    task = train.maze.task(job["discount"])
    available = train.maze.available
    visits = counted(train.seen, task)
    overall = np.broadcast_to(visits.sum(axis=0), visits.shape)
    tables = {
        "uniform over legal moves": task.uniform,
        "frequencies of actions": SMOOTHING.policy(overall, available),
        "counts: node": SMOOTHING.policy(visits, available),
    }
    rows = [
        row("ladder", name, job["fold"], animals=tally(policy, test.seen, available, test.animals))
        for name, policy in tables.items()
    ]
    for length in (1, 2, 3):
        augmented, histories = train.seen.with_history(length, len(train.maze))
        table, over = back_off(BackOff(histories, STRENGTH), augmented, task)
        scored = histories.encode(test.seen)
        animals = tally(table, scored, over.available_table(), test.animals)
        rows.append(
            row("ladder", f"counts: node + {length} previous", job["fold"], animals=animals)
        )
    return rows


def counted(seen: Demonstrations, task: Task) -> np.ndarray:
    """The visits of each pair."""
    return seen.counts(task.n_states, task.n_actions).visits


def back_off(smoothing: BackOff, augmented: Demonstrations, task: Task) -> tuple[np.ndarray, Task]:
    """The count table of histories, and the task over them."""
    over = smoothing.histories.task(task)
    return smoothing.policy(counted(augmented, over), over.available_table()), over


# -- rewards of the node -------------------------------------------------------------------------


def pieces(seen: Demonstrations, length: int, stride: int) -> Demonstrations:
    """Each episode cut into pieces that begin every ``stride`` steps and overlap.

    >>> pieces(Demonstrations([0, 1, 2], [0] * 3, [1, 2, 3]), length=2, stride=1).states
    array([0, 1, 1, 2, 2])
    """
    lengths = np.diff(seen.starts, append=len(seen))
    since = np.arange(len(seen)) - np.repeat(seen.starts, lengths)
    left = np.repeat(lengths, lengths) - since
    begins = np.flatnonzero(since % stride == 0)
    n = np.minimum(left[begins], length)
    rows = np.repeat(begins - np.cumsum(n) + n, n) + np.arange(n.sum())
    return Demonstrations(
        seen.states[rows], seen.actions[rows], seen.next_states[rows],
        terminated=seen.terminated[rows], episodes=np.repeat(np.arange(len(begins)), n),
    )  # fmt: skip


def cloned(seen: Demonstrations, task: Task) -> Solution:
    """Behavioural cloning: the node row itself."""
    return BehaviouralCloning(prior=SMOOTHING.k).fit(seen, task, progress=False)


def closed_form(seen: Demonstrations, task: Task) -> Solution:
    """IAVI in the paper's gauge."""
    return IAVI(smoothing=SMOOTHING).fit(seen, task, progress=False)


def sampled(seen: Demonstrations, task: Task) -> Solution:
    """IQL with its decaying rates."""
    return IQL(smoothing=SMOOTHING).fit(seen, task, progress=False)


def entropic(seen: Demonstrations, task: Task) -> Solution:
    """MaxEnt in its causal form, one feature for each node."""
    learner = MaxEnt(causal=True, solver="lbfgs", max_iterations=500)
    return learner.fit(pieces(seen, WINDOW, STRIDE), task, progress=False)


def entropic_by_bout(seen: Demonstrations, task: Task) -> Solution:
    """The same on whole bouts, of which the discount leaves the first steps."""
    learner = MaxEnt(causal=True, solver="lbfgs", horizon=WINDOW, max_iterations=500)
    return learner.fit(seen, task, progress=False)


def climbed(seen: Demonstrations, task: Task) -> Solution:
    """BoltzmannMLE, one feature for each node."""
    return BoltzmannMLE(ridge=0.1).fit(seen, task, progress=False)


SINGLE: dict[str, Fit] = {
    "behavioural cloning": cloned,
    "IAVI": closed_form,
    "IQL": sampled,
    "MaxEnt, causal": entropic,
    "BoltzmannMLE": climbed,
    "MaxEnt, causal, whole bouts": entropic_by_bout,
}


def fitted(fit: Fit, seen: Demonstrations, task: Task) -> tuple[Solution, float]:
    """A solution and its seconds; that it did not converge is said in its row."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InverseqWarning)
        found = fit(seen, task)
    return found, time.perf_counter() - began


def single(job: dict[str, Any]) -> list[Row]:
    """A reward of the node alone, on a fold."""
    train, test = log_of(job).fold(job["fold"], job["folds"])
    task = train.maze.task(job["discount"])
    found, seconds = fitted(SINGLE[job["method"]], train.seen, task)
    animals = tally(found.policy_table, test.seen, train.maze.available, test.animals)
    converged = found.info.converged
    return [
        row("single", job["method"], job["fold"], animals=animals, seconds=seconds,
            converged=converged)
    ]  # fmt: skip


# -- rewards of histories ------------------------------------------------------------------------


def augmented(job: dict[str, Any]) -> list[Row]:
    """IAVI on histories; their length and strength are given, or chosen on the training part."""
    train, test = log_of(job).fold(job["fold"], job["folds"])
    task = train.maze.task(job["discount"])
    began = time.perf_counter()
    if job["length"] is None:
        grids = {"lengths": job["lengths"], "strengths": job["strengths"]}
        smoothing = BackOff.chosen(train.seen, task, **grids, folds=job["inner"])
        name = "IAVI, node + history, chosen"
    else:
        histories = Histories.of(train.seen, job["length"], len(train.maze))
        smoothing = BackOff(histories, STRENGTH)
        name = f"IAVI, node + {job['length']} previous"
    histories = smoothing.histories
    seen = histories.encode(train.seen)
    table, over = back_off(smoothing, seen, task)
    found = IAVI(smoothing=smoothing).fit(seen, over, progress=False)
    seconds = time.perf_counter() - began
    scored = histories.encode(test.seen)
    return [
        row(
            "history", name, job["fold"], seconds=seconds, converged=found.info.converged,
            animals=tally(found.policy_table, scored, over.available_table(), test.animals),
            table=tally(table, scored, over.available_table(), test.animals),
            off_table=float(np.abs(found.policy_table - table).max()),
            length=histories.length, strength=smoothing.strength, histories=len(histories),
            unseen=float(histories.unseen(test.seen).mean()),
        )
    ]  # fmt: skip


# -- the water port, and the maze ----------------------------------------------------------------


def port(job: dict[str, Any]) -> list[Row]:
    """The rank of the port among the end nodes, by the reward for entering; for some animal."""
    log = log_of(job)
    who = job["animal"]
    log = log if who is None else log.select(log.animals == who)
    task = log.maze.task(job["discount"])
    reward = closed_form(log.seen, task).reward_table
    entering = reward[log.maze.into(log.maze.ends)]
    visits = counted(log.seen, task)[log.maze.into(log.maze.ends)]
    at = int(np.flatnonzero(log.maze.ends == log.maze.port)[0])
    return [
        row("port", "IAVI", None, animal=who, discount=job["discount"], of=len(entering),
            rank=rank(entering, at), rank_visits=rank(visits, at), steps=len(log.seen))
    ]  # fmt: skip


def rank(values: np.ndarray, of: int) -> int:
    """The place of an entry from above; those that tie share the worst of theirs.

    >>> rank(np.array([3.0, 1.0, 3.0]), 0)
    2
    """
    return int((values >= values[of]).sum())


def drawn(job: dict[str, Any]) -> list[Row]:
    """What the maze is drawn with: rewards and visits of every node."""
    log = log_of(job)
    task = log.maze.task(job["discount"])
    inner = np.arange(1, len(log.maze))
    entering = closed_form(log.seen, task).reward_table[log.maze.into(inner)]
    state, _ = fitted(climbed, log.seen, task)
    return [
        row("maze", "IAVI", None, discount=job["discount"], entering=[None, *entering.tolist()],
            state=state.reward_table[:, OUT].tolist(),
            visits=np.bincount(log.seen.states, minlength=len(log.maze)).tolist(),
            xy=log.maze.xy.tolist(), parent=log.maze.parent.tolist(), port=log.maze.port)
    ]  # fmt: skip


# -- a branch that is closed ---------------------------------------------------------------------


def closing(maze: Maze, root: int) -> Constraint:
    """Do not enter the branch that begins at a node."""
    cost = np.zeros((len(maze), 3))
    cost[maze.into([root])] = 1.0
    return Constraint(cost, 0.5, f"do not enter the branch of node {root}")


def masked(policy: np.ndarray, safe: np.ndarray) -> np.ndarray:
    """What a policy does among what is safe, in the same proportions.

    >>> masked(np.array([[0.2, 0.3, 0.5]]), np.array([[True, True, False]]))
    array([[0.4, 0.6, 0. ]])
    """
    left = np.where(safe, policy, 0.0)
    return np.asarray(left / left.sum(axis=1, keepdims=True))


def forbidden(job: dict[str, Any]) -> list[Row]:
    """A branch is closed: what is done there, and how likely the rest of the held-out steps is."""
    train, test = log_of(job).fold(job["fold"], job["folds"])
    maze = train.maze
    free = maze.task(job["discount"])
    rule = closing(maze, job["branch"])
    smoothing = BackOff(Histories.of(train.seen, job["length"], len(maze)), job["strength"])
    inside = maze.branch(job["branch"])
    plans: dict[str, tuple[Histories, Fit, bool]] = {}
    alone = Histories.of(train.seen, 0, len(maze))
    learners: dict[str, Fit] = {"IAVI": closed_form}
    if job["sampled"]:
        learners["IQL"] = sampled
    for name, fit in learners.items():
        constrained = "CIQL" if name == "IQL" else f"{name}, constrained"
        plans[constrained] = (alone, fit, False)
    plans["cloning, masked"] = (alone, cloned, True)

    def with_history(seen: Demonstrations, task: Task) -> Solution:
        return IAVI(smoothing=smoothing).fit(seen, task, progress=False)

    previous = f"{job['length']} previous"
    plans[f"IAVI, node + {previous}, constrained"] = (smoothing.histories, with_history, False)
    plans[f"counts, node + {previous}, masked"] = (smoothing.histories, with_history, True)

    # Off the branch: where the animal was, and what it did, is open to who obeys.
    entering = rule.cost[test.seen.states, test.seen.actions] > 0  # type: ignore[index]
    judged = ~inside[test.seen.states] & ~entering
    untouched = judged & ~np.asarray(rule.cost)[test.seen.states].any(axis=1)
    rows = []
    for name, (histories, fit, only_mask) in plans.items():
        task = histories.task(free)
        bound = task.constrain(closing_histories(rule, histories))
        seen = histories.encode(train.seen)
        found, seconds = fitted(fit, seen, task if only_mask else bound)
        policy, safe = found.policy_table, bound.safe(np.arange(len(histories)))
        policy = masked(policy, safe) if only_mask else policy
        unbound = found.predict_proba(np.arange(len(histories)), constrained=False)
        visits = simulated(policy, bound, histories.states, job["steps"], job["fold"])
        scored, available = histories.encode(test.seen), task.available_table()
        where = {"judged": judged, "untouched": untouched}
        rows.append(
            row(
                "forbidden", name, job["fold"], branch=job["branch"], seconds=seconds,
                simulated=int(visits.sum()), inside=int(visits[inside].sum()),
                held_out_inside=int(inside[test.seen.states].sum()),
                **{
                    f"{place}_{kind}": tally(table, scored.select(rows_), available,
                                             test.animals[rows_])
                    for place, rows_ in where.items()
                    for kind, table in (("bound", policy), ("free", unbound))
                },
            )
        )  # fmt: skip
    return rows


def closing_histories(rule: Constraint, histories: Histories) -> Constraint:
    """The rule for states with their history."""
    cost = np.asarray(rule.cost)[histories.states]
    return Constraint(cost, rule.threshold, rule.name)


def simulated(
    policy: np.ndarray, task: Task, states: np.ndarray, steps: int, seed: int
) -> np.ndarray:
    """How many steps begin at each node, (N,), in bouts of up to 1,000 from the entrance."""
    n = len(policy)
    world = World(task, np.zeros(n), np.zeros((n, 1)), "labyrinth")
    visits, turn = np.zeros(int(states.max()) + 1, np.int64), 0
    while visits.sum() < steps:
        seen = world.demonstrations(1_000, 1_000, policy, seed=1_000 * seed + turn)
        visits += np.bincount(states[seen.states], minlength=len(visits))
        turn += 1
    return visits


# -- few data ------------------------------------------------------------------------------------


def structure(maze: Maze) -> np.ndarray:
    """Features of a move, (N, 3, K): what it is, and where it leads."""
    led = np.where((maze.leads < 0) | (maze.leads == maze.home), 0, maze.leads)
    home = maze.leads == maze.home
    n = len(maze)
    columns = [
        np.where(home, -1, maze.depth[led]),
        maze.xy[led, 0],
        maze.xy[led, 1],
        maze.distance(maze.port)[led] + home,
        np.isin(led, maze.ends),
        home,
        *(np.broadcast_to(np.arange(3) == action, (n, 3)) for action in (LEFT, OUT)),
    ]
    phi = np.stack([np.asarray(column, float) for column in columns], axis=-1)
    return np.where(maze.available[..., None], phi, 0.0)


def few(job: dict[str, Any]) -> list[Row]:
    """Learn from the first bouts of each animal, and foretell those after the ones all may see.

    Either one policy of all animals together, or one of each animal alone.
    """
    log = log_of(job)
    train = log.select(log.bouts < job["bouts"])
    test = log.select(log.bouts >= job["most"])
    task, available = log.maze.task(job["discount"]), log.maze.available
    groups = np.unique(test.animals) if job["alone"] else [None]
    animals: dict[str, list[float]] = {}
    seconds = 0.0
    for who in groups:
        own = train if who is None else train.select(train.animals == who)
        asked = test if who is None else test.select(test.animals == who)
        began = time.perf_counter()
        policy, histories = few_policy(job, own, task)
        seconds += time.perf_counter() - began
        scored = histories.encode(asked.seen)
        animals |= tally(policy, scored, available[histories.states], asked.animals)
    return [
        row("few", job["method"], None, bouts=job["bouts"], alone=job["alone"], animals=animals,
            seconds=seconds, trained_on=len(train.seen))
    ]  # fmt: skip


def few_policy(job: dict[str, Any], log: Log, task: Task) -> tuple[np.ndarray, Histories]:
    """The policy of a method, over histories (those of length 0 are nodes)."""
    maze, seen, available = log.maze, log.seen, log.maze.available
    alone, method = Histories.of(seen, 0, len(maze)), job["method"]
    visits = counted(seen, task)
    if method in FEW_TABLES:
        return Additive(FEW_TABLES[method]).policy(visits, available), alone
    if method == "uniform over legal moves":
        return task.uniform, alone
    if method == "counts: depth":
        by_depth = np.zeros((int(maze.depth.max()) + 1, 3))
        np.add.at(by_depth, maze.depth, visits)
        return SMOOTHING.policy(by_depth[maze.depth], available), alone
    if method in FEW_REWARDS:
        ridge, deviation = FEW_REWARDS[method]
        learner = BoltzmannMLE(features=structure(maze), ridge=ridge, deviation=deviation)

        def fit(seen: Demonstrations, task: Task) -> Solution:
            return learner.fit(seen, task, progress=False)

        return fitted(fit, seen, task)[0].policy_table, alone
    if method in FEW_TURNS:
        return turning(seen, task, maze, FEW_TURNS[method])
    by_bout = Demonstrations(
        seen.states, seen.actions, seen.next_states, terminated=seen.terminated,
        episodes=seen.episodes,
    )  # fmt: skip
    if by_bout.n_episodes < 2:
        # With one bout there is nothing to hold out.
        smoothing = BackOff(Histories.of(seen, 1, len(maze)), STRENGTH)
    else:
        grids = {"lengths": job["lengths"], "strengths": job["strengths"]}
        inner = min(job["inner"], by_bout.n_episodes)
        smoothing = BackOff.chosen(by_bout, task, **grids, folds=inner)
    augmented = smoothing.histories.encode(seen)
    return back_off(smoothing, augmented, task)[0], smoothing.histories


def turning(
    seen: Demonstrations, task: Task, maze: Maze, ridge: float
) -> tuple[np.ndarray, Histories]:
    """A reward of turns: of the move, of where it leads, and of where the animal came from."""
    s, a = np.nonzero(maze.available)
    led = maze.leads[s, a]
    every = Demonstrations(s, a, led, terminated=led == maze.home, episodes=np.arange(len(s)))
    histories = Histories.of(every, 1, len(maze))
    now, previous = histories.symbols.T
    came = (maze.leads[now] == previous[:, None]) & (previous >= 0)[:, None]
    came = np.concatenate([came, ~came.any(axis=1, keepdims=True)], axis=1)
    turns = came[:, None, :, None] & np.eye(3, dtype=bool)[:, None]
    available = maze.available[now]
    turns = (turns & available[..., None, None]).reshape(*available.shape, -1)
    phi = np.concatenate([structure(maze)[now], turns], axis=-1)
    learner = BoltzmannMLE(features=phi, ridge=ridge, deviation=None)

    def fit(seen: Demonstrations, task: Task) -> Solution:
        return learner.fit(seen, task, progress=False)

    found, _ = fitted(fit, histories.encode(seen), histories.task(task))
    return found.policy_table, histories


FEW_TABLES = {
    "counts: node, hardly smoothed": 0.01,
    "counts: node": 1.0,
    "counts: node, strongly smoothed": 10.0,
}
"""Visits added to each legal action."""
FEW_REWARDS: dict[str, tuple[float, float | None]] = {
    "BoltzmannMLE, features": (1.0, None),
    "BoltzmannMLE, features, strong prior": (10.0, None),
    "BoltzmannMLE, features, nodes may deviate": (10.0, 10.0),
}
"""The priors of weights, and of each node's deviation; None lets none deviate."""
FEW_TURNS = {
    "BoltzmannMLE, turns": 1.0,
    "BoltzmannMLE, turns, strong prior": 10.0,
}
"""The priors of weights of features of turns."""
CHOSEN = "counts: node + history, chosen"
FEW = (
    *("uniform over legal moves", "counts: depth", *FEW_TABLES, *FEW_REWARDS, *FEW_TURNS),
    CHOSEN,
)
"""What learns from few bouts."""
