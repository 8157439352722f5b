"""The texts that models are sent: their versions and editor, and one tried on a run of the past."""
