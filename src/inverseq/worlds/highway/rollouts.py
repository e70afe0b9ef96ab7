"""Episodes of many scenarios, driven side by side in processes of their own.

Each process has one simulation, so that there are as many at a time as there are processes. An
episode depends on its scenario and its policy alone. So one whose process dies is driven again by
another, and what comes out is the same however many processes there were and whatever befell them.
"""

from __future__ import annotations

import pickle
import signal
import threading
import traceback
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

import numpy as np

from inverseq._checks import as_whole, check_kind
from inverseq._progress import track
from inverseq._random import generator
from inverseq.demonstrations import Demonstrations
from inverseq.errors import InvalidInput, SimulationFailed
from inverseq.worlds.highway.checker import check
from inverseq.worlds.highway.policies import Policy
from inverseq.worlds.highway.rules import KEEP
from inverseq.worlds.highway.traffic import Scenario

if TYPE_CHECKING:
    from inverseq.worlds.highway.environment import Highway

ATTEMPTS = 3
"""After so many deaths in one episode it is the episode's fault."""


@dataclass(frozen=True, eq=False)
class Rollouts:
    """What happened in some scenarios, one row for each, in their order."""

    scenarios: tuple[Scenario, ...]
    """Where it happened."""
    states: np.ndarray
    """Observations, float32 (episodes, decisions + 1, 131); after the last an episode was cut."""
    requested: np.ndarray
    """What the policy asked for, (episodes, decisions)."""
    actions: np.ndarray
    """What was done: the lane was kept where what was asked for was not safe, and where another car
    came into the gap in the same moment."""
    rewards: np.ndarray
    """What was paid, (episodes, decisions)."""
    speeds: np.ndarray
    """The ego's speed after each decision, in m/s, (episodes, decisions)."""
    keep_right: np.ndarray
    """Decisions against the rule to keep right, counted by `check` from positions, (episodes,).
    What is not safe cannot be decided: whoever asks for it decides to keep the lane."""
    safety: np.ndarray
    """Changes of lanes that were not safe, counted likewise, (episodes,)."""
    collisions: np.ndarray
    """Decisions in which SUMO or `check` found a collision of anybody, (episodes,)."""

    def demonstrations(self) -> Demonstrations:
        """The steps with what was done in them and what was paid, one episode for a scenario."""
        episodes, decisions = self.actions.shape
        width = self.states.shape[2]
        return Demonstrations(
            self.states[:, :-1].reshape(-1, width),
            self.actions.ravel(),
            self.states[:, 1:].reshape(-1, width),
            episodes=np.repeat(np.arange(episodes), decisions),
            rewards=self.rewards.ravel(),
        )

    def summary(self) -> dict[str, float]:
        """Mean speed and lane changes per decision; breaches and collisions in all."""
        return {
            "speed": float(self.speeds.mean()),
            "lane changes": float((self.actions != 0).mean()),
            "keep right": int(self.keep_right.sum()),
            "safety": int(self.safety.sum()),
            "collisions": int(self.collisions.sum()),
        }


def rollouts(
    scenarios: Sequence[Scenario],
    policy: Policy,
    *,
    decisions: int = 100,
    workers: int = 2,
    progress: bool | None = None,
) -> Rollouts:
    """Let a policy drive in some scenarios.

    Call it under ``if __name__ == "__main__":`` in a script: its processes import the script again.

    >>> from inverseq.worlds.highway import policies, training_scenarios
    >>> seen = rollouts(training_scenarios(2, "T1", seed=0), policies.right, decisions=5, workers=0)
    >>> seen.demonstrations()
    Demonstrations(10 steps in 2 episodes, states of shape (131,), ...)

    Args:
        scenarios: Where to drive.
        policy: Who drives; see `inverseq.worlds.highway.policies`.
        decisions: After how many an episode is cut.
        workers: How many processes; 0 drives in this one.
        progress: Whether to show a bar; on a terminal if nothing is said.
    """
    scenarios = tuple(scenarios)
    if not scenarios:
        raise InvalidInput("`scenarios` must hold at least one scenario; got none.")
    for scenario in scenarios:
        check_kind(scenario, Scenario, "scenarios")
    if as_whole(workers) < 0:
        raise InvalidInput(f"`workers` must be an integer from 0; got {workers!r}.")
    drive = Drive(policy, decisions)
    if workers:
        check_portable(policy)
    driven: dict[int, dict[str, Any]] = {}
    episodes = side_by_side(drive, scenarios, workers) if workers else in_turn(drive, scenarios)
    try:
        for _ in track(scenarios, "driving", progress):
            i, episode = next(episodes)
            driven[i] = episode
    finally:
        episodes.close()
    columns = {name: np.stack([driven[i][name] for i in range(len(driven))]) for name in driven[0]}
    return Rollouts(scenarios, **columns)


def check_portable(policy: Policy) -> None:
    """Raise unless a policy can be sent to another process."""
    try:
        pickle.dumps(policy)
    except Exception as error:
        raise InvalidInput(
            f"`policy` must be picklable to drive in other processes; got {policy!r:.60} "
            f"({error}). Use a function of a module, or `workers=0`."
        ) from None


@dataclass(frozen=True)
class Drive:
    """What a process does with a scenario."""

    policy: Policy
    decisions: int

    def environment(self) -> Highway:
        """The one environment of a process."""
        from inverseq.worlds.highway.environment import Highway

        return Highway(decisions=self.decisions)

    def episode(self, env: Highway, scenario: Scenario) -> dict[str, Any]:
        """One episode, as the columns of `Rollouts`."""
        rng = generator(scenario.seed)
        state, info = env.reset(options={"scenario": scenario})
        states, recording, decided, steps = [state], [info["positions"]], [], []
        crashes, truncated = int(info["collision"]), False
        while not truncated:
            requested = decide(self.policy, state, info["safe"], rng)
            decided.append(requested if info["safe"][requested] else KEEP)
            state, reward, _, truncated, info = env.step(requested)
            states.append(state)
            recording.append(info["positions"])
            steps.append((requested, info["executed"], reward, info["speed"]))
            crashes += info["collision"]
        breaches = check(recording, decided)
        requests, actions, rewards, speeds = map(np.array, zip(*steps, strict=True))
        return {
            "states": np.stack(states),
            "requested": requests,
            "actions": actions,
            "rewards": rewards,
            "speeds": speeds,
            "keep_right": np.array(breaches.keep_right),
            "safety": np.array(breaches.safety),
            "collisions": np.array(max(crashes, breaches.collisions)),
        }


def decide(policy: Policy, state: np.ndarray, safe: np.ndarray, rng: np.random.Generator) -> int:
    """The action that a policy names, or one drawn by its probabilities."""
    answer = np.asarray(policy(state[None], safe[None]))
    if answer.shape == (1,):
        return int(answer[0])
    if answer.shape != (1, len(safe)):
        raise InvalidInput(
            f"A policy must return actions (batch,) or probabilities (batch, {len(safe)}); for a "
            f"batch of 1 it returned shape {answer.shape}."
        )
    return int(np.searchsorted(np.cumsum(answer[0]), rng.random() * answer.sum(), side="right"))


def in_turn(drive: Drive, scenarios: Sequence[Scenario]) -> Generator[tuple[int, dict[str, Any]]]:
    """One episode after another, in this process."""
    env = drive.environment()
    try:
        for i, scenario in enumerate(scenarios):
            yield i, drive.episode(env, scenario)
    finally:
        env.close()


def side_by_side(
    drive: Drive, scenarios: Sequence[Scenario], workers: int
) -> Generator[tuple[int, dict[str, Any]]]:
    """Several episodes at a time, as they end; none is left out, and none comes twice."""
    waiting = list(enumerate(scenarios))[::-1]
    deaths: Counter[int] = Counter()
    crew: dict[Any, Worker] = {}
    try:
        while waiting or crew:
            while waiting and len(crew) < workers:
                worker = Worker(drive)
                crew[worker.connection] = worker
                worker.begin(*waiting.pop())
            for connection in wait(list(crew)):
                worker = crew[connection]
                try:
                    answer = worker.connection.recv()
                except (EOFError, OSError):
                    del crew[worker.connection]
                    worker.end()
                    deaths[worker.number] += 1
                    if deaths[worker.number] == ATTEMPTS:
                        raise SimulationFailed(
                            f"An episode must end, and {ATTEMPTS} processes died in that of "
                            f"{worker.scenario}, the last with exit code "
                            f"{worker.process.exitcode}. Drive it with `workers=0` to see why."
                        ) from None
                    waiting.append((worker.number, worker.scenario))
                    continue
                if isinstance(answer, Exception):
                    raise answer
                yield worker.number, answer
                if waiting:
                    worker.begin(*waiting.pop())
                else:
                    del crew[worker.connection]
                    worker.end()
    finally:
        for worker in crew.values():
            worker.end()


class Worker:
    """A process that drives, and the episode with which it is busy."""

    number: int
    scenario: Scenario

    def __init__(self, drive: Drive) -> None:
        # Libraries with threads of their own do not survive a fork.
        context = get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, drive), daemon=True)
        with deaf_children():
            self.process.start()
        # What is left is the end of the process alone: it closes when that dies.
        other.close()

    def begin(self, number: int, scenario: Scenario) -> None:
        """Let it drive in a scenario."""
        self.number, self.scenario = number, scenario
        # Whether it died meanwhile shows when its answer is awaited.
        with suppress(OSError):
            self.connection.send(scenario)

    def end(self) -> None:
        """Let it end, whatever it does."""
        self.process.terminate()
        self.process.join()
        self.connection.close()


def serve(connection: Connection, drive: Drive) -> None:
    """What a process does: drive in the scenarios that come, until nobody is there to ask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    env = None
    while True:
        try:
            scenario = connection.recv()
        except (EOFError, OSError):
            return
        try:
            env = env or drive.environment()
            answer: Any = drive.episode(env, scenario)
        except Exception as error:
            answer = portable(error)
        with suppress(OSError):
            connection.send(answer)


def portable(error: Exception) -> Exception:
    """The error with its history, or another that says as much, where it cannot be sent."""
    error.add_note("".join(traceback.format_exception(error)).rstrip())
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return SimulationFailed(f"A process must drive without errors. {error.__notes__[-1]}")
    return error


@contextmanager
def deaf_children() -> Iterator[None]:
    """Processes that are started meanwhile do not hear Ctrl-C: who started them ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
