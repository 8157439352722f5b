"""Descriptions of pictures and recordings by a connected chat model."""

from __future__ import annotations

from dataclasses import dataclass

from memoryapp.documents.reading import Unreadable
from memoryapp.engine.agents.describer import AGENT, Description, describe, described_so_far
from memoryapp.engine.chat.media import MediaContent, names_media
from memoryapp.engine.events import MediaType
from memoryapp.engine.notes import Note
from memoryapp.llm import prompt_versions
from memoryapp.llm.agent_calls import AgentCaller, OpenChat
from memoryapp.models import Artifact

# Shorter than the claim on a file, so that no other worker claims it meanwhile.
MOST_SECONDS = 240.0


@dataclass(frozen=True, slots=True)
class Describer:
    """The chat model to ask, the seconds it has for a file, and the largest file in bytes."""

    seconds: float
    most_bytes: int
    open_chat: OpenChat


@dataclass(frozen=True, slots=True)
class Described:
    """The description of a file, and the model that made it."""

    description: Description
    model: str


def kind_of(mime_type: str) -> MediaType | None:
    """The kind of media of a file that a model can describe; None for any other file."""
    kinds: dict[str, MediaType] = {"image": "image", "audio": "audio"}
    return kinds.get(mime_type.partition("/")[0])


def described(row: Artifact, media: MediaContent, describer: Describer) -> Described:
    """Returns the description of the file.

    Raises Unreadable when the file is too large or the model accepts no such files, and LLMError, UnreadableAnswer.
    """
    if media.item.size_bytes > describer.most_bytes:
        raise Unreadable(Note("file_too_large", {"most": describer.most_bytes}))
    message = row.message.text if row.message else ""
    agent = AgentCaller(row.owner, AGENT, describer.open_chat)
    prompts, seconds = prompt_versions.in_force_now(), min(describer.seconds, MOST_SECONDS)
    asked = agent.ask_and_keep(lambda chat: describe(media, message, chat=chat, seconds=seconds, prompts=prompts))
    failure = asked.ask.failure
    if failure and failure.is_final and names_media(failure.words):
        raise Unreadable(Note(f"takes_no_{media.item.type}", {"model": asked.ask.model}))
    so_far = described_so_far(failure.words) if failure and failure.cause == "cut" else None
    return Described(so_far or asked.ask.result(), asked.call.model)
