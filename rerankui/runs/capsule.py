"""The one HTML file of a capsule: the run's page with its styles and scripts inside, and nothing that asks a server.
Styles and scripts are allowed by their hashes, everything else not at all, so that the file loads nothing. What the run
read or chose opens beside it, by an address within the file."""

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles import finders
from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import ngettext
from lxml import html

from memoryapp.engine.memory import parse_item_id
from memoryapp.engine.strategies import STRATEGIES
from memoryapp.insight.capsules import Capsule, CapsuleMessage
from memoryapp.models import ChatUser, Message, Run
from rerankui.runs import fragments
from rerankui.runs.fragments import RunPage
from rerankui.runs.page.result import segments

STYLES = ("tabler.min", "app", "narrow", "run", "run-narrow", "agent", "why-not", "touch", "capsule")
SCRIPTS = ("run-typing", "run")
ICONS = "vendor/icons.svg"
_FONT = re.compile(r"@font-face {[^{}]{1,2000}}")
_IMPORTED = re.compile(r"""url\(["']?\.\./[^()"']{1,200}["']?\)""")
_USED_ICON = re.compile(r'<use href="#([\w-]{1,60})"')
# What only a server can do.
_WITHOUT_SERVER = (
    "//form | //input[@type='hidden'] | //*[@data-forks] | //*[contains(@class,'event-try')] | //*[@data-follow]"
    " | //*[contains(@class,'run-actions')] | //*[contains(@class,'copy-button')] | //*[@id='fork-editor']"
    " | //details[contains(@class,'below')] | //*[@data-opens-below] | //*[@id='run-speaking']"
    " | //*[contains(concat(' ',@class,' '),' why-not ')] | //img | //*[contains(@class,'grade-')]"
    " | //*[contains(@class,'run-as-at')] | //*[contains(@class,'waterfall-pictures')]"
)
_SERVERS = ("hx-", "ws-", "data-url", "data-frame", "data-peek", "action", "formaction")


def page(capsule: Capsule, *, is_foreign: bool = False) -> str:
    """The HTML of the capsule. Raises what the partials raise for events that no run has."""
    run = _run(capsule)
    talks = {id: [_message(each) for each in talk] for id, talk in capsule.talks.items()}
    by_number = {message.pk: message for talk in talks.values() for message in talk}
    shown_run = fragments.run_page(run, list(capsule.events), talk=by_number)
    shown = [id for id, talk in talks.items() if talk and id in shown_run.candidates]
    parts = [_stripped(fragments.run_section(shown_run), shown)]
    parts += [_talk(shown_run, id, talks[id]) for id in shown]
    body = "".join(parts)
    # The symbols that the markup uses.
    wanted = set(_USED_ICON.findall(body))
    root = html.etree.fromstring(_static(ICONS).encode())
    symbols = [each for each in root if each.get("id") in wanted]
    drawn = "".join(html.etree.tostring(each, encoding="unicode") for each in symbols)
    icons = f'<svg class="capsule-icons" aria-hidden="true" hidden>{drawn}</svg>'
    styles, scripts = [mark_safe(_style(name)) for name in STYLES], [mark_safe(_script(name)) for name in SCRIPTS]
    return render_to_string(
        "pages/runs/capsule.html",
        {
            "run": run,
            "capsule": capsule,
            "masked": ", ".join(_counted(kind, count) for kind, count in capsule.masked.items() if count),
            "is_foreign": is_foreign,
            "body": mark_safe(icons + body),
            "styles": styles,
            "scripts": scripts,
            "policy": policy(styles, scripts),
        },
    )


def _counted(kind: str, count: int) -> str:
    words = {
        "names": ngettext("%(n)d name", "%(n)d names", count),
        "numbers": ngettext("%(n)d number", "%(n)d numbers", count),
        "addresses": ngettext("%(n)d address", "%(n)d addresses", count),
        "statements": ngettext("%(n)d known statement", "%(n)d known statements", count),
    }
    return words[kind] % {"n": count} if kind in words else ""


def policy(styles: Iterable[str], scripts: Iterable[str]) -> str:
    """The content security policy that permits these texts and nothing else."""
    allowed = (f"{kind}-src {' '.join(map(_hash, texts))}" for kind, texts in (("style", styles), ("script", scripts)))
    return "; ".join(("default-src 'none'", "img-src data:", "base-uri 'none'", "form-action 'none'", *allowed))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _run(capsule: Capsule) -> Run:
    """A run that is in no table."""
    owner = ChatUser(pk=0, name=capsule.user)
    return Run(
        id=capsule.id,
        owner=owner,
        query=capsule.query,
        strategy=capsule.strategy,
        # Runs of other programs have the name of their program in place of a strategy.
        origin="" if capsule.strategy in STRATEGIES else capsule.strategy,
        parameters=dict(capsule.parameters),
        created_at=capsule.asked_at,
        state=Run.State.FINISHED,
    )


def _message(each: CapsuleMessage) -> Message:
    return Message(pk=each.number, role=each.role, author=each.author, sent_at=each.sent_at, text=each.text)


def _talk(page: RunPage, id: str, talk: list[Message]) -> str:
    """What a preview of the topic shows, under an address of its own."""
    selected = next((each for each in page.finished.selected if each.id == id), None) if page.finished else None
    pieces = selected.excerpt if selected else ()
    shown = render_to_string(
        "partials/runs/run_topic.html",
        {
            "run": page.run,
            "candidate": page.candidates[id],
            "selected": selected,
            "state": page.states.get(id, ""),
            "marked_messages": [
                (message, segments(message.text, [piece for piece in pieces if piece.message == message.pk]))
                for message in talk
            ],
        },
    )
    closes = render_to_string("partials/runs/capsule/closes.html")
    stripped = mark_safe(_stripped(closes + shown, ()))
    return format_html('<section class="capsule-talk" id="{}" tabindex="-1">{}</section>', _anchor(id), stripped)


def _anchor(id: str) -> str:
    return id.lower().replace(":", "-")


def _stripped(markup: str, opened: Iterable[str]) -> str:
    """The markup without what asks a server; the names of topics that are ``opened`` lead to their talk."""
    root = html.fragment_fromstring(markup, create_parent="div")
    for gone in root.xpath(_WITHOUT_SERVER):
        if gone.getparent() is not None:
            gone.drop_tree()
    anchors = {id: f"#{_anchor(id)}" for id in opened}
    for element in root.iter(html.etree.Element):
        _link(element, anchors)
        if element.tag == "time" and element.get("title"):
            # "4 minutes ago" would not stay true in a file.
            element.text = element.attrib.pop("title")
        for name in list(element.attrib):
            if name.startswith(_SERVERS):
                del element.attrib[name]
    return "".join(html.tostring(child, encoding="unicode") for child in root)


def _link(element: Any, anchors: Mapping[str, str]) -> None:
    """Leads a link to the talk of its topic within the file, or nowhere."""
    if element.tag == "use":
        element.set("href", f"#{element.get('href', '').partition('#')[2]}")
    if element.tag != "a" or element.get("href", "").startswith("#"):
        return
    named = parse_item_id("".join(element.itertext()).strip()) or parse_item_id(_of_row(element))
    target = anchors.get(f"{named[0]}:{named[1]}") if named else None
    if target:
        element.set("href", target)
    else:
        element.attrib.pop("href", None)


def _of_row(element: Any) -> str:
    """The topic of the row that the link opens."""
    row = element.getparent()
    return str(row.get("data-topic", "")) if row is not None else ""


@cache
def _style(name: str) -> SafeString:
    folder = "vendor" if name == "tabler.min" else "css"
    return mark_safe(_IMPORTED.sub("none", _FONT.sub("", _static(f"{folder}/{name}.css"))))


@cache
def _script(name: str) -> SafeString:
    return mark_safe(_static(f"js/{name}.js"))


def _static(name: str) -> str:
    found = finders.find(name) or Path(settings.STATIC_ROOT) / name
    return Path(str(found)).read_text(encoding="utf-8")
