"""The chat model is asked for a summary or for the parts of a topic: it proposes, a person decides."""

import html
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient, Client
from prometheus_client import REGISTRY

from memoryapp.curation.suggestions import proposals
from memoryapp.curation.suggestions.proposals import ProposalError
from memoryapp.engine.agents import merger
from memoryapp.engine.agents.ask import Ask, UnreadableAnswer
from memoryapp.engine.agents.merger import propose_summary
from memoryapp.engine.chat.protocol import Chat
from memoryapp.engine.memory import TopicContent
from memoryapp.models import AgentCall, ChatUser, Prompt, Role, Topic, TopicEdit
from memoryapp.platform.llm import clients
from memoryapp.platform.llm.agent_calls import AgentCaller
from memoryapp.platform.llm.clients import _learnt
from tests.conftest import operator, signed_in, talk
from tests.support.browsing import HTMX, flat, get
from tests.support.peer import Peer, reply

SUMMARY = "Honey cake for Marina, which burnt once"
TALK = (
    ("Honey cake for Marina", ["Marina wants a honey cake", "Bake the honey cake at 180", "honey, honey!"]),
    ("Honey cake again", ["The honey cake of Marina burnt", "Lower the oven"]),
)


class Proposing(Peer):
    """Gives the same answer to everything, once its gate ``asks`` is open."""

    says = json.dumps({"merged_summary": SUMMARY})

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(body)
        self.pass_gate("asks")
        return reply({"content": self.says})


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    return talk(anna, *TALK)


@pytest.fixture
def as_curator(anna: ChatUser) -> Client:
    return signed_in(operator("cora", Role.CURATOR, anna))


@contextmanager
def proposing(settings: Any) -> Iterator[Proposing]:
    """Connects a model until the block ends."""
    _learnt.cache_clear()
    peer = Proposing()
    peer.open()
    settings.LLM_BASE_URL, settings.LLM_API_KEY, settings.MERGER_MODEL = peer.url, "key", "acme/merger"
    try:
        yield peer
    finally:
        peer.stop()


@pytest.fixture
def model(settings: Any) -> Iterator[Proposing]:
    with proposing(settings) as peer:
        yield peer


def address(owner: ChatUser, page: str = "merge/proposal/") -> str:
    return f"/memory/{owner.pk}/{page}"


def sent(*topics: Topic, **more: str) -> dict[str, Any]:
    return {"op": "merge", "topics": [topic.pk for topic in topics], **more}


def asked(client: Client, owner: ChatUser, fields: dict[str, Any], **headers: str) -> str:
    answer = client.post(address(owner), fields, headers=headers)
    assert answer.status_code == 200
    return flat(answer.content.decode())


def field(page: str) -> str:
    found = re.search(r"data-merged-summary>([^<]*)</textarea>", page)
    assert found
    return html.unescape(found[1])


def metric(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"mnemoscope_{name}", labels) or 0.0


def test_without_a_model_nothing_is_offered_and_nothing_asked(
    anna: ChatUser, as_curator: Client, topics: list[Topic]
) -> None:
    page = get(as_curator, address(anna, f"merge/?topics={topics[0].pk}&topics={topics[1].pk}"))
    assert "merge/proposal/" not in page
    refused = asked(as_curator, anna, sent(*topics, summary="My own"), **HTMX)
    assert "No chat model is connected" in refused
    assert field(refused) == "My own"


@pytest.mark.parametrize("headers", [HTMX, {}], ids=["htmx", "plain form"])
def test_the_models_summary_stands_in_the_field_to_be_edited(
    headers: dict[str, Any], anna: ChatUser, as_curator: Client, topics: list[Topic], model: Proposing
) -> None:
    page = get(as_curator, address(anna, f"merge/?topics={topics[0].pk}&topics={topics[1].pk}"))
    assert f'formaction="{address(anna)}"' in page
    assert "acme/merger reads the topics" in page
    page = asked(as_curator, anna, sent(*topics, summary="Honey cake", reason="the same cake"), **headers)
    assert field(page) == SUMMARY
    assert 'name="reason" value="the same cake"' in page
    assert ("data-column=" in page) is not bool(headers)
    assert model.requests[0]["model"] == "acme/merger"
    assert "The honey cake of Marina burnt" in model.requests[0]["messages"][1]["content"]


@pytest.mark.slow
def test_asking_writes_nothing(anna: ChatUser, as_curator: Client, topics: list[Topic], model: Proposing) -> None:
    before = TopicEdit.objects.count()
    asked(as_curator, anna, sent(*topics, summary="Honey cake"))
    assert TopicEdit.objects.count() == before
    assert Topic.objects.live().count() == 2
    get(as_curator, address(anna))
    assert len(model.requests) == 1


def test_the_proposal_stays_to_be_chosen_when_a_topic_is_left_out(
    anna: ChatUser, as_curator: Client, topics: list[Topic]
) -> None:
    listed = f"merge/?topics={topics[0].pk}&topics={topics[1].pk}&proposed=Of+the+model"
    page = get(as_curator, address(anna, f"{listed}&from=model"), **HTMX)
    assert field(page) == "Of the model"
    other = get(as_curator, address(anna, f"{listed}&from={topics[0].pk}"), **HTMX)
    assert field(other) == "Honey cake for Marina"
    assert 'name="proposed" value="Of the model"' in other


@pytest.mark.parametrize("answer", ["{}", '{"merged_summary": ""}', ""])
def test_an_answer_that_is_no_summary_is_reported_and_the_text_kept(
    answer: str, anna: ChatUser, as_curator: Client, topics: list[Topic], model: Proposing
) -> None:
    model.says = answer
    page = asked(as_curator, anna, sent(*topics, summary="My own", **{"from": "composed"}), **HTMX)
    assert "cannot be used" in page
    assert field(page) == "My own"


def test_an_unreachable_endpoint_is_reported_and_the_text_kept(
    anna: ChatUser, as_curator: Client, topics: list[Topic], model: Proposing, settings: Any
) -> None:
    model.stop()
    settings.PROPOSAL_TIMEOUT = 0.5
    page = asked(as_curator, anna, sent(*topics, summary="My own"), **HTMX)
    assert "The model made no proposal" in page
    assert field(page) == "My own"


def test_one_topic_alone_is_not_worth_asking(
    anna: ChatUser, as_curator: Client, topics: list[Topic], model: Proposing
) -> None:
    assert "at least two different topics" in asked(as_curator, anna, sent(topics[0]), **HTMX)
    assert model.requests == []


def test_topics_of_somebody_else_are_not_read_to_the_model(
    anna: ChatUser, boris: ChatUser, as_curator: Client, topics: list[Topic], model: Proposing
) -> None:
    strange = talk(boris, ("Secret clarinet", ["clarinet"]))[0]
    asked(as_curator, anna, sent(*topics, strange))
    assert "larinet" not in str(model.requests)


def test_asking_is_counted(anna: ChatUser, as_curator: Client, topics: list[Topic], model: Proposing) -> None:
    calls = metric("llm_requests_total", agent="merger", outcome="answered")
    asks, tokens = (
        metric("merger_duration_seconds_count"),
        metric("llm_tokens_total", agent="merger", direction="input"),
    )
    asked(as_curator, anna, sent(*topics))
    assert metric("llm_requests_total", agent="merger", outcome="answered") == calls + 1
    assert metric("merger_duration_seconds_count") == asks + 1
    assert metric("llm_tokens_total", agent="merger", direction="input") == tokens + 1200


def test_the_model_proposes_the_parts_of_a_topic(anna: ChatUser, topics: list[Topic], model: Proposing) -> None:
    first, second, third = topics[0].message_set.in_order().values_list("pk", flat=True)
    model.says = json.dumps({"topics": [{"summary": "Baking", "start_msg_id": first, "end_msg_id": second}]})
    drafts = proposals.topics_proposed(anna, topics[0], "cora")
    assert [draft.messages for draft in drafts] == [(first, second), (third,)]
    assert drafts[0].summary == "Baking"
    model.says = "Sorry."
    with pytest.raises(ProposalError, match="cannot be used"):
        proposals.topics_proposed(anna, topics[0], "cora")


def test_the_reason_for_a_missing_proposal_is_shown_in_the_readers_language(
    anna: ChatUser, as_curator: Client, topics: list[Topic], settings: Any
) -> None:
    settings.LLM_BASE_URL, settings.LLM_API_KEY, settings.PROPOSAL_TIMEOUT = "http://127.0.0.1:9/v1", "key", 1.0
    answer = as_curator.post(f"/topics/{topics[0].pk}/resplit/", {"ask": ""}, headers={"accept-language": "ru"})
    assert "Модель ничего не предложила: 127.0.0.1:9 недоступен" in flat(answer.content.decode())
    call = AgentCall.objects.get()
    page = flat(as_curator.get(f"/agents/{call.pk}/", headers={"accept-language": "ru"}).content.decode())
    assert "cannot be reached" not in page
    assert page.count("127.0.0.1:9 недоступен") >= 2


def test_what_the_model_received_and_answered_can_be_looked_up(
    anna: ChatUser, as_curator: Client, topics: list[Topic], model: Proposing
) -> None:
    asked(as_curator, anna, sent(*topics))
    call = AgentCall.objects.get()
    assert (call.owner, call.agent, call.outcome) == (anna, "merger", "")
    assert (call.prompt_version, call.topics) == ("merge-en-0", [topic.pk for topic in topics])
    assert (call.input_tokens, call.seconds > 0) == (1200, True)
    kinds = [event["kind"] for event in call.events]
    assert (kinds[0], kinds[-1]) == ("turn_started", "model_replied")
    assert topics[0].summary in call.events[0]["payload"]["variables"]["topics"]
    assert json.loads(call.events[-1]["message"])["role"] == "assistant"


def test_a_question_without_a_usable_answer_is_kept_with_both_tries(
    anna: ChatUser, topics: list[Topic], model: Proposing
) -> None:
    model.says = "Sorry."
    with pytest.raises(ProposalError):
        proposals.topics_proposed(anna, topics[0], "cora")
    call = AgentCall.objects.get()
    assert (call.agent, call.outcome, call.topics) == ("splitter", "parse_error", [topics[0].pk])
    assert [event["kind"] for event in call.events].count("model_replied") == 2
    assert call.input_tokens == 2 * 1200


def test_the_prompt_in_use_is_sent_to_the_model(anna: ChatUser, topics: list[Topic], model: Proposing) -> None:
    Prompt.objects.create(
        name="split", language="en", version=3, system="Cut it.", user="$topic", made_by="ada", in_force=True
    )
    with pytest.raises(ProposalError):
        proposals.topics_proposed(anna, topics[0], "cora")
    assert AgentCall.objects.get().prompt_version == "split-en-3"
    assert model.requests[0]["messages"][0]["content"] == "Cut it."


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
async def test_the_servers_own_loop_asks_the_model(model: Proposing) -> None:
    def prepare() -> tuple[ChatUser, list[Topic], AsyncClient]:
        owner = ChatUser.objects.create(name="anna")
        client = AsyncClient()
        client.force_login(operator("cora", Role.CURATOR, owner).user)
        return owner, talk(owner, *TALK), client

    owner, topics, client = await sync_to_async(prepare)()
    answer = await client.post(address(owner), sent(*topics))
    assert field(answer.content.decode()) == SUMMARY


def test_an_answer_is_paid_for_once_unless_a_person_asks_again(
    anna: ChatUser, topics: list[Topic], model: Proposing
) -> None:
    def summary(chat: Chat) -> Ask[str]:
        return propose_summary([TopicContent(1, "Tea", topics[0].started_at, 3, ())], chat=chat, seconds=20.0)

    nobody = AgentCaller(anna, merger.AGENT, clients.open_chat)
    model.says = "{}"
    with pytest.raises(UnreadableAnswer):
        nobody.ask(summary)
    model.says = json.dumps({"merged_summary": SUMMARY})
    first, asked = nobody.ask(summary, [topics[0]]), len(model.requests)
    second = nobody.ask(summary, [topics[0]])
    assert (second.answer, second.call) == (SUMMARY, first.call)
    assert len(model.requests) == asked
    third = AgentCaller(anna, merger.AGENT, clients.open_chat, "cora").ask(summary)
    assert (third.answer, third.call.asked_by) == (SUMMARY, "cora")
    assert len(model.requests) == asked + 1
