"""A chat model cuts sessions: paid for once, with a limited wait, and replaced by the segmenter if it fails."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from memoryapp.engine.chat.protocol import ChatRequest, LLMUnavailable, Reply
from memoryapp.engine.memory import MessageContent
from memoryapp.intake import archiving, cutters
from memoryapp.intake.archiving import archive
from memoryapp.intake.cutters import Cut, ModelCutter
from memoryapp.intake.invariants import violations
from memoryapp.intake.messages import add_messages
from memoryapp.memory.sessions import SessionLimits, limits
from memoryapp.models import AgentCall, ChatUser, Fact, Message, Topic, TopicEdit
from tests.intake.test_archiving import HOUR, in_pairs, message_record
from tests.platform.test_metrics import sample
from tests.search.test_vectors import Hashing
from tests.support.splitting import SplittingChat, in_fours, in_parts

NOW = timezone.now()
LIMITS = SessionLimits(HOUR, 400, 25_000)
LEFT_TOO_LONG = "What the chat model left too long for a topic was cut by the embedded segmenter."


@pytest.fixture
def chat() -> SplittingChat:
    return SplittingChat()


def archived(owner: ChatUser, chat: SplittingChat, limits: SessionLimits = LIMITS) -> archiving.Archived:
    return archive(owner, ModelCutter(owner, chat.open, in_pairs, Hashing()), limits, now=True)


def sessions(owner: ChatUser, count: int, each: int = 8, text: str = "") -> None:
    """Makes this number of sessions, a day apart."""
    add_messages(
        owner,
        [
            message_record(number, text and f"{text} {number}", minutes=number // each * 1_440 + number % each)
            for number in range(count * each)
        ],
    )


def test_the_model_cuts_and_the_edit_names_the_question(anna: ChatUser, chat: SplittingChat) -> None:
    sessions(anna, 1)
    assert archived(anna, chat).topics == 2
    edit = TopicEdit.objects.get()
    assert edit.call is not None
    assert (edit.call.prompt_version, edit.call.cost_usd, edit.call.outcome) == ("split-en-0", 0.01, "")
    assert edit.call.topics == list(Topic.objects.order_by("pk").values_list("pk", flat=True))
    assert Topic.objects.earliest("pk").summary == "message 0"
    assert list(violations()) == []


def test_what_the_model_leaves_out_is_general_conversation_and_counted(anna: ChatUser, chat: SplittingChat) -> None:
    sessions(anna, 1)
    chat.answer = lambda ids: in_fours(ids[:6])
    gaps = sample("topics_coverage_gaps_total")
    assert archived(anna, chat).topics == 3
    assert Topic.objects.latest("pk").summary == "General conversation"
    assert sample("topics_coverage_gaps_total") == gaps + 2
    assert TopicEdit.objects.get().reason == "The model left out 2 of 8 messages."


def test_where_the_model_leaves_out_most_twice_the_segmenter_cuts_and_the_history_says_why(
    anna: ChatUser, chat: SplittingChat
) -> None:
    sessions(anna, 1, 24)
    chat.answer = lambda ids: in_parts(ids[:2])
    assert archived(anna, chat).topics == 12
    edit = TopicEdit.objects.get()
    assert (chat.asked, edit.call) == (2, AgentCall.objects.get())
    assert edit.reason == "The model left out 22 of 24 messages, so the embedded segmenter cut."
    assert list(violations()) == []


def test_a_summary_that_cannot_be_used_is_an_extract_and_the_history_says_so(
    anna: ChatUser, chat: SplittingChat
) -> None:
    sessions(anna, 1, 8, "Honey cake")
    chat.answer = lambda lines: in_fours(lines).replace("Honey cake 0", "关于机器学习的对话")
    assert archived(anna, chat).topics == 2
    first, second = Topic.objects.order_by("pk").values_list("summary", flat=True)
    assert "oney cake" in first
    assert second.startswith("Honey cake 4")
    assert (chat.asked, TopicEdit.objects.get().reason) == (
        2, "Summaries of the model that could not be used were replaced by extracts.",
    )  # fmt: skip


def test_the_least_size_of_the_program_is_no_size_for_a_model(anna: ChatUser, chat: SplittingChat) -> None:
    sessions(anna, 1, 16)
    archived(anna, chat, limits(anna))
    assert list(Topic.objects.order_by("pk").values_list("message_count", flat=True)) == [4, 4, 4, 4]


class Slow(SplittingChat):
    """Answers after all callers have given up."""

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        await asyncio.sleep(60)
        async for reply in super().converse(request):
            yield reply


class Down(SplittingChat):
    failure = LLMUnavailable("over quota")


@pytest.mark.parametrize(
    ("model", "outcome"),
    [(Slow(), "timeout"), (Down(), "llm_error"), (SplittingChat(lambda ids: "Sorry."), "parse_error")],
)
def test_the_segmenter_stands_in_and_the_history_names_the_failed_question(
    anna: ChatUser, settings: Any, model: SplittingChat, outcome: str
) -> None:
    settings.PROPOSAL_TIMEOUT = 0.05 if isinstance(model, Slow) else 60
    sessions(anna, 1)
    assert archived(anna, model).topics == 4
    edit = TopicEdit.objects.get()
    assert edit.call is not None
    assert edit.call.outcome.removeprefix("turn_") == outcome
    assert list(violations()) == []


@pytest.mark.slow
def test_a_model_that_returns_rubbish_is_left_alone_and_every_session_is_archived(
    anna: ChatUser, chat: SplittingChat
) -> None:
    sessions(anna, 9)
    chat.answer = lambda ids: "Sorry."
    assert archived(anna, chat).sessions == 9
    assert (chat.asked, AgentCall.objects.count()) == (2 * cutters.FAILURES, cutters.FAILURES)
    resting = TopicEdit.objects.filter(call=None)
    assert resting.count() == 9 - cutters.FAILURES
    assert "asked again later" in resting[0].reason
    assert not Message.objects.active().exists()


def test_each_failure_doubles_the_rest_and_an_answer_ends_it(anna: ChatUser) -> None:
    def fail(count: int, ago: timedelta) -> None:
        for _ in range(count):
            call = AgentCall.objects.create(owner=anna, agent="splitter", outcome="timeout")
            AgentCall.objects.filter(pk=call.pk).update(at=timezone.now() - ago)

    fail(3, cutters.REST * 1.5)
    assert not cutters.is_resting(anna)
    fail(1, cutters.REST * 1.4)
    assert cutters.is_resting(anna)
    fail(8, cutters.LONGEST_REST * 0.9)
    assert cutters.is_resting(anna)
    AgentCall.objects.create(owner=anna, agent="splitter")
    assert not cutters.is_resting(anna)


def test_the_model_is_asked_again_after_an_outage(anna: ChatUser, chat: SplittingChat) -> None:
    sessions(anna, 3)
    chat.failure = LLMUnavailable("down")
    archived(anna, chat)
    AgentCall.objects.update(at=timezone.now() - cutters.LONGEST_REST)
    chat.failure = None
    add_messages(anna, [message_record(100 + number, minutes=9_000 + number) for number in range(4)])
    archived(anna, chat)
    assert TopicEdit.objects.latest("pk").call == AgentCall.objects.get(outcome="")


def test_a_process_that_dies_between_reply_and_commit_pays_once(anna: ChatUser, chat: SplittingChat) -> None:
    class Killed(BaseException):
        """Raised as if the process ended here."""

    def dies(messages: Sequence[MessageContent], limits: SessionLimits) -> Cut:
        model(messages, limits)
        raise Killed

    sessions(anna, 2)
    model = ModelCutter(anna, chat.open, in_pairs, Hashing())
    for _ in range(2):
        with pytest.raises(Killed):
            archive(anna, dies, LIMITS, now=True)
    assert (chat.asked, Topic.objects.count()) == (1, 0)
    assert archived(anna, chat).sessions == 2
    assert (chat.asked, AgentCall.objects.count()) == (2, 2)
    assert not Message.objects.active().exists()


@pytest.mark.parametrize(
    ("answer", "asked", "reason"),
    [
        # The large part is cut when the model is asked about it alone.
        (lambda ids: in_fours(ids) if len(ids) < 11 else in_parts(ids[:10], ids[10:]), 2, ""),
        # The model returns everything in one piece, so the segmenter cuts.
        (lambda ids: in_parts(ids), 1, LEFT_TOO_LONG),
        (lambda ids: in_parts(ids[:-2], ids[-2:]), 2, LEFT_TOO_LONG),
        # The model fails at the large part.
        (lambda ids: in_parts(ids[:10], ids[10:]) if len(ids) == 12 else "Sorry.", 3, LEFT_TOO_LONG),
    ],
)
def test_a_topic_that_is_too_long_is_cut_again_and_the_history_says_by_whom(
    anna: ChatUser, chat: SplittingChat, answer: Any, asked: int, reason: str
) -> None:
    sessions(anna, 1, 12, "tea " * 50)
    chat.answer = answer
    archived(anna, chat, replace(LIMITS, topic_chars=1_000))
    assert max(Topic.objects.values_list("size_chars", flat=True)) <= 1_000
    edit = TopicEdit.objects.get()
    assert (chat.asked, edit.call, edit.reason) == (asked, AgentCall.objects.earliest("pk"), reason)
    assert all(call.topics for call in AgentCall.objects.all())
    assert list(violations()) == []


def test_the_model_reads_the_profile_of_its_owner_and_of_nobody_else(
    anna: ChatUser, boris: ChatUser, chat: SplittingChat
) -> None:
    for owner, animal in ((anna, "cat"), (boris, "dog")):
        Fact.objects.create(
            owner=owner, content=f"Has a {animal}.", category="pets", type="identity", importance=90, created_at=NOW
        )
    sessions(anna, 1)
    archived(anna, chat)
    asked = AgentCall.objects.get().events[0]["payload"]["variables"]["profile"]
    assert "cat" in asked
    assert "dog" not in asked


def test_the_settings_of_a_chat_user_come_before_those_of_the_program(anna: ChatUser, settings: Any) -> None:
    settings.CHUNK_INTERVAL, settings.MAX_CHUNK_SIZE, settings.TOPIC_LEAST_MESSAGES = 3600, 400, 6
    settings.SPLIT_THRESHOLD_CHARS = 25_000
    assert limits(anna) == SessionLimits(HOUR, 400, 25_000, 6)
    anna.silence_seconds, anna.session_messages, anna.topic_messages = 21_600, 50, 3
    assert limits(anna) == SessionLimits(6 * HOUR, 50, 25_000, 3, 3, 6 * HOUR, 3)


def test_what_the_model_cuts_too_small_is_joined_to_a_neighbour_of_the_session(
    anna: ChatUser, chat: SplittingChat
) -> None:
    sessions(anna, 2)
    chat.answer = lambda ids: in_parts(ids[:1], ids[1:6], ids[6:])
    archived(anna, chat, replace(LIMITS, wished=3))
    assert list(Topic.objects.order_by("pk").values_list("message_count", flat=True)) == [8, 8]
    assert list(violations()) == []
