"""A finished run as a document: the selected topics, people and artifacts, and the context for the assistant.

A run stores the parts of its context as they were handed over, except for the part with the topics. That one is
assembled again whenever it is requested: the messages of a topic never change, so the text is always the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.urls import reverse

from memoryapp.engine.candidates import Candidate, ItemCandidate
from memoryapp.engine.context import MessagesByTopic, enclosed, joined, passages_text, topics_text
from memoryapp.engine.events import CandidatesFound, Event, RunFinished, Selected
from memoryapp.engine.memory import MessageContent, parse_topic_id, topic_id
from memoryapp.engine.outline import Outline, read_in
from memoryapp.engine.strategies import STRATEGIES
from memoryapp.models import Message, Run, TopicMessage
from memoryapp.reading import content
from memoryapp.runs import following


def document(run: Run) -> dict[str, Any]:
    """The answer of ``POST /v1/recall``. Raises LookupError for a run that has not ended."""
    events = [item.event for item in following.stored(run.pk)]
    finished = _finished(run, events)
    found = _found(events)
    messages = _messages_of(run, finished)
    return {
        "run": str(run.pk),
        "url": reverse("run", args=[run.pk]),
        "topics": _topics(finished, messages, read_in(events)),
        "people": _items(finished.people, found.people if found else ()),
        "artifacts": _items(finished.artifacts, found.artifacts if found else ()),
        "context": _context(finished, _topics_text(run, finished, found, messages)),
        "fallback": finished.fallback or None,
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


def _context(finished: RunFinished, topics: str) -> str:
    if finished.context or not finished.selected:
        return joined(finished.context, topics)
    # Earlier versions did not store contexts.
    return enclosed("topics", topics)


def part_text(run: Run, name: str) -> str:
    """One part of the run's context, as it was handed over.

    Raises LookupError for a run that has not ended, and for a part that its context does not contain.
    """
    events = [item.event for item in following.stored(run.pk)]
    finished = _finished(run, events)
    part = next((part for part in finished.context if part.name == name), None)
    if part is None:
        raise LookupError(f"The context of run {run.pk} has no part {name}.")
    if name != "topics":
        return part.text
    return enclosed(name, _topics_text(run, finished, _found(events), _messages_of(run, finished)))


def _finished(run: Run, events: Sequence[Event]) -> RunFinished:
    finished = Outline.of(events).finished
    if finished is None:
        raise LookupError(f"Run {run.pk} has not ended.")
    return finished


def _found(events: Sequence[Event]) -> CandidatesFound | None:
    return Outline.of(events).found


def _messages_of(run: Run, finished: RunFinished) -> MessagesByTopic:
    """The messages of every selected topic, oldest first, in one query."""
    wanted = [parse_topic_id(selected.id) for selected in finished.selected]
    rows = TopicMessage.objects.filter(owner_id=run.owner_id, topic__in=[number for number in wanted if number])
    messages: dict[str, list[MessageContent]] = {}
    for row in rows.select_related("message").order_by("message__sent_at", "message_id"):
        messages.setdefault(topic_id(row.topic_id), []).append(content(row.message))
    return messages


def _topics_text(run: Run, finished: RunFinished, found: CandidatesFound | None, messages: MessagesByTopic) -> str:
    candidates: Mapping[str, Candidate] = found.named(finished.selected) if found else {}
    text = STRATEGIES[run.strategy].context if run.strategy in STRATEGIES else topics_text
    if run.parameters.get("context") == "passages":
        text = passages_text
    return text(run.query, finished.selected, candidates, messages, _sent_by_caller(run))


def _sent_by_caller(run: Run) -> set[int]:
    """The messages that the caller sent along with the query."""
    names = [str(sent["id"]) for sent in run.messages or () if sent.get("id")]
    if not names:
        return set()
    return set(Message.objects.of(run.owner_id).filter(external_id__in=names).values_list("pk", flat=True))


def _topics(finished: RunFinished, messages: MessagesByTopic, read: set[str]) -> list[dict[str, Any]]:
    return [
        {
            "id": selected.id,
            "rank": selected.rank,
            "reason": selected.reason,
            "score": selected.score,
            "read": selected.id in read,
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
    """The document as text for a terminal; an ``answer`` in words, if it contains one, comes first."""
    lines = [f"{topic['rank']}. {topic['id']}  {topic['score']:.2f}  {topic['reason']}" for topic in document["topics"]]
    lines += [
        f"   {item['id']}  {item['score']:.2f}  {item['name']}  {item['reason']}"
        for item in (*document["people"], *document["artifacts"])
    ]
    answer = document.get("answer", "")
    first = [answer] if answer else [] if lines else ["Nothing relevant."]
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
