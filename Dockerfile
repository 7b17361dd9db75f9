# An image of the server. docs/deploy.md says how to build and run it, and how to renew the digest of the base. The base is
# Debian 12 with Node, and with `flock`, which storage files need.
FROM node:24.19.0-bookworm-slim@sha256:cd84903a12dbd26b46f1f3b8144a2568c41c5d37ddd0c7a80a34c7a19786b35f AS base

FROM base AS build
# Libraries of storages and plugins, such as "pg@8 prom-client@15".
ARG LIBRARIES=""
WORKDIR /build
COPY . .
RUN npm ci --ignore-scripts && npm pack && npm install --global --ignore-scripts --prefix /build/installed ./petstore-*.tgz $LIBRARIES

FROM base
# A server installs nothing.
RUN rm -rf /usr/local/lib/node_modules /usr/local/bin/npm /usr/local/bin/npx /usr/local/bin/corepack /usr/local/bin/yarn* /opt/yarn*
COPY --from=build /build/installed /usr/local
USER node
WORKDIR /home/node
RUN mkdir -m 700 data
VOLUME /home/node/data
ENV HOST=0.0.0.0 PORT=3000
EXPOSE 3000
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/healthz`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["petstore"]
