# Mnemoscope as an image. The base is any Debian-like system with Python 3.11 or newer and its venv.
#   docker build -t mnemoscope .
#   docker build -t mnemoscope --build-arg BASE=… .
ARG BASE=docker.io/library/python:3.13-slim

FROM ${BASE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python3 -m venv /opt/mnemoscope
COPY requirements.lock /tmp/
RUN /opt/mnemoscope/bin/python -m pip install --only-binary :all: --require-hashes -r /tmp/requirements.lock
# Further packages: --build-arg EXTRAS="…"
ARG EXTRAS=""
RUN [ -z "${EXTRAS}" ] || /opt/mnemoscope/bin/python -m pip install --only-binary :all: ${EXTRAS}
RUN /opt/mnemoscope/bin/python -m pip uninstall -q -y pip setuptools
COPY manage.py pyproject.toml LICENSE /app/
COPY memoryapp /app/memoryapp
COPY rerankui /app/rerankui
COPY templates /app/templates
COPY static /app/static
RUN /opt/mnemoscope/bin/python -m compileall -q /app /opt/mnemoscope/lib

FROM ${BASE}
RUN groupadd --system --gid 10001 mnemoscope \
    && useradd --system --uid 10001 --gid 10001 --home-dir /data --shell /usr/sbin/nologin mnemoscope \
    && install -d -o mnemoscope -g mnemoscope -m 0700 /data
COPY --from=build /opt/mnemoscope /opt/mnemoscope
COPY --from=build /app /app
ENV PATH=/opt/mnemoscope/bin:/usr/local/bin:/usr/bin:/bin \
    DJANGO_SETTINGS_MODULE=memoryapp.settings \
    DATA_DIR=/data \
    OPENBLAS_NUM_THREADS=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /app
USER 10001:10001
VOLUME /data
EXPOSE 8000
# Liveness of the web process; other processes of the image have none.
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
CMD ["daphne", "-b", "0.0.0.0", "-p", "8000", "--websocket_connect_timeout", "60", "rerankui.asgi:application"]
