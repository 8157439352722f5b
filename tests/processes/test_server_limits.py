"""The limits of the web server: bodies up to a size, within a time, without memory for what it refuses."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.conf import settings
from django.test import override_settings

from memoryapp.insight.capsules import LARGEST_CAPSULE_BYTES
from memoryapp.platform.embedded import paths
from rerankui.web import uploads
from rerankui.web.server_limits import FORM_BYTES
from tests.support.clock import PATIENCE
from tests.support.stack import CHECKOUT, wait_for

FORM = "Content-Type: application/x-www-form-urlencoded\r\n"


class Running:
    """A server with the project's limits, alone in its process."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
        self._process = process
        self._port = port
        self._folder = folder

    def secret(self) -> str:
        """Returns the key of its signatures."""
        return paths.secret_key(self._folder)

    def bodies(self) -> list[Path]:
        """Returns what it wrote of uploads."""
        return sorted((self._folder / "imports").glob("*"))

    def connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE)

    def asked(self, head: str, *bodies: bytes) -> str:
        """Returns the server's answer to a request, whose body it may refuse to read completely."""
        with self.connected() as connection:
            connection.sendall(f"{head}Host: localhost\r\nConnection: close\r\n\r\n".encode())
            try:
                for body in bodies:
                    connection.sendall(body)
            except OSError:
                pass
            return _all(connection)

    def peak_megabytes(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found
        return int(found[1]) / 1024


def _all(connection: socket.socket) -> str:
    """Reads until an answer is complete, or the server closes the connection."""
    received = b""
    try:
        while not _is_whole(received) and (part := connection.recv(65536)):
            received += part
    except OSError:
        pass
    return received.decode()


def _is_whole(received: bytes) -> bool:
    """Whether it is a complete answer with its length; after a refusal the server reads for some more seconds."""
    head, end, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"Content-Length: (\d+)", head) if end else None
    return length is not None and len(body) >= int(length[1])


@contextmanager
def server(tmp_path: Path, patience: float, **settings: str) -> Iterator[Running]:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "memoryapp.settings", "DATA_DIR": str(tmp_path), **settings}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        command = [sys.executable, "-m", "tests.processes.counting_server", str(listener.fileno()), str(patience)]
        process = subprocess.Popen(command, cwd=CHECKOUT, env=environment, pass_fds=[listener.fileno()])
        running = Running(process, listener.getsockname()[1], tmp_path)
    try:
        # A connection waits until the server accepts it.
        assert running.asked("GET /ready HTTP/1.1\r\n").startswith("HTTP/1.1 200")
        yield running
    finally:
        process.terminate()
        process.wait(PATIENCE)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with server(tmp_path_factory.mktemp("served"), PATIENCE) as running:
        yield running


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with server(tmp_path_factory.mktemp("impatient"), 0.5) as running:
        yield running


def test_a_body_within_the_limit_arrives_whole(served: Running) -> None:
    answer = served.asked(f"POST /login/ HTTP/1.1\r\n{FORM}Content-Length: {FORM_BYTES}\r\n", b"a" * FORM_BYTES)
    assert f"\r\n{FORM_BYTES}\r\n" in answer


def test_a_program_may_send_more_than_a_page(served: Running) -> None:
    size = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    answer = served.asked(f"POST /v1/recall HTTP/1.1\r\nContent-Length: {size}\r\n", b"a" * size)
    assert f"\r\n{size}\r\n" in answer
    refused = served.asked(f"POST /v1/recall HTTP/1.1\r\nContent-Length: {size + 1}\r\n", b"a" * size, b"a")
    assert refused.startswith("HTTP/1.1 413")
    assert '{"error": {"code": "too_large", "message": "A body has at most 10,485,760 bytes."}}' in refused


def test_the_file_of_a_run_may_be_as_large_as_its_page_promises(served: Running) -> None:
    size = LARGEST_CAPSULE_BYTES + 10_000
    answer = served.asked(f"POST /runs/open/ HTTP/1.1\r\nContent-Length: {size}\r\n", b"a" * size)
    assert f"\r\n{size}\r\n" in answer
    assert served.asked("POST /runs/open/ HTTP/1.1\r\nContent-Length: 40000000\r\n").startswith("HTTP/1.1 413")


def test_a_chat_file_with_a_ticket_goes_to_disk_and_not_through_memory(served: Running, tmp_path: Path) -> None:
    before, part = served.peak_megabytes(), b"a" * 1_000_000
    with override_settings(SECRET_KEY=served.secret()):
        good, other = uploads.ticket(7, 1), uploads.ticket(8, 1)
    head = f"HTTP/1.1\r\nContent-Length: {100 * len(part)}\r\n"
    answer = served.asked(f"POST /memory/7/imports/upload/{good}/ {head}", *[part] * 100)
    [body] = served.bodies()
    assert answer.startswith("HTTP/1.1 200")
    assert "\r\n0\r\n" in answer, "the application gets no body"
    assert body.stat().st_size == 100 * len(part)
    assert served.peak_megabytes() - before < 50
    for ticket in (other, "made-up"):
        refused = served.asked(f"POST /memory/7/imports/upload/{ticket}/ {head}", part)
        assert refused.startswith("HTTP/1.1 413")
    too_large = settings.IMPORT_MAX_BYTES + uploads.FORM_BYTES + 1
    refused = served.asked(f"POST /memory/7/imports/upload/{good}/ HTTP/1.1\r\nContent-Length: {too_large}\r\n")
    assert refused.startswith("HTTP/1.1 413")
    assert served.bodies() == [body], "what was refused leaves nothing"


def test_a_chat_file_that_is_cut_off_leaves_nothing(served: Running) -> None:
    with override_settings(SECRET_KEY=served.secret()):
        ticket = uploads.ticket(7, 1)
    before = served.bodies()
    with served.connected() as connection:
        connection.sendall(
            f"POST /memory/7/imports/upload/{ticket}/ HTTP/1.1\r\nContent-Length: 9000\r\n\r\na".encode()
        )
        wait_for(lambda: len(served.bodies()) > len(before))
    wait_for(lambda: served.bodies() == before)
    assert served.asked("GET /healthz HTTP/1.1\r\n").startswith("HTTP/1.1 200")


def test_an_upload_that_would_fill_the_disk_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    with server(tmp_path, PATIENCE, DISK_RESERVE_BYTES=str(10**15)) as full:
        with override_settings(SECRET_KEY=full.secret()):
            ticket = uploads.ticket(7, 1)
        head = f"POST /memory/7/imports/upload/{ticket}/ HTTP/1.1\r\nContent-Length: 9000\r\n"
        answer = full.asked(head)
        assert answer.startswith("HTTP/1.1 507")
        assert "too little free space" in answer
        assert "свободного места" in full.asked(f"{head}Accept-Language: ru\r\n")
        assert full.bodies() == []
        assert full.asked("GET /healthz HTTP/1.1\r\n").startswith("HTTP/1.1 200")


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("en", "The request is larger than 2 MB, the largest that a page accepts."),
        ("ru", "Запрос больше 2 МБ, наибольшего размера для страницы."),
    ],
)
def test_what_is_too_large_is_answered_before_it_is_sent(served: Running, language: str, sentence: str) -> None:
    answer = served.asked(f"POST /login/ HTTP/1.1\r\nAccept-Language: {language}\r\nContent-Length: 40000000\r\n")
    assert answer.startswith("HTTP/1.1 413")
    assert answer.endswith(sentence)


def test_a_body_that_names_no_length_is_counted(served: Running) -> None:
    chunk = b"100000\r\n" + b"a" * 0x100000 + b"\r\n"
    answer = served.asked("POST /login/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", chunk, chunk, chunk, b"0\r\n\r\n")
    assert answer.startswith("HTTP/1.1 413")


@pytest.mark.parametrize("code", [1000, 1011, 4404])
def test_a_socket_is_closed_with_the_code_it_is_given(served: Running, code: int) -> None:
    lines = (
        *(f"GET /{code}/ HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade"),
        *("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"),
    )
    with served.connected() as connection:
        connection.sendall("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        received = b""
        while not received.endswith(b"\x88\x02" + code.to_bytes(2)):
            part = connection.recv(4096)
            assert part, received
            received += part
    assert received.startswith(b"HTTP/1.1 101 ")


def test_large_forms_cost_no_memory_and_nobody_waits(served: Running) -> None:
    before = served.peak_megabytes()
    part = b"a=1&" * 250_000
    head = f"POST /login/ HTTP/1.1\r\n{FORM}Content-Length: 38000000\r\n"
    with ThreadPoolExecutor(4) as senders:
        sent = [senders.submit(served.asked, head, *[part] * 38) for _ in range(4)]
        assert served.asked("GET /healthz HTTP/1.1\r\n").startswith("HTTP/1.1 200")
        assert all(answer.result().startswith("HTTP/1.1 413") for answer in sent)
    assert served.peak_megabytes() - before < 100
    assert served.asked("GET /healthz HTTP/1.1\r\n").startswith("HTTP/1.1 200")


@pytest.mark.parametrize(
    "beginning",
    [b"POST /login/ HTTP/1.1\r\nContent-Length: 1000\r\n\r\na=", b"GET /login/ HTTP/1.1\r\nHost: local"],
    ids=["body", "head"],
)
def test_who_sends_drop_by_drop_is_cut_off(impatient: Running, beginning: bytes) -> None:
    with impatient.connected() as slow:
        slow.sendall(beginning)
        assert _all(slow) == ""
    assert impatient.asked("GET /healthz HTTP/1.1\r\n").startswith("HTTP/1.1 200")
