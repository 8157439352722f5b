"""Runs compared: two side by side, many as a matrix, and one question asked in several ways."""
