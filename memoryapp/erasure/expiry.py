"""What expires: rules find rows that are old, never recalled or stale; a batch of them is set aside, and erased when
its grace is over.

Nothing is deleted meanwhile. Messages are withdrawn and facts never recalled, so both are seen but not handed over, and
a person may keep single rows or all of them: they return where they were. What is pinned, answers a golden question, is
under an open miss or was judged never goes. Each step is one transaction, which a lock of the memory keeps from others.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Count, F, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp.curation import CurationError
from memoryapp.curation.knowledge.writing import lock as lock_knowledge
from memoryapp.curation.knowledge.writing import make
from memoryapp.curation.undoing import give_back_messages, withdraw_messages
from memoryapp.engine.beside import table_beside
from memoryapp.engine.cells import within
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
from memoryapp.platform import cells, database
from memoryapp.platform.audit import entries
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

_SQL: dict[str, str] = {}
for _name, _text in table_beside(__file__).items():
    _SQL[_name] = _text.format(**_SQL)


class ExpiringNow(NamedTuple):
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


def rehearse(rule: ExpiryRule) -> ExpiryRehearsal:
    """Reads only; the rule need not be stored. Two queries, whatever it finds."""
    owners = [rule.owner_id] if rule.owner_id else list(ChatUser.objects.values_list("pk", flat=True))
    kinds, shields = Counter[str](), Counter[str]()
    for kind, shield, count in _found(rule, owners, "counted"):
        (shields if shield else kinds)[shield or kind] += count
    return ExpiryRehearsal(kinds, shields, _first(rule, owners, MOST_SHOWN))


def _first(rule: ExpiryRule, owners: Sequence[int], most: int, batch: int | None = None) -> list[ExpiringNow]:
    return [ExpiringNow(*row) for row in _found(rule, owners, "first", batch=batch, most=most)]


@cells.everywhere()
def _found(rule: ExpiryRule, owners: Sequence[int], statement: str, **values: Any) -> list[tuple[Any, ...]]:
    before = timezone.now() - timedelta(days=rule.days)
    asked = {"kind": rule.kind, "condition": rule.condition, "rule": rule.pk, "before": before, "batch": None, **values}
    return _asked(rule.noun, statement, noun=rule.noun, owners=list(owners), since="-infinity", **asked)


def _asked(found: str, statement: str, **values: Any) -> list[tuple[Any, ...]]:
    text = f"WITH {_SQL['parts']}, found AS ({_SQL[found]}) {_SQL[statement]}"
    return fetched(text, {"program": PROGRAM, **values})


def lately(owner: ChatUser, noun: str, since: datetime) -> dict[int, datetime]:
    """The facts or topics that were recalled, changed, confirmed or made since then, with the last time of that; the
    others are stale."""
    return dict(_asked(f"touched_{noun}", "lately", noun=noun, owners=[owner.pk], since=since))


def due_rules() -> QuerySet[ExpiryRule]:
    """Rules that are on and were not applied for an hour."""
    late = Q(checked_at__isnull=True) | ~database.lease_holds("checked_at", AGAIN)
    return ExpiryRule.objects.filter(late, is_on=True).order_by(F("checked_at").asc(nulls_first=True), "pk")


def due_batches() -> QuerySet[ExpiryBatch]:
    rows = ExpiryBatch.objects.filter(state=State.ASIDE, due_at__lte=timezone.now(), owner__erasing_since__isnull=True)
    return rows.select_related("rule", "owner").order_by("due_at", "pk")


def apply(rule: ExpiryRule, is_enough: Callable[[], bool]) -> None:
    """Sets aside all that the rule finds, memory by memory; a fault in one stops no other. What is not done when it is
    enough, the next time does."""
    owners = ChatUser.objects.filter(pk=rule.owner_id) if rule.owner_id else ChatUser.objects.all()
    for owner in list(owners.order_by("pk")):
        with within(owner.cell), database.log_and_continue("What expires of memory %s is not set aside.", owner.pk):
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
    former = _recalls(owner, numbers) if rule.noun == Noun.FACT else {}
    _recall(batch, {number: (recall, "never") for number, recall in former.items()}, PROGRAM)
    if rule.noun == Noun.MESSAGE:
        _withdraw(batch, list(map(int, numbers)))
    ExpiringRow.objects.bulk_create(
        ExpiringRow(owner=owner, batch=batch, number=number, former=former.get(number, "")) for number in numbers
    )
    _tell(batch, Deed.CHANGE)
    return batch


@transaction.atomic
def keep(batch: ExpiryBatch, numbers: Iterable[str] | None = None, *, actor: str) -> int:
    """Brings back these rows, or all that are still set aside, and keeps them from the rule for good; returns how many.
    Raises CurationError when the batch is gone or was kept."""
    database.acquire_until_commit(PROGRAM, batch.owner_id)
    batch.refresh_from_db()
    if batch.state != State.ASIDE:
        raise CurationError(_("This batch is not set aside any more: nothing can be brought back."))
    aside = batch.rows.filter(kept_by="")
    kept = list(aside if numbers is None else aside.filter(number__in=list(numbers)))
    if batch.rule.noun == Noun.FACT:
        now = _recalls(batch.owner, [row.number for row in kept])
        back = {row.number: ("never", row.former) for row in kept if now.get(row.number) == RecallMode.NEVER}
        _recall(batch, back, actor)
    elif batch.rule.noun == Noun.MESSAGE:
        _bring_back(batch, kept, actor)
    batch.rows.filter(pk__in=[row.pk for row in kept]).update(kept_by=actor[:200])
    if not aside.all().exists():
        _end(batch, State.KEPT, actor)
    return len(kept)


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
    if stays := list(batch.rows.filter(kept_by="").exclude(number__in=doomed).values_list("number", flat=True)):
        keep(batch, stays, actor=PROGRAM)
    if doomed:
        messages = tuple(map(int, doomed)) if rule.noun == Noun.MESSAGE else ()
        others = {} if messages else {"run" if rule.noun == Noun.TRACE else rule.noun: doomed}
        target = Target(owner.pk, messages, others=others, kind=Erasure.Kind.EXPIRED)
        batch.receipt = begin(target, f"{rule.made_by}, {PROGRAM} {rule.pk}")
        _end(batch, State.GONE, PROGRAM)
        _tell(batch, Deed.ERASE)
    return batch.receipt


def _end(batch: ExpiryBatch, state: ExpiryBatch.State, actor: str) -> None:
    batch.state, batch.ended_at, batch.ended_by = state, timezone.now(), actor[:200]
    batch.save(update_fields=["state", "ended_at", "ended_by", "receipt"])


def _reason(batch: ExpiryBatch) -> str:
    return _("rule %(number)d of what expires") % {"number": batch.rule_id}


def _withdraw(batch: ExpiryBatch, numbers: Sequence[int]) -> None:
    batch.edit = withdraw_messages(batch.owner, numbers, actor=PROGRAM, reason=_reason(batch))
    batch.save(update_fields=["edit"])


def _bring_back(batch: ExpiryBatch, kept: Sequence[ExpiringRow], actor: str) -> None:
    """The messages return to their topics; where later edits forbid that, they wait to be archived again."""
    aside = batch.rows.filter(kept_by="").values_list("number", flat=True)
    withdrawn = Message.objects.of(batch.owner_id).filter(pk__in=list(map(int, aside)), is_withdrawn=True)
    numbers, wanted = list(withdrawn.values_list("pk", flat=True)), {int(row.number) for row in kept}
    if wanted.isdisjoint(numbers):
        return
    try:
        with transaction.atomic():
            edit, batch.edit = batch.edit, None
            batch.save(update_fields=["edit"])
            give_back_messages(batch.owner, edit, numbers, actor=actor)
            if rest := [number for number in numbers if number not in wanted]:
                _withdraw(batch, rest)
    except CurationError:
        batch.refresh_from_db()
        give_back_messages(batch.owner, None, wanted.intersection(numbers), actor=actor)


def _recalls(owner: ChatUser, numbers: Sequence[str]) -> dict[str, str]:
    """How these facts are recalled; they stay so until the transaction ends."""
    lock_knowledge(owner)
    found = Fact.objects.filter(owner=owner, pk__in=[int(number) for number in numbers])
    return {str(number): recall for number, recall in found.values_list("pk", "recall")}


def _recall(batch: ExpiryBatch, recalls: Mapping[str, tuple[str, str]], actor: str) -> None:
    """Gives the facts, by number, another way of recall, as one change; of each the former and the new one."""
    if recalls:
        edit, noun = KnowledgeEdit.Kind.EDIT, KnowledgeEdit.Noun.FACT
        change = KnowledgeEdit(owner=batch.owner, kind=edit, noun=noun, actor=actor, reason=_reason(batch))
        change.before, change.after = (
            {number: {"recall": each[side]} for number, each in recalls.items()} for side in (0, 1)
        )
        make(change)


def _tell(batch: ExpiryBatch, deed: Deed) -> None:
    """Announces the batch to webhooks and writes it into the audit log, in the transaction of what happened."""
    announce(RETENTION_DUE, owner=batch.owner_id, subject=str(batch.pk))
    entries.begin(PROGRAM, Door.COMMAND, deed, f"{batch.rule.noun} rule {batch.rule_id} batch {batch.pk}")
    entries.saw(batch.owner_id)


def batches(owners: QuerySet[ChatUser] | None) -> QuerySet[ExpiryBatch]:
    """Those of these memories or of all, each with the number of rows that are ``kept``."""
    rows = ExpiryBatch.objects.all() if owners is None else ExpiryBatch.objects.filter(owner__in=owners)
    kept = Count("rows", filter=~Q(rows__kept_by=""))
    return rows.annotate(kept=kept).select_related("owner", "rule")


@cells.everywhere(order=lambda batch: batch.pk, most=MOST_RECENT)
def recent_batches(owners: QuerySet[ChatUser]) -> list[ExpiryBatch]:
    """What is set aside, and what went within a week."""
    lately = Q(state=State.ASIDE) | Q(state=State.GONE, ended_at__gte=timezone.now() - timedelta(days=7))
    return list(batches(owners).filter(lately)[:MOST_RECENT])


@cells.everywhere(join=lambda one, other: None)
def note_going(owner: ChatUser | None, nouns: Sequence[str], rows: Iterable[Any]) -> None:
    """Gives each of the rows that is set aside its batch, as ``going``. One query."""
    listed = {str(row.pk): row for row in rows}
    aside = ExpiringRow.objects.filter(kept_by="", number__in=[*listed], batch__state=State.ASIDE)
    aside = aside.filter(batch__rule__noun__in=nouns, **({"owner": owner} if owner else {}))
    for each in aside.select_related("batch"):
        listed[each.number].going = each.batch
