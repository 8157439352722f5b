"""What people may send."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

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
