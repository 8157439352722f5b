"""Projects in a real browser: topics are given to one, the list narrowed to it, asked in it, and all is taken back."""

from playwright.sync_api import expect

from memoryapp.curation import bulk
from memoryapp.models import BulkWork, ChatUser, Role, Run, Topic
from tests.browser.conftest import Browse
from tests.conftest import operator, talk


def test_topics_are_given_to_a_project_asked_in_it_and_taken_back(anna: ChatUser, browse: Browse) -> None:
    talk(anna, ("Sprint of May", ["When is the sprint?", "On Monday."]), ("Honey cake", ["Which cake?", "Honey."]))
    topics = f"/memory/{anna.pk}/topics/"
    with browse(operator("cora", Role.CURATOR, anna), "/ws/runs/", "[object Event]") as page:
        page.goto(f"/memory/{anna.pk}/ask/")
        expect(page.get_by_label("Project")).to_have_count(0)
        page.goto(topics)
        page.get_by_role("checkbox").nth(1).check()
        page.get_by_role("link", name="Make again…").or_(page.get_by_role("button", name="Make again…")).first.click()
        given = page.locator("form", has_text="Give to a project")
        given.get_by_label("Project").fill("work")
        given.get_by_role("button", name="Begin").click()
        page.wait_for_url("**/bulk/*/")
        work = BulkWork.objects.get()
        assert bulk.carry_on(work) == 1

        page.goto(topics)
        page.get_by_role("link", name="work 1").click()
        expect(page.locator("tr[data-row]")).to_have_count(1)
        assert "project=work" in page.url
        chosen = Topic.objects.live().get(project="work").summary
        expect(page.get_by_text(chosen)).to_be_visible()

        page.goto(f"/memory/{anna.pk}/ask/")
        page.get_by_label("Project").select_option("work")
        page.get_by_label("Question").fill("What about Monday and honey?")
        page.get_by_role("button", name="Show the memories").click()
        page.wait_for_url("**/runs/*/")
        assert Run.objects.get().project == "work"

        page.goto(f"/memory/{anna.pk}/bulk/{work.pk}/")
        page.get_by_role("button", name="Undo all of it").click()
        expect(page.get_by_text("1 change was undone.")).to_be_visible()
    assert not Topic.objects.live().exclude(project="").exists()
