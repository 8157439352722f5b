"""What developers run in a checkout; no part of the program that is installed."""
