"""The prompt by which a model selects among candidates: its text, the tool, the schema of the answer, and the request
that fills it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from memoryapp.engine.candidates import Candidate, ItemCandidate
from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.parameters import DEFAULTS, Limits
from memoryapp.engine.prompts import prompt
from memoryapp.engine.prompts.prompt import gettext_noop as _
from memoryapp.engine.text.answers import INTEGER, list_schema, object_schema
from memoryapp.engine.text.lines import quoted

TOOL_NAME = "get_topics_content"


_TOPIC_CANDIDATES = prompt.PromptVariable(
    "topic_candidates", _("a line for each topic that search found"), tag="topic_candidates"
)
_PEOPLE_CANDIDATES = prompt.PromptVariable(
    "people_candidates", _("a line for each person that search found"), tag="people_candidates"
)
_ARTIFACT_CANDIDATES = prompt.PromptVariable(
    "artifact_candidates", _("a line for each file that search found"), tag="artifact_candidates"
)
INNER_CIRCLE = prompt.PromptVariable("inner_circle", _("the people closest to the user"), tag="inner_circle")
RERANK = prompt.BuiltInPrompt(
    "rerank",
    title=_("Rerank"),
    purpose=_("Chooses among the candidates that search found."),
    texts=prompt.texts_beside(__file__, "rerank"),
    variables=(
        *prompt.BACKGROUND,
        prompt.PromptVariable("enriched", _("the query as search saw it"), tag="contextualized_query"),
        INNER_CIRCLE,
        _TOPIC_CANDIDATES,
        _PEOPLE_CANDIDATES,
        _ARTIFACT_CANDIDATES,
        prompt.PromptVariable("max_topics", _("how many topics may be chosen")),
        prompt.PromptVariable("max_people", _("how many people may be chosen")),
        prompt.PromptVariable("max_artifacts", _("how many files may be chosen")),
        prompt.PromptVariable("excerpt_over", _("the size in characters from which a topic needs an excerpt")),
        prompt.PromptVariable("tool", _("the name of the tool that loads topics")),
    ),
    required=(prompt.QUERY, _TOPIC_CANDIDATES, _PEOPLE_CANDIDATES, _ARTIFACT_CANDIDATES),
    trial=prompt.PromptTrial(
        _("A past run is repeated with another text and the same candidates."),
        _("The new run takes the same candidates, so any difference comes from the prompt."),
    ),
)


@dataclass(frozen=True, slots=True)
class RerankRequest:
    """The input of a rerank. ``candidates``, ``people`` and ``artifacts`` are what the model may see, best first.

    ``query`` is the user's own text, ``enriched`` the one that was searched, ``baseline`` the ids in plain vector
    order, ``messages`` the running conversation. ``language`` is "en" or "ru"; when it is empty, the query decides.
    ``recent_topics`` and ``inner_circle`` are lines of text. ``variables`` replace those of the prompt when a run is
    tried again: they are sent unchanged, whatever has changed since."""

    query: str
    enriched: str
    candidates: tuple[Candidate, ...]
    baseline: tuple[str, ...]
    today: date
    messages: tuple[MessageContent, ...] = ()
    profile: str = ""
    recent_topics: tuple[str, ...] = ()
    language: str = ""
    people: tuple[ItemCandidate, ...] = ()
    artifacts: tuple[ItemCandidate, ...] = ()
    media: tuple[MediaContent, ...] = ()
    inner_circle: tuple[str, ...] = ()
    prompts: prompt.PromptBook = field(default_factory=lambda: prompt.UNEDITED)
    variables: Mapping[str, str] = field(default_factory=dict)


TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": TOOL_NAME,
        "description": (
            "Load the full text of topics, to study them before choosing. Give every id you want in ONE call. "
            "Mind the sizes: load topics over 10K chars only when their summary fits the query well."
        ),
        "parameters": object_schema(
            ids={
                **list_schema(INTEGER),
                "description": "Numbers of the topics to load: 42 for [Topic:42] or [Session:42].",
            }
        ),
    },
}

_REASON: Mapping[str, Any] = {"type": "string", "description": "One or two sentences: why this helps"}
_EXCERPT: Mapping[str, Any] = {"type": "string", "description": "Whole messages of a large topic, else empty"}


def _choice(example: str, **more: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a list of selected items."""
    id = {"type": "string", "description": f"As in the candidate list: {example}"}
    return list_schema(object_schema(id=id, reason=_REASON, **more))


# Where an endpoint does not enforce the schema, the prompt still describes it.
ANSWER_SCHEMA = object_schema(
    topics=_choice("Topic:42", excerpt=_EXCERPT), people=_choice("Person:5"), artifacts=_choice("Artifact:3")
)


def rerank_text(request: RerankRequest) -> prompt.PromptText:
    """The prompt in force for a request, in its language."""
    return RERANK.of(request.prompts, prompt.language_of(request.query, request.language))


def rerank_variables(request: RerankRequest, limits: Limits = DEFAULTS) -> dict[str, str]:
    """All variables of a rerank prompt; what people wrote is quoted."""
    none = prompt.NONE[prompt.language_of(request.query, request.language)]
    return {
        **prompt.background(
            request.query,
            messages=request.messages[-prompt.CURRENT_MESSAGES :],
            profile=request.profile,
            recent_topics=request.recent_topics,
            media=request.media,
            today=request.today,
            none=none,
        ),
        "enriched": quoted(request.enriched.strip() or request.query.strip()),
        "inner_circle": prompt.listed(request.inner_circle) or none,
        "topic_candidates": "\n".join(candidate.line for candidate in request.candidates) or none,
        "people_candidates": "\n".join(candidate.line for candidate in request.people) or none,
        "artifact_candidates": "\n".join(candidate.line for candidate in request.artifacts) or none,
        "max_topics": str(limits.max_topics),
        "max_people": str(limits.max_people),
        "max_artifacts": str(limits.max_artifacts),
        "excerpt_over": str(limits.excerpt_over_chars),
        "tool": TOOL_NAME,
        **request.variables,
    }
