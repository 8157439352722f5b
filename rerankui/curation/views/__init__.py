"""Topics changed by hand: merging, splitting, the preview that every change passes, and the queue of suggestions."""
