"""Messages as files: the worker sees a complete message or none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from kombu import Connection
from kombu.exceptions import ChannelError

from memoryapp import celery
from memoryapp.platform import broker


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[Any]:
    folders = {"data_folder_in": tmp_path, "data_folder_out": tmp_path, "control_folder": tmp_path / "control"}
    (tmp_path / "control").mkdir()
    options = {name: str(folder) for name, folder in folders.items()}
    with Connection("filesystem://", transport_options=options) as connection:
        yield connection.default_channel


def test_the_app_uses_this_broker(channel: Any) -> None:
    assert celery.app
    assert isinstance(channel, broker.Channel)


def test_messages_come_in_the_order_they_were_sent(channel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))
    monkeypatch.setattr(broker.time, "monotonic", lambda: 1000 + next(clock))
    for number in range(5):
        channel._put("celery", {"body": "ё" * 10_000, "number": number})
    assert [channel._get("celery")["number"] for _ in range(5)] == list(range(5))
    with pytest.raises(Empty):
        channel._get("celery")


def test_a_message_that_is_not_whole_yet_is_no_message(channel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def looked_at(part: Path, file: Path) -> None:
        with pytest.raises(Empty):
            channel._get("celery")
        seen.append(file.name)
        os.rename(part, file)

    monkeypatch.setattr(broker.os, "replace", looked_at)
    channel._put("celery", {"number": 1})
    assert len(seen) == 1
    assert channel._get("celery") == {"number": 1}


def test_a_full_disk_is_reported_and_no_file_is_left(
    channel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(part: Path, file: Path) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(broker.os, "replace", full)
    with pytest.raises(ChannelError):
        channel._put("celery", {"number": 1})
    assert [file for file in tmp_path.iterdir() if file.is_file()] == []


def test_a_queue_is_bound_once(channel: Any) -> None:
    for _ in range(2):
        channel._queue_bind("tasks", "celery", "", "celery")
    channel._queue_bind("tasks", "other", "", "other")
    assert [bound.queue for bound in channel.get_table("tasks")] == ["other", "celery"]
