"""The parameters of a run: what the strategies declare, with defaults from the settings and the values given by name.

A run accepts the parameters of all strategies, so that one form, script or evaluation can be used with each of them. It
applies only those of its own strategy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.utils.text import get_text_list
from django.utils.translation import gettext as _

from memoryapp.engine.parameters import Declaration, Parameters, declarations
from memoryapp.engine.storable import storable
from memoryapp.engine.strategies import DEFAULT, PLAIN, PLANNING, STRATEGIES
from memoryapp.engine.strategies.strategy import AnyStrategy
from memoryapp.search.profiles import serving_profile

# How many characters of a wrong value an error repeats.
_SHOWN = 60


class ParameterError(ValueError):
    """An unknown parameter, or a value outside its range; the text is a sentence for people."""


def all_declarations() -> dict[str, Declaration]:
    """Every parameter that a run accepts, by name."""
    return {
        name: declaration
        for strategy in STRATEGIES.values()
        for name, declaration in declarations(strategy.parameters).items()
    }


def strategy_named(name: str) -> AnyStrategy:
    """The strategy of that name. Raises ParameterError when there is none."""
    if name not in STRATEGIES:
        raise ParameterError(
            _("There is no strategy “%(name)s”. Choose one of: %(known)s.")
            % {"name": name[:_SHOWN], "known": ", ".join(STRATEGIES)}
        )
    return STRATEGIES[name]


def strategy_for_new_run(name: str) -> AnyStrategy:
    """``strategy_named`` for a new run. Raises ParameterError also for *react* while it is switched off."""
    if name in PLANNING and not settings.ENABLE_AGENT:
        raise ParameterError(
            _("The strategy “%(name)s” is switched off (ENABLE_AGENT). “%(plain)s” answers without it.")
            % {"name": name, "plain": PLAIN.name}
        )
    return strategy_named(name)


def defaults(strategy: AnyStrategy = DEFAULT) -> Any:
    """The strategy's parameters with the values from the settings."""
    return of_run({}, strategy)


def of_run(stored: Mapping[str, Any], strategy: AnyStrategy = DEFAULT) -> Any:
    """The strategy's parameters as the run's row stores them; they were checked when it was written.

    A parameter that was declared later has its default.
    """
    return strategy.parameters(
        **{name: stored.get(name, _default(each)) for name, each in declarations(strategy.parameters).items()}
    )


def _default(declaration: Declaration) -> Any:
    return getattr(settings, declaration.setting) if declaration.setting else declaration.default


def to_store(strategy: AnyStrategy, given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a run's row stores: the defaults, those calibrated for the serving embedding profile, and
    those given.

    Raises ParameterError.
    """
    own: Parameters = defaults(strategy)
    calibrated = strategy.calibrated.get(serving_profile().name, {}) if strategy.calibrated else {}
    return {**own.as_dict(), **calibrated, **validate(given)}


def validate(given: Mapping[str, Any]) -> dict[str, Any]:
    """The ``given`` values as numbers, options and texts. Raises ParameterError with a sentence."""
    known = all_declarations()
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ParameterError(
            _("There is no parameter “%(name)s”. A run takes: %(known)s.")
            % {"name": unknown[0][:_SHOWN], "known": ", ".join(known)}
        )
    values = {name: _value(known[name], raw) for name, raw in given.items()}
    if values.get("until") and values.get("since", "") > values["until"]:
        raise ParameterError(_("since (%(since)s) is a later day than until (%(until)s).") % values)
    return values


def _value(declaration: Declaration, raw: Any) -> Any:
    if not declaration.is_number and not declaration.options:
        return _text(declaration, raw)
    value = raw if declaration.options else _number(declaration, raw)
    if declaration.allows(value):
        return value
    if declaration.options:
        raise ParameterError(_one_of(declaration, raw))
    raise ParameterError(
        _("%(name)s must be between %(least)s and %(most)s, not %(value)s.")
        % {"name": declaration.name, "least": declaration.least, "most": declaration.most, "value": raw}
    )


def _number(declaration: Declaration, raw: Any) -> int | float:
    whole = isinstance(raw, float) and declaration.kind is int and raw.is_integer()
    try:
        value: int | float = declaration.kind(str(int(raw) if whole else raw))
    except ValueError:
        raise ParameterError(
            _("%(name)s must be a number, not “%(value)s”.") % {"name": declaration.name, "value": raw}
        ) from None
    return value


def _text(declaration: Declaration, raw: Any) -> str:
    value = storable(raw).strip() if isinstance(raw, str) else None
    if value is not None and declaration.allows(value):
        return value
    given = {"name": declaration.name, "most": int(declaration.most), "value": f"{raw}"[:_SHOWN]}
    if declaration.is_day:
        raise ParameterError(_("%(name)s must be a day such as 2025-05-01, not “%(value)s”.") % given)
    raise ParameterError(_("%(name)s must be a text of at most %(most)s characters, not “%(value)s”.") % given)


def _one_of(declaration: Declaration, raw: Any) -> str:
    known = get_text_list(list(declaration.options))
    given = {"name": declaration.name, "known": known, "value": f"{raw}"[:_SHOWN]}
    return _("%(name)s must be %(known)s, not “%(value)s”.") % given
