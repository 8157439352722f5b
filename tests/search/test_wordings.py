"""A query that a model rewrote is searched in both wordings; an unrelated rewrite is not used."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import ValidationError
from pgvector import HalfVector

from memoryapp.curation import rescoring
from memoryapp.curation.rescoring import Query
from memoryapp.engine.embeddings import Vectors
from memoryapp.engine.events import CandidatesFound, QueryEnriched
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.offline.sentence_encoder import OfflineEmbedder
from memoryapp.models import ChatUser, EmbeddingProfile, Operator, QueryVector, Run, Topic
from memoryapp.platform import database
from memoryapp.platform.llm import clients
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs import lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.runs.recall.stages import recall
from memoryapp.search import retrieval
from memoryapp.search.profiles import profile_row
from memoryapp.search.retrieval import SearchResult
from memoryapp.search.similarity import Question, Wording
from memoryapp.search.vectors import embed_pending
from tests.conftest import signed_in, talk
from tests.engine.scripted import ScriptedChat, says
from tests.runs.test_recall_stages import asked, one
from tests.search.test_retrieval import Synonyms, named, topics  # noqa: F401 - a fixture
from tests.support.executing import background_of, events_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]
ASKED = "Что врач сказал про мениск после пробежки?"
# A word is distinctive only among many passages.
REST = ("торт с мёдом", "билеты на поезд", "ремонт балкона", "уроки испанского", "сад и яблони", "новый роман")


def search(owner: ChatUser, query: str, rewrite: str = "", threshold: float | None = 0.2) -> SearchResult:
    async def run() -> SearchResult:
        profile = await profile_row(Synonyms.profile)
        vectors = [HalfVector(vector) for vector in await Synonyms().embed([query, rewrite or query])]
        other = Wording(rewrite, vectors[1]) if rewrite else None
        async with database.pool() as connections, connections.connection() as connection:
            question = Question(owner.pk, query, vectors[0], profile.pk, 32, other)
            return await retrieval.search(connection, question, threshold=threshold)

    return async_to_sync(run)()


def test_both_wordings_are_searched_and_each_candidate_tells_which_found_it(
    anna: ChatUser,
    topics: list[Topic],  # noqa: F811
) -> None:
    knee, tax, *_ = topics
    best = {candidate.id: candidate for candidate in search(anna, "my knee", "file the tax").candidates[:2]}
    assert best.keys() == {named(knee), named(tax)}
    assert best[named(knee)].found_by["original"] == best[named(tax)].found_by["rewrite"] == 1
    assert best[named(knee)].terms.keys() == {"knee"}
    assert {candidate.vector_rank for candidate in best.values()} == {1, 2}
    alone = search(anna, "my knee").candidates[0]
    assert (alone.id, dict(alone.found_by), alone.fused) == (named(knee), {}, best[named(knee)].fused)


def test_a_query_beside_itself_is_found_as_alone(anna: ChatUser, topics: list[Topic]) -> None:  # noqa: F811
    alone, twice = search(anna, "tax of my knee"), search(anna, "tax of my knee", "tax of my knee")
    assert [replace(candidate, found_by={}) for candidate in twice.candidates] == list(alone.candidates)
    assert twice.baseline == alone.baseline


def test_a_past_run_is_tried_again_in_both_wordings(anna: ChatUser, topics: list[Topic]) -> None:  # noqa: F811
    found = search(anna, "my knee", "file the tax")
    vectors = async_to_sync(Synonyms().embed)(["my knee", "file the tax"]).astype(float)
    profile = EmbeddingProfile.objects.get(model="synonyms").pk
    typed = Query("my knee", vectors[0], profile)
    passages = rescoring.passages(anna.pk)
    (again,) = rescoring.compared(anna.pk, passages, [Query("file the tax", vectors[1], profile, typed)])
    fused = dict(zip(again.ids.tolist(), again.fused.tolist(), strict=True))
    assert [fused[c.passage_id] for c in found.candidates] == pytest.approx(
        [c.fused for c in found.candidates], abs=0.02
    )


def test_the_threshold_is_that_of_the_profiles_row(anna: ChatUser, topics: list[Topic]) -> None:  # noqa: F811
    profiles = EmbeddingProfile.objects.filter(model="synonyms")
    counts = []
    for threshold in (0.0, 0.2, 1.0):
        profiles.update(threshold=threshold)
        counts.append(len(search(anna, "joint", threshold=None).shown))
    assert counts[0] == 4 > counts[1] > counts[2] == 0
    with pytest.raises(ValidationError, match="less than or equal to 1"):
        EmbeddingProfile(provider="p", model="m", dimensions=3, threshold=1.5).full_clean()


def test_a_new_profile_of_an_endpoint_begins_with_the_threshold_of_the_settings(settings: Any) -> None:
    settings.EMBEDDING_BASE_URL, settings.EMBEDDING_TOPICS_THRESHOLD = "https://vectors.example/v1", 0.42
    assert (clients.profile().threshold, clients.profile().related) == (0.42, 0.42)
    settings.EMBEDDING_BASE_URL = ""
    assert clients.profile().threshold == OfflineEmbedder.profile.threshold


class Counting:
    """The embedded model, with the number of texts of each request."""

    profile = offline_embedder().profile

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked.append(len(texts))
        return await offline_embedder().embed(texts)


def _talks() -> ChatUser:
    owner = ChatUser.objects.create(name="anna")
    talk(
        owner,
        ("Мениск после пробежки", ["Мениск болит после пробежки, был у врача", "Врач сказал: мениск цел"]),
        ("MinIO storage", ["How do we set up MinIO storage?", "Take four disks for MinIO"]),
        ("MinIO backup", ["Where does MinIO keep backups?", "In a bucket of its own"]),
        *((subject, [f"Расскажи про {subject}", f"Про {subject} мы говорили вчера"]) for subject in REST),
    )
    async_to_sync(embed_pending)(offline_embedder())
    return owner


async def asked_with(line: str, *talk: str, embedder: Any = None) -> tuple[QueryEnriched, CandidatesFound]:
    """Returns what a run asks and finds if the enricher answers ``line`` in a conversation of these messages."""
    owner = await ChatUser.objects.filter(name="anna").afirst() or await sync_to_async(_talks)()
    at = datetime(2026, 3, 10, tzinfo=UTC)
    messages = tuple(MessageContent(-n, "user", "Anna", at, text) for n, text in enumerate(talk, start=1))
    known = await background_of(owner.pk, messages=messages)
    request = asked(owner, query=ASKED, background=known, messages=messages)
    async with open_clients() as opened:
        given = replace(opened, chat=ScriptedChat(says("no")), enricher=ScriptedChat(says(line)))
        given = replace(given, embedder=embedder or given.embedder)
        events = [event async for event in recall(request, given)]
    return one(events, QueryEnriched), one(events, CandidatesFound)


async def test_a_rewrite_that_has_nothing_to_do_with_the_query_is_not_used() -> None:
    line, found = await asked_with("MinIO storage")
    assert (line.enriched, line.note) == (ASKED, "unrelated: MinIO storage")
    assert found.candidates[0].summary == "Мениск после пробежки"
    assert found.candidates[0].found_by == {}


async def test_a_word_that_nobody_said_never_takes_the_place_of_a_typed_one() -> None:
    """The example of the rule "do not guess"; a topic about MinIO is among the latest, which excuses nothing."""
    line, found = await asked_with(ASKED.replace("мениск", "MinIO"), "Вчера была длинная пробежка")
    assert (line.enriched, line.note) == (ASKED, f"guessed: {ASKED.replace('мениск', 'MinIO')}")
    assert found.candidates[0].summary == "Мениск после пробежки"
    kept, _found = await asked_with("Что Саркисян сказал про мениск?", "Саркисян — мой врач")
    assert (kept.enriched, kept.note) == ("Что Саркисян сказал про мениск?", "")


async def test_a_rewrite_of_what_the_talk_is_about_is_searched_beside_the_query() -> None:
    counting = Counting()
    line, found = await asked_with("MinIO storage", "Is the MinIO storage up again?", embedder=counting)
    assert (line.enriched, line.note) == ("MinIO storage", "")
    by_summary = {candidate.summary: candidate for candidate in found.candidates}
    assert by_summary["Мениск после пробежки"].rank <= 2
    assert by_summary["Мениск после пробежки"].found_by["original"] == 1
    assert by_summary["MinIO storage"].found_by["rewrite"] == 1
    # The whole query and its distinctive words; the line as a question and as it is.
    assert counting.asked == [4]


async def test_an_enricher_that_repeats_the_query_changes_nothing() -> None:
    counting = Counting()
    _, repeated = await asked_with(ASKED, embedder=counting)
    _, silent = await asked_with("")
    assert replace(repeated, seconds=0.0) == replace(silent, seconds=0.0)
    assert counting.asked == [2]


async def test_the_page_tells_which_rewrite_was_not_used_and_both_vectors_are_kept(admin: Operator) -> None:
    owner = await sync_to_async(_talks)()
    kept = []
    for line in ("MinIO storage", "Мениск после пробежки", ASKED.replace("мениск", "MinIO")):
        run = await sync_to_async(lifecycle.start)(owner, ASKED, parameters={"seconds": 300})
        async with open_clients() as opened:
            given = replace(opened, chat=ScriptedChat(says("no")), enricher=ScriptedChat(says(line)))
            await lifecycle.execute(run.pk, given)
        kept.append(await QueryVector.objects.aget(run=run))
        assert await events_of(run)
    assert [vector.typed_vector is None for vector in kept] == [True, False, True]
    first, _second, third = [run.pk async for run in Run.objects.order_by("created_at")]

    def page_of(run: UUID) -> str:
        return signed_in(admin).get(f"/runs/{run}/").content.decode()

    page = await sync_to_async(page_of)(first)
    assert "shares neither words nor meaning with what was said" in page
    assert "It wrote: <q>MinIO storage</q>" in page
    page = await sync_to_async(page_of)(third)
    assert "a word of the query gave way to one that nobody said" in page
    assert f"It wrote: <q>{ASKED.replace('мениск', 'MinIO')}</q>" in page
