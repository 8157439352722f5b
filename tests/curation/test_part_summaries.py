"""Summaries proposed for the parts of a change: those of the model, else the most telling sentences."""

import html
import json
import re
from typing import Any

import pytest
from django.test import Client

from memoryapp.models import AgentCall, ChatUser, Topic, TopicEdit
from tests.conftest import talk
from tests.curation.test_merge_proposal import Proposing, model
from tests.support.browsing import HTMX, flat

__all__ = ["model"]

TEA = "Green tea, Sencha of all kinds"


@pytest.fixture
def topic(anna: ChatUser) -> Topic:
    return talk(anna, ("Honey cake, then tea", ["I bake a honey cake", "At 180", "I drink green tea", "Sencha"]))[0]


def split(topic: Topic, **more: Any) -> dict[str, Any]:
    third = topic.message_set.in_order()[2].pk
    return {"op": "split", "topics": topic.pk, "at": third, **more}


def page_of(client: Client, owner: ChatUser, fields: dict[str, Any]) -> str:
    return flat(client.get(f"/memory/{owner.pk}/change/", fields).content.decode())


def proposed(client: Client, owner: ChatUser, fields: dict[str, Any]) -> str:
    answer = client.post(f"/memory/{owner.pk}/change/summary/", fields, headers=HTMX)
    assert answer.status_code == 200
    return flat(answer.content.decode())


def proposal(part: str) -> str:
    found = re.search(r'data-proposal="([^"]*)"', part)
    assert found
    return html.unescape(found[1])


def test_only_new_parts_without_a_summary_are_asked_for(anna: ChatUser, topic: Topic, as_curator: Client) -> None:
    page = page_of(as_curator, anna, split(topic))
    assert re.findall(r'hx-vals=\'{"place": "(\d+)"}\'', page) == ["2"]
    assert ">Honey cake, then tea</textarea>" in page
    assert "data-proposing" not in page_of(as_curator, anna, split(topic, summary=["Cake", "Tea"]))
    messages = [row.pk for row in topic.message_set.in_order()[2:]]
    moved = {"op": "move", "topics": topic.pk, "messages": messages}
    assert re.findall(r'hx-vals=\'{"place": "(\d+)"}\'', page_of(as_curator, anna, moved)) == ["2"]
    other = talk(anna, ("Tea", ["Sencha again"]))[0]
    assert "data-proposing" not in page_of(as_curator, anna, {**moved, "to": other.pk})


def test_a_connected_model_is_asked_once_about_the_messages_of_the_part(
    anna: ChatUser, topic: Topic, as_curator: Client, model: Proposing
) -> None:
    model.says = json.dumps({"merged_summary": TEA})
    edits = TopicEdit.objects.count()
    assert "acme/merger reads the messages" in page_of(as_curator, anna, split(topic))
    assert not model.requests, "a page is shown before anything is asked"
    part = proposed(as_curator, anna, split(topic, place="2"))
    assert proposal(part) == TEA
    assert "Proposed by acme/merger" in part
    read = model.requests[0]["messages"][1]["content"]
    assert ("green tea" in read, "honey cake" in read) == (True, False)
    assert proposal(proposed(as_curator, anna, split(topic, place="2"))) == TEA
    assert (len(model.requests), AgentCall.objects.count()) == (1, 1), "the stored answer is used"
    assert TopicEdit.objects.count() == edits


def test_without_an_answer_the_most_telling_sentences_are_proposed(
    anna: ChatUser, topic: Topic, as_curator: Client, model: Proposing, settings: Any
) -> None:
    model.says = "{}"
    part = proposed(as_curator, anna, split(topic, place="2"))
    assert "rink green tea" in proposal(part)
    assert "The model" in part
    settings.LLM_BASE_URL = ""
    part = proposed(as_curator, anna, split(topic, place="2"))
    assert "No chat model is connected. Proposed: the most telling sentences." in part


def test_what_cannot_be_proposed_for_is_refused_in_words(anna: ChatUser, topic: Topic, as_curator: Client) -> None:
    address = f"/memory/{anna.pk}/change/summary/"
    assert "Nothing was chosen" in as_curator.get(address).content.decode()
    assert "Nothing was chosen" in as_curator.post(address, split(topic, place="x")).content.decode()
    refused = as_curator.post(address, {"op": "split", "topics": topic.pk, "at": 1, "place": 2})
    assert refused.status_code == 422


def test_a_topic_that_lost_messages_says_that_its_summary_is_older_and_another_is_proposed_beside_it(
    anna: ChatUser, topic: Topic, as_curator: Client, model: Proposing
) -> None:
    model.says = json.dumps({"merged_summary": "Honey cake"})
    messages = [row.pk for row in topic.message_set.in_order()[2:]]
    moved = {"op": "move", "topics": topic.pk, "messages": messages}
    page = page_of(as_curator, anna, moved)
    assert page.count("data-keeps") == 1, "what somebody wrote stays until the proposal is taken"
    assert "Propose another" in page
    assert proposal(proposed(as_curator, anna, {**moved, "place": "1"})) == "Honey cake"
    as_curator.post(f"/memory/{anna.pk}/change/", {**moved, "summary": ["", "Tea"], "commit": "1"})
    left, made = Topic.objects.of(anna).live().order_by("started_at", "pk")
    assert (left.summary, made.summary) == (topic.summary, "Tea")
    assert "older summary" in flat(as_curator.get(f"/topics/{left.pk}/").content.decode())
    assert "older summary" not in flat(as_curator.get(f"/topics/{made.pk}/").content.decode())
    edit = {"op": "edit", "topics": left.pk, "summary": left.summary}
    assert proposal(proposed(as_curator, anna, {**edit, "place": "1"})) == "Honey cake"
    as_curator.post(f"/memory/{anna.pk}/change/", {**edit, "summary": "Honey cake", "commit": "1"})
    (now,) = Topic.objects.of(anna).live().filter(summary="Honey cake")
    assert "older summary" not in flat(as_curator.get(f"/topics/{now.pk}/").content.decode())


def test_what_is_written_for_the_topics_that_a_move_leaves_is_kept(
    anna: ChatUser, topic: Topic, as_curator: Client
) -> None:
    """The preview has a field for each of them; what was typed there was lost without a word."""
    other = talk(anna, ("Green tea", ["Sencha again"]))[0]
    messages = [row.pk for row in topic.message_set.in_order()[2:]]
    moved = {"op": "move", "topics": topic.pk, "messages": messages, "to": other.pk, "commit": "1"}
    as_curator.post(f"/memory/{anna.pk}/change/", {**moved, "summary": ["Honey cake", "Tea of all kinds"]})
    assert {row.summary for row in Topic.objects.of(anna).live()} == {"Honey cake", "Tea of all kinds"}
