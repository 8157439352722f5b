"""What the memory is and does; works without a browser.

The glossary, one word a thing:

chat user    whose memory it is; the owner of every row (an *operator* is the person looking at it)
message      one thing somebody said, as imported; belongs to one live topic, or to the active session
session      the messages of one chat user that no topic holds yet; a pause or a label ends it
topic        a summary over messages; never changed, only swapped for others by an *edit*
change       topics to go out and topics to come in, planned; its *effect* is what it would do to past runs
edit         some topics out, others in, over the same messages: archive, merge, split, move, undo
passage      one exchange cut to about 600 characters: what search compares a query with
card         what search compares a query with to find a person or an artifact
profile      the embedding model, its dimensions and its thresholds: vectors compare within one
candidate    a topic that search found, with its rank and scores
turn         one call of the chat model and its reply
tool call    the model asking for the content of topics
selection    the topics the model chose, each with a reason and a verified excerpt; people and artifacts likewise
context      what a run hands to the chat model: the user's profile, the selection, and what else it should know
fallback     what was used instead when the model did not choose, and why
run          one rerank from query to selection; its *events* are all there is to know about it
suggestion   a merge or split that the machine proposes and a person decides, in the *queue*
prompt       the text a model is told, versioned; its variables are recorded with each run
trial        a run of the past tried again with another prompt; what came before that prompt is *replayed*
door         an address for programs under ``/v1/``; a *token* with the right scope opens it
strategy     how a run chooses: flash (agentic), filter, react, or vector (the baseline)
"""
