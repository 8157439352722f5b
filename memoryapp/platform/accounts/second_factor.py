"""What django-allauth asks about second factors. allauth loads the module by its name, with ``SECOND_FACTOR`` alone."""

from typing import Any

from allauth.mfa.adapter import DefaultMFAAdapter

from memoryapp.platform.accounts.signing_in import needs_second_factor


class SecondFactors(DefaultMFAAdapter):  # type: ignore[misc]
    """The last factor of an account that needs one stays until there is another."""

    def get_totp_issuer(self) -> str:
        return "Mnemoscope"

    def can_delete_authenticator(self, authenticator: Any) -> bool:
        kinds = ("totp", "webauthn")
        own = type(authenticator).objects.filter(user=authenticator.user, type__in=kinds)
        return own.exclude(pk=authenticator.pk).exists() or not needs_second_factor(authenticator.user)
