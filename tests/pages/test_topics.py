"""Topics in the browser: the list in pages, one topic live or retired, the preview."""

from __future__ import annotations

import pytest
from django.test import Client

from memoryapp.models import ChatUser, EmbeddingProfile, Message, Run, Topic, TopicVector
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


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("after=nonsense", id="a-cursor-that-is-none"),
        pytest.param("after=2026-03-02,x", id="a-cursor-without-an-id"),
        pytest.param("before=2026-99-99T00:00,5", id="a-date-that-is-none"),
        pytest.param("sort=wrong&state=wrong", id="options-that-are-none"),
        pytest.param("q=" + "x" * 201, id="too-many-words"),
        pytest.param("q=%00", id="a-null-character"),
    ],
)
def test_an_address_nobody_understands_shows_the_first_page(query: str, anna: ChatUser, as_viewer: Client) -> None:
    topic = topic_of(anna, "Cake", ["Which?"])
    assert rows(get(as_viewer, f"/memory/{anna.pk}/topics/?{query}"), "topic") == [topic.pk]


@pytest.mark.parametrize("address", ["/topics/{huge}/", "/topics/{huge}/peek/", "/memory/{huge}/topics/"])
def test_an_id_beyond_the_database_is_not_found(address: str, as_viewer: Client) -> None:
    assert as_viewer.get(address.format(huge=10**30)).status_code == 404


def test_htmx_gets_the_list_alone_and_caches_know(anna: ChatUser, as_viewer: Client) -> None:
    topic_of(anna, "Cake", ["Which?"])
    answer = as_viewer.get(f"/memory/{anna.pk}/topics/", headers=HTMX)
    assert answer.content.decode().strip().startswith('<section class="panel" id="list">')
    assert "HX-Request" in answer["Vary"]
    restored = as_viewer.get(f"/memory/{anna.pk}/topics/", headers={**HTMX, "HX-History-Restore-Request": "true"})
    assert "<html" in restored.content.decode()


def test_words_in_no_summary_can_be_searched_in_the_messages(anna: ChatUser, as_viewer: Client) -> None:
    assert "Search the messages" in get(as_viewer, f"/memory/{anna.pk}/topics/?q=nothing")


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
