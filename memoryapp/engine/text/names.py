"""Names in talk: the grammatical cases of a Russian name, and their spelling.

A name matches only in its own cases, and in no other word with the same beginning: "Прии" is a form of Прия, "приём"
and "приятный" are not. In text a case of a name must begin with a capital letter, because "кости" are bones and "том"
is a pronoun. Only the name itself may be written in lower case, as people do in chats, if it is too long to be another
word.
"""

from __future__ import annotations

from functools import lru_cache

from memoryapp.engine.text.lexical import normal, words

_SHORT = 3

# What replaces an ending, by the ending; names that end in another vowel have no cases.
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
    """All cases of a word, in lower case and with ``е`` for ``ё``, including the word itself."""
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
    """The possible spellings of each word of the name, in order and with ``е`` for ``ё``."""
    return tuple(_spelled(word) for word in words(plain(name)))


def _spelled(word: str) -> frozenset[str]:
    capital = {form[:1].upper() + form[1:] for form in forms(word)} | {word}
    if not word[:1].isupper():
        return frozenset(capital | forms(word))
    return frozenset(capital | {word.lower()} if len(word) > _SHORT else capital)


def plain(text: str) -> str:
    """``text`` in the form of spellings: with ``е`` for ``ё``, in its own case."""
    return text.replace("ё", "е").replace("Ё", "Е")
