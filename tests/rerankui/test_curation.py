"""A change previewed, made and undone without JavaScript; topics selected and compared before a merge."""

import re
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryapp import curation
from memoryapp.insight.browsing.comparison import Term, compare
from memoryapp.intake.invariants import violations
from memoryapp.models import ChatUser, Operator, Person, Role, Run, Suggestion, Topic, TopicEdit
from tests.conftest import operator, signed_in, talk
from tests.curation.test_prompts import events_of
from tests.runs.stored_events import store
from tests.support.browsing import HTMX, cost, flat, get, message_ids


@pytest.fixture
def client(curator: Operator) -> Client:
    return signed_in(curator)


def live(owner: ChatUser) -> dict[str, list[int]]:
    assert list(violations()) == []
    return {topic.summary: message_ids(topic) for topic in Topic.objects.of(owner).live().order_by("started_at", "pk")}


def ask(client: Client, owner: ChatUser, status: int = 200, **fields: Any) -> str:
    """Returns the preview of a change."""
    answer = client.post(f"/memory/{owner.pk}/change/", fields)
    assert answer.status_code == status, answer.content.decode()
    return flat(answer.content.decode())


def commit(client: Client, owner: ChatUser, **fields: Any) -> str:
    """Makes the change; returns the address of the redirect and the page there."""
    answer = client.post(f"/memory/{owner.pk}/change/", {**fields, "commit": 1}, follow=True)
    assert answer.status_code == 200, answer.content.decode()
    return flat(answer.content.decode())


def summaries(page: str) -> list[str]:
    return re.findall(r'<textarea[^>]*name="summary"[^>]*>([^<]*)<', page)


def undo_button(page: str) -> str:
    found = re.search(r'action="(/memory/\d+/history/edits/\d+/[^"]*)"', page)
    assert found, "the page has no toast"
    return found[1].replace("&amp;", "&")


@pytest.mark.slow
def test_a_merge_is_committed_with_the_summary_somebody_wrote(
    client: Client, anna: ChatUser, topics: list[Topic]
) -> None:
    merged = message_ids(topics[0]) + message_ids(topics[2])
    page = commit(
        client, anna, op="merge", topics=[topics[0].pk, topics[2].pk], summary="All tea", reason="the same thing"
    )
    assert live(anna) == {"All tea": merged, "Cats": message_ids(topics[1])}
    assert "Merged 2 topics, 6 messages" in page
    edit = TopicEdit.objects.latest("pk")
    assert (edit.kind, edit.actor, edit.reason) == ("merge", "cora", "the same thing")


@pytest.mark.slow
def test_a_split_proposes_a_summary_for_each_part(client: Client, anna: ChatUser, topics: list[Topic]) -> None:
    first, second = message_ids(topics[0])[:2], message_ids(topics[0])[2:]
    page = ask(client, anna, op="split", topics=topics[0].pk, at=second[0])
    assert len(summaries(page)) == 2
    assert all(summaries(page))
    commit(client, anna, op="split", topics=topics[0].pk, at=second[0], summary=["Green", ""])
    found = live(anna)
    assert found["Green"] == first
    assert second in found.values()


@pytest.mark.slow
def test_messages_move_to_another_topic_or_to_a_new_one(client: Client, anna: ChatUser, topics: list[Topic]) -> None:
    tea, cats = message_ids(topics[0]), message_ids(topics[1])
    commit(client, anna, op="move", topics=topics[0].pk, messages=tea[1:2], to=topics[1].pk)
    assert live(anna)["Cats"] == [tea[1], *cats]
    source = Topic.objects.live().get(summary="Tea")
    commit(client, anna, op="move", topics=source.pk, messages=tea[2], following=1, summary=["", "Wakeful"])
    assert (live(anna)["Tea"], live(anna)["Wakeful"]) == (tea[:1], tea[2:])


@pytest.mark.slow
def test_a_topic_is_split_as_the_parts_say(client: Client, anna: ChatUser, topics: list[Topic]) -> None:
    tea = message_ids(topics[0])
    parts = f'[{{"summary": "a", "messages": {tea[:1]}}}, {{"summary": "b", "messages": {tea[1:]}}}]'
    assert summaries(ask(client, anna, op="resplit", topics=topics[0].pk, parts=parts)) == ["a", "b"]
    commit(client, anna, op="resplit", topics=topics[0].pk, parts=parts)
    assert (live(anna)["a"], live(anna)["b"]) == (tea[:1], tea[1:])


@pytest.mark.slow
def test_more_messages_than_a_form_has_fields_can_move(client: Client, anna: ChatUser) -> None:
    [long, _rest] = talk(anna, ("Long", [f"message {n}" for n in range(1_200)]), ("Other", ["x", "y"]))
    ids = message_ids(long)
    page = ask(client, anna, op="move", topics=long.pk, messages=",".join(map(str, ids[5:])))
    assert "1,195" in page
    assert (
        client.post(
            f"/memory/{anna.pk}/change/", {"op": "move", "topics": long.pk, "messages": ids[5], "following": 1}
        ).status_code
        == 200
    )


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"op": "edit"}, "Say which topics to change."),
        ({"op": "edit", "topics": "x"}, "not a list of numbers"),
        ({"op": "dance", "topics": "1"}, "dance"),
        ({"op": "edit", "topics": "{0}", "summary": "Tea"}, "says that already"),
        ({"op": "edit", "topics": "{0}", "summary": " "}, "needs a summary"),
        ({"op": "merge", "topics": "{0}"}, "at least two"),
        ({"op": "split", "topics": "{0}"}, "Say at which messages"),
        ({"op": "move", "topics": "{0}"}, "Say which messages to move"),
        ({"op": "resplit", "topics": "{0}", "parts": "[1]"}, "not readable"),
        ({"op": "merge", "topics": "{0},99999999"}, "no topic Topic:99999999"),
    ],
)
def test_a_wish_that_cannot_be_is_refused_with_a_sentence(
    fields: dict[str, str], sentence: str, client: Client, anna: ChatUser, topics: list[Topic]
) -> None:
    filled = {name: value.format(topics[0].pk) if name == "topics" else value for name, value in fields.items()}
    before = live(anna)
    assert sentence in ask(client, anna, status=422, **filled)
    assert sentence in ask(client, anna, status=422, **filled, commit=1)
    assert live(anna) == before


@pytest.mark.slow
def test_one_is_led_back_to_where_one_came_from_but_never_off_the_site(
    client: Client, anna: ChatUser, topics: list[Topic]
) -> None:
    address, back = f"/memory/{anna.pk}/change/", f"/memory/{anna.pk}/topics/?q=tea"
    asked = {"op": "edit", "topics": topics[0].pk, "summary": "Green tea", "commit": 1}
    answer = client.post(address, {**asked, "next": back})
    assert answer["Location"] == back
    again = client.post(undo_button(client.get(back).content.decode()))
    assert again["Location"] == back
    answer = client.post(address, {**asked, "next": "https://elsewhere.example/"})
    assert answer["Location"] == f"/topics/{Topic.objects.latest('pk').pk}/"


@pytest.mark.slow
def test_the_toast_takes_back_and_does_again(client: Client, anna: ChatUser, topics: list[Topic]) -> None:
    before = live(anna)
    page = commit(client, anna, op="merge", topics=[topics[0].pk, topics[1].pk])
    after = live(anna)
    page = client.post(undo_button(page), follow=True).content.decode()
    assert live(anna) == before
    assert "Undone: merged" in page
    page = client.post(undo_button(page), follow=True).content.decode()
    assert live(anna) == after
    assert "Done again: merged" in page
    client.post(undo_button(page))
    assert live(anna) == before


@pytest.mark.parametrize(("source", "target"), [(0, 1), (1, 0)], ids=["to a later topic", "to an earlier topic"])
def test_the_undo_of_a_move_leads_to_where_the_messages_are_again(
    source: int, target: int, client: Client, anna: ChatUser, topics: list[Topic]
) -> None:
    moved = message_ids(topics[source])[:1]
    page = commit(client, anna, op="move", topics=topics[source].pk, messages=moved, to=topics[target].pk)
    assert client.post(undo_button(page))["Location"] == f"/topics/{topics[source].pk}/"


@pytest.mark.slow
def test_what_stands_on_a_change_is_named_and_undone_with_it(
    client: Client, anna: ChatUser, topics: list[Topic]
) -> None:
    before = live(anna)
    address = undo_button(commit(client, anna, op="merge", topics=[topics[0].pk, topics[1].pk]))
    merged = Topic.objects.latest("pk")
    commit(client, anna, op="edit", topics=merged.pk, summary="Later", reason="clearer")
    answer = client.post(address)
    assert answer.status_code == 409
    page = answer.content.decode()
    assert "by cora" in page
    assert "clearer" in page
    assert "Undo this and the later one" in page
    assert "Later" in live(anna)
    client.post(address, {"seen": f"t{TopicEdit.objects.latest('pk').pk}"})
    assert live(anna) == before


@pytest.mark.slow
def test_an_undo_is_looked_at_before_it_is_made(client: Client, anna: ChatUser, topics: list[Topic]) -> None:
    address = undo_button(commit(client, anna, op="edit", topics=topics[0].pk, summary="Green tea"))
    after = live(anna)
    assert "Comes back" in client.get(address).content.decode()
    assert live(anna) == after
    archived = TopicEdit.objects.earliest("pk")
    answer = client.post(f"/edits/{archived.pk}/undo/")
    assert (answer.status_code, live(anna)) == (409, after)
    assert "Archiving is not undone" in answer.content.decode()


@pytest.mark.slow
def test_the_second_of_two_people_sees_what_the_first_one_did_and_keeps_their_text(
    client: Client, anna: ChatUser, topics: list[Topic]
) -> None:
    other = signed_in(operator("omar", Role.CURATOR, anna))
    tea = topics[0].pk
    commit(other, anna, op="edit", topics=tea, summary="Tea, the green one", reason="clearer")
    page = ask(client, anna, status=409, op="edit", topics=tea, summary="Tea that wakes", commit=1)
    assert "css/difference" in page
    assert "omar edited" in page
    assert "clearer" in page
    assert "<ins>, the green one</ins>" in page
    assert summaries(page) == ["Tea that wakes"]
    assert "Tea that wakes" not in live(anna)
    now = Topic.objects.live().get(summary="Tea, the green one").pk
    assert f'name="topics" value="{now}"' in page
    commit(client, anna, op="edit", topics=now, summary="Tea that wakes")
    assert "Tea that wakes" in live(anna)


def test_a_move_to_a_topic_that_was_merged_meanwhile_is_offered_for_the_merged_one(
    client: Client, anna: ChatUser, topics: list[Topic]
) -> None:
    tea = message_ids(topics[0])
    curation.swap(
        anna, curation.plan_merge(anna, [topics[1].pk, topics[2].pk], "Both"), kind=TopicEdit.Kind.MERGE, actor="omar"
    )
    both = Topic.objects.live().get(summary="Both").pk
    page = ask(client, anna, status=409, op="move", topics=topics[0].pk, messages=tea[0], to=topics[1].pk)
    assert f'name="to" value="{both}"' in page


@pytest.mark.slow
def test_an_accepted_suggestion_remembers_who_decided(client: Client, anna: ChatUser, topics: list[Topic]) -> None:
    made = Suggestion.objects.create(owner=anna, kind="merge", key="k", topics=[topics[0].pk, topics[2].pk])
    commit(client, anna, op="merge", topics=made.topics, suggestion=made.pk)
    made.refresh_from_db()
    edit = TopicEdit.objects.latest("pk")
    assert (made.state, made.decided_by, made.edit) == ("accepted", "cora", edit)
    client.post(f"/edits/{edit.pk}/undo/")
    made.refresh_from_db()
    assert made.state == "open"


def test_a_link_can_show_a_preview_but_never_commit(client: Client, anna: ChatUser, topics: list[Topic]) -> None:
    before = live(anna)
    asked = {"op": "merge", "topics": [topics[0].pk, topics[1].pk], "commit": 1}
    answer = client.get(f"/memory/{anna.pk}/change/", asked)
    assert (answer.status_code, live(anna)) == (200, before)
    assert "become one" in answer.content.decode()


def test_a_strangers_topics_cannot_be_reached_through_ones_own_memory(
    as_stranger: Client, boris: ChatUser, topics: list[Topic]
) -> None:
    answer = as_stranger.post(
        f"/memory/{boris.pk}/change/", {"op": "edit", "topics": topics[0].pk, "summary": "Mine", "commit": 1}
    )
    assert answer.status_code == 422
    assert "in this memory" in answer.content.decode()


def test_the_effect_on_past_runs_is_shown_first(client: Client, anna: ChatUser, topics: list[Topic]) -> None:
    run = Run.objects.create(owner=anna, query="black tea?", strategy="flash", state=Run.State.FINISHED)
    store(run, events_of(topics[0]))
    before = set(Topic.objects.live())
    asked = {"op": "merge", "topics": [topics[0].pk, topics[2].pk]}
    part = client.post(f"/memory/{anna.pk}/change/effect/", asked, headers={"HX-Request": "true"}).content.decode()
    assert "1 run saw these topics" in part
    assert "No model was asked" in part
    assert f"/runs/{run.pk}/" in part
    whole = client.post(f"/memory/{anna.pk}/change/effect/", asked).content.decode()
    assert "1 run saw these topics" in whole
    assert "become one" in whole
    assert set(Topic.objects.live()) == before


# Topics selected in lists and compared before they are merged.


@pytest.fixture
def alike(anna: ChatUser) -> list[Topic]:
    return talk(
        anna,
        ("Honey cake for Marina", ["Marina wants a honey cake", "Bake the honey cake at 180", "honey, honey!"]),
        ("Honey cake again", ["The honey cake of Marina burnt", "Lower the oven"]),
        ("vLLM crash", ["vLLM dies with OOM on the GPU", "Lower gpu_memory_utilization"]),
    )


def address(*topics: Topic, more: str = "") -> str:
    return f"/memory/{topics[0].owner_id}/merge/?{'&'.join(f'topics={topic.pk}' for topic in topics)}{more}"


def test_shared_people_and_terms_are_marked(anna: ChatUser, alike: list[Topic]) -> None:
    Person.objects.create(owner=anna, display_name="Marina Klimova", aliases=["Marina"], mention_count=2)
    Person.objects.create(owner=anna, display_name="Nobody", mention_count=9)
    cake, again, crash = compare(anna, alike).columns
    assert [person.word for person in cake.people] == ["Marina Klimova"] == [p.word for p in again.people]
    assert compare(anna, alike).people == ("Marina Klimova",)
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


def test_each_message_is_counted_in_its_slice_of_the_common_time(anna: ChatUser, alike: list[Topic]) -> None:
    columns = compare(anna, alike).columns
    assert [sum(column.slices) for column in columns] == [topic.message_count for topic in alike]
    assert columns[0].slices[0] > 0
    assert columns[2].slices[-1] > 0


def test_whose_summary_survives_fills_the_field(as_curator: Client, alike: list[Topic]) -> None:
    page = get(as_curator, address(*alike[:2], more=f"&from={alike[1].pk}"))
    assert re.search(r"data-merged-summary>Honey cake again</textarea>", page)


def test_what_one_wrote_outlives_leaving_a_topic_out(as_curator: Client, alike: list[Topic]) -> None:
    part = get(as_curator, address(*alike[:2], more="&summary=My+own&written=1"), **HTMX)
    assert "data-merged-summary>My own</textarea>" in part
    assert "2 topics with 5 messages" in part
    assert "data-column" not in part


def test_what_is_picked_on_the_page_is_merged_by_its_form(as_curator: Client, alike: list[Topic]) -> None:
    sent = {"op": "merge", "topics": [alike[0].pk, alike[2].pk], "summary": "Cake and crash", "commit": "1"}
    as_curator.post(f"/memory/{alike[0].owner_id}/change/", sent)
    merged = Topic.objects.live().get(summary="Cake and crash")
    assert merged.message_count == 5
    assert Topic.objects.get(pk=alike[1].pk).is_live


def test_a_retired_topic_is_replaced_by_those_that_hold_its_messages(
    anna: ChatUser, as_curator: Client, alike: list[Topic]
) -> None:
    change = curation.plan_edit(anna, alike[0].pk, "Cake, anew")
    new = curation.put_in(curation.swap(anna, change, kind="edit", actor="ada"))[0]
    page = get(as_curator, address(alike[0], alike[1]))
    assert f"Topic:{alike[0].pk} is retired; its messages are in Topic:{new.pk} now." in page
    assert f'data-column="{new.pk}"' in page


def test_a_topic_of_somebody_else_is_not_compared(boris: ChatUser, as_curator: Client, alike: list[Topic]) -> None:
    strange = talk(boris, ("Secret clarinet", ["clarinet"]))[0]
    page = get(as_curator, f"{address(alike[0], alike[1])}&topics={strange.pk}")
    assert "larinet" not in page
    assert page.count("data-column=") == 2


@pytest.mark.slow
def test_the_list_offers_to_merge_all_that_match(anna: ChatUser, as_curator: Client, alike: list[Topic]) -> None:
    page = get(as_curator, f"/memory/{anna.pk}/topics/?q=honey")
    link = re.findall(r'href="(/memory/\d+/merge/[^"]*)"', page)[0].replace("&amp;", "&")
    assert "Merge all 2 matching" in page
    assert "all=1" in link
    assert get(as_curator, link).count("data-column=") == 2
    assert "Merge all" not in get(as_curator, f"/memory/{anna.pk}/topics/")


def test_back_leads_only_to_this_site(as_curator: Client, alike: list[Topic]) -> None:
    page = get(as_curator, address(*alike, more="&next=https://evil.example/"))
    assert not re.search(r'(href|name="next" value)="https://evil', page)


@pytest.mark.slow
def test_more_columns_cost_no_more_queries(anna: ChatUser, as_curator: Client, alike: list[Topic]) -> None:
    few = cost(as_curator, address(*alike[:2]))
    more = talk(anna, *((f"Topic {number}", [f"words {number}", "and more"]) for number in range(10)))
    assert cost(as_curator, address(*alike, *more)) <= few


# The queue: one suggestion at a time, decided by a plain form, with an undo.


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
