"""What the embedded models refuse of questions about another person, another thing, and what was never said.

A set is a file of blocks: the two who talk, then for each talk a question about the one who speaks first ("{}"), the
same about another thing, and what both say; last the questions about what was never said. Each question is asked
about the one who said it (answerable), and about the other. ``-s`` prints the table. In the talk with an assistant
"my brother" never says anything, so nobody can be named. The floors are about .05 below what was measured."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from memoryapp.engine.events import RunFinished
from memoryapp.engine.memory import TopicDraft
from memoryapp.importers import MessageRecord
from memoryapp.intake.archiving import put_topics
from memoryapp.intake.messages import add_messages
from memoryapp.models import ChatUser, Message
from memoryapp.platform.llm.clients import embedder
from memoryapp.runs import lifecycle
from memoryapp.runs.clients import Clients, open_clients
from memoryapp.search.vectors import embed_pending
from tests.conftest import BEGAN
from tests.support.executing import events_of

SETS = Path(__file__).parents[1] / "fixtures" / "refusals"
KINDS = ("answerable", "other person", "other thing", "never said")
# Of each set the least shares that are refused, and named as said by the other; at most these of the answerable.
FLOORS = {"people_en": (0.80, 0.88, 0.05), "people_ru": (0.80, 0.94, 0.05), "assistant_en": (0.28, 0.0, 0.05)}


@dataclass(frozen=True)
class Asked:
    kind: str
    question: str
    said_by: str


@dataclass(frozen=True)
class Outcome:
    kind: str
    is_refused: bool
    is_named: bool


def about(question: str, who: str) -> str:
    """The question about this person, or about oneself."""
    for third, own in (("does {}", "do I"), ("is {}", "am I"), ("{}'s", "my"), ("{}", "I")):
        question = question.replace(third, own) if who == "I" else question
    return question.replace("{}", who)


def put_memory(name: str) -> tuple[ChatUser, list[Asked]]:
    """Archives each talk of a set as a topic; returns the questions of all kinds."""
    owner = ChatUser.objects.create(name=name)
    head, *blocks, last = (SETS / f"{name}.txt").read_text(encoding="utf-8").strip().split("\n\n")
    first, second = head.split(" ", 1)
    asked = [
        Asked("never said", line.format((first, second)[n % 2]), "") for n, line in enumerate(last.split("\n")[1:])
    ]
    for day, block in enumerate(blocks):
        question, other_thing, *said = block.split("\n")
        speaker = said[0].split(": ")[0] if said[0].startswith((f"{first}: ", f"{second}: ")) else first
        other = second if speaker == first else first
        asked += [
            Asked("answerable", about(question, speaker), ""),
            Asked("other person", about(question, other), speaker),
            Asked("other thing", about(other_thing, speaker), ""),
        ]
        put_talk(owner, day, said)
    return owner, asked


def put_talk(owner: ChatUser, day: int, said: list[str]) -> None:
    is_assistants = ": " not in said[0][:20]
    for at, line in enumerate(said):
        author, text = ("", line) if is_assistants else line.split(": ", 1)
        role = ("user", "assistant")[at % 2] if is_assistants else "peer"
        record = MessageRecord("", f"{day}.{at}", role, author, BEGAN + timedelta(days=day, minutes=at), text)
        add_messages(owner, [record])
    ids = Message.objects.of(owner).filter(external_id__startswith=f"{day}.").in_order().values_list("pk", flat=True)
    put_topics(owner, [TopicDraft(said[0][:200], tuple(ids))], actor="test")


async def ask(owner: ChatUser, asked: Asked, clients: Clients) -> Outcome:
    parameters = {"seconds": 300, "turn_seconds": 300}
    run = await sync_to_async(lifecycle.start)(owner, asked.question, strategy="flash", parameters=parameters)
    await lifecycle.execute(run.pk, clients)
    [finished] = [event for event in await events_of(run) if isinstance(event, RunFinished)]
    by = [note.values["who"] for note in finished.notes if note.code == "said_by_others"]
    return Outcome(asked.kind, not finished.selected, bool(asked.said_by) and by == [asked.said_by])


async def outcomes(owner: ChatUser, questions: list[Asked]) -> list[Outcome]:
    async with open_clients() as clients:
        await embed_pending(embedder())
        return [await ask(owner, each, clients) for each in questions]


def shares(found: list[Outcome]) -> Iterator[tuple[str, int, float, float]]:
    for kind in KINDS:
        of_kind = [each for each in found if each.kind == kind]
        counts = (sum(each.is_refused for each in of_kind), sum(each.is_named for each in of_kind))
        yield kind, len(of_kind), *(count / len(of_kind) for count in counts)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", FLOORS)
def test_what_nobody_said_is_refused_and_who_said_it_is_named(name: str) -> None:
    owner, questions = put_memory(name)
    assert sum(each.kind != "answerable" for each in questions) >= 100
    rows = {kind: figures for kind, *figures in shares(async_to_sync(outcomes)(owner, questions))}
    print(f"\n{name:14} questions  refused  named")
    for kind, (n, refused, named) in rows.items():
        print(f"{kind:14} {n:9} {refused:8.2f} {named:6.2f}")
    refused, named, lost = FLOORS[name]
    unanswerable = [rows[kind] for kind in KINDS[1:]]
    assert sum(n * share for n, share, _named in unanswerable) / sum(n for n, *_ in unanswerable) >= refused
    assert rows["other person"][2] >= named
    assert rows["answerable"][1] <= lost
