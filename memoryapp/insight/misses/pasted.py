"""A pasted chat or answer read as a miss: the last thing the user said, and what the assistant said to it."""

from __future__ import annotations

import re
from typing import NamedTuple

# Who speaks, as chat programs write it when a talk is copied; alone on a line, or before the words.
_USER = r"you said|you|user|human|me|i|q|question|пользователь|вы сказали|вы|я|вопрос"
_ASSISTANT = (
    r"(?:chatgpt|claude|gemini|copilot|assistant|model|bot) said"
    r"|assistant|chatgpt|claude|gemini|copilot|model|bot|ai|a|answer|ассистент|модель|бот|ответ"
)
_SPEAKER = re.compile(
    rf"^[ \t]*[*_#>]{{0,4}}[ \t]?(?:({_USER})|({_ASSISTANT}))[ \t]?[*_]{{0,4}}:[*_]{{0,4}}", re.I | re.M
)
_QUESTION = re.compile(r"^[^\n]*[?？]", re.M)


class Pasted(NamedTuple):
    """``question`` is empty where none can be told from the answer."""

    question: str
    answer: str


def read(text: str) -> Pasted:
    """By the names of the speakers; without them, the last line with a question mark asks and the rest answers."""
    turns = list(_SPEAKER.finditer(text))
    if turns:
        ends = [*(turn.start() for turn in turns[1:]), len(text)]
        said = [(bool(turn[1]), text[turn.end() : end].strip()) for turn, end in zip(turns, ends, strict=True)]
        last = max((place for place, (is_user, words) in enumerate(said) if is_user and words), default=-1)
        if last >= 0:
            return Pasted(said[last][1], "\n\n".join(words for is_user, words in said[last + 1 :] if not is_user))
        return Pasted("", "\n\n".join(words for _is_user, words in said))
    asked = list(_QUESTION.finditer(text))
    if asked:
        return Pasted(asked[-1][0].strip(), text[asked[-1].end() :].strip())
    return Pasted(text.strip(), "") if "\n" not in text.strip() else Pasted("", text.strip())
