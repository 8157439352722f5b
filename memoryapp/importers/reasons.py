"""Why a message of a file is left out: sentences that begin with "it", in the language of the person who asks."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

BRANCH = gettext_lazy("it stands on a branch that was edited or generated anew")
EMPTY = gettext_lazy("it is empty")
EVENT = gettext_lazy("it is an event of the log, no message")
HIDDEN = gettext_lazy("it is of a tool, reasoning or hidden")
OTHER_CHAT = gettext_lazy("its chat was not chosen")
OTHER_USER = gettext_lazy("it is of another user of the file")
OTHER_TIME = gettext_lazy("it is outside of the chosen period")
PROGRAM = gettext_lazy("it is of a tool, reasoning or written by the program")
REWOUND = gettext_lazy("somebody went back from it")
SIDE_CHAIN = gettext_lazy("it is of a side chain, in which agents speak with each other")
TOOL = gettext_lazy("it is a call of a tool or its result")
TWICE = gettext_lazy("it stands twice in the log")
