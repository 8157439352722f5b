"""Server-sent events: lines become events, and a stream that was cut goes on after the last event that came.

The format is that of https://html.spec.whatwg.org/multipage/server-sent-events.html. The server sends the data of an
event in one line, and comments while there is nothing new.
"""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
from pydantic import ValidationError

from mnemoscope_client import calls
from mnemoscope_client.calls import StreamCall
from mnemoscope_client.errors import UnreachableError, UnreadableAnswerError
from mnemoscope_client.sending import Attempts
from mnemoscope_client.shapes import Answered, RunEvent

LAST_KIND = "run_finished"
# Connections in a row that brought no event.
MOST_FRUITLESS = 5
LONGEST_PAUSE = 5.0


@dataclass(slots=True)
class EventReader:
    """Reads lines; an empty line ends an event."""

    fields: dict[str, str] = field(default_factory=dict)

    def read(self, line: str) -> RunEvent | None:
        """Returns the event that this line ends, if it ends one."""
        if line:
            name, _colon, value = line.partition(":")
            if name:
                self.fields[name] = value.removeprefix(" ")
            return None
        fields, self.fields = self.fields, {}
        return _event(fields) if "data" in fields else None


def _event(fields: dict[str, str]) -> RunEvent:
    try:
        number, kind = int(fields.get("id", "0")), fields.get("event", "message")
        return RunEvent("", number, kind, json.loads(fields["data"]))
    except ValueError:
        raise UnreadableAnswerError("The stream holds something that is no event.") from None


@dataclass(slots=True)
class RunStream:
    """The events of one run over as many connections as it takes: what to ask for next, and what came."""

    call: StreamCall
    attempts: Attempts
    run: str = ""
    seq: int = 0
    is_over: bool = False
    fruitless: int = 0
    wait: float | None = None
    reader: EventReader = field(default_factory=EventReader)

    def opened(self, response: httpx.Response) -> None:
        """From here on the run has an address, at which it is continued."""
        self.reader = EventReader()
        named = response.headers.get("Content-Location", "").rpartition("/")[2]
        if named:
            self.run, self.call = named, calls.watch(named)
            self.attempts.is_repeatable = True

    def refused(self, response: httpx.Response) -> None:
        """Raises RefusedError, unless the same request may be sent again after a while."""
        self.wait = self.attempts.after(response)

    def read(self, line: str) -> RunEvent | None:
        """Returns the event that this line ends, unless it came before."""
        event = self.reader.read(line)
        if event is None or event.seq <= self.seq:
            return None
        self.seq, self.fruitless = event.seq, 0
        self.is_over = event.kind == LAST_KIND
        return replace(event, run=self.run)

    def headers(self) -> dict[str, str]:
        return {"Last-Event-ID": str(self.seq)} if self.seq else {}

    def pause(self, error: httpx.TransportError | None) -> float:
        """Returns the seconds to wait before the next connection, after one without the last event.

        Raises UnreachableError if the run has no address yet and may have begun, or if too many connections in a row
        brought nothing.
        """
        if self.wait is not None:
            wait, self.wait = self.wait, None
            return wait
        if error and not self.run:
            return self.attempts.after_failure(error)
        self.fruitless += 1
        if not self.run or self.fruitless > MOST_FRUITLESS:
            raise UnreachableError(f"The stream broke off: {error or 'it ended early'}.", self.run) from error
        return float(min(LONGEST_PAUSE, 0.1 * 2**self.fruitless))


@dataclass(slots=True)
class AnswerStream:
    """The stream of the agent, which ends with its answer. It cannot be continued; its run goes on."""

    run: str = ""
    reader: EventReader = field(default_factory=EventReader)

    def read(self, line: str) -> Answered | None:
        """Returns the answer that this line ends, if it ends it."""
        event = self.reader.read(line)
        if event and event.kind == "run":
            self.run = str(event.payload.get("run", ""))
        return _answered(event.payload) if event and event.kind == "answer" else None

    def broken(self, error: httpx.TransportError | None) -> UnreachableError:
        return UnreachableError(f"The stream broke off: {error or 'it ended without an answer'}.", self.run)


def _answered(payload: Any) -> Answered:
    try:
        return Answered.model_validate(payload)
    except ValidationError as error:
        raise UnreadableAnswerError(f"The answer has another shape: {error}") from None
