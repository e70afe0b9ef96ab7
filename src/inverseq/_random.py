"""The one way to random numbers: from a seed, and never from a global state."""

from __future__ import annotations

from typing import Any

import numpy as np

from inverseq.errors import InvalidInput


def generator(seed: Any) -> np.random.Generator:
    """A generator of random numbers; the same seed gives the same numbers. A generator is kept.

    >>> bool(generator(3).random() == generator(3).random())
    True
    """
    if isinstance(seed, np.random.Generator):
        return seed
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if not whole or seed < 0:
        raise InvalidInput(f"`seed` must be an integer from 0; got {seed!r}.")
    return np.random.default_rng(int(seed))
