"""JSON that is shown while it is being written."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from rerankui.text.differences import begins_as_json, indented

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.sampled_from([None, 1]), st.data())
def test_what_is_shown_of_a_beginning_stays_where_it_is(value: object, indent: int | None, data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    assert indented(text) == json.dumps(value, ensure_ascii=False, indent=2)
    cut = data.draw(st.integers(0, len(text)))
    assert indented(text).startswith(indented(text[:cut]))


def test_prose_is_no_json() -> None:
    assert begins_as_json('{"topics": [')
    assert begins_as_json(" [4")
    assert not begins_as_json("[Topic:1] fits")
    assert not begins_as_json("{curly}")
