"""Memories and plain messages of other programs: JSON Lines, Letta, mem0."""

import gzip
import io
import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from memoryapp.importers import Distilled, Hints, LeftOut, MessageRecord, Rejected, open_chat, read
from memoryapp.models import ChatUser, Fact, Message
from tests.support.chats import chat_line, letta, letta_api, letta_message, lines, memory, sorted_out, written


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


# Letta: agent files of both kinds, messages of the API, what the program writes in the user's name.


def spoken(path: Path) -> list[tuple[str, str]]:
    return [(item.role, item.text) for item in read(path) if isinstance(item, MessageRecord)]


def packed(kind: str, **fields: Any) -> str:
    """A user's message and notices are packed in JSON (``package_user_message`` and others in letta/system.py)."""
    return json.dumps({"type": kind, "time": "2025-08-14 10:49:28 PM UTC+0000", **fields})


def speaks(words: str, **fields: Any) -> dict[str, Any]:
    arguments = json.dumps({"message": words, "request_heartbeat": False})
    call = {"id": "1", "type": "function", "function": {"name": "send_message", "arguments": arguments}}
    return letta_message("assistant", "I should greet her", tool_calls=[call], **fields)


def test_an_agent_that_speaks_by_a_tool_says_what_it_sends(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        letta(
            letta_message("system", "You are Sam."),
            letta_message("user", packed("login", last_login="Never")),
            letta_message("user", packed("user_message", message="Hello")),
            speaks("Hello Anna"),
            letta_message("tool", packed("function_response", status="OK")),
            letta_message("assistant", "Nothing left to do"),
        ),
        "sam.af",
    )
    assert spoken(path) == [("user", "Hello"), ("assistant", "Hello Anna")]
    assert len([item for item in read(path) if isinstance(item, LeftOut)]) == 4


def test_an_agent_file_with_a_list_of_agents_is_read(tmp_path: Path) -> None:
    """``AgentFileSchema`` of letta/schemas/agent_file.py; its messages may have no time but the packed one."""
    talk = [
        letta_message("user", packed("user_message", message="Hello"), created_at=None),
        letta_message("assistant", [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "Hi Anna"}]),
    ]
    file = {
        "agents": [{"id": "agent-0", "name": "Sam", "messages": talk, "in_context_message_ids": []}],
        "blocks": [{"id": "block-0", "label": "human", "value": "Anna drinks oolong"}],
        "groups": [],
        "tools": [],
        "created_at": "2025-09-01T00:00:00Z",
    }
    path = written(tmp_path, file)
    assert spoken(path) == [("user", "Hello"), ("assistant", "Hi Anna")]
    first = next(item for item in read(path) if isinstance(item, MessageRecord))
    assert first.sent_at.isoformat() == "2025-08-14T22:49:28+00:00"
    facts = [item.values["content"] for item in open_chat(path).distilled() if isinstance(item, Distilled)]
    assert facts == ["Anna drinks oolong"]


def test_ids_stay_the_same_in_a_later_file_of_a_grown_agent(tmp_path: Path) -> None:
    """The file numbers its messages anew each time and has only the latest of them."""
    talk = [
        letta_message("user", "one"),
        speaks("two"),
        letta_message("user", "one", created_at="2025-08-15T00:00:00Z"),
    ]
    before = {item.external_id for item in read(written(tmp_path, letta(*talk))) if isinstance(item, MessageRecord)}
    later = written(tmp_path, letta(*talk[1:], speaks("three", created_at="2025-08-16T00:00:00Z")))
    after = {item.external_id for item in read(later) if isinstance(item, MessageRecord)}
    assert len(before) == 3
    assert len(before & after) == 2


def test_messages_of_the_api_are_read(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        [
            letta_api("system_message", "You are Sam."),
            letta_api("user_message", "Hello", id="message-2"),
            letta_api("reasoning_message", None, reasoning="hm", id="message-3"),
            letta_api("assistant_message", [{"type": "text", "text": "Hi Anna"}], id="message-3"),
            letta_api("tool_call_message", None, tool_call={"name": "x"}, id="message-4"),
        ],
    )
    assert spoken(path) == [("user", "Hello"), ("assistant", "Hi Anna")]
    assert len([item for item in read(path) if isinstance(item, LeftOut)]) == 3
    assert spoken(written(tmp_path, {"messages": [letta_api("user_message", "Hello")]}, "o.json")) == [
        ("user", "Hello")
    ]


def test_blocks_about_the_user_become_facts_and_others_are_left_out(tmp_path: Path) -> None:
    found = list(open_chat(written(tmp_path, letta(letta_message("user", "hi")))).distilled())
    assert [item.values["content"] for item in found if isinstance(item, Distilled)] == ["Name: Anna", "drinks oolong"]
    assert len([item for item in found if isinstance(item, LeftOut)]) == 1


# mem0: memories become facts of the user whom they name, once, and can be taken back with the import.


BACKUP = {
    "user": {"id": "1", "user_id": "anna", "name": "Anna"},
    "apps": [],
    "categories": [{"id": "k1", "name": "food"}],
    "memories": [
        {"id": "a", "user_id": "1", "content": "Likes oolong", "state": "active", "category_ids": ["k1"]},
        {"id": "b", "user_id": "1", "content": "Old", "state": "deleted", "category_ids": []},
    ],
    "export_meta": {"version": "1"},
}


def facts(path: Path) -> list[tuple[str, str, str]]:
    found = [item for item in open_chat(path).distilled() if isinstance(item, Distilled)]
    return [(item.user, item.values["category"], item.values["content"]) for item in found]


@pytest.mark.parametrize(
    "value",
    [
        {"results": [memory(categories=["food"])], "relations": []},
        {"count": 1, "next": None, "results": [memory(categories=["food"])]},
        [memory(categories=["food"])],
        {"memories": [memory(categories=["food"])]},
    ],
)
def test_answers_of_get_all_are_read(tmp_path: Path, value: Any) -> None:
    """docs.mem0.ai: version 1 returns a list, 1.1 an object with results, the platform one with count."""
    path = written(tmp_path, value)
    assert facts(path) == [("anna", "food", "Likes oolong")]
    assert open_chat(path).users() == {"anna"}


def test_points_of_a_vector_store_and_lines_are_read(tmp_path: Path) -> None:
    """mem0 keeps the text as ``data`` in the payload of its vector store; mem0-ts/src/oss writes ``createdAt``."""
    point = {"id": "1", "payload": {"data": "Likes oolong", "hash": "h", "user_id": "anna", "created_at": "2025-07-01"}}
    of_typescript = {"id": "1", "memory": "Likes oolong", "createdAt": "2025-07-01", "userId": "anna"}
    assert facts(written(tmp_path, {"results": [of_typescript]}, "ts.json")) == [("anna", "mem0", "Likes oolong")]
    assert facts(written(tmp_path, [point])) == [("anna", "mem0", "Likes oolong")]
    assert facts(lines(tmp_path, memory(), memory(2, "Has a cat", user_id="boris"))) == [
        ("anna", "mem0", "Likes oolong"),
        ("boris", "mem0", "Has a cat"),
    ]


def test_the_backup_of_openmemory_is_read(tmp_path: Path) -> None:
    """openmemory/api/app/routers/backup.py: a zip of memories.json and memories.jsonl.gz, which have the same."""
    backup = json.loads(json.dumps(BACKUP))
    for item in backup["memories"]:
        item["created_at"] = "2025-07-01T10:00:00+00:00"
    line = {"id": "a", "content": "Likes oolong", "state": "active", "categories": ["food"], "created_at": "2025-07-01"}
    path = tmp_path / "memories_export_anna.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("memories.json", json.dumps(backup))
        archive.writestr("memories.jsonl.gz", gzip.compress(json.dumps(line).encode()))
    assert facts(path) == [("anna", "food", "Likes oolong")]
    assert [item.reason for item in open_chat(path).distilled() if isinstance(item, LeftOut)] == [
        "it was deleted or archived there"
    ]
    alone = tmp_path / "memories.jsonl.gz"
    alone.write_bytes(gzip.compress(json.dumps(line).encode()))
    assert facts(alone) == [("", "food", "Likes oolong")]


@pytest.mark.django_db
def test_an_import_adds_the_facts_once_and_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, {"results": [memory(), memory(2, ""), memory(3, "Has a cat")]})

    def imported() -> dict[str, Any]:
        out = io.StringIO()
        call_command("import_chat", str(path), user="anna", json=True, stdout=out)
        found: dict[str, Any] = json.loads(out.getvalue())
        return found

    first, second = imported(), imported()
    assert first["users"] == ["anna"]
    assert (first["brought"], first["brought_before"]) == ({"fact": 2}, {})
    assert [item["line"] for item in first["not_brought"]] == ["results[1]"]
    assert (second["brought"], second["brought_before"]) == ({}, {"fact": 2})
    anna = ChatUser.objects.get(name="anna")
    assert sorted(Fact.objects.filter(owner=anna).values_list("content", flat=True)) == ["Has a cat", "Likes oolong"]
    assert not Message.objects.exists()


@pytest.mark.django_db
def test_memories_of_several_users_go_to_each_of_them(tmp_path: Path) -> None:
    path = written(tmp_path, [memory(), memory(2, "Has a cat", user_id="boris")])
    call_command("import_chat", str(path), user="carol", json=True, stdout=io.StringIO(), stderr=io.StringIO())
    assert dict(Fact.objects.values_list("content", "owner__name")) == {"Likes oolong": "anna", "Has a cat": "boris"}


def test_memories_without_times_get_them_from_the_start_that_is_given(tmp_path: Path) -> None:
    timeless = written(tmp_path, {"results": [memory(created_at=None), memory(2, "Likes milk", created_at=None)]})
    [first, _second] = open_chat(timeless).distilled()
    assert isinstance(first, Rejected)
    assert "--start" in first.reason
    start = datetime(2024, 5, 1, tzinfo=UTC)
    dated = list(open_chat(timeless, hints=Hints(start=start)).distilled())
    assert [item.values["created_at"].minute for item in dated if isinstance(item, Distilled)] == [0, 1]
