"""People, facts and artifacts changed by hand, with history and undo.

A change is what rows said before and what they say after, by id: of a row that stays only the fields that change,
of one that comes or goes all of them. Undo is the same with the sides exchanged, and is refused where the rows do
not say any more what the change left behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp import advisory
from memoryapp.chains import chains, flipped_by
from memoryapp.curation.bounds import too_long_a_list, too_many_people
from memoryapp.curation.change import MOST_REASON_CHARS, CurationError, Depends, Stale
from memoryapp.models import Artifact, ChatUser, Fact, KnowledgeEdit, Person

Kind, Noun = KnowledgeEdit.Kind, KnowledgeEdit.Noun
Row = Person | Fact | Artifact
Values = Mapping[str, Any]
Rows = dict[str, dict[str, Any] | None]

MODELS: Mapping[str, type[Row]] = {Noun.PERSON: Person, Noun.FACT: Fact, Noun.ARTIFACT: Artifact}
EDITABLE: Mapping[str, tuple[str, ...]] = {
    Noun.PERSON: ("display_name", "aliases", "username", "circle", "bio"),
    Noun.FACT: ("relation", "category", "content", "type", "importance"),
    Noun.ARTIFACT: ("name", "summary", "keywords", "entities", "rag_hints"),
}
LISTS = ("aliases", "keywords", "entities", "rag_hints")
MOST_ENTRIES = 200
MOST_ENTRY_CHARS = 300
MOST_MERGED = 100
MOST_CHANGES = 500
# Rows come and go, and what they say is theirs; when they were last touched is nobody's change.
UNRECORDED = ("id", "owner", "updated_at")


def create(
    owner: ChatUser, noun: KnowledgeEdit.Noun, values: Values, *, actor: str, reason: str = "", **fixed: Any
) -> KnowledgeEdit:
    """A new person or fact with ``values``, and ``fixed`` for what cannot be edited later.

    A fact is created now unless ``created_at`` says otherwise. Raises CurationError.
    """
    if noun == Noun.ARTIFACT:
        raise CurationError(_("An artifact comes with its file and cannot be written by hand."))
    if noun == Noun.FACT:
        fixed.setdefault("created_at", timezone.now())
    row = MODELS[noun](owner=owner, **cleaned(noun, values), **fixed)
    with transaction.atomic():
        _alone_with(owner)
        _check(row)
        row.save(force_insert=True)
        return _noted(owner, Kind.CREATE, noun, {str(row.pk): None}, {str(row.pk): _all(row)}, actor, reason)


@transaction.atomic
def edit(
    owner: ChatUser, row: Row, values: Values, *, seen: Values | None = None, actor: str, reason: str = ""
) -> KnowledgeEdit:
    """The row with other ``values``; ``seen`` is what its editor was shown of it.

    Raises Stale when it says something else by now, CurationError when nothing changes or a value cannot be.
    """
    _alone_with(owner)
    noun = _noun(row)
    [current] = _locked(owner, noun, [row.pk])
    changed = [name for name, value in (seen or {}).items() if _plain(getattr(current, name)) != _plain(value)]
    if changed:
        raise Stale(_("Somebody changed this meanwhile: %(fields)s.") % {"fields": _names(noun, changed)})
    wanted = cleaned(noun, values)
    after = {name: value for name, value in wanted.items() if value != getattr(current, name)}
    if not after:
        raise CurationError(_("Nothing would change."))
    before = {name: getattr(current, name) for name in after}
    return _made(owner, Kind.EDIT, noun, {str(row.pk): before}, {str(row.pk): after}, actor, reason)


@transaction.atomic
def delete(owner: ChatUser, row: Row, *, actor: str, reason: str = "") -> KnowledgeEdit:
    """The row goes; its undo brings it back under its id. Raises CurationError when it is gone already."""
    _alone_with(owner)
    noun = _noun(row)
    [current] = _locked(owner, noun, [row.pk])
    return _made(owner, Kind.DELETE, noun, {str(row.pk): _all(current)}, {str(row.pk): None}, actor, reason)


@transaction.atomic
def merge_people(
    owner: ChatUser, survivor: Person, others: Iterable[Person], *, actor: str, reason: str = ""
) -> KnowledgeEdit:
    """One person of several: all names kept as aliases, mentions added up, seen from the first to the last time.

    The survivor's own name, username and circle stay where there are any. Raises CurationError.
    """
    ids = list(dict.fromkeys(person.pk for person in others))
    if not ids or survivor.pk in ids:
        raise CurationError(_("A merge needs at least two different people."))
    if len(ids) > MOST_MERGED:
        raise too_many_people(MOST_MERGED)
    _alone_with(owner)
    first, *rest = _locked(owner, Noun.PERSON, [survivor.pk, *ids])
    whole = merged([first, *rest])
    after = {name: value for name, value in whole.items() if value != _plain(getattr(first, name))}
    before: Rows = {str(first.pk): {name: _plain(getattr(first, name)) for name in after}}
    before |= {str(person.pk): _all(person) for person in rest}
    gone: Rows = {str(person.pk): None for person in rest}
    return _made(owner, Kind.MERGE, Noun.PERSON, before, {str(first.pk): after, **gone}, actor, reason)


@transaction.atomic
def undo(owner: ChatUser, change: KnowledgeEdit, *, actor: str, reason: str = "") -> KnowledgeEdit:
    """Takes the change back; the undo of an undo makes it again.

    Raises Depends when later changes by hand stand in the way, CurationError when something else does.
    """
    _alone_with(owner)
    last = _last(owner, change)
    noun = Noun(last.noun)
    try:
        _apply(owner, noun, last.after, last.before)
    except Stale as error:
        later = _later(last)
        raise (Depends(_("Later changes of the same have to be undone first."), later) if later else error) from error
    return _noted(owner, Kind.UNDO, noun, last.after, last.before, actor, reason, last)


def dependents(change: KnowledgeEdit) -> list[KnowledgeEdit]:
    """The later changes that have to be undone before this one, newest first; empty when none stands in the way."""
    last = _chain(change.owner_id, change)[-1]
    if _is_as(last.owner_id, Noun(last.noun), last.after):
        return []
    found: dict[int, KnowledgeEdit] = {}
    edge = [last]
    while edge:
        edge = [later for one in edge for later in _later(one) if later.pk not in found]
        found |= {later.pk: later for later in edge}
    return sorted(found.values(), key=lambda later: -later.pk)


@transaction.atomic
def undo_with_dependents(
    owner: ChatUser, change: KnowledgeEdit, *, actor: str, reason: str = ""
) -> list[KnowledgeEdit]:
    """Undoes what stands on the change, newest first, and then the change: all of it or nothing."""
    _alone_with(owner)
    made = [undo(owner, later, actor=actor, reason=reason) for later in dependents(change)]
    return [*made, undo(owner, change, actor=actor, reason=reason)]


@transaction.atomic
def undo_between(
    owner: ChatUser, by: str, since: datetime, until: datetime, *, actor: str, reason: str = ""
) -> list[KnowledgeEdit]:
    """Takes back what ``by`` changed from ``since`` until before ``until``, newest first: all of it or nothing.

    Raises Depends with the changes of others, or of another time, that stand on theirs, CurationError when there
    is nothing to undo or too much.
    """
    _alone_with(owner)
    lasts, blocking = standing_between(owner, by, since, until)
    if not lasts:
        raise CurationError(_("There is nothing of theirs to undo in that time."))
    if blocking:
        raise Depends(_("Later changes of the same have to be undone first."), blocking)
    return [undo(owner, last, actor=actor, reason=reason) for last in lasts]


def standing_between(
    owner: ChatUser, by: str, since: datetime, until: datetime
) -> tuple[list[KnowledgeEdit], list[KnowledgeEdit]]:
    """What ``undo_between`` would undo, and which changes stand in its way, both newest first; it reads only."""
    changes = KnowledgeEdit.objects.filter(owner=owner, actor=by, at__gte=since, at__lt=until)
    ids = set(changes.order_by("-pk").values_list("pk", flat=True)[: MOST_CHANGES + 1])
    if len(ids) > MOST_CHANGES:
        raise CurationError(_("More than %(most)d changes would have to be undone together.") % {"most": MOST_CHANGES})
    ends = [chain[-1] for chain in chains(KnowledgeEdit, owner.pk, ids) if flipped_by(chain, ids)]
    lasts = list(KnowledgeEdit.objects.filter(pk__in=ends).order_by("-pk"))
    standing = {later.pk: later for last in lasts for later in _later(last) if later not in lasts}
    return lasts, [standing[number] for number in sorted(standing, reverse=True)]


def _last(owner: ChatUser, change: KnowledgeEdit) -> KnowledgeEdit:
    """The end of the chain of undos and redos that ``change`` is in. Raises CurationError when it is taken back."""
    found = _chain(owner.pk, change)
    if not found:
        raise CurationError(_("There is no such edit in this memory."))
    if (len(found) - found.index(change)) % 2 == 0:
        raise CurationError(_("This change is undone already."))
    return found[-1]


def _chain(owner_id: int, change: KnowledgeEdit) -> list[KnowledgeEdit]:
    ids = next(iter(chains(KnowledgeEdit, owner_id, [change.pk])), ())
    found = KnowledgeEdit.objects.in_bulk(ids)
    return [found[number] for number in ids]


def _later(change: KnowledgeEdit) -> list[KnowledgeEdit]:
    """Later changes of the same that stand, newest first; one that was undone stands no more, nor does its undo."""
    same = models.Q()
    for number in change.after:
        same |= models.Q(after__has_key=number)
    edits = KnowledgeEdit.objects.filter(same, owner=change.owner_id, noun=change.noun, pk__gt=change.pk)
    ends = [
        edit for edit in edits.filter(knowledgeedit__isnull=True).order_by("-pk")[:MOST_CHANGES] if _meet(change, edit)
    ]
    standing = {chain[-1] for chain in chains(KnowledgeEdit, change.owner_id, [e.pk for e in ends]) if len(chain) % 2}
    return [edit for edit in ends if edit.pk in standing]


def _meet(one: KnowledgeEdit, other: KnowledgeEdit) -> bool:
    """Whether both change a row's same field; who comes or goes changes all of them."""
    shared = set(one.after) & set(other.after)
    return any(
        any(said is None for said in sides) or set(one.after[number]) & set(other.after[number])
        for number in shared
        for sides in [(one.before[number], one.after[number], other.before[number], other.after[number])]
    )


def _is_as(owner_id: int, noun: KnowledgeEdit.Noun, said: Rows) -> bool:
    """Whether the rows say this today."""
    rows = MODELS[noun]._default_manager.filter(owner=owner_id, pk__in=[int(number) for number in said])
    found = {str(row.pk): row for row in rows}
    return all(_says(found.get(number), values) for number, values in said.items())


def _made(
    owner: ChatUser,
    kind: KnowledgeEdit.Kind,
    noun: KnowledgeEdit.Noun,
    before: Rows,
    after: Rows,
    actor: str,
    reason: str,
) -> KnowledgeEdit:
    before, after = _json(before), _json(after)
    _apply(owner, noun, before, after)
    return _noted(owner, kind, noun, before, after, actor, reason)


def _noted(
    owner: ChatUser,
    kind: KnowledgeEdit.Kind,
    noun: KnowledgeEdit.Noun,
    before: Rows,
    after: Rows,
    actor: str,
    reason: str,
    undoes: KnowledgeEdit | None = None,
) -> KnowledgeEdit:
    if len(reason) > MOST_REASON_CHARS:
        raise CurationError(_("The reason is too long."))
    return KnowledgeEdit.objects.create(
        owner=owner, kind=kind, noun=noun, before=before, after=after, actor=actor, reason=reason, undoes=undoes
    )


def _apply(owner: ChatUser, noun: KnowledgeEdit.Noun, before: Rows, after: Rows) -> None:
    """Rows that say ``before`` made to say ``after``. Raises Stale when they say something else."""
    found = {str(row.pk): row for row in _rows(owner, noun, before)}
    if any(not _says(found.get(number), said) for number, said in before.items()):
        raise Stale(_("Somebody changed this meanwhile, so it cannot be changed back."))
    # What goes frees the names that others take.
    for number, row in found.items():
        if after[number] is None:
            row.delete()
    for number, row in found.items():
        if (values := after[number]) is not None:
            _save(row, values)
    for number in sorted(set(after) - set(found), key=int):
        _save(MODELS[noun](pk=int(number), owner=owner), after[number] or {})


def _save(row: Row, values: Values) -> None:
    for name, value in values.items():
        setattr(row, name, _field(row, name).to_python(value))
    _check(row)
    row.save()


def _says(row: Row | None, said: Values | None) -> bool:
    if row is None or said is None:
        return row is None and said is None
    return all(_plain(getattr(row, name)) == value for name, value in said.items())


def _alone_with(owner: ChatUser) -> None:
    advisory.take_until_commit("knowledge", owner.pk)


def _rows(owner: ChatUser, noun: KnowledgeEdit.Noun, ids: Iterable[int | str]) -> Sequence[Row]:
    rows = MODELS[noun]._default_manager.filter(owner=owner, pk__in=[int(number) for number in ids])
    return list(rows.order_by("pk").select_for_update(no_key=True))


def _locked(owner: ChatUser, noun: KnowledgeEdit.Noun, ids: Sequence[int]) -> list[Any]:
    """The rows in the order of ``ids``. Raises CurationError for one that is gone or another owner's."""
    found = {row.pk: row for row in _rows(owner, noun, ids)}
    if len(found) != len(ids):
        raise CurationError(_("It is gone: somebody deleted or merged it, or it is of another memory."))
    return [found[number] for number in ids]


def _noun(row: Row) -> KnowledgeEdit.Noun:
    return next(Noun(noun) for noun, model in MODELS.items() if isinstance(row, model))


def cleaned(noun: KnowledgeEdit.Noun, values: Values) -> dict[str, Any]:
    """Trimmed, lists without blanks and repetitions. Raises CurationError."""
    strange = sorted(set(values) - set(EDITABLE[noun]))
    if strange:
        raise CurationError(_("%(field)s cannot be edited.") % {"field": strange[0]})
    return {name: _entries(value) if name in LISTS else _trimmed(value) for name, value in values.items()}


def _trimmed(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _entries(value: Any) -> list[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
        raise CurationError(_("This has to be a list of texts."))
    entries = list(dict.fromkeys(entry.strip() for entry in value if entry.strip()))
    if len(entries) > MOST_ENTRIES or any(len(entry) > MOST_ENTRY_CHARS for entry in entries):
        raise too_long_a_list(MOST_ENTRIES, MOST_ENTRY_CHARS)
    return entries


def _check(row: Row) -> None:
    """Raises CurationError for a name that is taken, or a value the row cannot have."""
    if isinstance(row, Person) and _others(row, Person, display_name=row.display_name):
        raise CurationError(_("There is a person named %(name)s already.") % {"name": row.display_name})
    if isinstance(row, Fact) and _others(row, Fact, relation=row.relation, content=row.content):
        raise CurationError(_("There is such a fact already."))
    try:
        row.full_clean(exclude=["owner"], validate_unique=False, validate_constraints=True)
    except ValidationError as error:
        sentences = [
            f"{_names(_noun(row), [name])}: {' '.join(found)}" if name != "__all__" else " ".join(found)
            for name, found in error.message_dict.items()
        ]
        raise CurationError(" ".join(sentences)) from error


def _others(row: Row, model: type[Row], **values: str) -> bool:
    return model._default_manager.filter(owner=row.owner_id, **values).exclude(pk=row.pk).exists()


def _field(row: Row | type[Row], name: str) -> models.Field[Any, Any]:
    """Its field of that name; a row's own, never one that leads here from elsewhere."""
    return next(field for field in row._meta.concrete_fields if name in (field.name, field.attname))


def _names(noun: KnowledgeEdit.Noun, fields: Iterable[str]) -> str:
    return ", ".join(str(_field(MODELS[noun], name).verbose_name) for name in fields)


def merged(people: Sequence[Person]) -> dict[str, Any]:
    """What the first of the people says when the others become part of them, in plain values."""
    first = people[0]
    names = [name for person in people for name in (person.display_name, *person.aliases)]
    circles = [person.circle for person in people if person.circle != Person.Circle.OTHER]
    return {
        "aliases": [name for name in dict.fromkeys(names) if name != first.display_name],
        "username": next((person.username for person in people if person.username), ""),
        "circle": next(iter(circles), Person.Circle.OTHER.value),
        "bio": "\n".join(dict.fromkeys(person.bio for person in people if person.bio)),
        "mention_count": sum(person.mention_count for person in people),
        "first_seen": _plain(min((p.first_seen for p in people if p.first_seen), default=None)),
        "last_seen": _plain(max((p.last_seen for p in people if p.last_seen), default=None)),
    }


def _all(row: Row) -> dict[str, Any]:
    """Everything the row says, in plain values."""
    fields = [field for field in row._meta.concrete_fields if field.name not in UNRECORDED]
    return {field.attname: _plain(getattr(row, field.attname)) for field in fields}


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _json(rows: Rows) -> Rows:
    return {
        number: None if said is None else {name: _plain(value) for name, value in said.items()}
        for number, said in rows.items()
    }
