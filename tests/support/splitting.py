"""A chat model that cuts sessions, and its client: a fake of ``Chat`` that answers from the messages that it reads."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from memoryapp.engine.budget import Usage
from memoryapp.engine.chat.protocol import Chat, ChatRequest, LLMError, Reply

_LINE = re.compile(r'^{"id": .*}$', re.MULTILINE)


class Line(int):
    """The number of a message that the model reads, and its ``text``."""

    text = ""

    @classmethod
    def of(cls, number: int, text: str) -> Line:
        line = cls(number)
        line.text = text
        return line


def in_fours(lines: Sequence[Line]) -> str:
    """Returns topics of four messages each, as the JSON that the prompt asks for."""
    return in_parts(*(lines[at : at + 4] for at in range(0, len(lines), 4)))


def in_parts(*parts: Sequence[Line]) -> str:
    """Returns a topic for each part, summed up by the first words of its messages, no two alike."""
    topics = [
        {"summary": part[0].text[:40] + " and one" * place, "start_msg_id": part[0], "end_msg_id": part[-1]}
        for place, part in enumerate(parts)
    ]
    return json.dumps({"topics": topics, "stragglers": []})


def lines_of(prompt: str) -> list[Line]:
    """Returns the messages that a prompt to cut a session contains, in order."""
    return [Line.of(found["id"], found["text"]) for found in map(json.loads, _LINE.findall(prompt))]


class SplittingChat:
    """Answers with what ``answer`` makes of the ids that it reads, and counts its requests."""

    model = "splitting"
    failure: LLMError | None = None

    def __init__(self, answer: Callable[[Sequence[Line]], str] = in_fours) -> None:
        self.answer = answer
        self.asked = 0

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        self.asked += 1
        if self.failure:
            raise self.failure
        text = self.answer(lines_of(str(request.messages[1]["content"])))
        yield Reply(text=text, message={"role": "assistant", "content": text}, usage=Usage(100, 10, 0.01))

    @asynccontextmanager
    async def open(self, model: str) -> AsyncIterator[Chat]:
        """Opens the model as ``clients.open_chat`` does, whatever the name."""
        yield self
