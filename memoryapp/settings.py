"""Every setting, read from the environment once. docs/settings.md explains each; modules are named as strings only."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.utils.translation import gettext_lazy as _
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from memoryapp.engine.parameters import Declaration, RerankParameters, declarations
from memoryapp.engine.strategies.react.toolbox import ReactParameters
from memoryapp.engine.text import guard
from memoryapp.platform import environment as env
from memoryapp.platform.accounts import sign_on_settings as sign_on
from memoryapp.platform.accounts.sign_on_settings import *  # noqa: F403 settings too
from memoryapp.platform.embedded import paths
from memoryapp.platform.outgoing_settings import *  # noqa: F403 settings too

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = paths.data_dir()
# The library of metrics reads this from the environment itself, and needs the folder.
env.folder("PROMETHEUS_MULTIPROC_DIR")

DEBUG = env.switch("DEBUG", False)
SECRET_KEY = env.secret("SECRET_KEY", least=32) or paths.secret_key(DATA_DIR)
ALLOWED_HOSTS = env.names("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
# Web processes that `up` starts. Each has an embedded model (250 MB) and up to fifteen database connections.
WEB_CONCURRENCY = env.whole("WEB_CONCURRENCY", min(env.cores(), 2), least=1, most=12)
# Schemas in which the rows of memories lie, beside the tables that all share; with 1 they lie there as well.
DATABASE_ROUTERS = ["memoryapp.platform.cells.CellRouter"]
CELLS = env.whole("CELLS", 1, least=1, most=1000)
# A child process of `up` that sends no watchdog byte for this time hangs, and is restarted.
DRAIN_SECONDS = env.seconds("DRAIN_SECONDS", "30s", least=0, most=3600)
HANG_TIMEOUT = env.seconds("HANG_TIMEOUT", "30s", least=2, most=3600)

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "memoryapp.platform.accounts.apps.LoginAttempts",
    "django.contrib.messages",
    "django.contrib.postgres",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    *("channels", "channels_postgres"),
    *("memoryapp", "rerankui"),
    *sign_on.SIGN_ON_APPS,
    # Measurements, which only a checkout has.
    *(["tools.bench"] if (BASE_DIR / "tools" / "bench").is_dir() else []),
]
MIDDLEWARE = [
    "rerankui.web.pages.counted_requests",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "rerankui.web.pages.in_sight",
    "rerankui.web.pages.CompressedPages",
    "csp.middleware.CSPMiddleware",
    "rerankui.web.pages.private_pages",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "rerankui.web.pages.local_time",
    "memoryapp.doors.api.refusals.english_json",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "rerankui.web.moment.past_pages",
    *sign_on.SIGN_ON_MIDDLEWARE,
    "axes.middleware.AxesMiddleware",
    "rerankui.web.refusals.MalformedMiddleware",
]
ROOT_URLCONF = "rerankui.urls"
# Makes the HTML of a run in one file; the interface for programs answers it too.
CAPSULE_PAGE = "rerankui.runs.capsule.page"
ASGI_APPLICATION = "rerankui.asgi.application"
SHARED_TAGS = ("charts", "memory")
ROOMS_WITH_TAGS = ("account", "curation", "evaluations", "history", "imports", "lists", "past", "pipeline", "runs")
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [paths.files_of_pages("templates")],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                *(f"django.template.context_processors.{name}" for name in ("request", "i18n")),
                *("django.contrib.auth.context_processors.auth", "django.contrib.messages.context_processors.messages"),
                "rerankui.frame.frame.frame",
            ],
            # Every template has the words of all rooms without loading them.
            "builtins": [
                *("django.templatetags.i18n", "django.templatetags.static"),
                *(f"rerankui.templatetags.{name}" for name in SHARED_TAGS),
                *(f"rerankui.{room}.tags" for room in ROOMS_WITH_TAGS),
            ],
        },
    }
]


_QUOTED = re.compile(r'"[^"]*"')


def _database() -> dict[str, Any]:
    url = env.text("DATABASE_URL")
    if not url:
        return paths.embedded_database(DATA_DIR)
    try:
        parts = conninfo_to_dict(url)
    except ProgrammingError as error:
        # The part of the address that libpq quotes may belong to the password.
        reason = _QUOTED.sub('"…"', str(error).strip())
        raise env.SettingError(f"DATABASE_URL is not a PostgreSQL address: {reason}") from None
    if "@" in str(parts.get("host")) or ("@" in url.partition("://")[2] and not parts.get("user")):
        raise env.SettingError("DATABASE_URL has a password with @, / or : in it: write them as %40, %2F and %3A.")
    if not parts.get("dbname"):
        raise env.SettingError("DATABASE_URL names no database: postgresql://user@host/name.")
    known = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    options = {key: value for key, value in parts.items() if key not in known}
    named = {setting: str(parts.get(key) or "") for key, setting in known.items()}
    return {**named, "OPTIONS": options}


DATABASES = {
    "default": {"ENGINE": "django.db.backends.postgresql", "CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": True, **_database()}
}
if env.switch("MNEMOSCOPE_THROWAWAY", False):
    # The server of `manage.py test` has no database but that of the tests, under the usual name, so that processes
    # started by tests find it at the same address. On any other server that name belongs to real data.
    DATABASES["default"]["TEST"] = {"NAME": DATABASES["default"]["NAME"]}
# The embedded channel layer uses its tables through a database alias of its own.
DATABASES["channels_postgres"] = {**DATABASES["default"], "TEST": {"MIRROR": "default"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CHANNEL_LAYERS: dict[str, Any]
REDIS_URL = env.address("REDIS_URL", schemes=("redis", "rediss"))
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "memoryapp.platform.channel_layer.PersistentChannelLayer",
        "CONFIG": {
            **DATABASES["default"],
            "TIME_ZONE": "UTC",
            "group_expiry": 86400,
            # Seconds of attempts to connect; after them the next use begins again.
            "PSYCOPG_OPTIONS": {"reconnect_timeout": 4.0},
        },
    }
}
if REDIS_URL:
    by_redis = {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [REDIS_URL]}}
    CHANNEL_LAYERS = {"default": by_redis}

BROKERS = ("filesystem", "redis", "rediss", "redis+socket", "sentinel", "amqp", "amqps", "pyamqp", "memory")
_brokers = env.addresses("CELERY_BROKER_URL", REDIS_URL or "filesystem://localhost", schemes=BROKERS, between=";")
CELERY_BROKER_URL = ";".join(_brokers)
CELERY_BROKER_DIR = DATA_DIR / "broker"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
AUTHENTICATION_BACKENDS = [
    "memoryapp.platform.accounts.signing_in.Throttle",
    *(["memoryapp.platform.accounts.signing_in.Passwords"] if sign_on.PASSWORD_LOGIN else []),
    *sign_on.SIGN_ON_BACKENDS,
    "memoryapp.platform.accounts.signing_in.RoleAdmin",
]
# Wrong passwords allowed for an account at an address, and for all accounts together at an address.
AXES_FAILURE_LIMIT = env.whole("LOGIN_ATTEMPTS", 5, least=1, most=1_000)
LOGIN_ATTEMPTS_OF_ADDRESS = env.whole("LOGIN_ATTEMPTS_OF_ADDRESS", 50, least=1, most=100_000)
AXES_COOLOFF_TIME = timedelta(seconds=env.seconds("LOGIN_WAIT", "5m", least=1, most=86_400))
AXES_HANDLER = "memoryapp.platform.accounts.signing_in.Attempts"
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"], "ip_address"]
AXES_LOCKOUT_CALLABLE = "rerankui.account.account.locked_out"
AXES_CLIENT_IP_CALLABLE = "memoryapp.platform.accounts.signing_in.address_of"
AXES_RESET_ON_SUCCESS = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_DISABLE_ACCESS_LOG = True
AXES_ENABLE_ACCESS_FAILURE_LOG = True
AXES_VERBOSE = False
# How long the link works with which an operator chooses a password.
PASSWORD_RESET_TIMEOUT = int(env.seconds("INVITATION_KEEP", "3d", least=60, most=31_536_000))
# Behind a proxy: the header with the client's address, such as X-Forwarded-For, which only the proxy may set.
CLIENT_ADDRESS_HEADER = env.text("CLIENT_ADDRESS_HEADER")
# Open sockets that one login session may have in each web process.
SOCKETS_PER_SESSION = env.whole("SOCKETS_PER_SESSION", 50, least=1, most=1_000)
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "login"

LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("ru", _("Russian"))]
LOCALE_PATHS = [BASE_DIR / "rerankui" / "locale"]
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [paths.files_of_pages("static")]
# Files that were sent with queries. No address serves them.
MEDIA_ROOT = DATA_DIR / "files"
# Uploaded files that wait for their import, and how large one may be.
IMPORT_DIR = DATA_DIR / "imports"
IMPORT_MAX_BYTES = env.whole("IMPORT_MAX_BYTES", 300_000_000, least=1_000, most=1_000_000_000)
# Bytes of the disk that uploads and imports leave free: a full disk would stop the database as well.
DISK_RESERVE_BYTES = env.whole("DISK_RESERVE_BYTES", 500_000_000, least=0, most=10**15)
# Whether `up` makes a backup before it changes the tables of an earlier version.
UPGRADE_BACKUP = env.switch("UPGRADE_BACKUP", True)
# The folder in which backups appear; without one nobody is told that the last is missing or too old.
BACKUP_DIR = env.text("BACKUP_DIR")
# What a day may cost in US dollars, and what one memory may hold; without a value or with 0 there is no bound.
DAILY_CAP_USD = env.number("DAILY_CAP_USD", 0, least=0, most=10**6) if env.text("DAILY_CAP_USD") else None
QUOTA_MESSAGES = env.whole("QUOTA_MESSAGES", 0, least=0, most=10**12) or None
QUOTA_BYTES = env.whole("QUOTA_BYTES", 0, least=0, most=10**15) or None
# How long a file waits for a person's decision before it is removed.
IMPORT_KEEP = timedelta(seconds=env.seconds("IMPORT_KEEP", "7d", least=60, most=31_536_000))
STORAGES = {
    "default": {"BACKEND": "memoryapp.platform.storage.WholeFiles"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

SESSION_ENGINE = "memoryapp.platform.accounts.signing_in"
# A demo for everybody: no login, and nothing is changed. What guests ask must cost nothing.
DEMO_READ_ONLY = env.switch("DEMO_READ_ONLY", False)
if DEMO_READ_ONLY:
    for _paid in ("LLM_BASE_URL", "LLM_API_KEY", "EMBEDDING_BASE_URL", "RERANK_BASE_URL"):
        if env.text(_paid):
            raise env.SettingError(f"DEMO_READ_ONLY answers everybody with the embedded models: remove {_paid}.")
    if not sign_on.PASSWORD_LOGIN:
        raise env.SettingError("DEMO_READ_ONLY lets everybody in without a login: leave PASSWORD_LOGIN as it is.")
    SESSION_ENGINE = "memoryapp.upkeep.demo.visits"
    MIDDLEWARE.append("rerankui.web.read_only.ReadOnlyPages")
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
# For a proxy that terminates TLS and sets X-Forwarded-Proto itself, removing what the client sent.
SECURE_COOKIES = env.switch("SECURE_COOKIES", False)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = SECURE_COOKIES
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if SECURE_COOKIES else None
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if SECURE_COOKIES else 0
# Probes connect to the process itself, without TLS.
SECURE_REDIRECT_EXEMPT = ["^healthz$", "^readyz$", "^metrics$"]
# What is not stored, or not handed over, as it is; health is looked for only where it is named.
GUARD = env.choices("GUARD", tuple(guard.MASKS), ("off", "mark", "mask", "hold"), all_but="health")
GUARD_OUT = env.choices("GUARD_OUT", tuple(guard.MASKS), ("off", "mask"), all_but="health")
# Whether other hosts of the domain use TLS is not known here.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
CSRF_TRUSTED_ORIGINS = env.addresses("CSRF_TRUSTED_ORIGINS")
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }
}

LOG_LEVEL = env.choice("LOG_LEVEL", "WARNING", ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"))
LOG_FORMAT = env.choice("LOG_FORMAT", "line", ("line", "json"))
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "run": {"()": "memoryapp.platform.logs.RunLogFilter"},
        "discarded": {"()": "memoryapp.platform.logs.DiscardedConnectionFilter"},
        "outage": {"()": "memoryapp.platform.logs.OutageFilter"},
    },
    "formatters": {
        "line": {"()": "memoryapp.platform.logs.LineFormatter"},
        "json": {"()": "memoryapp.platform.logs.JsonFormatter"},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT, "filters": ["run"]}},
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        # It warns of every notice without a receiver, which is the usual case.
        "channels_postgres": {"level": "ERROR"},
        # They log addresses, headers and the words of an endpoint, which may contain its key.
        "httpx": {"level": "WARNING"},
        "httpcore": {"level": "WARNING"},
        "psycopg.pool": {"filters": ["discarded", "outage"]},
        "django.request": {"filters": ["outage"]},
    },
}

# The bearer token for /metrics; without one, /metrics answers on this machine only.
METRICS_TOKEN = env.secret("METRICS_TOKEN", least=16)
# A label with the number of the chat user in the metrics: one series for each, so only for few of them.
METRICS_BY_OWNER = env.switch("METRICS_BY_OWNER", False)

# Whether it is kept who reads, asks and changes what, and for how many days; 0 for ever.
AUDIT_LOG = env.switch("AUDIT_LOG", False)
AUDIT_DAYS = env.whole("AUDIT_DAYS", 365, least=0, most=36_500)

# The chat model: an OpenAI-compatible endpoint, or the embedded one when neither address nor key is given.
LLM_API_KEY = env.text("LLM_API_KEY")
LLM_BASE_URL = env.address("LLM_BASE_URL", "https://openrouter.ai/api/v1" if LLM_API_KEY else "")
LLM_MODEL = env.text("LLM_MODEL", "google/gemini-3-flash-preview")
RERANKER_MODEL = env.text("RERANKER_MODEL", LLM_MODEL)
ENRICHER_MODEL = env.text("ENRICHER_MODEL", LLM_MODEL)
# Judges whether the sources say what an answer states; empty for the model that wrote it.
VERIFIER_MODEL = env.text("VERIFIER_MODEL")
# Proposals for a curator: the parts of a topic, the summary of merged topics.
SPLITTER_MODEL = env.text("SPLITTER_MODEL", LLM_MODEL)
MERGER_MODEL = env.text("MERGER_MODEL", LLM_MODEL)
# The archivist extracts facts and people; the time is that of one question, a topic or a part of a long one.
ARCHIVIST_MODEL = env.text("ARCHIVIST_MODEL", LLM_MODEL)
ARCHIVIST_TIMEOUT = env.seconds("ARCHIVIST_TIMEOUT", "2m", least=0.05, most=600)
PROPOSAL_TIMEOUT = env.seconds("PROPOSAL_TIMEOUT", "60s", least=0.05, most=600)
LLM_STREAM = env.switch("LLM_STREAM", True)
_EFFORTS = ("max", "xhigh", "high", "medium", "low", "minimal", "none")
LLM_REASONING_EFFORT = env.choice_or_nothing("LLM_REASONING_EFFORT", "low", _EFFORTS)
LLM_RESPONSE_HEALING = env.switch("LLM_RESPONSE_HEALING", False)
LLM_PROVIDER = env.mapping("LLM_PROVIDER")
LLM_FALLBACK_MODELS = env.names("LLM_FALLBACK_MODELS")

# The chat endpoint of /v1: what is kept where a request does not say it, and who pays where it brings no key.
CHAT_STORE = env.switch("CHAT_STORE", False)
CHAT_REPORT = env.switch("CHAT_REPORT", False)
CHAT_SHARED_KEY = env.switch("CHAT_SHARED_KEY", False)
# Seconds for which the provider may send nothing.
CHAT_TIMEOUT = env.seconds("CHAT_TIMEOUT", "10m", least=0.05, most=3600)

EMBEDDING_BASE_URL = env.address("EMBEDDING_BASE_URL")
# A key is sent only to the host it was given for.
_SAME_HOST = env.host(EMBEDDING_BASE_URL) == env.host(LLM_BASE_URL)
EMBEDDING_API_KEY = env.text("EMBEDDING_API_KEY", LLM_API_KEY if _SAME_HOST else "")
EMBEDDING_MODEL = env.text("EMBEDDING_MODEL", "google/gemini-embedding-001")
# Below this cosine a topic that shares no word with the query is not shown; a new profile starts with it.
EMBEDDING_TOPICS_THRESHOLD = env.number("EMBEDDING_TOPICS_THRESHOLD", 0.3, least=0, most=1)
# Words that some models expect before each text: e5 "query:" and "passage:".
EMBEDDING_QUERY_PREFIX = env.prefix("EMBEDDING_QUERY_PREFIX")
EMBEDDING_PASSAGE_PREFIX = env.prefix("EMBEDDING_PASSAGE_PREFIX")
EMBEDDING_DIMENSIONS = env.whole("EMBEDDING_DIMENSIONS", 3072, least=1, most=4000)
# The endpoint of the serving embeddings, until those of a new address are made.
EMBEDDING_PREVIOUS_BASE_URL = env.address("EMBEDDING_PREVIOUS_BASE_URL")
EMBEDDING_PREVIOUS_API_KEY = env.text("EMBEDDING_PREVIOUS_API_KEY")
# US dollars for a million tokens, for forecasts; negative if unknown.
_PRICE = 0.15 if EMBEDDING_MODEL == "google/gemini-embedding-001" else -1.0
EMBEDDING_PRICE = env.number("EMBEDDING_PRICE", _PRICE, least=-1, most=1_000)

# A cross-encoder that corrects the order of a search; without an address none is asked.
RERANK_BASE_URL = env.address("RERANK_BASE_URL")
RERANK_API_KEY = env.text("RERANK_API_KEY", LLM_API_KEY if env.host(RERANK_BASE_URL) == env.host(LLM_BASE_URL) else "")
RERANK_MODEL = env.text("RERANK_MODEL")

RERANKER_ENABLED = env.switch("RERANKER_ENABLED", True)
# Without it the plain path answers: a search, and sentences quoted from what it found.
ENABLE_AGENT = env.switch("ENABLE_AGENT", True)
# How long a web process answers the same search from memory while nothing in the chat user's memory changes.
SEARCH_CACHE_TTL = env.seconds("SEARCH_CACHE_TTL", "30s", least=0, most=3600)


def _parameter(declared: Declaration) -> Any:
    """Returns the default of a parameter of runs, from the variable that its declaration names."""
    if declared.options:
        return env.choice(declared.setting, declared.default, declared.options)
    if declared.kind is int:
        return env.whole(declared.setting, declared.default, least=int(declared.least), most=int(declared.most))
    return env.seconds(declared.setting, f"{declared.default}s", least=declared.least, most=declared.most)


# Their bounds and defaults are those of the parameters of a run.
_RUN = declarations(RerankParameters)
RERANKER_CANDIDATES = _parameter(_RUN["candidates"])
RERANKER_PEOPLE_CANDIDATES = _parameter(_RUN["people_candidates"])
RERANKER_ARTIFACT_CANDIDATES = _parameter(_RUN["artifact_candidates"])
RERANKER_MAX_TOPICS = _parameter(_RUN["max_topics"])
RERANKER_MAX_PEOPLE = _parameter(_RUN["max_people"])
RERANKER_MAX_ARTIFACTS = _parameter(_RUN["max_artifacts"])
RERANKER_TIMEOUT = _parameter(_RUN["seconds"])
RERANKER_TURN_TIMEOUT = _parameter(replace(_RUN["turn_seconds"], default=RERANKER_TIMEOUT))
RERANKER_MAX_TOOL_CALLS = _parameter(_RUN["max_tool_calls"])
RERANKER_TOOL_MODE = _parameter(_RUN["tool_mode"])
RERANKER_READ_CHARS = _parameter(_RUN["read_chars"])
RERANKER_CONTEXT = _parameter(_RUN["context"])

_AGENT = declarations(ReactParameters)
AGENT_MAX_STEPS = _parameter(_AGENT["max_steps"])
TOOL_TIMEOUT_S = _parameter(_AGENT["tool_seconds"])
AGENT_FUSION = _parameter(_AGENT["fusion"])
RRF_K = _parameter(_AGENT["rrf_k"])
AGENT_MMR = _parameter(_AGENT["mmr"])
_LAMBDA = _AGENT["mmr_lambda"]
MMR_LAMBDA = env.number(_LAMBDA.setting, _LAMBDA.default, least=_LAMBDA.least, most=_LAMBDA.most)
MMR_OUTPUT_K = _parameter(_AGENT["mmr_hits"])
# Whether passages are scored a second time, and how many; a cross-encoder reads as many topics of any search.
RERANK_ENABLE = _parameter(_AGENT["rerank"])
RERANK_TOP_N = _parameter(_AGENT["rerank_hits"])

CHUNK_INTERVAL = env.seconds("CHUNK_INTERVAL", "1h", least=1)
CHUNK_INTERVAL_PEOPLE = env.seconds("CHUNK_INTERVAL_PEOPLE", "6h", least=1)
MAX_CHUNK_SIZE = env.whole("MAX_CHUNK_SIZE", 400, least=2, most=10_000)
# A smaller topic is joined to a neighbour of the same session.
TOPIC_LEAST_MESSAGES = env.whole("TOPIC_LEAST_MESSAGES", 6, least=1, most=1_000)
SPLIT_THRESHOLD_CHARS = env.whole("SPLIT_THRESHOLD_CHARS", 25_000, least=1_000, most=10_000_000)

# Cosines of different models do not compare: with the embedded model seven in a thousand pairs reach 0.7.
CONSOLIDATION_SIMILARITY_THRESHOLD = env.number(
    "CONSOLIDATION_SIMILARITY_THRESHOLD", 0.85 if EMBEDDING_BASE_URL else 0.7, least=0, most=1
)
# The cosine from which two facts of one kind say the same or replace each other; of the embedded model "is allergic to
# peanuts" and "has a peanut allergy" have 0.82, "likes apples" and "likes pears" 0.75.
FACT_SIMILARITY_THRESHOLD = env.number("FACT_SIMILARITY_THRESHOLD", 0.9 if EMBEDDING_BASE_URL else 0.8, least=0, most=1)
# How many of the nearest topics each topic is compared with.
CONSOLIDATION_BATCH_SIZE = env.whole("CONSOLIDATION_BATCH_SIZE", 10, least=1, most=100)
MAX_MERGED_SIZE_CHARS = env.whole("MAX_MERGED_SIZE_CHARS", 50_000, least=1_000, most=10_000_000)

DATA_UPLOAD_MAX_MEMORY_SIZE = 10 * 1024 * 1024
# The largest image, sound or file of a query; as base64 it must fit into a body.
MEDIA_MAX_BYTES = env.whole("MEDIA_MAX_BYTES", 7_000_000, least=1_000, most=100_000_000)
# Requests that a token may send in a time, and runs it may have in flight.
API_RATE = env.rate("API_RATE", "600/m")
API_MAX_RUNS = env.whole("API_MAX_RUNS", 250, least=1, most=10_000)
