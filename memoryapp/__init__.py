"""What the memory is and does; works without a browser.

The glossary, one word a thing and one meaning a word:

The memory
chat user    whose memory it is; the owner of every row (an *operator* is the person who looks at it)
message      what one author said at one time, as imported; belongs to one live topic, or to the active session
session      the messages of one chat user that no topic holds yet; a pause or a label ends it (an operator's is a
             *login session*)
topic        a summary over messages; never changed, only swapped for others by an *edit*; *live* until it is *retired*
passage      one exchange cut to about 600 characters: what search compares a query with
card         what search compares a query with to find a person or an artifact
person, artifact, fact    what was distilled from messages: who was mentioned, which file was sent, what is known
batch        the messages that one import of one file brought
judgement    what an operator thinks of an answer
golden question    a question with the messages known to answer it, or known to have no answer; an *evaluation* runs a
             file of them

Changes
change       topics to go out and topics to come in, planned; its *effect* is what it would do to past runs
draft        a topic that is planned: a summary and its messages
edit         some topics out, others in, over the same messages: archive, merge, split, move, withdraw, undo
archive      the edit by which a session becomes topics, cut by a *cutter*: the splitter, or the embedded *segmenter*
successors   the live topics that hold a retired topic's messages now
suggestion   a merge or split that the machine proposes and a person decides about, in the *queue*
finding      a fact or person that the archivist found in a topic, and what a person decided about it in the *review*
receipt      what an erasure leaves behind: how many rows went from each table

Runs
run          one rerank from query to selection; its *events* are all there is to know about it
strategy     how a run chooses among candidates, as a value in a registry: *flash* asks a chat model, *vector* does not;
             *react* and *plain* (the plain path) also answer in words
answer       what a run says in words, each statement with *citations*: the messages behind it
step         one of at most four phases of the strategy *react*, which settings and addresses call the agent (as in
             ``ENABLE_AGENT``); its tools are named in the run
citation     the number in an answer behind which a message stands
parameter    what can be set on a run; its strategy declares it once, with its bounds and default
baseline     plain vector order, which every other strategy is compared with
candidate    a topic, person or artifact that search found, with its rank and scores
selection    what a run chose, each topic with a reason and an excerpt that was looked up in its messages
context      what a run hands back to the assistant: the user's profile, the selection, and what else it should know
fallback     what was used instead when the model did not choose, and why
outline      a run's events at a glance: the search, the first turn, the replies, the end
note         a remark inside an event, as a code with values; pages put it into words
trial        a run of the past tried again with another prompt; what came before that prompt is *replayed*
journal      stores the events of runs; an *entry* is what one run stores at a time
lease        a claim that ends unless it is renewed: of a process on a run, of a command on the embedded database, of a
             person on a suggestion

Models
conversation    messages between the program and a chat model over one or several turns, with its tools and limits
turn         one call of the chat model and its reply
tool call    the model asking for something, such as the content of topics; a *tool* is what answers
agent        asks a chat model one bounded question, outside a strategy: enricher, splitter, merger, archivist
splitter     the agent that divides a session, or a topic that a curator wants to split
merger       the agent that judges whether topics are one, and words what becomes of them
archivist    the agent that extracts facts and people from a topic
enricher     the agent that writes the query anew for search, out of the running conversation
port         a function that a strategy is handed (search, read topics, chat …), so that it never sees the database
prompt       the text that is sent to a model, in *versions*; its variables are recorded with each run
embedding profile    an embedding model with its dimensions and thresholds: vectors are compared within one

Search
similarity   how near a query is to a passage, by meaning (cosine of vectors) and by words (BM25)
fusion       the two similarities made one score
search cache what a search found, kept for some seconds for the same search
index cache  passages of recently asked owners in memory, so that search reads from the database only vectors
where        which messages a search may find something by: their days, chats and authors
copy         a passage that says what another says, forwarded or posted again; the *original* is shown
neighbour    a live topic that is near another by vector

The program
work         an archive, an import or an embedding that runs in the background, as a row with its progress
heartbeat    the time at which a process was alive last, in a row
event stream    the events of a run sent to a program while it runs, as server-sent events or JSON Lines
API endpoint    an address for programs under ``/v1/``; it needs a *token* with the right scope
token        the secret by which a program uses the API under ``/v1/``, with scopes and chat users it may ask for
supervisor   the process that starts the embedded database, watches it and stops it after its last lease
"""
