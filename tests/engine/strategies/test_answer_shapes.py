"""Whatever shape a model gives its choice, the choice is the same: any ids, any format, any mistake."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.text.answers import parse_answer

Chosen = dict[str, list[int]]
KINDS = {"topics": "Topic", "people": "Person", "artifacts": "Artifact"}
OTHER_KEYS = {
    "topics": ["topics", "topic_ids", "ids"],
    "people": ["people", "person_ids", "people_ids"],
    "artifacts": ["artifacts", "artifact_ids", "files"],
}
REASONS = st.sampled_from(["", "because", "см. [7] и {x}", 'said "yes", [Topic:9]', "a, b,] c}", "перенос\nстроки"])
JUNK = st.sampled_from([None, True, {}, [], "", "  ", {"reason": "no id"}])

numbers = st.lists(st.integers(1, 10**9), unique=True, max_size=6)
choices = st.fixed_dictionaries({"topics": numbers.filter(bool), "people": numbers, "artifacts": numbers})


def in_order(chosen: Chosen) -> list[tuple[str, list[int]]]:
    return [(key, chosen[key]) for key in KINDS]


def names(chosen: Chosen) -> list[str]:
    return [f"{kind}:{number}" for key, kind in KINDS.items() for number in chosen[key]]


def read(text: str) -> list[str] | None:
    picks = parse_answer(text)
    return None if picks is None else [pick.id for pick in picks]


@st.composite
def elements(draw: st.DrawFn, kind: str, number: int, bare: bool = True) -> Any:
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
        items.append(draw(elements(kind, number, bare)))
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
    assert read(reply) == names(chosen)


@given(choices, st.data())
def test_trailing_commas_and_a_missing_end_do_not_change_it(chosen: Chosen, data: st.DataObject) -> None:
    text = json.dumps({key: data.draw(lists(KINDS[key], ids, junk=False)) for key, ids in in_order(chosen)})
    # Reasons contain brackets of their own; only the last bracket of the text surely belongs to the answer.
    ending = data.draw(st.sampled_from(["", ",}", "\n"]))
    assert read(text[:-1] + ending) == names(chosen)


@given(choices, st.data())
def test_an_answer_cut_anywhere_is_the_beginning_of_the_choice_or_unreadable(
    chosen: Chosen, data: st.DataObject
) -> None:
    value = {
        key: [{"id": f"{KINDS[key]}:{number}", "reason": data.draw(REASONS)} for number in ids]
        for key, ids in in_order(chosen)
    }
    text = json.dumps(value, ensure_ascii=False)
    found = read(text[: data.draw(st.integers(0, len(text) - 1))])
    assert found is None or (found and found == names(chosen)[: len(found)])


@given(choices)
def test_an_item_in_the_wrong_list_still_lands_in_its_own_kind(chosen: Chosen) -> None:
    everything = names(chosen)
    for key in ("topics", "people", "artifacts", "ids"):
        assert read(json.dumps({key: everything})) == everything


@given(choices, st.data())
def test_repeats_collapse_to_the_first(chosen: Chosen, data: st.DataObject) -> None:
    once = names(chosen)
    again = data.draw(st.lists(st.sampled_from(once), max_size=8))
    items = [{"id": name, "reason": f"number {place}"} for place, name in enumerate([*once, *again])]
    picks = parse_answer(json.dumps(items)) or ()
    assert [(pick.id, pick.reason) for pick in picks] == [(name, f"number {n}") for n, name in enumerate(once)]


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        " [ ] ",
        '{"topics": []}',
        '{"topics":[],"people":[],"artifacts":[]}',
        '```json\n{"topics": [], "people": []}\n```',
        'Nothing fits.\n{"topic_ids": []}',
        '{"topics": [], "people": []',
        '{"topics": null, "people": []}',
        "nothing relevant: []",
    ],
)
def test_empty_lists_mean_nothing_relevant(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize(
    "text",
    [
        '{"topics": [',
        '{"topics": [], "people": [',
        '{"topics": [{"id": "Topic:4',
        '{"topics": [null, "", {}]}',
        '{"topics": {}}',
        "In Python an empty list is written [] and an empty dictionary {}.",
        "arr[] = 5; there was nothing I could do",
        '{"error": "overloaded"}',
        "[[]]",
        "[{}]",
        "null",
        "",
    ],
)
def test_what_broke_before_it_named_anything_is_unreadable_and_not_empty(text: str) -> None:
    assert read(text) is None


def test_an_answer_inside_a_wrapper_is_found() -> None:
    assert read('{"response": {"topics": [42], "people": []}}') == ["Topic:42"]


def test_files_of_the_running_conversation_keep_their_place() -> None:
    assert read('{"artifacts": ["Artifact:session", "session:2", {"id": "[artifact:Session:3]"}]}') == [
        "Artifact:session",
        "Artifact:session:2",
        "Artifact:session:3",
    ]
