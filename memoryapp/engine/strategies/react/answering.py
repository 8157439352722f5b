"""The answer in words: a model's text or extracts of the messages, and whether it is kept.

Extracts show what was said, not that it answers the question. If their sources cover less than ``enough_coverage`` of
the question, the answer is softened; below ``least_coverage`` it is refused. An answer of a model below
``least_coverage`` is only softened if its claims are confirmed. Below ``least_support`` any answer is softened, and it
is refused when none of its claims is confirmed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from memoryapp.engine.candidates import Candidate
from memoryapp.engine.events import RunFinished, Selected
from memoryapp.engine.kinds.react import Answered
from memoryapp.engine.memory import TopicContent, topic_id
from memoryapp.engine.notes import Note, Notes
from memoryapp.engine.offline.choosing import likeliest
from memoryapp.engine.offline.judging import JudgedTopic, judge
from memoryapp.engine.prompts import Language
from memoryapp.engine.strategies.react.coverage import terms_of
from memoryapp.engine.strategies.react.parameters import ReactParameters
from memoryapp.engine.strategies.react.pool import Document
from memoryapp.engine.strategies.react.quoting import QuestionTerms
from memoryapp.engine.strategies.react.statements import (
    Place,
    Statements,
    citations_of,
    quoting,
    statements_of,
)
from memoryapp.engine.text.lexical import is_wide

NOT_IN_MEMORY = "NOT_IN_MEMORY"
_UNSURE: Mapping[Language, str] = {
    "en": "The memory bears this out in part only:",
    "ru": "Память подтверждает это лишь отчасти:",
}
_REFUSAL: Mapping[Language, str] = {
    "en": "The memory does not hold an answer to this.",
    "ru": "В памяти нет ответа на этот вопрос.",
}
_QUOTES: Mapping[Language, str] = {"en": "“{}”", "ru": "«{}»"}
# A message without an author's name is quoted with its role.
_ROLES: Mapping[Language, Mapping[str, str]] = {
    "en": {},
    "ru": {"user": "собеседник", "assistant": "ассистент", "peer": "другой участник", "system": "система"},
}
_MOST_REASON = 300


@dataclass(frozen=True, slots=True)
class Draft:
    """An answer before it is judged; ``claims`` are to be checked, the longest first."""

    statements: Statements
    by: Literal["model", "extracts"]
    claims: tuple[str, ...] = ()
    notes: Notes = ()


def model_draft(text: str, sources: Mapping[int, Document]) -> Draft:
    """A model's answer; empty when the model says that the sources contain none."""
    if NOT_IN_MEMORY in text:
        return Draft(Statements((), {}), "model", notes=(Note("nothing_found"),))
    statements = statements_of(text, sources)
    notes = (Note("statements_uncited", {"n": statements.dropped}),) if statements.dropped else ()
    return Draft(statements, "model", _claims([each.text for each in statements.kept], sources), notes)


def extractive_draft(
    wanted: QuestionTerms,
    sources: Mapping[int, Document],
    topics: Sequence[TopicContent],
    candidates: Mapping[str, Candidate],
    language: Language,
    why: Note,
) -> Draft:
    """The most telling sentence of each topic that probably contains an answer; ``why`` says why no model wrote the
    answer."""
    cited = {document.topic for document in sources.values()}
    read = [_to_judge(topic, candidates) for topic in topics if topic_id(topic.id) in cited]
    chosen = likeliest(judge(wanted.question, read, len(candidates)))
    found = [wanted.best(_of_topic(sources, each.topic.id)) for each in chosen]
    quotes = [_quote(sources[number], place, language) for number, place in found]
    texts = [f"{head}: {_QUOTES[language].format(quote)}" for head, quote in quotes]
    statements = quoting([(text, *each) for text, each in zip(texts, found, strict=True)], sources)
    notes = (why,) if chosen else (why, Note("nothing_found"))
    return Draft(statements, "extracts", _claims([quote for _head, quote in quotes], sources), notes)


def _to_judge(topic: TopicContent, candidates: Mapping[str, Candidate]) -> JudgedTopic:
    found = candidates.get(topic_id(topic.id))
    authors, texts = zip(*((message.author, message.text) for message in topic.messages), strict=True)
    return JudgedTopic(topic_id(topic.id), found.score if found else 0.0, authors, texts)


def _of_topic(sources: Mapping[int, Document], topic: str) -> Mapping[int, Document]:
    return {number: document for number, document in sources.items() if document.topic == topic}


def _quote(document: Document, place: Place, language: Language) -> tuple[str, str]:
    """Returns author and time, and the sentence."""
    number, start, end = place
    message = next(each for each in document.messages if each.id == number)
    author = message.author or _ROLES[language].get(message.role, message.role)
    return f"{author} ({message.sent_at:%Y-%m-%d})", message.text[start:end]


def _claims(texts: Sequence[str], sources: Mapping[int, Document]) -> tuple[str, ...]:
    """The claims that can be checked by their words: in the script of a source, and with words to check."""
    scripts = {is_wide(document.text) for document in sources.values()}
    checkable = [text for text in texts if is_wide(text) in scripts and terms_of(text)]
    return tuple(sorted(checkable, key=lambda text: -len(terms_of(text))))


def answer_event(
    draft: Draft, coverage: float, support: float | None, parameters: ReactParameters, language: Language
) -> Answered:
    """Returns the answer, unchanged, softened, or refused."""
    statements = draft.statements
    outcome, notes = _outcome(draft, coverage, support, parameters)
    text = statements.text
    if outcome == "softened":
        text = f"{_UNSURE[language]}\n{text}"
    if outcome == "refused":
        text, statements = _REFUSAL[language], replace(statements, kept=(), sources={})
    return Answered(
        text=text,
        citations=tuple(citation for citation, _piece in citations_of(statements)),
        outcome=outcome,
        coverage=coverage,
        by=draft.by,
        support=support,
        dropped_numbers=statements.dropped_numbers,
        dropped_statements=statements.dropped,
        notes=notes,
    )


def _outcome(
    draft: Draft, coverage: float, support: float | None, parameters: ReactParameters
) -> tuple[Literal["answered", "softened", "refused"], Notes]:
    if not draft.statements.kept:
        found_nothing = any(note.code == "nothing_found" for note in draft.notes)
        return "refused", draft.notes if found_nothing else (*draft.notes, Note("nothing_found"))
    is_quoted = draft.by == "extracts"
    is_partly = is_quoted and parameters.least_coverage <= coverage < parameters.enough_coverage
    least = parameters.enough_coverage if is_partly else parameters.least_coverage
    little = Note("low_coverage", {"coverage": round(coverage, 2), "least": least})
    shaky = Note("unsupported", {"support": round(support or 0.0, 2), "least": parameters.least_support})
    is_covered = coverage >= parameters.least_coverage
    is_borne_out = support is None or support >= parameters.least_support
    is_enough = is_covered and not is_partly
    notes = (*draft.notes, *(() if is_enough else (little,)), *(() if is_borne_out else (shaky,)))
    if is_covered and is_borne_out:
        return ("answered" if is_enough else "softened"), notes
    is_checked = support is not None and support >= parameters.least_support and not is_quoted
    stands = is_checked if not is_covered else bool(support)
    return ("softened" if stands else "refused"), notes


def end_event(
    event: Answered, draft: Draft, candidates: Mapping[str, Candidate], baseline: tuple[str, ...]
) -> RunFinished:
    """The cited topics in the order of their citations, each with the quotations from it."""
    statements = draft.statements if event.citations else Statements((), {})
    located = citations_of(statements)
    ids = list(dict.fromkeys(citation.topic for citation, _piece in located))
    selected = tuple(
        Selected(
            id=id,
            rank=rank,
            reason=_reason(draft, [citation.n for citation, _piece in located if citation.topic == id]),
            score=candidates[id].score if id in candidates else 0.0,
            vector_rank=candidates[id].vector_rank if id in candidates else 0,
            excerpt=tuple(piece for citation, piece in located if citation.topic == id),
            excerpt_by="scorer",
        )
        for rank, id in enumerate(ids, start=1)
    )
    why = tuple(note for note in event.notes if note.code != "extracts_only")
    return RunFinished(selected, (), "", baseline=baseline, notes=() if selected else why)


def _reason(draft: Draft, numbers: Sequence[int]) -> str:
    """What the model says with reference to this topic; extracts are their own reason."""
    if draft.by == "extracts":
        return ""
    citing = [each.text for each in draft.statements.kept if set(each.numbers) & set(numbers)]
    return " ".join(citing)[:_MOST_REASON]
