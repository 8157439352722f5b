"""A rerank over topics, people and files at once; media that came with the query; progress of the model."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.chat.protocol import LLMRefused, LLMUnavailable, PartialReply
from memoryapp.engine.events import MediaItem, ModelProgress, ModelReplied, SteppedDown, ToolCall, TurnStarted
from memoryapp.engine.parameters import Limits
from memoryapp.engine.prompt_registry import built_in
from memoryapp.engine.prompts.prompt import PromptText, rendered
from memoryapp.engine.prompts.rerank import RERANK, TOOL_NAME, RerankRequest
from memoryapp.engine.strategies.flash import rerank
from tests.engine.endpoint import Endpoint, calls_tool, error
from tests.engine.endpoint import says as says_over_http
from tests.engine.reranks import end, ids, of
from tests.engine.scripted import (
    ScriptedChat,
    Step,
    after,
    artifact,
    asks,
    calls,
    chooses,
    emitted,
    fails,
    person,
    request,
    says,
    slow,
    topic_reader,
)

PETROV, MARIA = person(5, "Петров", "Коллега"), person(6, "Мария")
DOCS, PHOTO = artifact(3, "api-docs.pdf", "How the API works"), artifact(4, "knee.jpg", in_session=True)


def asking(*topics: int, **fields: Any) -> RerankRequest:
    return replace(request(*topics), people=(PETROV, MARIA), artifacts=(PHOTO, DOCS), **fields)


async def run(asked: RerankRequest, *steps: Step, **limits: Any) -> tuple[list[Any], ScriptedChat]:
    chat = ScriptedChat(*steps)
    events = await emitted(rerank, asked, chat=chat, read_topics=topic_reader(), limits=Limits(**limits))
    return events, chat


def answer(**kinds: list[Any]) -> Step:
    return says(json.dumps(kinds, ensure_ascii=False))


async def test_people_and_files_are_chosen_with_reasons_in_the_models_order() -> None:
    people = [{"id": "Person:6", "reason": "asked about"}, {"id": 5, "reason": "colleague"}]
    events, _ = await run(asking(1, 2), asks(1), answer(topics=[1], people=people, artifacts=["Artifact:3"]))
    finished = end(events)
    assert ids(finished) == ["Topic:1"]
    assert [(p.id, p.rank, p.reason, p.score) for p in finished.people] == [
        ("Person:6", 1, "asked about", 0.6),
        ("Person:5", 2, "colleague", 0.6),
    ]
    assert [(a.id, a.rank, a.vector_rank) for a in finished.artifacts] == [("Artifact:3", 1, 2)]


async def test_the_prompt_shows_the_lines_of_every_kind() -> None:
    _, chat = await run(asking(1, inner_circle=("Лена, сестра",)), asks(1), answer(topics=[1]))
    system, user = (str(message["content"]) for message in chat.requests[0].messages)
    assert f"<people_candidates>\n{PETROV.line}\n{MARIA.line}\n</people_candidates>" in user
    assert f"<artifact_candidates>\n{PHOTO.line}\n{DOCS.line}\n</artifact_candidates>" in user
    assert "- Лена, сестра" in system
    assert "at most 15 topics, 10 people and 10 files" in system.lower()


async def test_a_choice_of_people_alone_is_a_choice() -> None:
    events, _ = await run(asking(1), asks(1), answer(topics=[99], people=[5]))
    finished = end(events)
    assert (finished.fallback, finished.notes, ids(finished)) == ("", (), [])
    assert [p.id for p in finished.people] == ["Person:5"]
    assert finished.hallucinated == ("Topic:99",)


async def test_without_topic_candidates_the_answer_is_asked_for_at_once_and_breaks_no_protocol() -> None:
    events, chat = await run(asking(), answer(topics=[], people=[5], artifacts=[]))
    finished = end(events)
    assert (finished.fallback, [p.id for p in finished.people]) == ("", ["Person:5"])
    (asked,) = chat.requests
    assert (asked.tools, asked.tools_off, asked.force_tool) == ((), (), "")
    assert asked.answer_schema is not None
    (turn,) = of(TurnStarted, events)
    assert (turn.tool_choice, turn.response_format) == ("none", "json_schema")


async def test_a_model_that_calls_a_tool_it_does_not_have_ends_with_nothing() -> None:
    step = calls(ToolCall("a", TOOL_NAME, '{"ids": [1]}'))
    finished = end((await run(asking(baseline=("Topic:9",)), step))[0])
    assert (finished.fallback, finished.selected, finished.people) == ("max_tool_calls", (), ())


@pytest.mark.parametrize(
    ("steps", "fallback"),
    [
        ((fails(LLMUnavailable("down")),), "llm_error"),
        ((answer(topics=[1], people=[5], artifacts=[3]),), "protocol_violation"),
        ((asks(1), says("no idea, Person:5 perhaps")), "parse_error"),
        ((asks(1), answer(people=[77], artifacts=["Artifact:78"])), "all_hallucinated"),
        ((says(""), says("")), "empty_response"),
        ((asks(1), slow(answer(people=[5]))), "turn_timeout"),
    ],
)
async def test_no_fallback_adds_people_or_files(steps: tuple[Step, ...], fallback: str) -> None:
    finished = end((await run(asking(1, 2), *steps, turn_seconds=20, seconds=50))[0])
    assert (finished.fallback, finished.people, finished.artifacts) == (fallback, (), ())


async def test_ids_of_all_kinds_that_are_no_candidates_are_kept_apart() -> None:
    events, _ = await run(
        asking(1), asks(1), answer(topics=[1, 98], people=["Person:77", "Петров"], artifacts=["Artifact:session:9"])
    )
    assert end(events).hallucinated == ("Topic:98", "Person:77", "Петров", "Artifact:session:9")


async def test_each_kind_has_its_limit() -> None:
    events, _ = await run(
        asking(1, 2), asks(1), answer(topics=[2, 1], people=[6, 5], artifacts=[3, 4]),
        max_topics=1, max_people=1, max_artifacts=1,
    )  # fmt: skip
    finished = end(events)
    assert [[s.id for s in kind] for kind in (finished.selected, finished.people, finished.artifacts)] == [
        ["Topic:2"],
        ["Person:6"],
        ["Artifact:3"],
    ]


async def test_more_than_none_of_a_kind_that_is_not_wanted_is_no_hallucination() -> None:
    finished = end((await run(asking(1), asks(1), answer(people=[5]), max_people=0))[0])
    assert (finished.fallback, finished.people) == ("", ())


@pytest.mark.parametrize(
    ("named", "files", "chosen"),
    [
        ("Artifact:session", (PHOTO, DOCS), ["Artifact:4"]),
        ("Artifact:session:1", (PHOTO, DOCS), ["Artifact:4"]),
        ("Artifact:session:2", (PHOTO, artifact(8, "b.jpg", in_session=True)), ["Artifact:8"]),
        ("Artifact:session:2", (PHOTO, DOCS), []),
        ("Artifact:session", (PHOTO, artifact(8, "b.jpg", in_session=True)), []),
    ],
)
async def test_a_file_of_the_running_conversation_may_be_named_by_its_place(
    named: str, files: Any, chosen: list[str]
) -> None:
    finished = end((await run(replace(asking(1), artifacts=files), asks(1), answer(topics=[1], artifacts=[named])))[0])
    assert [a.id for a in finished.artifacts] == chosen
    assert finished.hallucinated == (() if chosen else (named,))


async def test_the_first_turn_tells_the_prompt_and_what_it_was_filled_with() -> None:
    events, chat = await run(asking(1, query="what about $profile?", profile="Lives in Perm"), asks(1), chooses(1))
    first, second = of(TurnStarted, events)
    assert (first.prompt_version, second.prompt_version, second.variables) == ("rerank-en-0", "", {})
    assert first.variables["query"] == "what about $profile?"
    assert first.variables["max_people"] == "10"
    assert rendered(built_in()["rerank", "en"], first.variables) == list(chat.requests[0].messages)


async def test_a_prompt_in_force_is_used_and_named() -> None:
    mine = PromptText(RERANK, "en", 3, "Choose well.", RERANK.built_in("en").user)
    events, chat = await run(asking(1, prompts={**built_in(), ("rerank", "en"): mine}), asks(1), chooses(1))
    assert chat.requests[0].messages[0] == {"role": "system", "content": "Choose well."}
    assert of(TurnStarted, events)[0].prompt_version == "rerank-en-3"


# Media that came with the query

ITEM = MediaItem("ab" * 32, "image", "image/png", "mri.png", 4)
MRI = MediaContent(ITEM, b"\x89PNG")


async def test_media_stand_beside_the_text_and_are_named_in_the_trace_without_their_bytes() -> None:
    events, chat = await run(asking(1, media=(MRI,)), asks(1), chooses(1))
    text, image = chat.requests[0].messages[1]["content"]
    assert text["type"] == "text"
    assert "1. image mri.png (image/png, 4 bytes)" in text["text"]
    assert image == {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
    shown = of(TurnStarted, events)[0].prompt[1]
    assert (shown.content, shown.media) == (text["text"], (ITEM,))
    assert chat.requests[1].messages[1] == chat.requests[0].messages[1]


async def test_an_endpoint_that_cannot_see_is_asked_again_with_the_text_alone() -> None:
    refusal = LLMRefused("host does not know the model: No endpoints found that support image input.")
    events, chat = await run(asking(1, media=(MRI,)), fails(refusal), asks(1), chooses(1))
    (step,) = of(SteppedDown, events)
    assert (step.capability, step.instead, step.why) == ("media", "the text alone", str(refusal))
    assert [isinstance(request.messages[1]["content"], str) for request in chat.requests] == [False, True, True]
    assert [turn.turn for turn in of(TurnStarted, events)] == [1, 2, 3]
    assert of(TurnStarted, events)[1].prompt[1].media == ()
    assert of(ModelReplied, events)[0].error == str(refusal)
    assert (end(events).fallback, ids(end(events))) == ("", ["Topic:1"])


def blind(sent: dict[str, Any]) -> httpx.Response:
    """Refuses pictures; asks to read a topic, reads it, and chooses it."""
    if any(isinstance(message["content"], list) for message in sent["messages"]):
        return error(404, "No endpoints found that support image input")
    return says_over_http('{"topics": [1]}') if "response_format" in sent else calls_tool()


async def test_the_next_run_steps_down_from_its_first_turn_without_showing_the_picture_again() -> None:
    endpoint = Endpoint(blind)
    chat = endpoint.chat()
    outcomes = []
    for _ in "ab":
        events = await emitted(rerank, asking(1, media=(MRI,)), chat=chat, read_topics=topic_reader(), limits=Limits())
        outcomes.append((of(SteppedDown, events), ids(end(events)), of(ModelReplied, events)[0].error))
    (first, chosen, refusal), (second, chosen_again, not_asked) = outcomes
    assert [step.capability for step in (*first, *second)] == ["media", "media"]
    assert chosen == chosen_again == ["Topic:1"]
    assert [step.why for step in (*first, *second)] == [refusal, not_asked]
    assert "was not asked" in not_asked
    assert sum(any(isinstance(m["content"], list) for m in sent["messages"]) for sent in endpoint.bodies) == 1


async def test_another_refusal_is_an_error_with_or_without_media() -> None:
    refusal = LLMRefused("host does not accept the API key: check LLM_API_KEY.")
    events, _ = await run(asking(1, media=(MRI,)), fails(refusal))
    assert end(events).fallback == "llm_error"
    assert of(ModelReplied, events)[0].error == str(refusal)


async def test_an_endpoint_that_refuses_the_text_too_is_an_error() -> None:
    step = fails(LLMRefused("no image input"))
    assert end((await run(asking(1, media=(MRI,)), step, step))[0]).fallback == "llm_error"


# Progress of the model


async def test_what_the_model_says_so_far_is_handed_on_with_its_turn() -> None:
    speaking = after(chooses(1), PartialReply("{", "let me"), PartialReply('{"topics"', "let me see"))
    events, _ = await run(asking(1), asks(1), speaking)
    assert of(ModelProgress, events) == [
        ModelProgress(2, "{", "let me"),
        ModelProgress(2, '{"topics"', "let me see"),
    ]
    assert end(events).fallback == ""
