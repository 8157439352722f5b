"""Topics and their edits: changed through the functions of curation, with history and undo."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from memoryapp import curation, history, models, proposals
from memoryapp.admin.base import OwnedAdmin, ReadOnlyAdmin, actor_of, sentence_of
from memoryapp.curation import CurationError
from memoryapp.curation.bounds import too_many_splits
from memoryapp.curation.change import MOST_REASON_CHARS
from memoryapp.engine.embeddings import EmbeddingError
from memoryapp.engine.memory import topic_id

MOST_SPLIT_AT_ONCE = 20
Kind = models.TopicEdit.Kind


class TopicForm(forms.ModelForm):  # type: ignore[type-arg]
    """A summary and the reason for changing it. It is validated here, so a refused text stays in its field."""

    reason = forms.CharField(label=gettext_lazy("Reason"), required=False, max_length=MOST_REASON_CHARS)

    class Meta:
        model = models.Topic
        fields = ("summary",)

    def clean_summary(self) -> str:
        summary: str = self.cleaned_data["summary"]
        if "summary" in self.changed_data:
            try:
                curation.plan_edit(self.instance.owner, self.instance.pk, summary)
            except CurationError as error:
                raise forms.ValidationError(str(error)) from error
        return summary


@admin.register(models.Topic)
class TopicAdmin(OwnedAdmin):
    form = TopicForm
    list_display = ("__str__", "owner", "ended_at", "message_count", "size_chars", "is_live", "locked_by_hand")
    list_filter = ("is_live", "locked_by_hand", "is_consolidated", *OwnedAdmin.list_filter)
    search_fields = ("summary", "=id")
    fields = (
        "summary",
        "reason",
        "owner",
        ("started_at", "ended_at"),
        ("message_count", "size_chars"),
        ("is_live", "locked_by_hand"),
        ("is_consolidated", "consolidation_checked", "facts_extracted"),
        "created_at",
    )
    actions = ("merge_selected", "split_anew", "undo_last_edit")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return tuple(field.name for field in models.Topic._meta.fields if field.name not in ("id", "summary"))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Returns False for a retired topic, which stays as runs saw it."""
        return (obj is None or obj.is_live) and super().has_change_permission(request, obj)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if self.has_change_permission(request, obj):
            return self.fields
        return tuple(field for field in self.fields if field != "reason")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Swaps the topic for one with the new summary; the row of ``obj`` is unchanged."""
        if "summary" not in form.changed_data:
            return
        wanted = curation.plan_edit(obj.owner, obj.pk, form.cleaned_data["summary"])
        reason = form.cleaned_data["reason"]
        edit = curation.swap(obj.owner, wanted, kind=Kind.EDIT, actor=actor_of(request), reason=reason)
        [obj.swapped_for] = curation.put_in(edit)

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        """Redirects to the topic that replaced this one."""
        made = getattr(obj, "swapped_for", None)
        if made is None:
            return super().response_change(request, obj)
        names = {"old": topic_id(obj.pk), "new": topic_id(made.pk)}
        self.message_user(request, _("%(old)s was replaced by %(new)s.") % names, messages.SUCCESS)
        where = "changelist" if "_save" in request.POST else "change"
        arguments = [] if "_save" in request.POST else [made.pk]
        return HttpResponseRedirect(reverse(f"admin:memoryapp_topic_{where}", args=arguments))

    @admin.action(description=gettext_lazy("Merge the selected topics"))
    def merge_selected(self, request: HttpRequest, queryset: QuerySet[models.Topic]) -> None:
        topics = list(queryset.select_related("owner").order_by("started_at", "pk"))
        if len({topic.owner_id for topic in topics}) > 1:
            raise CurationError(_("Topics of several chat users cannot be merged."))
        owner = topics[0].owner
        change = curation.plan_merge(owner, [topic.pk for topic in topics])
        edit = curation.swap(owner, change, kind=Kind.MERGE, actor=actor_of(request))
        [made] = curation.put_in(edit)
        sentence = ngettext("Merged %(n)d topic into %(topic)s.", "Merged %(n)d topics into %(topic)s.", len(topics))
        self.message_user(request, sentence % {"n": len(topics), "topic": topic_id(made.pk)}, messages.SUCCESS)

    @admin.action(description=gettext_lazy("Split the selected topics again"))
    def split_anew(self, request: HttpRequest, queryset: QuerySet[models.Topic]) -> None:
        if queryset.count() > MOST_SPLIT_AT_ONCE:
            raise too_many_splits(MOST_SPLIT_AT_ONCE)
        for topic in queryset.select_related("owner").order_by("pk"):
            try:
                self._split(request, topic)
            except (CurationError, EmbeddingError) as error:
                self.message_user(request, f"{topic_id(topic.pk)}: {sentence_of(error)}", messages.ERROR)

    def _split(self, request: HttpRequest, topic: models.Topic) -> None:
        owner = topic.owner
        drafts = proposals.topics_segmented(owner, topic.pk)
        if len(drafts) < 2:
            raise CurationError(_("The segmenter would leave it whole."))
        change = curation.plan_resplit(owner, topic.pk, drafts)
        edit = curation.swap(owner, change, kind=Kind.RESPLIT, actor=actor_of(request))
        names = {"old": topic_id(topic.pk), "new": ", ".join(topic_id(new.pk) for new in curation.put_in(edit))}
        self.message_user(request, _("%(old)s was split into %(new)s.") % names, messages.SUCCESS)

    @admin.action(description=gettext_lazy("Undo the last edit of the selected topics"))
    def undo_last_edit(self, request: HttpRequest, queryset: QuerySet[models.Topic]) -> None:
        sides = models.EditedTopic.objects.filter(topic__in=queryset).order_by("topic", "-edit_id").distinct("topic")
        undo_each(self, request, [side.edit for side in sides.select_related("edit__owner")])


@admin.register(models.TopicEdit)
class TopicEditAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "kind", "actor", "reason", "at")
    list_filter = ("kind", *OwnedAdmin.list_filter)
    search_fields = ("actor", "reason")
    actions = ("undo",)

    @admin.action(description=gettext_lazy("Undo the selected edits"))
    def undo(self, request: HttpRequest, queryset: QuerySet[models.TopicEdit]) -> None:
        undo_each(self, request, list(queryset.select_related("owner")))


def undo_each(page: OwnedAdmin, request: HttpRequest, edits: list[models.TopicEdit]) -> None:
    """Undoes the newest edits first, because they may depend on older ones; shows the reason of each refusal."""
    for edit in sorted(set(edits), key=lambda edit: -edit.pk):
        try:
            history.undo(edit, actor=actor_of(request))
        except CurationError as error:
            page.message_user(request, f"{edit}: {sentence_of(error)}", messages.ERROR)
        else:
            page.message_user(request, _("Undone: %(what)s") % {"what": edit}, messages.SUCCESS)


@admin.register(models.TopicMessage)
class TopicMessageAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "topic_id", "message_id")
    raw_id_fields = ("owner", "topic", "message")
    search_fields = ("=topic__id", "=message__id")


@admin.register(models.EditedTopic)
class EditedTopicAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "edit_id", "side", "topic_id")
    list_filter = ("side", *OwnedAdmin.list_filter)
    raw_id_fields = ("owner", "edit", "topic")
    search_fields = ("=topic__id",)
