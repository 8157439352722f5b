"""Files in general: their formats, sizes and depths; no shape of JSON makes a reader fail with another exception."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryapp.importers import Distilled, Hints, MessageRecord, Rejected, UnreadableFile, open_chat, source
from memoryapp.importers.values import BadRecord, clean
from tests.importers.other_chats import (
    discord,
    discord_message,
    letta,
    letta_api,
    letta_message,
    memory,
    webui,
    webui_message,
)
from tests.support.chats import asked, chat_line, chatgpt, claude, code_line, node, sent, telegram, written


class TestFiles:
    @pytest.mark.parametrize(
        ("value", "format"),
        [
            ({"messages": [chat_line()]}, "jsonl"),
            (telegram(sent()), "telegram"),
            (telegram(), "telegram"),
            ({"about": "", "chats": {"about": "", "list": []}}, "telegram"),
            ([chatgpt(node("a", None, "x"))], "chatgpt"),
            (chatgpt(node("a", None, "x")), "chatgpt"),
            ([claude(asked())], "claude"),
            (claude(asked()), "claude"),
            ({"messages": [{"role": "user", "content": "hi"}]}, "openai"),
            ([{"role": "user", "content": "hi"}], "openai"),
            ([{"messages": [{"role": "user", "content": "hi"}]}], "openai"),
            (discord(), "discord"),
            ([webui(webui_message("a", None))], "open-webui"),
            (letta(letta_message("user", "hi")), "letta"),
            ([letta_api("user_message", "hi")], "letta"),
            ({"results": [memory()]}, "mem0"),
            ([memory()], "mem0"),
            ({"messages": [{"id": "m1", "role": "user", "content": [], "text": "hi", "ts": 1753453800}]}, "jsonl"),
        ],
    )
    def test_the_format_is_found_by_content(self, tmp_path: Path, value: Any, format: str) -> None:
        assert open_chat(written(tmp_path, value, "one-line"), hints=Hints(me="-")).format == format
        assert open_chat(written(tmp_path, json.dumps(value, indent=1), "two"), hints=Hints(me="-")).format == format

    @pytest.mark.parametrize(
        ("content", "sentence"),
        [
            (" \n", "is empty: export or copy it again"),
            ("just words", "none of the formats"),
            ('{"messages": [{"id": 1', "not valid JSON"),
            ("[" * 100_000, "nested too deeply"),
            ("9" * 5000, "none of the formats"),
            ('{"messages": [' + "9" * 5000 + "]}", "not valid JSON"),
            ('{"some": "thing"}', "none of the formats"),
            ("[]", "none of the formats"),
        ],
    )
    def test_a_file_that_is_no_chat_is_one_sentence(self, tmp_path: Path, content: str, sentence: str) -> None:
        with pytest.raises(UnreadableFile, match=sentence):
            open_chat(written(tmp_path, content))

    def test_a_missing_file_a_folder_and_a_wrong_format_are_one_sentence_each(self, tmp_path: Path) -> None:
        with pytest.raises(UnreadableFile, match="There is no file"):
            open_chat(tmp_path / "nothing.json")
        with pytest.raises(UnreadableFile, match="is a folder without a chat"):
            open_chat(tmp_path)
        with pytest.raises(UnreadableFile, match="telegram, not chatgpt"):
            open_chat(written(tmp_path, telegram(sent())), "chatgpt")

    def test_bytes_that_are_no_text_are_one_sentence(self, tmp_path: Path) -> None:
        path = tmp_path / "photo.json"
        path.write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe")
        with pytest.raises(UnreadableFile, match="none of the formats"):
            open_chat(path)
        path.write_bytes('{"messages":\n["привет"]}'.encode("cp1251"))
        with pytest.raises(UnreadableFile, match=r"not UTF-8 text \(byte 15\): save it as UTF-8"):
            open_chat(path)

    def test_a_broken_archive_and_one_without_a_chat_are_one_sentence(self, tmp_path: Path) -> None:
        path = tmp_path / "photos.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.jpg", "x")
        with pytest.raises(UnreadableFile, match="holds no chat: no JSON"):
            open_chat(path)

    def test_a_huge_file_is_refused_before_it_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "huge.jsonl"
        with path.open("wb") as file:
            file.truncate(source.MOST_BYTES + 1)
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
    "uuid",
    "content",
    "role",
    "sender",
    "payload",
    "timestamp",
    "created_at",
    "attachments",
    "author",
    "parentId",
    "output",
    "files",
    "tool_calls",
    "message_type",
    "memory",
    "payload",
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    value=st.dictionaries(st.sampled_from(CHAT_FIELDS), JSON, max_size=6),
    shape=st.sampled_from(
        [
            *("telegram message", "chat", "conversation", "node", "line", "message", "claude", "openai", "code"),
            *("discord", "webui", "webui message", "letta", "letta api", "mem0"),
        ]
    ),
)
def test_no_shape_of_json_makes_a_reader_fall(
    tmp_path_factory: pytest.TempPathFactory, value: dict[str, Any], shape: str
) -> None:
    around: dict[str, Any] = {
        "telegram message": telegram(sent(**value), sent()),
        "chat": {"chats": {"list": [value]}},
        "conversation": [chatgpt(node("a", None, "x"), id="good"), {"mapping": {}, **value}],
        "node": [chatgpt(node("a", None, "x"), ("b", {"parent": "a", "message": value, **value}))],
        "line": {"messages": [chat_line()], **value},
        "message": {"messages": [chat_line(), chat_line(**value)]},
        "claude": [claude(asked(), asked(2, **value), value), {"chat_messages": [], **value}],
        "openai": {"messages": [{"role": "user", "content": "hi"}, value]},
        "code": {**code_line(1, "user", "hi"), **value},
        "discord": discord(discord_message(), discord_message(2, **value)),
        "webui": [
            webui(webui_message("a", None)),
            {"chat": {"history": value}},
            {"id": "b", "chat": {"messages": [value]}},
        ],
        "webui message": [
            {
                "id": "c",
                "chat": {"history": {"messages": {"a": webui_message("a", None), "b": value}, "currentId": "b"}},
            }
        ],
        "letta": letta(letta_message("user", "hi"), {**letta_message("assistant", "x"), **value}),
        "letta api": [letta_api("user_message", "hi"), {**letta_api("assistant_message", "x"), **value}],
        "mem0": {"results": [memory(), value, memory(**value)]},
    }
    path = tmp_path_factory.mktemp("odd") / "chat.json"
    path.write_text(json.dumps(around[shape]))
    try:
        chat = open_chat(path, hints=Hints(me="-"))
        items = [*chat.records(), *chat.distilled()]
    except UnreadableFile:
        return
    assert all(isinstance(item, MessageRecord | Rejected | Distilled) for item in items)
