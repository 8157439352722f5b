"""Curating on the topic's page without JavaScript: checkboxes, buttons, and the proposal of a new split."""

import html
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import Client

from memoryapp import curation
from memoryapp.engine.embeddings import Profile
from memoryapp.intake.invariants import violations
from memoryapp.models import ChatUser, EmbeddingProfile, Operator, Passage, PassageVector, Topic, TopicEdit, TopicVector
from memoryapp.platform.llm import clients
from tests.conftest import signed_in, talk
from tests.support.browsing import HTMX, cost, get, message_ids
from tests.support.peer import Peer, reply

VLLM = ["vLLM dies on the H100, out of memory", "Lower gpu_memory_utilization to 0.85, then start vLLM again."]
CAKE = ["Which cake for the birthday, with honey?", "A honey cake with sour cream keeps for two days."]


@pytest.fixture
def topic(anna: ChatUser) -> Topic:
    """Two subjects in one topic, five exchanges of each."""
    texts = [f"{text} ({n})" for n in range(5) for text in VLLM] + [f"{text} ({n})" for n in range(5) for text in CAKE]
    [made, _cats] = talk(anna, ("vLLM and a cake", texts), ("Cats", ["How many cats?", "Three."]))
    return made


@pytest.fixture
def client(curator: Operator) -> Client:
    return signed_in(curator)


def boxes(page: str, name: str) -> list[int]:
    return [int(pk) for pk in re.findall(rf'name="{name}" value="(\d+)"', page)]


def areas(page: str) -> list[str]:
    return re.findall(r'<textarea[^>]*name="summary"[^>]*>([^<]*)<', page)


def profile_row(profile: Profile) -> EmbeddingProfile:
    named = {"provider": profile.provider, "model": profile.model, "dimensions": profile.dimensions}
    return EmbeddingProfile.objects.get_or_create(**named, defaults={"threshold": 0.5})[0]


def along(direction: int) -> list[float]:
    """Returns a unit vector of the serving profile."""
    return [float(place == direction) for place in range(clients.profile().dimensions)]


def with_vector(topic: Topic, direction: int) -> None:
    row = profile_row(clients.profile())
    TopicVector.objects.create(owner=topic.owner, topic=topic, profile=row, vector=along(direction))


def with_passage_vectors(messages: list[int], direction: int) -> None:
    row = profile_row(clients.profile())
    for passage in Passage.objects.filter(messages__in=messages).distinct():
        fields = {"owner": passage.owner, "passage": passage, "profile": row, "dimensions": row.dimensions}
        PassageVector.objects.create(**fields, vector=along(direction))


def parts(page: str) -> list[str]:
    return page.split("data-part ")[1:]


def near(part: str) -> list[tuple[int, str]]:
    """Returns the topics that a part is near to, with the similarity shown."""
    found = re.findall(r'data-peek="/topics/(\d+)/peek/".*?cosine similarity">([\d.]+)<', part, re.DOTALL)
    return [(int(pk), similarity) for pk, similarity in found]


@pytest.mark.slow
def test_a_retired_topic_is_shown_without_tools(client: Client, anna: ChatUser, topic: Topic) -> None:
    curation.swap(anna, curation.plan_edit(anna, topic.pk, "New"), kind="edit", actor="omar")
    assert not boxes(get(client, f"/topics/{topic.pk}/"), "at")
    assert "retired" in get(client, f"/topics/{topic.pk}/resplit/")


@pytest.mark.slow
def test_what_the_form_of_the_page_sends_is_previewed(client: Client, anna: ChatUser, topic: Topic) -> None:
    """The checked boxes and the pressed button, as a browser sends them."""
    ids = message_ids(topic)
    form = {"topics": topic.pk, "at": [ids[4], ids[10]], "messages": ids[:2], "op": "split"}
    page = client.post(f"/memory/{anna.pk}/change/", form).content.decode()
    assert "becomes 3 topics: 4, 6, 10 messages" in page
    page = client.post(f"/memory/{anna.pk}/change/", {**form, "op": "move"}).content.decode()
    assert len(areas(page)) == 2


@pytest.mark.slow
def test_a_place_beyond_the_first_page_can_be_cut(client: Client, anna: ChatUser) -> None:
    [long, _other] = talk(anna, ("Long", [f"message {n}" for n in range(200)]), ("Cats", ["How many?", "Three."]))
    first = get(client, f"/topics/{long.pk}/")
    address = re.search(r'rel="next" href="([^"]+)"', first)
    assert address
    second = get(client, f"/topics/{long.pk}/{address[1]}")
    assert boxes(second, "at") == message_ids(long)[150:]
    assert 'data-place="150"' in second
    page = client.post(f"/memory/{anna.pk}/change/", {"op": "split", "topics": long.pk, "at": message_ids(long)[150]})
    assert "150, 50 messages" in page.content.decode()


def test_topics_to_move_to_are_found_by_their_words(client: Client, topic: Topic) -> None:
    page = get(client, f"/topics/{topic.pk}/pick/?op=move&messages={message_ids(topic)[0]}&q=cats")
    cats = Topic.objects.get(summary="Cats")
    assert f'name="to" value="{cats.pk}"' in page
    assert f'name="messages" value="{message_ids(topic)[0]}"' in page
    assert f'name="to" value="{topic.pk}"' not in page


def test_topics_to_move_to_are_found_by_their_meaning(client: Client, anna: ChatUser, topic: Topic) -> None:
    [coolant, _] = talk(anna, ("Graphics cards run out of memory", ["x", "y"]), ("Knitting", ["z", "w"]))
    embedder = clients.offline_embedder()
    profile = embedder.profile
    row = EmbeddingProfile.objects.create(
        provider=profile.provider, model=profile.model, dimensions=profile.dimensions, threshold=0.5
    )
    live = list(Topic.objects.live())
    vectors = async_to_sync(embedder.embed)([one.summary for one in live])
    for one, vector in zip(live, vectors, strict=True):
        TopicVector.objects.create(owner=anna, topic=one, profile=row, vector=vector.tolist())
    page = get(client, f"/topics/{topic.pk}/pick/?q=GPU+memory")
    found = [int(pk) for pk in re.findall(r'name="to" value="(\d+)"', page)]
    assert found[0] == coolant.pk


@pytest.mark.slow
def test_a_new_topic_waits_for_its_vector_visibly(client: Client, topic: Topic) -> None:
    assert "its vector follows" in get(client, f"/topics/{topic.pk}/")
    asked = {"HX-Request": "true", "HX-Target": "vector-state"}
    assert "every 2s" in get(client, f"/topics/{topic.pk}/", **asked)
    with_vector(topic, 0)
    with_vector(Topic.objects.get(summary="Cats"), 0)
    come = get(client, f"/topics/{topic.pk}/", **asked)
    assert "every 2s" not in come
    assert "Cats" in come
    assert f"topics={topic.pk}&amp;topics={Topic.objects.get(summary='Cats').pk}" in come
    assert "its vector follows" not in get(client, f"/topics/{topic.pk}/")


def test_a_proposal_cuts_where_the_talk_turns(client: Client, topic: Topic) -> None:
    page = get(client, f"/topics/{topic.pk}/resplit/")
    assert f'name="at" value="{message_ids(topic)[10]}"' in page
    assert "2 topics: 10, 10 messages" in page
    assert len(areas(page)) == 2
    assert "embedded segmenter" in page


@pytest.mark.slow
def test_each_boundary_is_taken_or_left(client: Client, anna: ChatUser, topic: Topic) -> None:
    ids = message_ids(topic)
    page = get(client, f"/topics/{topic.pk}/resplit/?at={ids[4]},{ids[10]}")
    assert "3 topics: 4, 6, 10 messages" in page
    assert f'href="?at={ids[10]}" data-go="leave"' in page
    assert f'href="?at={ids[10]},{ids[3]}" data-go="earlier"' in page
    assert "One topic, as today" in get(client, f"/topics/{topic.pk}/resplit/?at=none")
    fields = {"op": "resplit", "topics": topic.pk, "at": ids[10], "summary": ["vLLM", "Cake"], "commit": 1}
    client.post(f"/memory/{anna.pk}/change/", fields)
    assert {one.summary: message_ids(one) for one in Topic.objects.live().exclude(summary="Cats")} == {
        "vLLM": ids[:10],
        "Cake": ids[10:],
    }
    assert TopicEdit.objects.latest("pk").kind == "resplit"
    assert list(violations()) == []


def test_what_was_typed_survives_another_cut(client: Client, topic: Topic) -> None:
    ids = message_ids(topic)
    sent = {
        "span": [f"{ids[0]}-{ids[9]}", f"{ids[10]}-{ids[19]}"],
        "was": ["proposed a", "proposed b"],
        "summary": ["typed", "proposed b"],
    }
    answer = client.post(f"/topics/{topic.pk}/resplit/?at={ids[4]},{ids[10]}", sent, headers={"HX-Request": "true"})
    first, second, third = areas(answer.content.decode())
    assert (first, third) == ("typed", "proposed b")
    assert second not in {"", "typed", "proposed b"}


@pytest.mark.parametrize("at", ["x", "-4", "99999999999999999999999", "of another topic"])
def test_cuts_that_are_nowhere_in_the_topic_are_none(at: str, client: Client, topic: Topic) -> None:
    elsewhere = ",".join(map(str, message_ids(Topic.objects.get(summary="Cats"))))
    cuts = elsewhere if at == "of another topic" else at
    assert "One topic, as today" in get(client, f"/topics/{topic.pk}/resplit/?at={cuts}")


@pytest.mark.slow
def test_the_page_says_what_the_topic_was_made_of_and_leads_back(client: Client, anna: ChatUser, topic: Topic) -> None:
    cats = Topic.objects.get(summary="Cats")
    edit = curation.swap(
        anna, curation.plan_merge(anna, [topic.pk, cats.pk]), kind=TopicEdit.Kind.MERGE, actor="omar", reason="alike"
    )
    page = get(client, f"/topics/{curation.put_in(edit)[0].pk}/")
    assert "omar merged" in page
    assert f'action="/memory/{anna.pk}/history/edits/{edit.pk}/"' in page


@pytest.fixture
def beside(anna: ChatUser, topic: Topic) -> tuple[Topic, Topic]:
    """A topic near the first ten messages and one near the last ten; both have vectors."""
    servers, baking = talk(anna, ("Servers", ["Which GPU?", "An H100."]), ("Baking", ["Which oven?", "A hot one."]))
    ids = message_ids(topic)
    for direction, (matter, messages) in enumerate([(servers, ids[:10]), (baking, ids[10:])]):
        with_vector(matter, direction)
        with_passage_vectors(messages, direction)
    return servers, baking


@pytest.mark.slow
def test_each_part_shows_the_topics_it_is_near_to(client: Client, topic: Topic, beside: tuple[Topic, Topic]) -> None:
    servers, baking = beside
    first, second = parts(get(client, f"/topics/{topic.pk}/resplit/?at={message_ids(topic)[10]}"))
    assert near(first) == [(servers.pk, "1.00"), (baking.pk, "0.00")]
    assert near(second) == [(baking.pk, "1.00"), (servers.pk, "0.00")]


@pytest.mark.slow
def test_another_cut_brings_other_neighbours(client: Client, topic: Topic, beside: tuple[Topic, Topic]) -> None:
    [whole] = parts(get(client, f"/topics/{topic.pk}/resplit/?at=none"))
    assert [similarity for _pk, similarity in near(whole)] == ["0.71", "0.71"]
    answer = client.post(f"/topics/{topic.pk}/resplit/?at={message_ids(topic)[6]}", {}, headers=HTMX)
    first, second = parts(answer.content.decode())
    assert near(first)[0] == (beside[0].pk, "1.00")
    assert near(second)[0][0] == beside[1].pk
    assert near(second)[0][1] < "1.00"


@pytest.mark.slow
def test_neighbours_are_live_topics_of_the_same_memory_and_not_the_topic_itself(
    client: Client, anna: ChatUser, topic: Topic, beside: tuple[Topic, Topic]
) -> None:
    with_vector(topic, 0)
    [foreign] = talk(ChatUser.objects.create(display_name="Boris"), ("Foreign", ["a", "b"]))
    with_vector(foreign, 0)
    curation.swap(anna, curation.plan_edit(anna, beside[0].pk, "New"), kind="edit", actor="omar")
    [whole] = parts(get(client, f"/topics/{topic.pk}/resplit/?at=none"))
    assert [pk for pk, _similarity in near(whole)] == [beside[1].pk]


@pytest.mark.slow
def test_more_parts_cost_no_more_queries(client: Client, topic: Topic, beside: tuple[Topic, Topic]) -> None:
    ids = message_ids(topic)
    one = cost(client, f"/topics/{topic.pk}/resplit/?at=none")
    many = cost(client, f"/topics/{topic.pk}/resplit/?at={','.join(map(str, ids[2::2]))}")
    assert many == one


class Splitting(Peer):
    """A chat model that answers everything with ``says``."""

    says = ""

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(body)
        return reply({"content": self.says})


@pytest.fixture
def model(settings: Any) -> Iterator[Splitting]:
    peer = Splitting()
    settings.LLM_BASE_URL, settings.LLM_API_KEY, settings.SPLITTER_MODEL = peer.url, "key", f"acme/{peer.url}"
    yield peer
    peer.stop()


def answered(*spans: tuple[str, int, int]) -> str:
    named = ("summary", "start_msg_id", "end_msg_id")
    return json.dumps({"topics": [dict(zip(named, span, strict=True)) for span in spans]})


@pytest.mark.slow
def test_the_model_is_asked_and_its_proposal_is_marked_as_its_own(
    client: Client, topic: Topic, model: Splitting, settings: Any
) -> None:
    ids = message_ids(topic)
    model.says = answered(("vLLM dies", ids[0], ids[5]), ("A birthday cake", ids[6], ids[19]))
    assert "Ask the model" in get(client, f"/topics/{topic.pk}/resplit/")
    assert model.requests == []
    sent = {"span": f"{ids[0]}-{ids[19]}", "was": "vLLM and a cake", "summary": "typed", "ask": "model"}
    answer = client.post(f"/topics/{topic.pk}/resplit/?at=none", sent)
    page = html.unescape(answer.content.decode())
    assert "2 topics: 6, 14 messages" in page
    assert areas(page) == ["vLLM dies", "A birthday cake"]
    assert f"Proposed by {settings.SPLITTER_MODEL}" in page
    assert "embedded segmenter" not in page
    address = answer["HX-Replace-Url"]
    assert address == f"/topics/{topic.pk}/resplit/?at={ids[6]}&by=model"
    assert f"Proposed by {settings.SPLITTER_MODEL}" in html.unescape(get(client, address))
    assert "Your cuts" in get(client, f"/topics/{topic.pk}/resplit/?at={ids[6]},{ids[8]}")
    assert Topic.objects.live().filter(pk=topic.pk).exists()


@pytest.mark.slow
def test_a_model_may_leave_the_topic_whole(client: Client, topic: Topic, model: Splitting) -> None:
    model.says = answered(("All of it", message_ids(topic)[0], message_ids(topic)[-1]))
    page = client.post(f"/topics/{topic.pk}/resplit/?at={message_ids(topic)[4]}", {"ask": "model"}).content.decode()
    assert "would leave this topic whole" in page
    assert areas(page) == ["vLLM and a cake"]


@pytest.mark.slow
def test_when_the_model_fails_the_cuts_and_what_was_typed_stay(client: Client, topic: Topic, model: Splitting) -> None:
    ids = message_ids(topic)
    model.says = "I would rather not."
    sent = {
        "span": [f"{ids[0]}-{ids[3]}", f"{ids[4]}-{ids[19]}"],
        "was": ["a", "b"],
        "summary": ["typed", "b"],
        "ask": "model",
    }
    answer = client.post(f"/topics/{topic.pk}/resplit/?at={ids[4]}", sent, headers=HTMX)
    page = answer.content.decode()
    assert 'role="alert"' in page
    assert "cannot be used" in page
    assert "4, 16 messages" in page
    assert areas(page) == ["typed", "b"]
    assert "Your cuts" in page
    assert "HX-Replace-Url" not in answer
