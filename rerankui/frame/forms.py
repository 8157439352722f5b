"""The forms of pages: what people may send."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from django import forms
from django.conf import settings
from django.db.models import QuerySet
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryapp.engine.memory import LONGEST_PHRASES
from memoryapp.engine.parameters import CONTEXTS, LONGEST_NAME
from memoryapp.engine.prompt_registry import built_in
from memoryapp.engine.prompts.prompt import PromptText
from memoryapp.engine.sight import as_project, sight
from memoryapp.engine.strategies import ANSWERING, DEFAULT, PLAIN, PLANNING, STRATEGIES
from memoryapp.insight.evaluation import filter_lab
from memoryapp.insight.evaluation.filter_lab import Preset
from memoryapp.models import ApiToken, ChatUser
from memoryapp.models.user import CAP_USD, SILENCE_SECONDS
from memoryapp.runs.lifecycle import LONGEST_QUERY
from memoryapp.runs.parameters import ParameterError, all_declarations, strategy_named, validate
from memoryapp.search.profiles import serving_profile
from rerankui.frame.rows import LinesField
from rerankui.runs.page.filter_chart import LABELS

SHOWN = {
    "candidates": _("Candidates shown"),
    "max_topics": _("Topics at most"),
    "max_tool_calls": _("Tool turns at most"),
    "seconds": _("Seconds at most"),
}
_CONTEXTS = [("", _("as usual")), *zip(CONTEXTS, (_("passages"), _("whole topics")), strict=True)]
# what a scope opens, in the order one reads them
ALLOWS: Mapping[str, Promise] = {
    ApiToken.Scope.RECALL: _("Ask a memory, and read the resulting runs."),
    ApiToken.Scope.INGEST: _("Add messages to a memory."),
    ApiToken.Scope.READ: _("Read topics with their messages, and all runs."),
    ApiToken.Scope.CURATE: _("Merge, split, move and reword topics, write facts, and undo any change."),
    ApiToken.Scope.AUDIT: _("Read who did what with these memories."),
    ApiToken.Scope.FORGET: _("Erase single messages of these memories, for good."),
}


_DURATION = re.compile(r"\s*+(\d{1,7})\s*+([mhdмчд])\s*+", re.IGNORECASE)
_SECONDS = {"m": 60, "м": 60, "h": 3600, "ч": 3600, "d": 86_400, "д": 86_400}
_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"))


def duration(seconds: float) -> str:
    """``6h``, ``45m`` or ``2d``, the largest unit that says it whole; seconds as ``30s``."""
    for unit, letter in _UNITS:
        if seconds >= unit and not seconds % unit:
            return f"{seconds / unit:g}{letter}"
    return f"{seconds:g}s"


class DurationField(forms.CharField):
    """Whole seconds, written as ``45m``, ``6h`` or ``2d``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=20, **options)

    def prepare_value(self, value: Any) -> Any:
        return duration(value) if isinstance(value, int) else value

    def clean(self, value: Any) -> int | None:
        written = super().clean(value)
        if not written:
            return None
        match = _DURATION.fullmatch(written)
        if not match:
            raise forms.ValidationError(_("Write a number and a unit: 45m, 6h or 2d."))
        seconds = int(match[1]) * _SECONDS[match[2].lower()]
        least, most = SILENCE_SECONDS
        if not least <= seconds <= most:
            raise forms.ValidationError(_("It must be between 1m and 30d."))
        return seconds


def _strategies() -> list[tuple[str, str]]:
    return [(name, name) for name in STRATEGIES if settings.ENABLE_AGENT or name not in PLANNING]


def _presets() -> Mapping[str, Preset]:
    """The presets of the filter for the embedding model in use, built-in ones first, by name."""
    serving = serving_profile().name
    return {preset.name: preset for preset in filter_lab.of_profile(serving, filter_lab.profile_named(serving))}


class RecallForm(forms.Form):
    """A query and, folded away, the parameters of its run; an empty parameter means the default."""

    NOT_ALLOWED = _("Your role may look at runs but not start them. An admin can make you a debugger.")

    query = forms.CharField(
        label=_("Query"),
        max_length=LONGEST_QUERY,
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off", "type": "search", "dir": "auto"}),
        error_messages={"required": _("Type what the assistant should remember.")},
    )
    strategy = forms.ChoiceField(label=_("Strategy"), choices=_strategies, initial=DEFAULT.name)
    context = forms.ChoiceField(label=_("Context for the assistant"), choices=_CONTEXTS, required=False)
    preset = forms.ChoiceField(label=_("Cuts of the filter"), required=False)
    since = forms.DateField(label=_("Only since"), required=False)
    until = forms.DateField(label=_("Only until"), required=False)
    channel = forms.CharField(label=_("Only in this chat"), max_length=LONGEST_NAME, required=False)
    author = forms.CharField(label=_("Only by this author"), max_length=LONGEST_NAME, required=False)
    must_phrases = forms.CharField(label=_("Must contain"), max_length=LONGEST_PHRASES, required=False)
    should_phrases = forms.CharField(label=_("Better if it contains"), max_length=LONGEST_PHRASES, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        known = all_declarations()
        for name, label in {**SHOWN, **LABELS}.items():
            least, most = known[name].least, known[name].most
            self.fields[name] = forms.FloatField(
                label=cast(str, label), required=False, min_value=least, max_value=most
            )
        self._presets = _presets()
        preset = self.fields["preset"]
        assert isinstance(preset, forms.ChoiceField)
        preset.choices = [("", _("default")), *((name, each.title) for name, each in self._presets.items())]

    def clean(self) -> dict[str, Any]:
        if "strategy" not in self.cleaned_data:
            return self.cleaned_data
        try:
            validate(self.parameters(), strategy_named(self.cleaned_data["strategy"]))
        except ParameterError as error:
            raise forms.ValidationError(str(error)) from error
        return self.cleaned_data

    @property
    def strategies(self) -> list[str]:
        return [name for name, _label in _strategies()]

    @property
    def has_limits(self) -> bool:
        """Whether any parameter is set, in what was sent or linked."""
        return any(self[name].value() for name in self.fields if name not in ("query", "strategy"))

    def parameters(self) -> dict[str, Any]:
        """The parameters that a person set, as ``runs.start`` takes them: a cut that is set goes before its preset."""
        known = all_declarations()
        given = {name: self.cleaned_data.get(name) for name in known}
        typed = {name: known[name].kind(value) for name, value in given.items() if value not in (None, "")}
        preset = self._presets.get(self.cleaned_data.get("preset", ""))
        return {**preset.values, **typed} if preset else typed


class BadProject(Exception):
    """A project was named that cannot be one, or that the operator does not see; the text is a sentence for people."""


def project_sent(text: str) -> str:
    """The label of a project as a person typed it; empty for what is common to all, which nobody fills who sees only
    some projects. Raises BadProject."""
    try:
        label = as_project(text)
    except ValueError:
        raise BadProject(gettext("The name of a project is one line of at most 64 characters.")) from None
    if sight().projects is not None and label not in sight().own:
        raise BadProject(gettext("You see only some projects of this memory: choose one of them."))
    return label


class ProjectsField(LinesField):
    """The projects of somebody who sees only some, one a line; None for who sees the whole memory."""

    widget = forms.Textarea(attrs={"class": "field", "rows": 2, "cols": False, "autocomplete": "off", "dir": "auto"})

    def clean(self, value: Any) -> list[str] | None:
        try:
            return list(dict.fromkeys(map(as_project, super().clean(value)))) or None
        except ValueError:
            raise forms.ValidationError(_("The name of a project is one line of at most 64 characters.")) from None


class AskForm(forms.Form):
    """A question, and who answers it: one strategy or several side by side."""

    NOT_ALLOWED = _("Your role may read answers but not ask. An admin can make you a debugger.")
    STRATEGIES = tuple(sorted(STRATEGIES, key=lambda name: (name not in ANSWERING, name not in PLANNING)))

    query = forms.CharField(max_length=LONGEST_QUERY, error_messages={"required": _("Type a question.")})
    strategies = forms.MultipleChoiceField(
        choices=[(name, name) for name in STRATEGIES],
        error_messages={"required": _("Choose who answers."), "invalid_choice": _("There is no such strategy.")},
    )

    @property
    def has_react(self) -> bool:
        return bool(settings.ENABLE_AGENT)

    def clean_strategies(self) -> list[str]:
        """In the order of the form; *plain* in place of *react* while that is switched off."""
        chosen = set(self.cleaned_data["strategies"])
        if chosen & PLANNING and not self.has_react:
            chosen = chosen - PLANNING | {PLAIN.name}
        return [name for name in self.STRATEGIES if name in chosen]


class PromptForm(forms.Form):
    """A prompt as somebody edits it. ``base`` is the version it was made from, ``seen`` the newest one they know of."""

    LONGEST = 40_000

    system = forms.CharField(label=_("System message"), max_length=LONGEST, strip=False)
    user = forms.CharField(label=_("User message"), max_length=LONGEST, strip=False)
    note = forms.CharField(label=_("What changed"), max_length=500, required=False)
    base = forms.IntegerField(min_value=0, max_value=2**31 - 1, required=False)
    seen = forms.IntegerField(min_value=0, max_value=2**31 - 1, required=False)

    def clean_system(self) -> str:
        return self._with_plain_lines("system")

    def clean_user(self) -> str:
        return self._with_plain_lines("user")

    def _with_plain_lines(self, name: str) -> str:
        """Browsers end lines with two characters, stored texts with one; diffs compare the latter."""
        text: str = self.cleaned_data[name]
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def text(self, name: str, language: str) -> PromptText:
        """What was sent, as the engine takes it; its version is the one it was made from."""
        new = self.cleaned_data
        return replace(built_in()[name, language], version=new.get("base") or 0, system=new["system"], user=new["user"])


class TokenForm(forms.Form):
    """The form of a token: ``users`` are the chat users whose memories it opens; none means every memory. Chat users
    are given by name: the first ones are boxes to tick, and any can be typed, one a line."""

    LISTED = 30
    UNKNOWN_LISTED = 3
    ONE_LINE = _("A token’s name is one line of at most 200 characters.")

    name = forms.CharField(
        label=_("Name"),
        max_length=200,
        error_messages={"required": _("Name what or whom the token is for."), "max_length": ONE_LINE},
        widget=forms.TextInput(attrs={"class": "field", "autocomplete": "off", "autofocus": True}),
    )
    scopes = forms.MultipleChoiceField(
        choices=[(scope, ApiToken.Scope(scope).label) for scope in ALLOWS],
        error_messages={"required": _("Choose what it may do."), "invalid_choice": _("There is no such scope.")},
        widget=forms.CheckboxSelectMultiple,
    )
    whose = forms.ChoiceField(
        choices=[("chosen", _("only these chat users’ memories")), ("every", _("every memory, also those to come"))],
        error_messages={"required": _("Choose the memories that it gives access to.")},
        widget=forms.RadioSelect,
    )
    daily_cap_usd = forms.FloatField(
        label=_("Cap of a day, $"),
        required=False,
        min_value=CAP_USD[0],
        max_value=CAP_USD[1],
        widget=forms.NumberInput(attrs={"class": "field", "step": "any"}),
    )
    owners = forms.Field(required=False, widget=forms.CheckboxSelectMultiple)
    projects = ProjectsField(label=_("Only these projects"))
    names = forms.CharField(
        label=_("Other chat users, one a line"),
        required=False,
        max_length=20_000,
        widget=forms.Textarea(attrs={"class": "field", "rows": 2, "cols": False, "autocomplete": "off"}),
    )

    def __init__(self, *args: Any, seen: QuerySet[ChatUser], **kwargs: Any) -> None:
        listed = list(seen.order_by("name").defer("profile")[: self.LISTED + 1])
        kwargs["initial"] = {"whose": "chosen" if listed else "every"}
        super().__init__(*args, **kwargs)
        self.seen, self.has_more = seen, len(listed) > self.LISTED
        boxes = self.fields["owners"].widget
        assert isinstance(boxes, forms.CheckboxSelectMultiple)
        boxes.choices = [(owner.name, str(owner)) for owner in listed[: self.LISTED]]

    @property
    def scope_boxes(self) -> list[tuple[Any, Promise]]:
        return [(box, ALLOWS[box.data["value"]]) for box in self["scopes"]]

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if not name.isprintable():
            raise forms.ValidationError(self.ONE_LINE)
        if ApiToken.objects.filter(name=name, revoked_at__isnull=True).exists():
            error = _("A token in force is called “%(name)s” already. Choose another name, or revoke that one first.")
            raise forms.ValidationError(error, params={"name": name})
        return name

    def clean(self) -> dict[str, Any]:
        sent = self.cleaned_data
        sent["users"] = self._users(sent) if sent.get("whose") == "chosen" else []
        return sent

    def _users(self, sent: Mapping[str, Any]) -> list[ChatUser]:
        typed = [line.strip() for line in sent.get("names", "").splitlines()]
        wanted = dict.fromkeys(name.replace("\0", "") for name in [*(sent.get("owners") or ()), *typed] if name)
        found = {owner.name: owner for owner in self.seen.filter(name__in=wanted).defer("profile")}
        for name in [name for name in wanted if name not in found][: self.UNKNOWN_LISTED]:
            self.add_error("owners", _("There is no chat user “%(name)s”.") % {"name": name})
        if not wanted:
            self.add_error("owners", _("Choose at least one chat user, or give access to every memory."))
        return list(found.values())


class MemoryForm(forms.Form):
    name = forms.CharField(
        max_length=200,
        widget=forms.TextInput(attrs={"class": "field", "autocomplete": "off"}),
        error_messages={"required": _("Type whose memory it is.")},
    )


class ThresholdsForm(forms.Form):
    threshold = forms.FloatField(min_value=0, max_value=1)
    consolidation_threshold = forms.FloatField(min_value=0, max_value=1)
