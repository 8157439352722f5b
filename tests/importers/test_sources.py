"""Files as they arrive: packed, cut off, inflated, endless, of other programs; each is read or named in a sentence."""

import gzip
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.conf import settings as configured
from django.db import connection

from memoryapp.importers import Hints, Rejected, UnknownSpeaker, UnreadableFile, document, open_chat, source
from memoryapp.importers.document import mended
from memoryapp.importers.formats.memories import laplaced
from memoryapp.importers.formats.memories.jsonl import conversation
from memoryapp.intake.imports import Course, Paused, import_for
from memoryapp.intake.transfer import files
from memoryapp.models import ChatUser, ImportFile
from memoryapp.upkeep import tasks
from tests.examples import table
from tests.intake.laplaced import database, endless, fact, message
from tests.intake.test_import_files import conversation as lines_of_chat
from tests.intake.test_import_files import folder, staged, worked
from tests.support.chats import (
    asked,
    chat_line,
    chatgpt,
    claude,
    code_line,
    lines,
    node,
    sent,
    sorted_out,
    telegram,
    written,
)
from tests.support.clock import PATIENCE
from tests.support.stack import wait_for

__all__ = ["folder"]


def zipped(path: Path, **members: str | bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_JSON", ".json").replace("_TXT", ".txt"), content)
    return path


class TestPacked:
    def test_gzip_is_read_whatever_it_is_called(self, tmp_path: Path) -> None:
        for name, value in (("a.jsonl.gz", {"messages": [chat_line()]}), ("b.json", telegram(sent()))):
            path = tmp_path / name
            path.write_bytes(gzip.compress(json.dumps(value).encode()))
            assert [record.author for record in sorted_out(path)[0]] == ["Anna"]

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
    def test_utf_16_is_read_with_and_without_its_mark(self, tmp_path: Path, encoding: str) -> None:
        path = tmp_path / "result.json"
        path.write_text(json.dumps(telegram(sent(text="Привет, 😀")), ensure_ascii=False), encoding=encoding)
        assert [record.text for record in sorted_out(path)[0]] == ["Привет, 😀"]

    def test_several_telegram_chats_in_one_archive_are_all_read(self, tmp_path: Path) -> None:
        first, second = json.dumps(telegram(sent())), json.dumps(telegram(sent(2), id=8))
        path = tmp_path / "chats.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("one/result.json", first)
            archive.writestr("two/result.json", second)
        assert [record.external_id for record in sorted_out(path)[0]] == ["telegram:7:1", "telegram:8:2"]

    def test_a_text_that_a_person_named_is_read_from_an_archive(self, tmp_path: Path) -> None:
        path = zipped(tmp_path / "a.zip", chat_TXT="13.05.2024, 14:30 - Anna: hi\n", **{"photo.jpg": "x"})
        assert [record.text for record in sorted_out(path, me="Anna")[0]] == ["hi"]

    def test_an_archive_of_two_programs_is_refused(self, tmp_path: Path) -> None:
        members = {
            "result_JSON": json.dumps(telegram(sent())),
            "conversations_JSON": json.dumps([chatgpt(node("a", None, "x"))]),
        }
        with pytest.raises(UnreadableFile, match="several programs"):
            open_chat(zipped(tmp_path / "both.zip", **members))


class TestAmongOthers:
    def test_a_file_without_a_chat_among_others_is_one_rejection(self, tmp_path: Path) -> None:
        """A folder of sessions has empty logs, and logs with notes alone, beside the others."""
        folder = tmp_path / "projects"
        folder.mkdir()
        (folder / "a.jsonl").write_text("")
        (folder / "b.jsonl").write_text('{"display": "hi", "project": "/tea"}\n')
        (folder / "c.jsonl").write_text(json.dumps(code_line(1, "user", "Boil it")))
        (folder / "d.jsonl").write_text('{"type": "ai-title", "aiTitle": "Tea", "sessionId": "s1"}\n')
        found = list(open_chat(folder).records())
        assert [getattr(item, "text", "") for item in found] == ["", "", "Boil it", ""]
        assert [str(item.line) for item in found if isinstance(item, Rejected)] == ["a.jsonl", "b.jsonl", "1"]
        with pytest.raises(UnreadableFile, match="is empty"):
            open_chat(folder / "a.jsonl")

    def test_a_file_of_a_known_other_program_among_others_is_refused(self, tmp_path: Path) -> None:
        slack = json.dumps([{"type": "message", "user": "U1", "text": "hi", "ts": "1512085950.000216"}])
        with pytest.raises(UnreadableFile, match="is a Slack export"):
            open_chat(zipped(tmp_path / "a.zip", one_JSON=json.dumps({"messages": [chat_line()]}), two_JSON=slack))


class TestCutOff:
    def test_a_zip_or_gzip_file_without_its_end_is_called_cut_off(self, tmp_path: Path) -> None:
        text = json.dumps(telegram(*(sent(number, text=os.urandom(90).hex()) for number in range(50))))
        packed = {
            "a.zip": zipped(tmp_path / "x.zip", result_JSON=text).read_bytes(),
            "a.gz": gzip.compress(text.encode()),
        }
        for name, content in packed.items():
            path = tmp_path / name
            path.write_bytes(content[: len(content) // 2])
            with pytest.raises(UnreadableFile, match="was cut off before its end"):
                open_chat(path)

    def test_a_json_document_without_its_end_is_called_cut_off(self, tmp_path: Path) -> None:
        text = json.dumps(telegram(*(sent(number) for number in range(50))), indent=1)
        with pytest.raises(UnreadableFile, match="cut off before its end; export or copy it again"):
            open_chat(written(tmp_path, text[:-100]))

    @pytest.mark.parametrize("small", [10_000_000, 100], ids=["small", "large"])
    def test_a_document_cut_within_a_letter_is_called_cut_off(
        self, tmp_path: Path, small: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(document, "SMALL", small)
        path = tmp_path / "result.json"
        whole = json.dumps(telegram(sent(text="печь " * 100)), ensure_ascii=False).encode()
        path.write_bytes(whole[: whole.rindex("ч".encode()) + 1])
        with pytest.raises(UnreadableFile, match="cut off before its end; export or copy it again"):
            open_chat(path)

    def test_a_text_of_whatsapp_cut_within_a_letter_is_called_cut_off(self, tmp_path: Path) -> None:
        path = tmp_path / "chat.txt"
        path.write_bytes("13.05.2024, 14:30 - Анна: привет".encode()[:-1])
        with pytest.raises(UnreadableFile, match="cut off before its end: download or copy it again"):
            open_chat(path)

    def test_a_fault_in_a_document_is_reported_with_its_line(self, tmp_path: Path) -> None:
        text = json.dumps(telegram(sent(), sent(2)), indent=1).replace('"id": 2', '"id": 2 2')
        with pytest.raises(UnreadableFile, match=r"not valid JSON.*line \d+ column \d+"):
            open_chat(written(tmp_path, text))


class TestSwollen:
    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["bomb.zip", "bomb.json.gz"])
    def test_what_unpacks_to_far_more_than_a_chat_is_not_read_on(self, tmp_path: Path, name: str) -> None:
        content = b'{"messages": [' + b" " * 60_000_000 + b"]}"
        path = tmp_path / name
        if name.endswith("zip"):
            zipped(path, result_JSON=content)
        else:
            path.write_bytes(gzip.compress(content))
        assert path.stat().st_size < 100_000
        with pytest.raises(UnreadableFile, match="more than 200 times its size"):
            open_chat(path)

    def test_what_is_unpacked_is_counted_and_not_believed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = zipped(tmp_path / "a.zip", result_JSON=json.dumps(telegram(sent(text=os.urandom(1000).hex()))))
        monkeypatch.setattr(source, "MOST_BYTES", 1_500)
        with pytest.raises(UnreadableFile, match="can be read at once"):
            open_chat(path)

    def test_an_archive_of_very_many_files_is_not_listed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = zipped(tmp_path / "many.zip", **{f"photo{number}.jpg": "" for number in range(50)})
        monkeypatch.setattr(source, "MOST_LISTED_BYTES", 1_000)
        with pytest.raises(UnreadableFile, match="too many files"):
            open_chat(path)


class TestWrapped:
    """A known document in a wrapper of whoever saved it: an answer of an interface, a list of one, a chat a line."""

    @pytest.mark.parametrize("wrapped", table("wrapped_documents").values(), ids=table("wrapped_documents"))
    def test_a_known_document_is_read_in_any_wrapper(self, tmp_path: Path, wrapped: Any) -> None:
        path = written(tmp_path, wrapped)
        records, rejected = sorted_out(path)
        assert ([record.text for record in records], rejected) == (["hi"], [])
        assert [record.external_id for record in sorted_out(path)[0]] == [record.external_id for record in records]

    @pytest.mark.parametrize("end", ["", "\n", "\n\n"])
    def test_a_chat_a_line_is_read_where_the_format_has_no_lines(self, tmp_path: Path, end: str) -> None:
        chats = [claude(asked()), claude(asked(2), uuid="c2")]
        path = written(tmp_path, "\n".join(map(json.dumps, chats)) + end, "chats.jsonl")
        assert [record.session for record in sorted_out(path)[0]] == ["c1", "c2"]

    def test_a_wrapper_of_two_programs_is_refused(self, tmp_path: Path) -> None:
        path = written(tmp_path, {"a": [claude(asked())], "b": telegram(sent())})
        with pytest.raises(UnreadableFile, match="holds chats of several programs"):
            open_chat(path)


class TestOthers:
    @pytest.mark.parametrize("other", table("other_programs"), ids=itemgetter("is"))
    def test_what_another_program_wrote_is_named(self, tmp_path: Path, other: dict[str, Any]) -> None:
        with pytest.raises(UnreadableFile, match=rf"is {other['is']}.*; it cannot be read yet\."):
            open_chat(written(tmp_path, other["content"]))

    @pytest.mark.parametrize(
        ("members", "name"),
        [
            ({"channels_JSON": "[]", "users_JSON": "[]"}, "Slack"),
            ({"Takeout/Chat/messages_JSON": "{}"}, "Takeout"),
            ({"Tea/dms_JSON": "[]", "Tea/users_JSON": "[]"}, "Slack"),
        ],
    )
    def test_an_archive_of_another_program_is_named(self, tmp_path: Path, members: dict[str, str], name: str) -> None:
        with pytest.raises(UnreadableFile, match=rf"is a .*{name} export"):
            open_chat(zipped(tmp_path / "a.zip", **members))

    def test_the_package_that_discord_sends_is_named_whatever_else_it_holds(self, tmp_path: Path) -> None:
        path = zipped(tmp_path / "a.zip", **{"account/user_JSON": "{}", "Messages/c1/messages_JSON": "[]"})
        with pytest.raises(UnreadableFile, match="is a data package of Discord"):
            open_chat(path)

    def test_a_relation_between_names_is_no_message(self, tmp_path: Path) -> None:
        path = lines(tmp_path, {"type": "relation", "from": "Anna", "to": "Boris"}, {"from": "Anna", "to": "Clara"})
        with pytest.raises(UnreadableFile, match="first line holds type, from, to"):
            open_chat(path)

    def test_json_lines_of_another_kind_are_recognised_by_their_fields(self, tmp_path: Path) -> None:
        path = lines(tmp_path, {"prompt": "a", "completion": "b"}, {"prompt": "c", "completion": "d"})
        with pytest.raises(UnreadableFile, match="first line holds prompt, completion.*message id, role, ts and text"):
            open_chat(path)


class TestEmpty:
    @pytest.mark.parametrize("text", ["", "  ", "\u200e", "\u200b \ufeff"])
    def test_a_message_without_a_visible_sign_is_left_out_and_counted(self, tmp_path: Path, text: str) -> None:
        found = list(open_chat(lines(tmp_path, chat_line(text=text), chat_line(id="m2"))).records())
        assert [getattr(item, "reason", "") for item in found] == ["it is empty", ""]

    def test_a_message_with_a_file_and_no_words_is_its_file(self, tmp_path: Path) -> None:
        records, _rejected = sorted_out(lines(tmp_path, chat_line(text="", attachments=[{"name": "a.pdf"}])))
        assert [record.text for record in records] == ["[file: a.pdf]"]


class TestTimes:
    @pytest.mark.parametrize(
        "ts",
        [1753453800, 1753453800000, "1753453800", "1753453800000", "1753453800.5", 1753453800000000, 1753453800.25],
    )
    def test_times_since_1970_are_read_in_any_unit(self, tmp_path: Path, ts: Any) -> None:
        [record], _rejected = sorted_out(lines(tmp_path, {"messages": [chat_line(ts=ts)]}))
        assert record.sent_at.replace(microsecond=0) == datetime(2025, 7, 25, 14, 30, tzinfo=UTC)

    def test_a_file_without_times_keeps_its_order_from_the_start_that_is_given(self, tmp_path: Path) -> None:
        timeless = [chat_line(id=f"m{number}", ts=None) for number in range(3)]
        path = lines(tmp_path, {"messages": timeless}, {"messages": [chat_line(id="n", ts="")]})
        start = datetime(2024, 5, 1, tzinfo=UTC)
        records, rejected = sorted_out(path, start=start)
        assert rejected == []
        after = [(record.external_id, (record.sent_at - start).total_seconds() / 60) for record in records]
        assert after == [("m0", 0), ("m1", 1), ("m2", 2), ("n", 2 + 24 * 60 + 1)]
        assert ["--start" in item.reason for item in sorted_out(path)[1]] == [True] * 4

    def test_a_message_without_a_time_among_others_takes_that_before_it(self, tmp_path: Path) -> None:
        messages = [chat_line(), chat_line(id="m2", ts=None), chat_line(id="m3", ts="2025-07-25T14:30:05Z")]
        records, _rejected = sorted_out(lines(tmp_path, {"messages": messages}), start=datetime(2024, 5, 1, tzinfo=UTC))
        assert [record.sent_at.second for record in records] == [0, 0, 5]

    @pytest.mark.parametrize("ts", ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "9999-12-31T00:00:00Z", -1])
    def test_a_date_that_cannot_be_right_is_asked_about(self, tmp_path: Path, ts: Any) -> None:
        path = lines(tmp_path, {"messages": [chat_line(ts=ts), chat_line(id="m2")]})
        records, [rejected] = sorted_out(path)
        assert [record.external_id for record in records] == ["m2"]
        assert "--any-dates" in rejected.reason
        assert len(sorted_out(path, any_dates=True)[0]) == 2

    def test_over_the_api_the_reason_speaks_of_the_date_alone(self) -> None:
        [rejected] = conversation({"messages": [chat_line(ts="0001-01-01T00:00:00Z")]}, "messages")
        assert isinstance(rejected, Rejected)
        assert rejected.reason == "the date 0001-01-01 is not between 1970 and the end of next year"


class TestGroups:
    @pytest.fixture
    def group(self, tmp_path: Path) -> Path:
        clara = {"from": "Clara", "from_id": "user3"}
        return written(tmp_path, telegram(sent(1, **clara), sent(2, **clara), sent(3), type="private_group"))

    def test_the_user_has_to_be_named_for_a_group(self, group: Path) -> None:
        with pytest.raises(UnknownSpeaker, match="does not say which.*--me NAME.*Clara, Anna") as raised:
            open_chat(group, hints=Hints(owner="someone"))
        assert raised.value.speakers == ["Clara", "Anna"]

    @pytest.mark.parametrize("me", ["clara", "user3"])
    def test_the_user_is_named_by_name_or_id(self, group: Path, me: str) -> None:
        assert [record.role for record in sorted_out(group, me=me)[0]] == ["user", "user", "peer"]

    def test_an_unknown_name_is_reported_with_the_known_ones(self, group: Path) -> None:
        with pytest.raises(UnknownSpeaker, match="Nobody in this file is “dora”.*Clara, Anna"):
            open_chat(group, hints=Hints(me="Dora"))

    def test_a_channel_asks_nothing(self, tmp_path: Path) -> None:
        path = written(tmp_path, telegram(sent(from_id="channel9"), type="public_channel"))
        assert [record.role for record in sorted_out(path)[0]] == ["peer"]


def test_control_characters_are_mended_wherever_the_pieces_of_a_file_end() -> None:
    raw = rb'{"a": "x\x0By\\x0B\"' + b'\n\x01", "b": "C:\\\\"}\n'
    whole = rb'{"a": "x\u000By\\x0B\"\u000a\u0001", "b": "C:\\"}' + b"\n"
    for size in range(1, len(raw) + 1):
        pieces = (raw[at : at + size] for at in range(0, len(raw), size))
        assert b"".join(mended(pieces)) == whole


PEAK = """
import resource, sys
from pathlib import Path
import django
django.setup()
from memoryapp.importers import open_chat
import memoryapp.intake.imports
count = sum(1 for _item in open_chat(Path(sys.argv[1])).records())
print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def peak(path: Path) -> tuple[int, int]:
    """Returns how many messages a process read, and how many MB of memory it used."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "memoryapp.settings"}
    command = [sys.executable, "-c", PEAK, str(path)]
    done = subprocess.run(command, cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True, check=True)
    count, size = map(int, done.stdout.split())
    return count, size


@pytest.mark.slow
def test_a_large_export_takes_no_more_memory_than_a_small_one(tmp_path: Path) -> None:
    write: Callable[[int, str], Path] = lambda count, name: written(  # noqa: E731
        tmp_path, telegram(*(sent(number, text="о чём угодно " * 20) for number in range(count))), name
    )
    small, large = write(10, "small.json"), write(40_000, "large.json")
    assert large.stat().st_size > 20_000_000
    (_few, least), (count, most) = peak(small), peak(large)
    assert count == 40_000
    assert most < least + 20


# Files that are made to be read without an end: each ends with a sentence, and never keeps others from being read.


State = ImportFile.State


def staged_bomb(owner: ChatUser, table: str = "history") -> ImportFile:
    return files.stage(owner, endless(configured.IMPORT_DIR.parent, table), "laplaced.db", "ada")


@pytest.mark.django_db
class TestEnds:
    @pytest.mark.parametrize("table", ["history", "users", "topics", "structured_facts", "people", "artifacts"])
    def test_a_database_whose_pages_point_to_each_other_ends_with_a_sentence(self, anna: ChatUser, table: str) -> None:
        row = worked(staged_bomb(anna, table))
        assert row.state == State.FAILED
        assert "laplaced.db" in row.fault
        assert "more rows than the file has room for" in row.fault
        assert worked(row).state == State.FAILED, "it is not begun again"
        assert worked(staged(anna, lines_of_chat(3))).state == State.READY

    @pytest.mark.parametrize(
        "content",
        [
            pytest.param("[" * 3_000_000, id="nested"),
            pytest.param("[" + "1," * 1_500_000 + "1]", id="flat"),
            pytest.param('{"a":"' + "x" * 3_000_000 + '"}', id="one text"),
            pytest.param('{"a":"' + '\\"' * 1_500_000 + '"}', id="quotes within a text"),
        ],
    )
    def test_a_document_of_one_huge_value_ends_with_a_sentence(
        self, anna: ChatUser, content: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(document, "MOST_WITHOUT_END", 500_000)
        row = worked(staged(anna, content))
        assert (row.state, "chat.json" in row.fault) == (State.FAILED, True)
        assert worked(staged(anna, lines_of_chat(3))).state == State.READY

    def test_a_file_that_takes_too_long_ends_with_a_sentence(
        self, anna: ChatUser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        row = staged(anna, lines_of_chat(2_000))
        with monkeypatch.context() as patch:
            patch.setattr(source, "FIRST_SECONDS", 0.0)
            patch.setattr(source, "BYTES_A_SECOND", 1e12)
            assert worked(row).state == State.FAILED
        assert "longer to read" in row.fault
        files.answer(row)
        assert worked(row).state == State.READY

    def test_a_file_at_which_the_worker_is_lost_each_time_waits_for_a_person(self, anna: ChatUser) -> None:
        row = staged(anna, lines_of_chat(1))
        ImportFile.objects.update(attempts=files.MOST_ATTEMPTS)
        assert worked(row).state == State.FAILED
        assert "worker was lost 3 times" in row.fault
        files.answer(row)
        assert (worked(row).state, row.attempts) == (State.READY, 0)


def endless_lines(folder: Path) -> str:
    return "\n".join(lines_of_chat(50, "nina", first=50 * number) for number in range(20))


def text(folder: Path) -> str:
    return "\n".join(f"25/07/2025, 14:{number % 60:02} - Anna: word {number}" for number in range(3_000))


def of_laplaced(folder: Path) -> bytes:
    return database(folder, history=[message(1, None)], structured_facts=[fact(1, "likes cake")]).read_bytes()


class Gone(Exception):
    pass


@pytest.mark.parametrize("write", [endless_lines, lambda folder: lines_of_chat(1_000), text, of_laplaced])
def test_every_reader_asks_whether_the_file_is_wanted(
    write: Callable[[Path], str | bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "ASK_SECONDS", 0.0)
    # A database of some rows takes fewer steps than are done between two questions.
    monkeypatch.setattr(laplaced, "STEPS_AT_ONCE", 1)
    content, path = write(tmp_path), tmp_path / "chat"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    is_wanted = True

    def ask() -> None:
        if not is_wanted:
            raise Gone

    chat = open_chat(path, hints=Hints("Anna"), ask=ask)
    readings: list[Callable[[], Any]] = [
        lambda: list(chat.records()),
        lambda: open_chat(path, hints=Hints("Anna"), ask=ask),
    ]
    readings += [chat.users] * any(reader.users for reader in chat.readers)
    readings += [lambda: list(chat.distilled())] * chat.is_distilled
    for read in readings:
        is_wanted = False
        with pytest.raises(Gone):
            read()
        is_wanted = True
        read()


@pytest.mark.django_db
def test_an_import_stops_before_the_disk_is_full_and_goes_on(anna: ChatUser, settings: Any) -> None:
    files.begin(row := worked(staged(anna, lines_of_chat(3))))
    reserve, settings.DISK_RESERVE_BYTES = settings.DISK_RESERVE_BYTES, 10**15
    assert worked(row).state == State.FAILED
    assert "free space" in row.fault
    settings.DISK_RESERVE_BYTES = reserve
    files.begin(row)
    assert worked(row).state == State.DONE


@pytest.mark.django_db(transaction=True)
class TestSlots:
    def test_a_discarded_file_frees_its_slot(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # The bomb is never found out here, as a worse one might not be.
        monkeypatch.setattr(laplaced, "STEPS_A_BYTE", 10**12)
        monkeypatch.setattr(files, "SLOTS", 1)
        anna = ChatUser.objects.create(name="anna")
        bomb = staged_bomb(anna)
        worker = threading.Thread(target=_sweep)
        worker.start()
        wait_for(lambda: ImportFile.objects.filter(pk=bomb.pk, attempts=1).exists())
        good = staged(anna, lines_of_chat(3))
        assert worked(good).state == State.REHEARSING, "the only slot is taken"
        files.discard(bomb)
        worker.join(PATIENCE)
        assert not worker.is_alive()
        assert worked(good).state == State.READY


@pytest.mark.django_db
def test_an_import_asks_while_it_waits_for_its_reader(
    anna: ChatUser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader of an import is a thread of its own, which nobody else may leave running."""
    monkeypatch.setattr(laplaced, "STEPS_A_BYTE", 10**12)
    asked = iter((False, False, False))

    def ask() -> None:
        if next(asked, True):
            raise Paused

    chat = open_chat(endless(tmp_path), ask=ask)
    with pytest.raises(Paused):
        import_for(chat, lambda named: "anna", Course(dry_run=True))
    assert "reading ahead" not in [thread.name for thread in threading.enumerate()]


def _sweep() -> None:
    try:
        tasks.import_waiting()
    finally:
        connection.close()
