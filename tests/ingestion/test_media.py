"""Media of a query: stored once under their hash, completely or not at all, and only for their owner's runs."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from memoryapp.engine.chat.media import MediaContent, MediaError, read_part
from memoryapp.memory import content as media
from memoryapp.models import ChatUser
from memoryapp.models import Media as MediaRow

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, settings: Any) -> Path:
    settings.MEDIA_ROOT = tmp_path
    return tmp_path


def picture(content: bytes = b"\x89PNG picture", name: str = "a.png") -> MediaContent:
    url = f"data:image/png;base64,{base64.b64encode(content).decode()}"
    return read_part({"type": "file", "file": {"filename": name, "file_data": url}})


def test_what_was_stored_is_read_as_it_was_sent(anna: ChatUser) -> None:
    item = media.store(anna, picture())
    assert media.read(anna.pk, item) == picture()
    row = MediaRow.objects.get()
    assert (row.owner, row.sha256, row.size_bytes) == (anna, hashlib.sha256(b"\x89PNG picture").hexdigest(), 12)


def test_the_same_bytes_are_kept_once_for_each_who_sent_them(anna: ChatUser, boris: ChatUser, folder: Path) -> None:
    for owner in (anna, anna, boris):
        media.store(owner, picture())
    assert MediaRow.objects.count() == 2
    assert len([path for path in folder.rglob("*") if path.is_file()]) == 1


def test_another_memory_does_not_get_them(anna: ChatUser, boris: ChatUser) -> None:
    item = media.store(anna, picture())
    with pytest.raises(MediaError, match="There is no media"):
        media.read(boris.pk, item)


def test_bytes_that_changed_are_refused(anna: ChatUser) -> None:
    item = media.store(anna, picture())
    Path(default_storage.path(MediaRow.objects.get().path)).write_bytes(b"\x89PNG pictURE")
    with pytest.raises(MediaError, match="not what was sent"):
        media.read(anna.pk, item)


def test_a_missing_file_is_reported_and_sending_it_again_restores_it(anna: ChatUser) -> None:
    item = media.store(anna, picture())
    default_storage.delete(MediaRow.objects.get().path)
    with pytest.raises(MediaError, match="cannot be read"):
        media.read(anna.pk, item)
    media.store(anna, picture())
    assert media.read(anna.pk, item).content == picture().content


def test_half_a_file_is_replaced_when_it_is_sent_again(anna: ChatUser) -> None:
    row = MediaRow(sha256=picture().item.sha256)
    default_storage.save(row.path, ContentFile(b"\x89PN"))
    assert media.read(anna.pk, media.store(anna, picture())).content == picture().content


def test_a_name_no_database_stores_is_stored_without_what_cannot_be(anna: ChatUser) -> None:
    item = media.store(anna, picture(name="a\x00\ud800.png"))
    assert item.name == MediaRow.objects.get().name
    assert "\x00" not in item.name
    item.name.encode()


def test_a_fault_while_writing_leaves_nothing_behind(folder: Path) -> None:
    class Torn(ContentFile):
        def chunks(self, chunk_size: int | None = None) -> Any:
            yield b"half"
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        default_storage.save("media/aa/aaaa", Torn(b"half and half"))
    assert [path for path in folder.rglob("*") if path.is_file()] == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
async def test_a_run_gets_its_media_in_its_own_loop(folder: Path) -> None:
    owner = await ChatUser.objects.acreate(name="anna")
    await MediaRow.objects.acreate(
        owner=owner, sha256=picture().item.sha256, type="file", mime_type="image/png", name="a.png", size_bytes=12
    )
    default_storage.save(MediaRow(sha256=picture().item.sha256).path, ContentFile(picture().content))
    assert await sync_to_async(media.read)(owner.pk, picture().item) == picture()
