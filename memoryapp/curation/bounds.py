"""Errors for changes that are too large. Each names the bound, with the plural form of the reader's language.

Every function returns the ``CurationError`` to raise; ``most`` is the bound that was exceeded.
"""

from __future__ import annotations

from django.utils.translation import ngettext

from memoryapp.curation.change import CurationError


def too_many_messages(most: int) -> CurationError:
    sentence = ngettext(
        "At most %(most)d message can be changed at once.", "At most %(most)d messages can be changed at once.", most
    )
    return CurationError(sentence % {"most": most})


def too_many_topics(most: int) -> CurationError:
    sentence = ngettext(
        "At most %(most)d topic can be changed at once.", "At most %(most)d topics can be changed at once.", most
    )
    return CurationError(sentence % {"most": most})


def too_many_people(most: int) -> CurationError:
    sentence = ngettext(
        "At most %(most)d person can be merged at once.", "At most %(most)d people can be merged at once.", most
    )
    return CurationError(sentence % {"most": most})


def too_long_a_summary(chars: int, most: int) -> CurationError:
    """``chars`` is the length of the summary in characters."""
    sentence = ngettext(
        "A summary has at most %(most)d character; this one has %(chars)d.",
        "A summary has at most %(most)d characters; this one has %(chars)d.",
        most,
    )
    return CurationError(sentence % {"most": most, "chars": chars})


def too_long_a_list(most: int, chars: int) -> CurationError:
    """For a list of more than ``most`` entries, or with an entry of more than ``chars`` characters."""
    sentence = ngettext(
        "A list has at most %(most)d entry of %(chars)d characters.",
        "A list has at most %(most)d entries of %(chars)d characters.",
        most,
    )
    return CurationError(sentence % {"most": most, "chars": chars})
