"""Chats between people, as messengers export them."""
