"""Each agent asks chat servers that others wrote, over HTTP: aimock, in the shape of OpenRouter, and llmock."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from memoryapp.engine.events import CandidatesFound, QueryEnriched
from memoryapp.intake import artifacts
from memoryapp.intake.messages import add_messages
from memoryapp.models import AgentCall, Artifact, ChatUser, Fact, Message, Person, Topic, TopicEdit, TopicVector
from memoryapp.platform.llm import clients
from memoryapp.search import profiles
from memoryapp.upkeep import tasks
from tests.conftest import talk
from tests.extraction.reading import fact, person
from tests.ingestion.test_archiving import message_record
from tests.peers.conftest import QUERY, Ask
from tests.peers.serving import Server
from tests.support.merging import REASON, verdict
from tests.support.splitting import Line, in_fours

USAGE = {"prompt_tokens": 900, "completion_tokens": 40, "total_tokens": 940, "cost": 0.0003}
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
