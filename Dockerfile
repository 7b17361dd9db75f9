# An image of the server. docs/deploy.md says how to build and run it. The base has `flock`, which storage files need.
FROM node:24-slim AS build
WORKDIR /build
COPY . .
RUN npm ci --ignore-scripts && npm pack && npm install --global --prefix /build/installed ./petstore-*.tgz

FROM node:24-slim
COPY --from=build /build/installed /usr/local
USER node
WORKDIR /home/node
RUN mkdir -m 700 data
VOLUME /home/node/data
ENV HOST=0.0.0.0 PORT=3000
EXPOSE 3000
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/healthz`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["petstore"]
