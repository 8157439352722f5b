"""Chats of other programs, written as those programs write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from memoryapp.importers import LeftOut, MessageRecord, Rejected, read


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
        [item for item in items if isinstance(item, Rejected) and not isinstance(item, LeftOut)],
    )


def chat_line(**fields: Any) -> dict[str, Any]:
    return {"id": "m1", "role": "user", "author": "Anna", "ts": "2025-07-25T14:30:00Z", "text": "hello", **fields}


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


def node(
    key: str, parent: str | None, text: Any = None, role: str = "user", **fields: Any
) -> tuple[str, dict[str, Any]]:
    content = text if isinstance(text, dict) else {"content_type": "text", "parts": [text]}
    message = {"id": key, "author": {"role": role}, "create_time": None, "content": content, **fields}
    return key, {"id": key, "parent": parent, "children": [], "message": None if text is None else message}


def chatgpt(*nodes: tuple[str, dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return {
        "title": "Tea",
        "id": "c1",
        "create_time": 1700000000.0,
        "current_node": nodes[-1][0] if nodes else None,
        "mapping": dict(nodes),
        **fields,
    }


def asked(number: int = 1, sender: str = "human", text: str = "hi", **fields: Any) -> dict[str, Any]:
    """Returns a message of a person in Claude's export."""
    return {
        "uuid": f"u{number}",
        "sender": sender,
        "text": text,
        "content": [{"type": "text", "text": text}],
        "created_at": f"2025-05-01T10:{number:02}:00.000000Z",
        "attachments": [],
        "files": [],
        **fields,
    }


def claude(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {
        "uuid": "c1",
        "name": "Tea",
        "created_at": "2025-05-01T10:00:00Z",
        "chat_messages": list(messages),
        **fields,
    }


def code_line(number: int, role: str, content: Any, **fields: Any) -> dict[str, Any]:
    """Returns a line of a log of Claude Code."""
    return {
        "type": role,
        "uuid": f"u{number}",
        "parentUuid": f"u{number - 1}",
        "sessionId": "s1",
        "timestamp": f"2025-05-01T10:{number:02}:00.000Z",
        "isSidechain": False,
        "cwd": "/home/anna/tea",
        "message": {"role": role, "content": content},
        **fields,
    }
