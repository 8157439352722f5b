"""The API's endpoints: what they refuse and how, which tokens they accept, and that no input breaks them."""

import copy
import json
import re
import uuid
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from memoryapp.curation import knowledge
from memoryapp.doors.api import recall as recall_endpoints
from memoryapp.doors.api import urls
from memoryapp.doors.api.shapes.runs import RecallAnswer
from memoryapp.engine.events import RunFinished, to_payload
from memoryapp.models import ApiToken, ChatUser, Fact, KnowledgeEdit, Operator, Person, Run, RunEvent, Topic, TopicEdit
from memoryapp.platform.accounts import tokens
from tests.conftest import signed_in, talk
from tests.doors.api.curated import chosen_once
from tests.doors.api.every_endpoint import LISTS, MESSAGE, SECRET, asked, endpoints
from tests.examples import examples
from tests.support.api_client import EVERY_SCOPE, Program, error_of, token_for

OPERATIONS = {
    *("addMessages", "moveMessages", "listMessages", "eraseMessage"),
    *("recall", "streamRecall", "answerQuestion", "streamAnswer", "getRun", "listRunEvents", "streamRun"),
    *("completeChat", "listModels", "forkRun", "labelTopics"),
    *("mergeTopics", "splitTopic", "rewriteTopic", "listTopics", "getTopic", "listEdits", "undoEdit", "undoNight"),
    *("listUsers", "listPeople", "listArtifacts", "listFacts", "listImports"),
    *("exportUser", "eraseUser", "eraseNamedUser", "erasePerson"),
}
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def topic(anna: ChatUser) -> Topic:
    return talk(anna, (f"{SECRET} and oboe", [f"Where is my {SECRET}?", "In the hall."]))[0]


@pytest.fixture
def run(anna: ChatUser, topic: Topic) -> Run:
    made = Run.objects.create(owner=anna, query=f"{SECRET}?", strategy="flash", state=Run.State.FINISHED)
    ended = RunFinished((), (), "timeout", SECRET)
    RunEvent.objects.create(owner=anna, run=made, seq=1, kind=ended.kind, at=timezone.now(), payload=to_payload(ended))
    return made


@pytest.mark.slow
def test_without_a_token_every_endpoint_refuses(topic: Topic, run: Run, admin: Operator) -> None:
    for program in (Program(), Program("mnemo_wrong"), Program("")):
        for endpoint in endpoints("anna", topic.pk, run.pk):
            answer = asked(program, endpoint)
            assert error_of(answer)[:2] == (401, "unauthorized"), endpoint
            assert answer["WWW-Authenticate"].startswith("Bearer")
    client = signed_in(admin)
    for method, path, _ in endpoints("anna", topic.pk, run.pk):
        assert getattr(client, method)(path).status_code == 401, "no endpoint accepts a login session"


def test_a_token_is_enough_without_cookies_and_their_checks(anna: ChatUser) -> None:
    program = Program(token_for(anna))
    program.client = Client(enforce_csrf_checks=True)
    answer = program.post("/v1/messages", {"user": "anna", "messages": [MESSAGE]})
    assert answer.json()["added"] == 1
    assert not answer.cookies


@pytest.mark.parametrize("header", ["Basic bW5lbW8=", "Bearer", "bearer  ", "Token x", "\x00"])
def test_a_header_that_is_no_bearer_token_is_refused(header: str, topic: Topic) -> None:
    assert error_of(Client().get(f"/v1/topics/{topic.pk}", headers={"authorization": header}))[0] == 401


@pytest.mark.slow
def test_a_token_for_another_memory_is_answered_as_if_nothing_were_there(
    topic: Topic, run: Run, boris: ChatUser
) -> None:
    program = Program(token_for(boris))
    before = Run.objects.count()
    edit = TopicEdit.objects.get()
    assert [user["name"] for user in program.get("/v1/users").json()["users"]] == ["boris"]
    values = {"content": SECRET, "relation": "user", "category": "music", "type": "context", "importance": 1}
    added = knowledge.create(topic.owner, KnowledgeEdit.Noun.FACT, values, actor="ada")
    facts = {"fact": Fact.objects.get().pk, "change": added.pk}
    theirs = [asked(program, endpoint) for endpoint in endpoints("anna", topic.pk, run.pk, edit.pk, **facts)]
    numbers = (999_999, uuid.uuid4(), 999_999, 999_999, 999_999)
    nowhere = [asked(program, endpoint) for endpoint in endpoints("nobody", *numbers)]
    # The protocol counts spans that are not taken in an answer of 200.
    open_to_all = ("/v1/users", "/v1/models", "/v1/audit", "/v1/otlp/v1/traces")
    for endpoint, answer, empty in zip(endpoints(), theirs, nowhere, strict=True):
        assert answer.status_code == (200 if endpoint[1] in open_to_all else 404), endpoint
        assert answer.content == empty.content, endpoint
        assert SECRET not in answer.content.decode(), endpoint
    assert Run.objects.count() == before
    assert set(ChatUser.objects.values_list("name", flat=True)) == {"anna", "boris"}


@pytest.mark.slow
def test_each_endpoint_requires_its_scope(anna: ChatUser, topic: Topic, run: Run) -> None:
    needed = {
        ("post", "/v1/messages"): {"ingest"},
        ("post", "/v1/otlp/v1/traces"): {"ingest"},
        ("post", "/v1/sessions/close"): {"ingest"},
        ("get", "/v1/sessions/closed?user=anna&first=1&last=2"): {"ingest"},
        ("get", "/v1/erasures/1"): {"curate", "forget"},
        ("delete", "/v1/messages/m0?user=anna"): {"forget"},
        ("post", "/v1/recall"): {"recall"},
        ("post", "/v1/recall/stream"): {"recall"},
        ("post", "/v1/qa"): {"recall"},
        ("post", "/v1/agent/stream"): {"recall"},
        ("post", "/v1/chat/completions"): {"recall"},
        ("get", "/v1/models"): {"recall"},
        ("get", "/v1/audit"): {"audit"},
        ("get", "/v1/runs?user=anna"): {"read", "recall"},
        ("get", f"/v1/runs/{run.pk}"): {"read", "recall"},
        ("post", f"/v1/runs/{run.pk}/fork"): {"recall"},
        ("post", f"/v1/runs/{run.pk}/answer"): {"recall"},
        ("get", f"/v1/runs/{run.pk}/why_not?topic={topic.pk}"): {"read"},
        ("get", f"/v1/compare?run={run.pk}&run={UUID(int=1)}"): {"read"},
        ("get", f"/v1/runs/{run.pk}/capsule?format=json"): {"read"},
        ("get", f"/v1/runs/{run.pk}/events"): {"read", "recall"},
        ("get", f"/v1/runs/{run.pk}/stream"): {"read", "recall"},
        ("put", "/v1/items"): {"ingest"},
        **{("post", f"/v1/items/{what}"): {"read", "recall"} for what in ("read", "search", "namespaces")},
        ("post", "/v1/misses"): {"recall", "curate"},
        ("get", "/v1/misses?user=anna"): {"read", "curate"},
        ("get", "/v1/misses/days?user=anna"): {"read", "curate"},
        ("get", "/v1/misses/1"): {"read", "curate"},
        ("get", "/v1/expiry?user=anna"): {"read"},
        ("post", "/v1/expiry/rehearsal"): {"read"},
        ("post", "/v1/expiry/batches/1/keep"): {"curate", "forget"},
        ("get", "/v1/users"): {"read"},
        **{("get", f"/v1/users/anna/{noun}"): {"read"} for noun in LISTS},
        ("get", f"/v1/topics/{topic.pk}"): {"read"},
        ("get", f"/v1/topics/{topic.pk}/blame"): {"read"},
    }
    for endpoint in endpoints("anna", topic.pk, run.pk):
        opening = needed.get(endpoint[:2], {"curate"})
        lacking = tuple(scope for scope in EVERY_SCOPE if scope not in opening)
        status, code, sentence = error_of(asked(Program(token_for(anna, scopes=lacking)), endpoint))
        assert (status, code) == (403, "forbidden"), endpoint
        assert "it needs the scope" in sentence


def test_a_token_that_may_curate_every_memory_lists_them_and_one_for_some_does_not(
    anna: ChatUser, topic: Topic
) -> None:
    of_all, of_anna = (Program(token_for(*owners, scopes=("curate",))) for owners in ((), (anna,)))
    for path in ("/v1/users", *(f"/v1/users/anna/{noun}" for noun in LISTS if noun != "topics")):
        assert of_all.get(path).status_code == 200, path
        assert error_of(of_anna.get(path))[0] == 403, path


# They execute runs, need a model, or are no JSON; `test_api_recall`, `_chat`, `_items` and `test_miss_door` ask them.
EXECUTING = re.compile(r"/(recall|qa|agent|chat|fork|stream|items|close|export)\b|/misses$")


@pytest.mark.slow
def test_every_answer_has_its_shape_and_nothing_beside_it(admin: Operator) -> None:
    owner = ChatUser.objects.create(name="команда/анна", display_name="Анна")
    topics = talk(owner, ("Tea", ["Which tea?", "Green."]), ("Cats", ["How many?", "Three."]))
    run, other = (chosen_once(owner, each) for each in topics)
    Person.objects.create(owner=owner, display_name="Dasha", aliases=["D"])
    values = {"content": SECRET, "relation": "user", "category": "music", "type": "context", "importance": 1}
    change = knowledge.create(owner, KnowledgeEdit.Noun.FACT, values, actor="ada")
    numbers = {"fact": Fact.objects.get().pk, "change": change.pk, "edit": TopicEdit.objects.latest("pk").pk}
    asked_for = endpoints(owner.name, topics[0].pk, run.pk, **numbers)
    answered, program = set(), Program(token_for())
    order = ("get", "post", "put", "patch", "delete")
    for method, path, body in sorted(
        asked_for, key=lambda each: (order.index(each[0]), each[0] == "delete" and -len(each[1]), each[1])
    ):
        if EXECUTING.search(path):
            continue
        path = path.replace(str(UUID(int=1)), str(other.pk))
        answer = asked(program, (method, path, body))
        if answer.status_code == 200 and answer["Content-Type"] == "application/json":
            operation = shape_of(method, path, answer.json())
            answered.add(operation)
    lists = {f"list{noun}" for noun in ("Topics", "Messages", "People", "Artifacts", "Facts", "Imports", "Users")}
    assert answered >= lists | {"listRuns", "listDecisions", "listEdits", "listModels", "getRun", "getTopic", "whyNot"}
    assert answered >= {"blameTopic", "compareRuns", "getRunCapsule", "deliverAnswer", "addMessages", "changeFact"}
    assert answered >= {"decideRecall", "moveMessages", "eraseNamedUser"}


def shape_of(method: str, path: str, value: Any) -> str:
    """The operation at an address, whose description the value fulfils, with no property that it lacks."""
    # A name contains slashes, so the more particular address goes first.
    for template, methods in sorted(strict_document()["paths"].items(), key=lambda each: -len(each[0])):
        if method in methods and re.fullmatch(re.sub(r"\{\w+\}", ".+", template), path.partition("?")[0]):
            described = methods[method]
            schema = described["responses"][200]["content"]["application/json"]["schema"]
            validator = Draft202012Validator({**schema, "components": strict_document()["components"]})
            assert [error.message for error in validator.iter_errors(value)] == [], (method, path)
            return str(described["operationId"])
    raise AssertionError(path)


@cache
def strict_document() -> Any:
    document = copy.deepcopy(urls.api.get_openapi_schema(path_prefix="/v1/"))
    for shape in _objects(document["components"]):
        shape.setdefault("additionalProperties", False)
    return document


def test_runs_are_listed_by_user_outcome_and_day_page_by_page(anna: ChatUser, boris: ChatUser, run: Run) -> None:
    chosen = chosen_once(anna, Topic.objects.get())
    foreign = Run.objects.create(owner=anna, query="x", strategy="foreign", origin="other")
    theirs = Run.objects.create(owner=boris, query="x", strategy="flash")
    mine = Program(token_for(anna, scopes=("recall",)))
    program = Program(token_for(anna))

    def listed(query: str, of: Program = program) -> list[str]:
        return [each["run"] for each in of.get(f"/v1/runs?{query}").json()["runs"]]

    assert listed("") == listed("user=anna") == [str(chosen.pk), str(run.pk)]
    assert listed("", mine) == []
    Run.objects.filter(pk=run.pk).update(token=ApiToken.objects.earliest("pk"), fallback="timeout")
    assert listed("", mine) == [str(run.pk)]
    assert (listed("outcome=timeout"), listed("outcome=chosen")) == ([str(run.pk)], [str(chosen.pk)])
    assert listed("outcome=none") == []
    first = program.get("/v1/runs?limit=1").json()
    assert listed(f"before={first['next']}") == [str(run.pk)]
    Run.objects.filter(pk=run.pk).update(created_at=timezone.now() - timedelta(days=3))
    assert listed(f"before={(timezone.now() - timedelta(days=1)):%Y-%m-%d}") == [str(run.pk)]
    for wrong, status in (
        (f"before={theirs.pk}", 404),
        ("before=yesterday", 422),
        ("user=boris", 404),
        ("limit=201", 422),
    ):
        assert error_of(program.get(f"/v1/runs?{wrong}"))[0] == status
    assert str(foreign.pk) not in listed("", Program(token_for()))


def test_a_token_that_may_only_recall_sees_the_runs_it_asked_for(anna: ChatUser, run: Run) -> None:
    program = Program(token_for(anna, scopes=("recall",)))
    assert program.get(f"/v1/runs/{run.pk}").status_code == 404
    Run.objects.update(token=ApiToken.objects.get())
    assert program.get(f"/v1/runs/{run.pk}").status_code == 200


def test_a_revoked_token_is_shut_out_at_once(anna: ChatUser, topic: Topic, program: Program) -> None:
    assert program.get(f"/v1/topics/{topic.pk}").status_code == 200
    tokens.revoke(ApiToken.objects.all())
    assert program.get(f"/v1/topics/{topic.pk}").status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("get", "/v1/", 404, "not_found"),
        ("get", "/v1/nothing", 404, "not_found"),
        ("post", "/v1/runs/not-a-uuid", 404, "not_found"),
        ("delete", "/v1/messages", 405, "method_not_allowed"),
        ("get", "/v1/recall", 405, "method_not_allowed"),
        ("post", "/v1/openapi.json/x", 404, "not_found"),
    ],
)
def test_what_is_no_endpoint_is_refused_in_the_same_shape(
    method: str, path: str, status: int, code: str, program: Program
) -> None:
    answer = program.ask(method, path, b"", **{"accept-language": "ru"})
    assert error_of(answer)[:2] == (status, code)
    assert answer["Content-Language"] == "en"
    assert "Allow" in answer or status != 405


def test_a_token_over_its_limit_receives_the_time_of_the_next_try(anna: ChatUser, topic: Topic, settings: Any) -> None:
    settings.API_RATE = (2, 3600.0)
    program, other = Program(token_for(anna)), Program(token_for(anna))
    statuses = [program.get(f"/v1/topics/{topic.pk}").status_code for _ in range(2)]
    refused = program.get(f"/v1/topics/{topic.pk}")
    assert statuses == [200, 200]
    assert error_of(refused)[:2] == (429, "too_many_requests")
    assert 1 <= int(refused["Retry-After"]) <= 3601
    assert other.get(f"/v1/topics/{topic.pk}").status_code == 200


def test_a_token_has_only_so_many_runs_in_flight(anna: ChatUser, program: Program, settings: Any) -> None:
    settings.API_MAX_RUNS = 1
    Run.objects.create(owner=anna, query="x", strategy="flash", token=ApiToken.objects.get())
    answer = program.post("/v1/recall", {"user": "anna", "query": "x"})
    assert error_of(answer)[:2] == (429, "too_many_requests")
    assert answer["Retry-After"]
    assert Run.objects.count() == 1


@pytest.mark.slow
def test_an_unreachable_database_is_reported_with_the_time_of_the_next_try(
    topic: Topic, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(text: str) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(tokens, "check", away)
    for endpoint in endpoints("anna", topic.pk):
        answer = asked(program, endpoint)
        assert error_of(answer)[:2] == (503, "unavailable")
        assert answer["Retry-After"]


@pytest.mark.slow
def test_the_description_is_made_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    first = client.get("/v1/openapi.json").json()
    monkeypatch.delattr(urls, "get_schema")
    assert client.get("/v1/openapi.json").json() == first


@pytest.mark.slow
def test_the_description_is_valid_and_its_operations_keep_their_names(client: Client) -> None:
    """Generated clients have a method for each name, so none may change; new ones are added here."""
    document = client.get("/v1/openapi.json").json()
    OpenAPIV31SpecValidator(document).validate()
    endpoints = [endpoint for methods in document["paths"].values() for endpoint in methods.values()]
    assert {endpoint["operationId"] for endpoint in endpoints} >= OPERATIONS
    assert all(re.fullmatch(r"[a-z]+(?:[A-Z][a-z]+)*", endpoint["operationId"]) for endpoint in endpoints)
    assert all(" " in endpoint["summary"] for endpoint in endpoints)


@pytest.mark.slow
def test_the_description_is_complete(client: Client) -> None:
    document = client.get("/v1/openapi.json").json()
    assert document["servers"] == [{"url": "/", "description": "the server of this description"}]
    assert [shape for shape in _objects(document["components"]) if _defaulted(shape)] == [], "generators demand them"
    assert list(document["components"]["securitySchemes"].values()) == [{"type": "http", "scheme": "bearer"}]
    for path, methods in document["paths"].items():
        for method, endpoint in methods.items():
            assert endpoint["security"], path
            assert endpoint["description"], path
            assert "content" in endpoint["responses"]["200"], path
            if "202" in endpoint["responses"]:
                assert endpoint["responses"]["202"]["headers"].keys() == {"Location", "Retry-After"}, path
            refusals = endpoint["responses"].keys() - {"200", "202"}
            assert refusals >= {"401", "403", "429", "503"}, path
            for status in refusals:
                refused = endpoint["responses"][status]["content"]["application/json"]["schema"]["$ref"]
                assert refused.endswith("ErrorAnswer"), (path, status)
                assert (status in {"429", "502", "503"}) == ("headers" in endpoint["responses"][status]), (path, status)
            if "text/event-stream" in endpoint["responses"]["200"]["content"]:
                assert "Content-Location" in endpoint["responses"]["200"]["headers"], path
            if method not in {"get", "delete"}:
                assert "example" in json.dumps(_shape(document, endpoint["requestBody"])), path
    assert {"stale", "too_large"} < set(document["components"]["schemas"]["Fault"]["properties"]["code"]["enum"])
    for reference in _references(document):
        assert reference.removeprefix("#/components/schemas/") in document["components"]["schemas"], reference


def _shape(document: Any, body: Any) -> Any:
    asked = body["content"]["application/json"]["schema"]
    # A body that may be left out.
    named = asked if "$ref" in asked else asked["allOf"][0]
    return document["components"]["schemas"][named["$ref"].rpartition("/")[2]]


def _objects(value: Any) -> list[Any]:
    """Every schema of an object, wherever it stands."""
    own = [value] if isinstance(value, dict) and isinstance(value.get("properties"), dict) else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return own + [found for item in inner for found in _objects(item)]


def _defaulted(shape: Any) -> list[str]:
    return [name for name, schema in shape["properties"].items() if "default" in schema]


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [found for item in value.values() for found in _references(item)]
    return [found for item in value for found in _references(item)] if isinstance(value, list) else []


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)
message_bodies = st.fixed_dictionaries(
    {},
    optional={
        "id": st.text(max_size=5) | anything,
        "role": st.sampled_from(["user", "assistant"]) | anything,
        "author": anything,
        "ts": st.sampled_from(["2026-03-02T09:00:00Z", 10**20, -1, "0001-01-01T00:00:00+23:00"]) | anything,
        "text": st.text(st.characters(), max_size=20) | anything,
        "session": anything,
        "reply_to": anything,
        "forwarded_from": anything,
        "attachments": anything,
        "more": anything,
    },
)
part = st.fixed_dictionaries(
    {"type": st.sampled_from(["image_url", "input_audio", "file"]) | anything},
    optional={
        "image_url": st.fixed_dictionaries({"url": st.just("data:image/png;base64,aaaa") | anything}) | anything,
        "input_audio": st.fixed_dictionaries({"data": st.just("aaaa") | anything, "format": anything}) | anything,
        "file": st.fixed_dictionaries({"filename": anything, "file_data": st.just("data:a/b;base64,aaaa") | anything}),
    },
)
body = st.fixed_dictionaries(
    {},
    optional={
        "user": st.sampled_from(["anna", "new"]) | st.text(st.characters(), max_size=10) | anything,
        "query": st.text(st.characters(), min_size=1, max_size=20) | anything,
        "messages": st.lists(message_bodies | anything, max_size=3) | anything,
        "media": st.lists(part, max_size=2) | anything,
        "strategy": st.sampled_from(["flash", "vector"]) | anything,
        "parameters": st.dictionaries(
            st.sampled_from(["seconds", "max_topics", "tool_mode", "since", "author"]), anything
        )
        | anything,
        "other": anything,
    },
)
bodies = st.one_of(
    body.map(lambda value: json.dumps(value).encode()),
    anything.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=30),
)
words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20) | st.integers().map(str)


@pytest.fixture
def unexecuted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Runs are created and stay pending, because these tests do not check their ends."""

    async def nothing_yet(run: Run, include: list[str]) -> RecallAnswer:
        return RecallAnswer.model_construct()

    monkeypatch.setattr(recall_endpoints, "_at_end", nothing_yet)
    return lambda: Run.objects.all().delete() and None


@pytest.fixture
def tireless(anna: ChatUser, settings: Any) -> Program:
    """A program with every permission and without a limit of requests."""
    settings.API_RATE = (1_000_000, 60.0)
    return Program(token_for())


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=bodies, path=st.sampled_from(["/v1/messages", "/v1/recall"]))
def test_no_body_whatever_breaks_an_endpoint(
    content: bytes, path: str, tireless: Program, unexecuted: Callable[[], None]
) -> None:
    unexecuted()
    answer = tireless.post(path, content)
    assert answer.status_code == 200 or error_of(answer)[0] in {400, 404, 413, 422}, answer.content


@pytest.mark.slow
@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(word=words, after=words)
def test_no_address_whatever_breaks_an_endpoint(word: str, after: str, topic: Topic, tireless: Program) -> None:
    for path in (
        f"/v1/users/{quote(word)}/topics",
        f"/v1/users/anna/topics?after={quote(after)}",
        f"/v1/topics/{quote(word)}",
        f"/v1/runs/{quote(word)}",
    ):
        answer = tireless.get(path)
        assert answer.status_code == 200 or error_of(answer)[0] in {400, 404, 422}, (path, answer.content)
