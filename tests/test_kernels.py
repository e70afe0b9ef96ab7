"""The loop three times: as Python runs it, compiled over the equations, and compiled fused."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from inverseq import _kernels, equations
from inverseq._kernels import fused_loop, plain_loop, shared_loop

S, A = 7, 4
MOVED = ("q_sh", "r", "q", "q_c")


@dataclass(frozen=True)
class Given:
    """All that the loop is given, drawn at random."""

    seed: int
    steps: int = 300
    masked: bool = True
    constrained: bool = True
    weighted: bool = True
    counting: bool = True
    centred: bool = True
    constant: bool = False
    started: bool = False

    def arguments(self, normalised):
        """In the order of the loop, with fresh tables; how ``l`` is kept differs by a term."""
        rng = np.random.default_rng(self.seed)
        available = np.ones((S, A), bool)
        if self.masked:
            available = rng.random((S, A)) < 0.6
            available[np.arange(S), rng.integers(A, size=S)] = True
            available[0] = np.arange(A) == 1  # one state without a choice
        safe = available & (rng.random((S, A)) < 0.7)
        safe[1] = False  # a state with nothing safe
        states = rng.integers(S, size=self.steps).astype(np.int32)
        actions = np.array([rng.choice(np.flatnonzero(available[s])) for s in states], np.int32)
        follows = rng.integers(-1, S, size=self.steps).astype(np.int32)
        weights = rng.random(self.steps) * 3 if self.weighted else np.zeros(0)
        blocks = rng.permutation(np.arange(0, self.steps, 64))
        k, temperature, gamma = 0.01, 0.7, 0.9

        rho = np.zeros((S, A)) if self.counting else rng.integers(0, 9, (S, A)) * available * 1.0
        q_sh, r, q, q_c = np.zeros((4, S, A))
        if self.started:
            # Whatever is in the entries of what is not available must not be read.
            q_sh, r, q, q_c = rng.normal(size=(4, S, A))
            for table in (q_sh, r, q, q_c):
                table[~available] = np.inf if table is q else 1e6
            rho += np.where(available, rng.integers(0, 5, (S, A)), 0)
        l = temperature * np.log(np.where(available, rho + k, 1.0))
        if normalised:
            pi = equations.count_policy(rho, k, available)
            l = temperature * np.log(np.where(available, pi, 1.0))
        updates = np.zeros((S, A), np.int64)
        n = 60  # shorter than the most frequent pair is long, so that the last rate is kept
        rates = [np.minimum(1.0, c / (c + np.maximum(np.arange(n) - 1, 0))) for c in (1, 5, 9, 20)]
        if self.constant:
            rates = [np.full(n, rate) for rate in (1.0, 0.5, 0.1, 0.01)]
        return (
            states, actions, follows, weights, blocks, 64,
            l, rho, q_sh, r, q, q_c, updates,
            available, safe,
            *rates,
            gamma, k, temperature, self.counting, self.centred, self.constrained,
        )  # fmt: skip

    def after(self, loop, normalised):
        """The tables after a run of a loop."""
        arguments = self.arguments(normalised)
        loop(*arguments)
        names = ("l", "rho", "q_sh", "r", "q", "q_c", "updates")
        return dict(zip(names, arguments[6:13], strict=True)) | {"available": arguments[13]}


def settings():
    """Every switch both ways, and each beside the others."""
    rng = np.random.default_rng(0)
    names = ("masked", "constrained", "weighted", "counting", "centred", "constant", "started")
    for i in range(24):
        on = rng.random(len(names)) < 0.5 if i > 1 else np.full(len(names), bool(i))
        yield Given(i, **dict(zip(names, on.tolist(), strict=True)))


def named(given):
    on = [name for name, value in vars(given).items() if value is True]
    return "-".join(on) or "nothing"


def agree(x, y, names=MOVED):
    for name in names:
        seen = x["available"] if name in MOVED else slice(None)
        np.testing.assert_allclose(x[name][seen], y[name][seen], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("given", list(settings()), ids=named)
def test_compiled_over_the_equations_it_is_the_plain_loop(given):
    plain, shared = given.after(plain_loop, True), given.after(shared_loop, True)
    agree(plain, shared, (*MOVED, "l", "rho"))
    np.testing.assert_array_equal(plain["updates"], shared["updates"])


@pytest.mark.parametrize("given", list(settings()), ids=named)
def test_fused_it_is_the_loop_over_the_equations(given):
    shared, fused = given.after(shared_loop, True), given.after(fused_loop, False)
    agree(shared, fused, (*MOVED, "rho"))
    np.testing.assert_array_equal(shared["updates"], fused["updates"])
    # Its logarithms are right up to one term in each state.
    for s in np.flatnonzero(shared["updates"].any(axis=1)):
        can = shared["available"][s]
        off = (shared["l"] - fused["l"])[s, can]
        np.testing.assert_allclose(off, off[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_plain_loop_is_the_algorithm_of_the_paper(weighted):
    """Algorithms 1 and 3 written out once more, for one step after another."""
    given = Given(5, weighted=weighted, masked=False, centred=False)
    arguments = given.arguments(True)
    states, actions, follows, weights, blocks, block, *_ = arguments
    safe, rates = arguments[14], arguments[15:19]
    gamma, k, t = arguments[19:22]
    rho, q_sh, r, q, q_c = np.zeros((5, S, A))
    updates = np.zeros((S, A), int)
    for start in blocks:
        for i in range(start, min(start + block, len(states))):
            s, a, s_next = states[i], actions[i], follows[i]
            w = weights[i] if weighted else 1.0
            rho[s, a] += w
            updates[s, a] += 1
            rate = [min(1.0, w * table[min(updates[s, a], 59)]) for table in rates]
            log_pi = t * np.log((rho[s] + k) / (rho[s] + k).sum())
            best = max(q[s_next]) if s_next >= 0 else 0.0
            q_sh[s, a] += rate[0] * (gamma * best - q_sh[s, a])
            eta = log_pi - q_sh[s]
            goal = eta[a] + sum(r[s, b] - eta[b] for b in range(A) if b != a) / (A - 1)
            r[s, a] += rate[1] * (goal - r[s, a])
            q[s, a] += rate[2] * (r[s, a] + gamma * best - q[s, a])
            allowed = [q_c[s_next, b] for b in range(A) if safe[s_next, b]] if s_next >= 0 else [0]
            if allowed:
                q_c[s, a] += rate[3] * (r[s, a] + gamma * max(allowed) - q_c[s, a])
    found = given.after(plain_loop, True)
    expected = {"q_sh": q_sh, "r": r, "q": q, "q_c": q_c, "available": np.ones((S, A), bool)}
    agree(expected, found)


def test_a_state_without_a_choice_has_a_log_probability_of_zero():
    """The term that the fused logarithm leaves out would be all of it."""
    given = Given(0, centred=False, constant=True)
    shared, fused = given.after(shared_loop, True), given.after(fused_loop, False)
    assert shared["updates"][0, 1] > 0
    assert shared["l"][0, 1] == 0 != fused["l"][0, 1]
    np.testing.assert_allclose(fused["r"][0, 1], shared["r"][0, 1], atol=1e-12)


def test_with_rates_of_one_the_reward_target_is_met_at_once():
    given = Given(1, constant=True, counting=False, weighted=False, steps=1)
    ones = list(given.arguments(False))
    ones[15:19] = [np.ones(60)] * 4
    fused_loop(*ones)
    s, a = ones[0][0], ones[1][0]
    eta = ones[6][s] - ones[8][s]
    assert ones[9][s, a] == pytest.approx(equations.closed_form_reward(eta, ones[13][s])[a])


def test_what_was_not_seen_is_not_touched():
    given = Given(2, started=True, steps=20)
    before, after = given.arguments(False), given.after(fused_loop, False)
    unseen = after["updates"] == 0
    for name, table in zip(("l", "rho", *MOVED), before[6:12], strict=True):
        np.testing.assert_array_equal(after[name][unseen], table[unseen])
    assert after["updates"].sum() == 20


def test_a_pair_that_can_only_lead_where_nothing_is_safe_keeps_its_constrained_value():
    arguments = list(Given(3, steps=10).arguments(False))
    arguments[2][:] = 1  # the state with nothing safe
    fused_loop(*arguments)
    assert (arguments[11] == 0).all()
    assert np.isfinite(arguments[10]).all()


@pytest.mark.parametrize("loop", [plain_loop, shared_loop, fused_loop])
def test_the_loop_works_on_nothing(loop):
    given = replace(Given(4), steps=0)
    found = given.after(loop, True)
    assert not found["updates"].any()


def test_the_fused_formulas_are_the_only_ones_that_live_here():
    assert [name for name in vars(_kernels) if name.startswith("fused")] == [
        "fused_value", "fused_reward", "fused_observe", "fused_loop",
    ]  # fmt: skip
