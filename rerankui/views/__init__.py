"""Pages that are one module each: a request comes in, a page or a part of one goes out.

Pages with more to them have a room of their own beside this one. A noun names the room or the module, the folder of the
page's template (``templates/pages``), that of its parts (``templates/partials``) and its tests
(``tests/pages/test_<noun>*.py``); a template bears the name of its address in ``rerankui/urls.py``. A view asks
``memoryapp`` and shows the answer: it holds no rule of the domain, and imports views of other nouns only for a part
that both pages show.
"""
