"""JSON Lines, with the oddities real files have, as messages or as rejections with a place."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memoryapp.importers import open_chat
from tests.support.chats import chat_line, lines, sorted_out, written


class TestJsonLines:
    def test_a_conversation_is_read_with_everything_it_says(self, tmp_path: Path) -> None:
        full = chat_line(
            session="s1", reply_to="m0", forwarded_from="Boris", attachments=[{"name": "a.pdf"}], mood="good"
        )
        [record], rejected = sorted_out(lines(tmp_path, {"user": "anna", "messages": [full]}))
        assert rejected == []
        assert (record.user, record.external_id, record.role, record.author) == ("anna", "m1", "user", "Anna")
        assert record.sent_at == datetime(2025, 7, 25, 14, 30, tzinfo=UTC)
        assert (record.session, record.reply_to, record.forwarded_from) == ("s1", "m0", "Boris")
        assert record.metadata == {"attachments": [{"name": "a.pdf"}], "mood": "good"}

    def test_unknown_fields_of_a_conversation_are_kept_with_its_first_message(self, tmp_path: Path) -> None:
        path = lines(tmp_path, {"user": "a", "topic": "x", "messages": [chat_line(), chat_line(id="m2")]})
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
        [record], _rejected = sorted_out(lines(tmp_path, {"messages": [chat_line(ts=ts)]}))
        assert record.sent_at.isoformat() == utc

    def test_a_line_that_is_no_json_has_one_place(self, tmp_path: Path) -> None:
        path = tmp_path / "chat.jsonl"
        path.write_text("\n".join([json.dumps(chat_line(user="anna")), "", '{"user": oops}']))
        [rejected] = sorted_out(path, format="jsonl")[1]
        assert (rejected.line, rejected.reason) == (3, "not valid JSON: Expecting value: column 10")

    @pytest.mark.parametrize(
        ("message", "reason"),
        [
            (chat_line(id=None), "no id"),
            (chat_line(id=""), "no id"),
            (chat_line(id=["m"]), "must be text"),
            (chat_line(id="m" * 301), "longer than 300"),
            (chat_line(role="robot"), "'robot'"),
            (chat_line(role=None), "role"),
            (chat_line(ts="yesterday"), "'yesterday'"),
            (chat_line(ts=1e300), "not a time"),
            (chat_line(ts=True), "not a time"),
            (chat_line(ts="0001-01-01T00:00:00+05:00"), "not a time"),
            (chat_line(text=None), "no text"),
            (chat_line(text=5.5), "must be text"),
            (chat_line(text="x" * 1_000_001), "longer than 1,000,000"),
            (chat_line(note="x" * 1_000_001), "its metadata"),
            ("hello", "must be a JSON object"),
            (None, "must be a JSON object"),
        ],
    )
    def test_a_bad_message_is_reported_with_its_place_and_its_neighbours_stay(
        self, tmp_path: Path, message: Any, reason: str
    ) -> None:
        path = lines(tmp_path, {"user": "anna", "messages": [chat_line(id="a"), message, chat_line(id="b")]})
        records, [rejected] = sorted_out(path, format="jsonl")
        assert [record.external_id for record in records] == ["a", "b"]
        assert rejected.line == "line 1, message 2"
        assert reason in rejected.reason
        assert rejected.user == "anna"

    @pytest.mark.parametrize(
        "line",
        ['{"user": "anna", "messages": [', "[1, 2]", "null", '{"user": "anna"}', '{"messages": "none"}', "[" * 90_000],
    )
    def test_a_bad_line_is_named_by_its_number(self, tmp_path: Path, line: str) -> None:
        path = lines(tmp_path, {"messages": [chat_line()]}, "", line, {"messages": [chat_line(id="m2")]})
        records, [rejected] = sorted_out(path)
        assert len(records) == 2
        assert rejected.line == 3

    def test_a_line_that_is_not_utf_8_is_named_by_its_number(self, tmp_path: Path) -> None:
        path = tmp_path / "chat.jsonl"
        good = json.dumps({"messages": [chat_line()]}).encode()
        path.write_bytes(good + b"\n" + '{"messages": [{"text": "привет"}]}'.encode("cp1251") + b"\n")
        _records, [rejected] = sorted_out(path)
        assert (rejected.line, rejected.reason) == (2, "not UTF-8 text")

    def test_what_postgres_cannot_store_is_replaced(self, tmp_path: Path) -> None:
        odd = chat_line(text="a\x00b\ud800c", author="\x00", note={"k\x00": ["\udfff", 1e999]})
        [record], _rejected = sorted_out(lines(tmp_path, {"messages": [odd]}))
        assert record.text == "a\ufffdb\ufffdc"
        assert record.author == "\ufffd"
        assert record.metadata == {"note": {"k\ufffd": ["\ufffd", "inf"]}}

    def test_a_line_may_be_a_single_message(self, tmp_path: Path) -> None:
        records, _rejected = sorted_out(lines(tmp_path, chat_line(user="anna"), chat_line(user="boris", id="m2")))
        assert [(record.user, record.external_id) for record in records] == [("anna", "m1"), ("boris", "m2")]
        assert records[0].metadata == {}

    def test_a_broken_first_line_does_not_hide_the_format(self, tmp_path: Path) -> None:
        chat = open_chat(lines(tmp_path, "{oops", {"messages": [chat_line()]}))
        assert chat.format == "jsonl"

    def test_an_indented_conversation_and_a_list_of_them_are_read_too(self, tmp_path: Path) -> None:
        indented = written(tmp_path, json.dumps({"user": "anna", "messages": [chat_line()]}, indent=2))
        listed = written(tmp_path, [{"user": "anna", "messages": [chat_line(), chat_line(id="")]}], "list.json")
        assert [record.user for record in sorted_out(indented)[0]] == ["anna"]
        assert sorted_out(listed)[1][0].line == "[0], message 2"

    def test_a_byte_order_mark_and_utf_16_are_no_hindrance(self, tmp_path: Path) -> None:
        text = json.dumps({"messages": [chat_line(text="Привет")]}, ensure_ascii=False)
        for number, encoding in enumerate(("utf-8-sig", "utf-16")):
            path = tmp_path / f"{number}.jsonl"
            path.write_text(f"{text}\n", encoding=encoding)
            assert sorted_out(path)[0][0].text == "Привет"


class TestTimes:
    @staticmethod
    def timed(*times: str | None) -> list[dict[str, Any]]:
        return [chat_line(id=f"m{number}", ts=time) for number, time in enumerate(times)]

    @staticmethod
    def read(path: Path, **hints: Any) -> list[tuple[str, str]]:
        records, _rejected = sorted_out(path, **hints)
        return [(record.sent_at.strftime("%d %H:%M"), record.metadata.get("time_source", "")) for record in records]

    def test_a_message_without_a_time_takes_that_of_the_one_before_it_and_is_marked(self, tmp_path: Path) -> None:
        path = lines(tmp_path, {"messages": self.timed("2025-07-01T10:00", None, None, "2025-07-01T11:00", None)})
        neighbour = "neighbour"
        assert self.read(path) == [
            ("01 10:00", ""),
            ("01 10:00", neighbour),
            ("01 10:00", neighbour),
            ("01 11:00", ""),
            ("01 11:00", neighbour),
        ]

    def test_at_the_beginning_it_takes_that_of_the_first_after_it(self, tmp_path: Path) -> None:
        path = lines(
            tmp_path,
            {"messages": self.timed(None, None)},
            {"messages": self.timed(None, "2025-07-02T10:00")},
            {"messages": self.timed(None, "2025-07-03T10:00")},
        )
        assert [time for time, _source in self.read(path)] == ["02 10:00"] * 4 + ["03 10:00"] * 2
        start = datetime(2020, 1, 1, tzinfo=UTC)
        assert self.read(path, start=start) == self.read(path), "times of the file come before those that are given"

    def test_a_whole_file_without_times_is_counted_from_the_start_and_marked(self, tmp_path: Path) -> None:
        path = lines(tmp_path, {"messages": self.timed(None, None)}, {"messages": self.timed(None)})
        assert self.read(path) == []
        start = datetime(2020, 1, 1, tzinfo=UTC)
        assert self.read(path, start=start) == [
            ("01 00:00", "counted"),
            ("01 00:01", "counted"),
            ("02 00:02", "counted"),
        ]
