"""A memory with a message and with a file that came with a query, for tests that back it up."""

from pathlib import Path

import httpx

from tests.support.clock import PATIENCE
from tests.support.stack import Stack

PICTURE = "data:image/png;base64,iVBORw0KGgo="
MESSAGES = "/v1/users/Анна/messages"


def client_of(stack: Stack, token: str) -> httpx.Client:
    return httpx.Client(base_url=stack.url, timeout=PATIENCE, headers={"Authorization": f"Bearer {token}"})


def fill(stack: Stack) -> str:
    """Tells the program what to keep; returns the token for it."""
    token = str(stack.json("create_token", "p", "--scope", "recall,ingest,read")["token"])
    with client_of(stack, token) as client:
        spoken = [{"id": "m1", "role": "user", "text": "My accordion is a Weltmeister."}]
        client.post("/v1/messages", json={"user": "Анна", "messages": spoken}).raise_for_status()
        media = [{"type": "image_url", "image_url": {"url": PICTURE}}]
        client.post("/v1/recall", json={"user": "Анна", "query": "accordion", "media": media}).raise_for_status()
    return token


def files_of(data: Path) -> list[bytes]:
    """The files that came with queries."""
    return [path.read_bytes() for path in sorted((data / "files").rglob("*")) if path.is_file()]
