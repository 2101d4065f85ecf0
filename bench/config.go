package main

import (
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// config holds the settings from the command line.
type config struct {
	quick     bool
	big       bool
	markdown  bool
	rounds    int
	keys      int
	procs     []int
	callers   []int
	conns     int
	scenarios []string
	only      []string // families; all if empty
	libraries []library
}

var allScenarios = []string{"hot", "rolling", "rolling-1", "rolling-10", "rolling-590", "uniform", "zipf", "memory", "gc", "expiry", "wait", "flood", "flood-service", "flood-memory", "http", "wire", "redis", "redis-ways", "default-redis", "default-pg", "default-nats", "resp", "pg", "pg-ways", "lease", "lease-waste", "kv", "envoy", "service", "service-leases", "state", "state-latency", "state-synced", "state-start"}

// bigKeys is the number of keys that -big adds.
const bigKeys = 10_000_000

const maxKeys = 100_000_000

// maxCallers is the largest number of concurrent callers of a server.
const maxCallers = 4096

// maxConns is the largest number of connections to PostgreSQL. The server that is started for a run allows somewhat more.
const maxConns = 150

// parse reads the command line. Errors are already written to w when it returns.
func parse(args []string, w io.Writer) (config, error) {
	var c config
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(w)
	flags.BoolVar(&c.quick, "quick", false, "a short run that shows that everything works; its figures mean little")
	flags.BoolVar(&c.big, "big", false, "also measure 10,000,000 keys; by estimate an hour and 8 GB of memory")
	flags.IntVar(&c.rounds, "rounds", 9, "how many times each library is timed; medians are reported (3 with -quick)")
	flags.IntVar(&c.keys, "keys", 1_000_000, "number of keys in the scenarios with many keys (20000 with -quick)")
	procs := flags.String("procs", defaultProcs(), "the numbers of processors to measure with")
	callers := flags.String("callers", "1,16,64,256", "the numbers of concurrent callers of a server; PostgreSQL uses those up to 64")
	flags.IntVar(&c.conns, "conns", 64, "number of connections to PostgreSQL, the same for all rows")
	scenarios := flags.String("scenario", "all", "what to measure: all, or some of "+strings.Join(allScenarios, ","))
	only := flags.String("only", "", "which libraries to measure, such as slidegate,go-limiter; all if empty")
	format := flags.String("format", "text", "how to print tables: text or markdown")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	if c.quick {
		c.shorten(flags)
	}
	err := c.check(flags.Args(), *procs, *callers, *scenarios, *only, *format)
	if err != nil {
		fmt.Fprintf(w, "bench: %v\n", err)
	}
	return c, err
}

// shorten sets the values of a quick run for flags that were not set.
func (c *config) shorten(flags *flag.FlagSet) {
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["rounds"] {
		c.rounds = 3
	}
	if !given["keys"] {
		c.keys = 20_000
	}
}

// check parses the flags that are lists, and rejects values that cannot be measured.
func (c *config) check(rest []string, procs, callers, scenarios, only, format string) (err error) {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case c.rounds < 1 || c.rounds > 1000:
		return fmt.Errorf("-rounds: must be 1 to 1000, not %d", c.rounds)
	case c.keys < 1000 || c.keys > maxKeys:
		return fmt.Errorf("-keys: must be 1000 to %d, not %d", maxKeys, c.keys)
	case c.conns < 1 || c.conns > maxConns:
		return fmt.Errorf("-conns: must be 1 to %d, not %d", maxConns, c.conns)
	case c.quick && c.big:
		return fmt.Errorf("-quick and -big exclude each other")
	case format != "text" && format != "markdown":
		return fmt.Errorf("-format: must be text or markdown, not %q", format)
	}
	c.markdown = format == "markdown"
	if c.procs, err = parseProcs(procs); err != nil {
		return err
	}
	if c.callers, err = parseCallers(callers); err != nil {
		return err
	}
	if c.scenarios, err = parseScenarios(scenarios); err != nil {
		return err
	}
	c.only = splitList(only)
	c.libraries, err = selected(c.only)
	return err
}

// splitList splits a list, and omits empty items.
func splitList(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// defaultProcs returns one processor and, if there are more, two.
func defaultProcs() string {
	if runtime.NumCPU() == 1 {
		return "1"
	}
	return "1,2"
}

func parseProcs(text string) ([]int, error) {
	wanted := fmt.Sprintf("numbers from 1 to the %d processors of this machine", runtime.NumCPU())
	return parseNumbers("-procs", text, runtime.NumCPU(), wanted)
}

func parseCallers(text string) ([]int, error) {
	return parseNumbers("-callers", text, maxCallers, fmt.Sprintf("numbers from 1 to %d", maxCallers))
}

// parseNumbers parses a list of numbers from 1 to most. Duplicates count once.
func parseNumbers(flag, text string, most int, wanted string) ([]int, error) {
	var numbers []int
	for _, item := range splitList(text) {
		n, err := strconv.Atoi(item)
		if err != nil || n < 1 || n > most {
			return nil, fmt.Errorf("%s: must be %s, not %q", flag, wanted, item)
		}
		if !slices.Contains(numbers, n) {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) == 0 {
		return nil, fmt.Errorf("%s: must not be empty", flag)
	}
	return numbers, nil
}

func parseScenarios(text string) ([]string, error) {
	items := splitList(text)
	if len(items) == 0 {
		return nil, fmt.Errorf("-scenario: must not be empty; want all, or some of %s", strings.Join(allScenarios, ", "))
	}
	for _, item := range items {
		if item == "all" {
			return allScenarios, nil
		}
		if !slices.Contains(allScenarios, item) {
			return nil, fmt.Errorf("-scenario: unknown scenario %q; want all, or some of %s", item, strings.Join(allScenarios, ", "))
		}
	}
	return items, nil
}

// wants reports whether any of the scenarios was selected.
func (c *config) wants(scenarios ...string) bool {
	return slices.ContainsFunc(scenarios, func(s string) bool { return slices.Contains(c.scenarios, s) })
}

// measuresOwn reports whether Slidegate is among the selected libraries.
func (c *config) measuresOwn() bool {
	return slices.ContainsFunc(c.libraries, func(l library) bool { return l.family == own })
}

// roundTime returns how long one timed round should take.
func (c *config) roundTime() time.Duration {
	if c.quick {
		return 10 * time.Millisecond
	}
	return 400 * time.Millisecond
}

// librariesFor returns the libraries that can hold n keys in the memory of a usual machine.
func (c *config) librariesFor(n int) []library {
	return rowsWhere(c.libraries, func(l *library) bool { return !l.heavy || n < bigKeys/2 })
}

// keyCounts returns the numbers of keys to measure with.
func (c *config) keyCounts() []int {
	if c.big && c.keys != bigKeys {
		return []int{c.keys, bigKeys}
	}
	return []int{c.keys}
}
