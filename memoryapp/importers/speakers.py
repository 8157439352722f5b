"""Who among the speakers of a chat is the user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from django.utils.translation import gettext as _

from memoryapp.importers.format import NOBODY, Hints
from memoryapp.importers.record import UnknownSpeaker

# The names and ids of one speaker; the first is shown to people.
Speaker = tuple[str, ...]


def found_speaker(speakers: Counter[Speaker], hints: Hints, title: str = "") -> Speaker:
    """Returns the speaker who is the user, empty for none. ``title`` is the name of a chat of two, if it has one.

    It is the one whom a person named, or whose name is that of the chat user; in a chat that is called after one of
    two speakers, the other one. Raises UnknownSpeaker.
    """
    if hints.me == NOBODY or not speakers:
        return ()
    wanted = (hints.me or hints.owner).casefold()
    named = _matching(speakers, wanted)
    if named:
        return named
    others = [each for each in speakers if each != _matching(speakers, title.casefold())]
    if not hints.me and len(speakers) == 2 and len(others) == 1:
        return others[0]
    sentence = _("The chat does not tell who the user is.")
    if hints.me:
        sentence = _("Nobody in this file is “%(name)s”.") % {"name": hints.me}
    raise UnknownSpeaker(sentence, [each[0] or each[-1] for each, _count in speakers.most_common()])


def _matching(speakers: Sequence[Speaker] | Counter[Speaker], wanted: str) -> Speaker:
    return next((each for each in speakers if wanted and wanted in [name.casefold() for name in each]), ())
