"""A memory in which one message was read by everything that reads messages: topics, edits, a run, an agent,
curators."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.utils import timezone

from memoryapp import curation
from memoryapp.curation import plan_edit, plan_merge, plan_split
from memoryapp.engine.events import (
    CandidatesFound,
    ModelReplied,
    PromptMessage,
    QueryEnriched,
    RunFinished,
    RunStarted,
    Selected,
    TopicsRead,
    TurnStarted,
    to_payload,
)
from memoryapp.engine.kinds.kind import Piece, ReadTopic, Totals
from memoryapp.erasure import chat_user
from memoryapp.models import (
    AgentCall,
    Artifact,
    ChatUser,
    Erasure,
    Evaluation,
    ImportBatch,
    KnowledgeEdit,
    Message,
    Person,
    RawReply,
    Run,
    RunEvent,
    Suggestion,
    Topic,
    TopicEdit,
)
from memoryapp.runs.journal import finished_columns
from tests.conftest import candidate, fact_of, talk


def erase_user(owner: ChatUser, actor: str) -> Erasure:
    """Deletes every row and file of the chat user; returns the receipt."""
    return chat_user.finish_user(chat_user.begin_user(owner, actor))


SECRET = "My locker code is Zwiebelfisch forty seven behind the old gymnasium"
REMAINING = "They keep the spare key of the boat under the blue pot"
PARAPHRASE = "The user confided where valuables are locked away"


@dataclass
class Filled:
    owner: ChatUser
    message: Message
    topic: Topic
    other: Topic
    run: Run
    person: Person
    edit: TopicEdit


def events_about(topic: Topic, other: Topic, message: Message) -> list[Any]:
    line = f"[Topic:{topic.pk}] {topic.summary}"
    chosen = Selected(
        f"Topic:{topic.pk}", 1, PARAPHRASE, 0.5, 1, (Piece(SECRET, "exact", message.pk, 0, len(SECRET)),), "model"
    )
    return [
        RunStarted("flash", "Where is it?", {"max_topics": 5}, "rerank-en-0", "m", "p"),
        QueryEnriched("Where is it?", "Where is it?", "", 0.1, variables={"messages": "nothing"}),
        CandidatesFound((candidate(topic, 1), candidate(other, 2)), 4, 0.1),
        TurnStarted(1, "forced", "none", (PromptMessage("user", f"{line}\n[Topic:{other.pk}] {other.summary}"),)),
        ModelReplied(1, PARAPHRASE, PARAPHRASE, (), 10, 5, 0.01, 0.5, "m"),
        TopicsRead(1, "c1", (ReadTopic(f"Topic:{topic.pk}", 10, 2),), (), (), 10),
        TurnStarted(2, "none", "none", (PromptMessage("tool", f"Topic:{topic.pk}\nAnna: {SECRET}\nbot: Noted."),)),
        ModelReplied(2, PARAPHRASE, "", (), 10, 5, 0.01, 0.5, "m"),
        RunFinished((chosen,), (), "", totals=Totals(20, 10, 0.02, 1.2, 2, 0)),
    ]


def stored_run(owner: ChatUser, events: list[Any], **columns: Any) -> Run:
    run = Run.objects.create(owner=owner, strategy="flash", query="Where is it?", **columns)
    for seq, event in enumerate(events, start=1):
        row = RunEvent.objects.create(
            owner=owner, run=run, seq=seq, kind=event.kind, at=timezone.now(), payload=to_payload(event)
        )
        if isinstance(event, ModelReplied):
            RawReply.objects.create(owner=owner, event=row, message=f'{{"content": "{SECRET}"}}')
    values = {**finished_columns(events, events[-1]), "finished_at": timezone.now()}
    Run.objects.filter(pk=run.pk).update(**values)
    run.refresh_from_db()
    return run


def distilled(owner: ChatUser, topic: Topic, message: Message, person: Person) -> None:
    at = timezone.now()
    fact_of(owner, PARAPHRASE, topic, created_at=at)
    Artifact.objects.create(
        owner=owner, message=message, file_type="pdf", name="plan.pdf", sha256="1" * 64, created_at=at, summary=SECRET
    )
    KnowledgeEdit.objects.create(
        owner=owner,
        kind="edit",
        noun="person",
        before={str(person.pk): {"bio": "swims"}},
        after={str(person.pk): {"bio": SECRET}},
        actor="ada",
    )
    Suggestion.objects.create(owner=owner, kind="split", key="k", topics=[topic.pk], evidence={"why": SECRET})
    ImportBatch.objects.create(owner=owner, source="a.json", format="jsonl", rejected=[{"line": 1, "reason": SECRET}])
    Evaluation.objects.create(source="q", strategy="vector", report={"misses": [SECRET]})
    AgentCall.objects.create(
        owner=owner,
        agent="merger",
        topics=[topic.pk],
        key="same",
        events=[{"kind": "model_replied", "payload": {"turn": 1, "text": PARAPHRASE}, "message": SECRET}],
    )


@pytest.fixture
def folder(tmp_path: Path, settings: Any) -> Path:
    settings.DATA_DIR = tmp_path
    settings.MEDIA_ROOT = tmp_path / "files"
    settings.MEDIA_ROOT.mkdir()
    return tmp_path


@pytest.fixture
def filled(anna: ChatUser, folder: Path) -> Filled:
    first, second, third = talk(
        anna,
        (f"Lockers: {SECRET}", [SECRET, "I will remember that."]),
        ("Boats and keys at the lake", [REMAINING, "Which boat do you mean?", "The red one, of course, near the pier"]),
        ("Tea with milk", ["Is milk first or tea first in England?", "Nobody agrees about that."]),
    )
    message = Message.objects.get(owner=anna, text=SECRET)
    curation.swap(anna, plan_edit(anna, first.pk, f"Secrets, among them: {SECRET}"), kind="edit", actor="ada")
    edited = Topic.objects.of(anna).live().get(started_at=first.started_at)
    merged = curation.swap(anna, plan_merge(anna, [edited.pk, second.pk]), kind=TopicEdit.Kind.MERGE, actor="ada")
    whole = curation.put_in(merged)[0]
    cut_at = [row.pk for row in Message.objects.filter(topic=whole).in_order()][2]
    split = curation.swap(
        anna, plan_split(anna, whole.pk, [cut_at]), kind="split", actor="ada", reason=f"Because {SECRET}"
    )
    topic = curation.put_in(split)[0]
    person = Person.objects.create(owner=anna, display_name="Dasha", bio=SECRET)
    distilled(anna, topic, message, person)
    run = stored_run(anna, events_about(topic, third, message))
    looking = User.objects.create_user("looks")
    ContentType.objects.clear_cache()
    LogEntry.objects.log_actions(looking.pk, Message.objects.filter(pk=message.pk), CHANGE, "[]")
    return Filled(anna, message, topic, third, run, person, split)
