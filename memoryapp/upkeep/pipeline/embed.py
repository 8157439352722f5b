"""The stage in which passages, cards and topics get their vectors."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync
from django.db.models import Count
from django.utils.translation import gettext as _

from memoryapp.celery import sweep
from memoryapp.engine.embeddings import EmbeddingError, Profile
from memoryapp.engine.offline.sentence_encoder import OfflineEmbedder
from memoryapp.insight.browsing.profiles import MOST_PASSAGES, passages_without_vector
from memoryapp.memory import sessions
from memoryapp.models import ChatUser, EmbeddingProfile, PassageVector
from memoryapp.platform import work
from memoryapp.platform.database import enough_after, lane, log_and_continue
from memoryapp.platform.llm import clients
from memoryapp.platform.logs import cause
from memoryapp.search import items, profiles, vectors
from memoryapp.search.vectors import EMBED
from memoryapp.upkeep.pipeline.stage import Scope, Stage, words_beside

# How long a sweep makes vectors of one profile, for all chat users.
SECONDS = 12.0
# The source of the row in which a fault of passages is kept, beside that of vectors.
PASSAGES = "passages"
# How many sweeps of what was just said may run at once, how many chat users one serves, how long each of
# them, and how long it makes vectors.
TALK_LANES, AT_ONCE, SLICE_SECONDS, TALK_SECONDS = 1, 10, 0.5, 4.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Successor:
    """The embedding profile that is to take over, and how many passages lack its vector, up to a bound."""

    row: EmbeddingProfile
    waiting: int

    @property
    def has_more(self) -> bool:
        return self.waiting >= MOST_PASSAGES


@sweep(every=10.0)
def embed_pending() -> None:
    """Makes the vectors of the profile that serves, then those of the one that is to take over, for a while each.

    A model that did not answer is left alone for a while. After a fault each chat user is served alone, so that it is
    kept with the one whom it concerns, and the others go on without that one.
    """
    if work.is_paused(EMBED):
        return
    for row in profiles.to_make():
        one_by_one = partial(_one_by_one, row, list(work.at_rest(EMBED)))
        with log_and_continue("Profile %s: a fault among the vectors of all.", row.pk, one_by_one):
            _embed(row)
    if changed := profiles.change_over():
        logger.warning("The embedding profile %s has all its vectors and serves searches from now on.", changed)


def _one_by_one(row: EmbeddingProfile, resting: Sequence[int], error: Exception) -> None:
    is_enough = enough_after(SECONDS)
    waiting = ChatUser.objects.filter(profiles.owners(row) | items.owners_behind()).exclude(pk__in=resting)
    for owner in list(work.unpaused(waiting, EMBED).order_by("?")):
        if is_enough():
            return
        work.serve(owner, EMBED, lambda owner: _embed(row, owner, SECONDS / 4))


def _embed(row: EmbeddingProfile, owner: ChatUser | None = None, seconds: float = SECONDS) -> None:
    """Makes the missing vectors of a profile, of one chat user or of all."""
    if profiles.is_resting(row):
        return
    try:
        async_to_sync(vectors.embed_pending)(clients.embedder_of(profiles.profile_of(row)), owner, seconds=seconds)
    except EmbeddingError as error:
        profiles.postpone(row, cause(str(error)), error.note)
        logger.warning("Vectors are missing and will be requested again: %s", cause(error))


@sweep(every=2.0)
def index_talk() -> None:
    """Makes the passages of messages that came with a file, and the vectors of what was just said.

    After a large import a turn serves a few chat users, each for a moment: those to whom something came last, then some
    of the others by chance, so that none of them waits for the end of another's backlog.
    """
    with lane("index_talk", TALK_LANES) as is_free:
        if not is_free:
            return
        latest = sessions.with_bare().exclude(pk__in=work.at_rest(EMBED, PASSAGES))
        few = list(latest[:AT_ONCE])
        few += latest.exclude(pk__in=[owner.pk for owner in few]).order_by("?")[:AT_ONCE]
        for owner in few:
            renew = partial(sessions.renew, until=enough_after(SLICE_SECONDS), waits=False)
            work.serve(owner, EMBED, renew, PASSAGES)
    row = profiles.serving()
    fresh = ChatUser.objects.filter(pk__in=profiles.fresh(row).values("owner")).order_by("?")
    work.do_for_each(fresh, EMBED, lambda owner: _embed(row, owner, TALK_SECONDS / 2), enough_after(TALK_SECONDS))


def _waiting(scope: Scope) -> int:
    """Passages that lack a vector of the profile that serves, or of the one that is to take over."""
    following = [profiles.profile_of(scope.following)] if scope.following else []
    return passages_without_vector(scope.seen, scope.profile, *following)


def _hours(scope: Scope) -> list[int]:
    """Counts rows instead of summing numbers: the index of times is then enough."""
    made = scope.of(PassageVector.objects.filter(made_at__gte=scope.day_ago))
    return scope.by_hour(made, "made_at", Count("*"))


def _served_by(profile: Profile) -> str:
    if profile.provider == OfflineEmbedder.profile.provider:
        return _("The embedded sentence encoder makes vectors.")
    sentence = _("%(model)s at %(host)s makes vectors.")
    return sentence % {"model": profile.model, "host": profile.provider}


def _models(scope: Scope) -> Mapping[str, Any]:
    """A model that does not answer, and a profile that is to take over."""
    row = scope.following
    waiting = passages_without_vector(scope.seen, profiles.profile_of(row)) if row else 0
    return {"away": profiles.away(), "successor": Successor(row, waiting) if row else None}


STAGE = Stage(
    "embed", words_beside(__file__), _waiting, EMBED, _hours, served_by=_served_by, more=_models, most=MOST_PASSAGES
)
