"""Every way in which a model may write its choice is read as the same choice."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.text.answers import answer_in_words, parse_answer, parse_ids, read_id
from tests.examples import table


def ids(text: str) -> list[str] | None:
    picks = parse_answer(text)
    return None if picks is None else [pick.id for pick in picks]


BOTH = ["Topic:42", "Topic:18"]


@pytest.mark.parametrize("text", table("choices").values(), ids=table("choices"))
def test_all_shapes_parse_to_the_same_choice(text: str) -> None:
    assert ids(text) == BOTH


IN_WORDS = table("choices_in_words")


@pytest.mark.parametrize("text", IN_WORDS.values(), ids=IN_WORDS)
def test_a_choice_that_any_reader_sees_is_read_though_it_is_no_json_as_asked_for(text: str) -> None:
    assert [pick.id for pick in parse_answer(text) or answer_in_words(text) or ()] == BOTH
    assert parse_answer(text) != ()


@pytest.mark.parametrize("text", table("no_choices_in_words"))
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


@pytest.mark.parametrize(("arguments", "expected"), table("tool_arguments"))
def test_tool_arguments_are_read_as_leniently(arguments: str, expected: list[str] | None) -> None:
    ids_of = parse_ids(arguments)
    assert (ids_of and [*ids_of]) == expected


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


# Whatever shape a model gives its choice, the choice is the same: any ids, any format, any mistake.


Chosen = dict[str, list[int]]
KINDS = {"topics": "Topic", "people": "Person", "artifacts": "Artifact"}
OTHER_KEYS = {
    "topics": ["topics", "topic_ids", "ids"],
    "people": ["people", "person_ids", "people_ids"],
    "artifacts": ["artifacts", "artifact_ids", "files"],
}
REASONS = st.sampled_from(["", "because", "см. [7] и {x}", 'said "yes", [Topic:9]', "a, b,] c}", "перенос\nстроки"])
JUNK = st.sampled_from([None, True, {}, [], "", "  ", {"reason": "no id"}])
shaped_numbers = st.lists(st.integers(1, 10**9), unique=True, max_size=6)
choices = st.fixed_dictionaries(
    {"topics": shaped_numbers.filter(bool), "people": shaped_numbers, "artifacts": shaped_numbers}
)


def in_order(chosen: Chosen) -> list[tuple[str, list[int]]]:
    return [(key, chosen[key]) for key in KINDS]


def names(chosen: Chosen) -> list[str]:
    return [f"{kind}:{number}" for key, kind in KINDS.items() for number in chosen[key]]


@st.composite
def shaped_elements(draw: st.DrawFn, kind: str, number: int, bare: bool = True) -> Any:
    """One chosen item in any format; ``bare`` ones may leave their kind to the name of their list."""
    written = [f"{kind}:{number}", f"{kind.lower()}:{number}", f"[{kind}:{number}]", f" {kind} : {number} "]
    id = draw(st.sampled_from([*written, number, float(number), str(number)] if bare else written))
    as_object = st.fixed_dictionaries({draw(st.sampled_from(["id", f"{kind.lower()}_id"])): st.just(id)})
    with_reason = as_object.flatmap(lambda o: REASONS.map(lambda reason: {**o, "reason": reason}))
    return draw(st.one_of(st.just(id), as_object, with_reason))


@st.composite
def lists(draw: st.DrawFn, kind: str, ids: list[int], bare: bool = True, junk: bool = True) -> list[Any]:
    items: list[Any] = []
    for number in ids:
        if junk and draw(st.booleans()):
            items.append(draw(JUNK))
        items.append(draw(shaped_elements(kind, number, bare)))
    return items


@st.composite
def answers(draw: st.DrawFn, chosen: Chosen) -> Any:
    """The choice as JSON: an object of lists, or one bare list whose items of other kinds name their kind."""
    if draw(st.booleans()):
        return {
            draw(st.sampled_from(OTHER_KEYS[key])): draw(lists(KINDS[key], ids)) for key, ids in in_order(chosen) if ids
        }
    return [
        item for key, ids in in_order(chosen) for item in draw(lists(KINDS[key], ids, bare=key == "topics", junk=False))
    ]


PROSE = ("Sure! ", "I looked at [Topic:7] and Person:3 first.\n\n", "Вот ответ:\n", "Beste Wahl — ")
WRAPS = (
    lambda text: text,
    lambda text: f"```json\n{text}\n```",
    lambda text: f"```\n{text}\n```",
    lambda text: f"```json\n{text}",
    lambda text: f"{text}\n\nHope it helps, tell me if not.",
)


@given(choices, st.data())
def test_any_choice_in_any_shape_is_read_as_that_choice(chosen: Chosen, data: st.DataObject) -> None:
    value = data.draw(answers(chosen))
    text = json.dumps(value, ensure_ascii=data.draw(st.booleans()), indent=data.draw(st.sampled_from([None, 1])))
    reply = data.draw(st.sampled_from(["", *PROSE])) + data.draw(st.sampled_from(WRAPS))(text)
    assert ids(reply) == names(chosen)


@given(choices, st.data())
def test_trailing_commas_and_a_missing_end_do_not_change_it(chosen: Chosen, data: st.DataObject) -> None:
    text = json.dumps({key: data.draw(lists(KINDS[key], ids, junk=False)) for key, ids in in_order(chosen)})
    # Reasons contain brackets of their own; only the last bracket of the text surely belongs to the answer.
    ending = data.draw(st.sampled_from(["", ",}", "\n"]))
    assert ids(text[:-1] + ending) == names(chosen)


@given(choices, st.data())
def test_an_answer_cut_anywhere_is_the_beginning_of_the_choice_or_unreadable(
    chosen: Chosen, data: st.DataObject
) -> None:
    value = {
        key: [{"id": f"{KINDS[key]}:{number}", "reason": data.draw(REASONS)} for number in ids]
        for key, ids in in_order(chosen)
    }
    text = json.dumps(value, ensure_ascii=False)
    found = ids(text[: data.draw(st.integers(0, len(text) - 1))])
    assert found is None or (found and found == names(chosen)[: len(found)])


@given(choices)
def test_an_item_in_the_wrong_list_still_lands_in_its_own_kind(chosen: Chosen) -> None:
    everything = names(chosen)
    for key in ("topics", "people", "artifacts", "ids"):
        assert ids(json.dumps({key: everything})) == everything


@given(choices, st.data())
def test_repeats_collapse_to_the_first(chosen: Chosen, data: st.DataObject) -> None:
    once = names(chosen)
    again = data.draw(st.lists(st.sampled_from(once), max_size=8))
    items = [{"id": name, "reason": f"number {place}"} for place, name in enumerate([*once, *again])]
    picks = parse_answer(json.dumps(items)) or ()
    assert [(pick.id, pick.reason) for pick in picks] == [(name, f"number {n}") for n, name in enumerate(once)]


@pytest.mark.parametrize("text", table("empty_choices"))
def test_an_empty_list_in_any_shape_means_nothing_relevant(text: str) -> None:
    assert ids(text) == []


@pytest.mark.parametrize("text", table("broken_choices"))
def test_what_broke_before_it_named_anything_is_unreadable_and_not_empty(text: str) -> None:
    assert ids(text) is None


def test_an_answer_inside_a_wrapper_is_found() -> None:
    assert ids('{"response": {"topics": [42], "people": []}}') == ["Topic:42"]


def test_files_of_the_running_conversation_keep_their_place() -> None:
    assert ids('{"artifacts": ["Artifact:session", "session:2", {"id": "[artifact:Session:3]"}]}') == [
        "Artifact:session",
        "Artifact:session:2",
        "Artifact:session:3",
    ]
