"""What the paper reports of the highway, and what it does not say."""

from __future__ import annotations

SAMPLES = 50_000
"""Steps of the expert that everybody learns from."""
EXPERT_SAMPLES = 500_000
"""Steps from which the expert is trained."""
ITERATIONS = 100_000
RUNS = 5
"""How many times everything is trained."""

SPEEDS = {
    "expert": "17.7 to 18.2",
    "DIQL": "17.3 to 18.0",
    "DCIQL": "17.3 to 17.5",
    "CDQN": "11.5 and 14.1",
}
"""Mean speeds of its figure over five runs in m/s, read off by eye: to about 0.1."""
BREACHES = {"expert": "50 to 105", "DIQL": "60 to 80", "DCIQL": "0", "CDQN": "0"}
"""Breaches in all, read off likewise; how they were counted is not said."""
BY_SAMPLES = {10: 14.8, 100: 16.4, 1_000: 17.3, 25_000: 17.4, 50_000: 17.4}
"""Mean speeds of DCIQL by the number of samples."""

UNSAID = {
    "drivers": "mixtures of our own: in T2, where the expert learns, 30 % never keep right; in T1, "
    "the German road of the evaluation, all do",
    "the expert's steps": "a driver who does anything that is safe: 5,000 episodes of 100 "
    "decisions",
    "demonstrations": "500 episodes of 100 decisions of the expert; in one half of them every "
    "tenth decision is anything that is safe, since of what is never done nothing can be learned",
    "what is not safe": "not available to anybody: it is masked when acting, and means and maxima "
    "do not run over it",
    "keep right": "time to catch up with the next car on the right, less the gap that one keeps "
    "behind it, is at least 20 s (`keep_right(horizon=20, margin=True)`)",
    "batch, discount, optimiser": "64, 0.99, Adam",
    "breaches": "decisions against the rule, counted by a checker of its own on the positions of "
    "all vehicles",
}
