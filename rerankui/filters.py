"""What lists understand in their address: bounded, and forgiving, for a link must outlive a renamed option."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.models import Artifact, ChatUser, Fact, Message, Person
from memoryapp.parameters import STRATEGIES
from rerankui.outcomes import SENTENCES

LONGEST_SEARCH = 200
MOST_OWNERS = 200
Choices = list[tuple[str, Any]]


def _choice(label: Any, first: Any, choices: Choices) -> forms.ChoiceField:
    field = forms.ChoiceField(label=label, required=False, choices=[("", first), *choices])
    field.widget.attrs.update({"class": "field", "aria-label": label})
    return field


class Filter(forms.Form):
    """``chosen`` holds what was readable; a value that is not counts as not given."""

    SORTS: dict[str, tuple[str, str]] = {}
    placeholder: Any = _("Search")

    q = forms.CharField(required=False, max_length=LONGEST_SEARCH)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        words = {"type": "search", "class": "field", "placeholder": self.placeholder, "aria-label": self.placeholder}
        self.fields["q"].widget = forms.TextInput(attrs={**words, "autocomplete": "off", "data-search": ""})

    @cached_property
    def chosen(self) -> dict[str, Any]:
        self.is_valid()
        return {name: self.cleaned_data.get(name) for name in self.fields}

    @property
    def sort(self) -> str:
        """The order's name; the first one where none was asked for."""
        asked = self.data.get("sort", "")
        return asked if asked in self.SORTS else next(iter(self.SORTS), "")

    @property
    def order(self) -> tuple[str, str]:
        return self.SORTS[self.sort]

    @property
    def is_narrowed(self) -> bool:
        return any(self.chosen.values())


class OwnerFilter(Filter):
    placeholder = _("Search chat users")
    SORTS = {"name": ("name", "id")}


class TopicFilter(Filter):
    placeholder = _("Search summaries, or Topic:42")
    SORTS = {
        "newest": ("-ended_at", "-id"),
        "oldest": ("ended_at", "id"),
        "longest": ("-size_chars", "-id"),
        "shortest": ("size_chars", "id"),
        "most": ("-message_count", "-id"),
        "fewest": ("message_count", "id"),
    }
    state = _choice(
        _("State"),
        pgettext_lazy("topics", "live"),
        [
            ("retired", pgettext_lazy("topics", "retired")),
            ("by_hand", pgettext_lazy("topics", "edited by hand")),
            ("consolidated", pgettext_lazy("topics", "consolidated")),
        ],
    )


class MessageFilter(Filter):
    placeholder = _("Search what was said")
    SORTS = {"newest": ("-sent_at", "-id")}
    role = _choice(_("Who"), pgettext_lazy("messages of", "everyone"), list(Message.Author.choices))
    place = _choice(
        _("Where"),
        _("all messages"),
        [("active", _("in no topic yet")), ("forwarded", pgettext_lazy("messages", "forwarded"))],
    )


class PersonFilter(Filter):
    placeholder = _("Search names, aliases, notes")
    SORTS = {"mentions": ("-mention_count", "-id"), "name": ("display_name", "id")}
    circle = _choice(_("Circle"), _("all circles"), list(Person.Circle.choices))


class ArtifactFilter(Filter):
    placeholder = _("Search names and contents")
    SORTS = {
        "newest": ("-created_at", "-id"),
        "oldest": ("created_at", "id"),
        "largest": ("-size_bytes", "-id"),
        "name": ("name", "id"),
    }
    state = _choice(_("State"), _("any state"), list(Artifact.State.choices))


class FactFilter(Filter):
    placeholder = _("Search facts")
    SORTS = {"importance": ("-importance", "-id"), "newest": ("-created_at", "-id"), "category": ("category", "id")}
    type = _choice(_("Type"), _("all types"), list(Fact.Type.choices))


class RunFilter(Filter):
    """``owners`` are the chat users whose runs may be listed. Two hundred can be picked, the address takes any."""

    placeholder = _("Words of the query")
    SORTS = {"newest": ("-created_at", "-id")}
    user = forms.CharField(required=False, max_length=LONGEST_SEARCH)
    strategy = _choice(_("Strategy"), _("All strategies"), [(name, name) for name in STRATEGIES])
    outcome = _choice(
        _("Outcome"),
        _("All outcomes"),
        [("chosen", _("the model chose")), *((name, name) for name in SENTENCES)],
    )

    def __init__(self, *args: Any, owners: QuerySet[ChatUser], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = {owner.name: str(owner) for owner in owners[:MOST_OWNERS]}
        if self.chosen["user"]:
            names.setdefault(self.chosen["user"], self.chosen["user"])
        self.fields["user"].widget = forms.Select(
            attrs={"class": "field", "aria-label": _("Chat user")},
            choices=[("", _("All chat users")), *names.items()],
        )
