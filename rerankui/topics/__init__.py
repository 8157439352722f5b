"""Topics: the list, the map, one topic with its messages, and the choice of another one."""
