"""The models, fields and references that an export contains, and the renumbering of references."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from graphlib import TopologicalSorter
from typing import Any
from uuid import UUID

from django.apps import apps
from django.contrib.postgres.search import SearchVectorField
from django.db import models

from memoryapp.curation import MERGER
from memoryapp.extraction.by_hand import ARCHIVIST
from memoryapp.importers.formats.memories.jsonl import EXPORT_MARK
from memoryapp.ingestion.archiving import PROGRAM
from memoryapp.knowledge.rows import MODELS as NOUNS
from memoryapp.models import (
    Access,
    AgentCall,
    BulkTopic,
    BulkWork,
    Card,
    CardVector,
    ChatUser,
    Finding,
    ForgetRequest,
    GoldenAlarm,
    GoldenQuestion,
    Grade,
    ImportFile,
    ItemVector,
    Judgement,
    KnowledgeEdit,
    Message,
    Passage,
    PassageMessage,
    PassageVector,
    QueryVector,
    RawReply,
    RefusedText,
    Run,
    RunEvent,
    RunProgress,
    SavedView,
    Suggestion,
    Topic,
    TopicVector,
    Trace,
    TraceSpan,
    Work,
)
from memoryapp.models.user import Owned

MARK = EXPORT_MARK
FORMAT = 1
# Data derived from the rest, questions to models, and data of this installation.
LEFT_OUT: frozenset[type[models.Model]] = frozenset(
    (
        *(Passage, PassageMessage, PassageVector, TopicVector, Card, CardVector, ItemVector, QueryVector),
        *(Run, RunEvent, RawReply, RunProgress, Judgement, Grade, GoldenQuestion, AgentCall, ForgetRequest),
        *(Access, BulkWork, BulkTopic, SavedView, Work, ImportFile, RefusedText, Trace, TraceSpan, GoldenAlarm),
    )
)
_OWN = ("id", "owner")
# Fields of a chat user's row that concern only this installation.
_OF_USER = ("id", "name", "talk", "erasing_since")

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
        str(new(noun, int(number))): None if row is None else _row(row, referred, new) for number, row in rows.items()
    }


def _row(row: Mapping[str, Any], referred: Mapping[str, type[models.Model]], new: Renumber) -> dict[str, Any]:
    return {name: new(referred[name], value) if name in referred and value else value for name, value in row.items()}
