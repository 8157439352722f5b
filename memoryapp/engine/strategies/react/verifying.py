"""The tool ``verify``: whether the sources that a statement cites say what it states.

One question to the model that wrote the answer judges all its statements. Where no model judged, words decide: the
share of a statement's stems that the cited sources contain with the same negations, and every figure in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memoryapp.engine.agents.verifier import judge_statements
from memoryapp.engine.budget import Deadline
from memoryapp.engine.chat.protocol import Chat
from memoryapp.engine.emit import Emit
from memoryapp.engine.prompts.language import Language
from memoryapp.engine.prompts.prompt import PromptBook
from memoryapp.engine.strategies.react.composing import Composing
from memoryapp.engine.strategies.react.coverage import borne_out
from memoryapp.engine.strategies.react.shapes import VerifyInput, VerifyOutput
from memoryapp.engine.strategies.react.statements import Statement
from memoryapp.engine.strategies.react.toolbox import ToolFailed
from memoryapp.engine.text.lexical import is_wide
from memoryapp.engine.text.lines import one_line
from memoryapp.engine.text.negation import signed_sentences

# The least share of its words for which a statement counts as supported by what it cites, and by what it does not cite.
SUPPORTED = 0.6
SUPPORTED_ELSEWHERE = 0.8
LONGEST_CLAIM = 1_000
_SNIPPET_CHARS = 200


@dataclass(slots=True)
class Verifying:
    """The tool over the sources of one run, and what the ``writer`` has judged, by statement."""

    composing: Composing
    prompts: PromptBook
    language: Language
    deadline: Deadline
    most_seconds: float
    writer: Chat | None = None
    judged: dict[str, tuple[int, ...]] = field(default_factory=dict)

    async def judge(self, statements: Sequence[Statement], emit: Emit) -> None:
        """Asks the model once; when it fails, nothing is judged."""
        seconds = min(self.most_seconds, self.deadline.left)
        if self.writer is None or not statements or seconds <= 0:
            return
        claims = [each.text[:LONGEST_CLAIM] for each in statements]
        ask = judge_statements(
            claims,
            self.composing.texts,
            chat=self.writer,
            seconds=seconds,
            prompts=self.prompts,
            language=self.language,
        )
        await ask.complete(emit)
        self.judged = {claims[place]: numbers for place, numbers in (ask.answer or {}).items()}

    def question(self, statement: Statement, top_k: int) -> VerifyInput | None:
        """The input of the tool for a statement; None unless that is judged, or has words in the script of a source."""
        claim = statement.text[:LONGEST_CLAIM]
        scripts = {is_wide(document.text) for document in self.composing.sources.values()}
        can_check = claim in self.judged or (is_wide(claim) in scripts and bool(signed_sentences(claim)))
        return VerifyInput(claim=claim, cited=statement.numbers, top_k=top_k) if can_check else None

    async def verify(self, asked: VerifyInput, emit: Emit) -> VerifyOutput:
        """How far the cited sources, or where none is cited all of them, say what the claim states."""
        texts = {number: document.text for number, document in self.composing.sources.items()}
        if not texts:
            raise ToolFailed("no_documents")
        cited = [number for number in asked.cited if number in texts] or list(texts)
        if asked.claim in self.judged:
            return self._by_model(self.judged[asked.claim], cited, texts, asked.top_k)
        return _by_words(asked, cited, texts)

    def _by_model(
        self, numbers: Sequence[int], cited: Sequence[int], texts: Mapping[int, str], most: int
    ) -> VerifyOutput:
        rightly = [number for number in numbers if number in cited]
        return VerifyOutput(
            verified=bool(rightly),
            confidence=float(bool(rightly)),
            evidence=_evidence(rightly or numbers, texts, most),
            documents_found=len(numbers),
            sources=tuple(rightly or numbers),
            misquoted=bool(numbers) and not rightly,
            by="model",
        )


def _by_words(asked: VerifyInput, cited: Sequence[int], texts: Mapping[int, str]) -> VerifyOutput:
    shares = {number: borne_out(asked.claim, text) for number, text in texts.items()}
    together = borne_out(asked.claim, "\n".join(texts[number] for number in cited))
    confidence = round(max(together, *(shares[number] for number in cited)), 4)
    elsewhere = [n for n in texts if n not in cited and shares[n] >= SUPPORTED_ELSEWHERE]
    is_supported = confidence >= SUPPORTED
    supporting = list(cited) if is_supported else elsewhere[:1]
    found = sorted((n for n in texts if shares[n] > 0), key=lambda n: -shares[n])
    return VerifyOutput(
        verified=is_supported,
        confidence=confidence,
        evidence=_evidence(found, texts, asked.top_k),
        documents_found=len(found),
        sources=tuple(supporting),
        misquoted=bool(elsewhere) and not is_supported,
        by="words",
    )


def _evidence(numbers: Sequence[int], texts: Mapping[int, str], most: int) -> tuple[str, ...]:
    return tuple(one_line(texts[number][:_SNIPPET_CHARS]) for number in numbers[:most])
