"""Notes: remarks of events, stored as codes with values and put into words where they are shown. Programs read the
English words in the ``note`` of an event, models read them in answers to tool calls. The same texts are keys of the
catalogue, from which pages take them in the reader's language."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memoryapp.engine.beside import table_beside
from memoryapp.engine.json_values import Code

_WORDS = table_beside(__file__)
INSTEAD: Mapping[str, str] = _WORDS["instead"]
ENGLISH: Mapping[str, str] = _WORDS["english"]


@dataclass(frozen=True, slots=True)
class Note:
    """One remark. ``code`` is a key of ``ENGLISH``; ``values`` fill its sentence. Values are what JSON gives back:
    texts, numbers, and lists of them."""

    code: Code
    values: Mapping[Code, Any] = field(default_factory=dict)

    def stored(self) -> dict[str, Any]:
        """The note as JSON, without the words of an endpoint, which may repeat what it was sent."""
        return {"code": self.code, "values": {**self.values, **({"quoted": ""} if "quoted" in self.values else {})}}


class NotedError(Exception):
    """An error whose text is a sentence for people. ``note`` is the same as a code with values, if it has one."""

    def __init__(self, sentence: str | Note) -> None:
        super().__init__(english([sentence]) if isinstance(sentence, Note) else sentence)
        self.note = sentence if isinstance(sentence, Note) else None


Notes = tuple[Note, ...]


def english(notes: Sequence[Note]) -> str:
    """The notes as sentences; an unknown code is shown as it is."""
    return " ".join(sentence(note) for note in notes)


def sentence(note: Note, say: Callable[[str], str] = str) -> str:
    """The note as a sentence; ``say`` puts an English text, which is to be filled with the values, in other words."""
    if note.code not in ENGLISH:
        return note.code
    values = {name: _words(name, value, say) for name, value in note.values.items()}
    return say(ENGLISH[note.code]).format_map(values)


def _words(name: str, value: Any, say: Callable[[str], str]) -> Any:
    if name == "instead":
        return say(INSTEAD[value]) if value in INSTEAD else value
    if name == "quoted":
        return f": {value}" if value else ""
    listed = ", ".join(value) if isinstance(value, list) else value
    if name == "tools":
        return f"{'the only one is' if len(value) == 1 else 'there are'} {listed}"
    return listed
