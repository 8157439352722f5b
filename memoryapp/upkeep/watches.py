"""What is watched: each watch is one value, which looks at one or several subjects and says what it found.

Words, periods, pages and statements of a watch are in the file beside this module. A look changes nothing, costs the
same however many chat users there are, and may fail: that is told as well (``alarms``).
"""

import shutil
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db.models import Max
from django.utils.translation import gettext as _

from memoryapp.engine.beside import table_beside
from memoryapp.models import Alarm, StagePause, Work
from memoryapp.platform import caps, cells, heartbeats
from memoryapp.platform.backlog import depths
from memoryapp.platform.embedded import backups
from memoryapp.platform.llm import clients
from memoryapp.platform.statements import fetched
from memoryapp.upkeep.pipeline import STAGES

# Of so many files in the folder of backups the newest is sought that can be read.
MOST_FILES = 20
ENDS_SOON = timedelta(days=14)
_OUTAGES = ["llm_error", "timeout", "turn_timeout"]
# The queue of each stage; some wait as long as no chat model is connected.
_QUEUES: Mapping[str, str] = {
    **{"import": "imports_waiting", "archive": "sessions_due", "embed": "passages_without_vector"},
    **{"extract": "topics_unread", "artifacts": "artifacts_unread", "runs": "runs_pending"},
    "erase": "erasures_unfinished",
}
_OF_MODELS = ("extract", "artifacts")


@dataclass(frozen=True, slots=True)
class Sign:
    """What a look found of a subject: whether success ``is_due``, when the last was, and how much waits."""

    subject: str = ""
    is_due: bool = True
    good_at: datetime | None = None
    depth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A kind of thing that is watched; the file beside says what its fields mean."""

    name: str
    look: str | Callable[[datetime], Iterable[Sign]]
    label: str
    trouble: str
    never: str = ""
    advice: str
    route: str
    period: int
    grace: int = 300
    counts_work: bool = False
    needs_past: bool = False
    is_fixed: bool = False
    of_admins: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    named: str = ""

    def signs(self, now: datetime) -> Iterable[Sign]:
        if not isinstance(self.look, str):
            return self.look(now)
        values = {"outages": _OUTAGES, "midnight": caps.midnight(now), "cap": settings.DAILY_CAP_USD}
        found: dict[str, Sign] = cells.everywhere(join=_joined)(_signs)(self.look, values)
        return found.values()

    def names_of(self, subjects: Sequence[str]) -> dict[str, str]:
        """What people call these subjects; one that is gone has no name. At most one query."""
        rows = fetched(self.named, {"subjects": list(subjects)}) if self.named and subjects else []
        return {subject: _(self.names[subject]) for subject in subjects if subject in self.names} | dict(rows)


def _signs(look: str, values: Mapping[str, Any]) -> dict[str, Sign]:
    return {row[0]: Sign(*row) for row in fetched(look, values)}


def _joined(one: dict[str, Sign], other: dict[str, Sign]) -> dict[str, Sign]:
    """Success is due in any cell, and was last in any."""
    both = {
        subject: Sign(subject, sign.is_due or other[subject].is_due, _latest(sign.good_at, other[subject].good_at))
        for subject, sign in one.items()
        if subject in other
    }
    return {**one, **other, **both}


def _latest(one: datetime | None, other: datetime | None) -> datetime | None:
    return max(filter(None, (one, other)), default=None)


def _ended() -> dict[str, datetime]:
    rows = Work.objects.filter(state=Work.State.DONE).values_list("kind").annotate(at=Max("at")).order_by()
    return dict(rows)


def _stages(now: datetime) -> Iterable[Sign]:
    """Success is a piece of work that ended, or a queue that became shorter; what is paused, also for one chat user, is
    not expected. During a cap models are not asked."""
    waiting = depths(clients.profile(), with_paused=False)
    idle = set(StagePause.objects.values_list("kind", flat=True))
    if not settings.LLM_BASE_URL or Alarm.objects.filter(rhythm__watch="cap", healed_at__isnull=True).exists():
        idle.update(_OF_MODELS)
    ended: dict[str, datetime] = cells.everywhere(join=lambda one, other: {**one, **other})(_ended)()
    for stage, queue in _QUEUES.items():
        yield Sign(stage, waiting[queue] > 0 and stage not in idle, ended.get(stage), waiting[queue])


def _backups(now: datetime) -> Iterable[Sign]:
    """The newest file that is a whole backup."""
    if not settings.BACKUP_DIR:
        return []
    files = sorted(((path.stat().st_mtime, path) for path in Path(settings.BACKUP_DIR).iterdir()), reverse=True)
    whole = (at for at, path in files[:MOST_FILES] if path.is_file() and _is_whole(path, at))
    return [Sign(good_at=next((datetime.fromtimestamp(at, UTC) for at in whole), None))]


@lru_cache(maxsize=MOST_FILES)
def _is_whole(path: Path, changed: float) -> bool:
    """Whether it is a whole backup; a file is read once."""
    try:
        backups.check_whole(path)
    except backups.BackupError:
        return False
    return True


def _certificates(now: datetime) -> Iterable[Sign]:
    address = urlsplit(settings.PUBLIC_URL)
    if address.scheme != "https" or not address.hostname:
        return []
    end = _end_of(address.hostname, address.port or 443, f"{now:%Y-%m-%d %H}")
    return [Sign(address.hostname[:40], end is not None and end < now + ENDS_SOON)]


@lru_cache(maxsize=2)
def _end_of(host: str, port: int, hour: str) -> datetime | None:
    """When the certificate ends, asked once an ``hour``: long ago if it is refused, None where nothing answers."""
    try:
        with socket.create_connection((host, port), timeout=5) as plain:
            secured = ssl.create_default_context().wrap_socket(plain, server_hostname=host)
            with secured:
                until = (secured.getpeercert() or {})["notAfter"]
    except ssl.SSLCertVerificationError:
        return datetime.min.replace(tzinfo=UTC)
    except OSError:
        return None
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(until)), UTC)


_LOOKS: Mapping[str, Callable[[datetime], Iterable[Sign]]] = {
    **{"stage": _stages, "backup": _backups, "certificate": _certificates, "watch": lambda now: ()},
    "disk": lambda now: [Sign(is_due=shutil.disk_usage(settings.DATA_DIR).free < settings.DISK_RESERVE_BYTES)],
    "process": lambda now: [Sign(name, state != "ok") for name, state in heartbeats.states().items()],
}
_TABLE = table_beside(__file__)
_TABLE["stage"]["names"] = {name: STAGES[name].words.name for name in _QUEUES}
_TABLE["watch"]["names"] = {name: row["label"] for name, row in _TABLE.items()}
WATCHES = {name: Watch(**{"name": name, "look": _LOOKS.get(name), **row}) for name, row in _TABLE.items()}
# The watch that the web process keeps, because a worker cannot tell of itself; and that of watches which fail.
PROCESSES, FAULTS = WATCHES["process"], WATCHES["watch"]
