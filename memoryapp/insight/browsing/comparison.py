"""Compares topics by their terms, people and times, so that a person sees whether they are one. Texts are read up to a
bound that all topics share; messages are counted by time in the database. A term counts more if fewer passages of the
whole memory contain it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import log1p

from django.db.models import Window
from django.db.models.functions import RowNumber

from memoryapp.engine.beside import table_beside
from memoryapp.engine.text.lexical import idf, normal, stems, words
from memoryapp.engine.text.names import plain, spellings
from memoryapp.models import ChatUser, Message, Passage, Person, Topic
from memoryapp.platform.statements import fetched

MOST_TOPICS = 50
SLICES = 96
TERMS_SHOWN = 10
SHARED_TERMS_SHOWN = 4
OPENING_MESSAGES = 5
_MESSAGES_READ = 6_000
_LEAST_READ = 40
_CHARS_READ = 600
_TERMS_WEIGHED = 40
_PEOPLE_KNOWN = 1_000
_SHORTEST_TERM = 3

_SQL = table_beside(__file__)
TEXTS: str = _SQL["texts"]
MESSAGE_TIMES: str = _SQL["message_times"]
# The database's statistics on the words that most passages of all memories contain.
COMMON_TERMS: str = _SQL["common_terms"]
TERM_COUNTS: str = _SQL["term_counts"]


@dataclass(frozen=True, slots=True)
class Term:
    word: str
    is_shared: bool


@dataclass(frozen=True, slots=True)
class TopicColumn:
    """One topic. People and terms that another topic shares come first and are marked. ``slices`` are its numbers of
    messages in equal parts of the comparison's period."""

    topic: Topic
    people: tuple[Term, ...]
    terms: tuple[Term, ...]
    opening: tuple[Message, ...]
    slices: tuple[int, ...]

    @property
    def unread(self) -> int:
        """How many of its messages were not read."""
        return self.topic.message_count - len(self.opening)


@dataclass(frozen=True, slots=True)
class TopicComparison:
    """``people`` are those that at least two of the topics mention."""

    columns: tuple[TopicColumn, ...]
    people: tuple[str, ...]
    started_at: datetime
    ended_at: datetime


@dataclass(slots=True)
class _Words:
    """The stems of a topic's texts with counts and spellings; ``spelled`` are its words with their capital letters."""

    counts: Counter[str] = field(default_factory=Counter)
    written: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    spelled: set[str] = field(default_factory=set)

    def add(self, text: str) -> None:
        self.spelled.update(words(plain(text)))
        for word in words(normal(text)):
            for stem in stems(word):
                self.counts[stem] += 1
                self.written[stem][word] += 1

    def frequent(self) -> list[str]:
        """The stems that may name the subject, most frequent first."""
        long = {stem: n for stem, n in self.counts.items() if len(stem) >= _SHORTEST_TERM and not stem.isdigit()}
        return sorted(long, key=lambda stem: (-long[stem], stem))[:_TERMS_WEIGHED]

    def as_written(self, stem: str) -> str:
        return self.written[stem].most_common(1)[0][0]


def compare(owner: ChatUser, topics: Sequence[Topic]) -> TopicComparison:
    """Between one and ``MOST_TOPICS`` live topics of the owner, in their order; six queries for any number."""
    texts = {topic.pk: _Words() for topic in topics}
    most = max(_LEAST_READ, _MESSAGES_READ // len(topics))
    for topic, text in fetched(TEXTS, {"owner": owner.pk, "topics": list(texts), "chars": _CHARS_READ, "most": most}):
        texts[topic].add(text)
    people, terms = _people(owner, texts), _terms(owner, texts)
    first, last = min(topic.started_at for topic in topics), max(topic.ended_at for topic in topics)
    slices, openings = _slices(owner, topics, first, last), _openings(owner, topics)
    columns = tuple(TopicColumn(t, people[t.pk], terms[t.pk], openings[t.pk], slices[t.pk]) for t in topics)
    common = dict.fromkeys(person.word for each in people.values() for person in each if person.is_shared)
    return TopicComparison(columns, tuple(common), first, last)


def _people(owner: ChatUser, texts: Mapping[int, _Words]) -> dict[int, tuple[Term, ...]]:
    """The people mentioned in each topic, in any grammatical case of their names."""
    known = Person.objects.filter(owner=owner).order_by("-mention_count", "pk")
    names: dict[str, list[Sequence[frozenset[str]]]] = {}
    for name, aliases in known.values_list("display_name", "aliases")[:_PEOPLE_KNOWN]:
        names.setdefault(name, []).extend(spellings(form) for form in (name, *aliases))
    named = {
        pk: [name for name, forms in names.items() if any(_is_named(form, counted.spelled) for form in forms)]
        for pk, counted in texts.items()
    }
    spoken_of = Counter(name for found in named.values() for name in found)
    return {pk: _shared_first([Term(name, spoken_of[name] > 1) for name in found]) for pk, found in named.items()}


def _is_named(name: Sequence[frozenset[str]], spelled: set[str]) -> bool:
    return bool(name) and not any(word.isdisjoint(spelled) for word in name)


def _terms(owner: ChatUser, texts: Mapping[int, _Words]) -> dict[int, tuple[Term, ...]]:
    """A few terms that other topics share (the same ones for all), and then the topic's own terms."""
    frequent = {pk: counted.frequent() for pk, counted in texts.items()}
    among = Counter(stem for found in frequent.values() for stem in found)
    rarity = _rarity(owner, among)
    weights = {
        pk: {stem: log1p(texts[pk].counts[stem]) * rarity[stem] for stem in found} for pk, found in frequent.items()
    }
    together = Counter[str]()
    for own_weights in weights.values():
        together.update(own_weights)
    terms = {}
    for pk, own_weights in weights.items():
        common = sorted((stem for stem in own_weights if among[stem] > 1), key=lambda stem: (-together[stem], stem))
        own = sorted((stem for stem in own_weights if among[stem] == 1), key=lambda stem: (-own_weights[stem], stem))
        shared = [Term(texts[pk].as_written(stem), True) for stem in common[:SHARED_TERMS_SHOWN]]
        alone = [Term(texts[pk].as_written(stem), False) for stem in own[: TERMS_SHOWN - len(shared)]]
        terms[pk] = (*shared, *alone)
    return terms


def _rarity(owner: ChatUser, terms: Iterable[str]) -> dict[str, float]:
    """The weight of each term, by how few of the owner's passages contain it. Rare terms are counted. Counting common
    ones would read most of a memory for each page, so the database's statistics are used for them: the share of
    passages in all memories."""
    wanted = list(terms)
    passages = Passage.objects.filter(owner=owner).count()
    elements, shares = next(iter(fetched(COMMON_TERMS)), ((), ()))
    common = dict(zip(elements or (), shares or (), strict=False))
    rare = [term for term in wanted if term not in common]
    holding = dict(fetched(TERM_COUNTS, {"owner": owner.pk, "terms": rare}))
    in_passages = {term: round(passages * common[term]) if term in common else holding.get(term, 1) for term in wanted}
    return {term: idf(passages, min(max(count, 1), passages)) for term, count in in_passages.items()}


def _shared_first(terms: Sequence[Term]) -> tuple[Term, ...]:
    return tuple(sorted(terms, key=lambda term: not term.is_shared))


def _slices(owner: ChatUser, topics: Sequence[Topic], first: datetime, last: datetime) -> dict[int, tuple[int, ...]]:
    counts = {topic.pk: [0] * SLICES for topic in topics}
    # the end of a bucket is outside of it, and a moment has no length
    span = {"first": first.timestamp(), "last": last.timestamp() + 1, "slices": SLICES}
    for topic, slice_, count in fetched(MESSAGE_TIMES, {"owner": owner.pk, "topics": list(counts), **span}):
        counts[topic][min(max(slice_ - 1, 0), SLICES - 1)] += count
    return {pk: tuple(slices) for pk, slices in counts.items()}


def _openings(owner: ChatUser, topics: Sequence[Topic]) -> dict[int, tuple[Message, ...]]:
    """The first messages of each topic that contain text."""
    rows = Message.objects.of(owner).filter(topic__in=[topic.pk for topic in topics]).exclude(text="")
    place = Window(RowNumber(), partition_by="topic_id", order_by=("sent_at", "id"))
    found: dict[int, list[Message]] = {topic.pk: [] for topic in topics}
    for row in rows.annotate(place=place).filter(place__lte=OPENING_MESSAGES).order_by("sent_at", "id"):
        found[row.topic_id or 0].append(row)
    return {pk: tuple(messages) for pk, messages in found.items()}
