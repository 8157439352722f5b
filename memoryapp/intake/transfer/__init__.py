"""Exports and restores a whole memory as JSON Lines: what people said, made and decided, without derived data.

In: a chat user, or an exported file and the name of a chat user who has no messages yet. Out: lines, or the memory.
Rows are written by field, so a new model or field is exported automatically; ``rows.LEFT_OUT`` names the exceptions.
``distilled`` imports what another program had made of the messages of an import. It may import ``ingestion``, which
makes the passages of restored messages, and ``knowledge``."""

from memoryapp.intake.transfer.exporting import RESTORED, file_of, lines
from memoryapp.intake.transfer.restoring import NotEmpty, Restored, outline, recognises, restore
