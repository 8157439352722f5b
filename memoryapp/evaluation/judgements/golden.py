"""Golden questions in named sets, made from grades or by hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from django.db import connection, transaction
from django.db.models import Count, Max, QuerySet
from django.utils.translation import gettext as _

from memoryapp.engine.storable import storable
from memoryapp.evaluation.judgements.grades import GIVEN, RELEVANT
from memoryapp.models import ChatUser, GoldenQuestion, Message, Run

LONGEST_NAME = 80
LONGEST_QUESTION = 4_000
MOST_EVIDENCE = 200
MOST_COLLECTIONS = 100


class GoldenError(ValueError):
    """A golden question that cannot be; the text is a sentence for people."""


def collections(owners: QuerySet[ChatUser]) -> list[Any]:
    """The sets with questions about these memories: ``collection``, ``n`` and ``at``, the latest first."""
    rows = GoldenQuestion.objects.filter(owner__in=owners).values("collection")
    return list(rows.annotate(n=Count("pk"), at=Max("at")).order_by("-at")[:MOST_COLLECTIONS])


def from_grades(run: Run, collection: str, by: str) -> GoldenQuestion:
    """The query of the run with the messages that operators on average found relevant. Raises GoldenError."""
    values: dict[int, list[int]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(GIVEN, {"owner": run.owner_id, "query": run.query, "operator": -1})
        for message, _name, value, _is_own in cursor.fetchall():
            values[message].append(value)
    relevant = [message for message, given in values.items() if fmean(given) >= RELEVANT]
    if not relevant:
        raise GoldenError(_("Mark at least one candidate as relevant; its messages become the evidence."))
    return save(run.owner, collection, run.query, relevant, by)


def save(
    owner: ChatUser, collection: str, question: str, evidence: Sequence[int], by: str, category: str = ""
) -> GoldenQuestion:
    """The question of that set, made anew or with this evidence in place of the earlier one. Raises GoldenError."""
    name, words = storable(collection).strip(), storable(question).strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable() or "/" in name:
        raise GoldenError(
            _("The name of a set is one line of at most %(most)d characters without a slash.") % {"most": LONGEST_NAME}
        )
    if not words or len(words) > LONGEST_QUESTION:
        raise GoldenError(_("A question has 1 to %(most)d characters.") % {"most": LONGEST_QUESTION})
    known = Message.objects.of(owner).filter(pk__in=list(evidence)[: MOST_EVIDENCE + 1]).values_list("pk", flat=True)
    numbers = sorted(known)
    if len(numbers) > MOST_EVIDENCE:
        raise GoldenError(_("A question has at most %(most)d messages of evidence.") % {"most": MOST_EVIDENCE})
    with transaction.atomic():
        ChatUser.objects.select_for_update(of=("self",)).get(pk=owner.pk)
        made, _is_new = GoldenQuestion.objects.update_or_create(
            owner=owner,
            collection=name,
            question=words,
            defaults={"evidence": numbers, "made_by": by, "category": category.strip()[:60]},
        )
    return made


def change(row: GoldenQuestion, question: str, evidence: Sequence[int], by: str, category: str) -> None:
    """Another wording or evidence of a question that is there. Raises GoldenError."""
    words = storable(question).strip()
    same = GoldenQuestion.objects.filter(owner=row.owner_id, collection=row.collection, question=words)
    if same.exclude(pk=row.pk).exists():
        raise GoldenError(_("This set has another question in the same words."))
    with transaction.atomic():
        # So that ``save`` finds it under its new words.
        GoldenQuestion.objects.filter(pk=row.pk).update(question=words or row.question)
        save(row.owner, row.collection, question, evidence, by, category)


def messages_named(owner: ChatUser, typed: str) -> list[int]:
    """The numbers of messages named by their ids, one a line or separated by commas. Raises GoldenError."""
    names = list(dict.fromkeys(name.strip() for line in typed.splitlines() for name in line.split(",") if name.strip()))
    if len(names) > MOST_EVIDENCE:
        raise GoldenError(_("A question has at most %(most)d messages of evidence.") % {"most": MOST_EVIDENCE})
    names = [name.replace("\0", "")[:300] for name in names]
    found = dict(Message.objects.of(owner).filter(external_id__in=names).values_list("external_id", "pk"))
    if missing := [name for name in names if name not in found]:
        raise GoldenError(_("This memory has no message with the id “%(id)s”.") % {"id": missing[0][:60]})
    return [found[name] for name in names]
