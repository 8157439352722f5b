"""Data for the pages of curation: the form of a change, its topics before and after, the queue, the texts of the
history.

In: a request's fields, a planned change, suggestions or entries of the history. Out: dataclasses and sentences for
templates, and from ``change_form`` the change that was made. These modules import the domain and ``rerankui.text``, and
for the toast with its undo button ``rerankui.frame.toasts`` and ``rerankui.frame.toasts``; never a view."""
