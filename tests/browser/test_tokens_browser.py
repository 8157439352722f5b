"""API tokens in a real browser: created, copied, used, and removed from the page when it is left."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from memoryapp.models import ApiToken, ChatUser, Operator
from tests.browser.conftest import Browse
from tests.conftest import talk
from tests.support.browsing import assert_fits
from tests.support.watched import patient_context


@pytest.fixture
def page(anna: ChatUser, admin: Operator, browse: Browse) -> Iterator[Page]:
    talk(anna, ("Tea", ["Which tea?", "Green tea."]))
    with browse(admin) as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        yield page


def make(page: Page, name: str) -> None:
    page.goto("/tokens/")
    page.get_by_role("link", name="Make a token").first.click()
    page.wait_for_url("**/tokens/make/")
    page.get_by_label("Name").fill(name)
    page.locator("[name=scopes][value=read]").check()
    page.get_by_label("Анна").check()
    page.get_by_role("button", name="Create and show it").click()
    expect(page.locator("h1")).to_have_text(f"The token “{name}” was created")


def clipboard(page: Page) -> str:
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def test_a_token_is_made_copied_and_used_and_the_page_forgets_it(page: Page, live_server: LiveServer) -> None:
    make(page, "bot")
    page.get_by_role("button", name="Copy the token").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    text = clipboard(page)
    assert page.locator("#token-text").inner_text() == text
    address = f"{live_server.url}/v1/users/anna/topics"
    headers = {"authorization": f"Bearer {text}"}
    assert [topic["summary"] for topic in httpx.get(address, headers=headers).json()["topics"]] == ["Tea"]
    page.get_by_role("button", name="Copy the line").click()
    expect(page.get_by_role("button", name="Copy the token")).to_be_visible()
    expect(page.get_by_role("button", name="Copied")).to_have_count(1)
    assert clipboard(page) == f"curl -H 'Authorization: Bearer {text}' {address}"

    assert page.url == f"{live_server.url}/tokens/"
    for leave in (page.reload, page.go_back, page.go_forward):
        leave()
        assert text not in page.content()
    assert ApiToken.objects.count() == 1

    page.goto("/tokens/")
    page.get_by_role("link", name="Revoke…").click()
    assert httpx.get(address, headers=headers).status_code == 200
    page.get_by_role("button", name="Revoke").click()
    expect(page.locator("#revoked")).to_contain_text("bot")
    assert httpx.get(address, headers=headers).status_code == 401


def test_without_scripts_a_reload_makes_no_second_token(page: Page, live_server: LiveServer) -> None:
    assert page.context.browser
    session = {"storage_state": page.context.storage_state(), "base_url": live_server.url}
    with patient_context(page.context.browser, java_script_enabled=False, **session) as plain:
        reader = plain.new_page()
        make(reader, "bot")
        expect(reader.get_by_role("button", name="Copy the token")).to_be_hidden()
        text = reader.locator("#token-text").inner_text()
        reader.reload()
        expect(reader.locator(".notice")).to_contain_text("“bot” was created already")
        assert text not in reader.content()
        assert ApiToken.objects.count() == 1


def test_which_chat_users_is_asked_only_where_it_matters_and_a_phone_has_room(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/tokens/make/")
    expect(page.locator(".rail summary[aria-current]")).to_be_in_viewport(ratio=1)
    expect(page.get_by_label("Анна")).to_be_visible()
    page.get_by_label("every memory").check()
    expect(page.get_by_label("Анна")).to_be_hidden()
    assert_fits(page, page.locator("h1"))
    assert page.locator("label.option").evaluate_all(
        "all => all.every(it => !it.offsetParent || it.offsetHeight >= 40)"
    )
