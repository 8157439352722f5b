"""The scanner finds residue in every place, reads the marks of an erasure, and reports what it cannot search for."""

import base64
import gzip
import io
import json
import zipfile
import zlib
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from django.core import signing
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from memoryapp import erasure
from memoryapp.erasure import Target, lifecycle, marks, scanner
from memoryapp.erasure.chat_user import begin_user
from memoryapp.erasure.marks import Marks, packed, runs_of
from memoryapp.erasure.scanner import Receipt
from memoryapp.intake.messages import add_messages
from memoryapp.models import Artifact, ChatUser, Erasure, KnowledgeEdit, Message, Person, Run
from tests.conftest import fact_of, lawless, record, talk
from tests.examples import table

SECRET = "Zwiebelfisch"
TABLES = """
SELECT c.table_name, c.column_name, c.udt_name, c.is_nullable = 'NO', c.column_default IS NOT NULL,
       c.is_identity = 'YES', c.is_generated = 'ALWAYS', c.character_maximum_length
FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE' ORDER BY 1, 2
"""
# A value of each column type without any text of a person; numbers come from the row itself.
DUMMIES = {
    **dict.fromkeys(("int2", "int4", "int8", "numeric", "float4", "float8"), "{n}"),
    **dict.fromkeys(("text", "varchar", "bpchar"), "'{n}'"),
    **dict.fromkeys(("timestamptz", "timestamp"), "now()"),
    **dict.fromkeys(("jsonb", "json"), "'{{}}'"),
    "bool": "false",
    "date": "now()",
    "uuid": "gen_random_uuid()",
    "inet": "'127.0.0.1'",
    "bytea": "''",
    "tsvector": "''",
    "halfvec": "'[1,0]'",
    "_text": "ARRAY['a']",
}
# The same with a secret.
PLANTED = {
    **dict.fromkeys(("text", "varchar", "bpchar"), "'{}'"),
    **dict.fromkeys(("jsonb", "json"), """'{{"a": [1, {{"b": "x\\nAnd {}."}}]}}'"""),
    "bytea": "convert_to('x {}', 'UTF8')",
    "tsvector": "to_tsvector('simple', 'a {} b')",
    "_text": "ARRAY['a', 'the {}!']",
    "_varchar": "ARRAY['a', 'the {}!']",
}
NOT_TEXT = set(DUMMIES) - set(PLANTED) | {"vector", "sparsevec", "time", "interval", "timetz"}
NEEDED = {"memoryapp_card": {"person_id": "{n}"}, "memoryapp_fact": {"importance": "1"}}
NEEDED["memoryapp_refusedtext"] = {"passage_id": "{n}"}


@pytest.fixture
def folder(tmp_path: Path, settings: Any) -> Path:
    settings.DATA_DIR = tmp_path
    settings.MEDIA_ROOT = tmp_path / "files"
    return tmp_path


@pytest.fixture
def receipt(anna: ChatUser, folder: Path) -> Erasure:
    add_messages(anna, [record(1, SECRET)])
    return erasure.finish(erasure.begin(Target(anna.pk, (Message.objects.get().pk,)), "ada"))


def found(receipt: Erasure) -> list[str]:
    return [residue.place for residue in scanner.residues(scanner.receipt(str(receipt.pk)))]


def planted(cursor: Any, *secrets: str) -> Iterator[str]:
    """Writes a row with one of the secrets, in turn, for every column of every table that can contain it."""
    cursor.execute(TABLES)
    tables: dict[str, list[Any]] = {}
    for named, *column in cursor.fetchall():
        tables.setdefault(named, []).append(column)
    numbers = count(1_000)
    for named, columns in tables.items():
        for name, kind, _needed, _default, _identity, is_generated, most in columns:
            number = next(numbers)
            fitting = [secret for secret in secrets if not most or len(secret) <= most]
            if is_generated or kind in NOT_TEXT or not fitting:
                continue
            assert kind in PLANTED, f"{named}.{name} is of a kind that this test does not know: {kind}"
            values = dict(NEEDED.get(named, {})) | {
                other: DUMMIES[kind] if not most or most > 3 else "'x'"
                for other, kind, needed, default, identity, made, most in columns
                if needed and not default and not identity and not made and other not in NEEDED.get(named, {})
            }
            values[name] = PLANTED[kind].format(fitting[number % len(fitting)])
            chosen = ", ".join(f'"{each}"' for each in values)
            filled = ", ".join(text if each == name else text.format(n=number) for each, text in values.items())
            cursor.execute(f'INSERT INTO "{named}" ({chosen}) VALUES ({filled})')
            yield f"{named}.{name}"


@pytest.mark.slow
@pytest.mark.django_db
def test_residue_in_every_column_of_every_table_is_found(receipt: Erasure) -> None:
    assert found(receipt) == []
    with lawless(), connection.cursor() as cursor:
        expected = set(planted(cursor, SECRET))
        places = {place.partition(" ")[0] for place in found(receipt)}
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
    assert len(expected) > 100
    assert places == expected


@pytest.mark.slow
@pytest.mark.django_db
def test_residue_in_every_kind_of_file_is_found(receipt: Erasure, folder: Path) -> None:
    text = f"a line with {SECRET} in it\n".encode()
    (folder / "deep" / "er").mkdir(parents=True)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed_files:
        packed_files.writestr("inner.json.gz", gzip.compress(text))
    files = {
        "postgres.log": text,
        "deep/er/web.log.1.gz": gzip.compress(b"x\n" * 10_000 + text),
        "deep/staged.zip": archive.getvalue(),
        "deep/large.txt": b"x" * 4_100_000 + b" " + text,
        "deep/wide.txt": text.decode().encode("utf-16-le"),
        "deep/export.jsonl": json.dumps({"text": f"ü {SECRET}"}).encode(),
        "deep/packed": zlib.compress(text),
        f"{SECRET}.txt": b"nothing",
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "innocent.log").write_text("nothing at all")
    assert set(found(receipt)) == {str(folder / name) for name in files}


@pytest.mark.slow
@pytest.mark.django_db
def test_packed_sessions_are_opened(receipt: Erasure) -> None:
    packed_text = signing.dumps({"draft": f"{SECRET} " * 30}, compress=True)
    assert SECRET not in packed_text
    with lawless(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO memoryapp_loginsession (session_key, session_data, expire_date, device)"
            " VALUES ('k', %s, now(), '')",
            [packed_text],
        )
        assert found(receipt) == ["memoryapp_loginsession.session_data session_key k"]


@given(text=st.text(max_size=80), around=st.text(max_size=30))
def test_eraser_and_scanner_read_the_same_marks(text: str, around: str) -> None:
    """They share no code, and mean the same by a mark."""
    marks, lengths = packed(runs_of(text), b"salt")
    scanner, eraser = Receipt.of(b"salt", marks, lengths), Marks(*_parts(marks, lengths))
    for text_around in (text, f"{around} {text} {around}", json.dumps(f"{around} {text}")):
        assert scanner.is_in(text_around) == eraser.quoted(text_around)
    assert scanner.is_in(text) == bool(marks)


def _parts(marks: bytes, lengths: list[int]) -> tuple[bytes, tuple[int, ...], frozenset[bytes]]:
    made = Marks.of(Erasure(salt=b"salt", marks=marks, lengths=lengths))
    return made.key, made.lengths, made.hashes


def test_a_quotation_of_five_words_is_enough() -> None:
    marks, lengths = packed(runs_of("the spare key lies under the blue pot by the door"), b"s")
    sought = Receipt.of(b"s", marks, lengths)
    assert sought.is_in('he wrote: "KEY lies, under THE\\nblue" and went')
    assert not sought.is_in("the spare key lies somewhere else under the blue sky")


@pytest.mark.parametrize(
    ("text", "quoted", "other"),
    [
        ("我们家的备用钥匙放在门口蓝色花盆的下面。", "备用钥匙放在门口", "备用的东西放在家里，钥匙没有"),
        ("予備の鍵は青い植木鉢の下に置いてあります。", "青い植木鉢の下に", "青い鳥の下に木が置いてある"),
        ("กุญแจสำรองอยู่ใต้กระถางสีฟ้าหน้าบ้าน", "อยู่ใต้กระถางสีฟ้า", "กุญแจอยู่ในบ้านสีขาว"),
        ("여분의 열쇠는 문 옆 파란 화분 아래에 있어요", "열쇠는 문 옆 파란 화분", "열쇠는 문 위에 있어요"),
        ("अतिरिक्त चाबी नीले गमले के नीचे रखी है", "चाबी नीले गमले के नीचे", "चाबी गमले में नहीं है"),
    ],
)
def test_a_quotation_is_found_in_scripts_without_spaces_and_with_marks(text: str, quoted: str, other: str) -> None:
    sought = Receipt.of(b"s", *packed(runs_of(text), b"s"))
    assert sought.is_in(f"x「{quoted}」y")
    assert sought.is_in(json.dumps({"said": f"他说{quoted}，对吧"}))
    assert not sought.is_in(other)


def test_a_receipt_that_took_a_chinese_sentence_for_one_word_is_still_read() -> None:
    """Versions up to 0.16.0 hashed what stands between two marks of punctuation."""
    sought = Receipt.of(b"s", *packed({"备用钥匙放在门口蓝色花盆的下面"}, b"s"))
    assert sought.is_in("“备用钥匙放在门口蓝色花盆的下面。”")


def test_residue_is_found_wherever_a_long_text_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "_PIECE", 100)
    monkeypatch.setattr(scanner, "_OVERLAP", 60)
    sought = Receipt.of(b"s", *packed(runs_of("the spare key lies under the blue pot"), b"s"))
    for before in range(400):
        assert sought.is_in("x" * before + " the spare key lies under " + "y" * 300)
    assert not sought.is_in("the spare key " * 100)


def test_a_text_that_was_clean_is_clean_again_and_one_with_residue_is_found_again() -> None:
    sought = Receipt.of(b"s", *packed(runs_of("the spare key lies under the blue pot"), b"s"))
    clean, quoting = "nothing of it is here " * 20, "the spare key lies under " + "the sea " * 40
    assert [sought.is_in(text) for text in (clean, quoting) * 2] == [False, True] * 2


def test_words_behind_escapes_are_found_beside_many_that_need_none() -> None:
    sought = Receipt.of(b"s", *packed(runs_of("the spare key lies under the blue pot"), b"s"))
    deep = json.dumps(json.dumps({"text": "a line before\nthe spare\nkey\nlies\nunder it", "rest": "of the day " * 50}))
    assert sought.is_in(deep)
    assert not sought.is_in(deep.replace("spare", "other"))


class TestCommand:
    def run(self, named: object) -> str:
        out = io.StringIO()
        call_command("verify_erasure", str(named), stdout=out)
        return out.getvalue()

    @pytest.mark.slow
    @pytest.mark.django_db
    def test_it_fails_with_a_line_for_each_place(self, receipt: Erasure, folder: Path) -> None:
        assert "No erased text was found" in self.run(receipt.pk)
        (folder / "a.log").write_text(SECRET)
        (folder / "b.log").write_text(SECRET.upper())
        out = io.StringIO()
        with pytest.raises(CommandError, match="2 places"):
            call_command("verify_erasure", str(receipt.pk), stdout=out)
        assert out.getvalue().split() == [str(folder / "a.log"), str(folder / "b.log")]

    @pytest.mark.slow
    @pytest.mark.django_db
    def test_it_takes_the_file_of_a_receipt(self, receipt: Erasure, tmp_path_factory: Any) -> None:
        file = tmp_path_factory.mktemp("elsewhere") / "receipt.json"
        file.write_text(erasure.dumped(receipt))
        assert SECRET not in file.read_text()
        assert "No erased text was found" in self.run(file)

    @pytest.mark.django_db
    @pytest.mark.parametrize(
        ("named", "sentence"),
        [("99999", "There is no receipt"), ("9" * 5_000, "cannot be read"), ("/nowhere/x", "cannot be read")],
        ids=["a number", "a very long number", "a file"],
    )
    def test_a_receipt_that_is_none_is_one_sentence(self, named: str, sentence: str, folder: Path) -> None:
        with pytest.raises(CommandError, match=sentence):
            self.run(named)
        (folder / "x.json").write_text("{}")
        with pytest.raises(CommandError, match="is no receipt"):
            self.run(folder / "x.json")

    @pytest.mark.django_db
    def test_texts_too_short_to_look_for_are_counted(self, anna: ChatUser, folder: Path) -> None:
        add_messages(anna, [record(1, "ok 1234")])
        begun = erasure.begin(Target(anna.pk, (Message.objects.get().pk,)), "ada")
        ended = erasure.finish(begun)
        assert (ended.unmarked, ended.mark_count) == (1, 0)
        with pytest.raises(CommandError, match="no marks to look for"):
            self.run(ended.pk)


# The receipt of a whole memory finds every kind of its texts wherever they are left, and nothing that others hold.


# What a memory holds, each kind of text in words that nothing else has. None contains another.
LONG = (
    "The tenant Ottokar Wibbelstetz pays eleven hundred crowns each quarter. The key to the cellar hangs behind the "
    "old stove in the laundry. Whoever breaks a window of the conservatory replaces it within nine days."
)
KINDS = table("erased_kinds")


def filled(kinds: dict[str, str]) -> ChatUser:
    """Makes a memory that holds a text of each kind."""
    owner = ChatUser.objects.create(name=kinds["name"], profile=kinds["profile"])
    at = timezone.now()
    [topic] = talk(owner, (kinds["summary"], [kinds["message"], "Yes."]))
    Message.objects.filter(owner=owner).update(author=kinds["author"], metadata={"reply": [{"text": kinds["quoted"]}]})
    fact_of(owner, kinds["fact"], topic, relation="is", created_at=at)
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
    receipt = lifecycle.finish(begin_user(owner, "ada"))
    lifecycle.compare(receipt)
    receipt.refresh_from_db()
    return receipt


def pieces() -> list[str]:
    """Every kind of text; of those with five words or more, each run of five words."""
    runs = (text.replace(". ", " ").split() for text in KINDS.values())
    return [" ".join(each[at : at + 5]) for each in runs for at in range(max(1, len(each) - 4))]


@pytest.mark.django_db
def test_every_text_and_every_quotation_of_five_words_is_recognised(folder: Path) -> None:
    sought = scanner.receipt(str(erased(filled(KINDS)).pk))
    missed = [piece for piece in pieces() if not sought.is_in(f"It was said: {piece}, and more.")]
    assert missed == []
    assert sought.share == 1.0
    assert list(scanner.residues(sought)) == []


@pytest.mark.django_db
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


@pytest.mark.django_db
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


@pytest.mark.django_db
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


@pytest.mark.django_db
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


@pytest.mark.django_db
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


@pytest.mark.django_db
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
