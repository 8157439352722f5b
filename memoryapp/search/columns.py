"""Numbers that the database hands over as columns of bytes, and where some of them stand among others.

1,250 ids and distances read as rows take 1.4 ms of this process, as two columns 0.7 ms; a search reads several of them
and takes 4 ms in all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Positions = NDArray[np.intp]


def int64s(column: bytes | None) -> Ids:
    """Numbers that the database sent as one column of bytes."""
    return np.frombuffer(column or b"", ">i8").astype(np.int64)


def positions(known: Ids, ids: Ids) -> tuple[Positions, NDArray[np.bool_]]:
    """Where those of the ``ids`` stand that are among the ``known`` ascending ones, and which those are.

    Another text may have come between two statements.
    """
    if not len(known):
        return np.zeros(0, np.intp), np.zeros(len(ids), np.bool_)
    places = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    here = known[places] == ids
    return places[here], here
