"""The form of a webhook: its name, its address, and what it is for."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from memoryapp.outgoing.webhooks import addresses
from rerankui.webhooks.words import KINDS


class WebhookForm(forms.Form):
    name = forms.CharField(
        label=_("Name"),
        max_length=100,
        widget=forms.TextInput(attrs={"class": "field", "autocomplete": "off"}),
        error_messages={
            "required": _("Name who receives it."),
            "max_length": _("A name has at most 100 characters."),
        },
    )
    address = forms.CharField(
        label=_("Address"),
        max_length=addresses.LONGEST,
        widget=forms.URLInput(
            attrs={"class": "field mono", "autocomplete": "off", "placeholder": "https://example.com/hook"}
        ),
        error_messages={"required": _("Type an address such as https://example.com/hook.")},
    )
    kinds = forms.MultipleChoiceField(
        label=_("It gets"),
        choices=[(kind, name) for kind, (name, _when) in KINDS.items()],
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": _("Choose at least one event.")},
    )

    def clean_address(self) -> str:
        try:
            return addresses.checked(self.cleaned_data["address"])
        except addresses.AddressError as error:
            raise forms.ValidationError(str(error)) from None

    @property
    def boxes(self) -> list[tuple[Any, Promise]]:
        """The boxes, each with when it happens."""
        return [(box, KINDS[box.data["value"]][1]) for box in self["kinds"]]
