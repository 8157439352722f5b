"""The tool ``query_plan``: it asks a model for further queries, also when too little was found."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from pydantic import ValidationError

from memoryapp.engine.agents.ask import Ask
from memoryapp.engine.agents.paraphraser import EXPAND
from memoryapp.engine.chat.protocol import Chat
from memoryapp.engine.emit import Emit
from memoryapp.engine.memory import MOST_PHRASES
from memoryapp.engine.prompts.prompt import QUERY, TODAY, BuiltInPrompt, PromptBook, language_of, texts_beside
from memoryapp.engine.prompts.prompt import gettext_noop as _
from memoryapp.engine.strategies.react.toolbox import Filters, PlanInput, PlanOutput, Route, RouterOutput
from memoryapp.engine.text.answers import TEXT, list_schema, mended, object_schema
from memoryapp.engine.text.dates import windows
from memoryapp.engine.text.lexical import fold, stems, words
from memoryapp.engine.text.lines import quoted

PLAN = BuiltInPrompt(
    "plan",
    title=_("Plan searches"),
    purpose=_("Plans what the strategy react searches for beside the question."),
    texts=texts_beside(__file__, "plan"),
    variables=(TODAY, QUERY),
    required=(QUERY,),
)

# A question with so few telling words asks for one thing.
SHORT_STEMS = 6
_LONGEST_QUERY, _MOST_WORDS = 256, 12
_LONGEST_PASSAGE = 600
_MOST_PARAPHRASES = 2
_LONGEST_ANSWER = 20_000

_TEXTS = list_schema(TEXT)
_NAMES, _PHRASES = ("channels", "authors"), ("must_phrases", "should_phrases")
_LISTED = dict.fromkeys(("queries", *_NAMES, *_PHRASES), _TEXTS)
_PLAN_SCHEMA = object_schema(**_LISTED, since=TEXT, until=TEXT, k_per_query={"type": "integer"})
_MOST_PLANNED = 100


@dataclass(slots=True)
class Planning:
    """Asks the ``writer``, if there is one; ``left`` returns the seconds that a question to it may take."""

    writer: Chat | None
    prompts: PromptBook
    today: str
    always: bool
    left: Callable[[], float]

    async def plan(self, asked: PlanInput, emit: Emit) -> PlanOutput:
        """The queries to search for: the question, and what a model adds to a long one or one that found little."""
        if self.writer is None:
            return PlanOutput(queries=(asked.query,), by="nobody", why="no_model")
        if asked.found_little:
            return await self._expand(asked.query, emit)
        if not self.always and len(stems(asked.query)) <= SHORT_STEMS:
            return PlanOutput(queries=(asked.query,), by="nobody", why="short")
        found = await self._ask(PLAN, asked.query, _PLAN_SCHEMA, emit)
        planned = distinct(asked.query, _texts(found, "queries"))[: asked.most]
        if not planned:
            return PlanOutput(queries=(asked.query,), by="nobody", why="no_plan")
        filters = proposed(found, asked.query)
        # A model invents days readily, and the one source that answers may lie outside of them.
        if not windows(asked.query, date.fromisoformat(self.today)):
            filters = _without_days(filters)
        k = found.get("k_per_query")
        fits = isinstance(k, int) and not isinstance(k, bool) and 1 <= k <= _MOST_PLANNED
        queries = (asked.query, *planned)
        return PlanOutput(queries=queries, by="model", k_per_query=k if fits else None, **filters.model_dump())

    async def _expand(self, question: str, emit: Emit) -> PlanOutput:
        """A passage that might contain the answer, and paraphrases of the question."""
        schema = object_schema(passage=TEXT, paraphrases=_TEXTS)
        found = await self._ask(EXPAND, question, schema, emit)
        passage = " ".join(str(found.get("passage") or "").split())[:_LONGEST_PASSAGE]
        paraphrases = distinct(question, _texts(found, "paraphrases"))[:_MOST_PARAPHRASES]
        queries = tuple(dict.fromkeys(filter(None, (question, passage, *paraphrases))))
        return PlanOutput(queries=queries, by="model" if len(queries) > 1 else "nobody", why="found_little")

    async def _ask(
        self, prompt: BuiltInPrompt, question: str, schema: Mapping[str, Any], emit: Emit
    ) -> Mapping[str, Any]:
        """The model's answer as an object; empty when it fails. Raises TimeoutError when it is late."""
        assert self.writer
        text = prompt.of(self.prompts, language_of(question))
        variables = {"today": self.today, "query": quoted(question.strip())}

        def read(answer: str) -> Mapping[str, Any] | None:
            value = mended(answer[:_LONGEST_ANSWER])
            return value if isinstance(value, dict) and value else None

        ask = Ask(self.writer, text, variables, read=read, seconds=self.left(), schema=schema, tries=1)
        await ask.complete(emit)
        if ask.failure and ask.failure.cause in ("timeout", "turn_timeout"):
            raise TimeoutError
        return ask.answer or {}


def _texts(found: Mapping[str, Any], name: str) -> Iterable[str]:
    listed = found.get(name)
    return [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else ()


def proposed(found: Mapping[str, Any], question: str = "") -> Filters:
    """The filters of a plan, each of them only if it is valid: days that exist, names on one line, and phrases that
    stand in the ``question``."""
    days = {name: found.get(name) for name in ("since", "until")}
    lines = {name: [" ".join(each.split()) for each in _texts(found, name)] for name in (*_NAMES, *_PHRASES)}
    names = {name: [line for line in lines[name] if line] for name in _NAMES}
    said = f" {' '.join(stems(question))} "
    for name in _PHRASES:
        known = (each for each in lines[name] if stems(each) and f" {' '.join(stems(each))} " in said)
        names[name] = list(known)[:MOST_PHRASES]
    valid = Filters()
    for name, value in {**days, **{name: tuple(dict.fromkeys(each)) for name, each in names.items()}}.items():
        with suppress(ValidationError):
            valid = Filters.model_validate({**valid.model_dump(), name: value})
    return valid if not (valid.since and valid.until) or valid.since <= valid.until else _without_days(valid)


def _without_days(filters: Filters) -> Filters:
    return filters.model_copy(update={"since": "", "until": ""})


def distinct(question: str, queries: Iterable[str]) -> list[str]:
    """The queries with content, each on one line; without duplicates and without the question. No word is removed."""
    known, kept = {_folded(question)}, []
    for query in queries:
        text = " ".join(query.split())
        shortened = " ".join(text.split()[:_MOST_WORDS])[:_LONGEST_QUERY].strip()
        if len(shortened) >= 3 and _folded(shortened) not in known:
            known.add(_folded(shortened))
            kept.append(shortened)
    return kept


def _folded(text: str) -> str:
    return fold(text).strip()


# Where to look: how much meaning and words count for a question, and which filters it really names.
#
# A route weighs the two orders and never excludes one. The filters here are guesses, which a search may widen; those
# that a person types as operators are none (``engine.strategies.operators``). Dates become a filter only where a day
# or a month of a year is named, and then exactly those days: a month without a year means two of them, and a year
# alone is often what is talked about and not when ("the tax return for 2025"). What was said around those days is
# lifted by the search itself. A chat is one where it is called a channel or a chat ("in the channel News", "в чате
# «Дача»"), or named as ``@news``. A name that the memory does not know leaves the search no hit, and then it looks
# everywhere. An author is never guessed, for who is named in a question is spoken of more often than speaks.

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
    """The chats that a question names, each once. The end of a name without quotation marks is unknown: each beginning
    of a series of capitalised words may be the name."""
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
