"""What comes into a memory and leaves it whole: messages, sessions that become topics, files, items of programs,
exports. In: records of the importers and bytes. Out: rows, written in short transactions that may be repeated. Topics
are written by ``curation`` alone."""
