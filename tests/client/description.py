"""The description of the API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from memoryapp.doors.api.urls import api

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
