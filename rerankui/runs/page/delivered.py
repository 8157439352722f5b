"""What the assistant made of a run, as its page shows it after the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import pgettext_lazy

from memoryapp.delivery import recall_outcome
from memoryapp.engine.events import RunFinished
from memoryapp.models import Run

HOW: dict[str, Promise] = {
    "quoted": pgettext_lazy("use", "quoted"),
    "reworded": pgettext_lazy("use", "in other words, by the embedded scorer"),
    "named": pgettext_lazy("use", "named"),
}


@dataclass(frozen=True, slots=True)
class UseView:
    id: str
    how: str
    words: Promise | str
    sentence: str


@dataclass(frozen=True, slots=True)
class DeliveredView:
    """``recall`` is found, unsure, nothing or failed; ``text`` is what the assistant said, empty where
    nobody sent it."""

    recall: str
    text: str = ""
    uses: Sequence[UseView] = ()
    unused: Sequence[str] = ()
    error: str = ""


def delivered_view(run: Run, finished: RunFinished | None, error: str = "") -> DeliveredView | None:
    """None while the run goes on."""
    if finished is None:
        return None
    stored = run.delivered or {}
    uses = [
        UseView(use["id"], use["how"], HOW.get(use["how"], use["how"]), use["sentence"])
        for use in stored.get("uses", ())
    ]
    return DeliveredView(recall_outcome(finished), stored.get("text", ""), uses, stored.get("unused", ()), error)
