"""How much of a memory can be compared in meaning: which passages and topics have a vector of a profile."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, QuerySet

from memoryapp.browsing.neighbours import vectors_of_profile
from memoryapp.engine.embeddings import Profile
from memoryapp.models import ChatUser, Passage, PassageVector, Topic

# Each of them is looked up among the vectors.
MOST_PASSAGES = 2_000


def passages_without_vector(owners: QuerySet[ChatUser], profile: Profile) -> int:
    """How many of the newest ``MOST_PASSAGES`` have no vector of the profile yet. Vectors are made in the order of
    passages, so missing ones are among the newest."""
    vectors = PassageVector.objects.filter(
        passage=OuterRef("pk"),
        profile__provider=profile.provider,
        profile__model=profile.model,
        profile__dimensions=profile.dimensions,
    )
    newest = Passage.objects.filter(owner__in=owners).order_by("-pk").values("pk")[:MOST_PASSAGES]
    return Passage.objects.filter(~Exists(vectors), pk__in=newest).count()


def has_vector(topic: Topic, profile: Profile) -> bool:
    """Whether the topic has a vector; its messages are searched in any case."""
    return vectors_of_profile(topic.owner_id, profile).filter(topic=topic).exists()
