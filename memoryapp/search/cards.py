"""Cards: people and artifacts as texts that search compares with a query.

A card is built from its row, and built again whenever the row has changed. If the text of the card stays the same (only
a count of mentions changed), its vector is kept. Otherwise the vector is deleted, and search finds the card by its
words until ``vectors.embed_pending`` has made the next one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib.postgres.search import SearchVector
from django.db import transaction
from django.db.models import F, Q, QuerySet, TextField, Value

from memoryapp.engine.storable import storable
from memoryapp.engine.text.lexical import count_terms, fold, words
from memoryapp.models import Artifact, Card, CardVector, ChatUser, Person, RefusedText

BATCH = 500
# The beginning of a biography or a summary says what it is about.
LONGEST = 4_000
# A file is found by the words in this many characters of its text.
SEARCHED_CHARS = 50_000

# In both languages, because one card serves questions in either.
_CIRCLES = {
    "Family": "family, семья",
    "Friends": "friends, друзья",
    "Work_Inner": "close colleagues, близкие коллеги по работе",
    "Work_Outer": "colleagues, коллеги по работе",
}
_CYRILLIC_WORD_ON_A_CONSONANT = re.compile(r"[а-яё]{2,}[бвгджзклмнпрстфхцчшщ]", re.IGNORECASE)


def person_text(person: Person) -> str:
    """The text of a person's card."""
    names = [person.display_name, *_texts(person.aliases)]
    called = ", ".join(dict.fromkeys(names)) + (f" (@{person.username.lstrip('@')})" if person.username else "")
    circle = _CIRCLES.get(person.circle, "")
    return _text((f"{called}.", f"{circle}." if circle else "", person.bio))


def artifact_text(artifact: Artifact) -> str:
    """The text of an artifact's card."""
    lists = (artifact.keywords, artifact.entities, artifact.rag_hints)
    # Postgres would index "report-2025.pdf" as one word, an address.
    name = f"{artifact.name} {' '.join(words(artifact.name))}"
    described = (artifact.summary, *(", ".join(_texts(part)) for part in lists))
    return _text((f"{artifact.file_type}: {name}.", *described, artifact.text[:LONGEST]))


def _texts(listed: Any) -> list[str]:
    return [str(item) for item in listed] if isinstance(listed, list) else []


def _text(parts: Iterable[str]) -> str:
    return storable(" ".join(" ".join(parts).split()))[:LONGEST]


def refresh(owner: ChatUser | None = None, without: Iterable[int] = ()) -> int:
    """Makes the cards that are missing or older than their row, of one owner or of all ``without`` some. Returns how
    many."""
    people = Person.objects.filter(_behind()).only(
        "owner_id", "display_name", "aliases", "username", "circle", "bio", "updated_at"
    )
    artifacts = Artifact.objects.filter(_behind()).only(
        "owner_id", "file_type", "name", "summary", "keywords", "entities", "rag_hints", "text", "updated_at"
    )
    return sum(_renew(_of(rows, owner).exclude(owner__in=without)) for rows in (people, artifacts))


def owners_behind() -> Q:
    """The condition that a chat user has a card to be made."""
    people, artifacts = (kind._default_manager.filter(_behind()) for kind in (Person, Artifact))
    return Q(pk__in=people.values("owner")) | Q(pk__in=artifacts.values("owner"))


def _behind() -> Q:
    return Q(card__isnull=True) | ~Q(card__made_from=F("updated_at"))


def _of(rows: QuerySet[Any], owner: ChatUser | None) -> QuerySet[Any]:
    return (rows if owner is None else rows.filter(owner=owner)).order_by("pk")


def _renew(behind: QuerySet[Any]) -> int:
    """In batches, by ascending id. A row that changes meanwhile is left to the next sweep."""
    made = last = 0
    while rows := list(behind.filter(pk__gt=last)[:BATCH]):
        made += _put(rows)
        last = rows[-1].pk
    return made


@transaction.atomic
def _put(rows: Sequence[Person | Artifact]) -> int:
    """Stores one card for each row. The rows are locked, so that an erasure meanwhile does not make the batch fail."""
    kind = type(rows[0])
    noun = "person" if kind is Person else "artifact"
    here = set(_locked(kind, rows))
    cards = [_card(row, noun) for row in rows if row.pk in here]
    before: dict[int, str] = dict(Card.objects.filter(**{f"{noun}__in": here}).values_list(noun, "text"))
    Card.objects.bulk_create(
        cards, update_conflicts=True, unique_fields=[noun], update_fields=["text", "terms", "term_count", "made_from"]
    )
    changed = [card for card in cards if before.get(getattr(card, f"{noun}_id"), card.text) != card.text]
    of_changed = {f"card__{noun}__in": [getattr(card, f"{noun}_id") for card in changed]}
    CardVector.objects.filter(**of_changed).delete()
    RefusedText.objects.filter(**of_changed).delete()
    return len(cards)


def _locked(kind: type[Person | Artifact], rows: Sequence[Person | Artifact]) -> QuerySet[Any, int]:
    found = kind._default_manager.filter(pk__in=[row.pk for row in rows]).order_by("pk")
    return found.select_for_update(no_key=True).values_list("pk", flat=True)


def _card(row: Person | Artifact, noun: str) -> Card:
    text = person_text(row) if isinstance(row, Person) else artifact_text(row)
    names = (row.display_name, *_texts(row.aliases)) if isinstance(row, Person) else ()
    # Words beyond the text of the card are indexed as well.
    searched = text if isinstance(row, Person) else f"{text} {storable(row.text[LONGEST:SEARCHED_CHARS])}"
    return Card(
        owner_id=row.owner_id,
        **{noun: row},
        text=text,
        terms=SearchVector(
            Value(fold(" ".join((searched, *declined(names)))), output_field=TextField()), config="russian"
        ),
        term_count=count_terms(searched),
        made_from=row.updated_at,
    )


def declined(names: Iterable[str]) -> list[str]:
    """A second grammatical case of each Russian name that ends in a consonant.

    The stemmer takes the last letters of "Петров" for an ending, but not those of "Петрове". With a second case, a name
    shares a stem with each of its cases.
    """
    found = _CYRILLIC_WORD_ON_A_CONSONANT.fullmatch
    return [f"{word}а" for word in dict.fromkeys(words(" ".join(names))) if found(word)]
