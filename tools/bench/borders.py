"""How well sessions are divided: dialogues with known topics, compared with no border and with one at every message.

The eight dialogues are written for this, in Russian and English, between people and with an assistant, without pauses
that would reveal their borders. Pk and WindowDiff are the shares of wrong windows, which are half a true topic long: 0
is perfect. F1 counts borders that are found at the exact message. The chat model is a script that answers as models
do: most borders right, some a message late, ranges that overlap, a last message forgotten. So its rows measure how
such answers are used, not a model.
"""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memoryapp.engine.agents.splitter import propose_topics
from memoryapp.engine.budget import Usage
from memoryapp.engine.chat.protocol import ChatRequest, Reply
from memoryapp.engine.memory import MessageContent, TopicDraft
from memoryapp.engine.offline.segmenter import SPLIT_CHARS, segment
from memoryapp.platform.llm import clients
from tools.bench.table import BenchRow

DIALOGUES = Path(__file__).with_name("dialogues.jsonl")
BEGAN = datetime(2025, 5, 5, 18, tzinfo=UTC)
LEAST = 6
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Dialogue:
    """``borders`` are the positions of the messages with which a topic begins, except the first topic."""

    messages: tuple[MessageContent, ...]
    borders: frozenset[int]


def dialogues() -> list[Dialogue]:
    return [_dialogue(json.loads(line)) for line in DIALOGUES.read_text(encoding="utf-8").splitlines()]


def _dialogue(found: dict[str, Any]) -> Dialogue:
    texts = [text for topic in found["topics"] for text in topic]
    roles = found["roles"]
    messages = tuple(
        MessageContent(at + 1, roles[at % 2], roles[at % 2], BEGAN + timedelta(minutes=at), text)
        for at, text in enumerate(texts)
    )
    ends = [sum(map(len, found["topics"][: count + 1])) for count in range(len(found["topics"]))]
    return Dialogue(messages, frozenset(ends[:-1]))


@dataclass(frozen=True, slots=True)
class BorderScore:
    """The score of a division of all dialogues; ``pk`` and ``window_diff`` are means over them."""

    pk: float
    window_diff: float
    f1: float


def score(cuts: Sequence[tuple[Dialogue, frozenset[int]]]) -> BorderScore:
    """Returns the score; ``cuts`` has the borders found in each dialogue."""
    counted = [list(_windows(dialogue, found)) for dialogue, found in cuts]
    right = sum(len(dialogue.borders & found) for dialogue, found in cuts)
    there = sum(len(dialogue.borders) + len(found) for dialogue, found in cuts)
    return BorderScore(
        pk=_mean([_mean([bool(true) != bool(got) for true, got in windows]) for windows in counted]),
        window_diff=_mean([_mean([true != got for true, got in windows]) for windows in counted]),
        f1=2 * right / there if there else 0.0,
    )


def _windows(dialogue: Dialogue, found: frozenset[int]) -> Iterator[tuple[int, int]]:
    """Yields the numbers of true and of found borders in each window."""
    length = len(dialogue.messages)
    width = max(2, round(length / (len(dialogue.borders) + 1) / 2))
    for start in range(length - width):
        window = range(start + 1, start + width + 1)
        yield sum(at in dialogue.borders for at in window), sum(at in found for at in window)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


async def rows() -> AsyncIterator[BenchRow]:
    known = dialogues()
    nowhere = score([(dialogue, frozenset()) for dialogue in known])
    everywhere = score([(dialogue, frozenset(range(1, len(dialogue.messages)))) for dialogue in known])
    embedder = clients.offline_embedder()
    segmented = [
        (dialogue, _borders(await segment(dialogue.messages, embedder, SPLIT_CHARS, None, LEAST))) for dialogue in known
    ]
    asked = [(dialogue, _borders(await _propose(dialogue))) for dialogue in known]
    for name, found in (("segmenter", score(segmented)), ("scripted model", score(asked))):
        yield BenchRow(f"borders of the {name}: Pk", found.pk, "no border", nowhere.pk, "")
        yield BenchRow(f"borders of the {name}: Pk", found.pk, "a border everywhere", everywhere.pk, "")
        yield BenchRow(f"borders of the {name}: WindowDiff", found.window_diff, "no border", nowhere.window_diff, "")
        yield BenchRow(f"borders of the {name}: F1", found.f1, "a border everywhere", everywhere.f1, "")


def _borders(drafts: Sequence[TopicDraft]) -> frozenset[int]:
    """Returns the positions at which topics begin: message numbers begin at 1, positions at 0."""
    return frozenset(draft.messages[0] - 1 for draft in drafts[1:])


async def _propose(dialogue: Dialogue) -> list[TopicDraft]:
    ask = propose_topics(dialogue.messages, chat=ScriptedModel(dialogue), seconds=PATIENCE, least=LEAST)
    return (await ask.complete()).result().drafts


class ScriptedModel:
    """Answers with the borders of a dialogue and the usual mistakes of models."""

    model = "scripted"

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        text = json.dumps({"topics": list(self._topics()), "stragglers": []})
        yield Reply(text=text, message={"role": "assistant", "content": text}, usage=Usage(1, 1))

    def _topics(self) -> Iterator[dict[str, Any]]:
        length = len(self._dialogue.messages)
        starts = [0, *(at + (at % 6 == 0) for at in sorted(self._dialogue.borders))]
        for number, start in enumerate(starts):
            is_last = number == len(starts) - 1
            end = length - (length % 4 == 0) if is_last else starts[number + 1]
            # Every other range overlaps the one before.
            yield {"summary": f"Topic {number + 1}", "start_msg_id": start + 1 - number % 2, "end_msg_id": end}
