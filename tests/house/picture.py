"""The picture of the house in docs/architecture.md, made of the imports: ``python3 -m tests.house.picture``."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- the house -->\n", "<!-- /the house -->\n"


def room_of(path: Path) -> str:
    """The room of a module of ``memoryapp``; ``rerankui`` is one."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0] if parts[0] == "rerankui" else parts[1]


def arrows() -> dict[str, set[str]]:
    """Which rooms each room imports."""
    paths = [path for top in ("memoryapp", "rerankui") for path in (ROOT / top).rglob("*.py")]
    paths = [path for path in paths if "migrations" not in path.parts and path.parent.name != "rerankui"]
    rooms = {room_of(path) for path in paths if path.parent != ROOT / "memoryapp"}
    found: dict[str, set[str]] = {room: set() for room in rooms}
    for path in paths:
        if (here := room_of(path)) not in rooms:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("memoryapp"):
                names = (
                    [node.module or ""] if "." in (node.module or "") else [f"memoryapp.{a.name}" for a in node.names]
                )
                found[here] |= {name.split(".")[1] for name in names} & rooms - {here}
    return found


def picture() -> str:
    """The rooms as a flowchart, the lowest storey at its foot, without arrows that follow from others."""
    graph = arrows()
    below: dict[str, set[str]] = {}
    for room in TopologicalSorter(graph).static_order():
        below[room] = graph[room].union(*(below[each] for each in graph[room]))
    lines = [
        f"    {room} --> {target}"
        for room in sorted(graph)
        for target in sorted(graph[room])
        if not any(target in below[other] for other in graph[room])
    ]
    return "\n".join(["```mermaid", "flowchart TB", *lines, "```", ""])


def page_with_picture() -> str:
    before, _begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return before + BEGIN + picture() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page_with_picture(), encoding="utf-8")
