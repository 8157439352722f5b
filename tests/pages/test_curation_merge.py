"""Topics selected in lists and compared before they are merged."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryapp import curation
from memoryapp.insight.browsing.comparison import Term, compare
from memoryapp.models import ChatUser, Person, Role, Topic
from tests.conftest import operator, signed_in, talk
from tests.support.browsing import HTMX, cost, get, rows


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    return talk(
        anna,
        ("Honey cake for Marina", ["Marina wants a honey cake", "Bake the honey cake at 180", "honey, honey!"]),
        ("Honey cake again", ["The honey cake of Marina burnt", "Lower the oven"]),
        ("vLLM crash", ["vLLM dies with OOM on the GPU", "Lower gpu_memory_utilization"]),
    )


@pytest.fixture
def as_curator(anna: ChatUser) -> Client:
    return signed_in(operator("cora", Role.CURATOR, anna))


def address(*topics: Topic, more: str = "") -> str:
    return f"/memory/{topics[0].owner_id}/merge/?{'&'.join(f'topics={topic.pk}' for topic in topics)}{more}"


def test_shared_people_and_terms_are_marked(anna: ChatUser, topics: list[Topic]) -> None:
    Person.objects.create(owner=anna, display_name="Marina Klimova", aliases=["Marina"], mention_count=2)
    Person.objects.create(owner=anna, display_name="Nobody", mention_count=9)
    cake, again, crash = compare(anna, topics).columns
    assert [person.word for person in cake.people] == ["Marina Klimova"] == [p.word for p in again.people]
    assert compare(anna, topics).people == ("Marina Klimova",)
    assert crash.people == ()
    assert {term.word for term in cake.terms if term.is_shared} >= {"honey", "cake"}
    assert not any(term.is_shared for term in crash.terms if term.word in {"vllm", "oom", "gpu"})


@pytest.mark.slow
def test_common_words_are_weighed_by_the_statistics_of_the_database_and_not_counted(anna: ChatUser) -> None:
    """Counting them reads most of a large memory for each page."""
    topics = talk(anna, *((f"Day {day}", [f"The weather of place{day}", "The same"]) for day in range(12)))
    counted = _comparison(anna, topics)
    assert "weather" in counted.counted
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE memoryapp_passage")
    known = _comparison(anna, topics)
    assert "weather" not in known.counted
    assert known.terms == counted.terms


class _Comparison(NamedTuple):
    terms: list[list[Term]]
    counted: str


def _comparison(owner: ChatUser, topics: list[Topic]) -> _Comparison:
    """Returns the text of a comparison, and the terms that it counted."""
    with CaptureQueriesContext(connection) as queries:
        columns = compare(owner, topics).columns
    counting = [query["sql"] for query in queries if "unnest" in query["sql"] and "tsquery" in query["sql"]]
    return _Comparison([list(column.terms) for column in columns], "".join(counting))


def test_inflected_names_are_recognised(anna: ChatUser) -> None:
    Person.objects.create(owner=anna, display_name="Марина", mention_count=1)
    topic = talk(anna, ("Торт", ["Обещала Марине торт", "Для Марины — медовик"]))[0]
    assert [person.word for person in compare(anna, [topic]).columns[0].people] == ["Марина"]


def test_each_message_is_counted_in_its_slice_of_the_common_time(anna: ChatUser, topics: list[Topic]) -> None:
    columns = compare(anna, topics).columns
    assert [sum(column.slices) for column in columns] == [topic.message_count for topic in topics]
    assert columns[0].slices[0] > 0
    assert columns[2].slices[-1] > 0


def test_the_page_shows_a_column_for_each_and_what_comes_out(as_curator: Client, topics: list[Topic]) -> None:
    page = get(as_curator, address(*topics))
    assert page.count("data-column=") == 3
    assert "3 topics with 7 messages become one." in page
    assert "Honey cake for Marina; Honey cake again; vLLM crash" in page
    assert f'hx-post="/memory/{topics[0].owner_id}/change/effect/"' in page


def test_whose_summary_survives_fills_the_field(as_curator: Client, topics: list[Topic]) -> None:
    page = get(as_curator, address(*topics[:2], more=f"&from={topics[1].pk}"))
    assert re.search(r"data-merged-summary>Honey cake again</textarea>", page)


def test_what_one_wrote_outlives_leaving_a_topic_out(as_curator: Client, topics: list[Topic]) -> None:
    part = get(as_curator, address(*topics[:2], more="&summary=My+own&written=1"), **HTMX)
    assert "data-merged-summary>My own</textarea>" in part
    assert "2 topics with 5 messages" in part
    assert "data-column" not in part


def test_one_topic_alone_is_no_merge(as_curator: Client, topics: list[Topic]) -> None:
    assert "at least two different topics" in get(as_curator, address(topics[0]), **HTMX)


def test_what_is_picked_on_the_page_is_merged_by_its_form(as_curator: Client, topics: list[Topic]) -> None:
    sent = {"op": "merge", "topics": [topics[0].pk, topics[2].pk], "summary": "Cake and crash", "commit": "1"}
    as_curator.post(f"/memory/{topics[0].owner_id}/change/", sent)
    merged = Topic.objects.live().get(summary="Cake and crash")
    assert merged.message_count == 5
    assert Topic.objects.get(pk=topics[1].pk).is_live


def test_a_retired_topic_is_replaced_by_those_that_hold_its_messages(
    anna: ChatUser, as_curator: Client, topics: list[Topic]
) -> None:
    change = curation.plan_edit(anna, topics[0].pk, "Cake, anew")
    new = curation.put_in(curation.swap(anna, change, kind="edit", actor="ada"))[0]
    page = get(as_curator, address(topics[0], topics[1]))
    assert f"Topic:{topics[0].pk} is retired; its messages are in Topic:{new.pk} now." in page
    assert f'data-column="{new.pk}"' in page


def test_a_topic_of_somebody_else_is_not_compared(boris: ChatUser, as_curator: Client, topics: list[Topic]) -> None:
    strange = talk(boris, ("Secret clarinet", ["clarinet"]))[0]
    page = get(as_curator, f"{address(topics[0], topics[1])}&topics={strange.pk}")
    assert "larinet" not in page
    assert page.count("data-column=") == 2


@pytest.mark.parametrize("query", ["", "?topics=abc", "?topics=999999999999999999999", "?topics="])
def test_nothing_picked_says_where_to_pick(query: str, anna: ChatUser, as_curator: Client) -> None:
    assert "No topics are picked for a merge" in get(as_curator, f"/memory/{anna.pk}/merge/{query}")


def test_a_viewer_is_refused_and_picks_nothing(anna: ChatUser, as_viewer: Client, topics: list[Topic]) -> None:
    assert as_viewer.get(address(*topics)).status_code == 403
    assert 'form="picked"' not in get(as_viewer, f"/memory/{anna.pk}/topics/")


@pytest.mark.slow
def test_the_list_offers_to_merge_all_that_match(anna: ChatUser, as_curator: Client, topics: list[Topic]) -> None:
    page = get(as_curator, f"/memory/{anna.pk}/topics/?q=honey")
    link = re.findall(r'href="(/memory/\d+/merge/[^"]*)"', page)[0].replace("&amp;", "&")
    assert "Merge all 2 matching" in page
    assert "all=1" in link
    assert get(as_curator, link).count("data-column=") == 2
    assert "Merge all" not in get(as_curator, f"/memory/{anna.pk}/topics/")


def test_picked_topics_are_a_list_too(anna: ChatUser, as_curator: Client, topics: list[Topic]) -> None:
    page = get(as_curator, f"/memory/{anna.pk}/topics/?topics={topics[0].pk},{topics[2].pk}")
    assert sorted(rows(page, "topic")) == sorted([topics[0].pk, topics[2].pk])


def test_back_leads_only_to_this_site(as_curator: Client, topics: list[Topic]) -> None:
    page = get(as_curator, address(*topics, more="&next=https://evil.example/"))
    assert not re.search(r'(href|name="next" value)="https://evil', page)


@pytest.mark.slow
def test_more_columns_cost_no_more_queries(anna: ChatUser, as_curator: Client, topics: list[Topic]) -> None:
    few = cost(as_curator, address(*topics[:2]))
    more = talk(anna, *((f"Topic {number}", [f"words {number}", "and more"]) for number in range(10)))
    assert cost(as_curator, address(*topics, *more)) <= few


def test_openings_are_shown_without_the_marks_of_markdown(anna: ChatUser, as_curator: Client) -> None:
    topics = talk(anna, ("One", ["## **Plan**\n- `first` step"]), ("Two", ["x"]))
    page = get(as_curator, address(*topics))
    assert "Plan • first step" in page
    assert "**Plan" not in page


def test_the_page_says_whether_a_model_can_propose_a_summary(
    topics: list[Topic], as_curator: Client, settings: Any
) -> None:
    sentence = "No chat model is connected, so none can propose one."
    assert sentence in as_curator.get(address(*topics[:2])).content.decode()
    settings.LLM_BASE_URL = "http://model.example/v1"
    shown = as_curator.get(address(*topics[:2])).content.decode()
    assert "Propose a summary" in shown
    assert sentence not in shown
