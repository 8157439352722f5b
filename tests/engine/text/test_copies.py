"""The same text, posted twice."""

from __future__ import annotations

import pytest

from memoryapp.engine.text.excerpts import LEAST_CHARS, Saying, key_of, originals

POST = "Новый релиз: сервер стал вдвое быстрее, ещё и дешевле. https://example.org/news"


@pytest.mark.parametrize(
    "copy",
    [
        "Boris (Канал): " + POST,
        "Vera: " + POST.upper().replace("HTTPS://EXAMPLE.ORG/NEWS", "https://www.example.org/news/?utm_source=tg#top"),
        "Vera: 🚀 **Новый релиз** — сервер стал вдвое быстрее, еще и дешевле!\nhttp://example.org/news?fbclid=1",
    ],
)
def test_case_punctuation_and_who_wrote_make_no_difference(copy: str) -> None:
    labels = {"Vera", "Boris (Канал)"}
    assert key_of(copy, labels) == key_of(f"Vera: {POST}", labels) != b""


@pytest.mark.parametrize("other", [POST.replace("вдвое", "втрое"), POST.replace("news", "news?page=2"), POST[:-1]])
def test_another_word_or_place_makes_another_text(other: str) -> None:
    assert key_of(f"Vera: {other}", {"Vera"}) != key_of(f"Vera: {POST}", {"Vera"})


def test_a_short_text_is_no_copy() -> None:
    assert key_of("Vera: See you tomorrow then!", {"Vera"}) == b""
    assert key_of("Vera: " + "a" * (LEAST_CHARS - 1), {"Vera"}) == b""
    assert key_of("Vera: " + "a" * LEAST_CHARS, {"Vera"}) != b""


def test_the_original_is_not_forwarded_and_then_the_earliest() -> None:
    sayings = {
        1: Saying(b"post", True, 1.0),
        2: Saying(b"post", False, 9.0),
        3: Saying(b"post", False, 5.0),
        4: Saying(b"", False, 0.0),
        5: Saying(b"", False, 0.0),
        6: Saying(b"other", True, 0.0),
    }
    assert originals([1, 2, 3, 4, 5, 6, 7], sayings) == {1: 3, 2: 3}
    assert originals([1, 4], sayings) == {}
