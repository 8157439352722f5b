"""The embedded broker: Celery's messages as files in the data folder. kombu's own transport writes a message directly
under the name for which the worker looks, so the worker may read half a message and end. Here a file gets that name
only when it is complete."""

import fcntl
import os
import time
import uuid
from pathlib import Path
from typing import Any

from kombu.exceptions import ChannelError
from kombu.transport import filesystem
from kombu.utils.json import dumps


class Channel(filesystem.Channel):
    def _put(self, queue: str, payload: Any, **_options: Any) -> None:  # type: ignore[override]
        # Names sort by the time of sending: the worker takes the oldest message first.
        name = f"{round(time.monotonic() * 1000)}_{uuid.uuid4()}.{queue}.msg"
        _write_whole(Path(self.data_folder_out) / name, payload)

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        file = self._exchange_file(exchange)
        bound = filesystem.exchange_queue_t(routing_key or "", pattern or "", queue or "")
        with open(f"{file}.lock", "w") as lock:
            # Worker and beat bind the same queue when they start.
            fcntl.flock(lock, fcntl.LOCK_EX)
            table = self.get_table(exchange)
            if bound not in table:
                _write_whole(file, [bound, *table])


class Transport(filesystem.Transport):
    Channel = Channel


def _write_whole(file: Path, content: Any) -> None:
    part = file.with_name(f"{file.name}.{uuid.uuid4()}.part")
    try:
        part.write_text(dumps(content), encoding="utf-8")
        os.replace(part, file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise ChannelError(f"Cannot write {file}") from error
