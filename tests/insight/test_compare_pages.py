"""The pages of compared runs, ``GET /v1/compare``, and the lab's form with a question in other words."""

import json
import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.conf import LazySettings
from django.test import AsyncClient, Client
from django.utils import timezone

from memoryapp.curation.effect import runs_that_saw
from memoryapp.doors.api.shapes.runs import ComparisonAnswer
from memoryapp.engine.events import Event
from memoryapp.insight.browsing import usage
from memoryapp.insight.compare.comparison import states_of_runs
from memoryapp.models import AgentCall, ChatUser, Message, Run, Topic
from memoryapp.runs.runner import Runner
from tests.conftest import talk
from tests.curation.test_merge_proposal import proposing
from tests.doors.api.test_api_recall import client, memory, post
from tests.doors.conftest import runner
from tests.runs.stored_events import every_event, found_in, store, store_as_columns

__all__ = ["client", "memory", "runner"]


@pytest.fixture
def events(anna: ChatUser) -> list[Event]:
    topics = talk(anna, ("vLLM crash", ["vLLM dies with OOM", "Lower it"]), ("Cake", ["Which cake?", "Honey"]))
    return every_event(topics[0], topics[1], Message.objects.in_order()[0])


def stored(owner: ChatUser, events: list[Event], query: str = "vllm?") -> Run:
    made = Run.objects.create(owner=owner, query=query, strategy="flash", state=Run.State.FINISHED)
    store(made, events)
    return made


def test_two_runs_are_shown_with_their_first_difference(as_viewer: Client, anna: ChatUser, events: list[Event]) -> None:
    a, b, other = stored(anna, events), stored(anna, events), stored(anna, events, "cake?")
    page = as_viewer.get("/compare/", {"run": [a.pk, b.pk]})
    assert 'data-stage="none"' in page.content.decode()
    page = as_viewer.get("/compare/", {"run": [a.pk, other.pk]})
    assert 'data-stage="query"' in page.content.decode()
    assert f"Topic:{Topic.objects.latest('pk').pk}" in page.content.decode()


def test_a_run_whose_unshown_topics_were_stored_as_columns_is_compared_and_counted_like_others(
    anna: ChatUser, events: list[Event]
) -> None:
    place, found = found_in(events)
    first, second = found.candidates
    events[place] = replace(found, candidates=(first, replace(second, shown=False, line="")))
    a, b = stored(anna, events), stored(anna, events)
    before = states_of_runs(anna.pk, [b.pk])[b.pk]
    store_as_columns(b)
    assert before.ranks.keys() == {first.id, second.id}
    assert states_of_runs(anna.pk, [b.pk])[b.pk] == before
    topic = int(second.id.removeprefix("Topic:"))
    assert {run.id for run in runs_that_saw(anna.pk, [topic])} == {a.pk, b.pk}


def test_more_runs_are_a_matrix_also_while_one_goes_on(as_viewer: Client, anna: ChatUser, events: list[Event]) -> None:
    runs = [stored(anna, events) for _run in range(3)]
    going = Run.objects.create(owner=anna, query="vllm?", strategy="flash")
    for sort in ("", "together", "rank", "id", "nonsense"):
        page = as_viewer.get("/compare/", {"run": [run.pk for run in (*runs, going)], "sort": sort})
        assert 'id="matrix-picture"' in page.content.decode()
        assert "every 2s" in page.content.decode()
    alone = as_viewer.get("/compare/", {"run": [runs[0].pk, going.pk, uuid.uuid4()]})
    assert alone.status_code == 404
    Run.objects.filter(pk=runs[0].pk).update(state=Run.State.RUNNING)
    Run.objects.filter(pk=runs[1].pk).update(state=Run.State.RUNNING)
    page = as_viewer.get("/compare/", {"run": [run.pk for run in runs]})
    assert page.status_code == 200
    assert "every 2s" in page.content.decode()


def test_what_cannot_be_compared_is_refused(
    as_viewer: Client, boris: ChatUser, anna: ChatUser, events: list[Event]
) -> None:
    run, theirs = stored(anna, events), Run.objects.create(owner=boris, query="?", strategy="flash", state="finished")
    assert as_viewer.get("/compare/").status_code == 422
    assert as_viewer.get("/compare/", {"run": [run.pk]}).status_code == 422
    assert as_viewer.get("/compare/", {"run": [run.pk, theirs.pk]}).status_code == 404
    assert as_viewer.get("/compare/", {"run": [run.pk, "x"]}).status_code == 404
    assert as_viewer.get("/compare/", {"run": [run.pk, stored(anna, events).pk]}).status_code == 200


def test_a_run_is_compared_with_its_parent_and_the_last_run_of_the_question_first(
    as_viewer: Client, anna: ChatUser, events: list[Event]
) -> None:
    other, parent, same = stored(anna, events, "cake?"), stored(anna, events), stored(anna, events)
    fork = stored(anna, events)
    Run.objects.filter(pk=fork.pk).update(parent=parent)
    page = as_viewer.get(f"/runs/{fork.pk}/compare/").content.decode()
    places = [page.index(f"run={run.pk}&amp;run={fork.pk}") for run in (parent, same, other)]
    assert places == sorted(places)


def test_a_question_is_asked_in_several_ways(as_debugger: Client, as_viewer: Client, anna: ChatUser) -> None:
    address = f"/memory/{anna.pk}/several/"
    one_way = as_debugger.post(address, {"query": "cake?", "strategies": ["vector"]})
    assert one_way.status_code == 422
    assert as_viewer.post(address, {"query": "cake?", "strategies": ["vector", "filter"]}).status_code == 403
    assert not Run.objects.exists()
    answer = as_debugger.post(address, {"query": "cake?", "strategies": ["vector", "filter"]})
    ids = parse_qs(urlsplit(answer["Location"]).query)["run"]
    assert {run.strategy for run in Run.objects.filter(pk__in=ids)} == {"vector", "filter"}
    models = "\n".join(f"model {n}" for n in range(50))
    too_many = as_debugger.post(address, {"query": "cake?", "strategies": ["flash", "vector"], "models": models})
    assert too_many.status_code == 422
    assert Run.objects.count() == 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
async def test_programs_compare_runs(client: AsyncClient, runner: Runner, boris: ChatUser) -> None:
    first = (await post(client, "/v1/recall", strategy="vector")).json()
    second = (await post(client, "/v1/recall", strategy="vector", parameters={"max_topics": 1})).json()
    ids = [first["run"], second["run"]]
    answer = (await client.get("/v1/compare", {"run": ids})).json()
    ComparisonAnswer.model_validate(answer)
    assert answer["first_divergence"]["stage"] == "choice"
    assert all(set(topic["in"]) == set(ids) for topic in answer["topics"])
    theirs = await Run.objects.acreate(owner=boris, query="?", strategy="vector", state="finished")
    for refused, status in (([ids[0]], 422), ([*ids[:1], str(theirs.pk)], 404), (["x", "y"], 422), ([ids[0]] * 2, 422)):
        assert (await client.get("/v1/compare", {"run": refused})).status_code == status
    assert (await client.get("/v1/compare", {"run": ids})).status_code == 200


# A connected model words a question otherwise; what it wrote stands in the lab's form, for a person to ask.


@pytest.fixture
def run(anna: ChatUser) -> Run:
    topics = talk(anna, ("vLLM crash", ["vLLM dies with OOM", "Lower it"]), ("Cake", ["Which cake?", "Honey"]))
    return stored(anna, every_event(topics[0], topics[1], Message.objects.in_order()[0]))


def wordings(*texts: Any) -> str:
    return json.dumps({"passage": "", "paraphrases": texts})


def asked(client: Client, run: Run, **typed: str) -> dict[str, list[str]]:
    answer = client.post(f"/runs/{run.pk}/lab/paraphrases/", {"times": "2", **typed})
    assert answer.status_code == 302
    assert client.get(answer["Location"]).status_code == 200
    return parse_qs(urlsplit(answer["Location"]).query)


@pytest.mark.django_db(transaction=True)
def test_the_models_wordings_join_those_that_were_typed(
    as_debugger: Client, as_viewer: Client, run: Run, settings: LazySettings
) -> None:
    address = f"/runs/{run.pk}/lab/paraphrases/"
    with proposing(settings) as model:
        model.says = wordings("Why does\nvLLM die?", "  VLLM?  ", 7, "", "Why does vLLM die?", "x" * 900)
        form = asked(as_debugger, run, paraphrases="My own words", kind="same")
        assert form["kind"] == ["same", "paraphrased"]
        lines = form["paraphrases"][0].splitlines()
        assert lines[:2] == ["My own words", "Why does vLLM die?"]
        assert len(lines[2]) <= 500
        assert "vllm?" not in lines
        assert as_viewer.post(address).status_code == 403
        # A model that says nothing of use loses no typed line, and the next try is well.
        model.says = "Sorry."
        assert asked(as_debugger, run, paraphrases="My own words")["paraphrases"] == ["My own words"]
        model.says = wordings("What kills vLLM?")
        assert asked(as_debugger, run)["paraphrases"] == ["What kills vLLM?"]
    calls = AgentCall.objects.filter(agent="paraphraser").order_by("pk")
    assert [call.outcome for call in calls] == ["", "parse_error", ""]
    assert not Run.objects.filter(parent=run).exists()


def test_paraphrases_cost_what_runs_cost_together(anna: ChatUser) -> None:
    Run.objects.create(owner=anna, query="?", strategy="flash", cost_usd=0.5)
    AgentCall.objects.create(owner=anna, agent="paraphraser", cost_usd=0.25)
    everybody, now, zone = ChatUser.objects.all(), timezone.now(), timezone.get_current_timezone()
    assert usage.by_stage(everybody, now - timedelta(days=1))["runs"] == 0.75
    (day,) = usage.by_day(everybody, now=now, zone=zone)
    (owner,) = usage.by_owner(everybody, now=now, zone=zone)
    assert dict(day.named) == dict(owner.named) == {**dict.fromkeys(usage.stages(), 0.0), "runs": 0.75}
