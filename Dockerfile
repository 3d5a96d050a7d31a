# The manager's image: a virtual environment with locked packages and the project's wheel, the interpreter and the
# libraries that these load, and nothing else: no shell, no package manager, no compiler.
#
#   make image
#
# builds it with what the machine has, and makes the base itself where there is no registry. By hand:
#
#   docker build -t localhost/lws:2026.11.0 --build-arg BUILD_DATE="$(date -u +%FT%TZ)" --build-arg GIT_COMMIT="$(git rev-parse HEAD)" .
#
# Platforms: linux/amd64 and linux/arm64, for which every locked package comes as a wheel. Nothing is compiled here, so a
# platform without wheels fails in the first stage instead of producing an image that was never tried.
#
# Made for a read-only root file system and any user id: nothing is written, and byte code is compiled below.
ARG PYTHON_VERSION=3.12
# Any Debian with Python 3.11 or newer, its module venv, and the authorities of ca-certificates.
ARG BASE=docker.io/library/python:${PYTHON_VERSION}-slim

FROM ${BASE} AS build
# Where the machine has a mirror or authorities of its own, `make image` hands them in as secrets: no layer keeps them.
ENV PIP_CONFIG_FILE=/run/secrets/pip.conf \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_NO_COMPILE=1 \
    PIP_ONLY_BINARY=:all: \
    PIP_ROOT_USER_ACTION=ignore
RUN python3 -m venv --without-pip /opt/lws && python3 -m venv /opt/build
WORKDIR /src

# Third-party packages first: they change seldom, and every one of them is checked against its hash.
COPY requirements/ requirements/
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=authorities \
    /opt/build/bin/pip --python /opt/lws/bin/python install --require-hashes --requirement requirements/runtime.txt \
    && /opt/build/bin/pip install --require-hashes --requirement requirements/build.txt

COPY pyproject.toml README.md LICENSE ./
COPY lws/ lws/
COPY api/ api/
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /dist ./api . \
    && /opt/build/bin/pip --python /opt/lws/bin/python install --no-deps --no-index /dist/*.whl

COPY tools/image/inside/ inside/
RUN python3 -m inside.left_out /opt/lws \
    && python3 -m inside.root_files /opt/lws /image \
    && python3 -m compileall -q -j 0 -s /image -p / --invalidation-mode unchecked-hash /image/opt/lws/lib /image/usr

FROM scratch
LABEL org.opencontainers.image.title="lws" \
      org.opencontainers.image.description="LeaderWorkerSet controller" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/opt/lws/bin \
    LANG=C.UTF-8 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
# Licences of the packages are in /opt/lws/lib/python*/site-packages/*.dist-info and /usr/share/doc.
COPY LICENSE /licenses/LICENSE
COPY --from=build /image /
# The name by which Deployments written for the original start it: the same as `lws manager`.
COPY --from=build /opt/lws/bin/lws /manager
# A number, not a name: only a number lets the kubelet verify runAsNonRoot.
USER 65532:65532
WORKDIR /
# What `lws manager --version` says; last, because it changes with every build.
ARG BUILD_DATE=N/A
ARG GIT_COMMIT=N/A
ENV LWS_BUILD_DATE=$BUILD_DATE \
    LWS_GIT_COMMIT=$GIT_COMMIT
# Webhooks, metrics, probes.
EXPOSE 9443 8443 8081
ENTRYPOINT ["lws", "manager"]
