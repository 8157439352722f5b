"""A stage of background work needs one module: a made-up one is shown, paused, scheduled and tried again like all
others."""

from collections.abc import Callable, Iterator

import pytest
from django.conf import LazySettings
from django.test import Client
from django.utils import timezone

from memoryapp.celery import SCHEDULE, app, sweep
from memoryapp.models import ChatUser, Message, Work
from memoryapp.models.work import KINDS, WorkKind
from memoryapp.platform import work
from memoryapp.upkeep.pipeline import STAGES
from memoryapp.upkeep.pipeline.stage import Scope, Stage, StageWords, up_to_most
from tests.conftest import talk
from tests.rerankui.test_pipeline import section

pytestmark = pytest.mark.django_db

Sweep = Callable[[], None]
ENDPOINT = "https://models.example/v1"


def unread(scope: Scope) -> int:
    return up_to_most(scope.of(Message.objects.present().exclude(text__startswith="aloud:")))


@pytest.fixture
def aloud() -> Iterator[Sweep]:
    """Adds the stage in which messages are read aloud, and returns its sweep."""
    kind = WorkKind("aloud", "Reading aloud", "%(done)s words (%(percent)s %%)")
    words = StageWords(
        "Aloud", "paperclip", "messages unread", "messages read by hour", "ARCHIVIST_MODEL", "%(model)s reads.", "Mute."
    )

    @sweep(every=7.0)
    def read_aloud() -> None:
        for owner in list(work.unpaused(ChatUser.objects.all(), kind)):
            with work.tracked(owner, kind) as steps:
                for number, message in enumerate(Message.objects.of(owner), 1):
                    if message.text == "unspeakable":
                        raise ValueError("Nobody can say that.")
                    Message.objects.filter(pk=message.pk).update(text=f"aloud: {message.text}")
                    steps.reached(number, 0.5)

    STAGES["aloud"] = Stage("aloud", words, unread, kind)
    yield read_aloud
    del STAGES["aloud"], KINDS["aloud"], SCHEDULE["read-aloud"], app.tasks["memoryapp.tasks.read_aloud"]


def shown(client: Client, owner: ChatUser) -> str:
    return section(client.get(f"/memory/{owner.pk}/pipeline/").content.decode(), "aloud")


def test_beat_sends_its_sweep_and_the_worker_knows_it(aloud: Sweep) -> None:
    entry = app.conf.beat_schedule["read-aloud"]
    assert entry["schedule"].run_every.total_seconds() == 7
    assert entry["task"] in app.tasks


def test_the_page_says_in_its_words_what_waits_what_was_done_and_which_model_does_it(
    anna: ChatUser, as_admin: Client, aloud: Sweep, settings: LazySettings
) -> None:
    talk(anna, ("Tea", ["green?", "yes"]))
    page = shown(as_admin, anna)
    assert page.startswith("Aloud Mute. 2 messages unread")
    settings.LLM_BASE_URL, settings.ARCHIVIST_MODEL = ENDPOINT, "some/voice"
    assert "some/voice reads." in shown(as_admin, anna)
    aloud()
    page = shown(as_admin, anna)
    assert "0 messages unread" in page
    assert "latest: 2" in page


def test_progress_and_failures_are_shown_until_the_next_sweep_succeeds(
    anna: ChatUser, as_admin: Client, aloud: Sweep
) -> None:
    talk(anna, ("Tea", ["green?", "unspeakable"]))
    with pytest.raises(ValueError, match="Nobody"):
        aloud()
    assert "Nobody can say that." in shown(as_admin, anna)
    assert "Reading aloud" in as_admin.get("/work/").content.decode()
    Message.objects.update(text="yes")
    Work.objects.update(state="going_on", started_at=timezone.now(), done=12, share=0.25)
    assert "12 words (25 %)" in shown(as_admin, anna)
    aloud()
    assert "Nobody can say that." not in shown(as_admin, anna)


def test_it_does_nothing_while_it_is_paused(anna: ChatUser, boris: ChatUser, as_admin: Client, aloud: Sweep) -> None:
    talk(anna, ("Tea", ["green?", "yes"]))
    talk(boris, ("Cake", ["which?", "plum"]))
    page = as_admin.post(f"/memory/{anna.pk}/pipeline/", {"pause": "aloud"}, follow=True).content.decode()
    assert "Reading aloud is paused: no new work starts." in page
    assert "Reading aloud is paused for this chat user by" in work.pause_sentence(KINDS["aloud"], anna)
    aloud()
    assert ("2 messages unread" in shown(as_admin, anna), "0 messages unread" in shown(as_admin, boris)) == (True, True)
    as_admin.post(f"/memory/{anna.pk}/pipeline/", {"resume": "aloud"})
    aloud()
    assert "0 messages unread" in shown(as_admin, anna)


def test_each_kind_of_work_is_a_stage_of_the_same_name() -> None:
    assert {stage.name: stage.kind for stage in STAGES.values() if stage.kind} == KINDS
