"""What others found in the same recordings: the numbers of the data card, shown beside ours.

They are for the 238 trajectories of 500 steps of Rosenberg, Zhang, Perona and Meister (eLife 2021),
on five folds by trajectory, and mean nothing for another log.
"""

LADDER = {
    "uniform over legal moves": -0.9227,
    "frequencies of actions": -0.9261,
    "counts: node": -0.8710,
    "counts: node + 1 previous": -0.6901,
    "counts: node + 2 previous": -0.6608,
    "counts: node + 3 previous": -0.6530,
}
"""Nats per step."""
STEPS = 119_000
"""How many there are in the recordings that the numbers speak of."""
RANKS = {
    "B1": 1, "B2": 2, "B3": 4, "B4": 4, "C1": 1, "C3": 1, "C6": 2, "C7": 2, "C8": 6, "C9": 2,
}  # fmt: skip
"""The rank of the water port of each animal, closed form, discount 0.9, from the full recording."""
EQUAL = 0.005
"""By how much rewards of the node may differ from the node row."""
REACHED = -0.655
"""What histories must reach."""
SAME = 1e-9
"""By how much a policy may differ from its count table."""
