"""Terms of words in other alphabets than Latin and Cyrillic, and one spelling for letters that differ only by a mark.

Where no space separates words, every pair of neighbouring characters is a term, and so is every Chinese character,
which is a word or a part of one: single characters and pairs together find more than either alone (Nie, Gao, Zhang and
Zhou 2000, "On the use of words and n-grams for Chinese information retrieval"); pairs are what Lucene's CJK analyser
makes. Characters of a question or of grammar alone separate terms and are none. Korean words lose their particle first.
Hindi words are stemmed by Snowball; Arabic and Hebrew ones lose what is written together with them: the article,
prepositions, plurals. Japanese writes one word in either syllabary (ネコ, ねこ), so their terms are the same."""

import re
import threading
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

import snowballstemmer

from memoryapp.engine.beside import table_beside

# What stands on, under or beside a letter and belongs to it; not the marks that make an emoji of a digit.
MARK_RANGES = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963"
    "\u0981-\u0983\u09bc-\u09cd\u0a01-\u0a4d\u0a81-\u0acd\u0b01-\u0b03\u0b3c-\u0b57\u0b82\u0bbe-\u0bd7\u0c00-\u0c04"
    "\u0c3e-\u0c56\u0c81-\u0c83\u0cbe-\u0cd6\u0d00-\u0d03\u0d3e-\u0d4d\u0d57\u0d82\u0d83\u0dca-\u0ddf\u0e31"
    "\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u1056-\u1059\u17b4-\u17d3\u3099\u309a"
)
# Persian and Hindi join or part letters of one word with characters of no width.
JOINERS = "\u200c\u200d"
WORD = re.compile(rf"[^\W_](?:[^\W_]|[{MARK_RANGES}{JOINERS}])*")

_HAN = "\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_HIRAGANA, _KATAKANA, _HANGUL = "\u3041-\u309f", "\u30a0-\u30ff\u31f0-\u31ff", "\u1100-\u11ff\uac00-\ud7af"
# Thai, Lao, Burmese and Khmer.
_SOUTHEAST = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_RUN = re.compile(
    rf"(?P<han>[{_HAN}]+)|(?P<hiragana>[{_HIRAGANA}]+)|(?P<katakana>[{_KATAKANA}]+)|(?P<hangul>[{_HANGUL}]+)"
    rf"|(?P<southeast>[{_SOUTHEAST}]+)|(?P<arabic>[\u0600-\u06ff\u0750-\u077f]+)|(?P<hebrew>[\u0590-\u05ff]+)"
    rf"|(?P<hindi>[\u0900-\u097f]+)"
    rf"|(?P<other>[^{_HAN}{_HIRAGANA}{_KATAKANA}{_HANGUL}{_SOUTHEAST}\u0590-\u06ff\u0750-\u077f\u0900-\u097f]+)"
)
_ALPHABETS = re.compile("[^\x00-\u058f\u1e00-\u2e7f]")
_AS_HIRAGANA = {code: code - 0x60 for code in range(ord("ァ"), ord("ヶ") + 1)}
# Characters of scripts without spaces, for a class of an expression.
UNSPACED_RANGES = f"{_HAN}{_HIRAGANA}{_KATAKANA}{_SOUTHEAST}"
_UNSPACED = re.compile(f"[{UNSPACED_RANGES}]")
# What belongs to the character before it, which it changes, colours or joins to the next one.
_JOINED = re.compile(rf"[{MARK_RANGES}{JOINERS}\ufe00-\ufe0f\U0001f3fb-\U0001f3ff]")
_LONGEST_WORD = 30
# A letter with the marks on it.
_CLUSTER = re.compile(rf".[{MARK_RANGES}]*", re.DOTALL)

_HIRAGANA_PARTICLES = "はがをにでともへのかやねよ"
_HANGUL_PARTICLE = re.compile(
    r"(?<=.)(?:에게서|한테서|에서는|에서|에게|한테|께서|으로는|으로|부터|까지|처럼|보다|이라고|라고|이랑|랑|하고"
    r"|에는|에|은|는|이|가|을|를|의|로|와|과|도|만|요)$"
)
# Words that only ask, words of grammar, and Chinese characters in both spellings.
_GRAMMAR = table_beside(__file__)
_HANGUL_ENDINGS = frozenset(_GRAMMAR["hangul_endings"].split())
_AS_SIMPLIFIED = dict(zip(_GRAMMAR["traditional"], _GRAMMAR["simplified"], strict=True))

# Letters without a decomposition that people write for one another.
_SAME = str.maketrans(
    {"ё": "е", "ı": "i", "ł": "l", "ø": "o", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe", "ς": "σ"}
    | dict.fromkeys("أإآٱ", "ا")
    | {"ى": "ي", "ی": "ي", "ة": "ه", "ک": "ك", "ـ": "", "\u200c": "", "\u200d": ""}
    # The dots under letters of loanwords (फ़ोन), and the two signs of a nasal vowel (पाँच, पांच), in Hindi and others.
    | dict.fromkeys("\u093c\u09bc\u0a3c\u0abc", "")
    | {"\u0901": "\u0902"}
    # The apostrophe that Ukrainian keyboards have as a letter.
    | {"\u02bc": "'"}
    | _AS_SIMPLIFIED
)


class _OneSpelling(dict[int, str]):
    """For ``str.translate``, filled as characters come: a lower-case letter without the marks that its readers leave
    out, which are accents of Latin and Greek, stress in Cyrillic, and the vowels of Arabic and Hebrew. Digits of any
    script become those of ASCII."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        self[code] = found = _spelled(character)
        return found


def _spelled(character: str) -> str:
    if "\u0300" <= character <= "\u036f" or (
        unicodedata.category(character) == "Mn" and "\u0591" <= character <= "\u06ed"
    ):
        return ""
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    first = unicodedata.normalize("NFD", character)[0]
    has_accent = unicodedata.name(first, "").startswith(("LATIN", "GREEK", "DEVANAGARI"))
    return (first if has_accent else character).translate(_SAME)


_one_spelling = _OneSpelling()
# The terms of longer words, which are whole sentences without spaces, seldom come again.
_KNOWN_CHARS = 30


def one_spelling(text: str) -> str:
    """``text``, in lower case and composed, with one spelling for letters that people write for one another: ``i`` for
    the ``ı`` of Istanbul, ``e`` for ``é``, in Russian ``е`` for ``ё``, in Chinese the simplified character."""
    return text.translate(_one_spelling)


def is_spaced(word: str) -> bool:
    """Whether ``word`` comes from a script that puts spaces between words."""
    return not _UNSPACED.search(word)


def beginning(text: str, most: int) -> str:
    """At most ``most`` characters of a text, cut after a word; where no space is near, as where none are written, after
    a whole character with its marks."""
    if len(text) <= most:
        return text
    space = text.rfind(" ", max(0, most - _LONGEST_WORD), most)
    end = space if space > 0 else most
    while end > 0 and (_JOINED.match(text, end) or text[end - 1] == JOINERS[-1]):
        end -= 1
    return text[: end or most]


def has_own_terms(text: str) -> bool:
    """Whether ``text`` contains letters of another alphabet, for which ``terms`` has rules."""
    return not text.isascii() and _ALPHABETS.search(text) is not None


def terms(word: str) -> tuple[str, ...]:
    """The terms of a ``word`` in one spelling, in order; parts in Latin or Cyrillic letters stay as they are."""
    return _known_terms(word) if len(word) <= _KNOWN_CHARS else _terms(word)


@lru_cache(maxsize=50_000)
def _known_terms(word: str) -> tuple[str, ...]:
    return _terms(word)


def _terms(word: str) -> tuple[str, ...]:
    found: list[str] = []
    before = ""
    for run in _RUN.finditer(word):
        found += _terms_of(run.lastgroup or "other", run[0], before)
        before = run.lastgroup or ""
    return tuple(found)


def _terms_of(script: str, run: str, before: str) -> Iterator[str]:
    if script == "han":
        yield from (term for part in _HAN_SEPARATOR.split(run) for term in (*part, *_pairs(tuple(part))))
    elif script == "hiragana":
        yield from _hiragana(run, before)
    elif script == "hangul":
        yield from _hangul(run)
    elif script == "southeast":
        yield from (term for part in _SOUTHEAST_SEPARATOR.split(run) for term in _paired(_CLUSTER.findall(part)))
    elif script == "katakana":
        yield from _paired(run.translate(_AS_HIRAGANA))
    else:
        yield from _whole(script, run)


def _hiragana(run: str, before: str) -> Iterator[str]:
    """Pairs without particles; what follows a Chinese character is mostly its ending."""
    for part in _HIRAGANA_SEPARATOR.split(run):
        bare = part.rstrip(_HIRAGANA_PARTICLES) if len(part) > 2 or before else part
        bare = bare.lstrip(_HIRAGANA_PARTICLES) if before else bare
        yield from _pairs(tuple(bare))


def _hangul(word: str) -> Iterator[str]:
    bare = _HANGUL_PARTICLE.sub("", word)
    if word not in _HANGUL_WORDS and bare not in _HANGUL_WORDS:
        yield from (term for term in _paired(bare) if term not in _HANGUL_ENDINGS)


def _whole(script: str, word: str) -> Iterator[str]:
    stem = _STEMMED[script](word) if script in _STEMMED else word
    if word not in _WHOLE_GRAMMAR and stem not in _WHOLE_GRAMMAR:
        yield stem


def _hindi(word: str) -> str:
    stem: str = _hindi_stemmer.snowball.stemWord(word)
    return stem or word


_ARABIC_LETTERS = 3
# "And" before three letters or more, the article with a preposition before two or more. A preposition without the
# article cannot be told from the first letter of a word (كتاب).
_ARABIC_BEFORE = re.compile(r"و?(?:[وبكف]?ال|لل)(?=.{2})|و(?=.{3})")
_ARABIC_SUFFIXES = ("تها", "تهم", "تنا", "ته", "تي", "ها", "هم", "نا", "ان", "ات", "ون", "ين", "يه", "ه", "ي")


def _arabic(word: str) -> str:
    """What Larkey's light10, which Lucene uses, removes: conjunctions, prepositions and the article before a word,
    pronouns and plurals after it."""
    before = _ARABIC_BEFORE.match(word)
    bare = word[before.end() :] if before else word
    for suffix in _ARABIC_SUFFIXES:
        least = _ARABIC_LETTERS if len(suffix) > 1 else _ARABIC_LETTERS - 1
        bare = bare.removesuffix(suffix) if len(bare) - len(suffix) >= least else bare
    return bare


_HEBREW_LETTERS = 3
# Letters with a form of their own at the end of a word: שכן, שכנים.
_WITHIN_A_WORD = str.maketrans("ךםןףץ", "כמנפצ")


def _hebrew(word: str) -> str:
    bare = word
    for plural in ("ים", "ות"):
        bare = bare.removesuffix(plural) if len(bare) - len(plural) >= _HEBREW_LETTERS else bare
    while len(bare) > _HEBREW_LETTERS and bare[0] in "הושבלמכ":
        bare = bare[1:]
    return bare.translate(_WITHIN_A_WORD)


def _paired(characters: str | list[str]) -> list[str]:
    return _pairs(tuple(characters)) or list(characters)


def _pairs(characters: tuple[str, ...]) -> list[str]:
    return [f"{one}{other}" for one, other in zip(characters, characters[1:], strict=False)]


def _separator(written: str, more: str = "") -> re.Pattern[str]:
    longest_first = sorted(written.split(), key=len, reverse=True)
    return re.compile("|".join([*(re.escape(word) for word in longest_first), *([more] if more else [])]))


class _HindiStemmer(threading.local):
    """A stemmer keeps the word it works on, so each thread has its own."""

    def __init__(self) -> None:
        self.snowball = snowballstemmer.stemmer("hindi")


_hindi_stemmer = _HindiStemmer()
_STEMMED = {"arabic": _arabic, "hebrew": _hebrew, "hindi": _hindi}
_HAN_SEPARATOR = _separator(_GRAMMAR["han"])
_HIRAGANA_SEPARATOR = _separator(_GRAMMAR["hiragana"], "を")
_SOUTHEAST_SEPARATOR = _separator(one_spelling(unicodedata.normalize("NFKC", _GRAMMAR["southeast"])))
_HANGUL_WORDS = frozenset(_GRAMMAR["hangul"].split())
_WHOLE_GRAMMAR = frozenset(one_spelling(" ".join(_GRAMMAR[script] for script in ("arabic", "hebrew", "hindi"))).split())
