"""Candidates: topics, people and artifacts that a search found, as a run stores them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from memoryapp.engine.json_values import Code
from memoryapp.engine.memory import ANYWHERE, Where

# How many candidates of each kind a run records, and how many topics of the plain vector order.
RANKED = 200
BASELINE = 50
# The parts of a score, in the order in which they are shown: similarity in meaning, shared words, the meaning of the
# whole topic, words of its summary beyond those of its passages, dates that the query names, phrases that were asked
# for, a reply without its request, a standing instruction, the score of a cross-encoder.
PARTS = ("meaning", "words", "topic", "summary", "dates", "phrases", "reply_alone", "instruction", "cross_encoder")


@dataclass(frozen=True, slots=True)
class NamedDates:
    """A period that a query names with these ``words``. Both days are included, written as ``2023-05-01``."""

    words: str
    first: Code
    last: Code


@dataclass(frozen=True, slots=True)
class OneTerm:
    """A word of the query, and its other ``forms`` that count as the same word."""

    word: str
    forms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnderstoodQuery:
    """What search understood of the query beyond its words.

    ``names`` of people who speak were left out of its vector. ``dates`` raise what was said then; ``one_term`` are
    irregular words. ``instructions`` is true when passages with a standing instruction were raised. Only messages that
    ``where`` permits were searched; ``absent`` are those of its phrases that nothing contains. ``common`` are the stems
    that, in a large memory, count only beside rarer ones."""

    names: tuple[str, ...] = ()
    dates: tuple[NamedDates, ...] = ()
    one_term: tuple[OneTerm, ...] = ()
    instructions: bool = False
    where: Where = ANYWHERE
    common: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def says_anything(self) -> bool:
        """Whether a reader is told anything of this."""
        of_words = (self.names, self.dates, self.one_term, self.instructions, self.common)
        phrases = self.where.must_phrases or self.where.should_phrases
        return any(of_words) or self.where.has_filters or bool(self.where.as_of or phrases)


@dataclass(frozen=True, slots=True)
class CrossEncoded:
    """The ``model`` that corrected the order of the first ``topics``; all fields are empty when none is configured.
    ``failure`` says in words why it did not; the order is then that of the search."""

    model: Code = ""
    topics: int = 0
    seconds: float = 0.0
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A topic that search found. ``rank`` and ``vector_rank`` count from 1; without vectors ``vector_rank`` is 0.

    ``cosine`` and ``bm25`` are those of its best passage. It is ranked by ``fused``; ``score`` is ``fused`` mapped into
    (0, 1), and is what the model sees. ``terms`` is what each word of the query added to ``bm25``, ``parts`` what each
    part of ``PARTS`` added to ``fused``; parts that add nothing are left out, and runs of earlier versions have none.
    ``shown`` says whether the model saw the candidate, as the line ``line``. ``passage_id`` is the id of the best
    passage, 0 in runs of earlier versions.

    ``found_by`` says which wordings of the query found a candidate that is shown: ``original`` and ``rewrite``, each
    with the rank by that wording alone, if it was ranked. It is empty when only one wording was searched."""

    id: str
    rank: int
    vector_rank: int
    cosine: float
    bm25: float
    fused: float
    score: float
    date: Code
    message_count: int
    size_chars: int
    summary: str
    line: str
    shown: bool
    passage_id: int = 0
    terms: Mapping[str, float] = field(default_factory=dict)
    found_by: Mapping[Code, int] = field(default_factory=dict)
    parts: Mapping[Code, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ItemCandidate:
    """A person or an artifact that search found; its numbers mean the same as in ``Candidate``. ``name`` is what people
    call it, ``line`` is what the model sees. ``in_session`` marks a file of the running conversation, which precedes
    the found ones and has no scores."""

    id: str
    rank: int
    vector_rank: int
    cosine: float
    bm25: float
    fused: float
    score: float
    name: str
    line: str
    shown: bool
    in_session: bool = False
    terms: Mapping[str, float] = field(default_factory=dict)
    found_by: Mapping[Code, int] = field(default_factory=dict)
    parts: Mapping[Code, float] = field(default_factory=dict)
