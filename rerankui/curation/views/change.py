"""A change of topics: shown before it is made, made, and taken back.

Every page that changes topics leads here. Only a form that is posted to commit writes anything. If somebody changed the
topics meanwhile, the page shows their change and keeps what was typed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from memoryapp import curation
from memoryapp.curation import EDIT, ChangeRequest, CurationError, Stale
from memoryapp.curation.effect import effect_of
from memoryapp.curation.suggestions import proposals
from memoryapp.engine.memory import TopicDraft, topic_id
from memoryapp.models import ChatUser, EditedTopic, Role, Topic, TopicEdit
from rerankui.curation import change_form
from rerankui.curation.canvas import sides
from rerankui.frame import access
from rerankui.frame.access import open_to
from rerankui.frame.toasts import own_address
from rerankui.text.differences import difference

UNWRITTEN = "…"


@dataclass(frozen=True, slots=True)
class Overtaken:
    """Why a change came too late: the earlier edits, the differences of summaries, and the same request for the new
    topics."""

    sentence: str
    edits: Sequence[TopicEdit]
    changes: Sequence[Mapping[str, Any]]
    again: list[tuple[str, str]] | None
    summaries: Sequence[str]
    topics: Sequence[int]


@open_to(Role.CURATOR, post=Role.CURATOR)
def change(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """The preview, and with ``commit`` posted the change itself."""
    form = change_form.ChangeForm(request.POST if request.method == "POST" else request.GET)
    if not form.data:
        return _page(request, owner, sentence=_("Nothing was chosen to be changed yet."))
    if not form.is_valid():
        name, errors = next(iter(form.errors.items()))
        return _page(request, owner, sentence=f"{name}: {errors[0]}", status=422)
    try:
        if request.method == "POST" and request.POST.get("commit"):
            return _redirect_after(request, change_form.commit(request, owner, form), form.cleaned_data["next"])
        staged = form.staged(owner)
    except Stale as stale:
        return _page(request, owner, form=form, overtaken=_overtaken(owner, form, stale), status=409)
    except CurationError as error:
        return _page(request, owner, form=form, sentence=str(error), status=422)
    return _page(request, owner, form=form, **_preview_context(owner, staged))


@open_to(Role.CURATOR, post=Role.CURATOR)
def change_effect(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """What the change would do to past runs: a part of the preview for htmx, else the preview with it."""
    form = change_form.ChangeForm(request.POST if request.method == "POST" else request.GET)
    if not form.is_valid():
        return _page(request, owner, sentence=_("Nothing was chosen to be changed yet."))
    try:
        staged = form.staged(owner)
        effect = effect_of(owner, staged.change)
    except CurationError as error:
        return _page(request, owner, form=form, sentence=str(error), status=422)
    if cast(access.Request, request).htmx:
        return render(request, "partials/curation/effect.html", {"effect": effect})
    return _page(request, owner, form=form, effect=effect, **_preview_context(owner, staged))


@open_to(Role.CURATOR, post=Role.CURATOR)
def change_summary(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """A proposed summary of the new topic at the ``place`` of the change: the model's, else the most telling sentences.

    The page asks for it while a person looks at the change, for each new topic that has no summary yet.
    """
    form = change_form.ChangeForm(request.POST)
    place = request.POST.get("place", "")
    if not form.is_valid() or not place.isdecimal():
        return _page(request, owner, sentence=_("Nothing was chosen to be changed yet."))
    try:
        put = _put(form.wanted(owner))
    except CurationError as error:
        return _page(request, owner, form=form, sentence=str(error), status=422)
    draft = put[min(max(int(place[:4]), 1), len(put)) - 1]
    proposed = change_form.proposed_summary(owner, form.cleaned_data["topics"], draft)
    return render(request, "partials/curation/part_summary.html", {"proposed": proposed})


def _put(wanted: ChangeRequest) -> Sequence[TopicDraft]:
    """The topics that would result. A summary that is only to be written has no words yet, and the same ones are
    refused; what counts are the messages."""
    return curation.plan(replace(wanted, summaries=(UNWRITTEN,)) if wanted.operation is EDIT else wanted).put


def _preview_context(owner: ChatUser, staged: change_form.StagedChange) -> dict[str, Any]:
    return {
        "staged": staged,
        "sides": sides(owner, staged.change),
        "would": change_form.would_words(staged.request, staged.change),
        "unnamed": change_form.unnamed(staged.request, staged.change)[: change_form.MOST_ASKED],
        "outdated": change_form.outdated(staged.request, staged.change),
        "model": settings.MERGER_MODEL if proposals.is_model_connected() else "",
    }


def _page(
    request: HttpRequest,
    owner: ChatUser,
    *,
    form: change_form.ChangeForm | None = None,
    status: int = 200,
    **context: Any,
) -> HttpResponse:
    back = own_address(request, form.cleaned_data["next"]) if form else ""
    topics: Sequence[int] = form.cleaned_data["topics"] if form else ()
    context |= {"owner": owner, "form": form, "back": back, "topics": topics}
    context["fields"] = change_form.fields_of(form) if form else []
    return render(request, "pages/curation/change.html", context, status=status)


def _redirect_after(request: HttpRequest, edit: TopicEdit, back: str) -> HttpResponse:
    after = own_address(request, back)
    return redirect(after) if after else redirect("topic", pk=curation.put_in(edit)[0].pk)


def _overtaken(owner: ChatUser, form: change_form.ChangeForm, stale: Stale) -> Overtaken:
    sent = form.cleaned_data
    retired = list(stale.successors)
    now = [number for holders in stale.successors.values() for number in holders]
    found = Topic.objects.of(owner).in_bulk([*retired, *now])
    left = EditedTopic.objects.filter(owner=owner, topic__in=retired, side=EditedTopic.Side.OUT)
    edits = {side.edit_id: side.edit for side in left.select_related("edit").order_by("-edit_id")[:20]}
    pairs = [(found[old], found[new]) for old in retired for new in stale.successors[old][:3]]
    return Overtaken(
        sentence=str(stale),
        edits=list(edits.values())[:3],
        changes=[
            {"title": f"{topic_id(old.pk)} → {topic_id(new.pk)}", "difference": difference(old.summary, new.summary)}
            for old, new in pairs
            if old.summary != new.summary
        ],
        again=change_form.retarget(form, stale.successors),
        summaries=sent["summary"],
        topics=list(dict.fromkeys(now)),
    )
