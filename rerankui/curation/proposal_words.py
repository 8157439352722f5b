"""Why there is no proposal, in the reader's language."""

from __future__ import annotations

from django.utils.translation import gettext as _

from memoryapp.curation import CurationError
from memoryapp.suggestions.proposals import ProposalError
from rerankui.runs.page.notes import sentence_of


def failure_words(error: CurationError | ProposalError) -> str:
    """The sentence of the error; what the model's client says in it comes as a code and is put into words here."""
    note = error.note if isinstance(error, ProposalError) else None
    return _("The model made no proposal: %(why)s") % {"why": sentence_of(note)} if note else str(error)
