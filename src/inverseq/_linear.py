"""One linear system: ``(I - discount * P) x = b`` for the chain ``P`` of some policy.

Policy evaluation, visitation and the gauges of inverse action-value iteration are all this system.
Where the graph of the chain is as thin as a map's it is factorised, which costs the same at every
discount; wide graphs, and very large ones with a mild discount, are iterated, by BiCGSTAB alone or
with multigrid. The residual that is reported is always computed anew from the answer.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from inverseq.errors import InvalidInput, MissingExtra
from inverseq.shapes import Sparse

Method = Literal["auto", "direct", "bicgstab", "amg"]

DIRECT_STATES = 300_000
"""Up to this many states "auto" factorises whatever the discount: a grid takes one second."""
LARGEST_DIRECT = 2_000_000
"""Up to this many it does so where iterating is slow: a grid of a million takes 7 s and 1 GiB."""
DIRECT_FRONT = 1_500
"""The widest front that "auto" factorises: a map of 1,000 by 1,000 cells has 1,000; a cube of 50
cells a side has 1,900 and takes half a minute, where BiCGSTAB takes less than a second."""
SHORT_COLUMNS = 4_000
"""Below this many states factors have short columns, which SuperLU handles best one by one."""
NARROW = 64
"""Up to so many diagonals on either side a band of factors takes less time than sparse ones."""
KEPT_STATES = 50_000
"""The largest model whose factors are worth the memory to stay for the next solve."""
REFINED = 1e-15
"""A residual of this, relative to the answer, is as small as rounding lets it be."""
WELL_CONDITIONED = 0.99
"""Up to this discount "auto" iterates on models beyond `DIRECT_STATES`, and needs no multigrid."""
TIGHT = 1e-13
"""The tolerance of iterations that stand in for factors."""
LONGEST = 3_000
"""Iterations of BiCGSTAB at most; a grid of a million takes 950 at a discount of 0.9999."""
LONGEST_AMG = 300
"""Iterations with multigrid at most, each of which costs as much as a dozen without."""


class Solved(NamedTuple):
    """An answer with its pedigree."""

    x: np.ndarray
    solver: str
    iterations: int
    residual: float
    """The largest entry of ``b - (I - discount * P) x``."""
    converged: bool


class System:
    """The matrix ``I - discount * P`` of a chain; its entries are only made where they are read."""

    def __init__(self, chain: Sparse, discount: float) -> None:
        self.chain, self.discount = chain, discount

    def rest(self, b: np.ndarray, x: np.ndarray) -> np.ndarray:
        """What an answer leaves of the right side, ``b - (I - discount * P) x``."""
        return np.asarray(b - x + self.discount * (self.chain @ x))

    @cached_property
    def matrix(self) -> Sparse:
        """All entries."""
        import scipy.sparse as sp

        eye = sp.eye_array(self.chain.shape[0], format="csr")
        return sp.csr_array(eye - self.discount * self.chain)


def solve(
    chain: Sparse,
    discount: float,
    b: np.ndarray,
    method: Method = "auto",
    tolerance: float = 1e-10,
    kept: dict[str, Any] | None = None,
) -> Solved:
    """Solve ``(I - discount * P) x = b`` to a residual of ``tolerance * max(1, max|b|)``.

    ``kept`` is where a caller who will solve for the same chain and discount again lets the system
    and its factors stay.
    """
    kept = {} if kept is None else kept
    system = kept.setdefault("system", System(chain, discount))
    enough = tolerance * max(1.0, float(np.abs(b).max(initial=0.0)))
    best = None
    for name in choices(chain, discount, method):
        try:
            x, iterations = SOLVERS[name](system, b, enough, kept)
        except (RuntimeError, MemoryError):  # singular, or its factors do not fit
            x, iterations = np.zeros_like(b), 0
        if not np.isfinite(x).all():
            x = np.zeros_like(b)
        residual = float(np.abs(system.rest(b, x)).max(initial=0.0))
        answer = Solved(x, name, iterations, residual, residual <= enough)
        rounding = 10 * REFINED * float(np.abs(x).max(initial=0.0))
        if answer.converged or residual <= rounding:
            return answer  # another solver would do no better
        if best is None or answer.residual < best.residual:
            best = answer
    assert best is not None
    return best


def choices(chain: Sparse, discount: float, method: Method) -> Iterator[str]:
    """Which solvers to try, in order; each is named only once those before it have failed."""
    if method != "auto":
        if method not in SOLVERS:
            raise InvalidInput(f"`solver` must be one of {['auto', *SOLVERS]}; got {method!r}.")
        yield method
        return
    easy = discount <= WELL_CONDITIONED
    late = easy and chain.shape[0] > DIRECT_STATES
    if not late and thin(chain):
        yield "direct"
    multigrid = ["amg"] if importlib.util.find_spec("pyamg") else []
    yield from ["bicgstab", *multigrid] if easy else [*multigrid, "bicgstab"]
    if late and thin(chain):
        yield "direct"


def thin(chain: Sparse) -> bool:
    """Whether the factors of the system will stay sparse, as far as can be told cheaply."""
    n = chain.shape[0]
    return n <= DIRECT_FRONT or (n <= LARGEST_DIRECT and front(chain) <= DIRECT_FRONT)


def front(chain: Sparse) -> int:
    """The widest level of a breadth-first walk: about the size of the separators of the graph.

    Of a graph in parts it is that of the largest: a state that nobody visited says nothing of it.
    """
    from scipy.sparse.csgraph import connected_components, dijkstra

    part = connected_components(chain, directed=False)[1]
    start = int((part == np.bincount(part).argmax()).argmax())
    # Starting again from the farthest state found first gives long, narrow levels.
    for _ in range(2):
        steps = dijkstra(chain, directed=False, indices=np.array(start), unweighted=True)
        distance = np.where(np.isfinite(steps), steps, -1).astype(int).ravel()
        start = int(distance.argmax())
    return int(np.bincount(distance[distance >= 0]).max())


def direct(
    system: System, b: np.ndarray, enough: float, kept: dict[str, Any]
) -> tuple[np.ndarray, int]:
    """Factorise, and refine where it is needed: the system is an M-matrix and needs no pivoting."""
    factor = kept.get("factor") or factorise(system)
    if len(b) <= KEPT_STATES:
        kept["factor"] = factor
    x = factor.solve(b)
    rest = system.rest(b, x)
    if np.abs(rest).max(initial=0.0) > REFINED * max(1.0, float(np.abs(x).max(initial=0.0))):
        x += factor.solve(rest)
    return x, 1


def factorise(system: System) -> Any:
    """Factors with a method ``solve``: within a band where one is narrow, sparse ones elsewhere."""
    band = banded(system) if system.chain.shape[0] < SHORT_COLUMNS else None
    return sparse_factors(system.matrix) if band is None else band


def sparse_factors(system: Sparse) -> Any:
    """SuperLU in symmetric mode: the ordering of ``A + A'``, pivots on the diagonal."""
    from scipy.sparse.linalg import splu

    return splu(
        system.tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        panel_size=1 if system.shape[0] < SHORT_COLUMNS else None,
        options={"SymmetricMode": True},
    )


class Band(NamedTuple):
    """LAPACK's factors of a system in an order in which all neighbours are near each other."""

    order: np.ndarray
    width: int
    """How many diagonals there are on either side."""
    lu: np.ndarray
    pivots: np.ndarray

    def solve(self, b: np.ndarray, trans: str = "N") -> np.ndarray:
        """For one right side or several as columns; with ``trans="T"`` the system transposed."""
        from scipy.linalg import lapack

        x, width = np.empty(b.shape), self.width
        x[self.order], _ = lapack.dgbtrs(
            self.lu, width, width, b[self.order], self.pivots, trans=trans == "T"
        )
        return x


def banded(system: System) -> Band | None:
    """Factors within a band, which of a small map take half the time of sparse ones, if any can be.

    A map of 32 by 32 cells has a band of 32 diagonals on either side.
    """
    from scipy.linalg import lapack
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    chain, n = system.chain, system.chain.shape[0]
    # Most moves lead both ways; of a chain whose moves do not, this order is only less good.
    order = reverse_cuthill_mckee(chain, symmetric_mode=True)
    place = np.empty_like(order)
    place[order] = np.arange(n)
    column = place[chain.indices]
    below = np.repeat(place, np.diff(chain.indptr)) - column
    width = int(np.abs(below).max(initial=0))
    if width > NARROW:
        return None
    # The rows of zeros on top are for what pivoting fills in.
    entries = np.zeros((3 * width + 1, n), order="F")
    entries[2 * width + below, column] = -system.discount * chain.data
    entries[2 * width] += 1
    lu, pivots, singular = lapack.dgbtrf(entries, width, width, overwrite_ab=True)
    if singular:
        raise RuntimeError("The matrix is singular.")
    return Band(order, width, lu, pivots)


class Iterated(NamedTuple):
    """What factors do, by iterating: where they would be dense."""

    system: System

    def solve(self, b: np.ndarray, trans: str = "N") -> np.ndarray:
        """As `Band.solve`."""
        chain, discount = self.system.chain, self.system.discount
        chain = chain.T.tocsr() if trans == "T" else chain
        columns = b.reshape(len(b), -1).T
        found = [solve(chain, discount, column, "bicgstab", TIGHT).x for column in columns]
        return np.array(found).T.reshape(b.shape)


def bicgstab(
    system: System, b: np.ndarray, enough: float, kept: dict[str, Any]
) -> tuple[np.ndarray, int]:
    """BiCGSTAB, restarted from its own answer until the true residual is small enough."""
    return refined(system, b, enough, LONGEST)


def amg(
    system: System, b: np.ndarray, enough: float, kept: dict[str, Any]
) -> tuple[np.ndarray, int]:
    """Algebraic multigrid as the preconditioner of BiCGSTAB."""
    try:
        import pyamg
    except ImportError:
        raise MissingExtra(
            "Multigrid needs PyAMG. Install it with `pip install 'inverseq[amg]'`."
        ) from None
    import scipy.sparse as sp

    # Smoothed prolongation takes fewer iterations where moves lead both ways alike, but where they
    # lead one way (a deterministic policy) it diverges.
    hierarchy = pyamg.smoothed_aggregation_solver(
        sp.csr_matrix(system.matrix),
        symmetry="nonsymmetric",
        smooth=None,
        max_coarse=500,
        coarse_solver="splu",
    )
    return refined(system, b, enough, LONGEST_AMG, hierarchy.aspreconditioner())


def refined(
    system: System, b: np.ndarray, enough: float, longest: int, preconditioner: Any = None
) -> tuple[np.ndarray, int]:
    """Corrections for the remaining residual, asked in the 2-norm, until its maximum is small."""
    from scipy.sparse.linalg import bicgstab

    x, rest, iterations = np.zeros_like(b), b, 0

    def count(_: Any) -> None:
        nonlocal iterations
        iterations += 1

    attempt = 0
    while np.abs(rest).max(initial=0.0) > enough and iterations < longest:
        # The 2-norm that corresponds to the largest entry, should the residual be spread evenly.
        target = enough * max(1.0, np.sqrt(len(b)) / 10 ** (1 + attempt / 2))
        left = longest - iterations
        with np.errstate(all="ignore"):  # a breakdown may overflow; its answer is not used
            change, _ = bicgstab(
                system.matrix,
                rest,
                rtol=0.0,
                atol=target,
                maxiter=left,
                M=preconditioner,
                callback=count,
            )
            after = system.rest(b, x + change)
        if not np.abs(after).max() < np.abs(rest).max():
            break  # the next attempt would be the same
        x, rest, attempt = x + change, after, attempt + 1
    return x, iterations


SOLVERS = {"direct": direct, "bicgstab": bicgstab, "amg": amg}
