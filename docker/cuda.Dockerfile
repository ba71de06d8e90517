# outrider-server for --device cuda. From the repository's root, where the NVIDIA Container Toolkit is:
#   docker build -f docker/cuda.Dockerfile -t outrider-server:0.1.0-cuda .
#   docker run --gpus all --read-only -v /srv/models/target:/models/target:ro \
#     outrider-server:0.1.0-cuda --model=/models/target --device=cuda --http-port=8000
# Written, and never built: no machine with a network and CUDA was at hand.
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BASE} AS build
ARG CUDA=13-0
ARG KEYRING=https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/cuda-keyring_1.1-1_all.deb
ARG TORCH=2.11.0
WORKDIR /src
COPY packages.txt .
RUN apt-get -q update \
 && apt-get -q -y install --no-install-recommends ca-certificates curl python3 python3-venv \
      $(awk '/^\[/ {on = /^\[build\]/} /^[a-z0-9]/ && on {print $1}' packages.txt) \
 && curl --silent --show-error --fail --location --output /tmp/keyring.deb "${KEYRING}" \
 && apt-get -q -y install /tmp/keyring.deb \
 && apt-get -q update \
 && apt-get -q -y install --no-install-recommends "cuda-nvcc-${CUDA}" "cuda-cudart-dev-${CUDA}" \
 && rm -rf /var/lib/apt/lists/* /tmp/keyring.deb
# With what --device cuda loads at run time: cuBLAS and the others come as wheels beside it.
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
