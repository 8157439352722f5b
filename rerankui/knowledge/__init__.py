"""People, facts and artifacts: their lists, one row with its history, its forms, and people merged into one."""
