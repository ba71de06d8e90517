# outrider-server for --device cuda. From the repository's root, on a machine with the NVIDIA Container
# Toolkit:
#   docker build -f docker/cuda.Dockerfile -t outrider-server:0.1.0-cuda .
#   docker run --gpus all --read-only -v /srv/models/target:/models/target:ro \
#     outrider-server:0.1.0-cuda --model=/models/target --device=cuda --http-port=8000
# This file was never built, because no machine with a network and CUDA was available.
# Pinned by its digest, as in docker/Dockerfile.
ARG BASE=docker.io/library/debian:bookworm-20260824-slim@sha256:88200866dfff7ea7f5cbcb6ec7c8a701889efe6fe859fe64d6990e4b07ea4171

FROM ${BASE} AS build
ARG CUDA=13-0
ARG REPOSITORY=https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64
# The key that signs the repository, by its whole fingerprint; any other key fails the build.
ARG KEY=EB693B3035CD5710E231E123A4B469963BF863CC
ARG TORCH=2.11.0
WORKDIR /src
COPY packages.txt .
RUN apt-get -q update \
 && apt-get -q -y install --no-install-recommends ca-certificates curl gpg python3 python3-venv \
      $(awk '/^\[/ {on = /^\[build\]/} /^[a-z0-9]/ && on {print $1}' packages.txt) \
 && curl --silent --show-error --fail --location --output /tmp/key.asc "${REPOSITORY}/3bf863cc.pub" \
 && gpg --batch --show-keys --with-colons /tmp/key.asc >/tmp/key.txt \
 && test "$(grep -c ^pub: /tmp/key.txt)" = 1 \
 && found="$(awk -F: '/^fpr:/ {print $10; exit}' /tmp/key.txt)" \
 && { test "${found}" = "${KEY}" || { echo "the key of ${REPOSITORY} is ${found}, KEY is ${KEY}" >&2; exit 1; }; } \
 && gpg --batch --dearmor --output /usr/share/keyrings/cuda.gpg /tmp/key.asc \
 && echo "deb [signed-by=/usr/share/keyrings/cuda.gpg] ${REPOSITORY}/ /" >/etc/apt/sources.list.d/cuda.list \
 && apt-get -q update \
 && apt-get -q -y install --no-install-recommends "cuda-nvcc-${CUDA}" "cuda-cudart-dev-${CUDA}" \
 && rm -rf /var/lib/apt/lists/* /tmp/key.asc /tmp/key.txt
# --device cuda loads these at run time: cuBLAS and the other libraries come as wheels.
RUN python3 -m venv /opt/outrider/venv \
 && /opt/outrider/venv/bin/pip install --no-cache-dir --no-compile "torch==${TORCH}"
COPY . .
ARG JOBS=4
RUN PATH="/usr/local/cuda/bin:${PATH}" cmake --preset cuda -DOUTRIDER_TESTS=OFF \
      -DOUTRIDER_VENV=/opt/outrider/venv \
 && PATH="/usr/local/cuda/bin:${PATH}" cmake --build --preset cuda -j "${JOBS}" --target outrider-server
RUN mkdir /programs \
 && strip -o /programs/outrider-server build/cuda/bin/outrider-server \
 && sh docker/libraries.sh /programs/outrider-server >/programs/packages

FROM ${BASE}
RUN --mount=type=bind,from=build,source=/programs,target=/programs \
    apt-get -q update \
 && apt-get -q -y install --no-install-recommends ca-certificates curl $(cat /programs/packages) \
 && rm -rf /var/lib/apt/lists/*
# The program names this folder in its run path.
COPY --from=build /opt/outrider/venv/lib /opt/outrider/venv/lib
COPY --from=build /programs/outrider-server /usr/bin/outrider-server
USER 1000:1000
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility OUTRIDER_CACHE_DIR=none
VOLUME ["/models"]
EXPOSE 8000 8001 8002
HEALTHCHECK --interval=10s --timeout=3s --start-period=15m --retries=3 \
  CMD ["curl", "--silent", "--fail", "--output", "/dev/null", "http://127.0.0.1:8000/health/live"]
ENTRYPOINT ["/usr/bin/outrider-server"]
CMD ["--model=/models/target", "--device=cuda", "--http-port=8000"]
