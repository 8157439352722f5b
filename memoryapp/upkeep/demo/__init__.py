"""The demo memory: a year of conversations of three people, so that a newcomer has something to see.

The content is in the folders beside this module, as readable JSON. ``golden.jsonl`` contains questions about it with
the messages that answer them; ``golden_ru.jsonl`` and ``golden_en.jsonl`` contain harder ones of many kinds, in other
words than the messages, some of them without an answer. The demo is loaded only into an empty memory and in one
transaction, so a killed load leaves nothing behind and can be repeated.
"""

import hashlib
import json
import logging
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from memoryapp.curation.change import PROGRAM
from memoryapp.engine.cells import enter
from memoryapp.engine.embeddings import EmbeddingError
from memoryapp.engine.memory import TopicDraft
from memoryapp.importers import MessageRecord
from memoryapp.importers.record import message
from memoryapp.importers.values import moment
from memoryapp.intake.archiving import put_topics
from memoryapp.intake.messages import add_messages
from memoryapp.models import Artifact, ChatUser, Erasure, Fact, Message, Operator, Person, Role, Topic
from memoryapp.platform import cells
from memoryapp.platform.llm.clients import embedder
from memoryapp.search.vectors import embed_pending

LOGIN = "demo"
PASSWORD = "demo-demo-1"
AUTHORS = {"anna": "Анна", "boris": "Boris", "ada": "Ada"}
# Which of them a reader of a language sees first.
FIRST = {"en": "ada", "ru": "anna"}
CONTENT = Path(__file__).parent
QUESTIONS = CONTENT / "golden.jsonl"
# The age of the active session's last message at the first start: recent enough to be active.
SILENCE = timedelta(minutes=5)

ROLES = {"u": "user", "a": "assistant"}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DemoTalk:
    """A topic of the content, or the active session, which has no summary yet."""

    key: str
    summary: str
    records: tuple[MessageRecord, ...]


def load() -> bool:
    """Loads the demo into a new memory; returns False if there is a chat user, or was one that was erased. The sweep
    makes the vectors that could not be made now, as for any other topic."""
    if not _fill_empty_memory():
        logger.info("The memory holds or held chat users; the demo was left out.")
        return False
    try:
        for _number in cells.each():
            async_to_sync(embed_pending)(embedder())
    except EmbeddingError as error:
        logger.warning("The demo is loaded, its vectors will follow: %s", error)
    return True


@transaction.atomic
def _fill_empty_memory() -> bool:
    if ChatUser.objects.exists() or Erasure.objects.exists():
        return False
    for name in AUTHORS:
        _put_user(name)
    # Sees every memory and is no superuser.
    if not User.objects.filter(username=LOGIN).exists():
        user = User.objects.create_user(LOGIN, password=PASSWORD, is_staff=True)
        Operator.objects.create(user=user, role=Role.ADMIN)
    return True


def _put_user(name: str) -> None:
    memory = json.loads((CONTENT / name / "memory.json").read_text("utf-8"))
    owner = ChatUser.objects.create(**memory["user"])
    enter(owner.cell)
    archived, active = talks(name), active_session(name, timezone.now())
    add_messages(owner, [record for talk in (*archived, active) for record in talk.records])
    ids = dict(Message.objects.of(owner).values_list("external_id", "pk"))
    drafts = [TopicDraft(talk.summary, tuple(ids[record.external_id] for record in talk.records)) for talk in archived]
    topics = put_topics(owner, drafts, actor=PROGRAM, reason="Topics of the demo.")
    by_key = dict(zip((talk.key for talk in archived), topics, strict=True))
    Person.objects.bulk_create(
        Person(owner=owner, **{**fields, **{name: moment(fields[name]) for name in ("first_seen", "last_seen")}})
        for fields in memory["people"]
    )
    messages = Message.objects.of(owner).in_bulk(ids[fields["message"]] for fields in memory["artifacts"])
    Artifact.objects.bulk_create(
        Artifact(
            owner=owner,
            state=Artifact.State.READY,
            # Of no bytes, because the demo has no files.
            sha256=hashlib.sha256(f"{fields['name']}\n{fields['summary']}".encode()).hexdigest(),
            created_at=messages[ids[fields["message"]]].sent_at,
            **{**fields, "message": messages[ids[fields["message"]]]},
        )
        for fields in memory["artifacts"]
    )
    Fact.objects.bulk_create(
        Fact(owner=owner, created_at=by_key[fields["topic"]].ended_at, **{**fields, "topic": by_key[fields["topic"]]})
        for fields in memory["facts"]
    )
    Topic.objects.of(owner).update(facts_extracted=True)


def talks(name: str) -> list[DemoTalk]:
    """Returns the archived talks of a demo user, oldest first."""
    paths = sorted((CONTENT / name).glob("20*.json"))
    return [
        DemoTalk(item["key"], item["summary"], tuple(_records(name, item["key"], item)))
        for path in paths
        for item in json.loads(path.read_text("utf-8"))
    ]


def active_session(name: str, now: datetime) -> DemoTalk:
    """Returns the running talk, moved so that its last message was sent shortly before ``now``. At its original date
    the first sweep would archive it before anybody has seen it."""
    item = json.loads((CONTENT / name / "active.json").read_text("utf-8"))
    last = moment(f"{item['date']}T{item['messages'][-1][0]}")
    later = max(now.replace(second=0, microsecond=0) - SILENCE - last, timedelta(0))
    return DemoTalk("active", "", tuple(_records(name, "active", item, later)))


def _records(name: str, key: str, item: Mapping[str, Any], later: timedelta = timedelta(0)) -> Iterator[MessageRecord]:
    """Yields the lines ``[clock, role, text, {forwarded_from, attachments}?]`` as messages ``key.1``, ``key.2``, …"""
    for number, (clock, role, text, *rest) in enumerate(item["messages"], start=1):
        extra: dict[str, Any] = dict(*rest)
        yield message(
            user=name,
            external_id=f"{key}.{number}",
            role=ROLES[role],
            author=AUTHORS[name] if role == "u" else "",
            sent_at=moment(f"{item['date']}T{clock}") + later,
            text=text,
            forwarded_from=extra.pop("forwarded_from", ""),
            metadata=extra,
        )


def known_password_works() -> bool:
    """Whether the demo operator exists with the public password above."""
    user = User.objects.filter(username=LOGIN, is_active=True).first()
    return user is not None and user.check_password(PASSWORD)


def renew_password() -> str:
    """Gives the demo operator a random password and returns it."""
    password = secrets.token_urlsafe(12)
    user = User.objects.get(username=LOGIN)
    user.set_password(password)
    user.save(update_fields=["password"])
    return password
