"""The review: a person confirms, edits, rejects or merges findings that wait, and can take a decision back.

A decision is one short transaction: the change of the memory, if there is one, and the finding's new state. The first
decision counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp import knowledge
from memoryapp.curation import CurationError
from memoryapp.extraction.by_hand import ARCHIVIST
from memoryapp.extraction.findings import last_time
from memoryapp.extraction.people import count_mentions, grown
from memoryapp.models import ChatUser, Fact, Finding, KnowledgeEdit, Person

State = Finding.State
Noun = KnowledgeEdit.Noun


class FindingDecided(CurationError):
    """Somebody has already decided about the finding."""


def waiting(owner: ChatUser) -> QuerySet[Finding]:
    """The findings that wait, in the order in which they were found."""
    return Finding.objects.filter(owner=owner, state=State.WAITING).order_by("pk")


def next_waiting(owner: ChatUser, after: int = 0) -> Finding | None:
    """Returns the next waiting finding after that number; after the last one, the first."""
    rows = waiting(owner).select_related("topic", "follows")
    return rows.filter(pk__gt=after).first() or rows.first()


def last_decided(owner: ChatUser, actor: str) -> Finding | None:
    """Returns the finding that this person decided last."""
    decided = Finding.objects.filter(owner=owner, decided_by=actor, decided_at__isnull=False)
    return decided.exclude(state=State.WAITING).order_by("-decided_at", "-pk").first()


def target_of(finding: Finding) -> Fact | Person | None:
    """Returns the row that the finding would change, if it exists and is current."""
    number = finding.target or (finding.follows.row if finding.follows else None) or 0
    if finding.noun == Noun.FACT:
        return Fact.objects.current().filter(owner=finding.owner_id, pk=number).first()
    return Person.objects.filter(owner=finding.owner_id, pk=number).first()


def outcome(finding: Finding, target: Fact | Person | None) -> dict[str, Any]:
    """Returns the row's values after the finding is confirmed as it is, including those that it does not change."""
    if isinstance(target, Person):
        whole = {name: getattr(target, name) for name in knowledge.EDITABLE[finding.noun]}
        return {**whole, **grown(target, finding.values)}
    return {name: finding.values.get(name, "") for name in knowledge.EDITABLE[finding.noun]}


@transaction.atomic
def confirm(
    finding: Finding, *, actor: str, values: Mapping[str, Any] | None = None, keep_both: bool = False
) -> KnowledgeEdit | None:
    """Makes the finding part of the memory; ``values`` are those that the person changed.

    With ``keep_both`` a fact does not replace another one. Returns None if nothing had to change.

    Raises FindingDecided, CurationError.
    """
    owner = _lock(finding)
    wanted = {**finding.values, **(values or {})}
    target = None if keep_both else target_of(finding)
    authorship: dict[str, Any] = {"actor": actor, "call": finding.call}
    if finding.noun == Noun.FACT:
        edit: KnowledgeEdit | None = _confirm_fact(owner, finding, wanted, target, authorship)
        row = knowledge.number_made(edit) if edit else None
    elif isinstance(target, Person):
        edit, row = _change(owner, target, values or grown(target, wanted), authorship), target.pk
    elif "display_name" not in wanted:
        raise CurationError(_("The person this would be added to is gone; reject it, or merge it into another."))
    else:
        edit = knowledge.create(owner, Noun.PERSON, wanted, **authorship)
        row = knowledge.number_made(edit)
    _decide(finding, State.CONFIRMED, actor, row=row, edit=edit)
    return edit


def _confirm_fact(
    owner: ChatUser, finding: Finding, values: Mapping[str, Any], target: Any, authorship: Mapping[str, Any]
) -> KnowledgeEdit:
    more = {**authorship, "topic": finding.topic, "created_at": last_time(finding)}
    if isinstance(target, Fact):
        return knowledge.replace(owner, target, values, **more)
    return knowledge.create(owner, Noun.FACT, values, **more)


def _change(
    owner: ChatUser, row: Person, values: Mapping[str, Any], authorship: Mapping[str, Any]
) -> KnowledgeEdit | None:
    """Gives the row these values; returns None if it has them already."""
    if all(getattr(row, name) == value for name, value in knowledge.cleaned(Noun.PERSON, values).items()):
        return None
    return knowledge.edit(owner, row, values, **authorship)


@transaction.atomic
def reject(finding: Finding, *, actor: str) -> None:
    """Marks the finding as wrong, so it is not found again. Raises FindingDecided."""
    _lock(finding)
    _decide(finding, State.REJECTED, actor)


@transaction.atomic
def merge(finding: Finding, number: int, *, actor: str) -> KnowledgeEdit | None:
    """Confirms that the finding is the row ``number``. A person gains the names and biography; a fact keeps its words.

    Returns None if the row needed no change. Raises FindingDecided, CurationError.
    """
    owner = _lock(finding)
    edit = None
    if finding.noun == Noun.PERSON:
        person = Person.objects.filter(owner=owner, pk=number).first()
        if person is None:
            raise _vanished_error()
        edit = _change(owner, person, _joined(person, finding.values), {"actor": actor, "call": finding.call})
    elif not Fact.objects.filter(owner=owner, pk=number).exists():
        raise _vanished_error()
    _decide(finding, State.CONFIRMED, actor, row=number, edit=edit)
    return edit


def _vanished_error() -> CurationError:
    return CurationError(_("It cannot be merged into that: somebody deleted or merged it."))


def _joined(person: Person, values: Mapping[str, Any]) -> dict[str, Any]:
    names = [name for name in (values.get("display_name"), *values.get("aliases", ())) if name != person.display_name]
    more = {"aliases": [*filter(None, names)], "bio": values.get("bio", "")}
    if not person.username:
        more["username"] = values.get("username", "")
    if person.circle == Person.Circle.OTHER:
        more["circle"] = values.get("circle", person.circle)
    return grown(person, more)


@transaction.atomic
def take_back(finding: Finding, *, actor: str) -> None:
    """Undoes the finding's change; the finding waits again. Raises CurationError, Depends if later changes need it."""
    owner = ChatUser.objects.get(pk=finding.owner_id)
    knowledge.lock(owner)
    finding.refresh_from_db()
    if finding.state == State.WAITING or finding.decided_by == ARCHIVIST:
        raise CurationError(_("There is no decision to take back."))
    if finding.edit is not None:
        knowledge.undo(owner, finding.edit, actor=actor)
    finding.state, finding.row, finding.edit = State.WAITING, None, None
    finding.decided_at, finding.decided_by = None, ""
    finding.save()


def _lock(finding: Finding) -> ChatUser:
    """Locks the owner's knowledge. Raises FindingDecided."""
    owner = ChatUser.objects.get(pk=finding.owner_id)
    knowledge.lock(owner)
    finding.refresh_from_db()
    if finding.state != State.WAITING:
        raise FindingDecided(_("This was decided already, by %(who)s.") % {"who": finding.decided_by})
    return owner


def _decide(
    finding: Finding, state: Finding.State, actor: str, *, row: int | None = None, edit: KnowledgeEdit | None = None
) -> None:
    finding.state, finding.row, finding.edit = state, row, edit
    finding.decided_at, finding.decided_by = timezone.now(), actor[:200]
    finding.save()
    if row is not None and finding.noun == Noun.PERSON:
        count_mentions(finding.owner, [row])
