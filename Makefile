# The commands of the project. `make` lists them.
.DEFAULT_GOAL := help
GO ?= go
FUZZTIME ?= 30s
export INSTALL ?= yes

.PHONY: help test test-bench test-tools test-docs test-valkey race check deps
.PHONY: lint lint-all tidy modules release cover fuzz guarantees model
.PHONY: bench bench-quick bench-big bench-http bench-redis bench-postgres bench-lease bench-kv bench-service bench-algorithms bench-replay
.PHONY: flood history soak ports cluster restarts postgres-versions replay-big leases plays mutants
.PHONY: screenshots pictures lease-picture site

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# What the tests must have: they fail without it instead of skipping.
export TEST_REQUIRE = cc,chromium,curl,redis-server,postgres,memcached,pgbouncer,nginx,caddy,wrk,redis-py,node
unexport REDIS_URL DATABASE_URL # tests that end a server would skip one that is not theirs

# "work" is every package of every module in go.work. What builds on Envoy's packages takes minutes to look through, and to
# compile for the race detector, where nothing is cached: make lint-all and make race have it. The race detector is for what
# shares memory between goroutines in earnest; make race has all.
ALL = $$($(GO) list work | grep -v /slidegate/bench)
HEAVY := /(cmd/slidegate|server|server/envoy|e2e/[a-z]*)$$
SHARES := /slidegate$$|/slidegate/(memstore|policy|httplimit)$$|/slidegate/(layer/(coalesce|failure|lease)|redisstore)(/|$$)
TEST := $(GO) test -vet=off -ldflags=-w -timeout 8m # make lint has vetted, and nobody debugs these programs: linking takes a quarter less

test: deps ## all tests, with the race detector where memory is shared; INSTALL=no installs nothing
	$(TEST) -race -short $$($(GO) list work | grep -v /slidegate/bench | grep -E '$(SHARES)' | grep -vE '$(HEAVY)')
	$(TEST) $$($(GO) list work | grep -vE '/slidegate/(bench$$|.*/e2e/docs$$)') # all of it: with the race detector much is shortened or left out
	$(MAKE) --jobs=3 --output-sync test-bench test-tools test-docs modules

test-bench: # waits for servers half of the time, so it is run beside what compiles
	$(TEST) ./bench

test-tools:
	cd tools && GOWORK=off $(GO) test ./...
	cd tools && GOWORK=off $(GO) test -count 1 ./pictures ./site # they read files outside of their module, which the cache does not see

test-docs: ## every sample, link, command and name of the pages
	$(TEST) -count 1 ./cmd/slidegate/internal/e2e/docs # the cache of go test does not see files outside of the test's own module

test-valkey: deps ## the tests of the Redis store over Valkey, which is fetched from Debian's backports if it is not installed
	server=$$(tools/valkey bin/valkey) && TEST_REDIS_SERVER=$$server $(TEST) -count 1 ./test/redistest ./test/redisstore ./test/goredis

race: deps ## all tests with the race detector
	$(GO) test -race work

deps: # what the tests need besides Go
	@tools/deps cc chromium curl redis postgres memcached pgbouncer nginx caddy wrk prometheus redis-py node systemd

check: lint test ## what CI runs

lint: bin/staticcheck ## formatting, vet, staticcheck, and a build of the library's core for 32 bits
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt -w" $$unformatted; exit 1; fi
	$(GO) vet $(ALL)
	bin/staticcheck $$($(GO) list work | grep -v /slidegate/bench | grep -vE '$(HEAVY)')
	GOARCH=386 $(GO) build . ./rule ./store ./memstore

lint-all: lint ## also the program and the benchmarks, and all of it for 32 bits
	$(GO) vet work
	bin/staticcheck $$($(GO) list work)
	GOARCH=386 $(GO) build work

bin/staticcheck: tools/go.mod
	cd tools && GOWORK=off $(GO) build -o ../bin/staticcheck honnef.co/go/tools/cmd/staticcheck

tidy: ## go mod tidy for every module, which see one another through a proxy made of the tree
	cd tools && GOWORK=off $(GO) run ./modules tidy

modules: ## build every module, and install the program, as users get them: from a proxy made of the tree, without go.work
	cd tools && GOWORK=off $(GO) run ./modules check

release: ## make the tree ready for VERSION, as in make release VERSION=v0.1.0, and print how to tag it
	cd tools && GOWORK=off $(GO) run ./modules release $(VERSION)

bench: ## side by side with the libraries people use today, a million keys; about half an hour
	cd bench && $(GO) run .

bench-quick: ## the same in short, to see that it runs; its figures mean little
	cd bench && $(GO) run . -quick

bench-big: ## also with ten million keys; about an hour and 8 GB of memory
	cd bench && $(GO) run . -big

bench-http: deps ## the HTTP middleware beside others, and over the wire; about four minutes
	cd bench && $(GO) run . -scenario http,wire

bench-redis: deps ## Redis limiters side by side; about ten minutes
	cd bench && $(GO) run . -scenario redis

bench-postgres: deps ## PostgreSQL limiters side by side
	cd bench && $(GO) run . -scenario pg

bench-lease: deps ## leases beside coalesce over Redis and PostgreSQL, and what they waste; about seven minutes
	cd bench && $(GO) run . -scenario lease,lease-waste

bench-kv: deps ## key-value engines beside the other stores; about ten minutes
	cd bench && $(GO) run . -scenario kv

bench-service: deps ## the service: JSON, batches, forward-auth, the proxy, RESP, and beside envoyproxy/ratelimit
	cd bench && $(GO) run . -scenario service,resp,envoy

bench-algorithms: deps ## every algorithm beside the window of one part and the fastest peers, in memory, Redis and PostgreSQL
	cd bench && $(GO) run . -scenario hot,steady,gc,redis-ways,pg-ways

flood: ## millions of new keys against the running service at its default bounds: who is refused, and what memory it takes; ten minutes
	cd bench && $(GO) run . -scenario flood-service,flood-memory

history: deps ## a minute each of Redis, PostgreSQL, memcached and a NATS cluster with kills and cuts, checked for one unit too many
	$(GO) test ./test/redisstore ./test/pgstore ./test/memcached ./test/natskv -run 'History|Contract' -v -count 1 -timeout 10m -history 60s

leases: deps ## a minute each of processes that spend leases of Redis, PostgreSQL and NATS, with kills, cuts and clocks that are set, checked for one unit too many
	$(GO) test ./test/lease -run 'NeverOver|ServerClockSet|Contract' -v -count 1 -timeout 15m -leases 60s

soak: deps ## ten minutes of PostgreSQL at full load: what the table grows to, and how long decisions take
	$(GO) test ./test/pgstore -run Soak -v -count 1 -timeout 20m -soak 10m

cluster: deps ## half a minute of load on three processes with NATS in them, of which one is killed and started again
	$(GO) test ./cmd/slidegate/internal/e2e/restart -run Cluster -v -count 1 -timeout 10m -cluster 30s

restarts: deps ## twenty restarts each under 2,000 requests a second, behind nginx, with systemd's sockets and with a shared port; some minutes
	$(GO) test ./cmd/slidegate/internal/e2e/restart -v -count 1 -timeout 20m -rounds 20

ports: deps ## 100,000 random decisions and more each on Redis and PostgreSQL, compared with the rule; some minutes
	$(GO) test ./test/redisstore ./test/pgstore -run 'ScriptIsTheRule|FunctionsAreTheRule' -v -count 1 -timeout 30m -args -rapid.checks=500

postgres-versions: deps ## the tests of the PostgreSQL store on 13 to 18, each installed from npm into a temporary folder
	@tools/deps node
	@tools/postgres-versions

bench-replay: ## how many requests of a log a second one core replays
	$(GO) test ./cmd/slidegate -run '^$$' -bench Replay -benchtime 5x -cpu 1

replay-big: ## replay more than a gigabyte of log through a pipe, and print the memory that took
	$(GO) test ./cmd/slidegate -run Memory -v -count 1 -piped 22000000

screenshots: deps ## pictures of the report's page, in ./screenshots
	TEST_SCREENSHOTS=$(CURDIR)/screenshots $(GO) test ./cmd/slidegate/internal/e2e/report -run BrowserLooks -count 1

fuzz: ## fuzz every target for FUZZTIME each
	@set -e; for file in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | grep -v ^./bench/); do \
	  for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' $$file); do \
	    echo "$$target in $$(dirname $$file)"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) ./$$(dirname $$file); \
	  done; done

model: ## a million random decisions of the rule against the slow model; about two minutes
	TEST_LONG=40 $(GO) test -count 1 -timeout 30m -v -run SameAsModel ./rule

guarantees: ## search for the worst cases again and write the table in docs/guarantees.md
	$(GO) test ./internal/worstcase -update

plays: mutants ## a million spends of leased units, of processes that die and answers that get lost, replayed through the rule; some minutes
	$(GO) test ./layer/lease -run '^TestPlays$$' -v -count 1 -timeout 30m -plays 1000000

mutants: ## plant mistakes in the leases, each of which the plays must catch; some minutes
	$(GO) test ./layer/lease -run '^TestMutants$$' -v -count 1 -timeout 30m -mutants 1000000

pictures: ## replay the traffic of docs/choosing.md again, and draw docs/{bursts,busy,architecture}.svg
	$(GO) build -o bin/slidegate ./cmd/slidegate
	cd tools && GOWORK=off $(GO) run ./pictures -slidegate $(CURDIR)/bin/slidegate -docs $(CURDIR)/docs

site: ## the pages as a static web site, in ./dist/site
	cd tools && GOWORK=off $(GO) run ./site -root $(CURDIR) -to $(CURDIR)/dist/site

lease-picture: ## let ten instances share a quota again and draw docs/leases.svg
	$(GO) test ./layer/lease -run TestPicture -count=1 -args -picture $(CURDIR)/docs/leases.svg

cover: ## test coverage by package
	$(GO) test -cover work
