"""The spans of a run, made of its events at its end.

The run is ``search_memory``; in it are ``retrieval``, ``chat`` for each turn and for the enricher, ``execute_tool``.
Names and attributes are those of OpenTelemetry's conventions for generative AI (``gen_ai``, semantic conventions
0.66b2); those on memories are in open-telemetry/semantic-conventions-genai, pull request 140, not released yet. What
they have no name for begins with ``mnemoscope``. Texts are added only ``with_texts``."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from memoryapp.engine import events
from memoryapp.engine.candidates import Candidate
from memoryapp.engine.notes import english
from memoryapp.engine.outline import Outline

# Texts of a run in the shapes of OpenTelemetry's conventions: messages, records, documents, as JSON.


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def message(sent: events.PromptMessage) -> dict[str, Any]:
    kind = {"type": "tool_call_response", "response": sent.content} if sent.role == "tool" else _text(sent.content)
    return {"role": sent.role, "parts": [kind]}


def reply(event: events.ModelReplied) -> dict[str, Any]:
    """What the model answered, with its reasoning and its calls of tools."""
    parts = [{"type": "reasoning", "content": event.reasoning}] if event.reasoning else []
    parts += [_text(event.text)] if event.text else []
    calls = [{"type": "tool_call", "id": c.id, "name": c.name, "arguments": c.arguments} for c in event.tool_calls]
    return {"role": "assistant", "parts": [*parts, *calls]}


def _text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


def documents(candidates: Iterable[Candidate]) -> str:
    """Candidates, best first; their text is the line that stands for each."""
    return as_json([_document(each, each.score) for each in candidates])


def records(finished: events.RunFinished, found: events.CandidatesFound | None) -> str:
    """What was chosen, best first, with the model's reasons."""
    named: Mapping[str, Candidate] = found.named(finished.selected) if found else {}
    chosen = [(each, named.get(each.id)) for each in finished.selected]
    return as_json([_record(each.id, each.score, each.reason, candidate) for each, candidate in chosen])


def _record(id: str, score: float, reason: str, candidate: Candidate | None) -> dict[str, Any]:
    about: dict[str, Any] = _document(candidate, score) if candidate else {"id": id, "score": score}
    return {**about, "metadata": {**about.get("metadata", {}), "reason": reason}} if reason else about


def _document(candidate: Candidate, score: float) -> dict[str, Any]:
    about = {"date": candidate.date} if candidate.date else {}
    return {"id": candidate.id, "score": score, "content": candidate.summary, **({"metadata": about} if about else {})}


PROVIDER = "mnemoscope"
# Outcomes in which nothing failed.
NO_FAULT = ("", "disabled", "no_candidates", "stopped")
Timed = tuple[datetime, events.Event]


@dataclass(frozen=True, slots=True)
class OutgoingSpan:
    """``fault`` is empty unless it failed. The first of a run's spans encloses the others."""

    name: str
    began: datetime
    ended: datetime
    attributes: Mapping[str, Any]
    fault: str = ""
    is_remote: bool = False


@dataclass(frozen=True)
class RunSpans:
    """A finished run: its events with their times, and whose memory it searched (``store``)."""

    run: str
    store: str
    query: str
    strategy: str
    asked_at: datetime
    address: str
    timed: Sequence[Timed]
    with_texts: bool = False

    @cached_property
    def outline(self) -> Outline:
        return Outline.of([event for _at, event in self.timed])

    def spans(self) -> Iterator[OutgoingSpan]:
        """The run itself, then what happened in it."""
        yield self._whole()
        yield from self._turns()
        for at, event in self.timed:
            if isinstance(event, events.QueryEnriched) and event.model:
                yield self._rewriting(at, event)
            elif isinstance(event, events.CandidatesFound):
                yield self._search(at, event)
            elif work := event.tool_work():
                yield self._tool(at - timedelta(seconds=work.seconds), at, work.name, work.fault)

    def _whole(self) -> OutgoingSpan:
        last_at, last = self.timed[-1]
        finished = last if isinstance(last, events.RunFinished) else None
        outcome = (finished.fallback or ("chosen" if finished.selected else "nothing")) if finished else "unknown"
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "search_memory",
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.memory.store.id": self.store,
            "user.id": self.store,
            "gen_ai.memory.record.count": len(finished.selected) if finished else 0,
            "mnemoscope.run.id": self.run,
            "mnemoscope.run.url": self.address,
            "mnemoscope.run.strategy": self.strategy,
            "mnemoscope.run.outcome": outcome,
        }
        if finished and finished.totals.cost_usd:
            attributes["mnemoscope.run.cost_usd"] = finished.totals.cost_usd
        if self.with_texts:
            attributes["gen_ai.memory.query.text"] = self.query
            if finished:
                attributes["gen_ai.memory.records"] = records(finished, self.outline.found)
        fault = ""
        if finished and finished.fallback not in NO_FAULT:
            attributes["error.type"] = finished.fallback
            fault = english(finished.notes) or finished.note or finished.fallback
        return OutgoingSpan("search_memory", min(self.asked_at, self.timed[0][0]), last_at, attributes, fault)

    def _search(self, at: datetime, event: events.CandidatesFound) -> OutgoingSpan:
        started = self.outline.started
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.data_source.id": self.store,
            "mnemoscope.passages": event.passages,
            "mnemoscope.candidates": len(event.shown),
        }
        if started and started.profile:
            attributes["gen_ai.request.model"] = started.profile
        if self.with_texts:
            attributes["gen_ai.retrieval.query.text"] = self.query
            attributes["gen_ai.retrieval.documents"] = documents(event.shown)
        return OutgoingSpan("retrieval", at - timedelta(seconds=event.seconds), at, attributes)

    def _rewriting(self, at: datetime, event: events.QueryEnriched) -> OutgoingSpan:
        attributes = {
            **_call(event.model, event.model, event.input_tokens, event.output_tokens),
            "mnemoscope.part": "enricher",
        }
        if self.with_texts:
            attributes["gen_ai.input.messages"] = as_json([message(events.PromptMessage("user", event.query))])
            attributes["gen_ai.output.messages"] = as_json([message(events.PromptMessage("assistant", event.enriched))])
        if event.cause:
            attributes["error.type"] = event.cause
        began = at - timedelta(seconds=event.seconds)
        return OutgoingSpan(f"chat {event.model}", began, at, attributes, event.cause, is_remote=True)

    def _turns(self) -> Iterator[OutgoingSpan]:
        """A span for each turn, and for each call of a tool that was answered."""
        messages: list[Mapping[str, Any]] = []
        calls: dict[str, events.ToolCall] = {}
        began = self.timed[0][0]
        for at, event in self.timed:
            if isinstance(event, events.TurnStarted):
                messages += map(message, event.prompt)
                began = at
            elif isinstance(event, events.ModelReplied):
                yield self._turn(began, at, event, messages)
                messages.append(reply(event))
                calls |= {call.id: call for call in event.tool_calls}
                began = at
            elif isinstance(event, events.TopicsRead):
                call = calls.get(event.call)
                yield self._tool(began, at, call.name if call else "read", "", call)

    def _turn(
        self, began: datetime, at: datetime, event: events.ModelReplied, messages: Sequence[Mapping[str, Any]]
    ) -> OutgoingSpan:
        asked = self.outline.started.model if self.outline.started else ""
        attributes: dict[str, Any] = {
            **_call(asked or event.model, event.model, event.input_tokens, event.output_tokens),
            "mnemoscope.turn": event.turn,
        }
        if event.provider:
            attributes["gen_ai.provider.name"] = event.provider
        if event.finish_reason:
            attributes["gen_ai.response.finish_reasons"] = (event.finish_reason,)
        if event.cached_tokens:
            attributes["gen_ai.usage.cache_read.input_tokens"] = event.cached_tokens
        if event.reasoning_tokens:
            attributes["gen_ai.usage.reasoning.output_tokens"] = event.reasoning_tokens
        if event.error:
            attributes["error.type"] = str(event.status or "no_answer")
        if self.with_texts:
            attributes["gen_ai.input.messages"] = as_json(messages)
            attributes["gen_ai.output.messages"] = as_json([reply(event)])
        # The words of a failure quote the endpoint's address at most.
        name = f"chat {asked or event.model}".strip()
        return OutgoingSpan(name, began, at, attributes, event.error, is_remote=True)

    def _tool(
        self, began: datetime, at: datetime, name: str, fault: str, call: events.ToolCall | None = None
    ) -> OutgoingSpan:
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
        if call:
            attributes["gen_ai.tool.call.id"] = call.id
            if self.with_texts:
                attributes["gen_ai.tool.call.arguments"] = call.arguments
        if fault:
            attributes["error.type"] = fault
        return OutgoingSpan(f"execute_tool {name}", began, at, attributes, fault)


def _call(asked: str, answered: str, sent: int, received: int) -> dict[str, Any]:
    found = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": asked,
        "gen_ai.response.model": answered,
        "gen_ai.usage.input_tokens": sent,
        "gen_ai.usage.output_tokens": received,
    }
    return {name: value for name, value in found.items() if value}
