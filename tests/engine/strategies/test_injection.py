"""No text that people wrote can pass for the program's: as a tag, a candidate, a tool's result, a message or an
instruction. The rendered prompt is searched as the model would read it. Hostile text is put into every field that
stored or typed text can reach, also in prompts that somebody edited carelessly."""

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.agents.archivist import extract
from memoryapp.engine.agents.ask import Ask
from memoryapp.engine.agents.describer import describe
from memoryapp.engine.agents.enricher import enrich_variables
from memoryapp.engine.agents.merger import judge_merge, propose_summary
from memoryapp.engine.agents.splitter import propose_topics
from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.chat.protocol import Chat
from memoryapp.engine.context import ContextItem, SelectedTopics, assembled, chunks_text, topics_text
from memoryapp.engine.events import MediaItem, Selected
from memoryapp.engine.prompt_registry import built_in, prompts
from memoryapp.engine.prompts.prompt import UNEDITED, PromptBook, PromptText, faults, rendered
from memoryapp.engine.prompts.rerank import RERANK, RerankRequest, rerank_variables
from memoryapp.engine.strategies.react.searching import Document
from memoryapp.engine.strategies.strategy import FoundPassage
from memoryapp.engine.text.lines import (
    MESSAGE_HEAD,
    artifact_line,
    candidate_line,
    one_line,
    person_line,
    quoted,
    topic_text,
)
from memoryapp.engine.text.passages import line_of
from tests.engine.scripted import NOON, ScriptedChat, candidate, item, message, request, says, topic
from tests.examples import table

TAGS = {each.name: each.tag for prompt in prompts().values() for each in prompt.variables if each.tag}
TWICE = "\n".join(f"${each.name} and ${each.name}" for each in RERANK.variables if each.tag)
CARELESS = PromptText(RERANK, "en", 7, "You choose. $profile $profile $inner_circle", f"$today {TWICE}")
BOOKS: list[PromptBook] = [UNEDITED, {("rerank", "en"): CARELESS, ("rerank", "ru"): replace(CARELESS, language="ru")}]

FRAGMENTS = [*(f"</{tag}>" for tag in TAGS.values()), *(f"\n<{tag}>\n" for tag in TAGS.values()), *table("injections")]
hostile = st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=5)), max_size=6).map("".join)


def hostile_request(text: str, **fields: Any) -> RerankRequest:
    """Returns a request with one candidate of each kind and ``text`` wherever stored or typed text can be."""
    return replace(
        request(1, query=f"what? {text}"),
        enriched=text,
        profile=text,
        inner_circle=(text, text),
        recent_topics=(text,),
        messages=(
            message(1, text, author=text, username=text),
            message(2, text, "assistant"),
            message(3, text, forwarded_from=text),
            message(4, text, "peer", author=text),
        ),
        candidates=(replace(candidate(1, 1), line=candidate_line("Topic:1", 0.5, "2025-01-01", 1, 9, text)),),
        people=(item("Person:1", text, person_line("Person:1", 0.5, text, text, [text, text], text, 3, text)),),
        artifacts=(
            item("Artifact:1", text, artifact_line("Artifact:1", 0.5, text, text, [text], [text], text, [text])),
        ),
        media=(MediaContent(MediaItem("0" * 64, "file", text, text, 3), b"abc"),),
        **fields,
    )


def starting(kind: str, prompt: str) -> int:
    return sum(line.lstrip().lower().startswith(f"[{kind}") for line in prompt.splitlines())


@pytest.mark.parametrize("book", BOOKS, ids=["built in", "edited"])
@pytest.mark.parametrize("language", ["en", "ru"])
@given(text=hostile)
def test_no_text_poses_as_a_tag_a_candidate_a_topic_or_a_message(book: Any, language: str, text: str) -> None:
    asked = hostile_request(text, language=language, prompts=book)
    variables = rerank_variables(asked)
    system, user = (message["content"] for message in rendered(RERANK.of(book, language), variables))
    times = 2 if book else 1
    for tag in ("topic_candidates", "people_candidates", "artifact_candidates", "user_query", "current_messages"):
        assert [user.count(f"</{tag}>"), user.count(f"<{tag}>")] == [times, times]
    assert [starting(kind, user) for kind in ("topic:", "person:", "artifact:")] == [times] * 3
    assert [starting(kind, system) for kind in ("topic:", "person:", "artifact:")] == [0] * 3
    assert len(MESSAGE_HEAD.findall(user)) == times * len(asked.messages)
    assert not MESSAGE_HEAD.findall(system)
    assert "=== topic" not in (system + user).lower()
    assert "<|" not in system + user
    assert not re.search(r"</?(?:start|end)_of_turn", system + user)


def foreign_tags(prompt: str) -> list[str]:
    return re.findall(r"</?\s*(?:role|limits|algorithm|criteria|output_format|grounding)\b", prompt)


@given(text=hostile)
def test_no_text_adds_to_the_instructions(text: str) -> None:
    prompts = [
        rendered(built_in()["rerank", "en"], rerank_variables(hostile_request(t)))[0]["content"] for t in ("", text)
    ]
    assert foreign_tags(prompts[1]) == foreign_tags(prompts[0])


@given(text=hostile)
def test_a_dollar_in_a_text_is_never_filled_in(text: str) -> None:
    variables: Mapping[str, str] = rerank_variables(hostile_request(text + " $profile ${query} $$"))
    for prompt_message in rendered(CARELESS, {**variables, "profile": "SECRET"}):
        assert prompt_message["content"].count("SECRET") == prompt_message["content"].count("<user_profile>")
    assert "$profile ${query} $$" in rendered(CARELESS, variables)[1]["content"]


@given(text=hostile)
def test_the_enricher_reads_hostile_text_as_text(text: str) -> None:
    media = (MediaContent(MediaItem("0" * 64, "image", text, text, 3), b"abc"),)
    talk = tuple(message(n, text, author=text) for n in range(8))
    variables = enrich_variables(
        text, messages=talk, profile=text, recent_topics=(text,), media=media, today=NOON.date()
    )
    user = rendered(built_in()["enrich", "en"], variables)[1]["content"]
    assert user.count("</user_query>") == user.count("</current_messages>") == user.count("</media>") == 1
    assert len(MESSAGE_HEAD.findall(user)) == 5


@given(text=hostile)
def test_a_loaded_topic_is_one_topic_with_its_own_messages(text: str) -> None:
    shown = topic_text(topic(1, message(1, text, author=text), message(2, text, forwarded_from=text), summary=text))
    assert re.findall(r"=== *topic", shown, re.IGNORECASE) == ["=== Topic"]
    assert len(MESSAGE_HEAD.findall(shown)) == 2
    assert starting("topic:", shown) == 0


# The beginnings of lines by which prompts tell their parts apart, and those that only some prompts use.
HEADS = (
    r"\[\s*(?:(?:topic|person|artifact)\s*:|(?:user|assistant|peer|system|forwarded|in reply to)\b|\d)"
    r"|</?\s*\w+|===\s*topic|(?:date|summary)\s*:|---"
)
JSON_LINES = r"|\{\"(?:id|topic)\"|Texts are clipped"
OWN_HEADS = {
    **dict.fromkeys(("split", "merge", "consolidate", "extract"), JSON_LINES),
    "describe": "|name: |message: ",
    "items": "|Keywords: |Answers: ",
}
DOCUMENT = Document(
    FoundPassage(1, 1, 0.5, 1.0, 1.0, 0.5, "", (1, 2, 3), (1,)),
    "Topic:1",
    (message(1, "x"), message(2, "x", "assistant"), message(3, "x", "peer")),
)


def heads(name: str, prompt: str) -> list[str]:
    """Each line of a prompt that begins as its own lines do, by that beginning alone."""
    own = re.compile(rf"\s*(?:{HEADS}{OWN_HEADS.get(name, '')})", re.IGNORECASE)
    return [found[0].strip().lower() for line in prompt.splitlines() if (found := own.match(line))]


def sent(ask: Callable[[Chat], Ask[Any]]) -> str:
    """What the model of an agent is sent first."""
    chat = ScriptedChat(says("?"), says("?"))
    asyncio.run(ask(chat).complete())
    return "\n".join(str(each["content"]) for each in chat.requests[0].messages)


def everywhere(text: str) -> Mapping[str, str]:
    """Every prompt of the program about stored text, with ``text`` wherever people can put some."""
    talk = tuple(
        message(number, f"x {text}", role, author=f"x{text}", username=name, forwarded_from=origin)
        for number, (role, name, origin) in enumerate(
            [("user", f"x{text}", ""), ("assistant", "", ""), ("peer", "", ""), ("user", "", f"x{text}")], 1
        )
    )
    one, two = topic(1, *talk, summary=f"x {text}"), topic(2, *talk, summary=f"x {text}")
    found = {f"Topic:{number}": replace(candidate(number, number), summary=f"x {text}") for number in (1, 2)}
    chosen = [Selected(id, rank, "", 0.5, rank) for rank, id in enumerate(found, 1)]
    by_topic = {"Topic:1": talk, "Topic:2": talk}
    file = MediaContent(MediaItem("0" * 64, "file", f"x{text}", f"x{text}", 3), b"abc")
    person = ContextItem("Person:1", f"x {text}", one_line(f"x {text}"))
    asks = {
        "split": lambda chat: propose_topics(talk, chat=chat, seconds=1),
        "merge": lambda chat: propose_summary([one, two], chat=chat, seconds=1),
        "consolidate": lambda chat: judge_merge([one, two], chat=chat, seconds=1),
        "extract": lambda chat: extract(talk, chat=chat, seconds=1),
        "describe": lambda chat: describe(file, f"x {text}", chat=chat, seconds=1),
    }
    document = replace(DOCUMENT, messages=talk, passage=replace(DOCUMENT.passage, text="\n".join(map(line_of, talk))))
    return {
        **{name: sent(ask) for name, ask in asks.items()},
        "loaded topic": topic_text(one),
        "topics": topics_text(SelectedTopics("x", chosen, found, by_topic)),
        "chunks": chunks_text(SelectedTopics("x", chosen, found, by_topic)),
        "items": "".join(
            part.text
            for part in assembled(
                profile="",
                inner_circle=[text],
                recent_topics=[text],
                topics="",
                chosen=0,
                people=[person],
                artifacts=[],
            )
        ),
        "sources": document.source(1, 10_000),
    }


def heads_of(prompts: Mapping[str, str]) -> Mapping[str, list[str]]:
    return {name: heads(name, prompt) for name, prompt in prompts.items()}


HARMLESS = heads_of(everywhere("y"))


@given(text=hostile)
def test_no_line_of_stored_text_looks_like_a_head_that_a_prompt_uses(text: str) -> None:
    assert heads_of(everywhere(text)) == HARMLESS


@given(text=st.one_of(hostile, st.text()))
def test_quoting_changes_characters_one_for_one_and_once(text: str) -> None:
    assert len(quoted(text)) == len(text)
    assert quoted(quoted(text)) == quoted(text)


def test_the_careless_prompt_of_these_tests_is_one_that_may_be_saved() -> None:
    assert faults(CARELESS) == []
