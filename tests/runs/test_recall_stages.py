"""From a query to a selection of three kinds and its context, also with a cross-encoder."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.utils import timezone

from memoryapp.engine.chat.cross_encoder import CrossEncoderError
from memoryapp.engine.chat.protocol import LLMUnavailable, PartialReply
from memoryapp.engine.embeddings import EmbeddingError, Vectors
from memoryapp.engine.events import (
    CandidatesFound,
    Event,
    ModelProgress,
    ModelReplied,
    QueryEnriched,
    RunFinished,
    RunStarted,
    TurnStarted,
)
from memoryapp.engine.memory import Background, MessageContent
from memoryapp.engine.notes import english
from memoryapp.engine.prompt_registry import built_in
from memoryapp.engine.text.lexical import Floats
from memoryapp.insight.evaluation.passes import evaluate
from memoryapp.insight.evaluation.questions import LabelledQuestion
from memoryapp.insight.evaluation.scores import QuestionScore
from memoryapp.models import Artifact, ChatUser, Evaluation, Fact, Message, Person, Prompt, QueryVector, Run, Topic
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs import followers, lifecycle, recall_document, replays
from memoryapp.runs.clients import Clients, open_clients
from memoryapp.runs.parameters import defaults
from memoryapp.runs.recall.request import RecallRequest
from memoryapp.runs.recall.stages import recall
from memoryapp.search.vectors import embed_pending
from tests.conftest import fact_of, talk
from tests.engine.scripted import ScriptedChat, Step, after, asks, fails, says
from tests.support.answers import document_of
from tests.support.executing import background_of, events_of, start

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]

NOTHING_KNOWN = Background("", (), (), ())
QUERY = "What did Petrov do to our vLLM on H100?"


class Speechless:
    """An embedding model that fails, and records whether it was asked."""

    profile = offline_embedder().profile
    asked = 0

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked += 1
        raise EmbeddingError("The embedding model is out of reach.")


class Listening:
    """The embedded model, and the texts that it received, by request."""

    profile = offline_embedder().profile

    def __init__(self) -> None:
        self.heard: list[Sequence[str]] = []

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.heard.append(texts)
        return await offline_embedder().embed(texts)


@pytest.fixture
async def anna() -> ChatUser:
    """A memory of topics, people, files and facts."""
    return await sync_to_async(_memory)()


def _memory() -> ChatUser:
    owner = ChatUser.objects.create(name="anna", profile="Anna, an engineer.")
    talk(
        owner,
        ("Petrov loads vLLM", ["Petrov fills our H100 with batches", "Give Petrov a replica of his own"]),
        ("Birthday cake", ["Which cake for ten?", "A honey cake"]),
    )
    fact_of(owner, "two cats", category="home", type="identity", importance=50, created_at=timezone.now())  # fmt: skip
    Person.objects.create(owner=owner, display_name="Petrov", circle="Work_Outer", bio="Labels transcripts.")
    Person.objects.create(owner=owner, display_name="Misha", circle="Family", bio="An architect.")
    Artifact.objects.create(
        owner=owner, name="vllm-h100.pdf", file_type="pdf", sha256="1", state="ready", summary="How vLLM fits an H100.",
        created_at=timezone.now(),
    )  # fmt: skip
    async_to_sync(embed_pending)(offline_embedder())
    return owner


async def numbers() -> dict[str, str]:
    """Returns the number of each item, by its name."""
    return {
        "topic": f"Topic:{(await Topic.objects.aget(summary='Petrov loads vLLM')).pk}",
        "cake": f"Topic:{(await Topic.objects.aget(summary='Birthday cake')).pk}",
        "petrov": f"Person:{(await Person.objects.aget(display_name='Petrov')).pk}",
        "file": f"Artifact:{(await Artifact.objects.aget()).pk}",
    }


async def picking(**chosen: Sequence[str]) -> ScriptedChat:
    """A model that reads both topics, then answers with these ids by kind."""
    topics = [topic.pk async for topic in Topic.objects.order_by("pk")]
    picks = {kind: [{"id": id, "reason": f"about {id}"} for id in ids] for kind, ids in chosen.items()}
    return ScriptedChat(asks(*topics), says(json.dumps(picks)))


def asked(owner: ChatUser, **given: Any) -> RecallRequest:
    base = RecallRequest(owner.pk, QUERY, "flash", defaults(), date(2026, 3, 10), NOTHING_KNOWN, built_in())
    return replace(base, **given)


async def recall_events(request: RecallRequest, **clients: Any) -> list[Event | ModelProgress]:
    owner = await ChatUser.objects.aget(pk=request.owner_id)
    known = await background_of(owner.pk, profile=owner.profile, messages=request.messages)
    async with open_clients() as opened:
        request = replace(request, background=known)
        return [event async for event in recall(request, replace(opened, **clients))]


def one(events: Sequence[Any], kind: type[Any]) -> Any:
    (found,) = [event for event in events if isinstance(event, kind)]
    return found


async def test_who_speaks_in_a_memory_is_known_to_the_next_run_after_an_edit(anna: ChatUser) -> None:
    embedder = Listening()
    async with open_clients() as opened:
        clients = replace(opened, embedder=embedder)
        for _ in range(2):
            await executed(anna, "Which route does Viktor take?", clients)
        await sync_to_async(_spoken_by)(anna, "Viktor")
        await executed(anna, "Which route does Viktor take?", clients)
    named = ["Viktor" in " ".join(texts) for texts in embedder.heard]
    assert named == [True, True, False], "a speaker's name is no part of what a question means"


async def executed(owner: ChatUser, query: str, clients: Clients) -> None:
    run = await sync_to_async(lifecycle.start)(owner, query, strategy="vector")
    await lifecycle.execute(run.pk, clients)


def _spoken_by(owner: ChatUser, author: str) -> None:
    talk(owner, ("Route", ["The hills have a route of two stages", "Then the longer one"]))
    Message.objects.of(owner).filter(text__startswith="The hills").update(author=author)


async def test_a_run_chooses_of_three_kinds_and_hands_over_what_they_hold(anna: ChatUser) -> None:
    named = await numbers()
    chat = await picking(topics=[named["topic"]], people=[named["petrov"]], artifacts=[named["file"]])
    events = await recall_events(asked(anna), chat=chat)
    found, end = one(events, CandidatesFound), one(events, RunFinished)
    assert [person.name for person in found.people][0] == "Petrov"
    assert [file.name for file in found.artifacts] == ["vllm-h100.pdf"]
    assert found.cards == 3
    assert [item.id for item in (*end.selected, *end.people, *end.artifacts)] == [
        named["topic"], named["petrov"], named["file"],
    ]  # fmt: skip
    parts = {part.name: part for part in end.context}
    assert list(parts) == ["profile", "inner_circle", "recent_topics", "topics", "people", "artifacts"]
    assert "Anna, an engineer.\n- home / has: two cats" in parts["profile"].text
    assert "Misha [Family]: An architect." in parts["inner_circle"].text
    assert "Labels transcripts." in parts["people"].text
    assert "How vLLM fits an H100." in parts["artifacts"].text
    assert (parts["topics"].items, parts["topics"].text) == (1, "")


async def test_the_model_receives_three_kinds_of_candidates_and_the_profile_of_the_user(anna: ChatUser) -> None:
    chat = await picking(topics=[])
    await recall_events(asked(anna), chat=chat)
    prompt = "\n".join(str(message["content"]) for message in chat.requests[0].messages)
    assert "Petrov [Work_Outer]" in prompt
    assert 'pdf: "vllm-h100.pdf"' in prompt
    assert "two cats" in prompt
    assert "Misha [Family]: An architect." in prompt
    assert '"Birthday cake" (2 msgs, ~' in prompt


async def test_the_answer_is_what_was_measured_when_the_run_ended(anna: ChatUser) -> None:
    named = await numbers()
    run = await sync_to_async(lifecycle.start)(anna, QUERY)
    chat = await picking(topics=[named["topic"], named["cake"]], people=[named["petrov"]])
    async with open_clients() as clients:
        await lifecycle.execute(run.pk, replace(clients, chat=chat))
    run = await Run.objects.aget(pk=run.pk)
    document = await sync_to_async(document_of)(run)
    assert document["people"][0]["name"] == "Petrov"
    stored = await sync_to_async(followers.stored)(run.pk)
    end = stored[-1].event
    assert isinstance(end, RunFinished)
    assert len(document["context"]) == sum(part.chars for part in end.context) + 2 * (len(end.context) - 1)
    assert "Give Petrov a replica of his own" in document["context"]
    for part in end.context:
        assert await sync_to_async(recall_document.part_text)(run, part.name) in document["context"]


async def test_a_fallback_hands_over_topics_and_never_people_or_files(anna: ChatUser) -> None:
    events = await recall_events(asked(anna), chat=ScriptedChat(fails(LLMUnavailable("away"))))
    end = one(events, RunFinished)
    assert end.fallback == "llm_error"
    assert (end.people, end.artifacts) == ((), ())
    names = [part.name for part in end.context]
    assert "topics" in names
    assert not {"people", "artifacts"} & set(names)


@pytest.mark.parametrize("strategy", ["vector", "flash"])
async def test_without_a_model_the_nearest_topics_are_handed_over(anna: ChatUser, settings: Any, strategy: str) -> None:
    settings.RERANKER_ENABLED = False
    end = one(await recall_events(asked(anna, strategy=strategy)), RunFinished)
    assert end.fallback == ("" if strategy == "vector" else "disabled")
    assert (await numbers())["topic"] in [item.id for item in end.selected]
    assert {"profile", "topics"} <= {part.name for part in end.context}
    assert (end.people, end.artifacts) == ((), ())


async def test_messages_of_the_callers_conversation_are_not_repeated(anna: ChatUser) -> None:
    named = await numbers()
    first = await Message.objects.aget(text="Petrov fills our H100 with batches")
    at = datetime(2026, 3, 10, tzinfo=UTC)
    messages = (
        MessageContent(first.pk, "user", "Anna", at, first.text),
        MessageContent(-2, "user", "Anna", at + timedelta(minutes=1), "And what of the cake knife?"),
    )
    chat = await picking(topics=[named["topic"]])
    end = one(await recall_events(asked(anna, messages=messages), chat=chat), RunFinished)
    assert "And what of the cake knife?" in str(chat.requests[0].messages)
    whole = one(await recall_events(asked(anna), chat=await picking(topics=[named["topic"]])), RunFinished)
    chars = {name: next(p.chars for p in run.context if p.name == "topics") for name, run in (("a", end), ("b", whole))}
    assert chars["a"] < chars["b"]


async def started(owner: ChatUser, **given: Any) -> Run:
    return await sync_to_async(lifecycle.start)(owner, QUERY, **given)


async def test_the_query_is_kept_as_it_was_compared(anna: ChatUser) -> None:
    run = await started(anna)
    await recall_events(asked(anna, run_id=run.pk), chat=await picking(topics=[]))
    kept = await QueryVector.objects.aget(run=run)
    assert (kept.owner_id, len(kept.vector)) == (anna.pk, offline_embedder().profile.dimensions)
    assert np.linalg.norm(kept.vector) == pytest.approx(1, abs=1e-2)


async def test_without_an_embedding_model_words_find_all_three_kinds(anna: ChatUser) -> None:
    run = await started(anna)
    events = await recall_events(asked(anna, run_id=run.pk), chat=await picking(topics=[]), embedder=Speechless())
    found = one(events, CandidatesFound)
    assert english(found.notes) == "The embedding model is out of reach."
    assert [person.name for person in found.people if person.shown] == ["Petrov"]
    assert not await QueryVector.objects.aexists()


async def test_a_run_that_tries_another_again_takes_its_query_and_candidates_as_they_were(anna: ChatUser) -> None:
    parent = await started(anna)
    named = await numbers()
    first = await recall_events(asked(anna, run_id=parent.pk), chat=await picking(topics=[]))
    paid = [replace(e, cost_usd=0.5, input_tokens=9) if isinstance(e, QueryEnriched) else e for e in first]
    await Person.objects.all().adelete()
    child, embedder = await started(anna, parent=parent), Speechless()
    chat = await picking(topics=[named["topic"]])
    request = asked(anna, run_id=child.pk, parent=str(parent.pk), replayed=replays.replay(paid, 1))
    again = await recall_events(request, chat=chat, embedder=embedder)
    assert embedder.asked == 0
    assert one(again, CandidatesFound).people == one(first, CandidatesFound).people
    assert one(again, RunStarted).parent == str(parent.pk)
    end = one(again, RunFinished)
    assert (end.baseline, end.totals.cost_usd) == (one(first, RunFinished).baseline, 0.0)
    assert end.totals.input_tokens == 200
    assert [topic.id for topic in end.selected] == [named["topic"]]
    kept = {row.run_id: list(row.vector) async for row in QueryVector.objects.all()}
    assert kept[child.pk] == kept[parent.pk]


async def test_a_trial_sends_its_model_the_same_whatever_messages_came_since(anna: ChatUser) -> None:
    first = await recall_events(asked(anna), chat=await picking(topics=[]))
    await Fact.objects.all().adelete()
    await Message.objects.acreate(owner=anna, external_id="x", role="user", text="By the way!", sent_at=timezone.now())
    later = asked(anna, replayed=replays.replay(first, 1), today=date(2026, 4, 1))
    again = await recall_events(later, chat=await picking(topics=[]))
    before, after = ([e for e in events if isinstance(e, TurnStarted)][0] for events in (first, again))
    assert after.variables == before.variables
    assert after.prompt == before.prompt


async def test_a_parent_that_never_ended_lends_its_candidates_in_their_vector_order(anna: ChatUser) -> None:
    first = await recall_events(asked(anna), chat=await picking(topics=[]))
    until = [event for event in first if isinstance(event, QueryEnriched | CandidatesFound)]
    again = await recall_events(asked(anna, strategy="vector", replayed=replays.replay(until, 1)))
    assert one(again, RunFinished).baseline == one(first, RunFinished).baseline


async def test_the_prompt_in_use_is_the_one_that_is_sent(anna: ChatUser) -> None:
    await Prompt.objects.acreate(
        name="rerank", language="en", version=4, system="Choose well.", made_by="ada", in_force=True,
        user="$query $topic_candidates $people_candidates $artifact_candidates",
    )  # fmt: skip
    chat, run = await picking(topics=[]), await start(anna, QUERY)
    async with open_clients() as clients:
        await lifecycle.execute(run.pk, replace(clients, chat=chat))
    events = await events_of(run)
    assert one(events, RunStarted).prompt_version == "rerank-en-4"
    first = next(event for event in events if isinstance(event, TurnStarted))
    assert first.prompt_version == "rerank-en-4"
    assert chat.requests[0].messages[0]["content"] == "Choose well."


async def test_what_the_model_is_saying_comes_in_between_and_is_no_event(anna: ChatUser) -> None:
    named = await numbers()
    number = int(named["topic"].partition(":")[2])
    steps: tuple[Step, ...] = (
        after(asks(number), PartialReply("", "Let me look")),
        says(json.dumps({"topics": [{"id": named["topic"], "reason": "it is"}]})),
    )
    events = await recall_events(asked(anna), chat=ScriptedChat(*steps))
    shown = [event for event in events if isinstance(event, ModelProgress)]
    assert [(item.turn, item.reasoning) for item in shown] == [(1, "Let me look")]
    assert one(events, RunFinished).totals.turns == len([e for e in events if isinstance(e, ModelReplied)]) == 2


async def test_no_more_people_and_files_are_shown_and_chosen_than_were_asked_for(anna: ChatUser) -> None:
    named = await numbers()
    few = replace(defaults(), people_candidates=1, artifact_candidates=0, max_people=0)
    events = await recall_events(asked(anna, parameters=few), chat=await picking(topics=[], people=[named["petrov"]]))
    found = one(events, CandidatesFound)
    assert len(found.people) == 2
    assert sum(person.shown for person in found.people) == 1
    assert not any(file.shown for file in found.artifacts)
    assert one(events, RunFinished).people == ()


async def test_an_evaluation_keeps_what_answers_each_question(anna: ChatUser) -> None:
    message = await Message.objects.aget(text="A honey cake")
    row = await Evaluation.objects.acreate(source="q", strategy="vector")
    questions = [LabelledQuestion("anna", "q1", "which cake?", "", (message.external_id,))]

    async def scores(clients: Clients) -> AsyncIterator[QuestionScore]:
        async for score in evaluate(questions, clients, evaluation=row, parameters={}):
            yield score

    async with open_clients() as clients:
        (score,) = [score async for score in scores(clients)]
    assert score.recall_at(5) == 1.0
    assert (await Run.objects.aget()).evidence == [message.pk]


# A cross-encoder corrects the order of a search, and its failure breaks no recall.


ENCODER_QUERY = "What hurts after the race?"


class CatEncoder:
    """A cross-encoder that prefers texts about cats, or fails while ``fails`` is true."""

    model = "cats-first"

    def __init__(self) -> None:
        self.fails = True
        self.read: list[str] = []

    async def scores(self, query: str, texts: Sequence[str], seconds: float) -> Floats:
        self.read = list(texts)
        if self.fails:
            raise CrossEncoderError("The cross-encoder answered 500.")
        return np.array([8.0 if "cat" in text else -2.0 for text in texts])


def memory() -> ChatUser:
    owner = ChatUser.objects.create(name="anna")
    talk(
        owner,
        ("Knee", ["My knee hurts after the race", "Rest the knee"]),
        ("Sunday", ["The race was long", "Well done after the race"]),
        ("Cats", ["My cat hurts its paw", "Poor cat"]),
        *((f"Subject {n}", [f"Tell me of subject {n}", f"Subject {n} is large"]) for n in range(4)),
    )
    async_to_sync(embed_pending)(offline_embedder())
    return owner


async def test_after_a_failure_the_next_recall_is_in_the_cross_encoders_order() -> None:
    owner, cat_encoder = await sync_to_async(memory)(), CatEncoder()
    request = asked(owner, query=ENCODER_QUERY)
    found = []
    async with open_clients() as opened:
        for encoder, fails in ((None, True), (cat_encoder, True), (cat_encoder, False)):
            cat_encoder.fails = fails
            events = [event async for event in recall(request, replace(opened, cross_encoder=encoder))]
            assert one(events, RunFinished).fallback == ""
            found.append(one(events, CandidatesFound))
        assert opened.pool.get_stats().get("requests_waiting", 0) == 0
    plain, failed, corrected = found
    assert plain.cross_encoder.model == ""
    assert failed.cross_encoder.failure == "The cross-encoder answered 500."
    assert [each.id for each in failed.candidates] == [each.id for each in plain.candidates]
    assert (plain.candidates[0].summary, corrected.candidates[0].summary) == ("Knee", "Cats")
    by = corrected.cross_encoder
    assert (by.model, by.topics, by.failure) == ("cats-first", 7, "")
    assert "cat" in " ".join(cat_encoder.read)
    assert [each.rank for each in corrected.candidates] == list(range(1, 8))
    for each in corrected.candidates:
        assert each.fused == pytest.approx(sum(each.parts.values()), abs=1e-4)


async def test_it_is_asked_before_the_cut() -> None:
    owner, cat_encoder = await sync_to_async(memory)(), CatEncoder()
    cat_encoder.fails = False
    request = asked(owner, query=ENCODER_QUERY)
    request = replace(request, parameters=replace(request.parameters, candidates=1))
    async with open_clients() as opened:
        events = [event async for event in recall(request, replace(opened, cross_encoder=cat_encoder))]
    found = one(events, CandidatesFound)
    assert [each.summary for each in found.shown] == ["Cats"]
    assert found.candidates[0].line.endswith("| Cats")
    assert len(found.candidates) == 7
