"""Replaying: what a fork takes from the run that it begins like, and what changes in it.

Everything before the turn of a fork is replayed, so any difference comes from its changes. At turn 0 nothing is
replayed but the conversation and the user's background; from turn 1 on the rewritten query and the candidates are; at
a later turn also what the model answered before, with the replies as they came. Topics are read again, because their
messages never change.

A change is a value in ``CHANGES``."""

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp.engine.agents.enricher import ENRICH
from memoryapp.engine.candidates import BASELINE
from memoryapp.engine.chat.protocol import LLMError, LLMTimeout, RecordedReply, Reply
from memoryapp.engine.events import CandidatesFound, Event, ModelReplied, TurnStarted
from memoryapp.engine.json_values import storable
from memoryapp.engine.memory import item_id, parse_item_id
from memoryapp.engine.outline import Outline
from memoryapp.engine.prompt_registry import prompts_of_runs
from memoryapp.engine.prompts.prompt import BACKGROUND, PromptText
from memoryapp.engine.prompts.rerank import INNER_CIRCLE
from memoryapp.engine.strategies import STRATEGIES
from memoryapp.engine.text.lines import placed
from memoryapp.memory import past
from memoryapp.platform.llm import prompt_versions
from memoryapp.runs.parameters import all_declarations, strategy_named, validate
from memoryapp.runs.recall.request import Replayed

LONGEST_TEXT = 100_000
LONGEST_QUERY = 4_000
# The variables of a rerank prompt that describe the user, whatever the search found.
_OF_WHO_ASKS = tuple(variable.name for variable in (*BACKGROUND, INNER_CIRCLE))
# These parameters decide what the search finds.
_OF_SEARCH = frozenset(
    ("candidates", "people_candidates", "artifact_candidates", "fresh", "since", "until", "channel", "author")
)
_LATE = frozenset(("turn_late", "endpoint_late", "question_late"))
_BY_HAND = "by hand"
# A longer value is cut in words about changes.
_SHOWN = 60


class ForkError(ValueError):
    """A run that cannot be forked in this way; the text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class ForkChange:
    """One thing in which a fork may differ.

    ``read`` turns what was given into the value that is stored; it raises ForkError, or ParameterError. ``latest``
    returns the last turn at which the value can make a difference. ``rewords`` tells that the prompts have to be
    filled anew, except for what describes the user. ``apply`` changes what is replayed."""

    name: str
    title: str | Promise
    read: Callable[[Any, Sequence[Event]], Any]
    latest: Callable[[Any], int]
    rewords: bool = False
    apply: Callable[[Replayed, Any], Replayed] = lambda replayed, _value: replayed


def _text(value: Any, most: int) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > most:
        raise ForkError(_("This must be a text of at most %(most)d characters.") % {"most": most})
    return storable(value)


def _prompt(value: Any, events: Sequence[Event]) -> str:
    """The label of a stored prompt, such as ``rerank-en-3``."""
    if text_labelled(_text(value, 100)) is None:
        raise ForkError(_("There is no prompt “%(label)s”; a label is such as rerank-en-3.") % {"label": value[:60]})
    return str(value)


def _parameters(value: Any, events: Sequence[Event]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ForkError(_("Parameters are an object of names and values."))
    started = Outline.of(events).started
    return validate(value, strategy_named(started.strategy if started else ""))


def _rewrite(value: Any, events: Sequence[Event]) -> str:
    """What is searched in place of the rewritten query. Raises ForkError where the strategy does not rewrite it."""
    started = Outline.of(events).started
    if ENRICH not in strategy_named(started.strategy if started else "").prompts:
        raise ForkError(_("This run's strategy searches the query as typed, so it has no rewritten query."))
    return _text(value, LONGEST_QUERY).strip()


def _ids(value: Any, events: Sequence[Event]) -> list[str]:
    """Ids of candidates, each once. Raises ForkError for others, and where the search is not replayed."""
    found = Outline.of(events).found
    if found is None or not is_search_replayed(events):
        raise ForkError(_("This run's candidates cannot be changed, because its strategy searches again in a fork."))
    given = value if isinstance(value, list | tuple) else str(value).split(",")
    known = {topic.id for topic in found.candidates} | {item.id for item in (*found.people, *found.artifacts)}
    read = [item_id(*parsed) if (parsed := parse_item_id(each)) else str(each) for each in given]
    if strange := [id for id in read if id not in known]:
        raise ForkError(_("%(id)s is not among the candidates of this run.") % {"id": strange[0][:60]})
    return list(dict.fromkeys(read))


def _moment(value: Any, events: Sequence[Event]) -> str:
    """A day or a moment in ISO 8601; a day means its end. Raises ForkError for others, for the future, and where a
    strategy reads passages, which are those of today."""
    if not is_search_replayed(events):
        raise ForkError(_("Runs that answer in words search the memory of today only."))
    text = _text(value, 40).strip()
    try:
        return past.moment_of(text).isoformat()
    except ValueError:
        raise ForkError(_("“%(value)s” is no day such as 2026-03-02.") % {"value": text}) from None


def _listed(replayed: Replayed, ids: Sequence[str]) -> Replayed:
    """Shows these topics, in this order, and no others."""
    if replayed.found is None:
        return replayed
    known = {candidate.id: candidate for candidate in replayed.found.candidates}
    shown = [known.pop(id) for id in ids if id in known]
    ranked = enumerate((*shown, *known.values()), start=1)
    candidates = tuple(placed(each, rank, shown=rank <= len(shown)) for rank, each in ranked)
    return replace(replayed, found=replace(replayed.found, candidates=candidates))


LARGEST_SEED = 2**31 - 1


def _seed(value: Any, events: Sequence[Event]) -> int:
    """A whole number that decides the order. Raises ForkError."""
    if not is_search_replayed(events):
        raise ForkError(_("This run's candidates cannot be changed, because its strategy searches again in a fork."))
    text = str(value).strip()
    if isinstance(value, bool) or not (text.isdecimal() and len(text) <= 10 and int(text) <= LARGEST_SEED):
        raise ForkError(_("The order of candidates is a whole number from 0 to %(most)d.") % {"most": LARGEST_SEED})
    return int(text)


def _shuffled(replayed: Replayed, seed: int) -> Replayed:
    """Shows the same candidates in an order that the seed decides."""
    if replayed.found is None:
        return replayed
    shown = [candidate.id for candidate in replayed.found.shown]
    random.Random(seed).shuffle(shown)
    return _listed(replayed, shown)


def left_out(replayed: Replayed, ids: Sequence[str]) -> Replayed:
    """Takes these candidates out, as if the memory did not contain them."""
    found = replayed.found
    if found is None:
        return replayed
    left = [each for each in found.candidates if each.id not in ids]
    ranked = tuple(replace(each, rank=rank) for rank, each in enumerate(left, start=1))
    return replace(
        replayed,
        found=replace(
            found,
            candidates=ranked,
            people=tuple(each for each in found.people if each.id not in ids),
            artifacts=tuple(each for each in found.artifacts if each.id not in ids),
        ),
        baseline=tuple(id for id in replayed.baseline if id not in ids),
    )


def _replied(replayed: Replayed, text: str) -> Replayed:
    """The model's reply in the turn of the fork, in place of its own."""
    message = {"role": "assistant", "content": text}
    reply = Reply(text=text, message=message, model=_BY_HAND, finish_reason="stop")
    return replace(replayed, replies=(*replayed.replies, RecordedReply(reply)))


_ANY_TURN = 10_000
CHANGES: Mapping[str, ForkChange] = {
    change.name: change
    for change in (
        ForkChange("query", gettext_lazy("query"), lambda v, _e: _text(v, LONGEST_QUERY).strip(), lambda _v: 0, True),
        ForkChange(
            "rewrite",
            gettext_lazy("rewritten query"),
            _rewrite,
            lambda _v: 1,
            True,
            lambda replayed, v: replace(replayed, rewrite=v, found=None),
        ),
        ForkChange("prompt", gettext_lazy("prompt"), _prompt, lambda v: 0 if v.startswith("enrich-") else _ANY_TURN),
        ForkChange("model", gettext_lazy("model"), lambda v, _e: _text(v, 200).strip(), lambda _v: _ANY_TURN),
        ForkChange(
            "parameters",
            gettext_lazy("parameters"),
            _parameters,
            lambda v: 1 if _OF_SEARCH & v.keys() else _ANY_TURN,
            True,
            lambda replayed, v: replace(replayed, found=None) if _OF_SEARCH & v.keys() else replayed,
        ),
        ForkChange(
            "as_of",
            gettext_lazy("memory of"),
            _moment,
            lambda _v: 1,
            True,
            lambda replayed, v: replace(replayed, as_of=v, found=None, rerank_variables={}),
        ),
        ForkChange("candidates", gettext_lazy("candidates"), _ids, lambda _v: 1, True, _listed),
        ForkChange("without", gettext_lazy("left out"), _ids, lambda _v: 1, True, left_out),
        ForkChange("order", gettext_lazy("order of candidates"), _seed, lambda _v: 1, True, _shuffled),
        ForkChange(
            "reply", gettext_lazy("reply"), lambda v, _e: _text(v, LONGEST_TEXT), lambda _v: _ANY_TURN, False, _replied
        ),
    )
}


def read_changes(given: Mapping[str, Any], events: Sequence[Event]) -> dict[str, Any]:
    """The changes as they are stored; parameters also by their own names. Raises ForkError and ParameterError."""
    named = {name: value for name, value in given.items() if name in CHANGES and value is not None}
    own = {name: value for name, value in given.items() if name not in CHANGES}
    if strange := sorted(own.keys() - all_declarations().keys()):
        known = ", ".join(CHANGES)
        raise ForkError(
            _("A fork cannot change “%(name)s”. It changes: %(known)s.") % {"name": strange[0][:60], "known": known}
        )
    if own:
        named["parameters"] = {**named.get("parameters", {}), **own}
    return {name: CHANGES[name].read(value, events) for name, value in named.items()}


def changes_in_words(changes: Mapping[str, Any]) -> Iterator[str]:
    """Each stored change in a few words, such as ``candidates 75``."""
    for name, value in changes.items():
        if isinstance(value, Mapping):
            yield from (f"{key} {_cut(each)}" for key, each in value.items())
        elif name in CHANGES:
            yield f"{CHANGES[name].title} {_cut(', '.join(value) if isinstance(value, list) else value)}"


def _cut(value: Any) -> str:
    text = storable(" ".join(str(value).split()))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def latest_turn(changes: Mapping[str, Any]) -> tuple[int, str]:
    """The last turn at which all of the changes make a difference, and the change that has to come first."""
    turns = [(CHANGES[name].latest(value), name) for name, value in changes.items()]
    return min(turns, default=(_ANY_TURN, ""))


def is_search_replayed(events: Sequence[Event]) -> bool:
    """Whether forks take the candidates as found; strategies that answer search again, for whole passages."""
    started = Outline.of(events).started
    strategy = STRATEGIES.get(started.strategy) if started else None
    return strategy is not None and not strategy.answers


def text_labelled(label: str) -> PromptText | None:
    """The prompt of that label; None when there is none that a fork may use."""
    name, _dash, rest = label.partition("-")
    language, _dash, version = rest.partition("-")
    if name not in prompts_of_runs() or not version.isdecimal():
        return None
    return prompt_versions.text_at((name, language), int(version))


def labels(events: Sequence[Event]) -> list[str]:
    """The labels of the prompts that the models of a run were sent."""
    sent = (event.prompt_version for event in events if isinstance(event, TurnStarted))
    line = Outline.of(events).enriched
    return [label for label in dict.fromkeys((line.prompt_version if line else "", *sent)) if label]


def replay(events: Sequence[Event], turn: int, changes: Mapping[str, Any] | None = None) -> Replayed:
    """What a fork at ``turn`` takes from the run with these events, which contain the replies as they came."""
    changes = changes or {}
    outline = Outline.of(events)
    replayed = _before_the_line(outline) if turn == 0 else _before_the_turn(events, outline, turn)
    if any(CHANGES[name].rewords for name in changes):
        dropped = {"query"} if ("query" in changes) else set()
        kept = {name: value for name, value in replayed.rerank_variables.items() if name in _OF_WHO_ASKS}
        replayed = replace(
            replayed,
            enrich_variables={n: v for n, v in replayed.enrich_variables.items() if n not in dropped},
            rerank_variables={n: v for n, v in kept.items() if n not in dropped},
        )
    changed_prompt = str(changes.get("prompt", "")).rpartition("-")[0]
    replayed = replace(replayed, replies=_replies(events, turn, changed_prompt))
    for name, value in changes.items():
        replayed = CHANGES[name].apply(replayed, value)
    return replayed


def _before_the_line(outline: Outline) -> Replayed:
    query, turn = outline.enriched, outline.turn
    known = {**(query.variables if query else {}), **(turn.variables if turn else {})}
    return Replayed(
        enrich_variables=query.variables if query else {},
        rerank_variables={name: known[name] for name in _OF_WHO_ASKS if name in known},
    )


def _before_the_turn(events: Sequence[Event], outline: Outline, turn: int) -> Replayed:
    """Nothing for a run whose search did not finish. The costs stay with that run."""
    query, found, first, ended = outline.enriched, outline.found, outline.turn, outline.finished
    if query is None or found is None:
        return Replayed()
    return Replayed(
        query=replace(query, seconds=0.0, input_tokens=0, output_tokens=0, cost_usd=0.0),
        found=replace(found, seconds=0.0) if is_search_replayed(events) else None,
        baseline=(ended.baseline if ended else ()) or _by_vector(found),
        rerank_variables=first.variables if first else {},
    )


def _by_vector(found: CandidatesFound) -> tuple[str, ...]:
    order = sorted((candidate.vector_rank or candidate.rank, candidate.id) for candidate in found.candidates)
    return tuple(id for _, id in order)[:BASELINE]


def _replies(events: Sequence[Event], turn: int, changed_prompt: str) -> tuple[RecordedReply, ...]:
    """The replies before ``turn``; the conversation whose prompt is changed (``answer-en``) may open differently."""
    systems = {event.turn: _system(event, changed_prompt) for event in events if isinstance(event, TurnStarted)}
    return tuple(
        RecordedReply(_outcome(event), systems.get(event.turn, ""))
        for event in events
        if isinstance(event, ModelReplied) and event.turn < turn
    )


def _system(event: TurnStarted, changed_prompt: str) -> str:
    if changed_prompt and event.prompt_version.startswith(f"{changed_prompt}-"):
        return ""
    return next((message.content for message in event.prompt if message.role == "system"), "")


def _outcome(event: ModelReplied) -> Reply | LLMError:
    if event.error:
        is_late = any(note.code in _LATE for note in event.notes)
        return LLMTimeout(event.error) if is_late else LLMError(event.error, status=event.status)
    return Reply(
        text=event.text,
        tool_calls=event.tool_calls,
        reasoning=event.reasoning,
        message=event.message,
        model=event.model,
        finish_reason=event.finish_reason,
        provider=event.provider,
        refusal=event.refusal,
    )


def with_messages(rows: Sequence[tuple[Event, str | None]]) -> list[Event]:
    """Events with the stored messages of their replies."""
    return [
        replace(event, message=json.loads(raw)) if raw and isinstance(event, ModelReplied) else event
        for event, raw in rows
    ]
