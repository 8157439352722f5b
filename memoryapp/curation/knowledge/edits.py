"""Creates, edits, replaces, deletes and merges people, facts and artifacts; each call is one change in the history."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp.curation.change import CurationError, Stale, check_one_project, check_own, in_effect, too_many_people
from memoryapp.curation.knowledge.writing import (
    MODELS,
    Kind,
    Noun,
    Row,
    Rows,
    Values,
    cleaned,
    labels,
    lock,
    locked,
    make,
    noun_of,
    plain,
    record,
    recorded,
    store,
)
from memoryapp.models import AgentCall, ChatUser, Fact, ImportBatch, KnowledgeEdit, Person, RecallMode

MOST_MERGED = 100


def create(
    owner: ChatUser,
    noun: KnowledgeEdit.Noun,
    values: Values,
    *,
    actor: str,
    reason: str = "",
    call: AgentCall | None = None,
    **fixed: Any,
) -> KnowledgeEdit:
    """Creates a person or fact with ``values``, and ``fixed`` for fields that cannot be edited later. The time of a
    fact is now, unless ``created_at`` says otherwise. ``call`` is the agent's call whose answer this is. Raises
    CurationError."""
    if noun == Noun.ARTIFACT:
        raise CurationError(_("An artifact comes with its file and cannot be written by hand."))
    if noun == Noun.FACT:
        fixed.setdefault("created_at", timezone.now())
    row = MODELS[noun](owner=owner, **{**fixed, **cleaned(owner, noun, values)})
    check_own(row.project)
    return add(row, KnowledgeEdit(owner=owner, actor=actor, reason=reason, call=call))


@transaction.atomic
def add(row: Row, change: KnowledgeEdit) -> KnowledgeEdit:
    """Stores the new ``row`` and the ``change``, which names its author. Raises CurationError."""
    lock(row.owner)
    store(row, is_new=True)
    number = str(row.pk)
    change.kind, change.noun = Kind.CREATE, noun_of(row)
    change.before, change.after = {number: None}, {number: recorded(row)}
    return record(change)


def take_back(owner: ChatUser, batch: ImportBatch, *, actor: str, reason: str = "") -> list[KnowledgeEdit]:
    """Deletes the rows that the import brought, except those that somebody changed since; one change for each noun.
    Each can be undone like any other change; the rows then return under their numbers."""
    lock(owner)
    made = []
    for noun, rows in brought(owner, batch).items():
        before: Rows = {str(row.pk): recorded(row) for row in rows}
        change = KnowledgeEdit(
            owner=owner, kind=Kind.DELETE, noun=noun, before=before, actor=actor, reason=reason, batch=batch
        )
        change.after = dict.fromkeys(before)
        made.append(make(change))
    return made


def brought(owner: ChatUser, batch: ImportBatch) -> dict[str, list[Row]]:
    """The people, facts and artifacts that the import brought and that nobody changed since, by noun."""
    found: dict[str, list[Row]] = {}
    for noun, model in MODELS.items():
        edits = KnowledgeEdit.objects.filter(owner=owner, noun=noun)
        came = _numbers(edits.filter(batch=batch, kind=Kind.CREATE))
        changed = _numbers(edits.exclude(batch=batch)) if came else set()
        rows = model._default_manager.filter(owner=owner, pk__in=[int(number) for number in came - changed])
        if listed := list(rows.order_by("pk")):
            found[noun] = listed
    return found


def _numbers(edits: QuerySet[KnowledgeEdit]) -> set[str]:
    """The numbers of all rows that these changes concern."""
    return {number for after in edits.values_list("after", flat=True).iterator() for number in after}


@transaction.atomic
def replace(
    owner: ChatUser,
    fact: Fact,
    values: Values,
    *,
    actor: str,
    reason: str = "",
    call: AgentCall | None = None,
    **fixed: Any,
) -> KnowledgeEdit:
    """A new fact in place of ``fact``, which is kept as a past fact; the undo makes it current again. The past fact is
    true until the time of the new one, because a talk may be read long after it took place. Raises Stale when ``fact``
    is already a past fact, CurationError for a value that is not allowed."""
    lock(owner)
    [past] = locked(owner, Noun.FACT, [fact.pk])
    if past.superseded_at is not None:
        raise Stale(_("This fact was replaced meanwhile."))
    past.superseded_at = max(fixed.get("created_at") or timezone.now(), past.created_at)
    past.save()
    fixed.setdefault("recall", past.recall)
    fixed.setdefault("project", past.project)
    made = create(owner, Noun.FACT, values, actor=actor, reason=reason, call=call, **fixed)
    made.kind = Kind.REPLACE
    made.before[str(past.pk)] = {"superseded_at": None}
    made.after[str(past.pk)] = {"superseded_at": plain(past.superseded_at)}
    made.save()
    return made


@transaction.atomic
def supersede(
    owner: ChatUser,
    past: Fact,
    by: Fact,
    values: Values,
    *,
    actor: str,
    reason: str = "",
    call: AgentCall | None = None,
) -> KnowledgeEdit:
    """Makes ``past`` a past fact since the time of another one, which is in the memory and gets these ``values``.
    Raises Stale when either is a past fact already, CurationError for a value that is not allowed."""
    lock(owner)
    old, new = locked(owner, Noun.FACT, [past.pk, by.pk])
    if old.superseded_at is not None or new.superseded_at is not None:
        raise Stale(_("This fact was replaced meanwhile."))
    wanted = {name: value for name, value in cleaned(owner, Noun.FACT, values).items() if value != getattr(new, name)}
    if old.recall and not new.recall:
        wanted["recall"] = old.recall
    before: Rows = {str(old.pk): {"superseded_at": None}, str(new.pk): {name: getattr(new, name) for name in wanted}}
    after: Rows = {str(old.pk): {"superseded_at": max(new.created_at, old.created_at)}, str(new.pk): wanted}
    change = KnowledgeEdit(owner=owner, kind=Kind.REPLACE, noun=Noun.FACT, before=before, after=after, call=call)
    change.actor, change.reason = actor, reason
    return make(change)


def number_made(change: KnowledgeEdit) -> int:
    """The number of the row that the change created, by a creation or a replacement."""
    return next(int(number) for number, values in change.before.items() if values is None)


@transaction.atomic
def edit(
    owner: ChatUser,
    row: Row,
    values: Values,
    *,
    seen: Values | None = None,
    actor: str,
    reason: str = "",
    call: AgentCall | None = None,
) -> KnowledgeEdit:
    """The row with other ``values``; ``seen`` are the values that its editor was shown. Raises Stale when it has other
    values by now, CurationError when nothing changes or a value is not allowed."""
    lock(owner)
    noun = noun_of(row)
    [current] = locked(owner, noun, [row.pk])
    changed = [name for name, value in (seen or {}).items() if plain(getattr(current, name)) != plain(value)]
    if changed:
        raise Stale(_("Somebody changed this meanwhile: %(fields)s.") % {"fields": labels(noun, changed)})
    wanted = cleaned(owner, noun, values)
    new = {name: value for name, value in wanted.items() if value != getattr(current, name)}
    if not new:
        raise CurationError(_("Nothing would change."))
    if "project" in new:
        check_own(current.project, new["project"])
    number = str(row.pk)
    before, after = {number: {name: getattr(current, name) for name in new}}, {number: new}
    change = KnowledgeEdit(
        owner=owner, kind=Kind.EDIT, noun=noun, before=before, after=after, actor=actor, reason=reason, call=call
    )
    return make(change)


@transaction.atomic
def move_name(
    owner: ChatUser, name: str, source: Person, target: Person, *, actor: str, reason: str = ""
) -> KnowledgeEdit:
    """Another name or the username of ``source`` becomes that of ``target``; what is its first name stays and is a name
    of both. Raises CurationError."""
    lock(owner)
    old, new = locked(owner, Noun.PERSON, [source.pk, target.pk])
    moved: tuple[Values, Values]
    if name == old.username:
        moved = ({"username": ""}, {"username": name})
    else:
        kept = [each for each in old.aliases if each != name]
        moved = ({"aliases": kept}, cleaned(owner, Noun.PERSON, {"aliases": [*new.aliases, name]}))
    before: Rows = {}
    after: Rows = {}
    for row, values in zip((old, new), moved, strict=True):
        if any(getattr(row, field) != value for field, value in values.items()):
            before[str(row.pk)] = {field: getattr(row, field) for field in values}
            after[str(row.pk)] = dict(values)
    if not after:
        raise CurationError(_("Nothing would change."))
    change = KnowledgeEdit(owner=owner, kind=Kind.EDIT, noun=Noun.PERSON, actor=actor, reason=reason)
    change.before, change.after = before, after
    return make(change)


@transaction.atomic
def delete(owner: ChatUser, row: Row, *, actor: str, reason: str = "") -> KnowledgeEdit:
    """Deletes the row; the undo brings it back under its id. Raises CurationError when it does not exist any more."""
    lock(owner)
    noun, number = noun_of(row), str(row.pk)
    [current] = locked(owner, noun, [row.pk])
    before, after = {number: recorded(current)}, {number: None}
    change = KnowledgeEdit(
        owner=owner, kind=Kind.DELETE, noun=noun, before=before, after=after, actor=actor, reason=reason
    )
    return make(change)


@transaction.atomic
def merge_people(
    owner: ChatUser, survivor: Person, others: Iterable[Person], *, actor: str, reason: str = ""
) -> KnowledgeEdit:
    """Makes one person of several: all names are kept as aliases, mentions are added up, first and last mention
    combined. The survivor's own name, username and circle are kept if they exist. Raises CurationError."""
    ids = list(dict.fromkeys(person.pk for person in others))
    if not ids or survivor.pk in ids:
        raise CurationError(_("A merge needs at least two different people."))
    if len(ids) > MOST_MERGED:
        raise too_many_people(MOST_MERGED)
    lock(owner)
    first, *rest = locked(owner, Noun.PERSON, [survivor.pk, *ids])
    check_one_project(person.project for person in (first, *rest))
    new = {name: value for name, value in merged([first, *rest]).items() if value != plain(getattr(first, name))}
    before: Rows = {str(first.pk): {name: getattr(first, name) for name in new}}
    before |= {str(person.pk): recorded(person) for person in rest}
    after: Rows = {str(first.pk): new, **{str(person.pk): None for person in rest}}
    change = KnowledgeEdit(
        owner=owner, kind=Kind.MERGE, noun=Noun.PERSON, before=before, after=after, actor=actor, reason=reason
    )
    return make(change)


def merged(people: Sequence[Person]) -> dict[str, Any]:
    """The values of the first person when the others become part of it, as JSON values."""
    first = people[0]
    names = [name for person in people for name in (person.display_name, *person.aliases)]
    circles = [person.circle for person in people if person.circle != Person.Circle.OTHER]
    return {
        "aliases": [name for name in dict.fromkeys(names) if name != first.display_name],
        "username": next((person.username for person in people if person.username), ""),
        "circle": next(iter(circles), Person.Circle.OTHER.value),
        "recall": next((mode for mode in ("never", "pinned") if mode in {person.recall for person in people}), ""),
        "bio": "\n".join(dict.fromkeys(person.bio for person in people if person.bio)),
        "mention_count": sum(person.mention_count for person in people),
        "first_seen": plain(min((p.first_seen for p in people if p.first_seen), default=None)),
        "last_seen": plain(max((p.last_seen for p in people if p.last_seen), default=None)),
    }


# Takes merged people apart, at any time after the merge: what was changed since is kept.
#
# The people who became part of another one return as they were. The other one loses the names and lines of biography
# that came with them, and keeps what it had before the merge or got after it.

MOST_MERGES = 50


@dataclass(frozen=True, slots=True)
class PeopleMerge:
    """A merge of people in effect, and the names of those who became part of another person."""

    change: KnowledgeEdit
    names: tuple[str, ...]


def merges_into(person: Person) -> list[PeopleMerge]:
    """Returns the latest merges into the person that are in effect, newest first. Two queries."""
    merges = KnowledgeEdit.objects.filter(owner=person.owner_id, noun=Noun.PERSON, kind=Kind.MERGE)
    found = list(merges.filter(after__has_key=str(person.pk)).order_by("-pk")[:MOST_MERGES])
    stands = in_effect(KnowledgeEdit, person.owner_id, [change.pk for change in found]) if found else {}
    return [PeopleMerge(each, _gone(each)) for each in found if stands[each.pk] and each.after[str(person.pk)]]


def _gone(merge: KnowledgeEdit) -> tuple[str, ...]:
    others = (values for number, values in merge.before.items() if merge.after[number] is None)
    return tuple(str(values["display_name"]) for values in others)


def unmerged_rows(merge: KnowledgeEdit) -> tuple[Rows, Rows] | None:
    """Returns the values of all rows before and after the people are taken apart. None if the change did not merge
    people, if the remaining person is gone, or if one of the others is there again."""
    gone = [number for number, values in merge.after.items() if values is None]
    stays = [number for number, values in merge.after.items() if values is not None]
    if not gone or not stays or not _merged_people(merge):
        return None
    there = Person.objects.filter(owner=merge.owner_id, pk__in=[int(number) for number in merge.after])
    rows = {str(row.pk): row for row in there}
    if list(rows) != stays:
        return None
    [number] = stays
    now = {name: plain(getattr(rows[number], name)) for name in merge.after[number] or {}}
    others = [merge.before[other] or {} for other in gone]
    # Without what the merge added.
    before = merge.before[number] or {}
    after = merge.after[number] or {}
    then = {name: before[name] if value == after[name] else value for name, value in now.items()}
    if "aliases" in now:
        then["aliases"] = _less(now["aliases"], before["aliases"], after["aliases"])
    if "bio" in now:
        then["bio"] = "\n".join(_less(*(values["bio"].split("\n") for values in (now, before, after))))
    if "mention_count" in now:
        then["mention_count"] = max(0, now["mention_count"] - sum(values["mention_count"] for values in others))
    return {number: now, **dict.fromkeys(gone)}, {number: then, **{other: merge.before[other] for other in gone}}


def _merged_people(change: KnowledgeEdit) -> bool:
    """Whether the change merged people: it is a merge, or makes one again."""
    first = change
    while first.undoes is not None:
        first = first.undoes
    return first.kind == Kind.MERGE


def _less(now: Sequence[str], before: Sequence[str], after: Sequence[str]) -> list[str]:
    came = set(after) - set(before)
    return [entry for entry in now if entry not in came]


# What a person decides about the recall of a topic, a person or a fact: it is pinned, never recalled, or neither.
#
# What is pinned is handed over with every recall; what is never recalled enters no candidates, no prompt and no
# context. Each decision is a change in the history, with its reason and its undo.

# What is pinned is sent with every query, so that there is room for little of it.
MOST_PINNED = {Noun.TOPIC: 10, Noun.PERSON: 20, Noun.FACT: 50}
MOST_NEVER = 500


@transaction.atomic
def decide_recall(owner: ChatUser, row: Row, recall: str, *, actor: str, reason: str = "") -> KnowledgeEdit:
    """Pins the row, keeps it from every recall, or, with an empty ``recall``, takes both back. Raises Stale for a topic
    that an edit replaced, CurationError for a past fact, for what can neither be pinned nor forgotten, when nothing
    would change, and when too much is pinned."""
    lock(owner)
    noun = noun_of(row)
    if noun not in MOST_PINNED or recall not in ("", *RecallMode.values):
        raise CurationError(_("Topics, people and facts can be pinned or never recalled, nothing else."))
    [current] = locked(owner, noun, [row.pk])
    if current.recall == recall:
        raise CurationError(_("Nothing would change."))
    if isinstance(current, Fact) and current.superseded_at is not None:
        raise CurationError(_("This is a past fact, which is not recalled."))
    _check_room(owner, noun, recall)
    number = str(row.pk)
    before, after = {number: {"recall": current.recall}}, {number: {"recall": recall}}
    change = KnowledgeEdit(owner=owner, kind=Kind.EDIT, noun=noun, actor=actor, reason=reason)
    change.before, change.after = before, after
    return make(change)


def decided(owner: ChatUser, noun: KnowledgeEdit.Noun) -> QuerySet[Any]:
    """The live topics, the people or the current facts of which somebody decided something, by number."""
    every: QuerySet[Any] = MODELS[noun]._default_manager.filter(owner=owner)
    rows = every.exclude(recall="").order_by("pk")
    if noun == Noun.TOPIC:
        return rows.filter(is_live=True)
    return rows.filter(superseded_at__isnull=True) if noun == Noun.FACT else rows


def _check_room(owner: ChatUser, noun: KnowledgeEdit.Noun, recall: str) -> None:
    most = {"": None, RecallMode.PINNED: MOST_PINNED[noun], RecallMode.NEVER: MOST_NEVER}[recall]
    if most is None or decided(owner, noun).filter(recall=recall).count() < most:
        return
    if recall == RecallMode.PINNED:
        sentence = _("At most %(most)d of these can be pinned in a memory; unpin one of them first.")
    else:
        sentence = _("At most %(most)d of these can be kept from recall in a memory; erase what is not wanted at all.")
    raise CurationError(sentence % {"most": most})
