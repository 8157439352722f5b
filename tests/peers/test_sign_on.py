"""Signing in as people do it, in a browser: at a provider that others wrote (oidc-provider), with second factors, by a
link; and how a remote client of MCP is let in, by the official SDK."""

import asyncio
import base64
import hmac
import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from pydantic import AnyUrl

from tests.support.chromium import ARGUMENTS, CHROMIUM
from tests.support.clock import PATIENCE
from tests.support.node import installed, node
from tests.support.stack import PASSWORD, Stack, free_port, wait_for
from tests.support.watched import patient_context

expect.set_options(timeout=PATIENCE * 1000)
pytestmark = [pytest.mark.peers, pytest.mark.browser]
PACKAGE = "oidc-provider@9.13.3"
SCRIPT = Path(__file__).with_name("openid_provider.mjs")
SECRET = "what only the two of them know"
ROLES = {"ops": "admin", "support": "curator", "readers": "viewer"}


class Provider:
    """The provider at an address that stays the same while it is down; ``knows`` says who there is."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._people = folder / "people.json"
        self._log = folder / "provider.log"
        self.knows()

    def knows(self, **people: dict[str, Any]) -> None:
        self._people.write_text(json.dumps(people))

    @contextmanager
    def serving(self, program: Stack) -> Iterator[None]:
        back = f"{program.url}/account/oidc/127-0-0-1-{self.port}/login/callback/"
        arguments = [str(installed(PACKAGE)), str(self.port), SECRET, back, str(self._people)]
        with self._log.open("w") as log:
            process = subprocess.Popen([node(), str(SCRIPT), *arguments], stdout=log, stderr=log)
        try:
            wait_for(lambda: process.poll() is not None or self._answers())
            assert process.poll() is None, self._log.read_text()
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/.well-known/openid-configuration", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Provider:
    installed(PACKAGE)
    return Provider(tmp_path_factory.mktemp("provider"))


@pytest.fixture(scope="module")
def program(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    started = Stack(
        tmp_path_factory.mktemp("signing") / "data",
        "--no-demo",
        OIDC_ISSUER=provider.url,
        OIDC_CLIENT_ID="mnemoscope",
        OIDC_CLIENT_SECRET=SECRET,
        OIDC_NAME="Acme",
        OIDC_ROLES=json.dumps(ROLES),
        OIDC_MEMORIES_CLAIM="memories",
        SECOND_FACTOR="true",
        REQUIRE_SECOND_FACTOR="curator",
        MCP_OAUTH="true",
        AUDIT_LOG="true",
    )
    started.make_operator("root")
    token = started.json("create_token", "filler", "--scope", "ingest")["token"]
    for name in ("first", "second"):
        message = {"id": "1", "role": "user", "author": "A", "ts": "2026-01-01T00:00:00Z", "text": "Hello."}
        body = {"user": name, "messages": [message]}
        headers = {"Authorization": f"Bearer {token}"}
        httpx.post(f"{started.url}/v1/messages", json=body, headers=headers, timeout=PATIENCE).raise_for_status()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with pytest.MonkeyPatch.context() as environment, sync_playwright() as playwright:
        environment.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


Opened = Callable[[], Page]


@pytest.fixture
def somebody(browser: Browser, program: Stack) -> Iterator[Opened]:
    """Each call is another person at a browser."""
    contexts = list[Any]()

    def opened() -> Page:
        contexts.append(patient_context(browser, base_url=program.url))
        context: BrowserContext = contexts[-1].__enter__()
        return context.new_page()

    yield opened
    for each in contexts:
        each.__exit__(None, None, None)


def by_provider(page: Page, name: str, to: str = "/") -> None:
    """From the page ``to``, through the login page and the pages of the provider."""
    page.goto(to)
    page.get_by_role("link", name="Sign in with Acme").click()
    page.locator("input[name=login]").fill(name)
    page.locator("input[name=password]").fill("any")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()
    page.wait_for_url(re.compile(r"^http://[^/]+/(?!interaction|auth)"))


def by_password(page: Page, name: str) -> None:
    page.goto("/login/")
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()


def signed_in(program: Stack, name: str = "root") -> httpx.Client:
    """A client without scripts, in which this account has signed in by its password."""
    client = httpx.Client(base_url=program.url, follow_redirects=True, timeout=PATIENCE)
    assert sent(client, "/login/", username=name, password=PASSWORD).url.path == "/"
    return client


def sent(client: httpx.Client, address: str, **fields: Any) -> httpx.Response:
    """The form at this address, sent with these fields."""
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', client.get(address).text)
    assert token
    body = {"csrfmiddlewaretoken": token[1], **fields}
    return client.post(address, data=body, headers={"Referer": str(client.base_url)})


LISTED = re.compile(r'href="/operators/\d+/">([^<]+)</a>.*?<span class="tag">(\w+)</span></td>\s*<td>(.*?)</td>', re.S)


def operators_of(program: Stack) -> dict[str, tuple[str, str]]:
    """The role and the memories of each operator, as the admin sees them."""
    with closing(signed_in(program)) as client:
        rows = LISTED.findall(client.get("/operators/").text)
    return {name: (role, " ".join(re.sub(r"<[^>]+>", "", memories).split())) for name, role, memories in rows}


def refusal(page: Page) -> str:
    expect(page).to_have_url(re.compile(r":\d+/login/"))
    return page.get_by_role("alert").first.inner_text()


def test_claims_make_an_account_and_later_logins_follow_them(
    program: Stack, provider: Provider, somebody: Opened
) -> None:
    # The address of another account, confirmed or not, opens nothing of it.
    confirmed = {"email": "root@example.org", "email_verified": True}
    provider.knows(anna={"groups": ["all", "support"], "memories": "first", **confirmed})
    with provider.serving(program):
        page = somebody()
        by_provider(page, "anna", "/runs/")
        assert page.url == f"{program.url}/runs/"
        page.goto("/account/")
        expect(page.get_by_role("heading", level=1)).to_have_text("anna")
        assert operators_of(program)["anna"] == ("curator", "first")
        provider.knows(anna={"groups": ["readers"], "memories": ["second", "none of that name"]})
        again = somebody()
        by_provider(again, "anna")
        assert operators_of(program)["anna"] == ("viewer", "second")
        answer = again.goto("/operators/")
        assert answer
        assert answer.status == 403

        # Both sessions are listed, and either ends the other.
        again.goto("/account/")
        expect(again.get_by_role("button", name="Sign out", exact=True)).to_have_count(2)
        this = again.locator("tr", has_text="this one")
        again.locator("tbody tr").filter(has_not=this).filter(has_not_text="this one").get_by_role("button").click()
        expect(again.get_by_role("button", name="Sign out", exact=True)).to_have_count(1)
        page.goto("/account/")
        expect(page).to_have_url(re.compile("/login/"))


def test_who_has_no_role_there_is_refused_in_a_sentence_and_loses_the_sessions(
    program: Stack, provider: Provider, somebody: Opened
) -> None:
    provider.knows(boris={"groups": ["others"]}, clara={"groups": ["support", "ops"]})
    with provider.serving(program):
        page = somebody()
        by_provider(page, "boris")
        assert "Acme knows you, but gives you no role here" in refusal(page)
        assert "boris" not in operators_of(program)
        clara = somebody()
        by_provider(clara, "clara")
        assert operators_of(program)["clara"] == ("admin", "every memory")
        provider.knows(clara={})
        later = somebody()
        by_provider(later, "clara")
        assert "gives you no role" in refusal(later)
        clara.goto("/runs/")
        expect(clara).to_have_url(re.compile("/login/"))


def test_a_name_that_is_taken_opens_nothing_of_whom_it_belongs_to(
    program: Stack, provider: Provider, somebody: Opened
) -> None:
    provider.knows(stranger={"groups": ["readers"], "preferred_username": "root", "email": "root@example.org"})
    with provider.serving(program):
        page = somebody()
        by_provider(page, "stranger", "/login/?next=https://evil.example/")
        assert page.url == f"{program.url}/"
        page.goto("/account/")
        name = page.get_by_role("heading", level=1).inner_text()
        assert name.startswith("root")
        assert name != "root"
        # Nobody is led to join an account of the provider with the one that is signed in.
        admin = somebody()
        by_password(admin, "root")
        expect(admin).to_have_url(f"{program.url}/")
        admin.goto(f"/account/oidc/127-0-0-1-{provider.port}/login/?process=connect")
        admin.locator("input[name=login]").fill("other")
        admin.locator("input[name=password]").fill("any")
        admin.get_by_role("button", name="Sign-in").click()
        admin.get_by_role("button", name="Continue").click()
        expect(admin.get_by_text("cannot be joined")).to_be_visible()


def test_while_the_provider_is_down_a_sentence_says_so_and_passwords_still_work(
    program: Stack, provider: Provider, somebody: Opened
) -> None:
    page = somebody()
    page.goto("/login/")
    page.get_by_role("link", name="Sign in with Acme").click()
    assert "Acme does not answer as it should" in refusal(page)
    by_password(page, "root")
    expect(page).to_have_url(f"{program.url}/")
    assert program.complaints() == []


def code_of(secret: str, steps: int = 0) -> str:
    """What an authenticator app shows for this secret (RFC 6238), so many half minutes from now."""
    moment = (int(time.time()) // 30 + steps).to_bytes(8)
    digest = hmac.digest(base64.b32decode(secret), moment, "sha1")
    start = digest[-1] & 15
    return f"{(int.from_bytes(digest[start : start + 4]) & 0x7FFFFFFF) % 10**6:06}"


def confirm(page: Page, name: str = "") -> None:
    """Types the password again, where the page asks for it."""
    if "/account/confirm/" in page.url:
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Confirm").click()


def invite(program: Stack, name: str, role: str) -> str:
    """The link that the admin gets for a new operator without a password."""
    with closing(signed_in(program)) as client:
        made = sent(client, "/operators/new/", name=name, role=role)
    assert made.status_code == 201, made.text
    link = re.search(r'id="link-text" data-secret>([^<]+)<', made.text)
    assert link
    return link[1]


def accept(page: Page, link: str) -> None:
    page.goto(link)
    page.get_by_label("New password", exact=True).fill(PASSWORD)
    page.get_by_label("New password confirmation").fill(PASSWORD)
    page.get_by_role("button", name="Set the password").click()


def test_a_link_lets_one_person_choose_a_password_once(program: Stack, somebody: Opened) -> None:
    link = invite(program, "ida", "viewer")
    assert operators_of(program)["ida"] == ("viewer", "none")
    page = somebody()
    accept(page, link)
    expect(page.get_by_text("Sign in with it as ida")).to_be_visible()
    by_password(page, "ida")
    expect(page).to_have_url(f"{program.url}/")
    other = somebody()
    other.goto(link)
    expect(other.get_by_role("alert")).to_contain_text("This link was used")
    other.goto(link.replace("/invitation/", "/invitation/X"))
    expect(other.get_by_role("alert")).to_contain_text("This link was used")


def test_an_app_and_recovery_codes_are_asked_for_and_each_code_works_once(program: Stack, somebody: Opened) -> None:
    page = somebody()
    accept(page, invite(program, "tom", "curator"))
    by_password(page, "tom")
    # The role needs a second factor: nothing opens before there is one.
    expect(page.get_by_text("Your role needs a second factor")).to_be_visible()
    page.goto("/runs/")
    expect(page).to_have_url(re.compile("/account/factors/$"))
    page.get_by_role("link", name="Activate").click()
    confirm(page)
    secret = page.get_by_label("Authenticator secret").input_value()
    page.get_by_label("Authenticator code").fill("000000")
    page.get_by_role("button", name="Activate").click()
    expect(page.get_by_text("Incorrect code")).to_be_visible()
    page.get_by_label("Authenticator code").fill(code_of(secret))
    page.get_by_role("button", name="Activate").click()
    codes = page.get_by_label("Unused codes").input_value().split()
    assert len(codes) == 10
    page.goto("/runs/")
    expect(page).to_have_url(f"{program.url}/runs/")

    again = somebody()
    by_password(again, "tom")
    expect(again).to_have_url(re.compile("/account/factors/authenticate/"))
    again.goto("/runs/")
    expect(again).to_have_url(re.compile("/login/"))
    by_password(again, "tom")
    again.get_by_label("Code").fill(codes[0])
    again.get_by_role("button", name="Sign In", exact=True).click()
    expect(again).to_have_url(f"{program.url}/")

    third = somebody()
    by_password(third, "tom")
    third.get_by_label("Code").fill(codes[0])
    third.get_by_role("button", name="Sign In", exact=True).click()
    expect(third.get_by_text("Incorrect code")).to_be_visible()
    third.get_by_label("Code").fill(code_of(secret, 9))
    third.get_by_role("button", name="Sign In", exact=True).click()
    expect(third.get_by_text("Incorrect code")).to_be_visible()
    # The login of the administration has no way around it.
    third.goto("/admin/login/?next=/admin/")
    expect(third).to_have_url(f"{program.url}/login/?next=/admin/")
    # The last factor stays, because the role needs one.
    page.goto("/account/factors/totp/deactivate/")
    confirm(page)
    expect(page.get_by_text("You cannot deactivate two-factor authentication")).to_be_visible()


def test_a_passkey_signs_in_without_a_password(program: Stack, somebody: Opened) -> None:
    page = somebody()
    accept(page, invite(program, "pia", "viewer").replace("127.0.0.1", "localhost"))
    devices = page.context.new_cdp_session(page)
    devices.send("WebAuthn.enable")
    kind = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True}
    options = {**kind, "isUserVerified": True, "automaticPresenceSimulation": True}
    devices.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    at = program.url.replace("127.0.0.1", "localhost")
    page.goto(f"{at}/login/")
    page.get_by_label("Username").fill("pia")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.goto(f"{at}/account/factors/webauthn/add/")
    confirm(page)
    page.get_by_label("Passwordless").check()
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_label("Unused codes")).to_be_visible()
    page.goto(f"{at}/account/")
    page.get_by_role("button", name="Sign out everywhere").click()
    expect(page).to_have_url(re.compile("/login/"))
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page).to_have_url(f"{at}/")
    page.goto(f"{at}/account/")
    expect(page.get_by_role("heading", level=1)).to_have_text("pia")


class Remembered:
    """What a client of MCP keeps between its starts."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class RemoteClient:
    """The client of the official SDK with the address alone; a person opens the pages that it asks for."""

    def __init__(self, url: str, scope: str | None = None) -> None:
        self.url, self.memory = url, Remembered()
        self.asks, self.answers = Queue[str](), Queue[tuple[str, str]]()
        answers = self.answers

        class Callback(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = parse_qs(urlsplit(self.path).query)
                if "code" in asked or "error" in asked:
                    answers.put((asked.get("code", [""])[0], asked["state"][0]))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"You may close this window.")

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Callback)
        Thread(target=self.server.serve_forever, daemon=True).start()
        back = f"http://127.0.0.1:{self.server.server_port}/callback"
        self.metadata = OAuthClientMetadata(client_name="Notebook", redirect_uris=[AnyUrl(back)], scope=scope)

    def call(self, tool: str, **arguments: Any) -> Future[Any]:
        return ThreadPoolExecutor(1).submit(asyncio.run, self._call(tool, arguments))

    async def _call(self, tool: str, arguments: dict[str, Any]) -> Any:
        async def redirect(address: str) -> None:
            self.asks.put(address)

        async def callback() -> AuthorizationCodeResult:
            code, state = await asyncio.to_thread(self.answers.get, timeout=PATIENCE)
            return AuthorizationCodeResult(code=code, state=state)

        auth = OAuthClientProvider(self.url, self.metadata, self.memory, redirect, callback)
        async with (
            httpx2.AsyncClient(auth=auth, timeout=PATIENCE) as http,
            Client(streamable_http_client(self.url, http_client=http)) as client,
        ):
            tools = [each.name for each in (await client.list_tools()).tools]
            return tools, await client.call_tool(tool, arguments)


def test_a_remote_client_is_let_in_by_a_person_at_a_browser(program: Stack, somebody: Opened) -> None:
    client = RemoteClient(f"{program.url}/mcp")
    called = client.call("search_memory", query="Hello", user="first")
    page = somebody()
    page.goto(client.asks.get(timeout=PATIENCE))
    page.get_by_label("Username").fill("root")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name="Let “Notebook” in?")).to_be_visible()
    page.get_by_label("forget").uncheck()
    page.get_by_role("button", name="Let it in").click()
    expect(page.get_by_text("You may close this window.")).to_be_visible()
    tools, found = called.result(PATIENCE)
    assert not found.is_error, found
    assert {"search_memory", "remember"} <= set(tools)

    # The token is for /mcp alone, and no other door takes it.
    assert client.memory.tokens
    assert client.memory.client
    bearer = {"Authorization": f"Bearer {client.memory.tokens.access_token}"}
    assert httpx.get(f"{program.url}/v1/users", headers=bearer).status_code == 401
    again = client.call("search_memory", query="Hello", user="first").result(PATIENCE)
    assert not again[1].is_error

    # A refreshed token is the same grant, which the page of tokens ends for good.
    refresh = {"grant_type": "refresh_token", "refresh_token": client.memory.tokens.refresh_token}
    refresh |= {"client_id": client.memory.client.client_id, "client_secret": client.memory.client.client_secret}
    address = f"{program.url}/identity/o/api/token"
    refreshed = httpx.post(address, data=refresh).json()
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accepts = {"Accept": "application/json, text/event-stream"}

    def lists(token: str, path: str = "/mcp") -> int:
        headers = {**accepts, "Authorization": f"Bearer {token}"}
        return httpx.post(f"{program.url}{path}", json=body, headers=headers).status_code

    assert lists(refreshed["access_token"]) == lists(refreshed["access_token"], "/mcp/first") == 200
    with closing(signed_in(program)) as admin:
        # The log tells each grant from all others, and its page says whose it is.
        assert "Notebook · root" in admin.get("/audit/?door=mcp").text
        asked = {entry["who"] for entry in admin.get("/audit/?door=mcp&format=json").json()}
        assert all(re.fullmatch("oauth_[0-9a-f]{10}…", who) for who in asked), asked
        listed = admin.get("/tokens/").text
        [number] = re.findall(r"/tokens/(\d+)/revoke/", listed[listed.index("Notebook · root") :])[:1]
        sent(admin, f"/tokens/{number}/revoke/")
    assert lists(refreshed["access_token"]) == 401
    refresh["refresh_token"] = refreshed["refresh_token"]
    anew = httpx.post(address, data=refresh).json()
    assert lists(anew["access_token"]) == 401


def test_a_client_gets_no_more_than_the_person_may_and_nothing_elsewhere(program: Stack, somebody: Opened) -> None:
    link = invite(program, "vic", "viewer")
    page = somebody()
    accept(page, link)
    by_password(page, "vic")
    client = RemoteClient(f"{program.url}/mcp", scope="read forget")
    called = client.call("list_edits", user="first")
    page.goto(client.asks.get(timeout=PATIENCE))
    page.get_by_role("button", name="Let it in").click()
    tools, found = called.result(PATIENCE)
    assert "search_memory" not in tools
    assert "remember" not in tools
    assert found.is_error

    metadata = httpx.get(f"{program.url}/.well-known/oauth-protected-resource/mcp/first").json()
    assert metadata["resource"] == f"{program.url}/mcp/first"
    refused = httpx.post(f"{program.url}/mcp/first", json={})
    assert refused.status_code == 401
    assert (
        f'resource_metadata="{program.url}/.well-known/oauth-protected-resource/mcp/first"'
        in refused.headers["WWW-Authenticate"]
    )
    register = f"{program.url}/identity/o/api/clients"
    for wrong in (
        {"redirect_uris": ["http://evil.example/"]},
        {"redirect_uris": ["https://good.example/"], "grant_types": ["client_credentials"]},
        {"redirect_uris": ["https://good.example/"], "scope": "everything"},
        {"redirect_uris": ["https://[good.example/"]},
    ):
        assert httpx.post(register, json=wrong).status_code == 400, wrong
    code = {"grant_type": "authorization_code", "code": "x", "resource": "nowhere"}
    assert httpx.post(f"{program.url}/identity/o/api/token", data=code).status_code == 400
    asked = client.metadata.redirect_uris
    assert asked
    assert client.memory.client
    named = {"client_id": client.memory.client.client_id, "redirect_uri": str(asked[0]), "response_type": "code"}
    whole = {**named, "code_challenge": "x" * 43, "code_challenge_method": "S256", "scope": "read"}
    for query, status in (
        (named, 400),
        ({**whole, "redirect_uri": "http://[127.0.0.1/"}, 400),
        ({**whole, "resource": "https://other.example/mcp"}, 200),
        ({**whole, "redirect_uri": "https://evil.example/"}, 200),
    ):
        answer = page.context.request.get("/identity/o/authorize", params=query, max_redirects=0)
        assert answer.status == status, (query, answer.text())
        assert "Let it in" not in answer.text()
