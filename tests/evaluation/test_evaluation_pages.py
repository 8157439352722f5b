"""The pages of evaluations: their list, strategies side by side, the worst questions first with their runs."""

import html
import re

import pytest
from django.test import Client

from memoryapp.insight.evaluation import passes
from memoryapp.insight.evaluation.scores import QuestionScore
from memoryapp.models import ChatUser, Evaluation, Run
from memoryapp.upkeep import tasks
from tests.support.browsing import cost
from tests.support.evaluations import score, stored, unanswerable


def many(n: int, **given: object) -> list[QuestionScore]:
    return [score(qid=f"q{number}", **given) for number in range(n)]


@pytest.fixture
def flash(anna: ChatUser) -> Evaluation:
    return stored(anna, [*many(3, covered=2, cited=2, rightly=2), unanswerable(qid="u", refused=True)])


@pytest.fixture
def vector(anna: ChatUser, flash: Evaluation) -> Evaluation:
    scores = [score(qid="q0"), score(qid="q1", ranked=(0, 0)), score(qid="q2"), unanswerable(qid="u")]
    return stored(anna, scores, "vector", flash)


def shown(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode())))


def test_a_pass_is_listed_once_with_all_its_strategies(as_viewer: Client, vector: Evaluation) -> None:
    page = shown(as_viewer, "/evaluations/")
    assert page.count("golden.jsonl") == 1
    assert "golden.jsonl flash vector 4" in page


def test_an_evaluation_that_broke_off_is_listed_and_opens(as_admin: Client) -> None:
    row = Evaluation.objects.create(source="half.jsonl", strategy="flash")
    assert "half.jsonl flash broken off" in shown(as_admin, "/evaluations/")
    assert "No figures question by question" in shown(as_admin, f"/evaluations/{row.pk}/")


@pytest.mark.django_db(transaction=True)
def test_an_evaluation_that_ended_by_a_fault_says_which(as_admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def faulty(*_given: object) -> None:
        raise ValueError("The row is poisoned.")

    monkeypatch.setattr(passes, "carry_on", faulty)
    row = Evaluation.objects.create(source="garden", strategy="vector", state="pending", questions=[1, 2])
    tasks.evaluate_asked()
    assert "garden" in shown(as_admin, "/evaluations/")
    page = shown(as_admin, f"/evaluations/{row.pk}/")
    assert "Stopped after 0 of 2 questions." in page
    assert "The row is poisoned." in page


def test_strategies_stand_side_by_side_with_their_differences(as_viewer: Client, vector: Evaluation) -> None:
    page = shown(as_viewer, f"/evaluations/{vector.reference_id}/")
    assert "Recall in the first 5 topics 1.000 0.667 −0.333 (−1.000 to 0.000)" in page
    assert "Coverage of citations 1.000 0.000 −1.000 (−1.000 to −1.000)" in page
    assert "Answerable questions refused less is better 0.000 0.000 0.000 (0.000 to 0.000)" in page
    assert shown(as_viewer, f"/evaluations/{vector.pk}/") == page


def test_only_what_is_sure_is_coloured(as_viewer: Client, vector: Evaluation) -> None:
    page = as_viewer.get(f"/evaluations/{vector.pk}/").content.decode()
    verdicts = re.findall(r"evaluation-interval is-(\w+)", page)
    assert verdicts == ["unsure", "unsure", "unsure", "worse", "worse", "worse", "unsure", "unsure"]


def test_the_verdict_of_the_gate_is_shown_with_its_reasons(as_viewer: Client, vector: Evaluation) -> None:
    page = shown(as_viewer, f"/evaluations/{vector.pk}/")
    assert "flash go Answerable questions with every expected citation: at least 0.7 1.00" in page
    assert "vector no go Answerable questions with every expected citation: at least 0.7 0.00" in page


def test_the_worst_questions_come_first_with_links_to_their_runs(as_viewer: Client, vector: Evaluation) -> None:
    page = shown(as_viewer, f"/evaluations/{vector.pk}/")
    assert "4 worse than the reference, those first" in page
    assert "what of u? u refused answered Unanswerable questions refused: 1.00 worse" in page
    answer = as_viewer.get(f"/evaluations/{vector.pk}/").content.decode()
    linked = re.findall(r'href="/runs/([0-9a-f-]{36})/"', answer)
    assert sorted(linked) == sorted(str(pk) for pk in Run.objects.values_list("pk", flat=True))


def test_the_same_questions_are_not_worse(as_viewer: Client, anna: ChatUser, flash: Evaluation) -> None:
    stored(anna, many(3, covered=2, cited=2, rightly=2), "filter", flash)
    page = shown(as_viewer, f"/evaluations/{flash.pk}/")
    assert "0 worse than the reference" in page
    assert "not asked" in page


def test_a_pass_is_compared_with_an_earlier_one(as_viewer: Client, anna: ChatUser, flash: Evaluation) -> None:
    later = stored(anna, [*many(3), unanswerable(qid="u", refused=True)])
    alone = shown(as_viewer, f"/evaluations/{later.pk}/")
    assert "worse than the reference" not in alone
    beside = shown(as_viewer, f"/evaluations/{later.pk}/?against={flash.pk}")
    assert "3 worse than the reference" in beside
    assert shown(as_viewer, f"/evaluations/{later.pk}/?against=none") == alone


def test_runs_that_are_gone_are_not_linked(as_admin: Client, flash: Evaluation) -> None:
    Run.objects.all().delete()
    page = as_admin.get(f"/evaluations/{flash.pk}/").content.decode()
    assert "The runs of this question are gone." in page
    assert "/runs/" not in page.partition('<table class="evaluation-table">')[2].partition("</main>")[0]


def test_an_evaluation_of_a_hidden_memory_is_hidden_also_where_another_is_open(
    as_viewer: Client, as_stranger: Client, anna: ChatUser, boris: ChatUser, flash: Evaluation
) -> None:
    both = stored(boris, [score()])
    Run.objects.create(owner=anna, evaluation=both, query="hers", strategy="flash")
    for client, seen in ((as_viewer, [flash.pk]), (as_stranger, [])):
        listed = client.get("/evaluations/").content.decode()
        assert [row.pk for row in (flash, both) if f"/evaluations/{row.pk}/" in listed] == seen
        assert client.get(f"/evaluations/{both.pk}/").status_code == 404


def test_more_questions_cost_no_more_queries(as_viewer: Client, anna: ChatUser) -> None:
    few, lots = stored(anna, many(2)), stored(anna, many(30))
    assert cost(as_viewer, f"/evaluations/{few.pk}/") == cost(as_viewer, f"/evaluations/{lots.pk}/")


def test_the_figure_that_got_worse_is_drawn_first_by_category_and_another_on_request(
    as_viewer: Client, anna: ChatUser
) -> None:
    good = [score(qid=f"{kind}{n}", category=kind) for kind in ("who", "when") for n in range(8)]
    bad = [
        score(qid=each.qid, category=each.category, ranked=(0, 0) if each.category == "when" else each.ranked)
        for each in good
    ]
    first = stored(anna, good)
    stored(anna, bad, "vector", first)
    page = as_viewer.get(f"/evaluations/{first.pk}/").content.decode()
    drawn = page[page.index('id="forest"') :].partition("</section>")[0]
    words = html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", drawn)))
    assert 'aria-label="Recall in the first 5 topics"' in drawn
    assert re.search(r"vector n = 16 −0.500 .*when n = 8 −1.000 .*who n = 8 0.000 ", words)
    other = as_viewer.get(f"/evaluations/{first.pk}/", {"figure": "f1"}).content.decode()
    assert 'aria-label="F1 of the selection"' in other
    assert 'id="forest"' not in as_viewer.get(f"/evaluations/{stored(anna, good).pk}/").content.decode()
