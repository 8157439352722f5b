"""How much of a memory can be compared in meaning: which passages and topics have a vector of a profile."""

from __future__ import annotations

from functools import reduce
from operator import or_

from django.db.models import Exists, OuterRef, Q, QuerySet

from memoryapp.browsing.neighbours import vectors_of_profile
from memoryapp.engine.embeddings import Profile
from memoryapp.models import ChatUser, Passage, PassageVector, Topic

# Each of them is looked up among the vectors.
MOST_PASSAGES = 2_000


def passages_without_vector(owners: QuerySet[ChatUser], *profiles: Profile) -> int:
    """How many of the newest ``MOST_PASSAGES`` still lack a vector of one of these profiles. Vectors are made in the
    order of passages, so missing ones are among the newest."""
    lacking = reduce(or_, (~Q(Exists(_vectors(profile))) for profile in profiles))
    newest = Passage.objects.filter(owner__in=owners).order_by("-pk").values("pk")[:MOST_PASSAGES]
    return Passage.objects.filter(lacking, pk__in=newest).count()


def _vectors(profile: Profile) -> QuerySet[PassageVector]:
    """The vector of a passage in this profile, for a query of passages."""
    named = {f"profile__{name}": value for name, value in profile.identity.items()}
    return PassageVector.objects.filter(passage=OuterRef("pk"), **named)


def has_vector(topic: Topic, profile: Profile) -> bool:
    """Whether the topic has a vector; its messages are searched in any case."""
    return vectors_of_profile(topic.owner_id, profile).filter(topic=topic).exists()
