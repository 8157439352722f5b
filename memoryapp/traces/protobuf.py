"""Requests and answers of OTLP in protobuf, with the package ``opentelemetry-proto``.

Messages are turned into the objects that the JSON mapping has, so that one reader serves both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class ParsedSpan(NamedTuple):
    """A span with its resource and its scope."""

    resource: dict[str, Any]
    scope: dict[str, Any]
    span: dict[str, Any]


def parsed(content: bytes) -> Iterator[ParsedSpan | None]:
    """Yields each span, and None after each scope and each resource. Raises ValueError for a body that is no
    request."""
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
        "events": [{"name": each.name, "attributes": _pairs(each.attributes)} for each in span.events],
        "status": {"code": span.status.code, "message": span.status.message},
    }


def _pairs(attributes: Any) -> list[dict[str, Any]]:
    return [{"key": pair.key, "value": _value(pair.value)} for pair in attributes]


def _value(value: Any) -> dict[str, Any]:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return {"arrayValue": {"values": [_value(each) for each in value.array_value.values]}}
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
