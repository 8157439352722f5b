"""The text of files, valid and invalid."""

from collections.abc import Callable

import pytest

from memoryapp.memory import documents
from memoryapp.memory.document_child import MOST_CHARS
from memoryapp.memory.documents import Unreadable
from tests.examples import table
from tests.intake.files import bomb, pdf, word


@pytest.mark.parametrize(("name", "mime_type", "kind"), table("kinds_of_documents"))
def test_a_file_is_read_by_its_type_or_its_name(name: str, mime_type: str, kind: str | None) -> None:
    assert documents.kind_of(name, mime_type) == kind


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1251"])
def test_texts_are_read_in_the_encodings_that_people_save(encoding: str) -> None:
    assert documents.read("Рецепт хлеба".encode(encoding), "text").text == "Рецепт хлеба"


def test_a_word_file_is_read_with_its_tables() -> None:
    found = documents.read(word("The dough rests overnight.", "Then it is baked."), "docx")
    assert found.text == "The dough rests overnight.\nThen it is baked.\nprice\ttwelve euros"


def test_a_pdf_is_read_page_by_page() -> None:
    found = documents.read(pdf("The dough rests", "and is baked"), "pdf")
    assert (found.text.split("\n"), found.pages, found.is_cut) == (["The dough rests", "and is baked"], 2, False)


def test_of_a_long_text_the_beginning_is_read() -> None:
    found = documents.read(b"word " * MOST_CHARS, "text")
    assert (len(found.text), found.is_cut) == (MOST_CHARS, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "kind", "sentence"),
    [
        (pdf("secret", password="x"), "pdf", "protected by a password"),
        (b"%PDF-1.7 and then nothing of it", "pdf", "is damaged"),
        (pdf("cut off")[:200], "pdf", "is damaged"),
        (b"PK\x03\x04 no archive", "docx", "is damaged"),
        (bomb, "docx", "far too large when unpacked"),
        (b"\x00\x01\x02", "text", "is damaged"),
        (pdf(""), "pdf", "There is no text in the file"),
    ],
    ids=["encrypted", "no pdf", "cut pdf", "no archive", "bomb", "binary", "scan"],
)
def test_a_file_that_cannot_be_read_is_a_sentence(
    content: bytes | Callable[[], bytes], kind: str, sentence: str
) -> None:
    with pytest.raises(Unreadable, match=sentence):
        documents.read(content() if callable(content) else content, kind)


def test_a_file_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "SECONDS", 0.001)
    with pytest.raises(Unreadable, match="too much time or memory"):
        documents.read(b"text", "text")
    monkeypatch.undo()
    assert documents.read(b"text", "text").text == "text"
