"""A memory that a person and every automatic step change in turn, and checks of what no automatic step may do to it.
Whatever a person wrote, moved, deleted, rejected or withdrew stays as they left it until a person changes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

from asgiref.sync import async_to_sync
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from memoryapp import curation
from memoryapp.curation import MERGER, CurationError, extraction, knowledge, suggestions
from memoryapp.curation.extraction.findings import ARCHIVIST
from memoryapp.curation.extraction.statements import folded
from memoryapp.curation.suggestions.consolidation import consolidate
from memoryapp.curation.undoing import withdraw
from memoryapp.engine.agents.ask import UnreadableAnswer
from memoryapp.engine.chat.protocol import LLMError
from memoryapp.engine.embeddings import EmbeddingError
from memoryapp.intake import archiving
from memoryapp.intake.cutters import ModelCutter, Segmenter
from memoryapp.intake.messages import add_messages
from memoryapp.memory.sessions import SessionLimits
from memoryapp.models import (
    AgentCall,
    ChatUser,
    EmbeddingProfile,
    Fact,
    Finding,
    ImportBatch,
    KnowledgeEdit,
    Message,
    Passage,
    PassageVector,
    Person,
    RefusedText,
    Suggestion,
    Topic,
    TopicEdit,
    TopicMessage,
    UnreadTopic,
)
from memoryapp.search import profiles
from memoryapp.search.vectors import embed_pending
from tests.conftest import BEGAN, record
from tests.life.models import Moody, Wheel, cut, found, judged

LEAST = 3
LIMITS = SessionLimits(timedelta(hours=1), 400, 25_000, LEAST)
PASSES = ("archive", "consolidate", "extract", "import", "re-embed")
DEEDS = ("edit", "merge", "split", "move", "undo", "never", "withdraw", "write", "rewrite", "delete", "take back")
DEEDS_MORE = ("confirm", "reject", "join", "mode", "ask again")


@dataclass(frozen=True)
class Words:
    """What people wrote, chose and removed, before an automatic step; ``there`` are the words of current facts and the
    names of people, ``doubles`` what exists more than once, ``last`` the latest edits."""

    topics: dict[int, tuple[str, tuple[int, ...]]]
    rows: dict[tuple[str, int], dict[str, Any]]
    messages: dict[int, tuple[str, bool]]
    where: dict[int, int | None]
    apart: list[tuple[int, int]]
    there: set[tuple[str, str]]
    doubles: Counter[tuple[Any, ...]]
    last: tuple[int, int]

    def check_kept(self, after: Words, gone: set[tuple[str, str]]) -> None:
        assert {pk: after.topics.get(pk) for pk in self.topics} == self.topics
        assert {row: after.rows.get(row) for row in self.rows} == self.rows
        assert {pk: after.messages.get(pk) for pk in self.messages} == self.messages
        where = after.where
        assert not any(where[one] is not None and where[one] == where[other] for one, other in self.apart)
        assert not after.there & gone
        assert after.doubles <= self.doubles


class World:
    """``step`` makes one change, of a person or of the program; ``passes`` counts those of the program."""

    def __init__(self, owner: ChatUser) -> None:
        self.owner = owner
        self.gone: set[tuple[str, str]] = set()
        self.passes = self.profiles = self.records = 0
        self._words = self.words()

    def step(self, what: str, number: int) -> None:
        self.owner.refresh_from_db()
        if what in PASSES:
            self._pass(what, number)
        else:
            self._deed(what, number)

    def _pass(self, what: str, number: int) -> None:
        self._let_time_pass()
        getattr(self, f"_{what.replace('-', '_')}")(Random(number))
        self.passes += 1
        before, self._words = self._words, self.words()
        before.check_kept(self._words, self.gone)
        if before.last != self._words.last:
            self._check_authors(*before.last)

    def _let_time_pass(self) -> None:
        """Lets as much time pass as the longest pause of a stage after a failure."""
        AgentCall.objects.filter(owner=self.owner).update(at=F("at") - timedelta(hours=7))
        UnreadTopic.objects.filter(owner=self.owner).update(due_at=timezone.now())

    def _archive(self, random: Random) -> None:
        embedder = Wheel("wheel 0", 4, random, failing=9)
        cutter = ModelCutter(self.owner, Moody(cut, random).open, Segmenter(self.owner, embedder), embedder)
        with suppress(EmbeddingError):
            archiving.archive(self.owner, cutter, LIMITS, now=True)
            assert not Message.objects.of(self.owner).active().exists()

    def _consolidate(self, random: Random) -> None:
        if not self.profiles:
            self._re_embed(random)
        suggestions.suggest(self.owner)
        with suppress(LLMError, UnreadableAnswer):
            consolidate(self.owner, Moody(judged, random).open)

    def _extract(self, random: Random) -> None:
        model = extraction.Model(5.0, Moody(found, random).open)
        with suppress(extraction.ModelFailed):
            extraction.extract(self.owner, model, Wheel("facts", 25, random, failing=9))

    def _import(self, random: Random) -> None:
        """Adds messages after and between known ones, and one whose text has changed."""
        batch = ImportBatch.objects.create(owner=self.owner, source="chat.jsonl", format="jsonl")
        first, self.records = self.records, self.records + random.randint(1, 9)
        known = range(max(0, first - 12), first)
        records = [_record(number) for number in (*known, *range(first, self.records))]
        changed = [_record(number, "said otherwise") for number in known[:1]]
        done = add_messages(self.owner, [*records, *changed], batch=batch)
        assert (done.added, len(done.rejected)) == (self.records - first, len(changed))

    def _re_embed(self, random: Random) -> None:
        """Makes vectors of a new model, which then serves; a text has a vector, or waits to be asked for again."""
        self.profiles += 1
        embedder = Wheel(f"wheel {self.profiles}", 4, random, failing=9)
        try:
            async_to_sync(embed_pending)(embedder, self.owner)
        except EmbeddingError:
            return
        row = EmbeddingProfile.objects.get(model=embedder.profile.model)
        profiles.serve(row)
        placed = PassageVector.objects.filter(owner=self.owner, profile=row).values("passage")
        refused = RefusedText.objects.filter(profile=row, passage__isnull=False).values("passage")
        missed = Passage.objects.filter(owner=self.owner).exclude(pk__in=placed).exclude(pk__in=refused)
        assert not missed.exists()

    def _deed(self, what: str, number: int) -> None:
        """Makes a change of a person; what they remove by it may not return by itself."""
        before = self._words.there
        with suppress(CurationError), transaction.atomic():
            self._do(what, number)
        self._words = self.words()
        after = self._words.there
        self.gone = (self.gone | (before - after)) - after

    def _do(self, what: str, number: int) -> None:
        if what in ("edit", "merge", "split", "move"):
            self._curate(what, number)
        elif what in ("write", "rewrite", "delete"):
            self._distil(what, number)
        elif what in ("confirm", "reject", "join"):
            self._decide(what, number)
        else:
            getattr(self, f"_{what.replace(' ', '_')}_by_hand")(number)

    def _curate(self, what: str, number: int) -> None:
        topics = list(Topic.objects.of(self.owner).live().order_by("pk"))
        if not topics:
            return
        topic, other = topics[number % len(topics)], topics[(number + 1) % len(topics)]
        listed = list(TopicMessage.objects.filter(topic=topic).order_by("message").values_list("message", flat=True))
        plans = {
            "edit": lambda: curation.plan_edit(self.owner, topic.pk, f"by hand {number}"),
            "merge": lambda: curation.plan_merge(self.owner, [topic.pk, other.pk], f"merged by hand {number}"),
            "split": lambda: curation.plan_split(self.owner, topic.pk, listed[1:2], ["half", "other half"]),
            "move": lambda: curation.plan_move(self.owner, listed[:1], other.pk),
        }
        curation.swap(self.owner, plans[what](), kind=TopicEdit.Kind(what), actor="ada")

    def _distil(self, what: str, number: int) -> None:
        rows = [*Fact.objects.current().filter(owner=self.owner), *Person.objects.filter(owner=self.owner)]
        rows = sorted(rows, key=lambda row: (type(row).__name__, row.pk))
        if what == "write":
            values = {"relation": "likes", "category": "food", "content": f"By hand {number}.", "type": "context"}
            knowledge.create(self.owner, KnowledgeEdit.Noun.FACT, {**values, "importance": 50}, actor="ada")
        elif rows and what == "delete":
            knowledge.delete(self.owner, rows[number % len(rows)], actor="ada")
        elif rows:
            row = rows[number % len(rows)]
            field = "content" if isinstance(row, Fact) else ("bio", "display_name")[number % 2]
            knowledge.edit(self.owner, row, {field: f"Rewritten by hand {number}"}, actor="ada")

    def _decide(self, what: str, number: int) -> None:
        waiting = list(extraction.waiting(self.owner))
        if not waiting:
            return
        finding = waiting[number % len(waiting)]
        if what == "confirm":
            extraction.confirm(finding, actor="ada", keep_both=bool(number % 2))
        elif what == "join" and finding.alike:
            extraction.merge(finding, finding.alike[0], actor="ada")
        else:
            extraction.reject(finding, actor="ada")

    def _undo_by_hand(self, number: int) -> None:
        edits = list(TopicEdit.objects.filter(owner=self.owner).exclude(kind="archive").order_by("-pk")[:5])
        if edits:
            curation.undo_with_dependents(self.owner, edits[number % len(edits)], actor="ada")

    def _take_back_by_hand(self, number: int) -> None:
        edits = list(KnowledgeEdit.objects.filter(owner=self.owner).order_by("-pk")[:5])
        if edits:
            knowledge.undo(self.owner, edits[number % len(edits)], actor="ada")

    def _never_by_hand(self, number: int) -> None:
        opened = list(suggestions.opened(self.owner).filter(kind="merge"))
        if opened:
            suggestions.decide(opened[number % len(opened)], Suggestion.State.NEVER, actor="ada")

    def _withdraw_by_hand(self, number: int) -> None:
        batches = list(ImportBatch.objects.filter(owner=self.owner).order_by("-pk")[:3])
        if batches:
            withdraw(self.owner, batches[number % len(batches)], actor="ada")

    def _mode_by_hand(self, number: int) -> None:
        self.owner.consolidation = list(ChatUser.Consolidation)[number % 3]
        self.owner.extraction = list(ChatUser.Extraction)[number % 2]
        self.owner.save(update_fields=["consolidation", "extraction"])

    def _ask_again_by_hand(self, number: int) -> None:
        extraction.retry(extraction.failed(self.owner))

    def words(self) -> Words:
        messages = {
            pk: values
            for pk, *values in Message.objects.of(self.owner).values_list("pk", "text", "is_withdrawn", "topic")
        }
        where = {pk: topic for pk, (_text, _is_withdrawn, topic) in messages.items()}
        facts = list(Fact.objects.filter(owner=self.owner).values("pk", "superseded_at", *knowledge.EDITABLE["fact"]))
        people = list(Person.objects.filter(owner=self.owner).values("pk", *knowledge.EDITABLE["person"]))
        changes = list(KnowledgeEdit.objects.filter(owner=self.owner).values_list("pk", "noun", "after", "actor"))
        touched = {(noun, pk) for _pk, noun, after, actor in changes if actor != ARCHIVIST for pk in after}
        rows = {("fact", row["pk"]): row for row in facts} | {("person", row["pk"]): row for row in people}
        current = [row for row in facts if row["superseded_at"] is None]
        last = TopicEdit.objects.filter(owner=self.owner).order_by("-pk").values_list("pk", flat=True).first()
        return Words(
            topics=dict(self._topics_by_hand(where)),
            rows={row: values for row, values in rows.items() if (row[0], str(row[1])) in touched},
            messages={pk: (text, is_withdrawn) for pk, (text, is_withdrawn, _topic) in messages.items()},
            where=where,
            apart=self._apart(where),
            there={
                *(("fact", folded(row["content"])) for row in current),
                *(("person", folded(row["display_name"])) for row in people),
            },
            doubles=self._doubles(current, people),
            last=(last or 0, max((pk for pk, *_ in changes), default=0)),
        )

    def _topics_by_hand(self, where: dict[int, int | None]) -> Iterator[tuple[int, tuple[str, tuple[int, ...]]]]:
        for pk, summary in Topic.objects.of(self.owner).live().filter(locked_by_hand=True).values_list("pk", "summary"):
            yield pk, (summary, tuple(sorted(message for message, topic in where.items() if topic == pk)))

    def _apart(self, where: dict[int, int | None]) -> list[tuple[int, int]]:
        """Returns messages of pairs of topics whose merge a person rejected, and which are separate now."""
        rejected = Suggestion.objects.filter(owner=self.owner, kind="merge", state="never")
        pairs = list(rejected.values_list("topics__0", "topics__1"))
        listed: dict[int, list[int]] = {topic: [] for pair in pairs for topic in pair}
        if pairs:
            rows = TopicMessage.objects.filter(topic__in=listed)
            for topic, message in rows.values_list("topic", "message"):
                listed[topic].append(message)
        return [(a, b) for one, other in pairs for a in listed[one] for b in listed[other] if where[a] != where[b]]

    def _doubles(self, facts: list[dict[str, Any]], people: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
        """Counts current facts, people, waiting findings and answered questions that exist more than once."""
        waiting = Finding.objects.filter(owner=self.owner, state="waiting").values_list("noun", "target", "values")
        calls = AgentCall.objects.filter(owner=self.owner, outcome="").values_list("agent", "key")
        counted = Counter(
            [
                *(("fact", row["relation"], row["content"]) for row in facts),
                *(("person", row["display_name"]) for row in people),
                *((noun, target, str(values)) for noun, target, values in waiting),
                *calls,
            ]
        )
        return Counter({each: count for each, count in counted.items() if count > 1})

    def _check_authors(self, topic_edit: int, knowledge_edit: int) -> None:
        made = TopicEdit.objects.filter(owner=self.owner, pk__gt=topic_edit)
        assert set(made.values_list("actor", "kind")) <= {(MERGER, "merge"), (archiving.PROGRAM, "archive")}
        changes = KnowledgeEdit.objects.filter(owner=self.owner, pk__gt=knowledge_edit)
        assert set(changes.values_list("actor", flat=True)) <= {ARCHIVIST}
        assert not changes.filter(call=None).exists()


def _record(number: int, text: str = "") -> Any:
    """Returns a message; nine are a session, and sessions are a day apart."""
    at = BEGAN + timedelta(days=number // 9, minutes=number % 9)
    role = "assistant" if number % 2 else "user"
    return record(number, text or f"message {number} about {number % 5}", role=role, at=at)
