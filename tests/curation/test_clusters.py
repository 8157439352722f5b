"""Clusters: like topics are one decision with ticks, many clusters one after ten samples, and one undo reverts it."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from memoryapp.curation import plan_edit, suggestions, swap
from memoryapp.models import ChatUser, Operator, Suggestion, Topic, TopicEdit
from tests.conftest import talk
from tests.rerankui.test_curation import pairs, suggested
from tests.support.browsing import cost, get

State = Suggestion.State


@pytest.fixture
def cakes(anna: ChatUser) -> list[Topic]:
    """Four topics that three pairs connect, and two of another pair."""
    made = talk(anna, *((f"Cake {n}", [f"Honey {n}?", "Yes"]) for n in range(4)))
    for one, other, score in ((0, 1, 0.95), (1, 2, 0.9), (2, 3, 0.8)):
        suggested(made[one], made[other], score=score)
    pairs(anna, 1)
    return made


def address(owner: ChatUser, then: str = "") -> str:
    return f"/memory/{owner.pk}/inbox/clusters/{then}"


def undo_of(page: str, owner: ChatUser) -> str:
    found = re.search(rf'action="(/memory/{owner.pk}/inbox/[^"]*undo/\?[^"]+)"', page)
    assert found
    return found[1].replace("&amp;", "&")


def states() -> list[str]:
    return list(Suggestion.objects.order_by("pk").values_list("state", flat=True))


def test_connected_pairs_are_one_cluster_and_what_is_ticked_becomes_one_topic(
    anna: ChatUser, cakes: list[Topic], as_curator: Client
) -> None:
    page = get(as_curator, address(anna))
    assert page.count('class="panel cluster"') == 2
    assert "2 clusters wait for a decision" in page
    sent = {"decision": "merge", "topics": [cakes[0].pk, cakes[1].pk, cakes[2].pk]}
    as_curator.post(address(anna), sent)
    edit = TopicEdit.objects.get(kind="merge")
    assert edit.topics.filter(editedtopic__side="out").count() == 3
    assert states() == [State.ACCEPTED, State.ACCEPTED, State.OUTDATED, State.OPEN]
    page = get(as_curator, address(anna))
    assert "3 topics became one." in page
    as_curator.post(undo_of(page, anna))
    assert states() == [State.OPEN] * 4, "one undo brings all of them back"
    assert "1 merge was undone." in get(as_curator, address(anna))


def test_a_cluster_is_rejected_as_one_and_comes_back_as_one(
    anna: ChatUser, cakes: list[Topic], as_curator: Client
) -> None:
    as_curator.post(address(anna), {"decision": "never", "topics": [topic.pk for topic in cakes]})
    assert states() == [State.NEVER] * 3 + [State.OPEN]
    as_curator.post(undo_of(get(as_curator, address(anna)), anna))
    assert states() == [State.OPEN] * 4


def test_what_cannot_be_decided_is_refused_and_the_next_decision_works(
    anna: ChatUser, boris: ChatUser, cakes: list[Topic], as_curator: Client, as_viewer: Client
) -> None:
    both = {"decision": "merge", "topics": [cakes[0].pk, cakes[1].pk]}
    assert as_viewer.post(address(anna), both).status_code == 403
    for sent, sentence in (
        ({"decision": "merge", "topics": [cakes[0].pk, cakes[3].pk]}, "Nothing that is suggested connects"),
        ({"decision": "merge"}, "Nothing that is suggested connects"),
        ({"decision": "never", "topics": [cakes[0].pk]}, "tick what you mean"),
        ({"topics": [cakes[0].pk, cakes[1].pk]}, "Say whether to merge"),
    ):
        as_curator.post(address(anna), sent)
        assert sentence in get(as_curator, address(anna))
    dora = User.objects.create_user("dora")
    suggestions.lease(Suggestion.objects.order_by("pk")[0], dora)
    as_curator.post(address(anna), both)
    assert "dora works on this one right now" in get(as_curator, address(anna))
    assert not TopicEdit.objects.filter(kind="merge").exists()
    suggestions.release(Suggestion.objects.order_by("pk")[0], dora)
    as_curator.post(address(anna), both)
    assert TopicEdit.objects.filter(kind="merge").count() == 1


def test_all_from_a_score_on_need_ten_samples_and_one_undo_reverts_them(anna: ChatUser, as_curator: Client) -> None:
    made = pairs(anna, 12)
    low = pairs(anna, 1)[0]
    Suggestion.objects.filter(pk=low.pk).update(score=0.5)
    Suggestion.objects.exclude(pk=low.pk).update(score=0.92)
    page = get(as_curator, f"{address(anna)}?from=0.90")
    assert "12 suggestions have at least this score, which makes 12 merges." in page
    assert "You have looked at 0 of 10" in page
    assert '<option value="0.90" selected>' in get(as_curator, address(anna)), "the usual score is shown as chosen"
    assert "at or above" not in page
    as_curator.post(address(anna), {"from": "0.90"})
    assert "Open 10 of them first; nothing was merged." in get(as_curator, address(anna))
    samples = list(dict.fromkeys(re.findall(rf'class="chip" href="(/memory/{anna.pk}/queue/\d+/)"', page)))
    assert len(samples) == 10
    for sample in samples[:9]:
        get(as_curator, sample)
    assert "You have looked at 9 of 10" in get(as_curator, address(anna))
    as_curator.post(samples[9], {"decision": "never"})
    assert "Make 11 merges at or above 0.90" in get(as_curator, address(anna))
    as_curator.post(address(anna), {"from": "0.90"})
    page = get(as_curator, address(anna))
    assert "11 clusters are merged." in page
    assert TopicEdit.objects.filter(kind="merge", actor="cora").count() == 11
    assert Suggestion.objects.get(pk=low.pk).state == State.OPEN
    as_curator.post(undo_of(page, anna))
    assert Suggestion.objects.filter(pk__in=[row.pk for row in made], state=State.OPEN).count() == 11
    assert "11 merges were undone." in get(as_curator, address(anna))


def test_a_cluster_too_large_for_one_topic_is_left_to_a_person(
    anna: ChatUser, cakes: list[Topic], curator: Operator, settings: object
) -> None:
    settings.MAX_MERGED_SIZE_CHARS = sum(topic.size_chars for topic in cakes) - 1  # type: ignore[attr-defined]
    done = suggestions.accept_from(anna, 0.5, curator.user)
    assert (len(done.edits), done.left) == (1, 1)
    assert states() == [State.OPEN] * 3 + [State.ACCEPTED]


def test_a_merge_that_something_depends_on_stays_when_the_others_are_undone(
    anna: ChatUser, cakes: list[Topic], curator: Operator
) -> None:
    done = suggestions.accept_from(anna, 0.5, curator.user)
    merged = Topic.objects.of(anna).live().order_by("-message_count", "pk")
    others = list(merged)
    swap(anna, plan_edit(anna, others[0].pk, "Cakes"), kind="edit", actor="cora")
    assert suggestions.take_back_edits(anna, done.edits, actor="cora") == 1


def test_a_suggestion_whose_other_topic_is_gone_makes_no_cluster(anna: ChatUser, cakes: list[Topic]) -> None:
    suggested(cakes[0])
    assert [len(cluster.topics) for cluster in suggestions.clusters(anna)] == [4, 2]


def test_the_page_costs_the_same_for_many_clusters(anna: ChatUser, as_curator: Client) -> None:
    pairs(anna, 2)
    few = cost(as_curator, address(anna))
    pairs(anna, 25)
    assert cost(as_curator, address(anna)) == few
    page = get(as_curator, address(anna))
    assert "7 more clusters follow" in page
