"""Topics in the browser: their list, one topic with its head and lineage, and messages as a conversation."""

import re
from datetime import UTC, datetime

import pytest
from django.test import Client

from memoryapp import curation
from memoryapp.insight.browsing.quality import holdings, messages_by_month
from memoryapp.insight.browsing.topics import topic_runs
from memoryapp.models import (
    Artifact,
    ChatUser,
    EmbeddingProfile,
    Fact,
    ImportBatch,
    Message,
    Run,
    Topic,
    TopicEdit,
    TopicVector,
)
from rerankui.text.markdown import beyond, headline
from rerankui.views import messages
from tests.conftest import BEGAN, talk
from tests.examples import table
from tests.support.browsing import HTMX, attach, get, grow, link, message_of, rows, run_of, searched, topic_of


@pytest.mark.slow
@pytest.mark.parametrize("sort", ["newest", "oldest", "longest", "shortest", "most", "fewest"])
def test_pages_forward_and_back_hold_every_topic_once(sort: str, anna: ChatUser, as_viewer: Client) -> None:
    grow(anna, 103)
    address, step, pages = f"/memory/{anna.pk}/topics/", f"?sort={sort}", []
    while step:
        pages.append(get(as_viewer, address + step))
        step = link(pages[-1], "next") or ""
    seen = [pk for page in pages for pk in rows(page, "topic")]
    assert sorted(seen) == sorted(Topic.objects.values_list("pk", flat=True))
    assert [len(rows(page, "topic")) for page in pages] == [50, 50, 3]
    back = get(as_viewer, address + str(link(pages[2], "prev")))
    assert rows(back, "topic") == rows(pages[1], "topic")
    first = get(as_viewer, address + str(link(back, "prev")))
    assert (rows(first, "topic"), link(first, "prev")) == (rows(pages[0], "topic"), None)


def test_the_newest_topic_is_at_the_top(anna: ChatUser, as_viewer: Client) -> None:
    old, new = topic_of(anna, "Cake", ["Which?"]), topic_of(anna, "vLLM", ["OOM"], day=3)
    assert rows(get(as_viewer, f"/memory/{anna.pk}/topics/"), "topic") == [new.pk, old.pk]


@pytest.mark.parametrize("words", ["vllm", "VLLM crash", "crash vllm", "topic:{pk}", "{pk}"])
def test_search_finds_a_topic_by_words_of_its_summary_or_its_id(words: str, anna: ChatUser, as_viewer: Client) -> None:
    wanted = topic_of(anna, "vLLM crash on H100", ["OOM"])
    topic_of(anna, "Honey cake", ["Which?"], day=1)
    page = get(as_viewer, f"/memory/{anna.pk}/topics/?q={words.format(pk=wanted.pk)}")
    assert rows(page, "topic") == [wanted.pk]


def test_a_percent_sign_is_searched_as_itself(anna: ChatUser, as_viewer: Client) -> None:
    topic_of(anna, "Honey cake", ["Which?"])
    wanted = topic_of(anna, "Disk at 88%", ["Full"], day=1)
    assert rows(get(as_viewer, f"/memory/{anna.pk}/topics/?q=%25"), "topic") == [wanted.pk]


def test_htmx_gets_the_list_alone_and_caches_know(anna: ChatUser, as_viewer: Client) -> None:
    topic_of(anna, "Cake", ["Which?"])
    answer = as_viewer.get(f"/memory/{anna.pk}/topics/", headers=HTMX)
    assert answer.content.decode().strip().startswith('<section class="panel" id="list">')
    assert "HX-Request" in answer["Vary"]
    restored = as_viewer.get(f"/memory/{anna.pk}/topics/", headers={**HTMX, "HX-History-Restore-Request": "true"})
    assert "<html" in restored.content.decode()


def test_a_topic_shows_its_messages_and_who_archived_it(anna: ChatUser, as_viewer: Client) -> None:
    topic = topic_of(anna, "vLLM crash", ["It dies", "Lower it"])
    page = get(as_viewer, f"/topics/{topic.pk}/")
    assert page.index("It dies") < page.index("Lower it")
    assert "by test" in page


def test_a_retired_topic_says_so_and_where_its_messages_went(anna: ChatUser, as_viewer: Client) -> None:
    new = topic_of(anna, "New summary", ["It dies"])
    old = _retired(anna, new)
    page = get(as_viewer, f"/topics/{old.pk}/")
    assert "This topic is retired" in page
    assert f'href="/topics/{new.pk}/"' in page
    assert "It dies" in page
    assert rows(get(as_viewer, f"/memory/{anna.pk}/topics/"), "topic") == [new.pk]
    assert rows(get(as_viewer, f"/memory/{anna.pk}/topics/?state=retired"), "topic") == [old.pk]


def _retired(owner: ChatUser, new: Topic) -> Topic:
    old = Topic.objects.create(
        owner=owner,
        summary="Old summary",
        started_at=new.started_at,
        ended_at=new.ended_at,
        message_count=1,
        size_chars=7,
        is_live=False,
    )
    attach(old, list(new.message_set.all()))
    return old


def test_neighbours_are_the_nearest_live_topics(anna: ChatUser, as_viewer: Client) -> None:
    profile = EmbeddingProfile.objects.create(provider="test", model="two", dimensions=2, threshold=0.5)
    middle, far, near = (topic_of(anna, name, ["x"], day=day) for day, name in enumerate(["Middle", "Far", "Near"]))
    for topic, vector in ((middle, [1, 0]), (far, [0, 1]), (near, [0.6, 0.8])):
        TopicVector.objects.create(owner=anna, topic=topic, profile=profile, vector=vector)
    beside = get(as_viewer, f"/topics/{middle.pk}/").split("Near in meaning")[1]
    assert beside.index(f"Topic:{near.pk}<") < beside.index(f"Topic:{far.pk}<")
    assert "0.60" in beside


def test_a_topic_counts_the_runs_that_read_and_chose_it(anna: ChatUser, as_viewer: Client) -> None:
    topic, other = topic_of(anna, "vLLM", ["OOM"]), topic_of(anna, "Cake", ["Which?"], day=1)
    run_of(anna, topic), run_of(anna, topic, chose=False), run_of(anna, other)
    for run in Run.objects.all():
        searched(run, topic, other)
    page = get(as_viewer, f"/topics/{topic.pk}/")
    assert "candidate 3×" in page
    assert "read 2×" in page
    assert "chosen 1×" in page
    assert "in the last 3 runs" in page


def test_the_preview_is_a_part_for_htmx_and_a_page_without(anna: ChatUser, as_viewer: Client) -> None:
    topic = topic_of(anna, "vLLM crash", [f"Message {number}" for number in range(15)])
    part = get(as_viewer, f"/topics/{topic.pk}/peek/", **HTMX)
    assert part.strip().startswith(f'<article id="peek-topic-{topic.pk}"')
    assert "3 more messages" in part
    assert "<html" in get(as_viewer, f"/topics/{topic.pk}/peek/")


@pytest.mark.slow
def test_a_long_topic_is_shown_page_by_page(anna: ChatUser, as_viewer: Client) -> None:
    topic = topic_of(anna, "Long", ["x"] * 151)
    first = get(as_viewer, f"/topics/{topic.pk}/")
    rest = get(as_viewer, f"/topics/{topic.pk}/{link(first, 'next')}")
    assert (len(rows(first, "message")), len(rows(rest, "message"))) == (150, 1)


@pytest.mark.slow
def test_what_people_wrote_is_never_trusted(anna: ChatUser, as_viewer: Client) -> None:
    evil = "<script>alert(1)</script> `<img src=x>` **<i>**\n```\n<b>\n```"
    topic = topic_of(anna, evil, [evil])
    message_of(anna, evil, minutes=9, forwarded_from=evil, metadata={"attachments": [{"name": evil, "mime": evil}]})
    for address in (
        f"/topics/{topic.pk}/",
        f"/topics/{topic.pk}/peek/",
        f"/memory/{anna.pk}/topics/?q=script",
        f"/memory/{anna.pk}/messages/?q=script",
        f"/memory/{anna.pk}/messages/",
        f"/memory/{anna.pk}/",
    ):
        page = get(as_viewer, address)
        assert "<script>alert" not in page
        assert "<img src=x>" not in page
        assert "<i>" not in page


def test_a_long_message_is_folded_and_loses_nothing(anna: ChatUser, as_viewer: Client) -> None:
    words = " ".join(f"word{number}" for number in range(400))
    topic = topic_of(anna, "Long", [words])
    page = get(as_viewer, f"/topics/{topic.pk}/")
    assert '<details class="rest">' in page
    assert all(f"word{number}" in page for number in range(400))
    assert Message.objects.get().text == words


# The head of a topic's page: a short title, the messages over time, and a link to each of them.


@pytest.mark.parametrize(("summary", "title"), table("titles"))
def test_a_title_is_what_the_summary_begins_with(summary: str, title: str) -> None:
    assert headline(summary) == title


@pytest.mark.parametrize(
    ("summary", "more"),
    [
        ("Honey cake", ""),
        ("Honey cake. The oven was hot.", "The oven was hot."),
        ("Honey cake · the oven was hot", "The oven was hot"),
        ("word " * 30, ("word " * 30).strip()),
    ],
)
def test_what_a_title_says_is_not_said_again_below_it(summary: str, more: str) -> None:
    """Unless it is cut: then the whole summary follows."""
    assert beyond(summary, headline(summary)) == more


@pytest.mark.slow
def test_the_strip_leads_to_messages_of_this_page_and_of_others(anna: ChatUser, as_viewer: Client) -> None:
    topic = topic_of(anna, "Long", [f"message {n}" for n in range(220)])
    page = get(as_viewer, f"/topics/{topic.pk}/")
    links = re.findall(r'<a href="([^"]*)" class="minimap-user', page)
    assert len(links) == 220
    assert links[0] == f"#message-{rows(page, 'message')[0]}"
    last = topic.message_set.latest("pk").pk
    assert links[-1] == f"?at={last}#message-{last}"
    around = get(as_viewer, f"/topics/{topic.pk}/?at={last}")
    assert re.search(rf'is-here[^>]*id="message-{last}"', around)
    assert rows(around, "message")[-1] == last


# Judgements of messages and uses by runs follow the messages to whatever topic holds them now.


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


# Messages as a conversation: newest page first, permalinks, search, and what belongs to a message.


@pytest.fixture
def long_talk(anna: ChatUser) -> list[Message]:
    """Two hundred messages, two in each minute, so that only the id gives their order."""
    return [message_of(anna, f"Message {number}.", minutes=number // 2) for number in range(200)]


@pytest.mark.slow
def test_the_last_page_comes_first_and_leads_back_to_the_beginning(
    long_talk: list[Message], anna: ChatUser, as_viewer: Client
) -> None:
    address = f"/memory/{anna.pk}/messages/"
    page, seen = get(as_viewer, address), list[int]()
    assert rows(page, "message")[-1] == long_talk[-1].pk
    while True:
        seen = rows(page, "message") + seen
        earlier = link(page, "next")
        if earlier is None:
            break
        page = get(as_viewer, address + earlier)
    assert seen == [message.pk for message in long_talk]
    assert link(page, "prev") is not None


@pytest.mark.slow
def test_a_permalink_shows_the_message_among_its_neighbours(
    long_talk: list[Message], anna: ChatUser, as_viewer: Client
) -> None:
    page = get(as_viewer, f"/memory/{anna.pk}/messages/?at={long_talk[100].pk}")
    assert re.search(rf'is-here[^>]*id="message-{long_talk[100].pk}"', page)
    around = rows(page, "message")
    assert around == [message.pk for message in long_talk[60:141]]
    later = get(as_viewer, f"/memory/{anna.pk}/messages/{link(page, 'prev')}")
    assert rows(later, "message")[0] == long_talk[141].pk


@pytest.mark.parametrize("year", [1, 9999])
def test_a_message_dated_centuries_off_makes_no_page_of_its_months(
    year: int, anna: ChatUser, as_viewer: Client
) -> None:
    message_of(anna, "In March")
    odd = message_of(anna, "When?", minutes=1)
    Message.objects.filter(pk=odd.pk).update(sent_at=datetime(year, 5, 1, tzinfo=UTC))
    for page in (f"/memory/{anna.pk}/", f"/memory/{anna.pk}/messages/"):
        assert len(get(as_viewer, page)) < 100_000
    assert [month.year for month, _count in messages_by_month(anna)] == sorted([2026, year])


def test_a_month_leads_to_its_first_message(anna: ChatUser, as_viewer: Client) -> None:
    message_of(anna, "In March")
    april = message_of(anna, "In April", minutes=40 * 1440)
    page = get(as_viewer, f"/memory/{anna.pk}/messages/?on=2026-04-01")
    assert f'is-here" id="message-{april.pk}"' in page
    assert get(as_viewer, f"/memory/{anna.pk}/messages/?on=2026-99-99")


def test_a_search_that_is_left_brings_the_months_its_page_did_not_have(anna: ChatUser, as_viewer: Client) -> None:
    message_of(anna, "In March")
    message_of(anna, "In May", minutes=70 * 1440)
    address = f"/memory/{anna.pk}/messages/?q="
    searched = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{address}march"}
    assert "month-list" in get(as_viewer, address, **searched)
    assert "month-list" not in get(as_viewer, f"{address}may", **searched)
    assert "month-list" not in get(as_viewer, address, **{**searched, "HX-Current-URL": f"http://testserver{address}"})


def test_search_marks_the_words_and_leads_to_the_place(anna: ChatUser, as_viewer: Client) -> None:
    topic = topic_of(anna, "vLLM", ["It dies with OOM", "Lower it"])
    page = get(as_viewer, f"/memory/{anna.pk}/messages/?q=oom")
    assert "<mark>OOM</mark>" in page
    assert "Lower it" not in page
    assert f"Topic:{topic.pk}" in page


@pytest.mark.slow
def test_the_heading_counts_all_messages_and_what_was_found_as_far_as_it_looks(
    long_talk: list[Message], anna: ChatUser, as_viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_of(anna, "vLLM", ["It dies"])
    address = f"/memory/{anna.pk}/messages/"
    assert "201 messages" in get(as_viewer, address)
    assert "200 messages" in get(as_viewer, f"{address}?place=active")
    assert "111 messages" in get(as_viewer, f"{address}?q=message 1")
    monkeypatch.setattr(messages, "MOST_COUNTED", 110)
    assert "110+ messages" in get(as_viewer, f"{address}?q=message 1")
    assert "201 messages" in get(as_viewer, address)


def test_messages_in_no_topic_are_the_active_session(anna: ChatUser, as_viewer: Client) -> None:
    topic_of(anna, "vLLM", ["It dies"])
    waiting = message_of(anna, "And the parcel", minutes=99)
    page = get(as_viewer, f"/memory/{anna.pk}/messages/?place=active")
    assert rows(page, "message") == [waiting.pk]
    assert "active session" in page


def test_an_answer_names_what_it_answers(anna: ChatUser, as_viewer: Client) -> None:
    asked = message_of(anna, "Which cake?")
    message_of(anna, "Honey", minutes=200, role="assistant", reply_to=asked.external_id)
    assert f'href="/memory/{anna.pk}/messages/?at={asked.pk}"' in get(as_viewer, f"/memory/{anna.pk}/messages/")


def test_attachments_and_forwards_are_shown(anna: ChatUser, as_viewer: Client) -> None:
    files = [{"name": "plan.png", "mime": "image/png"}, {"name": "kept.pdf", "mime": "application/pdf"}, "odd"]
    message = message_of(anna, "Look", forwarded_from="Petrov", metadata={"attachments": files})
    Artifact.objects.create(owner=anna, message=message, name="kept.pdf", file_type="pdf", sha256="1", created_at=BEGAN)
    page = get(as_viewer, f"/memory/{anna.pk}/messages/")
    assert "forwarded from Petrov" in page
    assert page.count("kept.pdf</a>") == 1
    assert "plan.png" in page


@pytest.mark.parametrize("metadata", [{}, {"attachments": None}, {"attachments": "x"}, {"attachments": [{}]}, []])
def test_metadata_of_any_shape_can_be_shown(metadata: object, anna: ChatUser, as_viewer: Client) -> None:
    message_of(anna, "Look", metadata=metadata)
    assert "Look" in get(as_viewer, f"/memory/{anna.pk}/messages/")


@pytest.fixture
def withdrawn(anna: ChatUser) -> Message:
    """One message of an import that was withdrawn, beside one that stays."""
    message_of(anna, "This stays")
    batch = ImportBatch.objects.create(owner=anna, source="wrong.json", format="telegram", added=1)
    gone = message_of(anna, "This was a mistake", minutes=70 * 1440, batch=batch)
    curation.withdraw(anna, batch, actor="cora")
    return gone


def test_a_withdrawn_import_is_neither_listed_nor_counted(
    withdrawn: Message, anna: ChatUser, as_viewer: Client
) -> None:
    page = get(as_viewer, f"/memory/{anna.pk}/messages/")
    assert "This stays" in page
    assert "This was a mistake" not in page
    assert "1 message<" in page
    assert [count for _month, count in messages_by_month(anna)] == [1]
    holding = holdings([anna])[anna.pk]
    assert (holding.messages, holding.waiting) == (1, 1)
    assert holding.last_message_at == Message.objects.earliest("sent_at").sent_at
    assert "This was a mistake" not in get(as_viewer, f"/memory/{anna.pk}/messages/?q=mistake").split("<main")[1]


def test_withdrawn_messages_can_be_looked_at_and_say_what_they_are(
    withdrawn: Message, anna: ChatUser, as_viewer: Client
) -> None:
    for address in ("?place=withdrawn", f"?at={withdrawn.pk}"):
        page = get(as_viewer, f"/memory/{anna.pk}/messages/{address}").split("<main")[1]
        assert "This was a mistake" in page
        assert "with its import, which the history can bring back" in page
    assert "This stays" not in get(as_viewer, f"/memory/{anna.pk}/messages/?place=withdrawn")
    assert "active session" in get(as_viewer, f"/memory/{anna.pk}/messages/")


@pytest.mark.parametrize(("source", "why"), [("neighbour", "this message no time"), ("counted", "is counted from")])
def test_a_time_that_is_not_the_messages_own_is_marked(
    anna: ChatUser, as_viewer: Client, source: str, why: str
) -> None:
    message_of(anna, "In March")
    topic = topic_of(anna, "vLLM", ["It dies with OOM"])
    Message.objects.filter(topic=topic).update(metadata={"time_source": source})
    assert get(as_viewer, f"/memory/{anna.pk}/messages/").count(why) == 2, "as a tooltip, and read aloud"
    assert get(as_viewer, f"/topics/{topic.pk}/").count(why) == 2


def test_a_word_of_a_file_about_its_times_is_no_mark(anna: ChatUser, as_viewer: Client) -> None:
    message = message_of(anna, "In March")
    for metadata in ({"time_source": "gps"}, {"time_source": ["neighbour"]}):
        Message.objects.filter(pk=message.pk).update(metadata=metadata)
        assert "≈" not in get(as_viewer, f"/memory/{anna.pk}/messages/")


def test_a_message_runs_in_its_own_direction(anna: ChatUser, as_viewer: Client) -> None:
    """A browser decides by the first letter: Hebrew and Arabic run from the right, also in an English page."""
    message_of(anna, "החתול שלנו אלרגי לעוף.")
    page = get(as_viewer, f"/memory/{anna.pk}/messages/")
    assert re.search(r'<[^>]*dir="auto"[^>]*>\s*(?:<p>)?\s*החתול', page)
    assert re.search(r'<input(?=[^>]*type="search")[^>]*dir="auto"', page)
