"""The form of a change of topics: what was sent, what the change would do, and how it is made.

All pages that change topics send the same fields (``ChangeForm``). They become a request to curation, whose change is
shown first and made by ``commit``; its toast leads back. The form contains the topic numbers that the page showed, so
a change that somebody made meanwhile is noticed and not overwritten.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp import curation
from memoryapp.curation import OPERATIONS, Change, ChangeRequest, CurationError
from memoryapp.curation.change import MOST_MESSAGES, MOST_REASON_CHARS, MOST_TOPICS
from memoryapp.engine.memory import TopicDraft
from memoryapp.models import ChatUser, Suggestion, TopicEdit, TopicMessage
from rerankui import toasts
from rerankui.addresses import undo_address
from rerankui.curation.change_words import made_words

LARGEST_NUMBER = 2**63 - 1


class NumbersField(forms.Field):
    """Numbers under one name, repeated or separated by commas: forms are limited to a thousand fields,
    topics are not."""

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
    split again.
    """

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
    """The same request for the topics that replaced those it was about; None when they cannot be determined.

    As fields of a form, by name and value.
    """
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
