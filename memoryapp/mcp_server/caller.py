"""Who calls a tool, and whose memory it is about: every call sees one memory alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memoryapp.accounts.tokens import Grant
from memoryapp.api.access import owner_named, owner_or_404
from memoryapp.api.shapes.errors import RequestRefused
from memoryapp.importers.record import clean


class OneMemory(Grant):
    """A grant narrowed to its one owner, whatever the token opens."""

    @property
    def opens_all(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Caller:
    """A token at an address. ``named`` is the chat user of the address, empty at ``/mcp``; ``absolute`` makes an
    address of a path."""

    grant: Grant
    named: str
    absolute: Callable[[str], str]

    @property
    def must_name(self) -> bool:
        """Whether a tool needs the name of a chat user. Asks the database."""
        return not self.named and self._only() is None

    def memory(self, name: str, *, may_be_new: bool = False) -> Memory:
        """Returns the memory of the address, or else of this name. Raises RequestRefused and BeingErased.

        One of whom nothing is known yet is refused, unless it ``may_be_new`` and the token may create any.
        """
        wanted = clean(self.named or name or self._only() or "").strip()
        if not wanted:
            raise RequestRefused(422, "user: name the chat user whose memory is meant.")
        if may_be_new and self.grant.opens_all and owner_named(self.grant, wanted) is None:
            return Memory(self, self.grant, wanted)
        owner = owner_or_404(self.grant, wanted)
        return Memory(self, OneMemory(self.grant.token, frozenset({owner.pk})), owner.name)

    def _only(self) -> str | None:
        owners = [] if self.grant.opens_all else list(self.grant.visible_owners()[:2])
        return owners[0].name if len(owners) == 1 else None


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory as a call sees it: ``grant`` opens nothing else."""

    caller: Caller
    grant: Grant
    name: str

    def absolute(self, path: str) -> str:
        return self.caller.absolute(path)
