"""Regions of the map: which topics belong together, their outlines, and the words that distinguish them."""

import numpy as np
import pytest

from memoryapp.engine.regions import LEAST_PLACES, MOST_REGIONS, hull, names, regions


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
