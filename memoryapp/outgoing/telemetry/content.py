"""Texts of a run in the shapes of OpenTelemetry's conventions: messages, records, documents, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memoryapp.engine.candidates import Candidate
from memoryapp.engine.events import CandidatesFound, ModelReplied, PromptMessage, RunFinished


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def message(sent: PromptMessage) -> dict[str, Any]:
    kind = {"type": "tool_call_response", "response": sent.content} if sent.role == "tool" else _text(sent.content)
    return {"role": sent.role, "parts": [kind]}


def reply(event: ModelReplied) -> dict[str, Any]:
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


def records(finished: RunFinished, found: CandidatesFound | None) -> str:
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


def conversation(messages: Sequence[Mapping[str, Any]]) -> str:
    return as_json(list(messages))
