"""What the sockets of pages have in common."""

from __future__ import annotations

from channels.generic.websocket import AsyncWebsocketConsumer


class PageSocket(AsyncWebsocketConsumer):  # type: ignore[misc]
    """A socket without a channel of its own: what it sends comes from the rows of a run, whose notices the process
    receives once. A channel would take a lock of the database for each viewer, held on a connection."""

    # No layer has this name, so channels uses none.
    channel_layer_alias = ""
