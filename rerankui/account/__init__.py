"""Signing in and out, the password, the user's sessions, language and theme."""
