"""DQN and CDQN: (Constrained) deep Q-learning on a known reward.

The forward problem from samples: a network of action values moves towards what was paid and the
discounted best value of what followed, as a slow copy of it sees that. On a task with constraints a
second one takes the best *safe* value of what followed (Kalweit et al. 2020, "Interpretable
Multi-Time-Scale Constraints"). Here they make experts, and baselines that know the reward.

Equations: ``action_value_target``, ``value``; the loop is `inverseq.training`. Needs: samples with
rewards, or a reward; JAX (``inverseq[deep]``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from inverseq import equations, training
from inverseq._checks import shaped
from inverseq.demonstrations import Demonstrations
from inverseq.errors import InvalidInput
from inverseq.nets import Params
from inverseq.shapes import Array
from inverseq.solution import Info, Solution, plain
from inverseq.task import Task
from inverseq.training import Apply, Batch, Collect, Problem, Trained, Verdict, Watch


@dataclass(frozen=True)
class Rule:
    """What an iteration minimises."""

    discount: float
    constrained: bool
    double: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The action values, and those among what is safe."""
        return training.twins(["q", "q_c"] if self.constrained else ["q"], self.double)

    @property
    def followed(self) -> int:
        """All of them have target copies."""
        return 0

    def judge(self, apply: Apply, params: Params, target: Params, batch: Batch) -> Verdict:
        """Deep Q-learning, with constrained values beside the free ones."""
        paid, gamma, ended = batch["rewards"], self.discount, batch["terminated"]
        q_next = training.smallest(apply(target, batch["next_states"]), self.names)
        masks = {"q": batch["available_next"], "q_c": batch["safe_next"]}
        aims: dict[str, Array] = {}
        for name, q in q_next.items():
            v = equations.value(q, masks[name])
            aims[name] = equations.action_value_target(paid, gamma, ended, v)
        done = training.chosen(apply(params, batch["states"]), batch["actions"])
        return training.regression(done, training.aimed(self.names, aims), batch["weights"])


@dataclass(frozen=True, eq=False, kw_only=True)
class DQN(Trained):
    """Deep Q-learning; on a task with constraints, Constrained deep Q-learning.

    >>> import inverseq as iq
    >>> world = iq.worlds.gridworld(3, wind=0.1)
    >>> seen = world.demonstrations(500, 8, policy=world.task.uniform, seed=0)
    >>> learned = DQN(iterations=6_000, reward=world.reward).fit(seen, world.task)
    >>> best = iq.planning.solve(world.reward, world.task)
    >>> bool(abs(learned.value_table - best.v).max() < 0.3)
    True
    """

    tau: float = 0.01
    """By which share the target networks follow in an iteration."""
    double: bool = False
    """Clipped double Q: two networks for the action values, of which targets take the smaller."""
    reward: np.ndarray | Callable[[Any, Any, Any], Any] | None = None
    """The reward, if the demonstrations do not hold it: a table (S,) or (S, A), or a function of
    states, actions and next states, as `Solution.reward_of` is one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        training.check_following(self)

    def fit(
        self,
        demonstrations: Demonstrations,
        task: Task,
        *,
        seed: int = 0,
        progress: bool | None = None,
        checkpoint: str | PathLike[str] | None = None,
        log: str | PathLike[str] | None = None,
        tensorboard: str | PathLike[str] | None = None,
        collect: Collect | None = None,
    ) -> Solution:
        """Over a fixed batch, or one that grows by what ``collect`` returns; as `DIQL.fit`."""
        began = time.perf_counter()
        problem = Problem(demonstrations, task, self)

        def columns(seen: Demonstrations) -> dict[str, np.ndarray]:
            return problem.columns(seen) | {"rewards": self._paid(problem, seen)}

        rule = Rule(task.discount, problem.binds(collect is not None), self.double)
        watch = Watch(progress, checkpoint, log, tensorboard, collect)
        outcome = training.train(rule, problem, columns, self.tau, seed, watch, self._solution)
        return self._solution(problem, *outcome).timed(time.perf_counter() - began)

    def _paid(self, problem: Problem, seen: Demonstrations) -> np.ndarray:
        """What was paid for each step."""
        n, follows = len(seen), problem.follows(seen)
        if self.reward is None:
            if seen.rewards is None:
                raise InvalidInput(
                    "`DQN` must know what was paid: the demonstrations hold no rewards. Give "
                    "`Demonstrations(rewards=...)` or `DQN(reward=...)`."
                )
            paid = seen.rewards
        elif callable(self.reward):
            given = self.reward(seen.states, seen.actions, follows)
            paid = shaped(given, (n,), "DQN.reward", float)
        elif problem.visits is None:
            raise InvalidInput(
                "`DQN.reward` must be a function where states are rows of numbers; it is a table."
            )
        else:
            table = np.asarray(self.reward, dtype=float)
            table = (
                np.repeat(table[:, None], problem.task.n_actions, 1) if table.ndim == 1 else table
            )
            paid = shaped(table, problem.visits.shape, "DQN.reward", float)[
                seen.states, seen.actions
            ]
        wrong = np.flatnonzero(~np.isfinite(paid))
        if wrong.size:
            raise InvalidInput(f"`DQN.reward` must be finite; that of step {wrong[0]} is not.")
        return np.asarray(paid, problem.dtype)

    def _solution(self, problem: Problem, params: dict[str, Params], info: Info) -> Solution:
        info = replace(info, settings=plain(self), gauge="the given reward")
        named = {NAMES[name]: net for name, net in params.items() if name in NAMES}
        if not problem.tabular:
            return problem.solution(named, info)
        seen, visits = problem.seen, problem.visits
        assert visits is not None
        total = np.zeros(visits.shape)
        paid = self._paid(problem, seen) * seen.step_weights
        np.add.at(total, (seen.states, seen.actions), paid)
        said = {name: problem.evaluate(net) for name, net in named.items()}
        said["reward"] = total / np.where(visits > 0, visits, 1.0)
        return training.tabulated(said, problem.task, visits, problem.safe, info)


NAMES = {"q": "q", "q_c": "q_constrained"}
"""What a solution calls the networks that it keeps."""

CDQN = DQN
