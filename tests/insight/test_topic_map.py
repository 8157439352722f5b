"""The map: neighbours are near each other, many topics cost little, and a text gives the numbers to those who see no
picture."""

from typing import Any

import numpy as np
import pytest
from django.test import Client

from memoryapp import curation
from memoryapp.engine.regions import LEAST_PLACES, MOST_REGIONS, hull, names, project, regions, within
from memoryapp.insight.browsing.topic_map import last_run, topic_map
from memoryapp.models import ChatUser, EmbeddingProfile, Topic, TopicVector
from tests.support.browsing import cost, get, grow, rows, run_of, topic_of


def placed(owner: ChatUser, topics: list[Topic], vectors: np.ndarray[Any, Any]) -> None:
    size = {"provider": "test", "model": "m", "dimensions": vectors.shape[1], "threshold": 0.1}
    profile, _made = EmbeddingProfile.objects.get_or_create(**size)
    rows = zip(topics, (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).tolist(), strict=True)
    TopicVector.objects.bulk_create(TopicVector(owner=owner, topic=t, profile=profile, vector=v) for t, v in rows)


def test_the_plane_is_that_of_a_whole_decomposition() -> None:
    vectors = np.random.default_rng(3).standard_normal((300, 64)).astype(np.float32) * np.linspace(3, 0.1, 64)
    places, shown = project(vectors.astype(np.float32))
    centred = vectors - vectors.mean(axis=0)
    _left, values, axes = np.linalg.svd(centred, full_matrices=False)
    exact = centred @ axes[:2].T
    assert np.allclose(np.abs(places), np.abs(exact), atol=0.15)
    assert shown == pytest.approx(float((values[:2] ** 2).sum() / (values**2).sum()), abs=0.01)


@pytest.mark.parametrize("shape", [(0, 0), (1, 8), (2, 8), (5, 1)])
def test_few_vectors_have_places_too(shape: tuple[int, int]) -> None:
    places, shown = project(np.random.default_rng(1).standard_normal(shape).astype(np.float32))
    assert places.shape == (shape[0], 2)
    assert np.isfinite(places).all()
    assert 0 <= shown <= 1


def test_topics_near_in_meaning_lie_near(anna: ChatUser) -> None:
    topics = [topic_of(anna, f"T{number}", ["x"], day=number) for number in range(4)]
    placed(anna, topics, np.array([[1, 0, 0.1], [1, 0.1, 0], [0, 1, 0.1], [0.1, 1, 0]], np.float32))
    spots = {place.topic.pk: np.array([place.x, place.y]) for place in topic_map(anna).points}
    one, other, far, _beside = (spots[topic.pk] for topic in topics)
    assert np.linalg.norm(one - other) < np.linalg.norm(one - far) / 3


def test_retired_topics_and_those_of_others_are_on_no_map(anna: ChatUser, boris: ChatUser) -> None:
    topics = [topic_of(owner, "T", ["x"], day=day) for day, owner in enumerate([anna, anna, anna, boris])]
    for owner in (anna, boris):
        placed(owner, [t for t in topics if t.owner == owner], np.eye(3, dtype=np.float32)[: 3 if owner == anna else 1])
    change = curation.plan_edit(anna, topics[0].pk, "Said anew")
    curation.swap(anna, change, kind="edit", actor="ada")
    assert [place.topic.pk for place in topic_map(anna).points] == [topics[2].pk, topics[1].pk]


def test_topics_without_a_vector_are_counted(anna: ChatUser, as_viewer: Client) -> None:
    topics = [topic_of(anna, "T", ["x"], day=day) for day in range(3)]
    placed(anna, topics[:2], np.eye(2, dtype=np.float32))
    assert topic_map(anna).waiting == 1
    assert "1 more has no vector yet" in get(as_viewer, f"/memory/{anna.pk}/map/")


def test_what_lies_in_an_outline_is_found_even_where_it_crosses_itself() -> None:
    places = np.array([[0.5, 0.5], [1.5, 0.5], [0.1, 0.9], [0.9, 0.1]], np.float32)
    assert within(places, [(0, 0), (1, 0), (1, 1), (0, 1)]).tolist() == [True, False, True, True]
    assert within(places, [(0, 0), (0.2, 1), (0, 1), (0.2, 0)]).tolist() == [False, False, True, False]


def test_an_area_and_a_region_of_the_map_are_filters_of_the_list(anna: ChatUser, as_viewer: Client) -> None:
    topics = [topic_of(anna, f"{'Cake' if n % 2 else 'Tea'} {n}", ["x"], day=n) for n in range(12)]
    placed(anna, topics, np.array([[1, n % 2 * 9, n / 30] for n in range(12)], np.float32))
    drawn = topic_map(anna)
    address = f"/memory/{anna.pk}/topics/"
    side = [point for point in drawn.points if point.x > 0]
    page = get(as_viewer, f"{address}?area=0,-2000;2000,-2000;2000,2000;0,2000")
    assert set(rows(page, "topic")) == {point.topic.pk for point in side} != {point.topic.pk for point in drawn.points}
    assert "in the area drawn" in page
    assert "elsewhere on the map" in page
    page = get(as_viewer, f"{address}?region=0")
    assert set(rows(page, "topic")) == {point.topic.pk for point in drawn.points if point.region == 0}
    assert f'href="{address}?region=1"' in get(as_viewer, f"/memory/{anna.pk}/map/")
    for odd in ("area=", "area=1,1", "area=x", "area=1,2;3,4;5,99999999", "region=99", "region=x"):
        assert "No topic matches" in get(as_viewer, f"{address}?{odd}")


@pytest.mark.slow
def test_more_topics_cost_no_more_queries(anna: ChatUser, as_viewer: Client) -> None:
    grow(anna, 3)
    placed(anna, list(Topic.objects.order_by("pk")), np.eye(3, 4, dtype=np.float32))
    few = cost(as_viewer, f"/memory/{anna.pk}/map/")
    grow(anna, 20)
    placed(
        anna,
        list(Topic.objects.order_by("pk")[3:]),
        np.random.default_rng(1).standard_normal((20, 4)).astype(np.float32),
    )
    assert cost(as_viewer, f"/memory/{anna.pk}/map/") <= few


def test_the_last_run_lights_the_topics_that_hold_what_it_read_today(anna: ChatUser, as_viewer: Client) -> None:
    topics = [topic_of(anna, "T", ["x"], day=day) for day in range(2)]
    placed(anna, topics, np.eye(2, dtype=np.float32))
    assert last_run(anna) is None
    run_of(anna, topics[1])
    run = run_of(anna, topics[0])
    change = curation.plan_edit(anna, topics[0].pk, "Said anew")
    [now] = curation.put_in(curation.swap(anna, change, kind="edit", actor="ada"))
    lit = last_run(anna)
    assert lit is not None
    assert (lit.run, lit.read, lit.chosen) == (run, {now.pk}, {now.pk})
    page = get(as_viewer, f"/memory/{anna.pk}/map/")
    assert "One topic makes no map" in page
    placed(anna, [now], np.eye(2, dtype=np.float32)[:1])
    page = get(as_viewer, f"/memory/{anna.pk}/map/")
    assert f'<script id="lit" type="application/json">{{"{now.pk}": "chosen"}}</script>' in page


@pytest.mark.slow
def test_many_topics_lie_in_named_regions_which_colour_them(anna: ChatUser, as_viewer: Client) -> None:
    words = ["honey cake", "vLLM crash"]
    topics = [topic_of(anna, f"{words[n % 2]} {n}", ["x"], day=n) for n in range(20)]
    dice = np.random.default_rng(4).normal(0, 0.05, (20, 3))
    placed(anna, topics, (np.eye(3)[[n % 2 for n in range(20)]] + dice).astype(np.float32))
    found = topic_map(anna)
    assert sum(region.count for region in found.regions) == 20
    assert {word for region in found.regions for word in region.words} == {"honey", "cake", "vLLM", "crash"}
    page = get(as_viewer, f"/memory/{anna.pk}/map/")
    assert 'data-colour="region"' in page
    assert 'data-colour="time"' in get(as_viewer, f"/memory/{anna.pk}/map/?colour=time")


# Regions of the map: which topics belong together, their outlines, and the words that distinguish them.


def test_what_lies_together_is_one_region_and_the_largest_comes_first() -> None:
    dice = np.random.default_rng(1)
    spots = [dice.normal(centre, 0.05, (count, 2)) for centre, count in (((0, 0), 6), ((5, 5), 20), ((0, 5), 8))]
    places = np.concatenate(spots).astype(np.float32)
    found = regions(places)
    assert [len(set(part)) for part in (found[:6], found[26:])] == [1, 1]
    assert not set(found[6:26]) & {*found[:6], *found[26:]}
    assert found == regions(places)
    assert found[6:26].count(0)
    assert sorted(set(found)) == list(range(max(found) + 1))
    assert max(found) < MOST_REGIONS


@pytest.mark.parametrize("count", [0, 1, LEAST_PLACES - 1])
def test_few_places_are_no_regions(count: int) -> None:
    assert regions(np.random.default_rng(2).random((count, 2)).astype(np.float32)) == [0] * count


def test_places_on_one_spot_and_on_two_are_parted_no_further() -> None:
    assert set(regions(np.ones((40, 2), np.float32))) == {0}
    two = np.repeat(np.array([[0, 0], [1, 1]], np.float32), 20, axis=0)
    assert len(set(regions(two))) == 2


def test_a_hull_has_the_corners_alone() -> None:
    square = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
    assert set(hull([*square, (0.5, 0.5), (0.5, 0.0), (0.0, 0.0)])) == set(square)
    assert hull([(1.0, 2.0), (1.0, 2.0)]) == [(1.0, 2.0)]
    assert hull([(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)]) == [(0.0, 0.0), (2.0, 2.0)]
    assert hull([]) == []


def test_names_are_words_that_others_do_not_say() -> None:
    texts = [
        "vLLM crash after an update",
        "vLLM out of memory after lunch",
        "Honey cake after lunch",
        "A cake with honey",
    ]
    vllm, cake = names(texts, [0, 0, 1, 1])
    assert vllm[0] == "vLLM"
    assert set(cake[:2]) == {"honey", "cake"}
    assert names([], []) == []
    assert names(["12 и 5"], [0]) == [()]


def test_a_word_of_one_text_alone_names_no_region_of_many() -> None:
    once = [f"{'abcdefghij'[n % 10]}{'klmnopqrst'[n // 10 % 10]}{'uvwxy'[n // 100]}ing" for n in range(400)]
    texts = [f"{'honey' if n % 2 else 'vLLM'} {word}" for n, word in enumerate(once)]
    assert names(texts, [n % 2 for n in range(400)]) == [("vLLM",), ("honey",)]


@pytest.mark.parametrize(
    ("summaries", "subjects"),
    [
        (["Thanks, wanted to help with sourdough", "Wanted to thank for sourdough"], {"sourdough"}),
        (["Хотел сделать сегодня теплицу", "Сегодня хотел посмотреть теплицу"], {"теплицу"}),
    ],
)
def test_words_of_any_talk_name_no_region(summaries: list[str], subjects: set[str]) -> None:
    own, _other = names([*summaries, "vLLM", "vLLM"], [0, 0, 1, 1])
    assert subjects <= set(own)
    assert not set(own) & {"wanted", "thanks", "thank", "help", "хотел", "сделать", "сегодня"}


@pytest.mark.parametrize(
    ("summaries", "first"),
    [
        (["Покрасить и утеплить: крыша", "Утеплить и покрасить, крыша"], "крыша"),
        (["Справка отправлена в налоговую", "Вчера справка отправлена снова"], "справка"),
        (["Against all odds: two sourdoughs", "Two more loaves of sourdough against the cold"], "sourdough"),
    ],
)
def test_a_noun_names_a_region_before_what_is_done_with_it(summaries: list[str], first: str) -> None:
    own, _other = names([*summaries, "vLLM", "vLLM"], [0, 0, 1, 1])
    assert own[0] == first
    assert not {"against", "two"} & set(own)


def test_names_keep_their_capital_letter_and_words_at_the_beginning_lose_it() -> None:
    texts = ["Teeth of Nadia and Whitcombe", "Teeth again. Whitcombe paid: Nadia too", "vLLM", "vLLM"]
    assert set(names(texts, [0, 0, 1, 1])[0]) == {"Nadia", "Whitcombe", "teeth"}


def test_a_word_is_written_in_the_form_that_stands_alone() -> None:
    texts = ["К ортопеду с коленом", "У ортопеда, затем ортопед звонил", "vLLM", "vLLM"]
    assert names(texts, [0, 0, 1, 1])[0][0] == "ортопед"
