# The agent, for boards whose own system is too old for it (Jetson Nano). From the repository's root, on the board or for it:
#   docker build --file deploy/agent.Dockerfile --tag auricle-agent .
FROM python:3.11.14-slim-bookworm AS build
WORKDIR /src
COPY deploy/requirements/ deploy/requirements/
COPY edge/requirements/ edge/requirements/
RUN python -m venv /opt/auricle \
 && /opt/auricle/bin/pip install --no-cache-dir --require-hashes --only-binary=:all: \
    --requirement "edge/requirements/$(uname -m)-cp311.txt" \
 && python -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes --only-binary=:all: \
    --requirement deploy/requirements/build.txt --requirement "deploy/requirements/native-$(uname -m).txt"
COPY pyproject.toml README.md LICENSE ./
COPY core/ core/
COPY learning/ learning/
COPY edge/ edge/
COPY cloud/ cloud/
COPY export/ export/
COPY fleet/ fleet/
COPY firmware-configs/ firmware-configs/
RUN /opt/build/bin/pip wheel --no-cache-dir --no-index --no-deps --no-build-isolation --wheel-dir /tmp/wheels . \
 && /opt/auricle/bin/pip install --no-cache-dir --no-index --no-deps /tmp/wheels/auricle-*.whl \
 && /opt/auricle/bin/pip check \
 && /opt/auricle/bin/pip uninstall --yes pip

FROM python:3.11.14-slim-bookworm
# Debian removes a package's older versions from its archive, so a version that is written here could not be built later.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends libportaudio2 \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 10001 auricle \
 && useradd --uid 10001 --gid 10001 --groups audio --no-create-home --home-dir /var/lib/auricle \
    --shell /usr/sbin/nologin auricle \
 && install --directory --owner=10001 --group=10001 --mode=0700 /var/lib/auricle
COPY --from=build /opt/auricle /opt/auricle
ENV PATH=/opt/auricle/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    OPENBLAS_NUM_THREADS=1 \
    MALLOC_ARENA_MAX=1
USER 10001:10001
ENTRYPOINT ["auricle"]
CMD ["edge", "run", "--config", "/etc/auricle/edge.toml", "--state", "/var/lib/auricle"]
