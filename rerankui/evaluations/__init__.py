"""Data for the pages of evaluations: strategies side by side, and the questions that got worse."""
