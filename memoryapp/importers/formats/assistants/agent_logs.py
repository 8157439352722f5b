"""What the session logs of coding agents have in common: lines with one event each, and words in blocks."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers import document
from memoryapp.importers.record import Clock, MessageRecord, Rejected, message
from memoryapp.importers.source import SourceFile
from memoryapp.importers.values import BadRecord, Fields

# Beginnings of texts that the programs write in the user's name.
OF_THE_PROGRAM = (
    *("<environment_context>", "<user_instructions>", "<INSTRUCTIONS>", "# AGENTS.md instructions"),
    *("<command-name>", "<command-message>", "<command-args>", "<local-command-stdout>", "<local-command-stderr>"),
    *("<skill>", "<user_shell_command>", "<user_action>", "<subagent_notification>", "<cross-session-message"),
    *("<bash-input>", "<bash-stdout>", "<bash-stderr>", "<system-reminder>", "<turn_aborted>", "Caveat: "),
    *("[Request interrupted by user", "<task-notification>", "<permissions instructions>", "<collaboration_mode>"),
    *("<ide_opened_file>", "<ide_selection>", "<ide_diagnostics>", "<local-command-caveat>"),
    "<user-prompt-submit-hook>",
)
_TEXTS = ("text", "input_text", "output_text")
_IMAGES = ("image", "input_image", "local_image")

# The place of a line in its log, and its value.
Values = Iterator[tuple[int | str, Fields | Rejected]]


def kind_of(value: Fields) -> str:
    kind = value.get("type")
    return kind if isinstance(kind, str) else ""


def words_of(content: object) -> str:
    """Returns the texts of a message and a mark for each picture, without tools and reasoning."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(blocks, list):
        return ""
    return "\n".join(part for block in blocks if isinstance(block, Mapping) and (part := block_words(block))).strip()


def block_words(block: Fields) -> str:
    kind, text = kind_of(block).lower(), block.get("text")
    if kind in _IMAGES:
        return "[image]"
    if kind not in _TEXTS or not isinstance(text, str) or text.lstrip().startswith(OF_THE_PROGRAM):
        return ""
    return text


def message_of(
    place: int | str, clock: Clock, time: object, fields: Callable[[], dict[str, Any]]
) -> MessageRecord | Rejected:
    try:
        known = fields()
        sent_at = clock.read(time)
        metadata = {**known["metadata"], **clock.mark()}
        return message(user="", sent_at=sent_at, line=place, **{**known, "metadata": metadata})
    except BadRecord as error:
        return Rejected(place, str(error))


def values_of(source: SourceFile) -> Values:
    """Yields each line's number and its object, or a rejection."""
    for number, value in document.values(source):
        is_known = isinstance(value, Mapping | Rejected)
        yield number, value if is_known else Rejected(number, _("it is no JSON object"))
