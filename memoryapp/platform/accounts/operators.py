"""Operators: who may sign in, what they may do and whose memories they may open; every change of it is recorded. The
record is the log of Django's administration. There is always an admin who can sign in: what would take away the last
one is refused."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, count

from django.contrib.admin.models import ADDITION, CHANGE, LogEntry
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import Count, Prefetch, QuerySet
from django.utils.text import slugify
from django.utils.translation import gettext as _

from memoryapp.engine.sight import limited_to, look
from memoryapp.models import Access, ChatUser, LoginSession, Operator, Role
from memoryapp.platform.accounts.signing_in import lacks_second_factor
from memoryapp.platform.sights import check_limit
from memoryapp.platform.statements import execute

FIRST_OWNERS = 4
LONGEST_SLUG = 60
_LOCK = 7_305_118


class OperatorRefused(Exception):
    """The change is not made; the text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A line of the record: who did what to whom; ``what`` names the fields that changed, or is empty for a new one."""

    at: datetime
    by: str
    whom: str
    what: tuple[str, ...]
    is_new: bool


def operator_for(user: AbstractBaseUser | AnonymousUser) -> Operator | None:
    """The operator behind a signed-in user, with whose sight the request goes on; a superuser without a row counts as
    admin. None for who still needs a second factor."""
    if not isinstance(user, User) or lacks_second_factor(user):
        return None
    if user.is_superuser:
        return Operator(user=user, role=Role.ADMIN)
    operator = Operator.objects.select_related("user").filter(user=user).first()
    if operator is not None:
        look(limited_to(operator.projects))
    return operator


def listed() -> QuerySet[Operator]:
    """Operators by name, with their first chat users (``first_access``) and the number of all (``owner_count``)."""
    first = Access.objects.select_related("owner").order_by("owner__name")
    rows = Operator.objects.select_related("user").annotate(owner_count=Count("access"))
    return rows.prefetch_related(Prefetch("access_set", first)).order_by("user__username")


@transaction.atomic
def make(
    name: str,
    password: str | None,
    role: Role,
    owners: Sequence[ChatUser],
    *,
    by: User | None,
    projects: Sequence[str] | None = None,
) -> Operator:
    """Creates a user who can sign in, as an operator, or without a password who can do so by other means or after an
    invitation. Raises OperatorRefused for a name that exists."""
    if User.objects.filter(username__iexact=name).exists():
        raise OperatorRefused(_("There is a user called “%(name)s” already.") % {"name": name})
    user = User.objects.create_user(name, password=password)
    check_limit(projects)
    operator = Operator.objects.create(user=user, role=role, projects=projects)
    _give(operator, owners)
    _record(operator, by or user, ADDITION, [])
    return operator


@transaction.atomic
def change(
    operator: Operator,
    *,
    role: Role,
    owners: Sequence[ChatUser],
    is_active: bool,
    by: User,
    projects: Sequence[str] | None = None,
) -> None:
    """Sets the role, the memories, their projects and whether the operator may sign in. Raises OperatorRefused for the
    last admin."""
    check_limit(projects)
    execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    stored = Operator.objects.select_for_update(of=("self",)).select_related("user").get(pk=operator.pk)
    is_admin, stays = stored.role == Role.ADMIN and stored.user.is_active, is_active and role == Role.ADMIN
    others = Operator.objects.filter(role=Role.ADMIN, user__is_active=True).exclude(pk=operator.pk)
    if is_admin and not stays and not others.exists():
        raise OperatorRefused(_("This is the last admin who can sign in. Make another operator an admin first."))
    had = set(Access.objects.filter(operator=stored).values_list("owner", flat=True))
    changed = [
        field
        for field, is_other in (
            ("role", stored.role != role),
            ("memories", had != {owner.pk for owner in owners}),
            ("projects", stored.projects != projects),
            ("access", stored.user.is_active != is_active),
        )
        if is_other
    ]
    if not changed:
        return
    stored.role, stored.projects = role, projects
    stored.save(update_fields=["role", "projects"])
    User.objects.filter(pk=stored.user_id).update(is_active=is_active)
    Access.objects.filter(operator=stored).exclude(owner__in=owners).delete()
    _give(stored, owners)
    if not is_active:
        LoginSession.objects.filter(user=stored.user).delete()
    _record(stored, by, CHANGE, changed)


@transaction.atomic
def set_password(operator: Operator, password: str, *, by: User) -> None:
    """Sets a new password and signs the operator out everywhere."""
    operator.user.set_password(password)
    operator.user.save(update_fields=["password"])
    LoginSession.objects.filter(user=operator.user).delete()
    _record(operator, by, CHANGE, ["password"])


def _give(operator: Operator, owners: Iterable[ChatUser]) -> None:
    rows = [Access(operator=operator, owner=owner) for owner in owners]
    Access.objects.bulk_create(rows, ignore_conflicts=True)


def _record(operator: Operator, by: User, flag: int, fields: Sequence[str]) -> None:
    words = json.dumps([{"changed": {"fields": list(fields)}} if fields else {"added": {}}])
    LogEntry.objects.log_actions(by.pk, [operator], flag, words)


def record(most: int) -> list[RecordedChange]:
    """The latest changes of operators, newest first."""
    kind = ContentType.objects.get_for_model(Operator)
    rows = LogEntry.objects.filter(content_type=kind).select_related("user").order_by("-action_time", "-pk")[:most]
    return [
        RecordedChange(
            row.action_time, row.user.get_username(), row.object_repr, _fields(row), row.action_flag == ADDITION
        )
        for row in rows
    ]


def _fields(row: LogEntry) -> tuple[str, ...]:
    """Returns the names of the changed fields; the administration writes them in the same form."""
    try:
        parts = json.loads(row.change_message)
    except ValueError:
        return ()
    found = [part.get("changed", {}).get("fields", ()) for part in parts if isinstance(part, dict)]
    return tuple(str(field) for fields in found for field in fields)


@transaction.atomic
def make_memory(display_name: str, operator: Operator, *, by: User) -> ChatUser:
    """Creates a chat user, whom this operator may open; the name for programs is made of the shown one."""
    base = slugify(display_name, allow_unicode=True)[:LONGEST_SLUG] or "memory"
    execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    taken = set(ChatUser.with_erased.filter(name__startswith=base).values_list("name", flat=True))
    numbered = (f"{base}-{number}" for number in count(2))
    name = next(each for each in chain([base], numbered) if each not in taken)
    made = ChatUser.objects.create(name=name, display_name=display_name)
    if not operator.sees_everyone:
        Access.objects.get_or_create(operator=operator, owner=made)
    LogEntry.objects.log_actions(by.pk, [made], ADDITION, json.dumps([{"added": {}}]))
    return made
