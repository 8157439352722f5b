"""A chat model that accepts media describes pictures and recordings; without one they wait, or fail with a sentence."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memoryapp.curation import knowledge
from memoryapp.engine.chat.protocol import ChatRequest, LLMError, LLMRefused, LLMUnavailable, Reply
from memoryapp.intake import artifacts
from memoryapp.models import AgentCall, Artifact, Card, ChatUser, Prompt
from memoryapp.platform.llm import clients
from memoryapp.search import items
from memoryapp.upkeep import tasks
from tests.engine.scripted import ScriptedChat, Step, fails, limited, says
from tests.support.browsing import get

pytestmark = pytest.mark.django_db
State = Artifact.State
SEEN = {
    "summary": "A menu of Café Figaro with prices.",
    "text": "Fig tart 4.50",
    "keywords": ["menu", "fig tart"],
    "entities": ["Café Figaro"],
    "answers": ["What does a fig tart cost?"],
}
PICTURE = b"\x89PNG picture"
RUSSIAN = {"Accept-Language": "ru"}


@pytest.fixture(autouse=True)
def files(settings: Any, tmp_path: Any) -> None:
    settings.MEDIA_ROOT = tmp_path


def connect(settings: Any, monkeypatch: pytest.MonkeyPatch, *steps: Step) -> ScriptedChat:
    """Connects a chat model that gives this answer."""
    chat = ScriptedChat(*steps)

    @asynccontextmanager
    async def opened(_model: str) -> AsyncIterator[ScriptedChat]:
        yield chat

    settings.LLM_BASE_URL = "http://model.invalid"
    monkeypatch.setattr(clients, "open_chat", opened)
    return chat


def put(owner: ChatUser, name: str = "menu.png", mime: str = "image/png", content: bytes = PICTURE) -> Artifact:
    return artifacts.put(owner, name, mime, content)[0]


def again(row: Artifact) -> Artifact:
    row.refresh_from_db()
    return row


def part(request: ChatRequest) -> dict[str, Any]:
    """Returns the part of the request that contains the medium."""
    found: dict[str, Any] = request.messages[1]["content"][1]
    return found


def test_a_picture_is_described_once_and_found_by_what_is_in_it(
    anna: ChatUser, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = connect(settings, monkeypatch, says(json.dumps(SEEN)))
    row = put(anna)
    tasks.read_artifacts()
    tasks.read_artifacts()
    [request] = chat.requests
    url = f"data:image/png;base64,{base64.b64encode(PICTURE).decode()}"
    assert part(request) == {"type": "image_url", "image_url": {"url": url}}
    row = again(row)
    assert (row.state, row.summary, row.text) == (State.READY, SEEN["summary"], SEEN["text"])
    assert (row.keywords, row.entities, row.rag_hints) == (SEEN["keywords"], SEEN["entities"], SEEN["answers"])
    assert (row.described_by, row.fault) == ("scripted", "")
    call = AgentCall.objects.get()
    assert (call.agent, call.prompt_version, call.outcome) == ("describer", "describe-en-0", "")
    items.refresh(anna)
    assert "Café Figaro" in Card.objects.get(artifact=row).text


@pytest.mark.parametrize(
    ("name", "mime", "format"),
    [("a.mp3", "audio/mpeg", "mp3"), ("a.wav", "audio/x-wav", "wav"), ("a", "audio/ogg", "ogg")],
)
def test_a_recording_is_sent_as_sound_in_the_words_of_the_api(
    anna: ChatUser, settings: Any, monkeypatch: pytest.MonkeyPatch, name: str, mime: str, format: str
) -> None:
    chat = connect(settings, monkeypatch, says(json.dumps(SEEN)))
    row = put(anna, name, mime)
    tasks.read_artifacts()
    assert part(chat.requests[0])["input_audio"]["format"] == format
    assert again(row).state == State.READY


def test_a_russian_name_is_asked_about_in_russian_by_the_prompt_in_force(
    anna: ChatUser, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Prompt.objects.create(
        name="describe", language="ru", version=1, system="Опиши.", user="$file", made_by="ada", in_force=True
    )
    chat = connect(settings, monkeypatch, says(json.dumps(SEEN)))
    put(anna, "меню.png")
    tasks.read_artifacts()
    assert chat.requests[0].messages[0]["content"] == "Опиши."
    assert AgentCall.objects.get().prompt_version == "describe-ru-1"


def test_of_a_text_too_long_for_any_answer_what_came_is_kept_and_the_page_says_so(
    anna: ChatUser, settings: Any, monkeypatch: pytest.MonkeyPatch, as_admin: Client
) -> None:
    long = json.dumps(SEEN | {"text": "Fig tart 4.50, " * 40})
    connect(settings, monkeypatch, limited(long[:300]), limited(long[:400]))
    row = put(anna)
    tasks.read_artifacts()
    row = again(row)
    assert (row.state, row.is_cut, row.summary) == (State.READY, True, SEEN["summary"])
    assert row.text.startswith("Fig tart 4.50, Fig tart")
    assert "more text than was read" in get(as_admin, f"/memory/{anna.pk}/artifacts/{row.pk}/")


def test_a_description_cut_before_its_text_is_asked_for_later(
    anna: ChatUser, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = connect(settings, monkeypatch, *[limited('{"summary": "A menu of C')] * 2, says(json.dumps(SEEN)))
    row = put(anna)
    tasks.read_artifacts()
    assert len(chat.requests) == 2
    assert (again(row).state, row.summary) == (State.PENDING, "")
    assert "cut off" in row.fault
    Artifact.objects.update(due_at=timezone.now())
    tasks.read_artifacts()
    assert (again(row).state, row.text, row.is_cut) == (State.READY, SEEN["text"], False)


@pytest.mark.parametrize(("mime", "sentence"), [("image/png", "takes no pictures"), ("audio/mpeg", "takes no sound")])
def test_a_model_that_takes_no_such_files_is_asked_once_and_a_sentence_says_so(
    anna: ChatUser, settings: Any, monkeypatch: pytest.MonkeyPatch, mime: str, sentence: str
) -> None:
    refusal = LLMRefused("model.invalid did not understand the request (400, image and audio input is not supported).")
    chat = connect(settings, monkeypatch, fails(refusal))
    row = put(anna, "menu", mime)
    for _sweep in range(3):
        tasks.read_artifacts()
        Artifact.objects.update(due_at=timezone.now())
    assert len(chat.requests) == 1
    assert again(row).state == State.FAILED
    assert sentence in row.fault
    assert not row.summary


@pytest.mark.parametrize(
    "error", [LLMUnavailable("away"), LLMRefused("no credit (402)"), LLMError("The image service is busy")]
)
def test_a_model_that_does_not_answer_is_asked_after_one_five_and_thirty_minutes(
    anna: ChatUser, settings: Any, monkeypatch: pytest.MonkeyPatch, error: LLMError
) -> None:
    chat = connect(settings, monkeypatch, *[fails(error)] * 4, says(json.dumps(SEEN)))
    row, waits = put(anna), []
    for _try in range(4):
        tasks.read_artifacts()
        if (due_at := again(row).due_at) is not None:
            waits.append(round((due_at - timezone.now()) / timedelta(minutes=1)))
            Artifact.objects.update(due_at=timezone.now())
    assert (waits, row.state, len(chat.requests)) == ([1, 5, 30], State.FAILED, 4)
    artifacts.retry(row)
    tasks.read_artifacts()
    assert again(row).state == State.READY


def test_an_answer_that_nobody_can_read_is_put_off_and_a_persons_words_are_kept(
    anna: ChatUser, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(settings, monkeypatch, says("Sorry."), says("[]"), says(f"```json\n{json.dumps([SEEN])}\n```"))
    row = put(anna)
    tasks.read_artifacts()
    assert (again(row).state, "cannot be read" in row.fault) == (State.PENDING, True)
    knowledge.edit(anna, row, {"summary": "Our menu."}, actor="ada")
    Artifact.objects.update(due_at=None)
    tasks.read_artifacts()
    assert (again(row).summary, row.text) == ("Our menu.", SEEN["text"])


def test_a_large_file_is_not_sent(anna: ChatUser, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = connect(settings, monkeypatch)
    settings.MEDIA_MAX_BYTES = len(PICTURE) - 1
    row = put(anna)
    tasks.read_artifacts()
    assert (again(row).state, chat.requests) == (State.FAILED, [])
    assert "not sent to the chat model" in row.fault


def test_without_a_model_the_page_says_so_and_the_file_is_described_once_there_is_one(
    anna: ChatUser, settings: Any, monkeypatch: pytest.MonkeyPatch, as_admin: Client
) -> None:
    row = put(anna)
    for _sweep in range(6):
        tasks.read_artifacts()
        Artifact.objects.update(due_at=timezone.now())
    assert (again(row).state, row.attempts) == (State.PENDING, 0)
    assert "No chat model is connected" in as_admin.get(f"/memory/{anna.pk}/artifacts/{row.pk}/").content.decode()
    connect(settings, monkeypatch, says(json.dumps(SEEN)))
    tasks.read_artifacts()
    assert again(row).state == State.READY


def test_an_answer_that_was_paid_for_serves_a_worker_that_follows_a_killed_one(
    anna: ChatUser, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        raise SystemExit

    chat = connect(settings, monkeypatch, says(json.dumps(SEEN)))
    row = put(anna)
    with monkeypatch.context() as patch:
        patch.setattr(artifacts, "_write", killed)
        with pytest.raises(SystemExit):
            tasks.read_artifacts()
    assert again(row).state == State.PROCESSING
    Artifact.objects.update(due_at=timezone.now())
    tasks.read_artifacts()
    assert (again(row).state, len(chat.requests)) == (State.READY, 1)


def test_the_media_are_never_left_out_though_a_run_would_go_on_without_them(
    anna: ChatUser, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    guess = Reply(text=json.dumps(SEEN), message={"role": "assistant", "content": "x"})
    chat = connect(settings, monkeypatch, fails(LLMUnavailable("the vision model is busy")), Step(guess))
    row = put(anna)
    tasks.read_artifacts()
    assert (again(row).state, row.summary, len(chat.requests)) == (State.PENDING, "", 1)


def test_why_a_file_was_not_read_stands_on_every_page_in_the_readers_language(
    anna: ChatUser, as_admin: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(settings, monkeypatch)
    settings.MEDIA_MAX_BYTES = 11
    row = put(anna)
    tasks.read_artifacts()
    pages = ("/pipeline/", f"/memory/{anna.pk}/artifacts/", f"/memory/{anna.pk}/artifacts/{row.pk}/")
    for page in pages:
        assert "has more than 11 bytes: it is not sent" in get(as_admin, page), page
        assert "больше 11 байт: модели он не отправляется" in get(as_admin, page, **RUSSIAN), page
    # as a row of an earlier version has it
    Artifact.objects.update(fault="acme takes no sound.", fault_note=None)
    for page in pages:
        assert "acme takes no sound." in get(as_admin, page, **RUSSIAN), page
