"""The program's processes seen from outside: killed, flooded, and asked over HTTP as a program asks them."""
