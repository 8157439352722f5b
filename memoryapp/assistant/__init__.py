"""What an assistant needs to answer with its memory: its request in OpenAI's shape is read and given the context of a
run, the provider of the settings answers it, and what was said is kept.

In: the body of a request, a finished run's context, a client. Out: the body with its context, the provider's response,
stored messages. The room may import clients' protocols, ingestion and delivery; the API imports it.
"""
