"""What there is to say about a solution: how far to trust it, and its reward, values and policy."""

from __future__ import annotations

import numpy as np

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
from inverseq.solution import Solution

FEW_STATES = 64
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
    ['Text', 'Table', 'Maps', 'Maps', 'Settings', 'Settings']
    """
    states, actions = solution.tables.q.shape
    lead = (
        f"What {solution.info.algorithm} found for {states:,} states and {actions} actions: the "
        f"reward that explains what was seen, its values, and the policy that follows."
    )
    return Document(title, lead, tell(solution, shape))


def tell(solution: Solution, shape: tuple[int, int] | None = None) -> list[Block]:
    """The blocks of a solution: what to know before believing it, what was found, what was set."""
    if shape is not None and (min(shape) < 1 or shape[0] * shape[1] != len(solution.tables.q)):
        raise InvalidInput(
            f"`shape` must be the rows and columns of a grid with {len(solution.tables.q)} cells, "
            f"one for each state; {shape[0]} x {shape[1]} are {shape[0] * shape[1]}."
        )
    info = solution.info
    blocks: list[Block] = [*verdict(solution), facts(solution)]
    if shape is not None:
        blocks += grid_maps(solution, shape)
    elif len(solution.tables.q) <= FEW_STATES:
        blocks += [state_table(solution)]
    else:
        blocks += strips(solution)
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
    free = info.unidentified_dimensions
    state_only = info.gauge.startswith("StateOnly")
    if free is not None and free > state_only:
        said.append(
            Text(
                f"The reward is not identified: nothing in the data determines {free:,} of its "
                f"directions, and the one shown is any of many. The policy does not depend on it.",
                warning=True,
            )
        )
    kind = "by" if " by " in info.gauge else info.gauge.partition("(")[0]
    if kind in GAUGES:
        words = f"Many rewards explain the same choices. This one is in the gauge {info.gauge}: "
        words += GAUGES[kind] + "."
        if free == 1 and state_only:
            words += " It is identified up to a constant."
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
    if solution.visited is not None:
        unseen = int((~solution.visited).sum())
        rows.append(("states never seen", f"{unseen:,} of {len(solution.tables.q):,}"))
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
    return words(labels.states[state])


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
    drawn = [*paid, *panels, *policies]
    unknown = any(np.isnan(panel.values).any() for panel in drawn)
    hatched = " Hatched cells were never seen, or nothing can be done there." * unknown
    arrows = (
        " Arrows take the actions as up, down, left, right and stay, in this order; where two are "
        "as good there is none."
        if policies[0].arrows is not None
        else ""
    )
    of_actions = "The recovered reward, one map for each action, on one scale."
    of_states = "The recovered reward."
    found = Maps(paid, shape, (of_states if len(paid) == 1 else of_actions) + hatched)
    follows = "Values and policy: how sure it is, and what it does most." + arrows
    if len(paid) == 1:
        return [Maps(drawn, shape, f"Reward, values and policy.{arrows}{hatched}")]
    return [found, Maps([*panels, *policies], shape, follows)]


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
    return [
        Maps(
            [
                Panel(
                    "reward",
                    reward.T.ravel(),
                    True,
                    note="states from left to right" + (rows if reward.shape[1] > 1 else ""),
                )
            ],
            (reward.shape[1], n_states),
            "The recovered reward. Hatched states were never seen.",
        ),
        Maps(
            [Panel("value", seen(solution, solution.value_table))],
            (1, n_states),
            "The value of the best way on.",
        ),
        Maps(
            [Panel("policy", policy.T.ravel(), note="probability" + rows, limits=(0, 1))],
            (n_actions, n_states),
            "The policy. Give the rows and columns of a grid, if it is one, to see maps.",
        ),
    ]


def policy_of(solution: Solution) -> np.ndarray:
    """The policy by state and action, NaN where nothing can be done."""
    policy = solution.policy_table
    found: np.ndarray = np.where(policy.any(axis=1, keepdims=True), policy, np.nan)
    return found


def state_table(solution: Solution) -> Table:
    """Few states: a row for each."""
    actions = names(solution, grid=False)
    reward, value = rewards(solution), seen(solution, solution.value_table)
    policy = seen(solution, policy_of(solution))
    paid = ["reward"] if reward.shape[1] == 1 else [f"reward of {name}" for name in actions]
    heads = ["value", *paid, *(f"π({name})" for name in actions)]
    rows = []
    for s, numbers in enumerate(np.column_stack([value, reward, policy])):
        rows.append(
            [
                state_name(solution, s),
                *(None if np.isnan(x) else f"{x:.3f}".replace("-", "−") for x in numbers),
            ]
        )
    named = solution.labels is not None
    columns = [Column("state", numeric=not named), *(Column(head, numeric=True) for head in heads)]
    notes = ["A dash: never seen, or not available."]
    ruled = solution.tables.q_constrained is not None
    notes += ["π is the policy under the constraints."] if ruled else []
    return Table(columns, rows, "What was found, by state", notes)
