# The image holds one static program. Its steps are the scripts that make runs.

FROM golang:1.26-bookworm AS go

FROM rust:1.90-bookworm AS build
COPY --from=go /usr/local/go /usr/local/go
ENV PATH=/usr/local/go/bin:$PATH GOFLAGS=-buildvcs=false
WORKDIR /src

# The native tokenizer takes minutes and changes only with its version.
COPY go.mod go.sum ./
COPY scripts/build-tokenizers.sh scripts/
COPY internal/tokenizer/*.lock internal/tokenizer/
RUN scripts/build-tokenizers.sh

COPY . .
RUN STATIC=yes scripts/build.sh && mkdir -p /empty

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /src/bin/oneslot /oneslot
COPY --from=build /src/LICENSE /LICENSE
COPY --from=build --chown=65532:65532 /empty /data
COPY --from=build --chown=65532:65532 /empty /tmp

# In a container the port is the container's own. Serving it to others needs keys in
# the configuration, or --insecure-no-auth.
ENV ONESLOT_LISTEN=0.0.0.0:8080 ONESLOT_DATA=/data
USER 65532:65532
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=15s --timeout=5s --start-period=10s CMD ["/oneslot", "healthcheck"]
ENTRYPOINT ["/oneslot"]
CMD ["serve"]
