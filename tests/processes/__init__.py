"""The program's processes seen from outside: killed, overloaded, and asked over HTTP."""
