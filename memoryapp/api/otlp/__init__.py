"""The OpenTelemetry protocol over HTTP: traces of other programs come in as foreign runs."""
