"""Media as parts of a message, and endpoints that accept none."""

import base64
from typing import Any

import httpx
import pytest

from memoryapp.engine.chat.capabilities import Learnt
from memoryapp.engine.chat.client import HttpChat
from memoryapp.engine.chat.media import (
    MediaContent,
    content_part,
    kinds_in,
    kinds_lacking,
    names_media,
    read_part,
    text_of,
    with_media,
)
from memoryapp.engine.chat.protocol import ChatRequest, LLMRefused
from tests.engine.endpoint import PLAIN, Endpoint, error, failure, says
from tests.engine.scripted import collect
from tests.examples import table

PARTS = [
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
    {"type": "input_audio", "input_audio": {"data": base64.b64encode(b"RIFF").decode(), "format": "mp3"}},
    {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part["type"])
def test_a_content_part_is_the_same_after_reading_and_writing_it(part: dict[str, object]) -> None:
    assert content_part(read_part(part)) == part


def test_the_text_of_a_message_stays_readable_beside_its_media() -> None:
    media: list[MediaContent] = [read_part(part) for part in PARTS]
    message = {"role": "user", "content": "look"}
    seen = with_media(message, media)
    assert [part["type"] for part in seen["content"]] == ["text", "image_url", "input_audio", "file"]
    assert text_of(seen["content"]) == "look"
    assert with_media(message, ()) == message
    assert text_of(None) == ""


@pytest.mark.parametrize(("refusal", "is_about_media"), table("words_of_refused_media"))
def test_a_refusal_of_media_is_distinguished_from_any_other(refusal: str, is_about_media: bool) -> None:
    assert names_media(refusal) is is_about_media


@pytest.mark.parametrize(("refusal", "kinds"), table("refusals_of_media"))
def test_an_unsupported_medium_is_distinguished_from_a_fault_of_one_picture(refusal: str, kinds: list[str]) -> None:
    assert sorted(kinds_lacking(refusal)) == kinds


def test_the_kinds_in_a_conversation_are_those_of_its_parts() -> None:
    message = with_media({"role": "user", "content": "look"}, [read_part(part) for part in PARTS[:2]])
    assert kinds_in([{"role": "system", "content": "s"}, message, {"role": "tool"}]) == {"image", "audio"}


# Endpoints that accept no pictures: which refusals are remembered, and which are not.


def showing(kind: str) -> ChatRequest:
    """Returns a question with a picture, a recording or a file."""
    part = {"type": kind, kind: {}}
    return ChatRequest([{"role": "user", "content": [{"type": "text", "text": "what is it?"}, part]}])


async def refusal_of(chat: HttpChat, request: ChatRequest) -> str:
    with pytest.raises(LLMRefused) as caught:
        await collect(chat.converse(request))
    return str(caught.value)


def blind(sent: dict[str, Any]) -> httpx.Response:
    is_text = isinstance(sent["messages"][0]["content"], str)
    return says("hi") if is_text else error(404, "No endpoints found that support image input")


async def test_pictures_refused_for_good_are_not_sent_again_and_the_refusal_still_says_why() -> None:
    endpoint = Endpoint(blind)
    chat = endpoint.chat()
    first, second = [await refusal_of(chat, showing("image_url")) for _ in "ab"]
    assert len(endpoint.bodies) == 1
    assert "was not asked" in second
    assert "No endpoints found that support image input" in second
    assert names_media(first)
    assert names_media(second)
    await collect(chat.converse(PLAIN))
    await refusal_of(chat, showing("input_audio"))
    assert len(endpoint.bodies) == 3


async def test_an_endpoint_that_lacks_eyes_is_not_tried_again_though_it_says_so_with_a_500(waits: list[float]) -> None:
    endpoint = Endpoint(error(500, "image input is not supported - hint: you may need to provide the mmproj"))
    assert isinstance(await failure(endpoint, showing("image_url")), LLMRefused)
    assert (len(endpoint.bodies), waits) == (1, [])


async def test_trouble_with_one_picture_says_nothing_of_the_next() -> None:
    endpoint = Endpoint(error(400, "The image is too large: 12 MB"), says("a cat"))
    chat = endpoint.chat()
    await refusal_of(chat, showing("image_url"))
    assert len(await collect(chat.converse(showing("image_url")))) == 1


async def test_what_was_taken_once_is_sent_again_whatever_one_provider_of_a_router_says() -> None:
    endpoint = Endpoint(says("a cat"), error(400, "this model does not support image input"), says("a dog"))
    chat = endpoint.chat()
    await collect(chat.converse(showing("image_url")))
    await refusal_of(chat, showing("image_url"))
    assert len(await collect(chat.converse(showing("image_url")))) == 1


async def test_a_refusal_of_pictures_is_forgotten_too() -> None:
    now = [1000.0]
    learnt = Learnt(clock=lambda: now[0])
    endpoint = Endpoint(blind)
    chat = endpoint.chat(learnt=learnt)
    for _ in "ab":
        await refusal_of(chat, showing("image_url"))
    assert len(endpoint.bodies) == 1
    assert [known.step.capability for known in learnt.remembered()] == ["media"]
    now[0] += 7 * 3600
    await refusal_of(chat, showing("image_url"))
    assert len(endpoint.bodies) == 2


async def test_a_server_that_fails_over_a_picture_is_asked_with_the_next(waits: list[float]) -> None:
    endpoint = Endpoint(error(500, "image input is not supported"), says("a cat"))
    chat = endpoint.chat()
    await refusal_of(chat, showing("image_url"))
    assert len(await collect(chat.converse(showing("image_url")))) == 1
