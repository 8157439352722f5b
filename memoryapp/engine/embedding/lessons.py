"""What the refusal of an embedding endpoint teaches: fewer texts, shorter texts, a request without ``dimensions``, or a
text alone in place of a list.

The limits are those of the endpoint and its model; nobody should have to know them. A limit that the words name is
taken, otherwise what was sent is halved.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

Lesson = Literal["fewer", "shorter", "no dimensions", "alone"]

# The batch limit of gemini-embedding-001; other endpoints accept more, but gain little by it.
MOST_TEXTS = 100
# A model that reads less than a sentence is none.
LEAST_CHARS = 60
_REMEMBERED_SECONDS = 6 * 3600.0
# These say something about the account or the moment, whatever their words; those below also about the address, unless
# their words name a parameter.
_OF_ACCOUNT = frozenset({401, 402, 408, 429})
_OF_ADDRESS = frozenset({403, 404})
_TOO_LARGE = 413
# A refusal; 200 is one with an error inside.
_UNNAMED = frozenset({200, 400, 422})
_NAMES_DIMENSIONS = re.compile(r"dimension|matryoshka", re.IGNORECASE)
# A text is too long (Ollama, llama.cpp, OpenAI, vLLM, TEI, Cohere).
_TOO_LONG = re.compile(
    r"physical batch|context[_ ](?:length|window|size)|input (?:length|is too (?:long|large))|text is too long"
    r"|(?:prompt|input|sequence) .{0,40}(?:too|exceed)|maximum .{0,20}tokens|less than \d+ tokens|token limit"
    r"|exceed.{0,40}(?:tokens|length)|\btokens .{0,20}exceed|longer than .{0,20}maximum|too many input tokens"
    r"|\btokens must be|max(?:imum)? length of each",
    re.IGNORECASE,
)
# Servers that embed one text a request say so in the words of their parsers: pydantic, serde, Go.
_WANTS_TEXT = re.compile(
    r"\binput\b.{0,40}(?:must|should) be (?:a |an )?(?:valid )?str|expected a string|cannot unmarshal array"
    r"|multiple inputs",
    re.IGNORECASE,
)
# Too many texts, or too much in all of them together (DashScope, TEI, SiliconFlow, Mistral, Azure, Gemini, Cohere).
_TOO_MANY = re.compile(
    r"\bbatch|tokens per (?:request|batch)|too many (?:inputs|texts|items|requests in|tokens overall)"
    r"|number of (?:inputs|texts|items)|array too long"
    r"|at most \d+ (?:items?|inputs|texts|requests|elements)|max(?:imum)? .{0,20}(?:items|inputs|texts)",
    re.IGNORECASE,
)
_NAMED_LIMIT = re.compile(
    r"(?:larger than|less than|at most|no more than|up to|batch size|inputs is|maximum length|limit(?: is| of)?|<=?|>)"
    r"[ :=]{1,3}(\d{1,4})(?!\d| ?tok)",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Accepted:
    """What an endpoint was found to accept: texts in a request, characters in a text (0: not limited), whether the
    length of vectors may be asked for, and whether texts may come as a list. It is forgotten after six hours by
    ``clock``, because models change."""

    clock: Callable[[], float] = time.monotonic
    _texts: int = MOST_TEXTS
    _chars: int = 0
    _dimensions: bool = True
    _lists: bool = True
    _until: float = field(default=0.0)

    @property
    def texts(self) -> int:
        self._forget()
        return self._texts

    @property
    def chars(self) -> int:
        self._forget()
        return self._chars

    @property
    def dimensions(self) -> bool:
        self._forget()
        return self._dimensions

    @property
    def lists(self) -> bool:
        self._forget()
        return self._lists

    def learn(self, *, texts: int = 0, chars: int = 0, dimensions: bool = True, lists: bool = True) -> None:
        """Remembers a lower limit. Without lists, one text is sent at a time."""
        self._forget()
        self._lists = self._lists and lists
        self._texts = min(self._texts, texts or self._texts) if self._lists else 1
        self._chars = min(self._chars or chars, chars or self._chars)
        self._dimensions = self._dimensions and dimensions
        self._until = self.clock() + _REMEMBERED_SECONDS

    def _forget(self) -> None:
        if self._until and self.clock() >= self._until:
            self._texts, self._chars, self._dimensions, self._lists, self._until = MOST_TEXTS, 0, True, True, 0.0


def lesson(status: int, words: str, *, texts: int, dimensions: bool, lists: bool) -> Lesson | None:
    """What a refusal of that many ``texts`` teaches; None when nothing could be left out."""
    if status in _OF_ACCOUNT:
        return None
    if dimensions and _NAMES_DIMENSIONS.search(words):
        return "no dimensions"
    if status in _OF_ADDRESS:
        return None
    if texts > 1 and _TOO_MANY.search(words) and "physical batch" not in words:
        return "fewer"
    if lists and _WANTS_TEXT.search(words):
        return "alone"
    if _TOO_LONG.search(words) or (status == _TOO_LARGE and texts == 1):
        return "shorter"
    return "fewer" if status == _TOO_LARGE else None


def may_be_too_much(status: int) -> bool:
    """Whether a refusal whose words teach nothing may still be one of too much: Ollama's runner even crashes."""
    return status in _UNNAMED or status >= 500


def fewer(words: str, texts: int) -> int:
    """How many texts are sent instead: what the words name, or half."""
    named = [int(number) for number in _NAMED_LIMIT.findall(words)]
    return next((number for number in named if 0 < number < texts), max(texts // 2, 1))


def pieces(text: str, chars: int, prefix: str) -> list[str]:
    """The text in pieces of at most that many characters, cut between words where there are some; each has the
    ``prefix`` with which the text begins, which does not count."""
    rest, cut = text.removeprefix(prefix), list[str]()
    while len(rest) > chars:
        space = rest.rfind(" ", chars // 2, chars)
        end = space if space > 0 else chars
        cut.append(prefix + rest[:end].strip())
        rest = rest[end:].strip()
    return [*cut, prefix + rest]
