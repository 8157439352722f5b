"""The receipt of a whole memory finds every kind of its texts wherever they are left, and nothing that others hold."""

from __future__ import annotations

import base64
import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from memoryapp.erasure import lifecycle, marks, scanner
from memoryapp.erasure.chat_user import begin_user
from memoryapp.models import Artifact, ChatUser, Erasure, Fact, KnowledgeEdit, Message, Person, Run
from tests.conftest import lawless, talk
from tests.erasure.test_scanner import found, planted

pytestmark = pytest.mark.django_db

# What a memory holds, each kind of text in words that nothing else has. None contains another.
LONG = (
    "The tenant Ottokar Wibbelstetz pays eleven hundred crowns each quarter. The key to the cellar hangs behind the "
    "old stove in the laundry. Whoever breaks a window of the conservatory replaces it within nine days."
)
KINDS = {
    "message": "I buried the tin of sapphires under the third apple tree",
    "quoted": "Grandfather never told anybody about the second bakery downtown",
    "summary": "Plans for a secret trip to Spitzbergen next February",
    "fact": "Is allergic to the pollen of the common mugwort",
    "bio": "Met in Ljubljana while repairing a broken accordion together",
    "profile": "Answers should be short and never mention the accident",
    "file": LONG,
    "description": "A lease for the yellow house beside the canal lock",
    "hint": "When does the rent for the yellow house rise again",
    "reason": "Two different quarrels about the inheritance were mixed here",
    "query": "Which of my cousins borrowed the inflatable canoe",
    "person": "Zdenka Wurmling",
    "alias": "Zdenchen",
    "username": "zd_wurm",
    "author": "Wilhelmine",
    "file name": "Mietvertrag_Kanal7.pdf",
    "keyword": "Nebenkosten",
    "entity": "Hufschlag",
    "name": "ottilie",
}


@pytest.fixture
def folder(tmp_path: Path, settings: Any) -> Path:
    settings.DATA_DIR = tmp_path
    settings.MEDIA_ROOT = tmp_path / "files"
    return tmp_path


def filled(kinds: dict[str, str]) -> ChatUser:
    """Makes a memory that holds a text of each kind."""
    owner = ChatUser.objects.create(name=kinds["name"], profile=kinds["profile"])
    at = timezone.now()
    [topic] = talk(owner, (kinds["summary"], [kinds["message"], "Yes."]))
    Message.objects.filter(owner=owner).update(author=kinds["author"], metadata={"reply": [{"text": kinds["quoted"]}]})
    Fact.objects.create(
        owner=owner,
        topic=topic,
        content=kinds["fact"],
        relation="is",
        category="x",
        type="status",
        importance=5,
        created_at=at,
    )
    names = {"display_name": kinds["person"], "aliases": [kinds["alias"]], "username": kinds["username"]}
    Person.objects.create(owner=owner, bio=kinds["bio"], **names)
    about = {"keywords": [kinds["keyword"]], "entities": [kinds["entity"]], "rag_hints": [kinds["hint"]]}
    Artifact.objects.create(
        owner=owner,
        name=kinds["file name"],
        file_type="pdf",
        sha256=f"{owner.pk:064}",
        text=kinds["file"],
        summary=kinds["description"],
        created_at=at,
        **about,
    )
    KnowledgeEdit.objects.create(owner=owner, kind="edit", noun="fact", reason=kinds["reason"], actor="ada")
    Run.objects.create(owner=owner, strategy="vector", query=kinds["query"])
    return owner


def erased(owner: ChatUser) -> Erasure:
    return lifecycle.finish(begin_user(owner, "ada"))


def pieces() -> list[str]:
    """Every kind of text; of those with five words or more, each run of five words."""
    runs = (text.replace(". ", " ").split() for text in KINDS.values())
    return [" ".join(each[at : at + 5]) for each in runs for at in range(max(1, len(each) - 4))]


def test_every_text_and_every_quotation_of_five_words_is_recognised(folder: Path) -> None:
    sought = scanner.receipt(str(erased(filled(KINDS)).pk))
    missed = [piece for piece in pieces() if not sought.is_in(f"It was said: {piece}, and more.")]
    assert missed == []
    assert sought.share == 1.0
    assert list(scanner.residues(sought)) == []


@pytest.mark.slow
def test_every_kind_is_found_in_every_column_and_every_kind_of_file(folder: Path) -> None:
    receipt = erased(filled(KINDS))
    texts = [text for text in KINDS.values() if "_" not in text]
    with lawless(), connection.cursor() as cursor:
        expected = set(planted(cursor, *texts))
        places = {place.partition(" ")[0] for place in found(receipt)}
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
    assert len(expected) > 100
    assert places == expected
    for number, piece in enumerate(pieces()):
        content = f"left: {piece}!"
        (folder / f"{number}.txt").write_text(content)
        (folder / f"{number}.json").write_text(json.dumps({"a": [content]}))
        (folder / f"{number}.log.1.gz").write_bytes(gzip.compress(content.encode()))
        with zipfile.ZipFile(archive := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("inner.txt", content)
        (folder / f"{number}.zip").write_bytes(archive.getvalue())
    sought = scanner.receipt(str(receipt.pk))
    assert {residue.place for residue in scanner.in_files(sought)} == {str(path) for path in folder.iterdir()}


def test_words_that_another_memory_holds_are_no_residue(folder: Path) -> None:
    """The same names, labels and sentences, in whatever columns the other memory has them."""
    other = ChatUser.objects.create(name="boris")
    shared = [
        KINDS[kind] for kind in ("person", "alias", "username", "author", "keyword", "entity", "name", "file name")
    ]
    talk(other, ("Other people", [f"I know {word} as well." for word in shared]))
    Artifact.objects.create(
        owner=other, name="copy.txt", file_type="text", sha256="2" * 64, text=LONG, created_at=timezone.now()
    )
    receipt = erased(filled(KINDS))
    assert found(receipt) == []
    sought = scanner.receipt(str(receipt.pk))
    assert [word for word in shared if sought.is_in(word)] == []
    assert sought.is_in(KINDS["bio"])


def test_words_of_the_program_are_no_residue(folder: Path) -> None:
    """A person may be called like a column or a level of the logs, and a file may be about a worker."""
    kinds = {
        **KINDS,
        "person": "Error",
        "alias": "Topic",
        "username": "memoryapp",
        "keyword": "worker",
        "entity": "import",
    }
    (folder / "web.log").write_text("ERROR memoryapp.tasks The worker lost its import.\n")
    assert found(erased(filled(kinds))) == []
    assert "worker" in (folder / "web.log").read_text()


def test_a_memory_too_large_for_the_receipt_has_an_even_selection_and_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(marks, "MOST_MARKS", 200)
    words = [f"wort{number * 7919 % 10007}" for number in range(1_000)]
    receipt = erased(filled({**KINDS, "file": " ".join(words)}))
    sought = scanner.receipt(str(receipt.pk))
    assert len(sought.hashes) == 200
    runs = [" ".join(words[at : at + 5]) for at in range(996)]
    for part in (runs[:498], runs[498:]):
        assert 0.5 < sum(map(sought.is_in, part)) / len(part) / receipt.share < 1.5, "no part of a text is left out"
    assert all(sought.is_in(KINDS[kind]) for kind in ("person", "username", "keyword")), "names are never thinned"
    call_command("verify_erasure", str(receipt.pk))
    assert f"{receipt.share:.1%}".replace("%", " %") in capsys.readouterr().err


def test_the_command_prints_a_number_with_which_the_check_works(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(KINDS)
    call_command("erase_user", KINDS["name"], "--yes", "--json")
    printed = capsys.readouterr().out
    number = json.loads(printed)["receipt"]
    assert json.loads(printed)["memoryapp_message"] == 2
    kept = folder.parent / "kept.json"
    kept.write_text(printed)
    for named in (str(number), str(kept)):
        call_command("verify_erasure", named)
        assert "No erased text was found." in capsys.readouterr().out
    (folder / "notes.txt").write_text(KINDS["bio"])
    for named in (str(number), str(kept)):
        with pytest.raises(CommandError):
            call_command("verify_erasure", named)


def test_a_receipt_of_an_earlier_version_is_still_checked_and_says_what_it_leaves_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Receipts of 0.15.1 have no share, in their row and in their file."""
    receipt = erased(filled(KINDS))
    Erasure.objects.filter(pk=receipt.pk).update(share=None)
    old = {"kind": "user", "lengths": receipt.lengths}
    old |= {name: base64.b64encode(bytes(getattr(receipt, name))).decode() for name in ("salt", "marks")}
    kept = folder.parent / "old.json"
    kept.write_text(json.dumps(old))
    for named in (str(receipt.pk), str(kept)):
        call_command("verify_erasure", named)
        assert "earlier version" in capsys.readouterr().err
    (folder / "notes.txt").write_text(KINDS["summary"])
    with pytest.raises(CommandError):
        call_command("verify_erasure", str(kept))
