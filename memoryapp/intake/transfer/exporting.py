"""Writes an export: a header, the messages as ordinary JSON Lines, all other rows, and the number of lines. Other
importers read only the messages. A message's place (its topic, its import, whether it is withdrawn) is written in a
separate line, so its own line contains only what the message says."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from graphlib import TopologicalSorter
from typing import IO, Any
from uuid import UUID

from django.apps import apps
from django.contrib.postgres.search import SearchVectorField
from django.db import connection, models, transaction
from django.utils import timezone

from memoryapp.curation import MERGER
from memoryapp.curation.change import PROGRAM
from memoryapp.curation.extraction.findings import ARCHIVIST
from memoryapp.curation.knowledge.writing import MODELS as NOUNS
from memoryapp.importers.formats.memories.jsonl import EXPORT_MARK
from memoryapp.models import (
    Artifact,
    ChatUser,
    EditedTopic,
    Fact,
    Finding,
    KnowledgeEdit,
    Message,
    Person,
    Suggestion,
    Topic,
    TopicEdit,
    TopicMessage,
)
from memoryapp.models.user import Owned

# The models, fields and references that an export contains, and the renumbering of references.

MARK = EXPORT_MARK
FORMAT = 1
# Data derived from the rest, questions to models, and data of this installation.
_LEFT_OUT = """
Passage PassageMessage PassageVector TopicVector Card CardVector ItemVector QueryVector Run RunEvent RawReply
RunProgress Judgement Grade GoldenQuestion AgentCall ForgetRequest Access BulkWork BulkTopic SavedView Work ImportFile
RefusedText Trace TraceSpan GoldenAlarm Miss UnmaskedText ExpiryBatch ExpiringRow Talk
"""
LEFT_OUT: frozenset[type[models.Model]] = frozenset(apps.get_model("memoryapp", name) for name in _LEFT_OUT.split())
_OWN = ("id", "owner")
# Fields of a chat user's row that concern only this installation.
_OF_USER = ("id", "name", "cell", "erasing_since")

# Columns that name who did something. In a restored row the name is a claim of the file and is marked as such; the
# program's own agents are named as they are, because rules depend on what they did.
_ACTORS = ("actor", "decided_by", "by")
_AGENTS = (PROGRAM, ARCHIVIST, MERGER)
# Contains a blank, so no operator can have a name that begins with it.
RESTORED = "restored: "

# Returns the new number of a model's row for its number in the export, None for None.
Renumber = Callable[[type[models.Model], Any], Any]


def exported() -> list[type[models.Model]]:
    """Returns the models of an export without ``Message``, each after those that it refers to."""
    owned = [
        model
        for model in apps.get_app_config("memoryapp").get_models()
        if issubclass(model, Owned) and model not in LEFT_OUT
    ]
    needs = {model: {other for _column, other in references(model)} & set(owned) - {model} for model in owned}
    # Their JSON refers to rows, too.
    needs[KnowledgeEdit] |= set(NOUNS.values())
    needs[Finding] |= set(NOUNS.values())
    needs[Suggestion] |= {Topic}
    ordered = TopologicalSorter({model: sorted(others, key=_name) for model, others in needs.items()}).static_order()
    return [model for model in ordered if model is not Message]


def _name(model: type[models.Model]) -> str:
    return model.__name__


def label(model: type[models.Model]) -> str:
    """Returns the name of the model in a line."""
    return str(model._meta.model_name)


def columns(model: type[models.Model]) -> Iterator[models.Field[Any, Any]]:
    """Yields the fields of a row's line: all except its number, its owner, what is made of other fields, and references
    to what an export leaves out."""
    skipped = _OF_USER if model is ChatUser else _OWN
    for column in model._meta.concrete_fields:
        is_left_out = isinstance(column, models.ForeignKey) and not is_kept(column.related_model)
        is_made = isinstance(column, models.GeneratedField | SearchVectorField)
        if column.name not in skipped and not is_made and not is_left_out:
            yield column


def references(model: type[models.Model]) -> Iterator[tuple[models.Field[Any, Any], type[models.Model]]]:
    for column in columns(model):
        if isinstance(column, models.ForeignKey):
            yield column, column.related_model


def as_restored(column: models.Field[Any, Any], value: Any) -> Any:
    """Returns the column's value in a restored row: with the mark if it names a person."""
    if column.name not in _ACTORS or not value or value in _AGENTS or value.startswith(RESTORED):
        return value
    return f"{RESTORED}{value}"[: column.max_length]


def as_exported(column: models.Field[Any, Any], value: Any) -> Any:
    """Returns the column's value in a line: without the mark, and as JSON represents it."""
    return plain(value.removeprefix(RESTORED) if column.name in _ACTORS else value)


def plain(value: Any) -> Any:
    """Returns the value as JSON represents it."""
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value


def is_kept(model: type[models.Model]) -> bool:
    """Whether an export contains rows of this model, to which other rows may refer."""
    return issubclass(model, Owned) and model not in LEFT_OUT


def renumbered(model: type[models.Model], values: dict[str, Any], new: Renumber) -> dict[str, Any]:
    """Returns the values with new numbers inside JSON and keys."""
    if model is Suggestion:
        return _suggestion(values, new)
    if model is Finding:
        noun = NOUNS[values["noun"]]
        single = {name: new(noun, values.get(name)) for name in ("target", "row", "stored")}
        return values | single | {"alike": [new(noun, number) for number in values["alike"]]}
    if model is KnowledgeEdit:
        noun = NOUNS[values["noun"]]
        return values | {side: _sides(noun, values[side], new) for side in ("before", "after")}
    return values


def _suggestion(values: dict[str, Any], new: Renumber) -> dict[str, Any]:
    numbers = [new(Topic, number) for number in values["topics"]]
    key = f"{values['kind']}-{'-'.join(map(str, sorted(filter(None, numbers))))}"
    evidence = dict(values["evidence"])
    if "at" in evidence:
        evidence["at"] = [new(Message, number) for number in evidence["at"]]
    is_usual = values["key"] == f"{values['kind']}-{'-'.join(map(str, sorted(values['topics'])))}"
    return values | {"topics": numbers, "evidence": evidence, "key": key if is_usual else values["key"]}


def _sides(noun: type[models.Model], rows: Mapping[str, Any], new: Renumber) -> dict[str, Any]:
    """Returns one side of a change in the history, the values of rows by number, with new numbers."""
    referred = {column.attname: other for column, other in references(noun)}
    return {
        str(new(noun, int(number))): row
        and {name: new(referred[name], value) if name in referred and value else value for name, value in row.items()}
        for number, row in rows.items()
    }


_AT_ONCE = 1_000
_MESSAGE = {"id", "role", "author", "ts", "text", "session", "project", "reply_to", "forwarded_from"}
_RESERVED = _MESSAGE | {"user", "messages", "metadata", MARK}


def lines(owner: ChatUser, project: str = "") -> Iterator[str]:
    """Yields the lines of the owner's memory, or of one project of it, at one moment, each with its newline; reads the
    rows in batches."""
    with _one_moment():
        count = 0
        for value in _of_project(owner, project) if project else _values(owner):
            count += 1
            yield _line(value)
        yield _line({MARK: "end", "lines": count})


def file_of(owner: ChatUser, project: str = "") -> IO[bytes]:
    """Returns the same lines as an open temporary file at position 0, which is deleted when it is closed."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - whoever sends it closes it
    try:
        for line in lines(owner, project):
            file.write(line.encode())
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


@contextmanager
def _one_moment() -> Iterator[None]:
    """All reads in the body see the memory at one moment, without later changes."""
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield


def _values(owner: ChatUser) -> Iterator[dict[str, Any]]:
    yield {MARK: FORMAT, "user": owner.name}
    settings = {column.attname: plain(getattr(owner, column.attname)) for column in columns(ChatUser)}
    yield {MARK: label(ChatUser), **settings}
    for message in _rows(Message, owner):
        yield _message(owner.name, message)
    for message in _rows(Message, owner):
        yield _place(message)
    for model in exported():
        for row in _rows(model, owner):
            yield _row(model, row)


def _of_project(owner: ChatUser, project: str) -> Iterator[dict[str, Any]]:
    """Its messages, its live topics as if one edit had made them, and its people, facts and artifacts. The history
    tells of other projects, too."""
    yield {MARK: FORMAT, "user": owner.name}
    for message in _rows(Message, owner, project=project):
        yield _message(owner.name, message)
    for message in _rows(Message, owner, project=project):
        yield {name: value for name, value in _place(message).items() if name != "batch"}
    live = list(Topic.objects.of(owner).live().filter(project=project).order_by("pk").values_list("pk", flat=True))
    for model, narrowed in ((Topic, {"pk__in": live}), (TopicMessage, {"topic__in": live})):
        for row in _rows(model, owner, **narrowed):
            yield _row(model, row)
    made = TopicEdit(pk=1, kind=TopicEdit.Kind.ARCHIVE, actor=PROGRAM, at=timezone.now())
    sides = [EditedTopic(pk=at, edit=made, topic_id=number, side="in") for at, number in enumerate(live, start=1)]
    for each in (made, *sides) if live else ():
        yield _row(type(each), each)
    for noun in (Person, Fact, Artifact):
        for row in _rows(noun, owner, project=project):
            if isinstance(row, Fact) and row.topic_id not in live:
                row.topic_id = None
            yield _row(noun, row)


def _rows(model: type[models.Model], owner: ChatUser, **narrowed: Any) -> Iterator[Any]:
    rows = model._base_manager.filter(owner=owner, **narrowed).order_by("pk")
    return rows.iterator(_AT_ONCE)


def _message(user: str, row: Message) -> dict[str, Any]:
    fields = {
        "user": user,
        "id": row.external_id,
        **{name: getattr(row, name) for name in ("role", "author")},
        "ts": row.sent_at.isoformat(),
        **{name: getattr(row, name) for name in ("text", "session", "project", "reply_to", "forwarded_from")},
    }
    fields = {name: value for name, value in fields.items() if value or name in ("id", "role", "ts", "text")}
    # Metadata with the name of a field of the line is written separately.
    beside = {name: value for name, value in row.metadata.items() if name in _RESERVED}
    rest = {name: value for name, value in row.metadata.items() if name not in _RESERVED}
    return {**rest, **({"metadata": beside} if beside else {}), **fields}


def _row(model: type[models.Model], row: models.Model) -> dict[str, Any]:
    values = {column.attname: as_exported(column, getattr(row, column.attname)) for column in columns(model)}
    return {MARK: label(model), "n": row.pk, **values}


def _place(row: Message) -> dict[str, Any]:
    """Returns the line with the number by which other lines refer to the message, and its place."""
    named = {"project": row.project, "topic": row.topic_id, "batch": row.batch_id}
    place = {**named, "is_withdrawn": row.is_withdrawn}
    return {MARK: "place", "n": row.pk, "message": row.external_id, **{name: at for name, at in place.items() if at}}


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"
