"""What the memory is and does; works without a browser.

The glossary: one word for each thing, and one meaning for each word.

The memory
chat user    the person whose memory it is, and the owner of every row (the person who looks at it is an *operator*)
message      what one author said at one time, as imported; it is in one live topic, or in an active session
session      consecutive messages of a chat user that are in no topic yet; a pause or a label ends it (a session of an
             operator is a *login session*)
project      the label of a project or place (``work``, ``home``, a repository) on messages, topics, people, artifacts,
             facts and runs; what has none is *common* to all. (A *scope* is what a token may do.)
sight        the projects whose rows an actor, or a run in one project, sees; nothing beyond it is shown or counted
topic        a summary over messages; an *edit* never changes it but replaces it; *live* until it is *retired*
passage      an exchange, or a piece of one, of about 600 characters: the text with which search compares a query
card         the text with which search compares a query to find a person or an artifact
person, artifact, fact    what was extracted from messages: a person mentioned, a file sent, something known
batch        the messages that one import of one file brought
format       how a program writes chats, as a value in a registry; its *layouts* are one JSON document, JSON Lines,
             another text, or a database
guard        what looks for text that must not be stored, or handed over, as it is: for each *kind* it leaves, *marks*,
             *masks* or *holds* a message; what it found of a kind in a message is a *spot*
export       a whole memory as JSON Lines, without derived data; it is *restored* into a memory without messages; both
             are in the room ``transfer``
judgement    an operator's opinion of an answer
grade        how well a message answers a query, as an operator sees it: 0 not, 1 partly, 2 well
golden question    a question with the messages that answer it, or with the statement that none does; an *evaluation*
             runs a file of them, or a named set that was made in the browser

Changes
change       a planned edit: topics to retire and topics to put in; its *effect* is what it would do to past runs
draft        a planned topic: a summary and its messages
edit         a change that was made: some topics retired, others put in, over the same messages; its kinds are archive,
             merge, split, move, withdraw, undo and others
archive      the edit that makes a session into topics, as divided by a *cutter*: the splitter, or the embedded
             *segmenter*
successors   the live topics that hold the messages of a retired topic now
suggestion   a merge or split that the program suggests and a person decides about, in the *queue*
finding      a fact or person that the archivist found in a topic, and what a person decided about it in the *review*
erasure      the removal of messages, a person or a chat user for good, everywhere; the room ``erasure`` does it
receipt      the record of an erasure: how many rows of each table it deleted
residue      erased words that the *scanner* still finds

Runs
run          one rerank, from query to selection; its *events* contain everything that is known about it
strategy     how a run selects among candidates, as a value in a registry: *flash* asks a chat model, *vector* does not;
             *react* and *plain* also answer in words
answer       the text with which a run answers a question; each statement has *citations*
citation     the number of a source in an answer; the source is a message
step         one of at most four phases of the strategy *react*; in names of settings and addresses that strategy is
             called the agent (as in ``ENABLE_AGENT``); its tools are named in the run
parameter    a value that can be set for a run; its strategy declares it once, with bounds and default
baseline     plain vector order, with which every other strategy is compared
candidate    a topic, person or artifact that a search found, with its rank and scores
selection    what a run selected (or *chose*), each topic with a reason and an excerpt that was verified in its messages
context      what a run hands to the assistant: the user's profile, the selection, and other background
fallback     what was selected when the model did not choose, and why
activity     what a run does after an event, until the next one: it enriches, searches, asks, reads
outline      a run's events at a glance: the search, the first turn, the replies, the end
note         a remark in an event, stored as a code with values; pages put it into words
fork         a run with a parent, a turn and changes: what comes before the turn is *replayed* from the parent
journal      the store of the events of runs; an *entry* is what one run stores at a time
lease        a claim that ends unless it is renewed: of a process on a run, of a command on the embedded database, of a
             person on a suggestion

Models
conversation    messages between the program and a chat model over one or several turns, with its tools and limits
turn         one call of the chat model, and its reply
tool call    the model's request for something, such as the content of topics; a *tool* answers it
agent        asks a chat model one bounded question: splitter, merger, archivist, describer and paraphraser outside of
             runs, the enricher and the verifier within them
enricher     the agent that rewrites the query for search, from the running conversation
splitter     the agent that divides a session, or a topic that a curator wants to split, into topics
merger       the agent that judges whether topics are one, and writes the summary of merged topics
archivist    the agent that extracts facts and people from a topic
describer    the agent that describes a picture or a recording
paraphraser  the agent that words a question otherwise, so that it can be asked again
verifier     the agent that judges which sources say what an answer states
port         a function that a strategy receives (search, read topics, chat …), so that it never sees the database
prompt       what is sent to a model: a *built-in* text, and the *versions* that people make of it; its variables are
             recorded with each run
embedding profile    an embedding model with its dimensions and thresholds; only vectors of one profile are compared

Search
similarity   how near a query is to a passage: in meaning (cosine of vectors) and in words (BM25)
fusion       the combination of both similarities into one score
search cache    results of searches, kept for some seconds for an identical search
index cache     passages of recently searched owners in memory, so that a search reads only vectors from the database
where        a restriction of a search to messages of some days, chats and authors
copy         a passage that repeats another one, because it was forwarded or posted again; the *original* is shown
neighbour    a live topic that is near another one by vector

The program
work         an archive, an import or an embedding that runs in the background, as a row with its progress
stage        a kind of background work as people watch and pause it, on the page *Pipeline*
sweep        a task that beat sends regularly: it finds work in the rows and does it
watch        what should happen by itself, as a value in a registry; each of its *subjects* has a *rhythm*: within what
             time the next success is expected
alarm        what is late or in trouble, from its beginning until it has healed
cap          what questions to models may cost a day; a *quota* is what a memory may hold
heartbeat    the time at which a process was last alive, in a row
event stream    the events of a run, sent to a program while it runs, as server-sent events or JSON Lines
API endpoint    an address for programs under ``/v1/``; it needs a *token* with the right scope
token        the secret with which a program uses the API, with scopes and the chat users whose memories it opens
supervisor   the process that starts the embedded database, watches it, and stops it after the last lease"""
