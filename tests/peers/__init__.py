"""Servers nobody here wrote, each a process of its own that speaks the chat protocol as its authors understood it."""
