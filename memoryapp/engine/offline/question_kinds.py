"""What kind of answer a question wants, as far as its words show: several things, a judgement, or what is true now."""

from __future__ import annotations

import re

from memoryapp.engine.text.lexical import normal

# "What books", "which of the cities", "how many", "list": the answer is in more than one place.
_SEVERAL = re.compile(
    r"\b(?:(?:what|which)(?: \w+)? (?!(?:is|was|does|has|this|his|its|us)\b)\w+[^s\W]s|how many|how often"
    r"|list|both|in common|(?:what|which|who|where) (?:all|else)|all (?:the|of)|different|each)\b"
    r"|\b(?:как(?:ие|их|им|ими)|сколько|перечисли\w*|списк?\w{0,2}|все|всех|оба|обе|обоих|кто (?:еще|все)|чем еще)\b"
)
_JUDGEMENT = re.compile(r"\b(?:would|likely|might|could|probably|considered|likelihood)\b|\b(?:бы|вероятно|наверное)\b")

_NOW = re.compile(
    r"\b(?:now|still|nowadays|current|currently|at the moment|these days|latest|jetzt|derzeit|aktuell|maintenant"
    r"|actuellement|ahora|actualmente|adesso|attualmente|agora|teraz|obecnie|зараз|тепер)\b"
    r"|\b(?:сейчас|теперь|нынешн\w*|текущ\w*|до сих пор|на данный момент)\b"
)
# What changes in a life, asked for in the present tense.
_STATE = re.compile(
    r"\b(?:rent|address|job|phone|number|price|salary|cost|costs|live|lives|living|work|works|working|pay|pays)\b"
    r"|\b(?:аренд\w*|адрес\w*|телефон\w*|цен[ауы]|зарплат\w*|стоит|живет|живу|живешь|живут|работает|работаю|платит|плачу)\b"
)
_PRESENT = re.compile(r"\b(?:is|are|am|does|do|has|have|what s|where s)\b|[а-я]")
_PAST = re.compile(
    r"\b(?:was|were|did|had|ago|last|first|before|used to|yesterday|earlier|when|back then|(?:19|20)\d\d|january"
    r"|february|march|april|june|july|august|september|october|november|december)\b"
    r"|\b(?:был[аои]?|раньше|вчера|назад|прошл\w*|когда|тогда|сначала|перв\w*|\w{3,}(?:ал|ил|ел|ял)[аои]?)\b"
)


def wants_present(question: str) -> bool:
    """Whether what is true now is asked for: "now", "сейчас", or a state such as the rent in the present tense."""
    plain = normal(question)
    if _PAST.search(plain):
        return False
    return bool(_NOW.search(plain) or (_STATE.search(plain) and _PRESENT.search(plain)))


def wants_several(question: str) -> bool:
    """Whether several things are asked for: "what books", "how many", "какие"."""
    return bool(_SEVERAL.search(normal(question)))


def wants_judgement(question: str) -> bool:
    """Whether a judgement is asked for that nobody may have said: "would", "likely", "мог бы"."""
    return bool(_JUDGEMENT.search(normal(question)))
