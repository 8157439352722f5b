"""Pages, one noun a folder or a module: a request comes in, a page or a part of one goes out.

The same noun names the folder of the page's template (``templates/pages``), of its parts (``templates/partials``) and
its tests (``tests/pages/test_<noun>*.py``); a template bears the name of its address in ``rerankui/urls.py``. A view
asks ``memoryapp`` and shows the answer: it holds no rule of the domain, and imports views of other nouns only for a
part that both pages show.
"""
