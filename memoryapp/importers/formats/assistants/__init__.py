"""Chats with assistants and agents, as their programs export or log them."""
