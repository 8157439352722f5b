"""Prompts: what the models are sent, the versions, and the differences between two of them. Everybody may read them.
Operators who may start runs may save a draft, which changes nothing; an admin puts a version in force. Nothing is
checked while a person types: the page answers when a button is pressed, and keeps the typed text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp.curation.suggestions import proposals
from memoryapp.engine.agents.enricher import ENRICH
from memoryapp.engine.events import Event, QueryEnriched
from memoryapp.engine.outline import Outline
from memoryapp.engine.prompt_registry import built_in
from memoryapp.engine.prompts.prompt import PromptText, faults, rendered
from memoryapp.engine.prompts.rerank import RERANK
from memoryapp.models import ChatUser, Prompt, Role, Run, RunEvent
from memoryapp.platform import cells
from memoryapp.platform.llm import prompt_versions
from memoryapp.platform.llm.prompt_versions import Key, Since, UsedPrompt
from memoryapp.runs import followers, forks
from memoryapp.runs.parameters import ParameterError
from memoryapp.runs.replays import ForkError
from memoryapp.runs.runner import runner
from rerankui.frame.access import open_to, operator_of, own_run_or_404, visible_owners
from rerankui.frame.forms import PromptForm
from rerankui.text.differences import Difference, difference
from rerankui.text.words import PARTS, fault_words, label_of, title_of, variables_of, words_of

SHOWN_VERSIONS = 50
TRIABLE = 6
LOOKED_THROUGH = 100
WITHOUT_TEXTS = ("system", "user")
NOT_WRITTEN = gettext_lazy("Your role may read prompts but not write them. An admin can make you a debugger.")
BUILT_IN_AGAIN = gettext_lazy("From the next run on the built-in text is used.")
NOT_PUT_IN_FORCE = gettext_lazy("Only an admin puts a prompt in force. Save it as a draft, and ask one.")


@dataclass(frozen=True, slots=True)
class PromptPart:
    """One message of a prompt beside its other self."""

    title: str
    difference: Difference


@dataclass(frozen=True, slots=True)
class PromptReply:
    """What the page says to what was typed; nothing of it is kept."""

    faults: tuple[str, ...] = ()
    changes: tuple[PromptPart, ...] | None = None
    newer: Prompt | None = None
    kept: int | None = None
    status: int = 200


def changes(old: PromptText, new: PromptText) -> tuple[PromptPart, ...]:
    """The messages that differ."""
    parts = (
        PromptPart(str(PARTS["system"]), difference(old.system, new.system)),
        PromptPart(str(PARTS["user"]), difference(old.user, new.user)),
    )
    return tuple(part for part in parts if part.difference)


def key_or_404(name: str, language: str) -> Key:
    if (name, language) not in built_in():
        raise Http404
    return name, language


def text_or_404(key: Key, version: int) -> PromptText:
    found = prompt_versions.text_at(key, version)
    if found is None:
        raise Http404
    return found


@open_to(Role.VIEWER)
def prompts(request: HttpRequest) -> HttpResponse:
    forced = _by_key(Prompt.objects.filter(in_force=True))
    newest = _by_key(prompt_versions.newest_versions())
    used = prompt_versions.used_lately(visible_owners(request))
    book, since = prompt_versions.in_force_now(), prompt_versions.in_force_since()
    listed = [
        {**_listed(book[key], forced.get(key), newest.get(key), used), "since": _since(since, book[key])}
        for key in built_in()
    ]
    return render(request, "pages/prompts/prompts.html", {"listed": listed, "looked_at": prompt_versions.LOOKED_AT})


def _since(known: Mapping[Key, Since], serving: PromptText) -> Since | None:
    """Returns who put the serving text in force; None if it replaces one that cannot be used."""
    since = known.get((serving.name, serving.language))
    return since if since and since.version == serving.version else None


def _by_key(rows: QuerySet[Prompt]) -> dict[Key, Prompt]:
    return {(row.name, row.language): row for row in rows.defer(*WITHOUT_TEXTS)}


def _listed(
    serving: PromptText, forced: Prompt | None, newest: Prompt | None, used: Mapping[str, int]
) -> dict[str, Any]:
    is_used = forced is not None and forced.version == serving.version
    return {
        **words_of((serving.name, serving.language)),
        "text": serving,
        "row": forced if is_used else None,
        "passed_over": None if is_used else forced,
        "draft": newest if newest and newest.version > serving.version else None,
        "runs": used.get(serving.label, 0),
    }


@open_to(Role.VIEWER, post=Role.VIEWER)
def prompt(request: HttpRequest, name: str, language: str) -> HttpResponse:
    key = key_or_404(name, language)
    serving = prompt_versions.in_force_now()[key]
    rows = list(prompt_versions.history(key).defer(*WITHOUT_TEXTS)[: SHOWN_VERSIONS + 1])
    if request.method == "POST":
        if not operator_of(request).may(Role.DEBUGGER):
            raise PermissionDenied(NOT_WRITTEN)
        base, form = sent_form(request, key)
        kept = _keep(request, form, key) if request.POST.get("action") != "check" else None
        if isinstance(kept, Prompt):
            return redirect("prompt_version", name=name, language=language, version=kept.version)
        answer = kept or _checked(form, key, base)
    else:
        base, answer = text_or_404(key, version_in(request.GET.get("from", ""), serving.version)), PromptReply()
        seen = rows[0].version if rows else 0
        form = PromptForm(initial={"system": base.system, "user": base.user, "base": base.version, "seen": seen})
    shown = form.text(*key) if form.is_bound and form.is_valid() else base
    # Newest first, each with its number of recent runs; None is the built-in text.
    used = prompt_versions.used_lately(visible_owners(request))
    saved: list[tuple[Prompt | None, int]] = [(row, used.get(str(row), 0)) for row in rows[:SHOWN_VERSIONS]]
    context = {
        **_page(request, key, serving),
        "base": base,
        "base_name": label_of(base),
        "form": form,
        "answer": answer,
        "variables": variables_of(shown),
        "triable": _triable(request, key),
        "versions": [*saved, (None, used.get(built_in()[key].label, 0))],
        "has_older": len(rows) > SHOWN_VERSIONS,
        "looked_at": prompt_versions.LOOKED_AT,
    }
    return render(request, "pages/prompts/prompt.html", context, status=answer.status)


def _page(request: HttpRequest, key: Key, serving: PromptText) -> dict[str, Any]:
    operator = operator_of(request)
    return {
        **words_of(key),
        "in_force": serving,
        "since": _since(prompt_versions.in_force_since(), serving),
        "may_draft": operator.may(Role.DEBUGGER),
        "may_force": operator.may(Role.ADMIN),
    }


def sent_form(request: HttpRequest, key: Key) -> tuple[PromptText, PromptForm]:
    """What was typed, and the text it was made from."""
    form = PromptForm(request.POST)
    form.is_valid()
    return prompt_versions.text_at(key, form.cleaned_data.get("base") or 0) or built_in()[key], form


def _checked(form: PromptForm, key: Key, base: PromptText) -> PromptReply:
    if not form.is_valid():
        return PromptReply(status=422)
    text = form.text(*key)
    found = tuple(fault_words(fault) for fault in faults(text))
    return PromptReply(found, changes(base, text), status=422 if found else 200)


def _keep(request: HttpRequest, form: PromptForm, key: Key) -> Prompt | PromptReply:
    """The new version, or why there is none."""
    puts_in_force = request.POST.get("action") == "force"
    if puts_in_force and not operator_of(request).may(Role.ADMIN):
        raise PermissionDenied(NOT_PUT_IN_FORCE)
    if not form.is_valid():
        return PromptReply(status=422)
    sent, text = form.cleaned_data, form.text(*key)
    try:
        made = prompt_versions.save(text, by=request.user.get_username(), note=sent["note"], seen=sent.get("seen") or 0)
    except prompt_versions.Faulty as faulty:
        return PromptReply(faults=tuple(map(fault_words, faulty.faults)), status=422)
    except prompt_versions.Duplicate as same:
        return PromptReply(kept=same.version, status=422)
    except prompt_versions.StaleVersion as stale:
        base = prompt_versions.text_at(key, form.cleaned_data.get("base") or 0) or built_in()[key]
        # The form now contains the newer version, so pressing again is a decision.
        form.data = {**dict(form.data.items()), "seen": stale.newest.version}
        return PromptReply(changes=changes(base, prompt_versions.text_of(stale.newest)), newer=stale.newest, status=409)
    if puts_in_force:
        prompt_versions.put_in_force(key, made.version, by=made.made_by)
    sentence = _("%(label)s is saved and in force.") if puts_in_force else _("%(label)s is saved as a draft.")
    messages.success(request, sentence % {"label": str(made)})
    return made


def _triable(request: HttpRequest, key: Key) -> list[Run]:
    """Returns recent runs that used a version of this prompt, on which another one can be tried."""
    recent = _recent(visible_owners(request))
    name, language = key
    labels = _enriched_by(recent) if name == ENRICH.name else {run.pk: run.prompt_version for run in recent}
    return [run for run in recent if (labels.get(run.pk) or "").startswith(f"{name}-{language}-")][:TRIABLE]


@cells.everywhere(order=lambda run: (run.created_at, run.pk), most=LOOKED_THROUGH)
def _recent(owners: QuerySet[ChatUser]) -> list[Run]:
    seen = Run.objects.by_hand().made_here().filter(owner__in=owners, state=Run.State.FINISHED)
    return list(seen.select_related("owner")[:LOOKED_THROUGH])


@cells.everywhere()
def _enriched_by(recent: Sequence[Run]) -> Mapping[UUID, str | None]:
    """Returns which text the enricher of each run received; the row of a run has only the reranker's."""
    enriched = RunEvent.objects.filter(run__in=recent, kind="query_enriched")
    return dict(enriched.values_list("run_id", KeyTextTransform("prompt_version", "payload")))


@open_to(Role.VIEWER, post=Role.VIEWER)
def prompt_version(request: HttpRequest, name: str, language: str, version: int) -> HttpResponse:
    """One version to read; posting puts it in force."""
    key = key_or_404(name, language)
    text = text_or_404(key, version)
    if request.method == "POST":
        return _put_in_force(request, key, text)
    serving = prompt_versions.in_force_now()[key]
    row = prompt_versions.history(key).defer(*WITHOUT_TEXTS).filter(version=version).first()
    context = {
        **_page(request, key, serving),
        "text": text,
        "row": row,
        "faults": [fault_words(fault) for fault in faults(text)],
    }
    return render(request, "pages/prompts/prompt_version.html", {**context, "variables": variables_of(text)})


def _put_in_force(request: HttpRequest, key: Key, text: PromptText) -> HttpResponse:
    if not operator_of(request).may(Role.ADMIN):
        raise PermissionDenied(NOT_PUT_IN_FORCE)
    try:
        prompt_versions.put_in_force(key, text.version, by=request.user.get_username())
    except prompt_versions.Faulty as faulty:
        messages.error(request, " ".join(map(fault_words, faulty.faults)))
    else:
        sentence = _("From the next run on %(label)s is used.") if text.version else BUILT_IN_AGAIN
        messages.success(request, sentence % {"label": text.label})
    return redirect("prompt", *key)


@open_to(Role.VIEWER)
def prompt_diff(request: HttpRequest, name: str, language: str) -> HttpResponse:
    """Two versions beside each other: ``from`` and ``to``, else what is built in and what is in force."""
    key = key_or_404(name, language)
    serving = prompt_versions.in_force_now()[key]
    rows = list(prompt_versions.history(key).defer(*WITHOUT_TEXTS)[:SHOWN_VERSIONS])
    old = text_or_404(key, version_in(request.GET.get("from", ""), 0))
    new = text_or_404(key, version_in(request.GET.get("to", ""), serving.version))
    context = {**_page(request, key, serving), "old": old, "new": new, "changes": changes(old, new)}
    context |= {"old_name": label_of(old), "new_name": label_of(new)}
    versions = [0, *sorted({row.version for row in rows} | {old.version, new.version} - {0})]
    return render(request, "pages/prompts/prompt_diff.html", {**context, "versions": versions[::-1]})


def version_in(text: str, otherwise: int) -> int:
    """The version that an address or a label names; what is no number names none."""
    return int(text) if text.isdecimal() and len(text) < 10 else otherwise


# Another prompt tried on a past run: what its model would be sent, and the resulting run.
#
# The new run gets the same input as the old one up to the changed prompt, so any difference comes from that prompt.
# The tried text is stored as a draft, because a run must be able to show what its model was sent.


@dataclass(frozen=True, slots=True)
class _Trial:
    """A run with the prompt that is edited over it; ``names`` are those of all its prompts."""

    parent: Run
    prompt: UsedPrompt
    names: Sequence[str]
    enriched: QueryEnriched | None


@open_to(Role.VIEWER, post=Role.VIEWER)
def prompt_try(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The editor over one run. ``name`` in the address says which of its prompts, ``version`` begins with that version
    instead of the run's own."""
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
    return _trial_page(request, trial, base, form, _preview(base, trial.prompt))


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
        return _trial_page(request, trial, base, form, PromptReply(status=422))
    text = form.text(*trial.prompt.key)
    answer = _preview(text, trial.prompt)
    if answer.faults or request.POST.get("action") != "try":
        return _trial_page(request, trial, base, form, answer)
    note = form.cleaned_data["note"] or _("tried on run %(run)s") % {"run": trial.parent.short_id}
    prompt = prompt_versions.draft(text, by=request.user.get_username(), note=note)
    try:
        again = forks.fork(trial.parent, changes={"prompt": str(prompt)}, operator=operator_of(request).user)
    except (ForkError, ParameterError) as error:
        messages.error(request, str(error))
        return _trial_page(request, trial, base, form, answer)
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


def _trial_page(
    request: HttpRequest, trial: _Trial, base: PromptText, form: PromptForm, answer: PromptReply
) -> HttpResponse:
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
