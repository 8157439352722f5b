"""Databases as laplaced makes them: its tables, filled row by row; and one that has no end."""

import json
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.examples import text_of

SCHEMA = text_of("laplaced.sql")
USER = "5d1cbe3f-0000-5000-8000-000000000001"
TIME = "2025-07-25 14:30:00.5 +0300 MSK m=+0.1"


def database(folder: Path, schema: str = SCHEMA, **tables: list[dict[str, Any]]) -> Path:
    """Writes a database; rows without a user belong to the only user, and lists become JSON."""
    path = folder / "laplaced.db"
    rows = sqlite3.connect(path)
    rows.executescript(schema)
    for table, listed in tables.items():
        for values in listed:
            given = {"user_id": USER, **values} if table != "users" else values
            marks = ", ".join("?" * len(given))
            cells = [json.dumps(value) if isinstance(value, list) else value for value in given.values()]
            rows.execute(f"INSERT INTO {table} ({', '.join(given)}) VALUES ({marks})", cells)
    rows.commit()
    rows.close()
    return path


def message(number: int, topic: int | None, text: str = "") -> dict[str, Any]:
    at = f"2025-07-25 14:{number:02}:00"
    role = "user" if number % 2 else "assistant"
    return {"id": number, "role": role, "content": text or f"message {number}", "topic_id": topic, "created_at": at}


def topic(number: int, first: int, last: int, **fields: Any) -> dict[str, Any]:
    return {"id": number, "summary": f"Talk {number}", "start_msg_id": first, "end_msg_id": last, **fields}


def fact(number: int, content: str, **fields: Any) -> dict[str, Any]:
    values = {"relation": "likes", "category": "food", "type": "context", "importance": 50, "created_at": TIME}
    return {"id": number, "content": content, **values, **fields}


def artifact(number: int, **fields: Any) -> dict[str, Any]:
    values = {"file_type": "pdf", "file_path": "x", "state": "ready", "message_id": 1, "created_at": TIME}
    return {"id": number, "content_hash": f"{number:064x}", **values, **fields}


def person(number: int, name: str) -> dict[str, Any]:
    return {"id": number, "display_name": name}


_ROWS: dict[str, dict[str, Any]] = {
    "users": {"id": USER, "username": "anna"},
    "history": message(1, None),
    "topics": topic(1, 1, 1),
    "structured_facts": fact(1, "likes cake"),
    "people": person(1, "Boris"),
    "artifacts": artifact(1),
}


def endless(folder: Path, table: str = "history", levels: int = 6, wide: int = 51) -> Path:
    """Writes a database in which a table is a b-tree of shared pages, with ``wide`` to the power of ``levels`` leaves.
    Every interior page points ``wide`` times to the page below it. The pages' format: sqlite.org/fileformat2.html,
    1.6."""
    path = database(folder, **{table: [_ROWS[table]]})
    with closing(sqlite3.connect(path)) as rows:
        size = rows.execute("PRAGMA page_size").fetchone()[0]
        root = rows.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
    content = path.read_bytes()
    pages = [content[at : at + size] for at in range(0, len(content), size)]
    pages.append(pages[root - 1])
    for _level in range(levels - 1):
        pages.append(_interior(size, len(pages), wide))
    pages[root - 1] = _interior(size, len(pages), wide)
    # The header contains the number of pages.
    path.write_bytes(content[:28] + struct.pack(">I", len(pages)) + b"".join(pages)[32:])
    return path


def _interior(size: int, child: int, wide: int) -> bytes:
    """Returns an interior page of a table, all of whose pointers lead to the page ``child``."""
    cells = struct.pack(">IB", child, 1) * wide
    places = [size - len(cells) + 5 * number for number in range(wide)]
    head = struct.pack(">BHHHBI", 5, 0, wide, size - len(cells), 0, child) + struct.pack(f">{wide}H", *places)
    return head.ljust(size - len(cells), b"\0") + cells
