"""What the paper reports of the Objectworld, and what it does not say."""

from __future__ import annotations

from typing import NamedTuple


class Reported(NamedTuple):
    """A column of the paper's table: mean and standard deviation over five runs."""

    evd: float
    evd_sd: float
    hours: float
    hours_sd: float

    @property
    def evd_text(self) -> str:
        """As the paper prints it."""
        return f"{self.evd:.2f} ± {self.evd_sd:.2f}"

    @property
    def hours_text(self) -> str:
        """As the paper prints it."""
        return f"{self.hours:g} ± {self.hours_sd:g} h"


TABLE = {
    "IAVI": Reported(0.09, 0.00, 0.03, 0.0),
    "IQL": Reported(1.47, 0.14, 0.35, 0.0),
    "MaxEnt": Reported(11.58, 0.00, 8.08, 1.0),
    "single-step MaxEnt": Reported(4.33, 0.00, 12.2, 0.8),
}

STEPS = 1_700_000
"""Transitions of the data set of the table."""
LENGTH = 8
"""Steps of a trajectory."""
TOLERANCE = 1e-4
"""All train until no reward changes by more between iterations."""
EPOCHS = 24
"""Passes over the data set while learning rates of IQL are compared."""
TRAJECTORIES = (8, 16, 32, 64, 128, 256, 512, 1024)
"""The numbers of demonstrations of its second figure, as far as its text names them."""
CROSSOVER = 256
"""Beyond this many trajectories IAVI and IQL are said to be better than both MaxEnt methods."""
UNSTABLE = 512
"""At this many Deep MaxEnt is said to be unstable."""

UNSAID = {
    "discount": "not stated; 0.9 for the expert, the learners and the evaluation alike, and 0.99 "
    "beside it. (The authors' script mixes 0.99 and 0.9.)",
    "which EVD": "its text describes the mean difference, the authors' script computes the mean "
    "squared difference; both are given",
    "the reward": "that of the benchmark (Levine et al. 2011): +1 within 3 cells of outer colour 0 "
    "and 2 of outer colour 1, -1 within 3 of outer colour 0 only, else 0",
    "features": "it calls the continuous distances binary; they are distances in cells",
    "wind": "with 30 % a uniform draw from all five actions replaces the chosen one; the recorded "
    "action is the chosen one (the script records the drawn one)",
    "horizon of MaxEnt": "8, the length of a trajectory; episodes begin uniformly over the cells",
}
