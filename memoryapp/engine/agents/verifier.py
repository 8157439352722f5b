"""The verifier: an agent that judges which sources say what an answer states. It reads the sources as the writer of the
answer read them, and all statements in one question."""

from collections.abc import Mapping, Sequence

from memoryapp.engine.agents.ask import Ask
from memoryapp.engine.chat.protocol import Chat
from memoryapp.engine.prompts.prompt import SOURCES, BuiltInPrompt, Language, PromptBook, PromptVariable, texts_beside
from memoryapp.engine.prompts.prompt import gettext_noop as _
from memoryapp.engine.text.answers import INTEGER, MOST_ANSWER_CHARS, list_schema, mended, object_schema, objects_with
from memoryapp.engine.text.lines import one_line

_STATEMENTS = PromptVariable("statements", _("the statements of the answer, numbered"), tag="statements")
VERIFY = BuiltInPrompt(
    "verify",
    title=_("Check an answer"),
    purpose=_("Judges which sources say what an answer states."),
    texts=texts_beside(__file__, "verify"),
    variables=(SOURCES, _STATEMENTS),
    required=(SOURCES, _STATEMENTS),
)

VERIFY_SCHEMA = object_schema(statements=list_schema(object_schema(statement=INTEGER, sources=list_schema(INTEGER))))

# The numbers of the sources that say a statement, by its place, from 0.
Judged = Mapping[int, tuple[int, ...]]


def judge_statements(
    statements: Sequence[str],
    sources: Mapping[int, str],
    *,
    chat: Chat,
    seconds: float,
    prompts: PromptBook,
    language: Language,
) -> Ask[Judged]:
    """Asks which of the ``sources``, given by number as a model reads them, say each of the ``statements``. A statement
    that the model's answer leaves out has no place in the result."""
    return Ask(
        chat,
        VERIFY.of(prompts, language),
        {
            "sources": "\n\n".join(sources.values()),
            "statements": "\n".join(f"{place}. {one_line(text)}" for place, text in enumerate(statements, start=1)),
        },
        read=lambda answer: _judged(answer[:MOST_ANSWER_CHARS], len(statements), sources),
        schema=VERIFY_SCHEMA,
        seconds=seconds,
        tries=1,
    )


def _judged(answer: str, statements: int, sources: Mapping[int, str]) -> Judged | None:
    found: dict[int, tuple[int, ...]] = {}
    for each in objects_with(mended(answer), "sources"):
        place, numbers = each.get("statement"), each["sources"]
        if type(place) is int and 1 <= place <= statements and isinstance(numbers, list):
            found.setdefault(place - 1, tuple(n for n in sources if n in numbers))
    return found or None
