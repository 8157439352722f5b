"""How `up` starts and watches its processes, and what it prints about signing in."""

import os
import re
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from django.conf import LazySettings
from django.contrib.auth import authenticate
from django.contrib.auth.models import User

from memoryapp.management.commands import up
from memoryapp.management.commands.up import FirstRequest
from memoryapp.models import Operator, Role
from memoryapp.platform.embedded import children
from memoryapp.platform.embedded.children import Child, stop
from memoryapp.upkeep import demo
from tests.support.clock import PATIENCE
from tests.support.stack import free_port, wait_for

BEATING = "import time; from memoryapp.platform.embedded import children; children.ping_from_thread(); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {BEATING}"
IN_A_LOOP = """
import asyncio
from memoryapp.platform.embedded import children

async def main():
    children.ping_from_loop()
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture(params=[BEATING, IN_A_LOOP], ids=["thread", "loop"])
def child(request: pytest.FixtureRequest) -> Iterator[Child]:
    made = Child("web", (sys.executable, "-c", request.param), {}, hang_timeout=4.0)
    made.start()
    yield made
    stop([made])


def pid_once_heard(child: Child) -> int:
    assert select.select([child._watchdog], [], [], PATIENCE)[0]
    assert child._process
    return child._process.pid


def tended(child: Child, until: str) -> list[str]:
    """Watches the children until a message contains this text; returns the messages."""
    lines: list[str] = []
    deadline = time.monotonic() + PATIENCE
    while not any(until in line for line in lines):
        assert time.monotonic() < deadline, lines
        child.tend(lines.append)
        time.sleep(0.05)
    return lines


def test_one_that_hangs_is_killed_and_started_again(child: Child) -> None:
    before = pid_once_heard(child)
    os.kill(before, signal.SIGSTOP)
    assert tended(child, "starting it again") == [
        "web gave no sign of life for 4 s; killing it",
        "web ended (signal 9); starting it again in 0.5 s",
    ]
    while not child.alive:
        child.tend(print)
        time.sleep(0.05)
    assert pid_once_heard(child) != before


def test_what_does_not_end_when_it_is_asked_to_is_killed_half_a_second_later() -> None:
    child = Child("worker", (sys.executable, "-c", STUBBORN), {})
    child.start()
    pid_once_heard(child)
    stop([child])
    assert child._process
    assert child._process.wait(PATIENCE) == -signal.SIGKILL
    assert children._GRACE <= 0.5


def test_one_that_never_starts_is_killed_after_its_time_to_start() -> None:
    child = Child(
        "worker", (sys.executable, "-c", "import time; time.sleep(600)"), {}, hang_timeout=0.1, start_timeout=0.2
    )
    child.start()
    lines = tended(child, "starting it again")
    assert lines[0] == "worker did not start within 0.2 s; killing it"
    assert not child.alive


# How `up` waits for a web process that starts slowly.


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


# What `up` prints about signing in: the well-known password is accepted from this machine only.


@pytest.fixture
def demo_operator(db: None, monkeypatch: pytest.MonkeyPatch, settings: LazySettings) -> User:
    """The demo's operator as a first start creates it, without the host names that Django's test runner adds."""
    settings.ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
    monkeypatch.setattr(demo, "_put_user", lambda name: None)
    demo.load()
    return User.objects.get(username=demo.LOGIN)


def password_in(login: str) -> str:
    found = re.search(rf"Log in as {demo.LOGIN} with the password (\S+?)\.?(?: |$)", login)
    assert found, login
    return found[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.1.1", "::1", "localhost"])
def test_on_this_machine_the_demo_has_the_password_everybody_knows(demo_operator: User, host: str) -> None:
    assert password_in(up.login_sentence(host)) == demo.PASSWORD
    assert authenticate(username=demo.LOGIN, password=demo.PASSWORD) == demo_operator


@pytest.mark.parametrize(
    "named",
    [
        {"ALLOWED_HOSTS": ["localhost", "memory.example.com"]},
        {"ALLOWED_HOSTS": ["*"]},
        {"CSRF_TRUSTED_ORIGINS": ["https://*.example.com"]},
    ],
    ids=str,
)
def test_behind_a_proxy_the_demo_never_has_the_password_everybody_knows(
    demo_operator: User, settings: LazySettings, named: dict[str, list[str]]
) -> None:
    for name, value in named.items():
        setattr(settings, name, value)
    login = up.login_sentence("127.0.0.1")
    assert login.startswith("WARNING: ALLOWED_HOSTS or CSRF_TRUSTED_ORIGINS names other machines")
    assert authenticate(username=demo.LOGIN, password=demo.PASSWORD) is None
    assert authenticate(username=demo.LOGIN, password=password_in(login)) == demo_operator


def test_the_demo_account_is_no_superuser(demo_operator: User) -> None:
    assert (demo_operator.is_superuser, demo_operator.operator.role) == (False, Role.ADMIN)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "memory.example"])
def test_the_network_is_never_served_the_password_everybody_knows(demo_operator: User, host: str) -> None:
    login = up.login_sentence(host)
    assert login.startswith("WARNING: other machines can reach this address")
    assert authenticate(username=demo.LOGIN, password=demo.PASSWORD) is None
    assert authenticate(username=demo.LOGIN, password=password_in(login)) == demo_operator


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_password_of_your_own_is_neither_shown_nor_changed(demo_operator: User, host: str) -> None:
    demo_operator.set_password("a-long-enough-word")
    demo_operator.save()
    assert up.login_sentence(host) == ""
    assert authenticate(username=demo.LOGIN, password="a-long-enough-word") == demo_operator


def test_no_demo_login_is_printed_where_there_is_no_demo(admin: Operator) -> None:
    assert up.login_sentence("127.0.0.1") == up.login_sentence("0.0.0.0") == ""
