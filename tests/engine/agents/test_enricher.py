"""The enriched query: what the model receives, what is recorded, that a failure is harmless, and which rewrites
stand."""

from datetime import date
from typing import Any

import pytest

from memoryapp.engine.agents.enricher import ENRICH, enrich, guesses
from memoryapp.engine.budget import Usage
from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.chat.protocol import LLMRefused, LLMUnavailable
from memoryapp.engine.events import MediaItem, QueryEnriched, Retried, SteppedDown
from memoryapp.engine.prompt_registry import built_in
from memoryapp.engine.prompts.prompt import PromptText, rendered
from tests.engine.scripted import ScriptedChat, Step, after, emitted, fails, limited, message, says, slow
from tests.examples import table

MRI = MediaContent(MediaItem("ab" * 32, "image", "image/png", "mri.png", 4), b"\x89PNG")


async def heard(query: str, chat: ScriptedChat | None, **fields: Any) -> list[Retried | SteppedDown | QueryEnriched]:
    arguments = {"messages": (), "profile": "", "today": date(2026, 3, 2), "seconds": 5.0, **fields}
    return await emitted(enrich, query, chat=chat, **arguments)


async def enriched(query: str, *steps: Step, **fields: Any) -> tuple[QueryEnriched, ScriptedChat]:
    chat = ScriptedChat(*steps)
    last = (await heard(query, chat, **fields))[-1]
    assert isinstance(last, QueryEnriched)
    return last, chat


async def test_the_line_is_made_from_profile_recent_topics_and_the_last_five_messages() -> None:
    talk = tuple(message(n, f"text {n}") for n in range(1, 8))
    event, chat = await enriched(
        "and him?", says("what about\nthe meniscus"), messages=talk, profile="Runs", recent_topics=("a knee",)
    )
    system, user = (str(m["content"]) for m in chat.requests[0].messages)
    assert (event.enriched, event.note, event.input_tokens) == ("what about the meniscus", "", 100)
    assert "DO NOT GUESS" in system
    assert "<user_profile>\nRuns\n</user_profile>" in user
    assert "<recent_topics>\n- a knee\n</recent_topics>" in user
    assert [f"text {n}" in user for n in range(1, 8)] == [False, False, True, True, True, True, True]


@pytest.mark.parametrize(("query", "label"), [("что с мениском?", "enrich-ru-0"), ("how is it?", "enrich-en-0")])
async def test_the_prompt_is_in_the_language_of_the_query_and_recorded_with_its_variables(
    query: str, label: str
) -> None:
    event, chat = await enriched(query, says("line"))
    assert event.prompt_version == label
    language = label.split("-")[1]
    assert rendered(built_in()["enrich", language], event.variables) == list(chat.requests[0].messages)


async def test_a_prompt_in_force_is_used() -> None:
    mine = PromptText(ENRICH, "en", 4, "Repeat.", "$query")
    event, chat = await enriched("why?", says("why?"), prompts={**built_in(), ("enrich", "en"): mine})
    assert event.prompt_version == "enrich-en-4"
    assert [m["content"] for m in chat.requests[0].messages] == ["Repeat.", "<user_query>\nwhy?\n</user_query>"]


async def test_what_a_past_run_received_is_used_in_place_of_what_is_known_now() -> None:
    then = {"today": "2025-12-31", "profile": "Rows"}
    event, chat = await enriched("and him?", says("him"), profile="Runs", recent_topics=("a knee",), variables=then)
    assert (event.variables["today"], event.variables["profile"]) == ("2025-12-31", "Rows")
    assert event.variables["recent_topics"] == "- a knee"
    assert rendered(built_in()["enrich", "en"], event.variables) == list(chat.requests[0].messages)


async def test_media_stand_beside_the_text_unless_the_endpoint_cannot_take_them() -> None:
    event, chat = await enriched("what is it?", says("a scan"), media=(MRI,))
    assert [part["type"] for part in chat.requests[0].messages[1]["content"]] == ["text", "image_url"]
    refusal = LLMRefused("no image input", spent=Usage(7))
    event, chat = await enriched("what is it?", fails(refusal), says("a scan"), media=(MRI,))
    assert (event.enriched, event.input_tokens) == ("a scan", 107)
    assert isinstance(chat.requests[1].messages[1]["content"], str)


async def test_what_the_endpoint_lacks_is_reported_though_the_enricher_is_the_first_to_ask() -> None:
    lacks, busy = SteppedDown("streaming", "off", "no stream"), Retried(1, "busy", 0.1)
    chat = ScriptedChat(after(says("a scan"), lacks, busy))
    assert (await heard("what is it?", chat))[:-1] == [lacks, busy]
    blind = ScriptedChat(fails(LLMRefused("no image input")), says("a scan"))
    step, event = await heard("what is it?", blind, media=(MRI,))
    assert step == SteppedDown("media", "the text alone", "no image input")
    assert isinstance(event, QueryEnriched)


@pytest.mark.parametrize(
    ("step", "note", "cause", "status"),
    [
        (
            fails(LLMUnavailable("host cannot answer now.", status=503)),
            "failed: host cannot answer now.",
            "llm_error",
            503,
        ),
        (slow(says("late")), "failed", "timeout", 0),
        (says("  "), "failed", "empty_response", 0),
        (limited("raw words of"), "failed: raw words of", "cut", 0),
    ],
)
async def test_a_failing_model_leaves_the_raw_query_and_says_so(step: Step, note: str, cause: str, status: int) -> None:
    event, _ = await enriched("raw words", step, seconds=20.0)
    assert (event.enriched, event.note, event.cause, event.status) == ("raw words", note, cause, status)
    assert event.prompt_version == "enrich-en-0"


async def test_a_failed_call_is_paid_for_all_the_same() -> None:
    event, _ = await enriched("raw", fails(LLMUnavailable("down", spent=Usage(70, 5, 0.2))))
    assert (event.input_tokens, event.output_tokens, event.cost_usd) == (70, 5, 0.2)


async def test_without_a_model_the_raw_query_is_used() -> None:
    (event,) = await heard("raw", None)
    assert (event.enriched, event.note, event.variables) == ("raw", "no_model", {})


# A rewrite may resolve what was said; it may not put another word in the place of one that was typed.


TALK = ("Саша порвал мениск, оперировал его Саркисян", "Anna's brother Boris moved to Lisbon")


@pytest.mark.parametrize(("query", "rewrite"), table("guessing_rewrites"))
def test_a_word_that_nobody_said_in_the_place_of_a_typed_one_is_a_guess(query: str, rewrite: str) -> None:
    assert guesses(query, rewrite, TALK)


@pytest.mark.parametrize(("query", "rewrite"), table("faithful_rewrites"))
def test_what_was_said_and_what_only_changes_its_form_is_none(query: str, rewrite: str) -> None:
    assert not guesses(query, rewrite, TALK)
