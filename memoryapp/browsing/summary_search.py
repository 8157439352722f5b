"""Finds topics by the words of their summaries, for lists and pickers."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from memoryapp.models import Topic


def topics_by_words(topics: QuerySet[Topic], words: str, pk: int | None) -> QuerySet[Topic]:
    """Topics whose summary contains all of the words, or the topic with that id."""
    wanted = Q()
    for word in words.split():
        wanted &= Q(summary__icontains=word)
    return topics.filter(wanted | Q(pk=pk) if pk is not None else wanted)
