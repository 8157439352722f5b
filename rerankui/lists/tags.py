"""What stands above lists: their saved views."""

from typing import Any

from django import template
from django.http import HttpRequest
from django.template import Context

from memoryapp.models import SavedView
from rerankui.frame.access import operator_of
from rerankui.lists import saved
from rerankui.web.moment import moment_of

register = template.Library()


@register.inclusion_tag("partials/shared/saved_views.html", takes_context=True)
def saved_views(context: Context, of_list: str, *, is_swapped: bool = False) -> dict[str, Any]:
    """The views of a list as tabs, and a form that keeps what is shown; nothing without a memory."""
    request: HttpRequest = context["request"]
    owner = context.get("owner") or context["frame"].owner
    views = saved.listed(operator_of(request), owner, of_list, request.GET) if owner else []
    return {
        "owner": owner,
        "list": of_list,
        "views": views,
        "current": next((view for view in views if view.is_current), None),
        "query": request.GET.urlencode(),
        "is_narrowed": bool(saved.query_of(request.GET)),
        "path": request.path,
        "here": request.get_full_path(),
        "may_save": moment_of(request) is None and of_list in SavedView.List,
        "is_swapped": is_swapped,
        "csrf_token": context.get("csrf_token"),
    }
