"""What kind of answer a question wants, as far as its words show it: several things, a judgement, or something to be
made.
"""

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


def wants_several(question: str) -> bool:
    """Whether several things are asked for: "what books", "how many", "какие"."""
    return bool(_SEVERAL.search(normal(question)))


def wants_judgement(question: str) -> bool:
    """Whether a judgement is asked for that nobody may have said: "would", "likely", "мог бы"."""
    return bool(_JUDGEMENT.search(normal(question)))
