"""Celery whose worker and beat write their heartbeat each second: ``python -m tests.embedded.beating worker …``."""

from celery.__main__ import main

from memoryapp.platform import heartbeats

if __name__ == "__main__":
    heartbeats.INTERVAL = 1.0
    main()
