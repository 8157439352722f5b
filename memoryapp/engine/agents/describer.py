"""The describer: an agent that puts a picture or a recording into words, so that search finds it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from memoryapp.engine.agents.ask import Agent, Ask
from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.chat.protocol import Chat
from memoryapp.engine.json_values import storable
from memoryapp.engine.prompts import prompt
from memoryapp.engine.prompts.prompt import gettext_noop as _
from memoryapp.engine.text.answers import TEXT, list_schema, mended, object_schema
from memoryapp.engine.text.lines import one_line

# More than other answers have, for the text of a whole document may be in it.
_MOST_ANSWER_CHARS = 400_000
_MOST_TEXT = 200_000
_LONGEST_SUMMARY = 1_000
_LONGEST_ENTRY = 300
_MOST_ENTRIES = 20
_LONGEST_NAME = 300


_FILE = prompt.PromptVariable("file", _("the file's name and the message that it came with"), tag="file")
DESCRIBE = prompt.BuiltInPrompt(
    "describe",
    title=_("Describe pictures and sound"),
    purpose=_("Describes a picture or a recording, so that it is found by words."),
    texts=prompt.texts_beside(__file__, "describe"),
    variables=(_FILE,),
    required=(_FILE,),
)
AGENT = Agent("describer", _("describer"), (DESCRIBE,), model="ARCHIVIST_MODEL", stage="artifacts")

_TEXTS = list_schema(TEXT)
DESCRIBE_SCHEMA = object_schema(summary=TEXT, text=TEXT, keywords=_TEXTS, entities=_TEXTS, answers=_TEXTS)


@dataclass(frozen=True, slots=True)
class Description:
    """``text`` is what is written or spoken in the file, word by word, possibly nothing. ``answers`` are questions that
    the file answers. ``is_cut`` says that the file contains more text."""

    summary: str
    text: str
    keywords: tuple[str, ...]
    entities: tuple[str, ...]
    answers: tuple[str, ...]
    is_cut: bool = False


def describe(
    media: MediaContent, message: str, *, chat: Chat, seconds: float, prompts: prompt.PromptBook = prompt.UNEDITED
) -> Ask[Description]:
    """Asks what is in ``media``; ``message`` is the text that came with it, possibly empty. A model that does not
    accept such media fails: without them it could only guess."""
    lines = [f"name: {one_line(media.item.name)[:_LONGEST_NAME]}", f"message: {one_line(message)[:_LONGEST_SUMMARY]}"]
    return Ask(
        chat,
        DESCRIBE.of(prompts, prompt.language_of(f"{media.item.name} {message}")),
        {"file": "\n".join(lines)},
        read=_description,
        schema=DESCRIBE_SCHEMA,
        seconds=seconds,
        media=(media,),
        needs_media=True,
    )


def described_so_far(answer: str) -> Description | None:
    """What an answer describes that was cut off; None if it was cut off before the text of the file began. The text of
    a long page may be longer than a model's answer can be, also when it is asked again."""
    value = _object(answer)
    found = _description(answer) if value and isinstance(value.get("text"), str) else None
    return replace(found, is_cut=True) if found else None


def _description(answer: str) -> Description | None:
    value = _object(answer)
    if not value or not (summary := _line(value.get("summary"), _LONGEST_SUMMARY)):
        return None
    text = value.get("text")
    whole = storable(text) if isinstance(text, str) else ""
    return Description(
        summary=summary,
        text=whole[:_MOST_TEXT].strip(),
        keywords=_entries(value.get("keywords")),
        entities=_entries(value.get("entities")),
        answers=_entries(value.get("answers")),
        is_cut=len(whole) > _MOST_TEXT,
    )


def _object(answer: str) -> Mapping[str, Any] | None:
    value = mended(answer[:_MOST_ANSWER_CHARS])
    value = value[0] if isinstance(value, list) and value else value
    return value if isinstance(value, Mapping) else None


def _entries(value: Any) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else []
    found = [_line(each, _LONGEST_ENTRY) for each in listed]
    return tuple(dict.fromkeys(each for each in found if each))[:_MOST_ENTRIES]


def _line(value: Any, most: int) -> str:
    return one_line(storable(value))[:most].strip() if isinstance(value, str) else ""
