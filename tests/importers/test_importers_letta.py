"""Letta: agent files of both kinds, messages of the API, what the program writes in the user's name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from memoryapp.importers import Distilled, LeftOut, MessageRecord, open_chat, read
from tests.importers.other_chats import letta, letta_api, letta_message
from tests.support.chats import written


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
