"""The bodies and answers of ``POST /v1/qa`` and ``POST /v1/agent/stream``."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from memoryapp.doors.api.shapes import fields
from memoryapp.doors.api.shapes.runs import NOTHING_IS_NULL, Conversation, RecallBody, Usage, of
from memoryapp.importers.record import message
from memoryapp.importers.values import BadRecord, moment, quote


class QuestionBody(fields.StrictBody):
    """A question to one memory, to be answered in words. ``messages`` and ``parameters`` are those of a recall."""

    model_config = fields.exemplified(user="anna", query="Which cake did Dasha bake?")

    user: fields.KnownName
    query: fields.Query
    messages: Conversation = None
    parameters: Annotated[dict[str, Any], WithJsonSchema(fields.PARAMETERS)] = {}

    def recall(self, strategy: str) -> RecallBody:
        """Returns the body of a recall with this question by that strategy."""
        return RecallBody.model_construct(
            user=self.user,
            query=self.query,
            messages=self.messages,
            media=[],
            strategy=strategy,
            parameters=self.parameters,
        )


class CitedMessage(fields.Answer):
    """The source of citation ``[n]``: the message's id as it was sent, the topic that held it, and the cited words.
    ``passage`` are the ids of the messages of the passage that it belongs to, oldest first."""

    n: int = of("citation", "n")
    topic: str = of("citation", "topic")
    message: str = of("message", "external_id")
    author: str = of("message", "author")
    ts: Annotated[str, BeforeValidator(lambda at: at.isoformat() if isinstance(at, datetime) else at)] = of(
        "message", "sent_at"
    )
    quote: str = of("citation", "quote")
    passage: list[str] = []


class CheckedStatement(fields.Answer):
    """A statement of an answer beside the messages with the numbers ``citations``.

    ``support`` is ``in_words`` if every telling word of it stands there, ``differs`` if some do not, ``contradicted``
    if a number, date, negation or order is another one, and ``unchecked`` where words cannot be compared. ``missing``
    and ``turned`` are those words. ``verified`` is null where no model judged; a contradicted statement is never
    verified. One that is not ``kept`` was left out of the answer."""

    text: str
    citations: list[int] = Field(validation_alias="numbers")
    support: Literal["in_words", "differs", "contradicted", "unchecked"]
    missing: list[str]
    turned: list[str]
    verified: bool | None
    kept: bool


class WordsAnswer(fields.Answer):
    """An answer in words. ``answer`` marks each statement with ``[n]``, the number of a citation; ``text`` is the same.

    ``outcome`` is ``softened`` if little supports the answer, ``refused`` if the memory does not contain one, and
    ``failed`` if the run ended before it had one; ``fallback`` then says why. Where no chat model is connected it is
    ``passages``: ``answer`` is empty, and ``citations`` are the passages nearest to the question, best first.
    ``coverage`` is the part of the question that the sources cover, ``support`` the part of the model's ``statements``
    that a model confirmed or, where none judged, whose words all stand in the messages, both from 0 to 1.
    ``support`` is null for passages, refusals, and where nothing could be checked. ``verified`` says whether a model
    confirmed all statements that were kept and no word contradicts one, and is null where no model judged them. ``by``
    is null for passages; earlier versions composed answers of ``extracts``. ``note`` names what was left out, corrected
    or widened. ``agent`` is false for the plain path. ``cut``: the model ran into its limit of tokens,
    so the answer lacks its end."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "run": "8f3c1b0e-3a77-4a5e-9d0c-6f6f0a0b7c11",
                "url": "http://127.0.0.1:8000/runs/8f3c1b0e-3a77-4a5e-9d0c-6f6f0a0b7c11/",
                "strategy": "plain",
                "agent": False,
                "outcome": "passages",
                "answer": "",
                "text": "",
                "citations": [
                    {
                        "n": 1,
                        "topic": "Topic:42",
                        "message": "m17",
                        "author": "Dasha",
                        "ts": "2026-07-25T14:30:00+00:00",
                        "quote": "It was a honey cake with walnuts",
                        "passage": ["m16", "m17"],
                    }
                ],
                "coverage": 0.91,
                "support": None,
                "verified": None,
                "statements": [],
                "by": None,
                "note": "No chat model is connected, or models are switched off, so nothing is answered: these are the "
                "passages nearest to the question. Set LLM_BASE_URL and LLM_API_KEY to connect one.",
                "fallback": None,
                "cut": False,
                "usage": {
                    "input_tokens": 0,
                    "output_tokens": 0,
                    "cost_usd": 0.0,
                    "seconds": 0.2,
                    "turns": 0,
                    "tool_calls": 0,
                },
            }
        }
    )

    run: UUID = of("run", "pk")
    url: fields.PageUrl = of("run", "pk")
    strategy: str = of("run", "strategy")
    agent: bool
    outcome: Literal["answered", "softened", "refused", "passages", "failed"]
    answer: str = of("words", "text")
    text: str = of("words", "text")
    citations: list[CitedMessage]
    coverage: float = of("words", "coverage")
    support: float | None = of("words", "support")
    verified: bool | None
    statements: list[CheckedStatement] = of("words", "statements", [])
    by: Literal["model", "extracts"] | None
    note: str
    fallback: Annotated[str | None, NOTHING_IS_NULL] = of("finished", "fallback")
    cut: bool = of("finished", "cut")
    usage: Usage


class StreamBegun(fields.Answer):
    """The first event, ``run``: the run and its strategy. ``note`` says why it is not the agent, or is empty."""

    run: UUID
    url: fields.PageUrl
    strategy: str
    agent: bool
    note: str


class StreamProgress(fields.Answer):
    """An event ``progress``: the current step, and the tool that it uses."""

    step: str
    tool: str = ""


# The body of ``POST /v1/chat/completions`` and its answer: OpenAI's, of which only what is read here is described.


class ChatBody(BaseModel):
    """A request as it would go to the provider. Everything is passed on unchanged, but for the system's message, which
    gets the context. ``user`` names the chat user, if no header does, and ``project`` a project of that memory."""

    model_config = ConfigDict(
        extra="allow",
        **fields.exemplified(
            model="google/gemini-3-flash-preview",
            user="anna",
            messages=[{"role": "user", "content": "What did I decide about the GPU?"}],
        ),
    )

    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    model: str = ""
    user: fields.KnownName | None = None
    project: fields.Project = ""

    def passed_on(self) -> dict[str, Any]:
        """The fields that were sent, as they were sent; the project is none of the provider's."""
        own = ChatBody.model_fields.keys() - {"project"}
        declared = {name: getattr(self, name) for name in self.model_fields_set if name in own}
        return {**(self.model_extra or {}), **declared}


class ChatAnswer(BaseModel):
    """What the provider answered, unchanged."""

    model_config = ConfigDict(extra="allow")

    choices: list[dict[str, Any]] = []


class ProviderFault(BaseModel):
    """OpenAI's error: the provider's own, or what kept it from answering."""

    model_config = ConfigDict(extra="allow")

    message: str
    type: str | None = None
    param: str | None = None
    code: str | int | None = None


class ProviderErrorAnswer(BaseModel):
    """A refusal of the provider, with its own status, or 502 and 504 if it does not answer."""

    error: ProviderFault


class ModelsAnswer(BaseModel):
    """The provider's list of models; without one the model of the settings, or nothing."""

    model_config = ConfigDict(extra="allow")

    object: str = "list"
    data: list[dict[str, Any]]


# Reads the running conversation that comes with a query: this project's messages, or OpenAI's with ``content``.
#
# Unlike a stored message, such a message needs neither id nor time. A message that cannot be understood is refused
# with its place in the list: if it were dropped silently, the models would not read it.

_KEPT = ("role", "author", "text", "session", "forwarded_from")


def conversation(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the messages as they are stored with a run, oldest first. Raises RequestRefused."""
    return [_read(f"messages.{index}", item) for index, item in enumerate(messages)]


def _read(place: str, item: Mapping[str, Any]) -> dict[str, Any]:
    text = _text(place, item)
    sent_at = datetime.now(UTC)
    try:
        if item.get("ts") is not None:
            sent_at = moment(item["ts"])
        named = item.get("id")
        read = message(
            role=item.get("role", "user"),
            text=text,
            external_id="-" if named is None else named,
            sent_at=sent_at,
            author=item.get("author"),
            session=item.get("session"),
            forwarded_from=item.get("forwarded_from"),
        )
    except BadRecord as error:
        raise fields.RequestRefused(422, f"{place}: {error}") from None
    kept = {name: getattr(read, name) for name in _KEPT}
    external = "" if named is None else read.external_id
    return {"id": external, "ts": sent_at.isoformat(), **{name: value for name, value in kept.items() if value}}


def _text(place: str, item: Mapping[str, Any]) -> str:
    given = [name for name in ("text", "content") if item.get(name) is not None]
    if len(given) != 1:
        found = "both" if given else "neither"
        raise fields.RequestRefused(
            422, f"{place}: a message has text, or content as OpenAI has it; this one has {found}."
        )
    if given == ["content"]:
        return _content(f"{place}.content", item["content"])
    if not isinstance(item["text"], str):
        raise fields.RequestRefused(422, f"{place}.text must be text, not {quote(item['text'])}.")
    return item["text"]


def _content(place: str, content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not content:
        raise fields.RequestRefused(422, f"{place} must be text or a list of content parts, not {quote(content)}.")
    return "\n".join(_part(f"{place}.{index}", part) for index, part in enumerate(content))


def _part(place: str, part: object) -> str:
    if not isinstance(part, Mapping):
        raise fields.RequestRefused(422, f"{place} must be a content part, not {quote(part)}.")
    if part.get("type") != "text":
        kind = quote(part.get("type"))
        raise fields.RequestRefused(
            422, f"{place}: its type is {kind}; only text is taken here, and what comes with the query in media."
        )
    if not isinstance(part.get("text"), str):
        raise fields.RequestRefused(422, f"{place}.text must be text, not {quote(part.get('text'))}.")
    return str(part["text"])
