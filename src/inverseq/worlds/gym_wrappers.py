"""Environments of Gymnasium that pay a recovered reward; made by `inverseq.worlds.gym.recovered`.

Only that function imports this module, because it needs Gymnasium from its first line.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from inverseq.errors import InvalidInput
from inverseq.io.spaces import Spaces


class Recovered(gymnasium.Wrapper, RecordConstructorArgs):
    """An environment that pays the reward of a solution.

    >>> import inverseq as iq
    >>> seen = iq.Demonstrations([0, 1], [0, 1], [1, 0])
    >>> found = iq.IAVI().fit(seen, iq.Task(4, 0.9, n_states=16))
    >>> Recovered(gymnasium.make("FrozenLake-v1"), found)
    <Recovered<TimeLimit<OrderEnforcing<PassiveEnvChecker<FrozenLakeEnv<FrozenLake-v1>>>>>>
    """

    def __init__(self, env: Any, solution: Any) -> None:
        # So that the environment can be made again from its `spec`; solutions do not change.
        RecordConstructorArgs.__init__(self, _disable_deepcopy=True, solution=solution)
        super().__init__(env)
        self.solution = solution
        self.spaces = spaces_for(solution, env.observation_space, env.action_space)
        self.state: np.ndarray | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """As the environment does it."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.state = self.spaces.states([observation])
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """As the environment does it, but for the reward."""
        before, taken = self.state, np.array([action]) - self.spaces.first_action
        observation, paid, terminated, truncated, info = self.env.step(action)
        self.state = self.spaces.states([observation])
        reward = self.solution.reward_of(before, taken, self.state, np.array([terminated]))
        info = {**info, "true_reward": paid}
        return observation, float(reward[0]), terminated, truncated, info


class RecoveredVector(gymnasium.vector.VectorWrapper):
    """A vector environment that pays the rewards of a solution, all of them at once.

    >>> import inverseq as iq
    >>> seen = iq.Demonstrations([0, 1], [0, 1], [1, 0])
    >>> found = iq.IAVI().fit(seen, iq.Task(4, 0.9, n_states=16))
    >>> RecoveredVector(gymnasium.make_vec("FrozenLake-v1", num_envs=3), found).num_envs
    3
    """

    def __init__(self, env: Any, solution: Any) -> None:
        super().__init__(env)
        self.solution = solution
        self.spaces = spaces_for(solution, env.single_observation_space, env.single_action_space)
        self.states: np.ndarray | None = None
        self.over = np.zeros(env.num_envs, bool)
        # What resets in a step of its own pays nothing in it; older versions know no other mode.
        mode = env.metadata.get("autoreset_mode")
        self.pauses = getattr(mode, "name", "NEXT_STEP") == "NEXT_STEP"

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """As the environment does it."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self.states, self.over = self.spaces.batch(observations), np.zeros(self.num_envs, bool)
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """As the environment does it, but for the rewards."""
        before, idle = self.states, self.over & self.pauses
        observations, paid, terminated, truncated, infos = self.env.step(actions)
        self.states, self.over = self.spaces.batch(observations), terminated | truncated
        reached = self.states.copy()
        for i in np.flatnonzero(infos.get("_final_obs", False)).tolist():
            # What was reset in this very step shows where it begins, not what was reached.
            reached[i] = self.spaces.states([infos["final_obs"][i]])[0]
        taken = np.asarray(actions) - self.spaces.first_action
        rewards = self.solution.reward_of(before, taken, reached, terminated)
        every = np.ones(self.num_envs, bool)
        infos = {**infos, "true_reward": paid, "_true_reward": every}
        return observations, np.where(idle, 0.0, rewards), terminated, truncated, infos


def spaces_for(solution: Any, observation: Any, action: Any) -> Spaces:
    """The spaces of an environment, if the solution has a reward of its actions."""
    spaces = Spaces.check(observation, action)
    n_actions = getattr(solution, "n_actions", None)
    if n_actions != spaces.n_actions:
        raise InvalidInput(
            f"`solution` must be a Solution with the environment's {spaces.n_actions} actions; got "
            f"{solution!r:.60}, which has {n_actions}."
        )
    return spaces
