"""Worlds whose reward is known: the benchmark of the paper, grids, and four-state arguments.

A world is a task together with the reward that its expert is after, so that what an algorithm
recovers can be held against the truth.

>>> from inverseq.worlds import chain
>>> world = chain(discount=0.9)
>>> world
World('chain', 4 states, 2 actions)
>>> world.expert()[1].round(3)  # the log-odds of going on are twice the discount
array([0.858, 0.142])

`gym` is the border to the environments of Gymnasium.
"""

from inverseq.worlds import gym
from inverseq.worlds.diagnostic import chain, gamble, ring, trap
from inverseq.worlds.gridworld import gridworld
from inverseq.worlds.objectworld import objectworld
from inverseq.worlds.world import World

__all__ = ["World", "chain", "gamble", "gridworld", "gym", "objectworld", "ring", "trap"]
