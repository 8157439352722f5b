"""Typos of one letter, and capitals: a query is read as it would be written with care.

Only where no chat model reads the query. A long word that nobody wrote, and that the embedded encoder does not know, is
read as the word of the memory one edit away or, if there is none, as a much likelier one of the encoder's vocabulary.
What is compared are the word's own spellings with one letter more, less, another or swapped, a thousand at most, so it
takes one statement for all words, however large the memory. In a query without small letters, or without capitals,
names get theirs back."""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import cached_property

from psycopg_pool import AsyncConnectionPool

from memoryapp.engine.beside import table_beside
from memoryapp.engine.text.framing import bare
from memoryapp.engine.text.lexical import is_question_word, normal, stems
from memoryapp.engine.text.scripts import WORD, has_own_terms

# Shorter words are one edit away from too many others; a letter may be missing from the one that was typed.
LONG = 6
# So many words of a query are looked at, and so many texts that may contain what was meant. A longer query is no
# question.
_MOST_WORDS, _MOST_TEXTS, _LONGEST = 8, 100, 500
_LETTERS = ("abcdefghijklmnopqrstuvwxyz", "абвгдежзийклмнопрстуфхцчшщъыьэюяіїєґ")
# What is written large so often, of all times, is a name.
_MOSTLY = 0.8
_INSIDE = re.compile(r"[\w,)] ")
_SQL = table_beside(__file__)
_UNKNOWN: str = _SQL["unknown"]
_TEXTS: str = _SQL["texts"]

# Of a word, its spellings in the memory, and all others: which is likelier; empty where none is.
Likelier = Callable[[str, Sequence[str], Sequence[str]], Awaitable[str]]


async def respelled(pool: AsyncConnectionPool, owner_id: int, query: str, likelier: Likelier) -> str:
    """The query with typos put right and names written large; the query itself if nothing is to be changed."""
    text = query.lower() if query.isupper() and " " in query.strip() else query
    places = _words(text) if len(text) <= _LONGEST else []
    if not places:
        return text
    names = {normal(each[0]) for each in places if len(each[0]) > 1} if text == text.lower() else set()
    asked = {"owner": owner_id, "query": query.strip(), "most": _MOST_TEXTS}
    long = list(dict.fromkeys(normal(each[0]) for each in places if _is_long(each[0])))[:_MOST_WORDS]
    async with pool.connection() as connection:
        unknown = await (await connection.execute(_UNKNOWN, {**asked, "words": long})).fetchall() if long else []
        meant = {word: [each for each in dict.fromkeys(variants(word)) if len(each) >= LONG] for (word,) in unknown}
        sought = " ".join((*names, *(each for listed in meant.values() for each in listed)))
        rows = await (await connection.execute(_TEXTS, {**asked, "sought": sought})).fetchall() if sought else []
    known = _WrittenWords([found for (found,) in rows])
    written = {word: await likelier(word, known.among(listed), listed) for word, listed in meant.items()}

    def careful(word: re.Match[str]) -> str:
        best = written.get(normal(word[0])) or word[0]
        is_large = word[0][:1].isupper() if best != word[0] else names and known.is_name(best)
        return best.capitalize() if is_large else best

    return WORD.sub(careful, text)


def _words(text: str) -> list[re.Match[str]]:
    framed = bare(text)
    start = max(text.find(framed), 0)
    return [each for each in WORD.finditer(text, start, start + len(framed)) if not is_question_word(each[0])]


def _is_long(word: str) -> bool:
    return len(word) >= LONG - 1 and word.isalpha() and not has_own_terms(word)


class _WrittenWords:
    """The words of some texts, and how often each is written there."""

    def __init__(self, texts: Sequence[str]) -> None:
        # The first word of a sentence is written large anyway.
        self._written = Counter(
            (word[0], bool(_INSIDE.fullmatch(text[max(word.start() - 2, 0) : word.start()])))
            for text in texts
            for word in WORD.finditer(text)
        )

    @cached_property
    def _words(self) -> Mapping[str, int]:
        counts = Counter[str]()
        for (word, _inside), count in self._written.items():
            counts[normal(word)] += count
        return counts

    @cached_property
    def _stems(self) -> Mapping[str, tuple[int, int]]:
        """Of each stem how often it is written inside of a sentence, and how often with a capital there."""
        counts: dict[str, tuple[int, int]] = {}
        for (word, inside), count in self._written.items():
            for stem in stems(word) if inside else ():
                every, large = counts.get(stem, (0, 0))
                counts[stem] = (every + count, large + count * word[0].isupper())
        return counts

    def among(self, meant: Sequence[str]) -> list[str]:
        """The one of these words that is written most often or, if none is, those of which another form is."""
        literally = [word for word in meant if word in self._words]
        if literally:
            return [max(literally, key=lambda word: self._words[word])]
        written = {stem for word in self._words for stem in stems(word)} if meant else set()
        return [word for word in meant if not written.isdisjoint(stems(word))]

    def is_name(self, word: str) -> bool:
        counts = (self._stems.get(stem, (0, 0)) for stem in stems(word))
        return any(large > _MOSTLY * every for every, large in counts)


def variants(word: str) -> Iterator[str]:
    """The spellings one edit away: two letters swapped, one replaced, one more, one less."""
    letters = next((each for each in _LETTERS if set(word) <= set(each)), "".join(sorted(set(word))))
    halves = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    yield from (a + b[1] + b[0] + b[2:] for a, b in halves if len(b) > 1 and b[0] != b[1])
    yield from (a + letter + b[1:] for a, b in halves if b for letter in letters if letter != b[0])
    yield from (a + letter + b for a, b in halves for letter in letters)
    yield from (a + b[1:] for a, b in halves if b)
