"""Runs as traces for others: each run that ended becomes spans, which OpenTelemetry's exporter sends.

In: the id of a run that has just ended. Out: nothing that anybody waits for. ``ended`` takes the ids and has a thread
read the rows, ``spans`` makes spans of events without knowing OpenTelemetry, ``content`` writes the texts of messages
as its conventions want them, and ``exporting`` hands everything to its SDK, which is optional. Off unless the
environment names a collector.

The room imports rows and the engine alone, because ``runs`` tells it of every end."""
