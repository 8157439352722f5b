"""Operation of the program: logs, metrics, health, locks, files, and its connections to database and broker.

In: what the processes (web, worker, beat and commands) report or need to know about themselves. Out: log lines, the
page `/metrics`, the states behind `/healthz` and `/readyz`, advisory locks, and a sentence for each reason not to
start. It counts runs and topics and knows nothing else about them. It imports ``memoryapp.environment`` and, for the
counts, the engine's events.
"""
