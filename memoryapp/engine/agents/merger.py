"""The merger: an agent that judges whether topics are one, and words the summary of topics that are merged. The model
reads the messages of all topics, each topic with an even share of the characters."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from memoryapp.engine.agents.ask import MOST_CHARS, Agent, Ask, Incomplete, MessageLines, language_of_messages
from memoryapp.engine.agents.summary_checks import SummaryFault, asked_again, fault_of
from memoryapp.engine.chat.protocol import Chat
from memoryapp.engine.memory import LONGEST_SUMMARY, MessageContent, TopicContent
from memoryapp.engine.prompts.prompt import UNEDITED, BuiltInPrompt, Language, PromptBook, PromptVariable, texts_beside
from memoryapp.engine.prompts.prompt import gettext_noop as _
from memoryapp.engine.text.answers import MOST_ANSWER_CHARS, TEXT, clipped, line, mended, object_schema, objects_with
from memoryapp.engine.text.lines import one_line

_TOPICS = PromptVariable("topics", _("the topics that are or may be merged, with their messages"), tag="topics")
MERGE = BuiltInPrompt(
    "merge",
    title=_("Propose a merged summary"),
    purpose=_("Proposes to a curator the summary of merged topics."),
    texts=texts_beside(__file__, "merge"),
    variables=(_TOPICS,),
    required=(_TOPICS,),
)
CONSOLIDATE = BuiltInPrompt(
    "consolidate",
    title=_("Judge a merge"),
    purpose=_("Judges whether two similar topics are one."),
    texts=texts_beside(__file__, "consolidate"),
    variables=(_TOPICS,),
    required=(_TOPICS,),
)
AGENT = Agent("merger", _("merger"), (MERGE, CONSOLIDATE), model="MERGER_MODEL", stage="consolidate")

MERGE_SCHEMA = object_schema(merged_summary=TEXT)
JUDGE_SCHEMA = object_schema(should_merge={"type": "boolean"}, reason=TEXT, merged_summary=TEXT)
_TRUTHS: Mapping[str, bool] = {"true": True, "false": False}
_OPENS_CODE = re.compile(r"\s*+[{\[`]")


@dataclass(frozen=True, slots=True)
class MergeVerdict:
    """Whether topics are one, and why. ``reason`` and ``summary`` are one line of at most 500 characters each. A
    verdict that ``should_merge`` has both; any other has no ``summary``, and may have no ``reason``. ``fault`` says why
    the model's summary cannot be used; such a merge is for a person to decide."""

    should_merge: bool
    reason: str
    summary: str
    fault: SummaryFault | None = None


def propose_summary(
    topics: Sequence[TopicContent],
    *,
    chat: Chat,
    seconds: float,
    prompts: PromptBook = UNEDITED,
    others: Collection[str] = (),
) -> Ask[str]:
    """Asks for one summary of ``topics`` merged: one line of at most 500 characters; empty if the model twice wrote one
    that cannot be used, such as that of a neighbour: one of the ``others``."""
    text = MERGE.of(prompts, _language(topics))

    def checked(answer: str) -> str | None:
        summary = _summary(answer[:MOST_ANSWER_CHARS])
        if summary and (fault := _fault(summary, topics, others)):
            raise Incomplete("", asked_again(summary, fault, text.language))
        return summary or None

    return Ask(chat, text, {"topics": _topics(topics)}, read=checked, schema=MERGE_SCHEMA, seconds=seconds)


def judge_merge(
    topics: Sequence[TopicContent],
    *,
    chat: Chat,
    seconds: float,
    prompts: PromptBook = UNEDITED,
    others: Collection[str] = (),
) -> Ask[MergeVerdict]:
    """Asks whether ``topics`` are parts of one topic, whose summary is none of the ``others``."""
    text = CONSOLIDATE.of(prompts, _language(topics))

    def checked(answer: str) -> MergeVerdict | None:
        verdict = _verdict(answer[:MOST_ANSWER_CHARS])
        if verdict and verdict.should_merge and (fault := _fault(verdict.summary, topics, others)):
            raise Incomplete(replace(verdict, fault=fault), asked_again(verdict.summary, fault, text.language))
        return verdict

    return Ask(chat, text, {"topics": _topics(topics)}, read=checked, schema=JUDGE_SCHEMA, seconds=seconds)


def _language(topics: Sequence[TopicContent]) -> Language:
    return language_of_messages(_messages(topics))


def _messages(topics: Sequence[TopicContent]) -> list[MessageContent]:
    return [message for topic in topics for message in topic.messages]


def _topics(topics: Sequence[TopicContent]) -> str:
    """All topics as the model reads them, each with an even share of the characters."""
    share = MOST_CHARS // max(len(topics), 1)
    return "\n\n".join(_topic(topic, share) for topic in topics)


def _topic(topic: TopicContent, chars: int) -> str:
    summary = clipped(one_line(topic.summary), chars // 4)
    head = json.dumps({"topic": topic.id, "summary": summary}, ensure_ascii=False)
    return f"{head}\n{MessageLines(topic.messages, max(chars - len(head), 0)).text()}"


def _fault(summary: str, topics: Sequence[TopicContent], others: Collection[str]) -> SummaryFault | None:
    return fault_of(summary, _messages(topics), others=others, known=[topic.summary for topic in topics])


def _summary(text: str) -> str:
    """The summary in an answer: in the JSON that was asked for, or the whole text of a model that cannot write JSON."""
    found = objects_with(mended(text), "merged_summary")
    if found:
        return clipped(line(found[0]["merged_summary"]), LONGEST_SUMMARY)
    return "" if _OPENS_CODE.match(text) else clipped(line(text.strip().strip("\"'“”«»")), LONGEST_SUMMARY)


def _verdict(text: str) -> MergeVerdict | None:
    """The verdict in an answer; None for an answer without a decision, and for a merge without reason or summary."""
    found = objects_with(mended(text), "should_merge")
    if not found:
        return None
    decided = _TRUTHS.get(str(found[0]["should_merge"]).strip().lower())
    reason = clipped(line(found[0].get("reason")), LONGEST_SUMMARY)
    summary = clipped(line(found[0].get("merged_summary")), LONGEST_SUMMARY)
    if decided is None or (decided and not (reason and summary)):
        return None
    return MergeVerdict(decided, reason, summary if decided else "")
