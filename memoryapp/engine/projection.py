"""Projects vectors of many dimensions onto the plane of the two directions in which they differ most.

A full decomposition of two thousand vectors takes a second. Only two directions are needed, so the vectors are first
projected onto a few random directions, which a few iterations turn towards those of largest variance (Halko, Martinsson
and Tropp 2011). The random generator is seeded and the signs are fixed, so the same vectors always give the same
picture.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_DIRECTIONS = 12
_PASSES = 6


def project(vectors: NDArray[np.float32]) -> tuple[NDArray[np.float32], float]:
    """The position of each of ``vectors``, shape (n, d), in the plane: shape (n, 2), direction of largest variance
    first.

    Also returns the share of the total variance that the plane shows, in [0, 1].
    """
    places = np.zeros((len(vectors), 2), np.float32)
    if len(vectors) < 2:
        return places, 0.0
    centred = vectors - vectors.mean(axis=0)
    total = float(np.square(centred).sum())
    if total <= np.finfo(np.float32).eps * centred.size:
        return places, 0.0
    axes = _widest(centred)
    places[:, : len(axes)] = centred @ axes.T
    return places, min(1.0, float(np.square(places).sum()) / total)


def _widest(centred: NDArray[np.float32]) -> NDArray[np.float32]:
    """Up to two orthonormal directions, shape (≤ 2, d); the largest component of each is positive."""
    width = min(_DIRECTIONS, *centred.shape)
    start = np.random.default_rng(7).standard_normal((width, centred.shape[1])).astype(np.float32)
    sample = centred @ start.T
    for _pass in range(_PASSES):
        basis, _ = np.linalg.qr(centred.T @ sample)
        sample = centred @ basis
    basis, _ = np.linalg.qr(sample)
    _, _, axes = np.linalg.svd(basis.T @ centred, full_matrices=False)
    first = axes[:2]
    signs = np.sign(first[np.arange(len(first)), np.abs(first).argmax(axis=1)])
    turned: NDArray[np.float32] = first * signs[:, None]
    return turned
