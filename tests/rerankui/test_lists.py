"""Overview, summary, people, artifacts, facts, palette: what all lists have in common, and the counts on them."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryapp.curation import former, plan_merge, put_in, swap
from memoryapp.engine.chat.capabilities import Abilities, Learnt
from memoryapp.engine.chat.lessons import refused
from memoryapp.insight.browsing import profiles
from memoryapp.insight.browsing.comparison import compare
from memoryapp.insight.browsing.quality import holdings, last_year
from memoryapp.insight.browsing.topics import mentions, topic_counts, topic_runs
from memoryapp.models import Artifact, ChatUser, Finding, Message, Operator, Passage, Person, Run, Topic, TopicEdit
from memoryapp.platform.llm import clients
from rerankui.views import overview
from tests.conftest import BEGAN, signed_in, talk
from tests.engine.endpoint import PLAIN
from tests.examples import table
from tests.support.browsing import HTMX, cost, get, grow, message_of, opened_to, rows, run_of, searched, topic_of

LISTS = ["topics", "messages", "people", "artifacts", "facts"]


@pytest.mark.slow
@pytest.mark.parametrize("address", ["/memory/{owner}/", *(f"/memory/{{owner}}/{noun}/" for noun in LISTS)])
def test_thirty_rows_cost_as_many_queries_as_three(address: str, anna: ChatUser, as_viewer: Client) -> None:
    path = address.format(owner=anna.pk)
    grow(anna, 3)
    few = cost(as_viewer, path)
    grow(anna, 27)
    assert cost(as_viewer, path) == few


@pytest.mark.slow
def test_thirty_chat_users_cost_as_many_queries_as_three(viewer: Operator) -> None:
    client = signed_in(viewer)
    opened_to(viewer, 3)
    few = cost(client, "/")
    opened_to(viewer, 27)
    assert cost(client, "/") == few


def test_no_list_reads_a_vector_or_skips_rows_by_counting(anna: ChatUser, as_viewer: Client) -> None:
    grow(anna, 3)
    for noun in LISTS:
        sql = _statements(as_viewer, f"/memory/{anna.pk}/{noun}/")
        assert '"vector"' not in sql
        assert "OFFSET" not in sql


def _statements(client: Client, address: str) -> str:
    with CaptureQueriesContext(connection) as queries:
        get(client, address)
    return "\n".join(query["sql"] for query in queries)


def test_the_overview_shows_each_memory_with_its_figures(anna: ChatUser, boris: ChatUser, as_admin: Client) -> None:
    grow(anna, 2)
    message_of(anna, "waiting", minutes=9000)
    page = get(as_admin, "/")
    assert rows(page, "owner") == [anna.pk, boris.pk]
    assert "1 waiting for archive" in page
    assert "Archive now" in page


@pytest.mark.slow
def test_the_overview_tells_debuggers_what_the_chat_model_was_found_to_lack(
    anna: ChatUser, as_debugger: Client, as_viewer: Client
) -> None:
    learnt = clients._learnt().setdefault(("https://key@models.example/v1", "acme/flash"), Learnt())
    lesson = refused({"response_format": {}}, PLAIN, Abilities(), "json_schema is unsupported")
    assert lesson
    learnt.learn(lesson)
    page = get(as_debugger, "/")
    assert "answer format → json_object" in page
    assert "acme/flash · models.example" in page
    assert "sent again in 6 hours" in page
    assert "json_schema is unsupported" not in get(as_viewer, "/")
    clients._learnt.cache_clear()
    assert "found to lack" not in get(as_debugger, "/")


def test_the_overview_counts_what_cannot_be_compared_up_to_a_bound(
    anna: ChatUser, as_admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (profiles, overview):
        monkeypatch.setattr(module, "MOST_PASSAGES", 2)
    for _passage in range(3):
        Passage.objects.create(owner=anna, text="x", terms="x", term_count=1)
    assert "2+ passages are found by their words only" in get(as_admin, "/")


def test_a_viewer_does_not_see_what_they_may_not_do(anna: ChatUser, as_viewer: Client) -> None:
    grow(anna, 1)
    message_of(anna, "waiting", minutes=9000)
    page = get(as_viewer, "/")
    assert "Archive now" not in page
    assert 'type="search" name="q" maxlength="4000"' not in get(as_viewer, f"/memory/{anna.pk}/")


@pytest.mark.parametrize("words", ["petrov", "Петя", "cluster", "H100 CLUSTER"])
def test_a_person_is_found_by_name_alias_username_or_note(words: str, anna: ChatUser, as_viewer: Client) -> None:
    wanted = Person.objects.create(
        owner=anna, display_name="Пётр", username="petrov", aliases=["Петя"], bio="Runs the H100 cluster"
    )
    Person.objects.create(owner=anna, display_name="Варя")
    assert rows(get(as_viewer, f"/memory/{anna.pk}/people/?q={words}"), "person") == [wanted.pk]


def test_artifacts_and_facts_are_searched_and_filtered(anna: ChatUser, as_viewer: Client) -> None:
    grow(anna, 4)
    assert len(rows(get(as_viewer, f"/memory/{anna.pk}/artifacts/?q=2.pdf"), "artifact")) == 1
    assert len(rows(get(as_viewer, f"/memory/{anna.pk}/artifacts/?state=failed"), "artifact")) == 0
    assert len(rows(get(as_viewer, f"/memory/{anna.pk}/facts/?q=fact 3"), "fact")) == 1
    assert len(rows(get(as_viewer, f"/memory/{anna.pk}/facts/?type=identity"), "fact")) == 0


@pytest.mark.slow
def test_the_palette_finds_people_files_runs_and_pages_too(
    anna: ChatUser, as_viewer: Client, as_stranger: Client
) -> None:
    topic = topic_of(anna, "Honey cake", ["Which?"])
    person = Person.objects.create(owner=anna, display_name="Миша", aliases=["Mikhail"], username="misha_v")
    artifact = Artifact.objects.create(owner=anna, name="recipe.pdf", file_type="pdf", sha256="1", created_at=BEGAN)
    run = run_of(anna, topic)
    wanted = {
        f"/memory/{anna.pk}/people/{person.pk}/": ["миш", "mikhail", "misha_v"],
        f"/memory/{anna.pk}/artifacts/{artifact.pk}/": ["recipe"],
        f"/runs/{run.pk}/": ["vllm", str(run.pk)[:8]],
        f"/memory/{anna.pk}/map/": ["map of"],
    }
    for address, asked in wanted.items():
        for words in asked:
            assert f'href="{address}"' in get(as_viewer, f"/find/?q={words}"), words
            assert f'href="{address}"' not in get(as_stranger, f"/find/?q={words}").split("<main")[1], words
    assert "Nothing is called" in get(as_viewer, "/find/?q=nothing-like-it")


def test_the_palette_says_whose_a_topic_is_and_offers_only_the_list_that_holds_it(
    anna: ChatUser, boris: ChatUser, as_admin: Client
) -> None:
    topic_of(boris, "Honey cake", ["Which?"])
    get(as_admin, f"/memory/{anna.pk}/")
    found = get(as_admin, "/find/?q=honey").split("<main")[1]
    assert f'<span class="quiet small found-of">{boris}</span>' in found
    assert "to compare or merge" not in found
    get(as_admin, f"/memory/{boris.pk}/")
    assert f'href="/memory/{boris.pk}/topics/?q=honey"' in get(as_admin, "/find/?q=honey")


def test_an_exact_name_comes_before_topics_that_mention_it(anna: ChatUser, as_viewer: Client) -> None:
    topic_of(anna, "What Nadia said", ["When?"])
    Person.objects.bulk_create(Person(owner=anna, display_name=f"Nadiana {n}", mention_count=9) for n in range(9))
    nadia = Person.objects.create(owner=anna, display_name="Nadia Orlova")
    found = get(as_viewer, "/find/?q=nadia").split('class="panel palette-found"')[1]
    assert re.findall(r'href="([^"]+)"', found)[0] == f"/memory/{anna.pk}/people/{nadia.pk}/"


@pytest.mark.parametrize(("words", "address"), table("pages_in_the_palette"))
def test_the_palette_finds_every_page_that_the_operator_may_open(
    words: str, address: str, anna: ChatUser, as_admin: Client, as_viewer: Client
) -> None:
    assert f'href="{address.format(anna.pk)}"' in get(as_admin, f"/find/?q={words}").split("<main")[1]
    if words in ("memory settings", "erase", "export", "receipts", "embed"):
        assert f'href="{address.format(anna.pk)}"' not in get(as_viewer, f"/find/?q={words}")


def test_the_palette_carries_out_actions(anna: ChatUser, as_admin: Client, as_viewer: Client) -> None:
    found = get(as_admin, "/find/?q=archive")
    assert f'<form method="post" action="/memory/{anna.pk}/work/">' in found
    assert 'name="theme" value="dark"' in get(as_admin, "/find/?q=theme").split("<main")[1]
    asking = get(as_admin, "/find/?q=ask which cake").split('class="panel palette-found"')[1]
    assert asking.index('name="query" value="which cake"') < asking.index("Nothing is called")
    for words in ("archive", "ask which cake"):
        found = get(as_viewer, f"/find/?q={words}").split('class="panel palette-found"')[1]
        assert "<form" not in found.split("<aside")[0], words


def test_a_command_names_a_chat_user_in_one_word(as_admin: Client) -> None:
    whose = ChatUser.objects.create(name="Anna Maria; ls")
    for address in (f"/memory/{whose.pk}/imports/", "/tokens/"):
        assert "--user &#x27;Anna Maria; ls&#x27;</pre>" in get(as_admin, address), address


@pytest.mark.slow
def test_the_palette_costs_the_same_few_queries_whatever_it_finds(anna: ChatUser, as_viewer: Client) -> None:
    grow(anna, 2)
    few = cost(as_viewer, "/find/?q=1")
    grow(anna, 20)
    assert cost(as_viewer, "/find/?q=1") == few


def test_the_frame_keeps_showing_the_memory_looked_at_last(anna: ChatUser, boris: ChatUser, as_admin: Client) -> None:
    get(as_admin, f"/memory/{boris.pk}/topics/")
    assert f'href="/memory/{boris.pk}/people/"' in get(as_admin, "/")


def test_a_memory_that_was_closed_to_the_operator_leaves_the_frame(anna: ChatUser, viewer: Operator) -> None:
    client = signed_in(viewer)
    get(client, f"/memory/{anna.pk}/")
    viewer.access_set.all().delete()
    assert anna.display_name not in get(client, "/")


def test_months_without_messages_are_drawn_too(anna: ChatUser, as_viewer: Client) -> None:
    message_of(anna, "In March"), message_of(anna, "In May", minutes=70 * 1440)
    page = get(as_viewer, f"/memory/{anna.pk}/")
    assert page.count(f'<a href="/memory/{anna.pk}/messages/?on=') == 3
    assert "April 2026: 0 messages" in page
    assert Message.objects.count() == 2


# The counts of each memory, at a fixed number of queries.


@pytest.fixture
def owners(anna: ChatUser, boris: ChatUser) -> list[ChatUser]:
    for text, age in (("Long ago.", timedelta(days=400)), ("Just now.", timedelta(0))):
        Message.objects.filter(pk=message_of(anna, text).pk).update(sent_at=timezone.now() - age)
    return [anna, boris]


def test_months_are_counted_only_where_they_are_asked_for(
    owners: list[ChatUser], django_assert_num_queries: Any
) -> None:
    assert holdings(owners)[owners[0].pk].months == ()
    with django_assert_num_queries(8):
        found = holdings(owners, by_month=True)
    assert found[owners[0].pk].months == (*[0] * 11, 1)
    assert found[owners[1].pk].months == (0,) * 12


def test_a_message_belongs_to_the_month_of_the_readers_clock(anna: ChatUser) -> None:
    first = datetime(2027, 5, 1, 0, 30, tzinfo=UTC)
    Message.objects.filter(pk=message_of(anna, "At night.").pk).update(sent_at=first)
    with patch("django.utils.timezone.now", return_value=first + timedelta(days=9)):
        assert last_year([anna.pk])[anna.pk][-2:] == (0, 1)
        with timezone.override("America/New_York"):
            assert last_year([anna.pk])[anna.pk][-2:] == (1, 0)


# The list of topics says how often recent runs showed, read, chose and used each of them.


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


# Messages that mention a person: in every case of a name, and in no word that only begins like one.


@pytest.mark.parametrize(("name", "text", "is_spoken_of"), table("mentions"))
def test_a_name_counts_in_its_cases_and_in_no_other_word(
    name: str, text: str, is_spoken_of: bool, anna: ChatUser
) -> None:
    person = Person.objects.create(owner=anna, display_name=name)
    message_of(anna, text)
    assert mentions(person).count == is_spoken_of
    [topic] = talk(anna, ("A topic", [text, "ok"]))
    assert [found.word for found in compare(anna, [topic]).columns[0].people] == [name] * is_spoken_of


# The findings of the inbox are a list like all others: searched, narrowed, paged, handed out as a file.


@pytest.fixture
def address(anna: ChatUser) -> str:
    """Two facts of one topic and a person wait."""
    topic = talk(anna, ("Honey cake", ["Which cake keeps?", "A honey cake"]))[0]
    for content, relation in (("Bakes honey cakes", "likes"), ("Lives in Riga", "lives_in")):
        values = {"content": content, "relation": relation}
        Finding.objects.create(owner=anna, noun="fact", topic=topic, values=values)
    Finding.objects.create(owner=anna, noun="person", values={"display_name": "Dora", "aliases": ["Дора"]})
    return f"/memory/{anna.pk}/inbox/"


def test_findings_are_searched_and_narrowed(address: str, as_admin: Client) -> None:
    page = get(as_admin, address)
    assert "<h1>Inbox</h1>" in page
    assert 'href="?kind=person"' in page
    assert 'href="?relation=lives_in"' in page
    for query, found in (("q=RIGA", ["Riga"]), ("q=дора", ["Dora"]), ("kind=fact", ["Riga", "honey"])):
        part = get(as_admin, f"{address}?{query}", **HTMX)
        assert [word for word in ("Riga", "honey", "Dora") if word in part] == found, query
        assert "<h1>" not in part
    assert "No finding matches" in get(as_admin, f"{address}?q=coffee")


def test_findings_are_paged_and_handed_out_as_a_file(address: str, anna: ChatUser, as_admin: Client) -> None:
    Finding.objects.bulk_create(
        Finding(owner=anna, noun="fact", values={"content": f"Fact {number}"}) for number in range(60)
    )
    page = get(as_admin, address)
    assert ("Fact 10" in page, "Fact 59" in page, 'rel="next"' in page) == (True, False, True)
    listed = json.loads(as_admin.get(f"{address}?format=json&q=riga").content)
    assert [row["values"]["content"] for row in listed] == ["Lives in Riga"]


def test_a_decision_keeps_what_the_list_is_narrowed_to(address: str, as_admin: Client) -> None:
    riga = Finding.objects.get(values__content="Lives in Riga")
    sent = {"decision": "reject", "finding": [riga.pk]}
    assert as_admin.post(f"{address}?kind=fact", sent)["Location"] == f"{address}?kind=fact"
    assert "Lives in Riga" not in as_admin.get(f"{address}?kind=fact&format=json").content.decode()
