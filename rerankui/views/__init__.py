"""The pages on which a memory is asked: for an answer, or for the memories an assistant would receive."""
