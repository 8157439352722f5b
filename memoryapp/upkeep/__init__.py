"""What the program does by itself: the stages of background work with their sweeps, the tasks that carry them, and the
demo memory.
"""
