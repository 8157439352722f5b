"""How much of a memory can be compared by meaning: which passages and topics have a vector of a profile."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, QuerySet

from memoryapp.browsing.neighbours import vectors_of_profile
from memoryapp.engine.embeddings import Profile
from memoryapp.models import ChatUser, EmbeddingProfile, Passage, PassageVector, Topic


def passages_without_vector(owners: QuerySet[ChatUser], profile: Profile) -> int:
    """How many passages search cannot compare by meaning yet: vectors of another profile do not help."""
    # Found once rather than joined, so that an index of one profile's vectors is all that is read.
    row = EmbeddingProfile.objects.filter(
        provider=profile.provider, model=profile.model, dimensions=profile.dimensions
    ).values("pk")[:1]
    vectors = PassageVector.objects.filter(passage=OuterRef("pk"), profile=row)
    return Passage.objects.filter(~Exists(vectors), owner__in=owners).count()


def has_vector(topic: Topic, profile: Profile) -> bool:
    """Whether the topic can be compared by meaning yet; its messages are searched in any case."""
    return vectors_of_profile(topic.owner_id, profile).filter(topic=topic).exists()
