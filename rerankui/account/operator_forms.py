"""The forms about operators: a new one, the rights of one, a password."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.db.models import QuerySet
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from memoryapp.models import ChatUser, Operator, Role

# What a role may do, in the order one reads them; each includes the ones before it.
MAY: Mapping[str, Promise] = {
    Role.VIEWER: _("Looks at memories, runs and answers."),
    Role.DEBUGGER: _("Also asks, forks runs and tries prompts."),
    Role.CURATOR: _("Also imports, edits topics, facts and people, and undoes changes."),
    Role.ADMIN: _("Everything, in every memory: operators, tokens, models, export and erasure."),
}


class PasswordForm(forms.Form):
    password = forms.CharField(
        label=_("Password"),
        max_length=200,
        strip=False,
        widget=forms.PasswordInput(attrs={"class": "field", "autocomplete": "new-password"}),
        error_messages={"required": _("Type a password.")},
    )

    def __init__(self, *args: Any, user: User | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._user = user

    def clean_password(self) -> str:
        password = str(self.cleaned_data["password"])
        validate_password(password, self._user or User(username=self.cleaned_data.get("name", "")))
        return password


class _RightsForm(forms.Form):
    """A role and the memories it is for; an admin opens every memory, so none need be chosen."""

    role = forms.ChoiceField(label=_("Role"), choices=Role.choices, initial=Role.VIEWER, widget=forms.RadioSelect)
    owners = forms.ModelMultipleChoiceField(
        ChatUser.objects.none(), label=_("Memories"), required=False, widget=forms.CheckboxSelectMultiple
    )

    def __init__(self, *args: Any, seen: QuerySet[ChatUser], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        owners = self.fields["owners"]
        assert isinstance(owners, forms.ModelMultipleChoiceField)
        owners.queryset = seen

    @property
    def roles(self) -> list[tuple[Any, Promise]]:
        """The boxes, each with what its role may do."""
        return [(box, MAY[box.data["value"]]) for box in self["role"]]


class NewOperatorForm(_RightsForm, PasswordForm):
    name = forms.CharField(
        label=_("Name"),
        max_length=150,
        validators=[UnicodeUsernameValidator()],
        widget=forms.TextInput(attrs={"class": "field", "autocomplete": "off", "autofocus": True}),
        error_messages={"required": _("Type the name with which the operator signs in.")},
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # The password is compared with the name, which is therefore read first.
        super().__init__(*args, field_order=("name", "password", "role", "owners"), **kwargs)


class OperatorForm(_RightsForm):
    is_active = forms.BooleanField(label=_("May sign in"), required=False)

    def __init__(self, *args: Any, operator: Operator, **kwargs: Any) -> None:
        kwargs["initial"] = {
            "role": operator.role,
            "owners": list(operator.access_set.values_list("owner", flat=True)),
            "is_active": operator.user.is_active,
        }
        super().__init__(*args, **kwargs)
