"""Gymnasium: demonstrations from its environments, solutions tried out there, rewards served there.

Actions must be discrete. Discrete observations are the states of a table, boxes are rows of
numbers, all else is flattened; see `inverseq.io.spaces`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from inverseq._checks import as_array, as_number, as_whole, check_kind
from inverseq._random import generator
from inverseq.demonstrations import Demonstrations, amount, per_step
from inverseq.errors import InvalidInput
from inverseq.io.spaces import Spaces, make, need_gymnasium
from inverseq.task import Task

PARALLEL = 16
"""How many environments run side by side, so that a policy is asked once for all of them."""
LONGEST = 100_000
"""An episode of so many steps, that nobody limits, is taken to be one without an end."""


def record(
    env: Any,
    policy: Any,
    episodes: int,
    *,
    seed: Any,
    max_steps: int | None = None,
    units: Any = None,
    explore: float = 0.0,
    sample: bool = False,
) -> Demonstrations:
    """What a policy does in an environment of Gymnasium, with the rewards that it is paid.

    Only a true end is recorded as one (``terminated``); where a time limit or ``max_steps`` cuts an
    episode, it merely stops. Every episode has a seed of its own, drawn from ``seed``: the first
    episodes of a longer recording are those of a shorter one.

    >>> record("FrozenLake-v1", "random", episodes=3, seed=0)
    Demonstrations(13 steps in 3 episodes, 3 states, 4 actions, 3 ends, rewarded)

    Args:
        env: The id of an environment or a function that makes one, of which several then run side
            by side; or an environment, which plays one episode after another and is not closed.
        policy: A Solution, whose `predict` decides; a function from a batch of states to their
            actions; or "random".
        episodes: How many.
        seed: An integer; the same seed gives the same episodes.
        max_steps: Where to cut an episode, if not where the environment does so.
        units: Who acted: one label for each episode, or one for all.
        explore: With which probability a step is taken at random instead.
        sample: Draw actions from the probabilities (batch, actions) of `predict_proba`, or of the
            function, instead of taking the best.
    """
    with opened(env, episodes) as (envs, spaces):
        if units is not None:
            units = per_step(units, [1] * as_whole(episodes), "units")
        choose = chooser(policy, spaces.n_actions, explore, sample)
        moments = list(play(envs, spaces, choose, as_whole(episodes), seed, max_steps))
    columns = Moment(*(np.concatenate(column) for column in zip(*moments, strict=True)))
    # Each moment has one row of every episode that runs: sorted by episode they are in order.
    order = np.argsort(columns.episodes, kind="stable")
    columns = Moment(*(column[order] for column in columns))
    return Demonstrations(
        columns.states,
        columns.actions,
        columns.next_states,
        terminated=columns.terminated,
        episodes=columns.episodes,
        units=None if units is None else units[columns.episodes],
        rewards=columns.rewards,
    )


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """How a policy fared: one entry for each episode.

    >>> Evaluation(np.array([1.0, 3.0]), np.array([10, 30]), np.array([0, 1]))
    Evaluation(2 episodes, return 2 ± 1, length 20, 1 violation in 40 steps)
    """

    returns: np.ndarray
    """The sum of the rewards that the environment paid, float64 (episodes,)."""
    lengths: np.ndarray
    """How many steps there were, int64 (episodes,)."""
    violations: np.ndarray | None = None
    """How many of the chosen actions the task forbids, int64 (episodes,); None without a task."""

    def __post_init__(self) -> None:
        for name in ("returns", "lengths", "violations"):
            if getattr(self, name) is not None:
                array = np.array(getattr(self, name))
                array.flags.writeable = False
                object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.returns)

    @property
    def mean(self) -> float:
        """The mean return."""
        return float(self.returns.mean())

    @property
    def standard_error(self) -> float:
        """That of the mean return; NaN for a single episode."""
        n = len(self)
        return float(self.returns.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")

    @property
    def violation_rate(self) -> float:
        """The share of the chosen actions that the task forbids; NaN without a task."""
        if self.violations is None:
            return float("nan")
        return float(self.violations.sum() / self.lengths.sum())

    def __repr__(self) -> str:
        spread = f" ± {self.standard_error:.3g}" if len(self) > 1 else ""
        parts = [amount(len(self), "episode"), f"return {self.mean:.6g}{spread}"]
        parts += [f"length {self.lengths.mean():.6g}"]
        if self.violations is not None:
            broken = amount(int(self.violations.sum()), "violation")
            parts += [f"{broken} in {amount(int(self.lengths.sum()), 'step')}"]
        return f"Evaluation({', '.join(parts)})"


def evaluate(
    policy: Any,
    env: Any,
    episodes: int,
    *,
    seed: Any,
    task: Task | None = None,
    max_steps: int | None = None,
    sample: bool = False,
) -> Evaluation:
    """How well a policy fares in an environment of Gymnasium, by the rewards that this one pays.

    The episodes are those that `record` records with the same seed. With a ``task``, the chosen
    actions that its constraints forbid are counted: it is the task that is asked, and not what
    the policy takes to be safe.

    >>> evaluate("random", "FrozenLake-v1", episodes=100, seed=0)
    Evaluation(100 episodes, return 0.03 ± 0.0171, length 7.58)

    Args:
        policy: A Solution, a function from a batch of states to their actions, or "random".
        env: The id of an environment, a function that makes one, or an environment.
        episodes: How many.
        seed: An integer; the same seed gives the same episodes.
        task: Whose constraints are watched.
        max_steps: Where to cut an episode, if not where the environment does so.
        sample: Draw actions from the policy's probabilities instead of taking the best.
    """
    with opened(env, episodes) as (envs, spaces):
        n = as_whole(episodes)
        if task is not None:
            check_task(task, spaces)
        choose = chooser(policy, spaces.n_actions, 0.0, sample)
        returns, lengths, violations = np.zeros(n), np.zeros(n, np.int64), np.zeros(n, np.int64)
        for moment in play(envs, spaces, choose, n, seed, max_steps):
            returns[moment.episodes] += moment.rewards
            lengths[moment.episodes] += 1
            if task is not None:
                safe = task.safe(moment.states)[np.arange(len(moment.actions)), moment.actions]
                violations[moment.episodes] += ~safe
    return Evaluation(returns, lengths, None if task is None else violations)


def recovered(env: Any, solution: Any) -> Any:
    """The environment, paying the reward of a solution instead of its own.

    So that somebody else's agent can be trained on what was recovered. What the environment itself
    would have paid is ``info["true_reward"]``. In a vector environment all rewards are computed at
    once.

    >>> import gymnasium, inverseq as iq
    >>> task = task_of("FrozenLake-v1", discount=0.9)
    >>> found = iq.IAVI().fit(record("FrozenLake-v1", "random", 20, seed=0), task)
    >>> env = recovered(gymnasium.make("FrozenLake-v1"), found)
    >>> state, _ = env.reset(seed=0)
    >>> _, reward, _, _, info = env.step(2)
    >>> bool(reward == found.reward([state])[0, 2]), info["true_reward"]
    (True, 0)
    """
    gymnasium = need_gymnasium()
    from inverseq.worlds import gym_wrappers as wrappers

    if isinstance(env, gymnasium.vector.VectorEnv):
        return wrappers.RecoveredVector(env, solution)
    if not isinstance(env, gymnasium.Env):
        raise InvalidInput(
            f"`env` must be an environment of Gymnasium, to be wrapped; got {env!r:.60}. Make it "
            f"by `gymnasium.make`."
        )
    return wrappers.Recovered(env, solution)


def task_of(env: Any, discount: float) -> Task:
    """What an environment of Gymnasium says of its task.

    The number of actions; of a table the number of states, too; and where the environment holds its
    model as a table, as FrozenLake, Taxi and CliffWalking do in ``env.unwrapped.P``, the
    transitions, terminal and initial states. A time limit is no part of it.

    >>> task_of("FrozenLake-v1", discount=0.9)
    Task(16 states, 4 actions, discount 0.9, transitions known, 5 terminal)
    >>> task_of("CartPole-v1", discount=0.99)
    Task(2 actions, discount 0.99, transitions unknown)
    """
    with opened(env, 1) as (envs, spaces):
        table = table_of(envs[0], spaces)
        start = getattr(envs[0].unwrapped, "initial_state_distrib", None)
    if table is None:
        return Task(spaces.n_actions, discount, n_states=spaces.n_states)
    return modelled(table, start, spaces, discount)


# -- environments ------------------------------------------------------------------------------


@contextmanager
def opened(env: Any, episodes: Any) -> Iterator[tuple[list[Any], Spaces]]:
    """As many environments as such a number of episodes is worth; what is made here is closed."""
    gymnasium = need_gymnasium()
    if as_whole(episodes) < 1:
        raise InvalidInput(f"`episodes` must be an integer of at least 1; got {episodes!r}.")
    envs, own = ([env], False) if isinstance(env, gymnasium.Env) else ([], True)
    try:
        while own and len(envs) < min(as_whole(episodes), PARALLEL):
            envs.append(made(env))
            if envs[-1] in envs[:-1]:
                raise InvalidInput(
                    "`env` must make another environment whenever it is called; it returned the "
                    "same one again. Give the environment itself."
                )
        yield envs, Spaces.check(envs[0].observation_space, envs[0].action_space)
    finally:
        for one in envs if own else ():
            one.close()


def made(env: Any) -> Any:
    """An environment, by its id or by the function that makes it."""
    gymnasium = need_gymnasium()
    if isinstance(env, str):
        return make(env)
    one = env() if callable(env) else env
    if not isinstance(one, gymnasium.Env):
        what = "the function returned" if callable(env) else "got"
        raise InvalidInput(
            f"`env` must be an environment of Gymnasium, the id of one, or a function that makes "
            f"one; {what} {one!r:.60}."
        )
    return one


# -- playing -------------------------------------------------------------------------------------


class Moment(NamedTuple):
    """One step in every environment that runs: a row for each."""

    episodes: np.ndarray
    """Which episode it is a step of."""
    states: np.ndarray
    """Where it began."""
    actions: np.ndarray
    """What was done, numbered from 0."""
    rewards: np.ndarray
    """What the environment paid."""
    next_states: np.ndarray
    """Where it led, also where the episode is over."""
    terminated: np.ndarray
    """Whether it truly ended the episode."""


def play(
    envs: Sequence[Any],
    spaces: Spaces,
    choose: Chooser,
    episodes: int,
    seed: Any,
    max_steps: int | None,
) -> Iterator[Moment]:
    """Step by step, all environments side by side; who is done begins the next episode.

    What happens in an episode depends on its own two seeds, not on how many run beside it.
    """
    if max_steps is not None and as_whole(max_steps) < 1:
        raise InvalidInput(f"`max_steps` must be an integer of at least 1; got {max_steps!r}.")
    # One for the environment, one for the policy: they must not draw the same numbers.
    seeds = generator(seed).integers(2**31, size=(episodes, 2))

    def reset(i: int, episode: int) -> Any:
        return envs[i].reset(seed=int(seeds[episode, 0]))[0]

    def dice(episode: int) -> np.random.Generator:
        return np.random.default_rng(seeds[episode, 1])

    begun = len(envs)
    everyone = np.arange(begun)
    playing, steps, active = everyone.copy(), np.zeros(begun, int), np.ones(begun, bool)
    states = spaces.states([reset(i, i) for i in range(begun)])
    throws = [dice(i) for i in range(begun)]
    while active.any():
        running = np.flatnonzero(active)
        # Always a batch of one size, so that a policy is compiled once; who is done looks on.
        shown = states[np.where(active, everyone, running[0])]
        luck = np.zeros((len(envs), 3))
        for i in running.tolist() if choose.by_chance else ():
            luck[i] = throws[i].random(3)
        actions = choose(shown, luck)[running]
        results = [
            envs[i].step(action)
            for i, action in zip(running.tolist(), actions + spaces.first_action, strict=True)
        ]
        observations, rewards, terminated, truncated, _ = zip(*results, strict=True)
        moment = Moment(
            playing[running],
            states[running],
            actions,
            np.array(rewards, float),
            spaces.states(observations),
            np.array(terminated, bool),
        )
        check_rewards(moment, steps[running])
        yield moment
        states[running] = moment.next_states
        steps[running] += 1
        over = moment.terminated | np.array(truncated, bool)
        if max_steps is not None:
            over |= steps[running] >= max_steps
        check_end(moment, steps[running], over, max_steps)
        for i in running[over].tolist():
            if begun < episodes:
                playing[i], steps[i], throws[i] = begun, 0, dice(begun)
                states[i] = spaces.states([reset(i, begun)])[0]
                begun += 1
            else:
                active[i] = False


def check_end(moment: Moment, steps: np.ndarray, over: np.ndarray, max_steps: int | None) -> None:
    """Raise where an episode goes on and on."""
    endless = (steps >= LONGEST) & ~over
    if max_steps is None and endless.any():
        raise InvalidInput(
            f"An episode must end; episode {moment.episodes[endless.argmax()]} did not in "
            f"{LONGEST:,} steps. Give `max_steps`, after which it is cut."
        )


def check_rewards(moment: Moment, steps: np.ndarray) -> None:
    """Raise where an environment pays what is no number, naming the episode and its step."""
    wrong = ~np.isfinite(moment.rewards)
    if wrong.any():
        row = int(wrong.argmax())
        raise InvalidInput(
            f"An environment must pay finite rewards; step {steps[row]} of episode "
            f"{moment.episodes[row]} paid {moment.rewards[row]}."
        )


@dataclass(frozen=True)
class Chooser:
    """What to do in a batch of states, given luck: three numbers in [0, 1) for each of them."""

    ask: Callable[[np.ndarray], Any] | None
    """Actions, or their probabilities, of a batch of states; None is at random."""
    n_actions: int
    """How many there are."""
    explore: float
    """With which probability a step is at random instead."""
    sample: bool
    """Whether to draw from probabilities."""

    @property
    def by_chance(self) -> bool:
        """Whether luck has a part."""
        return self.ask is None or self.sample or self.explore > 0

    def __call__(self, states: np.ndarray, luck: np.ndarray) -> np.ndarray:
        """The actions, (batch,)."""
        n, n_actions = len(states), self.n_actions
        actions = np.asarray(np.minimum((luck[:, 2] * n_actions).astype(int), n_actions - 1))
        if self.ask is None:
            return actions
        if self.sample:
            chosen = drawn(self.ask(states), (n, n_actions), luck[:, 0])
        else:
            chosen = checked_actions(self.ask(states), n, n_actions)
        return np.asarray(np.where(luck[:, 1] < self.explore, actions, chosen))


def chooser(policy: Any, n_actions: int, explore: Any, sample: bool) -> Chooser:
    """From a Solution, a function, or "random"."""
    if not 0 <= as_number(explore) <= 1:
        raise InvalidInput(f"`explore` must be a probability, from 0 to 1; got {explore!r}.")
    ask = getattr(policy, "predict_proba" if sample else "predict", policy)
    if isinstance(policy, str) and policy == "random":
        ask = None
    elif not callable(ask):
        raise InvalidInput(
            f"`policy` must be a Solution, a function from a batch of states to their actions, or "
            f"'random'; got {policy!r:.60}."
        )
    return Chooser(ask, n_actions, as_number(explore), bool(sample))


def checked_actions(given: Any, n: int, n_actions: int) -> np.ndarray:
    """What a policy wants to do, if it can be done."""
    actions = as_array(given, "policy")
    right = actions.shape == (n,) and actions.dtype.kind in "iu"
    if not right or actions.min() < 0 or actions.max() >= n_actions:
        held = f", from {actions.min()} to {actions.max()}" if right else ""
        raise InvalidInput(
            f"`policy` must choose one action, an integer from 0 to {n_actions - 1}, for each of "
            f"the {n} states of a batch; it returned {actions.dtype} of shape {actions.shape}"
            f"{held}."
        )
    return actions


def drawn(given: Any, shape: tuple[int, int], luck: np.ndarray) -> np.ndarray:
    """An action of each row of probabilities; never one whose probability is 0."""
    chances = as_array(given, "policy").astype(float)
    right = chances.shape == shape and bool((chances >= 0).all())
    # A network's, in float32, miss a sum of 1 by more than rounding here would.
    if not right or not np.allclose(chances.sum(axis=1), 1, rtol=0, atol=1e-4):
        held = f"shape {chances.shape}"
        if chances.shape == shape:
            row = int((np.abs(chances.sum(axis=1) - 1) + (chances < 0).any(axis=1)).argmax())
            held = f"{chances[row].tolist()} for row {row}"
        raise InvalidInput(
            f"`policy` must give probabilities that sum to 1, of shape (states, actions) = "
            f"{shape}, to draw from; it returned {held}."
        )
    below = chances.cumsum(axis=1)
    return np.asarray((below / below[:, -1:] > luck[:, None]).argmax(axis=1))


# -- what an environment says of itself ----------------------------------------------------------


def check_task(task: Task, spaces: Spaces) -> None:
    """Raise unless a task has the actions, and the states, of an environment."""
    check_kind(task, Task, "task")
    for name in "n_actions", "n_states":
        own, theirs = getattr(task, name), getattr(spaces, name)
        if own != theirs and not (name == "n_states" and None in (own, theirs)):
            raise InvalidInput(
                f"`Task.{name}` must be that of the environment, {theirs}; it is {own}."
            )


def table_of(env: Any, spaces: Spaces) -> dict[Any, Any] | None:
    """The model that an environment holds, if it is one of the states and actions that it shows."""
    gymnasium = need_gymnasium()
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.ObservationWrapper | gymnasium.ActionWrapper):
            return None
        env = env.env
    table = getattr(env, "P", None)
    shown = spaces.n_states is not None and spaces.observation.start == spaces.first_action == 0
    if not shown or not isinstance(table, dict) or set(table) != set(range(spaces.n_states or 0)):
        return None
    return table


def modelled(table: dict[Any, Any], start: Any, spaces: Spaces, discount: float) -> Task:
    """The task of a table: in a state, after an action, lists of (chance, state, reward, end)."""
    import scipy.sparse as sp
    from scipy.sparse.csgraph import breadth_first_order

    n = len(table)
    outcomes = [
        (s, a, chance, after, end)
        for s, actions in table.items()
        for a, follows in actions.items()
        for chance, after, _, end in follows
        if chance > 0
    ]
    s, a, chance, after, end = (np.array(column) for column in zip(*outcomes, strict=True))
    # A state is terminal if it is only ever entered at the end of an episode: going on from where
    # episodes begin, which may be anywhere, one never comes to it. Other ends have a column.
    first = np.flatnonzero(np.ones(n) if start is None else start)
    row, column = np.append(s[~end], np.full(len(first), n)), np.append(after[~end], first)
    goes_on = sp.csr_array((np.ones(len(row)), (row, column)), shape=(n + 1, n + 1))
    terminal = np.zeros(n + 1, bool)
    terminal[after[end]] = True
    terminal[breadth_first_order(goes_on, n, return_predecessors=False)] = False
    after = np.where(end & ~terminal[after], n, after)
    transitions = [
        sp.csr_array((chance[a == i], (s[a == i], after[a == i])), shape=(n, n + 1))
        for i in range(spaces.n_actions)
    ]
    return Task(
        spaces.n_actions,
        discount,
        transitions=transitions,
        terminal=terminal[:n] if terminal.any() else None,
        initial=start,
    )
