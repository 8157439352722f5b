"""``up``: prepares the database and the demo memory, and runs web, worker and beat until Ctrl-C.

Every process that it starts ends with it, and is restarted if it ends earlier. The conditions for a start are checked
first, so a port in use or a second start changes nothing.
"""

import errno
import http.client
import ipaddress
import os
import select
import signal
import socket
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from memoryapp.platform import database, environment
from memoryapp.platform.embedded import backups, children, paths, statics
from memoryapp.platform.embedded.children import Child
from memoryapp.platform.embedded.lease import Lease, Revival
from memoryapp.upkeep import demo
from memoryapp.upkeep.demo import recorded, visits

_POLL_SECONDS = 0.25
_PATIENCE = 120.0
_MOST_FAILURES = 3
# Daphne's default silently drops a socket not accepted within 5 s, which happens when hundreds arrive at once.
_PATIENT = ("--websocket_connect_timeout", "60")
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Command(BaseCommand):
    help = "Starts everything and prints the address; Ctrl-C stops everything."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=_port, default=8000, help="the port of the pages and the API (8000)")
        parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
        parser.add_argument("--data-dir", help="the data folder (default: DATA_DIR, or .data in the checkout)")
        parser.add_argument("--no-demo", action="store_true", help="do not load the demo memory")

    def handle(self, **options: Any) -> None:
        """Raises CommandError with a sentence if it cannot start."""
        # A shell starts a background job with SIGINT ignored; without a handler only SIGKILL would end it.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, signal.default_int_handler)
        host, port = options["host"], options["port"]
        try:
            with ExitStack() as stack:
                paths.close_data_dir(paths.open_data_dir(settings.DATA_DIR))
                cut_off = stack.enter_context(_alone(settings.DATA_DIR, _url(host, port)))
                listener = stack.enter_context(_bound(host, port, patience=5.0 if cut_off else 0.0))
                embedded = None if environment.text("DATABASE_URL") else paths.cluster(settings.DATA_DIR)
                if embedded and not embedded.data.exists():
                    self._say(f"Making the database in {embedded.base} ...")
                lease = stack.enter_context(Lease(embedded)) if embedded else None
                self._prepare(with_demo=not options["no_demo"])
                self._run(listener, host, port, lease)
        except KeyboardInterrupt:
            self._say("Stopped.")
            # Everything has ended; an orderly exit of the interpreter would take half a second more.
            os._exit(0)

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()

    def _prepare(self, with_demo: bool) -> None:
        try:
            database.check_pooling()
            database.check_version()
        except database.UnusableDatabase as refusal:
            raise CommandError(str(refusal)) from None
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            self._back_up()
            self._say("Bringing the database's tables up to date ...")
            call_command("migrate", interactive=False, verbosity=0)
            backups.after_upgrade()
        statics.collect()
        if with_demo and demo.load():
            recorded.record_runs()
            self._say("The demo memory is loaded.")
        if settings.DEMO_READ_ONLY:
            visits.open_to_guests()
        connection.close()

    def _back_up(self) -> None:
        try:
            backups.before_upgrade(self._say)
        except backups.BackupError as refusal:
            raise CommandError(f"{refusal} UPGRADE_BACKUP=false goes on without a backup.") from None

    def _run(self, listener: socket.socket, host: str, port: int, lease: Lease | None) -> None:
        running = _children(listener, host, port)
        local = is_local(host)
        # Other machines are served only after this; if only this machine has access, the web starts first.
        login = "" if local else login_sentence(host)
        try:
            for child in running:
                child.start()
            login = login_sentence(host) if local else login
            connection.close()
            self._wait(running, _EVERYWHERE.get(host, host), port)
            self._say(f"ready: {_url(host, port)}")
            self._say(f"{login} Ctrl-C stops everything.".strip())
            if host in _EVERYWHERE and not environment.text("ALLOWED_HOSTS"):
                self._say("Other machines get in once ALLOWED_HOSTS has the name they use for this one.")
            self._tend(running, lease)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            children.stop(running)

    def _wait(self, running: Sequence[Child], host: str, port: int) -> None:
        """Waits until the web answers and every child runs."""
        deadline = time.monotonic() + _PATIENCE
        with closing(FirstRequest(host, port)) as request:
            while not (request.is_answered() and all(child.alive for child in running)):
                for child in running:
                    child.tend(self._say)
                    if child.failures >= _MOST_FAILURES or time.monotonic() > deadline:
                        raise CommandError(f"{child.name} doesn't start; its output is above.")
                time.sleep(0.05)

    def _tend(self, running: Sequence[Child], lease: Lease | None) -> None:
        revival = Revival(lease) if lease else None
        while True:
            time.sleep(_POLL_SECONDS)
            if revival:
                revival.tend(self._say)
            for child in running:
                child.tend(self._say)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:6]) < 65536):
        raise environment.SettingError(f"--port must be a whole number between 1 and 65535, not {text!r}.")
    return int(text)


def _url(host: str, port: int) -> str:
    shown = _EVERYWHERE.get(host, host)
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/"


def is_local(host: str) -> bool:
    """Returns whether only this machine has access: the address and all allowed names are loopback."""
    trusted = (environment.host(origin) for origin in settings.CSRF_TRUSTED_ORIGINS)
    return all(map(_loopback, (host, *settings.ALLOWED_HOSTS, *trusted)))


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def login_sentence(host: str) -> str:
    """Returns a sentence on how to log in; empty if that is unknown. The demo's password is public in this project's
    source, so it is replaced if other machines have access."""
    if not User.objects.exists():
        return f"Nobody can log in yet; this makes an account: {_manage('createsuperuser')}."
    if settings.DEMO_READ_ONLY:
        return "Everybody may look without signing in; nothing is changed (DEMO_READ_ONLY)."
    if not demo.known_password_works():
        return ""
    if is_local(host):
        return f"Log in as {demo.LOGIN} with the password {demo.PASSWORD}."
    exposure = "ALLOWED_HOSTS or CSRF_TRUSTED_ORIGINS names other machines"
    if not _loopback(host):
        exposure = "other machines can reach this address"
    return (
        f"WARNING: {exposure}, so the demo account got a new password, shown only now.\n"
        f"Log in as {demo.LOGIN} with the password {demo.renew_password()} (another one: "
        f"{_manage(f'changepassword {demo.LOGIN}')})."
    )


def _manage(command: str) -> str:
    """Returns the command line of a command for this data folder."""
    return f"{paths.program(settings.DATA_DIR)} {command}"


@contextmanager
def _alone(folder: Path, url: str) -> Iterator[bool]:
    """Allows one ``up`` per data folder; yields whether the previous one was killed."""
    with paths.opened(folder / "up.lock") as lock:
        if not paths.try_acquire(lock):
            raise CommandError(f"Already running with this data ({lock.read()}). Stop it, or use another --data-dir.")
        cut_off = bool(lock.read())
        paths.write(lock, f"pid {os.getpid()}, {url}")
        try:
            yield cut_off
        finally:
            paths.write(lock, "")


def _bound(host: str, port: int, patience: float) -> socket.socket:
    """Returns the listening socket. Connections wait in it until the web has started. Processes of a killed ``up`` need
    a moment to close the port; they get ``patience`` seconds."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return _bind(host, port)
        except OSError as reason:
            if reason.errno != errno.EADDRINUSE:
                raise CommandError(f"Cannot serve on {host}:{port}: {reason.strerror or reason}.") from None
            if time.monotonic() > deadline:
                advice = f" Try: {environment.PROGRAM} up --port {free}" if (free := _free_port(host, port)) else ""
                raise CommandError(f"Cannot serve on {host}:{port}: port {port} is already in use.{advice}") from None
        time.sleep(0.1)


def _bind(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # Only a listening socket keeps others from the address.
        listener.listen(socket.SOMAXCONN)
    except OSError:
        listener.close()
        raise
    return listener


def _free_port(host: str, taken: int) -> int:
    for port in range(taken + 1, min(taken + 50, 65536)):
        with suppress(OSError):
            _bind(host, port).close()
            return port
    return 0


def _children(listener: socket.socket, host: str, port: int) -> list[Child]:
    """Returns web, worker and beat. Beat is a separate child: as a child of the worker, it would outlive a killed one.
    The background processes have a higher niceness than the web."""
    metrics = paths.open_folder(settings.DATA_DIR / "metrics")
    # The counts of earlier processes.
    for file in metrics.glob("*.db"):
        file.unlink()
    shared = {
        "DATA_DIR": str(settings.DATA_DIR),
        "DJANGO_SETTINGS_MODULE": os.environ["DJANGO_SETTINGS_MODULE"],
        # In this folder the metrics of all children are added up.
        "PROMETHEUS_MULTIPROC_DIR": str(metrics),
    }
    if not environment.text("ALLOWED_HOSTS") and host not in settings.ALLOWED_HOSTS:
        shared["ALLOWED_HOSTS"] = ",".join([*settings.ALLOWED_HOSTS, host])
    # Celery warns when it runs as root, which is usual in a container.
    quiet = {"PYTHONWARNINGS": "ignore:You're running the worker with superuser"}
    python = (sys.executable, "-m")
    celery = (*python, "celery", "-q", "-A", "memoryapp.celery")
    worker = ("worker", "-P", "threads", "-c", "4", "-l", "WARNING", "--without-gossip", "--without-mingle")
    beat = ("beat", "-l", "WARNING", "--pidfile", "")
    return [
        *_webs((*python, "daphne", "-v", "0", *_PATIENT), shared, listener, (host, port)),
        Child("worker", (*celery, *worker), shared | quiet, niceness=5, hang_timeout=settings.HANG_TIMEOUT),
        Child("beat", (*celery, *beat), shared | quiet, niceness=5, hang_timeout=settings.HANG_TIMEOUT),
    ]


def _webs(
    daphne: Sequence[str], environment: dict[str, str], listener: socket.socket, address: tuple[str, int]
) -> list[Child]:
    """Returns ``WEB_CONCURRENCY`` processes, because one executes runs and pages on one core.

    They accept from one socket, so the others continue while one restarts. Daphne adopts only IPv4 sockets, so at any
    other address a single process listens by itself.
    """
    served = "rerankui.asgi:application"
    if listener.family != socket.AF_INET:
        listener.close()
        alone = (*daphne, "-b", address[0], "-p", str(address[1]), served)
        return [Child("web", alone, environment, hang_timeout=settings.HANG_TIMEOUT)]
    # Two processes may wake up for one connection; the second must not block.
    listener.setblocking(False)
    command = (*daphne, "--fd", str(listener.fileno()), served)
    names = ["web", *(f"web {number}" for number in range(2, settings.WEB_CONCURRENCY + 1))]
    return [
        Child(name, command, environment, inherits=(listener.fileno(),), hang_timeout=settings.HANG_TIMEOUT)
        for name in names
    ]


class FirstRequest:
    """A request to a web process that is starting. It waits as long as necessary, because the web logs each abandoned
    request. It is sent again only if the connection is lost."""

    def __init__(self, host: str, port: int) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=5)
        self._has_answer = False

    def is_answered(self) -> bool:
        """Returns whether the web has answered, with any status."""
        try:
            if not self._has_answer and self._sent().poll(0):
                self._connection.getresponse()
                self._has_answer = True
        except (OSError, http.client.HTTPException):
            self._connection.close()
        return self._has_answer

    def _sent(self) -> select.poll:
        """Sends the request if that is still to do; returns a poll object that is ready when an answer arrives."""
        if self._connection.sock is None:
            self._connection.request("GET", "/healthz")
        answer = select.poll()
        answer.register(self._connection.sock, select.POLLIN)
        return answer

    def close(self) -> None:
        self._connection.close()
