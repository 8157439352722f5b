"""What expires: rules find rows that are old, never recalled or stale; a batch of them is set aside, and erased when
its grace is over.

Nothing is deleted meanwhile. Messages are withdrawn and facts never recalled, so both are seen but not handed over, and
a person may keep single rows or all of them: they return where they were. What is pinned, answers a golden question, is
under an open miss or was judged never goes. Each step is one transaction, which a lock of the memory keeps from others;
without a rule nothing expires.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp.curation import CurationError
from memoryapp.curation.knowledge.writing import lock as lock_knowledge
from memoryapp.curation.knowledge.writing import make
from memoryapp.curation.undoing import give_back_messages, withdraw_messages
from memoryapp.engine.beside import table_beside
from memoryapp.erasure.cutting import Target
from memoryapp.erasure.lifecycle import begin
from memoryapp.models import (
    ChatUser,
    Deed,
    Door,
    Erasure,
    ExpiringRow,
    ExpiryBatch,
    ExpiryRule,
    Fact,
    KnowledgeEdit,
    Message,
    RecallMode,
)
from memoryapp.platform import database
from memoryapp.platform.audit import entries
from memoryapp.platform.database import log_and_continue
from memoryapp.platform.statements import fetched
from memoryapp.platform.webhooks.announcing import RETENTION_DUE, announce

# Who sets aside and erases in the history, in receipts and in the audit log.
PROGRAM = "expiry"
# Rows of a batch, all of which are handled in one transaction.
AT_ONCE = 1_000
MOST_SHOWN = 20
MOST_RECENT = 6
AGAIN = timedelta(hours=1)
Noun, State = ExpiryRule.Noun, ExpiryBatch.State

_SQL = table_beside(__file__)
_CHANGED: Mapping[str, str] = {noun: _SQL["changed"].format(noun=noun) for noun in ("fact", "topic")}
_TOUCHED: Mapping[str, str] = {
    "fact": _SQL["touched_fact"].format(used_fact=_SQL["used_fact"], changed=_CHANGED["fact"]),
    "topic": _SQL["touched_topic"].format(changed=_CHANGED["topic"]),
}
_PARTS = ", ".join(_SQL[name] for name in ("recalled", "said", "evidence"))
_FACT: str = _SQL["fact"].format(used_fact=_SQL["used_fact"], touched_fact=_TOUCHED["fact"])
_FOUND: Mapping[str, str] = {
    noun: f"{statement} AND {_SQL['free'].format(number=number)}"
    for noun, statement, number in (
        (Noun.MESSAGE, _SQL["message"], "m.id"),
        (Noun.FACT, _FACT, "f.id"),
        (Noun.RUN, _SQL["run"], "r.id"),
        (Noun.TRACE, _SQL["run"], "r.id"),
        (Noun.MEDIA, _SQL["media"], "m.id"),
    )
}


@dataclass(frozen=True, slots=True)
class ExpiringNow:
    owner: int
    number: str
    at: datetime
    kind: str


@dataclass(frozen=True, slots=True)
class ExpiryRehearsal:
    """What a rule would set aside now: how many rows of each kind, the ``first`` of them, the oldest before the others;
    ``shields`` counts those that are old enough and never go, by what protects them."""

    kinds: Counter[str]
    shields: Counter[str]
    first: Sequence[ExpiringNow]

    @property
    def total(self) -> int:
        return self.kinds.total()


def fits(noun: str, condition: str) -> bool:
    """Whether that is known of such rows."""
    known = {"unrecalled": (Noun.MESSAGE, Noun.FACT), "stale": (Noun.FACT,)}
    return noun in known.get(condition, (noun,))


def rehearse(rule: ExpiryRule) -> ExpiryRehearsal:
    """Reads only; the rule need not be stored. Two queries, whatever it finds."""
    owners = [rule.owner_id] if rule.owner_id else list(ChatUser.objects.values_list("pk", flat=True))
    kinds, shields = Counter[str](), Counter[str]()
    for kind, shield, count in _found(rule, owners, "counted"):
        (shields if shield else kinds)[shield or kind] += count
    return ExpiryRehearsal(kinds, shields, _first(rule, owners, MOST_SHOWN))


def _first(rule: ExpiryRule, owners: Sequence[int], most: int, batch: int | None = None) -> list[ExpiringNow]:
    return [ExpiringNow(*row) for row in _found(rule, owners, "first", batch=batch, most=most)]


def _found(rule: ExpiryRule, owners: Sequence[int], statement: str, **values: Any) -> list[tuple[Any, ...]]:
    asked: dict[str, Any] = {name: str(getattr(rule, name)) for name in ("noun", "kind", "condition")}
    before = timezone.now() - timedelta(days=rule.days)
    asked |= {"owners": list(owners), "rule": rule.pk, "before": before, "since": "-infinity", "program": PROGRAM}
    return fetched(_SQL[statement].format(parts=_PARTS, found=_FOUND[rule.noun]), {"batch": None, **asked, **values})


def lately(owner: ChatUser, noun: str, since: datetime) -> dict[int, datetime]:
    """The facts or topics that were recalled, changed, confirmed or made since then, with the last time of that; the
    others are stale."""
    parts = {name: _SQL[name] for name in ("recalled", "said")}
    statement = _SQL["lately"].format(**parts, touched=_TOUCHED[noun])
    return dict(fetched(statement, {"owners": [owner.pk], "since": since, "program": PROGRAM}))


def due_rules() -> QuerySet[ExpiryRule]:
    """Rules that are on and were not applied for an hour."""
    late = Q(checked_at__isnull=True) | ~database.lease_holds("checked_at", AGAIN)
    return ExpiryRule.objects.filter(late, is_on=True).order_by(F("checked_at").asc(nulls_first=True), "pk")


def due_batches() -> QuerySet[ExpiryBatch]:
    rows = ExpiryBatch.objects.filter(state=State.ASIDE, due_at__lte=timezone.now(), owner__erasing_since__isnull=True)
    return rows.select_related("rule", "owner").order_by("due_at", "pk")


def apply(rule: ExpiryRule, is_enough: Callable[[], bool] = lambda: False) -> None:
    """Sets aside all that the rule finds, memory by memory; a fault in one stops no other. What is not done when it is
    enough, the next time does."""
    owners = ChatUser.objects.filter(pk=rule.owner_id) if rule.owner_id else ChatUser.objects.all()
    for owner in list(owners.order_by("pk")):
        with log_and_continue("What expires of memory %s is not set aside.", owner.pk):
            while set_aside(rule, owner):
                if is_enough():
                    return
    ExpiryRule.objects.filter(pk=rule.pk).update(checked_at=timezone.now())


@transaction.atomic
def set_aside(rule: ExpiryRule, owner: ChatUser) -> ExpiryBatch | None:
    """Sets aside the oldest rows that the rule finds in the memory; None when there are none, or it is off by now."""
    database.acquire_until_commit(PROGRAM, owner.pk)
    is_on = ExpiryRule.objects.filter(pk=rule.pk, is_on=True).select_for_update(no_key=True).exists()
    numbers = [row.number for row in _first(rule, [owner.pk], AT_ONCE)] if is_on else []
    if not numbers:
        return None
    due_at = timezone.now() + timedelta(days=rule.grace_days)
    batch = ExpiryBatch.objects.create(owner=owner, rule=rule, count=len(numbers), due_at=due_at)
    rows = [ExpiringRow(owner=owner, batch=batch, number=number) for number in numbers]
    if rule.noun == Noun.FACT:
        lock_knowledge(owner)
        recalls = dict(Fact.objects.filter(owner=owner, pk__in=numbers).values_list("pk", "recall"))
        for row in rows:
            row.former = recalls[int(row.number)]
        _recall(batch, {fact: (recall, "never") for fact, recall in recalls.items()}, PROGRAM)
    elif rule.noun == Noun.MESSAGE:
        _withdraw(batch, map(int, numbers))
    ExpiringRow.objects.bulk_create(rows)
    _tell(batch, Deed.CHANGE)
    return batch


@transaction.atomic
def keep(batch: ExpiryBatch, numbers: Iterable[str] | None = None, *, actor: str) -> int:
    """Brings back these rows, or all that are still set aside, and keeps them from the rule for good; returns how many.

    Raises CurationError when the batch is gone or was kept.
    """
    database.acquire_until_commit(PROGRAM, batch.owner_id)
    batch.refresh_from_db()
    if batch.state != State.ASIDE:
        raise CurationError(_("This batch is not set aside any more: nothing can be brought back."))
    aside = batch.rows.filter(kept_by="")
    kept = list(aside if numbers is None else aside.filter(number__in=list(numbers)))
    pks = [row.pk for row in kept]
    if batch.rule.noun == Noun.FACT:
        lock_knowledge(batch.owner)
        former = {int(row.number): row.former for row in kept}
        never = Fact.objects.filter(owner=batch.owner_id, pk__in=former, recall=RecallMode.NEVER)
        _recall(batch, {fact: ("never", former[fact]) for fact in never.values_list("pk", flat=True)}, actor)
    elif batch.rule.noun == Noun.MESSAGE and kept:
        _bring_back(batch, kept, actor)
    batch.rows.filter(pk__in=pks).update(kept_by=actor[:200])
    if not aside.all().exists():
        batch.state, batch.ended_at, batch.ended_by = State.KEPT, timezone.now(), actor[:200]
        batch.save(update_fields=["state", "ended_at", "ended_by"])
    return len(kept)


def _bring_back(batch: ExpiryBatch, kept: Sequence[ExpiringRow], actor: str) -> None:
    """The messages return to their topics; where later edits forbid that, they wait to be archived again."""
    back = _withdrawn(batch, kept)
    rest = _withdrawn(batch, batch.rows.filter(kept_by="").exclude(pk__in=[row.pk for row in kept]))
    if not back:
        return
    try:
        with transaction.atomic():
            edit, batch.edit = batch.edit, None
            batch.save(update_fields=["edit"])
            give_back_messages(batch.owner, edit, [*back, *rest], actor=actor)
            if rest:
                _withdraw(batch, rest)
    except CurationError:
        batch.refresh_from_db()
        give_back_messages(batch.owner, None, back, actor=actor)


@transaction.atomic
def erase(batch: ExpiryBatch) -> Erasure | None:
    """Ends the grace of the batch: what is still set aside is erased, with a receipt; the worker carries it out. What
    somebody brought back, or what may not go by now, is kept."""
    database.acquire_until_commit(PROGRAM, batch.owner_id)
    batch.refresh_from_db()
    if batch.state != State.ASIDE:
        return batch.receipt
    rule, owner = batch.rule, batch.owner
    doomed = [row.number for row in _first(rule, [owner.pk], batch.count, batch.pk)]
    stays = batch.rows.filter(kept_by="").exclude(number__in=doomed)
    if stays.exists():
        keep(batch, list(stays.values_list("number", flat=True)), actor=PROGRAM)
    if doomed:
        messages = tuple(map(int, doomed)) if rule.noun == Noun.MESSAGE else ()
        others = {} if messages else {"run" if rule.noun == Noun.TRACE else rule.noun: doomed}
        target = Target(owner.pk, messages, others=others, kind=Erasure.Kind.EXPIRED)
        batch.receipt = begin(target, f"{rule.made_by}, {PROGRAM} {rule.pk}")
        batch.state, batch.ended_at, batch.ended_by = State.GONE, timezone.now(), PROGRAM
        batch.save(update_fields=["state", "ended_at", "ended_by", "receipt"])
        _tell(batch, Deed.ERASE)
    return batch.receipt


def _withdraw(batch: ExpiryBatch, numbers: Iterable[int]) -> None:
    reason = _("rule %(number)d of what expires") % {"number": batch.rule_id}
    batch.edit = withdraw_messages(batch.owner, list(numbers), actor=PROGRAM, reason=reason)
    batch.save(update_fields=["edit"])


def _withdrawn(batch: ExpiryBatch, rows: Iterable[ExpiringRow]) -> list[int]:
    """Those of the messages that are still withdrawn."""
    numbers = [int(row.number) for row in rows]
    found = Message.objects.of(batch.owner_id).filter(pk__in=numbers, is_withdrawn=True)
    return list(found.values_list("pk", flat=True))


def _recall(batch: ExpiryBatch, recalls: Mapping[int, tuple[str, str]], actor: str) -> None:
    """Gives the facts, by number, another way of recall, as one change; of each the former and the new one."""
    sides = [{str(number): {"recall": each[side]} for number, each in recalls.items()} for side in (0, 1)]
    change = KnowledgeEdit(owner=batch.owner, kind=KnowledgeEdit.Kind.EDIT, noun=KnowledgeEdit.Noun.FACT, actor=actor)
    change.before, change.after = sides
    change.reason = _("rule %(number)d of what expires") % {"number": batch.rule_id}
    if recalls:
        make(change)


def _tell(batch: ExpiryBatch, deed: Deed) -> None:
    """Announces the batch to webhooks and writes it into the audit log, in the transaction of what happened."""
    announce(RETENTION_DUE, owner=batch.owner_id, subject=str(batch.pk))
    entries.begin(PROGRAM, Door.COMMAND, deed, f"{batch.rule.noun} rule {batch.rule_id} batch {batch.pk}")
    entries.saw(batch.owner_id)


def recent_batches(owners: QuerySet[ChatUser]) -> QuerySet[ExpiryBatch]:
    """What is set aside, and what went within a week."""
    lately = Q(state=State.ASIDE) | Q(state=State.GONE, ended_at__gte=timezone.now() - timedelta(days=7))
    return ExpiryBatch.objects.filter(lately, owner__in=owners).select_related("owner", "rule")[:MOST_RECENT]


def note_going(owner: ChatUser | None, nouns: Sequence[str], rows: Iterable[Any]) -> None:
    """Gives each of the rows that is set aside its batch, as ``going``. One query."""
    listed = {str(row.pk): row for row in rows}
    aside = ExpiringRow.objects.filter(
        kept_by="", number__in=list(listed), batch__state=State.ASIDE, batch__rule__noun__in=nouns
    )
    for each in (aside.filter(owner=owner) if owner else aside).select_related("batch"):
        listed[each.number].going = each.batch
