"""What a finished run answers, as programs get it."""

from collections.abc import Collection
from typing import Any

from memoryapp.doors.api.access import values_of
from memoryapp.doors.api.shapes.answers import WordsAnswer
from memoryapp.doors.api.shapes.runs import RecallAnswer
from memoryapp.models import Run
from memoryapp.runs.recall_document import EndedRun


def document_of(run: Run, include: Collection[str] = ()) -> dict[str, Any]:
    """The answer of ``POST /v1/recall`` as values of JSON."""
    return values_of(RecallAnswer.model_validate(EndedRun(run, include)))


def in_words(run: Run) -> dict[str, Any]:
    """The answer of ``POST /v1/qa`` as values of JSON."""
    return values_of(WordsAnswer.model_validate(EndedRun(run)))
