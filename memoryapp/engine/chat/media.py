"""Media that come with a query, in OpenAI's content parts. The bytes are stored beside the events, never in them: a
``MediaItem`` refers to them by their hash. Only embedded content is accepted, because an address would make an outside
endpoint fetch whatever it refers to."""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memoryapp.engine.events import MediaItem, MediaType
from memoryapp.engine.notes import NotedError

_DATA_URL = re.compile(r"data:(?P<mime>[\w.+-]+/[\w.+-]+)(?:;[\w.+=-]+)*;base64,(?P<data>.*)", re.DOTALL)
# Words of a refusal that is about the media and not about the request.
_NAMES_MEDIA = re.compile(
    r"image|vision|audio|multi-?modal|\bmodalit|\bmedia|\bfiles?\b|mmproj|content (?:part|type)|must be a string",
    re.IGNORECASE,
)
# Words that say the model accepts no media of this kind at all; a strange or large file is that file's problem.
_LACKS_MEDIA = re.compile(
    r"no endpoints found that support|(?:do|does|is|are) not (?:support|accept|enabled)|only supported by"
    r"|only supports? text|not an? (?:multi-?modal|vision)|content\b.{0,40} must be a string"
    r"|unknown variant|at most 0\b|mmproj",
    re.IGNORECASE,
)
_THIS_ONE = re.compile(
    r"\b\w+/\w|format|(?:file|media|mime)[ _]type|too |size|at most [1-9]|maximum|limit|exceed|base64"
    r"|(?:invalid|corrupt\w*) (?:image|audio|file)",
    re.IGNORECASE,
)
_KIND_NAMED: Mapping[MediaType, re.Pattern[str]] = {
    "image": re.compile("image|vision|picture", re.IGNORECASE),
    "audio": re.compile("audio|speech", re.IGNORECASE),
    "file": re.compile(r"\bfiles?\b|pdf|document", re.IGNORECASE),
}
# OpenAI's names for formats of sound, by MIME type, where the two differ.
_AUDIO_FORMATS: Mapping[str, str] = {"mpeg": "mp3", "wave": "wav", "vnd.wave": "wav", "mp4": "m4a"}
_KIND_OF_PART: Mapping[str, MediaType] = {"image_url": "image", "input_audio": "audio", "file": "file"}


class MediaError(NotedError, ValueError):
    """A content part that cannot be accepted; the text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class MediaContent:
    """An item with its bytes."""

    item: MediaItem
    content: bytes


def read_part(part: Mapping[str, Any]) -> MediaContent:
    """The media of one content part (``image_url``, ``input_audio`` or ``file``). Raises MediaError."""
    kind = part.get("type")
    if kind == "image_url":
        return _from_data_url("image", _inner(part, "image_url").get("url"), "")
    if kind == "file":
        file = _inner(part, "file")
        return _from_data_url("file", file.get("file_data"), _text(file, "filename"))
    if kind == "input_audio":
        audio = _inner(part, "input_audio")
        return _made("audio", f"audio/{_text(audio, 'format') or 'wav'}", "", _decoded(audio.get("data")))
    raise MediaError(f"A content part of type {str(kind)[:40]!r} is not known; send image_url, input_audio or file.")


def content_part(media: MediaContent) -> dict[str, Any]:
    """The same as a content part for the model."""
    item, data = media.item, base64.b64encode(media.content).decode()
    if item.type == "audio":
        subtype = item.mime_type.rpartition("/")[2].removeprefix("x-")
        return {"type": "input_audio", "input_audio": {"data": data, "format": _AUDIO_FORMATS.get(subtype, subtype)}}
    url = f"data:{item.mime_type};base64,{data}"
    if item.type == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": item.name or "file", "file_data": url}}


def with_media(message: Mapping[str, Any], media: Sequence[MediaContent]) -> dict[str, Any]:
    """A message whose content is its text and then the media; the message as it is when there are none."""
    if not media:
        return dict(message)
    return {**message, "content": [{"type": "text", "text": message["content"]}, *map(content_part, media)]}


def text_of(content: Any) -> str:
    """The text of a message's content, which may be a list of parts or nothing."""
    if isinstance(content, str):
        return content
    texts = [part.get("text", "") for part in content or () if isinstance(part, Mapping)]
    return "\n".join(text for text in texts if text)


def names_media(refusal: str) -> bool:
    """Whether an endpoint's refusal is about the media, so that it may accept the text alone."""
    return _NAMES_MEDIA.search(refusal) is not None


def kinds_lacking(refusal: str) -> set[MediaType]:
    """The kinds of media that, by this refusal, the model never accepts; all if it names none, and often no kind."""
    if _THIS_ONE.search(refusal) or not _LACKS_MEDIA.search(refusal) or not names_media(refusal):
        return set()
    return {kind for kind, words in _KIND_NAMED.items() if words.search(refusal)} or set(_KIND_NAMED)


def kinds_in(messages: Iterable[Mapping[str, Any]]) -> set[MediaType]:
    parts = [part for message in messages if isinstance(message.get("content"), list) for part in message["content"]]
    return {_KIND_OF_PART[part["type"]] for part in parts if part["type"] in _KIND_OF_PART}


def _inner(part: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = part.get(key)
    if not isinstance(inner, Mapping):
        raise MediaError(f"A content part of type {key} must hold an object named {key}.")
    return inner


def _text(inner: Mapping[str, Any], key: str) -> str:
    value = inner.get(key)
    if value is not None and not isinstance(value, str):
        raise MediaError(f"{key} must be text.")
    return value or ""


def _from_data_url(type: MediaType, url: object, name: str) -> MediaContent:
    match = _DATA_URL.fullmatch(url) if isinstance(url, str) else None
    if match is None:
        raise MediaError("Media must be sent as data:<type>;base64,…; addresses are not fetched.")
    return _made(type, match["mime"].lower(), name, _decoded(match["data"]))


def _decoded(data: object) -> bytes:
    try:
        return base64.b64decode(data if isinstance(data, str) else "", validate=True)
    except (binascii.Error, ValueError):
        raise MediaError("The media is not valid base64.") from None


def _made(type: MediaType, mime_type: str, name: str, content: bytes) -> MediaContent:
    if not content:
        raise MediaError("The media is empty.")
    digest = hashlib.sha256(content).hexdigest()
    return MediaContent(MediaItem(digest, type, mime_type[:100], name[:300], len(content)), content)
