"""Checks what a line of an export says of a row: only what the program could have written is restored.

A file is hostile until then. Each value is read as its column stores it, with the bounds of the column and of the form
where a person sets it; JSON has the shape in which it is read later. Every fault is a ``BadRecord`` whose text says
what is wrong; who reads the file adds the line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.db import models
from django.utils.timezone import is_naive
from django.utils.translation import gettext as _
from pydantic import BaseModel, Field, StringConstraints, TypeAdapter
from pydantic import ValidationError as BadShape

from memoryapp import models as rows
from memoryapp.curation import knowledge
from memoryapp.engine.agents.merger import MergeVerdict
from memoryapp.engine.notes import Note, english
from memoryapp.importers.record import MOST_TEXT
from memoryapp.importers.values import BadRecord, moment, quote
from memoryapp.intake import items as item_bounds
from memoryapp.intake.transfer.exporting import columns
from memoryapp.memory import content

LARGEST = 2**63 - 1
_HASH = re.compile("[0-9a-f]{1,64}")

Text = Annotated[str, StringConstraints(strict=True, max_length=MOST_TEXT)]
Whole = Annotated[int, Field(strict=True, ge=0, le=LARGEST)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-1e12, le=1e12)]
Texts = list[Text]


class MergeReasons(BaseModel):
    """What ``suggestions.wording`` reads of the reasons for a merge."""

    similarity: Number
    threshold: Number
    people: Texts
    together: Whole
    runs: Whole
    size_chars: Whole
    days_apart: Whole
    merger: dict[Text, Annotated[bool, Field(strict=True)] | Text | None] | None = None


class SplitReasons(BaseModel):
    """The same for a split."""

    at: list[Whole]
    size_chars: Whole
    gain: Number
    similarity: Number
    usual: Number
    pause_seconds: Number
    parts: list[Annotated[list[Whole], Field(min_length=2, max_length=2)]]
    limit: Whole


class Rejection(BaseModel):
    line: Whole | Text
    reason: Text


class LeftOutCount(BaseModel):
    reason: Text
    count: Whole


class FaultNote(BaseModel):
    code: Text
    values: dict[Text, Text | Whole | Number | Texts]


Side = dict[Annotated[str, StringConstraints(pattern="^[0-9]{1,19}$")], dict[str, Any] | None]
Policies = dict[rows.GuardKind, rows.GuardPolicy]
# By model and column. A test looks that every column of JSON or a list in an export is here.
SHAPES: Mapping[tuple[type[models.Model], str], Any] = {
    (rows.ChatUser, "guard"): Policies,
    (rows.ChatUser, "guard_out"): Policies,
    (rows.Person, "aliases"): Texts,
    (rows.Artifact, "keywords"): Texts,
    (rows.Artifact, "entities"): Texts,
    (rows.Artifact, "rag_hints"): Texts,
    (rows.Artifact, "fault_note"): FaultNote,
    (rows.ImportBatch, "rejected"): list[Rejection],
    (rows.ImportBatch, "left_out"): list[LeftOutCount],
    (rows.Suggestion, "topics"): list[Whole],
    (rows.Suggestion, "evidence"): dict[str, Any],
    (rows.Finding, "values"): dict[str, Any],
    (rows.Finding, "alike"): list[Whole],
    (rows.StoredItem, "namespace"): item_bounds.Namespace,
    (rows.StoredItem, "value"): item_bounds.Whole,
    (rows.KnowledgeEdit, "before"): Side,
    (rows.KnowledgeEdit, "after"): Side,
}
_REASONS = {rows.Suggestion.Kind.MERGE: (2, MergeReasons), rows.Suggestion.Kind.SPLIT: (1, SplitReasons)}


def checked(model: type[models.Model], line: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the row's values by column as a row has them; numbers are still those of the file. Raises BadRecord."""
    values = {}
    for column in columns(model):
        if column.attname in line:
            values[column.attname] = value_of(column, line[column.attname])
        elif _is_needed(column):
            raise BadRecord(_("%(field)s is missing") % {"field": column.attname})
    _check_whole(model, values)
    return values


def _is_needed(column: models.Field[Any, Any]) -> bool:
    is_filled = column.has_default() or column.db_default is not models.NOT_PROVIDED
    # A time that the program would set by itself is blank, but nobody sets it here.
    return not (column.null or is_filled or (column.blank and not isinstance(column, models.DateTimeField)))


def value_of(column: models.Field[Any, Any], value: Any) -> Any:
    """Returns the value as the column has it. Raises BadRecord."""
    named = {"field": column.attname, "value": quote(value)}
    if value is None:
        if not column.null:
            raise BadRecord(_("%(field)s is missing") % named)
        return None
    if isinstance(column, models.JSONField | ArrayField):
        return shaped(SHAPES[column.model, column.attname], value, column.attname)
    read = _read(column, value)
    if column.choices and read not in dict(column.flatchoices) and not (column.blank and read == ""):
        raise BadRecord(_("%(field)s cannot be %(value)s") % named)
    try:
        if not isinstance(column, models.ForeignKey):
            column.run_validators(read)
    except ValidationError as error:
        raise BadRecord(f"{column.attname}: {' '.join(error.messages)}") from None
    return read


def _read(column: models.Field[Any, Any], value: Any) -> Any:
    if isinstance(column, models.DateTimeField):
        return moment(value)
    if isinstance(column, models.UUIDField) and isinstance(value, str):
        try:
            return UUID(value)
        except ValueError:
            pass
    elif isinstance(column, models.CharField | models.TextField):
        if isinstance(value, str) and len(value) <= MOST_TEXT:
            return value
    elif isinstance(column, models.BooleanField):
        if isinstance(value, bool):
            return value
    elif isinstance(column, models.FloatField):
        return shaped(Number, value, column.attname)
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST:
        return value
    raise BadRecord(_("%(field)s cannot be %(value)s") % {"field": column.attname, "value": quote(value)})


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


def shaped(shape: Any, value: Any, name: str) -> Any:
    """Returns the value as it came, if it has this shape. Raises BadRecord."""
    try:
        _adapter(shape).validate_python(value)
    except BadShape as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, (name, *fault["loc"])))[:100]
        raise BadRecord(_("%(field)s has another form than expected") % {"field": place}) from None
    return value


def _check_whole(model: type[models.Model], values: Mapping[str, Any]) -> None:
    """Raises BadRecord for values that cannot stand together."""
    takes_back = values.get("undoes_id") is not None
    if model in (rows.KnowledgeEdit, rows.TopicEdit) and (values["kind"] == "undo") != takes_back:
        raise BadRecord(_("an undo names the change that it takes back, and nothing else does"))
    if model is rows.KnowledgeEdit:
        _check_change(values)
    elif model is rows.Finding:
        _check_finding(values)
    elif model is rows.Suggestion:
        count, reasons = _REASONS[values["kind"]]
        shaped(reasons, values.get("evidence"), "evidence")
        _check_verdict(values["evidence"].get("merger"))
        if len(set(values.get("topics", ()))) != count:
            raise BadRecord(_("%(field)s has another form than expected") % {"field": "topics"})
    elif model is rows.Artifact:
        if not _HASH.fullmatch(values["sha256"]):
            raise BadRecord(_("%(field)s cannot be %(value)s") % {"field": "sha256", "value": quote(values["sha256"])})
        _check_note(values.get("fault_note"))
    elif model is rows.StoredItem:
        shaped(item_bounds.NameOfItem, (values["namespace"], values["key"]), "key")
    elif model is rows.ChatUser and not content.can_fill(values.get("topic_messages"), values.get("session_messages")):
        raise BadRecord(_("A topic cannot need more messages than a session has."))


def _check_verdict(verdict: Mapping[str, Any] | None) -> None:
    if verdict:
        try:
            MergeVerdict(**verdict)
        except TypeError:
            raise BadRecord(_("%(field)s has another form than expected") % {"field": "evidence.merger"}) from None


def _check_note(note: Mapping[str, Any] | None) -> None:
    if note:
        try:
            english([Note(note["code"], note["values"])])
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            raise BadRecord(_("%(field)s has another form than expected") % {"field": "fault_note"}) from None


def _check_finding(values: Mapping[str, Any]) -> None:
    noun = values["noun"]
    if noun not in (rows.KnowledgeEdit.Noun.PERSON, rows.KnowledgeEdit.Noun.FACT):
        raise BadRecord(_("%(field)s cannot be %(value)s") % {"field": "noun", "value": quote(noun)})
    _check_values(noun, values.get("values", {}), knowledge.EDITABLE[noun])


def _check_values(noun: str, values: Mapping[str, Any], names: Any) -> None:
    """Raises BadRecord unless these are values of some of the fields ``names`` of a noun."""
    fields = knowledge.recorded_fields(noun)
    for name, value in values.items():
        if name not in names:
            raise BadRecord(_("%(field)s is no value of a %(kind)s") % {"field": quote(name), "kind": noun})
        value_of(fields[name], value)
        # The history writes times as texts, and an undo reads nothing else.
        if isinstance(fields[name], models.DateTimeField) and value is not None:
            try:
                moment = fields[name].to_python(shaped(Text, value, name))
            except ValidationError as error:
                raise BadRecord(f"{name}: {' '.join(error.messages)}") from None
            if is_naive(moment):
                raise BadRecord(_("%(field)s cannot be %(value)s") % {"field": name, "value": quote(value)})


def _check_change(values: Mapping[str, Any]) -> None:
    """A change records, on both sides, the same rows of its noun, and each of them whole or the same fields."""
    noun, before, after = values["noun"], values["before"], values["after"]
    if not before or before.keys() != after.keys():
        raise BadRecord(_("before and after name different rows"))
    fields = knowledge.recorded_fields(noun)
    for side in (before, after):
        for row in side.values():
            _check_values(noun, row or {}, fields)
    deeds = [_deed(noun, before[key], after[key]) for key in before]
    if not _fits(values["kind"], sorted(deeds)):
        raise BadRecord(_("no change of the kind %(kind)s does that") % {"kind": values["kind"]})


def _deed(noun: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    """What a change does to a row: whether it ``came``, ``stayed`` or is ``gone``."""
    whole = before if after is None else after
    if before is not None and after is not None:
        if before.keys() != after.keys():
            raise BadRecord(_("before and after have different values"))
        return "stayed"
    if whole is None:
        raise BadRecord(_("a row is on neither side"))
    for name, column in knowledge.recorded_fields(noun).items():
        # Fields that came later than the history have a default of the database.
        if name not in whole and not column.null and column.db_default is models.NOT_PROVIDED:
            raise BadRecord(_("%(field)s is missing") % {"field": name})
    return "came" if before is None else "gone"


def _fits(kind: str, deeds: list[str]) -> bool:
    """Whether a change of this kind does these deeds, in the order of the alphabet."""
    kinds = rows.KnowledgeEdit.Kind
    return {
        kinds.CREATE: set(deeds) == {"came"},
        kinds.EDIT: set(deeds) == {"stayed"},
        kinds.DELETE: set(deeds) == {"gone"},
        kinds.MERGE: deeds.count("stayed") == 1 and "came" not in deeds,
        kinds.REPLACE: deeds == ["came", "stayed"],
        kinds.UNDO: True,
    }[kinds(kind)]
