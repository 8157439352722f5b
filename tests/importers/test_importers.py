"""Files in general: formats, sizes, depths, users; each message is added, known, changed, rejected or left out once."""

import io
import json
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryapp.importers import Distilled, Hints, MessageRecord, Rejected, UnreadableFile, open_chat, source
from memoryapp.importers.values import BadRecord, clean
from memoryapp.intake.imports import Course, import_for
from memoryapp.models import Message
from tests.examples import examples, table
from tests.support.chats import (
    asked,
    chat_line,
    chatgpt,
    claude,
    code_line,
    discord,
    discord_message,
    letta,
    letta_api,
    letta_message,
    memory,
    node,
    sent,
    telegram,
    webui,
    webui_message,
    written,
)


class TestFiles:
    @pytest.mark.parametrize(("value", "format"), table("formats"))
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
    *("id", "type", "messages", "mapping", "from", "from_id", "date", "text", "current_node", "parent"),
    *("message", "uuid", "content", "role", "sender", "payload", "timestamp", "created_at", "attachments"),
    *("author", "parentId", "output", "files", "tool_calls", "message_type", "memory"),
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


# The account of an import: each message of a file is added, known, changed, rejected or left out, and counted once.


@dataclass(frozen=True)
class Source:
    """How a file of a format is made of messages: ``kinds`` make the message with a number, whole and odd ones."""

    kinds: Sequence[Callable[[int], Any]]
    file: Callable[[Sequence[Any]], Any]


def as_lines(values: Sequence[Any]) -> str:
    return "".join(f"{json.dumps(value)}\n" for value in values)


def whatsapp(values: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in ("half of a message", *values))


def codex(kind: str, number: int, **payload: Any) -> dict[str, Any]:
    return {"timestamp": f"2025-12-07T10:{number:02}:00Z", "type": kind, "payload": payload}


def codex_message(number: int, role: str, text: str) -> dict[str, Any]:
    return codex("response_item", number, type="message", role=role, content=[{"type": "input_text", "text": text}])


START = datetime(2025, 5, 1, tzinfo=UTC)
TOOL = [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]
SOURCES = {
    "jsonl": Source(
        (
            lambda n: chat_line(id=f"m{n}"),
            lambda n: chat_line(id=f"m{n}", role="friend"),
            lambda n: chat_line(id=f"m{n}", text=None),
            lambda n: chat_line(id=f"m{n}", text=None, attachments=[{"name": "a.pdf"}]),
            lambda n: 7,
        ),
        lambda items: {"user": "anna", "messages": items},
    ),
    "telegram": Source(
        (
            sent,
            lambda n: sent(n, text="", dice=3),
            lambda n: {"id": n, "type": "unsupported"},
            lambda n: sent(n, type="service", actor="Anna", action="pin_message"),
            lambda n: None,
        ),
        lambda items: telegram(*items),
    ),
    "chatgpt": Source(
        (
            lambda n: node(f"n{n}", f"n{n - 1}", "hi", create_time=1700000000.0),
            lambda n: node(f"n{n}", f"n{n - 1}", "", create_time=1700000000.0),
            lambda n: node(f"n{n}", f"n{n - 1}", "x", "tool", create_time=1700000000.0),
            lambda n: node(f"n{n}", "n0", "y", create_time=1700000000.0),
        ),
        lambda items: [chatgpt(node("n0", None), *items)],
    ),
    "claude": Source(
        (asked, lambda n: asked(n, text="", content=[]), lambda n: asked(n, created_at="x"), lambda n: 7),
        lambda items: [claude(*items)],
    ),
    "claude-code": Source(
        (
            lambda n: code_line(n, "user", "hi"),
            lambda n: code_line(n, "user", TOOL),
            lambda n: code_line(n, "assistant", "aside", isSidechain=True),
            lambda n: code_line(n, "user", "hi", timestamp="x"),
            lambda n: {"type": "summary", "summary": "Tea", "leafUuid": "u1"},
            lambda n: 7,
        ),
        lambda items: as_lines([code_line(0, "user", "first", parentUuid=None), *items]),
    ),
    "codex": Source(
        (
            lambda n: codex_message(n, "user", f"words {n}"),
            lambda n: codex_message(n, "user", "<environment_context>"),
            lambda n: codex("event_msg", n, type="user_message", message="words 1"),
            lambda n: codex("response_item", n, type="reasoning"),
            lambda n: 7,
        ),
        lambda items: as_lines([codex("session_meta", 0, id="s", timestamp="2025-12-07T10:00:00Z"), *items]),
    ),
    "openai": Source(
        (
            lambda n: {"role": "user", "content": f"hi {n}"},
            lambda n: {"role": "tool", "content": "x"},
            lambda n: {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
            lambda n: {"role": "stranger", "content": "x"},
        ),
        lambda items: {"messages": [{"role": "user", "content": "first"}, *items]},
    ),
    "discord": Source(
        (discord_message, lambda n: discord_message(n, ""), lambda n: discord_message(n, timestamp="x"), lambda n: 7),
        lambda items: discord(*items),
    ),
    "open-webui": Source(
        (
            lambda n: webui_message(f"n{n}", f"n{n - 1}"),
            lambda n: webui_message(f"n{n}", f"n{n - 1}", ""),
            lambda n: webui_message(f"n{n}", f"n{n - 1}", role="stranger"),
            lambda n: webui_message(f"n{n}", None),
        ),
        lambda items: [webui(webui_message("n0", None), *items)],
    ),
    "letta": Source(
        (
            lambda n: letta_message("user", "hi"),
            lambda n: letta_message("system", "You are Sam"),
            lambda n: letta_message("user", "hi", created_at="x"),
            lambda n: letta_message("tool", "x"),
        ),
        lambda items: letta(letta_message("user", "first"), *items),
    ),
    "whatsapp": Source(
        (
            lambda n: f"1/5/24, 14:{n:02} - Anna: hi",
            lambda n: f"31/4/24, 14:{n:02} - Anna: on a day that is none",
            lambda n: f"1/5/24, 14:{n:02} - Anna: ",
            lambda n: f"13/5/24, 14:{n:02} - Messages are end-to-end encrypted",
        ),
        whatsapp,
    ),
    "kakaotalk": Source(
        (
            lambda n: f"2026. 1. 7. 13:{n:02}, 보라 : 안녕",
            lambda n: f"2026. 1. 7. 13:{n:02}, 보라 : ",
            lambda n: f"2026. 1. 7. 13:{n:02}: 정원님이 들어왔습니다.",
        ),
        whatsapp,
    ),
}
# Records of a file beside the messages that are made: a first message, a head of the log, a line without a date.
BESIDE = {"claude-code": 1, "codex": 1, "openai": 1, "open-webui": 1, "letta": 1, "whatsapp": 1, "kakaotalk": 1}
PARTS = {
    name: st.lists(st.integers(0, len(source.kinds) - 1), min_size=1, max_size=12) for name, source in SOURCES.items()
}


def made(folder: Path, name: str, kinds: Sequence[int]) -> tuple[Path, int]:
    """Returns a file with messages of these kinds after a whole one, and how many it holds."""
    source = SOURCES[name]
    values = [source.kinds[kind](number) for number, kind in enumerate((0, *kinds), start=1)]
    content = source.file(values)
    path = folder / f"chat.{'txt' if name in ('whatsapp', 'kakaotalk') else 'json'}"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path, len(values) + BESIDE.get(name, 0)


@pytest.mark.parametrize("name", SOURCES)
@settings(
    deadline=None,
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_each_message_of_a_file_is_yielded_once_and_none_without_words(
    tmp_path: Path, name: str, data: st.DataObject
) -> None:
    path, count = made(tmp_path, name, data.draw(PARTS[name]))
    chat = open_chat(path, hints=Hints(me="-", dates="dmy", start=START))
    found = list(chat.records())
    assert chat.format == name
    assert len(found) == count
    assert all(item.text.strip() for item in found if isinstance(item, MessageRecord))


def imported(path: Path, **options: Any) -> dict[str, Any]:
    out = io.StringIO()
    answers = {"user": "anna", "me": "-", "dates": "dmy", "start": START}
    call_command("import_chat", str(path), json=True, stdout=out, **answers, **options)
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def total(found: dict[str, Any]) -> int:
    outcomes = ("added", "skipped", "changed", "rejected", "left_out")
    assert sum(found["left_out"].values()) == found["messages_left_out"]
    return sum(found[f"messages_{each}"] for each in outcomes)


@pytest.mark.django_db
@pytest.mark.parametrize("name", SOURCES)
def test_the_numbers_of_the_command_add_up_to_what_the_file_holds(tmp_path: Path, name: str) -> None:
    path, count = made(tmp_path, name, range(len(SOURCES[name].kinds)))
    rehearsed, first, second = imported(path, dry_run=True), imported(path), imported(path)
    for found in (rehearsed, first, second):
        assert total(found) == found["messages_in_file"] == count
    assert rehearsed["messages_added"] == first["messages_added"] == Message.objects.count()
    assert second["messages_added"] == 0
    assert not Message.objects.filter(text="").exists()


def at(minute: int) -> datetime:
    return datetime(2026, 1, 1, 10, minute, tzinfo=UTC)


@pytest.mark.django_db
def test_what_is_outside_of_the_chosen_period_is_left_out_and_counted(tmp_path: Path) -> None:
    path, count = made(tmp_path, "discord", [0, 0, 0])
    found = imported(path, since=at(2), until=at(4))
    assert found["messages_added"] == 2
    assert found["left_out"] == {"it is outside of the chosen period": 2}
    assert total(found) == count
    assert imported(path)["messages_added"] == count - 2


@pytest.mark.django_db
def test_messages_of_other_users_of_the_file_are_counted(tmp_path: Path) -> None:
    lines = [{"user": name, "messages": [chat_line(id=f"{name}{n}") for n in range(2)]} for name in ("anna", "boris")]
    path = tmp_path / "both.jsonl"
    path.write_text(as_lines(lines))
    found = import_for(open_chat(path), lambda named: "anna" if named == "anna" else None, Course(dry_run=True))
    assert (found.added, dict(found.left_out), found.total) == (2, {"it is of another user of the file": 2}, 4)


# The users that a file names are found before its messages are read, because they decide whose memory it is.


def file_of(folder: Path, *lines: str | dict[str, Any]) -> Path:
    path = folder / "chat.jsonl"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("lines", "users"),
    [
        ([chat_line(id="1", role="user", text='she wrote "user": boris')], set()),
        ([chat_line(id="1"), chat_line(id="2", user="anna"), chat_line(id="3", user=" boris ")], {"anna", "boris"}),
        ([{"user": "anna", "messages": [chat_line(id="1")]}, {"user": 7, "messages": []}], {"anna", "7"}),
        (['{"us\\u0065r" : "anna", "messages": []}', '{"user"   : "boris", "messages": []}'], {"anna", "boris"}),
        ([chat_line(id="1", user="anna"), '{"user": "boris", ', "[]"], {"anna"}),
    ],
)
def test_the_lines_of_a_file_tell_whom_it_names(tmp_path: Path, lines: list[Any], users: set[str]) -> None:
    assert open_chat(file_of(tmp_path, *lines)).users() == users


def test_a_document_tells_it_too(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    talks = [{"user": name, "messages": [chat_line(id=name)]} for name in ("anna", "boris")]
    path.write_text(json.dumps(talks, indent=1))
    assert open_chat(path).users() == {"anna", "boris"}
