"""Tries the endpoints of the settings: what they can do, for a command and a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from memoryapp.engine.chat.protocol import LLMError
from memoryapp.engine.chat.trial import TrialFinding, chat_findings, embedding_finding
from memoryapp.engine.notes import english
from memoryapp.llm import clients


@dataclass(slots=True)
class EndpointTrial:
    """What the chat endpoint at ``host`` and the embedding endpoint can do.

    ``failure`` is why the chat endpoint answers nothing at all; a host is empty when no endpoint is connected."""

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
    """One line for each finding."""
    return [
        f"{finding.question:<12} {finding.can:<8} {finding.seconds:5.1f} s  {words_of(finding)}".rstrip()
        for finding in findings
    ]
