"""What recalls hand over and cost, on the page of times and costs: share of memory, tokens, dollars, p95."""

from dataclasses import replace

import pytest
from django.urls import reverse

from memoryapp.engine.events import RunFinished
from memoryapp.engine.kinds.kind import ContextPart
from memoryapp.insight.browsing.usage import recall_figures, stage_times
from memoryapp.models import ChatUser, Message, Role, Run, Topic
from tests.conftest import operator, signed_in, talk
from tests.runs.stored_events import every_event, store


def recall(owner: ChatUser, *parts: ContextPart, seconds: float, cost: float) -> None:
    topics = list(Topic.objects.of(owner))
    events = every_event(topics[0], topics[1], Message.objects.in_order()[0])
    ended = [replace(each, context=parts) if isinstance(each, RunFinished) else each for each in events]
    run = Run.objects.create(owner=owner, query="vllm?", strategy="flash")
    store(run, ended)
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED, seconds=seconds, cost_usd=cost)


def test_figures_of_recalls_are_medians_of_contexts_and_means_of_costs(anna: ChatUser) -> None:
    talk(anna, ("vLLM crash", ["x" * 300, "y" * 300]), ("Cake", ["Which cake?", "Honey" * 77]))
    whole = sum(Topic.objects.of(anna).values_list("size_chars", flat=True))
    profile = ContextPart(name="profile", chars=80, tokens=20, items=1, text="p")
    for chars, seconds, cost in ((whole // 10, 1.0, 0.01), (whole // 5, 2.0, 0.03), (whole // 2, 9.0, 0.05)):
        topics = ContextPart(name="topics", chars=chars, tokens=chars // 4, items=1, text="")
        recall(anna, profile, topics, seconds=seconds, cost=cost)
    found = recall_figures(stage_times(Run.objects.select_related("owner")))
    assert found is not None
    assert found.memory_percent == pytest.approx(20, abs=0.2)
    assert found.memory_tokens == whole // 5 // 4
    assert found.context_tokens == whole // 5 // 4 + 20
    assert found.cost_usd == pytest.approx(0.03)
    assert 2 < found.p95_seconds <= 9


def test_the_page_shows_them_and_says_nothing_without_runs(anna: ChatUser) -> None:
    client = signed_in(operator("vera", Role.VIEWER, anna))
    assert "figures-head" not in client.get(reverse("run_times")).content.decode()
    assert recall_figures([]) is None
    talk(anna, ("vLLM crash", ["OOM", "Lower it"]), ("Cake", ["Which cake?", "Honey"]))
    recall(anna, seconds=1.0, cost=0.0)
    page = client.get(reverse("run_times")).content.decode()
    assert "figures-head" in page
    assert "Share of the memory" not in page
