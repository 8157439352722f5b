"""The account of an import: each message of a file is added, known, changed, rejected or left out, and counted once."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryapp.importers import Hints, MessageRecord, open_chat
from memoryapp.intake.imports import Course, import_for
from memoryapp.models import Message
from tests.examples import examples
from tests.importers.other_chats import discord, discord_message, letta, letta_message, webui, webui_message
from tests.support.chats import asked, chat_line, chatgpt, claude, code_line, node, sent, telegram


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
