"""What a run answers to those who asked: the assistant, a script, a person at a terminal."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from memoryapp import runs
from memoryapp.engine.events import Candidate, CandidatesFound, Event, RunFinished, Selected
from memoryapp.engine.memory import parse_topic_id
from memoryapp.models import Message, Run, TopicMessage

CONTEXT_CHARS = 200_000
WHOLE_TOPIC_CHARS = 25_000


def document(run: Run) -> dict[str, Any]:
    """The run as ``POST /v1/recall`` answers it. Raises LookupError for a run that has not ended."""
    events = [item.event for item in runs.stored(run.pk)]
    finished = events[-1] if events else None
    if not isinstance(finished, RunFinished):
        raise LookupError(f"Run {run.pk} has not ended.")
    return {
        "run": str(run.pk),
        "url": reverse("run", args=[run.pk]),
        "topics": [_topic(selected) for selected in finished.selected],
        "people": [],
        "artifacts": [],
        "context": context(run, finished, _candidates(events)),
        "fallback": finished.fallback or None,
        "usage": {
            "input_tokens": run.input_tokens,
            "output_tokens": run.output_tokens,
            "cost_usd": run.cost_usd,
            "seconds": run.seconds,
            "turns": run.turns,
            "tool_calls": run.tool_calls,
        },
    }


def _topic(selected: Selected) -> dict[str, Any]:
    told: dict[str, Any] = {
        "id": selected.id,
        "rank": selected.rank,
        "reason": selected.reason,
        "score": selected.score,
    }
    if selected.excerpt:
        told["excerpt"] = "\n".join(piece.text for piece in selected.excerpt)
    return told


def _candidates(events: list[Event]) -> dict[str, Candidate]:
    found = next((event for event in events if isinstance(event, CandidatesFound)), None)
    return {candidate.id: candidate for candidate in found.candidates} if found else {}


def context(run: Run, finished: RunFinished, candidates: dict[str, Candidate]) -> str:
    """The chosen topics as text for the chat model, from real messages alone, each message once.

    A topic above 25,000 characters enters by the messages of its excerpt, all others whole.
    """
    numbers = {selected.id: parse_topic_id(selected.id) for selected in finished.selected}
    wanted = [number for number in numbers.values() if number]
    told = TopicMessage.objects.filter(owner_id=run.owner_id, topic__in=wanted).select_related("message")
    by_topic: dict[int, list[Message]] = {number: [] for number in wanted}
    for row in told.order_by("message__sent_at", "message_id"):
        by_topic[row.topic_id].append(row.message)
    seen: set[int] = set()
    blocks = []
    for selected in finished.selected:
        messages = _entering(selected, candidates.get(selected.id), by_topic.get(numbers[selected.id] or 0, []))
        fresh = [message for message in messages if message.pk not in seen]
        seen.update(message.pk for message in fresh)
        blocks.append(_block(selected, candidates.get(selected.id), fresh))
    return "\n\n".join(blocks)[:CONTEXT_CHARS]


def _entering(selected: Selected, candidate: Candidate | None, messages: list[Message]) -> list[Message]:
    excerpted = {piece.message for piece in selected.excerpt if piece.message}
    if excerpted and candidate and candidate.size_chars > WHOLE_TOPIC_CHARS:
        return [message for message in messages if message.pk in excerpted]
    return messages


def _block(selected: Selected, candidate: Candidate | None, messages: list[Message]) -> str:
    head = f"[{selected.id}] {candidate.date} {candidate.summary}" if candidate else f"[{selected.id}]"
    lines = (
        f"[{message.author or message.role} ({message.sent_at:%Y-%m-%d %H:%M})]: {message.text}" for message in messages
    )
    return "\n".join((head, *lines))


def text(document: dict[str, Any]) -> str:
    """The same for a terminal."""
    lines = [f"{topic['rank']}. {topic['id']}  {topic['score']:.2f}  {topic['reason']}" for topic in document["topics"]]
    if document["fallback"]:
        lines.insert(0, f"The model did not choose ({document['fallback']}).")
    usage = document["usage"]
    lines.append(
        f"{usage['turns']} turns, {usage['seconds']:.2f} s, {usage['input_tokens']} + {usage['output_tokens']} tokens,"
        f" ${usage['cost_usd']:.4f}. Run {document['run']}"
    )
    return "\n".join(lines if document["topics"] else ["Nothing relevant.", *lines])
