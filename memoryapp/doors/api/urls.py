"""The addresses under ``/v1/``: a router for each noun; an unknown address is refused in JSON as well. Login sessions
are ignored here, so neither the login page nor the CSRF check comes before an endpoint."""

import json
import re
from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import re_path
from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema, get_schema
from ninja.parser import Parser

from memoryapp.doors.api import chat, curation, expiry, facts, lists, messages, misses, recall, runs, traces
from memoryapp.doors.api.access import UnescapedJSON
from memoryapp.doors.api.refusals import add_handlers, check_values, refusal
from memoryapp.doors.api.shapes.runs import TracesBody

_SENTENCE = re.compile(r"[.;]\s|\.$")
RETRY_AFTER = {
    "Retry-After": {
        "description": "seconds after which the same request may be sent again",
        "schema": {"type": "integer", "minimum": 1},
    }
}
LOCATION = {"Location": {"description": "the address that says what became of it", "schema": {"type": "string"}}}


class BoundedParser(Parser):
    """Reads a body after its values were counted, because small ones take a hundred times their bytes."""

    def parse_body(self, request: HttpRequest) -> dict[str, Any]:
        check_values(request.body)
        return super().parse_body(request)


class DescribedAPI(NinjaAPI):
    """Describes the API once for each path prefix: it takes half a second of the processor, and anybody may ask."""

    def get_content_type(self) -> str:
        return "application/json"

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: dict[str, Any] | None = None
    ) -> OpenAPISchema:
        return _described(self, path_prefix or self.get_root_path(path_params or {}))


@cache
def _described(api: NinjaAPI, path_prefix: str) -> OpenAPISchema:
    """The description with the headers of refusals, which the statuses of an endpoint cannot declare. The summary of an
    endpoint is the first sentence of its docstring, instead of the name of its function."""
    schema = get_schema(api=api, path_prefix=path_prefix)
    # The one body that its endpoint reads itself, in two encodings.
    schema["components"]["schemas"]["TracesBody"] = TracesBody.model_json_schema()
    _tell_defaults_in_words(schema["components"])
    for endpoints in schema["paths"].values():
        for endpoint in endpoints.values():
            for media in endpoint.get("requestBody", {}).get("content", {}).values():
                media["schema"].pop("default", None)
            endpoint["summary"] = _SENTENCE.split(endpoint["description"].replace("``", "`"), maxsplit=1)[0]
            for status in {429, 502, 503} & endpoint["responses"].keys():
                endpoint["responses"][status]["headers"] = RETRY_AFTER
            if 202 in endpoint["responses"]:
                endpoint["responses"][202]["headers"] = {**RETRY_AFTER, **LOCATION}
    return schema


def _tell_defaults_in_words(described: Any) -> None:
    """Generators of clients take a property with a default for one that must be given, or refuse it where it has a
    shape of its own. What has none in the description is optional for all of them."""
    for part in described.values() if isinstance(described, dict) else described:
        if isinstance(part, dict | list):
            _tell_defaults_in_words(part)
    properties = described.get("properties", {}) if isinstance(described, dict) else {}
    for schema in properties.values():
        default = schema.pop("default", None)
        if default not in (None, "", [], {}) and "$ref" not in schema and "allOf" not in schema:
            told = f"{json.dumps(default)} without it"
            schema["description"] = f"{schema['description']}; {told}" if "description" in schema else told


api = DescribedAPI(
    title="Mnemoscope",
    version="1",
    description=(
        "Long-term memory for a chat assistant. Make a token on the page API tokens or with"
        " `manage.py create_token`, and send it as"
        ' `Authorization: Bearer TOKEN`. Every error is `{"error": {"code", "message"}}`.'
    ),
    docs_url=None,
    renderer=UnescapedJSON(),
    servers=[{"url": "/", "description": "the server of this description"}],
    parser=BoundedParser(),
    urls_namespace="v1",
)
add_handlers(api)
# Curation comes before topics, which would read the address topics/merge as a topic with that id.
for router in (
    messages.router,
    messages.sessions_router,
    recall.router,
    recall.answers_router,
    chat.router,
    runs.router,
    misses.router,
    expiry.router,
    curation.router,
    curation.edits_router,
    lists.topics_router,
    facts.router,
    facts.items_router,
    lists.router,
    messages.erasure_router,
    traces.router,
    lists.audit_router,
):
    for address in router.path_operations.values():
        for operation in address.operations:
            operation.by_alias = operation.exclude_unset = True
    api.add_router("", router)


def nothing(request: HttpRequest) -> HttpResponse:
    """Answers every other address under the prefix with 404."""
    return refusal(404)


def _open(pattern: Any) -> Any:
    """Exempts an endpoint from the login page and the CSRF check, because it checks a token itself."""
    view = pattern.callback
    view.login_required = False
    view.csrf_exempt = True
    return pattern


app_name = "v1"
# The root is never reached, because it comes last; the OpenAPI document needs its name to find the addresses.
*endpoints, root = map(_open, api.urls[0])
urlpatterns = [*endpoints, _open(re_path("", nothing, name="nothing")), root]
