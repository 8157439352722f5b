"""What a run answers to those who asked: the assistant, a script, a person at a terminal.

Whatever is told of the memory is cut from its messages: a model's words reach the assistant as reasons, never as
something that was said. Messages and topics stand under heads that stored text cannot imitate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.urls import reverse
from django.utils.text import Truncator

from memoryapp import runs
from memoryapp.engine.events import Candidate, CandidatesFound, Event, RunFinished, Selected
from memoryapp.engine.excerpts import best_exchanges
from memoryapp.engine.flash import Limits
from memoryapp.engine.memory import MessageContent, parse_topic_id, topic_id
from memoryapp.engine.prompts import message_text, one_line
from memoryapp.ingestion import content
from memoryapp.models import Run, TopicMessage

CONTEXT_CHARS = 200_000
# The same bound above which the model is asked for an excerpt.
WHOLE_TOPIC_CHARS = Limits().excerpt_over_chars
_SUMMARY_CHARS = 1_000
# For the line that counts what was left out, and the line breaks around a topic.
_MARGIN_CHARS = 80

Said = Mapping[str, Sequence[MessageContent]]


def document(run: Run) -> dict[str, Any]:
    """The run as ``POST /v1/recall`` answers it. Raises LookupError for a run that has not ended."""
    events = [item.event for item in runs.stored(run.pk)]
    finished = events[-1] if events else None
    if not isinstance(finished, RunFinished):
        raise LookupError(f"Run {run.pk} has not ended.")
    said = _said(run, finished)
    return {
        "run": str(run.pk),
        "url": reverse("run", args=[run.pk]),
        "topics": _topics(finished, said),
        "people": [],
        "artifacts": [],
        "context": context(run.query, finished, _candidates(events), said),
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


def _said(run: Run, finished: RunFinished) -> Said:
    """The messages of every chosen topic, oldest first, in one query."""
    wanted = [parse_topic_id(selected.id) for selected in finished.selected]
    rows = TopicMessage.objects.filter(owner_id=run.owner_id, topic__in=[number for number in wanted if number])
    said: dict[str, list[MessageContent]] = {}
    for row in rows.select_related("message").order_by("message__sent_at", "message_id"):
        said.setdefault(topic_id(row.topic_id), []).append(content(row.message))
    return said


def _candidates(events: Sequence[Event]) -> dict[str, Candidate]:
    found = next((event for event in events if isinstance(event, CandidatesFound)), None)
    return {candidate.id: candidate for candidate in found.candidates} if found else {}


def _topics(finished: RunFinished, said: Said) -> list[dict[str, Any]]:
    return [
        {
            "id": selected.id,
            "rank": selected.rank,
            "reason": selected.reason,
            "score": selected.score,
            **_excerpt(selected, said.get(selected.id, ())),
        }
        for selected in finished.selected
    ]


def _excerpt(selected: Selected, messages: Sequence[MessageContent]) -> dict[str, str]:
    """``excerpt`` as it stands in the messages; nothing where no piece of it was found in one."""
    texts = {message.id: message.text for message in messages}
    pieces = [texts[piece.message][piece.start : piece.end] for piece in selected.excerpt if piece.message in texts]
    found = "\n".join(piece for piece in pieces if piece)
    return {"excerpt": found} if found else {}


def context(query: str, finished: RunFinished, candidates: Mapping[str, Candidate], said: Said) -> str:
    """The chosen topics as text for the chat model, at most 200,000 characters, each message whole and once.

    A topic above 25,000 characters enters by the messages of its excerpt or else by its best exchanges, all
    others whole. What does not fit is counted in the topic's last line.
    """
    seen: set[int] = set()
    heads: list[str] = []
    entries: list[list[str]] = []
    for selected in finished.selected:
        messages = said.get(selected.id, ())
        fresh = [message for message in _entering(query, selected, messages) if message.id not in seen]
        seen.update(message.id for message in fresh)
        heads.append(_head(selected.id, candidates.get(selected.id), len(fresh), len(messages)))
        entries.append([message_text(message) for message in fresh])
    return "\n\n".join(_blocks(heads, entries))


def _entering(query: str, selected: Selected, messages: Sequence[MessageContent]) -> Sequence[MessageContent]:
    if sum(len(message.text) for message in messages) <= WHOLE_TOPIC_CHARS:
        return messages
    excerpted = {piece.message for piece in selected.excerpt}
    located = [message for message in messages if message.id in excerpted]
    if located:
        return located
    best = {piece.message for piece in best_exchanges(query, messages)}
    return [message for message in messages if message.id in best]


def _head(id: str, candidate: Candidate | None, entering: int, count: int) -> str:
    told = f" {candidate.date} {Truncator(one_line(candidate.summary)).chars(_SUMMARY_CHARS)}" if candidate else ""
    part = f" | {entering} of {count} messages" if entering < count else ""
    return f"[{id}]{told}{part}"


def _blocks(heads: Sequence[str], entries: Sequence[Sequence[str]]) -> Iterator[str]:
    """Each topic under its head; the room for messages goes to the first topics first."""
    room = CONTEXT_CHARS - sum(len(head) + _MARGIN_CHARS for head in heads)
    for head, lines in zip(heads, entries, strict=True):
        kept = _fitting(lines, room)
        room -= sum(len(line) + 1 for line in kept)
        left_out = len(lines) - len(kept)
        rest = [f"(messages left out for want of room: {left_out})"] if left_out else []
        yield "\n".join([head, *kept, *rest])


def _fitting(lines: Sequence[str], room: int) -> list[str]:
    """The first of ``lines`` that fit into ``room`` characters with their line breaks, none of them cut."""
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return kept


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
