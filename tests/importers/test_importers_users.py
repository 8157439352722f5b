"""The users that a file names are found before its messages are read, because they decide whose memory it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memoryapp.importers import open_chat
from tests.support.chats import chat_line


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
