# The training container: the verl image of the pin, and over it this package and what it needs, for a user that is not
# root.
#
#   ./docker_run_verl.sh --build       # builds it from this file
#   ./docker_run_verl.sh               # a shell in it
#
# No secret is in a layer: .dockerignore names what may be copied, and keys are given to a container when it starts.
ARG IMAGE=verlai/verl:vllm024.dev2
# hadolint ignore=DL3006
FROM ${IMAGE}

USER 0
WORKDIR /workspace/veritas-rl
ENV VENV=/opt/venv \
    PIP_NO_CACHE_DIR=1

# The pins and no code: a change of the code leaves this layer, the large one, as it is. The environment never leaves the
# image, and so it does not say on which system it was made.
COPY pyproject.toml ./
COPY train/verl/*.txt train/verl/
COPY train/scripts/setup.sh train/scripts/dotenv.sh train/scripts/
COPY veritas_rl/__init__.py veritas_rl/
RUN bash train/scripts/setup.sh && rm "$VENV/.system"

# A container may be started as any user, such as the one that the repository belongs to; USER spares such a user an
# entry in /etc/passwd.
ENV HOME=/home/trainer \
    PATH="/opt/venv/bin:$PATH" \
    USER=trainer
RUN useradd --uid 10001 --create-home trainer \
    && mkdir -p "$HOME/.cache/huggingface" \
    && chmod 1777 "$HOME" "$HOME/.cache" "$HOME/.cache/huggingface"

COPY . .
RUN chmod 1777 train/artifacts train/outputs train/models train/parquet

USER 10001
CMD ["bash"]
