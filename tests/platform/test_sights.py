"""What a limited actor is shown: never a row of another project, whatever statement asks, page or endpoint."""

import re
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, get_resolver

from memoryapp import curation
from memoryapp.curation import ChangeRequest
from memoryapp.engine.sight import limited_to, looking
from memoryapp.migrations._sights import SCHEMA, SIGHTS
from memoryapp.models import ApiToken, ChatUser, Operator, Role, Topic, TopicEdit
from memoryapp.models.user import Owned
from memoryapp.platform.accounts import tokens
from memoryapp.platform.statements import fetched
from tests.conftest import fact_of, operator, signed_in, talk
from tests.doors.api.every_endpoint import asked, endpoints
from tests.platform.every_address import SECRET, WORD, every_row, routes
from tests.support.api_client import EVERY_SCOPE, Program

pytestmark = pytest.mark.django_db

# They hold no words and no counts of a project, or pages and endpoints that are closed to limited actors show them.
WHOLE = {f"memoryapp_{name}" for name in ("access", "media", "pause", "talk")}
LABELLED = ("message", "topic", "fact", "person", "artifact", "run", "importfile", "bulkwork")
# What differs in every answer: tokens of forms, ids of elements, and how long ago something was.
PASSING = re.compile(
    r'csrfmiddlewaretoken" value="[^"]*"|X-CSRFToken": "\w+|/upload/\S*|T\d\d:\d\d:\d\d"|<time[^>]*>[^<]*</time>'
)


def test_every_table_of_memories_has_a_view_with_its_columns() -> None:
    models = [model for model in apps.get_app_config("memoryapp").get_models() if issubclass(model, Owned)]
    assert {model._meta.db_table for model in models} == SIGHTS.keys() | WHOLE
    asked = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = %s"
    views = set(fetched(asked, [SCHEMA]))
    own = {(model._meta.db_table, field.column) for model in models for field in model._meta.local_fields}
    assert views == {pair for pair in own if pair[0] in SIGHTS}


def test_a_sight_holds_for_the_orm_for_sql_and_over_a_rollback(anna: ChatUser) -> None:
    for project in ("", "work", "home"):
        fact_of(anna, project or "common", project=project)
    count = "SELECT count(*) FROM memoryapp_fact"
    with looking(limited_to(["work"])):
        assert {fact.content for fact in anna.fact_set.all()} == {"common", "work"}
        assert fact_of(anna, "mine").project == "work"
        for _again in range(2):
            with pytest.raises(IntegrityError), transaction.atomic():  # noqa: PT012 the transaction is rolled back
                assert fetched(count) == [(3,)]
                fact_of(anna, "work")
            assert fetched(count) == [(3,)]
        with pytest.raises(Exception, match="check option"), transaction.atomic():
            fact_of(anna, "theirs", project="home")
        with looking():
            assert fetched(count) == [(4,)]
        assert connection.in_atomic_block
        with CaptureQueriesContext(connection) as sent, transaction.atomic():
            assert fetched(count) == fetched(count) == [(3,)]
        assert not any("search_path" in query["sql"] for query in sent.captured_queries[3:])
    assert fetched(count) == [(4,)]


@pytest.fixture
def work(anna: ChatUser) -> dict[str, Any]:
    """A memory with something of work and something common."""
    ours, common = talk(anna, ("Sprint of May", ["When is the sprint?", "In May."]), ("Tea", ["Which tea?", "Green."]))
    label(anna, [ours], "work")
    fact_of(anna, "Plans the sprint", project="work")
    return {"ours": Topic.objects.live().get(project="work"), "common": common}


def at_home(anna: ChatUser) -> dict[str, Model]:
    """A row of each noun in the project ``home``, each with words that occur nowhere else."""
    common = {"display_name": anna.display_name, "profile": anna.profile}
    memory = every_row(anna)
    ChatUser.objects.filter(pk=anna.pk).update(**common)
    for name in LABELLED:
        rows = apps.get_model("memoryapp", name)._base_manager.filter(owner=anna, project="")
        if name in ("message", "topic"):
            held = Topic.objects.filter(summary__contains=WORD)
            rows = rows.filter(topic__in=held) if name == "message" else held
        rows.update(project="home")
    User.objects.filter(username="mandy").delete()
    ApiToken.objects.filter(name=WORD).delete()
    return memory


def label(owner: ChatUser, topics: list[Topic], project: str) -> TopicEdit:
    return curation.make(
        ChangeRequest(curation.LABEL, owner, tuple(topic.pk for topic in topics), project=project), actor="ada"
    ).edit


def limited(name: str, role: Role, anna: ChatUser) -> Client:
    made = operator(name, role, anna)
    Operator.objects.filter(pk=made.pk).update(projects=["work"])
    return signed_in(made)


def text_of(answer: Any) -> str:
    return b"".join(answer).decode(errors="replace")


@pytest.mark.slow
@pytest.mark.parametrize("role", [Role.VIEWER, Role.CURATOR])
def test_an_operator_finds_nothing_of_another_project(role: Role, anna: ChatUser, work: dict[str, Any]) -> None:
    client = limited("wanda", role, anna)
    lists = [
        "/" + str(pattern.pattern).replace("<int:owner_id>", str(anna.pk))
        for pattern in get_resolver().url_patterns
        if isinstance(pattern, URLPattern)
        and re.fullmatch(r"(memory/<int:owner_id>/[^<]*|[a-z/]*)", str(pattern.pattern))
    ]
    kept = [f"/memory/{anna.pk}/find/?q={SECRET}", f"/find/?q={WORD}", f"/memory/{anna.pk}/topics/?q={SECRET}"]
    paths = sorted({*lists, *kept} - {"/logout/", "/metrics", "/readyz", "/mcp"})
    before = {path: seen(client, path) for path in paths}
    assert "Sprint of May" in before[f"/memory/{anna.pk}/topics/"]
    memory = at_home(anna)
    for path in paths:
        assert seen(client, path) == before[path], f"{path} tells that there is more"
    for route in routes(memory):
        for method in ("get", "post"):
            answer = getattr(client, method)(route.path)
            text = text_of(answer)
            assert WORD not in text, f"{method} {route.path} tells"
            assert SECRET not in text, f"{method} {route.path} tells"
            assert answer.status_code < 500, route.path
        if route.name == "logout":
            break


def seen(client: Client, path: str) -> str:
    answer = client.get(path)
    return f"{answer.status_code} {PASSING.sub('', text_of(answer))}"


@pytest.mark.slow
def test_a_token_finds_nothing_of_another_project(anna: ChatUser, work: dict[str, Any]) -> None:
    scopes = [ApiToken.Scope(scope) for scope in EVERY_SCOPE]
    program = Program(tokens.make("worker", scopes, [anna], projects=["work"])[1])
    memory = at_home(anna)
    numbers = [memory[name].pk for name in ("topic", "run", "topicedit", "fact", "knowledgeedit")]
    for endpoint in endpoints("anna", *numbers):
        if "agent/stream" in endpoint[1]:
            continue
        text = text_of(asked(program, endpoint))
        assert WORD not in text, endpoint
        assert SECRET not in text.replace(f"“{SECRET}”", "") or endpoint[1].startswith("/v1/facts"), endpoint
