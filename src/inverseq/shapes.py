"""The words that annotations use for arrays.

Plain names for users and for mypy. When jaxtyping has been imported first, as the test suite does,
they carry shapes and types that are checked at every call.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    Array: TypeAlias = Any
    Values: TypeAlias = Any
    Mask: TypeAlias = Any
    PerState: TypeAlias = Any
    Scalar: TypeAlias = Any
    Table: TypeAlias = NDArray[np.float64]
    MaskTable: TypeAlias = NDArray[np.bool_]
    Vector: TypeAlias = NDArray[np.float64]
    MaskVector: TypeAlias = NDArray[np.bool_]
    Integers: TypeAlias = NDArray[np.int64]
    States: TypeAlias = NDArray[Any]
    Sparse: TypeAlias = csr_array
elif "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Int, Num, Shaped
    from scipy.sparse import csr_array as Sparse

    Array = Any
    Scalar = Any
    Values = Num[Any, "*batch actions"] | float
    Mask = Bool[Any, "*batch actions"]
    PerState = Num[Any, "*batch"] | float
    Table = Float[np.ndarray, "states actions"]
    MaskTable = Bool[np.ndarray, "states actions"]
    Vector = Float[np.ndarray, " states"]
    MaskVector = Bool[np.ndarray, " states"]
    Integers = Int[np.ndarray, " steps"]
    States = Shaped[np.ndarray, "steps *features"]
else:
    Array = Values = Mask = PerState = Scalar = Any
    Table = MaskTable = Vector = MaskVector = Integers = States = np.ndarray
    Sparse = Any
