"""People and artifacts as candidates.

A person or artifact is found by its card, which is scored like a passage. People close to the user are not left out:
the inner circle is part of the background anyway, and its members are still found and described in full. Files of the
running conversation come first whatever the query, because people refer to them without naming them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
from django.contrib.postgres.search import SearchVector
from django.db import transaction
from django.db.models import F, Q, QuerySet, TextField, Value
from numpy.typing import NDArray

from memoryapp.engine.beside import table_beside
from memoryapp.engine.candidates import ItemCandidate
from memoryapp.engine.fusion import descending
from memoryapp.engine.json_values import storable
from memoryapp.engine.memory import item_id
from memoryapp.engine.text.lexical import count_terms, fold, words
from memoryapp.engine.text.lines import artifact_line, person_line, texts_of
from memoryapp.models import Artifact, Card, CardVector, ChatUser, Person, RefusedText
from memoryapp.platform.database import SqlRead
from memoryapp.search.scores import ScoredTexts
from memoryapp.search.similarity import WORDINGS

SESSION_ARTIFACTS = 5
_NAME_CHARS = 200

_SQL = table_beside(__file__)
PEOPLE: str = _SQL["people"]
ARTIFACTS: str = _SQL["artifacts"]


@dataclass(frozen=True, slots=True)
class _RankedItem:
    """One person or artifact: its row number, and the fields of its candidate that the search computes."""

    number: int
    scores: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RankedItems:
    """People and artifacts, best first."""

    people: tuple[_RankedItem, ...]
    artifacts: tuple[_RankedItem, ...]


def find_items(
    cards: ScoredTexts, threshold: float, *, shown: tuple[int, int], most: int, but: Sequence[int] = ()
) -> RankedItems:
    """The best ``most`` of each kind, of which ``shown`` (people, artifacts) may be shown, without the people ``but``.
    Equal scores are ordered by number."""
    people = np.flatnonzero((cards.items > 0) & ~np.isin(cards.items, but))
    return RankedItems(
        people=_ranked(cards, people, threshold, shown[0], most),
        artifacts=_ranked(cards, np.flatnonzero(cards.items < 0), threshold, shown[1], most),
    )


def _ranked(
    cards: ScoredTexts, places: NDArray[np.intp], threshold: float, shown: int, most: int
) -> tuple[_RankedItem, ...]:
    if not len(places):
        return ()
    numbers = np.abs(cards.items[places])
    order = np.lexsort((numbers, -cards.fused[places]))[:most]
    cosine = cards.cosine[places]
    nearest = {
        int(at): rank for rank, at in enumerate(descending(cosine).tolist(), start=1) if cosine[at] == cosine[at]
    }
    beyond = len(nearest) + 1 if nearest else 0
    relevant = cards.relevant(threshold)[places]
    seen = set(order[relevant[order]][:shown].tolist())
    columns = cards.numbers(places[order])
    names = [each.name for each in fields(columns)]
    rows = (dict(zip(names, row, strict=True)) for row in zip(*(getattr(columns, name) for name in names), strict=True))
    ranks = {
        wording: {at: rank for rank, at in enumerate(np.lexsort((numbers, -fused[places])).tolist(), start=1)}
        for wording, fused in zip(WORDINGS, cards.by_wording, strict=False)
    }

    def found_by(at: int) -> dict[str, int]:
        return {wording: ranks[wording][at] for wording in ranks} if at in seen else {}

    return tuple(
        _RankedItem(
            int(numbers[at]),
            {"vector_rank": nearest.get(at, beyond), "shown": at in seen, "found_by": found_by(at), **row},
        )
        for at, row in zip(order.tolist(), rows, strict=True)
    )


def people_read(owner_id: int, found: Sequence[_RankedItem]) -> SqlRead[tuple[ItemCandidate, ...]]:
    """Reads the found people, as candidates; a person who was erased meanwhile is left out."""
    numbers = [each.number for each in found]
    return SqlRead((PEOPLE, {"owner": owner_id, "people": numbers}) if numbers else None, partial(_people, found))


def artifacts_read(owner_id: int, found: Sequence[_RankedItem]) -> SqlRead[tuple[ItemCandidate, ...]]:
    """Reads the found artifacts and the files of the running conversation, as candidates: those files first, newest
    first, then the others."""
    values = {"owner": owner_id, "artifacts": [each.number for each in found], "session": SESSION_ARTIFACTS}
    return SqlRead((ARTIFACTS, values), partial(_artifacts, found))


def _people(found: Sequence[_RankedItem], rows: Iterable[Sequence[Any]]) -> tuple[ItemCandidate, ...]:
    known = {row[0]: row[1:] for row in rows}
    here = [each for each in found if each.number in known]
    return tuple(_person(each, rank, known[each.number]) for rank, each in enumerate(here, start=1))


def _artifacts(found: Sequence[_RankedItem], rows: Iterable[Sequence[Any]]) -> tuple[ItemCandidate, ...]:
    rows = list(rows)
    session = {row[0]: row[1:-1] for row in rows if row[-1]}
    known = {row[0]: row[1:-1] for row in rows if not row[-1] and row[0] not in session}
    first = [_session_file(number, rank, row) for rank, (number, row) in enumerate(session.items(), start=1)]
    here = [each for each in found if each.number in known]
    rest = [_artifact(each, rank, known[each.number]) for rank, each in enumerate(here, start=len(first) + 1)]
    return (*first, *rest)


def _person(each: _RankedItem, rank: int, row: Sequence[Any]) -> ItemCandidate:
    id = item_id("Person", each.number)
    name, username, aliases, circle, mentions, bio = row
    shown = (name, username, texts_of(aliases), circle, mentions, bio)
    line = person_line(id, each.scores["score"], *shown) if each.scores["shown"] else ""
    return ItemCandidate(id=id, rank=rank, name=_name(name), line=line, **each.scores)


def _artifact(each: _RankedItem, rank: int, row: Sequence[Any]) -> ItemCandidate:
    id = item_id("Artifact", each.number)
    line = _line(id, each.scores["score"], row) if each.scores["shown"] else ""
    return ItemCandidate(id=id, rank=rank, name=_name(row[1]), line=line, **each.scores)


def _session_file(number: int, rank: int, row: Sequence[Any]) -> ItemCandidate:
    id = item_id("Artifact", number)
    scores: dict[str, Any] = {"vector_rank": 0, "cosine": 0.0, "bm25": 0.0, "fused": 0.0, "score": 0.0}
    line = _line(id, 0.0, row, in_session=True)
    return ItemCandidate(id=id, rank=rank, name=_name(row[1]), line=line, shown=True, in_session=True, **scores)


def _line(id: str, score: float, row: Sequence[Any], *, in_session: bool = False) -> str:
    file_type, name, keywords, entities, summary, hints = row
    described = texts_of(keywords), texts_of(entities), summary, texts_of(hints)
    return artifact_line(id, score, file_type, name, *described, in_session=in_session)


def _name(name: str) -> str:
    return " ".join(name.split())[:_NAME_CHARS]


# Cards: people and artifacts as texts that search compares with a query.
#
# A card is built from its row, and built again whenever the row has changed. If the text of the card stays the same
# (only a count of mentions changed), its vector is kept. Otherwise the vector is deleted, and search finds the card
# by its words until ``vectors.embed_pending`` has made the next one.

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
    """A second grammatical case of each Russian name that ends in a consonant. The stemmer takes the last letters of
    "Петров" for an ending, but not those of "Петрове". With a second case, a name shares a stem with each of its
    cases."""
    found = _CYRILLIC_WORD_ON_A_CONSONANT.fullmatch
    return [f"{word}а" for word in dict.fromkeys(words(" ".join(names))) if found(word)]
