"""Facts and people extracted from topics by the archivist, and the review in which a person decides about them.

In: a topic's messages, and a model's answers about them. Out: ``Finding`` rows with their source messages, and changes
made through ``knowledge``, each of which can be undone. What a person edited, deleted, undid or rejected is neither
overwritten nor made again. It imports the models, ``knowledge``, ``curation``, ``agent_calls``,
``prompt_versions``, ``work`` and the engine."""

from memoryapp.curation.extraction.evidence import PEOPLES_ROLES, Doubt, doubt_of
from memoryapp.curation.extraction.passes import (
    EXTRACT,
    Extracted,
    Model,
    ModelFailed,
    backlog,
    extract,
    failed,
    messages_of,
    retry,
    sources,
    succession,
    unread,
    with_due,
)
from memoryapp.curation.extraction.review import (
    FindingDecided,
    confirm,
    last_decided,
    merge,
    next_waiting,
    outcome,
    reject,
    reject_answer,
    reject_answers,
    take_back,
    target_of,
    waiting,
    waiting_of_answer,
)
