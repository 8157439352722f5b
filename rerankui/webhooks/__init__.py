"""The pages of webhooks, for admins: the list, one of them with its messages, and its making and changing."""
