"""Judgements of messages and uses by runs follow the messages to whatever topic holds them now."""

from __future__ import annotations

import pytest
from django.test import Client

from memoryapp import curation
from memoryapp.insight.browsing.topics import topic_runs
from memoryapp.models import ChatUser, Fact, Message, Topic, TopicEdit
from tests.conftest import BEGAN, talk
from tests.support.browsing import cost, get, grow, run_of, topic_of


def noted(topic: Topic, content: str) -> Fact:
    values = {"relation": "likes", "category": "food", "type": "status", "importance": 40, "created_at": BEGAN}
    return Fact.objects.create(owner=topic.owner, topic=topic, content=content, **values)


def edited(topic: Topic, summary: str) -> Topic:
    change = curation.plan_edit(topic.owner, topic.pk, summary)
    return curation.put_in(curation.swap(topic.owner, change, kind="edit", actor="cora"))[0]


def merged(*topics: Topic) -> Topic:
    owner = topics[0].owner
    change = curation.plan_merge(owner, [topic.pk for topic in topics])
    return curation.put_in(curation.swap(owner, change, kind=TopicEdit.Kind.MERGE, actor="cora"))[0]


@pytest.fixture
def cake(anna: ChatUser) -> Topic:
    """A topic with a judgement, read by two runs and chosen by one, and then edited and merged with another topic."""
    [cake, oven] = talk(anna, ("Honey cake", ["Which?", "Honey"]), ("Oven", ["Hot?", "Very"]))
    noted(cake, "Anna bakes with honey")
    run_of(anna, cake), run_of(anna, cake, chose=False)
    return merged(edited(cake, "A cake with honey"), oven)


@pytest.mark.slow
def test_facts_and_runs_are_shown_on_the_topic_that_holds_the_messages_now(cake: Topic, as_viewer: Client) -> None:
    page = get(as_viewer, f"/topics/{cake.pk}/")
    assert "Anna bakes with honey" in page
    assert "read 2×" in page
    assert "chosen 1×" in page


def test_a_retired_topic_shows_what_became_of_it(anna: ChatUser, as_viewer: Client) -> None:
    [cake, oven] = talk(anna, ("Honey cake", ["Which?"]), ("Oven", ["Hot?"]))
    now = merged(cake, oven)
    strip = get(as_viewer, f"/topics/{cake.pk}/").split('class="lineage-strip"')[1].split("</div>")[0]
    assert strip.index(f">Topic:{cake.pk}<") < strip.index("→") < strip.index(f">Topic:{now.pk}<")
    assert "cora merged" in strip


def test_a_fact_leads_to_the_live_topic_and_shows_that_its_origin_is_retired(
    cake: Topic, anna: ChatUser, as_viewer: Client
) -> None:
    fact = Fact.objects.get()
    for address in (f"/memory/{anna.pk}/facts/", f"/memory/{anna.pk}/facts/{fact.pk}/"):
        page = get(as_viewer, address).split("<main")[1]
        assert f'<a class="chip " href="/topics/{cake.pk}/"' in page, address
        assert f'<a class="chip chip-retired" href="/topics/{fact.topic_id}/"' in page, address


def test_a_fact_of_a_live_topic_shows_that_topic_alone(anna: ChatUser, as_viewer: Client) -> None:
    topic = topic_of(anna, "Cake", ["Which?"])
    noted(topic, "Anna bakes")
    page = get(as_viewer, f"/memory/{anna.pk}/facts/")
    assert f'<a class="chip " href="/topics/{topic.pk}/"' in page
    assert "chip-retired" not in page


def test_a_single_message_moved_elsewhere_takes_no_facts_and_no_runs_along(anna: ChatUser) -> None:
    [long, other] = talk(anna, ("Long", [f"message {n}" for n in range(40)]), ("Other", ["a", "b"]))
    run_of(anna, long)
    first = Message.objects.filter(topic=long).in_order()[0].pk
    change = curation.plan_move(anna, [first], other.pk)
    parts = curation.put_in(curation.swap(anna, change, kind="move", actor="cora"))
    sizes = {part.message_count: part for part in parts}
    assert curation.former(sizes[39]) == (long.pk,)
    assert curation.former(sizes[3]) == (other.pk,)
    assert curation.heirs(anna.pk, [long.pk, other.pk]) == {long.pk: (sizes[39].pk,), other.pk: (sizes[3].pk,)}
    assert set(curation.successors(anna.pk, [long.pk])[long.pk]) == {sizes[39].pk, sizes[3].pk}
    assert topic_runs(sizes[39], curation.former(sizes[39])).read == 1
    assert topic_runs(sizes[3], curation.former(sizes[3])).read == 0


def test_what_was_undone_keeps_the_runs_of_both_and_a_retired_topic_only_its_own(cake: Topic, anna: ChatUser) -> None:
    run_of(anna, cake)
    curation.undo(anna, TopicEdit.objects.get(kind="merge"), actor="cora")
    back = Topic.objects.live().get(summary="A cake with honey")
    assert topic_runs(back, curation.former(back)).read == 3
    cake.refresh_from_db()
    assert topic_runs(cake, curation.former(cake)).read == 3
    first = Topic.objects.get(summary="Honey cake")
    assert topic_runs(first, curation.former(first)).read == 2


@pytest.mark.slow
def test_facts_cost_the_same_few_queries_however_many_there_are(anna: ChatUser, as_viewer: Client) -> None:
    grow(anna, 2)
    few = cost(as_viewer, f"/memory/{anna.pk}/facts/")
    grow(anna, 30)
    assert cost(as_viewer, f"/memory/{anna.pk}/facts/") == few
