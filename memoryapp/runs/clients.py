"""The connections and models that runs use, opened for one event loop: chat models, embedder, database, journal,
leases."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

import httpx
from django.conf import settings

from memoryapp.engine.chat.protocol import LLMError
from memoryapp.engine.chat.trial import TrialFinding, chat_findings, embedding_finding
from memoryapp.engine.embeddings import Embedder
from memoryapp.engine.notes import english
from memoryapp.engine.offline.sentence_encoder import OfflineEmbedder
from memoryapp.platform import database
from memoryapp.platform.database import in_thread
from memoryapp.platform.llm import clients
from memoryapp.runs.claims import Leases, open_leases
from memoryapp.runs.journal import Journal
from memoryapp.runs.recall.request import RecallClients
from memoryapp.search import profiles
from memoryapp.search.retrieval import SearchCache

# When another profile takes over, runs use it after at most this many seconds; the previous one still has its vectors.
LOOKED_UP_EVERY = 5.0


class Serving:
    """The embedder of the profile that serves, checked every few seconds; its requests go through ``http``."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._known: tuple[Embedder, int] | None = None
        self._until = 0.0

    async def embedder(self) -> tuple[Embedder, int]:
        """The embedder and the id of its profile. Raises DatabaseError."""
        if self._known is None or monotonic() >= self._until:
            # Set before the query, so that only one of several concurrent runs makes it.
            self._until = monotonic() + LOOKED_UP_EVERY
            row = await in_thread(profiles.serving)
            if self._known is None or row.pk != self._known[1]:
                self._known = clients.embedder_of(profiles.profile_of(row), self._http), row.pk
        return self._known


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients(RecallClients):
    """Everything that a run needs from outside, for use in one event loop. ``journal`` stores the events of runs,
    ``leases`` shows which runs are still executed, and ``http`` sends the requests to all providers. ``serving`` knows
    which embedding profile serves; without it ``embedder`` always serves."""

    journal: Journal
    leases: Leases
    http: httpx.AsyncClient | None = None
    serving: Serving | None = None

    async def now(self) -> Clients:
        """The same clients with the embedder of the profile that serves now. Raises DatabaseError."""
        if self.serving is None:
            return self
        embedder, profile_id = await self.serving.embedder()
        return self if profile_id == self.profile_id else replace(self, embedder=embedder, profile_id=profile_id)

    def asking(self, model: str) -> Clients:
        """The same clients with a chat model of this name; with the usual one for an empty name."""
        return replace(self, chat=clients.chat(self.http, model)) if model and self.http else self


@asynccontextmanager
async def open_clients(*, searches_kept: float = 0.0) -> AsyncIterator[Clients]:
    """Clients for the running event loop, closed at the end. The embedded model is loaded at once, so that no run waits
    for it. Results of searches are cached for ``searches_kept`` seconds: by default not at all, because measurements
    must search."""
    async with clients.http_client() as http, database.pool() as pool, open_leases() as leases:
        serving = Serving(http)
        embedder, profile_id = await serving.embedder()
        if isinstance(embedder, OfflineEmbedder):
            await embedder.embed(["ready"])
        yield Clients(
            chat=clients.chat(http, settings.RERANKER_MODEL),
            enricher=clients.chat(http, settings.ENRICHER_MODEL) if settings.LLM_BASE_URL else None,
            verifier=clients.chat(http, settings.VERIFIER_MODEL)
            if settings.LLM_BASE_URL and settings.VERIFIER_MODEL
            else None,
            embedder=embedder,
            profile_id=profile_id,
            pool=pool,
            journal=Journal(pool),
            leases=leases,
            search_cache=SearchCache(searches_kept),
            http=http,
            cross_encoder=clients.cross_encoder(http),
            serving=serving,
        )


def exempt_loaded() -> None:
    """Excludes what is loaded by now from garbage collection, which would pause all runs for 0.15 s each time."""
    gc.collect()
    gc.freeze()


# Tries the endpoints of the settings: what they can do, for a command and a page.


@dataclass(slots=True)
class EndpointTrial:
    """What the chat endpoint at ``host`` and the embedding endpoint can do. ``failure`` is why the chat endpoint
    answers nothing at all; a host is empty when no endpoint is connected."""

    host: str = ""
    model: str = ""
    embedding_host: str = ""
    embedding_model: str = ""
    failure: str = ""
    findings: list[TrialFinding] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """The trial as a JSON value."""
        return {
            "host": self.host,
            "model": self.model,
            "embedding_host": self.embedding_host,
            "embedding_model": self.embedding_model,
            "failure": self.failure,
            "findings": [_described(finding) for finding in self.findings],
        }


async def try_endpoints(*, chat: bool = True) -> EndpointTrial:
    """Asks both endpoints; only that of embeddings without ``chat``. Takes at most about a minute."""
    trial = EndpointTrial(embedding_model=clients.profile().model)
    async with clients.http_client() as http:
        if chat and settings.LLM_BASE_URL:
            trial.host, trial.model = clients.host_of(settings.LLM_BASE_URL), settings.RERANKER_MODEL
            try:
                trial.findings = await chat_findings(
                    lambda stream: clients.unlearnt_chat(http, settings.RERANKER_MODEL, stream=stream)
                )
            except LLMError as error:
                trial.failure = str(error)
        if settings.EMBEDDING_BASE_URL:
            trial.embedding_host = clients.host_of(settings.EMBEDDING_BASE_URL)
            trial.findings.append(await embedding_finding(clients.embedder(http)))
    return trial


def words_of(finding: TrialFinding) -> str:
    """What came, what was refused and in which words, what is done instead."""
    steps = [f"{step.capability} → {step.instead}: {step.why}" for step in finding.steps]
    return "; ".join(part for part in (finding.detail, *steps, english(finding.notes), finding.error) if part)


def _described(finding: TrialFinding) -> dict[str, Any]:
    return {
        "question": finding.question,
        "can": finding.can,
        "seconds": round(finding.seconds, 2),
        "words": words_of(finding),
        "instead": [step.instead for step in finding.steps],
    }


def table(findings: Sequence[TrialFinding]) -> list[str]:
    return [
        f"{finding.question:<12} {finding.can:<8} {finding.seconds:5.1f} s  {words_of(finding)}".rstrip()
        for finding in findings
    ]
