"""Who may use the program: signing in, login sessions, API tokens, and the address a request comes from. In: a request,
a password or a token. Out: an account or a grant, or None; what an operator may see is decided by the models of
operators and access. It imports Django, django-axes and the models, nothing else of this project."""
