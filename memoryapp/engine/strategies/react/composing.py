"""The tools that put sources together and check claims against them: ``compose_context`` and ``verify``."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from memoryapp.engine.context import estimated_tokens
from memoryapp.engine.strategies.react.coverage import borne_out, coverage, terms_of
from memoryapp.engine.strategies.react.pool import Document, Pool
from memoryapp.engine.strategies.react.quoting import QuestionTerms
from memoryapp.engine.strategies.react.shapes import (
    ComposeInput,
    ComposeOutput,
    Numbered,
    VerifyInput,
    VerifyOutput,
)
from memoryapp.engine.strategies.react.toolbox import Emit, ToolFailed
from memoryapp.engine.text.dates import windows
from memoryapp.engine.text.lexical import fold, words
from memoryapp.engine.text.lines import one_line, quoted
from memoryapp.engine.text.queries import matter_of

# The least share for which a claim counts as confirmed.
VERIFIED = 0.5
# A source is cut only if at least this much of it remains.
_LEAST_TOKENS = 40
_SNIPPET_CHARS = 200


@dataclass(slots=True)
class Composing:
    """Both tools over one pool. ``sources`` are the documents by their number, from 1."""

    question: str
    pool: Pool
    sources: dict[int, Document] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)

    async def compose(self, asked: ComposeInput, emit: Emit) -> ComposeOutput:
        """Numbers the documents that fit, the best first; a document that repeats an earlier one is left out."""
        if not asked.beside:
            self.sources, self.texts = {}, {}
        known = {_fingerprint(document.text) for document in self.sources.values()}
        room, left_out, new = asked.max_tokens_ctx, 0, list[int]()
        for document in self._documents(asked.ids):
            fingerprint = _fingerprint(document.text)
            text = _fitting(_head(document), document.text, room)
            if fingerprint in known or not text:
                left_out += 1
                continue
            number = len(self.sources) + 1
            known.add(fingerprint)
            room -= estimated_tokens(text)
            self.sources[number], self.texts[number] = document, text
            new.append(number)
        return ComposeOutput(
            prompt="\n\n".join(f"[{number}] {self.texts[number]}" for number in new),
            citations=tuple(Numbered(id=self.sources[number].passage.id, index=number) for number in new),
            coverage_est=self.coverage(self.sources.values()),
            tokens=asked.max_tokens_ctx - room,
            left_out=left_out,
            topics=tuple(dict.fromkeys(self.sources[number].topic for number in new)),
        )

    def _documents(self, ids: Sequence[int]) -> list[Document]:
        numbered = {document.passage.id for document in self.sources.values()}
        wanted = [id for id in dict.fromkeys(ids) if id not in numbered]
        return [self.pool.documents[id] for id in wanted if id in self.pool.documents]

    def coverage(self, documents: Iterable[Document]) -> float:
        """The coverage of the question by these documents."""
        weights = self.pool.weights(self._question_stems())
        texts = [document.text for document in documents]
        return coverage(weights, texts, self.pool.meaning, self.pool.nearness)

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

    async def verify(self, asked: VerifyInput, emit: Emit) -> VerifyOutput:
        """How far the most similar documents confirm a claim, by its stems and by every figure in it."""
        if not self.pool.documents:
            raise ToolFailed("no_documents")
        texts = {document.text: borne_out(asked.claim, document.text) for document in self.pool.documents.values()}
        best = sorted(texts.items(), key=lambda pair: -pair[1])[: asked.top_k]
        supporting = [(text, share) for text, share in best if share > 0]
        confidence = round(max((share for _text, share in supporting), default=0.0), 4)
        return VerifyOutput(
            verified=confidence >= VERIFIED,
            confidence=confidence,
            evidence=tuple(text[:_SNIPPET_CHARS] for text, _share in supporting),
            documents_found=len(supporting),
        )


def _fingerprint(text: str) -> str:
    """The same for texts that differ only in case, punctuation and joined words."""
    return hashlib.sha256(" ".join(words(fold(text))).encode()).hexdigest()


def _head(document: Document) -> str:
    """Who wrote it first and when, as in ``(Anna, 2026-05-07)``."""
    first = document.messages[0]
    return f"({one_line(first.author or first.role)}, {first.sent_at:%Y-%m-%d})"


def _fitting(head: str, text: str, room: int) -> str:
    """The source as a model reads it, cut between words at ``room`` tokens; empty when too little would remain."""
    whole = f"{head}\n{quoted(text)}"
    if estimated_tokens(whole) <= room:
        return whole
    if room < _LEAST_TOKENS:
        return ""
    share = room / estimated_tokens(whole)
    cut = whole[: int(len(whole) * share * 0.95)].rsplit(" ", 1)[0]
    return f"{cut} …"
