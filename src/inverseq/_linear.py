"""One linear system: ``(I - discount * P) x = b`` for the chain ``P`` of some policy.

Policy evaluation, visitation and the gauges of inverse action-value iteration are all this system.
Up to a few hundred thousand states with mild fill-in it is factorised; above that it is iterated,
by BiCGSTAB where the discount makes the system well conditioned and by multigrid close to 1.
The residual that is reported is always computed anew from the answer.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from inverseq.errors import InvalidInput, MissingExtra
from inverseq.shapes import Sparse

Method = Literal["auto", "direct", "bicgstab", "amg"]

DIRECT_STATES = 300_000
"""The largest model that "auto" factorises; grid-like models of this size were measured."""
DIRECT_FRONT = 4_000
"""The widest front that "auto" factorises: the factor's dense corner has its square in entries."""
WELL_CONDITIONED = 0.95
"""Up to this discount "auto" prefers BiCGSTAB to multigrid on very large models."""


class Solved(NamedTuple):
    """An answer with its pedigree."""

    x: np.ndarray
    solver: str
    iterations: int
    residual: float
    """The largest entry of ``b - (I - discount * P) x``."""
    converged: bool


def solve(
    chain: Sparse, discount: float, b: np.ndarray, method: Method = "auto", tolerance: float = 1e-10
) -> Solved:
    """Solve ``(I - discount * P) x = b`` to a residual of ``tolerance * max(1, max|b|)``."""
    import scipy.sparse as sp

    system = sp.csr_array(sp.eye_array(chain.shape[0], format="csr") - discount * chain)
    enough = tolerance * max(1.0, float(np.abs(b).max(initial=0.0)))
    best = None
    for name in choices(chain, discount, method):
        x, iterations = SOLVERS[name](system, b, enough)
        residual = float(np.abs(b - system @ x).max(initial=0.0))
        answer = Solved(x, name, iterations, residual, residual <= enough)
        if answer.converged:
            return answer
        if best is None or not best.residual <= residual:
            best = answer
    assert best is not None
    return best


def choices(chain: Sparse, discount: float, method: Method) -> list[str]:
    """Which solvers to try, in order."""
    if method != "auto":
        if method not in SOLVERS:
            raise InvalidInput(f"`solver` must be one of {['auto', *SOLVERS]}; got {method!r}.")
        return [method]
    n = chain.shape[0]
    if n <= DIRECT_FRONT or (n <= DIRECT_STATES and front(chain) <= DIRECT_FRONT):
        return ["direct"]
    multigrid = ["amg"] if importlib.util.find_spec("pyamg") else []
    krylov = ["bicgstab"]
    return krylov + multigrid if discount <= WELL_CONDITIONED else multigrid + krylov


def front(chain: Sparse) -> int:
    """The widest level of a breadth-first walk: about the size of the separators of the graph."""
    from scipy.sparse.csgraph import dijkstra

    # Starting again from the farthest state found first gives long, narrow levels.
    start = 0
    for _ in range(2):
        steps = dijkstra(chain, directed=False, indices=np.array(start), unweighted=True)
        distance = np.where(np.isfinite(steps), steps, -1).astype(int).ravel()
        start = int(distance.argmax())
    return int(np.bincount(distance[distance >= 0]).max())


def direct(system: Sparse, b: np.ndarray, enough: float) -> tuple[np.ndarray, int]:
    """Factorise, and refine once: the system is an M-matrix, so no pivoting is needed."""
    factor = factorise(system)
    x = factor.solve(b)
    x += factor.solve(b - system @ x)
    return x, 1


def factorise(system: Sparse) -> Any:
    """SuperLU in symmetric mode: the ordering of ``A + A'``, pivots on the diagonal."""
    from scipy.sparse.linalg import splu

    return splu(
        system.tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )


def bicgstab(system: Sparse, b: np.ndarray, enough: float) -> tuple[np.ndarray, int]:
    """BiCGSTAB, restarted from its own answer until the true residual is small enough."""
    from scipy.sparse.linalg import bicgstab

    def correct(rest: np.ndarray, target: float, count: Callable[[Any], None]) -> np.ndarray:
        return np.asarray(bicgstab(system, rest, rtol=0.0, atol=target, callback=count)[0])

    return refined(system, b, enough, correct)


def amg(system: Sparse, b: np.ndarray, enough: float) -> tuple[np.ndarray, int]:
    """Algebraic multigrid as the preconditioner of BiCGSTAB."""
    try:
        import pyamg
    except ImportError:
        raise MissingExtra(
            "Multigrid needs PyAMG. Install it with `pip install 'inverseq[amg]'`."
        ) from None
    import scipy.sparse as sp
    from scipy.sparse.linalg import bicgstab

    hierarchy = pyamg.smoothed_aggregation_solver(
        sp.csr_matrix(system), symmetry="nonsymmetric", smooth=None, max_coarse=500
    )
    cycle = hierarchy.aspreconditioner()

    def correct(rest: np.ndarray, target: float, count: Callable[[Any], None]) -> np.ndarray:
        return np.asarray(bicgstab(system, rest, rtol=0.0, atol=target, M=cycle, callback=count)[0])

    return refined(system, b, enough, correct)


def refined(
    system: Sparse,
    b: np.ndarray,
    enough: float,
    correct: Callable[[np.ndarray, float, Callable[[Any], None]], np.ndarray],
    rounds: int = 8,
) -> tuple[np.ndarray, int]:
    """Add corrections for the remaining residual, each asked in the 2-norm, until it is small."""
    x, iterations = np.zeros_like(b), 0

    def count(_: Any) -> None:
        nonlocal iterations
        iterations += 1

    rest = b
    for attempt in range(rounds):
        # The 2-norm that corresponds to the largest entry, should the residual be spread evenly.
        target = enough * max(1.0, np.sqrt(len(b)) / 10 ** (1 + attempt / 2))
        x = x + correct(rest, target, count)
        rest = b - system @ x
        if np.abs(rest).max(initial=0.0) <= enough or not np.isfinite(rest).all():
            break
    return x, iterations


SOLVERS = {"direct": direct, "bicgstab": bicgstab, "amg": amg}
