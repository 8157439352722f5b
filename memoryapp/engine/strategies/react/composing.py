"""The tool ``compose_context``, which puts sources together, and how far they cover the question."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from memoryapp.engine.context import estimated_tokens
from memoryapp.engine.emit import Emit
from memoryapp.engine.offline.judging import holds, kind_asked_for
from memoryapp.engine.strategies.react.searching import Document, Pool
from memoryapp.engine.strategies.react.statements import Place, coverage, covered_share, quotable, terms_of
from memoryapp.engine.strategies.react.toolbox import ComposeInput, ComposeOutput, Numbered
from memoryapp.engine.text.dates import windows
from memoryapp.engine.text.lexical import fold, words
from memoryapp.engine.text.names import lead_of_others, one_named
from memoryapp.engine.text.terms import matter_of

# Selects the sentence that answers a question best, without a model.
#
# The value of a sentence is the share of the question's words that it contains, by their rarity in the memory, plus a
# part of that share of its source. It is higher if the sentence contains the kind of thing that is asked for, or
# replies to a message that asks the same question, and lower if it asks itself, because a question answers nothing.
# What each part gains, and what was tried beside them, is in docs/measurements.md.

# What is added for the kind, a reply and the source; the last is the part of its share that a question keeps.
_KIND, _REPLY, _SOURCE, _ASKING_SHARE = 0.25, 0.4, 0.4, 0.25


@dataclass(frozen=True, slots=True)
class QuestionTerms:
    """A question, the rarity of each of its terms, and the kind of thing that it asks for, empty if unknown."""

    question: str
    weights: Mapping[str, float]
    kind: str

    @classmethod
    def of(cls, question: str, weights: Mapping[str, float]) -> QuestionTerms:
        return cls(question, weights, kind_asked_for(question))

    def share(self, text: str) -> float:
        """Returns the share of the question's terms, by their rarity, that a text contains."""
        return covered_share(self.weights, terms_of(text))

    def best(self, document: Document) -> Place:
        """Returns the place of the best sentence of a document; of equal ones the first."""
        worth = dict(self._worth(document))
        return max(worth, key=lambda found: worth[found])

    def _worth(self, document: Document) -> Iterator[tuple[Place, float]]:
        texts = {message.id: message.text for message in document.messages}
        of_source = _SOURCE * self.share(document.text)
        replying = dict(zip(list(texts)[1:], texts.values(), strict=False))
        for number, start, end in quotable(document):
            before, sentence = replying.get(number, ""), texts[number][start:end]
            value = of_source + self.share(sentence) * (_ASKING_SHARE if _asks(sentence) else 1.0)
            value += _REPLY * self.share(before) if _asks(before) else 0.0
            value += _KIND if self.kind and holds(self.kind, sentence, self.question) else 0.0
            yield (number, start, end), value


def _asks(text: str) -> bool:
    return text.rstrip().endswith("?")


# Somebody else than the person named says so much more in 2 % of 380 questions over five public two-person
# conversations, and in 31 % of 210 with the name changed to that of the other person. More is not covered then.
_MUCH = 0.4
_BY_OTHERS = 0.4


@dataclass(frozen=True, slots=True)
class ByOthers:
    """The question is about ``named``; ``who`` says ``lead`` more of it, as a share of the question."""

    named: str
    who: str
    lead: float


@dataclass(slots=True)
class Composing:
    """The tool over one pool. ``sources`` are the documents by their number, from 1, ``texts`` as a model reads them.
    What was composed before stays where it covers more of the question: the sources have little room, and hits of other
    words may push out the passage that speaks of it."""

    question: str
    pool: Pool
    sources: dict[int, Document] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)

    async def compose(self, asked: ComposeInput, emit: Emit) -> ComposeOutput:
        """Numbers the documents that fit, the best first; a document that repeats an earlier one is left out."""
        earlier = self.sources, self.texts
        self.sources, self.texts = (dict(earlier[0]), dict(earlier[1])) if asked.beside else ({}, {})
        left_out = self._number(asked)
        kept = self.coverage(earlier[0].values()) > self.coverage(self.sources.values())
        if kept:
            self.sources, self.texts = earlier
        new = [number for number in self.sources if not (asked.beside and number in earlier[0])]
        return ComposeOutput(
            prompt="\n\n".join(self.texts[number] for number in new),
            citations=tuple(Numbered(id=self.sources[number].passage.id, index=number) for number in new),
            coverage_est=self.coverage(self.sources.values()),
            tokens=sum(estimated_tokens(self.texts[number]) for number in new),
            left_out=left_out,
            kept_earlier=kept,
            topics=tuple(dict.fromkeys(self.sources[number].topic for number in new)),
        )

    def _number(self, asked: ComposeInput) -> int:
        """Adds the documents that fit; returns how many do not, or repeat another one."""
        known = {_fingerprint(document.text) for document in self.sources.values()}
        room, left_out = asked.max_tokens_ctx, 0
        for document in self._documents(asked.ids):
            fingerprint = _fingerprint(document.text)
            number = len(self.sources) + 1
            text = document.source(number, room)
            if fingerprint in known or not text:
                left_out += 1
                continue
            known.add(fingerprint)
            room -= estimated_tokens(text)
            self.sources[number], self.texts[number] = document, text
        return left_out

    def _documents(self, ids: Sequence[int]) -> list[Document]:
        numbered = {document.passage.id for document in self.sources.values()}
        wanted = [id for id in dict.fromkeys(ids) if id not in numbered]
        return [self.pool.documents[id] for id in wanted if id in self.pool.documents]

    def coverage(self, documents: Iterable[Document]) -> float:
        documents = list(documents)
        weights = self.pool.weights(self._question_stems())
        texts = [document.text for document in documents]
        found = coverage(weights, texts, self.pool.meaning, self.pool.nearness)
        other = self._by_others(documents)
        return min(found, _BY_OTHERS) if other and other.lead > _MUCH else found

    @property
    def by_others(self) -> ByOthers | None:
        """Who says what the question asks of somebody else; None unless it names one speaker and another says more."""
        return self._by_others(self.sources.values())

    def _by_others(self, documents: Iterable[Document]) -> ByOthers | None:
        messages = [message for document in documents for message in document.messages]
        named = one_named(self.question, (message.author for message in messages))
        terms = self.question_terms
        shares = [(message.author, message.text, terms.share(message.text)) for message in messages]
        lead = lead_of_others(named, shares)
        others = [(share, author) for author, _text, share in shares if author not in ("", named)]
        return ByOthers(named, max(others)[1], lead) if lead > 0 else None

    @property
    def question_terms(self) -> QuestionTerms:
        """The words and the kind of thing by which a sentence with the answer is recognised."""
        return QuestionTerms.of(self.question, self.pool.weights(self._question_stems()))

    def _question_stems(self) -> frozenset[str]:
        """What the question asks for: its stems, without the names of speakers and the dates in it."""
        authors = {message.author for document in self.pool.documents.values() for message in document.messages}
        matter = matter_of(self.question, authors).texts[-1]
        any_document = next(iter(self.pool.documents.values()), None)
        today = any_document.messages[0].sent_at.date() if any_document else None
        dated = {word for window in (windows(matter, today) if today else ()) for word in words(window.words)}
        undated = " ".join(word for word in words(matter) if word.lower() not in dated)
        return terms_of(undated) or terms_of(self.question)


def _fingerprint(text: str) -> str:
    """The same for texts that differ only in case, punctuation and joined words."""
    return hashlib.sha256(" ".join(words(fold(text))).encode()).hexdigest()
