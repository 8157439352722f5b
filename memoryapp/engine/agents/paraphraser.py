"""The paraphraser: an agent that words a question otherwise, so that it can be asked again."""

from datetime import date

from memoryapp.engine.agents.ask import Agent, Ask
from memoryapp.engine.chat.protocol import Chat
from memoryapp.engine.prompts.prompt import QUERY, TODAY, UNEDITED, BuiltInPrompt, PromptBook, language_of, texts_beside
from memoryapp.engine.prompts.prompt import gettext_noop as _
from memoryapp.engine.text.answers import TEXT, list_schema, mended, object_schema
from memoryapp.engine.text.lines import one_line, quoted

EXPAND = BuiltInPrompt(
    "expand",
    title=_("Search once more"),
    purpose=_("Writes what else the strategy react searches for when it has found too little."),
    texts=texts_beside(__file__, "expand"),
    variables=(TODAY, QUERY),
    required=(QUERY,),
)
AGENT = Agent("paraphraser", _("paraphraser"), (EXPAND,), model="ENRICHER_MODEL", stage="runs")

MOST, LONGEST = 10, 500
_LONGEST_ANSWER = 20_000
_SCHEMA = object_schema(passage=TEXT, paraphrases=list_schema(TEXT))


def paraphrase(
    question: str, *, chat: Chat, today: date, seconds: float, prompts: PromptBook = UNEDITED
) -> Ask[list[str]]:
    """Asks for other wordings of ``question``, by the prompt with which ``react`` looks again; each is one line of at
    most 500 characters, and none is the question itself."""
    return Ask(
        chat,
        EXPAND.of(prompts, language_of(question)),
        {"today": today.isoformat(), "query": quoted(question.strip())},
        read=lambda answer: _wordings(answer[:_LONGEST_ANSWER], question),
        schema=_SCHEMA,
        seconds=seconds,
    )


def _wordings(answer: str, question: str) -> list[str] | None:
    """Other wordings in the answer; None where it has none that can be asked."""
    value = mended(answer)
    listed = value.get("paraphrases") if isinstance(value, dict) else None
    lines = [one_line(each)[:LONGEST] for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
    own = one_line(question).casefold()
    return list(dict.fromkeys(line for line in lines if line and line.casefold() != own))[:MOST] or None
