"""The addresses under ``/v1/``: each router is a noun, and what is none of them is refused in JSON too.

Sessions open none of these doors, so neither a login page nor a CSRF check stands before them.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import re_path
from ninja import NinjaAPI

from memoryapp.api import curation, edits, erasing, lists, messages, recall, runs, topics
from memoryapp.api.refusals import refusal, teach

api = NinjaAPI(
    title="Mnemoscope",
    version="1",
    description=(
        "Long-term memory for a chat assistant. Tokens are made on the page API tokens or with"
        " `manage.py create_token`, and sent as"
        ' `Authorization: Bearer TOKEN`. Every error is `{"error": {"code", "message"}}`.'
    ),
    docs_url=None,
    urls_namespace="v1",
)
teach(api)
# What is said of topics/merge must not be taken for a topic of that name, so curation comes before topics.
for module in (messages, recall, runs, curation, edits, topics, lists, erasing):
    api.add_router("", module.router)


def nothing(request: HttpRequest) -> HttpResponse:
    """Whatever no other address takes."""
    return refusal(404)


def _open(pattern: Any) -> Any:
    """The door checks a token by itself; the login page is for people."""
    view = pattern.callback
    view.login_required = False
    view.csrf_exempt = True
    return pattern


app_name = "v1"
# The root answers nothing either; its name is what the description finds its addresses by.
*doors, root = map(_open, api.urls[0])
urlpatterns = [*doors, _open(re_path("", nothing, name="nothing")), root]
