"""Names in talk: the grammatical cases of a Russian name, and their spelling.

A name matches only in its own cases, and in no other word with the same beginning: "Прии" is a form of Прия, "приём"
and "приятный" are not. In text a case of a name must begin with a capital letter, because "кости" are bones and "том"
is a pronoun. Only the name itself may be written in lower case, as people do in chats, if it is too long to be another
word.

Who said it: the one speaker whom a question names, and how much more of the question somebody else says.

Of words in another script only names can be the same: "Dasha" is "Даша".

"What did Anna paint?" is not answered by what Boris painted, although his messages contain every word of it; but it is
by "Anna painted the sea", whoever says that. Nothing of this is known of a question that names nobody, or two people.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache

from memoryapp.engine.beside import table_beside
from memoryapp.engine.text.lexical import normal, words

# A name after these, or before a comma, addresses somebody and tells nothing about them.
_ADDRESSED = r"(?<!, )(?<!hey )(?<!hi )(?<!hello )(?<!thanks )(?<!привет )(?<!спасибо )"

_I = re.compile(r"\b(?:i|me|my|mine|myself|we|us|our|я|меня|мне|мной|мо[йяеию]|моего|моей|моих|мы|нас|нам|наш\w*)\b")
_SECOND = re.compile(
    r"\b(?:you|your|yours|yourself|ты|тебя|тебе|тобой|тво[йяеию]|твоего|твоей|твоих|вы|вас|вам|ваш\w*)\b"
)

_MY = re.compile(r"\b(?:my|our|мо[йяеию]|моего|моему|моей|моим|моём|мою|наш\w*) (\w+)")

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


def one_named(question: str, authors: Iterable[str]) -> str:
    """The one of the ``authors`` whom a question names, by any part of the name and in any grammatical case; empty when
    it names none or several."""
    asked = {normal(word) for word in words(question)}
    each = dict.fromkeys(author for author in authors if author)
    named = [author for author in each if any(asked & forms(part) for part in words(author))]
    return named[0] if len(named) == 1 else ""


@cache
def _kin() -> Sequence[frozenset[str]]:
    return [frozenset().union(*map(forms, line.split())) for line in table_beside(__file__)["kin"]]


def kin_asked(question: str) -> frozenset[str]:
    """All words, in every case, for the one relative, friend or colleague of the asker whom a question is about ("my
    brother"); empty if it is about none or several. Where none of these words stands, somebody else is spoken of."""
    mine = {*_MY.findall(normal(question))}
    asked = [names for names in _kin() if not names.isdisjoint(mine)]
    return asked[0] if len(asked) == 1 else frozenset()


def lead_of_others(named: str, messages: Iterable[tuple[str, str, float]]) -> float:
    """How much more the best message about another speaker says than the best one about the ``named``; 0 when only one
    side speaks, or nobody is named. Each message is its author, its text and what it says. A message is about its
    author, unless it tells something about the named one, or two people speak and it says "you" and not "I"."""
    said = [message for message in messages if named and message[0]]
    are_two = len({author for author, _text, _share in said}) == 2
    own, others = list[float](), list[float]()
    for author, text, share in said:
        said_normally = normal(text)
        is_about_you = are_two and _SECOND.search(said_normally) and not _I.search(said_normally)
        is_own = (author == named) != bool(is_about_you) or tells_about(named, text)
        (own if is_own else others).append(share)
    return max(others) - max(own) if own and others else 0.0


def tells_about(name: str, text: str) -> bool:
    """Whether a text says something about somebody of this name, and not only to them: "Anna painted", not "Hi Anna"
    and not "No, Anna, I painted"."""
    return _about(name).search(normal(text)) is not None


@lru_cache(maxsize=1_000)
def _about(name: str) -> re.Pattern[str]:
    called = sorted(_called(name))
    return re.compile(rf"{_ADDRESSED}\b(?:{'|'.join(re.escape(each) for each in called)})(?:['’]s)? [^\W\d_]")


def _called(name: str) -> Iterator[str]:
    for part in words(name):
        yield from forms(part)


# Letters as others write them in Latin; of several usages the one that ``_ALIKE`` leads to.
_LATIN = str.maketrans(
    dict(zip("абвгдезийклмнопрстуфхцыэ", "abvgdeziiklmnoprstufhcie", strict=True))
    | {"ж": "zh", "ч": "ch", "ш": "sh", "щ": "sh", "ю": "iu", "я": "ia", "ъ": "", "ь": ""}
)
_ALIKE = (
    *(("shch", "sh"), ("sch", "sh"), ("kh", "h"), ("ts", "c"), ("ck", "k"), ("ph", "f"), ("yo", "e"), ("ye", "e")),
    *(("y", "i"), ("j", "i"), ("w", "v"), ("x", "ks"), ("q", "k"), ("iia", "ia")),
)
_TWICE = re.compile(r"(.)\1")
_ENDING = re.compile(r"(?:a|ia|u|iu|om|em|iem|e|ie|i|oi|oiu|ei|eiu|s|in)?")
_LEAST_NAME = 3
_LAST_VOWELS = "aeiou"


def names_in(question: str) -> frozenset[str]:
    """The words of a question that begin with a capital letter within a sentence."""
    found = words(question)
    starts = {at for at, word in enumerate(found) if at == 0 or question.partition(word)[0].rstrip()[-1:] in "\n.!?"}
    return frozenset(word for at, word in enumerate(found) if at not in starts and word[:1].isupper())


def is_same_name(name: str, word: str) -> bool:
    """Whether a word with a capital letter is a name that is written in the other script, Latin or Cyrillic, in any
    case: "Dasha" is "Даша" and "Дашей"."""
    if name.isascii() == word.isascii() or not word[:1].isupper():
        return False
    stem, other = _sounded(name).rstrip(_LAST_VOWELS), _sounded(word)
    return len(stem) >= _LEAST_NAME and other.startswith(stem) and _ENDING.fullmatch(other, len(stem)) is not None


@lru_cache(maxsize=10_000)
def _sounded(word: str) -> str:
    latin = normal(word).translate(_LATIN)
    for written, plainer in _ALIKE:
        latin = latin.replace(written, plainer)
    return _TWICE.sub(r"\1", latin)
