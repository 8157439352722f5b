"""The merger judges suggested merges; if a chat user wants that, they are made without a person.

In: a chat user, and a function that opens a chat model. Out: a verdict stored with each suggestion, and the edit that
``curation.make`` made, if consolidation is automatic. Similarity alone merges nothing. It imports the models,
``work``, ``agent_calls``, ``curation``, ``proposals``, ``suggestions`` and the engine.
"""

from memoryapp.suggestions.consolidation.carrying_out import keep_verdict
from memoryapp.suggestions.consolidation.passes import CONSOLIDATE, Pass, consolidate, due, resumes_at, unjudged

__all__ = ["CONSOLIDATE", "Pass", "consolidate", "due", "keep_verdict", "resumes_at", "unjudged"]
