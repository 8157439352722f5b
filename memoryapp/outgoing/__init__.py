"""What is sent to others: signed messages about what happens, and runs as traces; and the settings of both."""
