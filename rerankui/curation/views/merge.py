"""Topics side by side before a merge: what they share, whose summary is kept, which are left out. A connected chat
model may be asked for a summary, which is then offered with the others."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.translation import gettext as _

from memoryapp import curation
from memoryapp.curation import CurationError
from memoryapp.curation.change import MOST_SUMMARY_CHARS
from memoryapp.curation.suggestions import proposals
from memoryapp.curation.suggestions.proposals import ProposalError
from memoryapp.engine.memory import topic_id
from memoryapp.insight.browsing.comparison import MOST_TOPICS, compare
from memoryapp.models import ChatUser, Role, Topic
from rerankui.curation.canvas import strips
from rerankui.curation.change_form import MODEL, failure_words, survivor, would_words
from rerankui.frame.access import open_to
from rerankui.frame.pages import show
from rerankui.frame.toasts import own_address
from rerankui.topics.topics import TOPICS, TopicFilter


@open_to(Role.CURATOR)
def merge(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """The comparison; for htmx only the result of merging the topics that are not left out."""
    return _comparison_page(request, owner, request.GET)


@open_to(Role.CURATOR, post=Role.CURATOR)
def merge_proposal(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """The comparison with the model's summary in the field; without one, with a sentence why, and the field unchanged.
    Only a posted form asks the model."""
    if request.method != "POST":
        return _comparison_page(request, owner, request.GET)
    fields = request.POST.copy()
    # The content of the field came with the form, even without the script that marks it as a person's own.
    fields["written"] = "1"
    return _comparison_page(request, owner, fields, *_proposal(owner, fields, request.user.get_username()))


def _proposal(owner: ChatUser, fields: QueryDict, asked_by: str) -> tuple[str, str]:
    """The model's summary and an empty text, or an empty text and a sentence."""
    topics, _retired = _live(owner, _asked_topics(owner, fields)[:MOST_TOPICS])
    try:
        curation.plan_merge(owner, [topic.pk for topic in topics])
        return proposals.summary_proposed(owner, topics, asked_by), ""
    except (CurationError, ProposalError) as error:
        return "", failure_words(error)


def _comparison_page(
    request: HttpRequest, owner: ChatUser, fields: QueryDict, proposed: str = "", sentence: str = ""
) -> HttpResponse:
    asked = _asked_topics(owner, fields)
    topics, retired = _live(owner, asked[:MOST_TOPICS])
    context: dict[str, Any] = {"owner": owner, "retired": retired, "unshown": len(asked[MOST_TOPICS:])}
    context |= {"topics": topics, "sentence": sentence, "reason": fields.get("reason", "")}
    context["back"] = own_address(request, fields.get("next", ""))
    context["suggestion"] = fields.get("suggestion", "")
    if topics:
        context |= _outcome(owner, topics, fields, proposed)
        if not request.headers.get("HX-Request"):
            comparison = compare(owner, topics)
            context |= {"comparison": comparison, "strips": strips(comparison.columns)}
    return show(request, "pages/curation/merge.html", "partials/curation/merge_result.html", context)


def _asked_topics(owner: ChatUser, fields: QueryDict) -> list[int]:
    """The topics named in the address or form; with ``all``, those that its filters and facets list."""
    if fields.get("all"):
        found = TOPICS.matching(owner, fields).order_by("started_at", "pk")
        return list(found.values_list("pk", flat=True)[: MOST_TOPICS + 1])
    return TopicFilter(fields).chosen["topics"] or []


def _live(owner: ChatUser, asked: Sequence[int]) -> tuple[list[Topic], list[str]]:
    """The live topics that hold what was requested, oldest first, and a sentence for each retired one."""
    holders = curation.successors(owner.pk, asked)
    live = Topic.objects.of(owner).in_bulk([number for found in holders.values() for number in found][:MOST_TOPICS])
    sentences = [_retired_sentence(number, found) for number, found in holders.items() if found != (number,)]
    return sorted(live.values(), key=lambda topic: (topic.started_at, topic.pk)), sentences


def _retired_sentence(number: int, holders: Sequence[int]) -> str:
    now = ", ".join(map(topic_id, holders[:5]))
    if not now:
        return _("%(topic)s is retired and its messages are in no topic.") % {"topic": topic_id(number)}
    return _("%(topic)s is retired; its messages are in %(now)s now.") % {"topic": topic_id(number), "now": now}


def _outcome(owner: ChatUser, topics: Sequence[Topic], fields: QueryDict, proposed: str) -> dict[str, Any]:
    """The result in words; with fewer than two topics, the reason why there is none."""
    chosen, written = fields.get("from", ""), fields.get("summary", "").strip()
    if proposed:
        chosen, written = MODEL, ""
    proposed = proposed or fields.get("proposed", "")[:MOST_SUMMARY_CHARS]
    try:
        kept = survivor(owner, topics, chosen, written if fields.get("written") else "", proposed)
    except CurationError as error:
        return {"refused": str(error)}
    return {
        "survivor": kept,
        "proposed": proposed,
        "model": settings.MERGER_MODEL if proposals.is_model_connected() else "",
        "would": would_words(kept.request, kept.change),
        "message_count": sum(topic.message_count for topic in topics),
        "chars": sum(topic.size_chars for topic in topics),
        "most_chars": settings.SPLIT_THRESHOLD_CHARS,
        "started_at": min(topic.started_at for topic in topics),
        "ended_at": max(topic.ended_at for topic in topics),
    }
