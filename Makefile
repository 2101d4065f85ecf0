# The commands of the project. `make` lists them.
.DEFAULT_GOAL := help
GO ?= go
FUZZTIME ?= 30s
export INSTALL ?= yes

.PHONY: help test test-bench test-tools test-docs test-valkey race check deps
.PHONY: lint lint-all oldest-go tidy modules release cover fuzz guarantees model
.PHONY: bench bench-quick bench-big bench-http bench-redis bench-postgres bench-lease bench-kv bench-service bench-algorithms bench-replay
.PHONY: attacks flood history soak ports cluster restarts postgres-versions replay-big leases plays mutants
.PHONY: screenshots pictures lease-picture site

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Programs that the tests require: tests that need a missing one fail instead of skipping.
export TEST_REQUIRE = cc,chromium,curl,jq,redis-server,postgres,memcached,pgbouncer,nginx,caddy,wrk,redis-py,node,php,flask,django
unexport REDIS_URL DATABASE_URL # tests that stop a server skip servers that they did not start

# "work" is every package of every module in go.work. Packages that import Envoy's take minutes to lint, and to compile for the race
# detector, if nothing is cached: only make lint-all and make race include them. make test runs the race detector where goroutines
# really share memory; make race runs it everywhere.
ALL = $$($(GO) list work | grep -v /slidegate/bench)
HEAVY := /(cmd/slidegate|server|server/envoy|e2e/[a-z]*)$$
SHARES := /slidegate$$|/slidegate/(memstore|policy|httplimit)$$|/slidegate/(layer/(coalesce|failure|lease)|redisstore)(/|$$)
PACKAGES = $$(($$(getconf _NPROCESSORS_ONLN) + 1)) # tested at the same time: one more than there are processors, because many tests wait for servers
TEST := $(GO) test -vet=off -ldflags=-w -timeout 8m # make lint runs vet; without debug information, linking takes a quarter less time

test: deps ## run all tests, with the race detector where memory is shared; INSTALL=no installs nothing
	$(TEST) -race -short $$($(GO) list work | grep -v /slidegate/bench | grep -E '$(SHARES)' | grep -vE '$(HEAVY)')
	$(TEST) -p $(PACKAGES) $$($(GO) list work | grep -vE '/slidegate/(bench$$|test/sizes$$|.*/e2e/docs$$)') # everything, since much is shortened or skipped with the race detector
	$(MAKE) --jobs=3 --output-sync test-bench test-tools test-docs modules

test-bench: # half of its time is spent waiting for servers, so it runs while other packages compile
	$(TEST) ./bench

test-tools:
	cd tools && GOWORK=off $(GO) test ./modules
	cd tools && GOWORK=off $(GO) test -count 1 ./pictures ./site # uncached: they read files outside of their module, which the test cache does not track

test-docs: ## check every sample, link, command and name in the documentation, and what it says about bytes per key
	$(TEST) -count 1 ./cmd/slidegate/internal/e2e/docs ./test/sizes # uncached: the test cache does not track files outside of the test's module

test-valkey: deps ## test the Redis store with Valkey, fetched from Debian's backports if it is not installed
	server=$$(tools/valkey bin/valkey) && TEST_REDIS_SERVER=$$server $(TEST) -count 1 ./test/redistest ./test/redisstore ./test/goredis

race: deps ## run all tests with the race detector
	$(GO) test -race work

deps: # the programs that the tests need in addition to Go
	@tools/deps cc chromium curl jq redis postgres memcached pgbouncer nginx caddy wrk prometheus redis-py node php flask django systemd

check: lint test ## everything that CI runs

lint: bin/staticcheck ## check formatting, run vet and staticcheck, and build the library's core for 32 bits
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt -w" $$unformatted; exit 1; fi
	$(GO) vet $(ALL)
	bin/staticcheck $$($(GO) list work | grep -v /slidegate/bench | grep -vE '$(HEAVY)')
	GOARCH=386 $(GO) build . ./rule ./store ./memstore

lint-all: lint ## also lint the program and the benchmarks, and build everything for 32 bits
	$(GO) vet work
	bin/staticcheck $$($(GO) list work)
	GOARCH=386 $(GO) build work

oldest-go: ## compile the library with the oldest version of Go that it supports, which is downloaded
	tools/oldest-go

bin/staticcheck: tools/go.mod
	cd tools && GOWORK=off $(GO) build -o ../bin/staticcheck honnef.co/go/tools/cmd/staticcheck

tidy: ## run go mod tidy in every module; they see one another through a proxy made from the tree
	cd tools && GOWORK=off $(GO) run ./modules tidy

modules: ## build every module, and install the program, as users do: from a proxy made from the tree, without go.work
	cd tools && GOWORK=off $(GO) run ./modules check

release: ## prepare the tree for VERSION, as in make release VERSION=v0.1.0, and print how to tag it
	cd tools && GOWORK=off $(GO) run ./modules release $(VERSION)

bench: ## compare with other libraries, with a million keys; about half an hour
	cd bench && $(GO) run .

bench-quick: ## a short run of the same, to see that it works; its figures mean little
	cd bench && $(GO) run . -quick

bench-big: ## the same also with ten million keys; about an hour and 8 GB of memory
	cd bench && $(GO) run . -big

bench-http: deps ## compare the HTTP middleware with others, and measure it over loopback; about four minutes
	cd bench && $(GO) run . -scenario http,wire

bench-redis: deps ## compare Redis limiters; about ten minutes
	cd bench && $(GO) run . -scenario redis

bench-postgres: deps ## compare PostgreSQL limiters
	cd bench && $(GO) run . -scenario pg

bench-lease: deps ## compare leases with coalesce over Redis and PostgreSQL, and measure what they waste; about seven minutes
	cd bench && $(GO) run . -scenario lease,lease-waste

bench-kv: deps ## compare key-value engines with the other stores; about ten minutes
	cd bench && $(GO) run . -scenario kv

bench-service: deps ## measure the service: JSON, batches, forward-auth, the proxy, RESP, and Envoy compared with envoyproxy/ratelimit
	cd bench && $(GO) run . -scenario service,resp,envoy

bench-algorithms: deps ## compare every algorithm with the window of one part and the fastest peers, in memory, Redis and PostgreSQL
	cd bench && $(GO) run . -scenario hot,steady,gc,redis-ways,pg-ways

flood: ## send millions of new keys to the service at its default bounds: which clients are refused, and how much memory it takes; ten minutes
	cd bench && $(GO) run . -scenario flood-service,flood-memory

history: deps ## run Redis, PostgreSQL, memcached and a NATS cluster for a minute each with kills and cuts, and check that not one unit too many is admitted
	$(GO) test ./test/redisstore ./test/pgstore ./test/memcached ./test/natskv -run 'History|Contract' -v -count 1 -timeout 10m -history 60s

leases: deps ## run processes with leases over Redis, PostgreSQL and NATS for a minute each with kills, cuts and clock changes, and check that not one unit too many is admitted
	$(GO) test ./test/lease -run 'NoWindowExceeds|ServerClockStep|Contract' -v -count 1 -timeout 15m -leases 60s

attacks: deps ## send every spelling of a login to Express, Koa, PHP, Flask and Django, behind the proxy, nginx and Caddy
	$(TEST) ./cmd/slidegate/internal/e2e/attack -run Servers -v -count 1 -attacks

soak: deps ## run PostgreSQL at full load for ten minutes: the size of the table, and how long decisions take
	$(GO) test ./test/pgstore -run Soak -v -count 1 -timeout 20m -soak 10m

cluster: deps ## run three processes with embedded NATS under load for half a minute, and kill and restart one of them
	$(GO) test ./cmd/slidegate/internal/e2e/restart -run Cluster -v -count 1 -timeout 10m -cluster 30s

restarts: deps ## restart twenty times each under 2,000 requests a second: behind nginx, with systemd's sockets and with a shared port; some minutes
	$(GO) test ./cmd/slidegate/internal/e2e/restart -v -count 1 -timeout 20m -rounds 20

ports: deps ## compare 100,000 or more random decisions of Redis and of PostgreSQL with the rule; some minutes
	$(GO) test ./test/redisstore ./test/pgstore -run 'ScriptMatchesTheRule|FunctionsMatchTheRule' -v -count 1 -timeout 30m -args -rapid.checks=500

postgres-versions: deps ## test the PostgreSQL store with versions 13 to 18, each installed from npm into a temporary folder
	@tools/deps node
	@tools/postgres-versions

bench-replay: ## measure how many requests of a log one core replays per second
	$(GO) test ./cmd/slidegate -run '^$$' -bench Replay -benchtime 5x -cpu 1

replay-big: ## replay more than a gigabyte of log through a pipe, and print the memory that took
	$(GO) test ./cmd/slidegate -run Memory -v -count 1 -piped 22000000

screenshots: deps ## take screenshots of the report's page, in ./screenshots
	TEST_SCREENSHOTS=$(CURDIR)/screenshots $(GO) test ./cmd/slidegate/internal/e2e/report -run BrowserLooks -count 1

fuzz: ## fuzz every target for FUZZTIME each
	@set -e; for file in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | grep -v ^./bench/); do \
	  for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' $$file); do \
	    echo "$$target in $$(dirname $$file)"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) ./$$(dirname $$file); \
	  done; done

model: deps ## compare a million random decisions in memory, and 100,000 on every other store, with a slow model of the promises; about fifteen minutes
	TEST_LONG=40 $(GO) test -count 1 -timeout 30m -v -run SameAsModel ./rule
	$(GO) test ./test/model -count 1 -timeout 60m -v -run 'Memory|Optimism' -plays 1000000
	$(GO) test ./test/model -count 1 -timeout 60m -v -run 'Redis|PostgreSQL|NATS|Memcached|DenyCache' -parallel 1 -plays 100000

guarantees: ## search for the worst cases again and write the table in docs/guarantees.md
	$(GO) test ./internal/worstcase -update

plays: mutants ## simulate a million uses of leased units, with processes that die and responses that get lost, and replay them through the rule; some minutes
	$(GO) test ./layer/lease -run '^TestPlays$$' -v -count 1 -timeout 30m -plays 1000000

mutants: ## plant mistakes in the leases and check that the simulations catch each of them; some minutes
	$(GO) test ./layer/lease -run '^TestMutants$$' -v -count 1 -timeout 30m -mutants 1000000

pictures: ## replay the traffic of docs/choosing.md again, and draw docs/{bursts,busy,architecture}.svg
	$(GO) build -o bin/slidegate ./cmd/slidegate
	cd tools && GOWORK=off $(GO) run ./pictures -slidegate $(CURDIR)/bin/slidegate -docs $(CURDIR)/docs

site: ## build the documentation as a static web site, in ./dist/site
	cd tools && GOWORK=off $(GO) run ./site -root $(CURDIR) -to $(CURDIR)/dist/site

lease-picture: ## let ten instances share a quota again and draw docs/leases.svg
	$(GO) test ./layer/lease -run TestPicture -count=1 -args -picture $(CURDIR)/docs/leases.svg

cover: ## test coverage by package
	$(GO) test -cover work
