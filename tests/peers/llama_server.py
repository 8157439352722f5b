"""A real llama.cpp server on a small model: ``python llama_server.py MODEL PORT``."""

import sys
import threading

import xllamacpp


def serve(model: str, port: int) -> None:
    wanted = xllamacpp.CommonParams()
    wanted.model.path = model
    wanted.hostnames = ["127.0.0.1"]
    wanted.port = port
    wanted.offline = True
    wanted.ui = False
    wanted.n_ctx = 8192
    wanted.n_parallel = 1
    # A small model does not stop by itself.
    wanted.n_predict = 60
    # Several threads would spin while they wait for each other, on cores that other tests use.
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(wanted)
    print(f"listening on {server.listening_address}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
