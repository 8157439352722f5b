"""A mail server on the other end of a real connection: it takes what it is sent, or refuses."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class MailServer:
    port: int = 0
    refuses: bool = False
    letters: list[str] = field(default_factory=list)


@contextmanager
def mail_server() -> Iterator[MailServer]:
    made = MailServer()

    class Talk(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 here")
            for line in self.rfile:
                verb = line.decode().strip().upper()
                if verb.startswith("MAIL") and made.refuses:
                    self._say("451 come back later")
                elif verb == "DATA":
                    self._say("354 go on")
                    made.letters.append(self._letter())
                    self._say("250 taken")
                elif verb == "QUIT":
                    self._say("221 bye")
                    return
                else:
                    self._say("250 ok")

        def _letter(self) -> str:
            lines = []
            for line in self.rfile:
                if line == b".\r\n":
                    break
                lines.append(line.decode())
            return "".join(lines)

        def _say(self, words: str) -> None:
            self.wfile.write(f"{words}\r\n".encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Talk) as server:
        server.daemon_threads = True
        made.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield made
        server.shutdown()
