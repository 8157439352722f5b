"""What the trace of another program does not say, in sentences: its run page would otherwise look complete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memoryapp.engine.events import CandidatesFound, Event, ModelReplied, TurnStarted
from memoryapp.engine.outline import Outline
from memoryapp.models import Run
from rerankui.runs.page.notes import remarks


def chosen_words(run: Run, count: int) -> str:
    """How many topics a run chose, as a form with ``n``; a foreign run chose documents."""
    if run.is_foreign:
        return ngettext("%(n)s document", "%(n)s documents", count)
    return ngettext("%(n)s topic", "%(n)s topics", count)


def missing(run: Run, events: Sequence[Event]) -> list[str]:
    """The sentences for a foreign run; none for a run of this memory."""
    return list(_missing(events)) if run.is_foreign else []


def _missing(events: Sequence[Event]) -> Iterator[str]:
    outline = Outline.of(events)
    yield from _of_search(outline.found)
    yield from _of_model(outline.replies, [event for event in events if isinstance(event, TurnStarted)])
    if outline.finished and outline.finished.notes:
        yield remarks(outline.finished)


def _of_search(found: CandidatesFound | None) -> Iterator[str]:
    if found is None:
        yield _("The trace contains no search, so there are no candidates.")
    elif not found.candidates:
        yield _("The program did not send what its search found.")
    else:
        if not any(each.score for each in found.candidates):
            yield _("The program sent no scores.")
        if not any(each.line for each in found.candidates):
            yield _("The program did not send the texts of the documents.")


def _of_model(replies: Sequence[ModelReplied], turns: Sequence[TurnStarted]) -> Iterator[str]:
    if not replies:
        yield _("The trace contains no call of a chat model.")
        return
    if not any(turn.prompt for turn in turns):
        yield _("The program did not send the messages to its model.")
    if not any(reply.text or reply.tool_calls or reply.error for reply in replies):
        yield _("The program did not send the answers of its model.")
    if not any(reply.reasoning for reply in replies):
        yield _("It sent no reasoning.")
    if not any(reply.input_tokens or reply.output_tokens for reply in replies):
        yield _("It sent no counts of tokens.")
