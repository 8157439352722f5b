"""People, artifacts and facts: saved and deleted through their functions, so that every change has a history."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from memoryapp import knowledge, models
from memoryapp.admin.base import OwnedAdmin, ReadOnlyAdmin, actor_of, sentence_of
from memoryapp.curation import CurationError

Noun = models.KnowledgeEdit.Noun


class KnowledgeForm(forms.ModelForm):  # type: ignore[type-arg]
    """Validates with the rules of the saving function, so that the text stays in its field."""

    noun = ""

    def clean(self) -> dict[str, Any]:
        sent = super().clean() or self.cleaned_data
        try:
            editable = {name: sent[name] for name in knowledge.EDITABLE[self.noun] if name in sent}
            knowledge.cleaned(Noun(self.noun), editable)
        except CurationError as error:
            raise forms.ValidationError(str(error)) from error
        return sent


class RowAdmin(OwnedAdmin):
    """The rows of one noun; fields that no person may edit are read-only."""

    noun = ""
    raw_id_fields = ("owner",)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = type("RowForm", (KnowledgeForm,), {"noun": self.noun})
        return super().get_form(request, obj, change=change, **{"form": form, **kwargs})

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        editable = knowledge.EDITABLE[self.noun]
        return ("owner", *editable) if obj is None else (*editable, *self.get_readonly_fields(request, obj))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return ()
        shown = [field.name for field in self.model._meta.fields if field.name not in knowledge.EDITABLE[self.noun]]
        return tuple(name for name in shown if name != "id")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        names = knowledge.EDITABLE[self.noun]
        if not change:
            values = {name: form.cleaned_data[name] for name in names}
            made = knowledge.create(obj.owner, Noun(self.noun), values, actor=actor_of(request), **self.fixed())
            obj.pk = int(next(iter(made.after)))
            return
        values = {name: form.cleaned_data[name] for name in names if name in form.changed_data}
        if values:
            seen = {name: form.initial[name] for name in values}
            knowledge.edit(obj.owner, obj, values, seen=seen, actor=actor_of(request))

    def fixed(self) -> dict[str, Any]:
        """Values of a new row that are not on the form."""
        return {}

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        knowledge.delete(obj.owner, obj, actor=actor_of(request))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for row in queryset.select_related("owner"):
            knowledge.delete(row.owner, row, actor=actor_of(request))


@admin.register(models.Person)
class PersonAdmin(RowAdmin):
    noun = Noun.PERSON
    list_display = ("display_name", "owner", "circle", "username", "mention_count", "last_seen")
    list_filter = ("circle", *OwnedAdmin.list_filter)
    search_fields = ("display_name", "username", "bio")
    actions = ("merge_selected",)

    @admin.action(description=gettext_lazy("Merge the selected people into the most mentioned one"))
    def merge_selected(self, request: HttpRequest, queryset: QuerySet[models.Person]) -> None:
        people = list(queryset.select_related("owner").order_by("-mention_count", "pk"))
        if len({person.owner_id for person in people}) > 1:
            raise CurationError(_("People of several chat users cannot be merged."))
        survivor, *others = people
        knowledge.merge_people(survivor.owner, survivor, others, actor=actor_of(request))
        sentence = ngettext("Merged %(n)d person into %(name)s", "Merged %(n)d people into %(name)s", len(others))
        self.message_user(request, sentence % {"n": len(others), "name": survivor}, messages.SUCCESS)


@admin.register(models.Artifact)
class ArtifactAdmin(RowAdmin):
    noun = Noun.ARTIFACT
    list_display = ("name", "owner", "file_type", "state", "size_bytes", "created_at")
    list_filter = ("state", "file_type", *OwnedAdmin.list_filter)
    search_fields = ("name", "summary", "=sha256")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Returns False, because an artifact is made from its file."""
        return False


@admin.register(models.Fact)
class FactAdmin(RowAdmin):
    noun = Noun.FACT
    list_display = ("__str__", "owner", "relation", "category", "type", "importance")
    list_filter = ("type", ("superseded_at", admin.EmptyFieldListFilter), *OwnedAdmin.list_filter)
    search_fields = ("content", "relation", "category")

    def fixed(self) -> dict[str, Any]:
        return {"created_at": timezone.now()}


@admin.register(models.KnowledgeEdit)
class KnowledgeEditAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "noun", "kind", "actor", "reason", "at")
    list_filter = ("noun", "kind", *OwnedAdmin.list_filter)
    search_fields = ("actor", "reason")
    actions = ("undo",)

    @admin.action(description=gettext_lazy("Undo the selected changes"))
    def undo(self, request: HttpRequest, queryset: QuerySet[models.KnowledgeEdit]) -> None:
        for change in queryset.select_related("owner").order_by("-pk"):
            try:
                knowledge.undo(change.owner, change, actor=actor_of(request))
            except CurationError as error:
                self.message_user(request, f"{change}: {sentence_of(error)}", messages.ERROR)
            else:
                self.message_user(request, _("Undone: %(what)s") % {"what": change}, messages.SUCCESS)
