"""What lists have beside their rows: facets, which count the values of a property and narrow to one, and downloads."""
