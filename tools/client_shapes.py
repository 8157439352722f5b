"""Writes the answers of ``mnemoscope_client`` from the shapes of the API: ``python3 -m tools.client_shapes``.

The client imports nothing of the server, so its module is written and a test compares it. Its texts may have more
values than the description names, because a newer server may know more.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import django

PATH = Path(__file__).parents[1] / "client" / "mnemoscope_client" / "shapes.py"
MARK = "# Everything below is written by `python3 -m tools.client_shapes`.\n"
# The client's name for each shape of the API; what has none is not in the client.
NAMES = {
    "AddedAnswer": "Remembered",
    "RejectedMessage": "RejectedMessage",
    "LeftOutMessages": "LeftOut",
    "MessageInTopic": "StoredMessage",
    "ChosenTopic": "RecalledTopic",
    "ChosenItem": "RecalledItem",
    "Usage": "Spent",
    "RecallAnswer": "Recalled",
    "CitedMessage": "Cited",
    "CheckedStatement": "Checked",
    "WordsAnswer": "Answered",
    "UseOfChosen": "MemoryUse",
    "DeliveredAnswer": "UsedMemory",
    "RunAnswer": "StoredRun",
    "CounterfactualAnswer": "Counterfactual",
    "WhyNotAnswer": "Reason",
    "TopicSummary": "TopicHead",
    "TopicWithMessages": "WholeTopic",
    "TopicAnswer": "FoundTopics",
    "ClosedAnswer": "ClosedSessions",
    "TopicsAnswer": "TopicPage",
    "DecisionAnswer": "MadeDecision",
    "ErasedAnswer": "Receipt",
    "KeptItem": "MemoryItem",
    "WrittenItemsAnswer": "WrittenItems",
    "ItemsAnswer": "FoundItems",
    "NamespacesAnswer": "FoundNamespaces",
}
SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def written() -> str:
    """The module as it should be: what people wrote in it, and a class for each shape after those that it needs."""
    shapes = {shape.__name__: shape for shape in _shapes()}
    order = dict.fromkeys(name for each in NAMES for name in (*_needed(shapes[each]), each) if name in NAMES)
    head = PATH.read_text(encoding="utf-8").partition(MARK)[0]
    return head + MARK + "".join(_class(shapes[name]) for name in order)


def _shapes() -> Iterator[type[Any]]:
    from memoryapp.doors.api import urls  # noqa: F401, PLC0415 Django is set up first
    from memoryapp.doors.api.shapes.fields import Answer  # noqa: PLC0415

    waiting = [Answer]
    while waiting:
        yield (shape := waiting.pop())
        waiting += shape.__subclasses__()


def _needed(shape: type[Any]) -> list[str]:
    """The shapes that are named by this one, each after those that it names."""
    return [*shape.model_json_schema(mode="serialization").get("$defs", {})][::-1] + [
        each.__name__ for each in shape.__bases__
    ]


def _class(shape: type[Any]) -> str:
    base = next((NAMES[each.__name__] for each in shape.__bases__ if each.__name__ in NAMES), "Shape")
    inherited = {} if base == "Shape" else getattr(shape.__bases__[0], "model_fields", {})
    schema = shape.model_json_schema(mode="serialization", by_alias=True)
    lines = [f"    {name}: {_type(shape, name, schema)}\n" for name in shape.model_fields if name not in inherited]
    about = f'    """{shape.__doc__}"""\n\n' if shape.__doc__ else ""
    return f"\n\nclass {NAMES[shape.__name__]}({base}):\n{about}{''.join(lines)}"


def _type(shape: type[Any], name: str, schema: Mapping[str, Any]) -> str:
    kind = _name(schema["properties"][name])
    if name in schema["required"]:
        return kind
    default = shape.model_fields[name].get_default(call_default_factory=True)
    return f"{kind} = {() if default == [] else default!r}".replace("'", '"')


def _name(schema: Mapping[str, Any]) -> str:
    """The type of a value that a schema describes."""
    if "$ref" in schema:
        return NAMES[schema["$ref"].rpartition("/")[2]]
    if branches := schema.get("anyOf") or schema.get("allOf"):
        return " | ".join(dict.fromkeys(map(_name, branches)))
    if schema.get("type") == "array":
        return f"tuple[{_name(schema['items'])}, ...]"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {_name(values) if isinstance(values, dict) else 'Any'}]"
    formats = {"date-time": "datetime", "uuid": "UUID"}
    return formats.get(schema.get("format", "")) or SIMPLE[schema.get("type", "string")]


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryapp.settings")
    django.setup()
    PATH.write_text(written(), encoding="utf-8")
