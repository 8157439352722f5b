"""A stranger walks every address, socket and command, and finds nothing of another's memory.

The walk is over what the program has, not over a list: a new address whose arguments this file cannot fill
fails the test until somebody teaches it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from channels.testing import WebsocketCommunicator
from django.apps import apps
from django.contrib.auth.models import Permission, User
from django.contrib.contenttypes.models import ContentType
from django.core.management import CommandError, call_command, get_commands
from django.db.models import Model
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RegexPattern, RoutePattern
from django.utils import timezone
from django.utils.module_loading import import_string

from memoryapp.accounts import tokens
from memoryapp.engine.candidates import ItemCandidate
from memoryapp.engine.chat.media import Media
from memoryapp.engine.events import (
    CandidatesFound,
    ContextPart,
    Event,
    MediaItem,
    RunFinished,
    RunStarted,
    Selected,
    Totals,
    to_payload,
)
from memoryapp.engine.kinds.agent import Answered, Citation
from memoryapp.media import store
from memoryapp.models import (
    AgentCall,
    ApiToken,
    Artifact,
    ChatUser,
    EmbeddingProfile,
    Erasure,
    Evaluation,
    Fact,
    Finding,
    FindingMessage,
    ImportBatch,
    ImportFile,
    Judgement,
    KnowledgeEdit,
    LoginSession,
    Operator,
    Passage,
    PassageVector,
    Pause,
    Person,
    Role,
    Run,
    RunEvent,
    Suggestion,
    Topic,
    TopicVector,
    UnreadTopic,
    Work,
)
from rerankui.routing import websocket_urlpatterns
from rerankui.web import uploads
from tests.conftest import candidate, operator, signed_in, talk
from tests.support.clock import PATIENCE

# stands in every row of Anna's memory and nowhere else
WORD = "мандрагора"
SECRET = "кларнет"
MEDIA = WORD.encode()
MEDIA_HASH = hashlib.sha256(MEDIA).hexdigest()
OPEN_TO_ALL = {
    "login",
    "language",
    "theme",
    "healthz",
    "readyz",
    "metrics",
    "admin:login",
    "admin:jsi18n",
    "v1:openapi-json",
}
# the same for every operator, though the address has arguments
# one's own account, also of who is no operator
OWN = {"account", "password"}
SHARED = {"prompt", "prompt_diff", "prompt_version"}
EVIDENCE = {
    "similarity": 0.8,
    "threshold": 0.7,
    "people": [WORD],
    "together": 0,
    "runs": 0,
    "size_chars": 9,
    "days_apart": 0,
}
FOUND = {"messages": 1, "added": 1, "rejected": 1, "rejections": [{"line": 1, "reason": SECRET}]}
ADMIN_ONLY = "admin:"
# A session opens none of these; tests/api/test_api.py walks them with tokens.
DOORS = "v1:"
# what programs may do is for admins too; tests/pages/test_tokens.py looks at whom they let in
OF_TOKENS = "token_"
# and so is the end of a memory; tests/ingestion/test_erasure.py
ERASING = "eras"
EXPORTING = "export"
# embedding profiles are nobody's, and for admins; tests/browsing/test_embedding_page.py
OF_PROFILES = "embedding_"
OTHER_RIGHTS = (ADMIN_ONLY, DOORS, OF_TOKENS, ERASING, EXPORTING, OF_PROFILES)
REFUSALS = {302, 400, 401, 403, 404, 405}


@dataclass(frozen=True, slots=True)
class Route:
    name: str
    path: str
    is_anybodys: bool


def events(topic: Topic, person: Person) -> list[Event]:
    """A run that found the topic and the person, answered out of the topic, chose it and handed it over."""
    message = topic.message_set.all()[0]
    found = candidate(topic)
    known = ItemCandidate(f"Person:{person.pk}", 1, 1, 0.5, 1.0, 1.0, 0.7, WORD, f"[Person:{person.pk}] {WORD}", True)
    chosen = Selected(found.id, 1, SECRET, 0.7, 1)
    return [
        RunStarted("flash", f"{WORD}?", {}, "", "", ""),
        CandidatesFound((found,), 1, 0.01, people=(known,)),
        Answered(f"{WORD} [1].", (Citation(1, found.id, message.pk, WORD),), "answered", 0.5, "extracts"),
        RunFinished((chosen,), (), "", "", totals=Totals(), context=(ContextPart("topics", 9, 3, 1),)),
    ]


@pytest.fixture
def memory(anna: ChatUser) -> dict[str, Model]:
    """One row of each noun in Anna's memory, by model name; each says the word."""
    anna.display_name, anna.profile = f"Anna {WORD}", SECRET
    anna.save()
    topic, said = talk(anna, (f"{WORD} {SECRET}", [f"{WORD} {SECRET}?", f"{WORD} {SECRET}!"]))[0], {"owner": anna}
    person = Person.objects.create(**said, display_name=WORD, bio=SECRET)
    picture = store(anna, Media(MediaItem(MEDIA_HASH, "file", "text/plain", f"{WORD}.txt", len(MEDIA)), MEDIA))
    run = Run.objects.create(
        **said, query=f"{WORD}?", strategy="flash", state=Run.State.FINISHED, media=[asdict(picture)]
    )
    for seq, event in enumerate(events(topic, person), start=1):
        RunEvent.objects.create(**said, run=run, seq=seq, kind=event.kind, at=timezone.now(), payload=to_payload(event))
    profile = EmbeddingProfile.objects.create(provider="test", model="two", dimensions=2, threshold=0.5)
    passage = Passage.objects.get(messages=topic.message_set.all()[0])
    rows: list[Model] = [
        anna,
        topic,
        topic.message_set.all()[0],
        run,
        profile,
        PassageVector.objects.create(**said, passage=passage, profile=profile, dimensions=2, vector=[1, 0]),
        TopicVector.objects.create(**said, topic=topic, profile=profile, vector=[1, 0]),
        person,
        Fact.objects.create(
            **said, relation=WORD, category=WORD, content=WORD, type="status", importance=1, created_at=timezone.now()
        ),
        Artifact.objects.create(
            **said, name=f"{WORD}.pdf", summary=SECRET, file_type="pdf", sha256="0", created_at=timezone.now()
        ),
        ImportBatch.objects.create(**said, source=WORD, format="jsonl"),
        ImportFile.objects.create(**said, source=WORD, size_bytes=9, state="ready", asked_by=WORD, findings=FOUND),
        Work.objects.create(**said, kind="import", source=WORD, state="going_on"),
        AgentCall.objects.create(**said, agent="merger", asked_by=WORD, topics=[topic.pk]),
        Pause.objects.create(**said, kind="import", by=WORD),
        KnowledgeEdit.objects.create(**said, kind="edit", noun="person", actor=WORD, before={}, after={}),
        Suggestion.objects.create(**said, kind="merge", key=WORD, topics=[topic.pk], evidence=EVIDENCE),
        (finding := Finding.objects.create(**said, noun="fact", topic=topic, values={"content": f"{WORD} {SECRET}"})),
        FindingMessage.objects.create(**said, finding=finding, message=topic.message_set.all()[0]),
        UnreadTopic.objects.create(**said, topic=topic, state="failed", due_at=timezone.now(), fault=SECRET),
        Evaluation.objects.create(source=WORD, strategy="flash"),
        Judgement.objects.create(**said, run=run, is_good=True),
        tokens.make(WORD, [ApiToken.Scope.READ], [anna])[0],
    ]
    named = {row._meta.model_name or "": row for row in rows}
    rest = {model.__name__.lower(): model._default_manager.first() for model in apps.get_models()}
    return {**{name: row for name, row in rest.items() if row is not None}, **named}


def routes(memory: dict[str, Model]) -> list[Route]:
    """Every address; the one that signs out comes last."""
    return sorted(_walk(get_resolver().url_patterns, "/", "", memory), key=lambda route: route.name == "logout")


def _walk(patterns: list[URLPattern | URLResolver], base: str, space: str, memory: dict[str, Model]) -> Iterator[Route]:
    for pattern in patterns:
        path = base + _filled(pattern, memory)
        if isinstance(pattern, URLResolver):
            inside = f"{pattern.namespace}:" if pattern.namespace else space
            yield from _walk(pattern.url_patterns, path, inside, memory)
        else:
            name = f"{space}{pattern.name or ''}"
            yield Route(name, path, name in SHARED or not re.search(r"[<(]", str(pattern.pattern)))


def _filled(pattern: URLPattern | URLResolver, memory: dict[str, Model]) -> str:
    shape = pattern.pattern
    if isinstance(shape, RoutePattern):
        return re.sub(r"<(?:\w+:)?(\w+)>", lambda found: _argument(str(shape), found[1], pattern, memory), str(shape))
    assert isinstance(shape, RegexPattern)
    groups = re.sub(
        r"\(\?P<(\w+)>[^)]*\)",
        lambda found: _argument(str(shape), found[1], pattern, memory),
        str(shape).strip("^$"),
    )
    return groups.replace(r"\Z", "")


def _argument(route: str, name: str, pattern: URLPattern | URLResolver, memory: dict[str, Model]) -> str:
    """Anna's value for an argument, so that the stranger asks for exactly what is hers."""
    kind = route.partition("/")[0]
    known: dict[tuple[str, str], Callable[[], object]] = {
        ("memory", "owner"): lambda: memory["chatuser"].pk,
        **{("memory", noun): lambda noun=noun: memory[noun].pk for noun in ("person", "fact", "artifact", "finding")},
        ("memory", "edit"): lambda: memory["topicedit"].pk,
        ("memory", "change"): lambda: memory["knowledgeedit"].pk,
        ("memory", "batch"): lambda: memory["importbatch"].pk,
        ("memory", "file"): lambda: memory["importfile"].pk,
        ("memory", "ticket"): lambda: uploads.ticket(memory["chatuser"].pk, 1),
        ("memory", "pk"): lambda: memory["suggestion"].pk,
        ("topics", "pk"): lambda: memory["topic"].pk,
        ("edits", "pk"): lambda: memory["topicedit"].pk,
        ("edits", "id"): lambda: memory["topicedit"].pk,
        ("runs", "pk"): lambda: memory["run"].pk,
        ("runs", "n"): lambda: 1,
        ("runs", "topic"): lambda: memory["topic"].pk,
        ("runs", "item"): lambda: f"Person:{memory['person'].pk}",
        ("runs", "part"): lambda: "topics",
        ("runs", "sha256"): lambda: MEDIA_HASH,
        ("users", "name"): lambda: memory["chatuser"].name,
        ("users", "id"): lambda: f"Person:{memory['person'].pk}",
        ("messages", "id"): lambda: memory["message"].external_id,
        ("topics", "id"): lambda: f"Topic:{memory['topic'].pk}",
        ("prompts", "name"): lambda: "rerank",
        ("prompts", "language"): lambda: "en",
        ("prompts", "version"): lambda: 0,
        ("embedding", "embeddingprofile"): lambda: memory["embeddingprofile"].pk,
        ("tokens", "pk"): lambda: memory["apitoken"].pk,
        ("erasures", "pk"): lambda: 1,
        ("evaluations", "pk"): lambda: memory["evaluation"].pk,
        ("agents", "pk"): lambda: memory["agentcall"].pk,
        ("ws", "pk"): lambda: memory["run"].pk,
        ("<path:object_id>", "object_id"): lambda: _administered(pattern, memory).pk,
        ("<id>", "id"): lambda: 1,
        ("r", "content_type_id"): lambda: ContentType.objects.get_for_model(Topic).pk,
        ("r", "object_id"): lambda: memory["topic"].pk,
        ("^(?P<app_label>auth|axes|memoryapp)", "app_label"): lambda: "memoryapp",
        ("(?P<url>.*)$", "url"): lambda: "nothing/here/",
    }
    if (kind, name) not in known:
        raise AssertionError(f"{route}: no value for {name!r}; teach tests/accounts/test_access.py this address")
    return str(known[kind, name]())


def _administered(pattern: URLPattern | URLResolver, memory: dict[str, Model]) -> Model:
    """The row an address of the administration is about, by its name: ``memoryapp_fact_change``."""
    name = getattr(pattern, "name", None) or ""
    return next((row for noun, row in memory.items() if f"_{noun}_" in name), memory["topic"])


def body(answer: Any) -> str:
    return b"".join(answer).decode(errors="replace")  # streams and pages alike


def holdings() -> dict[str, int]:
    """How many rows there are of each noun; who is signed in is no part of a memory, and the walk signs out."""
    memory = apps.get_app_config("memoryapp").get_models()
    return {model.__name__: model._default_manager.count() for model in memory if model is not LoginSession}


@pytest.fixture
def nobody(db: None) -> Operator:
    """An operator whom no chat user was opened to."""
    return operator("nina", Role.CURATOR)


@pytest.fixture
def staff(boris: ChatUser) -> Operator:
    """A viewer of Boris's memory to whom Django's own permissions open every model."""
    made = operator("stef", Role.VIEWER, boris)
    made.user.is_staff = True
    made.user.save()
    made.user.user_permissions.set(Permission.objects.all())
    return made


@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize("person", ["stranger", "nobody", "staff"])
def test_an_operator_finds_nothing_of_a_memory_they_may_not_see(
    person: str, method: str, memory: dict[str, Model], request: pytest.FixtureRequest
) -> None:
    client = signed_in(request.getfixturevalue(person))
    walked, before = routes(memory), holdings()
    for route in walked:
        answer = getattr(client, method)(route.path)
        text = body(answer)
        assert WORD not in text, f"{method} {route.path} tells"
        assert SECRET not in text, f"{method} {route.path} tells"
        assert route.is_anybodys or answer.status_code in REFUSALS, f"{method} {route.path}: {answer.status_code}"
        assert answer.status_code < 500, route.path
    assert holdings() == before
    assert len(walked) > 20


def test_a_hidden_row_is_answered_like_one_that_does_not_exist(memory: dict[str, Model], as_stranger: Client) -> None:
    asked = [
        route.path for route in routes(memory) if not route.is_anybodys and not route.name.startswith(OTHER_RIGHTS)
    ]
    theirs = {path: as_stranger.get(path) for path in asked}
    Run.objects.all().delete()
    nowhere = {path: as_stranger.get(re.sub(r"(?<=/)\d+(?=/)", "999999", path)) for path in asked}
    for path, answer in theirs.items():
        assert answer.status_code == nowhere[path].status_code == 404, path
        assert _unnamed(answer) == _unnamed(nowhere[path]), path


def _unnamed(answer: Any) -> str:
    """The page without what differs in every answer: its token, and the address it repeats."""
    return re.sub(r'X-CSRFToken": "\w+|value="[^"]*"', "", body(answer))


def test_whoever_is_not_signed_in_is_asked_to(memory: dict[str, Model]) -> None:
    client = Client()
    for route in routes(memory):
        if route.name in OPEN_TO_ALL:
            continue
        for answer in (client.get(route.path), client.post(route.path)):
            if route.name.startswith(DOORS):
                assert answer.status_code in {401, 404, 405}, f"{route.path}: {answer.status_code}"
                continue
            assert answer.status_code == 302, f"{route.path}: {answer.status_code}"
            assert "/login/" in answer["Location"], route.path


def test_a_user_who_is_no_operator_is_told_so(memory: dict[str, Model]) -> None:
    client, user = Client(), User.objects.create_user("ulf", password="a-long-enough-word")
    client.force_login(user)
    for route in routes(memory):
        answer = client.get(route.path)
        assert WORD not in body(answer)
        assert answer.status_code in REFUSALS or route.name in OPEN_TO_ALL | OWN | {"admin:login"}, route.path
    assert client.get("/").status_code == 403


def test_the_walk_would_see_the_word(memory: dict[str, Model], as_admin: Client) -> None:
    """The same addresses, opened by one who may: otherwise the walk above would prove nothing."""
    shown = [route for route in routes(memory) if not route.is_anybodys and not route.name.startswith(OTHER_RIGHTS)]
    for route in shown:
        answer = as_admin.get(route.path, follow=True)
        assert (answer.status_code, WORD in body(answer)) == (200, True), route.path


def test_search_does_not_reach_into_other_memories(memory: dict[str, Model], as_stranger: Client) -> None:
    for path in ("/find/", "/", "/runs/"):
        assert WORD not in body(as_stranger.get(path, {"q": WORD})).replace(f'value="{WORD}"', "").replace(
            f"“{WORD}”", ""
        )
    assert SECRET not in body(as_stranger.get("/find/", {"q": f"Topic:{memory['topic'].pk}"}))
    assert SECRET not in body(as_stranger.get("/runs/", {"user": "anna"}))


def test_another_memorys_message_is_no_permalink_in_ones_own(
    memory: dict[str, Model], as_stranger: Client, boris: ChatUser
) -> None:
    assert as_stranger.get(f"/memory/{boris.pk}/messages/", {"at": memory["message"].pk}).status_code == 404


def socket_for(client: Client, path: str, origin: str = "http://localhost") -> WebsocketCommunicator:
    """A socket as a browser opens it: through the real application, with the cookies of a client that signed in."""
    cookies = "; ".join(f"{name}={cookie.value}" for name, cookie in client.cookies.items())
    headers = [(b"host", b"localhost"), (b"origin", origin.encode()), (b"cookie", cookies.encode())]
    # Opened when asked for, as a server does: the application looks for the static files, which are collected by then.
    protocols = import_string("rerankui.asgi.protocols")
    return WebsocketCommunicator(protocols, f"/{path}", headers=headers)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
@pytest.mark.parametrize("person", ["stranger", "nobody", "not-signed-in"])
async def test_a_socket_tells_a_stranger_nothing(
    person: str, stranger: Operator, nobody: Operator, memory: dict[str, Model]
) -> None:
    client = Client()
    if person != "not-signed-in":
        await client.aforce_login({"stranger": stranger, "nobody": nobody}[person].user)
    paths = [_filled(pattern, memory) for pattern in websocket_urlpatterns]
    assert paths
    for path in paths:
        socket = socket_for(client, path)
        await socket.connect(timeout=PATIENCE)
        told = await _until_closed(socket)
        assert told["type"] == "websocket.close", path


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
async def test_a_socket_opens_from_the_sites_own_pages_only(viewer: Operator, memory: dict[str, Model]) -> None:
    client = Client()
    await client.aforce_login(viewer.user)
    for path in [_filled(pattern, memory) for pattern in websocket_urlpatterns]:
        for origin in ("http://elsewhere.example", "http://localhost:8001", "https://localhost", "null", "http://["):
            foreign = socket_for(client, path, origin=origin)
            assert (await foreign.connect(timeout=PATIENCE))[0] is False, (path, origin)
        own = socket_for(client, path)
        assert (await own.connect(timeout=PATIENCE))[0] is True, path
        assert WORD in await own.receive_from(timeout=PATIENCE), path
        await own.disconnect(timeout=PATIENCE)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
async def test_one_socket_too_many_is_told_so_and_the_next_after_a_close_opens(
    viewer: Operator, anna: ChatUser, settings: Any
) -> None:
    settings.SOCKETS_PER_SESSION = 2
    client = Client()
    await client.aforce_login(viewer.user)
    run = await Run.objects.acreate(owner=anna, query=WORD, strategy="flash", state=Run.State.RUNNING)
    path = f"ws/runs/{run.pk}/"
    first, second, third = (socket_for(client, path) for _ in range(3))
    assert [(await each.connect(timeout=PATIENCE))[0] for each in (first, second, third)] == [True] * 3
    assert "Too many pages follow runs at once" in await third.receive_from(timeout=PATIENCE)
    assert await third.receive_output(timeout=PATIENCE) == {"type": "websocket.close", "code": 4429}
    await first.disconnect(timeout=PATIENCE)
    fourth = socket_for(client, path)
    assert (await fourth.connect(timeout=PATIENCE))[0]
    assert "Too many pages" not in await fourth.receive_from(timeout=PATIENCE)
    for socket in (second, fourth):
        await socket.disconnect(timeout=PATIENCE)


async def test_a_socket_of_no_path_is_refused() -> None:
    socket = socket_for(Client(), "ws/none/")
    assert (await socket.connect(timeout=PATIENCE))[0] is False


async def _until_closed(socket: WebsocketCommunicator) -> dict[str, object]:
    told: dict[str, object] = await socket.receive_output(timeout=PATIENCE)
    await socket.wait(timeout=PATIENCE)
    return told


def arguments(questions: Path, chat: Path) -> dict[str, list[str]]:
    """How a command is told to work for Boris only; those that work for nobody in particular have none."""
    return {
        "archive": ["--user", "boris", "--now"],
        "bench": [],
        "check_memory": ["--user", "boris"],
        "create_token": ["a program", "--scope", "read", "--user", "boris"],
        "diffsettings": [],
        "embed": [],
        "erase_user": ["boris", "--yes"],
        "evaluate": [str(questions)],
        "export_user": ["boris", str(chat.with_name("export.jsonl"))],
        "import_chat": [str(chat), "--user", "boris"],
        "judged_questions": ["--user", "boris"],
        "recall": [WORD, "--user", "boris"],
        "undo_night": ["boris"],
        "up": [],
        "test": [],
        "verify_erasure": [str(Erasure.objects.create(owner_number=0, salt=b"s", marks=bytes(8), lengths=[1]).pk)],
    }


@pytest.mark.django_db(transaction=True)
def test_a_command_for_one_memory_tells_nothing_of_another(
    memory: dict[str, Model], boris: ChatUser, tmp_path: Path
) -> None:
    talk(boris, ("Tomatoes", ["How do I prune tomatoes?", "Above the second leaf."]))
    said = {"id": "b9", "role": "user", "author": "Boris", "ts": "2026-03-09T10:00:00Z", "text": "And cucumbers?"}
    chat, questions = tmp_path / "chat.jsonl", tmp_path / "questions.jsonl"
    chat.write_text(json.dumps({"user": "boris", "messages": [said]}))
    questions.write_text(json.dumps({"user": "boris", "qid": "1", "question": WORD, "evidence": ["m0"]}))
    ours = {name for name, app in get_commands().items() if app == "memoryapp"}
    told = arguments(questions, chat)
    assert ours <= told.keys(), f"teach tests/accounts/test_access.py the commands {ours - told.keys()}"
    # Erased last, for the others work for him.
    for name in sorted(ours - {"up", "test", "bench"}, key=lambda name: (name == "erase_user", name)):
        out = StringIO()
        try:
            call_command(name, *told[name], stdout=out, stderr=out)
        except CommandError as refused:
            assert name == "undo_night", "only that one has nothing to do for Boris"
            out.write(str(refused))
        assert SECRET not in out.getvalue(), name


def test_a_viewer_may_look_but_not_ask(memory: dict[str, Model], as_viewer: Client) -> None:
    before = Run.objects.count()
    answer = as_viewer.post(f"/memory/{memory['chatuser'].pk}/recall/", {"query": WORD, "strategy": "flash"})
    assert answer.status_code == 403
    assert Run.objects.count() == before
    assert as_viewer.get(f"/memory/{memory['chatuser'].pk}/").status_code == 200


@pytest.mark.parametrize("role", list(Role))
def test_a_role_includes_the_ones_before_it(role: Role) -> None:
    order = list(Role)
    assert [role.includes(other) for other in order] == [order.index(role) >= order.index(other) for other in order]


def test_a_superuser_without_a_role_counts_as_admin(memory: dict[str, Model]) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="a-long-enough-word"))
    assert WORD in body(client.get(f"/memory/{memory['chatuser'].pk}/"))


def test_the_administration_is_for_those_who_may_see_everyone(
    memory: dict[str, Model], staff: Operator, debugger: Operator, admin: Operator
) -> None:
    topic = f"/admin/memoryapp/topic/{memory['topic'].pk}/change/"
    for refused in (staff, debugger):
        client = signed_in(refused)
        assert client.get("/admin/").status_code == client.get(topic).status_code == 302
    admin.user.user_permissions.set(Permission.objects.all())
    assert WORD in body(signed_in(admin).get(topic))
    admin.user.is_active = False
    admin.user.save()
    assert signed_in(admin).get(topic).status_code == 302


def test_a_superuser_enters_the_administration(memory: dict[str, Model]) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="a-long-enough-word"))
    assert WORD in body(client.get(f"/admin/memoryapp/topic/{memory['topic'].pk}/change/"))
