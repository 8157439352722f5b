"""Questions to stored runs: what was meant, the memory of that time and of today, and one story on every screen."""

import html
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from asgiref.sync import sync_to_async
from django.core.management import CommandError, call_command
from django.test import Client

from memoryapp import curation
from memoryapp.doors.api.access import written
from memoryapp.doors.api.shapes.runs import WhyNotAnswer
from memoryapp.engine.chat.protocol import ChatRequest, Reply
from memoryapp.insight.browsing.topics import topic_counts
from memoryapp.insight.explain import WhyNotError, why_not
from memoryapp.insight.explain.fate import Story, fate
from memoryapp.insight.explain.why_not import story_of
from memoryapp.models import ChatUser, EmbeddingProfile, Person, Run, Topic, TopicEdit
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs import followers, forks, lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.search.vectors import embed_pending
from rerankui.runs import fragments
from rerankui.runs.page import waterfall
from tests.conftest import fact_of, talk
from tests.explain.planted import ByPlace, Memory, executed, seeded

pytestmark = pytest.mark.django_db(transaction=True)

# What a row says of a candidate, and the stages that may be told of it.
ONE_STORY = {
    "chosen": {"chosen"},
    "dropped": {"not_chosen", "beyond_limit"},
    "": {"not_requested", "beyond_candidates", "below_threshold"},
    "top_k": {"cut"},
    "threshold": {"cut"},
    "gap": {"cut"},
    "initial": {"cut"},
}


def merge(owner: ChatUser, *topics: Topic) -> None:
    change = curation.plan_merge(owner, [topic.pk for topic in topics])
    curation.swap(owner, change, kind=TopicEdit.Kind.MERGE, actor="ada")


@pytest.fixture
async def memory() -> Memory:
    made = await sync_to_async(seeded)(3)
    await embed_pending(offline_embedder())
    await EmbeddingProfile.objects.aupdate(threshold=0.97)
    return made


@pytest.fixture
async def run(memory: Memory) -> Run:
    return await executed(memory.owner, chat=ByPlace((0, 1, 2), (0, 1)), parameters={"candidates": 5, "max_topics": 1})


async def test_rows_and_explanations_tell_one_story(memory: Memory, run: Run) -> None:
    cuts = {"initial_threshold": 0.0, "threshold": 0.1, "score_gap": 0.5, "final_top_k": 1}
    filtered = await executed(memory.owner, strategy="filter", parameters=cuts)

    def compared() -> None:
        for each in (run, filtered):
            stored = followers.stored(each.pk)
            states = fragments.states(fragments.event_views(stored))
            for topic in (*memory.garden, *memory.other):
                id = f"Topic:{topic.pk}"
                assert why_not(each, topic=id).stage in ONE_STORY[states.get(id, "")]

    await sync_to_async(compared)()


async def test_what_an_answer_read_counts_as_read_wherever_the_run_is_told(memory: Memory) -> None:
    """Passages are found by themselves, also those of topics behind the last one that is shown."""
    run = await executed(memory.owner, strategy="react", parameters={"candidates": 1})

    def compared() -> None:
        page = fragments.run_page(run, followers.stored(run.pk))
        assert page.found
        assert page.finished
        assert len(page.finished.dropped) > 1
        counted = {name: count for name, _words, count in waterfall.counts(page.found.candidates, page.states)}
        assert counted["dropped"] == len(page.finished.dropped)
        assert counted["chosen"] == len(page.finished.selected)
        for id in page.finished.dropped:
            assert why_not(run, topic=id).stage in {"beyond_limit", "did_not_fit"}
        counts = topic_counts(memory.owner.pk, [topic.pk for topic in memory.garden])
        read = {*page.finished.dropped, *(each.id for each in page.finished.selected)}
        assert {f"Topic:{number}" for number, each in counts.items() if each.read} == read & {
            f"Topic:{topic.pk}" for topic in memory.garden
        }

    await sync_to_async(compared)()


async def test_what_an_answer_read_beyond_the_ranked_topics_is_explained_as_read(memory: Memory) -> None:
    """The page keeps the first ranks alone, and passages are found by themselves."""
    run = await executed(memory.owner, strategy="react", parameters={"candidates": 1})

    def compared() -> None:
        story = story_of(run)
        assert story.found
        assert story.finished
        unused = story.finished.dropped[-1]
        told = fate(story, unused, threshold=0.0, texts=tuple)
        few = replace(story.found, candidates=[each for each in story.found.candidates if each.id != unused])
        stored = [replace(each, event=few) if each.event is story.found else each for each in story.stored]
        unranked = fate(Story(run, stored, story.parameters), unused, threshold=0.0, texts=tuple)
        assert told
        assert unranked
        assert (unranked.stage, unranked.case) == (told.stage, told.case)
        assert "rank" not in unranked.numbers

    await sync_to_async(compared)()


async def test_where_the_embedded_scorer_chose_its_reason_is_told(memory: Memory) -> None:
    """Nobody reads that "the model" did not choose something where no model was asked."""
    run = await executed(memory.owner, query=f"{memory.subjects[0]} in the garden")

    def compared() -> None:
        story = story_of(run)
        assert story.finished
        (kept, *_more), lost = story.finished.selected, story.finished.dropped
        written = dict(re.findall(r"(Topic:\d+) (\d\.\d\d)", story.outline.replies[-1].reasoning))
        near, far = why_not(run, topic=lost[0]), why_not(run, topic=lost[-1])
        assert (near.numbers["chance"], near.numbers["least"]) == (float(written[lost[0]]), float(written[kept.id]))
        assert near.sentence.startswith(f"The embedded scorer read {lost[0]} and did not keep it")
        assert far.numbers["least"] == near.numbers["least"]
        assert "no chat model was connected" in far.sentence

    await sync_to_async(compared)()


async def test_a_topic_made_after_the_run_is_explained_by_those_that_held_its_messages(
    memory: Memory, run: Run
) -> None:
    one, other = memory.other

    def merged() -> Topic:
        merge(memory.owner, one, other)
        return Topic.objects.of(memory.owner).live().latest("pk")

    new = await sync_to_async(merged)()
    found = await sync_to_async(why_not)(run, topic=f"Topic:{new.pk}")
    assert found.stage == "below_threshold"
    assert found.topic in (f"Topic:{one.pk}", f"Topic:{other.pk}")
    assert found.now == (f"Topic:{new.pk}",)
    assert f"Topic:{new.pk} was not live then" in found.sentence
    retired = await sync_to_async(why_not)(run, topic=f"Topic:{one.pk}")
    assert (retired.topic, retired.now) == (f"Topic:{one.pk}", (f"Topic:{new.pk}",))


async def test_what_came_after_the_run_is_told_apart_from_what_never_came(memory: Memory, run: Run) -> None:
    def later() -> Topic:
        return talk(memory.owner, ("The gondola in the garden", ["A gondola in the garden", "Why not"]))[0]

    topic = await sync_to_async(later)()
    found = await sync_to_async(why_not)(run, topic=f"Topic:{topic.pk}")
    assert (found.stage, found.now) == ("unknown", (f"Topic:{topic.pk}",))
    assert "only after" in found.sentence, "whenever it was said"
    never = await sync_to_async(why_not)(run, text="A zither in the garden shed of nobody")
    assert never.now == ()


async def test_every_topic_that_holds_a_sentence_is_named_and_other_words_are_found_by_meaning(anna: ChatUser) -> None:
    cake = "Dasha baked a honey cake for the birthday of her grandmother"

    def talked() -> list[str]:
        talks = [
            ("Honey", [cake, "How nice"]),
            ("Repeated", [cake, "You said so"]),
            ("Vans", ["A van broke down", "Oh"]),
        ]
        return [f"Topic:{topic.pk}" for topic in talk(anna, *talks)]

    first, second, _van = await sync_to_async(talked)()
    await embed_pending(offline_embedder())
    run = await executed(anna, strategy="vector", query="cake")
    ask = sync_to_async(why_not)
    for text in (cake, "Dasha's honey cake, grandmother's birthday"):
        found = await ask(run, text=text)
        assert {found.topic, *found.others} == {first, second}
        assert f"{first}, {second} say it alike." in found.sentence
        assert json.loads(written(WhyNotAnswer.model_validate(found)))["others"] == list(found.others)
    meant = await ask(run, text="Даша испекла медовый торт ко дню рождения бабушки")
    assert {meant.topic, *meant.others} == {first, second}
    assert "No message says that in these words; nearest in meaning is Topic:" in meant.sentence
    nothing = await ask(run, text="Курс акций нефтяных компаний вырос")
    assert (nothing.stage, nothing.topic) == ("unknown", "")
    assert "imported" not in nothing.sentence


async def test_a_fork_that_replays_the_search_is_explained_by_the_memory_of_its_parent(
    memory: Memory, run: Run
) -> None:
    fork = await sync_to_async(forks.fork)(run, turn=1, changes={"parameters": {"max_topics": 2}})
    lost = await sync_to_async(why_not)(run, topic=f"Topic:{memory.other[0].pk}")

    def merged() -> None:
        merge(memory.owner, *memory.other)

    await sync_to_async(merged)()
    async with open_clients() as clients:
        await lifecycle.execute(fork.pk, replace(clients, enricher=None, chat=ByPlace((0, 1), (0, 1))))
    await fork.arefresh_from_db()
    found = await sync_to_async(why_not)(fork, topic=f"Topic:{memory.other[0].pk}")
    assert (found.stage, found.topic) == (lost.stage, lost.topic)


async def test_people_and_facts_are_asked_for_by_what_they_are_called(memory: Memory, run: Run) -> None:
    def asked() -> tuple[str, str]:
        topic = memory.other[0]
        fact_of(
            memory.owner,
            "keeps bees on the roof",
            topic,
            relation="self",
            category="home",
            type="context",
            importance=50,
            created_at=topic.started_at,
        )
        person = Person.objects.create(owner=memory.owner, display_name="Dasha Orlova")
        assert why_not(run, text=f"Person:{person.pk}").topic == f"Person:{person.pk}"
        return why_not(run, text="bees on the roof").topic, why_not(run, text="dasha orlova").topic

    fact, person = await sync_to_async(asked)()
    assert fact == f"Topic:{memory.other[0].pk}"
    assert person.startswith("Person:")


async def test_of_several_topics_that_say_the_words_the_reader_chooses(
    memory: Memory, run: Run, as_admin: Client
) -> None:
    def asked() -> None:
        garden = {f"Topic:{topic.pk}" for topic in memory.garden}
        found = why_not(run, text="in the garden")
        assert {found.topic, *found.others} <= garden
        assert len(found.others) == 5
        address = f"/runs/{run.pk}/why-not/"
        page = as_admin.get(address, {"text": "in the garden"}).content.decode()
        assert f'href="{address}?topic={found.others[0]}"' in page
        chosen = as_admin.get(address, {"topic": found.others[0]}).content.decode()
        assert "If you meant another topic" not in chosen
        assert not why_not(run, text=f"{memory.other[0].summary}").others

    await sync_to_async(asked)()


async def test_a_question_that_cannot_be_answered_is_a_sentence(memory: Memory, run: Run) -> None:
    waiting = await Run.objects.acreate(owner=memory.owner, query="x", strategy="flash")

    def refused() -> None:
        for each, asked in ((run, {}), (run, {"topic": "1", "text": "x"}), (waiting, {"topic": "1"})):
            with pytest.raises(WhyNotError):
                why_not(each, **asked)
        with pytest.raises(WhyNotError):
            why_not(run, text="x" * 5_000)
        assert why_not(run, topic="Topic:1" + "0" * 30).stage == "unknown"
        assert why_not(run, topic="nonsense").stage == "unknown"
        assert why_not(run, text="?!").stage == "unknown"

    await sync_to_async(refused)()


class Aloud(ByPlace):
    """Says why, in each turn."""

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        said = "Three of them look alike." if not self.shown else "Only two of the three tell of it."
        async for reply in super().converse(request):
            yield replace(reply, reasoning=said)


async def test_the_page_quotes_what_the_model_said_when_it_lost_it(memory: Memory, as_admin: Client) -> None:
    """That a model did not choose something is no reason; what it said is the nearest to one."""
    chat = Aloud((0, 1, 2), (0, 1))
    run = await executed(memory.owner, chat=chat, parameters={"candidates": 5})

    def said(number: int) -> str:
        address = f"/runs/{run.pk}/why-not/?topic=Topic:{number}"
        found = re.search(r'<q class="why-said"[^>]*>([^<]*)</q>', as_admin.get(address).content.decode())
        return found[1] if found else ""

    assert await sync_to_async(said)(chat.shown[4]) == "Three of them look alike."
    assert await sync_to_async(said)(chat.shown[2]) == "Only two of the three tell of it."
    assert await sync_to_async(said)(memory.other[0].pk) == ""


async def test_a_run_without_a_search_says_so(memory: Memory) -> None:
    run = await Run.objects.acreate(owner=memory.owner, query="x", strategy="flash", state="finished")
    found = await sync_to_async(why_not)(run, topic=str(memory.garden[0].pk))
    assert (found.stage, found.counterfactuals) == ("not_searched", ())


async def test_the_command_prints_the_sentence_and_what_was_tried(
    memory: Memory, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    def printed() -> str:
        call_command("why_not", str(run.pk), "--text", memory.other[0].summary)
        with pytest.raises(CommandError):
            call_command("why_not", "no-run", "--topic", "1")
        return capsys.readouterr().out

    assert (await sync_to_async(printed)()).startswith("below_threshold: Topic:")


async def test_the_page_answers_in_the_readers_language_and_fills_in_the_fork(
    memory: Memory, run: Run, as_admin: Client
) -> None:
    def pages() -> None:
        row = as_admin.get(f"/runs/{run.pk}/").content.decode()
        assert f'href="/runs/{run.pk}/why-not/?topic=Topic' in row
        unseen = [t for t in memory.garden if f'data-topic="Topic:{t.pk}"' not in row]
        address = f"/runs/{run.pk}/why-not/?topic=Topic:{unseen[0].pk}"
        page = html.unescape(as_admin.get(address).content.decode())
        assert "only the first 5 were shown" in page
        (editor,) = set(re.findall(r'href="(/runs/[^"]*/fork/\?[^"]*candidates=25[^"]*)"', page))
        form = as_admin.get(editor).content.decode()
        assert re.search(r'name="p_candidates" value="25"', form)
        russian = as_admin.get(address, headers={"Accept-Language": "ru"}).content.decode()
        assert "показали только первые 5" in russian
        part = as_admin.get(address, headers={"HX-Request": "true"}).content.decode()
        assert "<html" not in part
        assert as_admin.get(f"/runs/{run.pk}/why-not/").status_code == 200

    await sync_to_async(pages)()
