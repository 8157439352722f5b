"""Traces of other programs as foreign runs: what came as OTLP is read, understood, and becomes the events of a run.

In: the body of a request of the OpenTelemetry protocol, and a chat user. Out: runs with an ``origin``, and how many
spans were taken. ``wire`` reads bytes to spans, ``openinference`` and ``genai`` understand spans of these two
conventions as steps, ``course`` makes events of the steps of a trace, ``arrival`` stores them while the trace
grows, and ``ending`` ends traces that stay quiet.

The room may import runs. It knows nothing of HTTP."""
