"""Malformed requests to every page and to the administration: refused with a sentence, never a fault of the program."""

import random
from typing import Any

import pytest
from django.contrib.auth import SESSION_KEY
from django.db.models import Model
from django.test import Client

from memoryapp.models import ChatUser, Role
from tests.conftest import operator, signed_in
from tests.examples import examples
from tests.platform.every_address import every_row, holdings, routes

# A statement that the database refuses ends a transaction, so each request has its own, as in the program.
pytestmark = pytest.mark.django_db(transaction=True)
SEED = 20261122
# The values for each address are drawn at random, so that the test stays short; another seed draws others.
TRIES = examples(2)

HUGE = "9" * 4_400
NUMBERS = (HUGE, "-1", "0", "99999999999999999999", "1e999", "nan", "x", "١", "")
TEXTS = ("\0", "a\0b", "\ud800", "\ufeff", "'\"<script>", "%00", "x" * 10_000)
TIMES = (
    "0001-01-01T00:00",
    "9999-12-31T23:59+14:00",
    "0001-01-01T00:00:00+23:59",
    "10000-01-01",
    "2026-02-30",
    "24:61",
)
CURSORS = tuple(f"{value},{HUGE}" for value in (TIMES[1], "1")) + tuple(f"{value},1" for value in (*TIMES, HUGE, "\0"))
PARTS = (
    '[{"summary": "\\ud800", "messages": [1]}]',
    '[{"summary": "\\u0000", "messages": [1]}]',
    f'[{{"summary": "a", "messages": [{HUGE}]}}]',
    '[{"summary": "a", "messages": [1e999]}]',
    "[" * 5_000,
    '{"a": 1}',
)
VALUES = (*NUMBERS, *TEXTS, *TIMES, *CURSORS, *PARTS)
NAMES = (
    *("q", "after", "before", "at", "to", "since", "until", "page", "sort", "state", "user", "topics", "topic", "step"),
    *("messages", "parts", "reason", "summary", "op", "into", "survivor", "people", "others", "by", "range", "next"),
    *("query", "strategy", "seconds", "candidates", "base", "seen", "system", "name", "scopes", "users", "number"),
    *("noun", "kind", "actor", "month", "day", "seq", "turn", "id", "pk", "p", "o", "e", "_popup", "action", "index"),
    *("_selected_action", "owner__id__exact", "object_id", "created_at__gte", "username", "password", "end", "date"),
    *("display_name", "aliases", "importance", "content", "type", "category", "relation", "circle", "bio", "version"),
)


@pytest.fixture
def memory(anna: ChatUser) -> dict[str, Model]:
    return every_row(anna)


def drawn(draw: random.Random) -> dict[str, str]:
    """Draws a few fields with hostile values."""
    return {name: draw.choice(VALUES) for name in draw.sample(NAMES, 14)}


def test_no_malformed_request_is_a_fault(memory: dict[str, Model], admin: Any) -> None:
    # Not the admin whose account the addresses name, because one of them deletes it.
    olga = operator("olga", Role.ADMIN)
    draw, client = random.Random(SEED), signed_in(olga)
    client.raise_request_exception = False
    paths = [route.path for route in routes(memory) if route.name != "logout"]
    asked = [(path, method) for path in paths if not path.startswith("/v1/") for method in ("get", "post")] * TRIES
    draw.shuffle(asked)
    faults = []
    for path, method in asked:
        sent = _encodable(drawn(draw), method)
        answer = getattr(client, method)(path, sent)
        if answer.status_code >= 500 and path != "/readyz":
            faults.append((method, path, {name: value[:40] for name, value in sent.items()}, _cause(answer)))
        if answer.streaming:
            # A complete answer would only close the connection to the database, which takes long to open again.
            answer.close()
        if SESSION_KEY not in client.session:
            # The request ended the session; without a new one, all after it would only be sent to the login.
            client.force_login(olga.user)
    assert faults == []
    assert len(asked) > 50 * TRIES


@pytest.mark.parametrize("role", [Role.VIEWER, Role.CURATOR])
def test_a_form_of_nothing_is_no_fault_whoever_sends_it(memory: dict[str, Model], anna: ChatUser, role: Role) -> None:
    client = signed_in(operator("wanda", role, anna))
    client.raise_request_exception = False
    paths = [route.path for route in routes(memory) if route.name != "logout" and not route.path.startswith("/v1/")]
    faults = [(path, _cause(answer)) for path in paths if (answer := client.post(path, {})).status_code >= 500]
    assert faults == []


def _encodable(sent: dict[str, str], method: str) -> dict[str, str]:
    """Replaces lone surrogates, which only JSON can contain; elsewhere they are three meaningless bytes."""
    return {name: value.replace("\ud800", "\ufffd") for name, value in sent.items()}


def _cause(answer: Any) -> str:
    exc_info = getattr(answer, "exc_info", None)
    return repr(exc_info[1])[:200] if exc_info else ""


def directed(memory: dict[str, Model]) -> list[tuple[str, str, dict[str, object]]]:
    """Returns requests of which one part is invalid and everything else is valid."""
    owner, topic, person = (memory[noun].pk for noun in ("chatuser", "topic", "person"))
    base, admin = f"/memory/{owner}", "/admin/memoryapp"
    change = {"op": "resplit", "topics": topic, "commit": "1"}
    fields = {"display_name": "a", "circle": "Other"}
    return [
        ("get", f"{base}/messages/", {"at": HUGE}),
        *(("get", f"{base}/messages/", {"on": day}) for day in ("0001-01-01", "9999-12-31", "2026-02-30")),
        *(
            ("get", f"{base}/{page}/", {"after": cursor})
            for page in ("topics", "messages", "history")
            for cursor in CURSORS
        ),
        *(("get", f"{base}/history/", {"after": f"{moment},edit,1"}) for moment in TIMES),
        *(("get", f"{base}/history/", {"since": moment, "until": moment}) for moment in TIMES),
        *(("get", f"{base}/history/range/", {"by": "a", "since": moment, "until": moment}) for moment in TIMES),
        *(("post", f"{base}/change/", change | {"parts": parts}) for parts in PARTS),
        *(("post", f"{base}/change/", change | {"op": "edit", "summary": text, "reason": text}) for text in TEXTS[:2]),
        ("post", f"{base}/change/", change | {"op": "edit", "summary": "a", "topics": HUGE}),
        ("post", f"{base}/people/{person}/edit/", fields | {"reason": "a\0b"}),
        ("post", f"{base}/people/{person}/delete/", {"reason": "a\0b"}),
        ("post", f"{base}/people/merge/", {"people": [person, HUGE], "survivor": person, "reason": "\0"}),
        ("post", f"{base}/imports/{memory['importbatch'].pk}/withdraw/", {"reason": "a\0b"}),
        ("post", f"{base}/history/edits/{memory['topicedit'].pk}/", {"reason": "a\0b", "seen": "x"}),
        *(
            ("post", f"{base}/recall/", {"query": "a", "strategy": "flash", "seconds": number})
            for number in NUMBERS[:6]
        ),
        *(("get", f"{admin}/topic/", {"owner__id__exact": number}) for number in NUMBERS),
        *(("get", f"{admin}/message/", {"p": number}) for number in NUMBERS),
        *(
            ("post", f"{admin}/{noun}/", {"action": action, "_selected_action": chosen})
            for noun, action in (("topic", "undo_last_edit"), ("apitoken", "revoke"), ("topicedit", "undo"))
            for chosen in ("x", HUGE, "\0")
        ),
        ("get", f"{admin}/operator/add/", {"user": "x", "role": "\0"}),
        ("post", f"{admin}/access/add/", {"operator": HUGE, "owner": "x"}),
        ("post", "/login/", {"username": "a\0b", "password": "\0"}),
        ("post", "/account/", {"end": "\0"}),
    ]


def test_a_request_that_is_wrong_in_one_place_is_refused_and_changes_nothing(
    memory: dict[str, Model], admin: Any
) -> None:
    client, kept = signed_in(admin), holdings()
    client.raise_request_exception = False
    answers = [(getattr(client, method)(path, sent), method, path, sent) for method, path, sent in directed(memory)]
    faults = [
        (method, path, str(sent)[:60], _cause(answer))
        for answer, method, path, sent in answers
        if answer.status_code >= 500
    ]
    assert faults == []
    assert holdings()["Topic"] == kept["Topic"]


@pytest.mark.parametrize("number", [HUGE, "9" * 25])
def test_numbers_beyond_all_bounds_in_an_address(memory: dict[str, Model], as_admin: Client, number: str) -> None:
    owner = memory["chatuser"].pk
    for path in (
        f"/topics/{number}/",
        f"/memory/{number}/",
        f"/memory/{owner}/people/{number}/",
        f"/memory/{owner}/history/edits/{number}/",
        f"/runs/{memory['run'].pk}/topics/{number}/",
        f"/prompts/rerank/en/{number}/",
        f"/tokens/{number}/revoke/",
        f"/admin/memoryapp/topic/{number}/change/",
    ):
        answer = as_admin.get(path, follow=True)
        assert answer.status_code in (200, 404), path


@pytest.mark.parametrize("charset", ["utf-16", "utf-7", "none-such", "idna"])
@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=b"])
def test_a_form_in_another_charset_is_refused(charset: str, kind: str) -> None:
    client = Client(raise_request_exception=False)
    sent = '--b\r\nContent-Disposition: form-data; name="username"\r\n\r\nvera\r\n--b--\r\n'.encode("utf-16")
    answer = client.generic("POST", "/login/", sent, f"{kind}; charset={charset}")
    assert answer.status_code in (200, 400, 403)
    assert client.get("/login/").status_code == 200


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded; charset=utf-16", "multipart/form-data"])
@pytest.mark.parametrize("address", ["/login/", "/memory/1/change/", "/theme/", "/admin/login/"])
def test_a_form_that_cannot_be_read_is_refused_for_anybody(address: str, kind: str) -> None:
    """The client has the cookie of an earlier page and checks CSRF tokens, as browsers do: so the form is read."""
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    client.get("/login/")
    answer = client.generic("POST", address, "username=x".encode("utf-16"), kind)
    assert answer.status_code == 400
    assert "cannot be read" in answer.content.decode()
    assert client.get("/login/").status_code == 200
