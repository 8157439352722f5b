"""What a run answers: a model's text as far as its sources bear it out, or the passages nearest to the question.

A statement that its sources contradict, or that a model which judges does not confirm while its words differ from
theirs, is left out. Where another source says it, that one is cited instead, and a note says so. Other statements whose
words differ stay, with the words that do; they are never called supported. What is left is softened when less than
``least_support`` of the statements is supported, or when
the sources cover less than ``least_coverage`` of the question; when nothing is left, and when too little is covered and
nothing was checked, the answer is refused.

Without a model nothing is called an answer: sentences picked from passages answered one question in four, while the
right passage was among the first five for four questions of five."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from memoryapp.engine.candidates import Candidate
from memoryapp.engine.chat.protocol import Chat
from memoryapp.engine.conversation import Conversation, Tool, TurnLimits
from memoryapp.engine.events import RunFinished, Selected
from memoryapp.engine.kinds.kind import Piece
from memoryapp.engine.kinds.react import Answered, Citation, StatementCheck
from memoryapp.engine.memory import Where
from memoryapp.engine.notes import Note, Notes
from memoryapp.engine.offline.judging import wants_several
from memoryapp.engine.prompts.prompt import QUERY, SOURCES, TODAY, BuiltInPrompt, Language, language_of, texts_beside
from memoryapp.engine.prompts.prompt import gettext_noop as _
from memoryapp.engine.strategies.react.composing import Composing, QuestionTerms
from memoryapp.engine.strategies.react.searching import Document, Searching
from memoryapp.engine.strategies.react.statements import (
    LONGEST_QUOTE,
    Place,
    Statement,
    Statements,
    citation_at,
    citations_of,
    statements_of,
)
from memoryapp.engine.strategies.react.toolbox import ReactParameters, VerifyOutput
from memoryapp.engine.strategies.strategy import StrategyRequest
from memoryapp.engine.text.lines import quoted

NOT_IN_MEMORY = "NOT_IN_MEMORY"
MOST_PASSAGES = 10
# A passage so many deviations below the best one is left out, unless several things are asked for. Over 760 questions
# on five public two-person conversations, by topics: of those with one answer in one place F1 .73 instead of .31 with
# all ten, the share of topics with evidence .97 instead of .98; of those with several places .44 and .41, .59 and .71.
_NEAR = 4.0
_UNSURE: Mapping[Language, str] = {
    "en": "The memory bears this out in part only:",
    "ru": "Память подтверждает это лишь отчасти:",
}
_REFUSAL: Mapping[Language, str] = {
    "en": "The memory does not hold an answer to this.",
    "ru": "В памяти нет ответа на этот вопрос.",
}
_MOST_REASON = 300
# Remarks about an answer that say nothing about the choice of topics.
_OF_ANSWERS = frozenset({"no_model", "no_answer"})

Located = Sequence[tuple[Citation, Piece]]


@dataclass(frozen=True, slots=True)
class Draft:
    """A model's answer before it is judged. ``support`` is the share of its statements that are supported, ``stay`` the
    share that was not left out; both are None when none could be checked. ``judged`` says that a model did so,
    another ``judge`` than the writer if that is not empty, ``cut`` that the model ran into its limit."""

    statements: Statements
    notes: Notes = ()
    support: float | None = None
    stay: float | None = None
    judged: bool = False
    judge: str = ""
    checks: tuple[StatementCheck, ...] = ()
    misquoted: int = 0
    cut: bool = False


def model_draft(text: str, sources: Mapping[int, Document]) -> Draft:
    """A model's answer; empty when the model says that the sources contain none."""
    if NOT_IN_MEMORY in text:
        return Draft(Statements((), {}), (Note("nothing_found"),))
    statements = statements_of(text, sources)
    notes = (Note("statements_uncited", {"n": statements.dropped}),) if statements.dropped else ()
    return Draft(statements, notes)


def checked(draft: Draft, checks: Sequence[tuple[Statement, VerifyOutput | None]]) -> Draft:
    """The draft with those of its statements that the checks leave: all that could not be checked, and all that a
    source bears out, with that source."""
    kept = [replace(each, numbers=_borne_out_by(each, check)) for each, check in checks if _stays(check)]
    found = tuple(_check(each, check) for each, check in checks)
    misquoted = sum(check.misquoted for _each, check in checks if check)
    tried = [check for check in found if check.judged is not None or check.support != "unchecked"]
    left_out = sum(not check.kept for check in found)
    remarks = (("statements_unsupported", left_out), ("wrong_citations", misquoted))
    return replace(
        draft,
        statements=replace(draft.statements, kept=tuple(kept)),
        notes=(*draft.notes, *(Note(code, {"n": n}) for code, n in remarks if n)),
        support=sum(check.is_supported for check in tried) / len(tried) if tried else None,
        stay=sum(check.kept for check in tried) / len(tried) if tried else None,
        judged=bool(tried) and all(check.judged is not None for check in tried),
        checks=found,
        misquoted=misquoted,
    )


def _check(statement: Statement, check: VerifyOutput | None) -> StatementCheck:
    if check is None:
        return StatementCheck(statement.text, "unchecked", statement.numbers)
    return StatementCheck(
        statement.text,
        check.support,
        _borne_out_by(statement, check),
        check.missing,
        check.turned,
        bool(check.sources) if check.by == "model" else None,
        _stays(check),
    )


def _stays(check: VerifyOutput | None) -> bool:
    """Whether a statement is kept: unless words contradict it, or it differs in words and either a model denies it or
    no word of it stands in the messages."""
    if check is None or check.misquoted or check.verified or check.support == "in_words":
        return True
    return check.by == "words" and (check.support == "unchecked" or check.support == "differs" and check.found > 0)


def _borne_out_by(statement: Statement, check: VerifyOutput | None) -> tuple[int, ...]:
    """The numbers that the statement keeps; those of other sources where its own do not bear it out."""
    if check is None or not check.sources:
        return statement.numbers
    return tuple(sorted(check.sources))


def answer_event(draft: Draft, coverage: float, parameters: ReactParameters, language: Language) -> Answered:
    """The answer, unchanged, softened, or refused."""
    outcome, notes = _outcome(draft, coverage, parameters)
    statements = draft.statements.numbered()
    text = f"{_UNSURE[language]}\n{statements.text}" if outcome == "softened" else statements.text
    if outcome == "refused":
        text, statements = _REFUSAL[language], replace(statements, kept=(), sources={})
    return Answered(
        text=text,
        citations=tuple(citation for citation, _piece in citations_of(statements)),
        outcome=outcome,
        coverage=coverage,
        by="model",
        support=None if outcome == "refused" else draft.support,
        dropped_numbers=statements.dropped_numbers,
        dropped_statements=statements.dropped,
        notes=notes,
        judged=draft.judged and outcome != "refused",
        judge=draft.judge if outcome != "refused" else "",
        unsupported=tuple(check.text for check in draft.checks if not check.kept),
        misquoted=draft.misquoted,
        statements=tuple(replace(each, numbers=draft.statements.places(each.numbers)) for each in draft.checks),
    )


def _outcome(
    draft: Draft, coverage: float, parameters: ReactParameters
) -> tuple[Literal["answered", "softened", "refused"], Notes]:
    if not draft.statements.kept:
        explains = {"nothing_found", "statements_unsupported"}
        is_explained = any(note.code in explains for note in draft.notes)
        return "refused", draft.notes if is_explained else (*draft.notes, Note("nothing_found"))
    support = draft.support
    little = Note("low_coverage", {"coverage": round(coverage, 2), "least": parameters.least_coverage})
    shaky = Note("unsupported", {"support": round(support or 0.0, 2), "least": parameters.least_support})
    is_covered = coverage >= parameters.least_coverage
    is_supported = support is None or support >= parameters.least_support
    notes = (*draft.notes, *(() if is_covered else (little,)), *(() if is_supported else (shaky,)))
    if is_covered and is_supported:
        return "answered", notes
    return ("refused" if not is_covered and not draft.stay else "softened"), notes


def passages_event(
    sources: Mapping[int, Document], wanted: QuestionTerms, coverage: float, notes: Notes
) -> tuple[Answered, Located]:
    """The passages nearest to the question in place of an answer, each cited by its most telling message."""
    first = list(_telling_more(list(sources.values()), several=wants_several(wanted.question)))[:MOST_PASSAGES]
    located = [citation_at(n, document, _telling(document, wanted)) for n, document in enumerate(first, start=1)]
    event = Answered(
        text="",
        citations=tuple(citation for citation, _piece in located),
        outcome="passages",
        coverage=coverage,
        by="extracts",
        notes=notes if located else (*notes, Note("nothing_found")),
    )
    return event, located


def _telling_more(documents: Sequence[Document], *, several: bool) -> Iterator[Document]:
    """The documents in order, without those that add no message to the ones before, and, unless several things are
    asked for, without those far below the first."""
    seen = set[int]()
    for document in documents:
        is_near = several or document.passage.fused >= documents[0].passage.fused - _NEAR
        if is_near and not seen.issuperset(each.id for each in document.messages):
            seen.update(each.id for each in document.messages)
            yield document


def _telling(document: Document, wanted: QuestionTerms) -> Place:
    """The message with the sentence that speaks most of the question; of a long one that sentence."""
    number, start, end = wanted.best(document)
    text = next(each.text for each in document.messages if each.id == number)
    return (number, 0, len(text)) if len(text) <= LONGEST_QUOTE else (number, start, end)


def nothing_within(where: Where, absent: Sequence[str]) -> Notes:
    """Why nothing was found: the phrases of ``where`` that are ``absent`` from the memory, or all its filters."""
    if missing := [f"“{phrase}”" for phrase in where.must_phrases if phrase in absent]:
        return (Note("phrase_absent", {"phrases": missing}),)
    return (Note("nothing_within", {"filters": where.words()}),) if where.has_filters or where.must_phrases else ()


def filter_notes(where: Where, unread: Sequence[str], widened: Where, narrowed: Where, why: Notes) -> Notes:
    """What to say about the filters of a run: ``why`` nothing meets those that were typed, which guessed ones were
    widened or are in force, and which could not be read."""
    notes = [*why]
    notes += [Note("filters_widened", {"filters": widened.words()})] if widened else []
    notes += [Note("filters_guessed", {"filters": narrowed.words()})] if narrowed else []
    return (*notes, *([Note("filters_unread", {"filters": list(unread)})] if unread else []))


def end_event(
    event: Answered,
    draft: Draft | None,
    located: Located,
    candidates: Mapping[str, Candidate],
    baseline: tuple[str, ...],
    read: Iterable[str],
) -> RunFinished:
    """The cited topics in the order of their citations, each with the quotations from it. ``draft`` is the model's,
    ``read`` are the topics whose passages were fetched."""
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
    why = tuple(note for note in event.notes if note.code not in _OF_ANSWERS)
    dropped = tuple(id for id in dict.fromkeys(read) if id not in ids)
    return RunFinished(selected, dropped, "", baseline=baseline, notes=() if selected else why)


def _reason(draft: Draft | None, numbers: Sequence[int]) -> str:
    """What the model says with reference to this topic; passages are their own reason."""
    if draft is None:
        return ""
    citing = [each.text for each in draft.statements.numbered().kept if set(each.numbers) & set(numbers)]
    return " ".join(citing)[:_MOST_REASON]


# A model writes from the sources of a run, what it says is checked against them, and the run ends with that, or with
# the passages nearest to the question.


ANSWER = BuiltInPrompt(
    "answer",
    title=_("Answer with sources"),
    purpose=_("Answers from the messages found, each statement with its source."),
    texts=texts_beside(__file__, "answer"),
    variables=(TODAY, QUERY, SOURCES),
    required=(QUERY, SOURCES),
)

# How much more of the question somebody else says than the person whom it names, before a reader is told.
_LEAD = 0.2


def conversation(
    request: StrategyRequest[Any], composing: Composing, writer: Chat, limits: TurnLimits, tools: Sequence[Tool] = ()
) -> Conversation:
    """The question with the numbered sources, and the ``tools`` that the ``writer`` may call."""
    variables = {
        "today": request.today.isoformat(),
        "query": quoted(request.query.strip()),
        "sources": "\n\n".join(composing.texts.values()),
    }
    text = ANSWER.of(request.prompts, language_of(request.query))
    return Conversation(writer, text, variables, limits=limits, tools=tools)


async def verified(draft: Draft, most: int, verify: Callable[[Statement], Awaitable[VerifyOutput | None]]) -> Draft:
    """The draft without what ``verify`` does not bear out; at most so many statements are checked."""
    statements = draft.statements.kept
    return checked(draft, [(each, await verify(each) if n < most else None) for n, each in enumerate(statements)])


def conclusion(
    request: StrategyRequest[Any],
    searching: Searching,
    composing: Composing,
    draft: Draft | None,
    candidates: Mapping[str, Candidate],
    notes: Notes = (),
) -> tuple[Answered, RunFinished]:
    """The answer of a ``draft``, or the passages where there is none, and the last event of the run."""
    sources, baseline = composing.sources, searching.pool.baseline
    coverage = composing.coverage(sources.values())
    # The question names one speaker and another one says what it asks about.
    if (other := composing.by_others) and other.lead > _LEAD:
        notes = (*notes, Note("said_by_others", {"named": other.named, "who": other.who}))
    why = () if sources else nothing_within(request.where, searching.pool.absent)
    notes = (*notes, *filter_notes(request.where, request.unread, searching.widened, searching.narrowed, why))
    if draft:
        draft = replace(draft, notes=(*notes, *draft.notes))
        answer = answer_event(draft, coverage, searching.parameters, language_of(request.query))
        # None for a refusal.
        located: Located = citations_of(draft.statements.numbered()) if answer.citations else ()
    else:
        notes = (*_why(searching, composing), *notes)
        answer, located = passages_event(sources, composing.question_terms, coverage, notes)
    read = [document.topic for document in searching.pool.documents.values()]
    end = end_event(answer, draft, located, candidates, baseline, read)
    if draft and draft.cut:
        answer = replace(answer, cut=True, notes=(*answer.notes, Note("reply_at_limit")))
        end = replace(end, cut=True)
    return answer, end


def _why(searching: Searching, composing: Composing) -> Notes:
    """Why there is no answer in words; nothing where a model had no sources to write from."""
    if searching.ports.writer is None:
        return (Note("no_model"),)
    return (Note("no_answer"),) if composing.sources else ()
