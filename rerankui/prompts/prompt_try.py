"""Another prompt tried on a past run: what its model would be sent, and the resulting run.

The new run gets the same input as the old one up to the changed prompt, so any difference comes from that prompt. The
tried text is stored as a draft, because a run must be able to show what its model was sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from memoryapp.engine.agents.enricher import ENRICH
from memoryapp.engine.events import Event, QueryEnriched
from memoryapp.engine.outline import Outline
from memoryapp.engine.prompt_registry import built_in
from memoryapp.engine.prompts.prompt import PromptText, faults, rendered
from memoryapp.engine.prompts.rerank import RERANK
from memoryapp.llm import prompt_versions
from memoryapp.llm.prompt_versions import UsedPrompt
from memoryapp.models import Role, Run
from memoryapp.runs import followers, forks
from memoryapp.runs.parameters import ParameterError
from memoryapp.runs.replays import ForkError
from memoryapp.runs.runner import runner
from memoryapp.suggestions import proposals
from rerankui.access import operator_of, own_run_or_404, requires
from rerankui.forms import PromptForm
from rerankui.prompts.prompts import PromptPart, PromptReply, sent_form, version_in
from rerankui.text.differences import difference
from rerankui.text.prompt_words import PARTS, fault_words, title_of, variables_of, words_of


@dataclass(frozen=True, slots=True)
class _Trial:
    """A run with the prompt that is edited over it; ``names`` are those of all its prompts."""

    parent: Run
    prompt: UsedPrompt
    names: Sequence[str]
    enriched: QueryEnriched | None


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Role.VIEWER)
def prompt_try(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The editor over one run.

    ``name`` in the address says which of its prompts, ``version`` begins with that version instead of the run's own.
    """
    parent = own_run_or_404(request, pk)
    trial = _trial(request, parent, [item.event for item in followers.stored(parent.pk)])
    if trial is None:
        status = 409 if request.method == "POST" else 200
        return render(request, "pages/prompts/prompt_try.html", {"run": parent}, status=status)
    if request.method == "POST":
        return _answered(request, trial)
    version = version_in(request.GET.get("version", ""), trial.prompt.version)
    base = prompt_versions.text_at(trial.prompt.key, version) or built_in()[trial.prompt.key]
    form = PromptForm(initial={"system": base.system, "user": base.user, "base": base.version})
    return _page(request, trial, base, form, _preview(base, trial.prompt))


def _trial(request: HttpRequest, parent: Run, events: Sequence[Event]) -> _Trial | None:
    """The prompt that the address names, else the reranker's; who only looks is shown the one there is."""
    by_name = prompt_versions.prompts_used(events)
    prompt = by_name.get(request.GET.get("name", RERANK.name))
    if prompt is None and request.method != "POST":
        prompt = next(iter(by_name.values()), None)
    enriched = Outline.of(events).enriched
    return _Trial(parent, prompt, list(by_name), enriched) if prompt else None


def _answered(request: HttpRequest, trial: _Trial) -> HttpResponse:
    if not operator_of(request).may(Role.DEBUGGER):
        raise PermissionDenied(_("Your role may look at runs but not start them. An admin can make you a debugger."))
    base, form = sent_form(request, trial.prompt.key)
    if not form.is_valid():
        return _page(request, trial, base, form, PromptReply(status=422))
    text = form.text(*trial.prompt.key)
    answer = _preview(text, trial.prompt)
    if answer.faults or request.POST.get("action") != "try":
        return _page(request, trial, base, form, answer)
    note = form.cleaned_data["note"] or _("tried on run %(run)s") % {"run": trial.parent.short_id}
    prompt = prompt_versions.draft(text, by=request.user.get_username(), note=note)
    try:
        again = forks.fork(trial.parent, changes={"prompt": str(prompt)}, operator=operator_of(request).user)
    except (ForkError, ParameterError) as error:
        messages.error(request, str(error))
        return _page(request, trial, base, form, answer)
    runner.launch(again.pk)
    return redirect("run", pk=again.pk)


def _preview(text: PromptText, prompt: UsedPrompt) -> PromptReply:
    """Returns what the model would receive now, beside what it received in the run."""
    found = [fault_words(fault) for fault in faults(text)] or _without_value(text, prompt.variables)
    if found:
        return PromptReply(tuple(found), status=422)
    before, now = _then(prompt), _filled(text, prompt.variables)
    parts = [PromptPart(str(title), difference(before.get(role, ""), now[role])) for role, title in PARTS.items()]
    return PromptReply(changes=tuple(part for part in parts if part.difference))


def _then(prompt: UsedPrompt) -> Mapping[str, str]:
    """Returns what the model received. A run stores no message to the enricher, so its version is filled in again."""
    text = None if prompt.messages else prompt_versions.text_at(prompt.key, prompt.version)
    if text is None or _without_value(text, prompt.variables):
        return prompt.messages
    return _filled(text, prompt.variables)


def _filled(text: PromptText, variables: Mapping[str, str]) -> Mapping[str, str]:
    return {message["role"]: message["content"] for message in rendered(text, variables)}


def _without_value(text: PromptText, variables: Mapping[str, str]) -> list[str]:
    used = [variable.name for variable in variables_of(text) if variable.uses]
    return [_("This run has no value for $%(name)s.") % {"name": name} for name in used if name not in variables]


def _page(request: HttpRequest, trial: _Trial, base: PromptText, form: PromptForm, answer: PromptReply) -> HttpResponse:
    prompt = trial.prompt
    context: dict[str, Any] = {
        **words_of(prompt.key),
        "run": trial.parent,
        "prompt": prompt,
        "prompts": [(name, title_of(name)) for name in trial.names],
        "query_enriched": trial.enriched,
        "base": base,
        "form": form,
        "answer": answer,
        "may_draft": operator_of(request).may(Role.DEBUGGER),
        "lacks_model": base.name == ENRICH.name and not proposals.is_model_connected(),
        "variables": [(variable, prompt.variables.get(variable.name, "")) for variable in variables_of(base)],
    }
    return render(request, "pages/prompts/prompt_try.html", context, status=answer.status)
