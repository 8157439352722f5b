"""What a program sends as OTLP/HTTP, read within bounds: JSON or protobuf, compressed or not.

Protobuf needs the package ``opentelemetry-proto``. Of JSON the protocol's own mapping is read: identifiers are
hexadecimal, numbers of 64 bits may be texts, unknown fields are ignored.
https://opentelemetry.io/docs/specs/otlp/#otlphttp"""

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from memoryapp.doors.traces.span import LONGEST_SPAN, LONGEST_TEXT, MOST_ATTRIBUTES, SentSpan, number_of
from memoryapp.engine.json_values import MOST_VALUES, has_more_values

JSON = "application/json"
PROTOBUF = "application/x-protobuf"
LARGEST_BYTES = 20_000_000
MOST_SPANS = 10_000
# Spans, their scopes and their resources together: millions of empty ones are a body of a few kilobytes.
_MOST_ENTRIES = 3 * MOST_SPANS
_DEEPEST = 12
_ID = re.compile(r"[0-9a-f]+")
# The parent is known to be in another process: https://opentelemetry.io/docs/specs/otlp/ SpanFlags.
_REMOTE_PARENT = 0x300
_LATEST = 2**63 - 1


class UnreadableTraces(Exception):
    """A body that cannot be read, with the status of HTTP for it and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def unpacked(body: bytes, encoding: str) -> bytes:
    """The body without its compression. Raises UnreadableTraces."""
    named = encoding.strip().lower()
    if named in ("", "identity"):
        return body
    if named not in ("gzip", "deflate"):
        raise UnreadableTraces(415, f"The encoding {named[:40]} is not understood; send gzip, or none.")
    reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    try:
        content = reader.decompress(body, LARGEST_BYTES + 1)
    except zlib.error as error:
        raise UnreadableTraces(400, "The body is not compressed as its header says.") from error
    if len(content) > LARGEST_BYTES:
        raise UnreadableTraces(413, f"The body is larger than {LARGEST_BYTES // 1_000_000} MB; send fewer spans.")
    if not reader.eof:
        raise UnreadableTraces(400, "The compressed body ends too early.")
    return content


def spans_in(content: bytes, media_type: str) -> list[SentSpan]:
    """The spans of a request, without those that have no valid ids. Raises UnreadableTraces."""
    request = _of_json(content) if media_type == JSON else _of_protobuf(content)
    spans: list[SentSpan] = []
    for entries, span in enumerate(request):
        if span:
            spans.append(span)
        if len(spans) > MOST_SPANS or entries > _MOST_ENTRIES:
            raise UnreadableTraces(413, f"These are more than {MOST_SPANS:,} spans; send fewer at a time.")
    return spans


def _of_json(content: bytes) -> Iterator[SentSpan | None]:
    """Yields each span, and None after each scope and each resource."""
    _check_count(has_more_values(content))
    try:
        read = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise UnreadableTraces(400, f"The body is not JSON that can be read: {error}.") from error
    if not isinstance(read, dict):
        raise UnreadableTraces(400, "The body is no request of OTLP.")
    for of_resource in _objects(read, "resourceSpans"):
        resource = _attributes(_object(of_resource, "resource"))
        for of_scope in _objects(of_resource, "scopeSpans"):
            scope = _scope(_object(of_scope, "scope"))
            for span in _objects(of_scope, "spans"):
                yield _span(span, resource, scope)
            yield None
        yield None


def _of_protobuf(content: bytes) -> Iterator[SentSpan | None]:
    try:
        from memoryapp.doors.traces import protobuf  # noqa: PLC0415 its package is optional
    except ModuleNotFoundError as missing:
        sentence = "This server reads protobuf with the extra otel: pip install 'mnemoscope[otel]'. It reads JSON now."
        raise UnreadableTraces(415, sentence) from missing
    try:
        _check_count(protobuf.has_more_values(content, MOST_VALUES))
        request = protobuf.parsed(content)
    except ValueError as error:
        raise UnreadableTraces(400, "The body is no request of OTLP in protobuf.") from error
    for parsed in request:
        yield _span(parsed.span, _attributes(parsed.resource), _scope(parsed.scope)) if parsed else None


def _check_count(has_more: bool) -> None:
    if has_more:
        raise UnreadableTraces(413, f"The body holds more than {MOST_VALUES:,} values; send fewer spans at a time.")


def _objects(value: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    listed = value.get(name)
    if listed is None:
        return ()
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise UnreadableTraces(400, f"{name} must be a list of objects.")
    return listed


def _object(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _span(span: Mapping[str, Any], resource: Mapping[str, Any], scope: str) -> SentSpan:
    status = _object(span, "status")
    flags = int(number_of(span.get("flags")) or 0)
    is_remote = flags & _REMOTE_PARENT == _REMOTE_PARENT
    failed = status.get("code") in (2, "STATUS_CODE_ERROR")
    fault = str(status.get("message") or "") or _exception(span) or "error"
    return SentSpan(
        trace=_id(span.get("traceId"), 32),
        id=_id(span.get("spanId"), 16),
        parent="" if is_remote else _id(span.get("parentSpanId"), 16),
        name=str(span.get("name") or "")[:200],
        began=_nanoseconds(span.get("startTimeUnixNano")),
        ended=_nanoseconds(span.get("endTimeUnixNano")),
        attributes=_attributes(span),
        resource=resource,
        scope=scope,
        fault=fault[:2_000] if failed else "",
    )


def _exception(span: Mapping[str, Any]) -> str:
    for event in _objects(span, "events"):
        if event.get("name") == "exception":
            return str(_attributes(event).get("exception.message") or "")
    return ""


def _id(value: Any, digits: int) -> str:
    """An identifier; empty where it is missing, malformed, or all zeros, which is no identifier."""
    text = value.lower() if isinstance(value, str) and len(value) == digits else ""
    return text if _ID.fullmatch(text) and text.strip("0") else ""


def _nanoseconds(value: Any) -> int:
    try:
        return min(max(int(value), 0), _LATEST) if isinstance(value, int | str) else 0
    except ValueError:
        return 0


def _scope(scope: Mapping[str, Any]) -> str:
    return f"{scope.get('name') or ''} {scope.get('version') or ''}".strip()[:200]


def _attributes(holder: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes by name; texts beyond the bounds are cut, and what follows after the last bound is left out."""
    found: dict[str, Any] = {}
    room = LONGEST_SPAN
    for pair in _objects(holder, "attributes")[:MOST_ATTRIBUTES]:
        key = pair.get("key")
        if not isinstance(key, str) or not key:
            continue
        value = _value(pair.get("value"), 0)
        room -= len(key) + _size(value)
        if room < 0:
            break
        found[key[:300]] = value
    return found


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(key) + _size(each) for key, each in value.items())
    return sum(map(_size, value)) if isinstance(value, list) else 8


def _value(given: Any, depth: int) -> Any:
    """What an ``AnyValue`` contains."""
    if not isinstance(given, dict) or not given or depth > _DEEPEST:
        return None
    kind, value = next(iter(given.items()))
    if kind in ("stringValue", "bytesValue"):
        return value[:LONGEST_TEXT] if isinstance(value, str) else None
    if kind == "intValue":
        number = number_of(value)
        return None if number is None else int(number)
    if kind == "doubleValue":
        return number_of(value)
    if kind == "boolValue":
        return value is True
    if kind == "arrayValue" and isinstance(value, dict):
        return [_value(each, depth + 1) for each in _objects(value, "values")[:MOST_ATTRIBUTES]]
    if kind == "kvlistValue" and isinstance(value, dict):
        pairs = _objects(value, "values")[:MOST_ATTRIBUTES]
        return {str(pair.get("key"))[:300]: _value(pair.get("value"), depth + 1) for pair in pairs}
    return None
