"""The tools that change nothing: a question is a run that people can watch, everything else is read from the rows."""

from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, ValidationError

from memoryapp.doors.api import curation, lists, runs
from memoryapp.doors.api.access import Scope, answered
from memoryapp.doors.api.recall import start_run, wait_for_end
from memoryapp.doors.api.shapes.answers import WordsAnswer
from memoryapp.doors.api.shapes.curation import EditsAnswer, TopicAnswer
from memoryapp.doors.api.shapes.runs import RecallAnswer, RecallBody, WhyNotAnswer
from memoryapp.doors.mcp_server.tool import Arguments, Memory, ToolAnswer, refused, tool
from memoryapp.engine.memory import LONGEST_PHRASE, MOST_PHRASES
from memoryapp.engine.sight import LONGEST
from memoryapp.engine.strategies import DEFAULT, PLAIN, STRATEGIES
from memoryapp.models import Run
from memoryapp.platform.database import in_thread
from memoryapp.runs.lifecycle import LONGEST_QUERY
from memoryapp.runs.recall_document import EndedRun

MOST_SHOWN = 100
TopicName = Annotated[
    str, Field(description="the id of a topic or of an active session, such as Topic:42", max_length=60)
]
RunName = Annotated[UUID, Field(description="the id of a run, as search_memory and ask return it")]


Phrases = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=LONGEST_PHRASE)]], Field(max_length=MOST_PHRASES)
]


ProjectName = Annotated[
    str, Field(max_length=LONGEST, description="a project or place, such as work: search it and what is common to all")
]


class SearchArguments(Arguments):
    query: Annotated[str, Field(min_length=1, max_length=LONGEST_QUERY, description="what to look for, in words")]
    max_topics: Annotated[int | None, Field(ge=1, le=15, description="how many topics at most")] = None
    must_phrases: Phrases = Field([], description="phrases that each topic contains, whatever their endings")
    should_phrases: Phrases = Field([], description="phrases for which a topic ranks higher")
    k_per_query: Annotated[int | None, Field(ge=1, le=50, description="how many candidates are looked at")] = None
    strategy: Annotated[str, Field(description=f"how topics are chosen: {', '.join(STRATEGIES)}", max_length=20)] = (
        DEFAULT.name
    )
    project: ProjectName = ""


class AskArguments(Arguments):
    question: Annotated[str, Field(min_length=1, max_length=LONGEST_QUERY, description="a question in words")]
    project: ProjectName = ""


class TopicArguments(Arguments):
    topic: TopicName


class WhyNotArguments(Arguments):
    run: RunName
    topic: Annotated[str, Field(description="a topic that was not chosen, such as Topic:42", max_length=60)] = ""
    message: Annotated[str, Field(description="or the id of a message", max_length=300)] = ""
    text: Annotated[str, Field(description="or some words", max_length=1_000)] = ""


class EditsArguments(Arguments):
    after: Annotated[int, Field(ge=0, le=2**62, description="the number of the last edit of the page before")] = 0
    limit: Annotated[int, Field(ge=1, le=MOST_SHOWN)] = 20


@tool("Search the memory", Scope.RECALL)
async def search_memory(memory: Memory, asked: SearchArguments) -> ToolAnswer:
    """Finds what was said before about something: topics with their messages, and why each was chosen."""
    options = asked.model_dump(include={"max_topics", "must_phrases", "should_phrases", "k_per_query"})
    parameters = {name: value for name, value in options.items() if value}
    run = await _ended(memory, query=asked.query, project=asked.project, strategy=asked.strategy, parameters=parameters)
    found = memory.values(await answered(RecallAnswer, EndedRun, run, ["messages"]))
    for topic in found["topics"]:
        topic["messages"] = [message["id"] for message in topic["messages"]]
    unsure = "Not sure whether the memory answers this." if found["unsure"] else ""
    nothing = found["note"] or "Nothing in the memory answers this." if not (found["topics"] or unsure) else unsure
    names = "\n".join(f"{topic['id']}: messages {', '.join(topic['messages'])}" for topic in found["topics"])
    parts = [nothing, found["context"], names, f"Watch or replay this search: {found['url']}"]
    return ToolAnswer("\n\n".join(filter(None, parts)), found)


@tool("Ask the memory a question", Scope.RECALL)
async def ask(memory: Memory, asked: AskArguments) -> ToolAnswer:
    """Answers a question from the memory, with the messages that it cites. Without a chat model it returns the nearest
    passages instead of an answer."""
    run = await _ended(memory, query=asked.question, project=asked.project, strategy=PLAIN.name)
    answer = memory.values(await answered(WordsAnswer, EndedRun, run))
    cited = [
        f"[{each['n']}] {each['topic']}, message {each['message']}, {each['author']} {each['ts'][:10]}: {each['quote']}"
        for each in answer["citations"]
    ]
    parts = [answer["answer"], answer["note"], "\n".join(cited), f"Watch or replay this answer: {answer['url']}"]
    return ToolAnswer("\n\n".join(filter(None, parts)), answer)


async def _ended(memory: Memory, **asked: Any) -> Run:
    try:
        body = RecallBody(user=memory.name, **asked)
    except ValidationError as error:
        raise refused(error) from None
    run = await in_thread(start_run, memory.grant, body)
    await wait_for_end(run)
    return run


@tool("Read a topic", Scope.READ)
async def read_topic(memory: Memory, asked: TopicArguments) -> ToolAnswer:
    """Returns a topic with all its messages. An id that an edit has retired returns the topics that hold its messages
    now."""
    found = memory.values(await answered(TopicAnswer, lists.topic, memory.grant, asked.topic))
    return ToolAnswer("\n\n".join(_topic_text(topic) for topic in found["topics"]) or "It has no messages now.", found)


def _topic_text(topic: dict[str, Any]) -> str:
    head = f"{topic['id']} ({topic['message_count']} messages): {topic['summary']}"
    lines = [
        f"[{each['id']}] {each['author'] or each['role']} ({each['ts'][:16]}): {each['text']}"
        for each in topic["messages"]
    ]
    return "\n".join([head, *lines])


@tool("Why a search did not find something", Scope.READ)
async def why_not(memory: Memory, asked: WhyNotArguments) -> ToolAnswer:
    """Says why a run did not choose a topic, a message or what some words say, and what would have changed that. Give
    exactly one of topic, message and text."""
    why = (asked.run, asked.topic, asked.message, asked.text)
    found = memory.values(await answered(WhyNotAnswer, runs.why, memory.grant, *why))
    tried = [f"- {each['change']}: {each['result']}" for each in found["counterfactuals"]]
    return ToolAnswer("\n".join([found["sentence"], *tried]), found)


@tool("List the changes of the memory", Scope.CURATE)
async def list_edits(memory: Memory, asked: EditsArguments) -> ToolAnswer:
    """Lists the changes of topics, the earliest first, with the number by which each is undone."""
    page = await answered(EditsAnswer, curation.page_of_edits, memory.grant, memory.name, asked.after, asked.limit)
    found = memory.values(page)
    lines = [
        f"{each['id']}: {each['kind']} by {each['actor']} at {each['at'][:16]}, {', '.join(each['out']) or 'nothing'}"
        f" became {', '.join(each['put']) or 'nothing'}{'' if each['stands'] else ' (undone)'}"
        for each in found["edits"]
    ]
    return ToolAnswer("\n".join(lines) or "No edits.", found)
