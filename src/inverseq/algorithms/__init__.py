"""One file for each algorithm; which one when:

* ``IAVI``: the demonstrator's policy or a log, and a model (given or counted). Exact, no iteration.
* ``IQL`` (``CIQL`` on a task with constraints): a log or a stream, no model. Sampled.
* ``BoltzmannMLE``: a short log, a model, and features that the reward may depend on.

No algorithm knows another. Each is a frozen dataclass of hyperparameters with
``fit(demonstrations, task) -> Solution``; the contract tests find every one of them here.
"""

from inverseq.algorithms.boltzmann_mle import BoltzmannMLE
from inverseq.algorithms.iavi import IAVI
from inverseq.algorithms.iql import CIQL, IQL, Decay

__all__ = ["CIQL", "IAVI", "IQL", "BoltzmannMLE", "Decay"]
