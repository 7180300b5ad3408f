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
COPY constraints.txt requirements-image.txt /tmp/
# All but PyTorch by its hash. The index of PyTorch without CUDA has one wheel of that version for this Python.
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    python -m pip install --no-cache-dir --no-deps --require-hashes --requirement /tmp/requirements-image.txt \
    && python -m pip install --no-cache-dir --no-deps --index-url https://download.pytorch.org/whl/cpu \
    "$(grep '^torch==' /tmp/constraints.txt)" \
    && python -m pip install --no-cache-dir --no-deps --no-index /wheels/*.whl \
    && python -m pip check \
    && useradd --uid 1000 --create-home guardrail
ENV HF_HOME=/tmp/huggingface
USER 1000
WORKDIR /work
ENTRYPOINT ["shortcut-guardrail"]
CMD ["--help"]
