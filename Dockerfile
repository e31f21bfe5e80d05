# The image of a node: `docker build -t corvo:0.4.0 .`; docs/deploy.md says how
# to run it. The packages of the second stage are what the programs are linked
# with (tests/deploy/test_image.py), and tzdata for schedules in time zones.

FROM debian:12-slim AS build
WORKDIR /src
# First what changes rarely, so that a change of the source installs nothing.
COPY tools/deps tools/deps
RUN apt-get update \
	&& apt-get install -y --no-install-recommends make \
	&& tools/deps build
COPY . .
RUN make build PREFIX=/usr \
	&& DESTDIR=/out cmake --install build/release --prefix /usr --strip

FROM debian:12-slim
RUN apt-get update \
	&& DEBIAN_FRONTEND=noninteractive apt-get install -y \
		--no-install-recommends \
		libcurl4 \
		libgnutls30 \
		libncursesw6 \
		libnghttp2-14 \
		libnng1 \
		libraft2 \
		librocksdb7.8 \
		libsmartcols1 \
		libsqlite3-0 \
		libtinfo6 \
		libuv1 \
		tzdata \
		zlib1g \
	&& rm -rf /var/lib/apt/lists/* \
	&& groupadd --gid 10001 corvo \
	&& useradd --uid 10001 --gid corvo --no-create-home \
		--home-dir /var/lib/corvo --shell /usr/sbin/nologin corvo \
	&& install -d -o corvo -g corvo -m 0750 \
		/etc/corvo /run/corvo /var/lib/corvo
COPY --from=build /out/usr/bin/ /usr/bin/
COPY --from=build /out/usr/libexec/ /usr/libexec/

# Any address, because only what is published of a container can be reached.
# There are no API keys yet, so whoever runs it must also say CORVO_OPEN=true.
ENV CORVO_BIND=0.0.0.0:8080 \
	CORVO_DATA_DIR=/var/lib/corvo \
	CORVO_RUN_DIR=/run/corvo
USER 10001:10001
VOLUME /var/lib/corvo
EXPOSE 8080 9400
# A start may replay a long log.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10m --retries=6 \
	CMD ["corvo", "status"]
ENTRYPOINT ["corvo", "server"]
