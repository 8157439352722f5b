"""Standing instructions to an assistant ("always answer in metric units"), and questions that they are meant for.

When people ask an assistant to make something, their earlier instructions apply, but the request hardly repeats their
words. So such a query raises passages with standing instructions. The patterns are for English and Russian.

Measured on long chats with an assistant whose questions were known when the patterns were written, so indicative:
recall@5 / recall@10 .592/.696 to .629/.729. Of 2,241 questions of other sets 13 ask for something to be made.
"""

from __future__ import annotations

import re

from memoryapp.engine.text.lexical import normal

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


def asks_to_make(question: str) -> bool:
    """Whether the query asks for something to be made: "write a letter to …", "составь план"."""
    return bool(_MAKE.search(normal(question)))
