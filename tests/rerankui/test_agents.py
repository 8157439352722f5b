"""Agents' conversations: their list, the replay of one, its result, and the link from the history."""

from typing import Any

import httpx
import pytest
from django.test import Client
from django.urls import reverse

from memoryapp import curation
from memoryapp.engine.events import (
    Event,
    MediaItem,
    ModelReplied,
    PromptMessage,
    Retried,
    SteppedDown,
    TurnStarted,
    to_payload,
)
from memoryapp.models import AgentCall, ChatUser, KnowledgeEdit, Person, Role, Topic, TopicEdit
from memoryapp.platform.llm import clients
from tests.conftest import operator, signed_in, talk
from tests.engine.endpoint import error, says


def reply(turn: int, text: str, **more: Any) -> ModelReplied:
    figures = {"input_tokens": 900, "output_tokens": 30, "cost_usd": 0.002, "seconds": 2.0, "model": "some/model"}
    return ModelReplied(turn, text, "", (), **{**figures, **more})


def events() -> list[Event]:
    """A conversation with a retry, a fallback to another capability, an unreadable answer, and a second question."""
    first = PromptMessage("user", "Sort <these> topics.", (MediaItem("0" * 64, "image", "image/png", "plan.png", 9),))
    return [
        TurnStarted(1, "none", "json_schema", (first,), "merge-en-0", {"topics": "[]"}),
        SteppedDown("json_schema", "json_object", "400 no schema"),
        Retried(1, "429 busy", 0.5),
        reply(1, "I would rather not."),
        TurnStarted(2, "none", "json_object", (PromptMessage("user", "Answer in JSON."),)),
        reply(2, '{"merged_summary": "Tea"}'),
    ]


def asked(owner: ChatUser, topics: list[Topic], **more: Any) -> AgentCall:
    kept = [{"kind": event.kind, "payload": to_payload(event)} for event in events()]
    figures = {"input_tokens": 1800, "output_tokens": 60, "cost_usd": 0.004, "seconds": 4.0}
    fields = {"agent": "merger", "model": "some/model", "prompt_version": "merge-en-0", "events": kept, **figures}
    return AgentCall.objects.create(owner=owner, topics=[topic.pk for topic in topics], **{**fields, **more})


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    return talk(anna, ("Tea", ["green?", "yes"]), ("More tea", ["black?", "no"]))


@pytest.mark.django_db
class TestOne:
    def test_its_conversation_is_shown_event_by_event(
        self, anna: ChatUser, topics: list[Topic], as_viewer: Client
    ) -> None:
        call = asked(anna, topics)
        page = as_viewer.get(f"/agents/{call.pk}/").content.decode()
        for words in (
            "Sort &lt;these&gt; topics.",
            "plan.png",
            "json_schema",
            "429 busy",
            "I would rather not.",
            "Answer in JSON.",
            "merged_summary",
            f"Topic:{topics[0].pk}",
            "$0.0040",
            "1.9K",
            'href="/prompts/merge/en/0/"',
            "6 / 6",
        ):
            assert words in page, words
        assert "run_media" not in page

    def test_it_is_replayed_step_by_step_without_scripts(self, anna: ChatUser, as_viewer: Client) -> None:
        call = asked(anna, [])
        page = as_viewer.get(f"/agents/{call.pk}/?step=4").content.decode()
        assert "4 / 6" in page
        assert page.count("is-ahead") == 2
        for step in ("", "0", "99", "no"):
            assert as_viewer.get(f"/agents/{call.pk}/?step={step}").status_code == 200

    @pytest.mark.slow
    def test_what_came_of_it_is_listed_and_leads_back(
        self, anna: ChatUser, topics: list[Topic], as_viewer: Client
    ) -> None:
        call = asked(anna, topics)
        plan = curation.plan_merge(anna, [topic.pk for topic in topics])
        curation.swap(anna, plan, kind=TopicEdit.Kind.MERGE, actor="merger", call=call)
        person = Person.objects.create(owner=anna, display_name="Dasha")
        values = {str(person.pk): {"display_name": "Dasha"}}
        KnowledgeEdit.objects.create(
            owner=anna,
            kind="create",
            noun="person",
            actor="archivist",
            before={str(person.pk): None},
            after=values,
            call=call,
        )
        page = as_viewer.get(f"/agents/{call.pk}/").content.decode()
        assert f"Topic:{Topic.objects.of(anna).live().get().pk}" in page
        assert "Dasha" in page
        link = f'href="/agents/{call.pk}/"'
        assert link not in page
        history = as_viewer.get(f"/memory/{anna.pk}/history/?actor=people+and+program").content.decode()
        assert history.count(link) == 2
        assert link in as_viewer.get(f"/topics/{Topic.objects.of(anna).live().get().pk}/").content.decode()


@pytest.mark.django_db
class TestList:
    @pytest.mark.slow
    def test_it_is_narrowed_by_agent_outcome_chat_user_and_topic(
        self, anna: ChatUser, boris: ChatUser, topics: list[Topic], as_admin: Client
    ) -> None:
        numbers = {
            "merger": asked(anna, topics[:1]).pk,
            "failed": asked(anna, [], agent="splitter", outcome="timeout").pk,
            "boris": asked(boris, [], agent="archivist", asked_by="cara").pk,
        }

        def shown(query: str) -> set[str]:
            page = as_admin.get(f"/agents/?{query}").content.decode()
            return {name for name, pk in numbers.items() if f'"/agents/{pk}/"' in page}

        assert shown("") == {"merger", "failed", "boris"}
        assert shown("agent=splitter") == {"failed"}
        assert shown("outcome=answered") == {"merger", "boris"}
        assert shown("outcome=timeout") == shown("outcome=none") == {"failed"}
        assert shown("user=boris") == {"boris"}
        assert shown(f"q=Topic:{topics[0].pk}") == {"merger"}
        assert shown("q=cara") == {"boris"}
        assert shown("q=nothing") == set()
        assert "No question matches" in as_admin.get("/agents/?q=nothing").content.decode()

    @pytest.mark.slow
    def test_it_is_paged_by_key_in_a_few_queries(self, anna: ChatUser, django_assert_max_num_queries: Any) -> None:
        AgentCall.objects.bulk_create(AgentCall(owner=anna, agent="merger", topics=[1, 2]) for _ in range(120))
        client = signed_in(operator("vito", Role.VIEWER, anna))
        with django_assert_max_num_queries(16):
            page = client.get("/agents/").content.decode()
        assert page.count('id="agent-call-') == 50
        oldest = AgentCall.objects.order_by("pk").first()
        assert oldest
        last = client.get(f"/agents/?after={oldest.pk + 20},{oldest.pk + 20}").content.decode()
        assert last.count('id="agent-call-') == 20


class TestTrialOfTheEndpoint:
    def test_the_button_shows_what_the_endpoint_can_do(
        self, as_debugger: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = httpx.MockTransport(lambda _sent: says("hello"))
        settings.LLM_BASE_URL, settings.LLM_API_KEY = "https://models.example/v1", "secret-key-of-the-test"
        monkeypatch.setattr(clients, "http_client", lambda: httpx.AsyncClient(transport=model))
        assert reverse("endpoint_trial") in as_debugger.get("/agents/").content.decode()
        page = as_debugger.post("/agents/endpoint/").content.decode()
        assert "models.example" in page
        assert "The endpoint ignored the forced tool choice." in page
        assert "secret-key-of-the-test" not in page

    def test_a_dead_endpoint_is_a_sentence(
        self, as_debugger: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = httpx.MockTransport(lambda _sent: error(402, "no credit"))
        settings.LLM_BASE_URL = "https://models.example/v1"
        monkeypatch.setattr(clients, "http_client", lambda: httpx.AsyncClient(transport=model))
        assert "no credit" in as_debugger.post("/agents/endpoint/").content.decode()
