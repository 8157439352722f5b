"""The source messages of facts and people, for their pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from memoryapp.knowledge import MODELS
from memoryapp.models import ChatUser, Fact, Finding, FindingMessage, KnowledgeEdit, Message

MOST = 50


def sources(owner: ChatUser, noun: str, number: int, most: int = MOST) -> list[Message]:
    """Returns the messages of this fact or person, latest first, including those of people merged into it."""
    rows = [number, *_merged_into(owner, noun, number)]
    listed = FindingMessage.objects.filter(
        owner=owner, finding__noun=noun, finding__row__in=rows, finding__state=Finding.State.CONFIRMED
    )
    found = Message.objects.of(owner).filter(pk__in=listed.values("message"), is_withdrawn=False)
    return list(found.select_related("topic").order_by("-sent_at", "-pk")[:most])


def succession(fact: Fact) -> dict[str, Any]:
    """Returns the fact that replaced this one (``replaced_by``), and the facts that it replaced (``replaces``)."""
    edits = KnowledgeEdit.objects.filter(owner=fact.owner_id, kind="replace", after__has_key=str(fact.pk))
    others = {int(number) for after in edits.values_list("after", flat=True) for number in after} - {fact.pk}
    found = Fact.objects.filter(owner=fact.owner_id, pk__in=others).order_by("pk")
    later = [other for other in found if other.pk > fact.pk]
    replaces = [other for other in found if other.pk < fact.pk and other.superseded_at is not None]
    return {"replaced_by": later[-1] if later and fact.superseded_at else None, "replaces": replaces}


def _merged_into(owner: ChatUser, noun: str, number: int) -> list[int]:
    """Returns the numbers of the rows that were merged into this one and no longer exist."""
    merges = KnowledgeEdit.objects.filter(owner=owner, noun=noun, kind="merge", after__has_key=str(number))
    others = {int(other) for after in merges.values_list("after", flat=True) for other in after} - {number}
    there = MODELS[noun]._default_manager.filter(owner=owner, pk__in=others).values_list("pk", flat=True)
    return sorted(others - set(there))


def messages_of(findings: Sequence[Finding]) -> Mapping[int, list[Message]]:
    """Returns the messages of each finding, by its number, oldest first."""
    listed = FindingMessage.objects.filter(finding__in=findings).select_related("message__topic")
    found: dict[int, list[Message]] = defaultdict(list)
    for row in listed.order_by("message__sent_at", "message_id"):
        found[row.finding_id].append(row.message)
    return found
