"""The parameters of a run: what the strategies declare, with defaults from the settings and the values given by name. A
run accepts the parameters of its own strategy alone: one that the strategy lacks would be ignored in silence. An
evaluation of several strategies takes those of all of them, and gives each its own."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from django.conf import settings
from django.utils.text import get_text_list
from django.utils.translation import gettext as _

from memoryapp.engine.json_values import storable
from memoryapp.engine.memory import MOST_PHRASES, Where
from memoryapp.engine.parameters import Declaration, Parameters, declarations
from memoryapp.engine.strategies import DEFAULT, PLAIN, PLANNING, STRATEGIES
from memoryapp.engine.strategies.operators import typed
from memoryapp.engine.strategies.strategy import AnyStrategy
from memoryapp.models import ChatUser, Run
from memoryapp.search.profiles import serving_profile

# How many characters of a wrong value an error repeats.
_SHOWN = 60


class ParameterError(ValueError):
    """An unknown parameter, or a value outside its range; the text is a sentence for people."""


def all_declarations() -> dict[str, Declaration]:
    """Every parameter that some strategy has, by name; of several declarations the first."""
    found: dict[str, Declaration] = {}
    for strategy in STRATEGIES.values():
        found = {**declarations(strategy.parameters), **found}
    return found


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
    return of_run({}, strategy)


def of_run(stored: Mapping[str, Any], strategy: AnyStrategy = DEFAULT) -> Any:
    """The strategy's parameters as the run's row stores them; they were checked when it was written. A parameter that
    was declared later has its default."""
    return strategy.parameters(
        **{name: stored.get(name, _default(each)) for name, each in declarations(strategy.parameters).items()}
    )


def where_of(run: Run) -> Where:
    """The messages that the parameters of the run and the filters typed into its query permit."""
    parameters = of_run(run.parameters, STRATEGIES.get(run.strategy, DEFAULT))
    return cast("Parameters", parameters).where.over(typed(run.query).where)


def _default(declaration: Declaration) -> Any:
    return getattr(settings, declaration.setting) if declaration.setting else declaration.default


def to_store(strategy: AnyStrategy, given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a run's row stores: the defaults, those calibrated for the serving embedding profile, and
    those given. Raises ParameterError."""
    usual: Parameters = defaults(strategy)
    calibrated = strategy.calibrated.get(serving_profile().name, {}) if strategy.calibrated else {}
    return {**usual.as_dict(), **calibrated, **validate(given, strategy)}


def of_memory(owner: ChatUser, strategy: AnyStrategy) -> dict[str, Any]:
    """The parameters of the strategy for which the memory has defaults of its own."""
    return own({} if owner.least_certainty is None else {"least_certainty": owner.least_certainty}, strategy)


def validate(given: Mapping[str, Any], strategy: AnyStrategy) -> dict[str, Any]:
    """The ``given`` values as numbers, options and texts of the strategy. Raises ParameterError with a sentence."""
    known = declarations(strategy.parameters)
    also = {each.also: name for name, each in known.items() if each.also}
    given = {also.get(name, name): value for name, value in given.items()}
    if lacking := sorted(set(given) - set(known)):
        raise ParameterError(_lacking(lacking[0], strategy, known))
    values = {name: _value(known[name], raw) for name, raw in given.items()}
    if values.get("until") and values.get("since", "") > values["until"]:
        raise ParameterError(_("since (%(since)s) is a later day than until (%(until)s).") % values)
    return values


def own(given: Mapping[str, Any], strategy: AnyStrategy) -> dict[str, Any]:
    """Those of the ``given`` values that the strategy has parameters for."""
    return {name: value for name, value in given.items() if name in declarations(strategy.parameters)}


def of_each(given: Mapping[str, Any], strategies: Sequence[AnyStrategy]) -> list[dict[str, Any]]:
    """For each strategy its ``own`` of the values. Raises ParameterError for a wrong one, and for one that all lack."""
    parts = [own(given, strategy) for strategy in strategies]
    foreign = {name: value for name, value in given.items() if not any(name in part for part in parts)}
    for strategy, part in zip(strategies, parts, strict=True):
        validate({**part, **foreign}, strategy)
    return parts


def _lacking(name: str, strategy: AnyStrategy, known: Mapping[str, Declaration]) -> str:
    given = {"name": name[:_SHOWN], "strategy": strategy.name, "known": ", ".join(known)}
    if name not in all_declarations():
        return _("There is no parameter “%(name)s”. The strategy “%(strategy)s” takes: %(known)s.") % given
    return _("The strategy “%(strategy)s” has no parameter “%(name)s”. It takes: %(known)s.") % given


def _value(declaration: Declaration, raw: Any) -> Any:
    if not declaration.is_number and not declaration.options:
        return _text(declaration, raw)
    value = _option(declaration, raw) if declaration.options else _number(declaration, raw)
    if declaration.allows(value):
        return value
    if declaration.options:
        known = get_text_list(list(declaration.options))
        given = {"name": declaration.name, "known": known, "value": f"{raw}"[:_SHOWN]}
        raise ParameterError(_("%(name)s must be %(known)s, not “%(value)s”.") % given)
    raise ParameterError(
        _("%(name)s must be between %(least)s and %(most)s, not %(value)s.")
        % {"name": declaration.name, "least": declaration.least, "most": declaration.most, "value": raw}
    )


def _option(declaration: Declaration, raw: Any) -> Any:
    """The value as an option: true and false are those of a switch, also as text, which commands send."""
    return {"true": "yes", "false": "no"}.get(f"{raw}".lower(), raw) if declaration.is_switch else raw


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
    listed = declaration.is_phrases and isinstance(raw, list) and all(isinstance(each, str) for each in raw)
    if listed:
        # A comma counts as little as another mark within a phrase.
        raw = ", ".join(" ".join(each.translate({ord(","): " ", ord(";"): " "}).split()) for each in raw)
    value = storable(raw).strip() if isinstance(raw, str) else None
    if value is not None and declaration.allows(value):
        return value
    given = {"name": declaration.name, "most": int(declaration.most), "value": f"{raw}"[:_SHOWN]}
    if declaration.is_day:
        raise ParameterError(_("%(name)s must be a day such as 2025-05-01, not “%(value)s”.") % given)
    if declaration.is_phrases:
        given["count"] = MOST_PHRASES
        raise ParameterError(
            _(
                "%(name)s must be at most %(count)s phrases between commas, each with at most %(most)s characters and a"
                " word that says something, not “%(value)s”."
            )
            % given
        )
    raise ParameterError(_("%(name)s must be a text of at most %(most)s characters, not “%(value)s”.") % given)
