# outrider-server, and with --target edge outrider-edge, for --device cuda, with our own kernels: no libtorch, no
# cuBLAS and no CUDA runtime. From the repository's root:
#   docker build -f docker/cuda.Dockerfile -t outrider-server:0.1.0-cuda .
#   docker build -f docker/cuda.Dockerfile --target edge -t outrider-edge:0.1.0-cuda .
# and on a machine with a driver of CUDA 13 (Jetson Orin: 12 or 13) and the NVIDIA Container Toolkit:
#   docker run --gpus all --read-only -v /srv/models/target:/models/target:ro \
#     outrider-server:0.1.0-cuda --model=/models/target --device=cuda --http-port=8000
# Pinned by its digest, as in docker/Dockerfile.
ARG BASE=docker.io/library/debian:bookworm-20260824-slim@sha256:88200866dfff7ea7f5cbcb6ec7c8a701889efe6fe859fe64d6990e4b07ea4171

# Compiled on this machine for the image's architecture, because compilers are slow under emulation.
FROM --platform=${BUILDPLATFORM} ${BASE} AS build
WORKDIR /src
# What installs is copied first, so that a change of the sources does not install again.
COPY packages.txt run ./
COPY cmake/fetch_xgrammar.sh cmake/
COPY deploy/arm64-sysroot.sh deploy/
ARG TARGETARCH
# The package has the licences of its parts, which dpkg is told to leave out of slim images.
RUN rm -f /etc/dpkg/dpkg.cfg.d/* && ./run setup package ${TARGETARCH} cuda
COPY . .
# JOBS: compiler processes; each takes up to 2 GB.
ARG JOBS=2
# The image's programs are the package's.
RUN JOBS="${JOBS}" ./run package ${TARGETARCH} cuda && cp -r build/*/tree/outrider-*/bin /programs

FROM --platform=${TARGETPLATFORM} ${BASE} AS runtime
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
