"""Runs: their pages, the parts that page and socket share, and what is computed before they are rendered. ``views``
receive requests, ``page`` puts the events of a run into what a page shows, ``fragments`` renders the parts,
``consumers`` sends them while a run is followed, ``charts`` draws many runs, ``capsule`` makes the file of one."""
