"""Settings from the environment: read once, a wrong value is a sentence that names it."""

from __future__ import annotations

import os
import re

_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class SettingError(Exception):
    """An environment variable has a value nobody can use."""


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def whole(name: str, default: int, *, least: int = 0, most: int = 10**9) -> int:
    raw = text(name, str(default))
    try:
        value = int(raw)
    except ValueError:
        raise SettingError(f"{name} must be a whole number, not {raw!r}.") from None
    if not least <= value <= most:
        raise SettingError(f"{name} must be between {least} and {most}, not {value}.")
    return value


def number(name: str, default: float, *, least: float, most: float) -> float:
    raw = text(name, str(default))
    try:
        value = float(raw)
    except ValueError:
        raise SettingError(f"{name} must be a number, not {raw!r}.") from None
    if not least <= value <= most:
        raise SettingError(f"{name} must be between {least} and {most}, not {raw}.")
    return value


def switch(name: str, default: bool) -> bool:
    raw = text(name, "true" if default else "false").lower()
    if raw in {"1", "true", "yes", "on"}:
        return True
    if raw in {"0", "false", "no", "off"}:
        return False
    raise SettingError(f"{name} must be true or false, not {raw!r}.")


def choice(name: str, default: str, options: tuple[str, ...]) -> str:
    raw = text(name, default)
    if raw not in options:
        raise SettingError(f"{name} must be one of {', '.join(options)}, not {raw!r}.")
    return raw


def seconds(name: str, default: str) -> float:
    """A duration such as ``10s``, ``500ms``, ``1h`` or ``90`` (seconds)."""
    raw = text(name, default)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)", raw)
    if not match:
        raise SettingError(f"{name} must be a duration such as 10s, 500ms or 1h, not {raw!r}.")
    return float(match[1]) * _SECONDS[match[2]]
