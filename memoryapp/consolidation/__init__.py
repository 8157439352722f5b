"""Suggested merges that a chat model judges, and those that are made without a person where a chat user wants that.

In: a chat user, and a function that opens a chat model. Out: a verdict at each suggestion, and where consolidation is
automatic the edit that ``suggestions.accept`` made. Similarity alone merges nothing. It imports the models, ``work``,
``curation``, ``proposals`` and ``suggestions``.
"""

from memoryapp.consolidation.carrying_out import keep_verdict
from memoryapp.consolidation.passes import Pass, consolidate, due, resumes_at, unjudged

__all__ = ["Pass", "consolidate", "due", "keep_verdict", "resumes_at", "unjudged"]
