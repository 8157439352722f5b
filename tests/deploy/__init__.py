"""The files with which the program is deployed: the image, the compose file and the units of systemd."""
