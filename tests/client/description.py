"""The description of the API, and how a shape of the client differs from one of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from memoryapp.api.urls import api

Schema = Mapping[str, Any]


@cache
def document() -> Any:
    return api.get_openapi_schema(path_prefix="/v1/")


@cache
def operations() -> Mapping[str, tuple[str, str, Any]]:
    """Method, path and description of each endpoint, by its ``operationId``."""
    return {
        endpoint["operationId"]: (method.upper(), path, endpoint)
        for path, endpoints in document()["paths"].items()
        for method, endpoint in endpoints.items()
    }


def answer_schema(operation: str, kind: str = "application/json") -> Schema:
    schema: Schema = operations()[operation][2]["responses"][200]["content"][kind]["schema"]
    return schema


@dataclass(frozen=True)
class Side:
    """A schema, and the document in which its references point."""

    schema: Schema
    root: Schema

    def at(self, schema: Schema) -> Side:
        return Side(schema, self.root)

    def branches(self) -> Iterator[Side]:
        """Yields the schemas of which a value fulfils one, without references."""
        if "$ref" in self.schema:
            target = self.root
            for part in self.schema["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            yield from self.at(target).branches()
        elif several := self.schema.get("anyOf") or self.schema.get("oneOf") or self.schema.get("allOf"):
            for each in several:
                yield from self.at(each).branches()
        else:
            yield self

    def kinds(self) -> set[str]:
        """Returns the types of the value; a text in a format is of that format, too."""
        found = set()
        for branch in self.branches():
            values = branch.schema.get("enum", [branch.schema["const"]] if "const" in branch.schema else [])
            found |= {{str: "string", int: "integer", bool: "boolean", type(None): "null"}[type(v)] for v in values}
            named = branch.schema.get("type", [])
            for kind in [named] if isinstance(named, str) else named:
                form = branch.schema.get("format", "") if kind == "string" else ""
                found.add(f"{kind} {form}".strip())
        return found

    def of_kind(self, kind: str) -> Side | None:
        return next((branch for branch in self.branches() if branch.schema.get("type") == kind), None)


# What the client's types read besides themselves.
READS = {"number": {"number", "integer"}, "string": {"string", "string date-time", "string uuid"}}


def differences(client: Side, server: Side, at: str = "answer") -> Iterator[str]:
    """Yields what the API may answer and the client does not read, and what the client reads and no API sends."""
    readable = {read for kind in client.kinds() for read in READS.get(kind, {kind})}
    if unread := server.kinds() - readable:
        yield f"{at}: the API sends {sorted(unread)}, the client reads {sorted(readable)}"
    if (mine := client.of_kind("array")) and (theirs := server.of_kind("array")):
        yield from differences(mine.at(mine.schema["items"]), theirs.at(theirs.schema["items"]), f"{at}[]")
    if (mine := client.of_kind("object")) and (theirs := server.of_kind("object")):
        yield from _of_objects(mine, theirs, at)


def _of_objects(client: Side, server: Side, at: str) -> Iterator[str]:
    values = client.schema.get("additionalProperties"), server.schema.get("additionalProperties")
    if all(isinstance(each, Mapping) for each in values):
        yield from differences(client.at(values[0]), server.at(values[1]), f"{at}{{}}")
    sent = server.schema.get("properties", {})
    always = set(server.schema.get("required", ()))
    for name, schema in client.schema.get("properties", {}).items():
        if name not in sent:
            yield f"{at}.{name}: the API does not describe it"
            continue
        if name in client.schema.get("required", ()) and name not in always:
            yield f"{at}.{name}: the client needs it, and the API may leave it out"
        yield from differences(client.at(schema), server.at(sent[name]), f"{at}.{name}")
