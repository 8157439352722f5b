"""The page on which people ask questions, and the settings of the agent that answers."""

import html
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from memoryapp.engine.events import RunFinished, RunStarted
from memoryapp.engine.kinds.react import Answered, Citation, StatementCheck, ToolUsed
from memoryapp.engine.notes import Note
from memoryapp.engine.strategies import PLAIN, REACT
from memoryapp.insight.evaluation.questions import read_questions
from memoryapp.models import ChatUser, Judgement, Message, Operator, Run, RunProgress, Topic
from memoryapp.runs import lifecycle
from memoryapp.runs.parameters import ParameterError, defaults, of_run, to_store
from rerankui.runs import fragments
from rerankui.runs.consumers import AnswerConsumer
from rerankui.runs.fragments import Seen, SocketFrame
from tests.conftest import signed_in, talk
from tests.support.answering import QUERY, answer_of, answered_run, record
from tests.support.answers import in_words
from tests.support.browsing import cost, get
from tests.support.clock import PATIENCE

QUOTES = ("Which cake keeps?", "A honey cake keeps for two days")


@pytest.fixture
def topic(anna: ChatUser) -> Topic:
    texts = ["Which cake keeps? I ask for a feast.", "A honey cake keeps for two days", "Oh"]
    return talk(anna, ("Honey cake", texts))[0]


def shown(client: Client, address: str) -> str:
    """Returns the visible text of a page."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", get(client, address))))


def asked(client: Client, owner: ChatUser, *strategies: str) -> Any:
    return client.post(f"/memory/{owner.pk}/ask/", {"query": QUERY, "strategies": strategies})


def page_of(*runs: Run) -> str:
    return f"/memory/{runs[0].owner_id}/ask/?" + "&".join(f"run={run.pk}" for run in runs)


def test_one_question_is_asked_of_several_side_by_side(as_admin: Client, anna: ChatUser) -> None:
    answer = asked(as_admin, anna, "vector", REACT.name, PLAIN.name)
    runs = {run.strategy: run for run in Run.objects.all()}
    assert set(runs) == {"vector", REACT.name, PLAIN.name}
    assert {run.query for run in runs.values()} == {QUERY}
    assert answer["Location"] == page_of(runs[REACT.name], runs[PLAIN.name], runs["vector"])
    page = get(as_admin, answer["Location"])
    assert re.findall(r'data-answer="(\w+)" aria-busy="(\w+)"', page) == [
        (REACT.name, "true"),
        (PLAIN.name, "true"),
        ("vector", "true"),
    ]
    assert page.count("ws-connect") == 3
    assert '<noscript><meta http-equiv="refresh"' in page


def test_without_the_agent_plain_answers_and_the_page_says_so(as_admin: Client, anna: ChatUser, settings: Any) -> None:
    settings.ENABLE_AGENT = False
    assert "The strategy react is switched off (ENABLE_AGENT)" in shown(as_admin, f"/memory/{anna.pk}/ask/")
    asked(as_admin, anna, REACT.name)
    assert Run.objects.get().strategy == PLAIN.name


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        ({"query": " ", "strategies": ["plain"]}, "Type a question."),
        ({"query": QUERY}, "Choose who answers."),
        ({"query": QUERY, "strategies": ["oracle"]}, "There is no such strategy."),
    ],
)
def test_a_question_that_cannot_be_asked_is_one_sentence(
    as_admin: Client, anna: ChatUser, sent: dict[str, Any], sentence: str
) -> None:
    answer = as_admin.post(f"/memory/{anna.pk}/ask/", sent)
    assert answer.status_code == 422
    assert sentence in answer.content.decode()
    assert not Run.objects.exists()


@pytest.mark.slow
def test_each_number_leads_to_its_message_in_its_topic(as_viewer: Client, anna: ChatUser, topic: Topic) -> None:
    run = answered_run(anna, topic, *QUOTES)
    second = list(Message.objects.filter(topic=topic).in_order())[1]
    page = get(as_viewer, page_of(run))
    place = f"/topics/{topic.pk}/?at={second.pk}#message-{second.pk}"
    preview = f"/runs/{run.pk}/answer/sources/2/"
    assert page.count(f'href="{place}" data-peek="{preview}"') == 2, "in the text, and at the source"
    assert f'id="message-{second.pk}"' in get(as_viewer, place.partition("#")[0])
    source = get(as_viewer, preview)
    assert f'<mark class="is-exact">{QUOTES[1]}</mark>' in source
    assert "I ask for a feast" in source, "its neighbours stand beside it"
    assert as_viewer.get(f"/runs/{run.pk}/answer/sources/9/").status_code == 404


def test_what_looks_like_a_number_or_a_tag_stays_text(as_viewer: Client, anna: ChatUser, topic: Topic) -> None:
    run = answered_run(anna, topic, QUOTES[0], text="<b>Honey</b> [7] cake [1].")
    page = get(as_viewer, page_of(run))
    assert "&lt;b&gt;Honey&lt;/b&gt; [7] cake <a" in page


@pytest.mark.parametrize(
    ("outcome", "plate", "sentence"),
    [
        ("answered", "quotes found", "words of the question found"),
        ("softened", "with reservations", "Little in the memory supports this"),
        ("refused", "refused", "Perhaps."),
    ],
)
def test_the_page_says_plainly_how_an_answer_ended(
    as_viewer: Client, anna: ChatUser, topic: Topic, outcome: Any, plate: str, sentence: str
) -> None:
    run = answered_run(anna, topic, outcome=outcome, text="Perhaps.")
    words = shown(as_viewer, page_of(run))
    assert plate in words
    assert sentence in words
    assert "No model was asked" in words


def passages_run(owner: ChatUser, topic: Topic, *places: list[int], query: str = QUERY, **given: Any) -> Run:
    """Returns a run that ended with passages of the topic's messages at these places."""
    rows = list(Message.objects.filter(topic=topic).in_order())
    cites = tuple(
        Citation(
            n,
            f"Topic:{topic.pk}",
            rows[indexes[-1]].pk,
            rows[indexes[-1]].text,
            tuple(rows[place].pk for place in indexes),
        )
        for n, indexes in enumerate(places, start=1)
    )
    run = Run.objects.create(owner=owner, query=query, strategy="plain", state=Run.State.FINISHED, selected_count=1)
    notes = (Note("no_model"), *given.pop("notes", ()))
    answered = Answered("", cites, "passages", 0.5, "extracts", notes=notes)
    record(run, RunStarted("plain", query, {}, "", "", "p"), answered, RunFinished((), (), ""))
    return run


def test_without_a_model_the_page_shows_passages_with_their_talk_and_the_words_of_the_question(
    as_viewer: Client, anna: ChatUser
) -> None:
    texts = ["Before that.", "Honey cakes keep for <b>two</b> days", "And after it.", "Far away", "Bread keeps longer"]
    topic = talk(anna, ("Honey cake", texts))[0]
    page = get(as_viewer, page_of(passages_run(anna, topic, [1], [4], query="Which cake keeps? since:2020")))
    marked = re.findall(r"<mark[^>]*>([^<]*)</mark>", page)
    assert marked == ["cakes", "keep", "keeps"]
    words = shown(as_viewer, page_of(Run.objects.get()))
    assert "No chat model is connected" in words
    assert "LLM_BASE_URL" in words
    assert "Before that." in words, "the talk around it"
    assert "And after it." in words
    assert "&lt;b&gt;two" in page
    assert page.count('class="passage"') == 2
    assert "nearest passages" in words
    for word in ("quotes found", "Sources", "No message meets"):
        assert word not in words


def test_passages_that_touch_are_one_piece_of_talk_and_later_ones_are_folded(as_viewer: Client, anna: ChatUser) -> None:
    texts = [f"cake number {number}" for number in range(60)]
    topic = talk(anna, ("Cakes", texts))[0]
    run = passages_run(anna, topic, [0, 1], [2, 3], *([10 * place] for place in range(1, 6)), [40])
    page = get(as_viewer, page_of(run))
    assert page.count('class="passage"') == 6
    assert page.count("cake</mark> number 2<") == 1
    assert re.search(r"<summary[^>]*>\s*1 more passage\s*</summary>", page)


@pytest.mark.parametrize("places", [([2, 3, 4], [0, 1]), ([4], [0, 1], [2, 3])])
def test_pieces_of_talk_that_touch_in_the_end_are_shown_once(
    as_viewer: Client, anna: ChatUser, places: tuple[list[int], ...]
) -> None:
    """The last passage joins the two before it."""
    topic = talk(anna, ("Cakes", [f"cake number {number}" for number in range(5)]))[0]
    page = get(as_viewer, page_of(passages_run(anna, topic, *places)))
    assert page.count('class="passage"') == 1
    assert re.findall(r"number (\d)<", page) == list("01234")


def test_passages_cost_no_more_queries_when_there_are_more(as_viewer: Client, anna: ChatUser) -> None:
    topic = talk(anna, ("Cakes", [f"cake number {number}" for number in range(60)]))[0]
    one, many = passages_run(anna, topic, [1]), passages_run(anna, topic, *([5 * place] for place in range(9)))
    assert cost(as_viewer, page_of(many)) == cost(as_viewer, page_of(one))


def test_a_statement_stands_beside_its_messages_with_the_words_that_differ(
    as_viewer: Client, anna: ChatUser, topic: Topic
) -> None:
    run = answered_run(anna, topic, *QUOTES)
    stored = run.events.get(kind="answered")
    checks = [
        StatementCheck("She <b>accepted</b> the offer.", "differs", (1,), missing=("accepted",)),
        StatementCheck("The salary was 2400.", "contradicted", (1,), turned=("2400",), judged=True, kept=False),
    ]
    changes = {"by": "model", "support": 0.0, "judged": True, "statements": [asdict(check) for check in checks]}
    run.events.filter(kind="answered").update(payload={**stored.payload, **changes})
    page = get(as_viewer, page_of(run))
    assert "She &lt;b&gt;<mark>accepted</mark>&lt;/b&gt; the offer." in page
    words = shown(as_viewer, page_of(run))
    assert "Not in the source: accepted" in words
    assert "The source says otherwise: 2400 The model says that the source says it." in words
    assert "by the model that wrote them" in words
    assert "%" not in words.partition("statements judged")[2].partition("Sources")[0]
    document = in_words(run)
    found = [(each["support"], each["verified"]) for each in document["statements"]]
    assert found == [("differs", None), ("contradicted", False)]


def test_an_answer_whose_message_was_erased_says_so(as_viewer: Client, anna: ChatUser, topic: Topic) -> None:
    run = answered_run(anna, topic, *QUOTES)
    record_of = run.events.get(kind="answered")
    record_of.payload["citations"][0]["message"] = 999_999
    record_of.save()
    assert "This message was erased since." in shown(as_viewer, page_of(run))
    assert as_viewer.get(f"/runs/{run.pk}/answer/sources/1/").status_code == 404


def test_a_strategy_that_writes_nothing_shows_what_it_chose(as_viewer: Client, anna: ChatUser, topic: Topic) -> None:
    words = answered_run(anna, topic, *QUOTES)
    run = Run.objects.create(owner=anna, query=QUERY, strategy="vector", state="finished", selected_count=1)
    selected = words.events.get(kind="run_finished").payload["selected"]
    record(run, RunStarted("vector", QUERY, {}, "", "", "p"), RunFinished((), (), "timeout"))
    assert "The time for the whole run was over" in shown(as_viewer, page_of(run))
    run.events.filter(kind="run_finished").update(payload={"selected": selected, "dropped": [], "fallback": ""})
    page = shown(as_viewer, page_of(run))
    assert "This strategy writes no answer" in page
    assert f"Topic:{topic.pk}" in page
    assert as_viewer.post(f"/runs/{run.pk}/answer/judge/", {"verdict": "good"}).status_code == 404


def test_a_thumb_is_a_judgement_and_the_last_word_counts(
    as_viewer: Client, admin: Operator, anna: ChatUser, topic: Topic
) -> None:
    run = answered_run(anna, topic, *QUOTES)
    address = f"/runs/{run.pk}/answer/judge/"
    assert as_viewer.post(address, {"verdict": "good"})["Location"] == page_of(run)
    as_viewer.post(address, {"verdict": "bad"})
    signed_in(admin).post(address, {"verdict": "good"})
    assert sorted(Judgement.objects.values_list("is_good", flat=True)) == [False, True]
    pressed = as_viewer.post(address, {"verdict": "none"}, headers={"hx-request": "true"}).content.decode()
    assert pressed.count('aria-pressed="false"') == 2
    assert Judgement.objects.get().owner == anna
    assert as_viewer.post(address, {"verdict": "maybe"}).status_code == 404
    assert as_viewer.post(f"/runs/{uuid4()}/answer/judge/", {"verdict": "good"}).status_code == 404


def test_good_answers_are_golden_questions(
    as_viewer: Client, as_admin: Client, anna: ChatUser, topic: Topic, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = answered_run(anna, topic, *QUOTES), answered_run(anna, topic, QUOTES[0])
    for client, run, verdict in ((as_viewer, good, "good"), (as_viewer, bad, "good"), (as_admin, bad, "bad")):
        client.post(f"/runs/{run.pk}/answer/judge/", {"verdict": verdict})
    call_command("judged_questions", user="anna")
    [line] = capsys.readouterr().out.splitlines()
    ids = [message.external_id for message in Message.objects.filter(topic=topic).in_order()][:2]
    assert f'"question": "{QUERY}"' in line
    assert f'"evidence": ["{ids[0]}", "{ids[1]}"]' in line


def test_a_question_that_was_rightly_refused_expects_nothing(
    as_viewer: Client, anna: ChatUser, topic: Topic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = answered_run(anna, topic, outcome="refused", text="The memory does not hold an answer to this.")
    as_viewer.post(f"/runs/{refused.pk}/answer/judge/", {"verdict": "good"})
    call_command("judged_questions", user="anna")
    path = tmp_path / "judged.jsonl"
    path.write_text(capsys.readouterr().out, "utf-8")
    [question] = read_questions(path).asked
    assert (question.question, question.is_answerable) == (QUERY, False)


def test_earlier_questions_are_listed_with_all_who_answered(as_admin: Client, anna: ChatUser, topic: Topic) -> None:
    asked(as_admin, anna, "vector")
    assert "Asked before" not in shown(as_admin, f"/memory/{anna.pk}/ask/"), "nobody wrote an answer"
    place = asked(as_admin, anna, REACT.name, "vector")["Location"]
    page = html.unescape(get(as_admin, f"/memory/{anna.pk}/ask/"))
    assert f'href="{place}"' in page


def test_runs_of_another_memory_or_question_are_left_out(
    as_admin: Client, anna: ChatUser, boris: ChatUser, topic: Topic
) -> None:
    run, other = answered_run(anna, topic, *QUOTES), answered_run(boris, topic, *QUOTES)
    page = get(as_admin, f"{page_of(run, other)}&run=nonsense")
    assert re.findall(r'id="answer-([\w-]+)"', page) == [str(run.pk)]


@pytest.mark.slow
def test_more_sources_cost_no_more_queries(as_viewer: Client, anna: ChatUser, topic: Topic) -> None:
    one, two = answered_run(anna, topic, QUOTES[0]), answered_run(anna, topic, *QUOTES)
    assert cost(as_viewer, page_of(one)) == cost(as_viewer, page_of(two))


def test_the_answer_grows_while_one_looks(viewer: Operator, anna: ChatUser, topic: Topic) -> None:
    run = Run.objects.create(owner=anna, query=QUERY, strategy=REACT.name, state=Run.State.RUNNING)

    def look(seen: Seen, language: str = "en") -> SocketFrame:
        return fragments.answer_frame(run.pk, seen=seen, language=language, user=viewer.user)

    record(run, RunStarted(REACT.name, QUERY, {}, "", "", "p"), ToolUsed(1, "search", {}, {}, 0.1, "done"))
    first = look(Seen())
    assert re.search(r'hx-swap-oob="outerHTML".*aria-busy="true".*<span class="chip">search</span>', first.html, re.S)
    assert look(first.seen).html == ""
    RunProgress.objects.create(owner=anna, run=run, turn=1, text="A honey ca", at=timezone.now())
    spoken = look(first.seen)
    assert "A honey ca" in spoken.html
    record(run, answer_of(topic, *QUOTES), RunFinished((), (), ""))
    last = look(spoken.seen, "ru")
    assert (last.finished, "найдены цитаты" in last.html, "A honey ca<" in last.html) == (True, True, False)
    assert look(last.seen).html == ""


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
async def test_the_socket_sends_the_answer_and_closes(viewer: Operator, anna: ChatUser, topic: Topic) -> None:
    run = await sync_to_async(answered_run)(anna, topic, *QUOTES)
    socket = WebsocketCommunicator(AnswerConsumer.as_asgi(), "/")
    socket.scope.update(user=viewer.user, url_route={"args": (), "kwargs": {"pk": run.pk}})
    await socket.connect(timeout=PATIENCE)
    assert QUOTES[1] in await socket.receive_from(timeout=PATIENCE)
    assert await socket.receive_output(timeout=PATIENCE) == {"type": "websocket.close", "code": 1000}
    await socket.disconnect(timeout=PATIENCE)


# The settings of the agent are the defaults of its runs, and its switch stops new runs of the agent.


@pytest.mark.parametrize(
    ("setting", "parameter", "value"),
    [
        ("AGENT_MAX_STEPS", "max_steps", 2),
        ("TOOL_TIMEOUT_S", "tool_seconds", 0.5),
        ("AGENT_FUSION", "fusion", "rrf"),
        ("RRF_K", "rrf_k", 7),
        ("AGENT_MMR", "mmr", "on"),
        ("MMR_LAMBDA", "mmr_lambda", 0.25),
        ("MMR_OUTPUT_K", "mmr_hits", 9),
        ("RERANK_ENABLE", "rerank", "never"),
        ("RERANK_TOP_N", "rerank_hits", 11),
    ],
)
def test_a_setting_is_the_default_of_a_parameter_that_a_run_may_set(
    settings: Any, setting: str, parameter: str, value: Any
) -> None:
    usual = getattr(defaults(REACT), parameter)
    setattr(settings, setting, value)
    assert getattr(defaults(REACT), parameter) == value != usual
    assert to_store(REACT, {})[parameter] == value
    assert getattr(of_run(to_store(REACT, {parameter: usual}), REACT), parameter) == usual


@pytest.mark.django_db
def test_a_switched_off_agent_begins_no_run(anna: ChatUser, settings: Any) -> None:
    settings.ENABLE_AGENT = False
    with pytest.raises(ParameterError, match="ENABLE_AGENT"):
        lifecycle.start(anna, "what?", strategy=REACT.name)
    assert not Run.objects.exists()
