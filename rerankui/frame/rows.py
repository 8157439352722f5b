"""A person, a fact or an artifact as its pages handle it: its address, and the fields that people may send. A form
contains the values that its page showed (``seen``), so a change that somebody made meanwhile is noticed: fields that a
person did not edit take the new values, edited fields are kept and shown beside them."""

import json
from collections.abc import Mapping
from typing import Any

from django import forms
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from memoryapp.curation.change import MOST_REASON_CHARS
from memoryapp.curation.knowledge import EDITABLE, LISTS, Row
from memoryapp.engine.sight import LONGEST, sight
from memoryapp.memory.content import projects_of
from memoryapp.models import Fact, Person
from memoryapp.models.knowledge import MOST_FACT_CHARS

LISTS_OF = {"person": "people", "fact": "facts", "artifact": "artifacts", "topic": "topics"}
LONGEST_TEXT = 20_000


def row_id(noun: str, number: int | str) -> str:
    """``Person:5``."""
    return f"{noun.capitalize()}:{number}"


def page_address(noun: str, owner_id: int, pk: int) -> str:
    return reverse(noun, args=[pk] if noun == "topic" else [owner_id, pk])


def list_address(noun: str, owner_id: int) -> str:
    return reverse(LISTS_OF[noun], args=[owner_id])


def values_of(noun: str, row: Row) -> dict[str, Any]:
    """What of the row can be edited."""
    return {name: getattr(row, name) for name in EDITABLE[noun]}


class LinesField(forms.CharField):
    """A list of texts, each on a line of its own."""

    widget: type[forms.Textarea] | forms.Textarea = forms.Textarea

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, max_length=LONGEST_TEXT, help_text=_("One a line."), **kwargs)

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> Any:
        return [line.strip() for line in super().clean(value).splitlines() if line.strip()]


def _line(label: Any, most: int, *, required: bool = True) -> forms.CharField:
    return forms.CharField(label=label, max_length=most, required=required)


def _text(label: Any, most: int = LONGEST_TEXT, *, required: bool = False) -> forms.CharField:
    return forms.CharField(label=label, max_length=most, required=required, widget=forms.Textarea)


class SeenField(forms.JSONField):
    """JSON that the page sent itself. What somebody else nested too deeply to be read is as invalid as no JSON."""

    widget = forms.HiddenInput

    def to_python(self, value: Any) -> Any:
        try:
            return super().to_python(value)
        except RecursionError:
            raise forms.ValidationError(self.error_messages["invalid"], "invalid") from None

    def bound_data(self, data: Any, initial: Any) -> Any:
        try:
            return super().bound_data(data, initial)
        except RecursionError:
            return ""


class RowForm(forms.Form):
    """``seen`` is what the page showed when it was drawn, as JSON; nothing for a row that is to be."""

    noun = ""

    seen = SeenField(required=False)
    reason = forms.CharField(label=_("Reason"), required=False, max_length=MOST_REASON_CHARS)

    project = forms.CharField(label=_("Project"), required=False, max_length=LONGEST)

    def __init__(self, *args: Any, row: Row | None = None, **kwargs: Any) -> None:
        if row is not None:
            values = values_of(self.noun, row)
            kwargs["initial"] = {**values, "seen": values, **kwargs.get("initial", {})}
        super().__init__(*args, **kwargs)
        # Where there are no projects, nobody has to know of them.
        if not ("project" in self.data or len(sight().own) > 1 or (row and projects_of(row.owner))):
            del self.fields["project"]
        for field in self.fields.values():
            field.widget.attrs.setdefault("class", "field")
            field.widget.attrs.setdefault("autocomplete", "off")
            field.widget.attrs.setdefault("dir", "auto")
            if isinstance(field.widget, forms.Textarea):
                field.widget.attrs |= {"rows": 3, "cols": False}

    def clean_seen(self) -> dict[str, Any] | None:
        """Only what can be edited counts; anything else was not drawn by us."""
        sent = self.cleaned_data["seen"]
        if not isinstance(sent, dict):
            return None
        known = {name: sent[name] for name in EDITABLE[self.noun] if name in sent}
        return {name: value for name, value in known.items() if isinstance(value, list if name in LISTS else str | int)}

    @property
    def values(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in EDITABLE[self.noun] if name in self.fields}

    @property
    def shown(self) -> list[forms.BoundField]:
        """Returns what a person may change, in the order of declaration: what is changed most often comes first."""
        return [self[name] for name in self.fields if name in EDITABLE[self.noun]]

    def over(self, current: Mapping[str, Any]) -> dict[str, Any]:
        """What was sent where it differs from what was seen, else what the row says by now."""
        seen = self.cleaned_data["seen"] or {}
        return {name: value if value != seen.get(name) else current[name] for name, value in self.values.items()}


class PersonForm(RowForm):
    noun = "person"

    display_name = _line(_("Name"), 200)
    aliases = LinesField(label=_("Also called"))
    username = _line(_("Username"), 100, required=False)
    circle = forms.ChoiceField(label=_("Circle"), choices=Person.Circle.choices, initial=Person.Circle.OTHER)
    bio = _text(_("About"))


class FactForm(RowForm):
    noun = "fact"

    content = _text(_("Fact"), MOST_FACT_CHARS, required=True)
    relation = _line(_("Relation"), 100)
    category = _line(_("Category"), 100)
    type = forms.ChoiceField(label=_("Type"), choices=Fact.Type.choices)
    importance = forms.IntegerField(label=_("Importance, 0 to 100"), min_value=0, max_value=100, initial=50)


class ArtifactForm(RowForm):
    noun = "artifact"

    name = _line(_("File name"), 300)
    summary = _text(_("Summary"))
    keywords = LinesField(label=_("Keywords"))
    entities = LinesField(label=_("Entities"))
    rag_hints = LinesField(label=_("Answers"))


FORMS: Mapping[str, type[RowForm]] = {form.noun: form for form in (PersonForm, FactForm, ArtifactForm)}


def seen_json(values: Mapping[str, Any]) -> str:
    return json.dumps(dict(values), ensure_ascii=False)
