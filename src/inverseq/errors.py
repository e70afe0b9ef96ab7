"""What can go wrong, as one short tree.

InverseqError
├── InvalidInput (also a ValueError)    something given cannot be right: what, where, what to do
├── DamagedFile (also an OSError)       a saved file was cut, edited, or is too new
├── Diverged (also an ArithmeticError)  training ran away: which loss, when, and what is left
├── MissingExtra (also an ImportError)  an optional dependency is needed: how to install it
└── SimulationFailed (also a RuntimeError)  a simulator, or the process that it ran in, let us down

InverseqWarning
├── NotConverged   the answer stands, its tolerance was not met: which knob to turn
├── NotIdentified  the data cannot tell: what was chosen in its place
└── NoFullSupport  some action has probability 0: smoothing decides its reward
"""

from __future__ import annotations


class InverseqError(Exception):
    """The root of everything that this library raises on purpose."""


class InvalidInput(InverseqError, ValueError):
    """Something given cannot be right; the message says what must hold, where, and what to do."""


class DamagedFile(InverseqError, OSError):
    """A saved file was cut, edited, or written by a newer version."""


class Diverged(InverseqError, ArithmeticError):
    """Training ran away; the message says which loss, in which iteration, and what was kept."""


class MissingExtra(InverseqError, ImportError):
    """An optional dependency is needed; the message is the command that installs it."""


class SimulationFailed(InverseqError, RuntimeError):
    """A simulator, or the process that it ran in, did not do what it must; which, and where."""


class InverseqWarning(UserWarning):
    """The root of the warnings."""


class NotConverged(InverseqWarning):
    """The answer stands but its tolerance was not met; the message names the knob."""


class NotIdentified(InverseqWarning):
    """What was asked cannot be told from the data; the message says what was chosen instead."""


class NoFullSupport(InverseqWarning):
    """Some action has probability 0, so that the smoothing decides its reward."""
