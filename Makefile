# The commands of the project. `make` lists them.
.DEFAULT_GOAL := help
GO ?= go
FUZZTIME ?= 30s

SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.PHONY: help test race compiler browser curl redis postgres proxies wrk check lint lint-all bench bench-quick bench-big bench-http bench-redis bench-postgres bench-service history soak bench-replay replay-big screenshots fuzz guarantees cover

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# What the tests must have: they fail without it instead of skipping.
export SLIDEGATE_REQUIRE = chromium,curl,redis-server,postgres,pgbouncer,nginx,caddy,wrk
unexport REDIS_URL DATABASE_URL # tests that end a server would skip one that is not theirs

# What builds on Envoy's packages takes minutes to look through, and to compile for the race detector, where nothing is cached:
# make lint-all and make race have it. The race detector is for what shares memory between goroutines in earnest; make race has
# all.
HEAVY := /(cmd/slidegate|server|server/envoy)$$
SHARES := /slidegate$$|/(memstore|httplimit|grpclimit|pgstore)$$|/(layer|redisstore)(/|$$)|/server/(gate|jsonapi|proxy|resp|stores|top)$$
ROUTERS := . $(addprefix github.com/slidegate/slidegate/httplimit/,echo4limit echo5limit fiberlimit ginlimit) # seen from test/routers
TEST := $(GO) test -vet=off -timeout 8m # make lint has vetted

test: compiler browser curl redis postgres proxies wrk ## all tests, with the race detector where memory is shared, and the benchmarks' own tests
	$(TEST) -race $$($(GO) list ./... | grep -E '$(SHARES)' | grep -vE '$(HEAVY)')
	$(TEST) $$($(GO) list ./... | grep -vE '$(SHARES)') $$($(GO) list ./... | grep -E '$(HEAVY)')
	$(TEST) ./memstore # once more: the race detector leaves it too little time
	$(TEST) -run Alloc ./layer/... ./httplimit ./grpclimit ./cmd/slidegate/internal/server/gate ./cmd/slidegate/internal/server/jsonapi ./cmd/slidegate/internal/server/resp # and these: it changes what is allocated
	cd bench && $(GO) test -timeout 4m ./...
	cd test/routers && $(GO) test $(ROUTERS)

race: compiler browser curl redis postgres proxies wrk ## all tests with the race detector
	$(GO) test -race ./...
	cd bench && $(GO) test -race ./...
	cd test/routers && $(GO) test -race $(ROUTERS)

compiler: # the race detector needs one for C
	@command -v gcc >/dev/null || command -v cc >/dev/null || { \
	  echo "no C compiler, which the race detector needs: installing gcc"; \
	  $(SUDO) apt-get update -q && $(SUDO) apt-get install -q -y --no-install-recommends gcc libc6-dev; }

browser: # the report's page is tested in a real one
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
	  echo "no Chromium, which the tests of the report's page need: installing it"; \
	  $(SUDO) apt-get update -q && $(SUDO) apt-get install -q -y --no-install-recommends chromium fonts-dejavu-core; }

redis: # private servers for the tests; the one of the package is not used
	@command -v redis-server >/dev/null || command -v valkey-server >/dev/null || { \
	  echo "no Redis, which the tests of its store need: installing it"; \
	  $(SUDO) apt-get update -q && $(SUDO) apt-get install -q -y --no-install-recommends redis-server; }

postgres: # private servers for the tests; Debian keeps the programs out of the path, where the tests look too
	@{ { command -v postgres || ls /usr/lib/postgresql/*/bin/postgres; } && command -v pgbouncer; } >/dev/null 2>&1 || { \
	  echo "no PostgreSQL or no PgBouncer, which the tests of its store need: installing them"; \
	  $(SUDO) apt-get update -q && $(SUDO) apt-get install -q -y --no-install-recommends postgresql pgbouncer; }

proxies: # forward-auth is tested behind real ones
	@{ command -v nginx && command -v caddy; } >/dev/null || { \
	  echo "no nginx or no Caddy, which the tests of forward-auth need: installing them"; \
	  $(SUDO) apt-get update -q && $(SUDO) apt-get install -q -y --no-install-recommends nginx-light caddy; }

curl: # the example of a URL shortener is tested as people would try it
	@command -v curl >/dev/null || { \
	  echo "no curl, which a test needs: installing it"; \
	  $(SUDO) apt-get update -q && $(SUDO) apt-get install -q -y --no-install-recommends curl; }

check: lint test ## what CI runs

lint: ## formatting, vet, staticcheck, and a build of the library's core for 32 bits
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt -w" $$unformatted; exit 1; fi
	$(GO) vet ./...
	$(GO) tool -modfile=tools/go.mod staticcheck $$($(GO) list ./... | grep -vE '$(HEAVY)')
	GOARCH=386 $(GO) build . ./rule ./memstore

lint-all: lint ## also the program, the modules beside, and all of it for 32 bits
	$(GO) tool -modfile=tools/go.mod staticcheck ./...
	cd bench && $(GO) vet ./...
	cd test/routers && $(GO) vet $(ROUTERS)
	cd bench && $(GO) tool -modfile=../tools/go.mod staticcheck ./...
	cd test/routers && $(GO) tool -modfile=../../tools/go.mod staticcheck $(ROUTERS)
	GOARCH=386 $(GO) build ./...

bench: ## side by side with the libraries people use today, a million keys; about half an hour
	cd bench && $(GO) run .

bench-quick: ## the same in short, to see that it runs; its figures mean little
	cd bench && $(GO) run . -quick

bench-big: ## also with ten million keys; about an hour and 8 GB of memory
	cd bench && $(GO) run . -big

bench-http: wrk ## the HTTP middleware beside others, and over the wire; about four minutes
	cd bench && $(GO) run . -scenario http,wire

wrk: # loads a server over the wire
	@command -v wrk >/dev/null || { \
	  echo "no wrk, which the benchmark over the wire needs: installing it"; \
	  $(SUDO) apt-get update -q && $(SUDO) apt-get install -q -y --no-install-recommends wrk; }

bench-redis: redis ## Redis limiters side by side; about ten minutes
	cd bench && $(GO) run . -scenario redis

bench-postgres: postgres ## PostgreSQL limiters side by side
	cd bench && $(GO) run . -scenario pg

bench-service: redis wrk ## the service: JSON, batches, forward-auth, the proxy, RESP, and beside envoyproxy/ratelimit
	cd bench && $(GO) run . -scenario service,resp,envoy

history: redis postgres ## a minute each of Redis and PostgreSQL with kills and cuts, checked for one unit too many
	$(GO) test ./redisstore ./pgstore -run History -v -count 1 -timeout 10m -history 60s

soak: postgres ## ten minutes of PostgreSQL at full load: what the table grows to, and how long decisions take
	$(GO) test ./pgstore -run Soak -v -count 1 -timeout 20m -soak 10m

bench-replay: ## how many requests of a log a second one core replays
	$(GO) test ./cmd/slidegate -run '^$$' -bench Replay -benchtime 5x -cpu 1

replay-big: ## replay more than a gigabyte of log through a pipe, and print the memory that took
	$(GO) test ./cmd/slidegate -run Memory -v -count 1 -piped 22000000

screenshots: browser ## pictures of the report's page, in ./screenshots
	SLIDEGATE_SCREENSHOTS=$(CURDIR)/screenshots $(GO) test ./cmd/slidegate/internal/replay/report -run Page -count 1

fuzz: ## fuzz every target for FUZZTIME each
	@set -e; for file in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | grep -v ^./bench/); do \
	  for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' $$file); do \
	    echo "$$target in $$(dirname $$file)"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) ./$$(dirname $$file); \
	  done; done

guarantees: ## search for the worst cases again and write the table in docs/guarantees.md
	$(GO) test ./internal/worstcase -update

cover: ## test coverage by package
	$(GO) test -cover ./...
