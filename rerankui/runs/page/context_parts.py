"""The parts of the context that a run hands to the chat model, to scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from memoryapp.engine.events import RunFinished
from memoryapp.engine.kinds.values import ContextPart

WIDTH = 1000
_NAMES: dict[str, Promise] = {
    "profile": _("Profile"),
    "inner_circle": _("Inner circle"),
    "recent_topics": _("Recent topics"),
    "topics": _("Chosen topics, whole"),
    "unsure": _("Possibly related passages"),
    "people": _("Chosen people"),
    "artifacts": _("Chosen artifacts"),
}


@dataclass(frozen=True, slots=True)
class Share:
    """A part from ``x`` over ``width``, in thousandths of the context's characters."""

    part: ContextPart
    name: str | Promise
    x: int
    width: int


@dataclass(frozen=True, slots=True)
class ContextParts:
    """``tokens`` are estimated from characters, for no tokenizer of the chat model is at hand."""

    shares: tuple[Share, ...]
    chars: int
    tokens: int


def name_of(part: str, handed_over: str) -> str | Promise:
    """What a part is called; ``handed_over`` says what of the chosen topics the run hands over."""
    by_passages = (part, handed_over) == ("topics", "passages")
    return _("Passages of the chosen topics") if by_passages else _NAMES.get(part, part)


def context_parts(finished: RunFinished | None, handed_over: str) -> ContextParts | None:
    """The context's parts that hold something; None for a run without any."""
    parts = [part for part in finished.context if part.chars] if finished else []
    chars = sum(part.chars for part in parts)
    return (
        ContextParts(tuple(_shares(parts, chars, handed_over)), chars, sum(part.tokens for part in parts))
        if parts
        else None
    )


def _shares(parts: Sequence[ContextPart], chars: int, handed_over: str) -> list[Share]:
    shares, before = [], 0
    for part in parts:
        x, end = round(before / chars * WIDTH), round((before + part.chars) / chars * WIDTH)
        shares.append(Share(part, name_of(part.name, handed_over), x, max(end - x, 1)))
        before += part.chars
    return shares
