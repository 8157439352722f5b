"""Embedding profiles: which one serves searches, and when another one takes over. The settings name the wanted profile.
While another one serves, a person first has to agree to the cost of the wanted one. Then its vectors are made beside
those that serve, and when none is missing it takes over."""

from datetime import timedelta
from typing import TypeVar

from django.db import IntegrityError, transaction
from django.db.models import Exists, F, Model, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from memoryapp.engine.embeddings import Profile
from memoryapp.engine.notes import Note
from memoryapp.engine.offline.sentence_encoder import OfflineEmbedder
from memoryapp.models import (
    Card,
    CardVector,
    ChatUser,
    EmbeddingProfile,
    ItemVector,
    Message,
    Passage,
    PassageMessage,
    PassageVector,
    QueryVector,
    RefusedText,
    StoredItem,
    Topic,
    TopicVector,
)
from memoryapp.models.user import Owned
from memoryapp.platform import cells
from memoryapp.platform.database import waiting, waits
from memoryapp.platform.llm import clients

# What still lacks a vector of a profile: passages, cards, live topics and items, except texts that the model refused
# recently.

# A refusal may be a passing fault. After three refusals a text is sent once a day.
WAITS = (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1))

# Of the messages that are embedded before all others.
MOST_FRESH = 1_000

# When every text has its vector, only so many new rows are looked at; the others once in a while, for those that were
# refused, lost their vector, or came late from a long transaction.
NEWEST, WHOLE_EVERY = 2_000, timedelta(minutes=10)

Row = TypeVar("Row", bound=Owned)


def passages(row: EmbeddingProfile, owner: ChatUser | None = None) -> QuerySet[Passage]:
    vectors = PassageVector.objects.filter(passage=OuterRef("pk"), profile=row)
    return _missing(Passage.objects.all(), vectors, "passage", row, owner)


def fresh(row: EmbeddingProfile, owner: ChatUser | None = None) -> QuerySet[Passage]:
    """Those of ``passages`` that contain messages of active sessions, of the latest thousand such messages. The ids are
    read first: as one statement over tables that were just filled it took minutes."""
    active = Message.objects.active() if owner is None else Message.objects.active().of(owner)
    messages = list(active.order_by("-pk").values_list("pk", flat=True)[:MOST_FRESH])
    of_active = PassageMessage.objects.filter(message__in=messages).values_list("passage", flat=True)
    return passages(row, owner).filter(pk__in=list(of_active))


def cards(row: EmbeddingProfile, owner: ChatUser | None = None) -> QuerySet[Card]:
    vectors = CardVector.objects.filter(card=OuterRef("pk"), profile=row)
    return _missing(Card.objects.all(), vectors, "card", row, owner)


def topics(row: EmbeddingProfile, owner: ChatUser | None = None) -> QuerySet[Topic]:
    vectors = TopicVector.objects.filter(topic=OuterRef("pk"), profile=row)
    return _missing(Topic.objects.live(), vectors, "topic", row, owner)


def items(row: EmbeddingProfile, owner: ChatUser | None = None) -> QuerySet[StoredItem]:
    vectors = ItemVector.objects.filter(item=OuterRef("pk"), profile=row)
    return _missing(StoredItem.objects.exclude(text=""), vectors, "item", row, owner)


def is_whole(row: EmbeddingProfile) -> bool:
    """Whether every text had its vector a short while ago."""
    return row.whole_at is not None and waits(row.whole_at + WHOLE_EVERY, WHOLE_EVERY)


def note_look(row: EmbeddingProfile, *, has_backlog: bool) -> None:
    """Notes what a look at everybody's rows found; while a cell is out of reach, a later look notes it."""
    if has_backlog or (not is_whole(row) and is_complete(row)):
        rows, whole_at = EmbeddingProfile.objects.filter(pk=row.pk), None if has_backlog else Now()
        cells.tried(lambda: rows.update(whole_at=whole_at))


def is_complete(row: EmbeddingProfile) -> bool:
    """Whether everything has a vector of the profile, apart from texts that its model refused."""
    return not any(kind(row).exists() for _cell in cells.each() for kind in (passages, cards, topics, items))


def owners(row: EmbeddingProfile) -> Q:
    """The condition that a chat user has something without a vector."""
    lacking = [Q(pk__in=kind(row).order_by().values("owner")) for kind in (passages, cards, topics, items)]
    return Q(*lacking, _connector=Q.OR)


def refused_texts(row: EmbeddingProfile) -> QuerySet[RefusedText]:
    """The texts that have no vector because the model refused them. Retired topics do not count."""
    return RefusedText.objects.filter(Q(topic__isnull=True) | Q(topic__is_live=True), profile=row)


def keep_refusal(row: EmbeddingProfile, owner_id: int, noun: str, pk: int, reason: str) -> None:
    """Postpones the next attempt with the text of this row, longer after each refusal."""
    owner = {"profile": row, "owner_id": owner_id, f"{noun}_id": pk}
    now = timezone.now()
    kept, made = RefusedText.objects.get_or_create(
        **owner, defaults={"reason": reason[:500], "retry_at": now + WAITS[0]}
    )
    if not made:
        wait = WAITS[min(kept.tries, len(WAITS) - 1)]
        RefusedText.objects.filter(pk=kept.pk).update(tries=F("tries") + 1, reason=reason[:500], retry_at=now + wait)


def forget_refusals(row: EmbeddingProfile, noun: str, pks: list[int]) -> None:
    """Deletes the refusals of rows that have a vector now."""
    RefusedText.objects.filter(profile=row, **{f"{noun}__in": pks}).delete()


def _missing(
    rows: QuerySet[Row], vectors: QuerySet[Model], noun: str, row: EmbeddingProfile, owner: ChatUser | None
) -> QuerySet[Row]:
    refused = RefusedText.objects.filter(waiting("retry_at", WAITS[-1]), profile=row, **{noun: OuterRef("pk")})
    without = rows.filter(~Exists(vectors), ~Exists(refused))
    return without if owner is None else without.filter(owner=owner)


Decision = EmbeddingProfile.Decision

# How long the model is not asked, by the number of requests in a row that it did not answer.
FIRST_REST, LONGEST_REST = timedelta(seconds=10), timedelta(minutes=10)
# A profile takes over automatically only when its model refused hardly any text.
MOST_REFUSED = 0.01


async def profile_row(profile: Profile) -> EmbeddingProfile:
    """The row of ``profile``, made on its first use."""
    row, _made = await EmbeddingProfile.objects.aget_or_create(
        **profile.identity, defaults={"threshold": profile.threshold}
    )
    return row


def profile_of(row: EmbeddingProfile) -> Profile:
    """The profile of a row, as embedders and searches use it."""
    current = clients.profile()
    if current.identity == row.identity:
        return current
    return clients.known_profile(row.identity, row.threshold)


def serving_profile() -> Profile:
    """The profile in which searches compare: that of the settings, until a profile serves."""
    row = EmbeddingProfile.objects.filter(is_serving=True).first()
    return profile_of(row) if row else clients.profile()


def serving() -> EmbeddingProfile:
    """The row of the profile that serves. When there is none, the profile of the settings serves from now on."""
    row = EmbeddingProfile.objects.filter(is_serving=True).first()
    if row:
        return row
    first = configured()
    try:
        with transaction.atomic():
            EmbeddingProfile.objects.filter(pk=first.pk).update(is_serving=True)
    except IntegrityError:
        # Another process inserted it meanwhile, perhaps with other settings.
        return EmbeddingProfile.objects.get(is_serving=True)
    first.is_serving = True
    return first


def configured() -> EmbeddingProfile:
    """The row of the profile that the settings ask for."""
    profile = clients.profile()
    row, _made = EmbeddingProfile.objects.get_or_create(**profile.identity, defaults={"threshold": profile.threshold})
    return row


def to_make() -> list[EmbeddingProfile]:
    """The profiles whose missing vectors are to be made: the serving one first, then the wanted one if a person agreed
    to it."""
    first, second = serving(), configured()
    return [first] if first == second or second.asked_at is None else [first, second]


def ask(row: EmbeddingProfile, by: str) -> None:
    """Starts making its vectors; a second call changes nothing."""
    EmbeddingProfile.objects.filter(pk=row.pk, is_serving=False, asked_at__isnull=True).update(
        asked_at=Now(), asked_by=by[:150]
    )


def stop(row: EmbeddingProfile) -> None:
    """Stops making its vectors. Those that exist are kept, so that nobody pays for them twice."""
    EmbeddingProfile.objects.filter(pk=row.pk).update(asked_at=None, asked_by="")


def change_over() -> EmbeddingProfile | None:
    """Lets the wanted profile serve once it has all its vectors. Returns that profile, or None when nothing changed."""
    first, second = serving(), configured()
    if first == second or not is_complete(second) or _is_mostly_refused(second):
        return None
    serve(second)
    return second


def _is_mostly_refused(row: EmbeddingProfile) -> bool:
    refused = sum(refused_texts(row).count() for _cell in cells.each())
    texts = sum(Passage.objects.count() + Card.objects.count() for _cell in cells.each()) if refused else 0
    return refused > MOST_REFUSED * texts


@transaction.atomic
def remove_vectors(row: EmbeddingProfile) -> bool:
    """Deletes all vectors of a profile; False for one that serves or that the settings name. Past runs whose queries
    were compared in this profile then preview an edit by words alone."""
    old = EmbeddingProfile.objects.select_for_update().filter(pk=row.pk, is_serving=False)
    if row == configured() or not old.exists():
        return False
    for _cell in cells.each():
        for model in (PassageVector, CardVector, TopicVector, ItemVector, QueryVector, RefusedText):
            model._default_manager.filter(profile=row).delete()
    EmbeddingProfile.objects.filter(pk=row.pk).update(whole_at=None)
    return True


@transaction.atomic
def serve(row: EmbeddingProfile) -> None:
    """From now on searches compare in this profile. A person has to decide on its thresholds, unless one did before."""
    EmbeddingProfile.objects.select_for_update().filter(is_serving=True).update(is_serving=False)
    rows = EmbeddingProfile.objects.filter(pk=row.pk)
    rows.update(is_serving=True, asked_at=None, asked_by="")
    # The thresholds of the embedded model were measured with it.
    if row.provider != OfflineEmbedder.profile.provider:
        rows.filter(decision=Decision.NONE).update(decision=Decision.DUE)


def undecided() -> EmbeddingProfile | None:
    """The profile that took over, until a person has decided on its thresholds."""
    return EmbeddingProfile.objects.filter(is_serving=True, decision=Decision.DUE).first()


def postpone(row: EmbeddingProfile, fault: str, note: Note | None = None) -> None:
    """Postpones requests to the model, which did not answer; longer after each failure."""
    row.refresh_from_db()
    rest = min(FIRST_REST * 2 ** min(row.failures, 10), LONGEST_REST)
    row.failures, row.rests_until = row.failures + 1, timezone.now() + rest
    row.fault, row.fault_note = fault[:500], note.stored() if note else None
    row.save(update_fields=("failures", "rests_until", "fault", "fault_note"))


async def note_answer(row: EmbeddingProfile) -> None:
    """The model answered: requests are no longer postponed."""
    if row.failures:
        row.failures, row.rests_until, row.fault, row.fault_note = 0, None, "", None
        await row.asave(update_fields=("failures", "rests_until", "fault", "fault_note"))


def is_resting(row: EmbeddingProfile) -> bool:
    return waits(row.rests_until, LONGEST_REST)


def away() -> EmbeddingProfile | None:
    """A profile whose vectors are being made and whose model did not answer last time. Unlike ``to_make`` it creates no
    row."""
    asked = EmbeddingProfile.objects.asked(clients.profile())
    made = EmbeddingProfile.objects.filter(Q(is_serving=True) | Q(pk__in=asked), failures__gt=0)
    return made.order_by("-is_serving").first()


def being_made() -> EmbeddingProfile | None:
    """The profile that is to take over and whose vectors a person agreed to. It creates no row."""
    return EmbeddingProfile.objects.asked(clients.profile()).filter(is_serving=False).first()


def awaiting_consent() -> Profile | None:
    """The profile of the settings, while another one serves and nobody agreed to the cost of its vectors. It creates no
    row."""
    profile = clients.profile()
    first = EmbeddingProfile.objects.filter(is_serving=True).first()
    if first is None or first.identity == profile.identity:
        return None
    return None if EmbeddingProfile.objects.asked(profile).exists() else profile


def ask_again(row: EmbeddingProfile) -> int:
    """Lets the next sweep ask the model again, also for texts that it refused. Returns how many these are."""
    EmbeddingProfile.objects.filter(pk=row.pk).update(failures=0, rests_until=None)
    return sum(RefusedText.objects.filter(profile=row).update(retry_at=Now()) for _cell in cells.each())
