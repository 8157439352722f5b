"""What goes with an erasure because it quotes the erased words, and uploaded chat files, for the page that asks before.

The erasure finds the same by the marks of its receipt. Here the words are compared directly, and other messages are
read only if anything quotes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from memoryapp.forgetting import marks
from memoryapp.forgetting.course import texts_of_messages
from memoryapp.forgetting.files import discardable
from memoryapp.forgetting.reach import Reach
from memoryapp.models import Artifact, ChatUser, Fact, Message, Person


@dataclass(frozen=True, slots=True)
class Beside:
    """How many facts and artifacts quote, beside those in reach, and how many uploaded chat files go."""

    facts: int = 0
    artifacts: int = 0
    files: int = 0


def beside(owner: ChatUser, reach: Reach) -> Beside:
    """Returns what goes beside the rows in reach."""
    runs = {run for text in _erased(reach) for run in marks.runs_of(text)}
    facts = Fact.objects.filter(owner=owner).exclude(pk__in=reach.facts).values_list("content", flat=True)
    artifacts = Artifact.objects.filter(owner=owner).exclude(pk__in=reach.artifacts).values_list("text", flat=True)
    quotes = [[_runs_in(text, runs) for text in rows.iterator()] for rows in (facts, artifacts)]
    quoted = {run for rows in quotes for found in rows for run in found}
    if quoted:
        stays = Message.objects.exclude(owner=owner, pk__in=reach.messages)
        quoted = marks.without_shared(quoted, texts_of_messages(stays))
    of_facts, of_artifacts = (sum(not quoted.isdisjoint(found) for found in rows) for rows in quotes)
    files = discardable(owner.pk).count() if reach.messages else 0
    return Beside(of_facts, of_artifacts, files)


def _erased(reach: Reach) -> Iterator[str]:
    yield from texts_of_messages(Message.objects.filter(pk__in=reach.messages))
    for texts in Person.objects.filter(pk__in=reach.people).values_list("display_name", "bio"):
        yield from texts


def _runs_in(text: str, runs: set[str]) -> set[str]:
    return runs - marks.without_shared(runs, [text])
