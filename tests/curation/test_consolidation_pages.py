"""What the queue shows of the merger and lets people ask of it, and a night's merges in the history."""

import re
from datetime import datetime, timedelta
from io import StringIO
from typing import Any
from urllib.parse import unquote

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from memoryapp import curation
from memoryapp.curation import MERGER, history, suggestions
from memoryapp.curation.suggestions import Check, check_of, verdict_of
from memoryapp.curation.suggestions.consolidation import CONSOLIDATE
from memoryapp.models import AgentCall, ChatUser, Suggestion, Topic, TopicEdit
from memoryapp.platform import work
from memoryapp.platform.llm import clients
from tests.conftest import lawless
from tests.curation.merger_passes import REASON, SUMMARY, Merger, Mode, live, passed, verdict, wants
from tests.curation.placed_topics import only, place, placed, renamed
from tests.support.browsing import HTMX, cost, get

pytestmark = pytest.mark.usefixtures("scale")


@pytest.fixture
def merger(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Merger:
    """Connects a merger."""
    connected = Merger()
    settings.LLM_BASE_URL, settings.MERGER_MODEL = "http://model.invalid", connected.model
    monkeypatch.setattr(clients, "open_chat", connected.open)
    return connected


def queue(owner: ChatUser, suggestion: Suggestion | None = None, then: str = "") -> str:
    return f"/memory/{owner.pk}/queue/" + (f"{suggestion.pk}/{then}" if suggestion else "")


class TestQueue:
    @pytest.mark.slow
    def test_a_verdict_stands_first_and_its_summary_in_the_field(
        self, anna: ChatUser, as_curator: Client, merger: Merger
    ) -> None:
        placed(anna, 0, 5)
        passed(anna, merger)
        page = get(as_curator, queue(anna))
        assert f"<li>The merger would make them one: {REASON}</li>" in page
        assert f">{SUMMARY}</textarea>" in page
        as_curator.post(
            queue(anna, suggestions.opened(anna)[0]), {"decision": "merge", "from": "model", "summary": SUMMARY}
        )
        assert live(anna) == [SUMMARY]
        edit = TopicEdit.objects.get(kind="merge")
        assert (edit.actor, edit.call) == ("cora", AgentCall.objects.get())

    @pytest.mark.slow
    def test_a_person_may_have_it_judged_and_then_decides(
        self, anna: ChatUser, as_curator: Client, merger: Merger
    ) -> None:
        placed(wants(anna, Mode.AUTOMATIC), 0, 5)
        shown = only(anna)
        assert "Ask it now" in get(as_curator, queue(anna))
        part = as_curator.post(queue(anna, shown, "judge/"), headers=HTMX).content.decode()
        assert REASON in part
        assert len(live(anna)) == 2
        assert AgentCall.objects.get().asked_by == "cora"
        assert "Ask it" not in get(as_curator, queue(anna))

    @pytest.mark.slow
    def test_a_failed_check_is_asked_for_again_by_a_button(
        self, anna: ChatUser, as_curator: Client, merger: Merger
    ) -> None:
        placed(anna, 0, 5)
        shown = only(anna)
        merger.says = "Hm."
        answer = as_curator.post(queue(anna, shown, "judge/"))
        assert answer.status_code == 422
        assert "cannot be used" in answer.content.decode()
        Suggestion.objects.update(call=AgentCall.objects.get())
        assert "Ask it again" in get(as_curator, queue(anna))
        merger.says = verdict(should_merge=False, reason="Two cakes.")
        part = as_curator.post(queue(anna, shown, "judge/")).content.decode()
        assert "The merger would keep them apart: Two cakes." in part
        shown.refresh_from_db()
        assert (shown.state, check_of(shown)) == ("open", Check.JUDGED)

    def test_topics_that_are_gone_are_not_asked_about(self, anna: ChatUser, as_curator: Client, merger: Merger) -> None:
        one, _other = placed(anna, 0, 5)
        shown = only(anna)
        renamed(anna, one, 0)
        assert as_curator.post(queue(anna, shown, "judge/")).status_code == 422
        assert merger.asked == []
        assert verdict_of(shown) is None

    def test_nothing_is_asked_while_consolidation_is_paused(
        self, anna: ChatUser, as_curator: Client, merger: Merger
    ) -> None:
        placed(anna, 0, 5)
        work.pause(CONSOLIDATE, "ada")
        answer = as_curator.post(queue(anna, only(anna), "judge/"))
        assert (answer.status_code, merger.asked) == (422, [])
        assert "is paused for all chat users by ada" in answer.content.decode()


def night(owner: ChatUser, *angles: float) -> list[TopicEdit]:
    """Merges neighbouring pairs of topics at these angles during one night."""
    placed(wants(owner, Mode.AUTOMATIC), *angles)
    known = set(TopicEdit.objects.values_list("pk", flat=True))
    passed(owner, Merger())
    return list(TopicEdit.objects.filter(actor=MERGER).exclude(pk__in=known).order_by("pk"))


def made_at(edit: TopicEdit, at: datetime) -> None:
    with lawless():
        TopicEdit.objects.filter(pk=edit.pk).update(at=at)


class TestHistory:
    def address(self, owner: ChatUser, rest: str = "") -> str:
        return f"/memory/{owner.pk}/history/{rest}"

    @pytest.mark.slow
    def test_all_of_a_nights_merges_are_undone_from_one_button(self, anna: ChatUser, as_curator: Client) -> None:
        edits = night(anna, 0, 5, 90, 95, 180, 185)
        assert len(edits) == 3
        page = get(as_curator, self.address(anna))
        assert "Undo all 3…" in page
        assert "The merger merged topics on its own 3 times" in page
        [button] = re.findall(r'href="([^"]*by=merger[^"]*)"', page)
        shown = get(as_curator, button.replace("&amp;", "&"))
        assert "3 changes would be undone" in shown
        sent = dict(
            re.findall(r'name="(by|since|until|seen)" value="([^"]*)"', shown[shown.index("panel-foot-form") :])
        )
        as_curator.post(unquote(button).partition("?")[0], {**sent, "reason": "too eager"})
        assert len(live(anna)) == 6
        assert history.nights(anna) == []
        assert suggestions.suggest(anna) == 0
        assert "Undone: 3 changes of the merger" in get(as_curator, self.address(anna))

    @pytest.mark.slow
    def test_a_nights_merges_are_listed_with_their_reasons_from_one_link(
        self, anna: ChatUser, as_curator: Client
    ) -> None:
        edits = night(anna, 0, 5, 90, 95)
        [link] = re.findall(r'<a href="(\?actor=merger[^"]*)"', get(as_curator, self.address(anna)))
        page = get(as_curator, self.address(anna, link.replace("&amp;", "&")))
        assert all(f'id="edit-{edit.pk}"' in page for edit in edits)
        assert page.count(REASON) == 2

    @pytest.mark.slow
    def test_what_stands_on_one_of_them_is_named_and_nothing_is_undone(
        self, anna: ChatUser, as_curator: Client
    ) -> None:
        first, _second = night(anna, 0, 5, 90, 95)
        renamed(anna, curation.put_in(first)[0], 0)
        page = get(as_curator, self.address(anna))
        [button] = re.findall(r'href="([^"]*by=merger[^"]*)"', page)
        shown = get(as_curator, button.replace("&amp;", "&"))
        assert "These changes prevent it" in shown
        assert "panel-foot-form" not in shown
        assert len(live(anna)) == 2

    @pytest.mark.slow
    def test_a_chain_of_merges_is_undone_in_the_right_order(self, anna: ChatUser) -> None:
        before = night(anna, 0, 5)
        place(curation.put_in(before[0])[0], 3)
        second = night(anna, 8)
        assert len(second) == 1
        made = history.undo_between(anna, MERGER, before[0].at, timezone.now(), actor="cora")
        assert [edit.undoes for edit in made] == [second[0], before[0]]
        assert Topic.objects.of(anna).live().count() == 3

    @pytest.mark.slow
    def test_a_command_undoes_the_latest_night_or_the_one_that_is_named(self, anna: ChatUser) -> None:
        [before] = night(anna, 0, 5)
        made_at(before, timezone.now() - timedelta(days=3))
        night(anna, 90, 95, 180, 185)
        out = StringIO()
        call_command("undo_night", "anna", stdout=out)
        assert "Undone: 2 merges" in out.getvalue()
        [left] = history.nights(anna)
        with pytest.raises(CommandError, match="merged nothing that night"):
            call_command("undo_night", "anna", night=(left.day - timedelta(days=9)).isoformat())
        with pytest.raises(CommandError, match="takes a day"):
            call_command("undo_night", "anna", night="yesterday")
        call_command("undo_night", "anna", night=left.day.isoformat(), json=True, stdout=out)
        assert (history.nights(anna), len(live(anna))) == ([], 6)

    @pytest.mark.slow
    def test_one_is_undone_by_one_button_in_the_list(self, anna: ChatUser, as_curator: Client) -> None:
        [edit] = night(anna, 0, 5)
        page = get(as_curator, self.address(anna, "?kind=merge"))
        [action] = re.findall(r'<form method="post" action="([^"]*/history/edits/[^"]*)"', page)
        answer = as_curator.post(action, {"next": self.address(anna)})
        assert answer["Location"] == self.address(anna)
        assert len(live(anna)) == 2
        assert TopicEdit.objects.get(undoes=edit).actor == "cora"

    @pytest.mark.slow
    def test_a_night_goes_from_noon_to_noon(self, anna: ChatUser) -> None:
        noon = timezone.localtime().replace(hour=12, minute=0, second=0, microsecond=0)
        edits = night(anna, 0, 5, 90, 95, 180, 185)
        for edit, hours in zip(edits, (-1, 1, 20), strict=True):
            made_at(edit, noon + timedelta(hours=hours))
        assert [found.count for found in history.nights(anna)] == [2, 1]

    @pytest.mark.slow
    def test_more_nights_cost_no_more_queries(self, anna: ChatUser, as_curator: Client) -> None:
        [first] = night(anna, 0, 5)
        made_at(first, first.at - timedelta(days=3))
        one = cost(as_curator, self.address(anna))
        night(anna, 90, 95)
        assert cost(as_curator, self.address(anna)) == one
