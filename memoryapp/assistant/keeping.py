"""What was said through the program, kept where that is wished: both messages in the memory, and what the answer used.

A reply that calls tools is not the answer yet, so nothing is kept of it. Of a stream that the program left, the part
that was sent is the answer.
"""

from __future__ import annotations

import logging
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from memoryapp import delivery
from memoryapp.content import chat_users
from memoryapp.engine.chat.completions import parse_reply
from memoryapp.engine.chat.protocol import Reply
from memoryapp.engine.chat.refusals import document_in
from memoryapp.engine.chat.streaming import EventStream, Transcript
from memoryapp.importers.record import BadRecord, message
from memoryapp.ingestion.messages import add_messages
from memoryapp.models import ChatUser, Run

# A longer answer is passed on, but neither stored nor compared.
_MOST_BYTES = 20_000_000

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What shall be kept: both messages (``stores``), in the session of that label, and what was used (``reports``)."""

    stores: bool
    reports: bool
    session: str = ""

    def __bool__(self) -> bool:
        return self.stores or self.reports


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What the user asked at ``asked_at``, what the model answered, and the ``run`` whose context it had."""

    name: str
    owner: ChatUser | None
    question: str
    answer: str
    asked_at: datetime
    run: Run | None


class Listener:
    """Reads what passes through, as it comes, to know at the end what was said."""

    def __init__(self) -> None:
        self._events, self._transcript, self._size = EventStream(), Transcript(), 0

    def feed(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size <= _MOST_BYTES:
            for payload in self._events.feed(chunk):
                self._add(payload)

    def answer(self) -> str:
        """The words so far; empty if the model calls tools, or said too much to be kept."""
        if self._size > _MOST_BYTES:
            return ""
        for payload in self._events.rest():
            self._add(payload)
        return _words(parse_reply(self._transcript.completion()))

    def _add(self, payload: str) -> None:
        with suppress(ValueError):
            self._transcript.add(payload)


def answer_in(content: bytes) -> str:
    """The words of a whole answer; empty if the model calls tools, or the answer has none."""
    completion = document_in(content) if len(content) <= _MOST_BYTES else None
    return _words(parse_reply(completion)) if completion else ""


def _words(reply: Reply) -> str:
    return "" if reply.tool_calls else reply.text.strip()


def keep(exchange: Exchange, wishes: Wishes) -> None:
    """Stores and reports an exchange as wished. What cannot be kept is logged: the program has its answer already."""
    if wishes.stores:
        try:
            _store(exchange, wishes.session)
        except (BadRecord, chat_users.BeingErased) as error:
            logger.warning("an exchange was not stored: %s", error)
    if wishes.reports and exchange.run:
        try:
            delivery.deliver(exchange.run, exchange.answer)
        except delivery.DeliveryError as error:
            logger.warning("an answer was not compared with run %s: %s", exchange.run.pk, error)


def _store(exchange: Exchange, session: str) -> None:
    number = uuid.uuid4()
    spoken = (("user", exchange.question, exchange.asked_at), ("assistant", exchange.answer, datetime.now(UTC)))
    records = [
        message(sent_at=at, role=role, external_id=f"chat:{number}:{role}", text=text, session=session)
        for role, text, at in spoken
    ]
    add_messages(exchange.owner or chat_users.found_or_made(exchange.name), records)
