"""Capsules as pages: a run in one HTML file that replays without a server."""
