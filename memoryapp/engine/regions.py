"""Divides places on a plane into a few regions, and names each region by what its texts say and others do not.

Regions are found by k-means with seeded k-means++ (Arthur and Vassilvitskii 2007), on the plane and not in all
dimensions: a region is drawn as an outline, so it must be contiguous and must not overlap another one. Names are words
weighted by c-TF-IDF: the number of texts of the region with the word, times its rarity in all texts. Words of any talk
name no region, and words that look like nouns are preferred."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from itertools import chain
from math import log1p, sqrt

import numpy as np
from numpy.typing import NDArray

from memoryapp.engine.text.scripts import WORD
from memoryapp.engine.text.terms import fitness, naming_stems, reading_form

MOST_REGIONS = 8
# With fewer places, a name says less than the texts themselves.
LEAST_PLACES = 9
NAMING_WORDS = 3
_MANY_TEXTS = 400
_ROUNDS = 40
_SHORTLIST = 50

# What ends a sentence, if anything does, and the word after it.
_WORD = re.compile(rf"([.!?:;—][\W_]{{1,3}})?({WORD.pattern})")
Places = NDArray[np.float32]


def regions(places: Places) -> list[int]:
    """The region of each of ``places``, shape (n, 2), numbered from 0; one for few places, or equal ones."""
    if len(places) < LEAST_PLACES or not np.ptp(places, axis=0).any():
        return [0] * len(places)
    wanted = min(MOST_REGIONS, round(sqrt(len(places) / 2)))
    centres = _seeds(places, wanted)
    nearest = np.zeros(len(places), np.intp)
    for _round in range(_ROUNDS):
        nearest = _distances(places, centres).argmin(axis=1)
        members = [places[nearest == at] for at in range(len(centres))]
        means = [own.mean(axis=0) if len(own) else before for own, before in zip(members, centres, strict=True)]
        moved = np.array(means, np.float32)
        if np.allclose(moved, centres):
            break
        centres = moved
    labels = nearest.tolist()
    # Without gaps, the largest region first.
    order = [label for label, _count in Counter(labels).most_common()]
    return [order.index(label) for label in labels]


def _seeds(places: Places, wanted: int) -> Places:
    """The first centres; each is far from those before it."""
    dice = np.random.default_rng(7)
    chosen = [int(dice.integers(len(places)))]
    while len(chosen) < wanted:
        away = _distances(places, places[chosen]).min(axis=1)
        if not away.any():
            break
        chosen.append(int(dice.choice(len(places), p=away / away.sum())))
    return places[chosen]


def _distances(places: Places, centres: Places) -> NDArray[np.float64]:
    """Squared distances, shape (places, centres). One axis at a time takes a fifth of the time of both at once."""
    apart = np.zeros((len(places), len(centres)))
    for axis in range(places.shape[1]):
        apart += np.square(places[:, None, axis] - centres[None, :, axis], dtype=np.float64)
    return apart


def hull(places: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The corners of the convex hull, counter-clockwise (Andrew's monotone chain); one or two are their own hull."""
    ordered = sorted(set(places))
    if len(ordered) < 3:
        return ordered
    return [*_chain(ordered)[:-1], *_chain(ordered[::-1])[:-1]]


def within(places: Places, corners: Sequence[tuple[float, float]]) -> NDArray[np.bool_]:
    """Which of ``places``, shape (n, 2), lie in the polygon with these corners, shape (n,); it may cross itself."""
    inside = np.zeros(len(places), np.bool_)
    for (x, y), (to_x, to_y) in zip(corners, [*corners[1:], *corners[:1]], strict=True):
        if y == to_y:
            continue
        crosses = (places[:, 1] < y) != (places[:, 1] < to_y)
        inside ^= crosses & (places[:, 0] < x + (places[:, 1] - y) * (to_x - x) / (to_y - y))
    return inside


def _chain(ordered: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    corners: list[tuple[float, float]] = []
    for place in ordered:
        while len(corners) > 1 and _turn(corners[-2], corners[-1], place) <= 0:
            corners.pop()
        corners.append(place)
    return corners


def _turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def names(texts: Sequence[str], labels: Sequence[int]) -> list[tuple[str, ...]]:
    """Up to three words for each region that distinguish its texts from those of the others, as they are written."""
    found = [_words(text) for text in texts]
    # Only distinct words are stemmed, and of many texts only words that occur twice: others cannot name a region.
    least = 2 if len(texts) >= _MANY_TEXTS else 1
    counts = {word: n for word, n in Counter(chain.from_iterable(found)).items() if n >= least}
    stems_of = {word: naming_stems(word) for word in counts}
    frequencies: dict[int, Counter[str]] = defaultdict(Counter)
    for text_words, label in zip(found, labels, strict=True):
        frequencies[label].update({stem for word in text_words for stem in stems_of.get(word, ())})
    everywhere = sum(frequencies.values(), Counter[str]())
    forms = _forms(counts, stems_of)
    numbers = range(max(labels, default=-1) + 1)
    return [_telling(frequencies[number], everywhere, len(texts), forms) for number in numbers]


def _words(text: str) -> list[str]:
    """The words of a text; those at the beginning of a sentence without the capital letter that they have for it."""
    first, *rest = _WORD.findall(text) or [("", "")]
    return [_uncapitalised(first[1]), *(_uncapitalised(word) if stop else word for stop, word in rest)]


def _uncapitalised(word: str) -> str:
    return word if word[1:] != word[1:].lower() else word.lower()


def _forms(counts: Mapping[str, int], stems_of: Mapping[str, Sequence[str]]) -> dict[str, Counter[str]]:
    """How often each stem is written in which way."""
    forms: dict[str, Counter[str]] = defaultdict(Counter)
    for word, count in counts.items():
        for stem in stems_of[word]:
            forms[stem][word] += count
    return forms


def _telling(
    own: Counter[str], everywhere: Counter[str], texts: int, forms: Mapping[str, Counter[str]]
) -> tuple[str, ...]:
    worth = {stem: n * n / everywhere[stem] * log1p(texts / everywhere[stem]) for stem, n in own.items()}
    # The best by frequency alone, so that the shape of few words is looked at.
    shortlist = {stem: reading_form(forms[stem]) for stem in nlargest(_SHORTLIST, worth, key=lambda stem: worth[stem])}
    best = sorted(shortlist, key=lambda stem: (-worth[stem] * fitness(shortlist[stem]), -len(stem), stem))
    return tuple(shortlist[stem] for stem in best[:NAMING_WORDS])


# Projects vectors of many dimensions onto the plane of the two directions in which they differ most.
#
# A full decomposition of two thousand vectors takes a second. Only two directions are needed, so the vectors are
# first projected onto a few random directions, which a few iterations turn towards those of largest variance (Halko,
# Martinsson and Tropp 2011). The random generator is seeded and the signs are fixed, so the same vectors always give
# the same picture.

_DIRECTIONS = 12
_PASSES = 6


def project(vectors: NDArray[np.float32]) -> tuple[NDArray[np.float32], float]:
    """The position of each of ``vectors``, shape (n, d), in the plane: shape (n, 2), direction of largest variance
    first. Also returns the share of the total variance that the plane shows, in [0, 1]."""
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
