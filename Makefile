# The commands of the project. `make` lists them.
.DEFAULT_GOAL := help
GO ?= go
FUZZTIME ?= 30s
export INSTALL ?= yes

.PHONY: help check test lint race fuzz bench long mutants draw page site modules tidy release deps
.PHONY: test-bench test-tools test-docs long-model long-ports long-history long-leases long-line long-plays long-faults long-attacks long-flood long-soak long-cluster long-restarts long-valkey long-postgres long-helm long-oldest-go long-replay long-release

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# What the tests require: a test that needs a program that is missing fails instead of skipping. mount is the permission to mount a small
# disk, which only root has. make test TEST_REQUIRE= skips what cannot be tested.
export TEST_REQUIRE = cc,chromium,curl,jq,redis-server,postgres,pgbouncer,nginx,caddy,wrk,redis-py,python3,node,php,flask,django,groff,mount
unexport REDIS_URL DATABASE_URL # tests that stop a server skip servers that they did not start

# "work" is every package of every module in go.work. Packages that import Envoy's take minutes to compile for the race detector if
# nothing is cached: only make race includes them. make test runs the race detector where goroutines really share memory.
ALL = $$($(GO) list work | grep -v /slidegate/bench)
RACED = . ./memstore ./internal/engine ./internal/journal ./httplimit ./internal/layer/coalesce ./internal/layer/failure ./internal/layer/lease ./redisstore/...
PACKAGES = $$(($$(getconf _NPROCESSORS_ONLN) + 1)) # tested at the same time: one more than there are processors, because many tests wait for servers
TEST := $(GO) test -vet=off -ldflags=-w -timeout 8m # make lint runs vet; without debug information, linking takes a quarter less time

test: deps ## run all tests, with the race detector where memory is shared; INSTALL=no installs nothing
	$(TEST) -race -short $(RACED)
	$(TEST) -p $(PACKAGES) $$($(GO) list work | grep -vE '/slidegate/(bench$$|test/sizes$$|.*/e2e/(docs|kubernetes)$$)') # everything, since much is shortened or skipped with the race detector
	$(MAKE) --jobs=3 --output-sync test-bench test-tools test-docs modules

test-bench: # half of its time is spent waiting for servers, so it runs while other packages compile
	$(TEST) ./bench

test-tools:
	cd tools && GOWORK=off $(GO) test ./modules
	cd tools/release && GOWORK=off $(GO) test .
	cd tools && GOWORK=off $(GO) test -count 1 ./pictures ./site ./page ./mutants # uncached: they read files outside of their module, which the test cache does not track

test-docs: # every sample, link, command and name in the documentation, what it says about bytes per key, and the manifests
	$(TEST) -count 1 ./cmd/slidegate/internal/e2e/docs ./cmd/slidegate/internal/e2e/kubernetes ./test/sizes # uncached: the test cache does not track files outside of the test's module

race: deps ## run all tests with the race detector
	$(GO) test -race work

deps: # the programs that the tests need in addition to Go
	@tools/deps cc chromium curl jq redis postgres pgbouncer nginx caddy wrk prometheus redis-py node php flask django systemd groff

check: lint test ## everything that CI runs

lint: bin/staticcheck ## check formatting, run vet and staticcheck, and build for 32 bits
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt -w" $$unformatted; exit 1; fi
	$(GO) vet $(ALL)
	bin/staticcheck $(ALL)
	GOARCH=386 $(GO) build . ./rule ./store ./memstore

bin/staticcheck: tools/go.mod
	cd tools && GOWORK=off $(GO) build -o ../bin/staticcheck honnef.co/go/tools/cmd/staticcheck

fuzz: ## fuzz every target for FUZZTIME each
	@set -e; for file in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | grep -v ^./bench/); do \
	  for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' $$file); do \
	    echo "$$target in $$(dirname $$file)"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) ./$$(dirname $$file); \
	  done; done

bench: deps ## compare with other limiters: half an hour, or only make bench S=redis,pg,lease ...; bench/README.md lists the scenarios
	cd bench && $(GO) run . $(if $(S),-scenario $(S)) $(BENCH)

mutants: ## plant bugs one at a time, and print which test catches each; hours, or only make mutants M=engine
	cd tools && GOWORK=off $(GO) build -o ../bin/mutants ./mutants && cd .. && bin/mutants -root . -planted tools/mutants/planted $(M)

long: ## run one of the long tests: make long lists them, make long T=history runs one
ifdef T
	@$(MAKE) long-$(T)
else
	@awk -F ':.*### ' '/^long-[a-z-]+:.*### / { sub("long-", "T=", $$1); printf "  make long %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
endif

long-model: deps ### compare a million random decisions and a million steps of reservations in memory, and 100,000 on every other store, with a model of the promises; half an hour
	TEST_LONG=40 $(GO) test -count 1 -timeout 30m -v -run SameAsModel ./rule
	$(GO) test ./test/model -count 1 -timeout 60m -v -run Memory -plays 1000000
	$(GO) test ./test/model -count 1 -timeout 60m -v -run 'Redis|PostgreSQL|NATS|Refusals' -parallel 1 -plays 100000

long-ports: deps ### compare 100,000 random decisions of Redis and of PostgreSQL with the rule; some minutes
	$(GO) test ./test/redisstore ./test/pgstore -run 'ScriptMatchesTheRule|FunctionsMatchTheRule' -v -count 1 -timeout 30m -args -rapid.checks=500

long-history: deps ### kill and cut Redis, PostgreSQL and a NATS cluster under load, a minute each: not one unit too many is admitted
	$(GO) test ./test/redisstore ./test/pgstore ./test/natskv -run 'History|Contract' -v -count 1 -timeout 10m -history 60s

long-leases: deps ### the same for processes with leases, with clock changes
	$(GO) test ./test/lease -run 'NoWindowExceeds|ServerClockStep|Contract' -v -count 1 -timeout 15m -leases 60s

long-line: deps ### let four processes wait in line over Redis eight times, on a machine that does nothing else: they use 0.95 of the limit; three minutes
	$(GO) test ./test/redisstore -run ProcessesWaitInLine -v -count 8 -args -used 0.95

long-plays: ### simulate a million uses of leased units, with processes that die and responses that get lost; some minutes
	$(GO) test ./internal/layer/lease -run '^TestPlays$$' -v -count 1 -timeout 30m -plays 1000000

long-faults: deps ### stop, kill, cut, slow, fill and lock every store under load, and print what clients get; OLD=PROGRAM compares; half an hour
	$(TEST) ./cmd/slidegate/internal/e2e/faults -run 'Table|Attacks|Balancer' -v -count 1 -timeout 2h -args -faults -old "$(abspath $(OLD))"

long-attacks: deps ### send every spelling of a login to Express, Koa, PHP, Flask and Django, behind the proxy, nginx and Caddy
	$(TEST) ./cmd/slidegate/internal/e2e/attack -run Servers -v -count 1 -attacks

long-flood: ### send millions of new keys to the service at its default bounds: who is refused, and how much memory it takes; ten minutes
	cd bench && $(GO) run . -scenario flood-service,flood-memory

long-soak: deps ### PostgreSQL at full load for ten minutes: the size of the table, and how long decisions take
	$(GO) test ./test/pgstore -run Soak -v -count 1 -timeout 20m -soak 10m

long-cluster: deps ### three processes with embedded NATS under load; one is killed and restarted
	$(GO) test ./cmd/slidegate/internal/e2e/restart -run Cluster -v -count 1 -timeout 10m -cluster 30s

long-restarts: deps ### restart twenty times under 2,000 requests a second: behind nginx, with systemd's sockets, with a shared port; some minutes
	$(GO) test ./cmd/slidegate/internal/e2e/restart -v -count 1 -timeout 20m -rounds 20

long-helm: deps bin/helm bin/kubeconform ### render the chart with Helm, compare deploy/kubernetes (WRITE=yes writes it), validate it, and upgrade a StatefulSet under load; Helm takes minutes to compile
	tools/helm/check $(if $(WRITE),-w)
	$(GO) test ./cmd/slidegate/internal/e2e/restart -run StatefulSet -v -count 1 -timeout 20m -upgrades 3

bin/helm: tools/helm/go.mod
	cd tools/helm && GOWORK=off $(GO) build -o ../../bin/helm helm.sh/helm/v3/cmd/helm

bin/kubeconform: tools/helm/go.mod
	cd tools/helm && GOWORK=off $(GO) build -o ../../bin/kubeconform github.com/yannh/kubeconform/cmd/kubeconform

long-valkey: deps ### test the Redis store with Valkey, fetched from Debian's backports if it is not installed
	server=$$(tools/valkey bin/valkey) && export TEST_REDIS_SERVER=$$server && $(TEST) -count 1 ./test/redistest ./test/redisstore ./test/goredis && \
	  $(TEST) -count 1 -run Consoles/run/docs/recipes/valkey ./cmd/slidegate/internal/e2e/docs

long-postgres: deps ### test the PostgreSQL store with versions 13 to 18, each installed from npm into a temporary folder
	@tools/deps node
	@tools/postgres-versions

long-oldest-go: ### compile the library with the oldest version of Go that it supports, which is downloaded
	tools/oldest-go

long-replay: ### replay more than a gigabyte of log through a pipe, print the memory that took, and measure requests per second on one core
	$(GO) test ./cmd/slidegate -run Memory -v -count 1 -piped 22000000
	$(GO) test ./cmd/slidegate -run '^$$' -bench Replay -benchtime 5x -cpu 1

long-release: ### make the release of the last commit in two places and compare; use its modules, archives, package and image from the folder alone; half an hour or more, as root
	@tools/deps groff skopeo systemd
	cd tools/release && GOWORK=off $(GO) test -v -count 1 -timeout 4h . -args -release

draw: deps ## write the tables and pictures of the documentation again; screenshots of the report and the page go to ./screenshots
	$(GO) build -o bin/slidegate ./cmd/slidegate
	cd tools && GOWORK=off $(GO) run ./pictures -slidegate $(CURDIR)/bin/slidegate -docs $(CURDIR)/docs
	$(GO) test ./test/worstcase -update
	$(GO) test ./internal/layer/lease -run TestPicture -count=1 -args -picture $(CURDIR)/docs/leases.svg
	$(GO) test ./internal/line -run TestPicture -count=1 -args -picture $(CURDIR)/docs/waiting.svg
	TEST_SCREENSHOTS=$(CURDIR)/screenshots $(GO) test ./cmd/slidegate/internal/e2e/report -run BrowserLooks -count 1
	$(GO) run ./test/generate -as combined -requests 400000 -span 24h > screenshots/day.log
	cd screenshots && ../bin/slidegate replay --limit 60/1m --html report.html day.log > /dev/null
	TEST_SCREENSHOTS=$(CURDIR)/screenshots $(GO) test ./cmd/slidegate/internal/e2e/page -run Looks -count 1
	cp screenshots/page-light-desktop.png docs/page.png
	chromium --headless --no-sandbox --disable-gpu --disable-background-networking --user-data-dir=screenshots/profile --hide-scrollbars --window-size=1280,1490 --screenshot=docs/replay.png file://$(CURDIR)/screenshots/report.html

page: ## bundle the operators' page, which the program embeds
	cd tools && GOWORK=off $(GO) run ./page -root $(CURDIR)

site: ## build the documentation as a static web site, in ./dist/site
	cd tools && GOWORK=off $(GO) run ./site -root $(CURDIR) -to $(CURDIR)/dist/site

modules: ## build every module, and install the program, as users do: from a proxy made from the tree, without go.work
	cd tools && GOWORK=off $(GO) run ./modules check

tidy: ## run go mod tidy in every module; they see one another through a proxy made from the tree
	cd tools && GOWORK=off $(GO) run ./modules tidy

release: ## make what is published of a version, as in make release VERSION=v0.1.0, in ./dist/v0.1.0
	@cd tools/release && GOWORK=off $(GO) run . $(VERSION)
