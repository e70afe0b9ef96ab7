"""Transitions: the model of a decision problem, sparse, and what is asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from inverseq._checks import ROW_SUM_TOLERANCE, as_array
from inverseq.errors import InvalidInput
from inverseq.shapes import MaskTable, MaskVector, Sparse, Table, Vector


class Transitions:
    """``P(s'|s, a)``, stored sparse: one row per pair ``s * n_actions + a``.

    A row may sum to less than 1: the rest is the probability that the episode ends there, or that
    nobody knows what follows. Either way nothing that follows counts.
    """

    def __init__(self, matrix: Sparse, n_actions: int) -> None:
        """From a (states * actions, states) matrix whose rows have been checked."""
        self.matrix, self.n_actions = matrix, n_actions
        self.n_states: int = matrix.shape[1]
        # The same entries by columns, made once: every step of every visit asks for them.
        self.backward: Any = matrix.T

    @classmethod
    def check(cls, given: Any, n_actions: int) -> tuple[Transitions, np.ndarray]:
        """From what users give: (S, A, S) or A matrices (S, S); one more column is the end.

        Also returns the sums of the rows, (S, A), the column for the end included.
        """
        import scipy.sparse as sp

        if isinstance(given, Transitions):
            if given.n_actions != n_actions:
                raise InvalidInput(
                    f"`Task.transitions` must be of the task's {n_actions} actions; the model "
                    f"given has {given.n_actions}."
                )
            # Where a row falls short of 1 the rest is the end, or unknown.
            return given, np.maximum(checked_sums(given.matrix, n_actions), 1.0)
        if sp.issparse(given):
            raise InvalidInput(
                "`Task.transitions` must be an array (states, actions, states) or a sequence "
                "of A sparse matrices; one sparse matrix was given. Put it in a list."
            )
        several = isinstance(given, list | tuple) or getattr(given, "dtype", "") == "O"
        if several and any(sp.issparse(block) for block in given):
            blocks = [sparse_block(block, action) for action, block in enumerate(given)]
            shapes = {block.shape for block in blocks}
            if len(blocks) != n_actions or len(shapes) > 1:
                raise InvalidInput(
                    f"`Task.transitions` must be one matrix (states, states) per action; "
                    f"{n_actions} actions, but {len(blocks)} matrices of shapes {sorted(shapes)}."
                )
            n_states = blocks[0].shape[0]
            stacked = interleave(blocks)
            stacked.sum_duplicates()
        else:
            dense = as_array(given, "Task.transitions").astype(float)
            if dense.ndim != 3 or dense.shape[1] != n_actions:
                # By far the most frequent slip: one matrix per action, along the first axis.
                first = dense.ndim == 3 and dense.shape[::2] == (n_actions, dense.shape[1])
                hint = " Use `np.stack(matrices, axis=1)`." if first else ""
                raise InvalidInput(
                    f"`Task.transitions` must have shape (states, actions, states) with "
                    f"{n_actions} actions; it has shape {dense.shape}.{hint}"
                )
            n_states = dense.shape[0]
            stacked = sp.csr_array(dense.reshape(n_states * n_actions, dense.shape[2]))
        if n_states == 0 or stacked.shape[1] not in (n_states, n_states + 1):
            raise InvalidInput(
                f"`Task.transitions` must lead from states to the same states (one more column may "
                f"hold the probability of the end); it leads from {n_states} states to "
                f"{stacked.shape[1]}."
            )
        stacked.eliminate_zeros()
        sums = checked_sums(stacked, n_actions)
        if stacked.shape[1] > n_states:
            stacked = sp.csr_array(stacked[:, :n_states])
        return cls(stacked, n_actions), sums

    def expect(self, v: Vector) -> np.ndarray:
        """``E[v(s') | s, a]`` for every pair, (S, A)."""
        return np.asarray(self.matrix @ v).reshape(self.n_states, self.n_actions)

    def flow(self, mass: Table) -> np.ndarray:
        """Where the mass of each pair, (S, A), lies one step later, (S,): `expect` transposed."""
        return np.asarray(self.backward @ mass.ravel())

    def under(self, policy: Table) -> Sparse:
        """``P_mu(s'|s)``, the (S, S) model of the chain under a policy."""
        import scipy.sparse as sp

        a, n = self.n_actions, self.n_states
        row = self.matrix.indptr.dtype
        mix = sp.csr_array(
            (policy.ravel(), np.arange(n * a, dtype=row), np.arange(0, n * a + 1, a, dtype=row)),
            shape=(n, n * a),
        )
        chain = sp.csr_array(mix @ self.matrix)
        chain.sort_indices()
        chain.eliminate_zeros()
        return chain

    def ends(self) -> np.ndarray:
        """The probability that the episode ends (or is unknown) after each pair, (S, A)."""
        sums = np.asarray(self.matrix.sum(axis=1)).reshape(self.n_states, self.n_actions)
        return np.asarray(np.clip(1.0 - sums, 0.0, 1.0))

    def dense(self) -> np.ndarray:
        """The whole model as an array (S, A, S), for small worlds and tests."""
        shape = (self.n_states, self.n_actions, self.n_states)
        return np.asarray(self.matrix.toarray()).reshape(shape)

    def without(self, terminal: MaskVector) -> Transitions:
        """What counts for values: entering a terminal state ends, and none is left."""
        import scipy.sparse as sp

        from_states = np.repeat(~terminal, self.n_actions)
        keep = np.repeat(from_states, np.diff(self.matrix.indptr)) & ~terminal[self.matrix.indices]
        kept = sp.csr_array(
            (np.where(keep, self.matrix.data, 0.0), self.matrix.indices, self.matrix.indptr),
            shape=self.matrix.shape,
            copy=True,
        )
        kept.eliminate_zeros()
        return Transitions(kept, self.n_actions)

    def __repr__(self) -> str:
        entries = f"{self.matrix.nnz:,} entries"
        return f"Transitions({self.n_states} states, {self.n_actions} actions, {entries})"


def checked_sums(matrix: Sparse, n_actions: int) -> np.ndarray:
    """The sums of the rows, (S, A), if all entries are probabilities."""
    entries = matrix.data
    if not np.isfinite(entries).all() or (entries.size and entries.min() < 0):
        worst = int(np.flatnonzero(~(np.isfinite(entries) & (entries >= 0)))[0])
        row = int(np.searchsorted(matrix.indptr, worst, side="right")) - 1
        raise InvalidInput(
            f"`Task.transitions` must hold probabilities; P(s'={matrix.indices[worst]} | "
            f"s={row // n_actions}, a={row % n_actions}) is {entries[worst]}."
        )
    return np.asarray(matrix.sum(axis=1)).reshape(-1, n_actions)


def sparse_block(given: Any, action: int) -> Sparse:
    """The matrix of one action as CSR."""
    import scipy.sparse as sp

    name = f"Task.transitions[{action}]"
    block: Any = given if sp.issparse(given) else as_array(given, name)
    if block.dtype.kind not in "biuf" or block.ndim != 2:
        raise InvalidInput(
            f"`{name}` must be a matrix of numbers (states, states); it is {block.dtype} of shape "
            f"{block.shape}."
        )
    return sp.csr_array(block, dtype=float)


def interleave(blocks: Sequence[Sparse]) -> Sparse:
    """Stack A matrices (S, N) so that row ``s * A + a`` is row ``s`` of matrix ``a``."""
    import scipy.sparse as sp

    a, (n_states, n_columns) = len(blocks), blocks[0].shape
    lengths = np.stack([np.diff(block.indptr) for block in blocks], axis=1).ravel()
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.empty(indptr[-1], dtype=np.int32 if indptr[-1] < 2**31 else np.int64)
    data = np.empty(indptr[-1])
    for i, block in enumerate(blocks):
        # Each stored entry of row s moves by the distance between the old and the new row start.
        shift = np.repeat(indptr[i:-1:a] - block.indptr[:-1], np.diff(block.indptr))
        place = shift + np.arange(block.nnz)
        indices[place], data[place] = block.indices, block.data
    indptr = indptr.astype(indices.dtype)
    return sp.csr_array((data, indices, indptr), shape=(n_states * a, n_columns))


def never_ending(transitions: Transitions, available: MaskTable) -> np.ndarray:
    """From which states no episode can end under the available actions, bool (S,)."""
    import scipy.sparse as sp
    from scipy.sparse.csgraph import breadth_first_order

    n = transitions.n_states
    ends = ((transitions.ends() > ROW_SUM_TOLERANCE) & available).any(axis=1)
    chain = transitions.under(available.astype(float)).tocoo()
    # Walk backward from one extra node that stands for the end.
    source = np.concatenate([chain.col, np.full(int(ends.sum()), n)])
    target = np.concatenate([chain.row, np.flatnonzero(ends)])
    backward = sp.csr_array((np.ones(len(source)), (source, target)), shape=(n + 1, n + 1))
    reached = breadth_first_order(backward, n, return_predecessors=False)
    stuck = np.ones(n + 1, bool)
    stuck[reached] = False
    return stuck[:n]
