"""The course of an erasure: from the receipt that begins it to the last check. Each step may be repeated.

First the marks are made, while the text still exists. Then the rows are deleted in one transaction, and everything that
was made from them or quotes them is redacted. A process that read the text before may write it afterwards. So the
erasure ends only when the runs of that time have ended, and it checks once more when no model can still be answering.
"""

import base64
import json
import logging
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp.engine.cells import cell, within
from memoryapp.erasure import chat_user, marks, masking, texts
from memoryapp.erasure.chat_user import FILES, delete_media, deleted
from memoryapp.erasure.conversations import Changes, redact_calls, redact_leftovers, redact_runs, texts_of
from memoryapp.erasure.cutting import Moved, Reach, Target, cut, reach_of
from memoryapp.erasure.marks import Collected, Marks, Redaction
from memoryapp.erasure.texts import strings
from memoryapp.memory.content import erased
from memoryapp.models import (
    Artifact,
    ChatUser,
    Erasure,
    ExpiringRow,
    Fact,
    Media,
    Message,
    Person,
    Run,
    Topic,
    TopicVector,
)
from memoryapp.platform import cells, database
from memoryapp.platform.database import lease_holds
from memoryapp.platform.statements import execute
from memoryapp.platform.webhooks.announcing import ERASURE_FINISHED, announce

MOST_MESSAGES = 5_000
# No request waits longer for a model.
LOOK_AGAIN = timedelta(minutes=15)
_TRIES = 5
_AT_ONCE = 1_000
_LOCK = "forget"
# Columns whose words many rows have.
_SHARED = ("sha256", "file_type", "mime_type", "relation", "category")
UNCOMPARED = Q(others__has_key="name")

logger = logging.getLogger(__name__)


class NothingToErase(Exception):
    """There is nothing to erase, or too much at once; the text is a sentence for people."""


def begin(target: Target, actor: str) -> Erasure:
    """The receipt of an erasure that the worker carries out; nothing is deleted yet. Raises Nothing."""
    if len(target.messages) > MOST_MESSAGES and target.kind != Erasure.Kind.PROJECT:
        raise NothingToErase(_("At most %(most)s messages can be erased at once.") % {"most": f"{MOST_MESSAGES:,}"})
    reach = reach_of(target)
    if not (reach.messages or reach.people or target.others):
        raise NothingToErase(_("It is gone already: there is nothing to erase."))
    return Erasure.objects.create(
        kind=target.kind,
        owner_number=target.owner_id,
        messages=list(reach.messages),
        person=target.person,
        others=target.others,
        actor=actor,
        salt=secrets.token_bytes(32),
    )


def due() -> QuerySet[Erasure]:
    """Erasures that have not ended, and those that have to check once more."""
    late = Q(looked_again_at__isnull=True, ended_at__isnull=False) & ~lease_holds("ended_at", LOOK_AGAIN)
    return Erasure.objects.filter(Q(ended_at__isnull=True) | late & ~UNCOMPARED).order_by("pk")


def uncompared() -> QuerySet[Erasure]:
    """Erasures of whole chat users that have ended, but whose marks may be of words that others hold rightly."""
    return Erasure.objects.filter(UNCOMPARED, ended_at__isnull=False).order_by("pk")


def compare(erasure: Erasure, *, wait: timedelta = timedelta(hours=1)) -> None:
    """Takes the marks of what others hold out of the receipt of a whole chat user, then redacts what quotes the others.
    Nobody waits for it: it reads all that is left, which takes longer the more memories there are."""
    with database.exclusive(_LOCK, erasure.pk, wait=wait) as is_alone:
        for row in uncompared().filter(pk=erasure.pk) if is_alone else ():
            left = Marks.of(row, slice(row.others["name"])).without(texts.everything_remaining())
            left |= Marks.of(row, slice(row.others["name"], None)).without(texts.remaining_texts())
            row.marks, row.others = b"".join(sorted(left)), {}
            row.save(update_fields=["marks", "others"])
            with _in_its_cell(row):
                _redact(row)
            for _cell in cells.each():
                vacuum(row)


def finish(erasure: Erasure, *, wait: timedelta = timedelta(hours=1)) -> Erasure:
    """Continues an erasure as far as possible; while another process works on it, waits for that one. It has no
    ``ended_at`` while a run is going on that may have read what is erased, or when ``wait`` was too short."""
    with database.exclusive(_LOCK, erasure.pk, wait=wait) as is_alone:
        if is_alone:
            _go_on(erasure)
    erasure.refresh_from_db()
    return erasure


def look_again(erasure: Erasure) -> None:
    """Erases what was written after the cut by a process that had read before it."""
    topics = [int(name.partition(":")[2]) for name in erasure.touched if name.startswith("Topic:")]
    with transaction.atomic():
        deleted(TopicVector.objects.filter(owner=erasure.owner_number, topic__in=topics))
    _redact(erasure)
    erasure.looked_again_at = erasure.verify_asked_at = timezone.now()
    erasure.save(update_fields=["looked_again_at", "verify_asked_at"])


def _go_on(erasure: Erasure) -> None:
    with _in_its_cell(erasure):
        _continue(erasure)


def _in_its_cell(erasure: Erasure) -> AbstractContextManager[None]:
    owner = ChatUser.with_erased.filter(pk=erasure.owner_number).first()
    return within(owner.cell if owner else cell() or 0)


def _continue(erasure: Erasure) -> None:
    erasure.refresh_from_db()
    if erasure.kind == Erasure.Kind.MASK and erasure in due():
        masking.go_on(erasure)
        return
    if erasure.ended_at is not None:
        if erasure.looked_again_at is None and erasure in due():
            look_again(erasure)
        return
    if erasure.kind == Erasure.Kind.USER:
        _erase_user(erasure)
    else:
        _erase_part(erasure)


def _erase_user(erasure: Erasure) -> None:
    if erasure.marked_at is None:
        owner = ChatUser.with_erased.get(pk=erasure.owner_number)
        labels = Collected.of(texts.labels(owner), marks.LEAST_NAME_CHARS).without(texts.ordinary_words())
        names = labels | Collected.of(texts.names(owner), marks.LEAST_NAME_CHARS)
        _store_marks(erasure, Collected.of(texts.texts(owner)), names)
    chat_user.finish_user(erasure)


def _erase_part(erasure: Erasure) -> None:
    owner = ChatUser.objects.filter(pk=erasure.owner_number).first()
    if owner is None:
        # The whole chat user is being erased, or was, and everything with it.
        erasure.ended_at = erasure.looked_again_at = timezone.now()
        erasure.save(update_fields=["ended_at", "looked_again_at"])
        return
    if erasure.cut_at is None:
        # Before the marks are made, for these rows name what goes.
        ExpiringRow.objects.filter(batch__receipt=erasure, kept_by="").delete()
        (_cut_others if erasure.others.keys() & {"run", "media"} else _cut)(erasure, owner)
    _redact(erasure)
    runs = Run.objects.of(erasure.owner_number).exclude(state=Run.State.FINISHED)
    if not runs.filter(created_at__lte=erasure.cut_at).exists():
        with transaction.atomic():
            erasure.ended_at = timezone.now()
            erasure.save(update_fields=["ended_at"])
            announce(ERASURE_FINISHED, subject=str(erasure.pk))
        vacuum(erasure)


def _cut(erasure: Erasure, owner: ChatUser) -> None:
    """Makes the marks, then the cut; repeats both when somebody changed the topics meanwhile. Raises Moved when that
    happens each time."""
    for last in (*[False] * _TRIES, True):
        reach = reach_of(Target.of(erasure))
        erasure.touched = reach.ids
        erasure.save(update_fields=["touched"])
        spoken = Collected.of(_texts(Message.objects.filter(pk__in=reach.messages)))
        stays = Message.objects.of(owner).exclude(pk__in=reach.messages)
        # Topics that keep messages get new summaries and are read for facts again; the new words may equal the old
        # ones.
        beside = stays.filter(topicmessage__topic__in=reach.touched)
        made = Collected.of(_texts_made(reach)).without(_texts_made_otherwise(owner, reach)).beyond(_texts(beside))
        own = (spoken | made).without(_texts(stays))
        _store_marks(erasure, replace(own, runs=texts.unshared(owner, own.runs)))
        try:
            cut(erasure, owner)
        except Moved:
            if last:
                raise
        else:
            erased.send(ChatUser, number=owner.pk)
            return


@transaction.atomic
def _cut_others(erasure: Erasure, owner: ChatUser) -> None:
    """Deletes runs and media. Their words may be in others, which ask the same; so the marks are made of the ids of
    runs and the hashes of files, as far as nothing names them any more."""
    runs, media = erasure.others.get("run", ()), Media.objects.filter(pk__in=erasure.others.get("media", ()))
    found = Collected.of([*runs, *media.filter(owner=owner).values_list("sha256", flat=True)])
    gone = deleted(Run.objects.of(owner).filter(pk__in=runs)) + delete_media(media.filter(owner=owner))
    erasure.others = {}
    erasure.counts, erasure.cut_at = dict(Counter(erasure.counts) + gone), timezone.now()
    erasure.save(update_fields=["others", "counts", "cut_at"])
    _store_marks(erasure, found.without(texts.everything_remaining()))


def _store_marks(erasure: Erasure, found: Collected, names: Collected | None = None) -> None:
    """Stores the marks; if there are too many, those of names and an even selection of the others. With ``names``, of a
    whole chat user, they are compared later: until then ``others`` says how many, the first, are of names."""
    erasure.others = erasure.others if names is None else {"name": min(len(names.runs), marks.MOST_MARKS)}
    names = names or Collected()
    erasure.marks, erasure.lengths = marks.packed(found.runs, bytes(erasure.salt), names.runs)
    places = max(0, marks.MOST_MARKS - len(names.runs))
    erasure.share = found.share * min(1.0, places / max(1, len(found.runs)))
    erasure.unmarked, erasure.marked_at = found.unmarked + names.unmarked, timezone.now()
    erasure.save(update_fields=["marks", "others", "lengths", "share", "unmarked", "marked_at"])


def _texts(rows: QuerySet[Message]) -> Iterator[str]:
    """The texts of messages, and the texts in their metadata."""
    for text, metadata in rows.order_by().values_list("text", "metadata").iterator(_AT_ONCE):
        yield text
        yield from strings(metadata)


def _texts_made(reach: Reach) -> Iterator[str]:
    yield from Topic.objects.filter(pk__in=reach.touched).values_list("summary", flat=True)
    for model, numbers in ((Fact, reach.facts), (Artifact, reach.artifacts), (Person, reach.people)):
        names = [name for name in texts_of(model) if name not in _SHARED]
        for row in model._base_manager.filter(pk__in=numbers).values_list(*names):
            yield from strings(row)


def _texts_made_otherwise(owner: ChatUser, reach: Reach) -> Iterator[str]:
    """Texts that were made of remaining messages: words that they share with erased text reveal nothing."""
    if reach.people:
        people = Person.objects.exclude(owner=owner).order_by().values_list("display_name", "bio")
        yield from (text for row in people.iterator(_AT_ONCE) for text in row)
    for model, name, numbers in (
        (Topic, "summary", reach.touched),
        (Fact, "content", reach.facts),
        (Person, "display_name", reach.people),
        (Person, "bio", reach.people),
    ):
        rows = model._base_manager.filter(owner=owner).exclude(pk__in=numbers).order_by()
        yield from rows.values_list(name, flat=True).iterator(_AT_ONCE)


def _redact(erasure: Erasure) -> None:
    redaction = Redaction(Marks.of(erasure), frozenset(erasure.touched), frozenset(erasure.messages))
    cut_at = erasure.cut_at or erasure.began_at
    owner = erasure.owner_number
    for changes in (
        Changes(gone=Counter({FILES: chat_user.discard_imports(owner) if erasure.messages else 0})),
        redact_runs(owner, redaction, cut_at),
        redact_calls(owner, redaction, cut_at),
        redact_leftovers(erasure, redaction),
        Changes(changed=Counter({FILES: chat_user.blank_logs(redaction.marks)})),
    ):
        erasure.counts = dict(Counter(erasure.counts) + changes.gone)
        erasure.redacted = dict(Counter(erasure.redacted) + changes.changed)
        erasure.save(update_fields=["counts", "redacted"])


def vacuum(erasure: Erasure) -> None:
    """Releases the space of deleted rows; inside a transaction that is left to autovacuum."""
    if connection.in_atomic_block:
        return
    tables = {*erasure.counts, *erasure.redacted} & set(connection.introspection.table_names())
    for table in sorted(tables):
        execute(f"VACUUM {connection.ops.quote_name(table)}")


def dumped(erasure: Erasure) -> str:
    """The receipt as a file."""
    names = ("kind", "began_at", "ended_at", "counts", "redacted", "unmarked", "share", "salt", "lengths", "marks")
    return json.dumps({"erasure": erasure.pk, **{name: getattr(erasure, name) for name in names}}, default=_written)


def _written(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else base64.b64encode(bytes(value)).decode()
