"""A memory to browse, and functions that read the pages of it."""

import re
from datetime import timedelta
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from playwright.sync_api import Locator, Page, ViewportSize, expect

from memoryapp.models import (
    Access,
    Artifact,
    ChatUser,
    EditedTopic,
    Fact,
    Message,
    Operator,
    Person,
    Run,
    RunEvent,
    Topic,
    TopicEdit,
    TopicMessage,
)
from tests.conftest import BEGAN

HTMX = {"HX-Request": "true"}
# Where an element is after it has not moved for thirty frames, because a wheel scrolls on after it was turned. Null if
# another element replaces it meanwhile.
AT_REST = """element => new Promise((settled) => {
    let before, still = 0;
    const look = () => {
        const now = element.getBoundingClientRect().y;
        still = now === before ? still + 1 : 0;
        before = now;
        if (!element.isConnected) settled(null);
        else if (still < 30) requestAnimationFrame(look);
        else settled(now);
    };
    look();
})"""


@transaction.atomic
def grow(owner: ChatUser, count: int) -> None:
    """Adds ``count`` of each noun: topics of one message, people, artifacts, facts, runs."""
    start = Topic.objects.count()
    numbers = range(start, start + count)
    topics = _topics_of_one_message(owner, numbers)
    Person.objects.bulk_create(
        Person(owner=owner, display_name=f"Person {number}", mention_count=number % 3) for number in numbers
    )
    Fact.objects.bulk_create(
        Fact(
            owner=owner,
            topic=topic,
            relation="likes",
            category="food",
            content=f"Fact {number}",
            type="status",
            importance=number % 4,
            created_at=BEGAN,
        )
        for number, topic in zip(numbers, topics, strict=True)
    )
    runs = Run.objects.bulk_create(_run(owner) for _topic in topics)
    RunEvent.objects.bulk_create(_finished(run, topic) for run, topic in zip(runs, topics, strict=True))


def _topics_of_one_message(owner: ChatUser, numbers: range) -> list[Topic]:
    """Makes archived topics, two a day, each with an artifact beside its message."""
    topics = Topic.objects.bulk_create(
        _topic(owner, f"Summary {number}", [f"Message {number}"], day=number // 2) for number in numbers
    )
    known = Message.objects.count()
    messages = Message.objects.bulk_create(
        _message(owner, f"Message {number}", known + place, minutes=number // 2 * 1440, topic=topic)
        for place, (number, topic) in enumerate(zip(numbers, topics, strict=True))
    )
    TopicMessage.objects.bulk_create(
        TopicMessage(owner=owner, topic=message.topic, message=message) for message in messages
    )
    edits = TopicEdit.objects.bulk_create(TopicEdit(owner=owner, kind="archive", actor="test") for _topic in topics)
    EditedTopic.objects.bulk_create(
        EditedTopic(owner=owner, edit=edit, topic=topic, side="in") for edit, topic in zip(edits, topics, strict=True)
    )
    Artifact.objects.bulk_create(
        Artifact(
            owner=owner, message=message, name=f"{number}.pdf", file_type="pdf", sha256=str(number), created_at=BEGAN
        )
        for number, message in zip(numbers, messages, strict=True)
    )
    return topics


@transaction.atomic
def topic_of(owner: ChatUser, summary: str, texts: list[str], *, day: int = 0) -> Topic:
    """Makes a topic with its messages, a minute apart, from half past nine on that day."""
    topic = _topic(owner, summary, texts, day=day)
    topic.save(force_insert=True)
    minutes = range(day * 1440, day * 1440 + len(texts))
    attach(topic, [message_of(owner, text, minutes=at, topic=topic) for at, text in zip(minutes, texts, strict=True)])
    edit = TopicEdit.objects.create(owner=owner, kind="archive", actor="test")
    EditedTopic.objects.create(owner=owner, edit=edit, topic=topic, side="in")
    return topic


def _topic(owner: ChatUser, summary: str, texts: list[str], *, day: int) -> Topic:
    at = BEGAN + timedelta(days=day)
    return Topic(
        owner=owner,
        summary=summary,
        started_at=at,
        ended_at=at + timedelta(minutes=len(texts) - 1),
        message_count=len(texts),
        size_chars=sum(map(len, texts)),
    )


def message_ids(topic: Topic | int) -> list[int]:
    return list(Message.objects.filter(topic=topic).in_order().values_list("pk", flat=True))


def attach(topic: Topic, messages: list[Message]) -> None:
    TopicMessage.objects.bulk_create(TopicMessage(owner=topic.owner, topic=topic, message=m) for m in messages)


def message_of(
    owner: ChatUser, text: str, *, minutes: int = 0, topic: Topic | None = None, role: str = "user", **more: object
) -> Message:
    message = _message(owner, text, Message.objects.count(), minutes=minutes, topic=topic, role=role, **more)
    message.save(force_insert=True)
    return message


def _message(
    owner: ChatUser, text: str, number: int, *, minutes: int, topic: Topic | None, role: str = "user", **more: object
) -> Message:
    return Message(
        owner=owner,
        external_id=f"x{number}",
        role=role,
        author="Anna" if role == "user" else "bot",
        sent_at=BEGAN + timedelta(minutes=minutes),
        text=text,
        content_hash="-",
        topic=topic,
        **more,
    )


def run_of(owner: ChatUser, topic: Topic, *, chose: bool = True) -> Run:
    run = _run(owner)
    run.save(force_insert=True)
    _finished(run, topic, chose=chose).save(force_insert=True)
    return run


def _run(owner: ChatUser) -> Run:
    return Run(owner=owner, query="vllm?", strategy="flash", state="finished", selected_count=1)


def _finished(run: Run, topic: Topic, *, chose: bool = True) -> RunEvent:
    payload = {"selected": [{"id": f"Topic:{topic.pk}"}] if chose else [], "requested": [f"Topic:{topic.pk}"]}
    return RunEvent(owner=run.owner, run=run, seq=1, kind="run_finished", at=timezone.now(), payload=payload)


def searched(run: Run, *topics: Topic) -> None:
    """Makes a run that found these topics."""
    payload = {"candidates": [{"id": f"Topic:{topic.pk}", "shown": True} for topic in topics]}
    RunEvent.objects.create(
        owner=run.owner, run=run, seq=0, kind="candidates_found", at=timezone.now(), payload=payload
    )


def opened_to(operator: Operator, count: int) -> None:
    """Makes ``count`` more chat users whom the operator may see, each with a grown memory."""
    for number in range(count):
        owner = ChatUser.objects.create(name=f"user{ChatUser.objects.count()}-{number}")
        Access.objects.create(operator=operator, owner=owner)
        grow(owner, 1)


def get(client: Client, address: str, **headers: str) -> str:
    answer = client.get(address, headers=headers)
    assert answer.status_code == 200, f"{address}: {answer.status_code}"
    return flat(answer.content.decode())


def flat(page: str) -> str:
    """Returns the page without line breaks: those beside a tag are removed, others become blanks."""
    return re.sub(r"\s*\n\s*", " ", re.sub(r"\s*\n\s*(?=<)|(?<=>)\s*\n\s*", "", page))


def cost(client: Client, address: str) -> int:
    """Returns how many queries the page takes, the second time it is opened."""
    get(client, address)
    with CaptureQueriesContext(connection) as queries:
        get(client, address)
    return len(queries)


def rows(page: str, noun: str) -> list[int]:
    """Returns the ids of a list's rows, from the top."""
    return [int(pk) for pk in re.findall(rf'id="{noun}-(\d+)"', page)]


def link(page: str, relation: str) -> str | None:
    """Returns the target of ``rel=next`` or ``rel=prev``, None at the end of the list."""
    found = re.search(rf'rel="{relation}" href="([^"#]+)', page)
    return found[1].replace("&amp;", "&") if found else None


def settle(page: Page) -> None:
    """Returns once the page's scripts are ready, its fonts are loaded, and what was swapped has settled."""
    page.wait_for_load_state()
    # A function, because the content policy refuses an expression that is evaluated a second time.
    page.wait_for_function("() => document.fonts.status === 'loaded'")
    expect(page.locator(".htmx-request, .htmx-swapping, .htmx-settling")).to_have_count(0)


def at_rest(element: Locator) -> float:
    """Returns the element's distance from the window's upper edge in pixels, once it does not move."""
    while (place := element.evaluate(AT_REST)) is None:
        pass
    return float(place)


def assert_fits(page: Page, seen: Locator) -> None:
    """Checks that the page that shows ``seen`` is no wider than its window. The link to the page may just have been
    clicked."""
    expect(seen).to_be_visible()
    settle(page)
    width, window = page.locator("html").evaluate("root => [root.scrollWidth, innerWidth]")
    assert width <= window, f"{page.url} is {width} px wide in a window of {window} px"


def style_by_script(page: Page) -> None:
    """Leaves an empty ``style`` attribute on each named element, as scripts, extensions and a resized field do."""
    page.evaluate(
        "() => document.querySelectorAll('[id]').forEach(e => { e.style.color = 'red'; e.style.color = ''; })"
    )


def press(page: Page, *keys: str) -> None:
    """Presses the keys, once the page has settled."""
    settle(page)
    for key in keys:
        page.keyboard.press(key)


PHONE = ViewportSize(width=390, height=844)
DESK = ViewportSize(width=1440, height=900)


# Rules that axe-core leaves out unless they are asked for.
BEYOND_THE_USUAL = {"label-content-name-mismatch": {"enabled": True}, "target-size": {"enabled": True}}
EVERY_RULE = {"rules": BEYOND_THE_USUAL}
# Everything that a page changes in another colour scheme.
COLOUR_RULES = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}


# Only what the rules complain of leaves the browser, which spares it an account of each element they looked at.
FAULTS = """options => axe.run(document, options).then(found => found.violations.flatMap(
    rule => rule.nodes.map(node => `${rule.id}: ${node.html.slice(0, 160)}`)))"""


def accessibility_faults(page: Page, rules: dict[str, Any] = EVERY_RULE) -> list[str]:
    """Returns what axe-core finds on the page as it is now: a line for each rule and element."""
    # Its half megabyte takes as long to read as many rules, so a page that is checked twice reads it once.
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(Axe().axe_script)
    faults: list[str] = page.evaluate(FAULTS, {**rules, "resultTypes": ["violations"]})
    return faults


def assert_accessible(page: Page, address: str) -> None:
    """Checks that axe-core finds nothing on the page at this address in light, in dark and on a phone. Afterwards the
    page is as wide as on a desk, in light."""
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    _open(page, address, DESK)
    _assert_no_faults(page, EVERY_RULE, f"{address} on a desk")
    _darken(page)
    _assert_no_faults(page, COLOUR_RULES, f"{address} in dark")
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    _open(page, address, PHONE)
    _assert_no_faults(page, EVERY_RULE, f"{address} on a phone")
    page.set_viewport_size(DESK)


def _open(page: Page, address: str, size: ViewportSize) -> None:
    page.set_viewport_size(size)
    page.goto(address)
    settle(page)


def _darken(page: Page) -> None:
    """Changes the system to dark, and the open page with it, without a transition of colours."""
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    page.evaluate("() => document.getAnimations().forEach(each => each instanceof CSSTransition && each.finish())")


def _assert_no_faults(page: Page, rules: dict[str, Any], where: str) -> None:
    faults = accessibility_faults(page, rules)
    assert faults == [], f"{where}: {faults}"
