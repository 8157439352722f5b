"""The languages of instructions, and what models are asked in each of them beside the prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Language = Literal["en", "ru"]
LANGUAGES: tuple[Language, ...] = ("en", "ru")
# A Russian question about vLLM on H100 contains many Latin letters and is still Russian.
_CYRILLIC_SHARE = 0.3

NONE: Mapping[Language, str] = {"en": "(none)", "ru": "(нет)"}
ANSWER_NOW: Mapping[Language, str] = {
    "en": "Tools are switched off now. Answer with the JSON, from what you have read.",
    "ru": "Инструменты отключены. Ответь JSON по тому, что уже прочитано.",
}

ANSWER_AGAIN: Mapping[Language, str] = {
    "en": "That answer could not be read. Answer again, with the JSON alone.",
    "ru": "Этот ответ не удалось прочитать. Ответь ещё раз, только JSON.",
}

ANSWER_CUT: Mapping[Language, str] = {
    "en": "That answer was cut off before its end. Answer again: complete, and shorter.",
    "ru": "Этот ответ оборвался. Ответь ещё раз: полностью и короче.",
}


def language_of(query: str, wanted: str = "") -> Language:
    """The language of the instructions: the ``wanted`` one, otherwise decided by the share of Cyrillic letters in the
    query."""
    if wanted in ("en", "ru"):
        return "ru" if wanted == "ru" else "en"
    letters = [c for c in query if c.isalpha()]
    cyrillic = sum("\u0400" <= c <= "\u04ff" for c in letters)
    return "ru" if letters and cyrillic / len(letters) >= _CYRILLIC_SHARE else "en"
