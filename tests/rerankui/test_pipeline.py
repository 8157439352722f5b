"""The pipeline page: the state of each stage, and who may pause it."""

import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memoryapp import erasure
from memoryapp.insight.browsing import usage
from memoryapp.intake import artifacts
from memoryapp.intake.messages import add_messages
from memoryapp.models import (
    AgentCall,
    Artifact,
    ChatUser,
    ImportBatch,
    ImportFile,
    Message,
    PassageVector,
    Role,
    Run,
    Suggestion,
    UnreadTopic,
    Work,
)
from memoryapp.platform import work
from memoryapp.platform.llm import clients
from memoryapp.platform.work import ARCHIVE
from memoryapp.search.vectors import EMBED
from memoryapp.upkeep import tasks
from memoryapp.upkeep.pipeline.shown import PipelineStage, stages
from tests.conftest import operator, record, signed_in, talk


def stage(name: str, owner: ChatUser | None = None, now: datetime | None = None, **more: Any) -> PipelineStage:
    found = stages(ChatUser.objects.all(), clients.profile(), now=now or timezone.now(), owner=owner, **more)
    return next(each for each in found if each.name == name)


def done_in_hour(name: str, moment: datetime) -> int:
    """What the stage shows of the hour of ``moment``, also when the next hour has begun since."""
    hour, now = (at.replace(minute=0, second=0, microsecond=0) for at in (moment, timezone.now()))
    return stage(name, now=now).hours[-1 - round((now - hour) / timedelta(hours=1))]


def section(page: str, name: str) -> str:
    """Returns the text of a stage on the page, in one line."""
    [found] = re.findall(rf'id="stage-{name}">(.*?)(?=<li class="stage[ "]|</ol>)', page, re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", found).split())


@pytest.mark.django_db
class TestStages:
    @pytest.mark.slow
    def test_what_waits_is_counted_for_all_and_for_one(self, anna: ChatUser, boris: ChatUser) -> None:
        talk(anna, ("Tea", ["green?", "yes"]))
        add_messages(boris, [record(number, "hello") for number in range(3)])
        Artifact.objects.create(
            owner=boris, name="plan.pdf", file_type="pdf", sha256="0", state="pending", created_at=timezone.now()
        )
        Run.objects.create(owner=boris, query="?", strategy="flash")
        ImportFile.objects.create(owner=anna, source="chat.json", size_bytes=9)
        Suggestion.objects.create(owner=anna, kind="merge", key="1", topics=[1, 2], evidence={})
        for name, alls, annas, boriss in (
            ("archive", 3, 0, 3),
            ("embed", 2, 1, 1),
            ("artifacts", 1, 0, 1),
            ("runs", 1, 0, 1),
            ("import", 1, 1, 0),
            ("consolidate", 1, 1, 0),
            ("extract", 1, 1, 0),
        ):
            counted = (stage(name).waiting, stage(name, anna).waiting, stage(name, boris).waiting)
            assert counted == (alls, annas, boriss), name
        erasure.begin_user(boris, "ada")
        assert stage("erase", erasures=True).waiting == 1

    def test_what_no_worker_will_take_up_does_not_wait(self, anna: ChatUser) -> None:
        first, second = talk(anna, ("Tea", ["green?", "yes"]), ("Cake", ["which?", "plum"]))
        Suggestion.objects.create(owner=anna, kind="merge", key="1", topics=[first.pk, second.pk], evidence={})
        UnreadTopic.objects.create(owner=anna, topic=first, state="failed", due_at=timezone.now(), fault="no")
        assert (stage("consolidate").waiting, stage("extract").waiting) == (1, 1)
        ChatUser.objects.update(consolidation="off", extraction="off")
        assert (stage("consolidate").waiting, stage("extract").waiting) == (0, 0)

    @pytest.mark.slow
    def test_what_was_done_is_counted_by_hour(self, anna: ChatUser) -> None:
        talk(anna, ("Tea", ["green?", "yes"]), ("Cake", ["which?", "plum"]))
        ImportBatch.objects.create(owner=anna, source="chat.json", format="jsonl", added=40)
        AgentCall.objects.create(owner=anna, agent="merger")
        AgentCall.objects.create(owner=anna, agent="archivist")
        made = timezone.now()
        for name, count in (("import", 40), ("archive", 2), ("consolidate", 1), ("extract", 1)):
            assert (done_in_hour(name, made), stage(name).done) == (count, count), name
            assert len(stage(name).hours) == 24
        earlier = made - timedelta(hours=3)
        AgentCall.objects.filter(agent="merger").update(at=earlier)
        assert done_in_hour("consolidate", earlier) == 1
        AgentCall.objects.filter(agent="merger").update(at=timezone.now() - timedelta(days=2))
        assert stage("consolidate").done == 0

    @pytest.mark.slow
    def test_vectors_and_files_are_counted_by_hour_from_when_they_were_made(
        self, anna: ChatUser, boris: ChatUser, settings: Any, tmp_path: Any, as_viewer: Client
    ) -> None:
        settings.MEDIA_ROOT = tmp_path
        talk(anna, ("Tea", ["green?", "yes"]), ("Cake", ["which?", "plum"]))
        artifacts.put(anna, "bread.txt", "text/plain", b"Rye bread.")
        tasks.embed_pending()
        tasks.read_artifacts()
        made = PassageVector.objects.latest("made_at").made_at
        read = Artifact.objects.get().read_at
        assert made
        assert read
        assert (done_in_hour("embed", made), stage("embed", boris).done) == (PassageVector.objects.count(), 0)
        assert (done_in_hour("artifacts", read), stage("artifacts", boris).done) == (1, 0)
        page = as_viewer.get("/pipeline/").content.decode()
        assert "passages embedded by hour" in section(page, "embed")
        assert "files read by hour" in section(page, "artifacts")
        PassageVector.objects.update(made_at=made - timedelta(hours=2))
        assert done_in_hour("embed", made - timedelta(hours=2)) == PassageVector.objects.count()
        PassageVector.objects.update(made_at=None)
        assert stage("embed").done == 0

    def test_a_page_costs_as_many_queries_whatever_there_is(
        self, anna: ChatUser, as_viewer: Client, django_assert_max_num_queries: Any
    ) -> None:
        for number in range(12):
            Work.objects.create(owner=anna, kind="import", source=str(number), state="failed", fault="no")
            AgentCall.objects.create(owner=anna, agent="merger", outcome="timeout")
        with django_assert_max_num_queries(40):
            page = as_viewer.get("/pipeline/", headers={"HX-Request": "true"}).content.decode()
        assert page.count("stage-fault") == 10


@pytest.mark.django_db
class TestPage:
    def test_a_file_that_was_not_read_says_why_and_is_read_again_from_there(
        self, anna: ChatUser, as_viewer: Client, as_admin: Client
    ) -> None:
        fields = {"owner": anna, "file_type": "pdf", "created_at": timezone.now()}
        broken = Artifact.objects.create(name="a.pdf", sha256="1", state="failed", fault="It is damaged.", **fields)
        Artifact.objects.create(name="b.png", sha256="2", state="pending", attempts=2, fault="It is away.", **fields)
        Artifact.objects.create(name="c.png", sha256="3", state="pending", fault="No model is connected.", **fields)
        shown = section(as_viewer.get("/pipeline/").content.decode(), "artifacts")
        assert "a.pdf: It is damaged." in shown
        assert "b.png: It is away." in shown
        assert "c.png" not in shown
        assert "Try again" not in shown
        assert "Try again" in section(as_admin.get("/pipeline/").content.decode(), "artifacts")
        answer = as_admin.post(f"/memory/{anna.pk}/artifacts/{broken.pk}/retry/", {"next": "/pipeline/"})
        assert answer.headers["Location"] == "/pipeline/"
        broken.refresh_from_db()
        assert (broken.state, broken.fault) == ("pending", "")
        assert "It is away." in as_viewer.get(f"/memory/{anna.pk}/artifacts/").content.decode()

    @pytest.mark.slow
    def test_it_shows_what_failed_and_why_and_how_to_try_again(
        self, anna: ChatUser, as_viewer: Client, as_admin: Client
    ) -> None:
        Work.objects.create(owner=anna, kind="archive", state="failed", fault="The endpoint is away.")
        file = ImportFile.objects.create(owner=anna, source="a.zip", size_bytes=9, state="failed", fault="Not a chat.")
        own = {"source": "c.json", "state": "failed", "fault": "c.json is not valid JSON."}
        ImportFile.objects.create(owner=anna, size_bytes=9, **own)
        Work.objects.create(owner=anna, kind="import", source="a.zip", state="failed", fault="The same, as work.")
        Work.objects.create(owner=anna, kind="import", source="b.zip", state="failed", fault="By the command.")
        Work.objects.create(owner=anna, kind="embed", state="failed", fault="No such model.")
        call = AgentCall.objects.create(owner=anna, agent="archivist", outcome="parse_error")
        [topic] = talk(anna, ("Tea", ["green?", "yes"]))
        unread = {"state": "failed", "due_at": timezone.now(), "fault": "Twice nobody could read it."}
        UnreadTopic.objects.create(owner=anna, topic=topic, **unread)
        Run.objects.create(owner=anna, query="?", strategy="flash", state="finished", fallback="llm_error")
        page = as_viewer.get("/pipeline/").content.decode()
        assert "The endpoint is away." in section(page, "archive")
        assert "Try again" not in page
        assert "No such model." in section(page, "embed")
        imports = section(page, "import")
        assert "a.zip: Not a chat." in imports
        assert imports.count("c.json") == 1
        assert "The same, as work." not in imports
        assert "By the command." in imports
        assert f'href="/memory/{anna.pk}/imports/files/{file.pk}/"' in page
        assert "retried automatically" in section(page, "embed")
        assert "unreadable answer" in section(page, "extract")
        assert f'href="/agents/{call.pk}/"' in page
        assert "Twice nobody could read it." in section(page, "extract")
        assert "model error" in section(page, "runs")
        assert "Try again" in section(as_admin.get("/pipeline/").content.decode(), "archive")
        as_admin.post(f"/memory/{anna.pk}/pipeline/", {"retry": "archive"})
        assert anna in work.asked_to_archive()

    @pytest.mark.parametrize("kind", ["embed", "consolidate", "extract"])
    def test_what_was_given_up_stays_in_sight_until_a_person_has_it_tried_again(
        self, anna: ChatUser, as_viewer: Client, as_admin: Client, kind: str
    ) -> None:
        Work.objects.create(owner=anna, kind=kind, state="failed", fault="Odd row.", tries=work.MOST_TRIES)
        Work.objects.update(at=timezone.now() - timedelta(days=3))
        shown = section(as_viewer.get("/pipeline/").content.decode(), kind)
        assert "Odd row." in shown
        assert "given up" in shown
        assert "retried automatically" not in shown
        assert "Odd row." in as_admin.get(f"/memory/{anna.pk}/inbox/").content.decode()
        assert f'name="retry" value="{kind}"' in as_admin.get("/pipeline/").content.decode()
        as_admin.post(f"/memory/{anna.pk}/pipeline/", {"retry": kind})
        assert Work.objects.get().tries == 0
        assert as_admin.post(f"/memory/{anna.pk}/pipeline/", {"retry": "nothing"}).status_code == 400

    def test_a_stranger_sees_nothing_of_another_memory(self, anna: ChatUser, as_stranger: Client) -> None:
        Work.objects.create(owner=anna, kind="archive", state="failed", fault="about Anna")
        page = as_stranger.get("/pipeline/").content.decode()
        assert "about Anna" not in page
        assert "Erase" not in page
        assert as_stranger.get(f"/memory/{anna.pk}/pipeline/").status_code == 404


@pytest.mark.django_db
class TestCosts:
    @pytest.mark.slow
    def test_they_are_added_up_by_stage_day_and_chat_user(
        self, anna: ChatUser, boris: ChatUser, as_admin: Client, as_viewer: Client
    ) -> None:
        now = timezone.now()
        AgentCall.objects.create(owner=anna, agent="splitter", cost_usd=0.25)
        AgentCall.objects.create(owner=boris, agent="archivist", cost_usd=0.5)
        Run.objects.create(owner=anna, query="?", strategy="flash", cost_usd=0.125)
        old = AgentCall.objects.create(owner=anna, agent="merger", cost_usd=1.0)
        AgentCall.objects.filter(pk=old.pk).update(at=now - timedelta(days=2))
        everybody, zone = ChatUser.objects.all(), timezone.get_current_timezone()
        today, before = usage.by_day(everybody, now=now, zone=zone)
        assert (today.dollars, before.dollars) == ((0.25, 0, 0.5, 0, 0.125), (0, 1.0, 0, 0, 0))
        assert [(row.owner, row.total) for row in usage.by_owner(everybody, now=now, zone=zone)] == [
            (anna, 1.375),
            (boris, 0.5),
        ]
        assert "$1.3750" in as_admin.get("/pipeline/").content.decode()
        page = as_viewer.get("/pipeline/").content.decode()
        assert "$0.2500" in page
        assert "$0.5000" not in page


@pytest.mark.django_db
class TestPausing:
    @pytest.mark.slow
    def test_an_admin_pauses_a_stage_for_all_and_resumes_it(self, as_admin: Client) -> None:
        page = as_admin.post("/pipeline/", {"pause": "embed"}, follow=True).content.decode()
        assert "Embedding is paused" in page
        assert work.is_paused(EMBED)
        assert "Embedding goes on." in as_admin.post("/pipeline/", {"resume": "embed"}, follow=True).content.decode()
        assert not work.is_paused(EMBED)

    def test_a_curator_pauses_it_for_a_memory_that_is_open_to_them(self, anna: ChatUser, boris: ChatUser) -> None:
        client = signed_in(operator("cara", Role.CURATOR, anna))
        client.post(f"/memory/{anna.pk}/pipeline/", {"pause": "archive"})
        assert (work.is_paused(ARCHIVE, anna), work.is_paused(ARCHIVE, boris)) == (True, False)
        assert client.post(f"/memory/{boris.pk}/pipeline/", {"pause": "archive"}).status_code == 404
        assert client.post("/pipeline/", {"pause": "archive"}).status_code == 403
        assert not work.is_paused(ARCHIVE)
        client.post(f"/memory/{anna.pk}/pipeline/", {"resume": "archive"})
        assert not work.is_paused(ARCHIVE, anna)

    @pytest.mark.slow
    def test_files_and_erasures_wait_while_they_are_paused(
        self, anna: ChatUser, as_admin: Client, settings: Any, tmp_path: Any
    ) -> None:
        settings.MEDIA_ROOT = tmp_path
        row, _made = artifacts.put(anna, "note.txt", "text/plain", b"A note about bread.")
        [topic] = talk(anna, ("Tea", ["green?", "yes"]))
        gone = Message.objects.filter(topic=topic).in_order()[0]
        erasure.begin(erasure.Target(anna.pk, (gone.pk,)), "ada")
        as_admin.post(f"/memory/{anna.pk}/pipeline/", {"pause": "artifacts"})
        as_admin.post("/pipeline/", {"pause": "erase"})
        tasks.read_artifacts()
        tasks.erase_due()
        row.refresh_from_db()
        assert (row.state, Message.objects.filter(pk=gone.pk).exists()) == ("pending", True)
        assert as_admin.post(f"/memory/{anna.pk}/pipeline/", {"pause": "erase"}).status_code == 400
        as_admin.post(f"/memory/{anna.pk}/pipeline/", {"resume": "artifacts"})
        as_admin.post("/pipeline/", {"resume": "erase"})
        tasks.read_artifacts()
        tasks.erase_due()
        row.refresh_from_db()
        assert (row.state, Message.objects.filter(pk=gone.pk).exists()) == ("ready", False)


@pytest.mark.django_db
@pytest.mark.parametrize(("label", "shown"), [("", "1 message"), ("Family", "Family: 1 message")])
def test_an_active_session_has_its_own_label_and_a_countdown(
    anna: ChatUser, as_viewer: Client, label: str, shown: str
) -> None:
    at = timezone.now() - timedelta(minutes=1)
    add_messages(anna, [replace(record(1, "Cake?", at=at), session=label, project="home")])
    row = as_viewer.get(f"/memory/{anna.pk}/").content.decode().split('class="title grow clamp clamp-1"')[1]
    words = " ".join(re.sub(r"<[^>]+>", " ", row.split("</li>")[0].split(">", 1)[1]).split())
    assert words.startswith(shown)
    assert "now due" not in words
