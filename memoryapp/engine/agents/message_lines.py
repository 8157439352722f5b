"""Messages as an agent's model reads them: one JSON object a line, within a number of characters.

Long texts are clipped first, all of them to the same length. When even short texts are too many, one line represents
several consecutive messages. The text begins with notes about both, so the model knows that something is left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from memoryapp.engine.memory import MessageContent
from memoryapp.engine.prompts.language import Language, language_of
from memoryapp.engine.text.json_answers import clipped
from memoryapp.engine.text.lines import quoted

MOST_CHARS = 60_000
# What the JSON around each text takes.
_LINE_CHARS = 100
# When texts would have to be clipped to less than this, a line represents several messages.
_LEAST_TEXT_CHARS = 100
# The language of messages is that of the beginnings of the first ones.
_OPENING_CHARS = 120
_OPENINGS = 200


class MessageLines:
    """The lines of ``messages``, oldest first, in about ``chars`` characters.

    Each line represents ``step`` consecutive messages and shows the first of them.
    """

    def __init__(self, messages: Sequence[MessageContent], chars: int) -> None:
        self._messages = messages
        most = max(chars // (_LINE_CHARS + _LEAST_TEXT_CHARS), 1)
        self.step = math.ceil(len(messages) / most) or 1
        self._shown = messages[:: self.step]
        lengths = [len(message.text) for message in self._shown]
        self._clip = _even(lengths, max(chars - _LINE_CHARS * len(self._shown), 0))

    def text(self) -> str:
        notes = [
            f"Texts are clipped to {self._clip} characters." if self._is_clipped() else "",
            f"There are {len(self._messages)} messages; a line stands for up to {self.step} of them and tells "
            "the first."
            if self.step > 1
            else "",
        ]
        return "\n".join([*filter(None, notes), *map(self._line, self._shown)])

    def _is_clipped(self) -> bool:
        return any(len(message.text) > self._clip for message in self._shown)

    def _line(self, message: MessageContent) -> str:
        fields = {
            "id": message.id,
            "role": message.role,
            "date": f"{message.sent_at:%Y-%m-%d %H:%M}",
            "text": clipped(quoted(message.text), self._clip),
        }
        return json.dumps(fields, ensure_ascii=False)


def language_of_messages(messages: Sequence[MessageContent]) -> Language:
    """The language of most of the text."""
    return language_of(" ".join(message.text[:_OPENING_CHARS] for message in messages[:_OPENINGS]))


def _even(lengths: Sequence[int], chars: int) -> int:
    """The length to which texts must be clipped so that together they have at most ``chars`` characters."""
    for left, length in zip(range(len(lengths), 0, -1), sorted(lengths), strict=True):
        if length * left > chars:
            return chars // left
        chars -= length
    return max(lengths, default=0)
