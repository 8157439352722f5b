"""The page of something that was not in the memory at the moment."""

from __future__ import annotations

from collections.abc import Sequence

from django.http import HttpRequest, HttpResponse

from memoryapp.models import ChatUser, Topic
from rerankui.pages import show


def absent(
    request: HttpRequest, name: str, owner: ChatUser, *, holders: Sequence[Topic] = (), is_retired: bool = False
) -> HttpResponse:
    """``holders`` are topics of the moment that contained its messages; ``is_retired`` if it had been there before."""
    context = {"name": name, "owner": owner, "holders": holders, "is_retired": is_retired}
    return show(request, "pages/topics/absent.html", "partials/past/absent.html", context, status=404)
