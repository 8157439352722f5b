"""Filters of lists, read from the address: bounded and lenient, because a link must outlive a renamed option."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cached_property, reduce
from operator import or_
from types import MappingProxyType
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

from django import forms
from django.db.models import Model, Q, QuerySet
from django.http import QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.curation.history import Narrowing
from memoryapp.models import ChatUser, KnowledgeEdit, TopicEdit
from memoryapp.models.agent import named_agents
from memoryapp.models.topic import edit_kinds
from rerankui.curation.change_form import LARGEST_NUMBER, NumbersField, actor_words
from rerankui.runs.page.outcomes import NO_ANSWER

LONGEST_SEARCH = 200
MOST_OWNERS = 200
Options = list[tuple[str, Any]]
Row = TypeVar("Row", bound=Model)
_NOUNS = [("person", _("people")), ("fact", _("facts")), ("artifact", _("artifacts"))]
# What a choice asks of rows: that a column has its value, lookups or a condition for each value, or a condition of it.
By = str | Mapping[str, Any] | Callable[[str], Q]


def choice(label: Any, first: Any, choices: Options | Callable[[], Options], by: By = MappingProxyType({})) -> Any:
    """``choices`` may be a function, for what is known only when the form is shown; ``first`` stands for no value."""
    field = forms.ChoiceField(
        label=label, required=False, choices=lambda: [("", first), *(choices() if callable(choices) else choices)]
    )
    field.widget.attrs.update({"class": "field", "aria-label": label})
    field.by = by  # type: ignore[attr-defined]
    return field


class _MomentInput(forms.DateTimeInput):
    """Shows the exact moment of a link as a minute on the reader's clock, because a browser's field has no time zone.
    Rounded up with ``later``, so that the rows listed by the link stay listed when the form is sent."""

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
    """Choices with a search and an order. ``WORDS`` are the columns in which the words of a search are sought."""

    SORTS: dict[str, tuple[str, str]] = {}
    WORDS: tuple[str, ...] = ()
    placeholder: Any = _("Search")

    q = forms.CharField(required=False, max_length=LONGEST_SEARCH)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        words = {"type": "search", "class": "field", "placeholder": self.placeholder, "aria-label": self.placeholder}
        typed = {"autocomplete": "off", "data-search": "", "dir": "auto"}
        self.fields["q"].widget = forms.TextInput(attrs={**words, **typed})

    def worded(self, rows: QuerySet[Row]) -> QuerySet[Row]:
        """The rows of which one of the columns contains the words."""
        words = self.chosen["q"]
        sought = [Q(**{f"{column}__icontains": words}) for column in self.WORDS]
        return rows.filter(reduce(or_, sought)) if words and sought else rows

    def fitting(self, rows: QuerySet[Row]) -> QuerySet[Row]:
        """The rows that fit the choices, whatever their words."""
        conditions = [each if isinstance(each, Q) else Q(**each) for each in self._asked()]
        return rows.filter(*conditions) if any(conditions) else rows

    def among(self, rows: Iterable[Row]) -> list[Row]:
        """The same of rows in memory: those that contain the words and fit the choices."""
        lookups = [found for each in self._asked() for found in dict(each).items()]
        words = (self.chosen["q"] or "").casefold()
        return [row for row in rows if self._contains(row, words) and all(_holds(row, *each) for each in lookups)]

    def _contains(self, row: Model, words: str) -> bool:
        return not words or any(words in text.casefold() for column in self.WORDS for text in _texts(row, column))

    def _asked(self) -> Iterator[Any]:
        """What each choice asks: lookups by name, or a condition."""
        for name, field in self.fields.items():
            by, value = getattr(field, "by", None), self.chosen[name] or ""
            if isinstance(by, Mapping):
                yield by.get(value, {})
            elif by and value:
                yield {by: value} if isinstance(by, str) else by(value)

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

    by = choice(_("How to search"), _("by words"), [("meaning", _("by meaning"))])

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


def _texts(row: Model, column: str) -> Sequence[str]:
    value = getattr(row, column)
    return [str(each) for each in value] if isinstance(value, list) else [value]


def _holds(row: Model, lookup: str, value: Any) -> bool:
    """Whether the row fits a lookup: that a column is a value, or is none (``isnull``)."""
    column, _marks, is_none = lookup.partition("__")
    found = getattr(row, column)
    return bool((found is None) == value if is_none else found == value)


class OwnerFilter(Filter):
    placeholder = _("Search chat users")
    SORTS = {"name": ("name", "id")}


class OfOwnersFilter(Filter):
    """``owners`` are the chat users whose rows may be listed. Two hundred can be picked, the address takes any."""

    user = forms.CharField(required=False, max_length=LONGEST_SEARCH)
    user.by = "owner__name"  # type: ignore[attr-defined]

    def __init__(self, *args: Any, owners: QuerySet[ChatUser], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.owners = owners
        names = {owner.name: str(owner) for owner in owners[:MOST_OWNERS]}
        if self.chosen["user"]:
            names.setdefault(self.chosen["user"], self.chosen["user"])
        self.fields["user"].widget = forms.Select(
            attrs={"class": "field", "aria-label": _("Chat user")}, choices=[("", _("all chat users")), *names.items()]
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

    WORDS = ("model", "prompt_version", "asked_by")
    agent = choice(_("Agent"), _("all agents"), named_agents, by="agent")
    outcome = choice(
        _("Outcome"),
        _("all outcomes"),
        [("answered", _("answered")), ("none", pgettext_lazy("agents", "no answer")), *NO_ANSWER.items()],
        by=lambda value: ~Q(outcome="") if value == "none" else Q(outcome="" if value == "answered" else value),
    )

    @property
    def topic(self) -> int | None:
        found = self.TOPIC.fullmatch(self.chosen["q"] or "")
        return int(found[1]) if found else None

    def worded(self, rows: QuerySet[Row]) -> QuerySet[Row]:
        return super().worded(rows) if self.topic is None else rows.filter(topics__contains=[self.topic])


class HistoryFilter(Filter):
    """``about`` is one topic, person, fact or artifact when the search names it; ``actors`` who changed anything."""

    ABOUT = re.compile(r"\s*(Topic|Person|Fact|Artifact):(\d{1,18})\s*", re.IGNORECASE)

    # No user is called so: names have no blanks.
    EVERYBODY = "people and program"

    placeholder = _("Words of a reason, or Topic:42, Person:5")
    noun = choice(_("What"), _("everything"), [("topic", _("topics")), *_NOUNS])
    kind = choice(
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
        self.fields["actor"] = choice(_("Who"), pgettext_lazy("changes", "by people"), [everybody, *names])

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

    noun = choice(_("What"), _("everything"), [choice for choice in _NOUNS if choice[0] != "artifact"])
    topic = forms.IntegerField(required=False, min_value=1, max_value=LARGEST_NUMBER, widget=forms.HiddenInput)

    @property
    def wanted(self) -> Q:
        return Q(**{name: value for name, value in self.chosen.items() if value})

    @property
    def query(self) -> str:
        """The query of an address that keeps this narrowing; empty for everything."""
        chosen = {name: value for name, value in self.chosen.items() if value}
        return f"?{urlencode(chosen)}" if chosen else ""
