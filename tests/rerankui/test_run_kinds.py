"""The run page for people, artifacts, media, prompts, context and the turn that goes on."""

import base64
import re
from dataclasses import asdict, replace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import Client
from django.utils import timezone
from lxml import html

from memoryapp.engine.candidates import ItemCandidate
from memoryapp.engine.chat.media import read_part
from memoryapp.engine.events import (
    CandidatesFound,
    Event,
    MediaItem,
    ModelReplied,
    PromptMessage,
    RunFinished,
    RunStarted,
    Selected,
    TurnStarted,
)
from memoryapp.engine.kinds.kind import ContextPart
from memoryapp.memory import content as kept
from memoryapp.models import ChatUser, Operator, Run, RunProgress, Topic
from memoryapp.runs.notices import announce
from rerankui.runs import fragments
from rerankui.runs.fragments import Seen
from rerankui.runs.page.result import context_parts
from tests.conftest import candidate, signed_in, talk
from tests.rerankui.test_runs import connected
from tests.runs.stored_events import store
from tests.support.browsing import flat
from tests.support.clock import PATIENCE

PIXEL = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
PETROV = ItemCandidate(
    "Person:5",
    1,
    1,
    0.5,
    2.0,
    1.0,
    0.65,
    "Петров",
    "[Person:5] (0.65) Петров (@petrov) | 127 mentions | <colleague>",
    True,
)
REPORT = ItemCandidate(
    "Artifact:3", 1, 0, 0.0, 0.0, 0.0, 0.0, "api.pdf", '[Artifact:3] pdf: "api.pdf" | OAuth2', True, in_session=True
)


@pytest.fixture
def topic(anna: ChatUser) -> Topic:
    return talk(anna, ("vLLM crash", ["vLLM dies", "Lower it"]))[0]


@pytest.fixture
def picture(anna: ChatUser) -> MediaItem:
    return kept.store(anna, read_part({"type": "image_url", "image_url": {"url": _data("image/gif", PIXEL)}}))


def _data(mime: str, content: bytes) -> str:
    return f"data:{mime};base64,{base64.b64encode(content).decode()}"


@pytest.fixture
def run(anna: ChatUser, picture: MediaItem) -> Run:
    return Run.objects.create(owner=anna, query="vllm?", strategy="flash", media=[asdict(picture)])


@pytest.fixture
def events(topic: Topic, picture: MediaItem) -> list[Event]:
    one = f"Topic:{topic.pk}"
    prompt = (PromptMessage("system", "choose"), PromptMessage("user", "vllm?", (picture,)))
    return [
        RunStarted("flash", "vllm?", {}, "rerank-ru-3", "peer", "embedded/use@512", (picture,)),
        CandidatesFound((candidate(topic),), 4, 0.02, people=(PETROV,), artifacts=(REPORT,), cards=9),
        TurnStarted(1, "auto", "json_schema", prompt, "rerank-ru-3", {"query": "vllm?", "profile": ""}),
        ModelReplied(1, "{}", "", (), 1, 1, 0.0, 0.1, "peer", provider="Google"),
        RunFinished(
            (Selected(one, 1, "it says so", 0.8, 2),),
            (),
            "",
            "",
            people=(Selected("Person:5", 1, "he repaired it", 0.65, 1),),
            context=(ContextPart("profile", 30, 10, 1, "an <engineer>"), ContextPart("topics", 90, 30, 1)),
        ),
    ]


@pytest.fixture
def page(run: Run, events: list[Event], as_viewer: Client) -> str:
    store(run, events)
    return flat(as_viewer.get(f"/runs/{run.pk}/").content.decode())


def test_people_and_artifacts_stand_beside_the_topics(page: str) -> None:
    shown = re.findall(r'data-show="(\w+)">\w+ <b class="num">(\d)</b>', page)
    assert shown == [("topics", "1"), ("people", "1"), ("artifacts", "1")]
    assert re.search(r'class="candidate is-chosen" data-topic="Person:5"', page)
    assert "in session" in page.split('data-topic="Artifact:3"')[1].split("</li>")[0]
    assert "he repaired it" in page.split('id="lane-result"')[1]
    assert '<b class="num">1</b> person' in page.split('class="waterfall"')[0]


def test_a_chosen_person_is_marked_as_topics_are(events: list[Event], topic: Topic) -> None:
    finished = events[-1]
    assert isinstance(finished, RunFinished)
    assert finished.marks() == {f"Topic:{topic.pk}": "chosen", "Person:5": "chosen"}
    assert replace(finished, fallback="timeout", people=()).marks() == {f"Topic:{topic.pk}": "instead"}


def numbers(page: str) -> str:
    """Returns the numbers at the head of the page, as text."""
    (shown,) = html.document_fromstring(page).find_class("run-numbers")
    return " ".join(shown.text_content().split())


@pytest.mark.slow
def test_a_run_that_chose_only_a_person_chose(run: Run, events: list[Event], as_viewer: Client) -> None:
    finished = events[-1]
    assert isinstance(finished, RunFinished)
    store(run, [*events[:-1], replace(finished, selected=())])
    page = as_viewer.get(f"/runs/{run.pk}/").content.decode()
    assert numbers(page).endswith("chosen: 1 person")
    for words in ("run-outcome", "nothing chosen", "found nothing relevant", "Nothing of the memory was chosen"):
        assert words not in page
    assert "1 person</td>" in flat(as_viewer.get("/runs/?outcome=chosen").content.decode())
    assert f"/runs/{run.pk}/" not in as_viewer.get("/runs/?outcome=none").content.decode()


@pytest.mark.slow
def test_an_item_is_shown_as_the_model_saw_it_and_leads_to_its_list(
    page: str, run: Run, as_viewer: Client, anna: ChatUser
) -> None:
    peek = as_viewer.get(f"/runs/{run.pk}/items/Person:5/", headers={"HX-Request": "true"}).content.decode()
    assert "&lt;colleague&gt;" in peek
    assert "he repaired it" in peek
    assert f"/memory/{anna.pk}/people/?q=" in peek
    assert "#person-5" in peek
    assert as_viewer.get(f"/runs/{run.pk}/items/Person:6/").status_code == 404
    assert as_viewer.get(f"/runs/{run.pk}/items/Artifact:3/").status_code == 200


def test_the_prompt_is_recorded_with_its_version_and_every_variable(page: str) -> None:
    turn = page.split('data-kind="turn_started"')[1].split("</article>")[0]
    assert "rerank-ru-3" in turn
    assert "Russian" in turn
    assert "$query" in turn
    assert "empty" in turn.split("$profile")[1]


def test_media_are_named_and_pictured_but_never_written_into_the_page(page: str, run: Run, picture: MediaItem) -> None:
    assert page.count(f'src="/runs/{run.pk}/media/{picture.sha256}/"') == 2
    assert "base64," not in page
    assert picture.sha256[:8] in page


def test_a_picture_is_shown_in_place(run: Run, picture: MediaItem, as_viewer: Client) -> None:
    answer = as_viewer.get(f"/runs/{run.pk}/media/{picture.sha256}/")
    assert (answer.content, answer.headers["Content-Type"]) == (PIXEL, "image/gif")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "private" in answer.headers["Cache-Control"]


@pytest.mark.parametrize("mime", ["image/svg+xml", "text/html"])
def test_what_may_hold_a_script_is_only_ever_downloaded(run: Run, anna: ChatUser, as_viewer: Client, mime: str) -> None:
    kind, inner = ("image_url", "url") if mime.startswith("image") else ("file", "file_data")
    item = kept.store(anna, read_part({"type": kind, kind: {inner: _data(mime, b"<script>alert(1)</script>")}}))
    Run.objects.filter(pk=run.pk).update(media=[asdict(item)])
    answer = as_viewer.get(f"/runs/{run.pk}/media/{item.sha256}/")
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert "sandbox" in answer.headers["Content-Security-Policy"]


def test_media_belong_to_their_run_and_its_viewers(
    run: Run, picture: MediaItem, as_viewer: Client, stranger: Operator
) -> None:
    address = f"/runs/{run.pk}/media/{picture.sha256}/"
    other = Run.objects.create(owner=run.owner, query="other", strategy="flash")
    assert signed_in(stranger).get(address).status_code == 404
    assert as_viewer.get(f"/runs/{other.pk}/media/{picture.sha256}/").status_code == 404
    assert Client().get(address).status_code == 302


def test_the_context_is_shown_to_scale_and_its_parts_on_demand(page: str, run: Run, as_viewer: Client) -> None:
    assert "What the chat model gets" in page
    assert "an &lt;engineer&gt;" not in page
    part = as_viewer.get(f"/runs/{run.pk}/context/profile/").content.decode()
    assert "an &lt;engineer&gt;" in part
    assert "vLLM dies" in as_viewer.get(f"/runs/{run.pk}/context/topics/").content.decode()
    assert as_viewer.get(f"/runs/{run.pk}/context/people/").status_code == 404


def test_the_parts_of_the_context_fill_its_bar(events: list[Event]) -> None:
    finished = events[-1]
    assert isinstance(finished, RunFinished)
    shown = context_parts(finished, "topics")
    assert shown
    assert [(share.x, share.width) for share in shown["shares"]] == [(0, 250), (250, 750)]
    assert (shown["chars"], shown["tokens"]) == (120, 40)
    assert context_parts(replace(finished, context=()), "topics") is None


def speak(run: Run, turn: int, text: str) -> None:
    now = timezone.now()
    words = {"owner": run.owner, "turn": turn, "text": text, "reasoning": "it seems", "at": now}
    RunProgress.objects.update_or_create(run=run, defaults=words)


def test_between_events_only_the_words_of_the_turn_are_sent(run: Run, events: list[Event]) -> None:
    store(run, events[:3])
    first = fragments.frame(run.pk, seen=Seen(), language="en")
    speak(run, 1, "<b>half")
    words = fragments.frame(run.pk, seen=first.seen, language="en")
    assert "&lt;b&gt;half" in words.html
    assert 'id="event-' not in words.html
    assert fragments.frame(run.pk, seen=words.seen, language="en").html == ""


def test_the_words_of_a_turn_give_way_to_its_event(run: Run, events: list[Event], as_viewer: Client) -> None:
    store(run, events[:3])
    speak(run, 1, "half")
    assert "half" in as_viewer.get(f"/runs/{run.pk}/").content.decode()
    before = fragments.frame(run.pk, seen=Seen(), language="en")
    assert "half" in before.html
    store(run, [events[3]], after=3)
    after = fragments.frame(run.pk, seen=before.seen, language="en")
    assert 'id="event-4"' in after.html
    assert "half" not in after.html
    assert "half" not in as_viewer.get(f"/runs/{run.pk}/").content.decode()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
async def test_the_socket_lets_the_words_of_a_turn_grow(run: Run, events: list[Event], viewer: Operator) -> None:
    await sync_to_async(store)(run, events[:3])
    socket, _ = await connected(run.pk, viewer.user)
    assert 'id="event-3"' in await socket.receive_from(timeout=PATIENCE)
    for text in ("The first", "The first looks close"):
        await sync_to_async(speak)(run, 1, text)
        await announce(run.pk)
        assert text in await socket.receive_from(timeout=PATIENCE)
    await socket.disconnect(timeout=PATIENCE)


@pytest.mark.parametrize("count", [1, 40])
def test_a_run_page_costs_the_same_however_much_was_found(
    run: Run, events: list[Any], as_viewer: Client, django_assert_max_num_queries: Any, count: int
) -> None:
    people = tuple(replace(PETROV, id=f"Person:{n}", rank=n) for n in range(1, count + 1))
    store(run, [events[0], replace(events[1], people=people), *events[2:]])
    # One of them reads the tree of forks.
    with django_assert_max_num_queries(13):
        as_viewer.get(f"/runs/{run.pk}/")
