"""Misses whose cause is known by how they were made: runs of every strategy over seeded memories, each with things that
it lost at a known stage. The cause never comes from what explains it. It follows from the words of the memory, from the
limits of the run and from what the model in it does."""

import json
import random
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from asgiref.sync import sync_to_async

from memoryapp import erasure
from memoryapp.engine.chat.protocol import ChatRequest, Reply
from memoryapp.engine.events import CandidatesFound, ToolCall
from memoryapp.engine.memory import is_session
from memoryapp.engine.prompts.rerank import TOOL_NAME
from memoryapp.erasure import Target
from memoryapp.intake.messages import add_messages
from memoryapp.models import ChatUser, EmbeddingProfile, Message, Run, Topic
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs import lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.search.vectors import embed_pending
from tests.conftest import BEGAN, record, talk
from tests.support.executing import Speechless, events_of, start

# Each subject is a word that no other topic says.
SUBJECTS = re.findall(
    r"\w+",
    "harmonica telescope lighthouse cactus trombone glacier saffron typewriter hedgehog origami submarine velvet"
    " anvil chandelier compass dragonfly eclipse fjord gargoyle hammock igloo jigsaw kayak lantern marzipan nutmeg"
    " obelisk parsnip quartz rapeseed sundial tapestry umbrella vineyard walrus xylophone yoghurt zeppelin",
)
QUERY = "garden"
# So that topics are longer than the least that a tool may return.
_LONG = "It took all day and was hard work, but nobody minded, and in the evening everything was in its place. " * 5
_SHOWN = re.compile(r"^\[Topic:(\d+)\]", re.M)


@dataclass(frozen=True)
class Miss:
    """A question about a run, the stage that lost what it asks about, and words that the sentence has."""

    run: Run
    asked: dict[str, str]
    stage: str
    says: str = ""


class ByPlace:
    """A chat model that asks for the candidates at some places of its list, and chooses some of them in order."""

    model = "by place"

    def __init__(self, reads: Sequence[int], chooses: Sequence[int]) -> None:
        self._reads, self._chooses = reads, chooses
        self.shown: list[int] = []

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        if not self.shown:
            self.shown = [int(n) for n in _SHOWN.findall(request.messages[-1]["content"])]
            call = ToolCall("call_1", TOOL_NAME, json.dumps({"ids": [self.shown[at] for at in self._reads]}))
            function = {"name": call.name, "arguments": call.arguments}
            message = {"role": "assistant", "tool_calls": [{"id": call.id, "type": "function", "function": function}]}
            yield Reply(text="", tool_calls=(call,), message=message)
            return
        text = json.dumps({"topics": [{"id": f"Topic:{self.shown[at]}", "reason": "so"} for at in self._chooses]})
        yield Reply(text=text, message={"role": "assistant", "content": text})


class Citing:
    """A chat model that answers with one statement about its first source."""

    model = "citing"

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        yield Reply(
            text="It suits the garden [1].", message={"role": "assistant", "content": "It suits the garden [1]."}
        )


@dataclass
class Memory:
    """A chat user with nine topics of one subject each, of which seven say "garden", and a session."""

    owner: ChatUser
    garden: list[Topic]
    other: list[Topic]
    subjects: list[str]
    chance: random.Random

    def asks(self, topic: Topic) -> dict[str, str]:
        """The topic, asked for in one of the ways in which people do."""
        place = [*self.garden, *self.other].index(topic)
        message = topic.topicmessage_set.order_by("message").first().message
        ways: list[dict[str, str]] = [
            {"topic": f"Topic:{topic.pk}"},
            {"topic": str(topic.pk)},
            {"text": f" topic:{topic.pk} "},
            {"text": topic.summary},
            {"text": self.subjects[place]},
            {"text": f"what about the {self.subjects[place]}"},
            {"text": message.text},
            {"message": message.external_id},
        ]
        return self.chance.choice(ways)

    def lost(self, run: Run, topics: Sequence[Topic], stage: str) -> list[Miss]:
        return [Miss(run, self.asks(topic), stage) for topic in topics]


def seeded(seed: int) -> Memory:
    chance = random.Random(seed)
    subjects = chance.sample(SUBJECTS, 9)
    owner = ChatUser.objects.create(name=f"user {seed}")
    garden = [
        (f"The {s} in the garden", [f"We put the {s} into the garden. {_LONG}", f"A {s} suits it"])
        for s in subjects[:7]
    ]
    other = [(f"A {s} upstairs", [f"Where is my {s}?", f"The {s} is upstairs"]) for s in subjects[7:]]
    topics = talk(owner, *garden, *other)
    late = record(900 + seed, "Shall we paint the gondola?", at=BEGAN + timedelta(days=40))
    add_messages(owner, [late])
    return Memory(owner, topics[:7], topics[7:], subjects, chance)


async def executed(owner: ChatUser, *, chat: Any = None, embedder: Any = None, query: str = QUERY, **given: Any) -> Run:
    """A run to its end."""
    run = await start(owner, query, **given)
    async with open_clients() as clients:
        own = replace(clients, serving=None, embedder=embedder or clients.embedder)
        if chat is not None:
            own = replace(own, chat=chat, enricher=chat if given.get("strategy") == "plain" else None)
        await lifecycle.execute(run.pk, own)
    await run.arefresh_from_db()
    assert run.is_finished
    return run


async def shown_by(run: Run) -> list[int]:
    """The numbers of the topics that were shown, without the active session."""
    found = next(event for event in await events_of(run) if isinstance(event, CandidatesFound))
    return [int(candidate.id.removeprefix("Topic:")) for candidate in found.shown if not is_session(candidate.id)]


async def planted(seed: int) -> list[Miss]:
    """Some thirty misses over all stages, in one memory."""
    memory = await sync_to_async(seeded)(seed)
    await embed_pending(offline_embedder())
    await EmbeddingProfile.objects.aupdate(threshold=0.97)
    misses = [
        *await _by_a_model(memory),
        *await _too_long(memory),
        *await _without_a_model(memory),
        *await _by_the_search(memory),
        *await _by_the_answer(memory),
        *await _outside(memory, seed),
    ]
    return misses


async def _by_a_model(memory: Memory) -> list[Miss]:
    chat = ByPlace(reads=(0, 1, 2), chooses=(0, 1))
    run = await executed(memory.owner, chat=chat, parameters={"candidates": 5, "max_topics": 1})
    by_number = {topic.pk: topic for topic in memory.garden}
    at = [by_number[number] for number in chat.shown]
    unseen = [topic for topic in memory.garden if topic not in at]
    assert (len(at), len(unseen)) == (5, 2)

    def lost() -> list[Miss]:
        return [
            *memory.lost(run, at[:1], "chosen"),
            *memory.lost(run, at[1:2], "beyond_limit"),
            *memory.lost(run, at[2:3], "not_chosen"),
            *memory.lost(run, at[3:], "not_requested"),
            *memory.lost(run, unseen, "beyond_candidates"),
            *memory.lost(run, memory.other, "below_threshold"),
        ]

    return await sync_to_async(lost)()


async def _too_long(memory: Memory) -> list[Miss]:
    chat = ByPlace(reads=(0, 1, 2), chooses=(0,))
    run = await executed(memory.owner, chat=chat, parameters={"read_chars": 1000})
    by_number = {topic.pk: topic for topic in memory.garden}
    omitted = [by_number[number] for number in chat.shown[1:3]]
    return await sync_to_async(memory.lost)(run, omitted, "did_not_fit")


async def _without_a_model(memory: Memory) -> list[Miss]:
    cuts = {"initial_threshold": 0.0, "threshold": 0.1, "score_gap": 0.5, "final_top_k": 1}
    filtered = await executed(memory.owner, strategy="filter", parameters=cuts)
    nearest = await executed(memory.owner, strategy="vector", parameters={"max_topics": 2})

    def lost() -> list[Miss]:
        return [
            miss
            for run, stage in ((filtered, "cut"), (nearest, "beyond_limit"))
            for miss in memory.lost(run, _unchosen(run, memory.garden)[:2], stage)
        ]

    return await sync_to_async(lost)()


def _unchosen(run: Run, topics: Sequence[Topic]) -> list[Topic]:
    ended = run.events.get(kind="run_finished")
    chosen = {item["id"] for item in ended.payload["selected"]}
    return [topic for topic in topics if f"Topic:{topic.pk}" not in chosen]


async def _by_the_search(memory: Memory) -> list[Miss]:
    worded = await executed(memory.owner, embedder=Speechless(), chat=ByPlace((0,), (0,)))
    day = f"{BEGAN:%Y-%m-%d}"
    bounded = await executed(memory.owner, strategy="vector", parameters={"until": day})
    typed = await executed(memory.owner, strategy="filter", query=f"{QUERY} until:{day}")

    def lost() -> list[Miss]:
        return [
            *memory.lost(worded, memory.other[:1], "no_vector"),
            *memory.lost(bounded, memory.garden[3:4], "filtered"),
            *memory.lost(typed, memory.garden[5:6], "filtered"),
        ]

    return await sync_to_async(lost)()


async def _by_the_answer(memory: Memory) -> list[Miss]:
    answered = await executed(
        memory.owner, strategy="plain", chat=Citing(), parameters={"hits": 50, "context_tokens": 8000}
    )
    topic = memory.garden[0]
    known = await sync_to_async(list)(Message.objects.filter(topic=topic).in_order())
    sent = [{"id": m.external_id, "role": m.role, "author": m.author, "text": m.text} for m in known]
    first = ByPlace(reads=range(7), chooses=range(7))
    talked = await executed(memory.owner, chat=first, messages=sent)

    def lost() -> list[Miss]:
        unused = _unchosen(answered, memory.garden)[:2]
        return [
            *memory.lost(answered, unused, "not_used"),
            Miss(talked, {"message": known[0].external_id}, "not_in_context"),
        ]

    return await sync_to_async(lost)()


async def _outside(memory: Memory, seed: int) -> list[Miss]:
    """What no topic held when the run searched: it never came, waited in a session that was searched or not, or was
    erased."""
    run = await executed(memory.owner, strategy="vector")
    without_talk = await executed(memory.owner, strategy="vector", parameters={"fresh": "no"})
    erased = await _erased(seed)
    posted = record(950 + seed, "Nobody ever painted our pergola", at=BEGAN)

    def theirs() -> Topic:
        add_messages(memory.owner, [posted])
        stranger = ChatUser.objects.create(name=f"stranger {seed}")
        return talk(stranger, ("Of another memory", ["The turbine is theirs", "So it is"]))[0]

    other = await sync_to_async(theirs)()
    return [
        Miss(without_talk, {"message": f"m{900 + seed}"}, "in_session"),
        Miss(without_talk, {"text": "Shall we paint the gondola?"}, "in_session"),
        Miss(run, {"message": f"m{900 + seed}"}, "beyond_limit"),
        Miss(run, {"topic": f"Topic:{other.pk}"}, "unknown"),
        Miss(run, {"text": "The turbine is theirs"}, "unknown"),
        Miss(run, {"message": "no-such-id"}, "unknown"),
        *(
            Miss(run, asked, "unknown", "only after")
            for asked in ({"text": posted.text}, {"message": f"m{950 + seed}"})
        ),
        *erased,
    ]


async def _erased(seed: int) -> list[Miss]:
    """A topic that a run has seen and that was erased then; in a memory of its own, because the run forgets it too."""

    def make() -> tuple[ChatUser, Topic]:
        owner = ChatUser.objects.create(name=f"forgetful {seed}")
        like = ("Of teachers", ["My aunt plays an old mandolin", "So she does"])
        return owner, talk(owner, ("Of the mandolin", ["The old mandolin of my aunt", "It is out of tune"]), like)[0]

    owner, topic = await sync_to_async(make)()
    run = await executed(owner, strategy="vector")

    def erase() -> None:
        messages = Message.objects.filter(topic=topic).values_list("pk", flat=True)
        erasure.finish(erasure.begin(Target(owner.pk, tuple(messages)), "ada"))

    await sync_to_async(erase)()
    return [
        Miss(run, {"topic": f"Topic:{topic.pk}"}, "erased"),
        Miss(run, {"text": "The old mandolin of my aunt"}, "erased"),
    ]
