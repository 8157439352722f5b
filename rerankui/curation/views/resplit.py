"""A topic split again: the proposal beside the present topic; each boundary can be kept, moved or removed.

The proposal comes from the embedded segmenter, which also archives, or from the chat model when a person asks it; from
then on the address contains the cuts. Nothing is written here: the form leads to the preview of the change.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from memoryapp.curation import CurationError
from memoryapp.curation.change import MOST_TOPICS
from memoryapp.curation.suggestions import proposals
from memoryapp.curation.suggestions.proposals import ProposalError
from memoryapp.engine.embeddings import EmbeddingError
from memoryapp.engine.memory import TopicDraft
from memoryapp.memory.content import content
from memoryapp.models import Message, Role, Topic
from memoryapp.search.neighbours import nearest_to_parts
from memoryapp.search.profiles import serving_profile
from rerankui.curation import canvas
from rerankui.curation.change_form import failure_words, parts_words
from rerankui.frame.access import open_to, topic_or_404
from rerankui.frame.pages import show
from rerankui.text import time_axis
from rerankui.text.markdown import beyond, headline

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
        "sizes": parts_words([part.count for part in parts]),
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
    """What the parts were called, by their first messages: what a person typed stays with the part that begins
    there, and what was proposed as long as the part is the same.
    """
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
