"""An answer as HTML, for the page and its socket; always the whole answer, because it is short."""

from __future__ import annotations

from datetime import UTC, tzinfo
from uuid import UUID

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.template.loader import render_to_string
from django.utils import timezone, translation

from memoryapp.models import Run
from memoryapp.runs import followers
from rerankui.runs.fragments import Seen, SocketFrame, look
from rerankui.runs.page.answer_view import answer_context


def frame(
    run_id: UUID, *, seen: Seen, language: str, user: AbstractBaseUser | AnonymousUser, zone: tzinfo = UTC
) -> SocketFrame:
    """The answer as it is now; empty when nothing is new to a viewer who has ``seen`` this much."""
    newest = look(run_id, seen)
    if newest.seen == seen:
        return SocketFrame("", seen, newest.is_over)
    with translation.override(language), timezone.override(zone):
        run = Run.objects.select_related("owner").get(pk=run_id)
        context = answer_context(run, followers.stored(run_id), user, progress=newest.progress)
        html = render_to_string("partials/ask/answer.html", {**context, "swapped": True})
    return SocketFrame(html, newest.seen, not context["is_live"])
