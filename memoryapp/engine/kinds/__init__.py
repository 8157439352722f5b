"""Event kinds that belong to one strategy or feature, one module each; ``memoryapp.engine.events`` lists all kinds."""
