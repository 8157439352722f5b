"""What the pages of curation show: the form of a change, its effect before and after, the queue, the history's texts.

In: a request's fields, a planned change, suggestions or entries of the history. Out: dataclasses and sentences that
templates show, and from ``change_form`` the change that was made. These modules import the domain and
``rerankui.text``, and for the toast with its undo button ``rerankui.toasts`` and ``rerankui.addresses``; never a view.
"""
