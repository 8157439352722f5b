"""Event kinds of one strategy each, in a module of their own; ``memoryapp.engine.events`` lists all there are."""
