"""The Russian interface: complete, with the placeholders of its source, compiled, and shown; nothing left that was
removed."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import polib
import pytest
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.test import Client
from django.utils import translation
from django.utils.dateformat import format as dated
from django.utils.translation import ngettext
from django.utils.translation.template import templatize

from memoryapp.curation.change import too_many_people, too_many_topics
from memoryapp.engine.beside import table_beside
from memoryapp.engine.events import RunFinished, to_payload
from memoryapp.engine.notes import ENGLISH, INSTEAD
from memoryapp.models import ApiToken, ChatUser, ImportBatch, KnowledgeEdit, Operator, Run, RunEvent, Suggestion
from rerankui.runs.consumers import RunConsumer
from rerankui.runs.page.outcomes import FOR_PEOPLE
from tests.house.test_architecture import ROOT, modules, tree
from tests.support.clock import PATIENCE

CATALOGUE = ROOT / "rerankui/locale/ru/LC_MESSAGES/django.po"
WITH_CONTEXT = {"pgettext", "npgettext"}
FUNCTIONS = {"_", "gettext", "gettext_lazy", "gettext_noop", "ngettext", *WITH_CONTEXT}
CALL = re.compile(r"\b(_|gettext|ngettext|pgettext|npgettext)\((?=u?['\"])")
# Modules with words in the file beside them: these keys are texts, and these groups hold nothing else.
WORDED = [
    *(ROOT / "memoryapp/upkeep/pipeline").glob("*.toml"),
    *(ROOT / "memoryapp" / name for name in ("upkeep/watches.toml", "platform/caps.toml")),
    *(ROOT / "rerankui" / name for name in ("account/webhooks.toml", "views/memory_settings.toml")),
]
TEXTS = {
    *("label", "help", "trouble", "never", "advice", "name", "when", "test"),
    *("does", "with_model", "without_model"),
}
GROUPS = {"names", "faults", "off", "sentences"}
# Notes are written in English where they are made, and translated where pages show them.
NOTES = [*INSTEAD.values(), *(text for code, text in ENGLISH.items() if code not in FOR_PEOPLE)]


def text_of(function: str, arguments: Sequence[ast.expr]) -> tuple[str, str] | None:
    """Returns context and text; None if an argument is no literal."""
    count = 1 + (function in WITH_CONTEXT)
    literals = [each.value for each in arguments[:count] if isinstance(each, ast.Constant)]
    if len(literals) < count:
        return None
    return (literals[0], literals[1]) if function in WITH_CONTEXT else ("", literals[0])


def in_module(path: Path) -> Iterator[tuple[str, str] | None]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id.removesuffix("_lazy")
            if name in FUNCTIONS:
                yield text_of(name, node.args)


def in_template(path: Path) -> Iterator[tuple[str, str] | None]:
    """Returns the template as Django prepares it for gettext: a text with translations as calls in Python."""
    source = templatize(path.read_text(encoding="utf-8"))
    for found in CALL.finditer(source):
        yield text_of(found[1], arguments_at(source, found.end()))


def in_table(table: Mapping[str, Any], *, is_words: bool = False) -> Iterator[tuple[str, str]]:
    """The words in the file beside a module; of stages they have a context."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from in_table(value, is_words=is_words or key in GROUPS)
        elif key == "waits":
            yield "waiting", value[0]
        elif is_words or key in TEXTS:
            yield ("stage" if "waits" in table and key == "name" else ""), value


def arguments_at(source: str, start: int) -> list[ast.expr]:
    """Returns the arguments of the call whose opening bracket ends at ``start``."""
    for end in re.finditer(r"\)", source[start:]):
        try:
            call = ast.parse(f"f({source[start : start + end.end()]}", mode="eval").body
        except SyntaxError:
            continue
        assert isinstance(call, ast.Call)
        return call.args
    raise AssertionError(source[start : start + 80])


def test_the_catalogue_holds_the_texts_of_the_sources_and_no_others() -> None:
    python = [*modules("memoryapp"), *modules("rerankui")]
    found = [each for path in python for each in in_module(path)]
    found += [each for path in (ROOT / "templates").rglob("*.html") for each in in_template(path)]
    found += [
        ("", text) for text in (*INSTEAD.values(), *(ENGLISH[code] for code in ENGLISH.keys() - FOR_PEOPLE.keys()))
    ]
    found += [each for path in WORDED for each in in_table(table_beside(str(path)))]
    entries = {(entry.msgctxt or "", entry.msgid) for entry in polib.pofile(str(CATALOGUE))}
    assert sorted({each for each in found if each} ^ entries) == []


# The Russian interface: complete, with the placeholders of its source, compiled, and shown.


TRANSLATIONS_CATALOGUE = Path(settings.LOCALE_PATHS[0]) / "ru" / "LC_MESSAGES" / "django.po"
FORMS = 4
PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|\{\w*\}")
Entry = tuple[str | None, str, str]


@pytest.fixture(scope="module")
def catalogue() -> polib.POFile:
    return polib.pofile(str(TRANSLATIONS_CATALOGUE))


def written(entry: polib.POEntry) -> list[str]:
    """Returns every Russian text of an entry: one, or one for each plural form."""
    return list(entry.msgstr_plural.values()) if entry.msgid_plural else [entry.msgstr]


def placeholders(text: str) -> list[str]:
    return sorted(set(PLACEHOLDER.findall(text)))


def by_source(entries: list[polib.POEntry]) -> dict[Entry, list[str]]:
    return {(entry.msgctxt or None, entry.msgid, entry.msgid_plural): written(entry) for entry in entries}


def test_every_text_is_translated_and_none_is_a_guess(catalogue: polib.POFile) -> None:
    assert [entry.msgid for entry in catalogue if entry.fuzzy or entry.obsolete] == []
    assert [entry.msgid for entry in catalogue if not all(text.strip() for text in written(entry))] == []


def test_every_plural_has_all_its_forms(catalogue: polib.POFile) -> None:
    plurals = [entry for entry in catalogue if entry.msgid_plural]
    assert plurals
    assert [entry.msgid for entry in plurals if sorted(entry.msgstr_plural) != list(range(FORMS))] == []


def test_a_translation_fills_in_what_its_source_does(catalogue: polib.POFile) -> None:
    """The form for one is also used for twenty-one, so it contains the number even where English has none."""
    differing = [
        (entry.msgid, text)
        for entry in catalogue
        for text in written(entry)
        if placeholders(text) != placeholders(entry.msgid_plural or entry.msgid)
    ]
    assert differing == []


def test_a_translation_keeps_the_tags_of_its_source(catalogue: polib.POFile) -> None:
    tag = re.compile(r"<[^>]+>")
    differing = [e.msgid for e in catalogue for text in written(e) if tag.findall(text) != tag.findall(e.msgid)]
    assert differing == []


def test_the_compiled_catalogue_holds_what_its_source_says(catalogue: polib.POFile) -> None:
    compiled = polib.mofile(str(TRANSLATIONS_CATALOGUE.with_suffix(".mo")))
    assert by_source(list(compiled)) == by_source(list(catalogue))


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1, "1 минуту назад"),
        (2, "2 минуты назад"),
        (5, "5 минут назад"),
        (11, "11 минут назад"),
        (21, "21 минуту назад"),
        (104, "104 минуты назад"),
    ],
)
def test_russian_counts_as_russians_do(count: int, words: str) -> None:
    with translation.override("ru"):
        assert ngettext("%(n)d minute ago", "%(n)d minutes ago", count) % {"n": count} == words


@pytest.mark.parametrize(
    ("most", "topics", "people"),
    [(1, "1 топика", "1 человека"), (3, "3 топиков", "3 человек"), (21, "21 топика", "21 человека")],
)
def test_a_bound_has_the_plural_form_of_its_number(most: int, topics: str, people: str) -> None:
    with translation.override("ru"):
        assert str(too_many_topics(most)) == f"За один раз можно изменить не больше {topics}."
        assert str(too_many_people(most)) == f"За один раз можно объединить не больше {people}."
    with translation.override("en"):
        assert str(too_many_topics(most)) == f"At most {most} topic{'s' * (most > 1)} can be changed at once."


def test_what_a_token_may_is_not_the_month() -> None:
    """Texts without a context share one catalogue with Django's own, where “may” is short for the month."""
    with translation.override("ru"):
        assert dated(date(2026, 5, 9), "M") == "Май"
        assert ApiToken._meta.get_field("scopes").verbose_name == "права"


def test_words_with_two_meanings_are_distinguished() -> None:
    with translation.override("ru"):
        assert ImportBatch._meta.get_field("added").verbose_name == "добавлено"
        assert KnowledgeEdit.Kind.CREATE.label == "добавление"
        assert Suggestion.Kind.MERGE.label == "объединение"


def test_a_browser_that_prefers_russian_is_met_in_russian(client: Client, db: None) -> None:
    page = client.get("/login/", headers={"accept-language": "ru-RU,ru;q=0.9,en;q=0.5"}).content.decode()
    assert '<html lang="ru"' in page
    assert "Войти" in page
    assert "Sign in" not in page


def test_a_language_nobody_translated_gives_english(client: Client, db: None) -> None:
    page = client.get("/login/", headers={"accept-language": "fi"}).content.decode()
    assert '<html lang="en"' in page
    assert "Sign in" in page


@pytest.fixture
def timed_out(anna: ChatUser) -> Run:
    run = Run.objects.create(owner=anna, query="vllm?", strategy="flash", state="finished", fallback="timeout")
    event = RunFinished((), (), "timeout", "")
    RunEvent.objects.create(owner=anna, run=run, seq=1, kind=event.kind, at=run.created_at, payload=to_payload(event))
    return run


def test_a_run_is_shown_in_the_chosen_language(timed_out: Run, as_viewer: Client) -> None:
    as_viewer.cookies[settings.LANGUAGE_COOKIE_NAME] = "ru"
    page = as_viewer.get(f"/runs/{timed_out.pk}/", headers={"accept-language": "en"}).content.decode()
    assert "Кандидаты" in page
    assert "Время запуска вышло раньше, чем модель сделала выбор." in page
    assert "timeout" in as_viewer.get("/runs/").content.decode()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
@pytest.mark.parametrize(
    ("headers", "cookies", "title"),
    [
        ([(b"accept-language", b"ru-RU,ru;q=0.9")], {}, "Кандидаты"),
        ([(b"accept-language", b"en")], {settings.LANGUAGE_COOKIE_NAME: "ru"}, "Кандидаты"),
        ([(b"accept-language", b"ru")], {settings.LANGUAGE_COOKIE_NAME: "en"}, "Candidates"),
        ([], {}, "Candidates"),
    ],
)
async def test_the_socket_speaks_the_language_of_its_page(
    timed_out: Run, viewer: Operator, headers: list[Any], cookies: dict[str, str], title: str
) -> None:
    socket = WebsocketCommunicator(RunConsumer.as_asgi(), f"/ws/runs/{timed_out.pk}/", headers=headers)
    socket.scope |= {"user": viewer.user, "cookies": cookies, "url_route": {"args": (), "kwargs": {"pk": timed_out.pk}}}
    await socket.connect(timeout=PATIENCE)
    assert title in await socket.receive_from(timeout=PATIENCE)
    await socket.disconnect(timeout=PATIENCE)


@pytest.mark.parametrize(
    ("usual", "other"),
    [
        ("топик", r"\bтем(?:ой|ами|ах|ам)\b"),
        ("запуск", r"\bпрогон"),
        ("фоновый процесс", r"\bворкер|\bисполнител|рабоч(?:ий|его|ему) процесс"),
        ("объединение", r"\bслияни"),
    ],
)
def test_a_thing_has_one_word_in_russian(catalogue: polib.POFile, usual: str, other: str) -> None:
    texts = [text for entry in catalogue for text in (entry.msgstr, *entry.msgstr_plural.values())]
    assert any(usual in text for text in texts)
    assert [text for text in texts if re.search(other, text.casefold())] == []
