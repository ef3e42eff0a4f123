# Stage 1: build the wheel. Only the wheel goes on, so neither the sources nor the build tools are in the image.
FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

# Stage 2: install it, and run it as a user who owns nothing.
FROM python:3.12-slim
RUN --mount=from=build,source=/wheels,target=/wheels sh -c 'pip install --no-cache-dir "$(echo /wheels/*.whl)[mcp]"' \
    && useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin codemode \
    && install -d -o codemode -g codemode -m 700 /data
# A volume at /data takes its owner over: the place for --data-dir.
USER codemode
WORKDIR /
ENV PYTHONUNBUFFERED=1

EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]

# A container has to listen beyond loopback to be reached; --insecure says that you know. Publish the port to loopback
# (-p 127.0.0.1:8000:8000), put something in front of it that checks who calls, or give it keys: serve --key-file.
ENTRYPOINT ["codemode"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000", "--insecure"]
