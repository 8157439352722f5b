"""Models for tests of a memory's life: an embedder with a few directions, and a chat model whose behaviour changes."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any
from zlib import crc32

import numpy as np

from memoryapp.engine.budget import Usage
from memoryapp.engine.chat.protocol import ChatRequest, LLMError, Reply
from memoryapp.engine.embeddings import EmbeddingError, Profile, Vectors
from tests.curation.merger_passes import verdict
from tests.curation.reading import fact, home, person

_ID = re.compile(r'"id": (\d+)')
CONTENTS = ("Likes figs.", "Likes dates.", "Likes green figs.", "Loves figs.")
HOMES = ("Lives in Riga.", "Lives in Bonn.", "Lives in Rome.")
NAMES = ("Dora", "Dora Blau", "Egon", "Dorotea", "Blau")
BIOS = ("", "A vet.", "Has a cat.")
RUBBISH = ("Sorry.", "", "{}", "[]", '{"topics": 7, "facts": "none", "should_merge": "maybe"}', "{" * 50)


class Wheel:
    """Gives each text one of eight directions of the plane, ``degrees`` apart. One in ``failing`` requests fails."""

    def __init__(self, model: str, degrees: float, random: Random, failing: int = 0) -> None:
        self.profile = Profile("test", model, 2, 0.1, related=0.5)
        self._degrees, self._random, self._failing = degrees, random, failing

    async def embed(self, texts: Sequence[str]) -> Vectors:
        if self._failing and not self._random.randrange(self._failing):
            raise EmbeddingError("The endpoint is away.")
        turns = np.radians([self._degrees * (crc32(text.encode()) % 8) for text in texts])
        return np.stack([np.cos(turns), np.sin(turns)], axis=1).astype(np.float32).reshape(len(texts), 2)


class Moody:
    """Answers an agent's question well, oddly, with invalid text or not at all; ``asked`` counts what would be paid
    for."""

    model = "acme/moody"

    def __init__(self, answers: Callable[[list[int], Random], str], random: Random) -> None:
        self._answers, self._random = answers, random
        self.asked = 0

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        self.asked += 1
        mood = self._random.choice(("well", "well", "well", "well", "rubbish", "away"))
        if mood == "away":
            raise LLMError("away")
        ids = [int(number) for number in _ID.findall(str(request.messages[1]["content"]))]
        text = self._random.choice(RUBBISH) if mood == "rubbish" else self._answers(ids, self._random)
        yield Reply(text=text, message={"role": "assistant", "content": text}, usage=Usage(100, 10, 0.001))

    @asynccontextmanager
    async def open(self, model: str) -> AsyncIterator[Moody]:
        """Opens the model as ``clients.open_chat`` does, whatever the name."""
        yield self


def cut(ids: list[int], random: Random) -> str:
    """Returns topics with arbitrary borders: they overlap, leave gaps, run backwards or have no summary."""
    topics = []
    for _ in range(random.randint(1, 3)):
        ends = random.choice(ids), random.choice([*ids, ids[0] - 1, ids[-1] + 1_000])
        summary = random.choice(("A talk", "Another talk", ""))
        topics.append({"summary": summary, "start_msg_id": ends[0], "end_msg_id": ends[1]})
    return json.dumps({"topics": topics, "stragglers": ids[:1]})


def judged(ids: list[int], random: Random) -> str:
    return verdict(random.random() < 0.7, summary=f"As one {random.randrange(10)}")


def found(ids: list[int], random: Random) -> str:
    """Returns facts and people, some of which refer to messages of another conversation."""
    made: dict[str, list[Any]] = {"facts": [], "people": []}
    for _ in range(random.randrange(4)):
        where = {"messages": [random.choice([*ids, *ids, ids[-1] + 1_000])]}
        match random.randrange(3):
            case 0:
                made["facts"].append({**fact(random.choice(CONTENTS)), **where})
            case 1:
                made["facts"].append({**home(random.choice(HOMES)), **where})
            case _:
                names = random.choice(NAMES), random.choice(NAMES)
                circle, bio = random.choice(("Friends", "Other")), random.choice(BIOS)
                made["people"].append({**person(*names, circle=circle, bio=bio), **where})
    return json.dumps(made)
