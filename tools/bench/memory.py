"""A made-up memory for measurements: a chat user of its own, deleted afterwards.

The words are syllables from a fixed seed, some common and most rare, as in any language; every topic has words of its
own. The memory is stored like any other. Its vectors are random directions in the profile of the settings, because
those need no model; vectors that the worker of a running site has made meanwhile are kept.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import numpy as np
from django.apps import apps
from django.db import DatabaseError, connection, transaction
from django.utils import timezone
from psycopg.errors import DeadlockDetected, ForeignKeyViolation

from memoryapp.engine.memory import TopicDraft
from memoryapp.importers import MessageRecord
from memoryapp.intake.archiving import put_topics
from memoryapp.intake.messages import add_messages
from memoryapp.models import (
    ChatUser,
    EmbeddingProfile,
    Message,
    Passage,
    PassageMessage,
    PassageVector,
    Topic,
    TopicMessage,
    TopicVector,
)
from memoryapp.models.user import Owned

NAME = "mnemoscope bench"
BEGAN = datetime(2024, 1, 1, 9, tzinfo=UTC)
MESSAGES = 10
WORDS = 26
AT_ONCE = 100
TRIES = 5

_SYLLABLES = [first + vowel for first in "bdfgklmnprstvz" for vowel in "aeiou"]


@contextmanager
def stored(topics: int, profile: EmbeddingProfile) -> Iterator[ChatUser]:
    """Yields a chat user with ``topics`` topics of ten messages and five passages, all with vectors in ``profile``."""
    remove()
    try:
        owner = ChatUser.objects.create(name=NAME)
        for first in range(0, topics, AT_ONCE):
            put(owner, range(first, min(first + AT_ONCE, topics)))
        put_vectors(owner, profile)
        _analyse()
        yield owner
    finally:
        remove()


def remove() -> None:
    """Deletes the memory of this bench, or of one that was killed."""
    # Hidden, so that whoever writes writes nothing new for it.
    ChatUser.objects.filter(name=NAME).update(erasing_since=timezone.now())
    for _ in range(TRIES - 1):
        try:
            return _remove()
        except DatabaseError as error:
            # The worker of a running site has locked rows in another order, or inserted one meanwhile.
            if not isinstance(error.__cause__, DeadlockDetected | ForeignKeyViolation):
                raise
    return _remove()


def _remove() -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        owners = list(ChatUser.with_erased.filter(name=NAME).values_list("pk", flat=True))
        for model in apps.get_app_config("memoryapp").get_models() if owners else ():
            if issubclass(model, Owned):
                # References are checked at the commit, so the tables may come in any order.
                cursor.execute(f"DELETE FROM {model._meta.db_table} WHERE owner_id = ANY(%s)", [owners])
        ChatUser.with_erased.filter(pk__in=owners).delete()


def queries(count: int) -> list[str]:
    """Returns questions, each in the words of one topic."""
    return [" ".join(_own_words(number)[:5]) for number in range(count)]


def put(owner: ChatUser, numbers: range) -> None:
    add_messages(owner, [record for number in numbers for record in _records(number)])
    ids = dict(Message.objects.of(owner).active().values_list("external_id", "pk"))
    drafts = [
        TopicDraft(" ".join(_own_words(number)[:12]), tuple(ids[record.external_id] for record in _records(number)))
        for number in numbers
    ]
    put_topics(owner, drafts, actor="bench")


def _records(number: int) -> Iterator[MessageRecord]:
    chance = random.Random(f"messages of {number}")
    own, common = _own_words(number), _common_words()
    for place in range(MESSAGES):
        words = [chance.choice(own if chance.random() < 0.4 else common) for _ in range(WORDS)]
        yield MessageRecord(
            user="",
            external_id=f"bench-{number}-{place}",
            role="assistant" if place % 2 else "user",
            author="bot" if place % 2 else "Ada",
            sent_at=BEGAN + timedelta(hours=3 * number, minutes=place),
            text=" ".join(words).capitalize() + ".",
        )


def _own_words(number: int) -> Sequence[str]:
    chance = random.Random(f"words of {number}")
    return ["".join(chance.choices(_SYLLABLES, k=chance.randint(2, 4))) for _ in range(30)]


def _common_words() -> Sequence[str]:
    chance = random.Random("words of all")
    return ["".join(chance.choices(_SYLLABLES, k=2)) for _ in range(300)]


def put_vectors(owner: ChatUser, profile: EmbeddingProfile) -> None:
    """Stores vectors for the passages and topics that the worker of a running site has not embedded meanwhile."""
    chance = np.random.default_rng(0)
    shared = {"owner": owner, "profile": profile}
    passages = list(Passage.objects.filter(owner=owner).values_list("pk", flat=True))
    PassageVector.objects.bulk_create(
        (
            PassageVector(**shared, passage_id=pk, dimensions=profile.dimensions, vector=vector)
            for pk, vector in zip(passages, directions(chance, len(passages), profile.dimensions), strict=True)
        ),
        batch_size=1000,
        ignore_conflicts=True,
    )
    topics = list(Topic.objects.of(owner).live().values_list("pk", flat=True))
    TopicVector.objects.bulk_create(
        (
            TopicVector(**shared, topic_id=pk, vector=vector)
            for pk, vector in zip(topics, directions(chance, len(topics), profile.dimensions), strict=True)
        ),
        ignore_conflicts=True,
    )


def directions(chance: np.random.Generator, count: int, dimensions: int) -> Iterator[list[float]]:
    """Yields random vectors of unit length."""
    for _ in range(count):
        drawn = chance.standard_normal(dimensions)
        yield (drawn / np.linalg.norm(drawn)).tolist()


def _analyse() -> None:
    """Updates the statistics of the tables, as in an older memory: without them a search takes twice as long."""
    with connection.cursor() as cursor:
        for model in (Message, Topic, TopicMessage, Passage, PassageMessage, PassageVector):
            cursor.execute(f"VACUUM ANALYZE {model._meta.db_table}")
