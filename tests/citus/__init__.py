"""Real distributed PostgreSQL: what is kept when schemas lie on several servers, and when one of these is gone."""
