"""Where a sentence ends, and where a full stop ends none."""

from __future__ import annotations

import pytest

from memoryapp.engine.text.sentences import sentences, spans


@pytest.mark.parametrize(
    "whole",
    [
        "Подняли util до 0.9, стало быстрее.",
        "We pinned v1.2.3 and it works.",
        "Берём простые методы, например, т.е. без магии.",
        "Берём простые методы, т. е. без магии.",
        "Use a cache, e.g. Redis, for that.",
        "Встреча с А. С. Пушкиным в 10 утра.",
        "I met J. Smith and Dr. Brown there.",
        "It is 5 p.m. and we left.",
        "В 2025 г. мы переехали на ул. Ленина, д. 5.",
        "See https://example.com/a.b?c=1. now",
        "The log is in app.2026.log, not here.",
        "1. Купить молоко",
    ],
)
def test_a_point_inside_a_sentence_ends_none(whole: str) -> None:
    expected = [whole] if not whole.startswith("See") else ["See https://example.com/a.b?c=1.", "now"]
    assert sentences(whole) == expected


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Yes. No! Why?.. Well…", ["Yes.", "No!", "Why?..", "Well…"]),
        ("поехали. потом купили хлеб", ["поехали.", "потом купили хлеб"]),
        ("He said “no.” Then he left.", ["He said “no.”", "Then he left."]),
        ("Молоко, хлеб и т. д. Потом домой.", ["Молоко, хлеб и т. д.", "Потом домой."]),
        ("Was it there? No. We left.", ["Was it there?", "No.", "We left."]),
        ("So did I. We left.", ["So did I.", "We left."]),
        ("one\n\n two \n", ["one", "two"]),
        ("In May we had 5. In June 7.", ["In May we had 5.", "In June 7."]),
        ("1. Milk.\n2. Bread.", ["1. Milk.", "2. Bread."]),
        (" \n ", []),
    ],
)
def test_a_sentence_ends_at_its_marks_and_at_the_end_of_a_line(text: str, parts: list[str]) -> None:
    assert sentences(text) == parts
    assert [text[start:end] for start, end in spans(text)] == parts
