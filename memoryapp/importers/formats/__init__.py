"""Reads the formats of other programs: their registry, and what chooses among them by the content of a file. A room
holds each family of formats; what reads bytes, JSON and lines, and what every reader yields, is around it."""
