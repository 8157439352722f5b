"""Pages are sent compressed; streams that programs read as they arrive are not."""

from __future__ import annotations

import gzip

import pytest
from django.test import Client

from memoryapp.models import ChatUser
from tests.support.browsing import grow

GZIP = {"accept-encoding": "gzip"}


def test_a_page_travels_compressed_to_who_can_read_it(as_viewer: Client, anna: ChatUser) -> None:
    grow(anna, 3)
    address = f"/memory/{anna.pk}/topics/"
    plain, packed = as_viewer.get(address), as_viewer.get(address, headers=GZIP)
    assert packed["Content-Encoding"] == "gzip"
    assert b"Summary 1" in gzip.decompress(packed.content)
    assert len(packed.content) < len(plain.content) / 3
    assert "Content-Encoding" not in plain
    assert "Accept-Encoding" in plain["Vary"]


@pytest.mark.slow
def test_a_program_reads_its_answer_as_it_is(client: Client, db: None) -> None:
    assert "Content-Encoding" not in client.get("/v1/openapi.json", headers=GZIP)
