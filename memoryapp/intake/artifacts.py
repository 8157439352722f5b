"""Files in a memory: how they arrive, and how their content becomes searchable.

In: bytes that were uploaded or came with a query. Out: an ``Artifact`` with the text of its file, a summary, keywords
and names, which search finds like a person; a chat model describes pictures and sound (``describing``). What a person
edited in an artifact is never overwritten. It imports the models, ``media``, ``documents``, ``agent_calls``,
``prompt_versions``, and from ``knowledge`` the lock under which people and artifacts change."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import cache
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext_lazy

from memoryapp.curation.knowledge.writing import EDITABLE, lock
from memoryapp.engine.agents.ask import CutAnswer, UnreadableAnswer
from memoryapp.engine.agents.describer import AGENT, describe, described_so_far
from memoryapp.engine.chat.media import MediaContent, MediaError, names_media
from memoryapp.engine.chat.protocol import LLMError
from memoryapp.engine.events import MediaItem, MediaType
from memoryapp.engine.json_values import storable, to_text
from memoryapp.engine.notes import Note, NotedError
from memoryapp.engine.sight import Sight, into, looking
from memoryapp.engine.text.summaries import digest
from memoryapp.importers.values import clean
from memoryapp.memory import content, documents, guard
from memoryapp.memory import content as media
from memoryapp.memory.documents import Unreadable
from memoryapp.models import Artifact, ChatUser, KnowledgeEdit, Message, Run
from memoryapp.models import Media as StoredMedia
from memoryapp.models.work import WorkKind
from memoryapp.platform import work
from memoryapp.platform.database import StagePaused, each_alone, is_outage, log_fault, waiting
from memoryapp.platform.llm import prompt_versions
from memoryapp.platform.llm.agent_calls import AgentCaller, OpenChat

# Makes artifacts of bytes. For each project of a chat user, the same bytes make one artifact.

_MEDIA: dict[str, MediaType] = {"image": "image", "audio": "audio"}
_KINDS = {"image": "image", "audio": "audio", "video": "video", "text": "text"}


def put(owner: ChatUser, name: str, mime_type: str, content: bytes) -> tuple[Artifact, bool]:
    """Stores the bytes. Returns their artifact, and whether it is new."""
    kind = kind_of(mime_type) or "file"
    item = MediaItem(hashlib.sha256(content).hexdigest(), kind, mime_type[:100], name[:300], len(content))
    media.store(owner, MediaContent(item, content))
    return _put(owner, item.sha256, name, mime_type, len(content), into())


def attach(message: Message, name: str, mime_type: str, content: bytes) -> bool:
    """Makes an artifact of bytes that came with the message, unless it exists or a person deleted it."""
    if hashlib.sha256(content).hexdigest() in _deleted(message.owner_id):
        return False
    with looking(Sight(None, message.project)):
        artifact, is_new = put(message.owner, name, mime_type, content)
    if is_new:
        Artifact.objects.filter(pk=artifact.pk).update(message=message, created_at=message.sent_at)
    return is_new


def take_in(owner: ChatUser | None = None) -> int:
    """Makes artifacts of the readable files that came with queries and have none yet. Returns how many. Artifacts that
    a person deleted are not made again."""
    has_one = Artifact.objects.filter(owner=OuterRef("owner"), sha256=OuterRef("sha256"))
    rows = StoredMedia.objects.filter(~Exists(has_one), documents.readable(), owner__erasing_since__isnull=True)
    rows = rows if owner is None else rows.filter(owner=owner)
    made, deleted = [], cache(_deleted)

    def take(row: StoredMedia) -> None:
        if row.sha256 not in deleted(row.owner_id):
            runs = Run.objects.of(row.owner_id).filter(media__contains=[{"sha256": row.sha256}]).order_by("created_at")
            project = runs.values_list("project", flat=True).first() or ""
            name = row.name or row.sha256[:12]
            made.append(_put(row.owner, row.sha256, name, row.mime_type, row.size_bytes, project)[1])

    each_alone(rows.select_related("owner").order_by("pk").iterator(), "Media %s did not become an artifact.", take)
    return sum(made)


@transaction.atomic
def _put(owner: ChatUser, sha256: str, name: str, mime_type: str, size: int, project: str) -> tuple[Artifact, bool]:
    lock(owner)
    return Artifact.objects.get_or_create(
        owner=owner,
        sha256=sha256,
        project=project,
        defaults={
            "name": str(clean(name))[:300],
            "mime_type": mime_type[:100],
            "file_type": "pdf"
            if mime_type == "application/pdf"
            else _KINDS.get(mime_type.partition("/")[0], "document"),
            "size_bytes": size,
            "created_at": timezone.now(),
        },
    )


def _deleted(owner_id: int) -> set[str]:
    """The hashes of files whose artifacts people deleted."""
    edits = KnowledgeEdit.objects.filter(
        owner=owner_id, noun=KnowledgeEdit.Noun.ARTIFACT, kind=KnowledgeEdit.Kind.DELETE
    )
    return {values["sha256"] for before in edits.values_list("before", flat=True) for values in before.values()}


# Descriptions of pictures and recordings by a connected chat model.

# Shorter than the claim on a file, so that no other worker claims it meanwhile.
MOST_SECONDS = 240.0


@dataclass(frozen=True, slots=True)
class Describer:
    """The chat model to ask, the seconds it has for a file, and the largest file in bytes."""

    seconds: float
    most_bytes: int
    open_chat: OpenChat


def kind_of(mime_type: str) -> MediaType | None:
    """The kind of media of a file that a model can describe; None for any other file."""
    return _MEDIA.get(mime_type.partition("/")[0])


def _described(row: Artifact, media: MediaContent, describer: Describer) -> _Contents:
    """Returns the description of the file. Raises Unreadable when the file is too large or the model accepts no such
    files, and LLMError, UnreadableAnswer."""
    if media.item.size_bytes > describer.most_bytes:
        raise Unreadable(Note("file_too_large", {"most": describer.most_bytes}))
    message = row.message.text if row.message else ""
    agent = AgentCaller(row.owner, AGENT, describer.open_chat)
    prompts, seconds = prompt_versions.in_force_now(), min(describer.seconds, MOST_SECONDS)
    asked = agent.ask_and_keep(lambda chat: describe(media, message, chat=chat, seconds=seconds, prompts=prompts))
    failure = asked.ask.failure
    if failure and failure.is_final and names_media(failure.words):
        raise Unreadable(Note(f"takes_no_{media.item.type}", {"model": asked.ask.model}))
    so_far = described_so_far(failure.words) if failure and failure.cause == "cut" else None
    found = so_far or asked.ask.result()
    lists = {"keywords": found.keywords, "entities": found.entities, "rag_hints": found.answers}
    values = {"summary": found.summary, **{name: list(entries) for name, entries in lists.items()}}
    return _Contents(found.text, found.is_cut, asked.call.model, values)


# Reads files one after another: each is claimed, read and written. After a failure it is read again after 1, 5 and 30
# minutes.
#
# The state is in the row. A worker that is killed leaves a claim that lapses, and the next worker reads the file. A
# file at which workers die repeatedly is given up like one that cannot be read.

ARTIFACTS = WorkKind("artifacts", gettext_lazy("Reading of files"))

WAITS = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=30))
# Longer than reading any file takes: the worker of an older claim was killed.
CLAIM = timedelta(minutes=5)
# The author of summary and keywords when no chat model wrote them.
EXTRACTIVE = "extractive"

logger = logging.getLogger(__name__)
State = Artifact.State


def due(owner: ChatUser | None = None) -> QuerySet[Artifact]:
    """Stored files that are due, including those whose worker was killed; not those of paused chat users."""
    stored = StoredMedia.objects.filter(owner=OuterRef("owner"), sha256=OuterRef("sha256"))
    unread = Q(state__in=(State.PENDING, State.PROCESSING)) & ~waiting("due_at", max(*WAITS, CLAIM))
    owners = work.unpaused(ChatUser.objects.all(), ARTIFACTS)
    rows = Artifact.objects.filter(unread, Exists(stored), owner__in=owners)
    return (rows if owner is None else rows.filter(owner=owner)).order_by("pk")


def process_due(owner: ChatUser | None = None, describer: Describer | None = None) -> int:
    """Reads the files that are due, oldest first; returns how many were read. A file that cannot be read stops no
    other. Pictures and sound wait while there is no ``describer``."""
    made = 0
    for number in due(owner).values_list("pk", flat=True)[:1_000]:
        row = _claim(number)
        if row is not None:
            made += _process(row, describer)
    return made


def retry(row: Artifact) -> None:
    """Makes the file due at once, with all attempts left."""
    Artifact.objects.filter(pk=row.pk).update(state=State.PENDING, attempts=0, due_at=None, fault="", fault_note=None)


@transaction.atomic
def _claim(number: int) -> Artifact | None:
    """The row, claimed for a while; None when another worker claimed it, or too many workers died at it."""
    row = due().filter(pk=number).select_for_update(skip_locked=True, of=("self",)).first()
    if row is None:
        return None
    if row.attempts > len(WAITS):
        _give_up(row, Unreadable(Note("file_limits")))
        return None
    row.state, row.attempts, row.due_at = State.PROCESSING, row.attempts + 1, timezone.now() + CLAIM
    row.save(update_fields=("state", "attempts", "due_at"))
    return row


def _process(row: Artifact, describer: Describer | None) -> bool:
    """Reads the file and stores the result; returns whether it could be read."""
    kind = kind_of(row.mime_type)
    if kind and describer is None:
        # This does not count as an attempt.
        row.state, row.attempts, row.due_at = State.PENDING, 0, timezone.now() + WAITS[-1]
        _save_state(row, NotedError(Note("no_describer")))
        return False
    item = MediaItem(row.sha256, kind or "file", row.mime_type, row.name, row.size_bytes)
    try:
        found = content.read(row.owner_id, item)
        _write(row, _described(row, found, describer) if kind and describer else _read(row, found))
    except Unreadable as error:
        _give_up(row, error)
        return False
    except StagePaused:
        later = {"attempts": row.attempts - 1, "due_at": timezone.now() + WAITS[-1]}
        Artifact.objects.filter(pk=row.pk).update(state=State.PENDING, **later)
        return False
    except (MediaError, OSError, LLMError) as error:
        _put_off(row, error)
        return False
    except UnreadableAnswer as error:
        _put_off(row, NotedError(Note("answer_cut" if isinstance(error, CutAnswer) else "answer_unreadable")))
        return False
    except Exception as error:
        if is_outage(error):
            raise
        log_fault("Artifact %s is not read.", row.pk)
        _put_off(row, error)
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Contents:
    """What was read from a file: its text, the fields that describe it, and their author."""

    text: str
    is_cut: bool
    by: str
    values: Mapping[str, Any]


def _read(row: Artifact, found: MediaContent) -> _Contents:
    """Raises Unreadable."""
    kind = documents.kind_of(row.name, row.mime_type)
    if kind is None:
        raise Unreadable(Note("file_kind"))
    document = documents.read(found.content, kind)
    text = storable(document.text)
    return _Contents(text, document.is_cut, EXTRACTIVE, asdict(digest(text)))


@transaction.atomic
def _write(row: Artifact, found: _Contents) -> None:
    """Stores what was read, without overwriting what a person wrote."""
    lock(row.owner)
    current = Artifact.objects.select_for_update(no_key=True).filter(pk=row.pk).first()
    if current is None:
        return
    text, values = guard.as_stored(row.owner, json.loads(to_text([found.text, found.values])))
    for name in values.keys() - edited_by_hand(current):
        setattr(current, name, values[name])
    current.text, current.is_cut, current.described_by = text, found.is_cut, found.by
    current.state, current.due_at, current.read_at = State.READY, None, timezone.now()
    current.fault, current.fault_note = "", None
    current.save()


def edited_by_hand(row: Artifact) -> set[str]:
    """The fields of the artifact that a person wrote or restored, according to its history."""
    changes = KnowledgeEdit.objects.filter(
        owner=row.owner_id, noun=KnowledgeEdit.Noun.ARTIFACT, call__isnull=True, after__has_key=str(row.pk)
    )
    # A row that an undo brought back has all its fields in the change, including those that nobody wrote.
    partial = [change.after[str(row.pk)] for change in changes if change.before.get(str(row.pk)) is not None]
    return {name for values in partial if values for name in values} & set(EDITABLE[KnowledgeEdit.Noun.ARTIFACT])


def _give_up(row: Artifact, error: Exception) -> None:
    row.state, row.due_at = State.FAILED, None
    _save_state(row, error)


def _put_off(row: Artifact, error: Exception) -> None:
    """Tries again later, until the attempts are used up."""
    if row.attempts > len(WAITS):
        _give_up(row, error)
        return
    row.state, row.due_at = State.PENDING, timezone.now() + WAITS[row.attempts - 1]
    _save_state(row, error)


def _save_state(row: Artifact, error: Exception) -> None:
    note = error.note if isinstance(error, NotedError) else None
    row.fault, row.fault_note = str(error), note.stored() if note else None
    # An update, because a person may have edited or deleted the artifact meanwhile.
    fields = ("state", "attempts", "due_at", "fault", "fault_note")
    Artifact.objects.filter(pk=row.pk).update(**{name: getattr(row, name) for name in fields})
