"""A memory whose stages ask models over real HTTP, for processes and servers that are killed meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from memoryapp.models import ChatUser
from tests.life.endpoint import ARCHIVIST, DIMENSIONS, MERGER, SPLITTER, Endpoint, serving
from tests.life.stages import EACH, Works


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as made:
        yield made


@pytest.fixture
def connected(endpoint: Endpoint, tmp_path: Path, settings: Any) -> dict[str, str]:
    """This process asks the endpoint, and so do those that have the environment."""
    environment = {
        "LLM_BASE_URL": endpoint.url,
        "SPLITTER_MODEL": SPLITTER,
        "MERGER_MODEL": MERGER,
        "ARCHIVIST_MODEL": ARCHIVIST,
        "EMBEDDING_BASE_URL": endpoint.url,
        "EMBEDDING_MODEL": "acme/vectors",
        "EMBEDDING_DIMENSIONS": DIMENSIONS,
    }
    for name, value in environment.items():
        setattr(settings, name, value)
    settings.DATA_DIR, settings.MEDIA_ROOT, settings.IMPORT_DIR = tmp_path, tmp_path / "files", tmp_path / "imports"
    return {name: str(value) for name, value in (*environment.items(), ("DATA_DIR", tmp_path))}


@pytest.fixture
def works(transactional_db: None, tmp_path: Path, connected: dict[str, str]) -> Iterator[Works]:
    wishes = {"consolidation": "automatic", "extraction": "automatic", "topic_messages": EACH // 2}
    yield Works(ChatUser.objects.create(name="anna", **wishes), tmp_path)
    connections.close_all()
