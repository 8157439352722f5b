"""An archivist whose model answers as a test says, and memories for it to read."""

import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import F

from memoryapp.curation import extraction
from memoryapp.curation.extraction import PEOPLES_ROLES, Extracted
from memoryapp.engine.budget import Usage
from memoryapp.engine.chat.protocol import Chat, ChatRequest, LLMError, PartialReply, Reply
from memoryapp.engine.events import Retried, SteppedDown
from memoryapp.models import ChatUser, Message, Topic
from memoryapp.platform.llm.clients import offline_embedder
from tests.conftest import lawless, talk

_ID = re.compile(r'^\{"id": (\d+)', re.M)

# Makes an answer to a question from the numbers of its messages; an error stands for a model without an answer.
Answering = Callable[[list[int]], "str | Reply | LLMError"]


class Archivist:
    """Answers by ``answering`` and counts its requests, each of which would cost money."""

    model = "scripted"

    def __init__(self, answering: Answering) -> None:
        self.answering = answering
        self.asked = 0

    async def converse(self, request: ChatRequest) -> AsyncIterator[Retried | SteppedDown | PartialReply | Reply]:
        self.asked += 1
        answer = self.answering([int(number) for number in _ID.findall(request.messages[1]["content"])])
        if isinstance(answer, LLMError):
            raise answer
        if isinstance(answer, Reply):
            yield answer
            return
        yield Reply(text=answer, message={"role": "assistant", "content": answer}, usage=Usage(100, 10))

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Chat]:
        yield self

    def open_chat(self, name: str) -> AbstractAsyncContextManager[Chat]:
        assert name == settings.ARCHIVIST_MODEL
        return self._open()

    def read(self, owner: ChatUser) -> Extracted:
        """Makes one pass over the owner's topics."""
        owner.refresh_from_db()
        said = getattr(self.answering, "said", [])
        topics = Topic.objects.of(owner).live().filter(facts_extracted=False).order_by("ended_at", "pk")
        for topic, words in zip(topics, said, strict=False):
            message = Message.objects.of(owner).filter(topic=topic, role__in=PEOPLES_ROLES).in_order().first()
            if message and words not in message.text:
                text = f"{message.text[:60_000]}. {words}"
                more = len(text) - len(message.text)
                with lawless():
                    Topic.objects.filter(pk=topic.pk).update(size_chars=F("size_chars") + more)
                Message.objects.filter(pk=message.pk).update(text=text)
        return extraction.extract(owner, extraction.Model(5.0, self.open_chat), offline_embedder())


def fact(content: str, relation: str = "likes", category: str = "food", **more: Any) -> dict[str, Any]:
    values = {"type": "context", "importance": 60, "only_one": False}
    return {"relation": relation, "category": category, "content": content, **values, **more}


def home(content: str) -> dict[str, Any]:
    """A fact of a relation that has only one value at a time."""
    return fact(content, "lives_in", "home", importance=80, only_one=True)


def person(name: str, *aliases: str, circle: str = "Friends", bio: str = "", username: str = "") -> dict[str, Any]:
    return {"name": name, "aliases": aliases, "circle": circle, "bio": bio, "username": username}


def finds(*findings: dict[str, Any]) -> Answering:
    """Puts each finding into the first message of the question."""
    return Saying(
        lambda ids: json.dumps({"facts": [{"messages": ids[:1], **each} for each in findings], "people": []}),
        [words_of(findings)],
    )


def in_turn(*answers: Answering) -> Answering:
    """Gives one of the answers to each question."""
    left = list(answers)
    return Saying(lambda ids: left.pop(0)(ids), [said for each in answers for said in getattr(each, "said", [""])])


@dataclass
class Saying:
    """An answer, and what must have been said in each topic for its findings to rest on that."""

    answer: Answering
    said: list[str]

    def __call__(self, ids: list[int]) -> str | Reply | LLMError:
        return self.answer(ids)


def words_of(findings: Iterable[dict[str, Any]]) -> str:
    """Each finding as somebody would say it: a fact, or a person with what is told of them in one sentence."""
    told = []
    for each in findings:
        bio = each.get("bio", "")
        parts = (each.get("content"), each.get("name"), *each.get("aliases", ()), each.get("username"))
        told.append(", ".join(filter(None, (*parts, bio[:1].lower() + bio[1:]))))
    return ". ".join(text.rstrip(".") for text in told)


def conversations(owner: ChatUser, count: int = 1) -> Sequence[Topic]:
    """Makes topics that were not read yet, one a day."""
    return talk(owner, *((f"talk {n}", [f"said {n}", f"replied {n}"]) for n in range(count)))
