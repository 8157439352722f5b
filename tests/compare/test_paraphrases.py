"""A connected model words a question otherwise; what it wrote stands in the lab's form, for a person to ask."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.conf import LazySettings
from django.test import Client
from django.utils import timezone

from memoryapp.insight.browsing import usage
from memoryapp.models import AgentCall, ChatUser, Message, Run
from tests.compare.test_compare_pages import stored
from tests.conftest import talk
from tests.curation.test_merge_proposal import proposing
from tests.runs.stored_events import every_event


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


def test_without_a_model_nothing_is_lost_and_the_button_is_not_there(as_debugger: Client, run: Run) -> None:
    assert "paraphrases/" not in as_debugger.get(f"/runs/{run.pk}/lab/").content.decode()
    assert asked(as_debugger, run, paraphrases="My own words")["paraphrases"] == ["My own words"]
    assert not AgentCall.objects.exists()
