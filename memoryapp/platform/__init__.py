"""What the program stands on: its settings, database, logs and metrics, accounts, the models that it asks, what it
sends out, and the processes of `up`. It imports the rows and the engine, and knows nothing of what is done with a
memory."""
