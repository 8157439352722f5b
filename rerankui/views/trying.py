"""Another prompt on a run of the past: what its model would be told, and what it chooses then.

The new run takes the candidates of the old one, so whatever differs is the prompt's doing. What is tried is kept
as a draft, for a run must be able to tell what its model was told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from memoryapp import prompting, runs
from memoryapp.engine.events import CandidatesFound, MediaItem, TurnStarted
from memoryapp.engine.prompts import BUILT_IN, PromptText, faults, rendered
from memoryapp.models import Prompt, Role, Run
from memoryapp.parameters import ParameterError
from memoryapp.prompting import Key
from memoryapp.runner import runner
from rerankui.access import operator_of, requires, run_or_404
from rerankui.differences import difference
from rerankui.forms import PromptForm
from rerankui.prompt_words import PARTS, told, variables_of, words_of
from rerankui.views.prompts import Answer, Part, sent_form, version_in


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Role.VIEWER)
def prompt_try(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The editor over one run. ``version`` in the address begins with that version instead of the run's own."""
    parent = run_or_404(request, pk)
    turn = _first_turn(parent)
    if turn is None:
        return render(request, "pages/prompt_try.html", {"run": parent}, status=409 if request.POST else 200)
    key, version = _told_version(turn)
    if request.method == "POST":
        return _answered(request, parent, turn, key)
    version = version_in(request.GET.get("version", ""), version)
    base = prompting.text_at(key, version) or BUILT_IN[key]
    form = PromptForm(initial={"system": base.system, "user": base.user, "base": base.version})
    return _page(request, parent, turn, base, form, _preview(base, turn))


def _first_turn(parent: Run) -> TurnStarted | None:
    """How the model was first spoken to; None where nothing can be tried again.

    A run that asked no model, found nothing, or was made before prompts had versions kept no variables.
    """
    if not parent.is_finished:
        return None
    events = [item.event for item in runs.stored(parent.pk)]
    has_candidates = any(isinstance(event, CandidatesFound) for event in events)
    turn = next((event for event in events if isinstance(event, TurnStarted)), None)
    known = turn is not None and _told_version(turn)[0] in BUILT_IN
    return turn if turn and turn.variables and known and has_candidates else None


def _told_version(turn: TurnStarted) -> tuple[Key, int]:
    """``rerank-en-3`` as its key and version."""
    name, _dash, rest = turn.prompt_version.partition("-")
    language, _dash, version = rest.partition("-")
    return (name, language), version_in(version, 0)


def _answered(request: HttpRequest, parent: Run, turn: TurnStarted, key: Key) -> HttpResponse:
    if not operator_of(request).may(Role.DEBUGGER):
        raise PermissionDenied(_("Your role may look at runs but not start them. An admin can make you a debugger."))
    base, form = sent_form(request, key)
    if not form.is_valid():
        return _page(request, parent, turn, base, form, Answer(status=422))
    text = form.text(*key)
    answer = _preview(text, turn)
    if answer.faults or request.POST.get("action") != "try":
        return _page(request, parent, turn, base, form, answer)
    note = form.cleaned_data["note"] or _("tried on run %(run)s") % {"run": parent.short_id}
    prompt = prompting.draft(text, by=request.user.get_username(), note=note)
    try:
        again = _again(parent, request, prompt)
    except ParameterError as error:
        messages.error(request, str(error))
        return _page(request, parent, turn, base, form, answer)
    runner.launch(again.pk)
    return redirect("run", pk=again.pk)


def _again(parent: Run, request: HttpRequest, prompt: Prompt) -> Run:
    """The same question under the same conditions, but for the prompt."""
    return runs.start(
        parent.owner,
        parent.query,
        strategy=parent.strategy,
        parameters=parent.parameters,
        operator=operator_of(request).user,
        messages=parent.messages,
        media=[MediaItem(**item) for item in parent.media],
        parent=parent,
        prompt=prompt,
        evidence=parent.evidence,
    )


def _preview(text: PromptText, turn: TurnStarted) -> Answer:
    """What the model would be told now, beside what it was told."""
    found = [told(fault) for fault in faults(text)] or _without_value(text, turn.variables)
    if found:
        return Answer(tuple(found), status=422)
    before = {message.role: message.content for message in turn.prompt}
    now = {message["role"]: message["content"] for message in rendered(text, turn.variables)}
    parts = [Part(str(title), difference(before.get(role, ""), now[role])) for role, title in PARTS.items()]
    return Answer(changes=tuple(part for part in parts if part.difference))


def _without_value(text: PromptText, variables: Mapping[str, str]) -> list[str]:
    used = [variable.name for variable in variables_of(text) if variable.uses]
    return [_("This run has no value for $%(name)s.") % {"name": name} for name in used if name not in variables]


def _page(
    request: HttpRequest, parent: Run, turn: TurnStarted, base: PromptText, form: PromptForm, answer: Answer
) -> HttpResponse:
    key = (base.name, base.language)
    context: dict[str, Any] = {
        **words_of(key),
        "run": parent,
        "turn": turn,
        "base": base,
        "form": form,
        "answer": answer,
        "may_draft": operator_of(request).may(Role.DEBUGGER),
        "variables": [(variable, turn.variables.get(variable.name, "")) for variable in variables_of(base)],
    }
    return render(request, "pages/prompt_try.html", context, status=answer.status)
