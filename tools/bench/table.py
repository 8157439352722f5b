"""Rows of the table: what was measured, and what it is compared with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class BenchRow:
    """``measured`` and ``against`` are in the same ``unit``; ``base`` names the latter."""

    name: str
    measured: float
    base: str
    against: float
    unit: str

    @property
    def ratio(self) -> float:
        """``measured`` divided by ``against``; 0 when there is nothing to compare with."""
        return self.measured / self.against if self.against else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "measured": round(self.measured, 4),
            "base": self.base,
            "against": round(self.against, 4),
            "unit": self.unit,
            "ratio": round(self.ratio, 3),
        }


def heading() -> str:
    return _line(("measured", "", "against", "", "ratio"))


def line(row: BenchRow) -> str:
    """Returns the row as one line under ``heading``."""
    ratio = f"{row.ratio:.2f}×" if row.against else "–"
    return _line((row.name, _number(row.measured, row.unit), row.base, _number(row.against, row.unit), ratio))


def _line(cells: Sequence[str]) -> str:
    name, measured, base, against, ratio = cells
    columns = (name.ljust(44), measured.rjust(12), base.ljust(36), against.rjust(12), ratio.rjust(8))
    return "  ".join(columns).rstrip()


def _number(value: float, unit: str) -> str:
    return f"{value:.0f} {unit}" if value >= 100 or value == int(value) else f"{value:.3g} {unit}"


def quantile(values: Sequence[float], share: float) -> float:
    """Returns the value below which that share of ``values`` is."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
