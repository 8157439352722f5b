"""An operation needs one module and its value in the registry: a made-up one is offered, made, shown and undone."""

from types import ModuleType
from typing import Any

import pytest
from django.urls import include, path
from django.utils.functional import lazystr
from ninja import Router

from memoryapp import curation
from memoryapp.curation import OPERATIONS, Change, ChangeRequest, CurationError
from memoryapp.curation.operations import register
from memoryapp.curation.operations.operation import (
    MESSAGES,
    BenchButton,
    Endpoint,
    Operation,
    Words,
    live_topics,
    messages_by_topic,
)
from memoryapp.curation.topic_writer import Summarise
from memoryapp.doors.api.curation import add_endpoint
from memoryapp.doors.api.refusals import add_handlers
from memoryapp.doors.api.urls import DescribedAPI
from memoryapp.engine.memory import TopicDraft
from memoryapp.models import ChatUser, Message, Operator, Topic, TopicEdit
from memoryapp.models.topic import OPERATION_KINDS
from tests.conftest import signed_in, talk
from tests.doors.api.curated import changed
from tests.support.api_client import Program, token_for

ENDPOINT = Endpoint(
    verb="scatter",
    method="POST",
    address="/messages/scatter",
    id="scatterMessages",
    about="Give each of the messages a topic of its own.",
    takes=(MESSAGES,),
    body="ScatterBody",
    body_about="The messages.",
    example={"user": "anna", "messages": ["m7"]},
)


def plan_scatter(request: ChangeRequest, summarise: Summarise) -> Change:
    """Each of the messages in a topic of its own, with its text as the summary; what is left stays together."""
    rows = list(Message.objects.of(request.owner).filter(pk__in=request.messages).order_by("pk"))
    if not rows:
        raise CurationError("Say which messages to scatter.")
    topics = live_topics(request.owner, sorted({row.topic_id for row in rows}))
    listed = messages_by_topic(topics)
    rest = {topic: tuple(number for number in listed[topic.pk] if number not in request.messages) for topic in topics}
    kept = [TopicDraft(topic.summary, left) for topic, left in rest.items() if left]
    return Change(tuple(listed), (*kept, *(TopicDraft(row.text, (row.pk,)) for row in rows)))


SCATTER = Operation(
    name="scatter",
    words=Words(
        done=lazystr("scattered"),
        heading=lazystr("Scatter messages"),
        button=lazystr("Scatter now"),
        would=lazystr("%(before)s would be %(after)s."),
        made=lazystr("Scattered %(messages_moved)s"),
    ),
    plan=plan_scatter,
    endpoint=ENDPOINT,
    bench=BenchButton("chosen", lazystr("Scatter"), "scissors"),
)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPERATIONS, SCATTER.name, SCATTER)
    monkeypatch.setitem(OPERATION_KINDS, SCATTER.name, SCATTER.words.done)
    register(SCATTER)


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    return talk(anna, ("Pets", ["A cat?", "Yes", "A dog?"]), ("Tea", ["Which tea?"]))


def messages(topic: Topic) -> list[Message]:
    return list(Message.objects.filter(topic=topic).order_by("pk"))


def summaries(owner: ChatUser) -> list[str]:
    return sorted(Topic.objects.of(owner).live().values_list("summary", flat=True))


def page(answer: Any) -> str:
    return answer.content.decode()


def test_people_see_it_first_make_it_and_take_it_back(anna: ChatUser, curator: Operator, topics: list[Topic]) -> None:
    client, memory = signed_in(curator), f"/memory/{anna.pk}"
    workbench = page(client.get(f"/topics/{topics[0].pk}/"))
    assert 'name="op" value="scatter" data-preview="chosen"' in workbench
    asked = {"op": "scatter", "topics": topics[0].pk, "messages": messages(topics[0])[0].pk}
    preview = page(client.post(f"{memory}/change/", asked))
    assert "Scatter messages" in preview
    assert "1 topic would be 2 topics." in preview
    assert "Scatter now" in preview
    assert summaries(anna) == ["Pets", "Tea"]
    made = client.post(f"{memory}/change/", {**asked, "commit": 1, "reason": "too much"}, follow=True)
    assert "Scattered 1 message" in page(made)
    assert summaries(anna) == ["A cat?", "Pets", "Tea"]
    edit = TopicEdit.objects.get(kind="scatter")
    assert (edit.actor, edit.reason) == (curator.user.username, "too much")
    history = page(client.get(f"{memory}/history/?kind=scatter"))
    assert '<strong class="entry-deed">scattered</strong>' in history
    assert '<option value="scatter" selected>scattered</option>' in history
    client.post(f"{memory}/history/edits/{edit.pk}/", {"commit": 1})
    assert summaries(anna) == ["Pets", "Tea"]


def test_what_it_refuses_is_a_sentence_and_changes_nothing(
    anna: ChatUser, curator: Operator, topics: list[Topic]
) -> None:
    asked = {"op": "scatter", "topics": topics[0].pk, "commit": 1}
    answer = signed_in(curator).post(f"/memory/{anna.pk}/change/", asked)
    assert answer.status_code == 422
    assert "Say which messages to scatter." in page(answer)
    assert summaries(anna) == ["Pets", "Tea"]


@pytest.mark.django_db(transaction=True)
def test_programs_ask_for_it_at_its_address(anna: ChatUser, topics: list[Topic], settings: Any) -> None:
    api, router = DescribedAPI(urls_namespace="made-up"), Router()
    add_handlers(api)
    add_endpoint(router, SCATTER, ENDPOINT)
    api.add_router("", router)
    addresses, endpoints = ModuleType("addresses"), api.urls[0]
    for pattern in endpoints:
        pattern.callback.login_required, pattern.callback.csrf_exempt = False, True
    addresses.urlpatterns = [path("v1/", include((endpoints, "made-up"))), path("", include("rerankui.urls"))]
    settings.ROOT_URLCONF = addresses
    program = Program(token_for(anna, scopes=("curate",)))
    body = {"user": anna.name, "messages": [messages(topics[0])[0].external_id]}
    planned = program.post("/v1/messages/scatter?dry_run=1", body).json()
    assert (planned["edit"], [topic["summary"] for topic in planned["topics"]]) == (None, ["Pets", "A cat?"])
    made = changed(program.post("/v1/messages/scatter", body))
    assert made["retired"] == [f"Topic:{topics[0].pk}"]
    edit = TopicEdit.objects.get(pk=made["edit"])
    assert (edit.kind, edit.actor) == ("scatter", "token a program")
    curation.undo(anna, edit, actor="ada")
    assert summaries(anna) == ["Pets", "Tea"]
