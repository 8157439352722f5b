"""Why a file was not read, in the reader's language; the keys are codes of notes."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

WORDS: dict[str, Promise] = {
    "media_missing": _("There is no media %(hash)s in this memory."),
    "media_unreadable": _("The media %(hash)s cannot be read: %(error)s."),
    "media_changed": _("The media %(hash)s is not what was sent."),
    "file_encrypted": _("The file is protected by a password. Remove it and send the file again."),
    "file_malformed": _("The file is damaged, or is not what its name says."),
    "file_bomb": _("The file would become far too large when unpacked."),
    "file_limits": _("Reading the file took too much time or memory."),
    "file_empty": _("There is no text in the file; it may be scanned pages."),
    "file_kind": _("Files of this kind cannot be read; text, Markdown, PDF, Word, pictures and sound can."),
    "file_too_large": _("The file has more than %(most)s bytes: it is not sent to the chat model."),
    "takes_no_audio": _("%(model)s takes no sound. Connect a chat model that does, and read the file again."),
    "takes_no_image": _("%(model)s takes no pictures. Connect a chat model that does, and read the file again."),
    "no_describer": _("No chat model is connected that could describe pictures and sound."),
    "answer_unreadable": _("The chat model’s answer cannot be read."),
    "answer_cut": _("The chat model’s answer was cut off before it said what is in the file."),
}
