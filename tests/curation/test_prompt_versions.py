"""Prompts in the database: versions never change, one of them is used, and the built-in text is the default."""

import threading
from dataclasses import replace

import psycopg
import pytest
from django.db import connections

from memoryapp.engine.prompt_registry import built_in, prompts_of_runs
from memoryapp.engine.prompts.prompt import PromptBook, PromptText
from memoryapp.models import AgentCall, ChatUser, Prompt, Run, RunEvent
from memoryapp.platform.database import conninfo
from memoryapp.platform.llm import prompt_versions
from tests.conftest import BEGAN

KEY = ("rerank", "en")


def edited(words: str = "Be brief.", key: tuple[str, str] = KEY) -> PromptText:
    return replace(built_in()[key], system=f"{built_in()[key].system}\n{words}")


async def book() -> PromptBook:
    async with await psycopg.AsyncConnection.connect(conninfo(), autocommit=True) as connection:
        (texts,) = (
            await (
                await connection.execute(f"SELECT {prompt_versions.IN_FORCE}", {"prompts": list(prompts_of_runs())})
            ).fetchone()
            or ()
        )
        return prompt_versions.book(texts)


@pytest.mark.django_db
def test_a_saved_text_is_a_draft_until_it_is_put_in_force() -> None:
    saved = prompt_versions.save(edited(), by="ada", note="shorter", seen=0)
    assert (saved.version, saved.in_force, str(saved)) == (1, False, "rerank-en-1")
    assert prompt_versions.in_force_now() == built_in()
    prompt_versions.put_in_force(KEY, 1, by="ada")
    assert prompt_versions.in_force_now() == {**built_in(), KEY: replace(edited(), version=1)}


@pytest.mark.django_db
def test_each_name_and_language_counts_its_own_versions() -> None:
    prompt_versions.save(edited(), by="ada", seen=0)
    assert prompt_versions.save(edited("Кратко.", ("rerank", "ru")), by="ada", seen=0).version == 1
    assert prompt_versions.save(edited("Shorter."), by="ada", seen=1).version == 2


@pytest.mark.django_db
def test_putting_another_version_in_force_leaves_one_and_zero_leaves_none() -> None:
    for number in range(3):
        prompt_versions.save(edited(f"Take {number}."), by="ada", seen=number)
    for version in (2, 3, 1):
        prompt_versions.put_in_force(KEY, version, by="ada")
        assert [row.version for row in Prompt.objects.filter(in_force=True)] == [version]
    prompt_versions.put_in_force(KEY, 0, by="ada")
    assert prompt_versions.in_force_now() == built_in()


@pytest.mark.django_db
def test_who_put_a_text_in_force_is_kept_also_of_going_back_to_the_built_in_one() -> None:
    def since() -> tuple[int, str] | None:
        in_force = prompt_versions.in_force_since().get(KEY)
        return (in_force.version, in_force.by) if in_force else None

    for number in range(2):
        prompt_versions.save(edited(f"Take {number}."), by="ada", seen=number)
    assert since() is None
    versions = []
    for version, who in ((1, "ada"), (2, "dora"), (0, "omar"), (1, "cora"), (0, "ada")):
        prompt_versions.put_in_force(KEY, version, by=who)
        versions.append(since())
    assert versions == [(1, "ada"), (2, "dora"), (0, "omar"), (1, "cora"), (0, "ada")]
    assert set(prompt_versions.in_force_since()) == {KEY}
    first, second = Prompt.objects.order_by("version")
    assert (first.forced_by, first.replaced_by, second.forced_by, second.replaced_by) == ("cora", "ada", "dora", "omar")
    assert first.forced_at is not None
    assert first.replaced_at is not None
    assert first.forced_at < first.replaced_at


@pytest.mark.django_db
@pytest.mark.parametrize("version", [1, 0], ids=["a-version", "the-built-in-text"])
def test_who_puts_in_force_what_is_in_force_already_changes_nothing(version: int) -> None:
    prompt_versions.save(edited(), by="ada", seen=0)
    prompt_versions.put_in_force(KEY, 1, by="ada")
    prompt_versions.put_in_force(KEY, version, by="ada")
    before = prompt_versions.in_force_since()[KEY]
    prompt_versions.put_in_force(KEY, version, by="dora")
    assert prompt_versions.in_force_since()[KEY] == before


@pytest.mark.django_db
def test_a_text_put_in_force_before_that_was_kept_names_nobody() -> None:
    prompt_versions.save(edited(), by="ada", seen=0)
    Prompt.objects.update(in_force=True)
    assert prompt_versions.in_force_since() == {}
    prompt_versions.put_in_force(KEY, 0, by="dora")
    assert prompt_versions.in_force_since()[KEY].by == "dora"


@pytest.mark.django_db
def test_a_version_that_there_is_not_takes_nothing_out_of_force() -> None:
    prompt_versions.save(edited(), by="ada", seen=0)
    prompt_versions.put_in_force(KEY, 1, by="ada")
    with pytest.raises(Prompt.DoesNotExist):
        prompt_versions.put_in_force(KEY, 9, by="ada")
    assert prompt_versions.in_force_now()[KEY].version == 1


@pytest.mark.django_db
def test_a_broken_text_is_refused_with_sentences_and_not_kept() -> None:
    broken = replace(built_in()[KEY], user="$query costs 5$ and $qurey")
    with pytest.raises(prompt_versions.Faulty) as refused:
        prompt_versions.save(broken, by="ada", seen=0)
    assert len(refused.value.faults) >= 3
    with pytest.raises(prompt_versions.Faulty):
        prompt_versions.draft(broken, by="ada")
    assert not Prompt.objects.exists()


@pytest.mark.django_db
def test_the_second_of_two_editors_sees_the_newer_version() -> None:
    first = prompt_versions.save(edited("Mine."), by="ada", seen=0)
    with pytest.raises(prompt_versions.StaleVersion) as stale:
        prompt_versions.save(edited("And mine."), by="dora", seen=0)
    assert stale.value.newest == first
    assert prompt_versions.save(edited("And mine."), by="dora", seen=first.version).version == 2


@pytest.mark.django_db
def test_a_text_that_is_kept_already_makes_no_version() -> None:
    prompt_versions.save(edited(), by="ada", seen=0)
    with pytest.raises(prompt_versions.Duplicate) as kept:
        prompt_versions.save(edited(), by="ada", seen=1)
    assert kept.value.version == 1
    with pytest.raises(prompt_versions.Duplicate) as kept:
        prompt_versions.save(built_in()[KEY], by="ada", seen=1)
    assert kept.value.version == 0
    assert Prompt.objects.count() == 1


@pytest.mark.django_db
def test_trying_the_same_text_twice_makes_one_draft() -> None:
    first = prompt_versions.draft(edited(), by="dora", note="try")
    assert prompt_versions.draft(edited(), by="ada") == first
    assert prompt_versions.draft(edited("Other."), by="ada").version == 2
    assert not Prompt.objects.filter(in_force=True).exists()


@pytest.mark.django_db
def test_a_book_with_a_draft_differs_in_that_text_alone() -> None:
    drafted = prompt_versions.draft(edited(), by="dora")
    assert prompt_versions.book_with(built_in(), drafted) == {**built_in(), KEY: prompt_versions.text_of(drafted)}
    assert built_in()[KEY].version == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", prompts_of_runs())
async def test_a_run_reads_what_is_in_force_when_it_begins(name: str) -> None:
    assert await book() == built_in()
    async with await psycopg.AsyncConnection.connect(conninfo(), autocommit=True) as connection:
        await connection.execute(
            'INSERT INTO memoryapp_prompt (name, language, version, system, "user", note, made_by, made_at, in_force)'
            " VALUES (%s, 'ru', 3, 'Коротко.', %s, '', 'ada', now(), true)",
            [name, built_in()[name, "ru"].user],
        )
    prompt = (await book())[name, "ru"]
    assert (prompt.label, prompt.system) == (f"{name}-ru-3", "Коротко.")


@pytest.mark.django_db(transaction=True)
async def test_a_text_in_force_that_cannot_be_filled_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    async with await psycopg.AsyncConnection.connect(conninfo(), autocommit=True) as connection:
        await connection.execute(
            'INSERT INTO memoryapp_prompt (name, language, version, system, "user", note, made_by, made_at, in_force)'
            " VALUES ('rerank', 'en', 1, 'old', 'no variable', '', 'ada', now(), true)"
        )
    assert await book() == built_in()
    assert "rerank-en-1 is in force but cannot be used" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_drafts_made_at_the_same_moment_get_numbers_of_their_own() -> None:
    together = threading.Barrier(6)

    def make(words: str) -> None:
        try:
            together.wait()
            prompt_versions.draft(edited(words), by="dora")
        finally:
            connections.close_all()

    threads = [threading.Thread(target=make, args=(f"Take {number}.",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(Prompt.objects.values_list("version", flat=True)) == [1, 2, 3, 4, 5, 6]


def test_runs_are_counted_by_the_label_of_their_prompt(anna: ChatUser, boris: ChatUser) -> None:
    for owner, label in ((anna, "rerank-en-1"), (anna, "rerank-en-1"), (anna, ""), (boris, "rerank-en-1")):
        run = Run.objects.create(owner=owner, query="q", strategy="flash", prompt_version=label)
        payload = {"prompt_version": "enrich-en-0"}
        RunEvent.objects.create(owner=owner, run=run, seq=1, kind="query_enriched", at=BEGAN, payload=payload)
        AgentCall.objects.create(owner=owner, agent="merger", prompt_version="merge-en-0")
    used = prompt_versions.used_lately(ChatUser.objects.filter(pk=anna.pk))
    assert used == {"rerank-en-1": 2, "enrich-en-0": 3, "merge-en-0": 3}
