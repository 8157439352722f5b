"""Chats and memories of other programs, written as those programs write them."""

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


# Chats and memories of Discord, Open WebUI, Letta and mem0, written as those programs write them.


def discord_message(number: int = 1, content: str = "hi", who: str = "mira", **fields: Any) -> dict[str, Any]:
    """Returns a message as ``JsonMessageWriter.cs`` of Tyrrrz/DiscordChatExporter writes it."""
    author = {"id": f"id-{who}", "name": who, "discriminator": "0000", "nickname": who.title(), "isBot": False}
    return {
        "id": str(number),
        "type": "Default",
        "timestamp": f"2026-01-01T10:{number:02}:00.123+00:00",
        "timestampEdited": None,
        "isPinned": False,
        "content": content,
        "author": author,
        "attachments": [],
        "embeds": [],
        "stickers": [],
        "reactions": [],
        "mentions": [],
        **fields,
    }


def discord(*messages: Any, **channel: Any) -> dict[str, Any]:
    shown = messages or (discord_message(),)
    return {
        "guild": {"id": "1", "name": "Garden"},
        "channel": {
            "id": "2",
            "type": "GuildTextChat",
            "categoryId": "3",
            "category": "Text",
            "name": "general",
            **channel,
        },
        "dateRange": {"after": None, "before": None},
        "exportedAt": "2026-01-02T10:00:00+00:00",
        "messages": list(shown),
        "messageCount": len(shown),
    }


def webui_message(
    key: str, parent: str | None, content: Any = "hi", role: str = "user", **fields: Any
) -> dict[str, Any]:
    """Returns a node of ``chat.history.messages`` in open-webui/open-webui (``createMessagesList`` walks them)."""
    return {
        "id": key,
        "parentId": parent,
        "childrenIds": [],
        "role": role,
        "content": content,
        "timestamp": 1767261600 + len(key),
        **fields,
    }


def webui(*messages: dict[str, Any], current: str | None = "", **fields: Any) -> dict[str, Any]:
    shown = messages[-1]["id"] if current == "" and messages else current
    return {
        "id": "c1",
        "user_id": "u1",
        "title": "Tea",
        "chat": {
            "title": "Tea",
            "models": ["llama"],
            "history": {"messages": {item["id"]: item for item in messages}, "currentId": shown},
            "messages": [],
        },
        "created_at": 1767261600,
        "updated_at": 1767261700,
        **fields,
    }


def letta_message(role: str, words: Any, **fields: Any) -> dict[str, Any]:
    """Returns a message of an agent file, as tests/test_agent_files/long-running.af of letta-ai/letta has it."""
    content = [{"type": "text", "text": words}] if isinstance(words, str) else words
    given = {"created_at": "2025-08-14T22:49:28+00:00", "name": None, "tool_calls": [], "tool_returns": []}
    return {"role": role, "content": content, **given, **fields}


def letta(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "agent_type": "memgpt_agent",
        "core_memory": [
            {"label": "human", "value": "Name: Anna\n- drinks oolong"},
            {"label": "persona", "value": "Kind"},
        ],
        "created_at": "2025-08-13T20:41:10+00:00",
        "messages": list(messages),
        "name": "Sam",
        "tools": [],
        **fields,
    }


def letta_api(kind: str, content: Any, **fields: Any) -> dict[str, Any]:
    """Returns a message as ``GET /v1/agents/{id}/messages`` of Letta lists it."""
    return {"id": "message-1", "date": "2025-08-14T22:49:28+00:00", "message_type": kind, "content": content, **fields}


def memory(number: int = 1, words: str = "Likes oolong", **fields: Any) -> dict[str, Any]:
    """Returns a memory as ``Memory.get_all`` of mem0ai/mem0 returns it (docs.mem0.ai, "Get memories")."""
    return {
        "id": f"m{number}",
        "memory": words,
        "hash": "h",
        "metadata": None,
        "created_at": "2025-07-01T10:00:00-07:00",
        "updated_at": None,
        "user_id": "anna",
        **fields,
    }
