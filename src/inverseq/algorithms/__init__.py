"""One file for each algorithm; which one when:

* ``IAVI``: the demonstrator's policy or a log, and a model (given or counted). Exact, no iteration.
* ``IQL`` (``CIQL`` on a task with constraints): a log or a stream, no model. Sampled.
* ``BoltzmannMLE``: a short log, a model, and features that the reward may depend on.
* ``MaxEnt``, ``DeepMaxEnt``: a reward of the state, linear in features or by a network, that few
  demonstrations suffice for and other dynamics can use; a model, given or counted. Iterated.
* ``DIQL`` (``DCIQL`` on a task with constraints): states that are rows of numbers, or too many for
  a table. Networks, samples, no model.
* ``DQN`` (``CDQN``): no inverse problem: action values of a reward that is known, for experts and
  for comparison.
* ``BehaviouralCloning``: what was done, as often as it was done; what others must do better than.

No algorithm knows another. Each is a frozen dataclass of hyperparameters with
``fit(demonstrations, task) -> Solution``; the contract tests find every one of them here.
"""

from inverseq.algorithms.boltzmann_mle import BoltzmannMLE
from inverseq.algorithms.cloning import BehaviouralCloning, Classifier
from inverseq.algorithms.deep_maxent import DeepMaxEnt
from inverseq.algorithms.diql import DCIQL, DIQL
from inverseq.algorithms.dqn import CDQN, DQN
from inverseq.algorithms.iavi import IAVI
from inverseq.algorithms.iql import CIQL, IQL, Decay
from inverseq.algorithms.maxent import MaxEnt

__all__ = [
    "CDQN",
    "CIQL",
    "DCIQL",
    "DIQL",
    "DQN",
    "IAVI",
    "IQL",
    "BehaviouralCloning",
    "BoltzmannMLE",
    "Classifier",
    "Decay",
    "DeepMaxEnt",
    "MaxEnt",
]
