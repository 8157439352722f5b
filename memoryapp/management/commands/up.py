"""The one command: database, schema, demo memory, web, worker and beat, until Ctrl-C.

Everything it starts ends with it, and it survives the end of anything it started. What a start needs is checked
first, so that a taken port or a second start changes nothing.
"""

from __future__ import annotations

import errno
import http.client
import ipaddress
import os
import shlex
import signal
import socket
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from memoryapp import demo, environment, startup
from memoryapp.embedded import children, locks, places, statics
from memoryapp.embedded.children import Child
from memoryapp.embedded.hold import Hold
from memoryapp.embedded.places import Cluster

_BEAT = 0.25
_PATIENCE = 120.0
_MOST_FAILURES = 3
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Command(BaseCommand):
    help = "Starts everything and prints the address; Ctrl-C stops everything."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=_port, default=8000)
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--data-dir", help="where everything is kept (default: DATA_DIR, or .data in the checkout)")
        parser.add_argument("--no-demo", action="store_true", help="don't load the demo memory")

    def handle(self, **options: Any) -> None:
        """Raises CommandError with a sentence when it can't start."""
        # A shell starts a background job with SIGINT ignored; without a handler nothing but kill would end us.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, signal.default_int_handler)
        host, port = options["host"], options["port"]
        try:
            with ExitStack() as stack:
                server = None if environment.text("DATABASE_URL") else places.cluster(settings.DATA_DIR)
                places.close_data_dir(places.open_data_dir(settings.DATA_DIR), server)
                cut_off = stack.enter_context(_alone(settings.DATA_DIR, _url(host, port)))
                door = stack.enter_context(_bound(host, port, patience=5.0 if cut_off else 0.0))
                hold = stack.enter_context(self._database(server)) if server else None
                self._prepare(with_demo=not options["no_demo"])
                self._run(door, host, port, hold)
        except KeyboardInterrupt:
            self._say("Stopped.")
            # Everything has ended; to take down what a start has loaded, the interpreter would need half a second.
            os._exit(0)

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()

    def _database(self, cluster: Cluster) -> Hold:
        if not cluster.data.exists():
            self._say(f"Making the database in {cluster.base} ...")
        return Hold(cluster)

    def _prepare(self, with_demo: bool) -> None:
        try:
            startup.check_pooling()
            startup.check_not_newer()
        except startup.UnusableDatabase as refusal:
            raise CommandError(str(refusal)) from None
        if _unmigrated():
            self._say("Bringing the database's tables up to date ...")
            call_command("migrate", interactive=False, verbosity=0)
        statics.collect()
        if with_demo:
            self._load_demo()
        if demo.withdraw_superuser():
            self._say("The demo account is no superuser any more; it keeps the role admin.")
        connection.close()

    def _load_demo(self) -> None:
        if demo.load():
            self._say("The demo memory is loaded.")

    def _run(self, door: socket.socket, host: str, port: int, hold: Hold | None) -> None:
        family = _family(door, host, port)
        local = only_here(host)
        # To others nothing is served before this; where only this machine looks, the web need not wait for it.
        login = "" if local else login_sentence(host)
        try:
            for child in family:
                child.start()
            login = login_sentence(host) if local else login
            connection.close()
            self._wait(family, _EVERYWHERE.get(host, host), port)
            self._say(f"ready: {_url(host, port)}")
            self._say(f"{login} Ctrl-C stops everything.".strip())
            if host in _EVERYWHERE and not environment.text("ALLOWED_HOSTS"):
                self._say("Other machines get in once ALLOWED_HOSTS names how they call this one.")
            self._look_after(family, hold)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            children.stop(family)

    def _wait(self, family: Sequence[Child], host: str, port: int) -> None:
        """Until the web answers and every child lives."""
        deadline = time.monotonic() + _PATIENCE
        while not (_answers(host, port) and all(child.alive for child in family)):
            for child in family:
                child.tend(self._say)
                if child.failures >= _MOST_FAILURES or time.monotonic() > deadline:
                    raise CommandError(f"{child.name} doesn't start; what it said is above.")
            time.sleep(0.05)

    def _look_after(self, family: Sequence[Child], hold: Hold | None) -> None:
        while True:
            time.sleep(_BEAT)
            if hold is not None:
                hold.revive()
            for child in family:
                child.tend(self._say)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:6]) < 65536):
        raise environment.SettingError(f"--port must be a whole number between 1 and 65535, not {text!r}.")
    return int(text)


def _url(host: str, port: int) -> str:
    shown = _EVERYWHERE.get(host, host)
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/"


def only_here(host: str) -> bool:
    """Whether only this machine can ask: it alone reaches the address, and no proxy's name is let in."""
    trusted = (environment.host(origin) for origin in settings.CSRF_TRUSTED_ORIGINS)
    return all(map(_loopback, (host, *settings.ALLOWED_HOSTS, *trusted)))


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def login_sentence(host: str) -> str:
    """How to log in, as far as we know it.

    A password that everybody can read in this project's source opens nothing to the network: the demo's is
    replaced there.
    """
    if not User.objects.exists():
        return f"Nobody can log in yet; this makes an account: {_manage('createsuperuser')}."
    if not demo.known_password_works():
        return ""
    if only_here(host):
        return f"Log in as {demo.LOGIN} with the password {demo.PASSWORD}."
    return (
        f"WARNING: {_who_else(host)}, so the demo account got a new password, shown only now.\n"
        f"Log in as {demo.LOGIN} with the password {demo.renew_password()} (another one: "
        f"{_manage(f'changepassword {demo.LOGIN}')})."
    )


def _who_else(host: str) -> str:
    if not _loopback(host):
        return "other machines can reach this address"
    return "ALLOWED_HOSTS or CSRF_TRUSTED_ORIGINS names others than this machine"


def _manage(command: str) -> str:
    """The command line that does it with this data."""
    data = "" if settings.DATA_DIR == places.CHECKOUT / ".data" else f"DATA_DIR={shlex.quote(str(settings.DATA_DIR))} "
    return f"{data}python3 manage.py {command}"


@contextmanager
def _alone(folder: Path, url: str) -> Iterator[bool]:
    """One ``up`` per data folder; yields whether the one before was cut off."""
    with locks.opened(folder / "up.lock") as lock:
        if not locks.taken(lock):
            raise CommandError(f"Already running with this data ({lock.read()}). Stop it, or use another --data-dir.")
        cut_off = bool(lock.read())
        locks.write(lock, f"pid {os.getpid()}, {url}")
        try:
            yield cut_off
        finally:
            locks.write(lock, "")


def _bound(host: str, port: int, patience: float) -> socket.socket:
    """The address, ours from now on. Who connects waits: nothing is answered there before the web is up.

    Processes of an ``up`` that was killed need a moment to leave the port: that is what ``patience`` is for.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            return _bind(host, port)
        except OSError as reason:
            if reason.errno != errno.EADDRINUSE:
                raise CommandError(f"Cannot serve on {host}:{port}: {reason.strerror or reason}.") from None
            if time.monotonic() > deadline:
                advice = f" Try: python3 manage.py up --port {free}" if (free := _free_port(host, port)) else ""
                raise CommandError(f"Cannot serve on {host}:{port}: port {port} is already in use.{advice}") from None
        time.sleep(0.1)


def _bind(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    door = socket.socket(family, kind, protocol)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(address)
        # Only who listens keeps others from the address.
        door.listen(socket.SOMAXCONN)
    except OSError:
        door.close()
        raise
    return door


def _free_port(host: str, taken: int) -> int:
    """The next one that nobody serves on, or 0."""
    for port in range(taken + 1, min(taken + 50, 65536)):
        with suppress(OSError):
            _bind(host, port).close()
            return port
    return 0


def _unmigrated() -> bool:
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def _family(door: socket.socket, host: str, port: int) -> list[Child]:
    """Web, worker and beat. Beat is a process of its own: as the worker's it would outlive a killed worker.

    Work in the background yields to the pages, at the start as well as later.
    """
    shared = {
        "DATA_DIR": str(settings.DATA_DIR),
        "DJANGO_SETTINGS_MODULE": os.environ["DJANGO_SETTINGS_MODULE"],
        # By this name the metrics of all children find each other.
        "PROMETHEUS_MULTIPROC_DIR": str(_counts_from_zero(settings.DATA_DIR / "metrics")),
    }
    if not environment.text("ALLOWED_HOSTS") and host not in settings.ALLOWED_HOSTS:
        shared["ALLOWED_HOSTS"] = ",".join([*settings.ALLOWED_HOSTS, host])
    # Celery warns every root about root; here that is how a container is started.
    quiet = {"PYTHONWARNINGS": "ignore:You're running the worker with superuser"}
    python = (sys.executable, "-m")
    celery = (*python, "celery", "-q", "-A", "memoryapp.celery")
    worker = ("worker", "-P", "threads", "-c", "4", "-l", "WARNING", "--without-gossip", "--without-mingle")
    beat = ("beat", "-l", "WARNING", "--pidfile", "")
    return [
        *_webs((*python, "daphne", "-v", "0"), shared, door, (host, port)),
        Child("worker", (*celery, *worker), shared | quiet, yielding=5, silence=settings.HANG_TIMEOUT),
        Child("beat", (*celery, *beat), shared | quiet, yielding=5, silence=settings.HANG_TIMEOUT),
    ]


def _webs(
    daphne: Sequence[str], environment: dict[str, str], door: socket.socket, address: tuple[str, int]
) -> list[Child]:
    """As many as ``WEB_CONCURRENCY`` says: a process executes runs and pages on one core.

    They accept from one socket, so while one starts anew the others go on. Daphne adopts a socket of IPv4 only, so
    elsewhere one process listens by itself.
    """
    served = "rerankui.asgi:application"
    if door.family != socket.AF_INET:
        door.close()
        alone = (*daphne, "-b", address[0], "-p", str(address[1]), served)
        return [Child("web", alone, environment, silence=settings.HANG_TIMEOUT)]
    # Two processes may wake for one connection.
    door.setblocking(False)
    command = (*daphne, "--fd", str(door.fileno()), served)
    names = ["web", *(f"web {number}" for number in range(2, settings.WEB_CONCURRENCY + 1))]
    return [
        Child(name, command, environment, inherits=(door.fileno(),), silence=settings.HANG_TIMEOUT) for name in names
    ]


def _counts_from_zero(folder: Path) -> Path:
    """The folder in which children count, without what an earlier family counted."""
    places.open_folder(folder)
    for file in folder.glob("*.db"):
        file.unlink()
    return folder


def _answers(host: str, port: int) -> bool:
    """Whether anything answers HTTP there; what it answers is its own matter."""
    asking = http.client.HTTPConnection(host, port, timeout=5)
    try:
        asking.request("GET", "/healthz")
        asking.getresponse()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        asking.close()
    return True
