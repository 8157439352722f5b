"""A change of topics: shown before it is made, made, and taken back. Every page that changes topics leads here. Only a
form that is posted to commit writes anything. If somebody changed the topics meanwhile, the page shows their change and
keeps what was typed."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from memoryapp import curation
from memoryapp.curation import EDIT, ChangeRequest, CurationError, Stale
from memoryapp.curation.change import MOST_TOPICS
from memoryapp.curation.effect import effect_of
from memoryapp.curation.suggestions import proposals
from memoryapp.curation.suggestions.proposals import ProposalError
from memoryapp.engine.embeddings import EmbeddingError
from memoryapp.engine.memory import TopicDraft, topic_id
from memoryapp.memory.content import content
from memoryapp.models import ChatUser, EditedTopic, Message, Role, Topic, TopicEdit
from memoryapp.search.neighbours import nearest_to_parts
from memoryapp.search.profiles import serving_profile
from rerankui.curation import canvas, change_form
from rerankui.curation.canvas import sides
from rerankui.curation.change_form import failure_words, parts_words
from rerankui.frame import access
from rerankui.frame.access import open_to, topic_or_404
from rerankui.frame.pages import show
from rerankui.frame.toasts import own_address
from rerankui.text import time_axis
from rerankui.text.differences import difference
from rerankui.text.markdown import beyond, headline

UNWRITTEN = "…"


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
    The page asks for it while a person looks at the change, for each new topic that has no summary yet."""
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


def _overtaken(owner: ChatUser, form: change_form.ChangeForm, stale: Stale) -> dict[str, Any]:
    """Why a change came too late: the earlier edits, the differences of summaries, the request for the new topics."""
    sent = form.cleaned_data
    retired = list(stale.successors)
    now = [number for holders in stale.successors.values() for number in holders]
    found = Topic.objects.of(owner).in_bulk([*retired, *now])
    left = EditedTopic.objects.filter(owner=owner, topic__in=retired, side=EditedTopic.Side.OUT)
    edits = {side.edit_id: side.edit for side in left.select_related("edit").order_by("-edit_id")[:20]}
    pairs = [(found[old], found[new]) for old in retired for new in stale.successors[old][:3]]
    return {
        "sentence": str(stale),
        "edits": list(edits.values())[:3],
        "changes": [
            {"title": f"{topic_id(old.pk)} → {topic_id(new.pk)}", "difference": difference(old.summary, new.summary)}
            for old, new in pairs
            if old.summary != new.summary
        ],
        "again": change_form.retarget(form, stale.successors),
        "summaries": sent["summary"],
        "topics": list(dict.fromkeys(now)),
    }


# A topic cut again, by a model or by hand.


LONGEST_LIST = 200_000


@dataclass(frozen=True, slots=True)
class _Proposal:
    """Messages that begin a part, summaries by them, who proposed this (nobody: a person's cuts), and what failed."""

    cuts: Collection[int]
    summaries: Mapping[int, str] = field(default_factory=dict)
    by: Literal["segmenter", "model", ""] = ""
    sentence: str = ""


@open_to(Role.CURATOR, post=Role.CURATOR)
def resplit(request: HttpRequest, pk: int) -> HttpResponse:
    topic = topic_or_404(request, pk)
    messages = list(Message.objects.of(topic.owner_id).filter(topic=topic).in_order())
    proposal = _proposal(request, topic)
    cuts = canvas.cuts_among(messages, proposal.cuts)[: MOST_TOPICS - 1]
    kept = {} if proposal.by == "model" else _typed_summaries(request, messages, cuts)
    known = _summaries(topic, messages, cuts, {**proposal.summaries, **kept})
    title = headline(topic.summary)
    answer = show(
        request,
        "pages/curation/resplit.html",
        "partials/curation/resplit.html",
        {
            "owner": topic.owner,
            "topic": topic,
            "title": title,
            "more": beyond(topic.summary, title),
            "sentence": proposal.sentence,
            "by": proposal.by,
            "model": settings.SPLITTER_MODEL if proposals.is_model_connected() else "",
            **_canvas_context(topic, messages, cuts, known),
        },
    )
    if "ask" in request.POST and not proposal.sentence:
        answer["HX-Replace-Url"] = f"{request.path}?at={canvas.joined(cuts)}&by=model"
    return answer


def _canvas_context(
    topic: Topic, messages: Sequence[Message], cuts: Sequence[int], known: Mapping[int, str]
) -> dict[str, Any]:
    axis = time_axis.axis([message.sent_at for message in messages])
    stretches = [[message.pk for message in stretch] for stretch in canvas.stretches(messages, cuts)]
    near = nearest_to_parts(topic, stretches, serving_profile())
    parts = canvas.parts(messages, cuts, known, {ids[0]: found for ids, found in zip(stretches, near, strict=True)})
    return {
        "cuts": cuts,
        "parts": parts,
        "bars": canvas.bars(messages, cuts, axis),
        "axis": axis,
        "sizes": parts_words([part["count"] for part in parts]),
        "at": canvas.joined(cuts),
        "large": settings.SPLIT_THRESHOLD_CHARS,
    }


def _proposal(request: HttpRequest, topic: Topic) -> _Proposal:
    asked = _numbers(request.GET.get("at", ""))
    if "ask" in request.POST:
        try:
            drafts = proposals.topics_proposed(topic.owner, topic, request.user.get_username())
        except ProposalError as error:
            return _Proposal(asked or set(), sentence=failure_words(error))
        return _Proposal(*_read(drafts), by="model")
    if asked is None:
        return _cuts_by_segmenter(topic)
    is_models = request.GET.get("by") == "model" and proposals.is_model_connected()
    return _Proposal(asked, by="model" if is_models else "")


def _numbers(text: str) -> set[int] | None:
    """The cuts an address names; None when it names none and the proposal is wanted, empty for ``none``."""
    if not text:
        return None
    return {int(part) for part in text[:LONGEST_LIST].split(",") if part.isdecimal() and len(part) < 19}


def _cuts_by_segmenter(topic: Topic) -> _Proposal:
    """The embedded segmenter's cuts, or why it proposes none."""
    try:
        drafts = proposals.topics_segmented(topic.owner, topic.pk)
    except CurationError as error:
        return _Proposal((), by="segmenter", sentence=str(error))
    except EmbeddingError:
        sentence = _("There is no proposal, for the embedder does not answer. You can cut by hand.")
        return _Proposal((), by="segmenter", sentence=sentence)
    return _Proposal(*_read(drafts), by="segmenter")


def _read(drafts: Sequence[TopicDraft]) -> tuple[set[int], dict[int, str]]:
    """Where the drafts begin and their summaries by it; a topic left whole keeps its own summary."""
    summaries = {draft.messages[0]: draft.summary for draft in drafts}
    return set(summaries), summaries if len(drafts) > 1 else {}


def _typed_summaries(request: HttpRequest, messages: Sequence[Message], cuts: Sequence[int]) -> dict[int, str]:
    """What the parts were called, by their first messages: what a person typed stays with the part that begins there,
    and what was proposed as long as the part is the same."""
    ends = {stretch[0].pk: stretch[-1].pk for stretch in canvas.stretches(messages, cuts)}
    sent = zip(*(request.POST.getlist(name)[:MOST_TOPICS] for name in ("span", "was", "summary")), strict=False)
    kept = {}
    for span, was, summary in sent:
        first, _dash, last = span.partition("-")
        is_typed = summary.strip() != was.strip()
        if first.isdecimal() and (is_typed or str(ends.get(int(first))) == last):
            kept[int(first)] = summary.strip()
    return kept


def _summaries(
    topic: Topic, messages: Sequence[Message], cuts: Sequence[int], known: Mapping[int, str]
) -> dict[int, str]:
    """A summary for each part: what is known of it, the topic's own for the whole, else a proposed one."""
    summarise = proposals.summariser()
    if not cuts:
        return {message.pk: topic.summary for message in messages[:1]}
    return {
        stretch[0].pk: known.get(stretch[0].pk) or summarise([content(row) for row in stretch])
        for stretch in canvas.stretches(messages, cuts)
    }
