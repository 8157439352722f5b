"""The recorded runs of the demo: one that chose, one that fell back, one that missed, at their recorded speed."""

from __future__ import annotations

import pytest
from django.test import Client

from memoryapp.engine.events import ModelReplied, RunFinished
from memoryapp.models import ChatUser, Operator, Run
from memoryapp.runs import followers
from memoryapp.upkeep import demo
from memoryapp.upkeep.demo import recorded
from tests.conftest import signed_in
from tests.support.browsing import get

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]


def test_each_memory_has_a_good_run_a_fallback_and_a_miss_that_replay() -> None:
    assert demo.load()
    assert recorded.record_runs() == 6
    for name in ("ada", "anna"):
        owner = ChatUser.objects.get(name=name)
        ends = {(run.fallback, bool(run.selected_count)) for run in Run.objects.of(owner)}
        assert ends == {("", True), ("", False), ("timeout", True)}
        good = Run.objects.of(owner).get(fallback="", selected_count__gt=0)
        events = [item.event for item in followers.stored(good.pk)]
        replies = [event for event in events if isinstance(event, ModelReplied)]
        assert [reply.model for reply in replies] == [recorded.MODEL] * 2
        assert min(reply.seconds for reply in replies) > 1
        assert good.seconds > sum(reply.seconds for reply in replies)
        [finished] = [event for event in events if isinstance(event, RunFinished)]
        statuses = {piece.status for chosen in finished.selected for piece in chosen.excerpt}
        assert statuses == {"exact"}, "every quotation is in a message, word for word"
        times = [item.at for item in followers.stored(good.pk)]
        assert times == sorted(times)
        assert (times[-1] - times[0]).total_seconds() > 4
    client = signed_in(Operator.objects.get())
    page = get(client, "/")
    assert "Ask the memory of Ada Marsh" in page
    assert "How did we get the nightly job back on time?" in page
    assert "dock_id = 0" in page, "the run plays"
    russian = client.get("/", headers={"accept-language": "ru"}).content.decode()
    assert "Спросить память «Анна Ветрова»" in russian or "Анна Ветрова" in russian


def test_the_overview_of_a_memory_without_runs_still_asks(anna: ChatUser, as_admin: Client, as_viewer: Client) -> None:
    page = get(as_admin, "/")
    assert f'action="/memory/{anna.pk}/ask/"' in page
    assert 'href="/memory/new/"' in page
    assert "begin-question" in get(as_viewer, "/")
    assert 'href="/memory/new/"' not in get(as_viewer, "/")
