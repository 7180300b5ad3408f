# The command line on a CPU, without root. Build: docker build --tag shortcut-guardrail .
# Audit a model and texts in the current folder:
#
#   docker run --rm --user "$(id -u):$(id -g)" --volume "$PWD:/work" shortcut-guardrail \
#       audit my-classifier texts.csv --out audit
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
COPY constraints.txt /tmp/constraints.txt
# PyTorch without CUDA: a version with the suffix +cpu comes before the one of the same number.
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    python -m pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu \
    --constraint /tmp/constraints.txt /wheels/*.whl \
    && useradd --uid 1000 --create-home guardrail
ENV HF_HOME=/tmp/huggingface
USER 1000
WORKDIR /work
ENTRYPOINT ["shortcut-guardrail"]
CMD ["--help"]
