"""The form of a change of topics: what was sent, what the change would do, and how it is made.

All pages that change topics send the same fields (``ChangeForm``). They become a request to curation, whose change is
shown first and made by ``commit``; its toast leads back. The form contains the topic numbers that the page showed, so
a change that somebody made meanwhile is noticed and not overwritten."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django import forms
from django.conf import settings
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy, ngettext, pgettext
from django.utils.translation import gettext as _

from memoryapp import curation
from memoryapp.curation import MERGE, MERGER, MOVE, OPERATIONS, SPLIT, Change, ChangeRequest, CurationError
from memoryapp.curation.change import MOST_MESSAGES, MOST_REASON_CHARS, MOST_TOPICS, PROGRAM
from memoryapp.curation.suggestions import proposals
from memoryapp.curation.suggestions.proposals import ProposalError
from memoryapp.engine.agents import AGENTS, merger
from memoryapp.engine.memory import TopicDraft, topic_id
from memoryapp.erasure import expiry
from memoryapp.intake.transfer import RESTORED
from memoryapp.memory.content import content
from memoryapp.models import ChatUser, Message, Suggestion, Topic, TopicEdit, TopicMessage
from rerankui.frame import toasts
from rerankui.frame.toasts import undo_address
from rerankui.runs.page.outcomes import sentence_of
from rerankui.text import words

# A change as a sentence with numbers: before it is made, and afterwards.

MOST_SIZES = 8


def actor_words(actor: str) -> str:
    """Who did it: an operator or a token, the program or its agent where nobody asked, or whom a file names."""
    if actor == PROGRAM:
        return pgettext("who", "the program")
    if actor == expiry.PROGRAM:
        return pgettext("who", "a rule of what expires")
    if agent := AGENTS.get(merger.AGENT.name if actor == MERGER else actor):
        return pgettext("who", "the %(agent)s") % {"agent": gettext(agent.label)}
    if actor.startswith(RESTORED):
        return pgettext("who", "%(name)s (says a restored file)") % {"name": actor.removeprefix(RESTORED)}
    return actor


def would_words(request: ChangeRequest, change: Change) -> str:
    """What will happen: ``3 topics with 214 messages become one.``"""
    return str(request.operation.words.would) % _facts(request, change)


def made_words(request: ChangeRequest, change: Change) -> str:
    """What was done, for a toast: ``Merged 3 topics, 214 messages``"""
    return str(request.operation.words.made) % _facts(request, change)


def parts_words(sizes: list[int]) -> str:
    """``3 topics: 12, 8, 5 messages``."""
    return _("%(topics)s: %(sizes)s messages") % {"topics": _topics(len(sizes)), "sizes": _listed(sizes)}


def _facts(request: ChangeRequest, change: Change) -> dict[str, str]:
    sizes, moved = [len(draft.messages) for draft in change.put], len(request.messages)
    return {
        "named": ", ".join(map(topic_id, change.out[:5])),
        "topics": _topics(len(change.out)),
        "before": _topics(len(change.out)),
        "after": _topics(len(change.put)),
        "messages": words.messages(sum(sizes)),
        "moved": ngettext("%(n)d message goes", "%(n)d messages go", moved) % {"n": moved},
        "messages_moved": words.messages(moved),
        "sizes": _listed(sizes),
    }


def _topics(count: int) -> str:
    return ngettext("%(n)d topic", "%(n)d topics", count) % {"n": count}


def _listed(sizes: list[int]) -> str:
    shown = ", ".join(map(str, sizes[:MOST_SIZES]))
    return shown if len(sizes) <= MOST_SIZES else f"{shown}, …"


LARGEST_NUMBER = 2**63 - 1


class NumbersField(forms.Field):
    """Numbers under one name, repeated or between commas: forms are limited to a thousand fields, topics are not."""

    widget = forms.MultipleHiddenInput
    default_error_messages = {
        "invalid": gettext_lazy("This is not a list of numbers."),
        "many": gettext_lazy("Too many."),
    }

    def to_python(self, value: Any) -> list[int]:
        texts = [text.strip() for given in value or () for text in str(given).split(",") if text.strip()]
        if len(texts) > MOST_MESSAGES:
            raise forms.ValidationError(self.error_messages["many"], "many")
        if not all(text.isdecimal() and int(text) <= LARGEST_NUMBER for text in texts):
            raise forms.ValidationError(self.error_messages["invalid"], "invalid")
        return list(dict.fromkeys(map(int, texts)))


class TextsField(forms.Field):
    """Texts under one name, as many as there are topics; empty ones keep their place."""

    widget = forms.MultipleHiddenInput

    def to_python(self, value: Any) -> list[str]:
        return [str(text).replace("\r\n", "\n").replace("\0", "").strip() for text in (value or ())[:MOST_TOPICS]]


class PartsField(forms.CharField):
    """``[{"summary": "…", "messages": [1, 2]}]`` as drafts."""

    def clean(self, value: Any) -> list[TopicDraft]:
        try:
            return [_draft(item) for item in json.loads(super().clean(value) or "[]")]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise forms.ValidationError(_("The parts are not readable."), "invalid") from error


def _draft(item: Mapping[str, Any]) -> TopicDraft:
    return TopicDraft(str(item["summary"]).strip(), tuple(int(number) for number in item["messages"]))


@dataclass(frozen=True, slots=True)
class StagedChange:
    """What is asked for, and the change that it would make."""

    request: ChangeRequest
    change: Change


class ChangeForm(forms.Form):
    """The fields that change topics.

    ``topics`` are those the page showed; ``summary`` occurs once for each resulting topic, empty to have it generated;
    ``at`` are the messages with which new parts begin; ``messages`` are those to move, and with ``following`` also all
    after the first of them; ``to`` is the topic they move to, or a new one; ``parts`` or ``at`` say how a topic is
    split again."""

    op = forms.ChoiceField(choices=lambda: [(name, name) for name in OPERATIONS])
    topics = NumbersField(required=False)
    summary = TextsField(required=False)
    at = NumbersField(required=False)
    messages = NumbersField(required=False)
    following = forms.BooleanField(required=False)
    to = NumbersField(required=False)
    parts = PartsField(required=False, max_length=2_000_000)
    reason = forms.CharField(required=False, max_length=MOST_REASON_CHARS)
    next = forms.CharField(required=False, max_length=2_000)
    suggestion = forms.IntegerField(required=False, min_value=1, max_value=LARGEST_NUMBER)

    def wanted(self, owner: ChatUser) -> ChangeRequest:
        """What a valid form asks for. Raises CurationError."""
        sent = self.cleaned_data
        if not sent["topics"]:
            raise CurationError(_("Say which topics to change."))
        return ChangeRequest(
            OPERATIONS[sent["op"]],
            owner,
            tuple(sent["topics"]),
            messages=tuple(_messages(owner, sent)),
            to=sent["to"][0] if sent["to"] else None,
            at=tuple(sent["at"]),
            summaries=tuple(sent["summary"]),
            parts=tuple(sent["parts"]),
        )

    def staged(self, owner: ChatUser) -> StagedChange:
        """Raises CurationError, Stale."""
        wanted = self.wanted(owner)
        return StagedChange(wanted, curation.plan(wanted))


def _messages(owner: ChatUser, sent: Mapping[str, Any]) -> Sequence[int]:
    chosen: Sequence[int] = sent["messages"]
    return _with_following(owner, sent["topics"], chosen) if sent["following"] and chosen else chosen


def _with_following(owner: ChatUser, topics: Sequence[int], chosen: Sequence[int]) -> list[int]:
    """The messages, and what follows the first of them in these topics."""
    listed = TopicMessage.objects.filter(owner=owner, topic__in=topics).order_by("message__sent_at", "message")
    ids = list(listed.values_list("message", flat=True))
    first = next((place for place, number in enumerate(ids) if number in set(chosen)), len(ids))
    return list(dict.fromkeys([*chosen, *ids[first:]]))


def retarget(form: ChangeForm, successors: Mapping[int, tuple[int, ...]]) -> list[tuple[str, str]] | None:
    """The same request for the topics that replaced those it was about; None when they cannot be determined. As fields
    of a form, by name and value."""
    sent = form.cleaned_data
    topics = [now for number in sent["topics"] for now in successors.get(number, (number,))]
    topics = list(dict.fromkeys(topics))
    repeats = OPERATIONS[sent["op"]].repeats
    if not topics or repeats == "none" or (repeats == "one" and len(topics) > 1):
        return None
    to = [now for number in sent["to"] for now in successors.get(number, (number,))[:1]]
    return fields_of(form, topics=topics, to=to)


def fields_of(form: ChangeForm, **other: Sequence[int]) -> list[tuple[str, str]]:
    """The fields that were sent, without the summaries of a preview, the reason, and what is in ``other``."""
    sent = {**form.cleaned_data, **other}
    lists = ("topics", "at", "messages", "to")
    fields = [(name, ",".join(map(str, sent[name]))) for name in lists if sent[name]]
    fields += [(name, str(sent[name])) for name in ("op", "following", "next", "suggestion") if sent[name]]
    if sent["parts"]:
        parts = [{"summary": draft.summary, "messages": draft.messages} for draft in sent["parts"]]
        fields.append(("parts", json.dumps(parts, ensure_ascii=False)))
    return fields


def commit(request: HttpRequest, owner: ChatUser, form: ChangeForm) -> TopicEdit:
    """Makes the change in the name of the operator and shows its toast. Raises CurationError, Stale."""
    wanted, sent = form.wanted(owner), form.cleaned_data
    accepted = list(Suggestion.objects.filter(owner=owner, pk=sent["suggestion"] or 0))
    made = curation.make(wanted, actor=request.user.get_username(), reason=sent["reason"], accepts=accepted)
    toasts.add(request, made_words(wanted, made.change), undo_address(made.edit, sent["next"]), _("Undo"))
    return made.edit


# Whose summary the merged topic gets: one member's, all of them composed, the model's, or what a person wrote.
#
# The page fills in the field at once; without JavaScript the choice and the field arrive together, and a field that
# still says what all of them composed say, or what the model proposed, was not written by anybody.

COMPOSED = "composed"
MODEL = "model"


@dataclass(frozen=True, slots=True)
class Survivor:
    """The ``chosen`` one, a topic's number, ``COMPOSED`` or ``MODEL``; ``request`` and ``change`` have the summary of
    the field."""

    chosen: str
    composed: str
    request: ChangeRequest
    change: Change

    @property
    def summary(self) -> str:
        return self.change.put[0].summary


def survivor(owner: ChatUser, topics: Sequence[Topic], chosen: str, written: str = "", proposed: str = "") -> Survivor:
    """The summary that was ``chosen``, ``written`` or ``proposed`` by the model. Raises CurationError, Stale."""
    wanted = ChangeRequest(MERGE, owner, tuple(topic.pk for topic in topics))
    change = curation.plan(wanted)
    merged = change.put[0]
    summaries = {str(topic.pk): topic.summary for topic in topics} | ({MODEL: proposed} if proposed else {})
    kept = chosen if chosen in summaries else COMPOSED
    is_own = bool(written) and written not in (merged.summary, proposed)
    summary = written if is_own else summaries.get(kept) or merged.summary
    changed = replace(change, put=(replace(merged, summary=summary),))
    return Survivor(kept, merged.summary, replace(wanted, summaries=(summary,)), changed)


# Why there is no proposal, in the reader's language.


def failure_words(error: CurationError | ProposalError) -> str:
    """The sentence of the error; what the model's client says in it comes as a code and is put into words here."""
    note = error.note if isinstance(error, ProposalError) else None
    return _("The model made no proposal: %(why)s") % {"why": sentence_of(note)} if note else str(error)


# The summary that is proposed for a new topic while a person looks at the change that would make it.

# Of a change with more new topics, the first ones are asked for.
MOST_ASKED = 4


@dataclass(frozen=True, slots=True)
class ProposedSummary:
    """``by`` is the model, empty for the most telling sentences; ``why`` says why the model made none."""

    summary: str
    by: str = ""
    why: str | Promise = ""


def unnamed(request: ChangeRequest, change: Change) -> range:
    """The places of the new topics, from 1, for which nobody wrote a summary."""
    count = len(change.put)
    if any(request.summaries):
        return range(0)
    if request.operation is SPLIT:
        return range(2, count + 1)
    return range(count, count + 1) if request.operation is MOVE and request.to is None else range(0)


def outdated(request: ChangeRequest, change: Change) -> range:
    """The places, from 1, of the topics whose summaries were written for other messages: those that a move leaves."""
    if request.operation is not MOVE:
        return range(0)
    return range(1, len(change.put) + (request.to is not None))


def proposed_summary(owner: ChatUser, topics: Sequence[int], draft: TopicDraft) -> ProposedSummary:
    """For the messages of ``draft``, which are in these topics; one question to a connected model."""
    messages = [content(row) for row in Message.objects.of(owner).filter(pk__in=draft.messages).in_order()]
    shown = list(Topic.objects.of(owner).filter(pk__in=topics).order_by("pk"))
    why: str | Promise = gettext_lazy("No chat model is connected.")
    if proposals.is_model_connected():
        try:
            return ProposedSummary(proposals.part_summary(owner, shown, messages), settings.MERGER_MODEL)
        except ProposalError as error:
            why = failure_words(error)
    return ProposedSummary(proposals.summary_extracted(messages), "", why)
