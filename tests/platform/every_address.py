"""Every address of the site, filled with rows of Anna's memory; each row contains a word that occurs nowhere else."""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace

from django.apps import apps
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RegexPattern, RoutePattern
from django.utils import timezone

from memoryapp.engine.candidates import ItemCandidate
from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.events import CandidatesFound, Event, MediaItem, RunFinished, RunStarted, Selected, to_payload
from memoryapp.engine.kinds.kind import ContextPart, Totals
from memoryapp.engine.kinds.react import Answered, Citation
from memoryapp.engine.memory import document_id
from memoryapp.memory.content import store
from memoryapp.models import (
    AgentCall,
    ApiToken,
    Artifact,
    BulkTopic,
    BulkWork,
    ChatUser,
    EmbeddingProfile,
    Evaluation,
    ExpiringRow,
    ExpiryBatch,
    ExpiryRule,
    Fact,
    Finding,
    FindingMessage,
    ForgetRequest,
    GoldenAlarm,
    GoldenNight,
    GoldenQuestion,
    Grade,
    ImportBatch,
    ImportFile,
    ItemVector,
    Judgement,
    KnowledgeEdit,
    LoginSession,
    Miss,
    NightlyRun,
    Passage,
    PassageVector,
    Pause,
    Person,
    Run,
    RunEvent,
    SavedView,
    StoredItem,
    Suggestion,
    Topic,
    TopicVector,
    UnreadTopic,
    Webhook,
    WebhookDelivery,
    Work,
)
from memoryapp.platform.accounts import tokens
from rerankui.web import uploads
from tests.conftest import candidate, talk

# occurs in every row of Anna's memory and nowhere else
WORD = "мандрагора"
SECRET = "кларнет"
ITEM = {"namespace": [WORD], "key": WORD, "value": {"text": SECRET}, "text": SECRET}
MEDIA = WORD.encode()
MEDIA_HASH = hashlib.sha256(MEDIA).hexdigest()
# the same for every operator, though the address has arguments
# Nouns whose rows an address under a memory names by themselves.
OF_MEMORY = ("person", "fact", "artifact", "finding", "suggestion", "savedview", "bulkwork", "miss", "expirybatch")
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


@dataclass(frozen=True, slots=True)
class Route:
    name: str
    path: str
    is_anybodys: bool


def events(topic: Topic, person: Person) -> list[Event]:
    """A run that found the topic and the person, answered out of the topic, chose it and handed it over."""
    message = topic.message_set.all()[0]
    found = candidate(topic)
    talk = replace(found, id=f"Session:{message.pk}", rank=2)
    document = replace(found, id=document_id("1"), rank=3)
    known = ItemCandidate(f"Person:{person.pk}", 1, 1, 0.5, 1.0, 1.0, 0.7, WORD, f"[Person:{person.pk}] {WORD}", True)
    chosen = Selected(found.id, 1, SECRET, 0.7, 1)
    return [
        RunStarted("flash", f"{WORD}?", {}, "", "", ""),
        CandidatesFound((found, talk, document), 1, 0.01, people=(known,), sessions={talk.id: [message.pk]}),
        Answered(f"{WORD} [1].", (Citation(1, found.id, message.pk, WORD),), "answered", 0.5, "extracts"),
        RunFinished((chosen,), (), "", "", totals=Totals(), context=(ContextPart("topics", 9, 3, 1),)),
    ]


def every_row(anna: ChatUser) -> dict[str, Model]:
    """Creates one row of each noun in Anna's memory and returns them by model name; each contains the word."""
    anna.display_name, anna.profile = f"Anna {WORD}", SECRET
    anna.save()
    topic, owned = talk(anna, (f"{WORD} {SECRET}", [f"{WORD} {SECRET}?", f"{WORD} {SECRET}!"]))[0], {"owner": anna}
    person = Person.objects.create(**owned, display_name=WORD, bio=SECRET)
    picture = store(anna, MediaContent(MediaItem(MEDIA_HASH, "file", "text/plain", f"{WORD}.txt", len(MEDIA)), MEDIA))
    run = Run.objects.create(
        **owned, query=f"{WORD}?", strategy="flash", state=Run.State.FINISHED, media=[asdict(picture)]
    )
    for seq, event in enumerate(events(topic, person), start=1):
        RunEvent.objects.create(
            **owned, run=run, seq=seq, kind=event.kind, at=timezone.now(), payload=to_payload(event)
        )
    profile = EmbeddingProfile.objects.create(provider="test", model="two", dimensions=2, threshold=0.5)
    passage = Passage.objects.get(messages=topic.message_set.all()[0])
    rows: list[Model] = [
        anna,
        topic,
        topic.message_set.all()[0],
        run,
        profile,
        PassageVector.objects.create(**owned, passage=passage, profile=profile, dimensions=2, vector=[1, 0]),
        TopicVector.objects.create(**owned, topic=topic, profile=profile, vector=[1, 0]),
        (item := StoredItem.objects.create(**owned, **ITEM, created_at=timezone.now(), updated_at=timezone.now())),
        ItemVector.objects.create(**owned, item=item, profile=profile, vector=[1, 0]),
        person,
        Fact.objects.create(
            **owned, relation=WORD, category=WORD, content=WORD, type="status", importance=1, created_at=timezone.now()
        ),
        Artifact.objects.create(
            **owned, name=f"{WORD}.pdf", summary=SECRET, file_type="pdf", sha256="0", created_at=timezone.now()
        ),
        ImportBatch.objects.create(**owned, source=WORD, format="jsonl"),
        ImportFile.objects.create(**owned, source=WORD, size_bytes=9, state="ready", asked_by=WORD, findings=FOUND),
        Work.objects.create(**owned, kind="import", source=WORD, state="going_on"),
        AgentCall.objects.create(**owned, agent="merger", asked_by=WORD, topics=[topic.pk]),
        Pause.objects.create(**owned, kind="import", by=WORD),
        KnowledgeEdit.objects.create(**owned, kind="edit", noun="person", actor=WORD, before={}, after={}),
        Suggestion.objects.create(**owned, kind="merge", key=WORD, topics=[topic.pk], evidence=EVIDENCE),
        (finding := Finding.objects.create(**owned, noun="fact", topic=topic, values={"content": f"{WORD} {SECRET}"})),
        FindingMessage.objects.create(**owned, finding=finding, message=topic.message_set.all()[0]),
        UnreadTopic.objects.create(**owned, topic=topic, state="failed", due_at=timezone.now(), fault=SECRET),
        Evaluation.objects.create(source=WORD, strategy="flash"),
        Judgement.objects.create(**owned, run=run, is_good=True),
        ForgetRequest.objects.create(**owned, message=topic.message_set.all()[0], asked_by=WORD),
        (bulk := BulkWork.objects.create(**owned, kind="summarise", asked_by=WORD)),
        BulkTopic.objects.create(**owned, work=bulk, topic=topic, fault=SECRET),
        SavedView.objects.create(
            **owned,
            list="topics",
            name=WORD,
            query={"q": [SECRET]},
            user=User.objects.create_user("mandy"),
            is_shared=True,
        ),
        Grade.objects.create(**owned, run=run, message=topic.message_set.all()[0], value=2),
        GoldenQuestion.objects.create(**owned, collection=WORD, question=f"{WORD} {SECRET}?", made_by=WORD),
        Miss.objects.create(
            **owned, question=f"{WORD} {SECRET}?", expected=SECRET, run=run, moment=timezone.now(), reported_by=WORD
        ),
        (rule := ExpiryRule.objects.create(**owned, noun="fact", days=9, kind=WORD, made_by=WORD)),
        (expiring := ExpiryBatch.objects.create(**owned, rule=rule, count=1, due_at=timezone.now())),
        ExpiringRow.objects.create(**owned, batch=expiring, number="1", kept_by=WORD),
        tokens.make(WORD, [ApiToken.Scope.READ], [anna])[0],
        (
            nightly := NightlyRun.objects.create(
                collection=WORD, strategy="flash", most=9, hour=3, zone="UTC", next_at=timezone.now(), made_by=WORD
            )
        ),
        (night := GoldenNight.objects.create(nightly=nightly, state="dropped")),
        GoldenAlarm.objects.create(**owned, night=night),
        (hook := Webhook.objects.create(name=WORD, address=WORD, nonce=WORD, made_by=WORD)),
        WebhookDelivery.objects.create(webhook=hook, kind="run.finished", subject=str(run.pk), body=WORD, owner=anna),
    ]
    named = {row._meta.model_name or "": row for row in rows}
    rest = {model.__name__.lower(): model._default_manager.first() for model in apps.get_models()}
    return {**{name: row for name, row in rest.items() if row is not None}, **named}


def routes(memory: dict[str, Model]) -> list[Route]:
    """All addresses; the one that signs out comes last."""
    return sorted(_walk(get_resolver().url_patterns, "/", "", memory), key=lambda route: route.name == "logout")


def _walk(patterns: list[URLPattern | URLResolver], base: str, space: str, memory: dict[str, Model]) -> Iterator[Route]:
    for pattern in patterns:
        path = base + filled(pattern, memory)
        if isinstance(pattern, URLResolver):
            inside = f"{pattern.namespace}:" if pattern.namespace else space
            yield from _walk(pattern.url_patterns, path, inside, memory)
        else:
            name = f"{space}{pattern.name or ''}"
            yield Route(name, path, name in SHARED or not re.search(r"[<(]", str(pattern.pattern)))


def filled(pattern: URLPattern | URLResolver, memory: dict[str, Model]) -> str:
    shape = pattern.pattern
    if isinstance(shape, RoutePattern):
        return re.sub(r"<(?:\w+:)?(\w+)>", lambda found: _argument(str(shape), found[1], pattern, memory), str(shape))
    assert isinstance(shape, RegexPattern)
    groups = re.sub(
        r"\(\?P<(\w+)>[^)]*\)", lambda found: _argument(str(shape), found[1], pattern, memory), str(shape).strip("^$")
    )
    return groups.replace(r"\Z", "")


def _argument(route: str, name: str, pattern: URLPattern | URLResolver, memory: dict[str, Model]) -> str:
    """Returns Anna's value for an argument, so that the stranger asks for exactly what is hers."""
    kind = route.partition("/")[0]
    known: dict[tuple[str, str], Callable[[], object]] = {
        ("memory", "owner_id"): lambda: memory["chatuser"].pk,
        **{("memory", noun): lambda noun=noun: memory[noun].pk for noun in OF_MEMORY},
        ("memory", "noun"): lambda: "fact",
        ("memory", "pk"): lambda: memory["fact"].pk,
        ("memory", "edit"): lambda: memory["topicedit"].pk,
        ("memory", "change"): lambda: memory["knowledgeedit"].pk,
        ("memory", "batch"): lambda: memory["importbatch"].pk,
        ("memory", "file"): lambda: memory["importfile"].pk,
        ("memory", "ticket"): lambda: uploads.ticket(memory["chatuser"].pk, 1),
        ("memory", "message"): lambda: memory["message"].pk,
        ("topics", "pk"): lambda: memory["topic"].pk,
        ("edits", "pk"): lambda: memory["topicedit"].pk,
        ("edits", "id"): lambda: memory["topicedit"].pk,
        ("runs", "pk"): lambda: memory["run"].pk,
        ("runs", "n"): lambda: 1,
        ("runs", "topic"): lambda: memory["topic"].pk,
        ("runs", "session"): lambda: memory["message"].pk,
        ("expiry", "id"): lambda: memory["expirybatch"].pk,
        ("misses", "id"): lambda: memory["miss"].pk,
        ("facts", "id"): lambda: memory["fact"].pk,
        ("facts", "change"): lambda: memory["knowledgeedit"].pk,
        ("decisions", "change"): lambda: memory["knowledgeedit"].pk,
        ("sessions", "message"): lambda: memory["message"].pk,
        ("runs", "item"): lambda: f"Person:{memory['person'].pk}",
        ("runs", "part"): lambda: "topics",
        ("runs", "document"): lambda: "1",
        ("runs", "sha256"): lambda: MEDIA_HASH,
        ("users", "name"): lambda: memory["chatuser"].name,
        ("users", "id"): lambda: f"Person:{memory['person'].pk}",
        ("mcp", "user"): lambda: memory["chatuser"].name,
        ("messages", "id"): lambda: memory["message"].external_id,
        ("topics", "id"): lambda: f"Topic:{memory['topic'].pk}",
        ("prompts", "name"): lambda: "rerank",
        ("prompts", "language"): lambda: "en",
        ("prompts", "version"): lambda: 0,
        ("embedding", "embeddingprofile"): lambda: memory["embeddingprofile"].pk,
        ("tokens", "pk"): lambda: memory["apitoken"].pk,
        ("operators", "pk"): lambda: 1,
        ("invitation", "uidb64"): lambda: "MQ",
        ("invitation", "token"): lambda: "guessed",
        ("webhooks", "pk"): lambda: memory["webhook"].pk,
        ("erasures", "pk"): lambda: 1,
        ("erasures", "number"): lambda: 1,
        ("golden", "collection"): lambda: WORD,
        ("golden", "pk"): lambda: memory["goldenquestion"].pk,
        ("nights", "pk"): lambda: memory["nightlyrun"].pk,
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
        raise AssertionError(f"{route}: no value for {name!r}; teach tests/platform/every_address.py this address")
    return str(known[kind, name]())


def _administered(pattern: URLPattern | URLResolver, memory: dict[str, Model]) -> Model:
    """Returns the row that an address of the administration is about, by its name (``memoryapp_fact_change``)."""
    name = getattr(pattern, "name", None) or ""
    return next((row for noun, row in memory.items() if f"_{noun}_" in name), memory["topic"])


def holdings() -> dict[str, int]:
    """Counts the rows of each noun; login sessions are left out, because the test signs out on the way."""
    memory = apps.get_app_config("memoryapp").get_models()
    return {model.__name__: model._default_manager.count() for model in memory if model is not LoginSession}
