"""Recorded runs of the demo: real searches in its memories, with a conversation that was written beforehand.

``runs.json`` of a memory says what was asked and what each turn of the conversation was: which topics it read, what it
chose, or how it failed. The run names ``MODEL``, so that nobody takes it for a connected one. Its turns last as long
as the file says: a replay shows them at that speed.
"""

import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

from asgiref.sync import async_to_sync
from django.db import DatabaseError

from memoryapp.engine.budget import Usage
from memoryapp.engine.cells import enter, within
from memoryapp.engine.chat.protocol import ChatRequest, LLMTimeout, PartialReply, Reply
from memoryapp.engine.embeddings import EmbeddingError
from memoryapp.engine.events import ModelReplied, Retried, RunFinished, SteppedDown, ToolCall
from memoryapp.engine.prompts.rerank import TOOL_NAME
from memoryapp.models import ChatUser, Message, Run, RunEvent
from memoryapp.runs import lifecycle
from memoryapp.runs.clients import open_clients

MODEL = "recorded example"
CONTENT = Path(__file__).parent
# Roughly; there is no bill to read it from.
_CHARS_A_TOKEN = 4

logger = logging.getLogger(__name__)


class DemoChat:
    """Answers with the turns of the recording, one after another. Raises LLMTimeout for a turn that failed."""

    model = MODEL

    def __init__(self, turns: Sequence[Mapping[str, Any]], topics: Mapping[str, int]) -> None:
        self._turns = iter(turns)
        self._topics = topics

    async def converse(self, request: ChatRequest) -> AsyncIterator[Retried | SteppedDown | PartialReply | Reply]:
        turn = next(self._turns)
        if "fails" in turn:
            raise LLMTimeout(turn["fails"])
        sent = sum(len(str(message.get("content") or "")) for message in request.messages) // _CHARS_A_TOKEN
        yield replace(self._reply(turn), usage=Usage(sent, len(json.dumps(turn)) // _CHARS_A_TOKEN), model=MODEL)

    def _reply(self, turn: Mapping[str, Any]) -> Reply:
        thoughts = turn.get("reasoning", "")
        if "reads" in turn:
            ids = [self._topics[key] for key in turn["reads"]]
            call = ToolCall("call_1", TOOL_NAME, json.dumps({"ids": ids}))
            function = {"name": call.name, "arguments": call.arguments}
            message = {"tool_calls": [{"id": call.id, "type": "function", "function": function}]}
            return Reply("", (call,), thoughts, {"role": "assistant", "content": None, **message})
        chosen = [
            {"id": f"Topic:{self._topics[each['topic']]}", "reason": each["reason"], "excerpt": each["excerpt"]}
            for each in turn["chooses"]
        ]
        text = json.dumps({"topics": chosen, "people": [], "artifacts": []}, ensure_ascii=False)
        return Reply(text, (), thoughts, {"role": "assistant", "content": text})


def examples(name: str) -> tuple[str, ...]:
    """Questions that suit the memory of a demo user; none for anybody else."""
    return tuple(_recordings().get(name, {}).get("examples", ()))


@cache
def _recordings() -> Mapping[str, Mapping[str, Any]]:
    found = CONTENT.glob("*/runs.json")
    return {path.parent.name: json.loads(path.read_text("utf-8")) for path in found}


def record_runs() -> int:
    """Makes the recorded runs, the one to be shown first last; returns how many. Vectors must have been made. The demo
    is complete without them, so a fault is logged."""
    pending = list(_started())
    try:
        async_to_sync(_execute)(pending)
    except (EmbeddingError, DatabaseError):
        logger.exception("The recorded runs of the demo could not be made.")
        return 0
    for run, _topics, turns in pending:
        enter(run.owner.cell)
        _lengthen(run, [turn["seconds"] for turn in turns])
    return len(pending)


def _started() -> Iterator[tuple[Run, Mapping[str, int], Sequence[Mapping[str, Any]]]]:
    for name, recording in _recordings().items():
        owner = ChatUser.objects.filter(name=name).first()
        if owner is None:
            continue
        enter(owner.cell)
        firsts = Message.objects.of(owner).filter(external_id__endswith=".1", topic__isnull=False)
        topics = {external.removesuffix(".1"): topic for external, topic in firsts.values_list("external_id", "topic")}
        for asked in recording["runs"]:
            yield lifecycle.start(owner, asked["query"]), topics, asked["turns"]


async def _execute(pending: Sequence[tuple[Run, Mapping[str, int], Sequence[Mapping[str, Any]]]]) -> None:
    async with open_clients() as opened:
        for run, topics, turns in pending:
            clients = replace(opened, chat=DemoChat(turns, topics), enricher=None)
            with within(run.owner.cell):
                await lifecycle.execute(run.pk, clients)


def _lengthen(run: Run, seconds: Sequence[float]) -> None:
    """Gives the turns of a run their recorded seconds: later events move back by them, and the run began earlier."""
    whole, passed, left = sum(seconds), 0.0, list(seconds)
    for event in RunEvent.objects.filter(owner=run.owner_id, run=run).order_by("seq"):
        if event.kind == ModelReplied.kind and left:
            passed += left[0]
            event.payload["seconds"] = left.pop(0)
        elif event.kind == RunFinished.kind:
            passed = whole
            event.payload["totals"]["seconds"] += whole
        event.at += timedelta(seconds=passed - whole)
        event.save(update_fields=["at", "payload"])
    ended = Run.objects.get(pk=run.pk)
    began = ended.created_at - timedelta(seconds=whole)
    Run.objects.filter(pk=run.pk).update(created_at=began, seconds=ended.seconds + whole)
