"""Every way in which a model may write its choice is read as the same choice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.text.answers import answer_in_words, parse_answer, parse_ids, read_id


def ids(text: str) -> list[str] | None:
    picks = parse_answer(text)
    return None if picks is None else [pick.id for pick in picks]


BOTH = ["Topic:42", "Topic:18"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[42, 18]", id="bare list"),
        pytest.param('["Topic:42", "18"]', id="list of texts"),
        pytest.param('[42, "topic:18"]', id="mixed list"),
        pytest.param('{"topics": [42, 18]}', id="numbers"),
        pytest.param('{"topics": [42.0, 18.0]}', id="floats"),
        pytest.param('{"topic_ids": ["42", 18]}', id="topic_ids"),
        pytest.param('{"ids": ["[Topic:42]", " 18 "]}', id="ids"),
        pytest.param('{"topics": [], "ids": [42, 18]}', id="an empty list beside a full one"),
        pytest.param('{"topics": [{"id": 42}, {"id": "Topic:18"}]}', id="objects"),
        pytest.param('{"topics": [{"topic_id": 42}, 18]}', id="objects and numbers"),
        pytest.param('[{"id": "Topic:42", "reason": "x"}, {"id": 18}]', id="list of objects"),
        pytest.param('[{"topic_ids": [42, 18]}]', id="wrapped in a list"),
        pytest.param('```json\n{"topics": [42, 18]}\n```', id="fenced"),
        pytest.param("```\n[42, 18]\n```", id="fenced list"),
        pytest.param('```json\n{"topics": [42, 18]}', id="fence not closed"),
        pytest.param('Sure! {"topics": [42, 18]} Hope it helps.', id="prose around"),
        pytest.param('[Topic:7] is off, [7] too. {"topics": [42, 18]}', id="prose with ids"),
        pytest.param("I chose [42, 18] in the end.", id="prose around a list"),
        pytest.param('{"topics": [7]} No, better: {"topics": [42, 18]}', id="second thoughts"),
        pytest.param('{"topics": [42, 18,],}', id="trailing commas"),
        pytest.param("{'topics': [42, 18]}", id="single quotes"),
        pytest.param("{topics: [42, 18]}", id="bare key"),
        pytest.param('{"topics": [42, 18', id="cut off"),
        pytest.param('{"topics": [{"id": "Topic:42", "reason": "a"}, {"id": "Topic:18", "rea', id="cut in a key"),
        pytest.param('Sure: {"topics": [{"id": 42, "reason": "a"}, {"id": 18, "reason": "it is', id="cut in a text"),
        pytest.param('{"topics": [{"id": "Topic:42"}, {"id": "Topic:18"}, {"id": "Topic:1', id="cut in an id"),
        pytest.param('{"topics": [42, 18, 42, "Topic:18"]}', id="repeats"),
        pytest.param('{"topics": [42, null, true, {"reason": "no id"}, [], 18]}', id="bad elements"),
    ],
)
def test_all_shapes_parse_to_the_same_choice(text: str) -> None:
    assert ids(text) == BOTH


@pytest.mark.parametrize("text", ["[]", '{"topics": []}', '{"topics": [], "people": [], "artifacts": []}', "none: []"])
def test_empty_lists_mean_nothing_relevant(text: str) -> None:
    assert ids(text) == []


@pytest.mark.parametrize(
    "text",
    ["", "null", "{}", "I do not know", "see [Topic:42]", '{"selected": [1]}', '{"topics": [{"why": "x"}]}', "7"],
)
def test_what_holds_no_choice_is_unreadable_and_not_empty(text: str) -> None:
    assert ids(text) is None or text == "7"


IN_WORDS = {
    "selected_topics": '{"selected_topics": ["Topic:42", {"id": 18}]}',
    "selectedTopicIds, wrapped": '{"answer": {"selectedTopicIds": [42, 18]}}',
    "selected": '{"selected": ["Topic:42", "Topic:18"]}',
    "an object of reasons": '{"Topic:42": "trip", "Topic:18": "hotel"}',
    "an object of verdicts": '{"Topic:42": true, "Topic:7": false, "Topic:18": true}',
    "topic for id": '{"topics": [{"topic": "Topic:42"}, {"topic": "Topic:18"}]}',
    "pairs": '[["Topic:42", "trip"], ["Topic:18", "hotel"]]',
    "pairs in topics": '{"topics": [["Topic:42", "trip"], ["Topic:18", "hotel"]]}',
    "JSON Lines": '{"id": "Topic:42", "reason": "trip"}\n{"id": "Topic:18"}',
    "csv": "id,reason\n42,trip\n18,hotel",
    "csv without a head": "Topic:42,trip\nTopic:18,hotel",
    "a table": "| Topic | Reason |\n|---|---|\n| Topic:42 | trip |\n| Topic:18 | hotel |",
    "a list": "My choice:\n\n1. **Topic:42** - trip\n2. [Topic:18]: they do not fly\n\nHope it helps!",
    "yaml": "topics:\n  - id: Topic:42\n    reason: trip\n  - id: Topic:18\npeople: []",
    "xml, attributes": '<topics><topic id="Topic:42" reason="trip"/><topic id="18"/></topics>',
    "xml, tags": "<topic><id>Topic:42</id><reason>trip</reason></topic><topic>Topic:18</topic>",
    "a sentence": "The relevant ones are [Topic:42] and [Topic:18].",
    "a sentence behind": "Topic:42, Topic:18 are relevant to the question.",
    "in Russian": "Подходят Topic:42 и Topic:18.",
    "ids alone": "Topic:42, Topic:18",
}


@pytest.mark.parametrize("text", IN_WORDS.values(), ids=IN_WORDS)
def test_a_choice_that_any_reader_sees_is_read_though_it_is_no_json_as_asked_for(text: str) -> None:
    assert [pick.id for pick in parse_answer(text) or answer_in_words(text) or ()] == BOTH
    assert parse_answer(text) != ()


@pytest.mark.parametrize(
    "text",
    [
        "None of Topic:42, Topic:18 is relevant.",
        "see [Topic:42]",
        "Is Topic:42 relevant?",
        "I chose Topic:18 rather than Topic:42.",
        "Topic:42 is about a dog. Topic:18 answers the question.",
        "Let me read Topic:42 and Topic:18",
        "I read Topic:42 and Topic:18, and nothing is relevant.",
        "- Topic:42: not relevant\n- Topic:18: relevant",
        "Relevant:\n- Topic:42\nRejected:\n- Topic:18",
        "Rejected:\n- Topic:42\n- Topic:18",
        "Topic:42: 0.9\nTopic:18: 0.1",
        "| Topic:42 | no |\n| Topic:18 | yes |",
        '{"rejected_topics": ["Topic:42"]}',
        '{"candidates": ["Topic:42"]}',
        '{"Topic:42": 0.9, "Topic:18": 0.1}',
        '{"Topic:42": "not relevant", "Topic:18": "hotel"}',
        '<rejected><topic id="Topic:42"/></rejected>',
        "Тема Topic:42 не подходит.",
        "I do not know",
        "{}",
        "",
    ],
)
def test_what_could_mean_the_opposite_is_not_read(text: str) -> None:
    assert answer_in_words(text) is None


def test_reasons_and_excerpts_are_kept_in_any_of_their_forms() -> None:
    topics = [
        {"id": 1, "reason": " why ", "excerpt": "[User]: hi"},
        {"id": 2, "excerpt": [11, "text", {"text": "more"}, {"id": 12}, None]},
        {"id": 3, "reason": 5, "excerpt": ""},
    ]
    first, second, third = parse_answer(json.dumps({"topics": topics})) or ()
    assert (first.reason, first.excerpt) == ("why", ("[User]: hi",))
    assert second.excerpt == (11, "text", "more", 12)
    assert (third.reason, third.excerpt) == ("", ())


def test_people_and_artifacts_keep_their_kind() -> None:
    assert ids('{"topics": [42], "people": [7, "Person:8"], "artifacts": ["[Artifact:3]"]}') == [
        "Topic:42",
        "Person:7",
        "Person:8",
        "Artifact:3",
    ]


def test_the_first_of_repeated_topics_keeps_its_reason() -> None:
    (pick,) = parse_answer('{"topics": [{"id": 1, "reason": "first"}, {"id": 1, "reason": "second"}]}') or ()
    assert pick.reason == "first"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"ids": [42, 18]}', ("Topic:42", "Topic:18")),
        ('{"topic_ids": ["Topic:42"]}', ("Topic:42",)),
        ("[42]", ("Topic:42",)),
        ('"42"', ("Topic:42",)),
        ('{"ids": 42}', ("Topic:42",)),
        ('{"ids": [42, 18', ("Topic:42", "Topic:18")),
        ('{"ids": [42, 42]}', ("Topic:42",)),
        (json.dumps('{"ids": [42, 18]}'), ("Topic:42", "Topic:18")),
        (json.dumps("[42, 18]"), ("Topic:42", "Topic:18")),
        ('{"ids": "[42, 18]"}', ("Topic:42", "Topic:18")),
        ('{"ids": "42, Topic:18"}', ("Topic:42", "Topic:18")),
        ('{"ids": "[Topic:42]"}', ("Topic:42",)),
        ("", None),
        ("{}", None),
        ('{"ids": []}', None),
        ("not json", None),
    ],
)
def test_tool_arguments_are_read_as_leniently(arguments: str, expected: tuple[str, ...] | None) -> None:
    assert parse_ids(arguments) == expected


def test_a_long_reason_is_cut_with_a_mark() -> None:
    (pick,) = parse_answer(json.dumps({"topics": [{"id": 1, "reason": "because " * 100}]})) or ()
    assert len(pick.reason) <= 600
    assert pick.reason.endswith("because…")
    (short,) = parse_answer(json.dumps({"topics": [{"id": 1, "reason": "x" * 600}]})) or ()
    assert short.reason == "x" * 600


@pytest.mark.parametrize("value", [True, None, [], {}, "", "   "])
def test_what_is_no_id_at_all_is_none(value: object) -> None:
    assert read_id(value) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["topics", "ids", "id"]), inner),
    max_leaves=20,
)
numbers = st.lists(st.integers(0, 10**6), unique=True, min_size=1, max_size=12)
elements = (
    lambda n: n,
    lambda n: float(n),
    lambda n: f"Topic:{n}",
    lambda n: {"id": n, "reason": "r"},
    lambda n: {"id": f"[topic:{n}]"},
)


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    parse_answer(text)
    answer_in_words(text)
    parse_ids(text)


@given(json_values)
def test_no_json_breaks_the_parser(value: Any) -> None:
    parse_answer(json.dumps(value))
    answer_in_words(json.dumps(value))
    parse_ids(json.dumps({"ids": value}))


@given(numbers, st.data())
def test_any_mixture_of_elements_keeps_every_id_in_order(chosen: list[int], data: st.DataObject) -> None:
    written = [data.draw(st.sampled_from(elements))(number) for number in chosen]
    key = data.draw(st.sampled_from(["topics", "topic_ids", "ids"]))
    assert ids(json.dumps({key: written})) == [f"Topic:{number}" for number in chosen]


@given(numbers, st.integers(1, 200))
def test_a_cut_answer_never_names_a_topic_that_was_not_there(chosen: list[int], length: int) -> None:
    text = json.dumps({"topics": [{"id": f"Topic:{number}", "reason": "because"} for number in chosen]})
    parsed = ids(text[:length]) or []
    assert parsed == [f"Topic:{number}" for number in chosen][: len(parsed)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"a":' * 40_000,
        '{"topics":[' + '"a,' * 60_000,
        "```" + " " * 190_000,
        '{"topics":[' + "1" * 9999,
        "<topic " * 9999,
        "Topic:1," * 9999,
    ],
    ids=["brackets", "nested", "quotes", "spaces", "one long number", "tags", "ids"],
)
def test_hostile_text_is_read_in_bounded_time(text: str) -> None:
    parse_answer(text)
    answer_in_words(text)
