"""Scripts and languages of texts, as far as their letters and their most frequent words show.

``general`` is what a topic is called about which nothing else can be said: small talk, in the language of its messages.
"""

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

from memoryapp.engine.memory import MessageContent
from memoryapp.engine.text.lexical import compatible

# The name that a character has in Unicode begins with its script; Japanese mixes three with Chinese characters.
_ONE_SCRIPT = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "BOPOMOFO": "CJK"}
# A character of these scripts is a word or a syllable, where others have several letters.
_LETTERS_A_CHARACTER = {"CJK": 3, "HANGUL": 2}
UNSPACED = frozenset({"CJK", "THAI", "LAO", "KHMER", "MYANMAR"})

# A Russian talk about vLLM on H100 contains many Latin letters and is still Russian.
_CYRILLIC_SHARE = 0.3
_KANA_SHARE = 0.1
_BY_SCRIPT = {
    "CJK": "zh",
    "HANGUL": "ko",
    "ARABIC": "ar",
    "HEBREW": "he",
    "DEVANAGARI": "hi",
    "THAI": "th",
    "GREEK": "el",
    "CYRILLIC": "ru",
}
_PERSIAN, _UKRAINIAN = frozenset("پچژگ"), frozenset("іїєґ")
_FREQUENT: Mapping[str, str] = {
    "en": "the and is you of to it that was for are my",
    "de": "der die und ich nicht ist das ein eine mit es wir",
    "es": "el los las que y es una por no con mi lo",
    "fr": "le les et je est vous une pas des que il c",
    "it": "il che e è per non una di sono con gli mi",
    "pt": "o que e não uma os você com para em eu um",
    "pl": "nie się jest że jak mam tak czy dla ale już bardzo",
    "cs": "jsem jsme že už není nebo taky když něco bylo mám mi",
    "tr": "ve bir bu için çok var ben evet ama gibi daha değil",
}

_SURE_WORDS = 2

# The beginnings of the first messages show their language.
_OPENING_CHARS, _OPENINGS = 120, 200
_GENERAL: Mapping[str, str] = {
    "en": "General conversation",
    "ru": "Общий разговор",
    "uk": "Загальна розмова",
    "de": "Allgemeines Gespräch",
    "es": "Conversación general",
    "fr": "Conversation générale",
    "it": "Conversazione generale",
    "pt": "Conversa geral",
    "pl": "Ogólna rozmowa",
    "cs": "Obecný rozhovor",
    "tr": "Genel sohbet",
    "el": "Γενική συζήτηση",
    "ar": "محادثة عامة",
    "fa": "گفتگوی عمومی",
    "he": "שיחה כללית",
    "hi": "सामान्य बातचीत",
    "th": "การสนทนาทั่วไป",
    "zh": "日常对话",
    "ja": "雑談",
    "ko": "일반 대화",
}
_NAMES = frozenset(_GENERAL.values())


@lru_cache(maxsize=4_096)
def _script(character: str) -> str:
    first = unicodedata.name(character, "").split(" ", 1)[0].split("-", 1)[0] if character.isalpha() else ""
    return _ONE_SCRIPT.get(first, first)


def shares(text: str) -> dict[str, float]:
    """The share of each script (``LATIN``, ``CYRILLIC``, ``CJK`` …) in the letters of ``text``, the largest first."""
    counts: Counter[str] = Counter()
    for character, times in Counter(compatible(text)).items():
        if script := _script(character):
            counts[script] += times * _LETTERS_A_CHARACTER.get(script, 1)
    total = sum(counts.values())
    return {script: count / total for script, count in counts.most_common()}


def script_of(text: str) -> str:
    """The script of most of the letters; empty without letters."""
    return next(iter(shares(text)), "")


def language(text: str) -> str:
    """The code of the language (``en``, ``ru``, ``ja`` …) in which ``text`` is probably written; ``en`` in doubt."""
    lower = compatible(text).lower()
    known = shares(lower)
    script = "CYRILLIC" if known.get("CYRILLIC", 0) >= _CYRILLIC_SHARE else next(iter(known), "LATIN")
    if script == "LATIN":
        return _by_words(lower)
    if script == "CJK":
        kana = sum("\u3040" <= character <= "\u30ff" for character in lower)
        return "ja" if kana >= _KANA_SHARE * sum(map(str.isalpha, lower)) else "zh"
    if (script == "CYRILLIC" and _UKRAINIAN & set(lower)) or (script == "ARABIC" and _PERSIAN & set(lower)):
        return "uk" if script == "CYRILLIC" else "fa"
    return _BY_SCRIPT.get(script, "en")


def latin_language(text: str) -> str:
    """The code of the language of a text in Latin letters; empty unless several frequent words speak for it, twice as
    many as for any other."""
    (first, code), (second, _other) = sorted(((n, code) for code, n in _frequent(text.lower()).items()), reverse=True)[
        :2
    ]
    return code if first >= _SURE_WORDS and first >= 2 * second else ""


def _by_words(text: str) -> str:
    found = _frequent(text)
    return max(found, key=lambda code: found[code])


def _frequent(text: str) -> dict[str, int]:
    """How many of the words are frequent ones of each language."""
    counts = Counter(text.split())
    return {code: sum(counts[word] for word in words.split()) for code, words in _FREQUENT.items()}


def general(messages: Sequence[MessageContent]) -> str:
    """``General conversation``, in the language of the ``messages``: of what people wrote, if they wrote anything."""
    of_people = [message for message in messages if message.role in ("user", "peer") and message.text.strip()]
    texts = [message.text[:_OPENING_CHARS] for message in (of_people or messages)[:_OPENINGS]]
    return _GENERAL[language(" ".join(texts))]


def is_general(summary: str) -> bool:
    """Whether a summary is the one of ``general``, in any language."""
    return summary in _NAMES
