"""Names in talk: the cases a Russian name takes, and how they are written.

A name counts in its own cases and in no other word that begins alike: "Прии" is Прия's, "приём" and "приятный"
are nobody's. In text a case of a name has to begin with a capital, for "кости" are bones and "том" is a pronoun;
only the name itself may be written small, as people write in chats, when it is too long to be another word.
"""

from __future__ import annotations

from functools import lru_cache

from memoryapp.engine.text.lexical import normal, words

_SHORT = 3

# What stands in place of an ending, by the ending; names that end in another vowel stay as they are.
_CASES = {
    "ий": "ий ия ию ием ии ого ому им ом",
    "ый": "ый ого ому ым ом",
    "ой": "ой ого ому ым ом",
    "й": "й я ю ем е",
    "ь": "ь я ю ем е и ью",
    "а": "а ы и е у ой ою ей ею ин",
    "я": "я и е ю ей ею ин",
}
_AFTER_CONSONANT = "а у ом ем е ы ой ым ых ыми"
_VOWELS = "оеиуыэю"


@lru_cache(maxsize=10_000)
def forms(name: str) -> frozenset[str]:
    """One word's cases, in lower case and with ``е`` for ``ё``, the word itself among them."""
    word = normal(name)
    if word.isascii():
        return frozenset({word, f"{word}s"})
    for ending, cases in _CASES.items():
        if word.endswith(ending):
            return frozenset(word.removesuffix(ending) + case for case in cases.split())
    if word[-1:] in _VOWELS:
        return frozenset({word})
    return frozenset({word, *(word + case for case in _AFTER_CONSONANT.split())})


@lru_cache(maxsize=10_000)
def spellings(name: str) -> tuple[frozenset[str], ...]:
    """How each word of the name may be written in text, in order and with ``е`` for ``ё``."""
    return tuple(_spelled(word) for word in words(plain(name)))


def _spelled(word: str) -> frozenset[str]:
    capital = {form[:1].upper() + form[1:] for form in forms(word)} | {word}
    if not word[:1].isupper():
        return frozenset(capital | forms(word))
    return frozenset(capital | {word.lower()} if len(word) > _SHORT else capital)


def plain(text: str) -> str:
    """``text`` as spellings are: with ``е`` for ``ё``, its case kept."""
    return text.replace("ё", "е").replace("Ё", "Е")
