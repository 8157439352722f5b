"""Which words name a subject: nouns and names, as far as their endings and a list of common words show."""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

from memoryapp.engine.beside import table_beside
from memoryapp.engine.text.framing import bare
from memoryapp.engine.text.lexical import is_irregular_verb, is_question_word, normal, stems
from memoryapp.engine.text.names import plain, spellings

_WORDS = table_beside(__file__)


@cache
def common() -> frozenset[str]:
    """The stems of words of any talk, which may be so rare in a small memory that they look like a subject."""
    return frozenset(stem for word in _WORDS["common"].split() for stem in stems(word))


# Endings of words that are seldom nouns, with the likelihood that the word is one anyway.
_ENDINGS = (
    (("ость", "асть", "есть", "ция", "ние", "тель"), 1.0),
    (("ться", "тся", "ешь", "ишь", "ете", "ите", "ают", "яют", "уют", "ила", "ала", "ыла", "или", "али", "ыли"), 0.3),
    (("овать", "ать", "ять", "ить", "еть", "лся", "лась", "лись", "ует", "ает", "яет"), 0.3),
    (
        ("ый", "ий", "ая", "яя", "ое", "ее", "ые", "ие", "ого", "его", "ому", "ему", "ыми", "ими", "ную", "ной", "ных"),
        0.5,
    ),
    (("ly", "ful", "ous", "able", "ible", "ive", "less"), 0.4),
    (("ed",), 0.4),
)


def likeness_of_a_noun(word: str) -> float:
    """From 0 to 1, by the ending; 1 when the ending says nothing."""
    lower = word.lower()
    if len(lower) < 5:
        return 1.0
    return next((likeness for endings, likeness in _ENDINGS if lower.endswith(endings)), 1.0)


# Endings of Russian nouns that depend on another word: "врачу", "плиткой".
_OBLIQUE = ("у", "ю", "ой", "ей", "ом", "ем", "ам", "ям", "ами", "ями", "ах", "ях", "ов", "ев", "ого", "его")


def is_oblique(word: str) -> bool:
    """Whether a Russian word looks like a form that does not occur alone in a title."""
    return not word.isascii() and word.lower().endswith(_OBLIQUE)


# "отправлена", "установлено"; what is shorter is mostly a noun ("колено").
_PARTICIPLE = re.compile(r"\w{5,}(?:ена|ено|ены|ано)")
# "ждёт", "прошла", "купить"; some nouns end so too ("билет"), which is why they are only worth less.
_RUSSIAN_VERB = re.compile(r"\w{2,}(?:[её]т|ит|[уюяа]т|[еи]шь|[иаяеу]л|л[аои]|с[яь]|лась|т[ьи]|чь|ем|им|ю)")
_PARTICIPLES_WORTH, _OBLIQUE_WORTH, _VERBS_WORTH, _GERUNDS_WORTH = 0.4, 0.6, 0.4, 0.6
_LEAST_VERB, _LEAST_GERUND, _SHORTEST = 4, 6, 3
# Forms of irregular English words that are nouns as well.
_NOUNS_TOO = frozenset(["deal", "dream", "drink", "fight", "lead", "ring", "run", "swim"])
_SHORTENED = re.compile(r"n['’]t$|['’](?:ll|ve|re|d|m)$", re.IGNORECASE)


@cache
def _no_subjects() -> frozenset[str]:
    """The stems of words that name nothing, though a title may hold them."""
    return frozenset(stem for word in _WORDS["no_subjects"].split() for stem in stems(word))


def naming_stems(word: str) -> list[str]:
    """The stems of a word that may name a subject; none of a number, and none of a word of any talk."""
    if len(normal(word)) < _SHORTEST or _SHORTENED.search(word):
        return []
    return [stem for stem in stems(word) if not stem.isdigit() and stem not in common() and stem not in _no_subjects()]


def reading_form(forms: Counter[str]) -> str:
    """The form that reads best alone, else the most frequent one."""
    return min(forms, key=lambda form: (is_oblique(form), -forms[form], form))


def fitness(word: str) -> float:
    """How well a word names something, from 0 to 1."""
    shape = _OBLIQUE_WORTH if is_oblique(word) else _PARTICIPLES_WORTH if _PARTICIPLE.fullmatch(word) else 1.0
    return min(likeness_of_a_noun(word) * shape, _not_a_verb(word.lower()))


def _not_a_verb(word: str) -> float:
    if word.isascii():
        if word.endswith("ing") and len(word) >= _LEAST_GERUND:
            return _GERUNDS_WORTH
        return _VERBS_WORTH if is_irregular_verb(word) and word not in _NOUNS_TOO else 1.0
    return _VERBS_WORTH if len(word) >= _LEAST_VERB and _RUSSIAN_VERB.fullmatch(word) else 1.0


# The matter of a question, from which its vector is made: the text without names of speakers and words that only ask.
#
# In a memory of two people every other passage contains their names, and every question contains "what did … do"; for
# a sentence encoder these are half of a short question. So its vector is the sum of two unit vectors: that of the
# question without names, and that of its remaining words without question words.
#
# Measured on the development set, 760 questions over five public English two-person conversations, whole sessions, by
# vectors alone (recall@5 / MRR): the whole question .717/.603, without names .791/.672, its telling words alone
# .809/.678, both added .819/.690. Neutral on 150 Russian questions.
#
# Standing instructions to an assistant ("always answer in metric units") have their patterns here, too. When people
# ask an assistant to make something, their earlier instructions apply, but the request hardly repeats their words. So
# such a query raises passages with standing instructions. The patterns are for English and Russian.
#
# Measured on long chats with an assistant whose questions were known when the patterns were written, so indicative:
# recall@5 / recall@10 .592/.696 to .629/.729. Of 2,241 questions of other sets 13 ask for something to be made.

# A word with everything written together with it, so that "Anna's" is removed as a whole.
_WRITTEN = re.compile(r"[^\W_]+(?:['’]s(?![^\W_]))?")
_POSSESSIVE = re.compile(r"['’]s$")

# In the syntax of PostgreSQL, which searches the user's texts with it, ignoring case.
INSTRUCTION = (
    r"\m(always|whenever i|when i ask|from now on|i prefer|i(?:'d| would) prefer|i want you to|never (?:use|write|give)"
    r"|всегда|отныне|впредь|с этого момента|когда я (?:спрашиваю|спрошу|прошу|попрошу)|я предпочитаю"
    r"|хочу, чтобы ты|каждый раз, когда)\M"
)
_MAKE = re.compile(
    r"^\W*(?:(?:please|can you|could you|would you|will you|help me(?: to)?|i need you to|i'd like you to"
    r"|i want you to),? )*(?:write|draft|make|create|prepare|compose|generate|design|build|plan|suggest|recommend"
    r"|translate|rewrite|summari[sz]e|outline|implement)\b"
    r"|^\W*(?:(?:пожалуйста|можешь|помоги(?: мне)?|давай),? )*(?:напиши|составь|сделай|подготовь"
    r"|придумай|сгенерируй|спланируй|посоветуй|предложи|нарисуй|переведи|перепиши|перескажи|написать|составить"
    r"|подготовить|придумать)\b"
)


@dataclass(frozen=True, slots=True)
class QueryMatter:
    """The ``texts`` whose summed vectors are the vector of a question, and the ``names`` that were removed from it."""

    texts: tuple[str, ...]
    names: tuple[str, ...] = ()


def matter_of(question: str, authors: Collection[str]) -> QueryMatter:
    """What a question is about, without what frames it, in a memory in which ``authors`` speak."""
    question = bare(question)
    called = {spelling for author in authors for each in spellings(author) for spelling in each}
    names: list[str] = []

    def nameless(found: re.Match[str]) -> str:
        word = _POSSESSIVE.sub("", found[0])
        if plain(word) not in called:
            return found[0]
        names.append(word)
        return ""

    matter = _WRITTEN.sub(nameless, question)
    telling = [word for word in _WRITTEN.findall(matter) if not is_question_word(_POSSESSIVE.sub("", word))]
    # A question typed in haste, in small letters and without its mark, has the same vector.
    matter = matter.strip()
    large = matter[:1].upper() + matter[1:] if matter.split(" ")[0].islower() else matter
    is_marked = large.endswith(("?", "？", "؟")) and large[-2:-1] not in ("?", "!")
    parts = (large if is_marked else f"{large.rstrip('?.!… ')}?", " ".join(telling))
    texts = [" ".join(part.split()) for part in parts if _WRITTEN.search(part)]
    return QueryMatter(tuple(texts or [question]), tuple(dict.fromkeys(names)))


def asks_to_make(question: str) -> bool:
    """Whether the query asks for something to be made: "write a letter to …", "составь план"."""
    return bool(_MAKE.search(normal(question)))
