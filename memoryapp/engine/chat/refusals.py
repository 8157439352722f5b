"""What an endpoint says when it refuses a request or fails, in any of the shapes that endpoints use.

OpenAI has an object ``error``; Gemini wraps it in a list; vLLM, Mistral and gateways put ``message`` at the top;
FastAPI sends ``detail``, a text or a list with the place of each fault; MiniMax sends ``base_resp`` with HTTP 200;
others send a text, or a page. Reading never raises."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from memoryapp.engine.beside import table_beside
from memoryapp.engine.json_values import positive, to_text

_STATUS = re.compile("[45][0-9]{2}")
_STATUS_KEYS = ("code", "status_code", "statusCode", "status", "http_code")
# Where the words stand, the likeliest first.
_WORD_KEYS = (
    *("message", "msg", "status_msg", "detail", "error", "errors", "error_message", "error_msg", "description"),
    "title",
)
_PAYMENT = 402
_MOST_CHARS = 1000
_MOST_PLAIN_CHARS = 300
_TAGS = re.compile(r"<[^<>]*>")
# A generation that failed is reported as a bad request by Groq, and as a failure of the server by llama.cpp.
_FAILED_CODES = frozenset({"tool_use_failed", "json_validate_failed", "output_parse_failed"})
# What they say, each a list of phrases of which one is enough.
_PHRASES = {name: re.compile("|".join(each), re.IGNORECASE) for name, each in table_beside(__file__).items()}
# By what an error is called where it has no status of HTTP.
_STATUS_NAMED = [(int(name), words) for name, words in _PHRASES.items() if name.isdecimal()]
_OF_ACCOUNT = frozenset({200, 429})
_BAD_REQUEST, _UNAVAILABLE = 400, 503
_DELAY = re.compile(r"(\d{1,6}(?:\.\d{1,9})?)s")
# Statuses of a refused request. OpenRouter answers 404 when no provider accepts one of its parameters. llama.cpp and
# gateways refuse with 5xx, Azure's catalogue with 424; the words of a server that fails describe the failure, so only
# these say that it refuses.
_REFUSALS = frozenset({400, 422, 501})
_SAY_NOTHING_OF_THE_REQUEST = frozenset({401, 402, 403, 408, 429})
_NO_PROVIDER = "no endpoints found that"


@dataclass(frozen=True, slots=True)
class EndpointError:
    """An error in the body of an answer. ``status`` is an HTTP status, ``wait`` the seconds to wait, if the answer says
    so; ``code`` is the endpoint's own name for the error, if it has one."""

    status: int
    message: str
    wait: float | None = None
    code: str = ""


def document_in(content: bytes) -> Mapping[str, Any] | None:
    """The JSON object in a body, or the first of a list, as Gemini sends errors; None when there is none."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list) and value:
        value = value[0]
    return value if isinstance(value, dict) else None


def error_in(document: Mapping[str, Any] | None) -> EndpointError | None:
    """The error in an answer: at the top, in its choice, or as its finish reason."""
    if document is None:
        return None
    choices = document.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    for error in (document.get("error"), choice.get("error")):
        if error and error is not True:
            return _endpoint_error(error)
    if choice.get("finish_reason") == "error":
        native = choice.get("native_finish_reason")
        return EndpointError(502, f"the model failed: {native}" if native else "the model failed")
    failed = document.get("base_resp")
    if isinstance(failed, dict) and failed.get("status_code") not in (0, None, "0"):
        return _endpoint_error({**failed, "status_code": None})
    answers = isinstance(choices, list) or isinstance(document.get("data"), list)
    if document.get("object") == "error" or not answers:
        return _endpoint_error(document) if _words(document) else None
    return None


def words_in(content: bytes) -> str:
    """The words of a failing body: those of its error, or its plain text; empty where it says nothing."""
    document = document_in(content)
    if document is not None:
        error = error_in(document)
        return error.message if error else ""
    text = content[: _MOST_PLAIN_CHARS * 40].decode("utf-8", "replace")
    # The head of a page contains styles and scripts.
    text = text[max(text.find("<body"), 0) :]
    return " ".join(_TAGS.sub(" ", text).split())[:_MOST_PLAIN_CHARS]


def teaches(status: int, why: str) -> bool:
    """Whether an answer with that status refuses what the request asks for, so that it names a missing ability."""
    if status in _REFUSALS or (status == 404 and _NO_PROVIDER in why.lower()):
        return True
    return (
        status >= 400
        and status not in _SAY_NOTHING_OF_THE_REQUEST
        and _PHRASES["refuses_plainly"].search(why) is not None
        and _PHRASES["passes"].search(why) is None
    )


def is_failed_generation(code: str, words: str) -> bool:
    """Whether the model wrote what the endpoint could not read; it may succeed the next time."""
    return code in _FAILED_CODES or _PHRASES["failed_generation"].search(words) is not None


def status_by_words(status: int, code: str, words: str, wait: float | None = None) -> int:
    """``status``; 402 where the words of a busy endpoint say that the account is used up, and it does not say after how
    many seconds to ``wait`` more is free; 503 where a refusal speaks of what passes."""
    if status == _BAD_REQUEST and _PHRASES["passes"].search(words):
        return _UNAVAILABLE
    named = _status_named(code, words) if status in _OF_ACCOUNT and wait is None else status
    return named if named == _PAYMENT else status


def _endpoint_error(error: Any) -> EndpointError:
    if not isinstance(error, dict):
        sentence = _words(error)
        return EndpointError(_status_named("", sentence), sentence, _wait({}, sentence))
    metadata = error.get("metadata")
    words = [_words(error), _words(metadata.get("raw")) if isinstance(metadata, dict) else ""]
    parameter = error.get("param")
    if isinstance(parameter, str) and parameter and parameter not in words[0]:
        words.append(f"parameter {parameter}"[:100])
    sentence, code = ": ".join(word for word in words if word), _code(error)
    status = next((found for key in _STATUS_KEYS if (found := _status(error.get(key)))), 0)
    wait = _wait(error, sentence)
    if not status:
        status = _status_named(f"{code} {_named(error)}", sentence)
    return EndpointError(status_by_words(status, code, sentence, wait), sentence, wait, code)


def _status_named(code: str, words: str) -> int:
    """The status that fits what the error is called, or else its words; 502 where nothing says so."""
    for text in filter(None, (code.strip(), words)):
        for status, names in _STATUS_NAMED:
            if names.search(text):
                return status
    return 502


def _named(error: Mapping[str, Any]) -> str:
    """What else an error is called."""
    return " ".join(name for key in ("type", "status") if isinstance(name := error.get(key), str))


def _wait(error: Mapping[str, Any], words: str) -> float | None:
    """The seconds to wait that an error asks for: in a field of its own, among Google's details, or in words."""
    availability, details = error.get("availability"), error.get("details")
    if isinstance(availability, dict) and (asked := positive(availability.get("retry_after"))):
        return asked
    for detail in details[:10] if isinstance(details, list) else ():
        delay = _DELAY.fullmatch(str(detail.get("retryDelay"))[:20]) if isinstance(detail, dict) else None
        if delay:
            return float(delay[1])
    found = _PHRASES["wait_named"].search(words)
    if not found:
        return None
    number = float(found["number"]) / (1000 if found["unit"].lower() == "ms" else 1)
    return 60 * int(found["minutes"] or 0) + number


def _code(error: Mapping[str, Any]) -> str:
    named = (error.get("code"), error.get("type"))
    return next((name for name in named if isinstance(name, str) and name), "")


def _status(code: Any) -> int:
    """HTTP's status in an error's code, 0 where that is none."""
    plain = isinstance(code, int | str) and not isinstance(code, bool)
    return int(code) if plain and _STATUS.fullmatch(str(code)[:4]) else 0


def _words(value: Any) -> str:
    try:
        text = "; ".join(_sentences(value))
    except RecursionError:
        text = ""
    return " ".join(text.split())[:_MOST_CHARS]


def _sentences(value: Any) -> Iterator[str]:
    """The sentences in the value of an error, wherever they stand."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value[:10]:
            yield from _sentences(item)
    elif isinstance(value, dict):
        inner = next((value[key] for key in _WORD_KEYS if value.get(key) and value[key] is not True), None)
        place = value.get("loc")
        if isinstance(place, list):
            # FastAPI: the place of the fault in the request, without what was sent there.
            yield f"{'.'.join(str(step) for step in place if step != 'body')}: {inner}"
        else:
            yield from _sentences(inner)


# Keeps the API key out of everything that is stored and shown.
#
# An endpoint may repeat the key in an error, in a model's answer or in a header. Everything it sends passes through
# here before it becomes an event or a line of the log.

_INSTEAD = "[API key]"
# A shorter key is no secret, but a word that local servers accept in place of one; it may appear in plain text.
_SHORTEST = 8

T = TypeVar("T")


def holds(value: object, secret: str) -> bool:
    """Whether any text in ``value`` has the ``secret`` in it, which is found out far quicker than it is replaced."""
    return len(secret) >= _SHORTEST and to_text(secret)[1:-1] in to_text(value)


def redacted(value: T, secret: str) -> T:
    """``value`` with every ``secret`` in its texts replaced, at any depth of mappings, lists and dataclasses."""
    return cast("T", _redacted(value, secret)) if len(secret) >= _SHORTEST else value


def _redacted(value: Any, secret: str) -> Any:
    if isinstance(value, str):
        return value.replace(secret, _INSTEAD)
    if isinstance(value, Mapping):
        return {_redacted(key, secret): _redacted(item, secret) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_redacted(item, secret) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        values: dict[str, Any] = {each.name: _redacted(getattr(value, each.name), secret) for each in fields(value)}
        return replace(value, **values)
    return value


def without_login(address: str) -> str:
    """Returns the URL without the user and password that may precede its host."""
    scheme, slashes, rest = address.partition("//")
    place, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{place.rpartition('@')[2]}{slash}{path}"


def growing(text: str, secret: str) -> str:
    """``redacted`` for a text that is still growing: without an end that may become the ``secret``."""
    if len(secret) < _SHORTEST:
        return text
    plain = redacted(text, secret)
    begun = next((n for n in range(min(len(secret) - 1, len(plain)), 0, -1) if plain.endswith(secret[:n])), 0)
    return plain[: len(plain) - begun]
