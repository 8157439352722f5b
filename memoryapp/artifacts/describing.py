"""Pictures and recordings, of which a connected chat model says what is in them."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _

from memoryapp import prompt_versions
from memoryapp.agent_calls import Agent, OpenChat
from memoryapp.documents.reading import Unreadable
from memoryapp.engine.agents.describer import Description, describe
from memoryapp.engine.chat.media import MediaContent, names_media
from memoryapp.engine.events import MediaType
from memoryapp.models import AgentCall, Artifact

# Shorter than a file's claim, so that no other worker takes it up meanwhile.
MOST_SECONDS = 240.0


@dataclass(frozen=True, slots=True)
class Describer:
    """Which chat model is asked, how many seconds it has for a file, and of how many bytes that may be."""

    model: str
    seconds: float
    most_bytes: int
    open_chat: OpenChat


@dataclass(frozen=True, slots=True)
class Described:
    """What is in a file, by the model of this name."""

    description: Description
    model: str


def kind_of(mime_type: str) -> MediaType | None:
    """Which kind of media a file is that a model describes; None for any other."""
    kinds: dict[str, MediaType] = {"image": "image", "audio": "audio"}
    return kinds.get(mime_type.partition("/")[0])


def described(row: Artifact, media: MediaContent, describer: Describer) -> Described:
    """What is in the file. Raises Unreadable where the model takes no such files, LLMError, UnreadableAnswer."""
    if media.item.size_bytes > describer.most_bytes:
        size = {"most": f"{describer.most_bytes:,}"}
        raise Unreadable(_("The file has more than %(most)s bytes: it is not sent to the chat model.") % size)
    message = row.message.text if row.message else ""
    agent = Agent(row.owner, AgentCall.Agent.DESCRIBER, describer.model, describer.open_chat)
    prompts, seconds = prompt_versions.in_force_now(), min(describer.seconds, MOST_SECONDS)
    asked = agent.asked(lambda chat: describe(media, message, chat=chat, seconds=seconds, prompts=prompts))
    failure = asked.ask.failure
    if failure and failure.is_final and names_media(failure.words):
        raise Unreadable(_cannot(media.item.type) % {"model": describer.model})
    return Described(asked.ask.result(), asked.call.model)


def _cannot(type: MediaType) -> str:
    if type == "audio":
        return _("%(model)s takes no sound. Connect a chat model that does, and read the file again.")
    return _("%(model)s takes no pictures. Connect a chat model that does, and read the file again.")
