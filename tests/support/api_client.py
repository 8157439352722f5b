"""A program that uses the API: a token, and its requests."""

import json
from typing import Any

from django.test import Client

from memoryapp.doors.api.shapes.fields import EVERY_CODE
from memoryapp.models import ApiToken, ChatUser
from memoryapp.platform.accounts import tokens

EVERY_SCOPE = ("recall", "ingest", "read", "curate", "forget", "audit")


def token_for(*owners: ChatUser, scopes: tuple[str, ...] = EVERY_SCOPE) -> str:
    return tokens.make("a program", [ApiToken.Scope(scope) for scope in scopes], owners)[1]


class Program:
    """Sends requests with its token, and with any body."""

    def __init__(self, token: str = "") -> None:
        self.headers = {"authorization": f"Bearer {token}"} if token else {}
        self.client = Client()

    def get(self, path: str, **headers: str) -> Any:
        return self.client.get(path, headers={**self.headers, **headers})

    def post(self, path: str, body: Any, **headers: str) -> Any:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.ask("post", path, content, **headers)

    def ask(self, method: str, path: str, content: bytes = b"", **headers: str) -> Any:
        return self.client.generic(
            method.upper(), path, content, "application/json", headers={**self.headers, **headers}
        )


def error_of(answer: Any) -> tuple[int, str, str]:
    """Returns status, code and message of a refusal, after checking its shape."""
    document = json.loads(answer.content)
    assert list(document) == ["error"]
    assert answer["Content-Type"].startswith("application/json")
    assert document["error"]["code"] in EVERY_CODE
    return answer.status_code, document["error"]["code"], document["error"]["message"]
