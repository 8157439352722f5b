"""A chat user's own settings: when sessions end, how small topics may be, and what is done automatically."""

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
from memoryapp.models.user import CAP_USD, CERTAINTY, QUOTA, SESSION_MESSAGES, TOPIC_MESSAGES
from memoryapp.platform import caps
from rerankui.frame.access import open_to
from rerankui.frame.forms import DurationField, duration

# The form of a chat user's memory settings: an empty number means what the program's settings say.


def _number(label: Any, help_text: Any, least: int, most: int, kind: Any = forms.IntegerField) -> Any:
    bounds = gettext_lazy("Write a whole number from %(least)d to %(most)d, or leave it empty.")
    sentence = bounds % {"least": least, "most": most}
    widget = forms.TextInput(attrs={"class": "field", "inputmode": "numeric", "autocomplete": "off"})
    errors = {"invalid": sentence, "min_value": sentence, "max_value": sentence}
    return kind(
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
    daily_cap_usd = _number(
        gettext_lazy("Cap of a day, $"),
        gettext_lazy(
            "What questions to chat models may cost; then they are refused, and stages wait, until the next day."
        ),
        *CAP_USD,
        kind=forms.FloatField,
    )
    most_messages = _number(
        gettext_lazy("Most messages"), gettext_lazy("More are refused before anything is stored."), *QUOTA
    )
    most_bytes = _number(
        gettext_lazy("Most bytes"),
        gettext_lazy("Of texts and files; more are refused before anything is stored."),
        *QUOTA,
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
            "most_messages": settings.QUOTA_MESSAGES and f"{settings.QUOTA_MESSAGES:,}",
            "most_bytes": settings.QUOTA_BYTES and f"{settings.QUOTA_BYTES:,}",
        }
        for name, default in defaults.items():
            said = _("%(value)s, as for everybody") % {"value": default} if default else _("no bound")
            self.fields[name].widget.attrs["placeholder"] = said
        spent = caps.today().get(f"memory:{owner.pk}", 0.0)
        self.fields["daily_cap_usd"].widget.attrs["placeholder"] = _("no cap; $%(spent)s today") % {
            "spent": f"{spent:,.4f}"
        }

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
