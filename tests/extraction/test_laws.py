"""Invariant of extraction: whatever the archivist finds, and however often, no word that a person wrote is lost.

Passes over what people changed leave their words unchanged, and what they deleted is not created again.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from memoryapp import extraction, knowledge
from memoryapp.curation import CurationError
from memoryapp.invariants import violations
from memoryapp.models import ChatUser, Fact, Finding, KnowledgeEdit, Person
from tests.examples import examples
from tests.extraction.reading import Archivist, conversations, fact, finds, home, person

pytestmark = pytest.mark.slow

CONTENTS = ["Likes figs.", "Likes dates.", "Likes green figs.", "Loves figs."]
HOMES = ["Lives in Riga.", "Lives in Bonn.", "Lives in Rome."]
NAMES = ["Dora", "Dora Blau", "Egon", "Dorotea", "Blau"]

FINDINGS = st.one_of(
    st.builds(fact, st.sampled_from(CONTENTS)),
    st.builds(home, st.sampled_from(HOMES)),
    st.builds(
        person,
        st.sampled_from(NAMES),
        st.sampled_from(NAMES),
        circle=st.sampled_from(["Friends", "Other"]),
        bio=st.sampled_from(["", "A vet.", "Has a cat."]),
    ),
)
DEEDS = st.sampled_from(["read", "read", "edit", "delete", "undo", "confirm", "reject", "merge", "mode"])
STEPS = st.lists(st.tuples(DEEDS, st.lists(FINDINGS, max_size=3), st.integers(0, 99)), min_size=4, max_size=12)


class TestWords(TestCase):
    @given(STEPS)
    @settings(max_examples=examples(12), deadline=None)
    def test_no_pass_changes_what_a_person_wrote_or_brings_back_what_one_deleted(self, steps: list[Any]) -> None:
        owner = ChatUser.objects.create(name="anna", extraction="automatic")
        memory = _Memory(owner)
        for place, (deed, findings, pick) in enumerate(steps):
            memory.step(deed, findings, pick, place)
        assert list(violations()) == []


class _Memory:
    """Makes the changes of a person or of the archivist, and checks after each pass that no human word was lost."""

    def __init__(self, owner: ChatUser) -> None:
        self.owner = owner
        self.written: dict[tuple[str, int], dict[str, Any]] = {}
        self.deleted: set[tuple[str, str]] = set()

    def step(self, deed: str, findings: list[dict[str, Any]], pick: int, place: int) -> None:
        if deed == "read":
            conversations(self.owner)
            Archivist(finds(*findings)).read(self.owner)
            self._check()
        elif deed == "mode":
            mode = ["automatic", "review"][pick % 2]
            ChatUser.objects.filter(pk=self.owner.pk).update(extraction=mode)
        elif deed in ("confirm", "reject", "merge"):
            self._decide(deed, pick)
        else:
            self._change(deed, pick, place)

    def _change(self, deed: str, pick: int, place: int) -> None:
        rows = [*Fact.objects.current().order_by("pk"), *Person.objects.order_by("pk")]
        if not rows:
            return
        row = rows[pick % len(rows)]
        noun = "fact" if isinstance(row, Fact) else "person"
        if deed == "delete":
            self._forget(noun, row)
            knowledge.delete(self.owner, row, actor="ada")
        elif deed == "edit":
            field = "content" if noun == "fact" else "bio"
            knowledge.edit(self.owner, row, {field: f"Written by hand {place}."}, actor="ada")
            self.written[noun, row.pk] = {field: f"Written by hand {place}."}
        else:
            edit = KnowledgeEdit.objects.filter(after__has_key=str(row.pk), noun=noun, kind="create").first()
            if edit and (noun, row.pk) not in self.written:
                try:
                    knowledge.undo(self.owner, edit, actor="ada")
                except CurationError:
                    return
                self._forget(noun, row)

    def _forget(self, noun: str, row: Fact | Person) -> None:
        self.written.pop((noun, row.pk), None)
        self.deleted.add((noun, row.content if isinstance(row, Fact) else row.display_name))

    def _decide(self, deed: str, pick: int) -> None:
        finding = extraction.next_waiting(self.owner, pick)
        if finding is None:
            return
        try:
            if deed == "confirm":
                extraction.confirm(finding, actor="ada")
            elif deed == "reject":
                extraction.reject(finding, actor="ada")
            elif finding.alike:
                extraction.merge(finding, finding.alike[0], actor="ada")
        except CurationError:
            return
        # A finding that a person confirms may restore what they deleted.
        words = [str(finding.values.get("content") or finding.values.get("display_name"))]
        names = [*words, *finding.values.get("aliases", ())]
        self.deleted -= {(finding.noun, name) for name in names} if deed != "reject" else set()
        for noun, number in list(self.written):
            if number in (finding.row, finding.target):
                del self.written[noun, number]

    def _check(self) -> None:
        for (noun, number), values in self.written.items():
            row = (Fact.objects.current() if noun == "fact" else Person.objects).get(pk=number)
            assert {name: getattr(row, name) for name in values} == values
        there = {("fact", content) for content in Fact.objects.current().values_list("content", flat=True)}
        there |= {("person", name) for name in Person.objects.values_list("display_name", flat=True)}
        assert not there & self.deleted
        assert not Finding.objects.filter(state="waiting", row__isnull=False).exists()


@pytest.mark.django_db
def test_the_law_looks_where_words_could_be_lost(eager: ChatUser) -> None:
    memory = _Memory(eager)
    memory.step("read", [home("Lives in Riga.")], 0, 0)
    memory.step("edit", [], 0, 1)
    memory.step("read", [home("Lives in Bonn.")], 0, 2)
    assert list(memory.written.values()) == [{"content": "Written by hand 1."}]
