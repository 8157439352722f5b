"""Filters of lists, read from the address: bounded and lenient, because a link must outlive a renamed option."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any, cast
from urllib.parse import urlencode

from django import forms
from django.db.models import Q, QuerySet
from django.http import QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.engine.strategies import STRATEGIES
from memoryapp.history import Narrowing
from memoryapp.models import Artifact, ChatUser, Fact, KnowledgeEdit, Message, Person, TopicEdit
from memoryapp.models.agent import named_agents
from memoryapp.models.topic import edit_kinds
from rerankui.curation.change_form import LARGEST_NUMBER, NumbersField
from rerankui.curation.change_words import actor_words
from rerankui.runs.page.outcomes import CHOICES, NAMES, NO_ANSWER

LONGEST_SEARCH = 200
MOST_OWNERS = 200
Options = list[tuple[str, Any]]
_NOUNS = [("person", _("people")), ("fact", _("facts")), ("artifact", _("artifacts"))]


def _choice(label: Any, first: Any, choices: Options | Callable[[], Options]) -> forms.ChoiceField:
    """``choices`` may be a function, for what is known only when the form is shown."""
    field = forms.ChoiceField(
        label=label, required=False, choices=lambda: [("", first), *(choices() if callable(choices) else choices)]
    )
    field.widget.attrs.update({"class": "field", "aria-label": label})
    return field


class _MomentInput(forms.DateTimeInput):
    """Shows the exact moment of a link as a minute on the reader's clock, because a browser's field has no time zone.

    Rounded up with ``later``, so that the rows listed by the link stay listed when the form is sent.
    """

    def __init__(self, later: timedelta, **options: Any) -> None:
        super().__init__(format="%Y-%m-%dT%H:%M", **options)
        self._later = later

    def format_value(self, value: Any) -> str | None:
        try:
            moment = parse_datetime(value) if isinstance(value, str) else None
        except ValueError:
            moment = None
        is_exact = moment and moment.tzinfo
        return super().format_value(timezone.localtime(moment) + self._later if is_exact else value)


def _moment(label: Any, later: timedelta = timedelta(0)) -> forms.DateTimeField:
    """A moment on the reader's clock, as every page writes them."""
    words = {"class": "field", "type": "datetime-local", "aria-label": label, "title": label}
    return forms.DateTimeField(label=label, required=False, widget=_MomentInput(later, attrs=words))


class Choices(forms.Form):
    """``chosen`` contains the values that could be read; others count as not given."""

    @cached_property
    def chosen(self) -> dict[str, Any]:
        self.is_valid()
        return {name: self.cleaned_data.get(name) for name in self.fields}

    @property
    def is_narrowed(self) -> bool:
        return any(self.chosen.values())


class Filter(Choices):
    """Choices with a search and an order."""

    SORTS: dict[str, tuple[str, str]] = {}
    placeholder: Any = _("Search")

    q = forms.CharField(required=False, max_length=LONGEST_SEARCH)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        words = {"type": "search", "class": "field", "placeholder": self.placeholder, "aria-label": self.placeholder}
        typed = {"autocomplete": "off", "data-search": "", "dir": "auto"}
        self.fields["q"].widget = forms.TextInput(attrs={**words, **typed})

    @property
    def sort(self) -> str:
        """The order's name; the first one where none was asked for."""
        asked = self.data.get("sort", "")
        return asked if asked in self.SORTS else next(iter(self.SORTS), "")

    @property
    def order(self) -> tuple[str, str]:
        return self.SORTS[self.sort or next(iter(self.SORTS))]


class MeaningFilter(Filter):
    """A list searched by its words, or by meaning as a recall searches; then it has the order of the scores."""

    by = _choice(_("How to search"), _("by words"), [("meaning", _("by meaning"))])

    @property
    def is_by_meaning(self) -> bool:
        return self.chosen["by"] == "meaning" and bool(self.chosen["q"])

    @property
    def is_narrowed(self) -> bool:
        return any(value for name, value in self.chosen.items() if name != "by")

    @property
    def sort(self) -> str:
        """Nothing for a search by meaning, which has an order of its own."""
        return "" if self.is_by_meaning else super().sort


class OwnerFilter(Filter):
    placeholder = _("Search chat users")
    SORTS = {"name": ("name", "id")}


class TopicFilter(MeaningFilter):
    """``topics`` are the numbers of those to list, of all of them when there are none."""

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
    # those picked elsewhere, on the map for one
    topics = NumbersField(required=False)


class MessageFilter(MeaningFilter):
    placeholder = _("Search what was said")
    SORTS = {"newest": ("-sent_at", "-id")}
    role = _choice(_("Who"), pgettext_lazy("messages of", "everyone"), list(Message.Author.choices))
    place = _choice(
        _("Where"),
        _("all messages"),
        [
            ("active", _("in no topic yet")),
            ("forwarded", pgettext_lazy("messages", "forwarded")),
            ("withdrawn", pgettext_lazy("messages", "withdrawn")),
        ],
    )


class PersonFilter(MeaningFilter):
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


class FactFilter(MeaningFilter):
    placeholder = _("Search facts")
    SORTS = {"importance": ("-importance", "-id"), "newest": ("-created_at", "-id"), "category": ("category", "id")}
    type = _choice(_("Type"), _("all types"), list(Fact.Type.choices))
    time = _choice(
        _("True when"),
        _("true today"),
        [("past", pgettext_lazy("facts", "true in the past")), ("all", _("ever noted"))],
    )


class OfOwnersFilter(Filter):
    """``owners`` are the chat users whose rows may be listed. Two hundred can be picked, the address takes any."""

    user = forms.CharField(required=False, max_length=LONGEST_SEARCH)

    def __init__(self, *args: Any, owners: QuerySet[ChatUser], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = {owner.name: str(owner) for owner in owners[:MOST_OWNERS]}
        if self.chosen["user"]:
            names.setdefault(self.chosen["user"], self.chosen["user"])
        self.fields["user"].widget = forms.Select(
            attrs={"class": "field", "aria-label": _("Chat user")},
            choices=[("", _("all chat users")), *names.items()],
        )


class RunFilter(OfOwnersFilter):
    placeholder = _("Words of the query")
    SORTS = {
        "newest": ("-created_at", "-id"),
        "oldest": ("created_at", "id"),
        "longest": ("-seconds", "-id"),
        "shortest": ("seconds", "id"),
        "costliest": ("-cost_usd", "-id"),
    }
    strategy = _choice(_("Strategy"), _("all strategies"), [(name, name) for name in STRATEGIES])
    outcome = _choice(
        _("Outcome"),
        _("all outcomes"),
        [*CHOICES.items(), *NAMES.items()],
    )


class ClusterFilter(Choices):
    """``topics`` are the ticked ones of a cluster, ``least`` is the score from which on all may be accepted at once."""

    USUAL = 0.9
    SCORES = ("1.00", "0.95", "0.90", "0.85", "0.80", "0.75", "0.70", "0.60", "0.50")
    topics = NumbersField(required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["from"] = forms.ChoiceField(
            label=_("Score"), required=False, choices=[(score, f"≥ {score}") for score in self.SCORES]
        )
        self.fields["from"].widget.attrs.update({"class": "field", "aria-label": _("Score")})
        # What is not in the address is shown as chosen, too.
        shown = cast(QueryDict, self.data).copy()
        shown["from"] = f"{self.least:.2f}"
        self.data = shown

    @property
    def least(self) -> float:
        asked = self.data.get("from", "")
        known = [float(score) for score in self.SCORES]
        try:
            return min(known, key=lambda score: abs(score - float(asked)))
        except ValueError:
            return self.USUAL


class AgentFilter(OfOwnersFilter):
    placeholder = _("Model, prompt or person, or Topic:42")
    # By number alone, which is the order in time and needs no index of its own.
    SORTS = {"newest": ("-id", "-id")}
    TOPIC = re.compile(r"\s*Topic:(\d{1,18})\s*", re.IGNORECASE)

    agent = _choice(_("Agent"), _("all agents"), named_agents)
    outcome = _choice(
        _("Outcome"),
        _("all outcomes"),
        [("answered", _("answered")), ("none", pgettext_lazy("agents", "no answer")), *NO_ANSWER.items()],
    )

    @property
    def topic(self) -> int | None:
        """The topic that the search names."""
        found = self.TOPIC.fullmatch(self.chosen["q"] or "")
        return int(found[1]) if found else None


class HistoryFilter(Filter):
    """``about`` is one topic, person, fact or artifact when the search names it; ``actors`` who changed anything."""

    ABOUT = re.compile(r"\s*(Topic|Person|Fact|Artifact):(\d{1,18})\s*", re.IGNORECASE)

    # No user is called so: names have no blanks.
    EVERYBODY = "people and program"

    placeholder = _("Words of a reason, or Topic:42, Person:5")
    noun = _choice(_("What"), _("everything"), [("topic", _("topics")), *_NOUNS])
    kind = _choice(
        pgettext_lazy("noun", "Change"),
        _("any change"),
        lambda: list(dict([*edit_kinds(), *KnowledgeEdit.Kind.choices]).items()),
    )
    since = _moment(_("From"))
    until = _moment(_("Until"), later=timedelta(minutes=1))

    def __init__(self, *args: Any, actors: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        everybody = (self.EVERYBODY, pgettext_lazy("changes by", "everyone"))
        names = [(name, actor_words(name)) for name in actors]
        self.fields["actor"] = _choice(_("Who"), pgettext_lazy("changes", "by people"), [everybody, *names])

    @property
    def is_of_people(self) -> bool:
        """Whether what the program did by itself is folded away: unless somebody asks for it, or for one row's."""
        chosen = self.chosen
        is_programs = chosen["kind"] in (TopicEdit.Kind.ARCHIVE, TopicEdit.Kind.MERGE)
        return not (chosen["actor"] or is_programs or self.ABOUT.fullmatch(chosen["q"] or ""))

    @property
    def narrowing(self) -> Narrowing:
        chosen = self.chosen
        about = self.ABOUT.fullmatch(chosen["q"] or "")
        return Narrowing(
            kind=chosen["kind"] or "",
            noun=about[1].lower() if about else chosen["noun"] or "",
            actor="" if chosen["actor"] == self.EVERYBODY else chosen["actor"] or "",
            since=chosen["since"],
            until=chosen["until"],
            number=int(about[2]) if about else None,
            words="" if about else chosen["q"] or "",
            by_people=self.is_of_people,
        )


class ReviewFilter(Choices):
    """The findings of one topic, of one noun, or of both. The archivist finds facts and people, and no artifacts."""

    noun = _choice(_("What"), _("everything"), [choice for choice in _NOUNS if choice[0] != "artifact"])
    topic = forms.IntegerField(required=False, min_value=1, max_value=LARGEST_NUMBER, widget=forms.HiddenInput)

    @property
    def wanted(self) -> Q:
        return Q(**{name: value for name, value in self.chosen.items() if value})

    @property
    def query(self) -> str:
        """The query of an address that keeps this narrowing; empty for everything."""
        chosen = {name: value for name, value in self.chosen.items() if value}
        return f"?{urlencode(chosen)}" if chosen else ""
