"""Reads settings from the environment, typed and within bounds. Raises a SettingError that names a wrong setting."""

import json
import os
import re
import tomllib
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

WEB = ("http", "https")
# Settings that may also come from a file.
SECRETS = frozenset(
    (
        *("SECRET_KEY", "DATABASE_URL", "REDIS_URL", "METRICS_TOKEN", "OIDC_CLIENT_SECRET"),
        *("LLM_API_KEY", "EMBEDDING_API_KEY", "EMBEDDING_PREVIOUS_API_KEY", "RERANK_API_KEY"),
    )
)
MOST_SECRET_CHARS = 10_000

Number = TypeVar("Number", int, float)

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*+(ms|s|m|h|d|)")
_RATE = re.compile(r"(\d{1,9})\s*+/\s*+(s|m|h|d)")
_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# Whether this program was installed as a package, and how it is called in a terminal.
IS_INSTALLED = not (Path(__file__).resolve().parents[2] / "manage.py").exists()
PROGRAM = "mnemoscope" if IS_INSTALLED else "python3 manage.py"
# What the words of a switch mean, here and in headers of requests.
SWITCHED = {**dict.fromkeys(("1", "true", "yes", "on"), True), **dict.fromkeys(("0", "false", "no", "off"), False)}
_WORD = re.compile(r"[^\s'\"<>]+")
_PASSWORD = re.compile(r"(?i)(?<=password=)[^\s&'\"]+")


class SettingError(Exception):
    """An environment variable has a value that cannot be used; the text is a sentence for people."""


@cache
def release() -> str:
    """Returns the version of this program, which a checkout has in its description of the package."""
    try:
        return version("mnemoscope")
    except PackageNotFoundError:
        described = Path(__file__).resolve().parents[2] / "pyproject.toml"
        return str(tomllib.loads(described.read_text(encoding="utf-8"))["project"]["version"])


def cores() -> int:
    """Returns how many cores this process may use, which may be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or _in_file(name) or default


def _in_file(name: str) -> str:
    """Returns a secret from the file that the variable with ``_FILE`` after its name names, as platforms hand them out
    to processes; empty without one."""
    path = os.environ.get(f"{name}_FILE", "").strip() if name in SECRETS else ""
    if not path:
        return ""
    try:
        with open(path, encoding="utf-8") as file:
            value = file.read(MOST_SECRET_CHARS).strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise SettingError(f"{name}_FILE must be a file that can be read, and {path} can't: {reason}.") from None
    if not value:
        raise SettingError(f"{name}_FILE must be a file with the secret, and {path} is empty.")
    return value


def prefix(name: str, *, most: int = 300) -> str:
    """Returns words that stand before a text. A space follows a colon, because shells and files lose it; ``\\n`` is a
    line break."""
    value = text(name).replace("\\n", "\n")
    if len(value) >= most:
        raise SettingError(f"{name} must be shorter than {most} characters, not {len(value)}.")
    return f"{value} " if value.endswith(":") else value


def secret(name: str, *, least: int) -> str:
    """Returns a secret of at least ``least`` characters, or empty; a shorter one is refused without being shown."""
    value = text(name)
    if value and len(value) < least:
        raise SettingError(f"{name} must have at least {least} characters that nobody can guess, not {len(value)}.")
    return value


def whole(name: str, default: int, *, least: int = 0, most: int = 10**9) -> int:
    return _within(name, default, int, "a whole number", least, most)


def number(name: str, default: float, *, least: float, most: float) -> float:
    return _within(name, default, float, "a number", least, most)


def _within(
    name: str, default: Number, parse: Callable[[str], Number], kind: str, least: Number, most: Number
) -> Number:
    raw = text(name, str(default))
    try:
        value = parse(raw)
    except ValueError:
        raise SettingError(f"{name} must be {kind}, not {raw!r}.") from None
    if not least <= value <= most:
        raise SettingError(f"{name} must be between {least} and {most}, not {raw}.")
    return value


def folder(name: str) -> None:
    """Makes the folder that is named, if there is one and it is missing, closed to other accounts."""
    path = text(name)
    try:
        if path:
            Path(path).mkdir(0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(f"{name} must be a folder, and {path} can't be made: {error.strerror}.") from None


def switch(name: str, default: bool) -> bool:
    raw = text(name, "true" if default else "false").lower()
    if raw not in SWITCHED:
        raise SettingError(f"{name} must be true or false, not {raw!r}.")
    return SWITCHED[raw]


def choice(name: str, default: str, options: Sequence[str]) -> str:
    """One of ``options``, in upper or lower case."""
    raw = text(name, default)
    found = next((option for option in options if option.casefold() == raw.casefold()), None)
    if found is None:
        raise SettingError(f"{name} must be one of {', '.join(options)}, not {raw!r}.")
    return found


def choice_or_nothing(name: str, default: str, options: Sequence[str]) -> str:
    """As ``choice``, but an empty value means none."""
    return "" if os.environ.get(name, default).strip() == "" else choice(name, default, options)


def mapping(name: str) -> dict[str, Any]:
    """Returns a JSON object; empty when not set."""
    raw = text(name, "{}")
    try:
        value = json.loads(raw)
    except ValueError as error:
        raise SettingError(f"{name} must be a JSON object: {error}") from None
    if not isinstance(value, dict):
        raise SettingError(f"{name} must be a JSON object, not {raw!r}.")
    return value


def names(name: str, default: str = "", *, between: str = ",") -> list[str]:
    """Returns the parts between the separators, without the spaces around them."""
    return [part.strip() for part in text(name, default).split(between) if part.strip()]


def choices(name: str, subjects: Sequence[str], options: Sequence[str], *, all_but: str) -> dict[str, str]:
    """Returns the option of each subject, from ``cards=mask, keys=hold``; ``all=mask`` means those without their own,
    except for one."""
    found: dict[str, str] = {}
    for part in names(name):
        subject, _equals, option = map(str.strip, part.partition("="))
        if subject not in (*subjects, "all") or option not in options:
            some = f"such as {subjects[0]}={options[-1]}; kinds are all, {', '.join(subjects)}"
            raise SettingError(f"{name} must be pairs {some}, each with {', '.join(options)}; not {part!r}.")
        found |= dict.fromkeys(set(subjects) - {all_but, *found}, option) if subject == "all" else {subject: option}
    return found


def mails(name: str) -> list[str]:
    """Mail addresses with commas between them."""
    found = names(name)
    if wrong := [each for each in found if "@" not in each[1:-1] or len(each.split()) > 1]:
        raise SettingError(f"{name} must be mail addresses with commas between them; {wrong[0]!r} is none.")
    return found


def address(name: str, default: str = "", *, schemes: Sequence[str] = WEB) -> str:
    """Returns a URL with one of ``schemes``, or empty."""
    raw = text(name, default)
    if raw:
        _check_address(name, raw, schemes)
    return raw


def addresses(name: str, default: str = "", *, schemes: Sequence[str] = WEB, between: str = ",") -> list[str]:
    given = names(name, default, between=between)
    for raw in given:
        _check_address(name, raw, schemes)
    return given


def host(url: str) -> str:
    """Returns the host of an address, without its port; empty when there is none."""
    return urlsplit(url).hostname or ""


def _check_address(name: str, raw: str, schemes: Sequence[str]) -> None:
    try:
        parts = urlsplit(raw)
        usable = parts.scheme in schemes and parts.port != 0
    except ValueError:
        usable = False
    if not usable or (parts.scheme in WEB and not parts.hostname):
        *others, last = (f"{scheme}://" for scheme in schemes)
        beginning = f"{', '.join(others)} or {last}" if others else last
        raise SettingError(f"{name} must be an address that begins with {beginning}, not {without_passwords(raw)!r}.")


def without_passwords(text: str) -> str:
    """``text`` without the user and password of addresses, and without values of ``password=``."""
    return _PASSWORD.sub("…", _WORD.sub(_without_userinfo, text))


def _without_userinfo(word: re.Match[str]) -> str:
    """Returns the word without the part between // and the last @; a password may contain both."""
    before, _slashes, rest = word[0].partition("//")
    _userinfo, at, place = rest.rpartition("@")
    return f"{before}//…@{place}" if at else word[0]


def seconds(name: str, default: str, *, least: float = 0.0, most: float = 10**9) -> float:
    """Returns the seconds of a duration such as ``10s``, ``500ms``, ``1h`` or ``90``, within ``least`` and ``most``."""
    raw = text(name, default)
    match = _DURATION.fullmatch(raw)
    if not match:
        raise SettingError(f"{name} must be a duration such as 10s, 500ms or 1h, not {raw!r}.")
    value = float(match[1]) * _SECONDS[match[2]]
    if not least <= value <= most:
        raise SettingError(f"{name} must be between {least:g} and {most:g} seconds, not {raw!r}.")
    return value


def rate(name: str, default: str) -> tuple[int, float]:
    """Returns a number of requests and a time in seconds, from ``600/m``, ``10/s`` or ``5000/h``."""
    raw = text(name, default)
    match = _RATE.fullmatch(raw)
    if not match or not int(match[1]):
        raise SettingError(f"{name} must be a number of requests in a time, such as 600/m or 10/s, not {raw!r}.")
    return int(match[1]), _SECONDS[match[2]]
