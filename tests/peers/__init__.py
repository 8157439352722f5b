"""Servers that others wrote, each a process of its own that speaks the chat protocol in its authors' interpretation."""
