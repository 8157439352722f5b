"""Where to look: how much meaning and words count for a question, and which filters it really names.

A route weighs the two orders and never excludes one. The filters here are guesses, which a search may widen; those that
a person types as operators are none (``engine.strategies.operators``). Dates become a filter only where a day or a
month of a year is named, and then exactly those days: a month without a year means two of them, and a year alone is
often what is talked about and not when ("the tax return for 2025"). What was said around those days is lifted by the
search itself. A chat is one where it is called a channel or a chat ("in the channel News", "в чате «Дача»"), or named
as ``@news``. A name that the memory does not know leaves the search no hit, and then it looks everywhere. An author is
never guessed, for who is named in a question is spoken of more often than speaks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta

from memoryapp.engine.strategies.react.shapes import Filters, Route, RouterOutput
from memoryapp.engine.text.dates import windows
from memoryapp.engine.text.lexical import stems, words

# Questions that name a thing gain by words: of 121 on the development set recall@5 is .947 instead of .932. Those that
# ask how and why lost by meaning (1.2 and .85: .915 instead of .927 of 103), so they are searched as any other.
_WEIGHTS: dict[Route, tuple[float, float]] = {"bm25": (0.85, 1.2), "dense": (1.0, 1.0), "hybrid": (1.0, 1.0)}
_SHORT_CHARS, _SHORT_STEMS, _LONG_CHARS = 16, 2, 120
_LONGEST_NAMED = timedelta(days=31)

_QUOTED = re.compile(r"[\"«“„][^\"»”“]{2,200}[\"»”“]")
_HANDLE = re.compile(r"(?<!\w)[@#]\w{2,}|https?://\S")
_NUMBER = re.compile(r"\d")
_EXPLAINS = frozenset(["how", "why", "explain", "describe", "как", "почему", "зачем", "объясни", "расскажи", "опиши"])
# "in the channel Daily News", "в чате «Дача»", "из канала @news"; "in the news channel".
_NAME = r"(?:[\"«“]([^\"»”]{1,100})[\"»”]|@?(\w{2,100}(?-i:(?: [A-ZА-ЯЁ\d]\w{0,50}){0,4})))"
_IN_CHAT = re.compile(
    rf"(?<!\w)(?:in|on|from) (?:the )?(?:channel|chat|group) {_NAME}"
    rf"|(?<!\w)(?:в|во|из|на) (?:канал|чат|групп)(?:е|а|у|ы)? {_NAME}"
    rf"|(?<!\w)(?:in|on|from) the {_NAME} (?:channel|chat|group)(?!\w)",
    re.IGNORECASE,
)
_AT = re.compile(r"(?<![\w@])@(\w{2,100})")


def route_of(question: str, today: date) -> RouterOutput:
    """The route of a ``question`` as seen on ``today``, with codes that explain it."""
    reasons = tuple(_lexical(question, today))
    route: Route = "bm25" if reasons else "hybrid"
    if not reasons and (described := tuple(_descriptive(question))):
        route, reasons = "dense", described
    meaning, shared = _WEIGHTS[route]
    filters = filters_of(question, today)
    return RouterOutput(route=route, meaning=meaning, words=shared, reasons=reasons, **filters.model_dump())


def _lexical(question: str, today: date) -> Iterator[str]:
    if _QUOTED.search(question):
        yield "quoted"
    if windows(question, today):
        yield "date"
    elif _NUMBER.search(question):
        yield "number"
    if _HANDLE.search(question):
        yield "identifier"
    if len(question) <= _SHORT_CHARS or len(stems(question)) <= _SHORT_STEMS:
        yield "short"


def _descriptive(question: str) -> Iterator[str]:
    if len(question) > _LONG_CHARS:
        yield "long"
    if _EXPLAINS & {word.lower() for word in words(question)[:2]}:
        yield "descriptive"


def weights_of(route: Route) -> tuple[float, float]:
    """The weights of meaning and words."""
    return _WEIGHTS[route]


def filters_of(question: str, today: date) -> Filters:
    """The days and chats that a question names."""
    since, until = _dates(question, today)
    return Filters(since=since, until=until, channels=tuple(_chats(question)[:10]))


def _chats(question: str) -> list[str]:
    """The chats that a question names, each once.

    The end of a name without quotation marks is unknown: each beginning of a series of capitalised words may be the
    name.
    """
    called = list[str]()
    for found in _IN_CHAT.findall(question):
        quoted, plain = "".join(found[::2]), "".join(found[1::2]).split()
        called += [quoted] if quoted else [" ".join(plain[:end]) for end in range(len(plain), 0, -1)]
    return list(dict.fromkeys((*called, *_AT.findall(question))))


def _dates(question: str, today: date) -> tuple[str, str]:
    found = windows(question, today)
    is_exact = len({window.words for window in found}) == len(found)
    if not found or not is_exact or any(window.last - window.first > _LONGEST_NAMED for window in found):
        return "", ""
    return f"{min(window.first for window in found)}", f"{max(window.last for window in found)}"
