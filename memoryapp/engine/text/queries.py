"""The matter of a question, from which its vector is made: the text without names of speakers and words that only ask.

In a memory of two people every other passage contains their names, and every question contains "what did … do"; for a
sentence encoder these are half of a short question. So its vector is the sum of two unit vectors: that of the question
without names, and that of its remaining words without question words.

Measured on the development set, 760 questions over five public English two-person conversations, whole sessions, by
vectors alone (recall@5 / MRR): the whole question .717/.603, without names .791/.672, its telling words alone
.809/.678, both added .819/.690. Neutral on 150 Russian questions.

Standing instructions to an assistant ("always answer in metric units") have their patterns here, too.
When people ask an assistant to make something, their earlier instructions apply, but the request hardly repeats their
words. So such a query raises passages with standing instructions. The patterns are for English and Russian.

Measured on long chats with an assistant whose questions were known when the patterns were written, so indicative:
recall@5 / recall@10 .592/.696 to .629/.729. Of 2,241 questions of other sets 13 ask for something to be made.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from memoryapp.engine.text.framing import bare
from memoryapp.engine.text.lexical import is_question_word, normal
from memoryapp.engine.text.names import plain, spellings

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
    parts = (large if large.endswith(("?", "？", "؟")) else f"{large.rstrip('.!… ')}?", " ".join(telling))
    texts = [" ".join(part.split()) for part in parts if _WRITTEN.search(part)]
    return QueryMatter(tuple(texts or [question]), tuple(dict.fromkeys(names)))


def asks_to_make(question: str) -> bool:
    """Whether the query asks for something to be made: "write a letter to …", "составь план"."""
    return bool(_MAKE.search(normal(question)))
