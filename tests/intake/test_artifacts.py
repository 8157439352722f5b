"""Files and media of a memory: stored, read, described, recalled, or given up."""

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from asgiref.sync import sync_to_async
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from memoryapp.curation import knowledge
from memoryapp.engine.chat.media import MediaContent, MediaError, read_part
from memoryapp.engine.chat.protocol import ChatRequest, LLMError, LLMRefused, LLMUnavailable, Reply
from memoryapp.engine.events import MediaItem
from memoryapp.intake import artifacts
from memoryapp.memory import content as media
from memoryapp.models import AgentCall, Artifact, Card, ChatUser, KnowledgeEdit, Operator, Prompt
from memoryapp.models import Media as MediaRow
from memoryapp.models import Media as StoredMedia
from memoryapp.platform.llm import clients
from memoryapp.search import items
from memoryapp.upkeep import tasks
from rerankui.web import uploads
from tests.conftest import signed_in
from tests.engine.scripted import ScriptedChat, Step, fails, limited, says
from tests.examples import examples
from tests.intake.files import pdf, word
from tests.support.browsing import get

pytestmark = pytest.mark.django_db

State = Artifact.State
RECIPE = "Rye bread by Hilda Brandt. The dough rests fourteen hours in the cellar. Hilda Brandt adds caraway seeds."


@pytest.fixture(autouse=True)
def files(settings: Any, tmp_path: Any) -> None:
    settings.MEDIA_ROOT = tmp_path


def put(
    owner: ChatUser, name: str = "bread.txt", content: bytes = RECIPE.encode(), mime: str = "text/plain"
) -> Artifact:
    return artifacts.put(owner, name, mime, content)[0]


def again(row: Artifact) -> Artifact:
    row.refresh_from_db()
    return row


def test_a_file_is_read_once_and_found_by_what_is_in_it(anna: ChatUser) -> None:
    row = put(anna)
    assert put(anna, "copy.txt") == row
    assert artifacts.process_due() == 1
    assert artifacts.process_due() == 0
    row = again(row)
    assert (row.state, row.text, row.described_by, row.fault) == (State.READY, RECIPE, "extractive", "")
    assert row.summary == RECIPE
    assert "Hilda Brandt" in row.entities
    assert "dough" in row.keywords
    items.refresh(anna)
    assert "fourteen hours in the cellar" in Card.objects.get(artifact=row).text


def test_words_far_in_a_long_file_are_found_too(anna: ChatUser) -> None:
    row = put(anna, content=(" ".join(f"filler {chr(97 + n % 26) * 4}." for n in range(2000)) + " quinsberry").encode())
    artifacts.process_due()
    items.refresh(anna)
    card = Card.objects.get(artifact=row)
    assert "quinsberry" not in card.text
    assert Card.objects.filter(pk=card.pk, terms="quinsberry").exists()


@pytest.mark.parametrize(("name", "content"), [("bread.pdf", pdf("rye bread")), ("bread.docx", word("rye bread"))])
def test_pdf_and_word_are_read_by_the_sweep(anna: ChatUser, name: str, content: bytes) -> None:
    row = put(anna, name, content, "")
    tasks.read_artifacts()
    assert "rye bread" in again(row).text


@pytest.mark.slow
def test_a_file_that_cannot_be_read_stops_no_other_and_waits_for_a_person(anna: ChatUser) -> None:
    broken, good = put(anna, "offer.pdf", b"%PDF nothing", "application/pdf"), put(anna)
    assert artifacts.process_due() == 1
    assert again(good).state == State.READY
    assert (again(broken).state, broken.fault) == (State.FAILED, "The file is damaged, or is not what its name says.")
    assert artifacts.process_due() == 0
    artifacts.retry(broken)
    assert (again(broken).state, broken.fault, broken.attempts) == (State.PENDING, "", 0)


def test_what_may_pass_is_tried_again_after_one_five_and_thirty_minutes(anna: ChatUser) -> None:
    row = put(anna)
    path = StoredMedia.objects.get().path
    with default_storage.open(path) as file:
        content = file.read()
    default_storage.delete(path)
    waits = []
    for _try in range(4):
        artifacts.process_due()
        if again(row).due_at:
            waits.append(round((row.due_at - timezone.now()).total_seconds() / 60))
            Artifact.objects.update(due_at=timezone.now())
    assert waits == [1, 5, 30]
    assert row.state == State.FAILED
    assert "cannot be read" in row.fault
    artifacts.retry(row)
    default_storage.save(path, ContentFile(content))
    artifacts.process_due()
    assert again(row).state == State.READY


def test_a_worker_killed_in_the_middle_is_followed_by_the_next_when_its_claim_lapses(
    anna: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        raise SystemExit

    row = put(anna)
    with monkeypatch.context() as patch:
        patch.setattr(artifacts.documents, "read", killed)
        with pytest.raises(SystemExit):
            artifacts.process_due()
    assert again(row).state == State.PROCESSING
    assert artifacts.process_due() == 0, "the claim of a worker that may live is broken"
    Artifact.objects.update(due_at=timezone.now() - timedelta(seconds=1))
    assert artifacts.process_due() == 1
    assert again(row).state == State.READY


def test_a_file_that_kills_every_worker_is_given_up(anna: ChatUser) -> None:
    row = put(anna)
    Artifact.objects.update(state=State.PROCESSING, attempts=4, due_at=timezone.now())
    assert artifacts.process_due() == 0
    assert again(row).state == State.FAILED


def test_media_of_queries_become_artifacts_but_not_once_a_person_deleted_them(anna: ChatUser) -> None:
    content = RECIPE.encode()
    item = MediaItem("a" * 64, "file", "text/plain", "bread.txt", len(content))
    media.store(anna, MediaContent(item, content))
    picture = MediaItem("b" * 64, "image", "image/png", "cat.png", len(content))
    media.store(anna, MediaContent(picture, content))
    assert artifacts.take_in() == 1
    assert artifacts.take_in() == 0
    knowledge.delete(anna, Artifact.objects.get(), actor="olga")
    assert artifacts.take_in() == 0


class TestPages:
    @pytest.mark.slow
    def test_a_curator_adds_a_file_and_reads_it_again(self, anna: ChatUser, curator: Operator, settings: Any) -> None:
        browser = signed_in(curator)
        address = f"/memory/{anna.pk}/artifacts/"
        assert 'enctype="multipart/form-data"' in browser.get(address).content.decode()
        ticket = uploads.ticket(anna.pk, curator.user.pk)
        files = [SimpleUploadedFile("offer.pdf", b"%PDF nothing"), SimpleUploadedFile("big.txt", b"x" * 2000)]
        settings.MEDIA_MAX_BYTES = 1000
        page = browser.post(f"{address}upload/{ticket}/", {"file": files}, follow=True).content.decode()
        assert "offer.pdf is read within seconds" in page
        assert "big.txt was not accepted" in page
        tasks.read_artifacts()
        row = Artifact.objects.get()
        assert "The file is damaged" in browser.get(f"{address}{row.pk}/").content.decode()
        browser.post(f"{address}{row.pk}/retry/")
        assert again(row).state == State.PENDING


edits = st.lists(
    st.tuples(
        st.sampled_from(["edit", "read", "undo"]),
        st.sampled_from(["summary", "keywords", "entities"]),
        st.integers(0, 99),
    ),
    max_size=8,
)


class TestLaws(TestCase):
    @pytest.mark.slow
    @hypothesis.settings(deadline=None, max_examples=examples(10))
    @given(edits)
    def test_what_a_person_wrote_of_a_file_is_never_overwritten(self, steps: list[tuple[str, str, int]]) -> None:
        owner = ChatUser.objects.create(name="law")
        row = put(owner)
        by_hand: dict[str, Any] = {}
        last: KnowledgeEdit | None = None
        for step, field, number in steps:
            if step == "edit":
                value: Any = f"words {number}" if field == "summary" else [f"word {number}"]
                if getattr(again(row), field) != value:
                    last = knowledge.edit(owner, row, {field: value}, actor="olga")
                    by_hand[field] = value
            elif step == "undo" and last:
                knowledge.undo(owner, last, actor="olga")
                [(_pk, values)] = last.before.items()
                by_hand |= values or {}
                last = None
            else:
                artifacts.retry(row)
                assert artifacts.process_due(owner) == 1
            assert {name: getattr(again(row), name) for name in by_hand} == by_hand
        ChatUser.objects.filter(pk=owner.pk).delete()


# A chat model that accepts media describes pictures and recordings; without one they wait, or fail with a sentence.


SEEN = {
    "summary": "A menu of Café Figaro with prices.",
    "text": "Fig tart 4.50",
    "keywords": ["menu", "fig tart"],
    "entities": ["Café Figaro"],
    "answers": ["What does a fig tart cost?"],
}
PICTURE = b"\x89PNG picture"
RUSSIAN = {"Accept-Language": "ru"}


def connect(settings: Any, monkeypatch: pytest.MonkeyPatch, *steps: Step) -> ScriptedChat:
    """Connects a chat model that gives this answer."""
    chat = ScriptedChat(*steps)

    @asynccontextmanager
    async def opened(_model: str) -> AsyncIterator[ScriptedChat]:
        yield chat

    settings.LLM_BASE_URL = "http://model.invalid"
    monkeypatch.setattr(clients, "open_chat", opened)
    return chat


def put_media(owner: ChatUser, name: str = "menu.png", mime: str = "image/png", content: bytes = PICTURE) -> Artifact:
    return artifacts.put(owner, name, mime, content)[0]


def part(request: ChatRequest) -> dict[str, Any]:
    """Returns the part of the request that contains the medium."""
    found: dict[str, Any] = request.messages[1]["content"][1]
    return found


def test_a_picture_is_described_once_and_found_by_what_is_in_it(
    anna: ChatUser, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = connect(settings, monkeypatch, says(json.dumps(SEEN)))
    row = put_media(anna)
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
    row = put_media(anna, name, mime)
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
    put_media(anna, "меню.png")
    tasks.read_artifacts()
    assert chat.requests[0].messages[0]["content"] == "Опиши."
    assert AgentCall.objects.get().prompt_version == "describe-ru-1"


def test_of_a_text_too_long_for_any_answer_what_came_is_kept_and_the_page_says_so(
    anna: ChatUser, settings: Any, monkeypatch: pytest.MonkeyPatch, as_admin: Client
) -> None:
    long = json.dumps(SEEN | {"text": "Fig tart 4.50, " * 40})
    connect(settings, monkeypatch, limited(long[:300]), limited(long[:400]))
    row = put_media(anna)
    tasks.read_artifacts()
    row = again(row)
    assert (row.state, row.is_cut, row.summary) == (State.READY, True, SEEN["summary"])
    assert row.text.startswith("Fig tart 4.50, Fig tart")
    assert "more text than was read" in get(as_admin, f"/memory/{anna.pk}/artifacts/{row.pk}/")


def test_a_description_cut_before_its_text_is_asked_for_later(
    anna: ChatUser, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = connect(settings, monkeypatch, *[limited('{"summary": "A menu of C')] * 2, says(json.dumps(SEEN)))
    row = put_media(anna)
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
    row = put_media(anna, "menu", mime)
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
    row, waits = put_media(anna), []
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
    row = put_media(anna)
    tasks.read_artifacts()
    assert (again(row).state, "cannot be read" in row.fault) == (State.PENDING, True)
    knowledge.edit(anna, row, {"summary": "Our menu."}, actor="ada")
    Artifact.objects.update(due_at=None)
    tasks.read_artifacts()
    assert (again(row).summary, row.text) == ("Our menu.", SEEN["text"])


def test_a_large_file_is_not_sent(anna: ChatUser, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = connect(settings, monkeypatch)
    settings.MEDIA_MAX_BYTES = len(PICTURE) - 1
    row = put_media(anna)
    tasks.read_artifacts()
    assert (again(row).state, chat.requests) == (State.FAILED, [])
    assert "not sent to the chat model" in row.fault


def test_without_a_model_the_page_says_so_and_the_file_is_described_once_there_is_one(
    anna: ChatUser, settings: Any, monkeypatch: pytest.MonkeyPatch, as_admin: Client
) -> None:
    row = put_media(anna)
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
    row = put_media(anna)
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
    row = put_media(anna)
    tasks.read_artifacts()
    assert (again(row).state, row.summary, len(chat.requests)) == (State.PENDING, "", 1)


def test_why_a_file_was_not_read_stands_on_every_page_in_the_readers_language(
    anna: ChatUser, as_admin: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(settings, monkeypatch)
    settings.MEDIA_MAX_BYTES = 11
    row = put_media(anna)
    tasks.read_artifacts()
    pages = ("/pipeline/", f"/memory/{anna.pk}/artifacts/", f"/memory/{anna.pk}/artifacts/{row.pk}/")
    for page in pages:
        assert "has more than 11 bytes: it is not sent" in get(as_admin, page), page
        assert "больше 11 байт: модели он не отправляется" in get(as_admin, page, **RUSSIAN), page
    # as a row of an earlier version has it
    Artifact.objects.update(fault="acme takes no sound.", fault_note=None)
    for page in pages:
        assert "acme takes no sound." in get(as_admin, page, **RUSSIAN), page


# Media of a query: stored once under their hash, completely or not at all, and only for their owner's runs.


def picture(content: bytes = b"\x89PNG picture", name: str = "a.png") -> MediaContent:
    url = f"data:image/png;base64,{base64.b64encode(content).decode()}"
    return read_part({"type": "file", "file": {"filename": name, "file_data": url}})


def test_what_was_stored_is_read_as_it_was_sent(anna: ChatUser) -> None:
    item = media.store(anna, picture())
    assert media.read(anna.pk, item) == picture()
    row = MediaRow.objects.get()
    assert (row.owner, row.sha256, row.size_bytes) == (anna, hashlib.sha256(b"\x89PNG picture").hexdigest(), 12)


def test_the_same_bytes_are_kept_once_for_each_who_sent_them(anna: ChatUser, boris: ChatUser, tmp_path: Path) -> None:
    for owner in (anna, anna, boris):
        media.store(owner, picture())
    assert MediaRow.objects.count() == 2
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_another_memory_does_not_get_them(anna: ChatUser, boris: ChatUser) -> None:
    item = media.store(anna, picture())
    with pytest.raises(MediaError, match="There is no media"):
        media.read(boris.pk, item)


def test_bytes_that_changed_are_refused(anna: ChatUser) -> None:
    item = media.store(anna, picture())
    Path(default_storage.path(MediaRow.objects.get().path)).write_bytes(b"\x89PNG pictURE")
    with pytest.raises(MediaError, match="not what was sent"):
        media.read(anna.pk, item)


def test_a_missing_file_is_reported_and_sending_it_again_restores_it(anna: ChatUser) -> None:
    item = media.store(anna, picture())
    default_storage.delete(MediaRow.objects.get().path)
    with pytest.raises(MediaError, match="cannot be read"):
        media.read(anna.pk, item)
    media.store(anna, picture())
    assert media.read(anna.pk, item).content == picture().content


def test_half_a_file_is_replaced_when_it_is_sent_again(anna: ChatUser) -> None:
    row = MediaRow(sha256=picture().item.sha256)
    default_storage.save(row.path, ContentFile(b"\x89PN"))
    assert media.read(anna.pk, media.store(anna, picture())).content == picture().content


def test_a_name_no_database_stores_is_stored_without_what_cannot_be(anna: ChatUser) -> None:
    item = media.store(anna, picture(name="a\x00\ud800.png"))
    assert item.name == MediaRow.objects.get().name
    assert "\x00" not in item.name
    item.name.encode()


def test_a_fault_while_writing_leaves_nothing_behind(tmp_path: Path) -> None:
    class Torn(ContentFile):
        def chunks(self, chunk_size: int | None = None) -> Any:
            yield b"half"
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        default_storage.save("media/aa/aaaa", Torn(b"half and half"))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
async def test_a_run_gets_its_media_in_its_own_loop() -> None:
    owner = await ChatUser.objects.acreate(name="anna")
    await MediaRow.objects.acreate(
        owner=owner, sha256=picture().item.sha256, type="file", mime_type="image/png", name="a.png", size_bytes=12
    )
    default_storage.save(MediaRow(sha256=picture().item.sha256).path, ContentFile(picture().content))
    assert await sync_to_async(media.read)(owner.pk, picture().item) == picture()
