"""Imports: files given to a memory, looked through, imported; and what became of each import, with the way back."""
