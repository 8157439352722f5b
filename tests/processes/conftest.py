"""A memory whose stages ask models over real HTTP, for processes and servers that are killed meanwhile."""

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


def asking(endpoint: Endpoint, folder: Path) -> dict[str, object]:
    """Returns the settings of a process that asks the endpoint and stores its files in the folder."""
    return {
        "LLM_BASE_URL": endpoint.url,
        "SPLITTER_MODEL": SPLITTER,
        "MERGER_MODEL": MERGER,
        "ARCHIVIST_MODEL": ARCHIVIST,
        "EMBEDDING_BASE_URL": endpoint.url,
        "EMBEDDING_MODEL": "acme/vectors",
        "EMBEDDING_DIMENSIONS": DIMENSIONS,
        "DATA_DIR": folder,
    }


@pytest.fixture
def connected(endpoint: Endpoint, tmp_path: Path, settings: Any) -> None:
    """Connects this process to the endpoint."""
    for name, value in asking(endpoint, tmp_path).items():
        setattr(settings, name, value)
    settings.MEDIA_ROOT, settings.IMPORT_DIR = tmp_path / "files", tmp_path / "imports"


@pytest.fixture
def works(transactional_db: None, tmp_path: Path, connected: None) -> Iterator[Works]:
    wishes = {"consolidation": "automatic", "extraction": "automatic", "topic_messages": EACH // 2}
    yield Works(ChatUser.objects.create(name="anna", **wishes), tmp_path)
    connections.close_all()
