"""How `up` waits for a web process that starts slowly."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from memoryapp.management.commands.up import FirstRequest
from tests.support.stack import free_port, wait_for

ANSWER = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture
def web() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def test_a_slow_web_is_asked_once(web: socket.socket) -> None:
    request = FirstRequest(*web.getsockname())
    assert not request.is_answered()
    connection, _address = web.accept()
    assert not request.is_answered()
    connection.sendall(ANSWER)
    wait_for(request.is_answered)
    connection.close()
    assert request.is_answered()
    web.setblocking(False)
    with pytest.raises(BlockingIOError):
        web.accept()
    request.close()


def test_a_web_that_dies_before_it_answers_is_asked_again(web: socket.socket) -> None:
    def die_once() -> None:
        web.accept()[0].close()
        with web.accept()[0] as connection:
            connection.sendall(ANSWER)

    threading.Thread(target=die_once, daemon=True).start()
    request = FirstRequest(*web.getsockname())
    wait_for(request.is_answered)
    request.close()


def test_where_nobody_listens_there_is_no_answer() -> None:
    assert not FirstRequest("127.0.0.1", free_port()).is_answered()
