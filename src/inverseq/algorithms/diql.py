"""DIQL and DCIQL: Deep (Constrained) Inverse Q-learning (Kalweit et al. 2020, Algorithms 2 and 4).

Tabular inverse Q-learning with networks in place of tables: a classifier of actions in place of
counts, and slowly following copies in whatever is a target. Each minibatch moves the classifier,
the shifted values, the reward and the action values a little, and, on a task with constraints,
action values whose next action must be safe. In the zero gauge the classifier alone says what the
reward is, and only the constrained values are bootstrapped.

Equations: ``log_boltzmann``, ``shifted_target``, ``advantage``, ``reward_target`` (or
``closed_form_reward``), ``action_value_target``, ``value``; the loop is `inverseq.training`. Needs:
samples, of a table or of rows of numbers; JAX (``inverseq[deep]``).
Departures from the paper: 11, 12 and 25 to 28 in ``docs/departures.md``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Literal

import numpy as np

from inverseq import equations, gauges, training
from inverseq._checks import check_choice, check_kind, shaped
from inverseq.demonstrations import Demonstrations
from inverseq.errors import InvalidInput
from inverseq.gauges import Zero
from inverseq.nets import MLP, Network, Params
from inverseq.shapes import Array
from inverseq.solution import Info, Solution, plain
from inverseq.task import Task
from inverseq.training import Apply, Batch, Collect, Problem, Trained, Verdict, Watch


@dataclass(frozen=True)
class Rule:
    """What an iteration of Algorithm 2 or 4 minimises."""

    discount: float
    temperature: float
    least: float
    """The paper's epsilon."""
    constrained: bool
    double: bool
    centred: bool
    zero: bool
    given: bool
    """Whether log-probabilities are given, so that there is no classifier."""

    @property
    def names(self) -> tuple[str, ...]:
        """The classifier, then the networks that have target copies."""
        classifier = [] if self.given else ["rho"]
        learned = [] if self.zero else ["r", "q_sh"]
        values = [] if self.zero else ["q"]
        values += ["q_c"] if self.constrained else []
        return (*classifier, *learned, *training.twins(values, self.double))

    @property
    def followed(self) -> int:
        """The classifier has no target copy."""
        return 0 if self.given else 1

    def judge(self, apply: Apply, params: Params, target: Params, batch: Batch) -> Verdict:
        """Algorithm 4, which is Algorithm 2 where nothing is forbidden."""
        gamma, ended, a = self.discount, batch["terminated"], batch["actions"]
        out = apply(params, batch["states"])
        log_pi, log_rho = self._log_pi(out[: self.followed], batch, "")
        verdicts = [] if self.given else [training.classification(log_rho, a, batch["weights"])]
        likely = training.chosen(log_pi, a) > self.temperature * np.log(self.least)
        followed = self.names[self.followed :]
        aims: dict[str, Array] = {}
        if self.zero:
            ahead = (
                () if self.given else apply(training.part(params, slice(1)), batch["next_states"])
            )
            log_pi_next, _ = self._log_pi(ahead, batch, "_next")
            m = equations.value(log_pi_next, batch["available_next"])
            q_sh = equations.shifted_target(gamma, ended, m)
            r = equations.advantage(training.chosen(log_pi, a), q_sh)
            after = apply(target, batch["next_states"]) if followed else ()
        else:
            r_here, q_sh = apply(training.part(target, slice(2)), batch["states"])
            r = training.chosen(r_here, a)
            after = apply(training.part(target, slice(2, None)), batch["next_states"])
            eta, available = equations.advantage(log_pi, q_sh), batch["available"]
            y = (
                equations.closed_form_reward(eta, available)
                if self.centred
                else equations.reward_target(eta, r_here, available)
            )
            own = training.chosen(out[self.followed], a)
            # An action that is hardly ever taken says nothing of its reward.
            aims["r"] = own + likely * (training.chosen(y, a) - own)
        q_next = training.smallest(after, [n for n in followed if n not in ("r", "q_sh")])
        if "q" in q_next:
            v = equations.value(q_next["q"], batch["available_next"])
            aims["q_sh"] = equations.shifted_target(gamma, ended, v)
            aims["q"] = equations.action_value_target(r, gamma, ended, v)
        if "q_c" in q_next:
            v = equations.value(q_next["q_c"], batch["safe_next"])
            aims["q_c"] = equations.action_value_target(r, gamma, ended, v)
        if followed:
            done = training.chosen(out[self.followed :], a)
            goals = training.aimed(followed, aims)
            verdicts += [training.regression(done, goals, batch["weights"])]
        return training.together(*verdicts)

    def _log_pi(self, logits: Any, batch: Batch, end: str) -> tuple[Array, Array]:
        """Log-probabilities in units of the temperature, clipped, and as the classifier has them.

        Where the policy is given they are the same.
        """
        if self.given:
            return batch["log_pi" + end], batch["log_pi" + end]
        log_rho = equations.log_boltzmann(logits[0], batch["available" + end])
        space = log_rho.__array_namespace__()
        clipped = space.maximum(log_rho, np.log(self.least).astype(log_rho.dtype))
        return self.temperature * training.fixed(clipped), log_rho


@dataclass(frozen=True, eq=False, kw_only=True)
class DIQL(Trained):
    """Deep Inverse Q-learning; on a task with constraints, Deep Constrained Inverse Q-learning.

    >>> import inverseq as iq
    >>> world = iq.worlds.gridworld(3, wind=0.1)
    >>> seen = world.demonstrations(500, 8, seed=0)
    >>> found = DIQL(iterations=4_000).fit(seen, world.task)
    >>> exact = iq.IAVI().fit(seen, world.task)
    >>> bool(abs(found.policy_table - exact.policy_table).max() < 0.1)
    True
    """

    network: Network = field(default_factory=lambda: MLP(activation="tanh"))
    """The architecture of every network. Outputs that are bounded where there are no samples keep
    values from running away; of rectified units they are not."""
    tau: float = 0.01
    """By which share the target networks follow in an iteration."""
    double: bool = False
    """Clipped double Q: two networks for the action values, of which targets take the smaller."""
    gauge: Literal["learned", "zero"] = "learned"
    """Which of the many rewards: "learned" as in the paper, where each state keeps an offset that
    depends on the path; "zero" needs the classifier alone, and no reward network."""
    centred: bool = True
    """Give each state's rewards mean zero. The paper does not, and then the offsets of states drift
    with whatever values are extrapolated to actions that were never taken, and values with them."""
    policy: np.ndarray | Callable[[Any], Any] | None = None
    """The demonstrator's policy, where it is known: a table (S, A), or a function from a batch of
    states to probabilities (batch, A). None learns a classifier."""
    least: float = 1e-4
    """The paper's epsilon: log-probabilities are clipped at its logarithm, and the reward of an
    action is learned only where it is more probable."""

    def __post_init__(self) -> None:
        super().__post_init__()
        training.check_following(self)
        check_kind(self.centred, bool, "DIQL.centred")
        check_choice(self.gauge, ("learned", "zero"), "DIQL.gauge")
        if not 0 < float(self.least) < 1:
            raise InvalidInput(f"`DIQL.least` must lie between 0 and 1; got {self.least!r}.")

    @classmethod
    def paper(cls, **changes: Any) -> DIQL:
        """The appendix: learning rate and tau 1e-4, rectified units, 1e5 iterations, not centred.

        >>> DIQL.paper().tau
        0.0001
        """
        plainly = cls(
            network=MLP(), learning_rate=1e-4, tau=1e-4, iterations=100_000, centred=False
        )
        return replace(plainly, **changes)

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
        """Over a fixed batch, or one that grows by what ``collect`` returns.

        Args:
            demonstrations: What was seen; with ``collect``, what is there to begin with.
            task: What is assumed; no model is needed.
            seed: Of the first parameters and the minibatches.
            progress: Whether to show a bar; None shows it on a terminal.
            checkpoint: A folder to keep the run in, and to go on from.
            log: A file for a line of JSON of each chunk.
            tensorboard: A folder for TensorBoard.
            collect: Asked every ``collect_every`` iterations for further demonstrations, given the
                solution so far; None from it ends the asking.
        """
        began = time.perf_counter()
        problem = Problem(demonstrations, task, self)
        if self.gauge == "zero" and self.policy is not None and not problem.tabular:
            raise InvalidInput(
                "`DIQL.policy` must be None in the zero gauge where states are rows of numbers: "
                'there the classifier is the answer. Learn it, or use `gauge="learned"`.'
            )
        rule = Rule(
            task.discount,
            task.temperature,
            float(self.least),
            constrained=problem.binds(collect is not None),
            double=self.double,
            centred=self.centred,
            zero=self.gauge == "zero",
            given=self.policy is not None,
        )
        if not rule.names:
            raise InvalidInput(
                "`DIQL` must have something to learn; in the zero gauge a given policy says it all "
                "where nothing is forbidden. Use `IAVI(gauge=Zero()).solve(policy, task)`."
            )
        watch = Watch(progress, checkpoint, log, tensorboard, collect)
        outcome = training.train(
            rule, problem, self._columns(problem), self.tau, seed, watch, self._solution
        )
        return self._solution(problem, *outcome).timed(time.perf_counter() - began)

    def _columns(self, problem: Problem) -> Callable[[Demonstrations], dict[str, np.ndarray]]:
        """Columns of demonstrations, with the given log-probabilities where there are some."""

        def columns(seen: Demonstrations) -> dict[str, np.ndarray]:
            found = problem.columns(seen)
            if self.policy is not None:
                found["log_pi"] = self._given(problem, seen.states)
                if self.gauge == "zero":
                    found["log_pi_next"] = self._given(problem, problem.follows(seen))
            return found

        return columns

    def _given(self, problem: Problem, states: np.ndarray) -> np.ndarray:
        """The given policy's log-probabilities, clipped, in units of the temperature."""
        task, policy = problem.task, self.policy
        if callable(policy):
            pi = shaped(policy(states), (len(states), task.n_actions), "DIQL.policy", float)
        elif problem.visits is None:
            raise InvalidInput(
                "`DIQL.policy` must be a function of states where they are rows of numbers; it is "
                "a table."
            )
        else:
            pi = shaped(policy, problem.visits.shape, "DIQL.policy", float)[states]
        log_pi = np.log(np.maximum(pi, self.least))
        return np.asarray(task.temperature * log_pi, problem.dtype)

    def _solution(self, problem: Problem, params: dict[str, Params], info: Info) -> Solution:
        named = {NAMES[name]: net for name, net in params.items() if name in NAMES}
        info = replace(info, settings=plain(self), gauge=self._gauge)
        if "q" in named:
            named.pop("policy", None)
        elif problem.tabular:
            return self._zero(problem, named, info)
        return problem.solution(named, info)

    def _zero(self, problem: Problem, named: dict[str, Params], info: Info) -> Solution:
        """In the zero gauge of a table the reward is a formula of the policy."""
        task = problem.task
        available = task.available_table()
        assert problem.visits is not None
        if "policy" in named:
            logits = problem.evaluate(named["policy"])
            log_pi = task.temperature * equations.log_boltzmann(logits, available)
        else:
            log_pi = self._given(problem, np.arange(len(problem.visits))).astype(float)
        log_pi = np.where(available, log_pi, 0.0)
        visited = problem.visits.sum(axis=1) > 0
        free = task.unconstrained()
        found = gauges.recover(log_pi, free, Zero(), weights=problem.visits, visited=visited)
        said = {"reward": found.reward, "q": found.q}
        if "q_constrained" in named:
            said["q_constrained"] = problem.evaluate(named["q_constrained"])
        return training.tabulated(said, task, problem.visits, problem.safe, info)

    @property
    def _gauge(self) -> str:
        if self.gauge == "zero":
            return repr(Zero())
        return "Uniform()" if self.centred else "that of its path"


NAMES = {"rho": "policy", "r": "reward", "q": "q", "q_c": "q_constrained"}
"""What a solution calls the networks that it keeps."""

DCIQL = DIQL
