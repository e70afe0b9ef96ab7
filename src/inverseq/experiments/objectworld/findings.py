"""What the results say: tables with the paper's numbers beside them, figures, and verdicts.

Nothing is computed here but means and comparisons; the same rows give the same document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from inverseq.experiments.objectworld import paper
from inverseq.experiments.objectworld.claims import aimed, claims, first_discount, measured, signed
from inverseq.experiments.objectworld.methods import (
    CAP_DEEP_MAXENT,
    CAP_DIQL,
    CAP_IQL,
    METHODS,
    OWN,
    base,
)
from inverseq.report import (
    Block,
    Cell,
    Chart,
    Column,
    Document,
    Maps,
    Panel,
    Section,
    Series,
    Settings,
    Table,
    Text,
)

Row = Mapping[str, Any]
TOLD = (
    "As in the paper, DIQL is told the expert's policy in the states that it sees; it does not "
    "compete for the best."
)
CAPPED = (
    "Constant learning rates go on to tremble. Those of the paper stop at a cap at the latest, and "
    f"have not converged then: IQL's after {CAP_IQL:,} epochs, DIQL's after {CAP_DIQL:,} "
    f"iterations, those of Deep MaxEnt with the paper's network after {CAP_DEEP_MAXENT:,} steps."
)
NOT_CHARTED = (
    *("IAVI, state gauge", "IQL", "MaxEnt, single step", "MaxEnt, causal"),
    *(f"{name}{OWN}" for name in METHODS if name != "Deep MaxEnt"),
)
"""What the charts leave to the table: lines that hide others, and lines that others hide."""


def document(
    rows: Sequence[Row], maps: Mapping[str, Any], shape: tuple[int, int], quick: bool
) -> Document:
    """All that the experiments found."""
    blocks: list[Block] = []
    if quick:
        text = "A quick run: fewer worlds, fewer steps and fewer methods, by the same code."
        blocks.append(Text(text, warning=True))
    if shown := [*answers(rows)]:
        blocks.append(Section("What shows", shown))
    main = [row for row in rows if row["experiment"] == "table"]
    if main:
        blocks.append(Section("The paper's table", list(table(main, maps.get("table"), shape))))
    if chosen := pick(rows, "curve"):
        blocks.append(Section("The number of demonstrations", list(curve(chosen))))
    if chosen := pick(rows, "transfer"):
        blocks.append(Section("What a reward is worth elsewhere", list(transfer(chosen))))
    if chosen := pick(rows, "online"):
        blocks.append(Section("Learning rates of online IQL", list(online(chosen))))
    if "overview" in maps:
        blocks.append(
            Section("Values from few and many trajectories", overview(maps["overview"], shape))
        )
    if chosen := pick(rows, "tune"):
        blocks.append(Section("Grids of learning rates", list(tune(chosen))))
    blocks.append(Section("What the paper does not say", [Settings(paper.UNSAID, "Choices")]))
    return Document(
        "Objectworld: the paper's experiments, with equal care for every method",
        "A walker on a grid of coloured objects is observed; its reward is recovered from its "
        "steps alone. EVD is the true value per state that the recovered behaviour gives away.",
        blocks,
    )


def answers(rows: Sequence[Row]) -> Iterable[Block]:
    """The paper's claims and our aim, each with what became of it."""
    for said in claims(rows), aimed(measured(rows, "curve")):
        if said is not None:
            yield said


def pick(rows: Iterable[Row], experiment: str) -> list[Row]:
    """The rows of an experiment."""
    return [row for row in rows if row["experiment"] == experiment]


def values(rows: Iterable[Row], name: str) -> np.ndarray:
    """A column, without what does not apply."""
    return np.array([row[name] for row in rows if row.get(name) is not None], dtype=float)


def mean(numbers: np.ndarray) -> float:
    """The mean, if there is something."""
    return float(numbers.mean()) if numbers.size else float("nan")


def spread(numbers: np.ndarray, digits: int) -> str | None:
    """Mean and standard deviation as text."""
    if not numbers.size:
        return None
    mean = signed(float(numbers.mean()), digits)
    return mean if numbers.size == 1 else f"{mean} ± {numbers.std(ddof=1):.{digits}f}"


def of_method(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of each method, in the order in which methods come first."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["method"], []).append(row)
    return found


# -- the table ----------------------------------------------------------------------------------


def table(
    rows: Sequence[Row], maps: Mapping[str, Any] | None, shape: tuple[int, int]
) -> Iterable[Block]:
    """Every method on the paper's data set, for each discount."""
    steps = max(row["trajectories"] or 0 for row in rows) * paper.LENGTH
    for discount in dict.fromkeys(row["discount"] for row in rows):
        here = [row for row in rows if row["discount"] == discount]
        yield Table(
            [
                "method",
                *(Column(name, numeric=True) for name in (
                    "EVD", "EVD²", "reward corr.", "seconds", "iterations",
                )),
                "converged",
                *(Column(name, numeric=True) for name in ("paper: EVD", "paper: time")),
            ],
            lines(here),
            f"{steps:,} transitions of the expert, {worlds_of(here)}, discount {discount:g}: mean "
            f"± standard deviation.",
            [
                "EVD: mean value given away; EVD²: mean of its square, which the authors' script "
                "calls EVD. Reward corr.: with the true reward, in the state gauge. Seconds: wall "
                "time of the fit, one thread; fits of IQL and DIQL ran side by side, a process on "
                "each core, all others one at a time.",
                "Converged: by the paper's criterion (no reward changes by 1e-4 between "
                f"iterations) or the method's own stricter one. {CAPPED}",
                "Given the exact policy, IAVI has an EVD of 0 at any tolerance: it returns that "
                "policy. Means of EVD weigh states alike and may cancel; squares do not.",
                "Methods that find a reward are judged by the Boltzmann policy of that reward; "
                "\"own policy\" is the soft-optimal policy that maximum entropy assumes.",
            ],
        )  # fmt: skip
    if maps:
        yield Maps(
            shared(maps, "value", signed=False),
            shape,
            "Value of the recovered behaviour under the true reward; one scale for all.",
        )
        yield Maps(
            shared(maps, "reward", signed=True),
            shape,
            "The recovered reward, in the state gauge, with the best constant; one scale for all.",
        )


def shared(maps: Mapping[str, Any], what: str, signed: bool) -> list[Panel]:
    """The truth first, then each method, all on the scale of the truth."""
    true = np.array(maps["truth"][what])
    reach = 1.5 * np.abs(true).max()
    limits = (-reach, reach) if signed else (float(true.min()), float(true.max()))
    named = {name: np.array(of[what]) for name, of in {"truth": maps["truth"], **maps}.items()}
    if signed:
        # A constant cannot be known; without it maps can be compared.
        named = {name: found + (true - found).mean() for name, found in named.items()}
    return [
        Panel(f"true {what}" if name == "truth" else name, found, signed, limits=limits)
        for name, found in named.items()
    ]


def lines(rows: Sequence[Row]) -> list[list[Cell | str | float | None]]:
    """A line for each method; the best of those that see samples is marked."""
    methods = of_method(rows)
    sampled = {
        name: values(chosen, "evd_squared").mean()
        for name, chosen in methods.items() if not base(name).given
    }  # fmt: skip
    best = min(sampled, key=lambda name: float(sampled[name]))
    return [line(name, chosen, name == best) for name, chosen in methods.items()]


def line(name: str, rows: Sequence[Row], best: bool) -> list[Cell | str | float | None]:
    """A method's line of the table."""
    reported = None if name.endswith(OWN) else paper.TABLE.get(base(name).paper)
    iterations = values(rows, "iterations")
    converged = [row["converged"] for row in rows if row["converged"] is not None]
    return [
        Cell(name),
        spread(values(rows, "evd"), 3),
        Cell(spread(values(rows, "evd_squared"), 4) or "", best),
        spread(values(rows, "reward_correlation"), 3),
        spread(values(rows, "seconds"), 3),
        f"{iterations.mean():,.0f}" if iterations.size else None,
        f"{sum(converged)} of {len(converged)}" if converged else None,
        None if reported is None else reported.evd_text,
        None if reported is None else reported.hours_text,
    ]


# -- the number of demonstrations ---------------------------------------------------------------


def curve(rows: Sequence[Row]) -> Iterable[Block]:
    """EVD against the number of trajectories, as charts and as a table for each discount."""
    main = first_discount(rows)
    numbers = sorted({row["trajectories"] for row in main})
    charted = {name: chosen for name, chosen in of_method(main).items() if name not in NOT_CHARTED}
    for name, label in (("evd_squared", "EVD²"), ("evd", "EVD")):
        yield Chart(
            [band(method, chosen, numbers, name) for method, chosen in charted.items()],
            "trajectories of 8 steps",
            label,
            x_log=True,
            y_log=name == "evd_squared",
            caption=f"{label} against the number of demonstrations: mean ± standard deviation over "
            f"{worlds_of(main)}. IQL lies on IAVI, which has the same policy.",
        )
    for discount in dict.fromkeys(row["discount"] for row in rows):
        yield by_number([row for row in rows if row["discount"] == discount])


def by_number(rows: Sequence[Row]) -> Table:
    """EVD² of each method for each number of trajectories, at one discount."""
    numbers = sorted({row["trajectories"] for row in rows})
    methods = of_method(rows)
    each = {
        name: [values(at(chosen, n), "evd_squared") for n in numbers]
        for name, chosen in methods.items()
    }
    average = {name: [mean(found) for found in line] for name, line in each.items()}
    competing = [line for name, line in average.items() if not base(name).given]
    best = np.nanmin(competing or list(average.values()), axis=0)
    return Table(
        ["method", *(Column(f"{n:,}", numeric=True) for n in numbers)],
        [
            [
                name,
                *(
                    Cell(spread(found, 2) or "", best=average[name][i] == best[i])
                    for i, found in enumerate(line)
                ),
            ]
            for name, line in each.items()
        ],
        f"EVD² by the number of trajectories, discount {rows[0]['discount']:g}: mean ± standard "
        f"deviation over {worlds_of(rows)}.",
        [TOLD, f"DIQL was measured in {worlds_of(methods['DIQL'])}."] if "DIQL" in methods else [],
    )


def worlds_of(rows: Iterable[Row]) -> str:
    """How many worlds there are, in words."""
    n = len({row["world"] for row in rows})
    return "one world" if n == 1 else f"{n} worlds"


def at(rows: Iterable[Row], trajectories: int) -> list[Row]:
    """The rows with this number of trajectories."""
    return [row for row in rows if row["trajectories"] == trajectories]


def band(method: str, rows: Sequence[Row], numbers: Sequence[int], name: str) -> Series:
    """A method's line with its standard deviation."""
    numbers = [n for n in numbers if at(rows, n)]
    each = [values(at(rows, n), name) for n in numbers]
    mean = np.array([v.mean() for v in each])
    sd = np.array([v.std(ddof=1) if v.size > 1 else 0.0 for v in each])
    low = mean - sd
    if name == "evd_squared":
        low = np.maximum(low, mean / 10)  # a logarithm has no room for what is below zero
    style = "dashed" if method.endswith(OWN) else "line"
    return Series(method, list(numbers), list(mean), list(low), list(mean + sd), style)


# -- transfer -----------------------------------------------------------------------------------


def transfer(rows: Sequence[Row]) -> Iterable[Block]:
    """Returns in other worlds."""
    rows = first_discount(rows)
    changes = list(dict.fromkeys(row["change"] for row in rows))
    yield Text(
        "IAVI's EVD is that of behavioural cloning, by identity, and says nothing of its reward. "
        "What tells rewards apart is to carry them to a world that has changed: plan there for the "
        "recovered reward, act greedily, and count the true one."
    )
    yield Table(
        ["reward", *(Column(change, numeric=True) for change in changes)],
        [
            [
                name,
                *(
                    spread(values([r for r in chosen if r["change"] == c], "value"), 2)
                    for c in changes
                ),
            ]
            for name, chosen in of_method(rows).items()
        ],
        "Discounted true return of the greedy policy, from a random cell: mean ± standard "
        "deviation over worlds (and draws of walls).",
        [
            "Old policy kept: the best policy of the world as it was. IAVI and IQL as they are "
            "have rewards in a gauge that must not be carried; brought to the state gauge they may."
        ],
    )


# -- online -------------------------------------------------------------------------------------


def online(rows: Sequence[Row]) -> Iterable[Block]:
    """Divergence and EVD along the stream."""
    methods = of_method(rows)
    for name, label in (("divergence", "KL divergence (nats)"), ("evd", "EVD")):
        yield Chart(
            [
                Series(method, [r["steps"] for r in chosen], [r[name] for r in chosen])
                for method, chosen in methods.items()
            ],
            "transitions seen",
            label,
            x_log=True,
            y_log=name == "divergence",
            caption=f"{label} of the learned policy from the expert's, along one stream; learning "
            "rates of reward, Q and shifted Q. A line that ends has diverged."
            if name == "divergence"
            else "EVD of the learned policy along the same stream.",
        )


# -- maps ---------------------------------------------------------------------------------------


def overview(maps: Mapping[str, Any], shape: tuple[int, int]) -> list[Block]:
    """Values under the true reward, a row of maps for each method."""
    methods: dict[str, list[tuple[int, Any]]] = {}
    for key, value in maps.items():
        if key != "truth":
            name, _, number = key.rpartition("/")
            methods.setdefault(name, []).append((int(number), value))
    true = np.array(maps["truth"])
    limits = (float(true.min()), float(true.max()))
    truth = Panel("truth", true, limits=limits)
    return [
        *(
            Maps(
                [
                    truth,
                    *(Panel(f"{n:,} trajectories", np.array(v), limits=limits) for n, v in chosen),
                ],
                shape,
                f"{name}: value of the learned behaviour under the true reward.",
            )
            for name, chosen in methods.items()
        ),
    ]


# -- grids --------------------------------------------------------------------------------------


def tune(rows: Sequence[Row]) -> Iterable[Block]:
    """EVD² over learning rates: lines for one rate, a surface for two."""
    methods = {name: chosen for name, chosen in of_method(rows).items() if not name.endswith(OWN)}
    lines = {name: chosen for name, chosen in methods.items() if len(chosen[0]["rates"]) == 1}
    yield Chart(
        [
            Series(name, rates := rates_of(chosen, 0), [found(chosen, (rate,)) for rate in rates])
            for name, chosen in lines.items()
        ],
        "learning rate",
        "EVD²",
        x_log=True,
        y_log=True,
        caption=f"EVD² over the appendix's learning rates, on the data set of the table: mean over "
        f"{worlds_of(rows)}.",
    )
    for name, chosen in methods.items():
        if name in lines:
            continue
        across = rates_of(chosen, 1)
        surface = [[found(chosen, (rate, q)) for q in across] for rate in rates_of(chosen, 0)]
        best = min(value for line in surface for value in line if value is not None)
        yield Table(
            ["rate of the reward", *(Column(f"values {q:g}", numeric=True) for q in across)],
            [
                [f"{rate:g}", *(Cell("–" if v is None else f"{v:.4f}", v == best) for v in line)]
                for rate, line in zip(rates_of(chosen, 0), surface, strict=True)
            ],
            f"EVD² of {name} over its learning rates of the reward and of the values (Q and "
            f"shifted Q), after {paper.EPOCHS} epochs over the data set of the table.",
            ["A dash: it diverged in some world."],
        )


def rates_of(rows: Iterable[Row], place: int) -> list[float]:
    """The learning rates in a place."""
    return sorted({row["rates"][place] for row in rows})


def found(rows: Iterable[Row], rates: tuple[float, ...]) -> float | None:
    """The mean EVD² with certain rates; None where a learner diverged."""
    chosen = [row for row in rows if tuple(row["rates"]) == rates]
    diverged = any(row["evd_squared"] is None for row in chosen)
    return None if diverged or not chosen else float(values(chosen, "evd_squared").mean())
