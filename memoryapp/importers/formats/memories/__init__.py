"""Memories of this program and of others: messages, and what was distilled from them."""
