"""Work for each stage of a memory's life, and checks that all of it was done, once."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.db.models import Exists, F, OuterRef
from django.utils import timezone

from memoryapp import erasure
from memoryapp.engine.memory import TopicDraft
from memoryapp.erasure import LOOK_AGAIN, Target
from memoryapp.intake import artifacts
from memoryapp.intake.archiving import put_topics
from memoryapp.intake.messages import add_messages
from memoryapp.intake.transfer import files
from memoryapp.models import (
    AgentCall,
    Artifact,
    Card,
    CardVector,
    ChatUser,
    Erasure,
    Fact,
    Finding,
    ImportFile,
    Message,
    Passage,
    PassageVector,
    Person,
    Suggestion,
    Topic,
    TopicEdit,
    TopicVector,
)
from memoryapp.search import profiles
from tests.intake.test_archiving import message_record
from tests.life.endpoint import direction
from tests.life.sweeping import sweep
from tests.support.chats import chat_line
from tests.support.stack import wait_for

EACH = 8


@dataclass
class Works:
    """Gives work to each stage, ``count`` times so far, and checks whether all of it is done."""

    owner: ChatUser
    folder: Path
    count: int = 0

    def give(self, stage: str) -> None:
        give: Mapping[str, Callable[[int], object]] = {
            "import": self._file,
            "archive": self._session,
            "embed": self._topics,
            "consolidate": self._pair,
            "extract": self._topics,
            "artifacts": self._artifact,
            "erase": self._erasure,
        }
        give[stage](self.count)
        self.count += 1

    def _session(self, number: int) -> list[int]:
        """Adds messages of a day of their own, long ago."""
        first = number * EACH
        records = [
            message_record(
                place,
                f"talk {number} message {place} of the brass orchestra. I like dish{place}, says Dora{place} Blau",
                minutes=number * 1_440 + at,
            )
            for at, place in enumerate(range(first, first + EACH))
        ]
        add_messages(self.owner, records)
        ids = [record.external_id for record in records]
        rows = Message.objects.of(self.owner).filter(external_id__in=ids).in_order()
        return list(rows.values_list("pk", flat=True))

    def _topics(self, number: int) -> list[Topic]:
        ids = self._session(number)
        half = len(ids) // 2
        drafts = [TopicDraft(f"talk {number}, {at}", tuple(ids[at : at + half])) for at in (0, half)]
        return put_topics(self.owner, drafts, actor="test")

    def _pair(self, number: int) -> None:
        """Adds two topics that are near each other and far from all others."""
        row = profiles.serving()
        for topic in self._topics(number):
            TopicVector.objects.create(owner=self.owner, topic=topic, profile=row, vector=direction(f"pair {number}"))

    def _artifact(self, number: int) -> None:
        artifacts.put(self.owner, f"note {number}.txt", "text/plain", f"A note about bread number {number}.".encode())

    def _erasure(self, number: int) -> None:
        topics = self._topics(number)
        gone = Message.objects.filter(topic=topics[0]).in_order()[0]
        erasure.begin(Target(self.owner.pk, (gone.pk,)), "ada")

    def _file(self, number: int) -> None:
        path = self.folder / f"chat {number}.jsonl"
        messages = [
            chat_line(id=f"f{number}-{n}", ts=f"2025-01-01T10:{n:02}:00Z", text=f"file {number}") for n in range(40)
        ]
        path.write_text("\n".join(map(json.dumps, messages)))
        row = files.stage(self.owner, path, path.name, "ada")
        wait_for(lambda: self._is_rehearsed(row))
        files.begin(row)

    def _is_rehearsed(self, row: ImportFile) -> bool:
        """Returns whether a sweep, this one or another process's, has rehearsed the file."""
        sweep("import")
        row.refresh_from_db()
        return row.state == ImportFile.State.READY

    def is_done(self, stage: str) -> bool:
        """Lets the claims of a killed process lapse, sweeps, and returns whether nothing is left to do. The lock of a
        killed process is free when the database notices its end, so it may take several sweeps."""
        Artifact.objects.filter(state="processing").update(due_at=timezone.now())
        Erasure.objects.filter(ended_at__isnull=False).update(
            ended_at=F("ended_at") - LOOK_AGAIN - timedelta(minutes=1)
        )
        sweep(stage)
        left = {
            "import": ImportFile.objects.exclude(state="done"),
            "archive": Message.objects.active(),
            "embed": profiles.passages(profiles.serving()),
            "consolidate": Suggestion.objects.filter(state="open", kind="merge", call=None),
            "extract": Topic.objects.live().filter(facts_extracted=False),
            "artifacts": Artifact.objects.exclude(state="ready"),
            "erase": Erasure.objects.filter(looked_again_at__isnull=True),
        }
        return not left[stage].exists() and (stage != "embed" or profiles.is_complete(profiles.serving()))

    def check(self, stage: str) -> None:
        """Checks that nothing is missing or doubled."""
        getattr(self, f"_check_{stage}")()
        assert not AgentCall.objects.exclude(outcome="").exists()
        self.check_once()

    def check_once(self) -> None:
        """Checks that no question has two stored answers, and that no message exists twice."""
        answered = AgentCall.objects.filter(outcome="")
        assert answered.count() == answered.values("agent", "key").distinct().count()
        listed = Message.objects.of(self.owner)
        assert listed.count() == listed.values("external_id").distinct().count()

    def _check_import(self) -> None:
        assert Message.objects.count() == 40 * self.count
        assert ImportFile.objects.count() == self.count

    def _check_archive(self) -> None:
        edits = TopicEdit.objects.filter(kind="archive")
        assert list(edits.values_list("call__outcome", flat=True)) == [""] * self.count
        assert Topic.objects.live().count() == EACH // 4 * self.count

    def _check_embed(self) -> None:
        for model, vectors, noun in ((Passage, PassageVector, "passage"), (Card, CardVector, "card")):
            there = vectors._default_manager.filter(**{noun: OuterRef("pk")})
            assert not model._default_manager.filter(~Exists(there)).exists()
        assert TopicVector.objects.count() == Topic.objects.live().count() == 2 * self.count

    def _check_consolidate(self) -> None:
        made = TopicEdit.objects.exclude(kind="archive")
        assert list(made.values_list("kind", "call__agent")) == [("merge", "merger")] * self.count
        assert Topic.objects.live().count() == self.count

    def _check_extract(self) -> None:
        counts = [model._default_manager.count() for model in (Fact, Person)]
        assert counts == [2 * self.count] * 2
        assert Finding.objects.filter(state="confirmed", decided_by="archivist").count() == 4 * self.count

    def _check_artifacts(self) -> None:
        assert Artifact.objects.count() == self.count
        assert all("bread" in text for text in Artifact.objects.values_list("text", flat=True))

    def _check_erase(self) -> None:
        receipts = Erasure.objects.all()
        assert receipts.count() == self.count
        assert {receipt.counts["memoryapp_message"] for receipt in receipts} == {1}
        assert not any(receipt.residue for receipt in receipts)
        assert Message.objects.count() == (EACH - 1) * self.count
