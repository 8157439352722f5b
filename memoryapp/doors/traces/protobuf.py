"""Requests and answers of OTLP in protobuf, with the package ``opentelemetry-proto``. Messages are turned into the
objects that the JSON mapping has, so that one reader serves both."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from google.protobuf.internal.wire_format import (
    WIRETYPE_FIXED32,
    WIRETYPE_FIXED64,
    WIRETYPE_LENGTH_DELIMITED,
    WIRETYPE_VARINT,
)
from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from memoryapp.doors.traces.span import MOST_ATTRIBUTES


class ParsedSpan(NamedTuple):
    """A span with its resource and its scope."""

    resource: dict[str, Any]
    scope: dict[str, Any]
    span: dict[str, Any]


def has_more_values(content: bytes, most: int) -> bool:
    """Whether a body has more than ``most`` texts and nested messages. They are counted by the lengths in the body,
    before anything is made of them: an empty one takes two bytes here and hundreds as objects. Raises ValueError for a
    body that is no request."""
    count = 0
    inside: list[tuple[Any, int]] = []
    message, at, end = ExportTraceServiceRequest.DESCRIPTOR, 0, len(content)
    # Two bytes are the least that a value takes.
    while count <= most < len(content) // 2:
        if at == end:
            if not inside:
                return False
            message, end = inside.pop()
            continue
        tag, at = _varint(content, at, end)
        kind = tag & 7
        if kind == WIRETYPE_LENGTH_DELIMITED:
            count += 1
            size, at = _varint(content, at, end)
            field = message.fields_by_number.get(tag >> 3)
            if field is not None and field.message_type is not None and at + size <= end:
                inside.append((message, end))
                message, end = field.message_type, at + size
            else:
                at += size
        elif kind == WIRETYPE_VARINT:
            _, at = _varint(content, at, end)
        else:
            at += {WIRETYPE_FIXED64: 8, WIRETYPE_FIXED32: 4}.get(kind, 0)
        if at > end:
            raise ValueError("a value is longer than what contains it")
    return count > most


def _varint(content: bytes, at: int, end: int) -> tuple[int, int]:
    """The number that begins at this byte, and where it ends."""
    value = shift = 0
    while at < end and shift < 64:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a number has no end")


def parsed(content: bytes) -> Iterator[ParsedSpan | None]:
    """Yields each span, and None after each scope and resource. Raises ValueError for a body that is no request."""
    try:
        request = ExportTraceServiceRequest.FromString(content)
    except DecodeError as error:
        raise ValueError(str(error)) from error
    return _spans(request)


def _spans(request: Any) -> Iterator[ParsedSpan | None]:
    for of_resource in request.resource_spans:
        resource = {"attributes": _pairs(of_resource.resource.attributes)}
        for of_scope in of_resource.scope_spans:
            scope = {"name": of_scope.scope.name, "version": of_scope.scope.version}
            for span in of_scope.spans:
                yield ParsedSpan(resource, scope, _span(span))
            yield None
        yield None


def _span(span: Any) -> dict[str, Any]:
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "parentSpanId": span.parent_span_id.hex(),
        "flags": span.flags,
        "name": span.name,
        "startTimeUnixNano": span.start_time_unix_nano,
        "endTimeUnixNano": span.end_time_unix_nano,
        "attributes": _pairs(span.attributes),
        "events": [
            {"name": each.name, "attributes": _pairs(each.attributes)}
            for each in span.events
            if each.name == "exception"
        ][:1],
        "status": {"code": span.status.code, "message": span.status.message},
    }


def _pairs(attributes: Any) -> list[dict[str, Any]]:
    return [{"key": pair.key, "value": _value(pair.value)} for pair in attributes[:MOST_ATTRIBUTES]]


def _value(value: Any) -> dict[str, Any]:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return {"arrayValue": {"values": [_value(each) for each in value.array_value.values[:MOST_ATTRIBUTES]]}}
    if kind == "kvlist_value":
        return {"kvlistValue": {"values": _pairs(value.kvlist_value.values)}}
    if kind == "bytes_value":
        return {"stringValue": value.bytes_value.hex()}
    return {_NAMES[kind]: getattr(value, kind)} if kind in _NAMES else {}


_NAMES: Mapping[str, str] = {
    "string_value": "stringValue",
    "int_value": "intValue",
    "double_value": "doubleValue",
    "bool_value": "boolValue",
}


def answer(rejected: int, sentence: str) -> bytes:
    """The answer to a request that was taken, with how many of its spans were not."""
    partial = ExportTracePartialSuccess(rejected_spans=rejected, error_message=sentence)
    response = ExportTraceServiceResponse(partial_success=partial if rejected or sentence else None)
    return bytes(response.SerializeToString())


def refusal(code: int, sentence: str) -> bytes:
    """The answer to a request that was not taken."""
    return bytes(Status(code=code, message=sentence).SerializeToString())
