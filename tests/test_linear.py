"""The linear solver: every method against a dense one, which is chosen, and hopeless cases."""

from __future__ import annotations

import importlib.util
import pickle
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import inverseq as iq
from inverseq import _linear, planning
from inverseq.errors import InvalidInput, MissingExtra, NotConverged
from inverseq.task import Task
from inverseq.transitions import Transitions
from inverseq.worlds.grid import Grid, grid_transitions

METHODS = ["direct", "bicgstab", "amg"]


def grid(side, policy=None, seed=0):
    """The chain of a windy grid under a policy, uniform unless given: "random" or "one way"."""
    n = side * side
    model, _ = Transitions.check(grid_transitions(Grid((side, side), wind=0.3)), 5)
    weights = np.full((n, 5), 0.2)
    if policy == "random":
        weights = np.random.default_rng(seed).dirichlet(np.ones(5), n)
    if policy == "one way":
        weights = np.eye(5)[np.where(np.arange(n) % side < side // 2, 3, 1)]
    return model.under(weights)


def expander(n, degree=5, seed=0):
    """A random graph: no small set of states separates it, so that its factors are dense."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(n), degree)
    entries = (np.full(len(rows), 1 / degree), (rows, rng.integers(n, size=len(rows))))
    return sp.csr_array(entries, shape=(n, n))


def right_side(chain, seed=1):
    return np.random.default_rng(seed).standard_normal(chain.shape[0])


def without_pyamg(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "pyamg" else found(name)
    )


def order(chain, discount, method="auto"):
    return list(_linear.choices(chain, discount, method))


# -- the answer --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("discount", [0.0, 0.9, 0.99, 0.9999])
@pytest.mark.parametrize("policy", [None, "random", "one way"])
def test_every_method_equals_a_dense_solve(method, discount, policy):
    chain = grid(24, policy)
    b = right_side(chain)
    solved = _linear.solve(chain, discount, b, method)
    dense = np.linalg.solve(np.eye(len(b)) - discount * chain.toarray(), b)
    assert solved.converged
    assert solved.solver == method
    # A residual of at most eps leaves an error of at most eps / (1 - discount).
    bound = 1.01 * 1e-10 * max(1, np.abs(b).max()) / (1 - discount) + 1e-9
    assert np.abs(solved.x - dense).max() <= bound


@pytest.mark.parametrize("method", METHODS)
def test_a_graph_without_separators_is_solved_by_every_method(method):
    chain = expander(600)
    b = right_side(chain)
    dense = np.linalg.solve(np.eye(len(b)) - 0.99 * chain.toarray(), b)
    np.testing.assert_allclose(_linear.solve(chain, 0.99, b, method).x, dense, atol=1e-7)


@pytest.mark.parametrize("trans", ["N", "T"])
@pytest.mark.parametrize(
    ("chain", "kind"),
    [
        (grid(24), "Band"),
        (grid(20, "one way"), "Band"),
        (grid(65), "SuperLU"),
        (expander(400), "SuperLU"),
    ],
    ids=["map", "one way", "large map", "expander"],
)
def test_factors_are_a_band_where_it_is_narrow_and_solve_the_system(chain, kind, trans):
    n = chain.shape[0]
    scattered = np.random.default_rng(2).permutation(n)  # states have their numbers by chance
    chain = chain[scattered][:, scattered]
    factors = _linear.factorise(_linear.System(chain, 0.9))
    assert type(factors).__name__ == kind
    chain = chain if trans == "N" else chain.T
    many = np.random.default_rng(3).standard_normal((n, 3))
    for b in (many[:, 0], many):
        before = b.copy()
        x = factors.solve(b, trans=trans)
        np.testing.assert_allclose(x - 0.9 * (chain @ x), b, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(b, before)


@given(st.integers(1, 12), st.floats(0, 0.5), st.integers(0, 2**31))
def test_factors_of_any_small_graph_equal_a_dense_solve(n, density, seed):
    """Moves that lead one way only, parts that do not touch, states that lead nowhere."""
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((n, n)) < density, rng.random((n, n)), 0.0)
    dense /= np.maximum(dense.sum(axis=1, keepdims=True), 1.0)
    b = rng.standard_normal(n)
    factors = _linear.factorise(_linear.System(sp.csr_array(dense), 0.95))
    np.testing.assert_allclose(factors.solve(b), np.linalg.solve(np.eye(n) - 0.95 * dense, b))


@pytest.mark.parametrize("method", METHODS)
def test_the_residual_that_is_reported_is_the_true_one(method):
    chain = grid(20, "random")
    b = 1000 * right_side(chain)
    solved = _linear.solve(chain, 0.999, b, method, tolerance=1e-6)
    true = np.abs(b - (solved.x - 0.999 * (chain @ solved.x))).max()
    assert solved.residual == pytest.approx(true, rel=1e-4, abs=1e-8)
    assert solved.residual <= 1e-6 * np.abs(b).max()


@pytest.mark.parametrize("method", ["bicgstab", "amg"])
def test_a_looser_tolerance_takes_fewer_iterations_and_is_met(method):
    chain = grid(40)
    b = right_side(chain)
    loose, tight = (_linear.solve(chain, 0.999, b, method, t) for t in (1e-3, 1e-11))
    assert loose.converged
    assert tight.converged
    assert tight.residual <= 1e-11 * np.abs(b).max()
    assert loose.iterations < tight.iterations


@pytest.mark.parametrize("method", METHODS)
def test_nothing_on_the_right_side_is_answered_by_nothing(method):
    solved = _linear.solve(grid(12), 0.9, np.zeros(144), method)
    assert solved.converged
    assert not solved.x.any()


@pytest.mark.parametrize("method", METHODS)
def test_the_chain_and_the_right_side_are_left_as_they_were(method):
    chain = grid(12, "random")
    b = right_side(chain)
    before = chain.copy(), b.copy()
    _linear.solve(chain, 0.99, b, method)
    assert (chain != before[0]).nnz == 0
    np.testing.assert_array_equal(b, before[1])


@pytest.mark.parametrize("method", METHODS)
def test_the_same_system_gives_the_same_bits(method):
    chain = grid(24, "random")
    b = right_side(chain)
    first, second = (_linear.solve(chain, 0.999, b, method).x for _ in range(2))
    np.testing.assert_array_equal(first, second)


# -- the choice --------------------------------------------------------------------------------


def test_the_front_of_a_square_grid_is_its_diagonal_and_that_of_a_path_one_state():
    assert _linear.front(grid(30)) == 30
    path = sp.csr_array(sp.diags_array([np.ones(99)], offsets=[1], shape=(100, 100)))
    assert _linear.front(path) == 1


def test_the_front_of_an_expander_is_a_large_part_of_it():
    assert _linear.front(expander(5_000)) > 5_000 / 4


@pytest.mark.parametrize("parts", [(10, 30, 20), (30, 10), (1, 30, 1)])
def test_the_front_of_a_graph_in_parts_is_that_of_the_largest(parts):
    assert _linear.front(sp.csr_array(sp.block_diag([grid(side) for side in parts]))) == 30


def test_a_state_apart_does_not_make_a_wide_graph_look_thin():
    """Factors of such a graph would be dense; the first state may well be one that nobody saw."""
    apart = sp.csr_array(sp.block_diag([sp.csr_array((1, 1)), expander(5_000)]))
    assert order(apart, 0.9)[0] == "bicgstab"


@pytest.mark.parametrize("discount", [0.5, 0.99, 0.9999])
def test_small_models_and_grids_are_factorised_at_every_discount(discount):
    assert order(expander(1_000), discount)[0] == "direct"
    assert order(grid(100), discount)[0] == "direct"


@pytest.mark.parametrize(("discount", "first"), [(0.9, "bicgstab"), (0.9999, "amg")])
def test_graphs_with_a_wide_front_are_iterated(discount, first):
    chosen = order(expander(20_000), discount)
    assert chosen[0] == first
    assert sorted(chosen) == ["amg", "bicgstab"]


def test_without_pyamg_what_multigrid_would_do_is_left_to_bicgstab(monkeypatch):
    without_pyamg(monkeypatch)
    assert order(expander(20_000), 0.9999) == ["bicgstab"]


def test_very_large_grids_are_iterated_first_only_where_the_discount_is_mild(monkeypatch):
    monkeypatch.setattr(_linear, "DIRECT_STATES", 1_000)
    monkeypatch.setattr(_linear, "DIRECT_FRONT", 100)
    assert order(grid(60), 0.99) == ["bicgstab", "amg", "direct"]
    assert order(grid(60), 0.9999) == ["direct", "amg", "bicgstab"]
    monkeypatch.setattr(_linear, "LARGEST_DIRECT", 3_000)
    assert order(grid(60), 0.9999) == ["amg", "bicgstab"]


@pytest.mark.parametrize("method", METHODS)
def test_a_method_that_is_asked_for_is_the_only_one(method):
    assert order(grid(10), 0.9999, method) == [method]


def test_a_method_that_does_not_exist_is_named():
    with pytest.raises(InvalidInput, match=r"must be one of .*'auto', 'direct'.* got 'gmres'"):
        _linear.solve(grid(4), 0.9, np.ones(16), "gmres")


def test_where_the_first_choice_fails_the_next_is_tried(monkeypatch):
    def fails(system, b, enough, kept):
        return np.full_like(b, np.nan), 1

    monkeypatch.setitem(_linear.SOLVERS, "direct", fails)
    solved = _linear.solve(grid(20), 0.9, np.ones(400))
    assert solved.converged
    assert solved.solver == "bicgstab"


def test_multigrid_without_pyamg_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyamg", None)
    with pytest.raises(MissingExtra, match=r"pip install 'inverseq\[amg\]'"):
        _linear.solve(grid(10), 0.9, np.ones(100), "amg")


# -- hopeless cases ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", *METHODS])
@pytest.mark.filterwarnings("error")
def test_a_singular_system_is_reported_and_has_no_nan(method):
    # Two states that lead to each other for ever, at a discount of 1, are worth no number.
    for_ever = sp.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
    solved = _linear.solve(for_ever, 1.0, np.array([1.0, 0.0]), method)
    assert not solved.converged
    assert np.isfinite(solved.x).all()
    assert solved.residual == pytest.approx(
        np.abs(np.array([1.0, 0.0]) - solved.x + for_ever @ solved.x).max()
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_system_that_overflows_is_reported_and_has_no_nan(method):
    solved = _linear.solve(grid(10), 0.9, np.full(100, 1e308), method)
    assert np.isfinite(solved.x).all()
    assert solved.converged == (solved.residual <= 1e-10 * 1e308)


def test_factors_that_do_not_fit_in_memory_leave_the_work_to_iterations(monkeypatch):
    def too_large(system):
        raise MemoryError

    monkeypatch.setattr(_linear, "factorise", too_large)
    solved = _linear.solve(grid(20), 0.99, np.ones(400))
    assert solved.converged
    assert solved.solver == "bicgstab"


@pytest.mark.parametrize(("method", "longest"), [("bicgstab", "LONGEST"), ("amg", "LONGEST_AMG")])
def test_too_few_iterations_give_the_best_answer_so_far_and_a_warning(method, longest, monkeypatch):
    monkeypatch.setattr(_linear, longest, 3)
    chain = grid(60, "one way")
    b = right_side(chain)
    solved = _linear.solve(chain, 0.9999, b, method)
    assert not solved.converged
    assert solved.iterations == 3
    assert solved.residual <= np.abs(b).max()  # never worse than no answer
    with pytest.warns(NotConverged, match=rf"residual of .* by {method}; raise `tolerance`"):
        planning.warn_unless(solved, "here")


def test_iterations_end_also_where_nothing_converges(monkeypatch):
    without_pyamg(monkeypatch)
    monkeypatch.setattr(_linear, "DIRECT_FRONT", 0)
    monkeypatch.setattr(_linear, "LONGEST", 40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solved = _linear.solve(grid(50, "one way"), 0.9999, np.ones(2_500), tolerance=1e-14)
    assert solved.iterations <= 40


# -- large -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("pyamg", [True, False])
@pytest.mark.parametrize("discount", [0.9, 0.9999])
@pytest.mark.parametrize("n", [20_000, 100_000])
def test_large_expanders_converge_without_a_factorisation(n, discount, pyamg, monkeypatch):
    if not pyamg:
        without_pyamg(monkeypatch)
    solved = _linear.solve(expander(n), discount, np.arange(n) / n)
    assert solved.converged
    assert solved.solver == ("amg" if pyamg and discount > 0.99 else "bicgstab")


@pytest.mark.slow
@pytest.mark.parametrize("side", [100, 316, 547])
def test_large_grids_are_factorised_and_converge_close_to_a_discount_of_1(side):
    solved = _linear.solve(grid(side), 0.9999, np.arange(side**2) / side**2)
    assert solved.converged
    assert solved.solver == "direct"


@pytest.mark.slow
@pytest.mark.parametrize("method", ["bicgstab", "amg"])
def test_large_grids_converge_close_to_a_discount_of_1_also_by_iterations(method):
    chain = grid(200)
    b = right_side(chain)
    solved = _linear.solve(chain, 0.9999, b, method)
    assert solved.converged
    np.testing.assert_allclose(solved.x, _linear.solve(chain, 0.9999, b).x, atol=1e-5)


def test_what_is_kept_of_a_chain_gives_the_same_answers():
    chain, kept = grid(20), {}
    first, second = np.arange(400) / 400, np.cos(np.arange(400.0))
    for b in (first, second, first):
        fresh = _linear.solve(chain, 0.97, b)
        again = _linear.solve(chain, 0.97, b, kept=kept)
        np.testing.assert_array_equal(again.x, fresh.x)
        assert again.residual == fresh.residual
    assert set(kept) == {"system", "factor"}


def test_a_task_with_kept_factors_travels_to_other_processes():
    world = iq.worlds.objectworld(size=5, n_objects=4, seed=0)
    first = iq.IAVI().solve(world.expert(), world.task)
    assert "factor" in world.task.kept
    travelled = pickle.loads(pickle.dumps(world.task))
    assert "factor" not in travelled.kept
    again = iq.IAVI().solve(world.expert(), travelled)
    np.testing.assert_array_equal(again.q_table, first.q_table)


def test_a_derived_task_keeps_nothing_of_the_old_one():
    world = iq.worlds.objectworld(size=5, n_objects=4, seed=0)
    iq.IAVI().solve(world.expert(), world.task)
    patient = replace(world.task, discount=0.99)
    expected = iq.IAVI().solve(world.expert(), Task(5, 0.99, transitions=world.task.transitions))
    np.testing.assert_array_equal(
        iq.IAVI().solve(world.expert(), patient).q_table, expected.q_table
    )
