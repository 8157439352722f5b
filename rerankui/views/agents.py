"""What agents asked models outside of runs: the list of their questions, and one as a conversation to replay."""

from __future__ import annotations

from asgiref.sync import async_to_sync
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST, require_safe

from memoryapp import history
from memoryapp.history import Narrowing
from memoryapp.models import AgentCall, Role, Topic
from memoryapp.runs.endpoint_trial import try_endpoints
from rerankui.access import agent_call_or_404, operator_of, requires, visible_owners
from rerankui.agent_talk import talk_context
from rerankui.filters import AgentFilter
from rerankui.history.entry_views import entry_views
from rerankui.pages import page_of, show

EDITS_SHOWN = 50
TOPICS_SHOWN = 30


@require_safe
@requires(Role.VIEWER)
def agents(request: HttpRequest) -> HttpResponse:
    owners = visible_owners(request)
    filters = AgentFilter(request.GET, owners=owners)
    listed = AgentCall.objects.filter(owner__in=owners).select_related("owner").defer("events")
    page = page_of(request, filters.fitting(filters.worded(listed)), filters.order)
    context = {"filters": filters, "page": page, "may_try": operator_of(request).may(Role.DEBUGGER)}
    return show(request, "pages/agents/agents.html", "partials/agents/agents.html", context)


@require_POST
@requires(Role.DEBUGGER)
def endpoint_trial(request: HttpRequest) -> HttpResponse:
    """What the connected endpoints can do; asking them takes at most about a minute."""
    context = {"trial": async_to_sync(try_endpoints)(), "may_try": True}
    return show(request, "pages/agents/endpoint_trial.html", "partials/agents/endpoint_trial.html", context)


@require_safe
@requires(Role.VIEWER)
def agent_call(request: HttpRequest, pk: int) -> HttpResponse:
    """One question as a conversation, with the topics it was about and what came of it."""
    call = agent_call_or_404(request, pk)
    step = request.GET.get("step", "")
    led_to = history.page(call.owner, Narrowing(call=call.pk), EDITS_SHOWN)
    context = {
        "call": call,
        "owner": call.owner,
        "topics": Topic.objects.of(call.owner).filter(pk__in=call.topics[:TOPICS_SHOWN]).order_by("pk"),
        "more_topics": max(len(call.topics) - TOPICS_SHOWN, 0),
        "changes": entry_views(led_to.entries),
        "may_change": operator_of(request).may(Role.CURATOR),
        **talk_context(call, int(step) if step.isdecimal() and len(step) < 9 else None),
    }
    return render(request, "pages/agents/agent_call.html", context)
