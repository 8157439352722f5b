"""How sockets are closed: with every code that the protocol knows.

Autobahn, below daphne, refuses to send codes below 3000 except 1000. A socket that was to be closed with 1011, on which
a page connects again, would stay open and never send anything.
"""

from __future__ import annotations

# First of all of daphne, see ``server_limits``.
import daphne.server  # noqa: F401
from daphne.ws_protocol import WebSocketFactory, WebSocketProtocol

ENDED = 1000


class ClosedWithAnyCode(WebSocketProtocol):  # type: ignore[misc]
    def serverClose(self, code: int | None = None) -> None:
        self.sendCloseFrame(code=ENDED if code is None else code)


def allow() -> None:
    """Have daphne close sockets with any code."""
    WebSocketFactory.protocol = ClosedWithAnyCode
