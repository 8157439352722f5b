"""What people may send."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from memoryapp.engine.prompts import BUILT_IN, PromptText
from memoryapp.parameters import BOUNDS, STRATEGIES
from memoryapp.runs import LONGEST_QUERY

SHOWN = {
    "candidates": _("Candidates shown"),
    "max_topics": _("Topics at most"),
    "max_tool_calls": _("Tool turns at most"),
    "seconds": _("Seconds at most"),
}


class RecallForm(forms.Form):
    """A query and, folded away, the parameters of its run; an empty parameter means the default."""

    NOT_ALLOWED = _("Your role may look at runs but not start them. An admin can make you a debugger.")

    query = forms.CharField(
        label=_("Query"),
        max_length=LONGEST_QUERY,
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off", "type": "search"}),
        error_messages={"required": _("Type what the assistant should remember.")},
    )
    strategy = forms.ChoiceField(label=_("Strategy"), choices=[(name, name) for name in STRATEGIES], initial="flash")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, label in SHOWN.items():
            least, most = BOUNDS[name]
            self.fields[name] = forms.FloatField(label=label, required=False, min_value=least, max_value=most)

    def parameters(self) -> dict[str, Any]:
        """What was set by hand, as ``runs.start`` takes it."""
        given = {name: self.cleaned_data.get(name) for name in SHOWN}
        return {name: value if name == "seconds" else int(value) for name, value in given.items() if value is not None}


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
        """Browsers end lines with two characters; the stored texts, which diffs compare, with one."""
        text: str = self.cleaned_data[name]
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def text(self, name: str, language: str) -> PromptText:
        """What was sent, as the engine takes it; its version is the one it was made from."""
        sent = self.cleaned_data
        built_in = BUILT_IN[name, language]
        return replace(built_in, version=sent.get("base") or 0, system=sent["system"], user=sent["user"])
