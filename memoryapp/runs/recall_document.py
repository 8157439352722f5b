"""A finished run as a document: the selected topics, people and artifacts, and the context for the assistant.

A run stores the parts of its context as they were handed over, except for the part with the topics. That one is
assembled again whenever it is requested: the messages of a topic never change, so the text is always the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.urls import reverse

from memoryapp.engine.candidates import Candidate, ItemCandidate
from memoryapp.engine.context import (
    ASSEMBLED,
    MessagesByTopic,
    PassageMessages,
    SelectedTopics,
    enclosed,
    joined,
    passages_by_topic,
    passages_text,
    topics_text,
    unsure_text,
)
from memoryapp.engine.events import CandidatesFound, Event, RunFinished, Selected
from memoryapp.engine.kinds.react import Answered, Citation, StatementCheck
from memoryapp.engine.memory import MessageContent, is_session, parse_document_id, parse_topic_id, topic_id
from memoryapp.engine.notes import english
from memoryapp.engine.outline import Outline, read_in
from memoryapp.engine.strategies import PLANNING, STRATEGIES
from memoryapp.engine.strategies.operators import typed
from memoryapp.engine.text.lines import CURRENT_TALK
from memoryapp.memory.content import content, in_sessions, in_topics
from memoryapp.models import Message, PassageMessage, Run, Topic
from memoryapp.runs import followers
from memoryapp.runs.parameters import where_of


def document(
    run: Run, fields: Callable[[Message], Mapping[str, Any]] | None = None, include: Collection[str] = ("messages",)
) -> dict[str, Any]:
    """The answer of ``POST /v1/recall``. With ``fields`` of a message each topic contains what ``include`` names: its
    ``messages``, or the ``passages`` that answer, without what the caller sent along. Raises LookupError for a run that
    has not ended."""
    events = [item.event for item in followers.stored(run.pk)]
    finished = _finished(run, events)
    found = _found(events)
    rows = messages_of(run, finished, found)
    messages = _contents(rows)
    topics = _topics(finished, _heads(run, finished, found, rows), messages, read_in(events))
    if fields:
        known = _sent_by_caller(run, messages)
        parts = passages_by_topic(_selected(run, finished, found, messages)) if "passages" in include else {}
        for topic in topics:
            own = {row.pk: row for row in rows.get(topic["id"], ())}
            if "messages" in include:
                topic["messages"] = [fields(row) for row in own.values() if row.pk not in known]
            if "passages" in include:
                topic["passages"] = [
                    {**fields(own[part.id]), "text": part.text} for part in parts[topic["id"]] if part.id in own
                ]
    return {
        "run": str(run.pk),
        "url": reverse("run", args=[run.pk]),
        "topics": topics,
        "people": _items(finished.people, found.people if found else ()),
        "artifacts": _items(finished.artifacts, found.artifacts if found else ()),
        "context": _context(run, finished, found, messages),
        "handed_over": handed_over(run),
        "fallback": finished.fallback or None,
        "unsure": bool(finished.unsure),
        "cut": finished.cut,
        "usage": usage(run),
    }


def usage(run: Run) -> dict[str, Any]:
    """What the run cost."""
    return {
        "input_tokens": run.input_tokens,
        "output_tokens": run.output_tokens,
        "cost_usd": run.cost_usd,
        "seconds": run.seconds,
        "turns": run.turns,
        "tool_calls": run.tool_calls,
    }


def _context(run: Run, finished: RunFinished, found: CandidatesFound | None, messages: MessagesByTopic) -> str:
    def again(part: str) -> str:
        if part == "topics":
            return _topics_text(run, finished, found, messages)
        return _unsure_text(run, finished, found)

    if finished.context or not finished.selected:
        return joined(finished.context, again)
    # Earlier versions did not store contexts.
    return enclosed("topics", again("topics"))


def _unsure_text(run: Run, finished: RunFinished, found: CandidatesFound | None) -> str:
    near = replace(finished, selected=finished.unsure)
    return unsure_text(_selected(run, near, found, _contents(messages_of(run, near, found))))


def part_text(run: Run, name: str) -> str:
    """One part of the run's context, as it was handed over.

    Raises LookupError for a run that has not ended, and for a part that its context does not contain.
    """
    events = [item.event for item in followers.stored(run.pk)]
    finished = _finished(run, events)
    part = next((part for part in finished.context if part.name == name), None)
    if part is None:
        raise LookupError(f"The context of run {run.pk} has no part {name}.")
    if name not in ASSEMBLED:
        return part.text
    found = _found(events)
    if name == "unsure":
        return enclosed(name, _unsure_text(run, finished, found))
    return enclosed(name, _topics_text(run, finished, found, _contents(messages_of(run, finished, found))))


def _finished(run: Run, events: Sequence[Event]) -> RunFinished:
    finished = Outline.of(events).finished
    if finished is None:
        raise LookupError(f"Run {run.pk} has not ended.")
    return finished


def _found(events: Sequence[Event]) -> CandidatesFound | None:
    return Outline.of(events).found


def _numbers(finished: RunFinished) -> list[int]:
    wanted = (parse_topic_id(selected.id) for selected in finished.selected)
    return [number for number in wanted if number and number > 0]


def messages_of(run: Run, finished: RunFinished, found: CandidatesFound | None) -> Mapping[str, Sequence[Message]]:
    """The messages of every selected topic and active session that the run's filters permit, oldest first, as far as
    they were not erased."""
    messages: dict[str, list[Message]] = {}
    for row in in_topics(run.owner_id, _numbers(finished), where_of(run)):
        messages.setdefault(topic_id(row.topic_id), []).append(row.message)
    sessions = session_messages(found, [selected.id for selected in finished.selected])
    for message in in_sessions(run.owner_id, sessions, where_of(run)):
        messages.setdefault(sessions[message.pk], []).append(message)
    return messages


def session_messages(found: CandidatesFound | None, ids: Iterable[str]) -> dict[int, str]:
    """The messages that the active sessions among ``ids`` had when they were found, each with the id of its session."""
    listed = found.sessions if found else {}
    return {number: id for id in ids for number in listed.get(id, ())}


def _contents(rows: Mapping[str, Sequence[Message]]) -> MessagesByTopic:
    return {id: [content(row) for row in listed] for id, listed in rows.items()}


def _heads(
    run: Run, finished: RunFinished, found: CandidatesFound | None, messages: Mapping[str, Sequence[Message]]
) -> Mapping[str, Mapping[str, Any]]:
    """What is said of each selected topic by its id: of an active session, and of a topic that a filter permits in
    part, what its messages show. An erased topic is missing."""
    named = found.named(finished.selected) if found else {}
    by_messages = {id: part for id, part in messages.items() if part and (is_session(id) or where_of(run))}
    rows = Topic.objects.filter(owner_id=run.owner_id, pk__in=[] if where_of(run) else _numbers(finished))
    heads = {topic_id(row.pk): _head(row.summary, row.started_at, row.ended_at, row.message_count) for row in rows}
    documents = {id: {"summary": each.summary} for id, each in named.items() if parse_document_id(id)}
    return heads | documents | {id: _head_of_part(id, named.get(id), part) for id, part in by_messages.items()}


def _head_of_part(id: str, candidate: Candidate | None, messages: Sequence[Message]) -> dict[str, Any]:
    summary = candidate.summary if candidate else ""
    summary = f"{CURRENT_TALK}: {summary}" if is_session(id) else summary
    return _head(summary, messages[0].sent_at, messages[-1].sent_at, len(messages))


def _head(summary: str, first_at: datetime, last_at: datetime, count: int) -> dict[str, Any]:
    return {
        "summary": summary,
        "first_at": first_at.isoformat(),
        "last_at": last_at.isoformat(),
        "message_count": count,
    }


def handed_over(run: Run) -> str:
    """What of the selected topics the context holds, as the run's parameter ``context`` says. Runs from before it have
    whole topics."""
    return str(run.parameters.get("context", "topics"))


def _topics_text(run: Run, finished: RunFinished, found: CandidatesFound | None, messages: MessagesByTopic) -> str:
    context, strategy = handed_over(run), STRATEGIES.get(run.strategy)
    usual = passages_text if context == "passages" else topics_text
    makes = strategy.text_of(context) if strategy else usual
    return makes(_selected(run, finished, found, messages, with_passages=context == "passages"))


def _selected(
    run: Run,
    finished: RunFinished,
    found: CandidatesFound | None,
    messages: MessagesByTopic,
    *,
    with_passages: bool = True,
) -> SelectedTopics:
    candidates: Mapping[str, Candidate] = found.named(finished.selected) if found else {}
    sent = _sent_by_caller(run, messages)
    passages = _passages_of(run, candidates) if with_passages else {}
    return SelectedTopics(typed(run.query).text, finished.selected, candidates, messages, sent, passages)


def _passages_of(run: Run, candidates: Mapping[str, Candidate]) -> PassageMessages:
    """The messages of the passage by which each topic was found, as far as it was not erased."""
    numbers = [each.passage_id for each in candidates.values()]
    listed = PassageMessage.objects.filter(owner_id=run.owner_id, passage__in=numbers)
    read: dict[int, list[int]] = defaultdict(list)
    for passage, message in listed.values_list("passage_id", "message_id"):
        read[passage].append(message)
    return {id: read[each.passage_id] for id, each in candidates.items()}


def _sent_by_caller(run: Run, messages: MessagesByTopic) -> set[int]:
    """The messages that the caller sent along with the query; in active sessions also those with the same text."""
    names = [str(sent["id"]) for sent in run.messages or () if sent.get("id")]
    texts = {str(sent.get("text") or "").strip() for sent in run.messages or ()}
    talk = (message for id, listed in messages.items() if is_session(id) for message in listed)
    known = {message.id for message in talk if message.text.strip() in texts}
    rows = Message.objects.of(run.owner_id).filter(external_id__in=names)
    return known | (set(rows.values_list("pk", flat=True)) if names else set())


def _topics(
    finished: RunFinished, heads: Mapping[str, Mapping[str, Any]], messages: MessagesByTopic, read: set[str]
) -> list[dict[str, Any]]:
    return [
        {
            "id": selected.id,
            "rank": selected.rank,
            "reason": selected.reason,
            "score": selected.score,
            "read": selected.id in read,
            "pinned": selected.pinned,
            **heads.get(selected.id, {}),
            **_excerpt(selected, messages.get(selected.id, ())),
        }
        for selected in finished.selected
    ]


def _excerpt(selected: Selected, messages: Sequence[MessageContent]) -> dict[str, str]:
    """``excerpt`` with the text of the messages that contain it; nothing when no message contains any piece of it."""
    texts = {message.id: message.text for message in messages}
    pieces = [texts[piece.message][piece.start : piece.end] for piece in selected.excerpt if piece.message in texts]
    found = "\n".join(piece for piece in pieces if piece)
    return {"excerpt": found} if found else {}


def _items(chosen: Sequence[Selected], candidates: Sequence[ItemCandidate]) -> list[dict[str, Any]]:
    names = {candidate.id: candidate.name for candidate in candidates}
    return [
        {
            "id": item.id,
            "rank": item.rank,
            "reason": item.reason,
            "score": item.score,
            "name": names.get(item.id, ""),
        }
        for item in chosen
    ]


def text(document: dict[str, Any]) -> str:
    """The document as text for a terminal; an ``answer`` in words, if it contains one, comes first, and passages in its
    place."""
    lines = [f"{topic['rank']}. {topic['id']}  {topic['score']:.2f}  {topic['reason']}" for topic in document["topics"]]
    lines += [
        f"   {item['id']}  {item['score']:.2f}  {item['name']}  {item['reason']}"
        for item in (*document["people"], *document["artifacts"])
    ]
    answer = document.get("answer", "") or _passages(document)
    nothing = document["context"] if document["unsure"] else "Nothing relevant."
    first = [answer] if answer else [] if lines else [nothing]
    if document["fallback"]:
        lines.insert(0, f"The model did not choose ({document['fallback']}).")
    usage = document["usage"]
    # The embedded model costs nothing, and some endpoints do not report a cost.
    cost = f"${usage['cost_usd']:.4f}" if usage["cost_usd"] else "no cost"
    lines.append(
        f"{usage['turns']} turns, {usage['seconds']:.2f} s, {usage['input_tokens']} + {usage['output_tokens']} tokens,"
        f" {cost}. Run {document['run']}"
    )
    return "\n".join([*first, *lines])


def _passages(document: dict[str, Any]) -> str:
    """The passages that are shown in place of an answer, with the note that says why; else nothing."""
    if document.get("outcome") != "passages":
        return ""
    cited = [f"[{each['n']}] {each['author']} ({each['ts'][:10]}): {each['quote']}" for each in document["citations"]]
    return "\n".join([document["note"], *cited])


# A run that answered in words, as a document: the text, and the message behind each of its citations.


def answer_of(events: Sequence[Event]) -> Answered | None:
    """The answer of a run; None for a run that wrote none, or has not reached it yet."""
    return next((event for event in reversed(events) if isinstance(event, Answered)), None)


def answer_document(run: Run) -> dict[str, Any]:
    """The answer of ``POST /v1/qa``. Raises LookupError for a run that has not ended."""
    events = [item.event for item in followers.stored(run.pk)]
    finished = events[-1] if events else None
    if not isinstance(finished, RunFinished):
        raise LookupError(f"Run {run.pk} has not ended.")
    return {
        "run": str(run.pk),
        "url": reverse("run", args=[run.pk]),
        "strategy": run.strategy,
        "agent": run.strategy in PLANNING,
        **_words(run, answer_of(events)),
        "fallback": finished.fallback or None,
        "cut": finished.cut,
        "usage": usage(run),
    }


def _words(run: Run, answered: Answered | None) -> dict[str, Any]:
    if answered is None:
        nothing = {"answer": "", "text": "", "citations": [], "coverage": 0.0, "support": None}
        return {"outcome": "failed", **nothing, "verified": None, "statements": [], "by": None, "note": ""}
    messages = _cited(run, answered.citations)
    return {
        "outcome": answered.outcome,
        "answer": answered.text,
        "text": answered.text,
        "citations": [_citation(each, messages) for each in answered.citations if each.message in messages],
        "coverage": answered.coverage,
        "support": answered.support,
        "verified": _is_verified(answered),
        "statements": [_statement(each) for each in answered.statements],
        "by": None if answered.outcome == "passages" else answered.by,
        "note": english(answered.notes),
    }


def _is_verified(answered: Answered) -> bool | None:
    """Whether a model confirmed every statement that stayed, and no word contradicts one; None where none judged."""
    if not answered.statements:
        # Runs of earlier versions stored the share alone.
        return answered.support >= 1 if answered.judged and answered.support is not None else None
    return all(each.is_verified for each in answered.statements if each.kept) if answered.judged else None


def _statement(check: StatementCheck) -> dict[str, Any]:
    return {
        "text": check.text,
        "citations": list(check.numbers),
        "support": check.support,
        "missing": list(check.missing),
        "turned": list(check.turned),
        "verified": None if check.judged is None else check.is_verified,
        "kept": check.kept,
    }


def _cited(run: Run, citations: Sequence[Citation]) -> dict[int, Message]:
    """The cited messages and those of their passages by number, except for those that were erased."""
    numbers = {number for each in citations for number in (each.message, *each.passage)}
    return Message.objects.of(run.owner_id).in_bulk(numbers)


def _citation(citation: Citation, messages: Mapping[int, Message]) -> dict[str, Any]:
    message = messages[citation.message]
    return {
        "n": citation.n,
        "topic": citation.topic,
        "message": message.external_id,
        "author": message.author,
        "ts": message.sent_at.isoformat(),
        "quote": citation.quote,
        "passage": [messages[number].external_id for number in citation.passage if number in messages],
    }
