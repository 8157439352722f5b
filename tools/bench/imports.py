"""Compares the import of a file of messages with the least that any import must do: a COPY of the same rows."""

import json
import resource
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from django.db import connection

from memoryapp.importers import open_chat
from memoryapp.intake.imports import import_chat
from memoryapp.models import ChatUser, Message
from tools.bench import memory
from tools.bench.table import BenchRow

WORDS = 12
# The size of a first import, which loads code and fills pools before the memory is measured.
FIRST = 5_000

_COLUMNS = (
    "owner_id, batch_id, external_id, role, author, sent_at, text, session, reply_to, forwarded_from, metadata, "
    "content_hash, is_withdrawn"
)


def rows(count: int) -> Iterator[BenchRow]:
    """Measures the import of ``count`` messages in JSON Lines, and its memory beyond that of a first import."""
    memory.remove()
    try:
        with tempfile.TemporaryDirectory() as folder:
            _import(Path(folder), FIRST)
            memory.remove()
            before = _peak()
            seconds = _import(Path(folder), count)
            grown = _peak() - before
            least = _copy(count)
        yield BenchRow(
            f"import of {count:,} messages", count / seconds, "COPY of the same rows", count / least, "a second"
        )
        yield BenchRow(f"import of {count:,}: memory", grown, f"beyond that of {FIRST:,}", 0.0, "MB")
    finally:
        memory.remove()


def _peak() -> float:
    """Returns the peak memory of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _import(folder: Path, count: int) -> float:
    """Returns the seconds of the import of a new file."""
    path = folder / f"{count}.jsonl"
    with path.open("w") as file:
        for number in range(count):
            file.write(_line(number))
    began = time.perf_counter()
    import_chat(open_chat(path), memory.NAME)
    return time.perf_counter() - began


def _line(number: int) -> str:
    words = [f"word{(number * 7 + place) % 997}" for place in range(WORDS)]
    return (
        json.dumps(
            {
                "id": f"bench-{number}",
                "role": "assistant" if number % 2 else "user",
                "author": "bot" if number % 2 else "Ada",
                "ts": (memory.BEGAN - timedelta(minutes=number)).isoformat(),
                "text": f"{' '.join(words).capitalize()}.",
            }
        )
        + "\n"
    )


def _copy(count: int) -> float:
    """Deletes the imported rows and returns the seconds of a COPY of them into the same table for the same owner."""
    owner = ChatUser.objects.get(name=memory.NAME)
    table = Message._meta.db_table
    with connection.cursor() as cursor:
        chosen = f"SELECT {_COLUMNS} FROM {table} WHERE owner_id = {owner.pk} ORDER BY id"
        with cursor.copy(f"COPY ({chosen}) TO STDOUT") as out:
            content = [bytes(piece) for piece in out]
        cursor.execute(f"DELETE FROM {table} WHERE owner_id = %s", [owner.pk])
        cursor.execute(f"VACUUM {table}")
        began = time.perf_counter()
        with cursor.copy(f"COPY {table} ({_COLUMNS}) FROM STDIN") as into:
            for piece in content:
                into.write(piece)
        return time.perf_counter() - began
