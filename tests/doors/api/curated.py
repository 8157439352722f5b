"""A memory that programs curate: its content, and the API's answer to a change."""

from typing import Any

from django.db.models import Model
from django.utils import timezone

from memoryapp.doors.api.shapes.curation import ChangedAnswer, ConflictErrorAnswer
from memoryapp.engine.events import CandidatesFound, QueryEnriched, RunFinished, Selected, to_payload
from memoryapp.engine.kinds.kind import Piece
from memoryapp.intake.invariants import violations
from memoryapp.models import ChatUser, EditedTopic, Message, Run, RunEvent, Topic, TopicEdit, TopicMessage
from tests.conftest import candidate

KEPT: tuple[type[Model], ...] = (Topic, TopicMessage, Message, TopicEdit, EditedTopic, Run, RunEvent)


def memory(owner: ChatUser) -> dict[str, list[str]]:
    """Returns the live topics by summary, each with the texts of its messages."""
    return {
        topic.summary: message_ids(topic.pk) for topic in Topic.objects.of(owner).live().order_by("started_at", "pk")
    }


def message_ids(topic: object) -> list[str]:
    return list(Message.objects.filter(topic=topic).in_order().values_list("external_id", flat=True))


def snapshot() -> list[list[dict[str, Any]]]:
    """Returns every row that curation could change."""
    return [list(model._default_manager.order_by("pk").values()) for model in KEPT]


def changed(answer: Any) -> dict[str, Any]:
    assert answer.status_code == 200, answer.content
    document: dict[str, Any] = answer.json()
    ChangedAnswer.model_validate(document)
    assert list(violations()) == []
    return document


def conflict_of(answer: Any) -> dict[str, Any]:
    assert answer.status_code == 409, answer.content
    document: dict[str, Any] = answer.json()
    ConflictErrorAnswer.model_validate(document)
    return document["error"]


def chosen_once(owner: ChatUser, topic: Topic) -> Run:
    """A finished run that chose the topic for its first message; its events are written by hand."""
    columns = {"state": Run.State.FINISHED, "finished_at": timezone.now(), "candidate_count": 1, "selected_count": 1}
    run = Run.objects.create(owner=owner, query="Which tea?", strategy="flash", **columns)
    message = Message.objects.filter(topic=topic).in_order()[0]
    piece = Piece(message.text, "exact", message.pk, 0, len(message.text))
    picked = Selected(f"Topic:{topic.pk}", 1, "tells it", 0.9, 1, (piece,), "scorer")
    events = (
        QueryEnriched("Which tea?", "Which tea?", "", 0.0),
        CandidatesFound((candidate(topic),), 1, 0.0),
        RunFinished((picked,), (), "", ""),
    )
    RunEvent.objects.bulk_create(
        RunEvent(owner=owner, run=run, seq=seq, kind=event.kind, at=timezone.now(), payload=to_payload(event))
        for seq, event in enumerate(events, start=1)
    )
    return run
