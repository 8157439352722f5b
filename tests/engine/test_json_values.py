"""Events as JSON text and back: nothing is lost, and the database accepts everything."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from memoryapp.engine.json_values import build, to_text


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    weights: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Line:
    words: tuple[Word, ...]
    numbers: tuple[int, ...] = ()
    last: Word | None = None
    main: Word = Word("none")


def test_a_value_comes_back_as_it_was() -> None:
    line = Line((Word("привет", {"a": 0.1}), Word("b\\u0000")), (1, 2), None, Word("main"))
    assert build(Line, json.loads(to_text(line))) == line


def test_what_no_database_stores_is_replaced_wherever_it_stands() -> None:
    stored = json.loads(to_text(Line((Word("a\x00b \ud800", {"\x00": 1.0}),))))
    assert stored["words"][0] == {"text": "a\ufffdb \ufffd", "weights": {"\ufffd": 1.0}}


def test_a_field_that_came_later_has_its_default_and_an_unknown_one_is_left_out() -> None:
    assert build(Line, {"words": [{"text": "a"}], "colour": "red"}) == Line((Word("a"),))


def test_a_missing_field_is_named() -> None:
    with pytest.raises(ValueError, match="Word lacks text"):
        build(Line, {"words": [{}]})
