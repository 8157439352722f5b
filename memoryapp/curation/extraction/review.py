"""The review: a person confirms, edits, rejects or merges findings that wait, and can take a decision back.

A decision is one short transaction: the change of the memory, if there is one, and the finding's new state. The first
decision counts. A decision about a whole answer of the agent gives all its findings the same moment, by which they are
taken back together."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp.curation import CurationError, knowledge
from memoryapp.curation.change import check_one_project
from memoryapp.curation.extraction.findings import ARCHIVIST, last_time
from memoryapp.curation.extraction.people import count_mentions, grown
from memoryapp.engine.sight import into
from memoryapp.models import ChatUser, Fact, Finding, KnowledgeEdit, Person

State = Finding.State
Noun = KnowledgeEdit.Noun


class FindingDecided(CurationError):
    """Somebody has already decided about the finding."""


def waiting(owner: ChatUser, wanted: Q | None = None) -> QuerySet[Finding]:
    """The findings that wait, in the order in which they were found; ``wanted`` narrows them."""
    return Finding.objects.filter(wanted or Q(), owner=owner, state=State.WAITING).order_by("pk")


def next_waiting(owner: ChatUser, after: int = 0, wanted: Q | None = None) -> Finding | None:
    """Returns the next waiting finding after that number; after the last one, the first."""
    rows = waiting(owner, wanted).select_related("topic", "follows")
    return rows.filter(pk__gt=after).first() or rows.first()


def waiting_of_answer(finding: Finding) -> QuerySet[Finding]:
    """The findings that wait from the same answer of the agent as this one; none if no agent's answer is known."""
    rows = waiting(finding.owner)
    return rows.filter(call=finding.call_id) if finding.call_id else rows.none()


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
    found = {name: finding.values.get(name, "") for name in knowledge.EDITABLE[finding.noun]}
    return {**found, "project": _project(finding)}


def _project(finding: Finding) -> str:
    """The project of what is found in a topic."""
    return finding.topic.project if finding.topic else into()


@transaction.atomic
def confirm(
    finding: Finding, *, actor: str, values: Mapping[str, Any] | None = None, keep_both: bool = False
) -> KnowledgeEdit | None:
    """Makes the finding part of the memory; ``values`` are those that the person changed. With ``keep_both`` a fact
    does not replace another one. Returns None if nothing had to change. Raises FindingDecided, CurationError."""
    owner = _lock(finding)
    edit: KnowledgeEdit | None
    row: int | None
    wanted = {"project": _project(finding), **finding.values, **(values or {})}
    target = None if keep_both else target_of(finding)
    authorship: dict[str, Any] = {"actor": actor, "call": finding.call}
    if finding.stored is not None:
        edit, row = _settle(owner, _stored_fact(finding), target, values or {}, authorship), finding.stored
    elif finding.noun == Noun.FACT:
        edit = _confirm_fact(owner, finding, wanted, target, authorship)
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


def _stored_fact(finding: Finding) -> Fact:
    """The fact in the memory that the finding asks about. Raises CurationError when it is past or deleted."""
    found = Fact.objects.current().filter(owner=finding.owner_id, pk=finding.stored or 0).first()
    if found is None:
        raise CurationError(
            _("The new fact is not in the memory any more: somebody deleted or replaced it. Reject it.")
        )
    return found


def _settle(
    owner: ChatUser, fact: Fact, target: Any, values: Mapping[str, Any], authorship: Mapping[str, Any]
) -> KnowledgeEdit | None:
    """The fact, which is in the memory, replaces the target, or both stay."""
    if isinstance(target, Fact) and target.pk != fact.pk:
        return knowledge.supersede(owner, target, fact, values, **authorship)
    return _change(owner, fact, values, authorship)


def _change(
    owner: ChatUser, row: Person | Fact, values: Mapping[str, Any], authorship: Mapping[str, Any]
) -> KnowledgeEdit | None:
    """Gives the row these values; returns None if it has them already."""
    noun = Noun.FACT if isinstance(row, Fact) else Noun.PERSON
    if all(getattr(row, name) == value for name, value in knowledge.cleaned(row.owner, noun, values).items()):
        return None
    return knowledge.edit(owner, row, values, **authorship)


@transaction.atomic
def reject(finding: Finding, *, actor: str) -> None:
    """Marks the finding as wrong, so it is not found again; deletes the fact that it is. Raises FindingDecided."""
    owner = _lock(finding)
    _decide(finding, State.REJECTED, actor, edit=_without(owner, finding, actor))


@transaction.atomic
def reject_answer(finding: Finding, seen: Sequence[int], *, actor: str) -> int:
    """Rejects every finding that waits from the answer of this one, and returns how many; ``seen`` are the numbers of
    those that the person was shown. Raises CurationError when others wait now; then none is rejected."""
    owner = _lock(finding)
    found = list(waiting_of_answer(finding))
    if [each.pk for each in found] != list(seen):
        raise CurationError(_("Meanwhile somebody decided about findings of this answer; look at those that are left."))
    at = timezone.now()
    for each in found:
        _decide(each, State.REJECTED, actor, edit=_without(owner, each, actor), at=at)
    finding.refresh_from_db()
    return len(found)


@transaction.atomic
def reject_answers(owner: ChatUser, calls: Iterable[int | None], *, actor: str) -> None:
    """Rejects, as one decision, every finding that waits from these answers of the agent."""
    knowledge.lock(owner)
    at = timezone.now()
    for each in waiting(owner, Q(call__in=[call for call in calls if call])):
        _decide(each, State.REJECTED, actor, edit=_without(owner, each, actor), at=at)


def _without(owner: ChatUser, finding: Finding, actor: str) -> KnowledgeEdit | None:
    """Deletes the fact in the memory that the finding asks about, if there is one."""
    found = Fact.objects.filter(owner=owner, pk=finding.stored or 0).first()
    return knowledge.delete(owner, found, actor=actor) if found else None


@transaction.atomic
def merge(finding: Finding, number: int, *, actor: str) -> KnowledgeEdit | None:
    """Confirms that the finding is the row ``number``. A person gains the names and biography; a fact keeps its words.
    Returns None if the row needed no change. Raises FindingDecided, CurationError."""
    owner = _lock(finding)
    edit = None
    if finding.noun == Noun.PERSON:
        person = Person.objects.filter(owner=owner, pk=number).first()
        if person is None:
            raise _vanished_error()
        check_one_project((person.project, _project(finding)))
        edit = _change(owner, person, _joined(person, finding.values), {"actor": actor, "call": finding.call})
    elif not Fact.objects.filter(owner=owner, pk=number).exists():
        raise _vanished_error()
    elif number != finding.stored:
        edit = _without(owner, finding, actor)
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
    """Undoes the decision about the finding, and about those decided with it; they wait again. Raises CurationError,
    Depends if later changes need it; then all stay decided."""
    owner = ChatUser.objects.get(pk=finding.owner_id)
    knowledge.lock(owner)
    finding.refresh_from_db()
    if finding.state == State.WAITING or finding.decided_by == ARCHIVIST:
        raise CurationError(_("There is no decision to take back."))
    # The findings of the same decision, this one included, the last change first.
    same = {name: getattr(finding, name) for name in ("owner", "state", "decided_at", "decided_by")}
    for each in Finding.objects.filter(**same).select_related("edit").order_by("-edit_id", "-pk"):
        if each.edit is not None:
            knowledge.undo(owner, each.edit, actor=actor)
        each.state, each.row, each.edit = State.WAITING, None, None
        each.decided_at, each.decided_by = None, ""
        each.save()
    finding.refresh_from_db()


def _lock(finding: Finding) -> ChatUser:
    """Locks the owner's knowledge. Raises FindingDecided."""
    owner = ChatUser.objects.get(pk=finding.owner_id)
    knowledge.lock(owner)
    finding.refresh_from_db()
    if finding.state != State.WAITING:
        raise FindingDecided(_("This was decided already, by %(who)s.") % {"who": finding.decided_by})
    return owner


def _decide(
    finding: Finding,
    state: Finding.State,
    actor: str,
    *,
    row: int | None = None,
    edit: KnowledgeEdit | None = None,
    at: datetime | None = None,
) -> None:
    finding.state, finding.row, finding.edit = state, row, edit
    finding.decided_at, finding.decided_by = at or timezone.now(), actor[:200]
    finding.save()
    if row is not None and finding.noun == Noun.PERSON:
        count_mentions(finding.owner, [row])
