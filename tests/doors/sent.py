"""Spans written by hand, as the JSON of OTLP: for what the real programs do not do."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

BEGAN = 1_790_000_000_000_000_000
TRACE = "0af7651916cd43dd8448eb211c80319c"


def value_of(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}


def span(number: int, parent: int = 0, *, trace: str = TRACE, seconds: float = 1.0, **more: Any) -> dict[str, Any]:
    """A span of the trace that begins ``number`` seconds after it; attributes are given with ``__`` for a dot."""
    began = BEGAN + number * 1_000_000_000
    attributes = {name.replace("__", "."): value for name, value in more.items() if name != "name"}
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        **({"parentSpanId": f"{parent:016x}"} if parent else {}),
        "name": more.get("name", "step"),
        "startTimeUnixNano": str(began),
        "endTimeUnixNano": str(began + round(seconds * 1_000_000_000)),
        "attributes": [{"key": key, "value": value_of(value)} for key, value in attributes.items()],
    }


def search(number: int, parent: int, query: str, *texts: str, **more: Any) -> dict[str, Any]:
    """A search with these documents, whose ids are ``d1`` and so on."""
    records = [{"id": f"d{n}", "content": text, "score": 1 / n} for n, text in enumerate(texts, start=1)]
    memory = {"gen_ai.memory.query.text": query, "gen_ai.memory.records": json.dumps(records)}
    return span(number, parent, gen_ai__operation__name="search_memory", **memory, **more)


def request(*spans: Mapping[str, Any], service: str = "other") -> dict[str, Any]:
    return requests_of(spans, {"service.name": service})


def requests_of(spans: Sequence[Mapping[str, Any]], resource: Mapping[str, Any]) -> dict[str, Any]:
    attributes = [{"key": key, "value": value_of(value)} for key, value in resource.items()]
    return {"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": [{"spans": list(spans)}]}]}
