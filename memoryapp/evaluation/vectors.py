"""Warns about memories that lack vectors of topics and passages, because their figures would mean little."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.translation import gettext as _

from memoryapp.evaluation.questions import LabelledQuestion
from memoryapp.models import ChatUser
from memoryapp.search import missing, profiles


def warnings(questions: Sequence[LabelledQuestion]) -> list[str]:
    """A sentence for each chat user in the questions whose topics or passages have no vector yet."""
    row = profiles.serving()
    sentences = []
    for owner in ChatUser.objects.filter(name__in={question.user for question in questions}).order_by("name"):
        counts = {"topics": missing.topics(row, owner).count(), "passages": missing.passages(row, owner).count()}
        if any(counts.values()):
            sentences.append(
                _(
                    "The memory of “%(user)s” lacks vectors of %(topics)s topics and %(passages)s passages, so these"
                    " figures are lower than they will be. Wait until “up” has made them, or run “embed --yes”."
                )
                % {"user": owner.name, **counts}
            )
    return sentences
