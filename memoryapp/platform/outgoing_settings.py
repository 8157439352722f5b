"""The settings of what this program sends to others: webhooks, mail, and the address under which it is reached.
``settings`` takes them over as they are; docs/settings.md explains each."""

from datetime import timedelta
from urllib.parse import unquote, urlsplit

from memoryapp.platform import environment

__all__ = (
    "ALARM_MAIL",
    "DEFAULT_FROM_EMAIL",
    "EMAIL_HOST",
    "EMAIL_HOST_PASSWORD",
    "EMAIL_HOST_USER",
    "EMAIL_PORT",
    "EMAIL_TIMEOUT",
    "EMAIL_URL",
    "EMAIL_USE_SSL",
    "EMAIL_USE_TLS",
    "PUBLIC_URL",
    "WEBHOOK_KEEP",
    "WEBHOOK_PRIVATE_ADDRESSES",
    "WEBHOOK_TIMEOUT",
)

# Where browsers reach this installation, for links in messages; without it they are paths.
PUBLIC_URL = environment.address("PUBLIC_URL").rstrip("/")
# Seconds for which a receiver may take to answer, from the first look at its name on.
WEBHOOK_TIMEOUT = environment.seconds("WEBHOOK_TIMEOUT", "15s", least=0.1, most=60)
# Whether receivers may be in the networks that are not reached from outside, such as this machine.
WEBHOOK_PRIVATE_ADDRESSES = environment.switch("WEBHOOK_PRIVATE_ADDRESSES", True)
# How long messages are kept, delivered or not.
WEBHOOK_KEEP = timedelta(seconds=environment.seconds("WEBHOOK_KEEP", "30d", least=3600, most=31_536_000))

# Who is told by mail of what is in trouble and over again.
ALARM_MAIL = environment.mails("ALARM_MAIL")
# The mail server with user and password; without one no mail is sent.
_PORTS = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}
EMAIL_URL = environment.address("EMAIL_URL", schemes=tuple(_PORTS))
_mail = urlsplit(EMAIL_URL)
EMAIL_HOST, EMAIL_PORT = _mail.hostname or "", _mail.port or _PORTS.get(_mail.scheme, 25)
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = unquote(_mail.username or ""), unquote(_mail.password or "")
EMAIL_USE_SSL, EMAIL_USE_TLS = _mail.scheme == "smtps", _mail.scheme == "smtp+starttls"
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = environment.text("EMAIL_FROM", "mnemoscope@localhost")
