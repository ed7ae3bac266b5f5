# The coordinator. From the repository's root:
#   docker build --file deploy/coordinator.Dockerfile --tag auricle-coordinator .
FROM python:3.13.9-slim-trixie AS build
WORKDIR /src
COPY deploy/requirements/ deploy/requirements/
RUN python -m venv /opt/auricle \
 && /opt/auricle/bin/pip install --no-cache-dir --require-hashes --only-binary=:all: \
    --requirement "deploy/requirements/coordinator-$(uname -m).txt" \
 && python -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes --only-binary=:all: \
    --requirement deploy/requirements/build.txt
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

FROM python:3.13.9-slim-trixie
# Volumes take owner and mode of the folders that they are first mounted over.
RUN groupadd --gid 10001 auricle \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/auricle --shell /usr/sbin/nologin auricle \
 && install --directory --owner=10001 --group=10001 --mode=0700 /var/lib/auricle /etc/auricle/broker \
 && install --directory --owner=10001 --group=10001 --mode=0755 /etc/auricle/monitoring
COPY --from=build /opt/auricle /opt/auricle
COPY --chmod=755 deploy/first-start /opt/auricle/bin/auricle-first-start
ENV PATH=/opt/auricle/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    AURICLE_STATE=/var/lib/auricle
USER 10001:10001
EXPOSE 8443
ENTRYPOINT ["auricle"]
CMD ["cloud", "--help"]
