"""The audit log: what the doors write into it, and the chain that its entries are sealed into. The doors say who asks
and for what; whatever decides that a memory may be seen says whose it is. Comes in: requests and chat users; goes out:
rows of ``AuditEntry``. It imports accounts, webhooks and the models."""
