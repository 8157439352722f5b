"""Every other table, read-only: one loop over the models, and what a table shows where that is more than its name."""

from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.contrib.postgres.search import SearchVectorField
from django.db.models import ForeignKey, Model
from django.urls import reverse
from pgvector.django import HalfVectorField

from memoryapp import models
from memoryapp.admin.base import ReadOnlyAdmin

OF_OWNER = ("owner", admin.RelatedOnlyFieldListFilter)


@dataclass(frozen=True, slots=True)
class Rows:
    """What the list of a table shows: names of fields, divided by blanks.

    ``filters`` narrow it, beside the chat user; a field with ``?`` is filtered by whether it is empty. ``unlisted`` are
    large columns that the list does not read, ``hidden`` ones are shown nowhere. ``page`` is the route at which one row
    is curated, ``fields`` are those of the page of one row where these are not all.
    """

    columns: str
    filters: str = ""
    search: str = ""
    unlisted: str = ""
    hidden: str = ""
    page: str = ""
    fields: tuple[str | tuple[str, ...], ...] | None = None
    ordering: tuple[str, ...] = ("-pk",)

    def options(self, model: type[Model]) -> dict[str, Any]:
        """The attributes of the table's class. Vectors are never read, chat users with their list."""
        fields = {field.name: field for field in model._meta.fields}
        columns = self.columns.split()
        vectors = [name for name, field in fields.items() if isinstance(field, HalfVectorField | SearchVectorField)]
        filters = [(key[:-1], admin.EmptyFieldListFilter) if key[-1] == "?" else key for key in self.filters.split()]
        options = {
            "list_display": columns,
            "list_filter": [*filters, *([OF_OWNER] if "owner" in fields else [])],
            "list_select_related": [name for name in columns if isinstance(fields.get(name), ForeignKey)],
            "search_fields": self.search.split(),
            "unfetched": [*vectors, *self.hidden.split()],
            "unlisted": self.unlisted.split(),
            "fields": self.fields,
            "ordering": self.ordering,
        }
        return options | ({"view_on_site": self._place} if self.page else {})

    def _place(self, row: Any) -> str:
        """The address of the page where the row is curated."""
        return reverse(self.page, args=[row.pk] if self.page == "topic" else [row.owner_id, row.pk])


TABLES: dict[type[Model], Rows] = {
    models.AgentCall: Rows(
        "id owner agent at asked_by model prompt_version outcome cost_usd", "agent outcome", unlisted="events"
    ),
    models.Artifact: Rows(
        "name owner file_type state size_bytes created_at", "state file_type", "name summary =sha256", page="artifact"
    ),
    models.BulkTopic: Rows("id owner work_id topic_id state tries fault", "state"),
    models.BulkWork: Rows("id owner kind state asked_by asked_at at", "kind state"),
    models.Card: Rows("id owner __str__ person_id artifact_id made_from", search="text"),
    models.CardVector: Rows("id owner card_id profile dimensions", "profile"),
    models.EditedTopic: Rows("id owner edit_id side topic_id", "side", "=topic__id"),
    models.Erasure: Rows("pk kind owner_number actor began_at ended_at verified_at", hidden="touched lengths"),
    models.ExpiringRow: Rows("id owner batch_id number kept_by", search="=number"),
    models.ExpiryBatch: Rows("id owner rule state count at due_at ended_at", "state"),
    models.ExpiryRule: Rows("id noun kind days condition grace_days is_on made_by made_at", "noun is_on"),
    models.Evaluation: Rows("source strategy started_at", "strategy"),
    models.Fact: Rows(
        "__str__ owner relation category type importance",
        "type superseded_at?",
        "content relation category",
        page="fact",
    ),
    models.Finding: Rows("__str__ owner noun state decided_by decided_at", "noun state", "decided_by"),
    models.FindingMessage: Rows("id owner finding_id message_id"),
    models.ForgetRequest: Rows("id owner message_id asked_by at"),
    models.GoldenAlarm: Rows("id owner night_id at"),
    models.GoldenNight: Rows("nightly at state reason is_alarm mail", "state is_alarm"),
    models.GoldenQuestion: Rows("collection owner question category made_by at", "collection", "question category"),
    models.Grade: Rows("run_id owner message_id value operator at", "value", "=run__id =message__id"),
    models.Heartbeat: Rows("process at", search="process"),
    models.ImportBatch: Rows("source owner format added skipped started_at", "format", "source"),
    models.ImportFile: Rows("source owner format state asked_by asked_at", "state", "source"),
    models.ItemVector: Rows("id owner item_id profile", "profile"),
    models.Judgement: Rows("run_id owner is_good operator at", "is_good", "=run__id"),
    models.KnowledgeEdit: Rows("id owner noun kind actor reason at", "noun kind", "actor reason", page="undo_change"),
    models.Media: Rows("__str__ owner type mime_type size_bytes created_at", "type", "name =sha256"),
    models.Message: Rows("id owner sent_at role author __str__ topic_id", "role", "text author =external_id"),
    models.Miss: Rows(
        "question owner stage state remedy reported_by at",
        "state stage remedy",
        "question expected answer",
        page="miss",
    ),
    models.NightlyRun: Rows("collection strategy hour zone is_on next_at made_by", "is_on strategy"),
    models.Passage: Rows("id owner __str__ term_count", search="text"),
    models.PassageMessage: Rows("id owner passage_id message_id", search="=passage__id =message__id"),
    models.PassageVector: Rows("id owner passage_id profile dimensions", "profile"),
    models.Pause: Rows("kind owner by at", "kind"),
    models.Person: Rows(
        "display_name owner circle username mention_count last_seen",
        "circle",
        "display_name username bio",
        page="person",
    ),
    models.Prompt: Rows(
        "__str__ in_force forced_by forced_at note made_by made_at",
        "name language in_force",
        "note made_by",
        unlisted="system user",
    ),
    models.QueryVector: Rows("run_id owner profile", "profile"),
    models.RawReply: Rows("event_id owner", search="=event__run__id", unlisted="message"),
    models.RefusedText: Rows("id owner profile reason tries retry_at", "profile"),
    models.Run: Rows(
        "short_id owner query strategy state fallback selected_count created_at",
        "state strategy fallback",
        "query =id",
        ordering=("-created_at", "-id"),
    ),
    models.RunEvent: Rows("id owner run_id seq kind at", "kind", "=run__id", unlisted="payload"),
    models.RunProgress: Rows("run_id owner turn at", search="=run__id"),
    models.SavedView: Rows("id owner list name user is_shared at", "list is_shared"),
    models.StagePause: Rows("kind by at"),
    models.StoredItem: Rows("id owner namespace key updated_at", search="=key text"),
    models.Suggestion: Rows("__str__ owner state score decided_by decided_at", "kind state", "decided_by"),
    models.Topic: Rows(
        "__str__ owner ended_at message_count size_chars is_live locked_by_hand",
        "is_live locked_by_hand is_consolidated",
        "summary =id",
        page="topic",
        fields=(
            "summary",
            "owner",
            ("started_at", "ended_at"),
            ("message_count", "size_chars"),
            ("is_live", "locked_by_hand"),
            ("is_consolidated", "consolidation_checked", "facts_extracted"),
            "created_at",
        ),
    ),
    models.TopicEdit: Rows("id owner kind actor reason at", "kind", "actor reason", page="undo_preview"),
    models.TopicMessage: Rows("id owner topic_id message_id", search="=topic__id =message__id"),
    models.TopicVector: Rows("id owner topic_id profile", "profile"),
    models.Trace: Rows("number owner run_id has_root", search="=number =run__id"),
    models.TraceSpan: Rows("span owner trace_id", search="=span", unlisted="body"),
    models.UnreadTopic: Rows("topic_id owner state attempts due_at fault", "state"),
    models.Webhook: Rows("name address state off_reason made_by made_at", "state", "name"),
    models.WebhookDelivery: Rows("id webhook kind subject state status fault at", "state kind webhook"),
    models.Work: Rows("kind owner source state worker done share at", "kind state", "source"),
}
# Sessions of the browser are keys to the program, so nobody is shown them.
HIDDEN = (models.LoginSession,)

for _model in apps.get_app_config("memoryapp").get_models():
    if _model not in HIDDEN and not admin.site.is_registered(_model):
        _rows = TABLES.get(_model, Rows("__str__ owner" if hasattr(_model, "owner") else "__str__"))
        admin.site.register(_model, ReadOnlyAdmin, **_rows.options(_model))
