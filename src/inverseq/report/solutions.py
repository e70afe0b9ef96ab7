"""What there is to say about a solution: how far to trust it, and its reward, values and policy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from inverseq import identification
from inverseq.errors import InvalidInput
from inverseq.labels import words
from inverseq.report.blocks import (
    Block,
    Chart,
    Column,
    Document,
    Maps,
    Series,
    Settings,
    Table,
    Text,
)
from inverseq.report.maps import Panel
from inverseq.report.svg import number
from inverseq.solution import HARDLY, Solution, Tables

FEW_STATES = 64
SHOWN = 12
"""How many of the highest rewards are listed with their intervals."""
MOVES = ("up", "down", "left", "right", "stay")
GAUGES = {
    "Uniform": "in every state the rewards of the actions have mean zero, so that they compare "
    "choices within a state and not states with one another",
    "Zero": "it carries no potential of the next state",
    "Reference": "it is anchored where a reference policy earns a known reward",
    "StateOnly": "it depends on the state alone, and its mean is zero",
    "Features": "it is linear in features",
    "by": "it is the likeliest one of a family, under a prior",
}


def describe(
    solution: Solution, shape: tuple[int, int] | None = None, title: str = "A solution"
) -> Document:
    """A document about a solution; with the rows and columns of its grid, it shows maps.

    >>> import inverseq as iq
    >>> world = iq.worlds.gridworld(3)
    >>> document = describe(iq.IAVI().solve(world.expert(), world.task), shape=(3, 3))
    >>> [type(block).__name__ for block in document.blocks]
    ['Text', 'Text', 'Table', 'Maps', 'Maps', 'Settings', 'Settings']
    """
    found = solution.found
    states = f"{len(found.q):,} states" if isinstance(found, Tables) else "states that are rows"
    lead = (
        f"What {solution.info.algorithm} found for {states} and {solution.n_actions} actions: the "
        f"reward that explains what was seen, its values, and the policy that follows."
    )
    return Document(title, lead, tell(solution, shape))


def tell(solution: Solution, shape: tuple[int, int] | None = None) -> list[Block]:
    """The blocks of a solution: what to know before believing it, what was found, what was set."""
    table = isinstance(solution.found, Tables)
    n_states = len(solution.tables.q) if shape is not None or table else 0
    if shape is not None and (min(shape) < 1 or shape[0] * shape[1] != n_states):
        raise InvalidInput(
            f"`shape` must be the rows and columns of a grid with {n_states} cells, "
            f"one for each state; {shape[0]} x {shape[1]} are {shape[0] * shape[1]}."
        )
    info = solution.info
    blocks: list[Block] = [*verdict(solution), facts(solution)]
    if shape is not None:
        blocks += grid_maps(solution, shape)
    elif table and n_states <= FEW_STATES:
        blocks += [state_table(solution)]
    elif table:
        blocks += strips(solution)
    if solution.uncertainty is not None:
        blocks += uncertain(solution, shape)
    blocks += convergence(solution)
    made = {"versions": info.versions, "seed": info.seed, "seconds": info.seconds}
    blocks += [
        Settings({**info.settings}, f"Settings of {info.algorithm}"),
        Settings({"task": info.task, **made}, "Task, seed and versions"),
    ]
    return blocks


def verdict(solution: Solution) -> list[Text]:
    """What a reader must know before believing the reward."""
    info, said = solution.info, []
    if not info.converged:
        said.append(
            Text(
                f"Not converged: after {info.iterations:,} iterations the tolerance was not met. "
                f"The answer stands as far as it got.",
                warning=True,
            )
        )
    found = identification.verdict(info)
    free = info.unidentified_dimensions
    if free is not None and not found.identified:
        one = "The reward shown is any of many; the policy does not depend on which."
        said.append(Text(f"{found} {one}", warning=True))
    else:
        said.append(Text(str(found)))
    kind = identification.kind(info.gauge)
    if kind in GAUGES:
        words = f"Many rewards explain the same choices. This one is in the gauge {info.gauge}: "
        words += GAUGES[kind] + "."
        said.append(Text(words))
    else:
        said.append(
            Text(
                "Many rewards explain the same choices. Which of them this one is (its gauge: "
                f"{info.gauge or 'not stated'}) the algorithm does not fix: read the policy, and "
                "bring the reward to a stated gauge before comparing it."
            )
        )
    return said


def facts(solution: Solution) -> Table:
    """How it was found, in one table."""
    info = solution.info
    rows: list[tuple[str, str]] = [
        ("algorithm", info.algorithm),
        ("gauge", info.gauge or "not stated"),
        ("discount", str(info.task.get("discount", "not stated"))),
        ("temperature", str(solution.temperature)),
        ("constraints", ", ".join(info.task.get("constraints", ())) or "none"),
        ("computed by", f"{info.solver or 'not stated'}, {info.backup} of the next values"),
        ("converged", "yes" if info.converged else "no"),
        ("iterations", f"{info.iterations:,}"),
        ("residual", "not measured" if info.residual is None else number(info.residual)),
    ]
    if isinstance(solution.found, Tables) and solution.visited is not None:
        unseen = int((~solution.visited).sum())
        rows.append(("states never seen", f"{unseen:,} of {len(solution.tables.q):,}"))
        hardly = int(hardly_seen(solution).sum())
        rows.append(
            (f"seen fewer than {HARDLY} times", f"{hardly:,} of {len(solution.tables.q):,}")
        )
    if info.unidentified_dimensions is not None:
        rows.append(("unidentified directions", f"{info.unidentified_dimensions:,}"))
    return Table(["", ""], rows, "How it was found")


def convergence(solution: Solution) -> list[Chart]:
    """How the reward settled, where it did so in steps."""
    change = solution.info.change
    if len(change) < 3:
        return []
    step = -(-len(change) // 200)
    x = list(range(1, len(change) + 1))[::step]
    series = Series("largest change of the reward", x, change[::step])
    caption = "How the reward settled: its largest change in each iteration."
    return [Chart([series], "iteration", "largest change", y_log=True, caption=caption)]


def seen(solution: Solution, values: np.ndarray) -> np.ndarray:
    """Values by state, NaN where no demonstration was: what stands there is convention."""
    visited = solution.visited
    if visited is not None:
        mask = visited if values.ndim == 1 else visited[:, None]
        values = np.where(mask, values, np.nan)
    known: np.ndarray = np.where(np.isfinite(values), values, np.nan)
    return known


def hardly_seen(solution: Solution) -> np.ndarray:
    """The states that were seen, but so rarely that what stands there is chance, bool (S,)."""
    if solution.visited is None or solution.scarce is None:
        return np.zeros(len(solution.tables.q), bool)
    return np.asarray(solution.scarce & solution.visited)


def marked(solution: Solution, maps: Maps) -> Maps:
    """The same maps, with what was hardly seen hatched, and a legend for what is hatched."""
    hardly, panels = hardly_seen(solution), list(maps.panels)
    if hardly.any():
        panels = [
            replace(panel, doubtful=np.tile(hardly, panel.values.size // hardly.size))
            for panel in panels
        ]
    unknown = any(np.isnan(panel.values).any() for panel in panels)
    return replace(
        maps,
        panels=panels,
        unknown="never seen, or nothing can be done there" * unknown,
        doubtful=f"seen fewer than {HARDLY} times" * bool(hardly.any()),
    )


def rewards(solution: Solution) -> np.ndarray:
    """The reward by state and action, NaN for what is not known; one column where it is of states.

    >>> import inverseq as iq
    >>> world = iq.worlds.gridworld(2, reward=[0, 0, 0, 1.0])
    >>> rewards(iq.IAVI(gauge=iq.StateOnly()).solve(world.expert(), world.task)).shape
    (4, 1)
    """
    available = solution.tables.available
    table = seen(solution, np.where(available, solution.reward_table, np.nan))
    filled = np.where(np.isnan(table), -np.inf, table)
    highest = filled.max(axis=1)
    lowest = -np.where(np.isnan(table), -np.inf, -table).max(axis=1)
    known = np.isfinite(highest)
    if np.allclose(highest[known], lowest[known], rtol=1e-9, atol=1e-9):
        return np.where(known, highest, np.nan)[:, None]
    return table


def names(solution: Solution, grid: bool) -> list[str]:
    """What the actions are called."""
    n = solution.tables.q.shape[1]
    if solution.labels is not None:
        return [words(label) for label in solution.labels.actions]
    return list(MOVES[:n]) if grid and n in (4, 5) else [f"action {a}" for a in range(n)]


def state_name(solution: Solution, state: int) -> str:
    """What a state is called."""
    labels = solution.labels
    if labels is None or labels.states is None:
        return str(state)
    return labels.state_words(state)


def grid_maps(solution: Solution, shape: tuple[int, int]) -> list[Block]:
    """Reward, values and policy as maps."""
    reward, actions = rewards(solution), names(solution, grid=True)
    if reward.shape[1] == 1:
        paid = [Panel("reward", reward[:, 0], signed=True, note="of the state")]
    else:
        sizes = np.abs(reward[np.isfinite(reward)])
        far, most = (sizes.max(), np.quantile(sizes, 0.995)) if sizes.size else (1.0, 1.0)
        # One action that nobody takes must not bleach all others.
        far = most if far > 2 * most > 0 else far
        paid = [
            Panel(
                f"reward of {name}",
                reward[:, a],
                signed=True,
                limits=(-far, far),
                note="some cells lie beyond the scale" * bool((np.abs(reward[:, a]) > far).any()),
            )
            for a, name in enumerate(actions)
        ]
    panels = [Panel("value", seen(solution, solution.value_table), note="of the best way on")]
    policies = [policy_panel(solution, actions, constrained=False)]
    if solution.tables.q_constrained is not None:
        panels.append(
            Panel(
                "value under the constraints",
                seen(solution, solution.value_constrained(np.arange(len(reward)))),
                note="of the best way on that is safe",
            )
        )
        policies.append(policy_panel(solution, actions, constrained=True))
    arrows = (
        " Arrows take the actions as up, down, left, right and stay, in this order; where two are "
        "as good there is none."
        if policies[0].arrows is not None
        else ""
    )
    if len(paid) == 1:
        drawn = Maps([*paid, *panels, *policies], shape, f"Reward, values and policy.{arrows}")
        return [marked(solution, drawn)]
    found = Maps(paid, shape, "The recovered reward, one map for each action, on one scale.")
    follows = "Values and policy: how sure it is, and what it does most." + arrows
    maps = found, Maps([*panels, *policies], shape, follows)
    return [marked(solution, each) for each in maps]


def policy_panel(solution: Solution, actions: list[str], *, constrained: bool) -> Panel:
    """How probable the most probable action is, and which it is."""
    policy = solution.predict_proba(np.arange(len(solution.tables.q)), constrained=constrained)
    best = policy.max(axis=1)
    sure = seen(solution, np.where(best > 0, best, np.nan))
    arrows = None
    if actions[0] == MOVES[0]:
        # No arrow where two actions are as good.
        tied = (policy >= best[:, None] * (1 - 1e-9)).sum(axis=1) > 1
        arrows = np.where(np.isnan(sure) | tied, -1, policy.argmax(axis=1))
    ruled = solution.tables.q_constrained is not None
    title = "policy under the constraints" if constrained and ruled else "policy"
    return Panel(
        title, sure, note="probability of the likeliest action", arrows=arrows, limits=(0, 1)
    )


def strips(solution: Solution) -> list[Block]:
    """Many states without a map: one strip for each quantity, its columns the states."""
    n_states, n_actions = solution.tables.q.shape
    reward, policy = rewards(solution), seen(solution, policy_of(solution))
    rows = f", a row for each of {n_actions} actions"
    paid = Panel(
        "reward",
        reward.T.ravel(),
        True,
        note="states from left to right" + (rows if reward.shape[1] > 1 else ""),
    )
    acts = Panel("policy", policy.T.ravel(), note="probability" + rows, limits=(0, 1))
    drawn = [
        Maps([paid], (reward.shape[1], n_states), "The recovered reward."),
        Maps(
            [Panel("value", seen(solution, solution.value_table))],
            (1, n_states),
            "The value of the best way on.",
        ),
        Maps(
            [acts],
            (n_actions, n_states),
            "The policy. Give the rows and columns of a grid, if it is one, to see maps.",
        ),
    ]
    return [marked(solution, maps) for maps in drawn]


def uncertain(solution: Solution, shape: tuple[int, int] | None) -> list[Block]:
    """How far chance may have moved the reward: by which method, where, and the highest rewards."""
    measured = solution.uncertainty
    assert measured is not None
    how = how_measured(solution)
    said = Text(
        f"Standard errors and {how}: {measured.why}. They say how far chance may have moved the "
        f"reward of this gauge, and nothing of whether the gauge is the right one."
    )
    n_states = len(solution.tables.q)
    error, names_ = measured.reward.error, names(solution, shape is not None)
    columns = rewards(solution).shape[1]
    if columns == 1:
        error, names_ = np.nanmax(np.where(np.isnan(error), -np.inf, error), axis=1)[:, None], [""]
        error = np.where(np.isneginf(error), np.nan, error)
    blocks: list[Block] = [said]
    if shape is not None:
        known = error[np.isfinite(error)]
        limits = (0.0, float(known.max())) if known.size else None
        panels = [
            Panel(f"error of {name}".removesuffix(" of "), error[:, a], limits=limits)
            for a, name in enumerate(names_)
        ]
        drawn = Maps(panels, shape, "The standard error of the reward, on one scale.")
        blocks.append(marked(solution, drawn))
    elif n_states > FEW_STATES:
        strip = Panel("standard error of the reward", error.T.ravel())
        drawn = Maps([strip], (columns, n_states), "How far chance may have moved the reward.")
        blocks.append(marked(solution, drawn))
    if shape is not None or n_states > FEW_STATES:
        blocks.append(highest(solution, names_, how))
    return blocks


def summary(solution: Solution) -> Table | None:
    """The highest rewards, however many states there are; None where states are rows of numbers.

    >>> import inverseq as iq
    >>> world = iq.worlds.gridworld(3)
    >>> summary(iq.IAVI().solve(world.expert(), world.task)).rows[0]
    ('5', 'action 1', '1.552')
    """
    if not isinstance(solution.found, Tables):
        return None
    one = rewards(solution).shape[1] == 1
    return highest(solution, [""] if one else names(solution, grid=False), how_measured(solution))


def how_measured(solution: Solution) -> str:
    """How its intervals were found, in words; nothing where there are none."""
    measured = solution.uncertainty
    if measured is None:
        return ""
    if measured.method == "bootstrap":
        return (
            f"{measured.level:.0%} intervals by a bootstrap, from {measured.replications:,} draws "
            f"of {measured.over}s"
        )
    return f"{measured.level:.0%} intervals by the delta method"


def highest(solution: Solution, actions: list[str], how: str = "") -> Table:
    """The highest rewards, with their errors and intervals where those were measured."""
    table, hardly = rewards(solution), hardly_seen(solution)
    if not hardly[np.isfinite(table).any(axis=1)].all():  # else there is nothing better to show
        table = np.where(hardly[:, None], np.nan, table)
    ranked = np.where(np.isnan(table), -np.inf, table)
    order = np.argsort(-ranked, axis=None, kind="stable")[:SHOWN]
    spread = None if solution.uncertainty is None else solution.uncertainty.reward
    visits, of_pairs = solution.tables.visits, len(actions) > 1
    rows = []
    for s, a in zip(*np.unravel_index(order, table.shape), strict=True):
        if not np.isfinite(table[s, a]):
            continue
        row = [state_name(solution, int(s)), *([actions[a]] if of_pairs else [])]
        row.append(digits(table[s, a]))
        if spread is not None:
            # A reward of the state stands in the column of an action that is available there.
            at = a if of_pairs else int(np.isfinite(spread.error[s]).argmax())
            row.append(digits(spread.error[s, at]))
            row.append(f"{digits(spread.low[s, at])} to {digits(spread.high[s, at])}")
        if visits is not None:
            row.append(f"{visits[s, a] if of_pairs else visits[s].sum():,.0f}")
        rows.append(row)
    heads = ["state", *(["action"] if of_pairs else []), "reward"]
    heads += ["error", "interval"] if spread is not None else []
    heads += ["visits"] if visits is not None else []
    words = {"action"} if solution.labels is None else {"state", "action"}
    columns = [Column(head, numeric=head not in words) for head in heads]
    return Table(columns, rows, f"The highest rewards{', with ' * bool(how)}{how}")


def digits(x: float, n: int = 3) -> str:
    """A number of a table of few states."""
    return f"{x:.{n}f}".replace("-", "−")


def policy_of(solution: Solution) -> np.ndarray:
    """The policy by state and action, NaN where nothing can be done."""
    policy = solution.policy_table
    found: np.ndarray = np.where(policy.any(axis=1, keepdims=True), policy, np.nan)
    return found


def state_table(solution: Solution) -> Table:
    """Few states: a row for each."""
    actions = names(solution, grid=False)
    reward, value = rewards(solution), seen(solution, solution.value_table)
    policy, hardly = seen(solution, policy_of(solution)), hardly_seen(solution)
    paid = ["reward"] if reward.shape[1] == 1 else [f"reward of {name}" for name in actions]
    heads = ["value", *paid, *(f"π({name})" for name in actions)]
    rows: list[list[str | None]] = []
    spread = None if solution.uncertainty is None else solution.uncertainty.reward
    for s, numbers in enumerate(np.column_stack([value, reward, policy])):
        cells = [None if np.isnan(x) else digits(x) for x in numbers]
        for a in range(reward.shape[1]):
            at = a
            if spread is not None and reward.shape[1] == 1:
                at = int(np.isfinite(spread.error[s]).argmax())
            if spread is not None and np.isfinite(spread.error[s, at]):
                ends = " to ".join(digits(x[s, at], 2) for x in (spread.low, spread.high))
                cells[1 + a] = f"{cells[1 + a]} ({ends})"
        rows.append([state_name(solution, s) + " *" * bool(hardly[s]), *cells])
    named = solution.labels is not None
    columns = [Column("state", numeric=not named), *(Column(head, numeric=True) for head in heads)]
    notes = ["A dash: never seen, or not available."]
    notes += [f"A star: seen fewer than {HARDLY} times."] if hardly.any() else []
    if spread is not None and solution.uncertainty is not None:
        notes += [f"In brackets: intervals of {solution.uncertainty.level:.0%}."]
    ruled = solution.tables.q_constrained is not None
    notes += ["π is the policy under the constraints."] if ruled else []
    return Table(columns, rows, "What was found, by state", notes)
