"""Media as parts of a message, and the errors of an endpoint that does not accept them."""

from __future__ import annotations

import base64

import pytest

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


@pytest.mark.parametrize(
    ("refusal", "is_about_media"),
    [
        ("No endpoints found that support image input", True),
        ("Audio is not supported by this model", True),
        ("image input is not supported - hint: you may need to provide the mmproj", True),
        ("Invalid content type: content must be a string", True),
        ("gpt-oss is not a multimodal model", True),
        ("File parts are not enabled", True),
        ("does not accept the API key: check LLM_API_KEY", False),
        ("does not allow this request: check what the key may do, or the provider's moderation", False),
        ("does not know the model or the address: check LLM_MODEL and LLM_BASE_URL", False),
        ("check your profile settings", False),
    ],
)
def test_a_refusal_of_media_is_distinguished_from_any_other(refusal: str, is_about_media: bool) -> None:
    assert names_media(refusal) is is_about_media


ALL = ["audio", "file", "image"]


@pytest.mark.parametrize(
    ("refusal", "kinds"),
    [
        ("No endpoints found that support image input", ["image"]),
        ("No endpoints found that support input audio", ["audio"]),
        ("image input is not supported - hint: you may need to provide the mmproj", ["image"]),
        ("Invalid content type. image_url is only supported by certain models.", ["image"]),
        ("This model does not support image or audio input", ["audio", "image"]),
        ("At most 0 image(s) may be provided in one request.", ["image"]),
        ("unknown variant `image_url`, expected `text`", ["image"]),
        ("File parts are not enabled", ["file"]),
        ("gpt-oss is not a multimodal model", ALL),
        ("messages[1].content must be a string", ALL),
        ("You uploaded an unsupported image. Make sure it is below 20 MB and of a supported format.", []),
        ("image/heic is not supported", []),
        ("The image is too large: 12 MB", []),
        ("At most 4 image(s) may be provided in one request.", []),
        ("Invalid image data; this model does not support it", []),
        ("Could not process image", []),
        ("stream must be a string", []),
        ("does not support this request", []),
    ],
)
def test_an_unsupported_medium_is_distinguished_from_a_fault_of_one_picture(refusal: str, kinds: list[str]) -> None:
    assert sorted(kinds_lacking(refusal)) == kinds


def test_the_kinds_in_a_conversation_are_those_of_its_parts() -> None:
    message = with_media({"role": "user", "content": "look"}, [read_part(part) for part in PARTS[:2]])
    assert kinds_in([{"role": "system", "content": "s"}, message, {"role": "tool"}]) == {"image", "audio"}
