"""The enricher: an agent that rewrites the query for search, as one line, from the running conversation. It must not
guess. A word that the model does not know stays as it was typed ("мениск" must never become "MinIO"), and nothing is
added that the user did not mean. When the model fails, the raw query is used."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from types import MappingProxyType

from memoryapp.engine.agents.ask import Ask
from memoryapp.engine.beside import table_beside
from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.chat.protocol import Chat
from memoryapp.engine.emit import Emit, unheard
from memoryapp.engine.events import Event, ModelProgress, ModelReplied, QueryEnriched, Retried, SteppedDown
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.prompts import prompt
from memoryapp.engine.prompts.prompt import gettext_noop as _
from memoryapp.engine.text.dates import MONTH_NAMES
from memoryapp.engine.text.lexical import base, normal, stems, words
from memoryapp.engine.text.lines import one_line
from memoryapp.engine.text.names import names_in
from memoryapp.engine.text.negation import is_negated
from memoryapp.engine.text.standing import is_akin

LONGEST = 500
# How many messages of the running conversation the model is shown.
_MESSAGES = 5


ENRICH = prompt.BuiltInPrompt(
    "enrich",
    title=_("Enrich the query"),
    purpose=_("Rewrites the query for search."),
    texts=prompt.texts_beside(__file__, "enrich"),
    variables=prompt.BACKGROUND,
    required=(prompt.QUERY,),
    trial=prompt.PromptTrial(
        _("A past run is repeated: another prompt rewrites its query for search."),
        _(
            "The new run gets the same query, searches today's memory for its own rewrite and chooses with the same "
            "rerank prompt."
        ),
    ),
)


async def enrich(
    query: str,
    *,
    chat: Chat | None,
    messages: Sequence[MessageContent],
    profile: str,
    today: date,
    seconds: float,
    recent_topics: Sequence[str] = (),
    media: Sequence[MediaContent] = (),
    prompts: prompt.PromptBook = prompt.UNEDITED,
    variables: Mapping[str, str] = MappingProxyType({}),
    emit: Emit = unheard,
) -> QueryEnriched:
    """The enriched query: the raw one, with a ``note``, when there is no model or when the model fails within
    ``seconds``. An empty answer is not asked for again, because the raw query can be searched. Retries and abilities
    that the endpoint lacks are emitted; all else about the call is in the returned event.

    ``variables`` replace those of the prompt: a run that is tried again sends the same ones, whatever has changed.
    Raises KeyError or ValueError for a prompt that ``prompts.faults`` would have rejected."""
    if chat is None:
        return QueryEnriched(query, query, note="no_model", seconds=0.0)
    filled = enrich_variables(
        query, messages=messages, profile=profile, recent_topics=recent_topics, media=media, today=today
    )
    filled |= variables
    text = ENRICH.of(prompts, prompt.language_of(query))

    def read(line: str) -> str | None:
        return one_line(line)[:LONGEST] or None

    def heard(event: Event | ModelProgress) -> None:
        if isinstance(event, Retried | SteppedDown):
            emit(event)

    ask = Ask(chat, text, filled, read=read, seconds=seconds, media=media, tries=1)
    return _enriched(query, await ask.complete(heard), filled)


def enrich_variables(
    query: str,
    *,
    messages: Sequence[MessageContent],
    profile: str,
    recent_topics: Sequence[str],
    media: Sequence[MediaContent],
    today: date,
) -> dict[str, str]:
    """All variables of the enricher's prompt; what people wrote is quoted."""
    return prompt.background(
        query,
        messages=messages[-_MESSAGES:],
        profile=profile,
        recent_topics=recent_topics,
        media=media,
        today=today,
        none=prompt.NONE[prompt.language_of(query)],
    )


def _enriched(query: str, ask: Ask[str], variables: Mapping[str, str]) -> QueryEnriched:
    """The call as one event of the run."""
    replied = [event for event in ask.events if isinstance(event, ModelReplied)]
    return QueryEnriched(
        query=query,
        enriched=ask.answer or query,
        note=_note(ask),
        seconds=round(ask.spent_seconds, 6),
        input_tokens=ask.usage.input_tokens,
        output_tokens=ask.usage.output_tokens,
        cost_usd=ask.usage.cost_usd,
        model=replied[-1].model if replied else ask.model,
        prompt_version=ask.prompt.label,
        variables=variables,
        cause=ask.failure.cause if ask.failure else "",
        status=ask.failure.status if ask.failure else 0,
    )


def _note(ask: Ask[str]) -> str:
    """Empty when there is an answer; else ``failed``, a colon and the words of the endpoint or the model, if any."""
    if ask.answer is not None:
        return ""
    words = one_line(ask.failure.words)[:LONGEST] if ask.failure else ""
    return f"failed: {words}" if words else "failed"


# Whether a rewrite of a query guesses: a word of the query gave way to one that nobody said, or one was added that
# names something.
#
# A rewrite may drop words, inflect them, put dates into numbers, and take words from the conversation and the
# profile. It may not put "MinIO" in the place of "мениск", nor add a name, a number, a date or a "not" that nobody
# said. A pronoun counts as such a place too, since it may only become what was talked about. Words by which one asks
# ("сказал", "tell") may become any others, and nothing is decided by a model, so that the same rewrite is judged
# alike for every embedding.

_WORDS = table_beside(__file__)
_NUMBER = re.compile(r"\d+")
_YEAR = re.compile(r"(?:19|20)\d\d")


def guesses(query: str, rewrite: str, texts: Iterable[str]) -> bool:
    """Whether ``rewrite`` has a word that is neither in ``query`` nor in the ``texts`` of the conversation, and is no
    date where the query names a time: in the place of a word of the query, or a name, a number or a negation."""
    shown = list(texts)
    own, known = _known(query), {stem for text in shown for stem in _known(text)}
    written = _known(rewrite)
    if _names_more(query, rewrite, own | known) or is_negated(rewrite) and not any(map(is_negated, (query, *shown))):
        return True
    missing = [word for word in _telling(query) if not _is_among(word, written)]
    asked, kept = (set(words(normal(text))) for text in (query, rewrite))
    if not missing and asked.difference(kept).isdisjoint(_WORDS["pronouns"].split()):
        return False
    added = (word for word in _telling(rewrite) if not _is_among(word, own | known))
    return any(not _may_be_added(word, query) for word in added)


def _names_more(query: str, rewrite: str, known: Collection[str]) -> bool:
    """Whether the rewrite has a number, a month, or a word with a capital letter in a sentence that is not known."""
    naming = (
        word
        for word in words(rewrite)
        if word in names_in(rewrite) or _NUMBER.search(word) or normal(word) in MONTH_NAMES
    )
    added = (base(stem) for word in naming for stem in stems(word)[:1])
    return any(
        not _is_among(stem, known) and not _may_be_added(stem, query) and not (stem in _times() and _names_time(query))
        for stem in added
    )


def _known(text: str) -> set[str]:
    """Every stem of the text, joined forms too; an irregular form counts as its word."""
    return {base(stem) for stem in stems(text)}


def _telling(text: str) -> list[str]:
    """The stems of the words that name something; no words that only ask, and none of time."""
    found = [base(stem) for word in words(normal(text)) for stem in stems(word)[:1]]
    # A single letter is what an apostrophe left: "Anna's".
    found = [stem for stem in found if len(stem) > 1 or stem.isdecimal()]
    return [stem for stem in found if stem not in _asking() and not _is_of_time(stem, text)]


def _is_of_time(stem: str, text: str) -> bool:
    """Whether the word names a time. A number does beside another word of time, but a year is always meant as it is."""
    if not _NUMBER.fullmatch(stem):
        return stem in _times()
    return not _YEAR.fullmatch(stem) and int(stem) <= 31 and _names_time(text)


def _names_time(text: str) -> bool:
    """Whether the text names a time, such as "last week" or "в мае"."""
    return not _times().isdisjoint(_known(text))


def _may_be_added(stem: str, query: str) -> bool:
    """Whether the word is a year or a day to which the query's words of time may have been resolved."""
    has_year = any(_YEAR.fullmatch(word) for word in words(query))
    is_date = bool(_NUMBER.fullmatch(stem)) and (int(stem) <= 31 or bool(_YEAR.fullmatch(stem)))
    return is_date and _names_time(query) and not (has_year and _YEAR.fullmatch(stem))


def _is_among(stem: str, known: Collection[str]) -> bool:
    return stem in known or any(is_akin(stem, other) for other in known)


@cache
def _asking() -> frozenset[str]:
    return frozenset(base(stem) for stem in stems(_WORDS["asking"]))


@cache
def _times() -> frozenset[str]:
    return frozenset(base(stem) for stem in stems(f"{_WORDS['time']} {' '.join(MONTH_NAMES)}"))
