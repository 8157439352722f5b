"""What the page of a run says about the run that it tries again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models.fields.json import KeyTextTransform

from memoryapp.engine.events import Event
from memoryapp.engine.outline import Outline
from memoryapp.models import Prompt, Run, RunEvent


@dataclass(frozen=True, slots=True)
class Trial:
    """``label`` is that of the prompt which is tried.

    Where it is the enricher's the run ``searches_anew``, and ``line`` is what the other run searched for.
    """

    label: str
    searches_anew: bool = False
    line: str = ""


def trial_of(run: Run, events: Sequence[Event]) -> Trial | None:
    """None for a run that tries none again; one query or two for a run that does."""
    started = Outline.of(events).started
    if started is None or not started.parent:
        return None
    if run.prompt is None or run.prompt.name != Prompt.Name.ENRICH:
        return Trial(started.prompt_version)
    return Trial(str(run.prompt), searches_anew=True, line=_line(run))


def _line(run: Run) -> str:
    """What the run that is tried again searched for; empty when it is gone."""
    rewrites = RunEvent.objects.filter(owner=run.owner_id, run=run.parent_id, kind="query_enriched")
    return rewrites.values_list(KeyTextTransform("enriched", "payload"), flat=True).first() or ""
