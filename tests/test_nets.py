"""Networks: one answer under NumPy and JAX, sets without their padding, trees of parameters."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inverseq.errors import InvalidInput
from inverseq.nets import MLP, DeepSets, Function, leaves, tree

SETS = DeepSets(members=6, features=2, static=3, encoder=(5, 8), decoder=(8, 4), head=(7,))


def sets(n, seed, least=0, most=6):
    """Rows with sets of random sizes, whose members lie anywhere in the room that there is."""
    rng = np.random.default_rng(seed)
    present = np.argsort(rng.random((n, 6)), axis=1) < rng.integers(least, most + 1, n)[:, None]
    return SETS.join(rng.normal(size=(n, 6, 2)), present, rng.normal(size=(n, 3)))


def params_of(net, n_inputs, n_outputs=3, seed=0):
    return jax.tree.map(np.asarray, net.init(jax.random.key(seed), n_inputs, n_outputs))


@pytest.mark.parametrize("net", [MLP((8, 4)), MLP((), bias=False), MLP((5,), "tanh"), SETS])
def test_numpy_and_jax_say_the_same(net):
    x = sets(16, 0)
    params = params_of(net, x.shape[1])
    plain = net.apply(params, x)
    assert isinstance(plain, np.ndarray)
    np.testing.assert_allclose(jax.jit(net.apply)(params, x), plain, rtol=0, atol=2e-6)


def test_a_layer_by_hand():
    params = [(np.array([[1.0], [-2.0]]), np.array([0.5])), (np.array([[3.0]]), np.array([1.0]))]
    x = np.array([[4.0, 1.0], [0.0, 1.0]])
    np.testing.assert_allclose(MLP((1,)).apply(params, x), [[8.5], [1.0]])


@given(st.integers(0, 2**31), st.integers(1, 20), st.integers(0, 6))
def test_a_packed_network_is_the_padded_one_wherever_it_fits(seed, n, least):
    x = sets(n, seed, least)
    params = params_of(SETS, x.shape[1])
    packed = SETS.packed(x, n)
    if packed.fits(x):
        np.testing.assert_allclose(
            packed.apply(params, jax.numpy.asarray(x)), SETS.apply(params, x), rtol=0, atol=1e-5
        )


def test_full_sets_do_not_fit_where_small_ones_are_common():
    common, full = sets(640, 0, most=2), sets(64, 1, least=6)
    packed = SETS.packed(common, 64)
    assert packed.room < 64 * 6 / 2
    assert packed.fits(common[:64])
    assert not packed.fits(full)


@given(st.integers(0, 2**31))
def test_the_order_of_members_and_what_is_written_where_none_is_do_not_matter(seed):
    x = sets(8, seed)
    rng = np.random.default_rng(seed)
    members, present, static = SETS.split(x)
    order = np.argsort(rng.random(present.shape), axis=1)
    rows = np.arange(8)[:, None]
    again = SETS.join(members[rows, order], present[rows, order], static)
    params = params_of(SETS, x.shape[1])
    np.testing.assert_allclose(SETS.apply(params, again), SETS.apply(params, x), atol=1e-5)
    noisy = np.where(present[..., None], members, 1e3)
    np.testing.assert_array_equal(
        SETS.join(noisy, present, static), SETS.join(members, present, static)
    )


def test_an_empty_set_is_one():
    x = SETS.join(np.zeros((2, 6, 2)), np.zeros((2, 6), bool), np.ones((2, 3)))
    params = params_of(SETS, x.shape[1])
    packed = SETS.packed(x, 2)
    np.testing.assert_allclose(
        packed.apply(params, jax.numpy.asarray(x)), SETS.apply(params, x), atol=1e-6
    )


def test_a_tree_is_put_together_again():
    params = {"a": [(np.ones(2), np.zeros(3))] * 11, "b": {"c": np.array(5.0)}}
    again = tree(leaves(params, "q"), "q")
    assert [len(pair) for pair in again["a"]] == [2] * 11
    np.testing.assert_array_equal(again["a"][10][1], np.zeros(3))
    assert again["b"]["c"] == 5.0


def test_wrong_settings_are_named():
    with pytest.raises(
        InvalidInput, match=r"`MLP.hidden` must be a tuple of positive integers; got \[3\]"
    ):
        MLP([3])
    with pytest.raises(InvalidInput, match=r"`DeepSets.members` must be an integer from 1; got 0"):
        DeepSets(0, 1, 1)
    with pytest.raises(InvalidInput, match=r"must have an encoder and a decoder"):
        DeepSets(1, 1, 1, encoder=())
    with pytest.raises(InvalidInput, match=r"= 21 numbers; these have 5"):
        SETS.init(jax.random.key(0), 5, 2)
    with pytest.raises(InvalidInput, match=r"= 21 numbers; these have 20"):
        SETS.join(np.zeros((1, 6, 2)), np.zeros((1, 6), bool), np.zeros((1, 2)))


def test_a_function_of_your_own_is_a_network():
    from inverseq.nets import Network

    own = Function(lambda key, i, o: jax.numpy.ones((i, o)), lambda params, x: x @ params)
    assert isinstance(own, Network)
    assert own.apply(own.init(None, 3, 2), np.ones((4, 3))).shape == (4, 2)
