"""What the results say: tables with the ladder of counts beside every row, figures, and verdicts.

Nothing is computed here but sums and comparisons; the same rows give the same document.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from inverseq.experiments.labyrinth import card
from inverseq.experiments.labyrinth.studies import FEW, HARDLY
from inverseq.report import (
    Block,
    Cell,
    Chart,
    Column,
    Document,
    Graph,
    Panel,
    Section,
    Series,
    Table,
    Text,
)

Row = Mapping[str, Any]
Tally = Mapping[str, Sequence[float]]
UNIFORM, NODE = "uniform over legal moves", "counts: node"
WHY = (
    "A reward of the node cannot do better than the table of counts at each node, whatever the "
    "algorithm: its policy knows the present node and nothing else. An exact gauge (IAVI, IQL) "
    "gives back the smoothed table itself, by identity. A reward of the state alone (MaxEnt, "
    "BoltzmannMLE) can at most reproduce that table. What is missing is not a better reward but "
    "memory: the node before says most of what the animal does next."
)
IDENTIFIED = (
    "What is identified: the policy, and with it the policy under a rule, in every exact gauge. "
    "What is not: the reward. Rewards that differ by a potential of the node explain the same "
    "behaviour, and the held-out likelihood does not depend on the discount. The rank of the "
    "water port is one of the paper's gauge, in which the rewards of a node's moves have mean "
    "zero; plain visits rank it first as well, so that this is a test of sanity and not a "
    "triumph."
)
CAUSAL = (
    "Every score is causal: that of a step depends on the nodes up to it and on nothing that "
    "follows. Intervals (±) are of 95 %, over animals: the t quantile times the standard error "
    "of the mean when animals are drawn anew, each with all its steps. A step belongs to the "
    "animal that made it, also in the trajectories that run from one animal into the next; "
    "trajectories decide only what is held out. The same animals are in the training part: this "
    "is not how well a new animal is foretold."
)


class Estimate(NamedTuple):
    """A mean over steps, with a 95 % interval over animals."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{signed(self.mean)} ± {signed(self.high - self.mean)}"


def document(rows: Sequence[Row], quick: bool) -> Document:
    """All that the experiment found."""
    log = pick(rows, "log")[0]
    blocks: list[Block] = []
    if quick:
        text = "A quick run: fewer folds, methods and simulated steps, by the same code."
        blocks.append(Text(text, warning=True))
    blocks.append(Section("What shows", [verdicts(rows), Text(WHY), Text(IDENTIFIED)]))
    blocks.append(Section("How well steps are foretold", list(foretold(rows, log))))
    blocks.append(Section("The water port", list(port(rows, log))))
    blocks.append(Section("A closed branch", list(closed(rows))))
    blocks.append(Section("Few bouts", list(few(rows))))
    return Document(
        "Mice in a labyrinth",
        f"{log['steps']:,} decisions of {log['animals']} animals in a maze of {log['nodes']} nodes "
        f"with water at one of them: what foretells the next move, and what a reward says of it.",
        blocks,
    )


# -- means and intervals -------------------------------------------------------------------------


def pick(rows: Iterable[Row], experiment: str, **values: Any) -> list[Row]:
    """The rows of an experiment, with these values."""
    return [
        row for row in rows
        if row["experiment"] == experiment and all(row[k] == v for k, v in values.items())
    ]  # fmt: skip


def by_method(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of each method, in the order in which methods come first."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["method"], []).append(row)
    return found


def joined(rows: Iterable[Row], name: str = "animals") -> dict[str, np.ndarray]:
    """The tallies of each animal, summed over folds."""
    total: dict[str, np.ndarray] = {}
    for row in rows:
        for who, tally in row[name].items():
            total[who] = total.get(who, np.zeros(4)) + np.array(tally)
    return total


def estimate(tallies: Tally | Mapping[str, np.ndarray], choice: bool = False) -> Estimate:
    """The mean of a step, and its interval when animals are drawn anew.

    >>> print(estimate({"A": [10, -5.0, 5, -4.0], "B": [10, -7.0, 5, -5.0]}))
    −0.6000 ± 1.2706
    """
    from scipy.stats import t

    at = 2 if choice else 0
    table = np.array(list(tallies.values()), float)
    steps, sums = table[:, at], table[:, at + 1]
    n, mean = len(table), float(sums.sum() / steps.sum())
    if n < 2:
        return Estimate(mean, float("nan"), float("nan"))
    off = (sums - mean * steps) / steps.mean()
    error = float(np.sqrt((off**2).sum() / (n * (n - 1)))) * float(t.ppf(0.975, n - 1))
    return Estimate(mean, mean - error, mean + error)


def paired(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> Estimate:
    """By how much a step is likelier under one policy than under another, over the same steps."""
    return estimate({who: [a[who][0], a[who][1] - b[who][1], 1, 0.0] for who in a})


def of_folds(rows: Sequence[Row], name: str = "animals") -> np.ndarray:
    """The mean of a step in each fold."""
    return np.array([estimate(row[name]).mean for row in rows])


def signed(value: float, digits: int = 4) -> str:
    """A number with a true minus, and none before zero.

    >>> signed(-0.25, 2), signed(-1e-9)
    ('−0.25', '0.0000')
    """
    if not np.isfinite(value):
        return "–"
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")


def bits(nats: float) -> float:
    """Nats in bits."""
    return nats / float(np.log(2))


def scored(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """All methods with a held-out likelihood on the folds: ladder, nodes, histories."""
    kinds = ("ladder", "single", "history")
    return by_method(row for kind in kinds for row in pick(rows, kind))


def told(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The results by names that every row has, for ``--json``."""
    said = [
        machine(mine[0]["experiment"], name, joined(mine)) for name, mine in scored(rows).items()
    ]
    for row in pick(rows, "few"):
        how = "alone" if row["alone"] else "together"
        said.append(machine("few", row["method"], joined([row]), f"{row['bouts']} bouts, {how}"))
    for branch, name, mine in branches(rows):
        where = f"branch of node {branch} closed, steps elsewhere"
        said.append(machine("forbidden", name, joined(mine, "judged_bound"), where))
        said[-1]["inside"] = sum(row["inside"] for row in mine)
        said[-1]["simulated"] = sum(row["simulated"] for row in mine)
    for row in pick(rows, "port"):
        who = row["animal"] or "all animals"
        said.append({
            "experiment": "port", "method": row["method"], "rank": row["rank"], "of": row["of"],
            "condition": f"{who}, discount {row['discount']:g}", "steps": row["steps"],
        })  # fmt: skip
    return said


def machine(
    experiment: str, method: str, tallies: Mapping[str, np.ndarray], condition: str = ""
) -> dict[str, Any]:
    """One result as plain data."""
    every, choice = estimate(tallies), estimate(tallies, choice=True)
    return {
        "experiment": experiment,
        "method": method,
        "condition": condition,
        "log_likelihood": every.mean,
        "low": every.low,
        "high": every.high,
        "bits": bits(every.mean),
        "log_likelihood_choice": choice.mean,
        "bits_choice": bits(choice.mean),
        "steps": int(sum(tally[0] for tally in tallies.values())),
        "steps_choice": int(sum(tally[2] for tally in tallies.values())),
        "animals": len(tallies),
    }


def recorded(rows: Iterable[Row]) -> bool:
    """Whether these are the recordings of which the data card speaks."""
    return bool(pick(rows, "log")[0]["steps"] == card.STEPS)


# -- verdicts ------------------------------------------------------------------------------------


def verdicts(rows: Sequence[Row]) -> Table:
    """What was to be shown, what was found, and whether it was."""
    lines: list[list[Cell | str | float | None]] = []

    def line(claim: str, found: str, right: bool) -> None:
        lines.append([claim, found, Cell("yes" if right else "no", best=not right)])

    for name, off in equal(rows):
        line(
            f"{name} equals the node row within {card.EQUAL} nats",
            f"{signed(off, 5)} nats from it",
            abs(off) <= card.EQUAL,
        )
    pooled = pick(rows, "port", animal=None)
    ranks = [row["rank"] for row in pooled]
    among = (
        f"{min(row['discount'] for row in pooled):g} to {max(row['discount'] for row in pooled):g}"
    )
    line(
        f"The water port is ranked first of {pooled[0]['of']} end nodes, discounts {among}",
        "rank " + ", ".join(map(str, ranks)),
        set(ranks) == {1},
    )
    chosen = pick(rows, "history", method="IAVI, node + history, chosen")
    best = float(of_folds(chosen).mean())
    line(
        f"IAVI on histories chosen on the training part reaches {signed(card.REACHED, 3)} nats",
        f"{signed(best)} nats, the mean of {len(chosen)} folds",
        best >= card.REACHED,
    )
    every = pick(rows, "history")
    off = max(row["off_table"] for row in every)
    line(
        f"IAVI on histories equals its count table to {card.SAME:g}",
        f"probabilities differ by {off:.1g} at most",
        off <= card.SAME,
    )
    inside, steps = (
        sum(r[name] for r in pick(rows, "forbidden")) for name in ("inside", "simulated")
    )
    line(
        "A closed branch is never entered",
        f"{inside} of {steps:,} simulated steps inside",
        inside == 0,
    )
    note = "The count table of the node is smoothed by one visit for each legal move."
    columns = ["what was to be shown", "found", "right"]
    return Table(columns, lines, "What was to be shown, and what was found.", [note])


OUTSIDE = ("MaxEnt, causal, whole bouts",)
"""What is shown for comparison and not claimed to equal the node row."""


def equal(rows: Sequence[Row]) -> Iterator[tuple[str, float]]:
    """How far each reward of the node is from the node row."""
    ladder = estimate(joined(pick(rows, "ladder", method=NODE))).mean
    for name, mine in by_method(pick(rows, "single")).items():
        if name not in OUTSIDE:
            yield name, estimate(joined(mine)).mean - ladder


# -- held-out likelihood -------------------------------------------------------------------------


def foretold(rows: Sequence[Row], log: Row) -> Iterator[Block]:
    """Every method, and every method against the ladder."""
    yield Text(CAUSAL)
    methods, known = scored(rows), recorded(rows)
    totals = {name: joined(mine) for name, mine in methods.items()}
    folds = len(methods[NODE])
    held = machine("", "", totals[NODE])
    body: list[list[Cell | str | float | None]] = []
    for name, total in totals.items():
        every, choice = estimate(total), estimate(total, choice=True)
        each = of_folds(methods[name])
        body.append([
            name, str(every), signed(float(each.std()), 3), signed(bits(every.mean), 3),
            signed(choice.mean), signed(bits(choice.mean), 3),
            *([signed(card.LADDER[name]) if name in card.LADDER else None] if known else []),
        ])  # fmt: skip
    heads = ("nats per step", "SD of folds", "bits", "branching: nats", "branching: bits")
    yield Table(
        ["method", *(Column(head, True) for head in (*heads, *["data card"][: int(known)]))],
        body,
        f"Mean log-likelihood of {held['steps']:,} held-out steps, {held['steps_choice']:,} of "
        f"them at branching nodes, {held['animals']} animals; {folds} of 5 folds.",
        [
            f"Folds: trajectories whose number leaves the same rest when divided by 5. "
            f"{log['trajectories']} trajectories, {log['bouts']:,} bouts or parts of bouts, "
            f"{log['animals']} animals; {log['shared']} trajectories run from one animal into the "
            f"next. Only legal moves are available; at end nodes that is one.",
            "Node + previous: histories end where a bout begins, and that it begins is part of "
            "them. The count tables lean on the table of the shorter history with strength 4; "
            "the chosen ones with what held-out trajectories of the training part like best.",
            "MaxEnt looks at the first steps of an episode most (visits are discounted), so that "
            "it is given pieces of 50 steps that begin every 10; whole bouts show why.",
        ],
    )  # fmt: skip
    names = list(card.LADDER)
    base = {name: estimate(totals[name]).mean for name in names}
    yield Table(
        ["method", Column("nats", True), *(Column(short(n), True) for n in names)],
        [
            [name, signed(mean), *(signed(mean - base[n]) for n in names)]
            for name, total in totals.items() for mean in [estimate(total).mean]
        ],
        "The same beside the ladder of count tables: nats per step over each of them.",
    )  # fmt: skip
    chosen = pick(rows, "history", method="IAVI, node + history, chosen")
    yield Table(
        ["fold", *(Column(h, True) for h in (
            "previous nodes", "strength", "histories", "steps with a history not seen", "nats",
            "its count table",
        ))],
        [
            [str(row["fold"]), row["length"], row["strength"], f"{row['histories']:,}",
             f"{row['unseen']:.1%}", signed(estimate(row["animals"]).mean, 6),
             signed(estimate(row["table"]).mean, 6)]
            for row in chosen
        ],
        "IAVI on histories: what was chosen on the training part of each fold, and what came of "
        "it.",
        ["A history that was not seen has the policy of its longest end that was."],
    )  # fmt: skip


def short(name: str) -> str:
    """A rung of the ladder in a word or two."""
    named = name.removeprefix("counts: node ").removesuffix(" previous").removeprefix("counts: ")
    return named.replace(" over legal moves", "").replace(" of actions", "")


# -- the port ------------------------------------------------------------------------------------


def port(rows: Sequence[Row], log: Row) -> Iterator[Block]:
    """Its rank by discount, of all animals and of each, and the maze."""
    found = pick(rows, "port")
    discounts = sorted({row["discount"] for row in found})
    known = recorded(rows)
    body: list[list[Cell | str | float | None]] = []
    for who in dict.fromkeys(row["animal"] for row in found):
        mine = {row["discount"]: row for row in found if row["animal"] == who}
        first = mine[discounts[0]]
        body.append([
            who or "all animals", f"{first['steps']:,}", *(mine[d]["rank"] for d in discounts),
            first["rank_visits"], *([card.RANKS.get(who, 1)] if known else []),
        ])  # fmt: skip
    heads = [
        *(f"discount {d:g}" for d in discounts),
        "by visits",
        *["data card, 0.9"][: int(known)],
    ]
    yield Table(
        ["animal", Column("steps", True), *(Column(head, True) for head in heads)],
        body,
        f"The rank of the water port among {found[0]['of']} end nodes by IAVI's reward for "
        "entering it, for each discount, and by plain visits.",
        ["The data card's ranks of single animals are of the full recording; this is a part of it."]
        if known else [],
    )  # fmt: skip
    maze = pick(rows, "maze")[0]
    hardly = [i for i, n in enumerate(maze["visits"]) if n < HARDLY]
    places = maze["xy"]
    links = [(int(up), i) for i, up in enumerate(maze["parent"]) if up < len(places)]
    yield Graph(
        [
            Panel("entering each node, IAVI in the paper's gauge", numbers(maze["entering"]), True,
                  note="mean zero over the moves of a node"),
            Panel("being at each node, BoltzmannMLE", numbers(maze["state"]), True,
                  note="the prior is for small rewards"),
        ],
        places, links, [(maze["port"], "water")],
        sorted({*hardly}),
        f"The maze with the recovered reward, discount {maze['discount']:g}, all animals. Lines "
        f"are tunnels, the entrance is node 0. Small and hollow: fewer than {HARDLY} visits, or "
        f"nothing known.",
    )  # fmt: skip
    yield Text(
        "The two drawings are rewards for the same behaviour, in two gauges. A reward for being "
        "at a node cannot show the water as one for entering it does: the port is left at once, "
        "having one way out, so that the drop of being there is shared with the way to it."
    )


def numbers(values: Sequence[float | None]) -> np.ndarray:
    """With NaN for what is not known."""
    return np.array([np.nan if value is None else value for value in values])


# -- a closed branch -----------------------------------------------------------------------------


def branches(rows: Iterable[Row]) -> Iterator[tuple[int, str, list[Row]]]:
    """The rows of each branch and method."""
    found = pick(rows, "forbidden")
    for branch in dict.fromkeys(row["branch"] for row in found):
        for name, mine in by_method(pick(found, "forbidden", branch=branch)).items():
            yield branch, name, mine


def closed(rows: Sequence[Row]) -> Iterator[Block]:
    """Planned for or only masked: what is done inside, and how likely the rest stays."""
    yield Text(
        "The rule forbids to enter a branch. Constrained imitation plans for the recovered "
        "reward among what the rule allows; masking leaves the cloned policy as it is and "
        "renormalises it where a move is forbidden. Both never enter. They are scored on the "
        "held-out steps outside of the branch: all that the rule allows, and those at nodes "
        "where it forbids nothing (untouched). What the animals would do if the branch were "
        "closed was never seen: these steps are of animals that could enter, so that a plan "
        "which reacts to the rule must lose something."
    )
    for branch in dict.fromkeys(branch for branch, _, _ in branches(rows)):
        body: list[list[Cell | str | float | None]] = []
        for at, name, mine in branches(rows):
            if at != branch:
                continue
            means = {
                place: estimate(joined(mine, place)).mean
                for place in ("judged_bound", "untouched_bound", "untouched_free")
            }
            loss = paired(joined(mine, "untouched_bound"), joined(mine, "untouched_free"))
            body.append([
                name, f"{sum(r['inside'] for r in mine)} of {sum(r['simulated'] for r in mine):,}",
                signed(means["judged_bound"]), signed(means["untouched_bound"]),
                signed(means["untouched_free"]), str(loss),
            ])  # fmt: skip
        some = pick(rows, "forbidden", branch=branch)
        first = [row for row in some if row["method"] == some[0]["method"]]
        outside, untouched = (
            int(sum(t[0] for t in joined(first, place).values()))
            for place in ("judged_bound", "untouched_bound")
        )
        inside = sum(row["held_out_inside"] for row in first)
        heads = ("steps inside", "elsewhere", "untouched", "untouched, free", "change")
        yield Table(
            ["policy", *(Column(head, True) for head in heads)],
            body,
            f"The branch of node {branch} is closed. Nats per held-out step: {outside:,} steps "
            f"elsewhere, {untouched:,} of them untouched; {inside:,} were inside.",
            ["Steps inside: simulated, in bouts from the entrance. Free: without the rule."],
        )  # fmt: skip


# -- few bouts -----------------------------------------------------------------------------------


def few(rows: Sequence[Row]) -> Iterator[Block]:
    """Likelihood against the number of bouts, together and alone, and who wins where."""
    for alone in (False, True):
        found = pick(rows, "few", alone=alone)
        if not found:
            continue
        bouts = sorted({row["bouts"] for row in found})
        methods = by_method(found)
        at = {(row["method"], row["bouts"]): [row] for row in found}
        steps = ", ".join(f"{at[NODE, n][0]['trained_on']:,}" for n in bouts)
        who = "each animal from its own bouts" if alone else "all animals together"
        tested = int(sum(t[0] for t in joined(at[NODE, bouts[0]]).values()))
        yield Chart(
            [
                Series(name, bouts, [e.mean for e in each], [e.low for e in each],
                       [e.high for e in each], "dashed" if name == UNIFORM else "line")
                for name in charted(methods)
                for each in [[estimate(joined(at[name, n])) for n in bouts]]
            ],
            "first bouts of each animal", "nats per held-out step", x_log=True,
            caption=f"Learned from the first bouts, {who}: mean and 95 % interval over animals.",
        )  # fmt: skip
        means = {key: estimate(joined(found)).mean for key, found in at.items()}
        best = {n: max(means[name, n] for name in methods) for n in bouts}
        yield Table(
            ["method", *(Column(f"{n} bouts" if n > 1 else "1 bout", True) for n in bouts)],
            [
                [name, *(
                    Cell(str(estimate(joined(at[name, n]))), best[n] == means[name, n])
                    for n in bouts
                )]
                for name in methods
            ],
            f"Nats per step of the {tested:,} steps after the first {max(bouts)} bouts, learned "
            f"from the first ones, {who} ({steps} steps).",
            [won(at, bouts, methods)],
        )  # fmt: skip


def charted(methods: Iterable[str]) -> list[str]:
    """The lines of the chart, of which eight have a colour."""
    left_out = ("counts: depth", "BoltzmannMLE, features, nodes may deviate")
    return [name for name in FEW if name in methods and name not in left_out]


def won(
    at: Mapping[tuple[str, int], list[Row]], bouts: Sequence[int], methods: Iterable[str]
) -> str:
    """Who is better or worse than cloning where, by more than the interval."""
    said = []
    for name in methods:
        if name == NODE:
            continue
        better, worse = [], []
        for n in bouts:
            off = paired(joined(at[name, n]), joined(at[NODE, n]))
            if off.low > 0:
                better.append(str(n))
            elif off.high < 0:
                worse.append(str(n))
        parts = [f"likelier at {', '.join(better)}"] * bool(better)
        parts += [f"less likely at {', '.join(worse)}"] * bool(worse)
        said.append(f"{name}: {'; '.join(parts) or 'no difference shown'}")
    return (
        f"Against {NODE}, by the interval over animals of the difference (numbers of bouts). "
        + ". ".join(said)
        + "."
    )
