"""What a filter does not permit reaches no model, no cross-encoder and no context, whatever the strategy."""

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from asgiref.sync import async_to_sync, sync_to_async

from memoryapp.engine.chat.protocol import ChatRequest, Reply
from memoryapp.engine.events import CandidatesFound, RunFinished
from memoryapp.engine.kinds.react import Answered
from memoryapp.engine.memory import TopicDraft
from memoryapp.engine.strategies import STRATEGIES
from memoryapp.engine.text.lexical import Floats
from memoryapp.intake.archiving import put_topics
from memoryapp.intake.messages import add_messages
from memoryapp.models import ChatUser, Message, Run
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs import followers, lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.search.vectors import embed_pending
from rerankui.runs.page import answer_view
from tests.engine.scripted import asks, chooses, says
from tests.search.test_where import dated_record
from tests.support.answers import document_of
from tests.support.executing import events_of

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "sunflower7"


class Obedient:
    """A model that reads every candidate and chooses it, or repeats what it is sent; ``heard`` is all of that."""

    model = "obedient"

    def __init__(self) -> None:
        self.heard = ""

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        self.heard += str(request.messages)
        topics = [int(number) for number in re.findall(r"\[Topic:(\d+)\]", str(request.messages))]
        has_read = any(message["role"] == "tool" for message in request.messages)
        step = says("The knee is well again [1].")
        if topics:
            step = chooses(*topics) if has_read else asks(*topics)
        assert isinstance(step.outcome, Reply)
        yield step.outcome


class Attentive:
    """A cross-encoder that remembers what it read."""

    model = "attentive"

    def __init__(self) -> None:
        self.read: list[str] = []

    async def scores(self, query: str, texts: Sequence[str], seconds: float) -> Floats:
        self.read += texts
        return np.zeros(len(texts))


def memory(owner: ChatUser) -> None:
    posts = [
        dated_record(1, "2025-05-01T10:00", "Vera", f"whose knee is it, the password is {SECRET}"),
        dated_record(2, "2025-05-02T10:01", "Boris", "The knee is well again"),
        dated_record(3, "2025-05-03T10:02", "Vera", f"good, a knee and {SECRET}"),
    ]
    add_messages(owner, posts)
    ids = tuple(Message.objects.of(owner).in_order().values_list("pk", flat=True))
    put_topics(owner, [TopicDraft(f"A knee, and {SECRET}", ids)], actor="test")
    async_to_sync(embed_pending)(offline_embedder(), owner)


def handed_over(run: Run) -> Any:
    """What programs and the page of answers get of the run."""
    document = document_of(run, ["messages"])
    assert [topic["message_count"] for topic in document["topics"]] == [len(document["topics"][0]["messages"])]
    answered = next((event.event for event in followers.stored(run.pk) if isinstance(event.event, Answered)), None)
    return document, answered and [each.messages for each in answer_view.passages(run, answered.citations)]


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_no_model_and_no_context_contains_what_the_filter_excludes(anna: ChatUser, strategy: str) -> None:
    await sync_to_async(memory)(anna)
    chat, encoder = Obedient(), Attentive()
    runs = []
    async with open_clients() as opened:
        clients = replace(opened, chat=chat, enricher=chat, cross_encoder=encoder)
        for query in (
            "how is the knee?",
            "how is the knee? author:Boris",
            "how is the knee? since:2025-05-02 until:2025-05-02",
        ):
            chat.heard, encoder.read = "", []
            run = await sync_to_async(lifecycle.start)(anna, query, strategy=strategy)
            await lifecycle.execute(run.pk, clients)
            events = await events_of(run)
            given = await sync_to_async(handed_over)(await Run.objects.select_related("owner").aget(pk=run.pk))
            found = next(event for event in events if isinstance(event, CandidatesFound))
            assert next(event for event in events if isinstance(event, RunFinished)).selected
            [shown] = found.candidates
            runs.append((f"{chat.heard}{encoder.read}{events}{given}", set(encoder.read), shown))
    unfiltered, *filtered = runs
    assert SECRET in unfiltered[0]
    for everything, read, shown in filtered:
        assert SECRET not in everything
        assert read == {"Boris: The knee is well again"}
        assert (shown.message_count, shown.date, shown.summary) == (1, "2025-05-02", "The knee is well again")
