"""Topics changed by hand: merge, split anew, the preview that every change passes, and the queue of suggestions."""
