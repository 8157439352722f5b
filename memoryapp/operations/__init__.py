"""Running the program: logs, metrics, health, locks, files and what connects it to its database and broker.

In: what the processes (web, worker, beat and commands) report or ask about themselves. Out: log lines, the page
`/metrics`, the states behind `/healthz` and `/readyz`, advisory locks, and a sentence for each reason not to start. It
counts runs and topics and knows nothing else of them. It imports ``memoryapp.environment`` and, to count, the engine's
events.
"""
