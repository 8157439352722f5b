"""What a run answers to those who asked: the assistant, a script, a person at a terminal.

A run keeps the parts of its context as they were handed over. The topics alone are cut from the messages again
whenever they are asked for: a topic's messages never change, so the text is the same each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.urls import reverse

from memoryapp import runs
from memoryapp.contents import content
from memoryapp.engine.candidates import Candidate, ItemCandidate
from memoryapp.engine.context import Said, enclosed, joined, topics_text
from memoryapp.engine.events import CandidatesFound, Event, RunFinished, Selected, read_in
from memoryapp.engine.memory import MessageContent, parse_topic_id, topic_id
from memoryapp.models import Message, Run, TopicMessage


def document(run: Run) -> dict[str, Any]:
    """The run as ``POST /v1/recall`` answers it. Raises LookupError for a run that has not ended."""
    events = [item.event for item in runs.stored(run.pk)]
    finished = _finished(run, events)
    found = _found(events)
    said = _said(run, finished)
    return {
        "run": str(run.pk),
        "url": reverse("run", args=[run.pk]),
        "topics": _topics(finished, said, read_in(events)),
        "people": _items(finished.people, found.people if found else ()),
        "artifacts": _items(finished.artifacts, found.artifacts if found else ()),
        "context": _context(finished, _topics_text(run, finished, found, said)),
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


def _context(finished: RunFinished, topics: str) -> str:
    if finished.context or not finished.selected:
        return joined(finished.context, topics)
    # A run from before contexts were kept.
    return enclosed("topics", topics)


def part_text(run: Run, name: str) -> str:
    """One part of the run's context, as it was handed over.

    Raises LookupError for a run that has not ended and for a part that its context does not have.
    """
    events = [item.event for item in runs.stored(run.pk)]
    finished = _finished(run, events)
    part = next((part for part in finished.context if part.name == name), None)
    if part is None:
        raise LookupError(f"The context of run {run.pk} has no part {name}.")
    if name != "topics":
        return part.text
    return enclosed(name, _topics_text(run, finished, _found(events), _said(run, finished)))


def _finished(run: Run, events: Sequence[Event]) -> RunFinished:
    finished = events[-1] if events else None
    if not isinstance(finished, RunFinished):
        raise LookupError(f"Run {run.pk} has not ended.")
    return finished


def _found(events: Sequence[Event]) -> CandidatesFound | None:
    return next((event for event in events if isinstance(event, CandidatesFound)), None)


def _said(run: Run, finished: RunFinished) -> Said:
    """The messages of every chosen topic, oldest first, in one query."""
    wanted = [parse_topic_id(selected.id) for selected in finished.selected]
    rows = TopicMessage.objects.filter(owner_id=run.owner_id, topic__in=[number for number in wanted if number])
    said: dict[str, list[MessageContent]] = {}
    for row in rows.select_related("message").order_by("message__sent_at", "message_id"):
        said.setdefault(topic_id(row.topic_id), []).append(content(row.message))
    return said


def _topics_text(run: Run, finished: RunFinished, found: CandidatesFound | None, said: Said) -> str:
    candidates: Mapping[str, Candidate] = found.named(finished.selected) if found else {}
    return topics_text(run.query, finished.selected, candidates, said, _told_by_caller(run))


def _told_by_caller(run: Run) -> set[int]:
    """The messages that whoever asked sent along with the query."""
    names = [str(told["id"]) for told in run.messages or () if told.get("id")]
    if not names:
        return set()
    return set(Message.objects.of(run.owner_id).filter(external_id__in=names).values_list("pk", flat=True))


def _topics(finished: RunFinished, said: Said, read: set[str]) -> list[dict[str, Any]]:
    return [
        {
            "id": selected.id,
            "rank": selected.rank,
            "reason": selected.reason,
            "score": selected.score,
            "read": selected.id in read,
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
    """The same for a terminal."""
    lines = [f"{topic['rank']}. {topic['id']}  {topic['score']:.2f}  {topic['reason']}" for topic in document["topics"]]
    lines += [
        f"   {item['id']}  {item['score']:.2f}  {item['name']}  {item['reason']}"
        for item in (*document["people"], *document["artifacts"])
    ]
    nothing = [] if lines else ["Nothing relevant."]
    if document["fallback"]:
        lines.insert(0, f"The model did not choose ({document['fallback']}).")
    usage = document["usage"]
    lines.append(
        f"{usage['turns']} turns, {usage['seconds']:.2f} s, {usage['input_tokens']} + {usage['output_tokens']} tokens,"
        f" ${usage['cost_usd']:.4f}. Run {document['run']}"
    )
    return "\n".join([*nothing, *lines])
