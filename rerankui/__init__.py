"""How the memory is seen and steered: pages, fragments and the websocket over ``memoryapp``."""
