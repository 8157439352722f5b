"""The whole way with a chat model: reported, why, a better summary that the model writes, kept, fallen back by the
undo."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from memoryapp.models import GoldenQuestion, Miss, Topic
from tests.misses.forgetful import DENTIST, QUESTION, ended, forgetful
from tests.misses.scripted import SUMMARY, ScriptedModel

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def model(settings: Any) -> Iterator[ScriptedModel]:
    made = ScriptedModel()
    settings.LLM_BASE_URL, settings.LLM_API_KEY, settings.LLM_STREAM = made.url, "k", False
    for name in ("LLM_MODEL", "RERANKER_MODEL", "ENRICHER_MODEL", "MERGER_MODEL"):
        setattr(settings, name, "m")
    yield made
    made.stop()


def test_from_the_miss_to_the_summary_that_the_model_writes_and_back(model: ScriptedModel, as_admin: Client) -> None:
    owner = forgetful()
    sent = {"question": QUESTION, "expected": DENTIST}
    address = as_admin.post(f"/memory/{owner.pk}/misses/report/", sent).url
    miss = Miss.objects.select_related("run").get()
    ended(miss.run)
    assert model.asked == ["enrich", "rerank", "rerank"]
    page = as_admin.get(address).content.decode()
    assert "Winter tyres" in page
    assert miss.run
    assert miss.run.fallback == ""
    offers = as_admin.get(f"{address}remedies/").content.decode()
    assert SUMMARY in offers
    assert "A better summary" in offers
    as_admin.get(f"{address}remedies/")
    assert model.asked.count("merge") == 1, "what the model wrote once is not paid for again"
    old = Topic.objects.live().get(summary__startswith="Winter")
    sent = {"do": "repair", "remedy": "summary", "values": json.dumps({"topic": f"Topic:{old.pk}"}), "text": SUMMARY}
    assert as_admin.post(address, {**sent, "keep": "1"}).status_code == 302
    miss = Miss.objects.select_related("again").get()
    assert (miss.state, miss.remedy) == (Miss.State.KEPT, "summary")
    ended(miss.again)
    page = as_admin.get(address).content.decode()
    assert "Asked again: found" in page
    assert GoldenQuestion.objects.get().evidence == miss.evidence
    assert as_admin.post(address, {"do": "undo"}).status_code == 302
    assert Topic.objects.live().get(summary__startswith="Winter").summary == old.summary
    miss.refresh_from_db()
    assert (miss.state, miss.remedy) == (Miss.State.OPEN, "")
