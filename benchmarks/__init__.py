"""Side-by-side timings: ``python -m benchmarks [NAME ...]``, or ``make bench`` for all of them.

A machine that is shared gives no absolute times. So every claim is a ratio of two things measured
in one run, taking turns, and of each the best of several repeats counts.
"""
