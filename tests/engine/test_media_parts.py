"""Media as parts of a message, and what an endpoint says when it cannot take them."""

from __future__ import annotations

import base64

import pytest

from memoryapp.engine.media import Media, content_part, names_media, read_part, text_of, with_media

PARTS = [
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
    {"type": "input_audio", "input_audio": {"data": base64.b64encode(b"RIFF").decode(), "format": "mp3"}},
    {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part["type"])
def test_a_content_part_is_the_same_after_reading_and_writing_it(part: dict[str, object]) -> None:
    assert content_part(read_part(part)) == part


def test_the_text_of_a_message_stays_readable_beside_its_media() -> None:
    media: list[Media] = [read_part(part) for part in PARTS]
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
def test_a_refusal_of_media_is_told_from_any_other(refusal: str, is_about_media: bool) -> None:
    assert names_media(refusal) is is_about_media
