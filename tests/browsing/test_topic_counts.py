"""The list of topics says how often recent runs showed, read, chose and used each of them."""

from __future__ import annotations

import json
from datetime import timedelta

from django.test import Client
from django.utils import timezone

from memoryapp.curation import former, plan_merge, put_in, swap
from memoryapp.insight.browsing.topics import topic_counts, topic_runs
from memoryapp.models import ChatUser, Run, Topic, TopicEdit
from tests.support.browsing import cost, get, grow, rows, run_of, searched, topic_of


def counted(topic: Topic) -> tuple[int, int, int, int]:
    """The same by the page of the topic, which counts in another way."""
    seen = topic_runs(topic, former(topic))
    return seen.candidate, seen.read, seen.chosen, seen.used


def test_a_topic_counts_with_those_from_which_it_came(anna: ChatUser, as_viewer: Client) -> None:
    cake, tea, never = (topic_of(anna, name, [name], day=day) for day, name in enumerate(("Cake", "Tea", "Never")))
    for topic, chose in ((cake, True), (cake, False), (tea, True)):
        searched(run_of(anna, topic, chose=chose), cake, tea)
    Run.objects.filter(events__payload__selected=[{"id": f"Topic:{tea.pk}"}]).update(
        delivered={"uses": [{"id": f"Topic:{tea.pk}"}]}
    )
    [party] = put_in(swap(anna, plan_merge(anna, [cake.pk, tea.pk]), kind=TopicEdit.Kind.MERGE, actor="cora"))
    found = topic_counts(anna.pk, [party.pk, never.pk])
    assert found[party.pk].__class__(3, 3, 2, 1) == found[party.pk]
    assert not found[never.pk]
    assert counted(party) == (3, 3, 2, 1)
    page = get(as_viewer, f"/memory/{anna.pk}/topics/")
    assert page.count("topic-counts") == 1
    for words in ("candidate 3×", "read 3×", "chosen 2×", "used 1×"):
        assert words in page
    assert "topic-counts" not in get(as_viewer, f"/memory/{anna.pk}/topics/?recalled=no")
    assert rows(get(as_viewer, f"/memory/{anna.pk}/topics/?recalled=yes"), "topic") == [party.pk]
    [first, second] = json.loads(as_viewer.get(f"/memory/{anna.pk}/topics/?format=json").content)
    assert (first["candidate"], second["candidate"], second["used"]) == (0, 3, 1)
    assert topic_counts(anna.pk, [party.pk], timezone.now() - timedelta(days=1))[party.pk].candidate == 0


def test_counts_cost_the_same_for_any_list(anna: ChatUser, as_viewer: Client) -> None:
    grow(anna, 3)
    before = cost(as_viewer, f"/memory/{anna.pk}/topics/")
    grow(anna, 20)
    assert cost(as_viewer, f"/memory/{anna.pk}/topics/") == before
