"""Pages of an earlier moment: what they show and refuse, and which links lead on to the same moment."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.test import Client
from django.utils import timezone

from memoryapp.curation import knowledge, plan_edit, plan_merge, put_in, swap
from memoryapp.models import ChatUser, Fact, Person, Run, Topic, TopicEdit
from rerankui.web.moment import PastMoment, kept, kept_in, written
from tests.examples import table
from tests.support.browsing import cost, flat, get, grow, message_of, rows, topic_of

PERSON = {"aliases": [], "username": "", "circle": "Friends", "bio": ""}


def ago(days: float) -> datetime:
    return timezone.now() - timedelta(days=days)


@contextmanager
def clock_at(days: float) -> Iterator[None]:
    """Makes what is changed meanwhile so many days old."""
    with patch("django.utils.timezone.now", return_value=ago(days)):
        yield


def at(moment: datetime) -> str:
    return f"as_of={written(moment)}"


@pytest.fixture
def merged(anna: ChatUser) -> tuple[Topic, Topic, Topic]:
    """Two topics of a month ago, merged ten days ago into the third."""
    with clock_at(30):
        cake, tea = topic_of(anna, "Honey cake", ["Which?", "Medovik"]), topic_of(anna, "Green tea", ["Sencha"], day=1)
    plan = plan_merge(anna, [cake.pk, tea.pk])
    with clock_at(10):
        edit = swap(anna, plan, kind=TopicEdit.Kind.MERGE, actor="cora", reason="one party")
    [party] = put_in(edit)
    return cake, tea, party


def test_topics_are_those_of_the_moment(anna: ChatUser, merged: tuple[Topic, Topic, Topic], as_admin: Client) -> None:
    cake, tea, party = merged
    address = f"/memory/{anna.pk}/topics/"
    assert rows(get(as_admin, address), "topic") == [party.pk]
    then = get(as_admin, f"{address}?{at(ago(20))}")
    assert rows(then, "topic") == [tea.pk, cake.pk]
    assert "past-rule" in then
    assert "Back to now" in then
    assert "tag-dropped" not in then.split("<main")[1]
    assert rows(get(as_admin, f"{address}?{at(ago(5))}"), "topic") == [party.pk]
    assert rows(get(as_admin, f"{address}?{at(ago(5))}&state=retired"), "topic") == [tea.pk, cake.pk]
    before = get(as_admin, f"{address}?{at(ago(60))}")
    assert "No topics then" in before
    assert "The first topics of this memory were made on" in before
    assert f'href="/memory/{anna.pk}/recall/?until={ago(60):%Y-%m-%d}&amp;as_of="' in before
    assert "The first topics of this memory were made on" not in then
    listed = json.loads(as_admin.get(f"{address}?{at(ago(20))}&format=json").content)
    assert [row["id"] for row in listed] == [tea.pk, cake.pk]
    assert "live" not in listed[0], "it would say what is live today"


def test_a_topic_that_was_not_live_then_says_where_its_messages_were(
    anna: ChatUser, merged: tuple[Topic, Topic, Topic], as_admin: Client
) -> None:
    cake, tea, party = merged
    early = as_admin.get(f"/topics/{party.pk}/?{at(ago(20))}")
    assert early.status_code == 404
    page = flat(early.content.decode())
    assert f"Topic:{party.pk} was not in the memory then" in page
    assert f"/topics/{cake.pk}/?as_of=" in page
    assert f"/topics/{tea.pk}/?as_of=" in page
    late = flat(as_admin.get(f"/topics/{cake.pk}/?{at(ago(5))}").content.decode())
    assert f"Topic:{cake.pk} had been replaced by then" in late
    assert f"/topics/{party.pk}/" in late
    was = get(as_admin, f"/topics/{cake.pk}/?{at(ago(20))}")
    assert "Medovik" in was
    assert "one party" not in was, "the merge came later"
    assert "Edit the summary" not in was
    assert "Merge with" not in was
    assert "merged" in get(as_admin, f"/topics/{party.pk}/?{at(ago(5))}")


def test_every_link_of_the_memory_leads_on_to_the_moment_and_one_leads_back(
    anna: ChatUser, merged: tuple[Topic, Topic, Topic], as_admin: Client
) -> None:
    moment = at(ago(20))
    page = get(as_admin, f"/memory/{anna.pk}/topics/?{moment}&q=tea")
    links = re.findall(r'(?:href|data-peek|formaction)="(/(?:memory|topics|runs)/[^"]*)"', page)
    assert len(links) > 15
    lost = [link for link in links if "as_of=" not in link]
    assert lost == []
    assert f'/memory/{anna.pk}/messages/?{moment}#latest"' in page
    [back] = re.findall(r'href="([^"]*as_of=)">', page.split("past-rule")[1])
    now = as_admin.get(back.replace("&amp;", "&"))
    assert now.status_code == 302
    assert now["Location"] == f"/memory/{anna.pk}/topics/?q=tea"
    form = page.split('class="toolbar"')[1].split("</form>")[0]
    assert f'name="as_of" value="{moment.removeprefix("as_of=")}"' in form, "a search stays in that moment"


def test_a_day_becomes_one_moment_for_every_reader_and_nonsense_is_named(anna: ChatUser, as_viewer: Client) -> None:
    address = f"/memory/{anna.pk}/topics/"
    answer = as_viewer.get(f"{address}?as_of=2026-03-02&q=tea")
    assert answer["Location"] == f"{address}?q=tea&as_of=2026-03-02T23:59:59.999999Z"
    for text in ("soon", "2026-13-40", "9" * 400, "<b>"):
        page = get(as_viewer, f"{address}?as_of={text}")
        assert "is no day such as" in page
        assert "past-rule" not in page
    assert "<b>” is" not in page


def test_nothing_is_changed_from_the_past(anna: ChatUser, merged: tuple[Topic, Topic, Topic], as_admin: Client) -> None:
    moment = at(ago(20))
    party = merged[2]
    for address in (f"/memory/{anna.pk}/change/", f"/memory/{anna.pk}/facts/add/", f"/memory/{anna.pk}/work/"):
        answer = as_admin.post(f"{address}?{moment}", {"op": "edit", "topics": party.pk, "summary": "x"})
        assert answer.status_code == 403, address
        assert "Go back to now" in answer.content.decode()
        assert "Not while you look at the past" in answer.content.decode()
    refused = as_admin.get(f"/memory/{anna.pk}/people/add/?{moment}")
    assert refused.status_code == 403
    assert "Not while you look at the past" in refused.content.decode()
    assert "Go back to now" in refused.content.decode()
    assert "This page cannot show the past" in get(as_admin, f"/memory/{anna.pk}/inbox/?{moment}")
    plain = as_admin.post(f"/memory/{anna.pk}/change/", {"op": "edit", "topics": party.pk, "summary": "x", "commit": 1})
    assert plain.status_code == 302, "without the moment it is changed as ever"


def test_people_and_facts_are_as_they_were_known(anna: ChatUser, as_admin: Client) -> None:
    values: dict[str, Any] = {"relation": "home", "category": "c", "type": "identity", "importance": 90}
    with clock_at(30):
        made = knowledge.create(anna, "person", {**PERSON, "display_name": "Vera"}, actor="cora")
        noted = knowledge.create(anna, "fact", {**values, "content": "lives in Riga"}, actor="cora")
    person = Person.objects.get(pk=knowledge.number_made(made))
    fact = Fact.objects.get(pk=knowledge.number_made(noted))
    knowledge.edit(anna, fact, {"content": "lives in Oslo"}, actor="cora")
    knowledge.edit(anna, person, {"display_name": "Vera Petrova"}, actor="cora")
    knowledge.create(anna, "person", {**PERSON, "display_name": "Zoe"}, actor="cora")
    knowledge.delete(anna, Person.objects.get(pk=person.pk), actor="cora")
    moment = at(ago(20))
    people = get(as_admin, f"/memory/{anna.pk}/people/?{moment}&sort=name")
    assert rows(people, "person") == [person.pk]
    assert "Petrova" not in people
    assert "Vera" in get(as_admin, f"/memory/{anna.pk}/people/{person.pk}/?{moment}"), "also one deleted since"
    facts = get(as_admin, f"/memory/{anna.pk}/facts/?{moment}&q=riga")
    assert rows(facts, "fact") == [fact.pk]
    assert "lives in Riga" in get(as_admin, f"/memory/{anna.pk}/facts/{fact.pk}/?{moment}")
    assert rows(get(as_admin, f"/memory/{anna.pk}/facts/?{at(ago(40))}"), "fact") == []
    glance = get(as_admin, f"/memory/{anna.pk}/?{moment}")
    assert "lives in Riga" in glance
    assert "Zoe" not in glance
    assert "Vera" in get(as_admin, f"/find/?{moment}&q=vera")
    assert as_admin.get(f"/memory/{anna.pk}/people/{person.pk}/?{at(ago(40))}").status_code == 404


def test_decisions_on_recall_are_those_of_the_moment(anna: ChatUser, as_admin: Client) -> None:
    with clock_at(30):
        cake = topic_of(anna, "Honey cake", ["Which?"])
    with clock_at(10):
        knowledge.decide_recall(anna, cake, "pinned", actor="cora")
    cake.refresh_from_db()
    knowledge.decide_recall(anna, cake, "never", actor="cora")
    pages = {days: get(as_admin, f"/topics/{cake.pk}/?{at(ago(days))}") for days in (20, 5)}
    assert "pinned" not in pages[20]
    assert "never recalled" not in pages[20]
    assert "pinned" in pages[5]
    assert "never recalled" not in pages[5]


def test_messages_are_those_that_were_in_under_the_topics_of_then(
    anna: ChatUser, merged: tuple[Topic, Topic, Topic], as_admin: Client
) -> None:
    cake, _tea, party = merged
    late = message_of(anna, "A new day")
    late.sent_at = ago(3)
    late.save()
    address = f"/memory/{anna.pk}/messages/"
    then = get(as_admin, f"{address}?{at(ago(20))}")
    assert "Medovik" in then
    assert "A new day" not in then
    assert f"Topic:{cake.pk}" in then
    assert f"Topic:{party.pk}" not in then
    assert "A new day" in get(as_admin, f"{address}?{at(ago(1))}")
    waiting = get(as_admin, f"{address}?{at(ago(1))}&place=active")
    assert "A new day" in waiting
    assert "Medovik" not in waiting
    before = get(as_admin, f"{address}?{at(ago(31))}&place=active")
    assert "Medovik" in before, "they had been sent, and were in no topic yet"


@pytest.mark.parametrize("page", ["topics/", "people/", "facts/", "artifacts/", "messages/", ""])
def test_a_page_of_the_past_costs_as_many_queries_however_large_the_memory(
    anna: ChatUser, as_admin: Client, page: str
) -> None:
    grow(anna, 3)
    for number, topic in enumerate(Topic.objects.of(anna)):
        swap(anna, plan_edit(anna, topic.pk, f"Later {number}"), kind="edit", actor="cora")
    address = f"/memory/{anna.pk}/{page}?as_of={written(ago(0))}"
    before = cost(as_admin, address)
    grow(anna, 12)
    assert cost(as_admin, f"/memory/{anna.pk}/{page}?as_of={written(ago(0))}") == before


def test_a_question_searches_the_memory_of_the_moment(
    anna: ChatUser, merged: tuple[Topic, Topic, Topic], as_admin: Client
) -> None:
    moment = at(ago(20))
    sent = as_admin.post(f"/memory/{anna.pk}/recall/?{moment}", {"query": "cake?", "strategy": "vector"})
    run = Run.objects.get()
    assert sent["Location"] == f"/runs/{run.pk}/?{moment}"
    assert written(datetime.fromisoformat(run.changes["as_of"])) == moment.removeprefix("as_of=")
    assert run.messages == [], "nobody had said then what is said now"
    assert "memory of" in get(as_admin, f"/runs/{run.pk}/")
    page = get(as_admin, f"/memory/{anna.pk}/ask/?{moment}")
    assert "2 topics are searched" in page
    assert "search the memory of today only" in page
    for address, fields in (("ask", {"strategies": ["vector", "plain"]}), ("recall", {"strategy": "plain"})):
        refused = as_admin.post(f"/memory/{anna.pk}/{address}/?{moment}", {"query": "cake?", **fields})
        assert refused.status_code == 422
        assert "search the memory of today only" in refused.content.decode()
    assert Run.objects.count() == 1, "none of several is started when one is refused"


def test_a_change_leads_to_the_memory_before_and_after_it(
    anna: ChatUser, merged: tuple[Topic, Topic, Topic], as_viewer: Client
) -> None:
    cake, tea, party = merged
    edit = TopicEdit.objects.get(kind=TopicEdit.Kind.MERGE)
    page = get(as_viewer, f"/memory/{anna.pk}/history/")
    before, after = re.findall(r'href="(/memory/\d+/topics/\?as_of=[^"]+)"', page)[:2]
    assert after.endswith(f"as_of={written(edit.at)}")
    assert rows(get(as_viewer, before), "topic") == [tea.pk, cake.pk]
    assert rows(get(as_viewer, after), "topic") == [party.pk]


@pytest.mark.parametrize("page", ["topics", "messages", "people", "facts"])
def test_a_search_by_meaning_says_that_the_past_is_searched_by_words(
    anna: ChatUser, merged: tuple[Topic, Topic, Topic], as_viewer: Client, page: str
) -> None:
    found = get(as_viewer, f"/memory/{anna.pk}/{page}/?{at(ago(20))}&q=tea&by=meaning")
    assert "The past is searched by words." in found
    if page == "topics":
        assert rows(found, "topic") == [merged[1].pk]


# Which links of a page lead on to the chosen moment.


THEN = PastMoment(datetime(2026, 3, 2, 9, 0, tzinfo=UTC))
TEXT = "as_of=2026-03-02T09:00:00Z"


@pytest.mark.parametrize(("page", "expected"), table("links_of_the_past"))
def test_links_of_the_memory_and_of_the_page_itself_do(page: str, expected: str) -> None:
    assert kept_in(page, THEN) == expected


def test_a_redirect_does_only_within_the_site() -> None:
    assert kept("/memory/1/ask/?run=4", THEN) == f"/memory/1/ask/?run=4&{TEXT}"
    assert kept("//example.org/topics/4/", THEN) == "//example.org/topics/4/"
