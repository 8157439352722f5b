"""Lists of OpenAI messages, and the database of laplaced."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memoryapp.importers import UnreadableFile, open_chat
from tests.support.chats import lines, sorted_out, written

START = datetime(2024, 5, 1, tzinfo=UTC)
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Which tea?", "name": "Anna"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "SECRET"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "SECRET"},
    {"role": "assistant", "content": [{"type": "text", "text": "Green."}]},
    {"role": "user", "content": [{"type": "text", "text": "This?"}, {"type": "image_url", "image_url": {"url": "x"}}]},
]


class TestOpenAI:
    def test_messages_of_the_assistants_api_have_their_words_one_level_below(self, tmp_path: Path) -> None:
        part = {"type": "text", "text": {"value": "Which tea?", "annotations": []}}
        thread = {"object": "thread.message", "role": "user", "content": [part], "created_at": 1_700_000_000}
        [record], rejected = sorted_out(lines(tmp_path, thread))
        assert (record.text, rejected) == ("Which tea?", [])

    @pytest.mark.parametrize("value", [TALK, {"messages": TALK}, [{"messages": TALK}], [TALK]])
    def test_a_conversation_in_any_wrapping(self, tmp_path: Path, value: Any) -> None:
        records, rejected = sorted_out(written(tmp_path, value), start=START)
        assert rejected == []
        assert [(record.role, record.author, record.text) for record in records] == [
            ("system", "", "Be kind."),
            ("user", "Anna", "Which tea?"),
            ("assistant", "", "Green."),
            ("user", "", "This?\n[image]"),
        ]
        assert len({record.session for record in records}) == 1

    @pytest.mark.parametrize(
        "form",
        [
            lambda kind, text: {"type": kind, "data": {"content": text, "additional_kwargs": {}, "id": "1"}},
            lambda kind, text: {
                "lc": 1,
                "type": "constructor",
                "id": ["langchain", "schema", "messages", "HumanMessage" if kind == "human" else "AIMessageChunk"],
                "kwargs": {"content": text, "type": kind},
            },
            lambda kind, text: {"type": kind, "content": text, "id": "1", "tool_calls": []},
        ],
        ids=["messages_to_dict", "dumpd", "model_dump"],
    )
    @pytest.mark.parametrize("wrap", [lambda it: it, lambda it: {"messages": it}, lambda it: {"History": it}])
    def test_messages_of_langchain_are_read_in_each_of_its_forms(self, tmp_path: Path, form: Any, wrap: Any) -> None:
        """langchain_core.messages.messages_to_dict, langchain_core.load.dumpd, and a message as a model of pydantic;
        ``History`` is the table of DynamoDBChatMessageHistory."""
        said = [form("human", "q"), form("tool", "SECRET"), form("ai", "a")]
        said[1] = {"type": "tool", "data": {"content": "SECRET"}}
        records, _rejected = sorted_out(written(tmp_path, wrap(said)), start=START)
        assert [(record.role, record.text) for record in records] == [("user", "q"), ("assistant", "a")]

    def test_without_a_date_each_message_asks_for_one_and_times_of_the_file_are_taken(self, tmp_path: Path) -> None:
        records, rejected = sorted_out(written(tmp_path, TALK))
        assert (records, len(rejected)) == ([], 4)
        timed = [{"role": "user", "content": "a", "timestamp": 1753453800}, {"role": "assistant", "content": "b"}]
        records, _rejected = sorted_out(written(tmp_path, timed))
        assert [record.sent_at.timestamp() for record in records] == [1753453800] * 2

    @pytest.mark.parametrize(
        "rows",
        [
            [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
            [[{"role": "user", "content": "q"}], [{"role": "assistant", "content": "a"}]],
            [{"id": "s", "conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]}],
        ],
        ids=["a message a line", "a list a line", "ShareGPT"],
    )
    def test_lines_as_people_and_data_sets_write_them(self, tmp_path: Path, rows: list[Any]) -> None:
        """The formats of lmsys/FastChat and of logs that are written message by message."""
        records, rejected = sorted_out(lines(tmp_path, *rows), start=START)
        assert [(record.role, record.text) for record in records] == [("user", "q"), ("assistant", "a")]
        assert rejected == []
        assert len({record.external_id for record in records}) == 2

    def test_conversations_that_begin_alike_stay_apart_and_keep_their_ids_in_a_longer_file(
        self, tmp_path: Path
    ) -> None:
        first, second = {"messages": TALK[:2]}, {"messages": [*TALK[:2], {"role": "assistant", "content": "Black."}]}
        short, _rejected = sorted_out(lines(tmp_path, first, second), start=START)
        longer, _rejected = sorted_out(
            lines(tmp_path, {"messages": TALK}, second, {"messages": [{"role": "user", "content": "New"}]}), start=START
        )
        ids = [record.external_id for record in longer]
        assert len(set(ids)) == len(ids) == 8
        assert {record.external_id for record in short} < set(ids)

    def test_lines_that_are_no_conversation_are_named(self, tmp_path: Path) -> None:
        path = lines(tmp_path, {"messages": TALK[:2]}, "{oops", {"messages": "x"}, {"messages": [7]})
        records, rejected = sorted_out(path, start=START)
        assert len(records) == 2
        assert [item.line for item in rejected] == [2, "line 3", "line 4.messages[0]"]

    def test_what_else_a_conversation_holds_is_kept(self, tmp_path: Path) -> None:
        path = lines(tmp_path, {"id": "abc", "messages": TALK[1:2], "model": "m", "score": 3})
        [record], _rejected = sorted_out(path, start=START)
        assert (record.external_id, record.metadata["conversation"]["score"]) == ("openai:abc:0", 3)


def database(tmp_path: Path, *statements: str) -> Path:
    path = tmp_path / "memory.db"
    rows = sqlite3.connect(path)
    for statement in statements:
        rows.execute(statement)
    rows.commit()
    rows.close()
    return path


HISTORY = "CREATE TABLE history (id INTEGER PRIMARY KEY, user_id, role TEXT, content TEXT, topic_id, created_at)"
USERS = "CREATE TABLE users (id INTEGER PRIMARY KEY, username TEXT, first_name TEXT, last_name TEXT)"


class TestLaplaced:
    def test_messages_of_all_users_by_their_names(self, tmp_path: Path) -> None:
        path = database(
            tmp_path,
            HISTORY,
            USERS,
            "INSERT INTO users VALUES (1, 'anna', 'Anna', ''), (2, '', 'Boris', 'P'), (3, 'anna', '', '')",
            "INSERT INTO history VALUES (1, 1, 'user', 'hi', 7, '2025-07-25 14:30:00')",
            "INSERT INTO history VALUES (2, 1, 'assistant', 'hello', 7, '2025-07-25 14:31:00.5 +0300 MSK m=+0.1')",
            "INSERT INTO history VALUES (3, 2, 'user', 'new', NULL, '2025-07-26T00:00:00Z')",
            "INSERT INTO history VALUES (4, 3, 'user', 'other', NULL, NULL)",
            "INSERT INTO history VALUES (5, 9, 'robot', 'x', NULL, NULL)",
        )
        assert open_chat(path).format == "laplaced"
        records, [rejected] = sorted_out(path)
        assert [(record.user, record.text, record.session) for record in records] == [
            ("anna", "hi", "laplaced:topic:7"),
            ("anna", "hello", "laplaced:topic:7"),
            ("Boris P", "new", "laplaced"),
            ("anna 3", "other", "laplaced"),
        ]
        assert records[1].sent_at.isoformat() == "2025-07-25T11:31:00.500000+00:00"
        assert records[3].sent_at == records[2].sent_at
        assert rejected.line == "history[5]"

    @pytest.mark.parametrize(
        ("statements", "sentence"),
        [
            (["CREATE TABLE other (id)"], "not one of laplaced"),
            (["CREATE TABLE history (id, text)"], "not one of laplaced"),
            (["CREATE VIEW history AS SELECT 1 id, 2 user_id, 'user' role, 'x' content"], "not one of laplaced"),
        ],
    )
    def test_another_database_is_one_sentence(self, tmp_path: Path, statements: list[str], sentence: str) -> None:
        with pytest.raises(UnreadableFile, match=sentence):
            open_chat(database(tmp_path, *statements))

    def test_a_broken_database_is_one_sentence(self, tmp_path: Path) -> None:
        path = database(
            tmp_path, HISTORY, *[f"INSERT INTO history VALUES ({n}, 1, 'user', '{'x' * 900}', 1, 1)" for n in range(30)]
        )
        path.write_bytes(path.read_bytes()[:6_000])
        with pytest.raises(UnreadableFile, match="a database that cannot be read"):
            list(open_chat(path).records())
