"""From a log to an answer: what the verbs of the command line do, for programs as for terminals.

`Log` says how a log is read, `Fit` what is fitted; `fit`, `evaluate` and `compare` have a ``run``
each, and give back what they found. Only the command line imports them.
"""
