"""People, artifacts, facts and their changes, read-only. A link leads to the page where they are curated."""

from __future__ import annotations

from django.contrib import admin
from django.urls import reverse

from memoryapp import models
from memoryapp.admin.base import OwnedAdmin, ReadOnlyAdmin


@admin.register(models.Person)
class PersonAdmin(ReadOnlyAdmin):
    list_display = ("display_name", "owner", "circle", "username", "mention_count", "last_seen")
    list_filter = ("circle", *OwnedAdmin.list_filter)
    search_fields = ("display_name", "username", "bio")

    def view_on_site(self, obj: models.Person) -> str:
        return reverse("person", args=[obj.owner_id, obj.pk])


@admin.register(models.Artifact)
class ArtifactAdmin(ReadOnlyAdmin):
    list_display = ("name", "owner", "file_type", "state", "size_bytes", "created_at")
    list_filter = ("state", "file_type", *OwnedAdmin.list_filter)
    search_fields = ("name", "summary", "=sha256")

    def view_on_site(self, obj: models.Artifact) -> str:
        return reverse("artifact", args=[obj.owner_id, obj.pk])


@admin.register(models.Fact)
class FactAdmin(ReadOnlyAdmin):
    list_display = ("__str__", "owner", "relation", "category", "type", "importance")
    list_filter = ("type", ("superseded_at", admin.EmptyFieldListFilter), *OwnedAdmin.list_filter)
    search_fields = ("content", "relation", "category")

    def view_on_site(self, obj: models.Fact) -> str:
        return reverse("fact", args=[obj.owner_id, obj.pk])


@admin.register(models.KnowledgeEdit)
class KnowledgeEditAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "noun", "kind", "actor", "reason", "at")
    list_filter = ("noun", "kind", *OwnedAdmin.list_filter)
    search_fields = ("actor", "reason")

    def view_on_site(self, obj: models.KnowledgeEdit) -> str:
        return reverse("undo_change", args=[obj.owner_id, obj.pk])
