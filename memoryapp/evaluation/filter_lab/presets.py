"""Named cuts. Cosines of one embedding model mean nothing for another, so each preset belongs to a profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from django.conf import settings
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import override, pgettext_lazy

from memoryapp.engine.parameters import Declaration, declarations
from memoryapp.engine.strategies.cuts import PRESETS, Cuts, presets_of
from memoryapp.engine.strategies.filter import FilterParameters
from memoryapp.models import EmbeddingProfile, FilterPreset

LONGEST_NAME = 60
MOST = 50
# The names of the built-in presets as people read them.
NAMES: Mapping[str, Promise] = {
    "precise": pgettext_lazy("preset", "Precise"),
    "balanced": pgettext_lazy("preset", "Balanced"),
    "broad": pgettext_lazy("preset", "Broad"),
    "small": pgettext_lazy("preset", "Small memory"),
}


class PresetError(Exception):
    """The preset cannot be stored; the text is for people."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Named cuts; ``made_by`` is empty for built-in ones."""

    name: str
    cuts: Cuts
    made_by: str = ""

    @property
    def title(self) -> str | Promise:
        return self.name if self.made_by else NAMES[self.name]

    @property
    def values(self) -> Mapping[str, Any]:
        return asdict(self.cuts)


def bounds() -> Mapping[str, Declaration]:
    """The declarations of the five cuts, by name."""
    known = declarations(FilterParameters)
    return {name: known[name] for name in asdict(Cuts())}


def cuts_in(given: Mapping[str, Any], default: Cuts) -> Cuts:
    """Returns the cuts in ``given``, each limited to its bounds; ``default`` for a cut that is missing or no number."""
    return Cuts(
        **{name: _number(declared, given.get(name, ""), getattr(default, name)) for name, declared in bounds().items()}
    )


def _number(declared: Declaration, given: Any, default: Any) -> Any:
    try:
        value = float(given)
    except ValueError:
        return default
    if value != value:
        return default
    return declared.kind(min(max(value, declared.least), declared.most))


def of_profile(name: str, profile: EmbeddingProfile | None) -> list[Preset]:
    """Returns the built-in presets of the profile of that name, then those that people made for its row."""
    built_in = [Preset(name, cuts) for name, cuts in presets_of(name).items()]
    rows = FilterPreset.objects.filter(profile=profile).order_by("name")[:MOST] if profile else ()
    return [*built_in, *(Preset(row.name, _cuts(row), row.made_by) for row in rows)]


def save(profile: EmbeddingProfile, name: str, cuts: Cuts, made_by: str) -> Preset:
    """Stores the cuts under this name and replaces earlier ones. Raises PresetError."""
    name = " ".join(name.split())
    if not name or len(name) > LONGEST_NAME:
        raise PresetError(_("Give the preset a name of at most %(n)s characters.") % {"n": LONGEST_NAME})
    if name.casefold() in _built_in_names():
        raise PresetError(_("“%(name)s” is a preset that every model has. Choose another name.") % {"name": name})
    is_new = not FilterPreset.objects.filter(profile=profile, name=name).exists()
    if is_new and FilterPreset.objects.filter(profile=profile).count() >= MOST:
        raise PresetError(_("There are %(n)s presets already. Delete one in the administration.") % {"n": MOST})
    values = {**asdict(cuts), "made_by": made_by}
    FilterPreset.objects.update_or_create(profile=profile, name=name, defaults=values)
    return Preset(name, cuts, made_by)


def profile_named(name: str) -> EmbeddingProfile | None:
    """The row of the embedding profile of that name."""
    return next((row for row in EmbeddingProfile.objects.all() if str(row) == name), None)


def _built_in_names() -> set[str]:
    """The names of the built-in presets, in every language, in lower case."""
    found = set(PRESETS)
    for language, _name in settings.LANGUAGES:
        with override(language):
            found |= {str(name).casefold() for name in NAMES.values()}
    return found


def _cuts(row: FilterPreset) -> Cuts:
    return Cuts(**{name: getattr(row, name) for name in bounds()})
