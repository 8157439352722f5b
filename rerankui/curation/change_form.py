"""The form of a change of topics: what was sent, what the change would do, and how it is made.

All pages that change topics send the same fields (``ChangeForm``). They become a ``StagedChange``, which is shown first
and made by ``commit``; its toast leads back. The form contains the topic numbers that the page showed, so a change that
somebody made meanwhile is noticed and not overwritten.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp import curation, suggestions
from memoryapp.curation.change import MOST_MESSAGES, MOST_REASON_CHARS, MOST_TOPICS, Change, CurationError
from memoryapp.curation.plans import Summarise
from memoryapp.curation.swapping import check_live
from memoryapp.engine.memory import TopicDraft
from memoryapp.models import ChatUser, Suggestion, Topic, TopicEdit, TopicMessage
from rerankui import toasts
from rerankui.addresses import undo_address
from rerankui.curation.change_words import made_words

KINDS = {
    "edit": TopicEdit.Kind.EDIT,
    "merge": TopicEdit.Kind.MERGE,
    "split": TopicEdit.Kind.SPLIT,
    "move": TopicEdit.Kind.MOVE,
    "resplit": TopicEdit.Kind.RESPLIT,
}
OF_ONE_TOPIC = {"edit", "split", "resplit"}
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
    """A change as it would be made: ``op`` is one of ``KINDS``, ``after`` the page to show then, if not the new topic.

    ``moved`` is how many messages a move takes to another topic; ``unnamed`` are the places of the new topics, from 1,
    for which nobody wrote a summary.
    """

    op: str
    change: Change
    moved: int = 0
    reason: str = ""
    after: str = ""
    suggestion: int | None = None
    unnamed: Sequence[int] = ()


class ChangeForm(forms.Form):
    """The fields that change topics.

    ``topics`` are those the page showed; ``summary`` occurs once for each resulting topic, empty to have it generated;
    ``at`` are the messages with which new parts begin; ``messages`` are those to move, and with ``following`` also all
    after the first of them; ``to`` is the topic they move to, or a new one; ``parts`` or ``at`` say how a topic is
    split again.
    """

    op = forms.ChoiceField(choices=[(name, name) for name in KINDS])
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

    def staged(self, owner: ChatUser, summarise: Summarise) -> StagedChange:
        """The change asked for, by a form that is valid. Raises CurationError, Stale, and what ``summarise`` raises."""
        sent = self.cleaned_data
        if not sent["topics"]:
            raise CurationError(_("Say which topics to change."))
        _check_seen(owner, sent["topics"])
        change = _PLANS[sent["op"]](owner, sent, summarise)
        return StagedChange(
            op=sent["op"],
            change=_with_summaries(change, sent["summary"]),
            moved=len(_messages_to_move(owner, sent)) if sent["op"] == "move" else 0,
            reason=sent["reason"],
            after=sent["next"],
            suggestion=sent["suggestion"],
            unnamed=_unnamed(sent, len(change.put)),
        )


def _unnamed(sent: Mapping[str, Any], count: int) -> range:
    if any(sent["summary"]):
        return range(0)
    return {"split": range(2, count + 1), "move": range(count, count + 1 - len(sent["to"][:1]))}.get(
        sent["op"], range(0)
    )


def _check_seen(owner: ChatUser, ids: Sequence[int]) -> None:
    check_live(owner, ids, dict(Topic.objects.of(owner).filter(pk__in=ids).values_list("pk", "is_live")))


def _edit(owner: ChatUser, sent: Mapping[str, Any], summarise: Summarise) -> Change:
    return curation.plan_edit(owner, sent["topics"][0], "".join(sent["summary"][:1]))


def _merge(owner: ChatUser, sent: Mapping[str, Any], summarise: Summarise) -> Change:
    return curation.plan_merge(owner, sent["topics"], "".join(sent["summary"][:1]))


def _split(owner: ChatUser, sent: Mapping[str, Any], summarise: Summarise) -> Change:
    given = sent["summary"] if len(sent["summary"]) == len(sent["at"]) + 1 else ()
    return curation.plan_split(owner, sent["topics"][0], sent["at"], given, summarise=summarise)


def _move(owner: ChatUser, sent: Mapping[str, Any], summarise: Summarise) -> Change:
    to = sent["to"][0] if sent["to"] else None
    own = sent["summary"][-1] if sent["summary"] and to is None else ""
    return curation.plan_move(owner, _messages_to_move(owner, sent), to, own, summarise=summarise)


def _messages_to_move(owner: ChatUser, sent: Mapping[str, Any]) -> Sequence[int]:
    chosen: Sequence[int] = sent["messages"]
    return _with_following(owner, sent["topics"], chosen) if sent["following"] and chosen else chosen


def _resplit(owner: ChatUser, sent: Mapping[str, Any], summarise: Summarise) -> Change:
    drafts = sent["parts"] or _split(owner, sent, summarise).put
    return curation.plan_resplit(owner, sent["topics"][0], drafts)


_PLANS: dict[str, Callable[[ChatUser, Mapping[str, Any], Summarise], Change]] = {
    "edit": _edit,
    "merge": _merge,
    "split": _split,
    "move": _move,
    "resplit": _resplit,
}


def _with_following(owner: ChatUser, topics: Sequence[int], chosen: Sequence[int]) -> list[int]:
    """The messages, and what follows the first of them in these topics."""
    listed = TopicMessage.objects.filter(owner=owner, topic__in=topics).order_by("message__sent_at", "message")
    ids = list(listed.values_list("message", flat=True))
    first = next((place for place, number in enumerate(ids) if number in set(chosen)), len(ids))
    return list(dict.fromkeys([*chosen, *ids[first:]]))


def _with_summaries(change: Change, summaries: Sequence[str]) -> Change:
    """The change with the summaries that people wrote, if there is one for each topic."""
    if len(summaries) != len(change.put):
        return change
    pairs = zip(change.put, summaries, strict=True)
    return replace(change, put=tuple(replace(draft, summary=summary or draft.summary) for draft, summary in pairs))


def retarget(form: ChangeForm, successors: Mapping[int, tuple[int, ...]]) -> list[tuple[str, str]] | None:
    """The same request for the topics that replaced those it was about; None when they cannot be determined.

    As fields of a form, by name and value.
    """
    sent = form.cleaned_data
    topics = [now for number in sent["topics"] for now in successors.get(number, (number,))]
    topics = list(dict.fromkeys(topics))
    if not topics or sent["op"] == "resplit" or (sent["op"] in OF_ONE_TOPIC and len(topics) > 1):
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


def commit(request: HttpRequest, owner: ChatUser, staged: StagedChange) -> TopicEdit:
    """Makes the change in the name of the operator and shows its toast. Raises CurationError, Stale."""
    kind, actor, reason = KINDS[staged.op], request.user.get_username(), staged.reason
    accepted = Suggestion.objects.filter(owner=owner, pk=staged.suggestion or 0).first()
    if accepted:
        edit = suggestions.accept(accepted, staged.change, kind=kind, actor=actor, reason=reason)
    else:
        edit = curation.swap(owner, staged.change, kind=kind, actor=actor, reason=reason)
    sentence = made_words(edit.kind, staged.change, staged.moved)
    toasts.add(request, sentence, undo_address(edit, staged.after), _("Undo"))
    return edit
