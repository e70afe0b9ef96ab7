r"""Uncertainty: how far chance may have moved a recovered reward.

*The delta method* follows the counts through the linear solve. Given how often a state was visited,
the counts of its actions are multinomial, so that log-probabilities ``l`` have the covariance
``T^2 (diag(1 / pi) - 1) / n``; where the model was counted, the next states of a pair are
multinomial too. Values ``V = m + h`` (see `inverseq.gauges`) obey

.. math:: (I - \gamma P_\mu) \, dV = e, \qquad
          e(s) = dm(s) - \mu \cdot dl(s) + \gamma \sum_a \mu(a|s) \, dP_{s,a} V

and ``e`` is independent from state to state. With ``G`` the inverse of that matrix, and what a pair
adds of its own, this gives the variance of ``Q = l - m + V`` and of ``r = Q - gamma P V``. The
columns of ``G`` are solved for in blocks, with factors made once: no covariance of pairs is stored.

*The bootstrap* draws episodes (or units) with replacement and fits again, for any algorithm.

The delta method holds where counts are large and the best action is the best beyond doubt, as the
maximum has no derivative at a tie, and where nobody is known to act more than once: units may each
have ways of their own. Elsewhere there is the bootstrap.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from inverseq import _linear, planning
from inverseq._checks import as_number, as_whole, check_choice, check_kind, check_workers
from inverseq._processes import side_by_side
from inverseq._progress import Bar
from inverseq._random import generator
from inverseq.algorithms.iavi import IAVI
from inverseq.demonstrations import Additive, Demonstrations, tabulated
from inverseq.errors import InvalidInput, InverseqWarning
from inverseq.evaluate import groups
from inverseq.gauges import EXACT, Gauge, Uniform, Zero, reference
from inverseq.shapes import Sparse, Table
from inverseq.solution import SPREADS, Solution, Spread, Uncertainty
from inverseq.task import Task
from inverseq.transitions import Transitions

Method = Literal["auto", "delta", "bootstrap"]

FEWEST_VISITS = 30
"""Fewer visits of a pair, and the logarithm of its count is too crooked for a derivative."""
CLEAR = 2.0
"""By so many standard errors of their difference must the best action lead the second best."""
LARGEST_DELTA = 20_000
"""More states than that, and a solve for each of them takes longer than to fit some hundred times.
"""
BLOCK_NUMBERS = 300_000
"""How many numbers a block of columns may hold for all pairs: what a cache holds is faster by far.
"""
PARTS = 40
"""Into how many jobs the draws of a bootstrap are divided."""
LARGEST_BOOTSTRAP = 2**28
"""How many numbers all replications may hold: 2 GiB."""


def fit(
    algorithm: Any,
    demonstrations: Demonstrations,
    task: Task,
    *,
    method: Method = "auto",
    level: float = 0.95,
    replications: int = 200,
    gauge: Gauge | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: bool | None = None,
) -> Solution:
    """Fit, and measure how far chance may have moved the answer: `Solution.uncertainty`.

    >>> import inverseq as iq
    >>> world = iq.worlds.gridworld(3)
    >>> seen = world.demonstrations(episodes=2000, length=20, seed=0)
    >>> found = fit(iq.IAVI(), seen, world.task, workers=0)
    >>> found.uncertainty.method, found.uncertainty.reward.error.shape
    ('bootstrap', (9, 5))
    >>> print(found.uncertainty.why)
    the best action of state 1 leads by 0.4 standard errors only, where the delta method needs 2

    Args:
        algorithm: Any algorithm for tables.
        demonstrations: What was seen; states are numbers.
        task: What is assumed. Where it has no model, the model is counted, and its own errors are
            part of the answer's.
        method: "delta" (for `IAVI` in an exact gauge), "bootstrap", or "auto": "delta" where it
            holds.
        level: How often intervals are to cover the truth.
        replications: How often the bootstrap fits again.
        gauge: To bring all rewards to this one; by default that of the algorithm, or `Uniform` if
            it states none. Without it rewards would differ by what means nothing.
        seed: That of the draws, and of every fit.
        workers: How many processes; 0 fits one after another in this one, None takes one for each
            core. The answer is the same, bit for bit.
        progress: None shows a bar on a terminal.
    """
    check_kind(demonstrations, Demonstrations, "demonstrations")
    check_kind(task, Task, "task")
    check_choice(method, ("auto", "delta", "bootstrap"), "method")
    if not 0 < as_number(level) < 1:
        raise InvalidInput(f"`level` must lie between 0 and 1; got {level!r}.")
    if as_whole(replications) < 2:
        raise InvalidInput(
            f"`replications` must be an integer of at least 2; got {replications!r}."
        )
    check_workers(workers)
    generator(seed)
    if not demonstrations.tabular:
        raise InvalidInput(
            f"`uncertainty.fit` must have states that are numbers of a table; these have shape "
            f"{demonstrations.states.shape[1:]}."
        )
    if task.n_states is None:
        # A draw may lack the states of the highest numbers.
        task = replace(task, n_states=len(tabulated(demonstrations, task)[1]))
    if gauge is not None and isinstance(algorithm, IAVI):
        algorithm, gauge = replace(algorithm, gauge=gauge), None
    job = Job(algorithm, demonstrations, task, gauge, seed)
    found = job.solution(demonstrations, task, progress)
    why_not, why = ("", "it was asked for") if method == "bootstrap" else trusted(job, found)
    if method == "delta" and why_not:
        raise InvalidInput(
            f"`method='delta'` must not be asked for here: {why_not}. Use 'bootstrap', or 'auto'."
        )
    if method == "bootstrap" or why_not:
        asked = why_not or why
        demonstrations.in_order(f"A bootstrap of episodes (here because {asked})")
        spreads, over = bootstrap(job, found, level, as_whole(replications), workers, progress)
        measured = Uncertainty(
            *spreads, "bootstrap", float(level), asked, over, as_whole(replications), seed
        )
    else:
        measured = Uncertainty(*delta(job, found, level, progress), "delta", float(level), why)
    return replace(found, uncertainty=measured)


class Job(NamedTuple):
    """A fit that can be done again, of other draws and in another process."""

    algorithm: Any
    demonstrations: Demonstrations
    task: Task
    gauge: Gauge | None
    seed: int

    def solution(
        self, demonstrations: Demonstrations, task: Task, progress: bool | None
    ) -> Solution:
        """The answer of some demonstrations, in the gauge."""
        found: Solution = self.algorithm.fit(
            demonstrations, task, seed=self.seed, progress=progress
        )
        gauge = self.gauge
        if gauge is None and found.info.gauge == PATH:
            gauge = Uniform()
        return found if gauge is None else found.regauge(gauge, tabulated(demonstrations, task)[0])

    def tables(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Reward, values and policy of weighted steps."""
        there = weights > 0
        drawn = replace(self.demonstrations.select(there), weights=weights[there])
        with warnings.catch_warnings():
            # What is to be said was said of the whole.
            warnings.simplefilter("ignore", InverseqWarning)
            found = self.solution(drawn, self.task, False)
        return estimates(found)


PATH = "that of its path"
"""What algorithms call a gauge that depends on rates and on the order of the data."""


def estimates(found: Solution) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is uncertain: reward, action values and the demonstrator's policy."""
    policy = found.predict_proba(np.arange(len(found.q_table)), constrained=False)
    return found.reward_table, found.q_table, policy


def measurable(found: Solution) -> np.ndarray:
    """The pairs of which the log can say something, bool (S, A)."""
    visited = found.visited
    available = found.tables.available
    return available if visited is None else available & visited[:, None]


# -- the delta method --------------------------------------------------------------------------


def squares(demonstrations: Demonstrations, visits: Table) -> np.ndarray:
    """The sums of squared weights of each pair, (S, A): where each step weighs 1, the visits."""
    d, n_actions = demonstrations, visits.shape[1]
    if d.weights is None or d.counted:
        return visits
    pairs = d.states * n_actions + d.actions
    return np.bincount(pairs, d.weights**2, visits.size).reshape(visits.shape)


def trusted(job: Job, found: Solution) -> tuple[str, str]:
    """Why the delta method does not hold, if so, and why it does, if so."""
    algorithm, available = job.algorithm, found.tables.available
    if not isinstance(algorithm, IAVI) or job.gauge is not None:
        return f"the delta method is for IAVI, and this is {found.info.algorithm}", ""
    if not isinstance(algorithm.smoothing, Additive):
        return "the delta method is for Additive smoothing, and this leans on other states", ""
    counted = job.demonstrations.counted  # and of nobody is known that he acted more than once
    over, member = ("step", np.zeros(1)) if counted else groups(job.demonstrations)
    if over == "unit":
        return (
            f"each of {int(member.max()) + 1} units may have ways of its own, and the delta method "
            f"takes all steps to be independent",
            "",
        )
    if not isinstance(algorithm.gauge, EXACT):
        return f"the delta method is for exact gauges, and {algorithm.gauge!r} is none", ""
    if len(available) > LARGEST_DELTA:
        return (
            f"{len(available):,} states are more than the {LARGEST_DELTA:,} of which the delta "
            f"method takes the inverse",
            "",
        )
    if not _linear.thin(tabulated(job.demonstrations, job.task)[0].uniform_chain):
        return "the graph of the model is too wide for the factors that the delta method needs", ""
    visits = found.tables.visits
    assert visits is not None  # it was fitted to demonstrations
    decides = np.ones(len(visits), bool) if job.task.terminal is None else ~job.task.terminal
    pairs = available & decides[:, None]
    each = visits**2 / np.maximum(squares(job.demonstrations, visits), 1e-300)
    each = np.where(pairs, each, np.inf)
    s, a = divmod(int(each.argmin()), each.shape[1])
    least = float(each[s, a])
    if least < FEWEST_VISITS:
        return (
            f"action {a} of state {s} was seen {number(least)} times, where the delta method needs "
            f"{FEWEST_VISITS}",
            "",
        )
    enough = f"every pair was seen at least {number(least)} times"
    if algorithm.backup == "soft":
        return "", enough
    lead = leads(found, each, pairs)
    s = int(lead.argmin())
    if lead[s] < CLEAR:
        return (
            f"the best action of state {s} leads by {lead[s]:.1f} standard errors only, where the "
            f"delta method needs {CLEAR:g}",
            "",
        )
    if not np.isfinite(lead[s]):
        return "", enough
    return "", f"{enough}, and the best action leads by at least {lead[s]:.1f} standard errors"


def number(visits: float) -> str:
    """A number of visits; a whole one without digits."""
    return f"{visits:,.0f}" if visits == round(visits) else f"{visits:,.1f}"


def leads(found: Solution, visits: Table, pairs: np.ndarray) -> np.ndarray:
    """By how many standard errors the best action of each state leads the second best, (S,)."""
    lead = np.full(len(pairs), np.inf)
    rows = np.flatnonzero(pairs.sum(axis=1) > 1)
    if not rows.size:
        return lead
    q = np.where(pairs, found.q_table, -np.inf)[rows]
    best, second = np.argsort(-q, axis=1, kind="stable")[:, :2].T
    each = np.arange(len(rows))
    error = found.temperature * np.sqrt(1 / visits[rows, best] + 1 / visits[rows, second])
    lead[rows] = (q[each, best] - q[each, second]) / error
    return lead


def delta(
    job: Job, found: Solution, level: float, progress: bool | None
) -> tuple[Spread, Spread, Spread]:
    """The spreads of reward, values and policy, from their derivatives by the counts."""
    from scipy.special import expit, logit, ndtri

    reward, q, policy = estimates(found)
    variances = delta_variances(job, found, progress)
    errors = [np.where(measurable(found), np.sqrt(np.maximum(v, 0.0)), np.nan) for v in variances]
    z = float(ndtri(0.5 + level / 2))
    spreads = [Spread(e, x - z * e, x + z * e) for x, e in zip((reward, q), errors, strict=False)]
    # A probability stays one: its interval is even on the scale of log-odds.
    certain = (policy <= 0) | (policy >= 1)
    p = np.where(certain, 0.5, policy)
    reach = np.where(certain, 0.0, z * errors[2] / (p * (1 - p)))
    low, high = (np.where(certain, policy, expit(logit(p) + way * reach)) for way in (-1, 1))
    known = np.isfinite(errors[2])
    spread = Spread(errors[2], np.where(known, low, np.nan), np.where(known, high, np.nan))
    return spreads[0], spreads[1], spread


def delta_variances(
    job: Job, found: Solution, progress: bool | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The variances of reward, values and policy, (S, A) each; the letters are the docstring's."""
    algorithm: IAVI = job.algorithm
    visits = found.tables.visits
    assert visits is not None
    task, _ = tabulated(job.demonstrations, job.task.unconstrained())
    model, gamma, available = task.continuing, task.discount, task.available_table()
    soft = algorithm.backup == "soft"
    policy = estimates(found)[2]
    weight = squares(job.demonstrations, visits)

    # Of each state: the covariance of l is c * (diag(1 / pi) - 1).
    inverse = np.where(available, 1 / np.where(available, policy, 1.0), 0.0)
    total = (np.where(available, visits, 0.0) + algorithm.smoothing.k * available).sum(axis=1)
    share = weight.sum(axis=1) / np.where(total > 0, total, 1.0) ** 2
    if task.terminal is not None:
        share = np.where(task.terminal, 0.0, share)
    c = (task.temperature**2 * share)[:, None]

    # The derivative of m by l: the best action, or the policy itself.
    values = np.where(available, found.q_table, -np.inf)
    w = policy if soft else np.eye(task.n_actions)[values.argmax(axis=1)]
    if isinstance(algorithm.gauge, Zero):
        mu, chain = np.zeros(policy.shape), model.under(np.zeros(policy.shape))
    else:
        mu = reference(algorithm.gauge, task)[0]
        chain = model.under(mu)
    by = w - mu
    own = c[:, 0] * ((by**2 * inverse).sum(axis=1) - by.sum(axis=1) ** 2)
    # What a pair adds of its own, d = dl - dm, and how that goes along with e.
    apart = c * ((1 - 2 * w) * inverse + (w**2 * inverse).sum(axis=1, keepdims=True))
    along = c * (by * inverse - (by * w * inverse).sum(axis=1, keepdims=True))

    # Next states of a pair, where they were counted; after an end the value is 0.
    scattered = np.zeros(policy.shape)
    if job.task.transitions is None:
        v = planning.state_value(found.q_table, available, task.temperature, soft)
        v = v if task.terminal is None else np.where(task.terminal, 0.0, v)
        spread = np.maximum(model.expect(v**2) - model.expect(v) ** 2, 0.0)
        seen = np.where(visits > 0, visits, 1.0)
        scattered = np.where(available, gamma**2 * spread * weight / seen**2, 0.0)
    own = own + (mu**2 * scattered).sum(axis=1)

    reward, q = through(chain, model, gamma, own, along, along - mu * scattered, progress)
    return reward + apart + scattered, q + apart, share[:, None] * policy * (1 - policy)


def through(
    chain: Sparse,
    model: Transitions,
    gamma: float,
    own: np.ndarray,
    along_q: Table,
    along_reward: Table,
    progress: bool | None,
) -> tuple[np.ndarray, np.ndarray]:
    """What the noise of all states adds to the variances of reward and values, (S, A) each.

    ``own`` is the variance of ``e``; the others are its covariances with what a pair has of its
    own. Time is that of a solve for each state, memory that of a block of them.
    """
    n_states, n_actions = along_q.shape
    factors = _linear.factorise(_linear.System(chain, gamma))
    q, reward = np.zeros(n_states), np.zeros((n_states, n_actions))
    # G(s, s), and the same of rewards.
    moves, pays = np.zeros(n_states), np.zeros((n_states, n_actions))
    noisy = np.flatnonzero((own > 0) | (along_q != 0).any(axis=1) | (along_reward != 0).any(axis=1))
    size = max(1, BLOCK_NUMBERS // (n_states * n_actions))
    with Bar("delta method", len(noisy), progress) as bar:
        for at in range(0, len(noisy), size):
            block = noisy[at : at + size]
            each = np.arange(len(block))
            units = np.zeros((n_states, len(block)))
            units[block, each] = 1.0
            moved = factors.solve(units)
            paid = (model.matrix @ moved).reshape(n_states, n_actions, -1)
            paid = moved[:, None, :] - gamma * paid
            q += moved**2 @ own[block]
            reward += paid**2 @ own[block]
            moves[block] = moved[block, each]
            pays[block] = paid[block, :, each]
            bar.advance(len(block))
    return reward + 2 * pays * along_reward, q[:, None] + 2 * moves[:, None] * along_q


# -- the bootstrap -----------------------------------------------------------------------------


def bootstrap(
    job: Job,
    found: Solution,
    level: float,
    replications: int,
    workers: int | None,
    progress: bool | None,
) -> tuple[tuple[Spread, Spread, Spread], str]:
    """The spreads over draws of whole episodes or units, and which of them were drawn."""
    over, member = groups(job.demonstrations)
    if member.max() == 0:
        raise InvalidInput(
            "`Demonstrations.episodes` must be at least 2 for the bootstrap, which draws them with "
            "replacement; there is 1. Where one long episode can be cut, label its parts."
        )
    shape = (replications, len(SPREADS), *found.q_table.shape)
    if np.prod(shape, dtype=float) > LARGEST_BOOTSTRAP:
        raise InvalidInput(
            f"`replications` must be fewer for {shape[2]:,} states and {shape[3]} actions: "
            f"{replications:,} would need {8 * np.prod(shape, dtype=float) / 2**30:.0f} GiB."
        )
    drawn = np.empty(shape)
    # Constraints change no reward, and those that are functions cannot be sent.
    job = job._replace(task=job.task.unconstrained())
    name = type(job.algorithm).__name__
    with Bar(f"{name} for {replications} draws of {over}s", replications, progress) as bar:
        # Some draws at once: the demonstrations are sent with each job.
        parts = min(PARTS, replications)
        cuts = np.linspace(0, replications, parts + 1).astype(int).tolist()
        jobs = [(job, member, a, b) for a, b in pairwise(cuts)]
        for i, tables in side_by_side(replicate, jobs, workers):
            drawn[jobs[i][2] : jobs[i][3]] = tables
            bar.advance(len(tables))
    drawn = np.where(measurable(found), drawn, np.nan)
    known = np.isfinite(drawn).all(axis=(0, 1))
    inner = drawn[:, :, known]
    tail = (1 - level) / 2
    measured = inner.std(axis=0, ddof=1), *np.quantile(inner, [tail, 1 - tail], axis=0)

    def table(values: np.ndarray) -> np.ndarray:
        whole = np.full(known.shape, np.nan)
        whole[known] = values
        return whole

    reward, q, policy = (
        Spread(*(table(values[i]) for values in measured)) for i in range(len(SPREADS))
    )
    return (reward, q, policy), over


def replicate(job: Job, member: np.ndarray, first: int, last: int) -> np.ndarray:
    """The tables of some draws, each from its own numbers: it does not matter who draws them."""
    n = int(member.max()) + 1
    weights = job.demonstrations.step_weights
    found = []
    for i in range(first, last):
        rng = np.random.default_rng([job.seed, i])
        times = np.bincount(rng.integers(n, size=n), minlength=n)
        while not (times[member] * weights).any():
            times = np.bincount(rng.integers(n, size=n), minlength=n)
        found.append(job.tables(times[member] * weights))
    return np.array(found)
