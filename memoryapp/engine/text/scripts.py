"""Terms of words in other alphabets than Latin and Cyrillic, and one spelling for letters that differ only by a mark.

Where no space separates words, every pair of neighbouring characters is a term, and so is every Chinese character,
which is a word or a part of one: single characters and pairs together find more than either alone (Nie, Gao, Zhang and
Zhou 2000, "On the use of words and n-grams for Chinese information retrieval"); pairs are what Lucene's CJK analyser
makes. Characters of a question or of grammar alone separate terms and are none. Korean words lose their particle first.
Hindi words are stemmed by Snowball; Arabic and Hebrew ones lose what is written together with them: the article,
prepositions, plurals.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

import snowballstemmer

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
# Characters of scripts without spaces, for a class of an expression.
UNSPACED_RANGES = f"{_HAN}{_HIRAGANA}{_KATAKANA}{_SOUTHEAST}"
_UNSPACED = re.compile(f"[{UNSPACED_RANGES}]")
# A letter with the marks on it.
_CLUSTER = re.compile(rf".[{MARK_RANGES}]*", re.DOTALL)

# Of characters that also make words ("的" in "目的") only those are here that seldom do.
_HAN_GRAMMAR = """
为什么 為什麼 什么 什麼 怎么 怎麼 怎样 怎樣 哪里 哪裡 哪裏 哪儿 哪兒 哪些 哪个 哪個 多少 多久 我们
我們 你们 你們 他们 他們 她们 她們 这个 這個 那个 那個 没有 沒有 吗 嗎 呢 吧 的 了 是 我 你 您 他 她
在 也 很 都 就 谁 誰 何 私 僕 俺
"""
_HIRAGANA_GRAMMAR = """
ありませんでした ありました ありません あります いました います でしょうか でしょう でした です
ませんでした ません ましょう ました ます ください どうして どんな どうやって どう どこ どれ どの
どちら だれ なに なぜ なん いつ いくつ いくら これ それ あれ この その あの ここ そこ について
という とき こと もの ている ていた ていて てから てしまった する した して しない され から まで
より けど けれど ので のに だった だけ など ある あった ない なかった なった なる わたし
"""
_HIRAGANA_PARTICLES = "はがをにでともへのかやねよ"
_HANGUL_GRAMMAR = """
무엇 무엇을 뭐 뭘 뭐야 뭐예요 뭐라고 무슨 어떤 어떻게 어디 어디에 어디서 어디에서 언제 누구 누가 왜
얼마 얼마나 얼마예요 몇 나 나는 내 내가 저 저는 제 제가 우리 너 그 이 저 것 수 있어 있어요 있다
있나요 있었어 있었어요 없어 없어요 했어 했어요 했나요 했다 하는 하고 해요 합니다 했습니다 입니다
이에요 예요 그리고 그래서 때 에서
"""
_HANGUL_PARTICLE = re.compile(
    r"(?<=.)(?:에게서|한테서|에서는|에서|에게|한테|께서|으로는|으로|부터|까지|처럼|보다|이라고|라고|이랑|랑|하고"
    r"|에는|에|은|는|이|가|을|를|의|로|와|과|도|만|요)$"
)
_HANGUL_ENDINGS_WRITTEN = """
어요 아요 해요 에요 예요 니다 습니 합니 입니 했어 했다 었어 았어 었다 았다 였어 였다 는데
나요 가요 까요 네요 지요 하는 하고 하기 라고
"""
_HANGUL_ENDINGS = frozenset(_HANGUL_ENDINGS_WRITTEN.split())
_SOUTHEAST_GRAMMAR = """
เมื่อไหร่ เมื่อไร อย่างไร ยังไง ที่ไหน ตรงไหน อะไรบ้าง อะไร ทำไม เท่าไหร่ เท่าไร ใคร ไหม หรือ และ ของ แล้ว เป็น ครับ
ค่ะ คะ ผม ฉัน ดิฉัน เรา จะ ที่ ได้ ให้ ว่า
"""
_ARABIC_GRAMMAR = """
ما ماذا متى اين أين كيف لماذا من هل كم في على إلى الى عن مع هو هي هم أنا انا نحن أنت هذا هذه ذلك تلك
التي الذي كان كانت قد أن ان إن لا لم لن و ثم أو او چه کجا کی چرا چگونه چطور است را از به در که این
آن با برای بود شد
"""
_HEBREW_GRAMMAR = """
מה מי איפה מתי למה מדוע איך כמה איזה איזו האם של את על עם אל אני אתה הוא היא אנחנו הם זה זאת זו יש
אין לא כן גם כי אם או לי שלי שלנו שלו שלה היה הייתה
"""
_HINDI_GRAMMAR = """
क्या कब कहाँ कहां क्यों कैसे कौन किस किसने किसे कितना कितने कितनी कौन सा सी से का के की को में पर ने है हैं था थी थे हो
और या यह वह ये वे मैं मैंने मेरा मेरी मेरे हम हमारा हमारी हमारे तुम आप उस इस भी तो ही नहीं कि जो एक लिए गया गई गए
रहा रही रहे हुआ हुई हमने तुमने आपने उसने किया करना करते किससे किसको होगी होगा होंगे होता होती होते
"""

# Letters without a decomposition that people write for one another.
_SAME = str.maketrans(
    {"ё": "е", "ı": "i", "ł": "l", "ø": "o", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe", "ς": "σ"}
    | dict.fromkeys("أإآٱ", "ا")
    | {"ى": "ي", "ی": "ي", "ة": "ه", "ک": "ك", "ـ": "", "\u200c": "", "\u200d": ""}
)


class _OneSpelling(dict[int, str]):
    """For ``str.translate``, filled as characters come: a lower-case letter without the marks that its readers leave
    out, which are accents of Latin and Greek, stress in Cyrillic, and the vowels of Arabic and Hebrew."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        self[code] = found = _spelled(character)
        return found


def _spelled(character: str) -> str:
    if "\u0300" <= character <= "\u036f" or (
        unicodedata.category(character) == "Mn" and "\u0591" <= character <= "\u06ed"
    ):
        return ""
    first = unicodedata.normalize("NFD", character)[0]
    has_accent = unicodedata.name(first, "").startswith(("LATIN", "GREEK"))
    return (first if has_accent else character).translate(_SAME)


_one_spelling = _OneSpelling()
# The terms of longer words, which are whole sentences without spaces, seldom come again.
_KNOWN_CHARS = 30


def one_spelling(text: str) -> str:
    """``text``, in lower case and composed, with one spelling for letters that people write for one another: ``i`` for
    the ``ı`` of Istanbul, ``e`` for ``é`` and, in Russian, ``е`` for ``ё``."""
    return text.translate(_one_spelling)


def is_spaced(word: str) -> bool:
    """Whether ``word`` comes from a script that puts spaces between words."""
    return not _UNSPACED.search(word)


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
        yield from _paired(run)
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
# The article, before two letters or more; one of the others, before four or more.
_ARABIC_BEFORE = re.compile(r"ال(?=.{2})|[ولبكف](?=.{4})")
_ARABIC_SUFFIXES = ("تها", "تهم", "تنا", "ته", "تي", "ها", "هم", "نا", "ان", "ات", "ون", "ين", "يه", "ه", "ي")


def _arabic(word: str) -> str:
    """What Larkey's light10, which Lucene uses, removes: conjunctions, prepositions and the article before a word,
    pronouns and plurals after it."""
    bare = word
    while before := _ARABIC_BEFORE.match(bare):
        bare = bare[before.end() :]
    for suffix in _ARABIC_SUFFIXES:
        least = _ARABIC_LETTERS if len(suffix) > 1 else _ARABIC_LETTERS - 1
        bare = bare.removesuffix(suffix) if len(bare) - len(suffix) >= least else bare
    return bare


_HEBREW_LETTERS = 3


def _hebrew(word: str) -> str:
    bare = word
    for plural in ("ים", "ות"):
        bare = bare.removesuffix(plural) if len(bare) - len(plural) >= _HEBREW_LETTERS else bare
    while len(bare) > _HEBREW_LETTERS and bare[0] in "הושבלמכ":
        bare = bare[1:]
    return bare


def _paired(characters: str | list[str]) -> list[str]:
    """The pairs, or the one character."""
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
_HAN_SEPARATOR = _separator(_HAN_GRAMMAR)
_HIRAGANA_SEPARATOR = _separator(_HIRAGANA_GRAMMAR, "を")
_SOUTHEAST_SEPARATOR = _separator(one_spelling(unicodedata.normalize("NFKC", _SOUTHEAST_GRAMMAR)))
_HANGUL_WORDS = frozenset(_HANGUL_GRAMMAR.split())
_WHOLE_GRAMMAR = frozenset(one_spelling(f"{_ARABIC_GRAMMAR} {_HEBREW_GRAMMAR} {_HINDI_GRAMMAR}").split())
