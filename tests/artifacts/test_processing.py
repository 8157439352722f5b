"""Files arrive, the sweep reads them, recall finds them; files that cannot be read are tried later or given up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import hypothesis
import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from memoryapp.curation import knowledge
from memoryapp.curation.knowledge.writing import EDITABLE
from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.events import MediaItem
from memoryapp.intake import artifacts
from memoryapp.memory import content as media
from memoryapp.models import Artifact, Card, ChatUser, KnowledgeEdit, Operator, Role
from memoryapp.models import Media as StoredMedia
from memoryapp.search import items
from memoryapp.upkeep import tasks
from rerankui.web import uploads
from tests.artifacts.files import pdf, word
from tests.conftest import operator, signed_in
from tests.examples import examples

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


@pytest.fixture
def curator(anna: ChatUser) -> Operator:
    return operator("cora", Role.CURATOR, anna)


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

    def test_who_may_not_curate_adds_nothing(self, anna: ChatUser, debugger: Operator) -> None:
        browser = signed_in(debugger)
        address = f"/memory/{anna.pk}/artifacts/"
        assert 'type="file"' not in browser.get(address).content.decode()
        ticket = uploads.ticket(anna.pk, debugger.user.pk)
        sent = browser.post(f"{address}upload/{ticket}/", {"file": SimpleUploadedFile("a.txt", b"b")})
        assert sent.status_code == 403
        assert not Artifact.objects.exists()


FIELDS = EDITABLE[KnowledgeEdit.Noun.ARTIFACT]
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
