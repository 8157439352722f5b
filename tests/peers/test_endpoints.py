"""Whole runs and each agent against chat servers that others wrote: aimock, in the shape of OpenRouter, and llmock."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from memoryapp.engine.events import CandidatesFound, ModelReplied, QueryEnriched, Retried, SteppedDown, TopicsRead
from memoryapp.intake import artifacts
from memoryapp.intake.messages import add_messages
from memoryapp.models import AgentCall, Artifact, ChatUser, Fact, Message, Person, Topic, TopicEdit, TopicVector
from memoryapp.platform.llm import clients
from memoryapp.search import profiles
from memoryapp.upkeep import tasks
from tests.conftest import talk
from tests.curation.merger_passes import REASON, verdict
from tests.curation.reading import fact, person
from tests.intake.test_archiving import message_record
from tests.peers.conftest import QUERY, Ask, Memory
from tests.peers.serving import Server
from tests.support.splitting import Line, in_fours

API = "/api/v1"
USAGE = {"prompt_tokens": 900, "completion_tokens": 40, "total_tokens": 940, "cost": 0.0003}
DETAILS = {"prompt_tokens_details": {"cached_tokens": 512}, "completion_tokens_details": {"reasoning_tokens": 7}}


@pytest.fixture
def server(aimock: Server) -> Server:
    return aimock


def play(server: Server, *fixtures: dict[str, Any]) -> None:
    server.post("/__aimock/fixtures", fixtures=list(fixtures))


def script(memory: Memory) -> list[dict[str, Any]]:
    """The model asks for two topics and chooses the first; the enricher keeps the query."""
    first, second, _ = memory.topics
    call = {"name": "get_topics_content", "arguments": {"ids": [first, second]}, "id": "call_1"}
    choice = {"topics": [{"id": f"Topic:{first}", "reason": "It is the crash.", "excerpt": ""}]}
    billed = {"usage": {**USAGE, **DETAILS}, "provider": "Acme"}
    return [
        turn(False, {"toolCalls": [call], "reasoning": "Two of these look close.", **billed}),
        turn(True, {"content": choice, "reasoning": "The first answers it.", **billed}, openRouterProcessing=True),
        {"match": {}, "response": {"content": QUERY, "usage": USAGE}},
    ]


def turn(after_reading: bool, response: dict[str, Any], **how: Any) -> dict[str, Any]:
    """Returns a fixture for a turn with tools; ``nth`` limits it to that request of the kind, counted from 0."""
    match = {"toolName": "get_topics_content", "hasToolResult": after_reading}
    if "nth" in how:
        match["sequenceIndex"] = how.pop("nth")
    return {"match": match, "response": response, **how}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_run_tells_what_each_turn_cost_thought_and_who_served_it(
    server: Server, memory: Memory, ask: Ask, stream: bool
) -> None:
    play(server, *script(memory))
    run = await ask(server.url + API, stream=stream)
    first, second, _ = (f"Topic:{id}" for id in memory.topics)
    assert (run.finished.fallback, run.chosen) == ("", [first])
    assert [topic.id for event in run.of(TopicsRead) for topic in event.read] == [first, second]
    asked, chose = run.of(ModelReplied)
    assert (asked.reasoning, chose.reasoning) == ("Two of these look close.", "The first answers it.")
    assert [(reply.cost_usd, reply.input_tokens) for reply in (asked, chose)] == [(0.0003, 900)] * 2
    assert [(reply.provider, reply.cached_tokens, reply.reasoning_tokens) for reply in (asked, chose)] == [
        ("Acme", 512, 7)
    ] * 2
    assert run.finished.totals.cost_usd == pytest.approx(0.0009)
    assert run.of(SteppedDown) == run.of(Retried) == []


async def test_the_thoughts_of_a_turn_are_sent_back_with_its_call(server: Server, memory: Memory, ask: Ask) -> None:
    play(server, *script(memory))
    await ask(server.url + API)
    *_, last = server.get("/__aimock/journal")
    sent = [message for message in last["body"]["messages"] if message["role"] == "assistant"]
    assert [message["reasoning_content"] for message in sent] == ["Two of these look close."]
    assert [call["id"] for call in sent[0]["tool_calls"]] == ["call_1"]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_rate_limit_is_waited_out(server: Server, memory: Memory, ask: Ask, stream: bool) -> None:
    limit = {"error": {"message": "Rate limit exceeded", "code": "429"}, "status": 429, "retryAfter": 1}
    play(server, turn(False, limit, nth=0), *script(memory))
    run = await ask(server.url + API, stream=stream)
    assert [event.wait for event in run.of(Retried)] == [1.0]
    assert run.finished.fallback == ""


async def test_a_stream_that_is_cut_is_asked_for_again(server: Server, memory: Memory, ask: Ask) -> None:
    asking, choosing, enriching = script(memory)
    cut = {**turn(True, choosing["response"], nth=0), "chunkSize": 5, "truncateAfterChunks": 3}
    play(server, asking, cut, choosing, enriching)
    run = await ask(server.url + API)
    assert [event.attempt for event in run.of(Retried)] == [1]
    assert (run.finished.fallback, run.chosen) == ("", [f"Topic:{memory.topics[0]}"])


@pytest.mark.parametrize("trouble", ["malformedRate", "disconnectRate", "dropRate"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_an_answer_that_comes_broken_is_asked_for_again(
    server: Server, memory: Memory, ask: Ask, trouble: str, stream: bool
) -> None:
    asking, choosing, enriching = script(memory)
    broken = {**turn(False, asking["response"], nth=0), "chaos": {trouble: 1.0}}
    play(server, broken, asking, choosing, enriching)
    run = await ask(server.url + API, stream=stream)
    assert [event.attempt for event in run.of(Retried)] == [1]
    assert (run.finished.fallback, run.chosen) == ("", [f"Topic:{memory.topics[0]}"])


async def test_another_model_answers_when_the_first_is_overloaded(
    server: Server, memory: Memory, ask: Ask, settings: Any
) -> None:
    settings.LLM_FALLBACK_MODELS = ["acme/second"]
    overloaded = {"error": {"message": "overloaded", "code": "503"}, "status": 503}
    play(server, {"match": {"model": "acme/first"}, "response": overloaded}, *script(memory))
    run = await ask(server.url + API, model="acme/first")
    assert run.finished.fallback == ""
    assert {reply.model for reply in run.of(ModelReplied)} == {"acme/second"}
    assert run.of(Retried) == []


# Whole runs against llmock, which breaks its answers on request and judges the client's reaction.


WITH_TOOLS = {"tools": True}


@pytest.fixture
def llmock_server(llmock: Server) -> Server:
    return llmock


def llmock_script(server: Server, memory: Memory, *faults: dict[str, Any], tries: int = 1) -> None:
    """The enricher keeps the query; the reranker asks for two topics, ``tries`` times, and chooses the first."""
    first, second, _ = memory.topics
    call = {"name": "get_topics_content", "arguments": {"ids": [first, second]}}
    choice = {"topics": [{"id": f"Topic:{first}", "reason": "It is the crash.", "excerpt": ""}]}
    replies = [
        {"text": QUERY, "match": {"tools": False}, "times": None},
        {"tool_calls": [call], "times": tries, "match": WITH_TOOLS},
        {"text": json.dumps(choice), "match": WITH_TOOLS, "times": None},
    ]
    server.post("/_llmock/scenario", behaviors=[*faults, *({"type": "reply", **reply} for reply in replies)])


def findings(server: Server) -> list[Any]:
    verdict = server.get("/_llmock/verdict")
    return list(verdict["findings"])


@pytest.mark.smoke
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_run_asks_reads_and_chooses(llmock_server: Server, memory: Memory, ask: Ask, stream: bool) -> None:
    llmock_script(llmock_server, memory)
    run = await ask(llmock_server.url + "/v1", stream=stream)
    first, second, _ = (f"Topic:{id}" for id in memory.topics)
    assert (run.finished.fallback, run.chosen) == ("", [first])
    assert [topic.id for event in run.of(TopicsRead) for topic in event.read] == [first, second]
    assert [bool(reply.input_tokens and reply.output_tokens) for reply in run.of(ModelReplied)] == [True, True]
    assert run.of(SteppedDown) == run.of(Retried) == []
    assert findings(llmock_server) == []


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_rate_limit_of_llmock_is_waited_out(
    llmock_server: Server, memory: Memory, ask: Ask, stream: bool
) -> None:
    llmock_script(llmock_server, memory, {"type": "fail", "status": 429, "retry_after": 1, "match": WITH_TOOLS})
    run = await ask(llmock_server.url + "/v1", stream=stream)
    assert [event.wait for event in run.of(Retried)] == [1.0]
    assert run.finished.fallback == ""
    assert findings(llmock_server) == []


@pytest.mark.parametrize("kind", ["truncate", "disconnect", "malformed"])
async def test_a_stream_that_breaks_is_asked_for_again(
    llmock_server: Server, memory: Memory, ask: Ask, kind: str
) -> None:
    fault = {"type": "stream_fault", "kind": kind, "after_chunks": 2, "match": {"stream": True, **WITH_TOOLS}}
    llmock_script(llmock_server, memory, fault, tries=2)
    run = await ask(llmock_server.url + "/v1")
    assert [event.attempt for event in run.of(Retried)] == [1]
    assert (run.finished.fallback, run.chosen) == ("", [f"Topic:{memory.topics[0]}"])
    assert findings(llmock_server) == []


async def test_a_stream_that_stalls_ends_as_the_turns_time_does(
    llmock_server: Server, memory: Memory, ask: Ask
) -> None:
    stall = {"type": "stream_fault", "kind": "stall", "stall_seconds": 30, "match": {"stream": True, **WITH_TOOLS}}
    llmock_script(llmock_server, memory, stall)
    run = await ask(llmock_server.url + "/v1", turn_seconds=0.5)
    assert run.finished.fallback == "turn_timeout"
    assert findings(llmock_server) == []


@pytest.mark.parametrize("status", [400, 401, 402, 403])
async def test_a_refusal_is_not_argued_with(llmock_server: Server, memory: Memory, ask: Ask, status: int) -> None:
    llmock_script(llmock_server, memory, {"type": "fail", "status": status, "times": None})
    run = await ask(llmock_server.url + "/v1")
    assert run.finished.fallback == "llm_error"
    assert run.of(Retried) == []
    assert str(status) in run.of(ModelReplied)[0].error
    assert findings(llmock_server) == []


async def test_an_outage_is_borne_as_long_as_the_turn_lasts(llmock_server: Server, memory: Memory, ask: Ask) -> None:
    llmock_script(llmock_server, memory, {"type": "fail", "status": 503, "times": None, "match": WITH_TOOLS})
    run = await ask(llmock_server.url + "/v1", turn_seconds=4.0)
    assert run.finished.fallback == "llm_error"
    assert {event.wait for event in run.of(Retried)} == {1.0}
    # Another second would exceed the turn, of which a client gets 97 %.
    assert run.finished.totals.seconds > 4.0 * 0.97 - 1.0
    assert findings(llmock_server) == []


@pytest.mark.parametrize("kind", ["malformed_arguments", "unknown_tool"])
async def test_a_tool_call_that_makes_no_sense_is_answered_and_the_run_goes_on(
    llmock_server: Server, memory: Memory, ask: Ask, kind: str
) -> None:
    llmock_script(llmock_server, memory, {"type": "tool_fault", "kind": kind}, tries=2)
    run = await ask(llmock_server.url + "/v1")
    assert run.of(TopicsRead)[0].notes
    assert (run.finished.fallback, run.chosen) == ("", [f"Topic:{memory.topics[0]}"])
    assert findings(llmock_server) == []


async def test_what_the_server_makes_up_from_our_schemas_is_understood(
    llmock_server: Server, memory: Memory, ask: Ask
) -> None:
    run = await ask(llmock_server.url + "/v1")
    # It makes up ids that are no candidates, so no topic was read before the answer.
    assert run.finished.fallback == "protocol_violation"
    assert [bool(read.unknown) for read in run.of(TopicsRead)] == [True] * 3
    assert findings(llmock_server) == []


# Each agent asks chat servers that others wrote, over HTTP: aimock, in the shape of OpenRouter, and llmock.


SEEN = {"summary": "A menu with prices.", "text": "Fig tart 4.50", "keywords": [], "entities": [], "answers": []}


@dataclass(frozen=True)
class Peer:
    """``play`` sets the text of all further answers, ``asked`` are the bodies of the requests so far; ``cost`` is the
    price of a reply, in dollars."""

    url: str
    play: Callable[[str], object]
    asked: Callable[[], Sequence[Mapping[str, Any]]]
    cost: float | None


def _aimock(server: Server) -> Peer:
    def play(text: str) -> None:
        server.post("/__aimock/fixtures", fixtures=[{"match": {}, "response": {"content": text, "usage": USAGE}}])

    return Peer(f"{server.url}/api/v1", play, lambda: [row["body"] for row in server.get("/__aimock/journal")], 0.0003)


def _llmock(server: Server) -> Peer:
    def play(text: str) -> None:
        server.post("/_llmock/scenario", behaviors=[{"type": "reply", "text": text, "match": {}, "times": None}])

    def asked() -> Sequence[Mapping[str, Any]]:
        return [row["body"] for row in server.get("/_llmock/requests")["requests"] if row["method"] == "POST"]

    return Peer(f"{server.url}/v1", play, asked, None)


@pytest.fixture(params=["aimock", "llmock"])
def peer(request: pytest.FixtureRequest, settings: Any, tmp_path: Path) -> Peer:
    made = {"aimock": _aimock, "llmock": _llmock}[request.param](request.getfixturevalue(request.param))
    clients._learnt.cache_clear()
    settings.LLM_BASE_URL, settings.LLM_API_KEY, settings.MEDIA_ROOT = made.url, "key", tmp_path
    for agent in ("SPLITTER", "MERGER", "ARCHIVIST"):
        setattr(settings, f"{agent}_MODEL", "gpt-4o")
    return made


@pytest.fixture
def owner(transactional_db: None) -> ChatUser:
    wishes = {"consolidation": "automatic", "extraction": "automatic", "topic_messages": 4}
    return ChatUser.objects.create(name="anna", **wishes)


def check_call(peer: Peer, agent: str) -> AgentCall:
    """Checks that the agent asked one question, and that it was answered."""
    [call] = AgentCall.objects.all()
    assert (call.agent, call.outcome, len(peer.asked())) == (agent, "", 1)
    assert call.input_tokens > 0
    assert call.output_tokens > 0
    if peer.cost is not None:
        assert call.cost_usd == pytest.approx(peer.cost)
    return call


def test_the_splitter_cuts_a_session(peer: Peer, owner: ChatUser) -> None:
    add_messages(owner, [message_record(n, f"{'figs' if n < 4 else 'bicycles'} {n}", minutes=n) for n in range(8)])
    peer.play(in_fours([Line.of(row.pk, row.text) for row in Message.objects.in_order()]))
    tasks.archive_due()
    check_call(peer, "splitter")
    assert list(Topic.objects.live().values_list("message_count", flat=True)) == [4, 4]
    assert {summary.lower().split()[0] for summary in Topic.objects.values_list("summary", flat=True)} == {
        "figs",
        "bicycles",
    }


def test_the_merger_joins_two_topics(peer: Peer, owner: ChatUser) -> None:
    topics = talk(owner, ("Figs", ["figs", "tarts"]), ("More figs", ["figs again", "more tarts"]))
    row = profiles.serving()
    for topic in topics:
        TopicVector.objects.create(owner=owner, topic=topic, profile=row, vector=[1.0] + [0.0] * (row.dimensions - 1))
    peer.play(verdict(summary="Figs and tarts"))
    tasks.suggest_due()
    tasks.consolidate_due()
    call = check_call(peer, "merger")
    assert Topic.objects.live().get().summary == "Figs and tarts"
    merge = TopicEdit.objects.get(kind="merge")
    assert (merge.reason, merge.call) == (REASON, call)


def test_the_archivist_finds_facts_and_people(peer: Peer, owner: ChatUser) -> None:
    talk(owner, ("Figs", ["I like figs, and so does Dora.", "Noted."]))
    ids = list(Message.objects.in_order().values_list("pk", flat=True)[:1])
    found = {"facts": [{**fact("Likes figs."), "messages": ids}], "people": [{**person("Dora"), "messages": ids}]}
    peer.play(json.dumps(found))
    tasks.extract_due()
    check_call(peer, "archivist")
    assert (Fact.objects.get().content, Person.objects.get().display_name) == ("Likes figs.", "Dora")


@pytest.mark.parametrize(("mime", "part"), [("image/png", "image_url"), ("audio/wav", "input_audio")])
def test_the_describer_reads_pictures_and_recordings(peer: Peer, owner: ChatUser, mime: str, part: str) -> None:
    artifacts.put(owner, "menu", mime, b"the bytes of the file")
    peer.play(json.dumps(SEEN))
    tasks.read_artifacts()
    check_call(peer, "describer")
    row = Artifact.objects.get()
    assert (row.state, row.summary, row.text) == ("ready", SEEN["summary"], SEEN["text"])
    assert [item["type"] for item in peer.asked()[0]["messages"][1]["content"]] == ["text", part]


async def test_the_enricher_says_what_is_searched_for(peer: Peer, ask: Ask, settings: Any) -> None:
    await sync_to_async(peer.play)("vLLM runs out of memory on the H100")
    recall = await ask(peer.url, turn_seconds=20.0)
    [enriched] = recall.of(QueryEnriched)
    assert (enriched.query, enriched.enriched, enriched.note) == (QUERY, "vLLM runs out of memory on the H100", "")
    assert enriched.input_tokens > 0
    assert recall.of(CandidatesFound)
