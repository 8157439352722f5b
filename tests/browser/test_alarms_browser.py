"""An alarm in a real browser: seen, silenced and over."""

from datetime import timedelta
from typing import Any

from django.utils import timezone
from playwright.sync_api import expect

from memoryapp.models import Alarm, Operator
from memoryapp.upkeep import alarms
from memoryapp.upkeep.watches import WATCHES
from tests.browser.conftest import Browse
from tests.browser.test_miss_browser import aside
from tests.support.browsing import assert_accessible, assert_fits


def test_an_alarm_is_on_the_overview_until_it_is_silenced_and_heals(
    admin: Operator, browse: Browse, settings: Any
) -> None:
    settings.DISK_RESERVE_BYTES = 10**18
    began = timezone.now() - timedelta(minutes=7)
    for minute in range(7):
        aside(alarms.look, [WATCHES["disk"]], began + timedelta(minutes=minute))
    with browse(admin) as page:
        page.goto("/")
        expect(page.get_by_text("The disk of the data folder is nearly full")).to_be_visible()
        page.get_by_role("link", name="Alarms").last.click()
        expect(page.get_by_role("heading", name="Alarms")).to_be_visible()
        assert_accessible(page, "/pipeline/alarms/")
        page.get_by_text("Change…").click()
        page.get_by_label("People are told").select_option(label="silent for a day")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("silent until")).to_be_visible()
        page.goto("/")
        expect(page.get_by_text("The disk of the data folder is nearly full")).to_have_count(0)
        settings.DISK_RESERVE_BYTES = 0
        aside(alarms.look, [WATCHES["disk"]], timezone.now())
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto("/pipeline/alarms/")
        assert_fits(page, page.get_by_role("heading", name="What is over"))
    assert Alarm.objects.get().healed_at is not None
