r"""Four-state worlds, each an argument whose right answer is known in closed form.

Below, ``g`` is the discount, :math:`\sigma(x) = 1 / (1 + e^{-x})`, the temperature is 1, and a
*log-odds* is the logarithm of the ratio of the expert's probabilities of two actions.
"""

from __future__ import annotations

import numpy as np

from inverseq.task import Constraint, Task
from inverseq.worlds.world import World

END = 4
"""The column of the models below that stands for the end of the episode."""


def chain(discount: float = 0.9) -> World:
    r"""Can it be done by hand? A chain of states with an end, solved backward.

    Actions are 0 "go" and 1 "quit"; "go" leads 0 -> 1 -> 2 -> 3, "quit" leads straight to the
    terminal state 3. The reward is (1, -1, 2, 0): state 1 is a cost on the way to a gain. Episodes
    begin in state 0.

    ===== ============= ======= ======== ============ ======================= ====================
    state Q(go)         Q(quit) V        log-odds     uniform gauge: r(go)    uniform gauge: Q(go)
    ===== ============= ======= ======== ============ ======================= ====================
    2     2             2       2        0            0                       0
    1     2g - 1        -1      2g - 1   2g           g                       g
    0     1 + g(2g - 1) 1       Q(go)*   g(2g - 1)    -g(1 - g) / 2           g(3g - 1) / 2
    ===== ============= ======= ======== ============ ======================= ====================

    (* where g > 1/2, and 1 otherwise.) In the uniform gauge r(quit) = Q(quit) = -r(go). That the
    recovered reward of going on is *negative* in state 0 is no mistake: the gauge takes the mean
    off in state 1, so that the gain which lies ahead looks larger than it is.

    Of a reward that depends on the state alone, ``r(1) = -1`` and ``r(2) = 2`` are identified, and
    ``r(0)`` is not: nothing leads to state 0, so that its reward moves no choice.

    >>> world = chain(discount=0.75)
    >>> pi = world.expert()
    >>> np.log(pi[:3, 0] / pi[:3, 1])
    array([0.375, 1.5  , 0.   ])
    """
    model = np.eye(4)[[[1, 3], [2, 3], [3, 3], [3, 3]]]
    task = Task(2, discount, transitions=model, terminal=[3], initial=0)
    return World(task, np.array([1.0, -1.0, 2.0, 0.0]), np.eye(4), "chain")


def gamble(discount: float = 0.9) -> World:
    r"""Is the best action chosen before or after one knows where one is?

    In state 0, action 0 is a gamble that leads to state 1 or 2 with probability 1/2 each, action 1
    leads safely to state 3. State 3 pays 4 and ends. States 1 and 2 pay 4 - 3g; from state 1
    action 0 leads on to state 3 and action 1 ends, from state 2 it is the other way round: whoever
    sees where the gamble led knows what to do. State 0 pays nothing; episodes begin there.

    =========================  ======================  =================================
    \                          E[max Q], the default   max E[Q], "max_of_mean"
    =========================  ======================  =================================
    V(3)                       4                       4
    V(1) = V(2)                4 + g                   4 + g
    what follows the gamble    4 + g                   4 - g, as if one could not look
    Q(0, 0) - Q(0, 1)          g^2: gamble             -g^2: do not
    =========================  ======================  =================================

    The expert knows, its log-odds of gambling are g^2. The two operators read opposite rewards from
    it: in the uniform gauge r(0, 0) is -g^2 / 2 by the default and +g^2 / 2 by the literal one.

    >>> world = gamble(discount=0.5)
    >>> pi = world.expert()
    >>> np.log(pi[:3, 0] / pi[:3, 1])
    array([ 0.25,  2.  , -2.  ])
    """
    model = np.eye(5)[[[1, 3], [3, END], [END, 3], [END, END]]]
    model[0, 0, [1, 2]] = 0.5
    task = Task(2, discount, transitions=model, initial=0)
    middle = 4 - 3 * discount
    return World(task, np.array([0.0, middle, middle, 4.0]), np.eye(4), "gamble")


def ring(discount: float = 0.9, stay: bool = False) -> World:
    r"""Was it after a reward, or away from a punishment?

    Four states on a ring; action 0 leads to the left (s - 1), action 1 to the right (s + 1), both
    modulo 4, and action 2, with ``stay``, nowhere. State 0 pays 1.

    Without ``stay`` both ways lead to states of the same parity, so that ``P_left - P_right`` does
    not see what tells the parities apart: its kernel holds the constants and the alternating vector
    z = (1, -1, 1, -1). The rewards ``r + a z + b`` have the same expert for all numbers a and b,
    for instance (0, 0, -1, 0): a punishment on the far side. With ``stay`` only the constants are
    left, and the reward is identified up to b.

    ========================= ======================= ====================================
    \                         without ``stay``        with ``stay``
    ========================= ======================= ====================================
    V(0)                      1 / (1 - g^2)           1 / (1 - g)
    V(1) = V(3), V(2)         g V(0), g^2 V(0)        g V(0), g^2 V(0)
    log-odds, state 0         left : right 0          left : right 0, stay : left g
    log-odds, state 1         left : right g          left : stay g, stay : right g^2
    log-odds, state 2         left : right 0          left : right 0, left : stay g^2
    dimensions not identified 2                       1
    ========================= ======================= ====================================

    >>> towards = ring(discount=0.5)
    >>> away = World(towards.task, np.array([0.0, 0.0, -1.0, 0.0]), np.eye(4), "away")
    >>> np.abs(towards.expert() - away.expert()).max() < 1e-9
    np.True_
    """
    s = np.arange(4)
    left, right = (s - 1) % 4, (s + 1) % 4
    model = np.eye(4)[np.stack([left, right, s] if stay else [left, right], axis=1)]
    task = Task(model.shape[1], discount, transitions=model)
    return World(task, np.array([1.0, 0.0, 0.0, 0.0]), np.eye(4), "ring")


def trap(discount: float = 0.9) -> World:
    r"""Does a constraint reach back to the actions that lead where it cannot be kept?

    The way from state 0 is 0 -> 1 -> 2 -> end by action 1 "long"; action 0 "short" leads from
    states 0 and 1 into state 3, which ends with the next step. States 0, 1 and 2 cost 1 each, state
    3 is free. The task forbids both actions in state 3, and nothing else: whoever only looks at the
    present state walks in. "short" must be forbidden as well in states 0 and 1 (the *viable* set).
    Episodes begin in state 0.

    =========  ==================================  ==========================================
    \          without the constraint              with it
    =========  ==================================  ==========================================
    greedy     0 -> 3 -> end                       0 -> 1 -> 2 -> end
    V(0)       -1                                  -(1 + g + g^2)
    V(1)       -1                                  -(1 + g)
    V(2)       -1                                  -1
    V(3)       0                                   minus infinity
    Boltzmann  log-odds short : long g in 0 and 1  short has probability 0
    =========  ==================================  ==========================================

    The expert knows no constraint, so its demonstrations visit state 3, which an algorithm on this
    task must refuse: it says that something was done where nothing may be done. Demonstrations for
    it are those of a policy that keeps out, for instance of ``planning.solve`` on ``world.task``.

    >>> world = trap(discount=0.5)
    >>> pi = world.expert()
    >>> np.log(pi[:3, 0] / pi[:3, 1])
    array([0.5, 0.5, 0. ])
    >>> from inverseq import planning
    >>> planning.solve(world.reward, world.task).v
    array([-1.75, -1.5 , -1.  ,  -inf])
    """
    model = np.eye(5)[[[3, 1], [3, 2], [END, END], [END, END]]]
    closed = Constraint(np.repeat([[0.0], [0.0], [0.0], [1.0]], 2, axis=1), 0.0, name="trap")
    task = Task(2, discount, transitions=model, initial=0, constraints=[closed])
    return World(task, np.array([-1.0, -1.0, -1.0, 0.0]), np.eye(4), "trap")
