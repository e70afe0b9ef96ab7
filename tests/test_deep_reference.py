"""What the deep engine is timed against is Algorithm 4, whatever was done for its speed."""

import numpy as np
import pytest

from inverseq import equations

torch = pytest.importorskip("torch", reason="PyTorch is no dependency: it is there to be timed")

from benchmarks import deep_reference  # noqa: E402
from benchmarks.deep_reference import DISCOUNT, RATE, SETS, TAU, Reference  # noqa: E402

LEAST = 1e-4


def outputs(kind, layers, rows):
    """One network by itself, all members of all sets and a mask."""
    x = rows
    for number, (w, b) in enumerate(layers):
        if kind == "sets" and number == 0:
            x, present, static = SETS.split(rows)
        if kind == "sets" and number == 2:
            x = (x * present[:, :, None]).sum(1)
        if kind == "sets" and number == 4:
            x = torch.cat([x, static], 1)
        x = x @ w + b
        x = torch.relu(x) if number < len(layers) - 1 else x
    return x


def smallest(found, name):
    """Of a kind of action values those of the network, or the smaller ones of the two."""
    values = [v.detach().numpy() for k, v in found.items() if k in (name, f"{name}_twin")]
    return np.min(values, axis=0)


def aims(done, here, after, a, ended, safe):
    """What each network should say of the actions that were taken: the equations, in order."""
    each, everything = np.arange(len(a)), np.ones(safe.shape, bool)
    log_pi = equations.log_boltzmann(done["rho"].detach().numpy(), everything)
    likely = log_pi[each, a] > np.log(LEAST)
    r, q_sh = here["r"].numpy(), here["q_sh"].numpy()
    eta = equations.advantage(np.maximum(log_pi, np.log(LEAST)), q_sh)
    y = equations.reward_target(eta, r, everything)[each, a]
    v = equations.value(smallest(after, "q"), everything)
    v_c = equations.value(smallest(after, "q_c"), safe)
    q = equations.action_value_target(r[each, a], DISCOUNT, ended, v)
    q_c = equations.action_value_target(r[each, a], DISCOUNT, ended, v_c)
    said = {"r": y, "q_sh": equations.shifted_target(DISCOUNT, ended, v), "q": q, "q_c": q_c}
    return {name: torch.tensor(aim) for name, aim in said.items()}, torch.tensor(likely)


def plainly(kind, data, start, indices):
    """Algorithm 4 network by network, with Adam as it was published."""
    online = {
        name: [torch.tensor(x, requires_grad=True) for layer in layers for x in layer]
        for name, layers in start.items()
    }
    target = {name: [x.detach().clone() for x in online[name]] for name in online if name != "rho"}
    moments = {name: [(0 * x.detach(), 0 * x.detach()) for x in online[name]] for name in online}

    def said(stacks, rows):
        return {k: outputs(kind, [*zip(p[::2], p[1::2], strict=True)], rows) for k, p in stacks}

    for t, at in enumerate(indices, 1):
        s, after = (
            torch.tensor(x[at], dtype=torch.float64) for x in (data.states, data.next_states)
        )
        a, each = data.actions[at], np.arange(len(at))
        done, here = said(online.items(), s), said(target.items(), s)
        goals, likely = aims(
            done, here, said(target.items(), after), a, data.terminated[at], data.safe_next[at]
        )
        assert not likely.all()
        losses = {}
        for name, values in done.items():
            if name == "rho":
                loss = -values.log_softmax(1)[each, a]
            else:
                loss = (values[each, a] - goals[name.removesuffix("_twin")]) ** 2
            losses[name] = (loss * likely if name == "r" else loss).mean()
        for name, loss in losses.items():
            gradients = torch.autograd.grad(loss, online[name])
            with torch.no_grad():
                for i, (x, g) in enumerate(zip(online[name], gradients, strict=True)):
                    m, v = moments[name][i]
                    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
                    moments[name][i] = m, v
                    x -= RATE * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)) ** 0.5 + 1e-8)
                    if name in target:
                        target[name][i] += TAU * (x - target[name][i])
    return online, target, {name: loss.item() for name, loss in losses.items()}


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("mlp", {}),
        ("mlp", {"foreach": True}),
        ("sets", {}),
        ("mlp", {"plain": True}),
        ("sets", {"plain": True}),
    ],
)
def test_the_reference_is_algorithm_4(kind, settings):
    data = deep_reference.synthetic(kind, 300, seed=1)
    if kind == "sets":
        data.states[0, 3:] = 0.0  # nobody there
    start = deep_reference.initial(kind, seed=2)
    for name in start:  # far from zero, and a classifier that is sure of itself
        scale = 20.0 if name == "rho" else 1.5
        start[name][-1] = (scale * start[name][-1][0], start[name][-1][1] + 0.1)
    indices = np.random.default_rng(3).integers(300, size=(3, 64))
    indices[0, 0] = 0
    online, target, losses = plainly(kind, data, start, indices)
    loop = Reference(kind, data, start=start, dtype="float64", **settings)
    assert loop.run(3, indices) == pytest.approx(losses, rel=1e-9)
    for expected, found in ((online, loop.parameters()), (target, loop.parameters(target=True))):
        assert list(found) == list(expected)
        for name, layers in found.items():
            flat = [x for layer in layers for x in layer]
            for x, y in zip(flat, expected[name], strict=True):
                np.testing.assert_allclose(x, y.detach().numpy(), rtol=0, atol=1e-11)


def test_the_same_seed_gives_the_same_losses_and_another_one_others():
    data = deep_reference.synthetic("mlp", 300)
    first, again, other = (Reference("mlp", data, seed).run(5) for seed in (0, 0, 1))
    assert first == again != other


def test_sets_are_as_large_as_they_are_said_to_be():
    sizes = SETS.split(deep_reference.synthetic("sets", 20_000).states)[1].sum(1)
    assert sizes.mean() == pytest.approx(10.6, abs=0.1)
    assert sizes.max() == 26
