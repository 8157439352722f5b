"""Settings: what environment variables, models' settings and commands' arguments mean, and that a wrong value is a
sentence."""

import inspect
import logging
import os
import re
import runpy
import string
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.core.management import CommandError, call_command
from django.utils.module_loading import import_string
from kombu import Connection

from memoryapp import settings as module
from memoryapp.engine.chat.protocol import Reply
from memoryapp.platform import environment
from memoryapp.platform.embedded import command_line
from memoryapp.platform.environment import SettingError
from memoryapp.platform.llm import clients
from memoryapp.platform.logs import JsonFormatter, LineFormatter
from memoryapp.runs.parameters import all_declarations
from tests.engine.endpoint import FREE, PLAIN, Endpoint, error, says
from tests.engine.scripted import collect
from tests.examples import table
from tests.support import forked
from tests.support.stack import CHECKOUT

NEUTRAL = {
    "DATABASE_URL": "postgresql://someone@/memory",
    "SECRET_KEY": "known-only-to-this-test-and-long-enough",
    "PATH": "/usr/bin:/bin",
}
TIMEOUTS = {"RERANKER_TIMEOUT": "seconds", "RERANKER_TURN_TIMEOUT": "turn_seconds"}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns the settings under these variables and no others."""

    def settings(**variables: str) -> dict[str, Any]:
        monkeypatch.setattr("os.environ", {**NEUTRAL, **variables})
        return runpy.run_path(str(module.__file__))

    return settings


def test_a_secret_may_come_from_a_file(read: Any, tmp_path: Path) -> None:
    """As the image of PostgreSQL and others take them: https://docs.docker.com/compose/how-tos/use-secrets/."""
    file = tmp_path / "key"
    file.write_text("sk-of-a-file\n")
    named = {"LLM_API_KEY_FILE": str(file)}
    assert read(**named)["LLM_API_KEY"] == "sk-of-a-file"
    assert read(**named, LLM_API_KEY="sk-of-the-variable")["LLM_API_KEY"] == "sk-of-the-variable"
    assert read(LLM_MODEL_FILE=str(file))["LLM_MODEL"] == "google/gemini-3-flash-preview"
    file.write_text("short")
    with pytest.raises(SettingError, match="SECRET_KEY must have at least 32") as short:
        read(SECRET_KEY="", SECRET_KEY_FILE=str(file))
    assert "short" not in str(short.value)
    for content, sentence in ((b" \n", "is empty"), (b"\xff\xfe", "no text"), (None, "No such file")):
        file.unlink()
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(SettingError, match=f"LLM_API_KEY_FILE must be a file .*{sentence}"):
            read(**named)
        file.touch()


def test_a_missing_folder_of_metrics_is_made_and_one_that_cannot_be_is_named(read: Any, tmp_path: Path) -> None:
    read(PROMETHEUS_MULTIPROC_DIR=str(tmp_path / "a" / "metrics"))
    assert (tmp_path / "a" / "metrics").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(SettingError, match="PROMETHEUS_MULTIPROC_DIR must be a folder"):
        read(PROMETHEUS_MULTIPROC_DIR=str(tmp_path / "file"))


def test_the_data_folder_is_closed_also_beside_a_database_elsewhere(tmp_path: Path) -> None:
    """Other accounts of the machine could read files and uploads; the embedded database closes its own folder."""
    missing, opened = tmp_path / "missing", tmp_path / "opened"
    opened.mkdir(mode=0o755)
    for folder in (missing, opened):
        environment = {**NEUTRAL, "DATA_DIR": str(folder), "DJANGO_SETTINGS_MODULE": "memoryapp.settings"}
        subprocess.run(
            [sys.executable, "-c", "import django; django.setup()"], env=environment, cwd=CHECKOUT, check=True
        )
        assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(("name", "value", "words"), table("wrong_settings"))
def test_a_wrong_value_is_a_sentence_that_names_its_setting(read: Any, name: str, value: str, words: str) -> None:
    with pytest.raises(SettingError) as refused:
        read(**{name: value})
    sentence = str(refused.value)
    assert sentence.startswith(f"{name} ")
    assert words in sentence
    assert "\n" not in sentence.strip()


def test_a_sentence_about_an_address_keeps_its_password(read: Any) -> None:
    with pytest.raises(SettingError, match="rabbit://…@host/") as refused:
        read(CELERY_BROKER_URL="rabbit://me:secret@host/")
    assert "secret" not in str(refused.value)


SECRET = "s3cr3t"


@pytest.mark.parametrize(
    "address",
    [
        f"postgres//me:{SECRET}@host/db",
        f"postgresql://me:{SECRET}@host/db?{SECRET}",
        f"postgresql://me:a@{SECRET}@host/db",
        f"postgresql://me:{SECRET}/more@host/db",
        f"host=x password={SECRET} {SECRET}",
        f"postgresql://me:{SECRET}@[::1/db",
    ],
)
def test_a_wrong_database_address_shows_no_piece_of_its_password(read: Any, address: str) -> None:
    with pytest.raises(SettingError, match="DATABASE_URL") as refused:
        read(DATABASE_URL=address)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("url", [f"http://me:{SECRET}@host/v1", f"redis://:{SECRET}/a@b@host:1/0"])
def test_the_log_shows_no_password_of_an_address(url: str) -> None:
    for formatter in (LineFormatter(), JsonFormatter()):
        try:
            raise OSError(f"{url} and password={SECRET} do not answer")
        except OSError:
            record = logging.LogRecord("httpx", logging.INFO, "", 1, "HTTP Request: POST %s", (url,), sys.exc_info())
        record.run = ""
        line = formatter.format(record)
        assert SECRET not in line
        assert "…@host" in line


@pytest.mark.processes
def test_the_printed_settings_hold_neither_keys_nor_passwords() -> None:
    addresses = {"DATABASE_URL": "postgresql", "REDIS_URL": "redis", "LLM_BASE_URL": "http"}
    given = {name: f"{scheme}://me:{SECRET}@host:1/x" for name, scheme in addresses.items()}
    keys = {"SECRET_KEY": f"{SECRET}-which-is-long-enough-for-a-key", "LLM_API_KEY": f"sk-{SECRET}"}
    done = forked.run([forked.MANAGE, "diffsettings", "--all"], {**os.environ, **given, **keys})
    assert "LLM_BASE_URL = 'http://…@host:1/x'" in done.stdout
    assert "ROOT_URLCONF = 'rerankui.urls'" in done.stdout
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize(("name", "parameter"), TIMEOUTS.items())
def test_a_timeout_may_be_what_a_run_may_ask_for(read: Any, name: str, parameter: str) -> None:
    least, most = all_declarations()[parameter].least, all_declarations()[parameter].most
    assert [read(**{name: f"{value}s"})[name] for value in (least, most)] == [least, most]
    for value in (least / 2, most + 1):
        with pytest.raises(SettingError, match=name):
            read(**{name: f"{value}s"})


@pytest.mark.parametrize(("name", "value", "meant"), table("right_settings"))
def test_a_right_value_is_understood(read: Any, name: str, value: str, meant: object) -> None:
    assert read(**{name: value})[name] == meant


def test_the_chat_model_is_streamed_and_thinks_little_unless_told_otherwise(read: Any) -> None:
    settings = read()
    assert (settings["LLM_STREAM"], settings["LLM_REASONING_EFFORT"], settings["LLM_PROVIDER"]) == (True, "low", {})


def test_a_cross_encoder_is_off_unless_it_has_an_address(read: Any) -> None:
    assert (read()["RERANK_BASE_URL"], read()["RERANK_TOP_N"]) == ("", 40)
    given = read(RERANK_BASE_URL="http://localhost:8080", RERANK_MODEL="m", LLM_API_KEY="secret")
    assert (given["RERANK_BASE_URL"], given["RERANK_MODEL"], given["RERANK_API_KEY"]) == (
        "http://localhost:8080",
        "m",
        "",
    )


def test_a_key_goes_to_no_host_but_the_one_it_was_given_for(read: Any) -> None:
    ollama = "http://localhost:11434/v1"
    assert read(LLM_API_KEY="secret", EMBEDDING_BASE_URL=ollama)["EMBEDDING_API_KEY"] == ""
    own = {"EMBEDDING_BASE_URL": ollama, "EMBEDDING_API_KEY": "other"}
    assert read(LLM_API_KEY="secret", **own)["EMBEDDING_API_KEY"] == "other"
    shared = {"LLM_BASE_URL": "https://api.example/v1", "EMBEDDING_BASE_URL": "https://api.example/embed"}
    assert read(LLM_API_KEY="secret", **shared)["EMBEDDING_API_KEY"] == "secret"
    openrouter = read(LLM_API_KEY="secret", EMBEDDING_BASE_URL="https://openrouter.ai/api/v1")
    assert openrouter["EMBEDDING_API_KEY"] == "secret"


def test_tests_run_beside_a_database_and_never_in_it_unless_it_is_a_throwaway_one(read: Any) -> None:
    """Test runners drop the database in which they run."""
    assert read()["DATABASES"]["default"].get("TEST", {}).get("NAME") is None
    thrown_away = read(MNEMOSCOPE_THROWAWAY="1")["DATABASES"]["default"]
    assert thrown_away["TEST"]["NAME"] == thrown_away["NAME"] == "memory"


def test_one_redis_serves_as_channel_layer_and_broker_with_what_is_installed(read: Any) -> None:
    settings = read(REDIS_URL="redis://localhost:1/0")
    layer = settings["CHANNEL_LAYERS"]["default"]
    import_string(layer["BACKEND"])(**layer["CONFIG"])
    with Connection(settings["CELERY_BROKER_URL"]) as broker:
        assert import_module(type(broker.transport).__module__).redis


@pytest.mark.processes
def test_a_command_with_a_wrong_setting_says_one_sentence_and_fails() -> None:
    done = forked.run([forked.MANAGE, "check"], {**NEUTRAL, "LLM_BASE_URL": "localhost:11434/v1"})
    sentence = "LLM_BASE_URL must be an address that begins with http:// or https://, not 'localhost:11434/v1'.\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", sentence)


@pytest.mark.processes
def test_secure_cookies_are_for_a_proxy_with_tls_and_the_check_for_deployment_is_clean(read: Any) -> None:
    settings = read(SECURE_COOKIES="on")
    assert settings["SECURE_PROXY_SSL_HEADER"] == ("HTTP_X_FORWARDED_PROTO", "https")
    assert settings["SECURE_SSL_REDIRECT"]
    assert settings["SECURE_HSTS_SECONDS"] > 0
    assert read()["SECURE_PROXY_SSL_HEADER"] is None
    secure = {**NEUTRAL, "SECURE_COOKIES": "on", "SECRET_KEY": string.ascii_letters}
    done = forked.run([forked.MANAGE, "check", "--deploy", "--fail-level", "WARNING"], secure)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("given", "prefix"),
    [
        ("query:", "query: "),
        (" query: ", "query: "),
        ("Find:\\nQuery:", "Find:\nQuery: "),
        ("for search", "for search"),
    ],
)
def test_a_prefix_has_a_space_after_its_colon_which_files_and_shells_lose(read: Any, given: str, prefix: str) -> None:
    assert read(EMBEDDING_PASSAGE_PREFIX=given)["EMBEDDING_PASSAGE_PREFIX"] == prefix


# docs/settings.md has every setting that the program reads, with its default and its bounds, and no other.


PAGE = (CHECKOUT / "docs" / "settings.md").read_text(encoding="utf-8")
CELLS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| `")]
ROWS = {name.strip("`"): (default, bounds) for name, default, bounds, _meaning in CELLS}
READERS = (
    *("text", "secret", "whole", "number", "switch", "choice", "choice_or_nothing", "mapping", "names", "rate"),
    *("address", "addresses", "seconds", "choices"),
)
READ_IN_CODE = re.compile(r'\benvironment\.\w+\(\s*"([A-Z_]+)"')
# Variables that are read outside of the module of settings.
DIRECT = {"DATA_DIR", "PROMETHEUS_MULTIPROC_DIR"}
# Set by the tests for the processes that they start.
INTERNAL = {"MNEMOSCOPE_THROWAWAY"}
NO_LIMIT = 10**9
Read = tuple[str, dict[str, Any]]


@pytest.fixture
def read_defaults(monkeypatch: pytest.MonkeyPatch) -> dict[str, Read]:
    """Returns the function that reads each setting, and the function's arguments."""
    found: dict[str, Read] = {}

    def recorded(kind: str, reader: Callable[..., Any]) -> Callable[..., Any]:
        def record(*given: Any, **named: Any) -> Any:
            arguments = inspect.signature(reader).bind(*given, **named)
            arguments.apply_defaults()
            # A function that reads a setting may call another one for the same setting.
            found.setdefault(arguments.arguments["name"], (kind, arguments.arguments))
            return reader(*given, **named)

        return record

    for kind in READERS:
        monkeypatch.setattr(environment, kind, recorded(kind, getattr(environment, kind)))
    monkeypatch.setattr("os.environ", {"SECRET_KEY": "known-only-to-this-test-and-long-enough"})
    runpy.run_path(str(module.__file__))
    return {name: how for name, how in found.items() if name not in INTERNAL}


def test_every_setting_is_on_the_page_and_the_page_has_no_other(read_defaults: dict[str, Read]) -> None:
    sources = (path.read_text(encoding="utf-8") for path in (CHECKOUT / "memoryapp").rglob("*.py"))
    elsewhere = {name for source in sources for name in READ_IN_CODE.findall(source)}
    assert ROWS.keys() == read_defaults.keys() | elsewhere | DIRECT


def test_the_page_has_the_defaults(read_defaults: dict[str, Read]) -> None:
    written = {name: default.strip("`") for name, (default, _bounds) in ROWS.items() if default.startswith("`")}
    simple = {name: default for name, default in written.items() if name in read_defaults and "`" not in default}
    assert {
        name: default for name, default in simple.items() if default not in (*ROWS, default_of(*read_defaults[name]))
    } == {}


def default_of(kind: str, arguments: dict[str, Any]) -> str:
    if kind == "mapping":
        return "{}"
    default = arguments["default"]
    return str(default).lower() if kind == "switch" else str(default).replace(".0s", "s")


def test_the_page_has_the_bounds(read_defaults: dict[str, Read]) -> None:
    expected = {name: bounds_of(kind, arguments) for name, (kind, arguments) in read_defaults.items()}
    assert {name: ROWS[name][1] for name in expected if ROWS[name][1] != expected[name]} == {}


def bounds_of(kind: str, arguments: dict[str, Any]) -> str:
    if kind == "secret":
        return f"at least {arguments['least']} characters"
    if options := arguments.get("options"):
        return ", ".join(f"`{option}`" for option in options) + (", or empty" if kind == "choice_or_nothing" else "")
    if "most" not in arguments:
        return ""
    unit = " s" if kind == "seconds" else ""
    least, most = arguments["least"], arguments["most"]
    return f"at least {least}{unit}" if most == NO_LIMIT else f"{least}–{most}{unit}"


def test_no_setting_of_a_person_reaches_the_tests() -> None:
    cleared = command_line._SETTINGS
    kept = {name for name in ROWS if name not in cleared and not name.startswith(command_line._FAMILIES)}
    assert kept <= {"PROMETHEUS_MULTIPROC_DIR"}


# The arguments of commands, as people type them.


NOT_UTF8 = os.fsdecode(b"an\xffna")


@pytest.mark.parametrize(
    "arguments",
    [
        ("archive", "--user", NOT_UTF8),
        ("check_memory", "--user", NOT_UTF8),
        ("create_token", "reader", "--scope", "read", "--user", NOT_UTF8),
        ("erase_user", NOT_UTF8, "--yes"),
        ("evaluate", "questions.jsonl", "--user", NOT_UTF8),
        ("export_user", NOT_UTF8, "-"),
        ("import_chat", "chat.json", "--me", NOT_UTF8),
        ("judged_questions", "--user", NOT_UTF8),
        ("recall", "bread", "--user", NOT_UTF8),
        ("recall", "bread", "--user", "anna", "--set", f"author={NOT_UTF8}"),
        ("undo_night", NOT_UTF8),
    ],
    ids=" ".join,
)
def test_a_name_that_is_no_text_is_refused_in_a_sentence(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match="is not UTF-8 text"):
        call_command(*arguments)


# The chat model as the settings define it.


@pytest.fixture
def endpoint(settings: Any) -> Endpoint:
    settings.LLM_BASE_URL, settings.LLM_API_KEY = "https://models.example/v1", "secret-key"
    clients._learnt.cache_clear()
    return Endpoint(says("{}"))


def transport(endpoint: Endpoint) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.MockTransport(endpoint))


async def test_every_setting_of_the_chat_model_reaches_the_endpoint(endpoint: Endpoint, settings: Any) -> None:
    settings.LLM_REASONING_EFFORT = "high"
    settings.LLM_RESPONSE_HEALING = True
    settings.LLM_PROVIDER = {"sort": "latency"}
    settings.LLM_FALLBACK_MODELS = ["acme/pro"]
    async with transport(endpoint) as http:
        chat = clients.chat(http, "acme/flash")
        await collect(chat.converse(FREE))
        await collect(chat.converse(PLAIN))
    healed, streamed = endpoint.bodies
    assert (healed["reasoning"], healed["provider"]) == ({"effort": "high"}, {"sort": "latency"})
    assert (healed["models"], healed["plugins"]) == (["acme/pro"], [{"id": "response-healing"}])
    assert streamed["stream"] is True


async def test_streaming_can_be_switched_off(endpoint: Endpoint, settings: Any) -> None:
    settings.LLM_STREAM = False
    async with transport(endpoint) as http:
        await collect(clients.chat(http, "acme/flash").converse(PLAIN))
    assert "stream" not in endpoint.bodies[0]


async def test_what_a_model_cannot_do_is_found_out_once_by_whoever_asks_first(
    endpoint: Endpoint, settings: Any
) -> None:
    settings.LLM_STREAM = False
    strict = Endpoint(lambda sent: error(400, "reasoning is unsupported") if "reasoning" in sent else says("hi"))
    async with transport(strict) as http:
        steps, again = [await collect(clients.chat(http, "acme/flash").converse(PLAIN)) for _ in range(2)]
        other = await collect(clients.chat(http, "acme/pro").converse(PLAIN))
    assert (len(steps), len(again), len(other)) == (2, 1, 2)
    assert isinstance(again[0], Reply)
    limitations = [(one.host, one.model, one.step.capability) for one in clients.limitations()]
    assert limitations == [("models.example", name, "reasoning effort") for name in ("acme/flash", "acme/pro")]
