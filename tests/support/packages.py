"""Imports what most programs of this project import and what reads no setting, for ``forked``.

Not prometheus_client, which looks into the environment for the folder of its files."""

from __future__ import annotations

from importlib import import_module

PACKAGES = (
    *(
        "asyncio",
        "email.mime.text",
        "email.mime.multipart",
        "celery",
        "celery.app.base",
        "celery.worker",
        "celery.beat",
    ),
    *(
        "celery.bin.celery",
        "celery.apps.worker",
        "celery.apps.beat",
        "celery.fixups.django",
        "kombu",
        "channels.layers",
    ),
    *("django", "django.core.management", "django.db.models", "django.forms", "django.template", "django.http"),
    *("django.core.handlers.asgi", "django.db.backends.postgresql.base", "django.contrib.postgres.search"),
    *("httpx", "ijson", "json_repair", "numpy", "orjson", "psycopg", "psycopg_pool", "pydantic"),
    *(
        "pgvector.django",
        "snowballstemmer",
        "threadpoolctl",
        "cachetools",
        "docx",
        "pypdf",
        "whitenoise",
        "django_htmx",
    ),
    *("memoryapp.engine.strategies", "memoryapp.engine.offline.scorer", "memoryapp.engine.agents"),
)

for name in PACKAGES:
    import_module(name)
