"""Every setting, read from the environment once; modules are named as strings only."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.utils.translation import gettext_lazy as _
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from memoryapp import environment as env
from memoryapp.embedded import places

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = places.data_dir()

DEBUG = env.switch("DEBUG", False)
SECRET_KEY = env.secret("SECRET_KEY", least=32) or places.secret_key(DATA_DIR)
ALLOWED_HOSTS = env.names("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
# How many web processes `up` starts. Each has an embedded model (250 MB) and up to some fifteen database connections.
WEB_CONCURRENCY = env.whole("WEB_CONCURRENCY", min(env.cores(), 2), least=1, most=12)
# A process that `up` started and that gives no sign of life for this long hangs, and is started again.
HANG_TIMEOUT = env.seconds("HANG_TIMEOUT", "30s", least=2, most=3600)

INSTALLED_APPS = [
    "daphne",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "axes",
    "django.contrib.messages",
    "django.contrib.postgres",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "channels",
    "channels_postgres",
    "memoryapp",
    "rerankui",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "rerankui.compression.CompressedPages",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "rerankui.local_time.local_time",
    "memoryapp.api.middleware.doors",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
    "rerankui.malformed.MalformedMiddleware",
]
ROOT_URLCONF = "rerankui.urls"
ASGI_APPLICATION = "rerankui.asgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "django.template.context_processors.i18n",
                "rerankui.frame.frame",
            ],
        },
    },
]


_QUOTED = re.compile(r'"[^"]*"')


def _database() -> dict[str, Any]:
    url = env.text("DATABASE_URL")
    if not url:
        return places.embedded_database(DATA_DIR)
    try:
        parts = conninfo_to_dict(url)
    except ProgrammingError as error:
        # What libpq quotes of the address may be a piece of the password.
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
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
        **_database(),
    }
}
if env.switch("MNEMOSCOPE_THROWAWAY", False):
    # The server of `manage.py test` holds nothing but the test database, under its usual name, so that the
    # processes which tests start find it by the same address. Anywhere else that name is somebody's data.
    DATABASES["default"]["TEST"] = {"NAME": DATABASES["default"]["NAME"]}
# The embedded channel layer reaches its tables under a name of its own.
DATABASES["channels_postgres"] = {**DATABASES["default"], "TEST": {"MIRROR": "default"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CHANNEL_LAYERS: dict[str, Any]
REDIS_URL = env.address("REDIS_URL", schemes=("redis", "rediss"))
if REDIS_URL:
    CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [REDIS_URL]},
        }
    }
else:
    CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_postgres.core.PostgresChannelLayer",
            "CONFIG": {**DATABASES["default"], "TIME_ZONE": "UTC", "group_expiry": 86400},
        }
    }

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
    "memoryapp.signing_in.Throttle",
    "memoryapp.signing_in.Passwords",
    "memoryapp.signing_in.RoleAdmin",
]
# Wrong passwords that an account may be given from an address, and an address may give for all accounts together.
AXES_FAILURE_LIMIT = env.whole("LOGIN_ATTEMPTS", 5, least=1, most=1_000)
LOGIN_ATTEMPTS_OF_ADDRESS = env.whole("LOGIN_ATTEMPTS_OF_ADDRESS", 50, least=1, most=100_000)
AXES_COOLOFF_TIME = timedelta(seconds=env.seconds("LOGIN_WAIT", "5m", least=1, most=86_400))
AXES_HANDLER = "memoryapp.signing_in.Attempts"
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"], "ip_address"]
AXES_LOCKOUT_CALLABLE = "rerankui.views.session.locked_out"
AXES_CLIENT_IP_CALLABLE = "memoryapp.client_address.address_of"
AXES_RESET_ON_SUCCESS = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_DISABLE_ACCESS_LOG = True
AXES_ENABLE_ACCESS_FAILURE_LOG = True
AXES_VERBOSE = False
# Behind a proxy: the header in which it tells who asks, such as X-Forwarded-For. Nobody else may be able to send it.
CLIENT_ADDRESS_HEADER = env.text("CLIENT_ADDRESS_HEADER")
# Pages that may follow runs for one session, in each web process.
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
STATICFILES_DIRS = [BASE_DIR / "static"]
# What came with queries. No address serves it.
MEDIA_ROOT = DATA_DIR / "files"
STORAGES = {
    "default": {"BACKEND": "memoryapp.storage.WholeFiles"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

SESSION_ENGINE = "memoryapp.login_sessions"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
# Behind a proxy that speaks TLS, sets X-Forwarded-Proto itself and lets nobody else set it.
SECURE_COOKIES = env.switch("SECURE_COOKIES", False)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = SECURE_COOKIES
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if SECURE_COOKIES else None
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if SECURE_COOKIES else 0
# Probes ask the process itself, without TLS.
SECURE_REDIRECT_EXEMPT = ["^healthz$", "^readyz$", "^metrics$"]
# Whether the other names of the domain speak TLS is not ours to promise.
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
    "filters": {"run": {"()": "memoryapp.logs.AboutRun"}},
    "formatters": {"line": {"()": "memoryapp.logs.Line"}, "json": {"()": "memoryapp.logs.Json"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT, "filters": ["run"]}},
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        # It warns of every notice that nobody is there to receive, which is the usual case.
        "channels_postgres": {"level": "ERROR"},
        # They write down addresses, headers and what an endpoint says, which may hold its key.
        "httpx": {"level": "WARNING"},
        "httpcore": {"level": "WARNING"},
    },
}

# Whoever reads /metrics sends it as a bearer token; without one they are told on this machine only.
METRICS_TOKEN = env.secret("METRICS_TOKEN", least=16)
# Chat users by their numbers in the metrics: one series for each, so only where they are few.
METRICS_BY_OWNER = env.switch("METRICS_BY_OWNER", False)

# The chat model: an OpenAI-compatible endpoint, or the embedded one when neither address nor key is given.
LLM_API_KEY = env.text("LLM_API_KEY")
LLM_BASE_URL = env.address("LLM_BASE_URL", "https://openrouter.ai/api/v1" if LLM_API_KEY else "")
LLM_MODEL = env.text("LLM_MODEL", "google/gemini-3-flash-preview")
RERANKER_MODEL = env.text("RERANKER_MODEL", LLM_MODEL)
ENRICHER_MODEL = env.text("ENRICHER_MODEL", LLM_MODEL)
# What curators may ask for: where a topic turns, how merged topics are called. They wait for it at a button.
SPLITTER_MODEL = env.text("SPLITTER_MODEL", LLM_MODEL)
MERGER_MODEL = env.text("MERGER_MODEL", LLM_MODEL)
PROPOSAL_TIMEOUT = env.seconds("PROPOSAL_TIMEOUT", "60s", least=0.05, most=600)
LLM_STREAM = env.switch("LLM_STREAM", True)
_EFFORTS = ("max", "xhigh", "high", "medium", "low", "minimal", "none")
LLM_REASONING_EFFORT = env.choice_or_nothing("LLM_REASONING_EFFORT", "low", _EFFORTS)
LLM_RESPONSE_HEALING = env.switch("LLM_RESPONSE_HEALING", False)
LLM_PROVIDER = env.mapping("LLM_PROVIDER")
LLM_FALLBACK_MODELS = env.names("LLM_FALLBACK_MODELS")

EMBEDDING_BASE_URL = env.address("EMBEDDING_BASE_URL")
# A key is told to nobody but the host it was given for.
_SAME_HOST = env.host(EMBEDDING_BASE_URL) == env.host(LLM_BASE_URL)
EMBEDDING_API_KEY = env.text("EMBEDDING_API_KEY", LLM_API_KEY if _SAME_HOST else "")
EMBEDDING_MODEL = env.text("EMBEDDING_MODEL", "google/gemini-embedding-001")
# Below this cosine a topic that shares no word with the query is not shown; a profile begins with it.
EMBEDDING_TOPICS_THRESHOLD = env.number("EMBEDDING_TOPICS_THRESHOLD", 0.3, least=0, most=1)
EMBEDDING_DIMENSIONS = env.whole("EMBEDDING_DIMENSIONS", 3072, least=1, most=4000)

RERANKER_ENABLED = env.switch("RERANKER_ENABLED", True)
RERANKER_CANDIDATES = env.whole("RERANKER_CANDIDATES", 50, least=1, most=200)
RERANKER_PEOPLE_CANDIDATES = env.whole("RERANKER_PEOPLE_CANDIDATES", 20, least=0, most=200)
RERANKER_ARTIFACT_CANDIDATES = env.whole("RERANKER_ARTIFACT_CANDIDATES", 20, least=0, most=200)
RERANKER_MAX_TOPICS = env.whole("RERANKER_MAX_TOPICS", 15, least=1, most=50)
RERANKER_MAX_PEOPLE = env.whole("RERANKER_MAX_PEOPLE", 10, least=0, most=50)
RERANKER_MAX_ARTIFACTS = env.whole("RERANKER_MAX_ARTIFACTS", 10, least=0, most=50)
RERANKER_TIMEOUT = env.seconds("RERANKER_TIMEOUT", "10s", least=0.05, most=600)
RERANKER_TURN_TIMEOUT = env.seconds("RERANKER_TURN_TIMEOUT", f"{RERANKER_TIMEOUT}s", least=0.05, most=600)
RERANKER_MAX_TOOL_CALLS = env.whole("RERANKER_MAX_TOOL_CALLS", 3, least=1, most=20)
RERANKER_TOOL_MODE = env.choice("RERANKER_TOOL_MODE", "forced", ("forced", "auto"))
RERANKER_READ_CHARS = env.whole("RERANKER_READ_CHARS", 200_000, least=1_000, most=5_000_000)

CHUNK_INTERVAL = env.seconds("CHUNK_INTERVAL", "1h", least=1)
MAX_CHUNK_SIZE = env.whole("MAX_CHUNK_SIZE", 400, least=2, most=10_000)
SPLIT_THRESHOLD_CHARS = env.whole("SPLIT_THRESHOLD_CHARS", 25_000, least=1_000, most=10_000_000)

# Cosines of different models do not compare: of the embedded one's topics seven in a thousand pairs reach 0.7.
CONSOLIDATION_SIMILARITY_THRESHOLD = env.number(
    "CONSOLIDATION_SIMILARITY_THRESHOLD", 0.85 if EMBEDDING_BASE_URL else 0.7, least=0, most=1
)
# How many of the nearest topics each topic is compared with.
CONSOLIDATION_BATCH_SIZE = env.whole("CONSOLIDATION_BATCH_SIZE", 10, least=1, most=100)
MAX_MERGED_SIZE_CHARS = env.whole("MAX_MERGED_SIZE_CHARS", 50_000, least=1_000, most=10_000_000)

DATA_UPLOAD_MAX_MEMORY_SIZE = 10 * 1024 * 1024
# One image, sound or file of a query; sent as base64 it must fit into a body.
MEDIA_MAX_BYTES = env.whole("MEDIA_MAX_BYTES", 7_000_000, least=1_000, most=100_000_000)
# Requests a token may make in a time, and runs it may have in flight.
API_RATE = env.rate("API_RATE", "600/m")
API_MAX_RUNS = env.whole("API_MAX_RUNS", 250, least=1, most=10_000)
