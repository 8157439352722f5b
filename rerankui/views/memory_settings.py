"""A chat user's own settings: when sessions end, how small topics may be, and what is done automatically."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from memoryapp.engine.beside import table_beside
from memoryapp.engine.parameters import USUAL_CERTAINTY
from memoryapp.memory import content
from memoryapp.models import ChatUser, Role
from memoryapp.models.user import CAP_USD, CERTAINTY, QUOTA, SESSION_MESSAGES, TOPIC_MESSAGES
from memoryapp.platform import caps
from rerankui.frame.access import open_to
from rerankui.frame.forms import DurationField, duration

# The form of a chat user's memory settings: an empty number means what the program's settings say.

TABLE = table_beside(__file__)
_BOUNDS = {
    **{"session_messages": SESSION_MESSAGES, "topic_messages": TOPIC_MESSAGES, "least_certainty": CERTAINTY},
    **{"daily_cap_usd": CAP_USD, "most_messages": QUOTA, "most_bytes": QUOTA},
}


class MemorySettingsForm(forms.Form):
    """All of a chat user's own settings: fields of the row, with the words of the file beside."""

    silence_seconds = DurationField(required=False, widget=forms.TextInput(attrs={"class": "field"}))

    def __init__(self, data: QueryDict | None, owner: ChatUser) -> None:
        super().__init__(data, initial={name: getattr(owner, name) for name in TABLE})
        columns: Any = {column.name: column for column in ChatUser._meta.fields}
        for name, (least, most) in _BOUNDS.items():
            bounds = {"least": least, "most": most}
            wrong = _("Write a whole number from %(least)d to %(most)d, or leave it empty.") % bounds
            if name == "daily_cap_usd":
                wrong = _("Write an amount from %(least)d to %(most)d, such as 0.5, or leave it empty.") % bounds
            self.fields[name] = columns[name].formfield(
                min_value=least,
                max_value=most,
                localize=name == "daily_cap_usd",
                error_messages=dict.fromkeys(("invalid", "min_value", "max_value"), wrong),
                widget=forms.TextInput(attrs={"class": "field", "inputmode": "decimal", "autocomplete": "off"}),
            )
        for name in ("consolidation", "extraction"):
            self.fields[name] = columns[name].formfield(
                widget=forms.RadioSelect, error_messages={"invalid_choice": _("There is no such choice.")}
            )
        spent = _("no cap; $%(spent)s today") % {"spent": f"{caps.today().get(f'memory:{owner.pk}', 0.0):,.4f}"}
        silence = {"value": duration(settings.CHUNK_INTERVAL), "people": duration(settings.CHUNK_INTERVAL_PEOPLE)}
        defaults = {
            **{"session_messages": settings.MAX_CHUNK_SIZE, "topic_messages": settings.TOPIC_LEAST_MESSAGES},
            **{"least_certainty": USUAL_CERTAINTY},
            **{"most_messages": settings.QUOTA_MESSAGES, "most_bytes": settings.QUOTA_BYTES},
        }
        usual = {name: _("%(value)s, as for everybody") % {"value": f"{n:,}"} for name, n in defaults.items() if n}
        usual |= {"silence_seconds": _("%(value)s, between people %(people)s") % silence, "daily_cap_usd": spent}
        for name, words in TABLE.items():
            self.fields[name].label, self.fields[name].help_text = _(words["label"]), _(words["help"])
            self.fields[name].widget.attrs["placeholder"] = usual.get(name, _("no bound"))
        self.order_fields(TABLE)

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
