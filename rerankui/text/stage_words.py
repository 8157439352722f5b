"""The stages of the pipeline in words: what each is called, what it counts, and which model serves it."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, npgettext_lazy, pgettext_lazy

from memoryapp.clients import host_of
from memoryapp.engine.agents import AGENTS
from memoryapp.engine.embeddings import Profile
from memoryapp.engine.offline.sentence_encoder import OfflineEmbedder


@dataclass(frozen=True, slots=True)
class StageWords:
    """``waits`` names what waits there, by its number ``n``; ``does`` what its hours count, empty where they count
    nothing."""

    name: str | Promise
    icon: str
    waits: str | Promise
    does: str | Promise = ""


WORDS: dict[str, StageWords] = {
    "import": StageWords(
        pgettext_lazy("stage", "Import"),
        "database-import",
        npgettext_lazy("waiting", "file", "files", "n"),
        gettext_lazy("messages imported by hour"),
    ),
    "archive": StageWords(
        pgettext_lazy("stage", "Archive"),
        "scissors",
        npgettext_lazy("waiting", "message in no topic", "messages in no topic", "n"),
        gettext_lazy("topics made by hour"),
    ),
    "embed": StageWords(
        pgettext_lazy("stage", "Embed"),
        "chart-dots",
        npgettext_lazy("waiting", "passage without a vector", "passages without a vector", "n"),
        gettext_lazy("passages embedded by hour"),
    ),
    "consolidate": StageWords(
        pgettext_lazy("stage", "Consolidate"),
        "arrow-merge",
        npgettext_lazy("waiting", "pair nobody judged", "pairs nobody judged", "n"),
        gettext_lazy("questions to the merger by hour"),
    ),
    "extract": StageWords(
        pgettext_lazy("stage", "Extract"),
        "bulb",
        npgettext_lazy("waiting", "topic not read", "topics not read", "n"),
        gettext_lazy("questions to the archivist by hour"),
    ),
    "artifacts": StageWords(
        pgettext_lazy("stage", "Artifacts"),
        "paperclip",
        npgettext_lazy("waiting", "file to read", "files to read", "n"),
        gettext_lazy("files read by hour"),
    ),
    "runs": StageWords(
        pgettext_lazy("stage", "Recalls"),
        "radar-2",
        npgettext_lazy("waiting", "run that has not begun", "runs that have not begun", "n"),
        gettext_lazy("recalls by hour"),
    ),
    "erase": StageWords(
        pgettext_lazy("stage", "Erase"),
        "eraser",
        npgettext_lazy("waiting", "memory to erase", "memories to erase", "n"),
        gettext_lazy("memories erased by hour"),
    ),
}


def served_by(stage: str, profile: Profile) -> str:
    """Which model does the work of a stage, or that none does, as the settings are."""
    return _embedder(profile) if stage == "embed" else chat_model_of(stage)


def chat_model_of(stage: str) -> str:
    """The same of a stage that a chat model does; empty for others."""
    has_model = bool(settings.LLM_BASE_URL)
    sentence = (_with_model if has_model else _without_model)().get(stage, "")
    return sentence % {"host": host_of(settings.LLM_BASE_URL), **_models()} if has_model else sentence


def _models() -> dict[str, str]:
    of_agents = {agent.name: getattr(settings, agent.model) for agent in AGENTS.values()}
    return {**of_agents, "reranker": settings.RERANKER_MODEL}


def _embedder(profile: Profile) -> str:
    if profile.provider == OfflineEmbedder.profile.provider:
        return _("The embedded sentence encoder makes vectors.")
    sentence = _("%(model)s at %(host)s makes vectors.")
    return sentence % {"model": profile.model, "host": profile.provider}


def _with_model() -> dict[str, str]:
    return {
        "archive": _("%(splitter)s at %(host)s cuts sessions; where it fails, the embedded segmenter does."),
        "consolidate": _("%(merger)s at %(host)s judges whether similar topics are one."),
        "extract": _("%(archivist)s at %(host)s reads topics for facts and people."),
        "artifacts": _("Text is read from files as it is; %(archivist)s at %(host)s describes pictures and sound."),
        "runs": _("%(reranker)s at %(host)s chooses."),
    }


def _without_model() -> dict[str, str]:
    return {
        "archive": _("No chat model is connected: the embedded segmenter cuts sessions."),
        "consolidate": _("No chat model is connected: people judge similar topics in the queue."),
        "extract": _("No chat model is connected: nothing is extracted."),
        "artifacts": _(
            "No chat model is connected: text is read from files as it is, pictures and sound wait for one."
        ),
        "runs": _("No chat model is connected: the embedded scorer chooses."),
    }
