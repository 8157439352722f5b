"""The tools that change a memory: what an agent remembers is stored at once, a change of topics is proposed, looked at
and only then made. A proposal is signed and kept by the agent, so that what is made is what was looked at. Topics never
change: if one of them is retired meanwhile, the change is refused, and nothing happens twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

from django.core import signing
from pydantic import Field, ValidationError

from memoryapp.curation import OPERATIONS
from memoryapp.curation.operations.operation import TOPIC
from memoryapp.curation.suggestions import inbox
from memoryapp.doors.api import curation, messages, misses
from memoryapp.doors.api.access import Scope, answered, owner_or_404
from memoryapp.doors.api.curation import actor_of, change_or_plan
from memoryapp.doors.api.shapes.curation import ChangedAnswer, body_of
from memoryapp.doors.api.shapes.fields import RequestRefused
from memoryapp.doors.api.shapes.lists import MessagesBody
from memoryapp.doors.api.shapes.misses import MissAnswer, MissBody
from memoryapp.doors.mcp_server.tool import Arguments, Memory, ToolAnswer, refused, tool
from memoryapp.engine.memory import parse_topic_id, topic_id
from memoryapp.engine.sight import LONGEST
from memoryapp.importers.values import clean
from memoryapp.models import Topic
from memoryapp.platform.database import in_thread

_SALT = "memoryapp.mcp_server.proposal"
_VALID_SECONDS = 3_600
_MOST_RUNS = 10
_LONGEST = 20_000

# The operations that programs may ask for, by their names for agents.
_VERBS = {each.endpoint.verb: (each, each.endpoint) for each in OPERATIONS.values() if each.endpoint}
if TYPE_CHECKING:
    Verb = str
else:
    Verb = Literal[tuple(_VERBS)]
Reason = Annotated[str, Field(max_length=500, description="why, for the people who read the history")]


def _takes() -> str:
    """``merge: topics, summary. split: topic, at, summaries.``"""
    lists = ((verb, ", ".join(part.name for part in endpoint.takes)) for verb, (_each, endpoint) in _VERBS.items())
    return " ".join(f"{verb}: {parts}." for verb, parts in lists)


class ProposalArguments(Arguments):
    __doc__ = _takes()

    kind: Verb
    topics: Annotated[list[str], Field(max_length=100, description="merge: the topics, such as Topic:42")] = []
    topic: Annotated[str, Field(max_length=60, description="split and rewrite: the topic")] = ""
    at: Annotated[list[str], Field(max_length=100, description="split: the ids of messages that begin a new part")] = []
    summaries: Annotated[list[str], Field(max_length=101, description="split: a summary for each part")] = []
    summary: Annotated[str, Field(max_length=_LONGEST, description="merge, rewrite, move: the new summary")] = ""
    messages: Annotated[list[str], Field(max_length=1_000, description="move: the ids of the messages")] = []
    to: Annotated[str | None, Field(max_length=60, description="move: the topic; a new one without it")] = None
    project: Annotated[str, Field(max_length=LONGEST, description="label: the project; empty for all of them")] = ""
    reason: Reason = ""


class TokenArguments(Arguments):
    token: Annotated[str, Field(max_length=60_000, description="the token of a proposal, as propose_edit returned it")]


class UndoArguments(Arguments):
    edit: Annotated[
        int, Field(ge=1, le=2**62, description="the number of an edit, as apply_edit or list_edits names it")
    ]
    reason: Reason = ""


class RememberArguments(Arguments):
    text: Annotated[str, Field(min_length=1, max_length=_LONGEST, description="what to remember, in whole sentences")]
    by: Annotated[Literal["user", "assistant"], Field(description="whose words they are: of the user, or your own")] = (
        "assistant"
    )
    project: Annotated[
        str, Field(max_length=LONGEST, description="the project or place that it belongs to, such as work")
    ] = ""


class ForgetArguments(Arguments):
    messages: Annotated[
        list[str], Field(min_length=1, max_length=100, description="the ids of messages, as search_memory returns them")
    ]


@tool("Propose a change of topics", Scope.CURATE)
async def propose_edit(memory: Memory, asked: ProposalArguments) -> ToolAnswer:
    """Plans to merge, split or rewrite topics, or to move messages between them. Changes nothing: it returns the
    difference, the effect on past runs, and a token for apply_edit."""
    wanted = asked.model_dump(exclude_defaults=True)
    token = signing.dumps([memory.grant.token.pk, memory.name, wanted], salt=_SALT, compress=True)
    return await in_thread(_looked_at, memory, asked, token)


@tool("Look at a proposed change again", Scope.CURATE)
async def preview_edit(memory: Memory, asked: TokenArguments) -> ToolAnswer:
    """Returns what a proposed change would do to the memory as it is now."""
    return await in_thread(_looked_at, memory, _proposal(memory, asked.token), asked.token)


@tool("Make a proposed change", Scope.CURATE, changes=True)
async def apply_edit(memory: Memory, asked: TokenArguments) -> ToolAnswer:
    """Makes the change of a proposal. It is refused if the topics have changed since. It can be undone."""
    made = await in_thread(_changed, memory, _proposal(memory, asked.token), is_dry=False)
    put = ", ".join(topic["id"] for topic in made["topics"])
    text = f"Edit {made['edit']} is made: {', '.join(made['retired'])} became {put}. undo_edit takes it back."
    return ToolAnswer(text, made)


@tool("Undo a change of topics", Scope.CURATE, changes=True)
async def undo_edit(memory: Memory, asked: UndoArguments) -> ToolAnswer:
    """Undoes an edit of any age; an undo can be undone as well."""
    undone = await answered(ChangedAnswer, curation.undone, memory.grant, asked.edit, asked.reason, is_dry=False)
    made = memory.values(undone)
    put = ", ".join(topic["id"] for topic in made["topics"])
    return ToolAnswer(f"Edit {asked.edit} is undone by edit {made['edit']}; these topics are back: {put}.", made)


@tool("Remember something", Scope.INGEST, changes=True, may_be_new=True)
async def remember(memory: Memory, asked: RememberArguments) -> ToolAnswer:
    """Stores what was said or learnt, so that later searches find it."""
    author = "" if asked.by == "user" else memory.grant.token.name
    spoken = {"role": asked.by, "author": author[:200], "text": asked.text}
    body = MessagesBody(user=memory.name, project=asked.project, messages=[spoken])
    stored = await in_thread(messages.take_in, memory.grant, body)
    if stored.get("held"):
        return ToolAnswer("It is held: a search finds it when a person has taken it in.", stored)
    return ToolAnswer("It is stored, and the next search finds it.", stored)


@tool("Ask people to erase messages", Scope.INGEST, Scope.CURATE, Scope.FORGET, changes=True)
async def request_forgetting(memory: Memory, asked: ForgetArguments) -> ToolAnswer:
    """Asks people to erase messages. Nothing is erased before a person has decided, in the inbox."""
    unknown = await in_thread(_asked_to_forget, memory, asked.messages)
    waiting = [name for name in asked.messages if name not in unknown]
    text = f"A person will decide whether to erase: {', '.join(waiting)}." if waiting else "Nothing was requested."
    missing = f" There are no messages {', '.join(unknown)}." if unknown else ""
    return ToolAnswer(text + missing, {"waiting": waiting, "unknown": unknown})


def _asked_to_forget(memory: Memory, names: list[str]) -> list[str]:
    owner = owner_or_404(memory.grant, memory.name)
    return inbox.ask_to_forget(owner, [clean(name) for name in names], actor_of(memory.grant))


def _proposal(memory: Memory, token: str) -> ProposalArguments:
    """Returns what a token proposes. Raises RequestRefused for one of another memory or API token, or too old a one."""
    try:
        number, name, wanted = signing.loads(token, salt=_SALT, max_age=_VALID_SECONDS)
    except signing.SignatureExpired:
        raise RequestRefused(422, "token: it is older than an hour; propose the edit again.") from None
    except signing.BadSignature:
        number, name, wanted = 0, "", {}
    if (number, name) != (memory.grant.token.pk, memory.name):
        raise RequestRefused(422, "token: it is none that propose_edit has given you for this memory.")
    return ProposalArguments.model_validate(wanted)


def _changed(memory: Memory, wanted: ProposalArguments, *, is_dry: bool) -> dict[str, Any]:
    """Makes a change, or plans it. Raises RequestRefused."""
    operation, endpoint = _VERBS[wanted.kind]
    asked = {part.name: getattr(wanted, part.name) for part in endpoint.body_takes}
    whose = {} if TOPIC in endpoint.takes else {"user": memory.name}
    try:
        body = body_of(endpoint).model_validate({**whose, **asked, "reason": wanted.reason})
    except ValidationError as error:
        raise refused(error) from None
    made = change_or_plan(memory.grant, operation, endpoint, body, wanted.topic, is_dry=is_dry)
    return memory.values(ChangedAnswer.model_validate(made))


def _looked_at(memory: Memory, wanted: ProposalArguments, token: str) -> ToolAnswer:
    """What a change would do: the topics before and after it, and its effect on past runs."""
    planned = _changed(memory, wanted, is_dry=True)
    effect = planned["effect"]
    effect["runs"] = effect["runs"][:_MOST_RUNS]
    numbers = [number for id in planned["retired"] if (number := parse_topic_id(id))]
    before = Topic.objects.filter(owner__in=memory.grant.visible_owners(), pk__in=numbers).order_by("started_at", "pk")
    gone = [f"- {topic_id(row.pk)} ({row.message_count} messages): {row.summary}" for row in before]
    put = [f"+ new topic ({topic['message_count']} messages): {topic['summary']}" for topic in planned["topics"]]
    difference = [*gone, *put]
    parts = ["\n".join(difference), _effect_text(effect), "Nothing is changed yet. apply_edit does it with this token:"]
    values = {"token": token, "difference": difference, "effect": effect}
    kept = {name: planned[name] for name in ("topics", "retired")}
    return ToolAnswer("\n\n".join([*parts, token]), {**values, **kept})


def _effect_text(effect: Mapping[str, Any]) -> str:
    sentence = (
        f"{effect['affected']} past runs saw these topics: {effect['better']} would be better, {effect['worse']} worse,"
        f" {effect['same']} the same."
    )
    changed = [run for run in effect["runs"] if run["verdict"] != "same"]
    return "\n".join([sentence, *(f"{run['verdict']}: “{run['query']}” {run['sentence']}" for run in changed)])


class MissArguments(Arguments):
    question: Annotated[str, Field(description="what was asked", max_length=4_000)]
    expected: Annotated[str, Field(description="what should have been known", max_length=4_000)] = ""
    answer: Annotated[str, Field(description="the wrong answer", max_length=4_000)] = ""
    run: Annotated[UUID | None, Field(description="the run that went wrong, if it is known")] = None


@tool("Report that something was forgotten", Scope.RECALL, Scope.CURATE, changes=True)
async def report_miss(memory: Memory, asked: MissArguments) -> ToolAnswer:
    """Reports that an answer was wrong because the memory did not give what it should have: says why, and what would
    put it right. A person decides."""
    body = MissBody(user=memory.name, **asked.model_dump())
    made = await in_thread(misses.reported, memory.grant, body)
    await misses.ended(made.run)
    found = memory.values(await answered(MissAnswer, misses.one, memory.grant, made.pk))
    tried = [f"- {each['does']} {each['result']}" for each in found["remedies"]]
    where = f"People put it right here: {found['url']}"
    return ToolAnswer("\n".join([found["sentence"] or "It is not known yet why.", *tried, where]), found)
