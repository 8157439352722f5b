"""Topics at chosen angles, so that a test knows their similarities, and the suggestions about them."""

from collections.abc import Sequence
from datetime import timedelta

import numpy as np
from django.utils import timezone
from prometheus_client import REGISTRY

from memoryapp import curation
from memoryapp.curation import suggestions
from memoryapp.engine.events import RunFinished, Selected, to_payload
from memoryapp.engine.memory import TopicDraft
from memoryapp.intake.archiving import put_topics
from memoryapp.intake.messages import add_messages
from memoryapp.models import (
    ChatUser,
    EmbeddingProfile,
    Message,
    Passage,
    PassageVector,
    Run,
    RunEvent,
    Suggestion,
    Topic,
    TopicEdit,
    TopicVector,
)
from tests.conftest import BEGAN, record, talk


def profile() -> EmbeddingProfile:
    row, _made = EmbeddingProfile.objects.get_or_create(
        provider="test", model="plane", dimensions=2, defaults={"threshold": 0.1}
    )
    return row


def turned(degrees: float) -> list[float]:
    """Returns a direction of the plane: the cosine of two is that of the angle between them."""
    return [float(np.cos(np.radians(degrees))), float(np.sin(np.radians(degrees)))]


def place(topic: Topic, degrees: float) -> None:
    TopicVector.objects.create(owner=topic.owner, topic=topic, profile=profile(), vector=turned(degrees))


def placed(owner: ChatUser, *angles: float, texts: Sequence[str] = ("said", "answered")) -> list[Topic]:
    topics = talk(owner, *((f"Topic at {degrees}", [*texts]) for degrees in angles))
    for topic, degrees in zip(topics, angles, strict=True):
        place(topic, degrees)
    return topics


def merged(owner: ChatUser, *topics: Topic) -> TopicEdit:
    change = curation.plan_merge(owner, [topic.pk for topic in topics], "Merged")
    return curation.swap(owner, change, kind=TopicEdit.Kind.MERGE, actor="ada")


def renamed(owner: ChatUser, topic: Topic, degrees: float) -> Topic:
    change = curation.plan_edit(owner, topic.pk, f"{topic.summary}, renamed")
    [new] = curation.put_in(curation.swap(owner, change, kind="edit", actor="ada"))
    place(new, degrees)
    return new


def proposed(owner: ChatUser) -> list[list[int]]:
    suggestions.suggest(owner)
    return [each.topics for each in suggestions.opened(owner)]


def only(owner: ChatUser) -> Suggestion:
    suggestions.suggest(owner)
    [found] = suggestions.opened(owner)
    return found


def accepted(owner: ChatUser, edit: TopicEdit, *topics: Topic) -> Suggestion:
    """Makes a suggestion about topics that ``edit`` merged, in the state in which the queue leaves it."""
    ids = [topic.pk for topic in topics]
    made = Suggestion.objects.create(
        owner=owner, kind=Suggestion.Kind.MERGE, key=f"merge-{ids[0]}-{ids[1]}", topics=ids
    )
    return suggestions.decide(made, Suggestion.State.ACCEPTED, actor="ada", edit=edit)


def choose(owner: ChatUser, *topics: Topic) -> None:
    run = Run.objects.create(owner=owner, query="?", strategy="flash", state="finished", finished_at=timezone.now())
    selected = tuple(Selected(f"Topic:{topic.pk}", 1, "", 0.5, 1) for topic in topics)
    payload = to_payload(RunFinished(selected, (), "", ""))
    RunEvent.objects.create(owner=owner, run=run, seq=1, kind="run_finished", at=timezone.now(), payload=payload)


def sample(name: str) -> float:
    return REGISTRY.get_sample_value(f"mnemoscope_{name}") or 0.0


def two_subjects(owner: ChatUser, first: float = 0, second: float = 90, *, pause: timedelta = timedelta(0)) -> Topic:
    """A topic of sixteen messages in eight exchanges, the second half in another direction than the first."""
    number = Message.objects.of(owner).count()
    records = [
        record(
            number + n,
            f"something said at {number + n}",
            role="assistant" if n % 2 else "user",
            at=BEGAN + timedelta(minutes=number + n) + (pause if n >= 8 else timedelta(0)),
        )
        for n in range(16)
    ]
    add_messages(owner, records)
    ids = Message.objects.of(owner).filter(external_id__in=[each.external_id for each in records]).in_order()
    [topic] = put_topics(owner, [TopicDraft("Two subjects", tuple(ids.values_list("pk", flat=True)))], actor="test")
    passages = Passage.objects.filter(owner=owner, messages__in=ids).distinct().order_by("pk")
    for place_, passage in enumerate(passages):
        degrees = first if place_ < len(passages) / 2 else second
        PassageVector.objects.create(
            owner=owner, passage=passage, profile=profile(), dimensions=2, vector=turned(degrees)
        )
    place(topic, (first + second) / 2)
    return topic
