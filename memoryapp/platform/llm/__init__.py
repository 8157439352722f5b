"""Models that are asked: the clients of chat and embedding models, the prompts as people edit them, and the stored
calls of agents."""
