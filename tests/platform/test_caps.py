"""Caps of a day and quotas of a memory: refused in a sentence before anything is asked or stored, and not for ever."""

import html
import json
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryapp.engine.agents import archivist
from memoryapp.intake.messages import add_messages
from memoryapp.models import AgentCall, Alarm, ApiToken, ChatUser, ImportFile, Message, Run
from memoryapp.platform import caps, work
from memoryapp.platform.accounts import tokens
from memoryapp.platform.caps import CapReached, QuotaReached
from memoryapp.platform.database import StagePaused
from memoryapp.platform.llm.agent_calls import AgentCaller
from memoryapp.runs import lifecycle
from memoryapp.upkeep import alarms
from memoryapp.upkeep.watches import WATCHES
from tests.conftest import record
from tests.doors.test_mcp import Agent
from tests.support.api_client import Program, error_of, token_for

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def model(settings: Any) -> None:
    settings.LLM_BASE_URL, settings.LLM_API_KEY = "http://127.0.0.1:9/v1", "key"


def spent(owner: ChatUser, usd: float, *, days: int = 0, **more: Any) -> Run:
    made = Run.objects.create(**{"owner": owner, "strategy": "flash", "state": "finished", "cost_usd": usd, **more})
    Run.objects.filter(pk=made.pk).update(created_at=timezone.now() - timedelta(days=days))
    return made


def capped(owner: ChatUser, usd: float | None) -> ChatUser:
    ChatUser.objects.filter(pk=owner.pk).update(daily_cap_usd=usd)
    return ChatUser.objects.get(pk=owner.pk)


def test_what_would_pass_a_cap_is_refused_by_its_forecast(anna: ChatUser, boris: ChatUser, settings: Any) -> None:
    spent(anna, 0.3, days=1)
    anna = capped(anna, 1.0)
    caps.check_cap(anna, "flash")
    spent(anna, 0.8)
    with pytest.raises(
        CapReached, match=r"this memory: \$0.8000 of \$1.00 .* \$0.5500\. The next day begins at 00:00 UTC"
    ) as refused:
        lifecycle.start(anna, "?", strategy="flash")
    assert 0 < refused.value.wait <= 86_400
    # Others are not concerned, nor is tomorrow, nor what was raised.
    lifecycle.start(boris, "?", strategy="flash")
    lifecycle.start(capped(anna, 2.0), "?", strategy="flash")
    Run.objects.filter(owner=anna).update(created_at=timezone.now() - timedelta(days=1))
    lifecycle.start(capped(anna, 1.0), "?", strategy="flash")
    token, _text = tokens.make("t", [ApiToken.Scope.RECALL], [boris], daily_cap_usd=0.1)
    spent(boris, 0.1, token=token)
    with pytest.raises(CapReached, match="this token"):
        caps.check_cap(boris, "flash", token)
    settings.DAILY_CAP_USD = 0.05
    with pytest.raises(CapReached, match="installation"):
        caps.check_cap(boris, "flash")
    settings.LLM_BASE_URL = ""
    caps.check_cap(boris, "flash")


def test_runs_in_flight_count_with_what_they_usually_cost(anna: ChatUser) -> None:
    spent(anna, 0.2, days=1)
    anna = capped(anna, 1.0)
    for _n in range(5):
        lifecycle.start(anna, "?", strategy="flash")
    with CaptureQueriesContext(connection) as few, pytest.raises(CapReached):
        caps.check_cap(anna, "flash")
    Run.objects.bulk_create([Run(owner=anna, strategy="flash", state="finished", cost_usd=0.2) for _n in range(200)])
    with CaptureQueriesContext(connection) as many, pytest.raises(CapReached):
        caps.check_cap(anna, "flash")
    assert len(few) == len(many) == 1


async def test_programs_agents_and_pages_are_told_the_same_sentence(
    anna: ChatUser, as_debugger: Client, settings: Any, thread_closed: None
) -> None:
    settings.CHAT_SHARED_KEY = True
    await sync_to_async(spent)(anna, 1.0)
    await sync_to_async(capped)(anna, 0.5)
    token = await sync_to_async(token_for)(anna)
    sent = {"model": "m", "messages": [{"role": "user", "content": "what did we say?"}]}
    for path, body in (("/v1/recall", {"user": anna.name, "query": "?"}), ("/v1/chat/completions", sent)):
        answer = await sync_to_async(Program(token).post)(path, body)
        status, code, sentence = error_of(answer)
        assert (status, code, "The next day begins at" in sentence) == (429, "cap_reached", True)
        assert 0 < int(answer["Retry-After"]) <= 86_401
    refused = await Agent(token).call("search_memory", query="?")
    assert (refused["isError"], refused["content"][0]["text"]) == (True, sentence)
    page = await sync_to_async(as_debugger.post)(f"/memory/{anna.pk}/recall/", {"query": "?", "strategy": "flash"})
    assert (page.status_code, sentence in html.unescape(page.content.decode())) == (422, True)


def test_stages_wait_until_the_day_turns_and_say_so(anna: ChatUser, as_curator: Client, as_viewer: Client) -> None:
    AgentCall.objects.create(owner=anna, agent="archivist", cost_usd=1.0)
    anna = capped(anna, 0.5)
    asked: list[int] = []
    caller = AgentCaller(anna, archivist.AGENT, lambda model: asked.append(1))  # type: ignore[arg-type, return-value]
    with pytest.raises(StagePaused):
        caller.ask(lambda chat: None)  # type: ignore[arg-type, return-value]
    assert not asked
    work.serve(anna, work.ARCHIVE, lambda owner: caller.ask(lambda chat: None))  # type: ignore[arg-type, return-value]
    now = timezone.now()
    alarms.look([WATCHES["cap"]], now)
    assert Alarm.objects.get().rhythm.subject == str(anna.pk)
    assert "reached for Анна" in as_curator.get(f"/memory/{anna.pk}/pipeline/").content.decode()
    AgentCall.objects.update(at=now - timedelta(days=1))
    alarms.look([WATCHES["cap"]], now + timedelta(minutes=1))
    assert "reached for" not in as_curator.get(f"/memory/{anna.pk}/pipeline/").content.decode()


def test_a_quota_refuses_the_whole_call_and_repeats_still_succeed(anna: ChatUser, settings: Any) -> None:
    program = Program(token_for(anna))

    def sent(*numbers: int) -> Any:
        said = [{"id": f"m{n}", "role": "user", "ts": f"2026-03-02T09:0{n}:00Z", "text": "hello"} for n in numbers]
        return program.post("/v1/messages", {"user": anna.name, "messages": said})

    settings.QUOTA_MESSAGES = 3
    assert sent(1, 2).status_code == 200
    status, code, sentence = error_of(sent(2, 3, 4))
    assert (status, code, Message.objects.count()) == (409, "quota_reached", 2)
    assert sentence == "2 more messages do not fit: this memory holds 2, and at most 3. Nothing of them was stored."
    assert json.loads(sent(1, 2).content) == {"added": 0, "skipped": 2, "rejected": []}
    assert sent(3).status_code == 200
    ChatUser.objects.filter(pk=anna.pk).update(most_messages=10, most_bytes=18)
    assert "bytes do not fit: this memory holds 15" in error_of(sent(4))[2]
    ChatUser.objects.filter(pk=anna.pk).update(most_bytes=None)
    assert sent(4).status_code == 200
    assert ApiToken.objects.get().captured_at is not None


def test_an_import_that_does_not_fit_is_told_before_it_begins(anna: ChatUser, as_curator: Client) -> None:
    row = ImportFile.objects.create(owner=anna, source="chat.json", size_bytes=1, state="ready", findings={"added": 9})
    ChatUser.objects.filter(pk=anna.pk).update(most_messages=5)
    page = as_curator.post(f"/memory/{anna.pk}/imports/files/{row.pk}/", {"do": "begin"}, follow=True)
    row.refresh_from_db()
    assert ("9 more messages do not fit" in page.content.decode(), row.state) == (True, "ready")
    with pytest.raises(QuotaReached):
        add_messages(ChatUser.objects.get(pk=anna.pk), [record(n, "hi") for n in range(6)])
    assert Message.objects.count() == 0


def test_caps_are_set_and_shown_on_pages_and_by_the_command(
    anna: ChatUser, as_curator: Client, as_admin: Client, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    spent(anna, 0.25)
    address = f"/memory/{anna.pk}/settings/"
    assert "$0.2500 today" in as_curator.get(address).content.decode()
    given = {"consolidation": "suggest", "extraction": "review", "daily_cap_usd": "0.5", "most_messages": "100"}
    assert as_curator.post(address, given).status_code == 302
    assert as_curator.post(address, {**given, "daily_cap_usd": "-1"}).status_code == 422
    anna.refresh_from_db()
    assert (anna.daily_cap_usd, anna.most_messages, anna.most_bytes) == (0.5, 100, None)
    call_command("create_token", "bot", scope="recall", user=["anna"], daily_cap=0.2)
    with pytest.raises(CommandError):
        call_command("create_token", "bad", scope="recall", daily_cap=-1.0)
    spent(anna, 0.1, token=ApiToken.objects.get())
    assert "$0.1000 of $0.2000 today" in as_admin.get("/tokens/").content.decode()
    number = ApiToken.objects.get().pk
    as_admin.post(f"/tokens/{number}/cap/", {"daily_cap_usd": "-1"})
    as_admin.post(f"/tokens/{number}/cap/", {"daily_cap_usd": "3"})
    assert "$0.1000 of $3.0000 today" in as_admin.get("/tokens/").content.decode()
    settings.DAILY_CAP_USD = 7.0
    assert "Today, of the cap" in as_admin.get("/").content.decode()
