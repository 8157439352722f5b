"""A chat user's own settings: when sessions end, how small topics may be, and what is done automatically."""

import re
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp.engine.parameters import USUAL_CERTAINTY
from memoryapp.memory import content
from memoryapp.models import ChatUser, Role
from memoryapp.models.user import CERTAINTY, SESSION_MESSAGES, SILENCE_SECONDS, TOPIC_MESSAGES
from rerankui.frame.access import open_to

# The form of a chat user's memory settings: an empty number means what the program's settings say.

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


def _number(label: Any, help_text: Any, least: int, most: int) -> forms.IntegerField:
    bounds = gettext_lazy("Write a whole number from %(least)d to %(most)d, or leave it empty.")
    sentence = bounds % {"least": least, "most": most}
    widget = forms.TextInput(attrs={"class": "field", "inputmode": "numeric", "autocomplete": "off"})
    errors = {"invalid": sentence, "min_value": sentence, "max_value": sentence}
    return forms.IntegerField(
        label=label,
        help_text=help_text,
        required=False,
        min_value=least,
        max_value=most,
        widget=widget,
        error_messages=errors,
    )


class MemorySettingsForm(forms.Form):
    """All of a chat user's own settings. ``values`` are the fields of the row."""

    silence_seconds = DurationField(
        label=gettext_lazy("Pause that ends a session"),
        help_text=gettext_lazy("After a pause of this length the talk is archived into topics. Write 45m, 6h or 2d."),
        required=False,
        widget=forms.TextInput(attrs={"class": "field", "autocomplete": "off"}),
    )
    session_messages = _number(
        gettext_lazy("Maximum of messages in a session"),
        gettext_lazy("A talk without a pause is archived when it has this many."),
        *SESSION_MESSAGES,
    )
    topic_messages = _number(
        gettext_lazy("Minimum of messages in a topic"),
        gettext_lazy("A smaller one is joined to a neighbour of the same session. 1 joins nothing."),
        *TOPIC_MESSAGES,
    )
    least_certainty = _number(
        gettext_lazy("Least certainty of a choice, %"),
        gettext_lazy("Without a chat model, what is less sure is handed over as possibly related."),
        *CERTAINTY,
    )
    consolidation = forms.ChoiceField(
        label=gettext_lazy("Similar topics"),
        help_text=gettext_lazy("What happens to topics about the same matter."),
        choices=ChatUser.Consolidation.choices,
        error_messages={"invalid_choice": gettext_lazy("There is no such choice.")},
        widget=forms.RadioSelect,
    )
    extraction = forms.ChoiceField(
        label=gettext_lazy("Facts and people"),
        help_text=gettext_lazy("What happens to what a chat model extracts from new topics."),
        choices=ChatUser.Extraction.choices,
        error_messages={"invalid_choice": gettext_lazy("There is no such choice.")},
        widget=forms.RadioSelect,
    )

    def __init__(self, data: QueryDict | None, owner: ChatUser) -> None:
        super().__init__(data, initial={name: getattr(owner, name) for name in self.base_fields})
        silence = {"value": duration(settings.CHUNK_INTERVAL), "people": duration(settings.CHUNK_INTERVAL_PEOPLE)}
        defaults = {
            "silence_seconds": _("%(value)s, between people %(people)s") % silence,
            "session_messages": str(settings.MAX_CHUNK_SIZE),
            "topic_messages": str(settings.TOPIC_LEAST_MESSAGES),
            "least_certainty": str(USUAL_CERTAINTY),
        }
        for name, default in defaults.items():
            self.fields[name].widget.attrs["placeholder"] = _("%(value)s, as for everybody") % {"value": default}

    def clean(self) -> dict[str, Any]:
        given = self.cleaned_data
        can_fill = content.can_fill(given.get("topic_messages"), given.get("session_messages"))
        if not self.errors and not can_fill:
            self.add_error("topic_messages", _("A topic cannot need more messages than a session has."))
        return given

    def save(self, owner: ChatUser) -> None:
        """Stores all settings; if the row was erased meanwhile, it is not created again."""
        ChatUser.objects.filter(pk=owner.pk).update(**{name: self.cleaned_data[name] for name in self.fields})


@open_to(Role.CURATOR, post=Role.CURATOR, whole=True)
def memory_settings(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    form = MemorySettingsForm(request.POST if request.method == "POST" else None, owner)
    if request.method == "POST" and form.is_valid():
        form.save(owner)
        messages.success(request, _("The memory settings of %(name)s are saved.") % {"name": owner})
        return redirect("memory", owner.pk)
    context: dict[str, Any] = {"owner": owner, "form": form, "model": settings.LLM_BASE_URL and settings.SPLITTER_MODEL}
    return render(request, "pages/memory_settings.html", context, status=422 if form.is_bound else 200)
