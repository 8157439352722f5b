"""The Python client of Mnemoscope: what a chat assistant remembers, asked, told and watched by programs.

``Mnemoscope`` waits, ``AsyncMnemoscope`` is awaited; both have the same methods. The extras ``langchain`` and
``langgraph`` have a retriever and a store. Nothing of the server is imported.
"""

from mnemoscope_client.aio import AsyncMnemoscope
from mnemoscope_client.client import Mnemoscope
from mnemoscope_client.errors import (
    BadRequestError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    MnemoscopeError,
    NotFoundError,
    NotYetError,
    RefusedError,
    TooLargeError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
    UnreachableError,
    UnreadableAnswerError,
)
from mnemoscope_client.shapes import Answered, Recalled, RecalledTopic, Remembered, RunEvent, StoredRun, UsedMemory

__all__ = [
    "Answered",
    "AsyncMnemoscope",
    "BadRequestError",
    "ConflictError",
    "ForbiddenError",
    "InvalidError",
    "Mnemoscope",
    "MnemoscopeError",
    "NotFoundError",
    "NotYetError",
    "Recalled",
    "RecalledTopic",
    "RefusedError",
    "Remembered",
    "RunEvent",
    "StoredRun",
    "TooLargeError",
    "TooManyRequestsError",
    "UnauthorizedError",
    "UnavailableError",
    "UnreachableError",
    "UnreadableAnswerError",
    "UsedMemory",
]
