"""Invalid bodies for changes of topics: none of them breaks an endpoint."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryapp.models import ChatUser, Message, Topic, TopicEdit
from memoryapp.platform.llm import clients
from tests.api.curated import changed
from tests.api.test_api import anything, words
from tests.examples import examples
from tests.search.test_vectors import Hashing
from tests.support.api_client import Program, error_of, token_for

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def tireless(anna: ChatUser, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.setattr(clients, "embedder_of", lambda of: Hashing())
    settings.API_RATE = (1_000_000, 60.0)
    return Program(token_for())


def mostly(sane: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Requests that are mostly valid: one that is wrong everywhere is refused at its first fault, so faults deeper
    inside need a request that is wrong in one part."""
    return st.integers(0, 5).flatmap(lambda chance: sane if chance < 5 else anything)


names = mostly(st.sampled_from(["anna", "anna", "anna", "nobody", "\x00"]))
# HERE0 and similar names are replaced by topics that exist when the request is sent.
ids = mostly(st.sampled_from(["HERE0", "HERE1", "[HERE2]", "HERE0", "HERE1", 0, -1, "Topic:3.0", 10**30]))
listed = mostly(st.lists(ids, min_size=2, max_size=3))
message_ids = mostly(st.lists(mostly(st.sampled_from([f"m{number}" for number in range(8)])), min_size=1, max_size=3))
texts = mostly(st.sampled_from(["Tea", "Leaves", "\x00"]))
BODIES = {
    "merge": {"user": names, "topics": listed},
    "split": {"at": message_ids},
    "rewrite": {"summary": texts},
    "move": {"user": names, "messages": message_ids, "to": st.none() | ids},
    "undo": {},
}
MORE = {
    "merge": {"summary": texts, "reason": texts},
    "split": {"summaries": mostly(st.lists(texts, max_size=3)), "reason": texts},
    "rewrite": {"reason": texts},
    "move": {"summary": texts, "reason": texts},
    "undo": {"reason": texts},
}
wishes = st.sampled_from([*BODIES]).flatmap(
    lambda kind: st.tuples(st.just(kind), st.fixed_dictionaries(BODIES[kind], optional=MORE[kind]))
)


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wish=wishes, word=st.just("here") | st.just("here") | words, dry=st.sampled_from(["", "?dry_run=1"]))
def test_no_wish_whatever_breaks_an_endpoint(
    wish: tuple[str, dict[str, Any]], word: str, dry: str, topics: list[Topic], tireless: Program
) -> None:
    kind, body = wish
    live = list(Topic.objects.live().order_by("pk").values_list("pk", flat=True))
    topic = live[0] if word == "here" else quote(word)
    edit = TopicEdit.objects.latest("pk").pk if word == "here" else quote(word)
    method, path = {
        "merge": ("post", "/v1/topics/merge"),
        "split": ("post", f"/v1/topics/{topic}/split"),
        "rewrite": ("patch", f"/v1/topics/{topic}"),
        "move": ("post", "/v1/messages/move"),
        "undo": ("post", f"/v1/edits/{edit}/undo"),
    }[kind]
    content = re.sub(r"HERE(\d)", lambda match: str(live[int(match[1]) % len(live)]), json.dumps(body))
    answer = tireless.ask(method, path + dry, content.encode())
    if answer.status_code == 200:
        changed(answer)
    else:
        assert error_of(answer)[0] in {400, 404, 409, 422}, answer.content
    assert not Message.objects.filter(topic__isnull=True).exists()
