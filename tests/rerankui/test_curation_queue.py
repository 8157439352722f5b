"""The queue: one suggestion at a time, decided by a plain form, with an undo."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from memoryapp import curation
from memoryapp.models import ChatUser, Suggestion, Topic, TopicEdit
from tests.conftest import talk
from tests.support.browsing import HTMX, cost, get

MERGE = {
    "similarity": 0.83,
    "threshold": 0.7,
    "people": ["Marina"],
    "together": 0,
    "runs": 0,
    "size_chars": 120,
    "days_apart": 2,
}


def pairs(owner: ChatUser, count: int) -> list[Suggestion]:
    """Makes this number of suggested merges, each of two topics of its own, best first."""
    made = []
    for number in range(count):
        one, other = talk(owner, (f"Cake {number}", ["Honey?", "Yes"]), (f"Oven {number}", ["Hot?", "Very"]))
        made.append(suggested(one, other, score=0.9 - number / 1000))
    return made


def suggested(*topics: Topic, score: float = 0.9) -> Suggestion:
    ids = [topic.pk for topic in topics]
    return Suggestion.objects.create(
        owner=topics[0].owner, kind="merge", key=f"merge:{ids}", topics=ids, score=score, evidence=MERGE
    )


def queue(owner: ChatUser, suggestion: Suggestion | None = None, then: str = "") -> str:
    return f"/memory/{owner.pk}/queue/" + (f"{suggestion.pk}/{then}" if suggestion else "")


def opened(page: str) -> int:
    return int(re.findall(r'data-suggestion="(\d+)"', page)[0])


@pytest.mark.slow
def test_a_merge_is_made_at_once_and_the_next_one_shown(anna: ChatUser, as_curator: Client) -> None:
    first, second = pairs(anna, 2)
    answer = as_curator.post(queue(anna, first), {"decision": "merge", "summary": "Cake and oven"})
    assert answer["Location"] == queue(anna, second)
    first.refresh_from_db()
    merged = Topic.objects.live().get(summary="Cake and oven")
    assert first.state == "accepted"
    assert first.edit is not None
    assert curation.put_in(first.edit) == [merged]
    page = get(as_curator, queue(anna, second))
    assert "Merged 2 topics, 4 messages" in page
    assert "1 of 2" in page


def test_htmx_gets_the_next_one_with_the_toast_and_its_address(anna: ChatUser, as_curator: Client) -> None:
    first, second = pairs(anna, 2)
    answer = as_curator.post(queue(anna, first), {"decision": "merge"}, headers=HTMX)
    part = answer.content.decode()
    assert opened(part) == second.pk
    assert answer["HX-Push-Url"] == queue(anna, second)
    assert 'id="toasts" hx-swap-oob="true"' in part
    assert "<html" not in part


@pytest.mark.parametrize(
    ("sent", "summary"),
    [
        pytest.param({}, "Cake 0; Oven 0", id="all-together"),
        pytest.param({"from": "1"}, "Oven 0", id="of-one"),
        pytest.param({"from": "1", "summary": "Cake 0; Oven 0"}, "Oven 0", id="of-one-without-javascript"),
        pytest.param({"from": "1", "summary": "Mine"}, "Mine", id="ones-own"),
    ],
)
def test_the_summary_is_whose_one_chose(sent: dict[str, str], summary: str, anna: ChatUser, as_curator: Client) -> None:
    first = pairs(anna, 1)[0]
    chosen = {"from": str(first.topics[1])} if "from" in sent else {}
    as_curator.post(queue(anna, first), {"decision": "merge", **sent, **chosen})
    assert [topic.summary for topic in Topic.objects.live()] == [summary]


@pytest.mark.slow
def test_never_changes_no_topic_and_is_not_asked_again(anna: ChatUser, as_curator: Client) -> None:
    first, second = pairs(anna, 2)
    as_curator.post(queue(anna, first), {"decision": "never"})
    assert Topic.objects.live().count() == 4
    assert opened(get(as_curator, queue(anna))) == second.pk


@pytest.mark.slow
@pytest.mark.parametrize("decision", ["merge", "never"])
def test_the_last_decision_is_taken_back(decision: str, anna: ChatUser, as_curator: Client) -> None:
    first, second = pairs(anna, 2)
    before = set(Topic.objects.live().values_list("pk", flat=True))
    as_curator.post(queue(anna, first), {"decision": decision})
    assert queue(anna, first, "undo/") in get(as_curator, queue(anna, second))
    answer = as_curator.post(queue(anna, first, "undo/"))
    assert answer["Location"] == queue(anna, first)
    first.refresh_from_db()
    assert first.state == "open"
    assert set(Topic.objects.live().values_list("pk", flat=True)) == before


@pytest.mark.slow
def test_a_merge_undone_from_the_history_is_in_the_queue_again_until_it_is_redone(
    anna: ChatUser, as_curator: Client
) -> None:
    first = pairs(anna, 1)[0]
    as_curator.post(queue(anna, first), {"decision": "merge"})
    edit = TopicEdit.objects.latest("pk")
    assert as_curator.post(f"/memory/{anna.pk}/history/edits/{edit.pk}/").status_code == 302
    page = get(as_curator, queue(anna))
    assert opened(page) == first.pk
    assert "cora accepted this one" in page
    assert re.search(r'inbox-badge"[^>]*>1<', page)
    undo = TopicEdit.objects.latest("pk")
    assert as_curator.post(f"/memory/{anna.pk}/history/edits/{undo.pk}/").status_code == 302
    page = get(as_curator, queue(anna))
    assert "All suggestions are decided" in page
    assert "1 of 1" in page


def test_what_stands_on_the_merge_is_named_before_it_is_undone(anna: ChatUser, as_curator: Client) -> None:
    first = pairs(anna, 1)[0]
    as_curator.post(queue(anna, first), {"decision": "merge"})
    merged = Topic.objects.live().get()
    curation.swap(anna, curation.plan_edit(anna, merged.pk, "Anew"), kind="edit", actor="ada")
    answer = as_curator.post(queue(anna, first, "undo/"))
    assert answer.status_code == 302
    assert answer["Location"].startswith(f"/memory/{anna.pk}/history/edits/")


@pytest.mark.slow
def test_what_somebody_else_looks_at_is_theirs_for_a_while(
    anna: ChatUser, as_curator: Client, as_admin: Client
) -> None:
    first, second = pairs(anna, 2)
    get(as_admin, queue(anna, first))
    assert opened(get(as_curator, queue(anna))) == second.pk
    page = get(as_curator, queue(anna, first))
    assert "ada works on this one right now" in page
    assert "data-merge" not in page.replace("data-merged-summary", "")
    assert as_curator.post(queue(anna, first), {"decision": "merge"}).status_code == 422
    Suggestion.objects.filter(pk=first.pk).update(held_at=timezone.now() - timedelta(minutes=3))
    assert as_curator.post(queue(anna, first), {"decision": "merge"}).status_code == 302


def test_an_open_page_goes_on_holding(anna: ChatUser, as_curator: Client) -> None:
    first = pairs(anna, 1)[0]
    get(as_curator, queue(anna, first))
    long_ago = timezone.now() - timedelta(seconds=60)
    Suggestion.objects.filter(pk=first.pk).update(held_at=long_ago)
    assert as_curator.post(queue(anna, first, "hold/")).status_code == 204
    first.refresh_from_db()
    assert first.held_at is not None
    assert first.held_at > long_ago


def test_a_pair_that_changed_meanwhile_is_not_merged(anna: ChatUser, as_curator: Client) -> None:
    first = pairs(anna, 1)[0]
    get(as_curator, queue(anna, first))
    edit = curation.plan_edit(anna, first.topics[0], "Anew")
    curation.swap(anna, edit, kind="edit", actor="ada")
    answer = as_curator.post(queue(anna, first), {"decision": "merge"})
    assert answer.status_code == 422
    assert "Somebody changed this meanwhile" in answer.content.decode()
    assert Topic.objects.live().count() == 2


def test_one_merge_closes_the_other_suggestions_about_its_topics(anna: ChatUser, as_curator: Client) -> None:
    one, other, third = talk(anna, ("A", ["a"]), ("B", ["b"]), ("C", ["c"]))
    first, second = suggested(one, other), suggested(other, third, score=0.8)
    answer = as_curator.post(queue(anna, first), {"decision": "merge"})
    assert answer["Location"] == queue(anna)
    second.refresh_from_db()
    assert second.state == "outdated"
    assert "All suggestions are decided" in get(as_curator, queue(anna))


def test_a_split_shows_its_parts_and_leads_to_its_preview(anna: ChatUser, as_curator: Client) -> None:
    topic = talk(anna, ("Both", ["Honey cake?", "Yes", "vLLM dies", "Lower it"]))[0]
    at = list(topic.message_set.in_order().values_list("pk", flat=True))[2]
    numbers = {"size_chars": 40, "limit": 25, "similarity": 0.1, "usual": 0.3, "gain": 0.3, "pause_seconds": 0}
    evidence = {**numbers, "at": [at], "parts": [[2, 14], [2, 17]]}
    Suggestion.objects.create(owner=anna, kind="split", key="s", topics=[topic.pk], score=1, evidence=evidence)
    page = get(as_curator, queue(anna))
    assert re.search(r"<li><span class=\"chip\">2</span>.*vLLM dies", page)
    opens = re.findall(r'href="([^"]+)" data-opens-proposal', page)[0].replace("&amp;", "&")
    preview = get(as_curator, opens)
    assert "2, 2 messages" in preview
    assert 'name="suggestion"' in preview


@pytest.mark.slow
def test_a_long_queue_costs_no_more_queries(anna: ChatUser, as_curator: Client) -> None:
    first = pairs(anna, 2)[0]
    few = cost(as_curator, queue(anna, first))
    pairs(anna, 30)
    assert cost(as_curator, queue(anna, first)) <= few
