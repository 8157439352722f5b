"""Embedding profiles: which one serves searches, and when another takes its place.

The settings name the profile that is wanted. While another serves, a person agrees to what the wanted one will cost;
then its vectors are made beside those that serve, and when none is missing it takes over.
"""

from __future__ import annotations

from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from memoryapp import clients
from memoryapp.engine.embeddings import Profile
from memoryapp.engine.offline.sentence_encoder import OfflineEmbedder
from memoryapp.models import (
    Card,
    CardVector,
    EmbeddingProfile,
    Passage,
    PassageVector,
    QueryVector,
    RefusedText,
    TopicVector,
)
from memoryapp.operations.waits import waits
from memoryapp.search import missing

Decision = EmbeddingProfile.Decision

# How long the model is left alone after so many requests in a row without an answer.
FIRST_REST, LONGEST_REST = timedelta(seconds=10), timedelta(minutes=10)
# A profile takes over by itself only when hardly a text was refused by its model.
MOST_REFUSED = 0.01


async def profile_row(profile: Profile) -> EmbeddingProfile:
    """The row of ``profile``, made on its first use."""
    row, _made = await EmbeddingProfile.objects.aget_or_create(
        provider=profile.provider,
        model=profile.model,
        dimensions=profile.dimensions,
        defaults={"threshold": profile.threshold},
    )
    return row


def profile_of(row: EmbeddingProfile) -> Profile:
    """What embedders and searches need to know of a row."""
    wanted = clients.profile()
    if _named(wanted) == _named(row):
        return wanted
    return clients.known_profile(row.provider, row.model, row.dimensions, row.threshold)


def _named(profile: Profile | EmbeddingProfile) -> tuple[str, str, int]:
    return profile.provider, profile.model, profile.dimensions


def serving_profile() -> Profile:
    """The profile that searches compare in: the one of the settings as long as none serves."""
    row = EmbeddingProfile.objects.filter(is_serving=True).first()
    return profile_of(row) if row else clients.profile()


def serving() -> EmbeddingProfile:
    """The row of the profile that serves; without one, the profile of the settings serves from now on."""
    row = EmbeddingProfile.objects.filter(is_serving=True).first()
    if row:
        return row
    first = wanted()
    try:
        with transaction.atomic():
            EmbeddingProfile.objects.filter(pk=first.pk).update(is_serving=True)
    except IntegrityError:
        # Another process was faster, perhaps with other settings.
        return EmbeddingProfile.objects.get(is_serving=True)
    first.is_serving = True
    return first


def wanted() -> EmbeddingProfile:
    """The row of the profile that the settings ask for."""
    profile = clients.profile()
    row, _made = EmbeddingProfile.objects.get_or_create(
        provider=profile.provider,
        model=profile.model,
        dimensions=profile.dimensions,
        defaults={"threshold": profile.threshold},
    )
    return row


def to_make() -> list[EmbeddingProfile]:
    """The profiles whose missing vectors are to be made: the one that serves, then the wanted one once it was asked."""
    first, second = serving(), wanted()
    return [first] if first == second or second.asked_at is None else [first, second]


def ask(row: EmbeddingProfile, by: str) -> None:
    """Its vectors are made from now on; asking twice is asking once."""
    EmbeddingProfile.objects.filter(pk=row.pk, is_serving=False, asked_at__isnull=True).update(
        asked_at=Now(), asked_by=by[:150]
    )


def stop(row: EmbeddingProfile) -> None:
    """Its vectors are not made any longer; those that were made stay, and are not paid for twice."""
    EmbeddingProfile.objects.filter(pk=row.pk).update(asked_at=None, asked_by="")


def change_over() -> EmbeddingProfile | None:
    """Lets the wanted profile serve when it has all its vectors; the profile, or None where nothing changed."""
    first, second = serving(), wanted()
    if first == second or not missing.is_complete(second) or _is_mostly_refused(second):
        return None
    serve(second)
    return second


def _is_mostly_refused(row: EmbeddingProfile) -> bool:
    refused = missing.refused(row).count()
    return refused > MOST_REFUSED * (Passage.objects.count() + Card.objects.count()) if refused else False


@transaction.atomic
def remove_vectors(row: EmbeddingProfile) -> bool:
    """Removes all vectors of a profile that neither serves nor is asked for by the settings; False for any other.

    The effect of edits is tried by words alone then on runs whose queries were compared in it.
    """
    old = EmbeddingProfile.objects.select_for_update().filter(pk=row.pk, is_serving=False)
    if row == wanted() or not old.exists():
        return False
    for model in (PassageVector, CardVector, TopicVector, QueryVector, RefusedText):
        model._default_manager.filter(profile=row).delete()
    return True


@transaction.atomic
def serve(row: EmbeddingProfile) -> None:
    """From now on searches compare in this profile; a person is to decide on its thresholds, unless one did."""
    EmbeddingProfile.objects.select_for_update().filter(is_serving=True).update(is_serving=False)
    rows = EmbeddingProfile.objects.filter(pk=row.pk)
    rows.update(is_serving=True, asked_at=None, asked_by="")
    # Those of the embedded model were measured with it.
    if row.provider != OfflineEmbedder.profile.provider:
        rows.filter(decision=Decision.NONE).update(decision=Decision.DUE)


def undecided() -> EmbeddingProfile | None:
    """The profile that took over, as long as nobody decided on its thresholds."""
    return EmbeddingProfile.objects.filter(is_serving=True, decision=Decision.DUE).first()


def put_off(row: EmbeddingProfile, fault: str) -> None:
    """The model did not answer: it is asked again after a while, each time a longer one."""
    row.refresh_from_db()
    rest = min(FIRST_REST * 2 ** min(row.failures, 10), LONGEST_REST)
    row.failures, row.rests_until, row.fault = row.failures + 1, timezone.now() + rest, fault[:500]
    row.save(update_fields=("failures", "rests_until", "fault"))


async def note_answer(row: EmbeddingProfile) -> None:
    """The model works: nothing waits for it any longer."""
    if row.failures:
        row.failures, row.rests_until, row.fault = 0, None, ""
        await row.asave(update_fields=("failures", "rests_until", "fault"))


def is_resting(row: EmbeddingProfile) -> bool:
    return waits(row.rests_until, LONGEST_REST)


def away() -> EmbeddingProfile | None:
    """The profile whose model is asked now and did not answer last; looking makes no profile, unlike ``to_make``."""
    asked = EmbeddingProfile.objects.asked(clients.profile())
    made = EmbeddingProfile.objects.filter(Q(is_serving=True) | Q(pk__in=asked), failures__gt=0)
    return made.order_by("-is_serving").first()


def being_made() -> EmbeddingProfile | None:
    """The profile that is to take over, whose vectors somebody agreed to; looking makes no profile."""
    return EmbeddingProfile.objects.asked(clients.profile()).filter(is_serving=False).first()


def awaiting_consent() -> Profile | None:
    """The profile that the settings ask for while another serves and nobody agreed to its vectors; makes no profile."""
    profile = clients.profile()
    first = EmbeddingProfile.objects.filter(is_serving=True).first()
    if first is None or _named(first) == _named(profile):
        return None
    return None if EmbeddingProfile.objects.asked(profile).exists() else profile


def ask_again(row: EmbeddingProfile) -> int:
    """The model is asked with the next sweep, for the texts that it refused too; returns how many these are."""
    EmbeddingProfile.objects.filter(pk=row.pk).update(failures=0, rests_until=None)
    count: int = RefusedText.objects.filter(profile=row).update(retry_at=Now())
    return count
