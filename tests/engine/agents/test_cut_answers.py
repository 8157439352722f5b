"""Answers that were cut off: no agent takes one for a whole answer, and none asks without end.

``finish_reason`` is "length" when the model reached its limit of tokens: OpenAI's chat completion object,
https://platform.openai.com/docs/api-reference/chat/object. Other models end in the middle of their JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from memoryapp.engine.agents import archivist, merger, splitter
from memoryapp.engine.agents.ask import Ask, CutAnswer
from memoryapp.engine.text.answers import breaks_off
from tests.engine.scripted import ScriptedChat, Step, limited, says, topic

TALK = topic(1, summary="Figs").messages
TWO = [topic(1, summary="Figs"), topic(2, summary="Dates")]


def _merge(chat: ScriptedChat) -> Ask[Any]:
    return merger.judge_merge(TWO, chat=chat, seconds=9.0)


def _summary(chat: ScriptedChat) -> Ask[Any]:
    return merger.propose_summary(TWO, chat=chat, seconds=9.0)


def _split(chat: ScriptedChat) -> Ask[Any]:
    return splitter.propose_topics(TALK, chat=chat, seconds=9.0)


def _extract(chat: ScriptedChat) -> Ask[Any]:
    return archivist.extract(TALK, chat=chat, seconds=9.0)


ids = [message.id for message in TALK]
ANSWERS: dict[Callable[[ScriptedChat], Ask[Any]], Any] = {
    _merge: {"should_merge": True, "reason": "fruit", "merged_summary": "A question and its answer"},
    _summary: {"merged_summary": "A question and its answer"},
    _split: {"topics": [{"summary": "Figs", "start_msg_id": ids[0], "end_msg_id": ids[-1]}], "stragglers": []},
}


def broken(text: str) -> Step:
    return says(text.rstrip("}"))


@pytest.mark.parametrize(
    ("question", "cut"),
    # The splitter sees by what its answer covers whether its JSON broke off.
    [(each, cut) for each in ANSWERS for cut in (limited, broken) if (each, cut) != (_split, broken)],
)
async def test_a_cut_answer_is_asked_for_once_more_and_never_taken(
    question: Callable[[ScriptedChat], Ask[Any]], cut: Callable[[str], Step]
) -> None:
    whole = json.dumps(ANSWERS[question])
    again = ScriptedChat(cut(whole), says(whole))
    assert (await question(again).complete()).result()
    assert "cut off" in again.requests[1].messages[-1]["content"]
    twice = ScriptedChat(cut(whole), cut(whole))
    asked = await question(twice).complete()
    with pytest.raises(CutAnswer):
        asked.result()
    assert len(twice.requests) == 2


async def test_a_cut_list_is_not_asked_for_again_as_a_whole() -> None:
    chat = ScriptedChat(limited(json.dumps({"facts": [], "people": []})))
    with pytest.raises(CutAnswer):
        (await _extract(chat).complete()).result()


async def test_every_finding_of_a_long_answer_is_kept() -> None:
    listed = [
        {"relation": "likes", "category": "food", "content": f"Likes fig {n}.", "messages": ids} for n in range(250)
    ]
    people = [{"name": f"Egon {n}", "messages": ids} for n in range(250)]
    chat = ScriptedChat(says(json.dumps({"people": people, "facts": listed})))
    found = (await _extract(chat).complete()).result()
    assert (len(found.facts), len(found.people)) == (250, 250)


@pytest.mark.parametrize(
    ("text", "is_cut"),
    [
        ('{"a": [1, 2]}', False),
        ('Here it is: ```json\n{"a": "[Topic:42"}\n``` Done.', False),
        ("no JSON at all", False),
        ('{"a": "He said \\"{[ and left"}', False),
        ('{"a": "an "unescaped mark"}', False),
        ('{"a": [{"b": 1}', True),
        ('[{"a": "in the mid', True),
        ('{"a": "x"', True),
    ],
)
def test_whether_an_answer_broke_off_is_seen_by_its_brackets(text: str, is_cut: bool) -> None:
    assert breaks_off(text) is is_cut
