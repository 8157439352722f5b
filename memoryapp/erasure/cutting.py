"""The cut: deletes the erased rows and makes the rest consistent without them, in one transaction.

A message is removed from every topic that ever listed it. So the edits of those topics still have the same messages on
both sides, and an undo brings topics back without it. The triggers of the database permit this for the erasure that the
transaction names.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from memoryapp import models
from memoryapp.curation import wordings
from memoryapp.curation.knowledge.writing import lock as lock_knowledge
from memoryapp.curation.settling import settle
from memoryapp.curation.topic_writer import lock_owner, opening
from memoryapp.engine.beside import table_beside
from memoryapp.engine.memory import item_id, topic_id
from memoryapp.engine.text.lexical import fold
from memoryapp.erasure.chat_user import delete_media, deleted
from memoryapp.memory.content import content
from memoryapp.memory.sessions import put_passages
from memoryapp.platform import database
from memoryapp.platform.statements import execute, fetched

# The reach of an erasure: the topics, facts and artifacts that concern, or may concern, the erased messages.
#
# A topic is touched if it ever listed one of them, or if an edit made it from such a topic and it shares messages
# with it: its summary may contain their words. Facts and artifacts are erased if they came from a topic that listed
# one, or from the message.

_SQL = table_beside(__file__)
TOUCHED: str = _SQL["touched"]


@dataclass(frozen=True, slots=True)
class Reach:
    """Numbers of rows: the topics ``touched``; of these, those ``listing`` an erased message; of these, those left
    ``empty``."""

    messages: tuple[int, ...] = ()
    touched: tuple[int, ...] = ()
    listing: tuple[int, ...] = ()
    empty: tuple[int, ...] = ()
    facts: tuple[int, ...] = ()
    artifacts: tuple[int, ...] = ()
    people: tuple[int, ...] = ()
    findings: tuple[int, ...] = ()

    @property
    def ids(self) -> list[str]:
        """The ids of the rows in runs and in calls of agents."""
        return [
            *map(topic_id, self.touched),
            *(item_id("Person", number) for number in self.people),
            *(item_id("Artifact", number) for number in self.artifacts),
        ]

    @property
    def rewritten(self) -> tuple[int, ...]:
        """The touched topics that remain; they get new summaries."""
        return tuple(number for number in self.touched if number not in set(self.empty))


@dataclass(frozen=True, slots=True)
class Target:
    """What a person wants to erase from one memory: messages, a person, or both; or other rows by noun; of the kind
    ``PROJECT``, everything else with the label of these messages, too."""

    owner_id: int
    messages: tuple[int, ...] = ()
    person: int | None = None
    others: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    kind: models.Erasure.Kind = field(default=models.Erasure.Kind.MESSAGES)

    @classmethod
    def of(cls, erasure: models.Erasure) -> Target:
        kind = models.Erasure.Kind(erasure.kind)
        return cls(erasure.owner_number, tuple(erasure.messages), erasure.person, erasure.others, kind)

    @classmethod
    def of_project(cls, owner: models.ChatUser, project: str) -> Target:
        found = models.Message.objects.of(owner).filter(project=project).exclude(project="")
        return cls(owner.pk, tuple(found.order_by("pk").values_list("pk", flat=True)), kind=models.Erasure.Kind.PROJECT)

    @property
    def labelled(self) -> Q:
        """The rows with the label that goes as a whole; none for another kind."""
        found = models.Message.objects.filter(pk__in=self.messages[:1]).values_list("project", flat=True)
        project = next(iter(found), "") if self.kind == models.Erasure.Kind.PROJECT else ""
        return Q(project=project) if project else Q(pk__in=[])


def reach_of(target: Target) -> Reach:
    """What is erased or changed with the target, as the rows are now; a message includes all its wordings."""
    owner, messages = target.owner_id, wordings(target.owner_id, target.messages)
    listing = models.TopicMessage.objects.filter(owner=owner, message__in=messages).values_list("topic", flat=True)
    numbers = sorted(set(listing))
    labelled = target.labelled
    people = models.Person.objects.filter(labelled | Q(pk=target.person or 0), owner=owner)
    rows = models.Artifact.objects.filter(labelled | Q(message__in=messages), owner=owner)
    # Findings in the messages or in topics that listed one, and about the person or the facts.
    concerning = Q(findingmessage__message__in=messages) | Q(topic__in=numbers)
    if of_facts := target.others.get("fact"):
        named = Q(row__in=of_facts) | Q(target__in=of_facts) | Q(stored__in=of_facts)
        concerning |= Q(named, noun=models.KnowledgeEdit.Noun.FACT)
    if target.person:
        of_person = Q(row=target.person) | Q(target=target.person)
        concerning |= Q(noun=models.KnowledgeEdit.Noun.PERSON) & of_person
    findings = models.Finding.objects.filter(concerning, owner=owner).order_by("pk")
    topics = models.Topic.objects.of(owner).filter(pk__in=numbers)
    rest = models.TopicMessage.objects.filter(topic__in=numbers).exclude(message__in=messages).values("topic")
    facts = labelled | Q(topic__in=numbers) | Q(pk__in=target.others.get("fact", ()))
    return Reach(
        messages=tuple(
            models.Message.objects.of(owner).filter(pk__in=messages).order_by("pk").values_list("pk", flat=True)
        ),
        touched=tuple(number for (number,) in fetched(TOUCHED, {"owner": owner, "messages": list(messages)})),
        listing=tuple(numbers),
        empty=tuple(topics.exclude(pk__in=rest).order_by("pk").values_list("pk", flat=True)),
        facts=tuple(sorted(models.Fact.objects.filter(facts, owner=owner).values_list("pk", flat=True))),
        artifacts=tuple(sorted(rows.values_list("pk", flat=True))),
        people=tuple(people.values_list("pk", flat=True)),
        findings=tuple(findings.values_list("pk", flat=True).distinct()),
    )


REWRITE: str = _SQL["rewrite"]
CHAINED: str = _SQL["chained"]


class Moved(Exception):
    """Somebody changed what the erasure concerns after its marks were made."""


def name_erasure(erasure: models.Erasure) -> None:
    """Until the transaction ends, the triggers on history permit the changes of this erasure."""
    # Citus tells the machine on which the cell lies nothing but this.
    execute("SET LOCAL citus.propagate_set_commands = 'local'")
    execute(f"SET LOCAL memoryapp.erasure = '{erasure.pk:d}'")


def lock(owner: models.ChatUser) -> None:
    """Prevents all other changes of the owner's topics, messages and knowledge until the transaction ends."""
    lock_owner(owner)
    lock_knowledge(owner)
    database.acquire_until_commit("messages", owner.pk)


@transaction.atomic
def cut(erasure: models.Erasure, owner: models.ChatUser) -> None:
    """Deletes the rows and counts them in the receipt. Raises Moved when the marks have to be made again."""
    lock(owner)
    name_erasure(erasure)
    target = Target.of(erasure)
    reach, runs = reach_of(target), models.Run.objects.of(owner).filter(target.labelled)
    if not set(reach.ids) <= set(erasure.touched):
        raise Moved
    rows = models.Message.objects.of(owner).filter(pk__in=reach.messages)
    gone = deleted(runs) + _knowledge(owner, reach) + remake_passages(owner, reach.messages, lambda: deleted(rows))
    gone += _topics(owner, reach)
    settle(owner)
    erasure.counts = dict(Counter(erasure.counts) + gone)
    erasure.cut_at = erasure.cut_at or timezone.now()
    erasure.others = {}
    erasure.save(update_fields=["others", "counts", "cut_at"])


def _knowledge(owner: models.ChatUser, reach: Reach) -> Counter[str]:
    """People, facts and artifacts with their cards, their history, and files that nothing else refers to."""
    gone = _biographies(owner, reach)
    gone += deleted(models.Finding.objects.filter(owner=owner, pk__in=reach.findings))
    hashes = list(models.Artifact.objects.filter(pk__in=reach.artifacts).values_list("sha256", flat=True))
    nouns = models.KnowledgeEdit.Noun
    for model, noun, numbers in (
        (models.Fact, nouns.FACT, reach.facts),
        (models.Artifact, nouns.ARTIFACT, reach.artifacts),
        (models.Person, nouns.PERSON, reach.people),
    ):
        gone += _changes_of(owner, noun, numbers)
        gone += deleted(model._base_manager.filter(owner=owner, pk__in=numbers))
    return gone + delete_media(models.Media.objects.filter(owner=owner, sha256__in=hashes))


def _biographies(owner: models.ChatUser, reach: Reach) -> Counter[str]:
    """Takes out of biographies the lines that the archivist found in the erased messages alone: it may have worded them
    itself, so no mark recognises them. They are looked for in everybody, for people may have been merged since."""
    found = models.Finding.objects.filter(
        owner=owner, noun=models.KnowledgeEdit.Noun.PERSON, state=models.Finding.State.CONFIRMED
    )
    lost = _lines(found.filter(pk__in=reach.findings))
    if not lost:
        return Counter()
    lost -= _lines(found.exclude(pk__in=reach.findings))
    gone = _changes_with(owner, lost)
    for person in models.Person.objects.filter(owner=owner).exclude(pk__in=reach.people).order_by("pk").iterator():
        kept = [line for line in person.bio.split("\n") if line not in lost]
        if "\n".join(kept) != person.bio:
            person.bio = "\n".join(kept)
            person.save(update_fields=("bio", "updated_at"))
            gone += deleted(models.Card.objects.filter(person=person))
    return gone


def _lines(findings: QuerySet[models.Finding]) -> set[str]:
    """The lines of biography that were found."""
    return {line for values in findings.values_list("values", flat=True) for line in _biography(values)}


def _biography(values: Mapping[str, Any]) -> set[str]:
    return set(str(values.get("bio") or "").split("\n")) - {""}


def _changes_with(owner: models.ChatUser, lines: set[str]) -> Counter[str]:
    """Deletes the changes of people whose biography, before or after, has one of the lines."""
    quoting = []
    for change in models.KnowledgeEdit.objects.filter(owner=owner, noun=models.KnowledgeEdit.Noun.PERSON).iterator():
        sides = [values for side in (change.before, change.after) for values in side.values() if values]
        if any(lines & _biography(values) for values in sides):
            quoting.append(change.pk)
    return delete_changes(quoting)


def _changes_of(owner: models.ChatUser, noun: str, numbers: Sequence[int]) -> Counter[str]:
    keys = [str(number) for number in numbers]
    named = Q(before__has_any_keys=keys) | Q(after__has_any_keys=keys)
    rows = models.KnowledgeEdit.objects.filter(named, owner=owner, noun=noun).values_list("pk", flat=True)
    return delete_changes(list(rows) if keys else [])


def delete_changes(numbers: Sequence[int]) -> Counter[str]:
    """Deletes these changes of people, facts and artifacts, with their undos and redos."""
    chained = [number for (number,) in fetched(CHAINED, {"ids": list(numbers)})]
    return deleted(models.KnowledgeEdit.objects.filter(pk__in=chained))


def delete_artifact(row: models.Artifact) -> Counter[str]:
    """Deletes the artifact with its history, and its file unless something else refers to it; for a transaction that
    names the erasure."""
    owner = models.ChatUser(pk=row.owner_id)
    lock_knowledge(owner)
    gone = _changes_of(owner, models.KnowledgeEdit.Noun.ARTIFACT, [row.pk])
    gone += deleted(models.Artifact.objects.filter(pk=row.pk))
    return gone + delete_media(models.Media.objects.filter(owner=owner, sha256=row.sha256))


def remake_passages(
    owner: models.ChatUser, messages: Sequence[int], change: Callable[[], Counter[str]] = Counter
) -> Counter[str]:
    """Deletes the passages with these messages, makes the change, and makes passages of those messages that remain."""
    holding = models.PassageMessage.objects.filter(owner=owner, message__in=messages).values("passage")
    groups: defaultdict[int, set[int]] = defaultdict(set)
    for passage, number in models.PassageMessage.objects.filter(passage__in=holding).values_list("passage", "message"):
        groups[passage].add(number)
    gone = deleted(models.Passage.objects.filter(pk__in=list(groups))) + change()
    rows = models.Message.objects.of(owner).in_bulk(list(set().union(*groups.values())))
    placed = set(models.PassageMessage.objects.filter(message__in=list(rows)).values_list("message", flat=True))
    parts = []
    for _passage, group in sorted(groups.items()):
        part = sorted((rows[number] for number in group & rows.keys() - placed), key=lambda row: (row.sent_at, row.pk))
        placed |= group
        parts.append([content(row) for row in part])
    put_passages(owner, [part for part in parts if part])
    return gone


def _topics(owner: models.ChatUser, reach: Reach) -> Counter[str]:
    gone = deleted(models.TopicVector.objects.filter(topic__in=reach.touched))
    gone += _suggestions(owner, reach)
    edits = models.EditedTopic.objects.filter(owner=owner, topic__in=reach.empty).values_list("edit", flat=True)
    touched = sorted(set(edits))
    gone += deleted(models.EditedTopic.objects.filter(owner=owner, topic__in=reach.empty))
    gone += deleted(models.Topic.objects.of(owner).filter(pk__in=reach.empty))
    bare = models.TopicEdit.objects.filter(pk__in=touched, editedtopic__isnull=True).exclude(
        batch__message__isnull=False
    )
    gone += deleted(models.TopicEdit.objects.filter(pk__in=list(bare.values_list("pk", flat=True))))
    for number in reach.rewritten:
        _rewrite(number, lists=number in reach.listing)
    return gone


def make_anew(topic: models.Topic) -> Counter[str]:
    """A new summary for a topic that quotes erased text; for a transaction that names the erasure."""
    lock_owner(models.ChatUser(pk=topic.owner_id))
    gone = deleted(models.TopicVector.objects.filter(topic=topic))
    _rewrite(topic.pk, lists=False)
    return gone


def _rewrite(number: int, *, lists: bool) -> None:
    """A new summary from the remaining messages of the topic, and their count, size and times."""
    rows = models.Message.objects.filter(topicmessage__topic=number).in_order()[:20]
    summary = opening([content(row) for row in rows])
    values: dict[str, Any] = {"topic": number, "summary": summary, "folded": fold(summary)}
    execute(REWRITE, {**values, "at": timezone.now(), "lists": lists})


def _suggestions(owner: models.ChatUser, reach: Reach) -> Counter[str]:
    """Suggestions for deleted topics; open ones for remaining topics too, because they were made from the
    erased text."""
    named = [
        (pk, state, set(topics))
        for pk, state, topics in models.Suggestion.objects.filter(owner=owner).values_list("pk", "state", "topics")
    ]
    empty, touched = set(reach.empty), set(reach.touched)
    doomed = [
        pk
        for pk, state, topics in named
        if topics & empty or (topics & touched and state == models.Suggestion.State.OPEN)
    ]
    kept = [pk for pk, _state, topics in named if topics & touched and pk not in doomed]
    models.Suggestion.objects.filter(pk__in=kept).update(evidence={})
    return deleted(models.Suggestion.objects.filter(pk__in=doomed))
