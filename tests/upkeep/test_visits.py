"""A demo for everybody: each page opens without a login, a question is answered, and nothing else is taken."""

import runpy
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.conf import LazySettings
from django.db.models import Model
from django.test import Client
from django.utils import timezone

from memoryapp import settings as module
from memoryapp.models import ChatUser, Run
from memoryapp.platform.environment import SettingError
from memoryapp.platform.statements import fetched
from memoryapp.search import profiles
from memoryapp.upkeep.demo import visits
from tests.platform.every_address import every_row, routes

ASKED = {"query": "Which cake for ten?", "strategies": ["plain"]}
# Asking is what a guest may do; these are written by it alone, and the guest appears with the first visit.
_OWN = ("memoryapp_run", "auth_user", "memoryapp_operator", "memoryapp_access")
_DIGEST = (
    "SELECT md5(string_agg(row, '|' ORDER BY row)) FROM (SELECT (to_jsonb(t) - %s::text[])::text AS row FROM {} t) r"
)
# A lease, which all guests share, and what a sweep finds and adopts if no page was looked at.
_DERIVED = ("held_at", "held_by_id", "stage", "lost", "evidence", "is_serving")
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename !~ 'channels|migrations'"


@pytest.fixture(autouse=True)
def demo(settings: LazySettings) -> None:
    settings.DEMO_READ_ONLY = True
    settings.SESSION_ENGINE = "memoryapp.upkeep.demo.visits"
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "rerankui.web.read_only.ReadOnlyPages"]


@pytest.fixture
def memory(anna: ChatUser) -> dict[str, Model]:
    return every_row(anna)


def contents() -> dict[str, str]:
    """Returns a digest of the rows of each table."""
    tables = [name for (name,) in fetched(_TABLES) if not name.startswith(_OWN)]
    assert len(tables) > 50
    return {name: fetched(_DIGEST.format(name), [list(_DERIVED)])[0][0] for name in tables}


def pages(memory: dict[str, Model]) -> Iterator[str]:
    return (
        route.path for route in routes(memory) if not route.path.startswith(("/v1/", "/mcp", "/admin/", "/metrics"))
    )


def test_a_visitor_looks_at_everything_and_changes_nothing(memory: dict[str, Model]) -> None:
    profiles.configured()
    visitor, before, opened = Client(), contents(), 0
    for path in pages(memory):
        answer = visitor.get(path)
        assert answer.status_code < 500, path
        opened += answer.status_code == 200
        assert visitor.post(path).status_code in {302, 403, 404, 405, 422}, path
        assert visitor.delete(path).status_code in {403, 405}, path
    assert opened > 60
    for path in ("/v1/messages", "/v1/users/anna", "/mcp"):
        assert (
            "nothing is changed here"
            in visitor.post(path, {}, content_type="application/json").json()["error"]["message"]
        )
    assert contents() == before


@pytest.mark.django_db
def test_a_question_is_answered_listed_for_nobody_and_gone_after_an_hour(anna: ChatUser) -> None:
    visitor = Client()
    assert "A demo" in visitor.get("/").content.decode()
    asked = visitor.post(f"/memory/{anna.pk}/ask/", ASKED)
    assert asked.status_code == 302
    run = Run.objects.get()
    assert ASKED["query"] in visitor.get(asked["Location"]).content.decode()
    for path in ("/", "/runs/", f"/memory/{anna.pk}/ask/", f"/memory/{anna.pk}/", "/find/?q=cake"):
        assert str(run.pk) not in visitor.get(path).content.decode(), path
    visits.clear()
    assert Run.objects.exists()
    Run.objects.update(created_at=timezone.now() - timedelta(hours=2))
    visits.clear()
    assert not Run.objects.exists()


@pytest.mark.django_db
def test_many_questions_at_once_are_put_off_in_a_sentence(anna: ChatUser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits, "MOST_A_MINUTE", 1)
    visitor, address = Client(), f"/memory/{anna.pk}/ask/"
    assert visitor.post(address, ASKED).status_code == 302
    refused = visitor.post(address, ASKED)
    assert (refused.status_code, "Try again in a minute" in refused.content.decode()) == (403, True)
    Run.objects.update(created_at=timezone.now() - timedelta(minutes=2))
    assert visitor.post(address, ASKED).status_code == 302


@pytest.mark.parametrize("paid", [{"LLM_API_KEY": "sk-paid"}, {"EMBEDDING_BASE_URL": "https://api.example/v1"}])
def test_a_demo_that_would_cost_money_does_not_start(paid: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"SECRET_KEY": "known-only-to-this-test-and-long-enough", "DATABASE_URL": "postgresql://someone@/memory"}
    monkeypatch.setattr("os.environ", {**known, **paid, "DEMO_READ_ONLY": "true"})
    with pytest.raises(SettingError, match=f"remove {next(iter(paid))}"):
        runpy.run_path(str(module.__file__))
