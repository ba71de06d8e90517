# outrider-server, and with --target edge outrider-edge, for --device cuda, with our own kernels: no libtorch, no
# cuBLAS and no CUDA runtime. From the repository's root:
#   docker build -f docker/cuda.Dockerfile -t outrider-server:0.1.0-cuda .
#   docker build -f docker/cuda.Dockerfile --target edge -t outrider-edge:0.1.0-cuda .
# and on a machine with a driver of CUDA 13 (Jetson Orin: 12 or 13) and the NVIDIA Container Toolkit:
#   docker run --gpus all --read-only -v /srv/models/target:/models/target:ro \
#     outrider-server:0.1.0-cuda --model=/models/target --device=cuda --http-port=8000
# Pinned by its digest, as in docker/Dockerfile.
ARG BASE=docker.io/library/debian:bookworm-20260824-slim@sha256:88200866dfff7ea7f5cbcb6ec7c8a701889efe6fe859fe64d6990e4b07ea4171

FROM ${BASE} AS build
WORKDIR /src
COPY packages.txt .
RUN apt-get -q update \
 && apt-get -q -y install --no-install-recommends ca-certificates \
      $(awk '/^\[/ {on = /^\[(build|model)\]/} /^[a-z0-9]/ && on {print $1}' packages.txt) \
 && rm -rf /var/lib/apt/lists/*
# nvcc 13, and ptxas 12.6 for Orin, come as wheels; ./run pins them.
COPY run .
RUN python3 -m venv .venv-nvcc \
 && .venv-nvcc/bin/pip install --no-cache-dir --no-compile --no-deps \
      $(sed -n 's/^readonly NVCC_WHEELS=(\(.*\))$/\1/p' run)
COPY cmake/fetch_xgrammar.sh cmake/
RUN cmake/fetch_xgrammar.sh .venv-nvcc/bin/pip
COPY . .
ARG JOBS=4
# ARCHITECTURES: of the GPUs that run it: A100; Jetson Orin; H100, H200; Jetson Thor.
ARG ARCHITECTURES="80;87;90;110"
RUN cmake --preset cuda -DOUTRIDER_GRAMMAR=ON "-DOUTRIDER_GPU_ARCHITECTURES=${ARCHITECTURES}" \
 && cmake --build --preset cuda -j "${JOBS}" --target outrider-edge outrider-server
RUN mkdir /programs \
 && for part in edge server; do \
      strip -o "/programs/outrider-${part}" "build/cuda/bin/outrider-${part}" || exit 1; \
    done

FROM ${BASE} AS runtime
RUN apt-get -q update \
 && apt-get -q -y install --no-install-recommends ca-certificates curl \
 && rm -rf /var/lib/apt/lists/*
USER 1000:1000
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility OUTRIDER_CACHE_DIR=none
VOLUME ["/models"]

FROM runtime AS edge
COPY --from=build /programs/outrider-edge /usr/bin/outrider-edge
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=5m --retries=3 \
  CMD ["curl", "--silent", "--fail", "--output", "/dev/null", "http://127.0.0.1:8080/health/live"]
ENTRYPOINT ["/usr/bin/outrider-edge"]
CMD ["--help"]

FROM runtime AS server
COPY --from=build /programs/outrider-server /usr/bin/outrider-server
EXPOSE 8000 8001 8002
HEALTHCHECK --interval=10s --timeout=3s --start-period=15m --retries=3 \
  CMD ["curl", "--silent", "--fail", "--output", "/dev/null", "http://127.0.0.1:8000/health/live"]
ENTRYPOINT ["/usr/bin/outrider-server"]
CMD ["--model=/models/target", "--device=cuda", "--http-port=8000"]
