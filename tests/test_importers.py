"""Files of other programs, with the oddities real ones have, as messages or as rejections with a place."""

from __future__ import annotations

import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryapp.importers import MessageRecord, Rejected, UnreadableFile, document, open_chat, read
from memoryapp.importers.record import BadRecord, clean


def written(tmp_path: Path, value: Any, name: str = "chat.json") -> Path:
    path = tmp_path / name
    path.write_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def lines(tmp_path: Path, *values: Any) -> Path:
    return written(tmp_path, "\n".join(v if isinstance(v, str) else json.dumps(v) for v in values), "chat.jsonl")


def sorted_out(path: Path, **options: Any) -> tuple[list[MessageRecord], list[Rejected]]:
    items = list(read(path, **options))
    return (
        [item for item in items if isinstance(item, MessageRecord)],
        [item for item in items if isinstance(item, Rejected)],
    )


def said(**fields: Any) -> dict[str, Any]:
    return {"id": "m1", "role": "user", "author": "Anna", "ts": "2025-07-25T14:30:00Z", "text": "hello", **fields}


class TestJsonLines:
    def test_a_conversation_is_read_with_everything_it_says(self, tmp_path: Path) -> None:
        full = said(session="s1", reply_to="m0", forwarded_from="Boris", attachments=[{"name": "a.pdf"}], mood="good")
        [record], rejected = sorted_out(lines(tmp_path, {"user": "anna", "messages": [full]}))
        assert rejected == []
        assert (record.user, record.external_id, record.role, record.author) == ("anna", "m1", "user", "Anna")
        assert record.sent_at == datetime(2025, 7, 25, 14, 30, tzinfo=UTC)
        assert (record.session, record.reply_to, record.forwarded_from) == ("s1", "m0", "Boris")
        assert record.metadata == {"attachments": [{"name": "a.pdf"}], "mood": "good"}

    def test_unknown_fields_of_a_conversation_are_kept_with_its_first_message(self, tmp_path: Path) -> None:
        path = lines(tmp_path, {"user": "a", "topic": "x", "messages": [said(), said(id="m2")]})
        records, _rejected = sorted_out(path)
        assert [record.metadata for record in records] == [{"conversation": {"topic": "x"}}, {}]

    @pytest.mark.parametrize(
        ("ts", "utc"),
        [
            ("2025-07-25T14:30:00", "2025-07-25T14:30:00+00:00"),
            ("2025-07-25T14:30:00+03:00", "2025-07-25T11:30:00+00:00"),
            ("2025-07-25 14:30:00.5Z", "2025-07-25T14:30:00.500000+00:00"),
            (1753453800, "2025-07-25T14:30:00+00:00"),
        ],
    )
    def test_a_time_without_a_zone_is_utc(self, tmp_path: Path, ts: Any, utc: str) -> None:
        [record], _rejected = sorted_out(lines(tmp_path, {"messages": [said(ts=ts)]}))
        assert record.sent_at.isoformat() == utc

    @pytest.mark.parametrize(
        ("message", "reason"),
        [
            (said(id=None), "no id"),
            (said(id=""), "no id"),
            (said(id=["m"]), "must be text"),
            (said(id="m" * 301), "longer than 300"),
            (said(role="robot"), "'robot'"),
            (said(role=None), "role"),
            (said(ts=None), "no time"),
            (said(ts="yesterday"), "'yesterday'"),
            (said(ts=1e300), "not a time"),
            (said(ts=True), "not a time"),
            (said(ts="0001-01-01T00:00:00+05:00"), "not a time"),
            (said(text=None), "no text"),
            (said(text=5.5), "must be text"),
            (said(text="x" * 1_000_001), "longer than 1,000,000"),
            (said(note="x" * 1_000_001), "beside its text"),
            ("hello", "must be a JSON object"),
            (None, "must be a JSON object"),
        ],
    )
    def test_a_bad_message_is_told_with_its_place_and_its_neighbours_stay(
        self, tmp_path: Path, message: Any, reason: str
    ) -> None:
        path = lines(tmp_path, {"user": "anna", "messages": [said(id="a"), message, said(id="b")]})
        records, [rejected] = sorted_out(path, format="jsonl")
        assert [record.external_id for record in records] == ["a", "b"]
        assert rejected.line == "line 1, message 2"
        assert reason in rejected.reason
        assert rejected.user == "anna"

    @pytest.mark.parametrize(
        "line",
        ['{"user": "anna", "messages": [', "[1, 2]", "null", '{"user": "anna"}', '{"messages": "none"}', "[" * 90_000],
    )
    def test_a_bad_line_is_told_by_its_number(self, tmp_path: Path, line: str) -> None:
        path = lines(tmp_path, {"messages": [said()]}, "", line, {"messages": [said(id="m2")]})
        records, [rejected] = sorted_out(path)
        assert len(records) == 2
        assert rejected.line == 3

    def test_a_line_that_is_not_utf_8_is_told_by_its_number(self, tmp_path: Path) -> None:
        path = tmp_path / "chat.jsonl"
        good = json.dumps({"messages": [said()]}).encode()
        path.write_bytes(good + b"\n" + '{"messages": [{"text": "привет"}]}'.encode("cp1251") + b"\n")
        _records, [rejected] = sorted_out(path)
        assert (rejected.line, rejected.reason) == (2, "not UTF-8 text")

    def test_what_postgres_cannot_store_is_replaced(self, tmp_path: Path) -> None:
        odd = said(text="a\x00b\ud800c", author="\x00", note={"k\x00": ["\udfff", 1e999]})
        [record], _rejected = sorted_out(lines(tmp_path, {"messages": [odd]}))
        assert record.text == "a\ufffdb\ufffdc"
        assert record.author == "\ufffd"
        assert record.metadata == {"note": {"k\ufffd": ["\ufffd", "inf"]}}

    def test_a_line_may_be_a_single_message(self, tmp_path: Path) -> None:
        records, _rejected = sorted_out(lines(tmp_path, said(user="anna"), said(user="boris", id="m2")))
        assert [(record.user, record.external_id) for record in records] == [("anna", "m1"), ("boris", "m2")]
        assert records[0].metadata == {}

    def test_a_broken_first_line_does_not_hide_the_format(self, tmp_path: Path) -> None:
        chat = open_chat(lines(tmp_path, "{oops", {"messages": [said()]}))
        assert chat.format == "jsonl"

    def test_an_indented_conversation_and_a_list_of_them_are_read_too(self, tmp_path: Path) -> None:
        indented = written(tmp_path, json.dumps({"user": "anna", "messages": [said()]}, indent=2))
        listed = written(tmp_path, [{"user": "anna", "messages": [said(), said(id="")]}], "list.json")
        assert [record.user for record in sorted_out(indented)[0]] == ["anna"]
        assert sorted_out(listed)[1][0].line == "[0], message 2"

    def test_a_byte_order_mark_and_utf_16_are_no_hindrance(self, tmp_path: Path) -> None:
        text = json.dumps({"messages": [said(text="Привет")]}, ensure_ascii=False)
        for number, encoding in enumerate(("utf-8-sig", "utf-16")):
            path = tmp_path / f"{number}.jsonl"
            path.write_text(f"{text}\n", encoding=encoding)
            assert sorted_out(path)[0][0].text == "Привет"


def telegram(*messages: Any, **chat: Any) -> dict[str, Any]:
    return {"name": "Boris", "type": "personal_chat", "id": 7, "messages": list(messages), **chat}


def sent(number: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "id": number,
        "type": "message",
        "date": "2025-04-15T09:30:00",
        "date_unixtime": "1744698600",
        "from": "Anna",
        "from_id": "user1",
        "text": "hi",
        **fields,
    }


class TestTelegram:
    def test_in_a_private_chat_the_peer_is_the_one_with_the_id_of_the_chat(self, tmp_path: Path) -> None:
        theirs = sent(2, **{"from": None, "from_id": "user7"})
        records, _rejected = sorted_out(written(tmp_path, telegram(sent(), theirs)))
        assert [(r.external_id, r.role, r.author) for r in records] == [
            ("telegram:7:1", "user", "Anna"),
            ("telegram:7:2", "peer", "Deleted account"),
        ]

    def test_an_old_export_with_bare_numbers_and_local_dates_is_read(self, tmp_path: Path) -> None:
        old = {"id": 1, "type": "message", "date": "2019-01-02T03:04:05", "from": "Boris", "from_id": 7, "text": "hi"}
        [record], _rejected = sorted_out(written(tmp_path, telegram(old)))
        assert (record.role, record.sent_at) == ("peer", datetime(2019, 1, 2, 3, 4, 5, tzinfo=UTC))

    def test_without_any_ids_the_peer_is_the_one_with_the_name_of_the_chat(self, tmp_path: Path) -> None:
        mine, theirs = sent(1), sent(2, **{"from": "Boris"})
        del mine["from_id"], theirs["from_id"]
        records, _rejected = sorted_out(written(tmp_path, telegram(mine, theirs)))
        assert [record.role for record in records] == ["user", "peer"]

    def test_a_bot_is_the_assistant(self, tmp_path: Path) -> None:
        chat = telegram(sent(), sent(2, **{"from": "Bot", "from_id": "user7"}), type="bot_chat")
        records, _rejected = sorted_out(written(tmp_path, chat))
        assert [record.role for record in records] == ["user", "assistant"]

    def test_in_a_group_only_the_owner_by_name_is_the_user(self, tmp_path: Path) -> None:
        path = written(tmp_path, telegram(sent(), sent(2, **{"from": "Clara"}), type="private_group"))
        assert [record.role for record in sorted_out(path)[0]] == ["peer", "peer"]
        assert [record.role for record in sorted_out(path, owner="anna")[0]] == ["user", "peer"]

    def test_an_account_export_knows_its_owner_in_every_chat(self, tmp_path: Path) -> None:
        saved = {"type": "saved_messages", "id": 1, "messages": [sent()]}
        group = telegram(sent(), sent(2, from_id="user9"), type="private_supergroup", id=70)
        account = {
            "personal_information": {"user_id": 1},
            "chats": {"about": "", "list": [saved, group]},
            "left_chats": {"list": [telegram(sent(5, from_id="channel3"), type="public_channel", id=3)]},
        }
        records, _rejected = sorted_out(written(tmp_path, account))
        assert [(record.external_id, record.role) for record in records] == [
            ("telegram:1:1", "user"),
            ("telegram:70:1", "user"),
            ("telegram:70:2", "peer"),
            ("telegram:3:5", "peer"),
        ]
        assert len({record.session for record in records}) == 3

    def test_control_characters_written_the_exporters_way_are_mended(self, tmp_path: Path) -> None:
        text = json.dumps(telegram(sent(text="a@b"), sent(2, text=r"C:\x0B")), indent=1).replace("a@b", r"a\x0Bb")
        records, _rejected = sorted_out(written(tmp_path, text))
        assert [record.text for record in records] == ["a\x0bb", r"C:\x0B"]

    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({"text": ["see ", {"type": "link", "text": "x.org"}, "!"]}, "see x.org!"),
            ({"text": "", "text_entities": [{"type": "plain", "text": "new"}]}, "new"),
            ({"text": "old", "text_entities": "..."}, "old"),
            ({"text": "old", "text_entities": []}, "old"),
            ({"text": "sea", "photo": "photos/1.jpg"}, "[photo] sea"),
            ({"text": "", "file": "f/a.pdf"}, "[file: a.pdf]"),
            ({"text": "", "file": "(File not included. Change data exporting settings to download.)"}, "[file]"),
            ({"text": "", "file": "s.webp", "media_type": "sticker", "sticker_emoji": "😀"}, "[sticker: 😀]"),
            ({"text": "", "file": "v.ogg", "media_type": "voice_message", "duration_seconds": 4}, "[voice message]"),
            ({"text": "", "media_type": "audio_file", "performer": "P", "title": "T"}, "[audio: P – T]"),
            ({"text": "", "contact_information": {"first_name": "Ivan", "last_name": ""}}, "[contact: Ivan]"),
            ({"text": "", "location_information": {"latitude": 1.5, "longitude": 2}}, "[location: 1.5, 2]"),
            ({"text": "", "location_information": None}, "[location]"),
            ({"text": "", "poll": {"question": "Q?", "answers": [{"text": "A"}, {"text": "B"}]}}, "[poll: Q? / A / B]"),
            ({"text": "", "invoice_information": '{"title": "Tea", "amount": 3}'}, "[invoice: Tea 3]"),
            ({"text": "", "invoice_information": "{"}, "[invoice]"),
            ({"text": {"odd": 1}}, ""),
        ],
    )
    def test_every_kind_of_content_becomes_words(self, tmp_path: Path, fields: dict[str, Any], text: str) -> None:
        [record], _rejected = sorted_out(written(tmp_path, telegram(sent(**fields))))
        assert record.text == text

    def test_what_media_a_message_had_is_kept_beside_its_words(self, tmp_path: Path) -> None:
        linked = [{"type": "text_link", "text": "here", "href": "https://x.org"}]
        message = sent(photo="photos/1.jpg", width=10, text_entities=linked, edited="2025-04-15T09:31:00")
        [record], _rejected = sorted_out(written(tmp_path, telegram(message)))
        assert record.metadata == {
            "chat": "Boris",
            "chat_type": "personal_chat",
            "from_id": "user1",
            "links": ["https://x.org"],
            "photo": "photos/1.jpg",
            "width": 10,
            "edited": "2025-04-15T09:31:00",
        }

    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            (
                {"action": "create_group", "title": "Team", "members": ["A", None]},
                "created the group “Team” with A, De",
            ),
            ({"action": "phone_call", "duration_seconds": 60, "discard_reason": "hangup"}, "called (60 s, hangup)"),
            ({"action": "phone_call", "discard_reason": "missed"}, "called (missed)"),
            ({"action": "invite_members"}, "invited nobody"),
            ({"action": "suggest_profile_photo"}, "suggest profile photo"),
            ({"action": "edit_group_title", "title": "{0}{x}"}, "renamed the group to “{0}{x}”"),
            ({"information_text": "Something custom"}, "Something custom"),
        ],
    )
    def test_what_happened_in_a_chat_is_a_system_sentence(
        self, tmp_path: Path, fields: dict[str, Any], text: str
    ) -> None:
        service = {"id": 3, "type": "service", "date_unixtime": "1744698600", "actor": "Anna", "text": "", **fields}
        [record], _rejected = sorted_out(written(tmp_path, telegram(service)))
        assert (record.role, record.author) == ("system", "Anna")
        assert text in record.text

    def test_replies_and_forwards_keep_where_they_come_from(self, tmp_path: Path) -> None:
        here = sent(2, reply_to_message_id=1, forwarded_from=None)
        elsewhere = sent(3, reply_to_message_id=4, reply_to_peer_id="channel55", forwarded_from="News")
        records, _rejected = sorted_out(written(tmp_path, telegram(here, elsewhere)))
        assert [(r.reply_to, r.forwarded_from) for r in records] == [
            ("telegram:7:1", "Deleted account"),
            ("telegram:55:4", "News"),
        ]

    def test_the_unix_time_wins_over_the_local_date(self, tmp_path: Path) -> None:
        message = sent(date="2025-04-15T09:30:00", date_unixtime="1744968600")
        [record], _rejected = sorted_out(written(tmp_path, telegram(message)))
        assert record.sent_at == datetime(2025, 4, 18, 9, 30, tzinfo=UTC)

    def test_what_cannot_be_read_is_told_with_its_path(self, tmp_path: Path) -> None:
        undated = {"id": 991, "type": "message", "text": "when?"}
        chat = telegram({"id": 4, "type": "unsupported"}, undated, {"type": "message", "text": "who?"}, 5)
        account = {"chats": {"list": [{"name": "empty"}, chat]}}
        _records, rejected = sorted_out(written(tmp_path, account))
        assert [item.line for item in rejected] == [
            "chats.list[0]",
            "chats.list[1].messages[0] (id 4)",
            "chats.list[1].messages[1] (id 991)",
            "chats.list[1].messages[2]",
            "chats.list[1].messages[3]",
        ]
        assert "unsupported" in rejected[1].reason


def node(
    key: str, parent: str | None, text: Any = None, role: str = "user", **fields: Any
) -> tuple[str, dict[str, Any]]:
    content = text if isinstance(text, dict) else {"content_type": "text", "parts": [text]}
    said = {"id": key, "author": {"role": role}, "create_time": None, "content": content, **fields}
    return key, {"id": key, "parent": parent, "children": [], "message": None if text is None else said}


def chatgpt(*nodes: tuple[str, dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return {
        "title": "Tea",
        "id": "c1",
        "create_time": 1700000000.0,
        "current_node": nodes[-1][0] if nodes else None,
        "mapping": dict(nodes),
        **fields,
    }


class TestChatGPT:
    def test_only_the_branch_that_was_shown_is_read(self, tmp_path: Path) -> None:
        conversation = chatgpt(
            node("root", None),
            node("hidden", "root", "", role="system"),
            node("first", "hidden", "first wording"),
            node("second", "hidden", "second wording", create_time=1700000100.5),
            node("answer", "second", "an answer", role="assistant"),
        )
        records, rejected = sorted_out(written(tmp_path, [conversation]))
        assert rejected == []
        assert [(record.external_id, record.role, record.text) for record in records] == [
            ("chatgpt:c1:second", "user", "second wording"),
            ("chatgpt:c1:answer", "assistant", "an answer"),
        ]
        assert {record.session for record in records} == {"c1"}
        assert records[0].metadata["conversation"] == "Tea"

    def test_a_message_without_a_time_takes_that_before_it(self, tmp_path: Path) -> None:
        conversation = chatgpt(
            node("a", None, "one"),
            node("b", "a", "two", create_time=1700000100),
            node("c", "b", "three"),
            node("d", "c", "four", create_time=1700000050),
        )
        records, _rejected = sorted_out(written(tmp_path, {"conversations": [conversation]}))
        assert [record.sent_at.timestamp() for record in records] == [1700000000, 1700000100, 1700000100, 1700000100]

    def test_what_the_person_never_saw_is_left_out_without_a_word(self, tmp_path: Path) -> None:
        conversation = chatgpt(
            node("a", None, "profile", metadata={"is_user_system_message": True}),
            node("b", "a", "secret", metadata={"is_visually_hidden_from_conversation": True}),
            node("c", "b", "question"),
            node("d", "c", {"content_type": "thoughts", "thoughts": [{"content": "hm"}]}, role="assistant"),
            node("e", "d", {"content_type": "code", "text": "print(1)"}, role="assistant", recipient="python"),
            node("f", "e", {"content_type": "execution_output", "text": "1"}, role="tool"),
            node("g", "f", "answer", role="assistant", recipient="all"),
        )
        records, rejected = sorted_out(written(tmp_path, [conversation]))
        assert [record.text for record in records] == ["question", "answer"]
        assert rejected == []

    def test_pictures_files_and_voice_become_marks_and_words(self, tmp_path: Path) -> None:
        parts = [
            {"content_type": "image_asset_pointer", "asset_pointer": "sediment://x"},
            {"content_type": "audio_transcription", "text": "spoken"},
            "typed \ue200cite\ue202turn0search1\ue201",
        ]
        files = [{"id": "1", "name": "plan.pdf"}, {"id": "2", "name": "x.png", "mime_type": "image/png"}]
        message = node("a", None, {"content_type": "multimodal_text", "parts": parts}, metadata={"attachments": files})
        [record], _rejected = sorted_out(written(tmp_path, [chatgpt(message)]))
        assert record.text == "[file: plan.pdf]\n[image]\nspoken\ntyped"

    @pytest.mark.parametrize(
        ("conversation", "reason"),
        [
            ({"id": "c1", "title": "x"}, "mapping"),
            (chatgpt(), "mapping"),
            (chatgpt(node("a", None, "x"), id=None), "no id"),
            (chatgpt(node("a", None, "x"), current_node="gone"), "'gone'"),
            (chatgpt(node("a", None, "x"), node("b", None, "y"), current_node=None), "current_node"),
            (chatgpt(node("a", None, "x"), current_node=["a"]), "current_node"),
            (5, "JSON object"),
        ],
    )
    def test_a_conversation_without_its_tree_is_told_with_its_place(
        self, tmp_path: Path, conversation: Any, reason: str
    ) -> None:
        good = chatgpt(node("a", None, "fine"), id="c2")
        records, [rejected] = sorted_out(written(tmp_path, [good, conversation]))
        assert [record.text for record in records] == ["fine"]
        assert rejected.line == "[1]"
        assert reason in rejected.reason

    def test_bad_nodes_are_told_and_the_rest_stays(self, tmp_path: Path) -> None:
        conversation = chatgpt(
            node("a", "lost", "what is left"),
            node("b", "a", {"content_type": "hologram"}, role="assistant"),
            node("c", "b", "robot", role="robot"),
        )
        records, rejected = sorted_out(written(tmp_path, [conversation]))
        assert [record.text for record in records] == ["what is left"]
        assert [item.line for item in rejected] == ["[0].mapping[a]", "[0].mapping[b]", "[0].mapping[c]"]

    def test_a_tree_that_bites_its_tail_ends(self, tmp_path: Path) -> None:
        path = written(tmp_path, [chatgpt(node("a", "b", "one"), node("b", "a", "two"))])
        assert [record.text for record in sorted_out(path)[0]] == ["one", "two"]

    def test_the_exported_archive_is_read_as_it_is(self, tmp_path: Path) -> None:
        path = tmp_path / "export.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("chat.html", "<html>")
            for number in (1, 2):
                one = chatgpt(node("a", None, f"part {number}"), id=f"c{number}")
                archive.writestr(f"conversations-{number:03}.json", json.dumps([one]))
        assert [record.text for record in sorted_out(path)[0]] == ["part 1", "part 2"]


class TestFiles:
    @pytest.mark.parametrize(
        ("value", "format"),
        [
            ({"messages": [said()]}, "jsonl"),
            (telegram(sent()), "telegram"),
            (telegram(), "telegram"),
            ({"about": "", "chats": {"about": "", "list": []}}, "telegram"),
            ([chatgpt(node("a", None, "x"))], "chatgpt"),
            (chatgpt(node("a", None, "x")), "chatgpt"),
        ],
    )
    def test_the_format_is_found_by_content(self, tmp_path: Path, value: Any, format: str) -> None:
        assert open_chat(written(tmp_path, value, "one-line")).format == format
        assert open_chat(written(tmp_path, json.dumps(value, indent=1), "indented")).format == format

    @pytest.mark.parametrize(
        ("content", "sentence"),
        [
            ("", "not valid JSON"),
            ("just words", "not valid JSON"),
            ('{"messages": [{"id": 1', "not valid JSON"),
            ("[" * 100_000, "nested too deeply"),
            ("9" * 5000, "not valid JSON"),
            ('{"some": "thing"}', "none of the formats"),
            ('[{"uuid": "1", "chat_messages": []}]', "none of the formats"),
            ("[]", "none of the formats"),
        ],
    )
    def test_a_file_that_is_no_chat_is_one_sentence(self, tmp_path: Path, content: str, sentence: str) -> None:
        with pytest.raises(UnreadableFile, match=sentence):
            open_chat(written(tmp_path, content))

    def test_a_missing_file_a_folder_and_a_wrong_format_are_one_sentence_each(self, tmp_path: Path) -> None:
        with pytest.raises(UnreadableFile, match="There is no file"):
            open_chat(tmp_path / "nothing.json")
        with pytest.raises(UnreadableFile, match="is not a file"):
            open_chat(tmp_path)
        with pytest.raises(UnreadableFile, match="telegram, not chatgpt"):
            open_chat(written(tmp_path, telegram(sent())), "chatgpt")

    def test_bytes_that_are_no_text_are_one_sentence(self, tmp_path: Path) -> None:
        path = tmp_path / "photo.json"
        path.write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe")
        with pytest.raises(UnreadableFile, match="not UTF-8"):
            open_chat(path)

    def test_a_broken_archive_and_one_without_a_chat_are_one_sentence(self, tmp_path: Path) -> None:
        path = tmp_path / "photos.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.jpg", "x")
        with pytest.raises(UnreadableFile, match="holds neither"):
            open_chat(path)

    def test_a_huge_file_is_refused_before_it_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "huge.jsonl"
        with path.open("wb") as file:
            file.truncate(document.MOST_BYTES + 1)
        with pytest.raises(UnreadableFile, match="at most 1,000 MB"):
            open_chat(path)


def test_a_tower_of_lists_in_a_message_is_a_bad_record() -> None:
    tower: list[Any] = []
    for _level in range(40):
        tower = [tower]
    with pytest.raises(BadRecord, match="deeper than 32"):
        clean(tower)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
CHAT_FIELDS = (
    "id",
    "type",
    "messages",
    "mapping",
    "from",
    "from_id",
    "date",
    "text",
    "current_node",
    "parent",
    "message",
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    value=st.dictionaries(st.sampled_from(CHAT_FIELDS), JSON, max_size=6),
    shape=st.sampled_from(["telegram message", "chat", "conversation", "node", "line", "message"]),
)
def test_no_shape_of_json_makes_a_reader_fall(
    tmp_path_factory: pytest.TempPathFactory, value: dict[str, Any], shape: str
) -> None:
    around: dict[str, Any] = {
        "telegram message": telegram(sent(**value), sent()),
        "chat": {"chats": {"list": [value]}},
        "conversation": [chatgpt(node("a", None, "x"), id="good"), {"mapping": {}, **value}],
        "node": [chatgpt(node("a", None, "x"), ("b", {"parent": "a", "message": value, **value}))],
        "line": {"messages": [said()], **value},
        "message": {"messages": [said(), said(**value)]},
    }
    path = tmp_path_factory.mktemp("odd") / "chat.json"
    path.write_text(json.dumps(around[shape]))
    try:
        items = list(read(path))
    except UnreadableFile:
        return
    assert all(isinstance(item, MessageRecord | Rejected) for item in items)
