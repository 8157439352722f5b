"""Event kinds that belong to one strategy, one module each; ``memoryapp.engine.events`` lists all kinds."""
